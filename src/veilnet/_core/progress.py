"""How long computations tell how far they have come, and how they are asked to stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, float], bool | None]
"""Called now and then with (what is being done, fraction done from 0 to 1).

Answering ``False`` asks the computation to stop cleanly: it returns what it has, marked as interrupted.
Any other answer, None among them, lets it go on. What it raises passes through, and so does Ctrl-C.
"""


class Stopped(Exception):
    """Progress answered False. Caught where the result is put together; no caller of veilnet sees it."""


def silent(_what: str, _part: float) -> None:
    """The progress of those who gave none."""


def asks_to_stop(answer: bool | None) -> bool:
    """Whether an answer of progress is ``False``, from Python or NumPy."""
    return answer is not None and not answer


class Teller:
    """Passes progress on, and raises :class:`Stopped` when the answer is False: the search ends where it is."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress

    def __call__(self, stage: str, fraction: float) -> None:
        if self._progress is not None and asks_to_stop(self._progress(stage, fraction)):
            raise Stopped


class Watched:
    """Passes progress of several steps on, each a part of the whole, and remembers whether an answer was to stop."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = silent if progress is None else progress
        self.stopped = False
        self.start, self.part, self.prefix = 0.0, 1.0, ""

    def __call__(self, what: str, part: float) -> bool | None:
        answer = self._progress(f"{self.prefix}{what}", self.start + self.part * part)
        self.stopped |= asks_to_stop(answer)
        return answer


def within(progress: Progress, what: str, start: float, part: float) -> Callable[[float], None]:
    """Progress of one step, from 0 to 1, as a ``part`` of the whole from ``start``; raises :class:`Stopped`."""

    def advance(done: float) -> None:
        if asks_to_stop(progress(what, start + part * done)):
            raise Stopped

    return advance
