"""What was computed is kept for the next time, up to so many bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Kept = TypeVar("Kept")


class Bounded(Generic[Kept]):
    """Values by key, of which those that were not asked for the longest are forgotten.

    most: bytes of all values together; one that is larger by itself is kept until the next.
    size: bytes of a value.
    """

    def __init__(self, most: int, size: Callable[[Kept], int]) -> None:
        self._most, self._size, self._bytes = most, size, 0
        self._kept: dict[bytes, Kept] = {}

    def get(self, key: bytes, make: Callable[[], Kept]) -> Kept:
        """The value of a key, made where it is not there."""
        found = self._kept.pop(key, None)
        if found is None:
            found = make()
            self._bytes += self._size(found)
        self._kept[key] = found
        while self._bytes > self._most and len(self._kept) > 1:
            self._bytes -= self._size(self._kept.pop(next(iter(self._kept))))
        return found
