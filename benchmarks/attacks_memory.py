"""Kill an agent that has a memory, at any moment, and look at what it sent and what it still knows.

    python benchmarks/attacks_memory.py [--kills 200] [--full 40] [--seed 0] [--json]

An agent with a share filter sanitizes in a process of its own, which is ended by SIGKILL as in attacks_kills.py,
often several times in a row, and started again. What it sent in the end is compared with the filter run over all
readings in a plain loop: *doubled* is a row sent twice (to a pipe: with other numbers), *lost* one that is missing,
*reset* one that an uninterrupted filter would not send, *torn* half a line, *open* a memory that others could read.
"""

from __future__ import annotations

import argparse
import os
import random
import stat
import tempfile
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

import veilnet as vn
from attacks_kills import ROWS, Score, Work, command, kills, leftovers, remove, run_child, show, table
from veilnet.io.sanitizer_files import save_sanitizer

STEP = 2.0**-12
PLAN = "5eed" * 16
_PREPARED = (
    "cli.sanitize", "agent.sanitizer", "agent.stream", "io.outbox", "live.feeding", "io.sanitizer_files", "io.trust",
)  # fmt: skip


@dataclass
class Agent:
    """An agent of two readings and a memory of three numbers, and its readings, one in ten of them missed."""

    folder: Path

    def __post_init__(self) -> None:
        for name in _PREPARED:  # once for all children
            import_module(f"veilnet.{name}")
        rng = np.random.default_rng(7)
        transition = rng.normal(size=(3, 3))
        transition *= 0.95 / np.max(np.abs(np.linalg.eigvals(transition)))
        self.memory = vn.Memory(transition, rng.normal(size=(3, 2)))
        self.rows = np.concatenate([rng.normal(size=(2, 3)), np.zeros((2, 2))], axis=1)
        self.file = self.folder / "kitchen.json"
        self.released = self.folder / "kitchen.released"
        sanitizer = vn.Sanitizer(self.rows, memory=self.memory, grid=STEP, agent="kitchen")
        save_sanitizer(sanitizer, self.file, PLAN)
        readings = rng.normal(size=(ROWS, 2))
        readings[::10] = np.nan
        lines = [",".join("" if np.isnan(v) else repr(v) for v in row) for row in readings.tolist()]
        self.source = self.folder / "readings.csv"
        self.source.write_text("row,a,b\n" + "".join(f"{k + 1},{line}\n" for k, line in enumerate(lines)))
        self.expected: dict[int, np.ndarray | None] = {}
        state = np.zeros(3)
        for row, reading in enumerate(readings, start=1):
            missed = bool(np.isnan(reading).any())
            state = self.memory.transition @ state + (0.0 if missed else self.memory.gain @ reading)
            self.expected[row] = None if missed else self.rows[:, :3] @ state

    def work(self, store: Path, *options: object, output: Path | None = None) -> Work:
        """A run as an operator's script starts it."""
        arguments = ("sanitize", self.file, "--in", self.source, "--store", store, *options)
        return command(*arguments, output=output)

    def judge(self, lines: list[list[str]], store: Path, *, complete: bool, once: bool) -> list[str]:
        """What is wrong with lines that arrived."""
        troubles = []
        found: dict[int, set[tuple[str, ...]]] = {}
        for fields in lines:
            if not fields or not fields[0].isdigit():
                continue  # a header
            row = int(fields[0])
            if once and row in found:
                troubles.append("doubled")
            found.setdefault(row, set()).add(tuple(fields[3:]))
        for row, sent in found.items():
            troubles += ["doubled"] if len(sent) > 1 else []
            numbers, wanted = next(iter(sent)), self.expected[row]
            if len(numbers) != 2:
                troubles.append("torn")
            elif wanted is None or "missed" in numbers:
                troubles += [] if wanted is None and set(numbers) == {"missed"} else ["reset"]
            elif np.max(np.abs(np.array(numbers, dtype=float) - wanted)) >= STEP:
                troubles.append("reset")
        if complete and sorted(found) != list(range(1, ROWS + 1)):
            troubles.append("lost")
        if store.exists() and stat.S_IMODE(store.stat().st_mode) != 0o600:
            troubles.append("open")
        return troubles


