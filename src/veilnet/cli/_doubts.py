"""What ``veilnet fuse`` says of messages that contradict the model, and of a model that holds no more."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from veilnet.centre.drift import Change
    from veilnet.centre.estimates import Estimate
    from veilnet.io.merging import Rows
    from veilnet.io.row_keys import RowKey

_TOLD = 5  # that many in full, the others by their number


class Doubts:
    """Tells of the first contradictions in full, counts all; ``count`` has them by agent."""

    def __init__(self, keep: bool) -> None:
        self._done = "used all the same" if keep else "left out"
        self.count: dict[str, int] = {}

    def tell(self, estimate: Estimate, rows: Rows, key: RowKey) -> None:
        """Say what is new in these rows."""
        for doubt in estimate.contradictions:
            if sum(self.count.values()) < _TOLD:
                _say(f"{key.words(int(rows[doubt.row]))}: {doubt}; {self._done}")
            self.count[doubt.agent] = self.count.get(doubt.agent, 0) + 1

    def conclude(self) -> None:
        """Say how many there were."""
        if sum(self.count.values()) > _TOLD:
            shown = ", ".join(f"{count} of {agent}" for agent, count in self.count.items())
            _say(f"in all, messages that contradict the model: {shown}; {self._done}")


class Changes:
    """Tells of each kind of change of each agent once; ``told`` has what was said."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()
        self.told: list[dict[str, object]] = []

    def tell(self, changes: Sequence[Change], key: RowKey) -> None:
        """Say what is new."""
        for change in changes:
            if (change.kind, change.agent) in self._known:
                continue
            self._known.add((change.kind, change.agent))
            since = key.text(change.since)
            self.told.append(
                {"kind": change.kind, "agent": change.agent, "since": since, "size": change.size}
            )
            _say(
                f"since {key.words(change.since)}, {change}; the errors stated are not true any more: see what "
                "changed, and make a new plan from new readings (veilnet refit)"
            )


def _say(sentence: str) -> None:
    sys.stderr.write(f"veilnet fuse: {sentence}\n")
