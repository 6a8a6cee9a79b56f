"""What a centre does with a stream: whole blocks, one row after another, late messages, and looking back."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from veilnet._core.errors import InvalidReading
from veilnet._core.missed import MISSED
from veilnet._core.threads import one_thread
from veilnet._core.types import Array
from veilnet.centre.contradictions import Contradiction
from veilnet.centre.estimates import Estimate
from veilnet.centre.streams.gains import Gains
from veilnet.centre.streams.model import StreamModel
from veilnet.centre.streams.smoothing import Smoothed, Smoother
from veilnet.centre.streams.steps import Stated
from veilnet.centre.streams.tracking import StreamGate, Tracker

_ROWS_AT_ONCE = 2048


class Follower:
    """Goes through a stream block by block, in constant memory; looks back where a lag is given.

    tracker: at row 1.
    lag:     rows an estimate waits for; 0 for none, None for all that come.
    """

    def __init__(self, tracker: Tracker, lag: int | None) -> None:
        self._tracker, self._model = tracker, tracker.model
        self._smoother = None if lag == 0 else Smoother(lag)
        # of rows whose estimates wait, counted from the first of these
        self._doubts: list[Contradiction] = []

    @property
    def rows(self) -> int:
        """How many rows have come."""
        return self._tracker.rows

    def add(self, stacked: Array) -> Estimate:
        """Take in rows (T, M); the estimates that are ready."""
        found: list[Estimate] = []
        for start in range(0, max(len(stacked), 1), _ROWS_AT_ONCE):
            waiting = 0 if self._smoother is None else self._smoother.waiting
            rows = stacked[start : start + _ROWS_AT_ONCE]
            with one_thread():
                tracked = self._tracker.advance(rows, pulls=self._smoother is not None)
            self._doubts += [replace(doubt, row=doubt.row + waiting) for doubt in tracked.doubts]
            if self._smoother is None:
                errors = [step.public for step in tracked.steps]
                found.append(self._doubted(_public(self._model, tracked.public, errors, tracked.steps)))
            else:
                found.append(self._doubted(self._looked_back(self._smoother.add(tracked))))
        return _joined(found)

    def end(self) -> Estimate:
        """The estimates that were waiting for rows that will not come."""
        if self._smoother is None:
            return _public(self._model, np.zeros((0, len(self._model.public))), [], [])
        return self._doubted(self._looked_back(self._smoother.end()))

    def _doubted(self, ready: Estimate) -> Estimate:
        """The estimates that are ready, with what was doubted in their rows."""
        rows = len(ready.public)
        mine = tuple(doubt for doubt in self._doubts if doubt.row < rows)
        self._doubts = [replace(each, row=each.row - rows) for each in self._doubts if each.row >= rows]
        return replace(ready, contradictions=mine) if mine else ready

    def _looked_back(self, smoothed: Smoothed) -> Estimate:
        states, errors, steps = smoothed
        found: dict[int, Array] = {}
        for error, step in zip(errors, steps, strict=True):
            if id(error) not in found:
                public = self._model.public @ error @ self._model.public.T
                public[np.isnan(step.public)] = np.nan
                public[np.isinf(step.public)] = np.inf
                found[id(error)] = public
        public = states @ self._model.public.T
        return _public(self._model, public, [found[id(error)] for error in errors], steps)


class StreamFusion:
    """Estimates of the public parameters of a stream.

    model:   what the agents send.
    gate:    the false-alarm rate at which messages are tested before they are used; None for no test.
    keep:    name messages that contradict the model, and use them all the same.
    history: how many rows back a late message may come to :meth:`update`.
    """

    is_stream = True

    def __init__(self, model: StreamModel, gate: float | None, *, keep: bool, history: int) -> None:
        self.model = model
        self.gains = Gains(model)
        self.gate = None if gate is None else StreamGate(model, gate, keep=keep)
        self._live = Tracker(model, self.gains, self.gate)
        self._doubts: list[Contradiction] = []  # in the newest row
        self._past: deque[tuple[Tracker, Array]] = deque(maxlen=history)

    def estimate(self, stacked: Array, lag: int | None) -> Estimate:
        """All rows (T, M) of a stream from row 1 on, each from those up to ``lag`` later."""
        follower = self.follow(lag)
        return _joined([follower.add(stacked), follower.end()])

    def follow(self, lag: int | None) -> Follower:
        """Something that goes through the stream from row 1 on, taking in blocks of rows one after another."""
        return Follower(Tracker(self.model, self.gains, self.gate), lag)

    def update(self, numbers: Array, row: int | None) -> Estimate:
        """Take in what arrived of a row (M,), the next one when left out; the estimate of the newest row."""
        newest = self._live.rows
        row = newest + 1 if row is None else row
        if row <= newest:
            self._late(numbers, row)
        else:
            nothing = np.full(len(numbers), np.nan)
            for _ in range(newest + 1, row):
                self._take(nothing)
            self._take(numbers)
        step = self._live.step
        assert step is not None
        public = self._live.state[None, :] @ self.model.public.T
        found = _public(self.model, public, [step.public], [step]).one_row()
        return replace(found, contradictions=tuple(self._doubts)) if self._doubts else found

    def _take(self, numbers: Array) -> None:
        self._past.append((self._live.copy(), numbers))
        self._doubts = self._live.advance(numbers[None, :]).doubts

    def _late(self, numbers: Array, row: int) -> None:
        """Go back to before a row, add what came late, and on again: the estimate is as if it had been in time."""
        back = self._live.rows - row + 1
        if back > len(self._past):
            raise InvalidReading(
                f"row: {row} comes {back - 1} rows late, and only the last {len(self._past)} can still be changed; "
                "leave the message out, or give Fusion a longer history="
            )
        given = [arrived for _, arrived in list(self._past)[-back:]]
        come = np.isfinite(numbers) | (numbers == MISSED)
        there = np.isfinite(given[0]) | (given[0] == MISSED)
        if np.any(come & there):
            number = int(np.argmax(come & there))
            place = int(np.searchsorted(self.model.blocks.starts, number, side="right")) - 1
            raise InvalidReading(
                f"messages: {self.model.agents[place]!r} sent row {row} before; send each row once"
            )
        given[0] = np.where(come, numbers, given[0])
        start = list(self._past)[-back][0]
        for _ in range(back):
            self._past.pop()
        self._live = start.copy()
        for arrived in given:
            self._take(arrived)


def _public(model: StreamModel, public: Array, errors: list[Array], steps: Sequence[Stated]) -> Estimate:
    """Estimates of the public rows, counted from their mean; rows with the same step and error share a covariance."""
    keys = [(id(error), id(step)) for error, step in zip(errors, steps, strict=True)]
    public = public + model.public_expected
    found = Estimate.of_rows(
        model, public, keys,
        lambda row: (errors[row], steps[row].estimable, steps[row].pattern.silent_agents),
    )  # fmt: skip
    if not found.set_estimable.all():
        public[~found.estimable] = np.nan
    return found


def _joined(parts: Sequence[Estimate]) -> Estimate:
    """Rows after rows."""
    found = [part for part in parts if len(part.public)] or [parts[0]]
    ends = np.cumsum([len(part.public) for part in found])
    rows = [np.arange(end - len(part.public), end) for part, end in zip(found, ends, strict=True)]
    return found[0] if len(found) == 1 else Estimate.joined(list(zip(rows, found, strict=True)))