def appended(here: Agent, rng: random.Random, wanted: int, *, flush: bool) -> Score:
    """``--store --out``: every row once, over many restarts."""
    score = Score(f"sanitize --store --out{' --flush' if flush else ''}, with a memory")
    folder = here.folder / f"appended-{flush}"
    folder.mkdir()
    out, store = folder / "sent.csv", folder / "store"
    work = here.work(store, "--out", out, *(("--flush",) if flush else ()))
    in_a_row = [0]

    def begin() -> None:
        if in_a_row[0] == 0:
            remove(out, store, here.released)

    for _ in kills(score, rng, wanted, work, begin):
        in_a_row[0] = rng.randint(0, 6) if in_a_row[0] == 0 else in_a_row[0] - 1
        if in_a_row[0]:  # killed again, on top of what this one left
            lines = [line for line in (table(out) if out.exists() else []) if line != ["torn"]]
            score.judge(here.judge(lines, store, complete=False, once=True))
            continue
        ended = run_child(work)
        troubles = [] if ended in (("ended", 0), ("ended", 1)) else ["unusable"]  # 1: some rows were missed
        if in_file := (table(out) if out.exists() else []):
            troubles += ["torn"] if in_file[-1] == ["torn"] else []
        score.judge(troubles + here.judge(in_file, store, complete=True, once=True) + leftovers(folder))
    return score


def piped(here: Agent, rng: random.Random, wanted: int) -> Score:
    """To a pipe: a row may come twice, never with other numbers, and none is missing."""
    score = Score("sanitize --store to a pipe, with a memory")
    folder = here.folder / "piped"
    folder.mkdir()
    out, store = folder / "received", folder / "store"
    work = here.work(store, "--flush", output=out)

    for _ in kills(score, rng, wanted, work, lambda: remove(out, store, here.released)):
        run_child(work)
        lines = [line for line in table(out) if len(line) > 3]
        score.judge(here.judge(lines, store, complete=True, once=False))
    return score


def full_disk(here: Agent, rng: random.Random, wanted: int) -> Score:
    """Files may grow to so many bytes: a clear refusal, and every row once when there is room again."""
    score = Score("no room left: sanitize --store, with a memory")
    folder = here.folder / "full"
    folder.mkdir()
    out, store = folder / "sent.csv", folder / "store"
    work = here.work(store, "--out", out, "--flush")
    while score.hit < wanted:
        score.tried += 1
        remove(out, store, here.released)
        ended, code = run_child(work, limit=rng.randint(1, 200_000))
        if ended == "ended" and code in (0, 1):
            continue  # there was room for all of it
        troubles = ["traceback"] if ended == "traceback" else []
        troubles += ["torn"] if out.exists() and table(out)[-1:] == [["torn"]] else []
        run_child(work)
        troubles += here.judge(table(out) if out.exists() else [], store, complete=True, once=True)
        score.judge(troubles + leftovers(folder))
    return score


def main() -> None:
    """Attack, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--full", type=int, default=40, help="how often room runs out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    # Processes are killed, not machines: a folder in memory does, and is quicker.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        here = Agent(Path(folder))
        rng = random.Random(options.seed)
        half, quarter = options.kills // 2, options.kills // 4
        scores = [
            appended(here, rng, half, flush=True),
            appended(here, rng, quarter, flush=False),
            piped(here, rng, options.kills - half - quarter),
            full_disk(here, rng, options.full),
        ]
    show(scores, "lost, torn, doubled, reset or open", as_json=options.json)


if __name__ == "__main__":
    main()
