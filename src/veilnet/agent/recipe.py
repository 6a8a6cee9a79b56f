"""What a sanitizer comes down to when it runs: checks, dither, product, noise and rounding, worked out once.

Nothing here knows where readings come from or where numbers go; :mod:`veilnet.agent.release` does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array, Booleans
from veilnet.agent import grid
from veilnet.agent.memory import Memory, summed_sizes
from veilnet.agent.randomness import NoiseSource

ROWS_AT_ONCE = 2048  # temporaries stay in cache; the draws of a chunk too
_SHORT_ROW = 32
_MOST_DEVIATIONS = 12.0  # no draw of either source is larger
_MOST_STEPS = 2.0**50  # half of what the grid can represent exactly
_FARTHEST = 1e300  # of a reading that nothing depends on, so that an offset can still be added


class _EachRow:
    """A vector to be combined with every row of a chunk, repeated beforehand.

    NumPy's inner loop over a short row costs more than its arithmetic; between equal shapes it runs through.
    """

    def __init__(self, vector: Array) -> None:
        self.vector = vector.reshape(-1)
        self._repeated = np.tile(self.vector, (ROWS_AT_ONCE, 1)) if vector.size <= _SHORT_ROW else None

    def of(self, rows: int) -> Array:
        """Something that broadcasts against so many rows."""
        if self._repeated is None or not 1 < rows <= ROWS_AT_ONCE:
            return self.vector
        return np.asarray(self._repeated[:rows])


@dataclass(frozen=True, eq=False)
class Recipe:
    """What a sanitizer comes down to, worked out once; or those of S agents alike, who keep nothing. Their readings
    and their numbers then stand side by side in a row, agent after agent.

    whose:       the agent, for messages; empty where the sanitizer has none.
    readings:    how many a row has; their ``offset``, None where there is none, and ``names``.
    memory:      what is kept from row to row, None where nothing is.
    limits:      what each reading counts as at least and at most: its credible limits, and no further than the grid
                 can hide the rounding errors of its sums (:func:`reach`); infinite without either.
    dither:      widths of the uniform draws that move each reading first: none, those of one draw, or of two.
    step:        of the grid of each number sent, None without a grid; ``unit`` the same for whole blocks.
    rows:        C', (S, n, k) of several agents, and
    deviation:   that of the noise, both in units of the grid's steps: powers of two, so that the numbers are the
                 same to the last bit.
    draw:        rows of noise in the same units, None where nothing is added.
    """

    whose: str

    readings: int
    memory: Memory | None
    offset: _EachRow | None
    limits: tuple[_EachRow, _EachRow]
    names: tuple[str, ...]
    dither: tuple[_EachRow, ...]
    step: Array | None
    rows: Array
    unit: _EachRow
    deviation: Array
    draw: Callable[[NoiseSource, int], Array] | None

    def examine(self, rows: Array) -> tuple[Array, Booleans]:
        """The rows within their limits and without their offset, and which of them may be released: those of numbers,
        (T,), of several agents (T, S).

        A reading beyond its limits counts as the limit: that a row is missing would be learned without any noise.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            alone = rows if self.rows.ndim == 2 else rows.reshape(len(rows), *self.rows.shape[:2])
            valid = np.asarray(np.isfinite(alone @ np.ones(alone.shape[-1])))
            rows = np.clip(rows, *(edge.of(len(rows)) for edge in self.limits))
            return rows if self.offset is None else rows - self.offset.of(len(rows)), valid

    def beyond(self, rows: Array) -> Booleans:
        """Which readings of some rows are beyond their limits, and count as these."""
        low, high = (edge.vector for edge in self.limits)
        return np.asarray(np.isfinite(rows) & ((rows < low) | (rows > high)))

    @property
    def sent(self) -> int:
        """How many numbers are sent for a row."""
        return int(self.deviation.size)

    @property
    def speaker(self) -> str:
        """``kitchen: ``, how a message about this agent begins."""
        return f"{self.whose}: " if self.whose else ""

    def sanitize(self, centred: Array, source: NoiseSource) -> Array:
        """The numbers to send for rows that may be released, where there is no memory."""
        return self.combine(self.dithered(centred, source), source)

    def dithered(self, centred: Array, source: NoiseSource) -> Array:
        """The rows, each reading moved by the uniform draws of its step."""
        for widths in self.dither:
            centred = np.asarray(centred + source.uniform(centred.shape) * widths.of(len(centred)))
        return centred

    def combine(self, known: Array, source: NoiseSource) -> Array:
        """The numbers to send of what the agent knows in each row: its dithered readings, after its memory."""
        if self.rows.ndim == 2:
            values = known @ self.rows
        else:
            apart = np.swapaxes(known.reshape(len(known), *self.rows.shape[:2]), 0, 1)
            values = np.swapaxes(apart @ self.rows, 0, 1).reshape(len(known), -1)
        if self.draw is not None:
            values += self.draw(source, len(values))
        if self.step is None:
            return values
        values = grid.rounded_to_grid(values, self.deviation, source)
        values *= self.unit.of(len(values))
        return values

    def reason(self, row: Array) -> str:
        """Why a row is refused, without its values."""
        for trouble, what in ((np.isnan(row), "is missing"), (np.isinf(row), "is infinite")):
            if trouble.any():
                return f"{self._reading(trouble)} {what}"
        return "the readings are too large to be added up"

    def _reading(self, trouble: Booleans) -> str:
        place = int(np.argmax(trouble))
        return f"reading {self.names[place]!r}" if self.names else f"reading {place + 1}"


