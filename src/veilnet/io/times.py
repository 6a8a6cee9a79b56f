"""When rows were measured: times as they stand in tables and streams.

A stream tells its times one by one, so that each has to be clear by itself: :func:`iso_moment`. Of a table the whole
column is known. Understood are then ISO 8601 (2015-02-04 17:51:00, with or without T, fractions and a zone), dates
with the year first or last, numbers (seconds), and whatever frames hold as times. Day first or month first is decided
by the whole column: where both would do, the column is refused rather than guessed. Times without a zone are taken to
be in one zone without a summer time; a column that mixes both kinds is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array

_MISSING_WORDS = frozenset({"", "na", "n/a", "nan", "nat", "null", "none", "-", "?"})
_CLOCKS = ("%H:%M:%S", "%H:%M:%S.%f", "%H:%M", "%I:%M:%S %p", "%I:%M %p", "")
_DATES = ("%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%b %d, %Y")
_FORMATS = tuple(f"{day} {clock}".strip() for day in _DATES for clock in _CLOCKS)
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_LONGEST = 40  # characters
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOOKED_AT = 20  # cells that tell whether a column looks like times
_TIME_NAMES = frozenset({"time", "date", "datetime", "timestamp", "date_time", "ts", "when", "epoch"})


def iso_moment(text: str) -> datetime | None:
    """2015-02-04 17:51:00, with or without T, fractions and a zone; None for anything else."""
    text = text.strip()
    if not _ISO_DATE.match(text) or len(text) > _LONGEST:
        return None
    return _parsed(text, datetime.fromisoformat)


def microseconds(moment: datetime) -> int:
    """Since 1970, by the clock of the zone that it has, or that all times without one share."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def as_seconds(values: Any, where: str) -> Array:
    """A column of times as seconds (of 1970, or of whatever its numbers count from), NaN where one is missing.

    values: numbers, text, dates, or a mixture of missing values and one of these; where: names it in errors.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidNetwork(f"{where}: expected one time per row, found shape {array.shape}")
    if array.dtype.kind == "M":
        seconds = (array - np.datetime64(0, "s")) / np.timedelta64(1, "s")
        return np.asarray(np.where(np.isnat(array), np.nan, seconds), np.float64)
    numbers = array.astype(np.float64) if array.dtype.kind in "iuf" else _from_cells(list(values), where)
    if np.any(np.isinf(numbers)):
        row = int(np.flatnonzero(np.isinf(numbers))[0]) + 1
        raise InvalidNetwork(f"{where}, row {row}: expected a time, found an infinite number")
    return numbers


def looks_like_times(name: str, values: Any) -> bool:
    """Whether a column seems to hold times: by what stands in it, and for plain numbers by its name as well."""
    array = np.asarray(values)
    if array.ndim != 1 or array.size < 2:
        return False
    if array.dtype.kind == "M":
        return True
    cells = [cell for cell in list(values[:_LOOKED_AT]) if not _is_missing(cell)]
    numeric = all(_number(cell) is not None for cell in cells)
    if not cells or (numeric and name.strip().casefold() not in _TIME_NAMES):
        return False
    try:
        found = as_seconds(cells, name)
    except InvalidNetwork as error:
        return "day or the month first" in str(error)
    return bool(np.unique(found).size > 1)


def _from_cells(cells: list[Any], where: str) -> Array:
    present = [place for place, cell in enumerate(cells) if not _is_missing(cell)]
    seconds = np.full(len(cells), np.nan)
    if not present:
        return seconds
    kept = [cells[place] for place in present]
    numbers = [_number(cell) for cell in kept]
    if all(number is not None for number in numbers):
        seconds[present] = np.array(numbers, np.float64)
        return seconds
    moments = [_moment(cell) for cell in kept]
    if any(moment is None for moment in moments):
        texts = [cell.strip() if isinstance(cell, str) else None for cell in kept]
        understood = next(place for place, moment in enumerate(moments) if moment is None)
        moments = _by_one_format(texts, understood, [place + 1 for place in present], where)
    aware = {moment.tzinfo is not None for moment in moments if moment is not None}
    if len(aware) > 1:
        raise InvalidNetwork(
            f"{where}: some times have a zone and some have none; write all of them with one, or none of them"
        )
    seconds[present] = [microseconds(moment) / 1e6 for moment in moments if moment is not None]
    return seconds


def _by_one_format(
    texts: Sequence[str | None], understood: int, rows: Sequence[int], where: str
) -> list[datetime | None]:
    """All cells read by one format; refused where none fits, or where two fit and disagree.

    ``understood`` cells at the beginning were in a format that others are not in.
    """
    fitting: dict[str, list[datetime]] = {}
    furthest = understood
    for form in _FORMATS:
        moments = []
        for text in texts:
            moment = _parsed(text, lambda cell, form=form: datetime.strptime(cell, form))  # type: ignore[misc]
            if moment is None:
                break
            moments.append(moment)
        furthest = max(furthest, len(moments))
        if len(moments) == len(texts):
            fitting[form] = moments
    if not fitting:
        raise InvalidNetwork(
            f"{where}, row {rows[min(furthest, len(rows) - 1)]}: expected a time like those before it; write times "
            "as 2015-02-04 17:51:00, or as seconds"
        )
    first, *others = fitting.values()
    if any(other != first for other in others):
        raise InvalidNetwork(
            f"{where}: the dates do not tell whether they have the day or the month first; write them as 2015-02-04"
        )
    return list(first)


def _parsed(text: str | None, how: Callable[[str], datetime]) -> datetime | None:
    if text is None:
        return None
    try:
        return how(text)
    except ValueError:
        return None


def _moment(cell: Any) -> datetime | None:
    if isinstance(cell, np.datetime64):
        return datetime.fromtimestamp(
            float((cell - np.datetime64(0, "s")) / np.timedelta64(1, "s")), UTC
        ).replace(tzinfo=None)
    if isinstance(cell, datetime):
        return cell
    if isinstance(cell, date):
        return datetime.combine(cell, time())
    return iso_moment(cell) if isinstance(cell, str) else None


def _number(cell: Any) -> float | None:
    if isinstance(cell, str | int | float | np.integer | np.floating) and not isinstance(cell, bool):
        try:
            return float(cell)
        except ValueError:
            return None
    return None


def _is_missing(cell: Any) -> bool:
    if cell is None or type(cell).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    if isinstance(cell, np.datetime64):
        return bool(np.isnat(cell))
    if isinstance(cell, float | np.floating):
        return math.isnan(cell)
    return isinstance(cell, str) and cell.strip().lower() in _MISSING_WORDS
