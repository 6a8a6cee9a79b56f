"""Are an agent's readings other than its file says, in their resolution or beyond their limits? Seen from themselves,
said once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from veilnet._core.types import Array
from veilnet._core.words import join_names
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.lattice import ENOUGH_ROWS, step_of

_MOST_ROWS = 4 * ENOUGH_ROWS
# of a step: how far a stated step may be from a multiple of the one seen, itself not known better
_WHOLE = 0.05
_FINE = 1 / 256  # of what readings vary by: with finer steps, what is withheld has thousands of candidates


class LatticeWatch:
    """Looks at the first rows of a stream, keeps nothing afterwards.

    A stated step protects if it is a whole multiple of the step seen: dither over several steps covers each. Readings
    that show no lattice need none. Where the step seen is a whole multiple of the one stated, all readings lie on the
    lattice as stated, and in few rows often by chance on a coarser one (minutes' means have steps of 1/2, 1/3, 1/4 of
    a digit, and common ones that are finer still); that is no matter while it is fine. Anything else is worth a word,
    and the readings are sent all the same: they may be few, and the agent's file is not for the agent to mend.
    Of an agent that is no sanitizer there is nothing to say.
    """

    def __init__(self, sanitizer: Sanitizer | Any) -> None:
        if not isinstance(sanitizer, Sanitizer):  # symbols are not numbers on a lattice
            self._done, self._recipe = True, None
            return
        self._names = sanitizer.labels
        self._stated = sanitizer.resolution
        self._rows: list[Array] = []
        self._count = 0
        # What is sent whole, or not at all, has nothing withheld that a lattice could betray.
        rank = int(np.linalg.matrix_rank(sanitizer.compression)) if sanitizer.sent else 0
        whole = 0 if sanitizer.order else sanitizer.readings
        self._done = not np.any(sanitizer.noise) and rank in (0, whole)
        self._recipe = sanitizer.recipe if sanitizer.sent else None

    def look(self, readings: Array) -> str:
        """What there is to say after these rows (T, N_i): a sentence, once, or nothing."""
        return "; ".join(filter(None, (self._beyond(readings), self._lattice(readings))))

    def _beyond(self, readings: Array) -> str:
        """Said the first time: a sensor at fault, or limits that are wrong, are for the owner to find."""
        if self._recipe is None or not len(readings):
            return ""
        beyond = self._recipe.beyond(readings).any(axis=0)
        if not beyond.any():
            return ""
        self._recipe = None
        names = [self._names[k] for k in np.flatnonzero(beyond)]
        return f"beyond the limits, and counted as these (said once): {join_names(names)}"

    def _lattice(self, readings: Array) -> str:
        if self._done or not len(readings):
            return ""
        kept = readings[: _MOST_ROWS - self._count]
        self._rows.append(np.array(kept[np.all(np.isfinite(kept), axis=1)]))
        self._count += len(self._rows[-1])
        if self._count < _MOST_ROWS:
            return ""
        return self.conclude()

    def conclude(self) -> str:
        """What there is to say of the rows seen, where they are enough and nothing was said before."""
        if self._done or self._count < ENOUGH_ROWS:
            return ""
        self._done = True
        seen = np.concatenate(self._rows)
        self._rows = []
        steps = np.array([step_of(column) for column in seen.T])
        if self._stated is None:
            shown = [f"{n} ({s:.3g})" for n, s in zip(self._names, steps, strict=True) if s > 0]
            if not shown:
                return ""
            return (
                f"readings move in steps, but the plan states no resolution: {join_names(shown)}; exact numbers "
                "protect only continuous readings: state it in the network and design again"
            )
        ratio = self._stated / np.where(steps > 0, steps, 1.0)
        covered = (steps == 0) | ((ratio > 0.5) & (np.abs(ratio - np.rint(ratio)) < _WHOLE))
        parts = steps / np.where(self._stated > 0, self._stated, np.inf)
        within = (parts > 0.5) & (np.abs(parts - np.rint(parts)) < _WHOLE)
        covered |= within & (steps < _FINE * np.std(seen, axis=0))
        wrong = [
            f"{name} (steps of {step:.3g}, stated {stated:.3g})"
            for name, step, stated, fine in zip(self._names, steps, self._stated, covered, strict=True)
            if not fine
        ]
        if not wrong:
            return ""
        return (
            f"readings do not have the resolution that the plan states: {join_names(wrong)}; what is withheld can be "
            "computed from what is sent: state it in the network and design again"
        )
