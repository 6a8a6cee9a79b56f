"""An agent's stream: a sanitizer that runs row after row and remembers.

Each row goes through the same steps: checked, dithered, into the memory, combined with it, noise added, rounded to
the grid. What is rounded or noisy never enters the memory. A reading that may not be released counts as missed, as
does one that never came: the agent sends nothing but the fact, and its memory begins anew
(:mod:`veilnet.agent.memory`).

The memory of a block of rows is worked out without a loop over rows, s_t = F s_{t-1} + b_t by doubling: if every row
holds the sum of the last m terms F^j b_{t-j}, then adding F^m times the row m before makes it the last 2m. Within
short pieces first, then from piece to piece, so that most of the work is done a few times for each row. The sums are
those of the loop up to rounding, in another order.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidReading, InvalidRequest
from veilnet._core.missed import MISSED
from veilnet._core.types import AnyArray, Array, Integers
from veilnet._core.validation import as_vector
from veilnet.agent.randomness import NoiseSource
from veilnet.agent.recipe import ROWS_AT_ONCE, Recipe
from veilnet.agent.release import NotPrivate, readings_as_numbers


class Stream:
    """What one agent sends row after row; :meth:`veilnet.Sanitizer.stream` begins one.

    recipe: what the sanitizer comes down to.
    source: where noise and dither come from.
    state:  the memory after the last row; left out, it begins anew.

    A stream cannot be copied or pickled: both would go on to send the same rows.
    """

    def __init__(self, recipe: Recipe, source: NoiseSource, state: Any = None) -> None:
        if recipe.step is None:
            raise InvalidNetwork(
                f"{recipe.speaker}no grid is set, so the low bits of what is sent would not be protected; "
                "take the sanitizer from a plan, or give it one with replace(grid=...)"
            )
        self._recipe = recipe
        self._source = source
        memory = recipe.memory
        self._filter = None if memory is None else Filter(memory.transition, memory.gain)
        self._order = 0 if memory is None else memory.order
        self._state = self._anew() if state is None else as_vector(state, "state", self._order)
        self.rows = 0

    @property
    def state(self) -> Array:
        """The memory after the last row: as private as the readings it was made of."""
        return self._state.copy()

    def sanitize(self, readings: Any) -> AnyArray:
        """What the agent sends for the next rows, which count as passed afterwards.

        readings: one row (N_i,) or a block (T, N_i), in order.

        A row in which a reading is not finite was missed: it is infinite in every number, of which nothing may be
        sent but the fact. Readings of a wrong shape or type raise InvalidReading, and the stream is where it was.
        """
        numbers = readings_as_numbers(readings, self._recipe)
        rows = numbers.reshape(-1, self._recipe.readings)
        values = np.empty((len(rows), self._recipe.sent))
        for start in range(0, len(rows), ROWS_AT_ONCE):
            chunk = rows[start : start + ROWS_AT_ONCE]
            values[start : start + len(chunk)] = self._advance(chunk)[0]
        shaped = values.reshape(*numbers.shape[:-1], self._recipe.sent)
        return shaped if self._source.private else shaped.view(NotPrivate)

    def skip(self, rows: int = 1) -> None:
        """Rows without a reading: the memory begins anew after them, and nothing may be sent but the fact.

        rows: how many were missed.
        """
        if not isinstance(rows, int | np.integer) or isinstance(rows, bool) or rows < 0:
            raise InvalidRequest(f"rows: expected a whole number of missed rows, found {rows!r}")
        self.rows += int(rows)
        self._miss(int(rows))

    def advance(self, rows: Array) -> tuple[Array, dict[int, str]]:
        """(values, reasons) of at most :data:`ROWS_AT_ONCE` rows (T, N_i): why each row that was missed was.

        rows: readings, not a number where there is none.
        """
        if rows.ndim != 2 or rows.shape[1] != self._recipe.readings or len(rows) > ROWS_AT_ONCE:
            raise InvalidReading(
                f"rows: expected up to {ROWS_AT_ONCE} rows of {self._recipe.readings} readings"
            )
        values, missed = self._advance(rows)
        return values, {int(place): self._recipe.reason(rows[place]) for place in missed}

    def _advance(self, rows: Array) -> tuple[Array, Integers]:
        centred, valid = self._recipe.examine(rows)
        known = self._recipe.dithered(centred, self._source)
        missed = np.flatnonzero(~valid)
        if missed.size:
            known = np.where(valid[:, None], known, 0.0)
        states = np.zeros((len(known), self._order))
        after = 0
        for place in [*missed.tolist(), len(known)]:
            if self._filter is not None and place > after:
                states[after:place] = self._filter.run(self._state, known[after:place])
                self._state = states[place - 1].copy()
            if place < len(known):
                self._miss(1)
            after = place + 1
        self.rows += len(known)
        values = self._recipe.combine(np.concatenate([states, known], axis=1), self._source)
        if missed.size:
            values[missed] = MISSED
        return values, missed

    def _miss(self, rows: int) -> None:
        """Rows without a reading."""
        memory = self._recipe.memory
        if memory is None or not rows:
            return
        if memory.start is None:
            self._state = np.linalg.matrix_power(memory.transition, rows) @ self._state
        else:
            self._state = self._anew()

    def _anew(self) -> Array:
        """A memory that holds nothing of any reading."""
        root = None if self._recipe.memory is None else self._recipe.memory.start_root
        if root is None:
            return np.zeros(self._order)
        return np.asarray(root @ self._source.normal((self._order,)))

    def __reduce__(self) -> NoReturn:
        raise InvalidRequest("a stream cannot be copied: both would send the same rows")

    def __repr__(self) -> str:
        return f"Stream({self._recipe.speaker}{self.rows} rows so far)"


_PIECE = 8  # rows, by three doublings
_FEW = 4  # rows for which a loop costs less


class Filter:
    """The states s_t = F s_{t-1} + K y_t over blocks of rows, the powers of F worked out once.

    transition: F, stable.
    gain:       K.
    """

    def __init__(self, transition: Array, gain: Array) -> None:
        self._gain = np.ascontiguousarray(gain.T)
        self._transition = np.ascontiguousarray(transition.T)
        powers = [np.eye(len(transition))]
        for _ in range(_PIECE):
            powers.append(powers[-1] @ self._transition)
        self._within = np.concatenate(powers[1:], axis=1)  # F^1 ... F^piece side by side
        self._doubled = [powers[1], powers[2], powers[4], powers[8]]

    def run(self, state: Array, inputs: Array) -> Array:
        """s after each row (T, k), from the state before and the rows (T, n) that enter; zeros for one missed."""
        driven = inputs @ self._gain
        if len(driven) <= _FEW:
            for place, row in enumerate(driven):
                row += state @ self._transition
                state = driven[place]
            return np.asarray(driven)
        whole = len(driven) - len(driven) % _PIECE
        states = np.empty(driven.shape)
        if whole:
            states[:whole] = self._pieces(state, driven[:whole])
            state = states[whole - 1]
        for place in range(whole, len(driven)):
            state = states[place] = driven[place] + state @ self._transition
        return states

    def _pieces(self, state: Array, driven: Array) -> Array:
        order = driven.shape[1]
        local = driven.reshape(-1, _PIECE, order)
        for level, length in enumerate((1, 2, 4)):
            local[:, length:] += local[:, :-length] @ self._doubled[level]
        ends = local[:, -1].copy()
        ends[0] += state @ self._doubled[3]
        self._across(ends)
        before = np.concatenate([state[None, :], ends[:-1]])
        local += (before @ self._within).reshape(-1, _PIECE, order)
        return np.asarray(local.reshape(-1, order))

    def _across(self, ends: Array) -> None:
        """The same from piece to piece, in place."""
        level, length = 3, 1
        while length < len(ends):
            if level == len(self._doubled):
                self._doubled.append(self._doubled[-1] @ self._doubled[-1])
            ends[length:] += ends[:-length] @ self._doubled[level]
            level, length = level + 1, 2 * length
