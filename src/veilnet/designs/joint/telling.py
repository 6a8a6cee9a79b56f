"""Progress inside the solver: the caller's answer False ends the search where it is."""

from __future__ import annotations

from veilnet._core.progress import Progress, Stopped, asks_to_stop


class Teller:
    """Passes progress on, and raises :class:`Stopped` when the answer is False."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress

    def __call__(self, stage: str, fraction: float) -> None:
        if self._progress is not None and asks_to_stop(self._progress(stage, fraction)):
            raise Stopped
