"""Kill what writes files, at any moment, and look at what is left.

    python benchmarks/attacks_kills.py [--kills 500] [--full 120] [--seed 0] [--json]

``sanitize``, ``fuse``, ``design`` and the ledgers are run in processes of their own and ended by SIGKILL: half
of them before a line of veilnet's code chosen at random among all lines the run would execute, half after a
random time, which also hits the middle of a write. Another part may write only so many bytes, as on a full
disk. Afterwards files are read back and compared with what was there and what was to be written: *torn* is half
of something, *lost* what had been promised to last, *doubled* a row sent twice with different noise, *mixed* old
beside new. Everything is repeated without a kill at the end, and must then be complete.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import os
import random
import resource
import signal
import sqlite3
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, redirect_stderr, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import veilnet as vn  # noqa: E402
from veilnet import cli  # noqa: E402
from veilnet.io.agent_ledger import audit_releases  # noqa: E402
from veilnet.io.outbox import Message, Unsealed  # noqa: E402
from veilnet.io.template import house  # noqa: E402

ROWS = 40
_WATCHED = ("/veilnet/io/", "/veilnet/cli/", "/veilnet/live/", "/veilnet/auditing/ledger")

_PREPARED = (
    "cli.sanitize", "cli.fuse", "cli.design", "cli._shared", "cli._views", "agent.release", "centre.fusion",
    "io.merging", "io.estimate_files", "io.outbox", "io.reading_streams", "live.feeding", "auditing",
    "io.plan_reading", "io.plan_files", "io.network_files", "io.sanitizer_files",
)  # fmt: skip

Work = Callable[[], int]


@dataclass
class Score:
    """What one kind of attack did."""

    what: str
    tried: int = 0
    hit: int = 0
    recovered: int = 0
    found: Counter[str] = field(default_factory=Counter)

    def judge(self, troubles: list[str]) -> None:
        """Count what was wrong after one attack; nothing is a recovery."""
        self.hit += 1
        self.recovered += not troubles
        self.found.update(set(troubles))


# --- running and ending


def run_child(
    work: Work, *, line: int = 0, seconds: float = 0.0, limit: int = 0, count: bool = False
) -> tuple[str, int]:
    """(how it ended, exit code or lines executed): "killed", "ended" or "traceback".

    Killed before the given line, or after so many seconds; or, with a limit, allowed files of so many bytes.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        code, lines = 70, 0
        try:
            sys.stderr = io.StringIO()
            if limit:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            if line or count:
                seen = [0]
                sys.settrace(_tracer(seen, line))
            code = work()
            sys.settrace(None)
            lines = seen[0] if line or count else 0
        finally:
            sys.settrace(None)
            os.write(writer, f"{code} {lines}".encode())
            os._exit(0)
    os.close(writer)
    if seconds:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reader) as told:
        answer = told.read().split()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "killed", -1
    code, lines = map(int, answer)
    return ("traceback", code) if code in (3, 70) else ("ended", lines if count else code)


def _tracer(seen: list[int], line: int) -> Callable[..., object]:
    def trace(frame: object, event: str, _argument: object) -> object:
        if not any(part in frame.f_code.co_filename for part in _WATCHED):  # type: ignore[attr-defined]
            return None
        if event == "line":
            seen[0] += 1
            if seen[0] == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


def kills(
    score: Score, rng: random.Random, wanted: int, work: Work, before: Callable[[], None]
) -> Iterator[None]:
    """Yields after each kill of the work; ``before`` makes ready for it."""
    before()
    started = time.perf_counter()
    _, lines = run_child(work, count=True)
    before()
    started = time.perf_counter()
    run_child(work)
    length = time.perf_counter() - started
    while score.hit < wanted:
        before()
        score.tried += 1
        how = {"line": rng.randint(1, lines)} if score.tried % 2 else {"seconds": rng.uniform(0, length)}
        if run_child(work, **how)[0] == "killed":  # type: ignore[arg-type]
            yield


