"""Estimates on their topics: the newest where readers look, everything else in the history.

What could not be said while there was no connection waits here, and is said, marked as delayed, when there is one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from veilnet.live.neighbours import Neighbours, Publication
from veilnet.live.seals import EstimateSigner
from veilnet.live.topics import Topics

_MOST = 10_000  # estimates that wait for a connection; more are in the store (center --backfill)
_AT_ONCE = 500  # estimates between two looks at what arrives


class Publisher:
    """Signs estimates and says them, each once.

    say:        publishes something on the broker.
    signer:     the centre's; ``topics`` of the network.
    neighbours: who hears of it too, None for nobody.

    ``lost`` counts estimates that found no room to wait in. After a connection was lost, the newest that went out is
    said again with the next: the broker may have missed it, or begun anew without what it retained.
    """

    def __init__(
        self,
        say: Callable[[Publication], object],
        signer: EstimateSigner,
        topics: Topics,
        neighbours: Neighbours | None,
    ) -> None:
        self._say, self._signer, self._topics, self._neighbours = say, signer, topics, neighbours
        self._unsaid: deque[dict[str, Any]] = deque()
        self._newest: dict[str, Any] | None = None  # of those that went out
        self.lost = 0

    def __len__(self) -> int:
        return len(self._unsaid)

    def add(self, table: dict[str, Any]) -> None:
        """Say an estimate with the next :meth:`flush`; of those that wait, only the last newest is the newest."""
        if table["newest"]:
            for each in self._unsaid:
                each["newest"] = False
        self._unsaid.append(table)
        if len(self._unsaid) > _MOST and not table["delayed"]:
            self._unsaid.popleft()
            self.lost += 1

    def repeat(self) -> None:
        """There is another connection: the newest is said again, unless a newer one waits."""
        if self._newest is not None and not any(each["newest"] for each in self._unsaid):
            self._unsaid.appendleft(self._newest)

    def delay(self) -> None:
        """There is no connection: what waits will be said later than it was made."""
        for each in self._unsaid:
            each["delayed"] = True

    def flush(self) -> None:
        """Say what waits, up to some hundreds."""
        for _ in range(min(_AT_ONCE, len(self._unsaid))):
            table = self._unsaid.popleft()
            newest = table["newest"]
            self._newest = table if newest else self._newest
            topic = self._topics.estimates if newest else self._topics.history
            self._say(Publication(topic, self._signer.payload(table), retain=newest, qos=0))
            for each in () if self._neighbours is None else self._neighbours.tell(table):
                self._say(each)
