"""Durations as people write them: ``15min``, ``500 ms``, ``1h``, kept as whole microseconds or as seconds.

The step of rows in time may say when they are read, too: ``15min from 7min``. A time then belongs to the nearest row,
so that a clock that is a little off neither doubles a row nor leaves one out.
"""

from __future__ import annotations

import cmath
import math
import re
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from veilnet._core.errors import InvalidNetwork

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d)")
_MICROSECONDS = {"us": 1, "ms": 10**3, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
_SHORTEST = 1000  # microseconds: clocks of agents agree on no less
_LONGEST = 366 * 86400 * 10**6
_MOST_LETTERS = 40
_TOGETHER = 0.7  # length of the mean of unit vectors on the circle of a step: 1 where all times are one
_CLOCKS = 1e-3  # by which part a clock may run fast or slow


def read_duration(text: str) -> int:
    """``30s``, ``500 ms``, ``5 min``, ``1h`` as microseconds; ValueError where it is none."""
    found = _DURATION.fullmatch(text.strip()) if len(text) <= _MOST_LETTERS else None
    if found is None:
        raise ValueError(
            f"expected a duration such as 30s, 500ms, 5min or 1h, found {text[:_MOST_LETTERS]!r}"
        )
    return int((Decimal(found[1]) * _MICROSECONDS[found[2]]).to_integral_value())


class RowStep(float):
    """How long a row takes, in seconds.

    origin: when rows are read, in seconds after 1970 less whole steps; None where nobody said: they may then be read
            at any time within a step, and steps are counted from 1970.
    """

    origin: float | None

    def __new__(cls, seconds: float, origin: float | None = None) -> RowStep:
        made = super().__new__(cls, seconds)
        made.origin = None if origin is None else _micro(origin) % _micro(seconds) / 1e6
        return made

    def __getnewargs__(self) -> tuple[float, float | None]:  # type: ignore[override]  # as float has it: one number
        return float(self), self.origin

    def __reduce__(self) -> tuple[Any, ...]:
        return RowStep, self.__getnewargs__()

    def __eq__(self, other: object) -> bool:
        same = float.__eq__(self, other) is True  # NotImplemented for what is no number
        return same and getattr(other, "origin", self.origin) == self.origin

    __hash__ = float.__hash__

    @property
    def begins(self) -> int:
        """Where the first step begins, in microseconds: not after 0, so that no row has a number below 1."""
        return 0 if self.origin is None else -((_micro(self) // 2 - _micro(self.origin)) % _micro(self))

    def row_at(self, microseconds: Any) -> Any:
        """The row that a time belongs to, counted from 1; also of whole arrays."""
        return (microseconds - self.begins) // _micro(self) + 1

    def time_of(self, row: int) -> int:
        """When a row was read, in microseconds; where nobody said, when its step began."""
        read = 0 if self.origin is None else self.begins + _micro(self) // 2
        return read + (row - 1) * _micro(self)


def _micro(seconds: float) -> int:
    return round(seconds * 1e6)


def duration_in_words(seconds: float) -> str:
    """Seconds in the largest unit that they are a whole number of, as :func:`read_duration` reads them: ``15min``."""
    count = _micro(seconds)
    sizes = reversed(_MICROSECONDS.items())
    unit = next(name for name, size in sizes if count % size == 0) if count else "s"
    origin = getattr(seconds, "origin", None)
    return f"{count // _MICROSECONDS[unit]}{unit}" + (
        "" if origin is None else f" from {duration_in_words(origin)}"
    )


def nearest_round(seconds: float) -> float | None:
    """The step of rows that are so far apart in a log: whole days, hours, minutes or seconds where a clock that is
    off by a thousandth would say so, else as measured; None where that is no step (:func:`read_step`).
    """
    for size in (86400.0, 3600.0, 60.0, 1.0):
        whole = round(seconds / size) * size
        if whole > 0 and abs(whole - seconds) <= _CLOCKS * seconds:
            seconds = whole
            break
    return seconds if _SHORTEST <= round(seconds * 1e6) <= _LONGEST else None


def origin_of(times: Sequence[float], step: float) -> float | None:
    """When rows of a step are read, by the times of some, in seconds; None where they come at any time within it."""
    turns = [cmath.exp(2j * math.pi * ((time % step) / step)) for time in times]
    middle = sum(turns) / len(turns)
    if abs(middle) < _TOGETHER:
        return None
    origin = cmath.phase(middle) / (2 * math.pi) * step
    sizes = (each for each in (3600.0, 60.0, 1.0) if abs(round(origin / each) * each - origin) <= step / 20)
    size = next(sizes, 1e-6)
    return round(origin / size) * size % step


def read_step(step: Any, name: str = "step") -> RowStep | None:
    """The step of rows in time: from text such as 15min or 15min from 7min, a number of seconds or a timedelta.

    name: what it is called in an error. None stays None.
    """
    if step is None:
        return None
    origin = getattr(step, "origin", None)
    try:
        if isinstance(step, str):
            length, said, after = step.partition(" from ")
            count, origin = read_duration(length), read_duration(after) / 1e6 if said else None
        elif isinstance(step, timedelta):
            count = step // timedelta(microseconds=1)
        elif isinstance(step, bool) or not math.isfinite(step):
            raise TypeError
        else:
            count = round(float(step) * 1e6)
    except ValueError as error:
        raise InvalidNetwork(f"{name}: {error}") from None
    except (TypeError, OverflowError):
        raise InvalidNetwork(
            f"{name}: expected how long a row takes, such as '15min' or 900 (seconds), found {step!r}"
        ) from None
    if not _SHORTEST <= count <= _LONGEST:
        raise InvalidNetwork(f"{name}: expected from 1 ms to 366 days, found {step!r}")
    return RowStep(count / 1e6, origin)  # rounding it to microseconds gives the same back


def keeps_to(asked: RowStep | None, planned: float) -> bool:
    """Whether what was asked for, if anything was, is a step that is planned, whenever that one is read."""
    return asked is None or same_step(asked, planned if asked.origin is not None else float(planned))


def same_step(one: float | None, other: float | None) -> bool:
    """Whether two steps are the same to the microsecond and read at the same time, or neither is known."""
    if one is None or other is None:
        return one is other
    return duration_in_words(one) == duration_in_words(other)
