"""Which epoch a reading belongs to: one for each step of time, or one for each numbered row."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from veilnet._core.durations import RowStep, duration_in_words, keeps_to, read_step, same_step
from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.missed import LONGEST_GAP
from veilnet.io.agent_store import CLOCKS_SET
from veilnet.io.row_keys import RowKey, Style

_END = 253_402_300_800  # seconds since 1970: the year 10000, which no calendar of the readers' knows
NUMBERED = 10**9  # seconds since 1970: epochs before 2001 are rows that somebody numbered
_AHEAD = 300.0  # seconds: a time further in the future than that and a step is a fault
_ZONES = 14 * 3600.0  # seconds: how far a clock on local time may be ahead of one on UTC
_WEEK = 7 * 86400.0


def middle(newest: Collection[int]) -> int:
    """Where the agent in the middle is; 0 where there is none.

    newest: the newest epoch of each agent. One that is far from all others has a wrong clock, or a false one.
    """
    ordered = sorted(newest)
    return ordered[(len(ordered) - 1) // 2] if ordered else 0


def farthest(newest: Collection[int]) -> int:
    """The last epoch that is not too far ahead of the agent in the middle."""
    return middle(newest) + LONGEST_GAP


def epochs_of(asked: str | None, planned: float | None = None) -> Epochs:
    """The epochs of a plan with that step, None where it has none, with what ``--step`` says."""
    given = read_step(asked, "--step")
    if planned is None:
        return Epochs(given)
    if not keeps_to(given, planned):
        raise InvalidRequest(
            f"--step: an epoch of this plan takes {duration_in_words(planned)}, found {asked}; leave --step "
            "out, or ask for a plan with the other step"
        )
    return Epochs(read_step(planned), planned=given is None)


@dataclass(frozen=True)
class Epochs:
    """From rows of readings (:mod:`veilnet.io.row_keys`) to epochs, counted from 1.

    step: of readings that carry a time. Epochs are then counted from 1970, so that agents agree on them without a
          word.
    planned: whether the plan says so and nobody else: rows may then be numbered all the same.
    """

    step: RowStep | None = None
    planned: bool = False

    def check(self, key: RowKey) -> None:
        """InvalidRequest where readings tell their time and nobody said how long an epoch is, or the other way."""
        if key.is_time and self.step is None:
            raise InvalidRequest(
                "--step: the readings carry times, and the plan does not say how long an epoch is; say so, such as "
                "--step 15min, the same for all (or design the plan with it)"
            )
        if not key.is_time and self.step is not None and not self.planned:
            raise InvalidRequest(
                "--step: the readings carry no times; name their column (--time), or leave --step out and number "
                "them in a column 'row'"
            )

    def in_words(self, key: RowKey) -> str:
        """The way in which epochs are counted: another one gives the same reading another epoch."""
        if not key.is_time:
            return "rows"
        times = {"zoned": "times with a zone", "local": "times without a zone"}.get(key.style, "seconds")
        length = self.step or RowStep(0.0)
        short = f"{length:g}"  # as stores of old have it; to the microsecond where that says less
        steps = f"steps of {short if float(short) == length else f'{length:.6f}'} s"
        return f"{steps}{'' if length.origin is None else f' from {duration_in_words(length.origin)}'} in {times}"

    def of(self, row: int, key: RowKey) -> int:
        """The epoch of a row."""
        if not key.is_time:
            return row
        assert self.step is not None
        return int(self.step.row_at(row - 1))

    def too_soon(self, row: int, key: RowKey, now: float | None = None) -> bool:
        """Whether a reading says it was taken in the future, which would leave no epoch for those until then.

        Seconds that nothing tells the beginning of are counted from 1970, or from later on.
        """
        if not key.is_time or self.step is None:
            return False
        slack = _AHEAD + self.step + (0.0 if key.style == "zoned" else _ZONES)
        return (row - 1) / 1e6 > (time.time() if now is None else now) + slack

    def style_in(self, words: str | None) -> Style | None:
        """The style of the times that epochs were counted from; empty where epochs are rows, None for another step.

        words: the way in which they were counted, as :meth:`in_words` has it.
        """
        if words in (None, "rows"):
            return ""
        styles: tuple[Style, ...] = ("zoned", "local", "seconds")
        return next((style for style in styles if self.in_words(RowKey("time", style)) == words), None)

    def at(self, now: float, style: Style) -> int:
        """The last epoch that readings taken until now can be of, by times of a style: local ones may be ahead."""
        assert self.step is not None
        return int(self.step.row_at(int((now + (0.0 if style == "zoned" else _ZONES)) * 1e6)))

    def is_ahead(self, epoch: int, now: float) -> bool:
        """Whether an epoch is in the future by a clock, in whatever zone its agents' clocks are.

        Never where epochs are rows, nor by a clock that was never set.
        """
        if self.step is None or now < CLOCKS_SET or (self.planned and self.start(epoch) is None):
            return False
        return self.step.time_of(epoch - 1) / 1e6 > now + _AHEAD + _ZONES

    def is_current(self, epoch: int, now: float) -> bool:
        """Whether the time of an epoch is neither ahead of a clock nor more than a week behind it."""
        start = self.start(epoch)
        if start is None or self.step is None or self.is_ahead(epoch, now):
            return False
        return now < CLOCKS_SET or now - start <= _WEEK + 2 * self.step

    def epoch_in(self, words: str, option: str) -> int:
        """The epoch that is meant by its number, or by a time in it (of UTC, where it has no zone)."""
        if words.isdecimal():
            return int(words)
        try:
            found = datetime.fromisoformat(words)
        except ValueError:
            found = None
        if found is None or self.step is None:
            raise InvalidRequest(
                f"{option}: expected the number of an epoch{'' if self.step is None else ', or 2026-11-18T09:00'}, "
                f"found {words[:80]!r}"
            )
        zoned = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        return int(self.step.row_at(round(zoned.timestamp() * 1e6)))

    def seconds(self, epoch: int) -> float:
        """How long after its clock's beginning an epoch was read, where epochs are steps of time."""
        assert self.step is not None
        return self.step.time_of(epoch) / 1e6

    def start(self, epoch: int) -> float | None:
        """When an epoch was read, in seconds since 1970, or began, where nobody said when rows are read.

        None where epochs are rows, or it is beyond all calendars.
        """
        if self.step is None:
            return None
        start = self.step.time_of(epoch)
        earliest = NUMBERED * 10**6 if self.planned else 0
        return start / 1e6 if earliest <= start < _END * 10**6 else None

    def goes_on_as(self, other: Epochs, words: str | None) -> None:
        """InvalidPlan where another plan would give readings other epochs than were sent.

        words: the way in which those that were sent are counted, as :meth:`in_words` has it; None for none.
        """
        if not same_step(other.step, self.step) and words not in (None, "rows"):
            now = "no step of its own" if other.step is None else f"steps of {duration_in_words(other.step)}"
            raise InvalidPlan(
                f"it has {now}, and the epochs sent so far are {words}: readings could be sent twice; "
                "begin another store for it"
            )
