"""What tells one row from another, so that the centre can align agents: a count, a number or a time.

    counted  no key given: the line's place among the readings, the header not counted
    row      a whole number that came with the readings
    time     when they were taken, in one of three styles that a stream keeps: with a zone (written in UTC, with
             a Z), without one, or as seconds counted from anywhere

Inside, each is a positive whole number that grows along the stream; a time is its microseconds, from 1970 or
from where the seconds start, and one, since a clock may begin at zero. Times are written anew from that number,
so nothing that stands in a field beside the time leaves an agent.

Times are read in ISO 8601 (2015-02-04 17:51:00, with or without T, fractions and a zone), as dates with the year
first or last, or as seconds. Where the day may be the month, a whole column decides (:func:`as_seconds`) and a single
time is refused (:class:`Clock`). Those without a zone are taken to be in one zone without a summer time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array
from veilnet.io.cells import is_missing, is_number

LARGEST_ROW = 2**62
_EPOCH = datetime(1970, 1, 1)
_LONGEST_TIME = 40  # characters
_MOST_SECONDS = 10**11  # the year 5138; more is a count of milliseconds
_SECONDS = re.compile(r"\d+(\.\d*)?([eE]\+?\d\d?)?")
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_CLOCKS = ("%H:%M:%S", "%H:%M:%S.%f", "%H:%M", "%I:%M:%S %p", "%I:%M %p", "")
_DATES = ("%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%b %d, %Y")
_ISO = "ISO 8601"
_FORMS = (_ISO, *(f"{day} {clock}".strip() for day in _DATES for clock in _CLOCKS))
_TIME_NAMES = frozenset(
    {"time", "date", "datetime", "date_time", "date time", "timestamp", "ts", "when", "moment", "epoch"}
)

Style = Literal["", "zoned", "local", "seconds"]


@dataclass(frozen=True)
class RowKey:
    """How the rows of a stream are identified; ``name`` is the column, ``style`` that of times."""

    name: Literal["counted", "row", "time"]
    style: Style = ""

    @property
    def is_time(self) -> bool:
        """Whether it is a time."""
        return self.name == "time"

    def text(self, row: int) -> str:
        """A row as it is written."""
        if not self.is_time:
            return str(row)
        if self.style == "seconds":
            whole, rest = divmod(row - 1, 10**6)
            return f"{whole}.{rest:06d}".rstrip("0") if rest else str(whole)
        return (_EPOCH + timedelta(microseconds=row - 1)).isoformat() + ("Z" if self.style == "zoned" else "")

    def json(self, row: int) -> str:
        """A row as JSON."""
        text = self.text(row)
        return f'"{text}"' if self.style in ("zoned", "local") else text

    def words(self, row: int) -> str:
        """A row in a sentence."""
        return f"{'time' if self.is_time else 'row'} {self.text(row)}"


COUNTED, ROW = RowKey("counted"), RowKey("row")


def key_of(column: str | None) -> RowKey:
    """What a column tells rows by, None for none; the first time shows the style."""
    return {None: COUNTED, "counted": COUNTED, "row": ROW}.get(column, RowKey("time"))


class Clock:
    """Reads times one by one, all of them written as the first was."""

    def __init__(self) -> None:
        self._form = ""
        self.key: RowKey | None = None

    def read(self, cell: Any) -> int:
        """A time as a row; ValueError says what is wrong with it, and never quotes it."""
        if type(cell) in (int, float):
            cell = repr(cell)
        if not isinstance(cell, str):
            raise ValueError("the time is neither a text nor a number")
        text, form, style = cell.strip(), "", "seconds"
        if _SECONDS.fullmatch(text) and len(text) <= _LONGEST_TIME:
            seconds = Decimal(text)
            if seconds >= _MOST_SECONDS:
                raise ValueError("the time is too large for seconds; write seconds, not milliseconds")
            row = int((seconds * 10**6).to_integral_value()) + 1
        else:
            form, (moment,) = _read_alike([text], (self._form,) if self._form else _FORMS)
            row, style = _microseconds(moment) + 1, "local" if moment.tzinfo is None else "zoned"
            if row < 1:
                raise ValueError("the time is before 1970")
        key = RowKey("time", style)  # type: ignore[arg-type]
        if self.key not in (None, key):
            raise ValueError("the time is written in another way than those before; keep to one")
        self._form, self.key = form, key
        return row


class _Unreadable(ValueError):
    """A text that is no time, at a place among several."""

    def __init__(self, place: int) -> None:
        super().__init__(
            "the time is not readable; write 2015-02-04 17:51:00, with a zone if there is one, or seconds"
        )
        self.place = place


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
    seconds = array.astype(np.float64) if array.dtype.kind in "iuf" else np.full(len(array), np.nan)
    texts = [] if array.dtype.kind in "iuf" else [str(cell).strip() for cell in values]
    present = [place for place, text in enumerate(texts) if not is_missing(text)]
    kept = [texts[place] for place in present]
    if kept and all(map(is_number, kept)):
        seconds[present] = list(map(float, kept))
    elif kept:
        seconds[present] = _moments(kept, [place + 1 for place in present], where)
    if np.any(np.isinf(seconds)):
        row = int(np.flatnonzero(np.isinf(seconds))[0]) + 1
        raise InvalidNetwork(f"{where}, row {row}: expected a time, found an infinite number")
    return seconds


def looks_like_times(name: str, cells: Sequence[str]) -> bool:
    """Whether cells seem to be different times: by what they are, and for plain numbers by the column's name too."""
    kept = [cell for cell in cells if not is_missing(cell)]
    if all(map(is_number, kept)) and name.strip().casefold() not in _TIME_NAMES:
        return False
    try:
        return bool(np.unique(as_seconds(kept, name)).size >= min(2, len(kept)) > 0)
    except InvalidNetwork as error:
        return isinstance(error.__cause__, _Ambiguous)


