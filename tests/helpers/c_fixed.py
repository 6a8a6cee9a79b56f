"""What an agent with sums of whole numbers makes of random bytes: by Python's integers, which have no end."""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers.c_agents import Taped
from veilnet._core.normal import _FAR, _MIDDLE, _NEAR, _ratio
from veilnet.agent.sanitizer import Sanitizer
from veilnet.export.fixed import Fixed, fixed_of


def sums_of(fixed: Fixed, readings: Any, dither: Any = 0) -> Any:
    """t of rows of floats within their limits, by Python's integers; dither in units of the lattice."""
    low, high = fixed.limits
    floats = np.clip(readings, low, high).astype(float)
    whole = np.floor(np.ldexp(floats, fixed.scale) + 0.5)  # exact, since floats have 24 bits
    v = whole.astype(np.int64).astype(object) - fixed.offset.astype(object) + dither
    return (v @ fixed.rows.T.astype(object)) >> 30


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

    def device(self, agent: Sanitizer, rows: Any) -> Any:
        fixed, many, width = fixed_of(agent), len(rows), agent.readings
        dither = sum(
            (widths.astype(object) * (self.whole(many, width) >> 32)) >> 32 for widths in fixed.dither
        )
        t = sums_of(fixed, rows, dither)
        noisy = np.flatnonzero(agent.recipe.deviation)
        drawn = self._bytes((many, len(noisy)), 12)
        draws = normal_of_floats(
            np.ascontiguousarray(drawn[:, :8]).view("<u8").ravel(),
            np.ascontiguousarray(drawn[:, 8:]).view("<u4").ravel(),
        ).reshape(many, -1)
        added = (draws * agent.recipe.deviation[noisy].astype(np.float32)).astype(float)
        t[:, noisy] += np.floor(np.ldexp(added, fixed.fraction) + 0.5).astype(np.int64).astype(object)
        blur = self.whole(many, agent.recipe.sent) >> (64 - fixed.fraction)
        return (t + blur + 2 ** (fixed.fraction - 1)) >> fixed.fraction
