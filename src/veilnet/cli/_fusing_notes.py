"""What ``veilnet fuse`` counts on the way, and says of messages and of a model that holds no more."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from veilnet._core.words import join_names, number
from veilnet.cli._lines import speaker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from veilnet._core.types import Array
    from veilnet.centre.estimates import Estimate
    from veilnet.centre.fusion import Fusion
    from veilnet.io.merging import MessageFile, Rows
    from veilnet.io.row_keys import RowKey
    from veilnet.io.sources import RowSource

_IN_FULL = 5  # contradictions in full, the others by their number
_say = speaker("fuse")


class Notes:
    """Tells the first contradictions in full and each kind of change of each agent once, and counts all.

    rows:          rows estimated; ``gaps`` those with missing agents, ``alone`` with one agent alone,
                   ``unknown`` with something that is not estimable.
    bad:           lines that are no messages.
    contradicting: agent -> how many of its messages contradict the model.
    sudden:        agent -> how many of them only a sudden change explains, which are used.
    outside:       public parameter -> in how many rows its estimate lies beyond what the fit saw of it.
    changes:       what was said of a model that holds no more.
    """

    def __init__(self, fusion: Fusion, keep: bool) -> None:
        from veilnet.centre.drift import Drift, Refusals

        self._fusion, self._done = fusion, "used all the same" if keep else "left out"
        self._drift = None if fusion.is_stream else Drift(fusion)
        self._refusals = Refusals(fusion.agents) if fusion.is_stream else None
        self._known: set[tuple[str, str]] = set()
        members = sum(len(group.members) - 1 for group in fusion.sums.values())
        self._senders = sum(count > 0 for count in fusion.sent.values()) + members
        self.rows = self.gaps = self.alone = self.unknown = self.bad = 0
        self.contradicting: Counter[str] = Counter()
        self.sudden: Counter[str] = Counter()
        self.outside: Counter[str] = Counter()
        self.changes: list[dict[str, object]] = []

    def leave_out(self, source: RowSource, line: int, reason: str) -> None:
        """A line that is no message."""
        self.bad += 1
        _say(f"{source}, line {line} left out: {reason}")

    def look(self, rows: Rows, estimate: Estimate, arrived: dict[str, Array], key: RowKey) -> None:
        """Count these rows, and say what is new in them. arrived: their messages, where each stands for itself."""
        self.rows += len(estimate.missing)
        self.gaps += sum(map(bool, estimate.missing))
        self.alone += sum(len(missing) == self._senders - 1 for missing in estimate.missing)
        self.unknown += int((~estimate.estimable).any(axis=1).sum())
        self.outside.update(dict(zip(estimate.labels, estimate.outside.sum(axis=0).tolist(), strict=True)))
        for doubt in estimate.contradictions:
            counts, done = (self.sudden, "used") if doubt.sudden else (self.contradicting, self._done)
            if counts.total() < _IN_FULL:
                _say(f"{key.words(int(rows[doubt.row]))}: {doubt}; {done}")
            counts[doubt.agent] += 1
        if self._drift is not None:
            self._tell_changes(self._drift.look(arrived, rows, estimate.contradictions), key)
        if self._refusals is not None:
            silent = [
                np.array([agent in row for row in estimate.missing], bool) for agent in self._fusion.agents
            ]
            self._tell_changes(self._refusals.look(np.asarray(rows), silent, estimate.contradictions), key)

    def _tell_changes(self, changes: Any, key: RowKey) -> None:
        for change in changes:
            if (change.kind, change.agent) in self._known:
                continue
            self._known.add((change.kind, change.agent))
            since = key.text(change.since)
            self.changes.append(
                {"kind": change.kind, "agent": change.agent, "since": since, "size": change.size}
            )
            _say(
                f"since {key.words(change.since)}, {change}; stated errors no longer hold: find out what "
                f"changed, and refit on new readings (veilnet refit)"
            )

    def conclude(self, files: Mapping[str, MessageFile], key: RowKey, within: str | None) -> None:
        """What a reader of the estimates should know of the messages."""
        for counts, what, done in (
            (self.contradicting, "messages that contradict the model", self._done),
            (self.sudden, "messages explained only by a sudden change", "used"),
        ):
            if counts.total() > _IN_FULL:
                _say(f"in all, {what}: {_by_agent(counts)}; {done}")
        if sum(file.count > file.missed for file in files.values()) > 1 and 2 * self.alone > self.rows:
            _say(self._hardly_aligned(key))
        for label, count in self.outside.items():
            if count:
                seen = self._fusion.model.held_out[label]
                _say(
                    f"{label} is outside what the fit saw of it ({number(seen.lowest)} to {number(seen.highest)}) in "
                    f"{count} of {self.rows} rows: the error there was never measured"
                )
        if untested := self._untested(files):
            _say(
                f"messages of {join_names(untested)} were accepted untested: neither a prior nor other agents "
                f"can check them"
            )
        for agent, file in files.items():
            if file.crowded:
                _say(
                    f"{file.crowded} messages of {agent} came within {within} of the one before, and stand in rows "
                    "of their own; --within should be less than half a sampling step"
                )
            if file.simulated:
                _say(f"{file.simulated} messages of {agent} were made with --seed or --summed: NOT private")

    def _hardly_aligned(self, key: RowKey) -> str:
        """What to say where most rows hold one agent's message: every estimate is true, and hardly one of use."""
        what, advice = "row numbers", "number the readings of one moment alike"
        if key.is_time:
            what = "times"
            advice = "where clocks differ, --within 30s takes messages for one row that are no further apart"
        return (
            f"{self.alone} of {self.rows} rows hold the message of one agent alone, because the agents' {what} do "
            f"not agree; {advice}"
        )

    def _untested(self, files: Mapping[str, MessageFile]) -> list[str]:
        gate = self._fusion.gate
        return [] if gate is None else [agent for agent in gate.untested if agent in files]

    def summary(self, files: Mapping[str, MessageFile]) -> dict[str, Any]:
        """What was counted, for programs."""
        missed = {agent: file.missed for agent, file in files.items()}
        of_streams = {"sudden": dict(self.sudden), "missed": missed} if self._fusion.is_stream else {}
        return {
            "rows": self.rows,
            "with_missing_agents": self.gaps,
            "not_estimable": self.unknown,
            "bad_lines": self.bad,
            "received": _received(files),
            "contradicting": dict(self.contradicting),
            "untested": self._untested(files),
            "changes": self.changes,
            **of_streams,
        }

    def in_words(self, files: Mapping[str, MessageFile]) -> str:
        """The same for people."""
        return (
            f"{self.rows} rows, {self.gaps} with missing agents, {self.unknown} where something is not estimable.\n"
            f"Received: {_by_agent(_received(files))}."
        )


def _by_agent(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} of {agent}" for agent, count in counts.items())


def _received(files: Mapping[str, MessageFile]) -> dict[str, int]:
    return {agent: file.count - file.missed for agent, file in files.items()}
