"""What ``veilnet fuse`` says of messages that contradict the model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from veilnet.centre.fusion import Estimate
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
                self._say(f"{key.words(int(rows[doubt.row]))}: {doubt}; {self._done}")
            self.count[doubt.agent] = self.count.get(doubt.agent, 0) + 1

    def conclude(self) -> None:
        """Say how many there were."""
        if sum(self.count.values()) > _TOLD:
            shown = ", ".join(f"{count} of {agent}" for agent, count in self.count.items())
            self._say(f"in all, messages that contradict the model: {shown}; {self._done}")

    def _say(self, sentence: str) -> None:
        sys.stderr.write(f"veilnet fuse: {sentence}\n")
