"""Estimates on their topics: the newest where readers look, everything else in the history.

Each is signed once, and the very same bytes are said until the broker has them: one that comes twice, after a
connection was lost, is known by them. What could not be said while there was no connection waits here, and is said,
marked as delayed, when there is one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from veilnet.live.neighbours import Neighbours, Publication
from veilnet.live.seals import EstimateSigner
from veilnet.live.topics import Topics

_MOST = 10_000  # estimates that wait for a connection; more are in the store (center --backfill)
_AT_ONCE = 100  # estimates that the broker has not confirmed yet


class Publisher:
    """Signs estimates and says them.

    say:        publishes something on the broker, and returns its number.
    signer:     the centre's; ``topics`` of the network.
    neighbours: who hears of it too.

    ``lost`` counts estimates that found no room to wait in.
    """

    def __init__(
        self,
        say: Callable[[Publication], int],
        signer: EstimateSigner,
        topics: Topics,
        neighbours: Neighbours,
    ) -> None:
        self._say, self._signer, self._topics, self._neighbours = say, signer, topics, neighbours
        self._unsaid: deque[dict[str, Any]] = deque()
        self._on_its_way: dict[int, Publication] = {}
        self._newest: Publication | None = None  # that was said
        self.lost = 0

    def __len__(self) -> int:
        return len(self._unsaid) + len(self._on_its_way)

    @property
    def is_due(self) -> bool:
        """Whether :meth:`flush` has something to say."""
        return bool(self._unsaid) and len(self._on_its_way) < _AT_ONCE

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
        """There is another connection: what the broker did not confirm is said again, and the newest anyway.

        A broker that was restarted has forgotten what it retained.
        """
        left = list(self._on_its_way.values())
        if self._newest is not None and self._newest not in left:
            left.append(self._newest)
        self._on_its_way.clear()
        for each in left:
            self._send(each)

    def _send(self, each: Publication) -> None:
        number = self._say(each)
        if number:  # of what is too large there is none
            self._on_its_way[number] = each

    def confirm(self, number: int) -> None:
        """The broker has what was said by this number, or will never take it."""
        self._on_its_way.pop(number, None)

    def delay(self) -> None:
        """There is no connection: what waits will be said later than it was made.

        Numbers of the connection that ended mean nothing to the next, which counts from 1 again.
        """
        self._on_its_way = {-place: each for place, each in enumerate(self._on_its_way.values())}
        for each in self._unsaid:
            each["delayed"] = True

    def flush(self) -> None:
        """Say what waits, as far as the broker keeps up."""
        while self.is_due:
            table = self._unsaid.popleft()
            newest = table["newest"]
            topic = self._topics.estimates if newest else self._topics.history
            said = Publication(topic, self._signer.payload(table), retain=newest)
            self._newest = said if newest else self._newest
            for each in (said, *self._neighbours.tell(table)):
                self._send(each)