def prepare(
    *,
    agent: str,
    compression: Array,
    noise: Array,
    noise_root: Array,
    offset: Array,
    grid_step: Array | None,
    limits: tuple[Array, Array],
    steps: Array,
    draws: Array,
    names: tuple[str, ...],
    memory: Memory | None,
) -> Recipe:
    """The recipe of a sanitizer given by its parts (see :class:`veilnet.Sanitizer`); noise_root'noise_root = Θ.

    Of S agents alike every array has an axis (S, ...) in front; they keep nothing, and Θ is diagonal.
    InvalidNetwork where its grid does not go with its noise or its compression.
    """
    whose = f"{agent}: " if agent else ""
    deviation = np.sqrt(np.maximum(np.diagonal(noise, axis1=-2, axis2=-1), 0.0))
    if grid_step is not None and np.any(deviation * _MOST_DEVIATIONS >= grid_step * _MOST_STEPS):
        raise InvalidNetwork(
            f"{whose}the grid is too fine for noise so large; "
            "take it from grid_steps(covariance of what is sent)"
        )
    step = np.ones(deviation.shape) if grid_step is None else grid_step
    with np.errstate(over="ignore", under="ignore"):
        rows = compression / step[..., None]
        if not np.array_equal(rows * step[..., None], compression):
            raise InvalidNetwork(
                f"{whose}the grid is out of proportion to the compression; "
                "take it from grid_steps(covariance of what is sent)"
            )
    if grid_step is not None:
        far = reach(compression, grid_step, memory)
        ends = (offset - far, offset + far)
        limits = (np.clip(limits[0], *ends), np.clip(limits[1], *ends))
    if grid_step is not None and memory is not None and memory.start is not None:
        _check_start(memory, compression, grid_step, whose)
    return Recipe(
        whose=agent,
        readings=offset.size,
        memory=memory,
        offset=_EachRow(offset) if np.any(offset) else None,
        limits=(_EachRow(limits[0]), _EachRow(limits[1])),
        names=names,
        dither=tuple(
            _EachRow(np.where(draws >= many, steps, 0.0)) for many in (1, 2) if np.any(draws >= many)
        ),
        step=grid_step,
        rows=np.ascontiguousarray(_turned(rows)),
        unit=_EachRow(step),
        deviation=(deviation / step).reshape(-1),
        draw=_drawing(noise, noise_root, (deviation / step).reshape(-1), step),
    )


class Memories(Protocol):
    """The memory of one agent, or the memories of a stack of them: F and K of each."""

    @property
    def transition(self) -> Array | None:
        """F, (..., k, k)."""

    @property
    def gain(self) -> Array | None:
        """K, (..., k, n)."""


