"""What an agent with sums of whole numbers makes of random bytes: by Python's integers, which have no end."""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers.c_agents import Taped
from veilnet._core.normal import _FAR, _MIDDLE, _NEAR, _ratio
from veilnet.agent.sanitizer import Sanitizer
from veilnet.export.fixed import _DROPPED, Fixed, fixed_of


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


def normal_of_floats(leading: Any, trailing: Any) -> Any:
    """The draw that 96 bits stand for, in floats: AS 241 with a logarithm of its own."""
    f = np.float32
    upper, lower = leading >> np.uint64(33), (leading >> np.uint64(1)) & np.uint64(2**32 - 1)
    whole = upper.astype(f) * f(2.0**32) + lower.astype(f)
    p = (whole + (trailing.astype(f) + f(0.5)) * f(2.0**-32)) * f(2.0**-64)
    part, power = np.frexp(p)
    power, part = power - (part < f(0.70710678)), np.where(part < f(0.70710678), part + part, part)
    s = (part - f(1)) / (part + f(1))
    t = s * s
    series = f(1) / f(3) + t * (f(1) / f(5) + t * (f(1) / f(7) + t * (f(1) / f(9))))
    root = np.sqrt(-(power.astype(f) * f(0.69314718) + f(2) * s * (f(1) + t * series)))
    q = p - f(0.5)
    middle = q * _ratio(_MIDDLE, f(0.425 * 0.425) - q * q)
    tails = np.where(root > f(5), _ratio(_FAR, root - f(5)), _ratio(_NEAR, root - f(1.6)))
    draws = np.where(q < f(-0.425), -tails, middle)
    return np.where(leading & np.uint64(1), -draws, draws)


class WholeNumbers(Taped):
    """A tape that also says what a device makes of it: sums, noise and dither of each row."""

    def whole(self, rows: int, many: int) -> Any:
        return self._bytes((rows, many), 8).view("<i8").reshape(rows, many).astype(object)

    def floats(self, shape: tuple[int, ...]) -> Any:
        drawn = self._bytes(shape, 12)
        leading = np.ascontiguousarray(drawn[:, :8]).view("<u8").ravel()
        return normal_of_floats(leading, np.ascontiguousarray(drawn[:, 8:]).view("<u4").ravel()).reshape(
            shape
        )

    def begun(self, fixed: Fixed) -> Any:
        """A memory at its start."""
        drawn = fixed.start * self.floats(fixed.start.shape[1:]) if fixed.start.size else fixed.start
        return np.sum(nearest(drawn), axis=1)

    def device(self, agent: Sanitizer, rows: Any) -> Any:
        """Whole steps of each row that has all readings, and anything of the others."""
        fixed, many, width = fixed_of(agent), len(rows), agent.readings
        there = np.isfinite(rows).all(axis=1)
        kept, states = self.begun(fixed), []
        dither = sum(
            (widths.astype(object) * (self.whole(many, width) >> 32)) >> 32 for widths in fixed.dither
        )
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
        noisy = np.flatnonzero(agent.recipe.deviation)
        if noisy.size:
            drawn = self.floats((many, len(noisy))) * agent.recipe.deviation[noisy].astype(np.float32)
            t[:, noisy] += nearest(drawn, fixed.fraction)
        blur = self.whole(many, agent.recipe.sent) >> (64 - fixed.fraction)
        return (t + blur + 2 ** (fixed.fraction - 1)) >> fixed.fraction


def nearest(floats: Any, places: int = 0) -> Any:
    """The nearest whole numbers to so many binary places."""
    return np.floor(np.ldexp(floats.astype(float), places) + 0.5).astype(np.int64).astype(object)
