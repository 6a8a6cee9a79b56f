"""Ratios measured in one run: two ways take turns, so that a busy machine slows both alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple


class Comparison(NamedTuple):
    """Processor seconds per call of the subject and of the reference, and how many times the latter it takes."""

    subject: float
    reference: float

    @property
    def ratio(self) -> float:
        """Subject time over reference time."""
        return self.subject / self.reference


def compare(
    subject: Callable[[], Any], reference: Callable[[], Any], *, turns: int = 15, seconds: float = 0.02
) -> Comparison:
    """The best of several turns of each, interleaved; each turn repeats the call for about ``seconds``."""
    repeats = [_repeats(each, seconds) for each in (subject, reference)]
    best = [float("inf"), float("inf")]
    for _ in range(turns):
        for side, each in enumerate((subject, reference)):
            best[side] = min(best[side], _time(each, repeats[side]))
    return Comparison(best[0], best[1])


def once(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of one call, which others on the machine change little, and what it returned."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def _repeats(work: Callable[[], Any], seconds: float) -> int:
    work()
    return max(1, int(seconds / max(_time(work, 1), 1e-9)))


def _time(work: Callable[[], Any], repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        work()
    return (time.process_time() - start) / repeats


def markdown(columns: list[str], rows: list[list[str]]) -> str:
    """A table as Markdown, as the README shows it."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
