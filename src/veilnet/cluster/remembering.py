"""What a worker remembers of a file from pass to pass: a few arrays, as long as there is room and it is unchanged."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from veilnet._core.types import Array

_REMEMBERED = 2**28  # bytes that a process keeps from pass to pass
_memory: OrderedDict[tuple[str, int, int, str], tuple[Array, ...]] = OrderedDict()


def remembered(path: Path, about: str, make: Callable[[], tuple[Array, ...]]) -> tuple[Array, ...]:
    """Arrays made of a file, made anew when it changed.

    about: a digest of whatever else they depend on.
    """
    try:
        status = path.stat()
        key = (str(path), status.st_mtime_ns, status.st_size, about)
    except OSError:
        key = (str(path), -1, -1, "")
    if key in _memory:
        _memory.move_to_end(key)
        return _memory[key]
    made = make()
    _memory[key] = made
    while len(_memory) > 1 and sum(_bytes(each) for each in _memory.values()) > _REMEMBERED:
        _memory.popitem(last=False)
    return made


def _bytes(arrays: tuple[Array, ...]) -> int:
    return sum(each.nbytes for each in arrays)
