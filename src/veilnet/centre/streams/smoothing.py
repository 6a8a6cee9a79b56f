"""Looking back: estimates that wait for later rows.

An estimate also uses the rows after its own, up to a lag, or all there are. With q_t = observe' news^-1
(what was new) + (I - gain observe)' r_t and r_{t-1} = transition' q_t, r = 0 at the last row that is used, the
estimate of X_t is that of row t plus P_t r_t, and its error P_t - P_t R_t P_t, where R follows the same recursion
from observe' news^-1 observe (de Jong's form, which inverts no error covariance). Rows whose followers came in the
same patterns go back together.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from veilnet._core.types import Array, Integers
from veilnet.centre.streams.steps import Step
from veilnet.centre.streams.tracking import Tracked

Smoothed = tuple[Array, list[Array], list[Step]]
"""(states, error covariances, steps) of some rows, the oldest first; rows of one kind share a covariance."""


class Smoother:
    """Holds rows back until ``lag`` later ones have come.

    lag: how many later rows an estimate waits for; None for all of them.
    """

    def __init__(self, lag: int | None) -> None:
        self._lag = lag
        self._states: Array = np.zeros((0, 0))
        self._pulls: Array = np.zeros((0, 0))
        self._steps: list[Step] = []

    @property
    def waiting(self) -> int:
        """How many rows are held back."""
        return len(self._steps)

    def add(self, tracked: Tracked) -> Smoothed:
        """What can be said of after these rows too."""
        if not self._steps:
            self._states, self._pulls = tracked.states, tracked.pulls
        else:
            self._states = np.concatenate([self._states, tracked.states])
            self._pulls = np.concatenate([self._pulls, tracked.pulls])
        self._steps += [step for step in tracked.steps if isinstance(step, Step)]
        ready = 0 if self._lag is None else max(0, len(self._steps) - self._lag)
        return self._back(ready)

    def end(self) -> Smoothed:
        """The rows that are still held back, as no more come."""
        if self._lag is None or self._lag >= len(self._steps):
            return self._all()
        return self._back(len(self._steps))

    def _back(self, ready: int) -> Smoothed:
        """Look back at the first ``ready`` rows, each from up to ``lag`` rows later."""
        states = self._states[:ready].copy()
        errors: list[Array] = [np.zeros((0, 0))] * ready
        for rows, ahead in self._alike(ready):
            pulled, known = self._recursion(rows, ahead)
            step = self._steps[int(rows[0])]
            states[rows] += pulled @ step.error
            error = step.error - step.error @ known @ step.error
            error = (error + error.T) / 2
            for row in rows.tolist():
                errors[row] = error
        steps = self._steps[:ready]
        self._states, self._pulls, self._steps = (
            self._states[ready:],
            self._pulls[ready:],
            self._steps[ready:],
        )
        return states, errors, steps

    def _alike(self, ready: int) -> Iterator[tuple[Integers, list[Step]]]:
        """Rows with the same step and the same steps after them, and those steps, nearest first."""
        lag = 0 if self._lag is None else self._lag
        groups: dict[tuple[int, ...], list[int]] = {}
        kinds = [id(step) for step in self._steps]
        for row in range(ready):
            groups.setdefault(tuple(kinds[row : row + lag + 1]), []).append(row)
        for rows in groups.values():
            yield np.array(rows), self._steps[rows[0] + 1 : rows[0] + lag + 1]

    def _recursion(self, rows: Integers, ahead: list[Step]) -> tuple[Array, Array]:
        """(r, R) at these rows."""
        size = self._states.shape[1]
        pulled, known = np.zeros((len(rows), size)), np.zeros((size, size))
        for distance in range(len(ahead), 0, -1):
            step = ahead[distance - 1]
            pulled = (self._pulls[rows + distance] + pulled @ step.left) @ step.row.transition
            known = _known_before(step, known)
        return pulled, known

    def _all(self) -> Smoothed:
        """Every row from all later ones: one way back."""
        count, size = len(self._steps), self._states.shape[1]
        states, errors = self._states.copy(), [np.zeros((0, 0))] * count
        pulled, known = np.zeros(size), np.zeros((size, size))
        for row in range(count - 1, -1, -1):
            step = self._steps[row]
            states[row] += step.error @ pulled
            error = step.error - step.error @ known @ step.error
            errors[row] = (error + error.T) / 2
            pulled = (self._pulls[row] + pulled @ step.left) @ step.row.transition
            known = _known_before(step, known)
        steps, self._steps = self._steps, []
        return states, errors, steps


def _known_before(step: Step, known: Array) -> Array:
    """What a row and those after it tell about the state before it, given what those after it say about the row."""
    gained = step.pull @ step.row.observe + step.left.T @ known @ step.left
    found = step.row.transition.T @ gained @ step.row.transition
    return np.asarray((found + found.T) / 2)