class _Ambiguous(ValueError):
    """Dates of which nobody can tell which number is the month."""


def _moments(texts: Sequence[str], rows: Sequence[int], where: str) -> list[float]:
    """Seconds since 1970 of texts that stand in ``rows``, all in one form."""
    try:
        _, moments = _read_alike(texts, _FORMS)
    except _Unreadable as error:
        raise InvalidNetwork(
            f"{where}, row {rows[error.place]}: expected a time like those before it; write times as "
            "2015-02-04 17:51:00, or as seconds"
        ) from None
    except _Ambiguous as error:
        raise InvalidNetwork(f"{where}: {error}") from error
    if len({moment.tzinfo is None for moment in moments}) > 1:
        raise InvalidNetwork(
            f"{where}: some times have a zone and some have none; write all of them with one, or none of them"
        )
    return [_microseconds(moment) / 1e6 for moment in moments]


def _read_alike(texts: Sequence[str], forms: Sequence[str]) -> tuple[str, list[datetime]]:
    """The form in which all texts are times, and these; ValueError where none fits, or two fit and disagree."""
    fitting: dict[str, list[datetime]] = {}
    furthest = 0
    for form in forms:
        read = _reader(form)
        moments: list[datetime] = []
        try:
            for text in texts:
                moments.append(read(text))
        except ValueError:
            furthest = max(furthest, len(moments))
            continue
        fitting[form] = moments
        if form == _ISO:
            break  # which no other form can be taken for
    if not fitting:
        raise _Unreadable(furthest)
    form, first = next(iter(fitting.items()))
    if any(other != first for other in fitting.values()):
        raise _Ambiguous(
            "the dates do not tell whether they have the day or the month first; write them as 2015-02-04"
        )
    return form, first


def _reader(form: str) -> Callable[[str], datetime]:
    return _iso if form == _ISO else lambda text: datetime.strptime(text, form)


def _iso(text: str) -> datetime:
    if not _ISO_DATE.match(text) or len(text) > _LONGEST_TIME:
        raise ValueError
    return datetime.fromisoformat(text)


def _microseconds(moment: datetime) -> int:
    """Since 1970, by the clock of the zone that it has, or that all times without one share."""
    start = _EPOCH if moment.tzinfo is None else _EPOCH.replace(tzinfo=UTC)
    return (moment - start) // timedelta(microseconds=1)
