"""What an agent with sums of whole numbers makes of random bytes: by Python's integers, which have no end."""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np

from helpers.c_agents import Taped
from veilnet.agent.sanitizer import Sanitizer
from veilnet.export.fixed import _DROPPED, Fixed, fixed_of, quantile


def whole_readings(fixed: Fixed, readings: Any, dither: Any = 0) -> Any:
    """v of rows of floats within their limits, as Python's integers; dither in units of the lattice."""
    low, high = fixed.limits
    floats = np.clip(readings, low, high).astype(float)
    whole = np.floor(np.ldexp(floats, fixed.scale) + 0.5)  # exact, since floats have 24 bits
    return whole.astype(np.int64).astype(object) - fixed.offset.astype(object) + dither


def remembered(fixed: Fixed, kept: Any, readings: Any) -> Any:
    """What is kept after a row v, of what was kept before."""
    return (fixed.next.astype(object) @ np.concatenate([kept, readings])) >> (_DROPPED + fixed.rest)


def sums_of(fixed: Fixed, known: Any) -> Any:
    """t of rows of what is known: what is kept, and v."""
    return (known @ fixed.rows.T.astype(object)) >> _DROPPED


def moved(widths: Any, draws: Any) -> Any:
    """What draws make of widths."""
    return (widths.astype(object) * draws) >> 32


@np.vectorize
def _root(leading: int, trailing: int) -> int:
    """√(-log2 2p) in units of 2^-26, of the p that 96 bits stand for."""
    whole = (leading >> 1 << 33) | (trailing << 1) | 1
    zeros, x = 96 - whole.bit_length(), 0
    number = whole << zeros >> 64
    for _ in range(28):
        number *= number
        x = 2 * x + (number >> 63)
        number >>= 31 + (number >> 63)
    return isqrt((((zeros + 1) << 28) - x) << 24)


def normal_of_integers(leading: Any, trailing: Any) -> Any:
    """The draw that 96 bits stand for, in units of 2^-27."""
    root = _root(leading.astype(object), trailing.astype(object)).astype(object)
    table, found = quantile().astype(object), 0
    for by in table[(root >> 26).astype(int)].T:
        found = by + ((found * (2 * (root % 2**26) - 2**26)) >> 26)
    return np.where(leading & np.uint64(1), -found, found)


class WholeNumbers(Taped):
    """A tape that also says what a device makes of it: sums, noise and dither of each row."""

    def whole(self, rows: int, many: int) -> Any:
        return self._bytes((rows, many), 8).view("<i8").reshape(rows, many).astype(object)

    def drawn(self, shape: tuple[int, ...]) -> Any:
        bits = self._bytes(shape, 12)
        leading, trailing = (np.ascontiguousarray(part) for part in (bits[:, :8], bits[:, 8:]))
        return normal_of_integers(leading.view("<u8").ravel(), trailing.view("<u4").ravel()).reshape(shape)

    def begun(self, fixed: Fixed) -> Any:
        """A memory at its start."""
        draws = self.drawn(fixed.start.shape[1:]) if fixed.start.size else 0
        return np.sum(moved(fixed.start, draws), axis=1)

    def device(self, agent: Sanitizer, rows: Any) -> Any:
        """Whole steps of each row that has all readings, and anything of the others."""
        fixed, many, width = fixed_of(agent), len(rows), agent.readings
        there = np.isfinite(rows).all(axis=1)
        kept, states = self.begun(fixed), []
        dither = sum(moved(widths, self.whole(many, width) >> 32) for widths in fixed.dither)
        known = whole_readings(fixed, np.nan_to_num(rows), dither)
        if agent.memory is not None:
            for row, came in zip(known, there, strict=True):
                if came or agent.memory.start is None:
                    kept = remembered(fixed, kept, row if came else 0 * row)
                else:
                    kept = self.begun(fixed)
                states.append(kept)
            known = np.hstack([states, known])
        t = sums_of(fixed, known)
        if fixed.noise.size:
            t += np.sum(moved(fixed.noise, self.drawn((many, len(fixed.noise)))[:, :, None]), axis=1)
        blur = self.whole(many, agent.recipe.sent) >> (64 - fixed.fraction)
        return (t + blur + 2 ** (fixed.fraction - 1)) >> fixed.fraction
