"""Sums of whole numbers, exact, for devices that compute doubles in software.

A reading is a float. It is rounded once, to a lattice of h = 2⁻ᵉ; from there on nothing is rounded before all are
added up. v = (y - offset)/h has 55 bits, and so has K = C h 2ᶠ⁺⁴⁸/g, rounded; g is the step of the release grid.
Σ K_k v_k is exact, and t, this sum in units of 2⁻ᶠ g, rounded down, depends on the readings through it alone. Then
noise is added, a whole number of these units too. At last every number is moved by a uniform draw of one step, of F
bits, and rounded to whole steps.

**What shows.** Two rows of readings with the same Cy differ in t, in steps, by at most

    Σ_j (2⁻ᶠ + Σ_k (|C_jk| h_k/g_j + |ΔK_jk| s_k 2⁻ᶠ⁻⁴⁸)),

where ΔK is what was lost by rounding K, and s_k how many h a reading can be apart from another. The uniform draw
puts a boundary of the grid between the two with at most this chance, and no more is to be gained from low bits (as
in :mod:`veilnet.agent.grid`).

**A memory** s = F s + K v is kept in 55 bits too, in units of its own, hˢ. M = (F, K) in these units, times 2⁴⁸⁺ᴿ,
is rounded once. Every new s is rounded down to whole numbers: its errors are at most e = 1 + Σ |ΔM| s 2⁻⁴⁸⁻ᴿ, in hˢ.
What they become is Σ_i |C_s Fⁱ| hˢ e for each number. And what a reading lost by its lattice stays in the memory: the
place of |C_jk| above is taken by |C_y| + |C_s| Σ_i |Fⁱ K|.

**The noise.** A normal draw is a polynomial of √(-log₂ 2p) for each whole part of that, fitted to the quantile of
doubles, in units of 2⁻²⁷ (:func:`quantile`). It is within 3e-7 of the one that doubles make of the same random bytes,
in deviations (tests compare them): its variance is what was promised, to less than a millionth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.errors import InvalidPlan
from veilnet._core.normal import lower_quantile
from veilnet._core.types import AnyArray
from veilnet.agent.grid import CROSSING_LIMIT
from veilnet.agent.sanitizer import Sanitizer

_SHOWS = 2.0**-24  # the chance that the rounding of readings to their lattice shows in a row
_BITS = 55  # of a reading, of a number kept and of a coefficient: two parts of 24 and 31 bits
_DROPPED = 48  # lowest bits of their products, after the sum
_LARGEST_NOISE = 2.0**50  # deviation, in units of 2^-F of a step
_DRAWN_PLACES = 27  # of a normal draw; widths have 5 more, since their product with one is divided by 2^32
_MOST_DEVIATIONS = 12.0  # no draw is larger
_FRACTIONS = (16, 52)
_PIECES, _DEGREE = 10, 8  # s is below 9.8
_MOST_REST = 6  # a coefficient of 1 then has all bits
_OFTEN = 128.0  # deviations of its usual law within which no reading is cut off: an audit tries a hundred
_EXPONENTS = (-100, 100)  # of lattices, in floats


@dataclass(frozen=True)
class Fixed:
    """What ``veilnet_plan.h`` has for sums of whole numbers.

    fraction: F.
    scale:    e of each reading; its ``offset`` in units of h, and ``limits`` in its own unit, as floats.
    dither:   widths of the uniform draws of readings, in units of h.
    rows:     K; ``noise`` the same for draws, with 5 bits more.
    next:     M of a memory, and R; ``start`` what it is drawn by, in units of 2⁻⁵ hˢ.
    shows:    the chance, at most, that rounding shows in a row.
    """

    fraction: int
    scale: AnyArray
    offset: AnyArray
    limits: tuple[AnyArray, AnyArray]
    dither: AnyArray
    rows: AnyArray
    noise: AnyArray
    next: AnyArray
    rest: int
    start: AnyArray
    shows: float


def fixed_of(agent: Sanitizer) -> Fixed:
    """The whole numbers of an agent; InvalidPlan where they do not fit."""
    recipe, kept = agent.recipe, _Kept(agent)
    assert agent.grid is not None
    rows = recipe.rows.T  # in steps of the grid
    through, direct = np.abs(rows[:, : kept.order]), np.abs(rows[:, kept.order :])
    felt = direct + through @ kept.held
    # a memory has room for the largest readings, so its unit is in proportion to theirs
    weights = np.sum(felt + 2 * kept.passed_on @ kept.held, axis=0) * agent.readings
    widths = np.array([each.vector for each in recipe.dither]).reshape(-1, agent.readings)
    finest = np.max(widths, axis=0, initial=0.0) * 2.0 ** (2 - _BITS)  # two draws take half of the room
    wanted = _SHOWS / np.where(weights > 0, weights, _SHOWS)
    mean, deviation = (agent.offset, np.zeros(agent.readings)) if agent.usual is None else agent.usual
    usual = (np.abs(mean - agent.offset) + _OFTEN * deviation) * 2.0 ** (2 - _BITS)
    far = np.abs(agent.offset) * 2.0**-61
    exponents = np.floor(np.log2(np.max([wanted, finest, usual, far], axis=0)))
    lattice = np.ldexp(1.0, exponents.astype(int))
    largest = kept.largest(2.0 ** (_BITS - 1) * lattice)
    units = np.concatenate([np.exp2(np.ceil(np.log2(largest)) - _BITS + 1), lattice])
    spread = np.max(np.sum(np.abs(agent.noise_root / agent.grid), axis=0), initial=1.0)
    sums = _room_above(rows * units)
    fraction = int(min(sums, np.floor(np.log2(_LARGEST_NOISE / spread)), _FRACTIONS[1]))
    then = kept.matrix * units / units[: kept.order, None]
    rest = int(min(_room_above(then), _MOST_REST))
    offset = np.rint(agent.offset / lattice)
    drawn = np.rint(widths / lattice)
    room = 2.0 ** (_BITS - 1) - 1 - np.sum(drawn, axis=0) / 2
    low, high = (edge.vector for edge in recipe.limits)
    limits = _inside(np.maximum(low, (offset - room) * lattice), np.minimum(high, (offset + room) * lattice))
    span = (limits[1] - limits[0]) / lattice + np.sum(drawn, axis=0)
    spans = np.concatenate([2 * largest / units[: kept.order], span])
    whole, lost = _rounded(rows * units, fraction, spans)
    following, faded = _rounded(then, rest, spans)
    each = felt @ lattice + kept.passed_on @ (units[: kept.order] * (1 + faded)) + lost + 2.0**-fraction
    shows = float(np.sum(each))
    fits = (
        fraction >= _FRACTIONS[0]
        and rest >= 0
        and (agent.usual is not None or not kept.order)
        and shows <= CROSSING_LIMIT
        and _EXPONENTS[0] <= exponents.min()
        and exponents.max() <= _EXPONENTS[1]
        and np.all(np.abs(limits) / lattice < 2.0**62)
    )
    if not fits:
        raise InvalidPlan(
            f"--arithmetic: expected double for {agent.agent}, found fixed. Its readings, memory or noise are "
            "too large for whole numbers of 64 bits, or its plan does not say how large they are"
        )
    return Fixed(
        fraction=fraction,
        scale=-exponents.astype(np.int8),
        offset=offset.astype(np.int64),
        limits=(limits[0].astype(np.float32), limits[1].astype(np.float32)),
        dither=drawn.astype(np.int64),
        rows=whole,
        noise=_widths(rows_of_noise(agent) * 2.0**fraction),
        next=following,
        rest=rest,
        start=_widths(kept.start / units[: kept.order, None]),
        shows=shows,
    )


def rows_of_noise(agent: Sanitizer) -> AnyArray:
    """How a row of draws moves the numbers sent, in steps of the grid: each its own, or all together."""
    assert agent.grid is not None
    deviation = agent.recipe.deviation
    if np.any(agent.noise - np.diag(np.diag(agent.noise))):
        return np.asarray(agent.noise_root / agent.grid)
    return np.diag(deviation)[deviation > 0]


def quantile() -> AnyArray:
    """Polynomials of u, from -1 to 1, by falling powers: the quantile of 2^(-1 - s²) for s = k + (1 + u)/2."""
    nodes = np.sin(np.linspace(-np.pi, np.pi, 2 * _DEGREE + 3)[1::2] / 2)  # of Chebyshev
    middles = np.arange(_PIECES)[:, None] + 0.5
    values = lower_quantile(np.exp2(-1.0 - (middles + nodes / 2) ** 2))
    falling = np.linalg.solve(np.vander(nodes), values.T).T
    return np.asarray(np.rint(np.ldexp(falling, _DRAWN_PLACES)), dtype=np.int32)


def _widths(of_draws: AnyArray) -> AnyArray:
    return np.asarray(np.rint(np.ldexp(of_draws, 32 - _DRAWN_PLACES)), dtype=np.int64)


class _Kept:
    """The memory of an agent, of no numbers where it has none: (F, K), Σ|Fⁱ K|, Σ|C_s Fⁱ|, and what a start is."""

    def __init__(self, agent: Sanitizer) -> None:
        self._memory = memory = agent.memory
        self.order = 0 if memory is None else memory.order
        self.start: AnyArray = np.zeros((self.order, 0))
        if memory is None:
            self.matrix, self.held = np.zeros((2, 0, agent.readings))
            self.passed_on: AnyArray = np.zeros((agent.recipe.sent, 0))
            return
        self.matrix = np.hstack([memory.transition, memory.gain])
        self.held = memory.held
        self.passed_on = memory.passed_on(agent.recipe.rows.T[:, : self.order])
        if memory.start_root is not None:
            self.start = memory.start_root

    def largest(self, readings: AnyArray) -> AnyArray:
        """What each number kept can be, of readings that can be so much."""
        drawn = _MOST_DEVIATIONS * np.sum(np.abs(self.start), axis=1)
        reached = drawn if self._memory is None else self._memory.reached(drawn)
        return np.asarray(np.maximum(self.held @ readings + reached, 2.0 ** _EXPONENTS[0]) * 1.01)


def _room_above(matrix: AnyArray) -> float:
    """Binary places, above those dropped, that leave the sums of all rows below what their products may be."""
    most = float(np.max(np.sum(np.abs(matrix), axis=1), initial=0.0))
    return float(np.floor(_BITS - 1 - np.log2(most))) - _DROPPED if most else np.inf


def _rounded(matrix: AnyArray, places: int, spans: AnyArray) -> tuple[AnyArray, AnyArray]:
    """A matrix in whole numbers, to so many places and 48, and what a row loses of columns that differ so much."""
    exactly = np.ldexp(matrix, places + _DROPPED)
    whole = np.rint(exactly)
    return whole.astype(np.int64), np.abs(exactly - whole) @ np.ldexp(spans, -places - _DROPPED)


def _inside(low: AnyArray, high: AnyArray) -> AnyArray:
    """Both as floats that are not outside."""
    below, above = low.astype(np.float32), high.astype(np.float32)
    below = np.where(below < low, np.nextafter(below, np.float32(np.inf)), below)
    above = np.where(above > high, np.nextafter(above, -np.float32(np.inf)), above)
    return np.array([below, above], dtype=np.float64)
