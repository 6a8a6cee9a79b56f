"""Sums of whole numbers, exact, for devices that compute doubles in software.

A reading is a float. It is rounded once, to a lattice of h = 2⁻ᵉ; from there on nothing is rounded before all are
added up. v = (y - offset)/h has 46 bits, and so has K = C h 2ᶠ⁺³⁰/g, rounded; g is the step of the release grid.
Σ K_k v_k is exact, and t, this sum in units of 2⁻ᶠ g, rounded down, depends on the readings through it alone. Noise
is computed in floats, before it is added: no reading is a part of it. At last every number is moved by a uniform
draw of one step, of F bits, and rounded to whole steps.

**What shows.** Two rows of readings with the same Cy differ in t, in steps, by at most

    Σ_j (2⁻ᶠ + Σ_k (|C_jk| h_k/g_j + |ΔK_jk| s_k 2⁻ᶠ⁻³⁰)),

where ΔK is what was lost by rounding K, and s_k how many h a reading can be apart from another. The uniform draw
puts a boundary of the grid between the two with at most this chance, and no more is to be gained from low bits (as
in :mod:`veilnet.agent.grid`).

**The noise.** A draw in floats is within 3e-6 of the one that doubles make of the same random bytes, in deviations
(tests compare them): its variance is what was promised, to some millionths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.errors import InvalidPlan
from veilnet._core.types import AnyArray
from veilnet.agent.sanitizer import Sanitizer

_SHOWS = 2.0**-20  # the chance that the rounding of readings to their lattice shows in a row
_BITS = 46  # of a reading and of a coefficient: two parts of 15 and 31 bits
_DROPPED = 30  # lowest bits of their products, after the sum
_LARGEST_SUM = 2.0**60
_MOST_DEVIATIONS = 12.0  # no draw is larger
_FRACTIONS = (16, 52)
_EXPONENTS = (-100, 100)  # of lattices, in floats


@dataclass(frozen=True)
class Fixed:
    """What ``veilnet_plan.h`` has for sums of whole numbers.

    fraction: F.
    scale:    e of each reading; its ``offset`` in units of h, and ``limits`` in its own unit, as floats.
    dither:   widths of the uniform draws of readings, in units of h.
    rows:     K.
    shows:    the chance, at most, that rounding shows in a row.
    """

    fraction: int
    scale: AnyArray
    offset: AnyArray
    limits: tuple[AnyArray, AnyArray]
    dither: AnyArray
    rows: AnyArray
    shows: float


def fixed_of(agent: Sanitizer) -> Fixed:
    """The whole numbers of an agent; InvalidPlan where they do not fit."""
    recipe = agent.recipe
    assert agent.grid is not None
    rows = recipe.rows.T  # in steps of the grid
    weights = np.sum(np.abs(rows), axis=0) * agent.readings
    widths = np.array([each.vector for each in recipe.dither]).reshape(-1, agent.readings)
    finest = np.max(widths, axis=0, initial=0.0) * 2.0 ** (2 - _BITS)  # two draws take half of the room
    wanted = _SHOWS / np.where(weights > 0, weights, _SHOWS)
    exponents = np.floor(np.log2(np.maximum(wanted, finest)))
    lattice = np.ldexp(1.0, exponents.astype(int))
    sums = float(np.max(np.sum(np.abs(rows) * lattice, axis=1)))
    spread = np.max(np.sum(np.abs(agent.noise_root / agent.grid), axis=0), initial=1.0)
    fractions = (
        np.log2(2.0 ** (_BITS - 1) / sums) - _DROPPED,
        np.log2(_LARGEST_SUM / (_MOST_DEVIATIONS * spread)),
        float(_FRACTIONS[1]),
    )
    fraction = int(np.floor(min(fractions)))
    exactly = np.ldexp(rows * lattice, fraction + _DROPPED)
    whole = np.rint(exactly)
    offset = np.rint(agent.offset / lattice)
    drawn = np.rint(widths / lattice)
    room = 2.0 ** (_BITS - 1) - 1 - np.sum(drawn, axis=0) / 2
    low, high = (edge.vector for edge in recipe.limits)
    limits = _inside(np.maximum(low, (offset - room) * lattice), np.minimum(high, (offset + room) * lattice))
    mean, deviation = (agent.offset, 0.0) if agent.usual is None else agent.usual
    fits = (
        fraction >= _FRACTIONS[0]
        and _EXPONENTS[0] <= exponents.min()
        and exponents.max() <= _EXPONENTS[1]
        and np.all(np.abs(limits) / lattice < 2.0**62)
        and np.all(np.abs(mean - agent.offset) + _MOST_DEVIATIONS * deviation <= room * lattice)
    )
    if not fits:
        raise InvalidPlan(
            f"--arithmetic: expected double for {agent.agent}, found fixed: its readings, offsets or noise are too "
            "large for whole numbers of 64 bits that are precise enough for its grid"
        )
    span = (limits[1] - limits[0]) / lattice + np.sum(drawn, axis=0)
    lost = np.abs(exactly - whole) * np.ldexp(span, -fraction - _DROPPED)
    return Fixed(
        fraction=fraction,
        scale=-exponents.astype(np.int8),
        offset=offset.astype(np.int64),
        limits=(limits[0].astype(np.float32), limits[1].astype(np.float32)),
        dither=drawn.astype(np.int64),
        rows=whole.astype(np.int64),
        shows=float(np.sum(np.abs(rows) * lattice + lost) + len(rows) * 2.0**-fraction),
    )


def _inside(low: AnyArray, high: AnyArray) -> AnyArray:
    """Both as floats that are not outside."""
    below, above = low.astype(np.float32), high.astype(np.float32)
    below = np.where(below < low, np.nextafter(below, np.float32(np.inf)), below)
    above = np.where(above > high, np.nextafter(above, -np.float32(np.inf)), above)
    return np.array([below, above], dtype=np.float64)