def reach(compression: Array, grid_step: Array, memory: Memories | None) -> Array:
    """How far from its offset each of n readings may be for the grid to hide the rounding errors of its sums, (n,).

    With the weights w of :func:`veilnet.agent.grid.crossing_weights`, readings within LIMIT / (n w_k) each keep their
    sum, the chance that an error crosses a boundary, below the LIMIT. Also of stacks, (..., m, k + n).
    """
    felt = compression
    if memory is not None and memory.transition is not None and memory.gain is not None:
        felt = _sensitivity(compression, memory.transition, memory.gain)
    weights = grid.crossing_weights(felt, grid_step)
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum(grid.CROSSING_LIMIT / (weights.shape[-1] * weights), _FARTHEST))


def _sensitivity(compression: Array, transition: Array, gain: Array) -> Array:
    """What stands in C's place where readings are weighed (:func:`veilnet.agent.grid.crossing_weights`).

    Rounding errors of a number are at most u (k + n + 1) times |C_y| |y_t| + |C_s| |s_t| for its own sum, plus what
    the errors of earlier states, each at most u (k + n + 1) (|F| |s| + |K| |y|), have become. Written as
    Σ_j a_j |y_{t-j}|, the weights of all rows sum to at most a = |C_y| + |C_s| B + D (|F| B + |K|), B = Σ|F^j K|,
    D = Σ|C_s F^j|. If every reading that was let in satisfies n a_i |y_i| ≤ b for each i, then
    Σ_j a_j |y_{t-j}| ≤ b, in any row. A factor of two is for the order in which blocks are summed
    (:mod:`veilnet.agent.stream`).
    """
    kept, readings = gain.shape[-2:]
    direct, through = np.abs(compression[..., kept:]), compression[..., :kept]
    held = summed_sizes(transition, gain)
    driven = np.abs(transition) @ held + np.abs(gain)
    passed_on = summed_sizes(_turned(transition), _turned(through))
    weights = direct + np.abs(through) @ held + _turned(passed_on) @ driven
    return np.asarray(weights * (2 * (kept + readings + 1) / (readings + 1)))


def _turned(stack: Array) -> Array:
    return np.asarray(np.swapaxes(stack, -1, -2))


def _check_start(memory: Memory, compression: Array, step: Array, whose: str) -> None:
    """Refuse a drawn memory so large that the rounding of its sums could cross a boundary of the grid.

    With |F^j s| ≤ A for all j of a drawn memory s, the errors of :func:`_sensitivity` are here at most
    |C_s| A + D |F| A. They add to what readings may cross: both together stay below twice the limit.
    """
    assert memory.start is not None
    reached = memory.reached(_MOST_DEVIATIONS * np.sqrt(np.diag(memory.start)))
    through = compression[:, : memory.order]
    errors = np.abs(through) @ reached + memory.passed_on(through) @ (np.abs(memory.transition) @ reached)
    crossing = float(np.sum(errors / step)) * (memory.order + memory.readings + 1) * 2.0**-51
    if not crossing <= grid.CROSSING_LIMIT:
        raise InvalidNetwork(
            f"{whose}start: a memory drawn so large would leave rounding errors that the grid does not hide; "
            "expected a smaller covariance, or a coarser grid"
        )


def _drawing(
    noise: Array, noise_root: Array, deviation: Array, step: Array
) -> Callable[[NoiseSource, int], Array] | None:
    """How to draw rows of noise with covariance Θ, in units of steps; None where nothing is added."""
    noisy = deviation > 0
    if not noisy.any():
        return None
    if np.any(noise * (1.0 - np.eye(noise.shape[-1]))):
        root = noise_root / step
        return lambda source, count: np.asarray(source.normal((count, len(root))) @ root)
    columns = np.flatnonzero(noisy)
    scale = _EachRow(deviation[columns])

    def draw(source: NoiseSource, count: int) -> Array:
        noise = source.normal((count, len(columns)))
        noise *= scale.of(count)
        if len(columns) == len(deviation):
            return noise
        spread = np.zeros((count, len(deviation)))
        spread[:, columns] = noise
        return spread

    return draw
