"""How a search is to go: where it begins, and how it reports and is stopped."""

from __future__ import annotations

from dataclasses import dataclass

from veilnet._core.progress import Progress, Stopped, asks_to_stop


class Teller:
    """Passes progress on, and raises :class:`Stopped` when the answer is False: the search ends where it is."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress

    def __call__(self, stage: str, fraction: float) -> None:
        if self._progress is not None and asks_to_stop(self._progress(stage, fraction)):
            raise Stopped


@dataclass(frozen=True)
class SearchOptions:
    """What a caller says of a search.

    starts:   how many; None for as many as suit the size.
    seed:     what they are drawn from.
    progress: called with what is being done.
    expected: whether a search was asked for by name: then it is said where a closed form answers instead.
    """

    starts: int | None = None
    seed: int = 0
    progress: Progress | None = None
    expected: bool = False

    @property
    def tell(self) -> Teller:
        """Progress as the solvers tell it."""
        return Teller(self.progress)
