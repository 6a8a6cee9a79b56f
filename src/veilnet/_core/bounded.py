"""What was computed is kept for the next time, up to so many bytes or values."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Kept = TypeVar("Kept")


class Bounded(Generic[Kept]):
    """Values by key, of which those that were not asked for the longest are forgotten.

    most: size of all values together; one that is larger by itself is kept until the next.
    size: of a value, in bytes; 1 when left out, so that ``most`` is how many there are.
    """

    def __init__(self, most: int, size: Callable[[Kept], int] = lambda _: 1) -> None:
        self._most, self._size, self._bytes = most, size, 0
        self._kept: dict[Hashable, Kept] = {}

    def get(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """The value of a key, made where it is not there."""
        found = self._kept.pop(key, None)
        if found is None:
            found = make()
            self._bytes += self._size(found)
        self._kept[key] = found
        while self._bytes > self._most and len(self._kept) > 1:
            self._bytes -= self._size(self._kept.pop(next(iter(self._kept))))
        return found
