"""Durations as people write them: ``15min``, ``500 ms``, ``1h``, kept as whole microseconds or as seconds."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

from veilnet._core.errors import InvalidNetwork

__all__ = ["duration", "in_words", "nearest_round", "read_step", "same_step"]

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d)")
_MICROSECONDS = {"us": 1, "ms": 10**3, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
_SHORTEST = 1000  # microseconds: clocks of agents agree on no less
_LONGEST = 366 * 86400 * 10**6
_MOST_LETTERS = 40
_CLOCKS = 1e-3  # by which part a clock may run fast or slow


def duration(text: str) -> int:
    """``30s``, ``500 ms``, ``5 min``, ``1h`` as microseconds; ValueError where it is none."""
    found = _DURATION.fullmatch(text.strip()) if len(text) <= _MOST_LETTERS else None
    if found is None:
        raise ValueError(
            f"expected a duration such as 30s, 500ms, 5min or 1h, found {text[:_MOST_LETTERS]!r}"
        )
    return int((Decimal(found[1]) * _MICROSECONDS[found[2]]).to_integral_value())


def in_words(seconds: float) -> str:
    """Seconds in the largest unit that they are a whole number of, as :func:`duration` reads them: ``15min``."""
    count = round(seconds * 1e6)
    unit = next(name for name, size in reversed(_MICROSECONDS.items()) if count % size == 0)
    return f"{count // _MICROSECONDS[unit]}{unit}"


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


def read_step(step: Any, name: str = "step") -> float | None:
    """The step of rows in time, in seconds: from text such as 15min, a number of seconds or a timedelta.

    name: what it is called in an error. None stays None.
    """
    if step is None:
        return None
    try:
        if isinstance(step, str):
            count = duration(step)
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
    return count / 1e6  # rounding it to microseconds gives the same back


def same_step(one: float | None, other: float | None) -> bool:
    """Whether two steps are the same to the microsecond, or neither is known."""
    if one is None or other is None:
        return one is other
    return round(one * 1e6) == round(other * 1e6)
