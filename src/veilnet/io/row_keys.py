"""What tells one row of a stream from another, so that the centre can align agents: a count, a number or a time.

    counted  nobody told: the line's place among the readings, the header not counted
    row      a whole number that came with the readings
    time     when they were taken, in one of three styles that a stream keeps: with a zone (written in UTC, with
             a Z), without one, or as seconds counted from anywhere

Inside, each is a positive whole number that grows along the stream; a time is its microseconds, from 1970 or
from where the seconds start, and one, since a clock may begin at zero. Times are written anew from that number,
so nothing that stands in a field beside the time leaves an agent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal

from veilnet.io.times import iso_moment, microseconds

__all__ = ["COUNTED", "ROW", "RowKey", "Style", "key_named", "read_time"]

LARGEST_ROW = 2**62
_EPOCH = datetime(1970, 1, 1)
_LONGEST_TIME = 40  # characters
_MOST_SECONDS = 10**11  # the year 5138; more is a count of milliseconds
_NUMBER = re.compile(r"\d+(\.\d*)?([eE]\+?\d\d?)?")

Style = Literal["", "zoned", "local", "seconds"]


@dataclass(frozen=True)
class RowKey:
    """How the rows of a stream are told apart; ``name`` is the column, ``style`` that of times."""

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

    @property
    def characters(self) -> bytes:
        """What its text is made of."""
        return b"-0123456789T:.Z" if self.is_time else b"0123456789"


COUNTED, ROW = RowKey("counted"), RowKey("row")
_TIMES = {style: RowKey("time", style) for style in ("zoned", "local", "seconds")}


def key_named(name: str) -> RowKey | None:
    """The key of a column of this name; the style of times is told by the first."""
    return {"counted": COUNTED, "row": ROW, "time": RowKey("time")}.get(name)


def read_time(text: str) -> tuple[int, RowKey]:
    """A time as a row and its key; ValueError says what is wrong with it, and never quotes it."""
    text = text.strip()
    if _NUMBER.fullmatch(text) and len(text) <= _LONGEST_TIME:
        seconds = Decimal(text)
        if seconds >= _MOST_SECONDS:
            raise ValueError("the time is too large for seconds; write seconds, not milliseconds")
        return int((seconds * 10**6).to_integral_value()) + 1, _TIMES["seconds"]
    moment = iso_moment(text)
    if moment is None:
        raise ValueError(
            "the time is not readable; write 2015-02-04 17:51:00, with a zone if there is one, or seconds"
        )
    row = microseconds(moment) + 1
    if row < 1:
        raise ValueError("the time is before 1970")
    return row, _TIMES["local" if moment.tzinfo is None else "zoned"]