def command(*arguments: object, output: Path | None = None) -> Work:
    """A run of the command; with its standard output added to a file."""

    def work() -> int:
        target = os.open(output or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(target, 1)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        return cli.run([str(argument) for argument in arguments])

    return work


def table(path: Path) -> list[list[str]]:
    """The lines of a CSV, each with its end; what has none is given as one odd field."""
    text = path.read_text()
    rows = list(csv.reader(text.splitlines()))
    return rows if text.endswith("\n") or not text else [*rows[:-1], ["torn"]]


def leftovers(folder: Path) -> list[str]:
    """What runs left behind that nobody asked for."""
    return ["left behind"] if [p for p in folder.iterdir() if p.name.startswith(".")] else []


# --- the attacks


@dataclass
class House:
    """A plan of the bundled house, readings, and messages."""

    folder: Path

    def __post_init__(self) -> None:
        for name in _PREPARED:  # once for all children
            with suppress(ImportError):
                import_module(f"veilnet.{name}")
        with redirect_stderr(io.StringIO()):
            cli.run(["sanitize", str(self.folder / "nobody.json")])
        self.network = self.folder / "house.toml"
        house().save(self.network)
        self.plan = self.folder / "plan"
        vn.design(house()).save(self.plan)
        self.agent = self.plan / "kitchen.json"
        self.released = self.plan / "kitchen.released"
        names = json.loads(self.agent.read_text())["names"]
        generator = random.Random(1)
        for name, rows in (("long", ROWS), ("short", ROWS // 2)):
            lines = [f"row,{','.join(names)}"] if names else []
            place = house().blocks.rows(house().position["kitchen"])
            mean = house().offset[place] + house().H[place] @ house().prior.mean  # type: ignore[union-attr]
            for row in range(1, rows + 1):
                numbers = [repr(float(m) + generator.uniform(-0.05, 0.05)) for m in mean]
                lines.append(",".join([str(row), *numbers] if names else numbers))
            (self.folder / f"{name}.csv").write_text("\n".join(lines) + "\n")

    def sanitize(self, source: str, *options: object, output: Path | None = None) -> Work:
        """Sanitize the kitchen's readings."""
        return command("sanitize", self.agent, "--in", self.folder / f"{source}.csv", *options, output=output)


def replaced_messages(here: House, rng: random.Random, wanted: int) -> Score:
    """``sanitize --out``: the whole old file or the whole new one."""
    score = Score("sanitize --out")
    folder = here.folder / "replaced"
    folder.mkdir()
    out = folder / "messages.csv"
    run_child(here.sanitize("long", "--out", out, "--again"))
    old = out.read_bytes()
    for _ in kills(
        score,
        rng,
        wanted,
        here.sanitize("short", "--out", out, "--again"),
        lambda: out.write_bytes(old) and None,
    ):
        rows = table(out)
        whole = out.read_bytes() == old or (len(rows) == 1 + ROWS // 2 and len({len(r) for r in rows}) == 1)
        troubles = [] if whole else ["torn" if rows else "lost"]
        run_child(here.sanitize("short", "--out", out, "--again"))
        score.judge(troubles + leftovers(folder) + ([] if len(table(out)) == 1 + ROWS // 2 else ["lost"]))
    return score


def remove(*paths: Path) -> None:
    """Begin anew: without some files, and what SQLite keeps beside them."""
    for path in paths:
        for each in path.parent.glob(f"{path.name}*"):
            each.unlink()


def appended_messages(here: House, rng: random.Random, wanted: int) -> Score:
    """``sanitize --store --out``: every row once, with the noise that was recorded, over many restarts."""
    score = Score("sanitize --store --out")
    folder = here.folder / "appended"
    folder.mkdir()
    out, store = folder / "messages.csv", folder / "store"
    options = ("--out", out, "--store", store, "--flush")
    in_a_row = [0]

    def begin() -> None:
        if in_a_row[0] == 0:
            remove(out, store, here.released)

    for _ in kills(score, rng, wanted, here.sanitize("long", *options), begin):
        in_a_row[0] = rng.randint(0, 6) if in_a_row[0] == 0 else in_a_row[0] - 1
        if in_a_row[0]:  # killed again, on top of what this one left
            score.judge(_appended(out, store, complete=False))
            continue
        ended = run_child(here.sanitize("long", *options))
        score.judge(_appended(out, store, complete=True) + ([] if ended == ("ended", 0) else ["unusable"]))
    return score


def _recorded(store: Path) -> dict[str, bytes]:
    """row -> the digest of the message that the ledger has of it; AssertionError where it has a row twice."""
    if not store.exists():
        return {}
    with closing(sqlite3.connect(store)) as database:
        rows = database.execute("SELECT epoch, digest FROM releases WHERE digest IS NOT NULL").fetchall()
    if len({row for row, _ in rows}) != len(rows):
        raise AssertionError("a row was drawn twice")
    return {str(row): digest for row, digest in rows}


def _digests(rows: list[list[str]], store: Path) -> dict[str, bytes]:
    """row -> the digest of the message with these numbers, as the store would have it."""
    with closing(sqlite3.connect(store)) as database:
        (identity,) = database.execute("SELECT store FROM about").fetchone()
        entries = database.execute("SELECT epoch, sequence, plan FROM releases").fetchall()
    places = {str(row): (sequence, plan) for row, sequence, plan in entries}
    found = {}
    for row, _, agent, *numbers in rows:
        sequence, plan = places.get(row, (0, ""))
        values = struct.pack(f"<{len(numbers)}d", *map(float, numbers))
        message = Message(plan, agent, identity, sequence, int(row), values=values)
        found[row] = hashlib.sha256(Unsealed().message(message)).digest()
    return found


def _appended(out: Path, store: Path, *, complete: bool) -> list[str]:
    try:
        recorded = _recorded(store)
    except AssertionError:
        return ["doubled"]
    rows = table(out)[1:] if out.exists() else []
    if not complete and rows[-1:] == [["torn"]]:
        rows = rows[:-1]  # cut off by the next run
    sent = [row[0] for row in rows]
    troubles = ["torn"] if any(len(row) != len(rows[0]) for row in rows) else []
    troubles += ["doubled"] if len(set(sent)) != len(sent) else []
    if rows and not troubles:
        troubles += ["mixed"] if any(recorded.get(r) != d for r, d in _digests(rows, store).items()) else []
    troubles += ["chain"] if store.exists() and audit_releases(store, "kitchen").problems else []
    if complete:
        wanted = [str(row) for row in range(1, ROWS + 1)]
        troubles += [] if sent == wanted == list(recorded) else ["lost"]
    return troubles


def piped_messages(here: House, rng: random.Random, wanted: int) -> Score:
    """``sanitize --store`` to a pipe: a row may come twice, never with other noise, and none is missing."""
    score = Score("sanitize --store, to a pipe")
    folder = here.folder / "piped"
    folder.mkdir()
    out, store = folder / "received", folder / "store"
    work = here.sanitize("long", "--store", store, "--flush", output=out)

    for _ in kills(score, rng, wanted, work, lambda: remove(out, store, here.released)):
        run_child(work)
        received: dict[str, set[tuple[str, ...]]] = {}
        for row in table(out):
            if row[0].isdigit() and len(row) > 3:
                received.setdefault(row[0], set()).add(tuple(row))
        recorded = _recorded(store)
        troubles = ["doubled"] if any(len(values) > 1 for values in received.values()) else []
        troubles += ["lost"] if set(received) != {str(row) for row in range(1, ROWS + 1)} else []
        lines = [list(line) for lines in received.values() for line in lines]
        troubles += ["mixed"] if any(recorded.get(r) != d for r, d in _digests(lines, store).items()) else []
        score.judge(troubles)
    return score


def fused(here: House, rng: random.Random, wanted: int) -> Score:
    """``fuse --out``: the whole old file or the whole new one."""
    score = Score("fuse --out")
    folder = here.folder / "fused"
    folder.mkdir()
    out = folder / "estimates.csv"
    works = []
    for source in ("long", "short"):
        messages = here.folder / f"{source}.sent.csv"
        run_child(here.sanitize(source, "--out", messages, "--again"))
        works.append(command("fuse", here.plan / "center.json", f"kitchen={messages}", "--out", out))
    contents = []
    for work in works:
        run_child(work)
        contents.append(out.read_bytes())
    for _ in kills(score, rng, wanted, works[1], lambda: out.write_bytes(contents[0]) and None):
        troubles = [] if out.read_bytes() in contents else ["torn"]
        run_child(works[1])
        score.judge(troubles + leftovers(folder) + ([] if out.read_bytes() == contents[1] else ["lost"]))
    return score


def designed(here: House, rng: random.Random, wanted: int) -> Score:
    """``design --out`` over an older plan: one of the two loads, verified."""
    score = Score("design --out")
    out = here.folder / "designed"
    works = [command("design", here.network, *options, "--out", out) for options in ((), ("--privacy", "1"))]
    for turn, _ in enumerate(kills(score, rng, wanted, works[0], lambda: run_child(works[1]) and None)):
        troubles = []
        try:
            vn.Plan.load(out)
        except vn.VeilnetError:
            troubles = ["neither plan"]
        run_child(works[turn % 2])
        score.judge(troubles + leftovers(out))
    return score


def recorded(here: House, rng: random.Random, wanted: int) -> Score:
    """``Ledger.create`` and ``record``: usable, with what was acknowledged and at most one more."""
    from veilnet.auditing import Ledger

    score = Score("Ledger")
    plan = vn.Plan.load(here.plan)
    path, acknowledged = here.folder / "ledger.jsonl", here.folder / "acknowledged"

    def work() -> int:
        ledger = Ledger.create(path, plan.network, -0.99)
        for count in range(1, 9):
            ledger.record(plan)
            with acknowledged.open("a") as file:
                file.write(f"{count}\n")
        return 0

    def begin() -> None:
        path.unlink(missing_ok=True)
        acknowledged.unlink(missing_ok=True)

    for _ in kills(score, rng, wanted, work, begin):
        made = len(acknowledged.read_text().splitlines()) if acknowledged.exists() else 0
        try:
            ledger = Ledger(path, plan.network) if path.exists() else Ledger.create(path, plan.network, -0.99)
            troubles = [] if made <= ledger.count <= made + 1 else ["lost"]
            ledger.record(plan)
            troubles += [] if ledger.verify(releases=made + 1) == [] else ["torn"]
        except vn.VeilnetError:
            troubles = ["unusable"]
        score.judge(troubles)
    return score


def full_disk(here: House, rng: random.Random, wanted: int) -> Score:
    """Files may grow to so many bytes: a clear refusal, nothing torn, and all of it when there is room again."""
    score = Score("no room left: sanitize, fuse")
    folder = here.folder / "full"
    folder.mkdir()
    out, store, estimates = folder / "messages.csv", folder / "store", folder / "estimates.csv"
    options = ("--out", out, "--store", store)
    messages = here.folder / "long.sent.csv"
    fuse = command("fuse", here.plan / "center.json", f"kitchen={messages}", "--out", estimates)
    run_child(fuse)
    whole = estimates.read_bytes()
    while score.hit < wanted:
        score.tried += 1
        remove(out, store, here.released)
        ended, code = run_child(here.sanitize("long", *options, "--flush"), limit=rng.randint(1, 200_000))
        troubles = ["traceback"] if ended == "traceback" else []
        troubles += ["torn"] if out.exists() and table(out)[-1:] == [["torn"]] else []
        if ended == "ended" and code == 0:
            continue
        run_child(here.sanitize("long", *options))
        troubles += _appended(out, store, complete=True)
        ended, code = run_child(fuse, limit=rng.randint(1, len(whole) - 1))
        troubles += [] if ended == "ended" and code == 2 else ["traceback"]
        troubles += [] if estimates.read_bytes() == whole else ["torn"]
        score.judge(troubles + leftovers(folder))
    return score


ATTACKS = {
    replaced_messages: 0.16,
    appended_messages: 0.28,
    piped_messages: 0.16,
    fused: 0.12,
    designed: 0.16,
    recorded: 0.12,
}


def show(scores: list[Score], troubles: str, *, as_json: bool) -> None:
    """The table of scores, with ``troubles`` heading what was found; or the same in JSON."""
    if as_json:
        print(json.dumps([{**vars(score), "found": dict(score.found)} for score in scores]))
        return
    print(f"| what was attacked | tried | hit | recovered | {troubles} |")
    print("|---|---|---|---|---|")
    for score in scores:
        found = ", ".join(f"{name} {count}" for name, count in score.found.items()) or "none"
        print(f"| {score.what} | {score.tried} | {score.hit} | {score.recovered} | {found} |")


def main() -> None:
    """Attack, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--full", type=int, default=120, help="how often room runs out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one attack, by its function's name")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    # Processes are killed, not machines: a folder in memory does, and is quicker.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        here = House(Path(folder))
        chosen = {a: s for a, s in ATTACKS.items() if options.only in (None, a.__name__)}
        scores = []
        for attack, share in chosen.items():
            scores.append(attack(here, random.Random(options.seed), max(2, round(options.kills * share))))
        if options.full and options.only in (None, "full_disk"):
            run_child(here.sanitize("long", "--out", here.folder / "long.sent.csv", "--again"))
            scores.append(full_disk(here, random.Random(options.seed), options.full))
    show(scores, "lost, torn, doubled or mixed", as_json=options.json)


if __name__ == "__main__":
    main()
