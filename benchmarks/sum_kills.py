"""The walk of :mod:`live_kills` over a plan of sums: four rooms, of whom three are enough, and a centre.

    python benchmarks/sum_kills.py [--kills 200] [--seed 0] [--json] [--stream]

Rooms write down, for this benchmark alone, what they mask, under which seeds, and of whom they reveal which shares.
That is more than the centre and the broker see. After each round it is compared with the stores:

    wrong     a sum in the centre's store that is not the plain sum of what its members masked, to the last bit
    told      a combination of messages that follows from all that was said, beside one sum of enough members
    twice     an epoch that somebody masked or answered twice, or a mask that came in two epochs
    lost      enough rooms revealed their shares while centre and broker ran, and there is no sum
    redrawn, chain, estimate, stuck: as there

An epoch in which too few came to the end has no sum; those are counted. On a stream (--stream) all four are needed,
estimates are compared with one filter over all sums at the end, and one more thing is:

    rows      a sum to which memories of different rows were added, or rows that a member had not masked
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np

import live_kills
import veilnet as vn
from live_children import Child
from veilnet.io.agent_ledger import audit_releases
from veilnet.io.outbox import SHORT
from veilnet.live.fusions import fusion_of
from veilnet.sums.rehearsal import Seen, combinations_known
from veilnet.sums.rounds import SumAgent
from veilnet.sums.terms import Terms

_GROUP = "everybody"


class SummedNetwork(live_kills.Network):
    """Four rooms that add up their messages; ``sums`` and ``epochs`` are counted as rounds go by."""

    agents = ("kitchen", "hall", "bath", "study")
    wait, patience = "3s", "5"
    dynamics: vn.Dynamics | None = None
    loaded = (*live_kills.Network.loaded, "live.sum_rounds", "live.sum_desk", "sums.rounds", "sums.opening")

    def design(self) -> vn.Plan:
        """A plan in which the centre sees the sum of all."""
        rows = {
            agent: [[1, lean], [0, 1]]
            for agent, lean in zip(self.agents, (0.5, -0.4, 0.2, -0.1), strict=True)
        }
        noise = dict.fromkeys(self.agents, np.array([0.1, 0.2]))
        prior = None if self.dynamics else vn.Prior(mean=[20, 1], covariance=np.eye(2))
        network = vn.Network(
            rows,
            noise,
            {"temperature": [1, 0]},
            {"gait": [0, 1]},
            prior,
            resolution=0.1,
            dynamics=self.dynamics,
        )
        return vn.design(network, summed=True)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        member = self.plan.members["kitchen"]
        path = folder / "plan/center.json"
        self.fusion = fusion_of(path.read_bytes(), path, gate=1e-6)
        self.terms = Terms(str(self.fusion.model.plan)[:SHORT], member.summed, member.sent)
        self.grid = member.grid
        self.sums = self.epochs = self._looked = 0
        self._whose: dict[str, int] = {}  # seed -> its epoch

    def child(self, arguments: list[str], **how: object) -> Child:
        """A command; a room writes down what it masks and reveals."""
        if arguments[0] == "agent":
            arguments = [*arguments, "--wait", self.patience]
            how["prepare"] = partial(_write_down, self.folder / f"{Path(arguments[1]).stem}.sums")
        return super().child(arguments, **how)

    # --- what is found after a round

    def troubles(self) -> list[str]:
        """What is wrong with what the stores hold after all rooms came to their end."""
        found = []
        for agent in self.agents:
            drawn = self.folder / f"{agent}.draws"  # none before its first epoch with enough others
            counts = Counter(drawn.read_text().split() if drawn.exists() else ())
            found += ["redrawn"] * any(count > 1 for count in counts.values())
            found += ["chain"] * bool(audit_releases(self.folder / f"{agent}.sqlite", agent).problems)
        masked, revealed = self._written(found)
        self._masked = masked
        with closing(sqlite3.connect(self.folder / "estimates.sqlite")) as centre:
            rows = centre.execute(
                'SELECT m.epoch, m."values", l.public FROM messages m LEFT JOIN latest l ON l.epoch = m.epoch '
                "JOIN agents a ON a.number = m.agent WHERE a.agent = ?",
                (_GROUP,),
            ).fetchall()
        stored = {epoch: (values, public) for epoch, values, public in rows}
        found += ["twice"] * (len(stored) != len(rows))
        for epoch in range(self._looked + 1, self.row + 1):
            found += self._look(epoch, masked.get(epoch, {}), revealed.get(epoch, {}), stored.get(epoch))
        found += ["estimate"] * (self.fusion.is_stream and not self._filtered(stored))
        self.epochs, self.sums = self.row, sum(values is not None for values, _ in stored.values())
        self._looked = self.row
        return found

    def _written(self, found: list[str]) -> tuple[dict[int, dict], dict[int, dict]]:
        """(epoch -> member -> what it masked, epoch -> member -> what it revealed); what came twice is a trouble."""
        masked: dict[int, dict] = {}
        revealed: dict[int, dict] = {}
        for number, agent in enumerate(self.agents):
            path = self.folder / f"{agent}.sums"
            for line in path.read_text().splitlines() if path.exists() else ():
                said = json.loads(line)
                kept = (masked if "bare" in said else revealed).setdefault(said["epoch"], {})
                found += ["twice"] * (number in kept)
                kept[number] = said
                for seed in said.get("seeds", {}).values():
                    found += ["twice"] * (self._whose.setdefault(seed, said["epoch"]) != said["epoch"])
        return masked, revealed

    def _filtered(self, stored: dict[int, tuple[bytes | None, str]]) -> bool:
        """Whether the newest estimate is that of one filter over all sums, and rows that were missed."""
        if not stored:
            return True
        first, last = min(stored), max(stored)
        rows = np.full((last - first + 1, len(self.grid)), np.nan)
        for epoch, (values, _) in stored.items():
            rows[epoch - first] = np.inf if values is None else np.frombuffer(values)
        made = np.array(json.loads(stored[last][1] or "[]"))
        return np.allclose(made, self.fusion.estimate({_GROUP: rows}).public[-1], rtol=1e-9, atol=1e-9)

    def _look(
        self, epoch: int, masked: dict, revealed: dict, stored: tuple[bytes, str] | None
    ) -> Iterator[str]:
        """The troubles of one epoch."""
        seen = Seen(
            epoch,
            {
                who: {int(k): bytes.fromhex(v) for k, v in each["seeds"].items()}
                for who, each in masked.items()
            },
        )
        lists = {tuple(each["survivors"]) for each in revealed.values()}
        for who, each in revealed.items():
            seen.reveal(
                who, {other: "own" if other in each["survivors"] else "lock" for other in each["held"]}
            )
        known = combinations_known(self.terms, seen)
        survivors = list(*lists) if len(lists) == 1 else []
        expected = np.isin(np.arange(len(self.agents)), survivors) / np.sqrt(max(1, len(survivors)))
        enough = len(survivors) >= self.terms.threshold and np.allclose(np.abs(known), expected, atol=1e-9)
        if len(lists) > 1 or len(known) > 1 or (len(known) == 1 and not enough):
            yield "told"
        if stored is None or stored[0] is None:
            if len(revealed) >= self.terms.threshold and not self.disturbed:
                yield "lost"
            return
        bare = np.array([masked[who]["bare"] for who in survivors], dtype=np.uint64)
        values = self.terms.membership.opened(bare.sum(axis=0, dtype=np.uint64), self.grid)
        there = np.isin(np.arange(len(self.agents)), survivors)
        flags = [] if there.all() else there
        if not survivors or np.append(values, flags).astype("<f8").tobytes() != stored[0]:
            yield "wrong"
            return
        if self.fusion.is_stream:
            (since, *others) = {masked[who]["since"] for who in survivors}
            entered = [
                who in self._masked.get(row, {}) for row in range(since, epoch + 1) for who in survivors
            ]
            if others or not all(entered):
                yield "rows"
            return
        missing = [agent for number, agent in enumerate(self.agents) if number not in survivors]
        estimate = self.fusion.estimate({_GROUP: values}, missing=missing)
        if np.array(json.loads(stored[1] or "[]")).tobytes() != estimate.public.tobytes():
            yield "estimate"

    def in_words(self) -> str:
        """How many epochs had a sum."""
        return f"{self.epochs} epochs: {self.sums} with a sum, {self.epochs - self.sums} with none"


def _write_down(path: Path) -> None:
    """Write down what is masked, under which seeds, and of whom which shares are revealed, before it leaves."""
    mask, reveal = SumAgent.mask, SumAgent.reveal

    def masked(self: SumAgent, epoch: int, residues: np.ndarray) -> np.ndarray:
        now = self._now
        words = mask(self, epoch, residues)
        assert now is not None
        seeds = {number: seed.hex() for number, seed in now.seeds.items()}
        seeds[self.number] = now.own_seed.hex()
        _append(path, {"epoch": epoch, "since": now.since, "bare": residues.tolist(), "seeds": seeds})
        return words

    def revealed(self: SumAgent, agreed: object) -> object:
        now = self._now
        found = reveal(self, agreed)
        assert now is not None
        assert now.survivors is not None
        _append(path, {"epoch": now.epoch, "held": sorted(now.held), "survivors": sorted(now.survivors)})
        return found

    SumAgent.mask, SumAgent.reveal = masked, revealed  # type: ignore[method-assign,assignment]


def _append(path: Path, entry: dict) -> None:
    with path.open("a") as file:
        file.write(json.dumps(entry) + "\n")


class StreamedNetwork(SummedNetwork):
    """The same of a stream: rooms remember, all of them the same rows."""

    dynamics = vn.Dynamics(np.diag([0.9, 0.7]), np.diag([0.2, 0.5]), mean=[20, 1])


if __name__ == "__main__":
    stream = "--stream" in sys.argv
    sys.argv = [each for each in sys.argv if each != "--stream"]
    live_kills.main(StreamedNetwork if stream else SummedNetwork)
