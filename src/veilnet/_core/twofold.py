"""Arithmetic with twice the digits: a number is the unevaluated sum of two doubles, about 32 decimal digits.

Sums and products of doubles are split into their rounded value and the rounding error, without any loss (Dekker,
1971; Knuth, 1969); the pair is then renormalised. Everything works on arrays, entry by entry, and needs nothing
of the processor beyond IEEE doubles.

- T. J. Dekker, "A floating-point technique for extending the available precision", Numer. Math. 18, 1971.
- Y. Hida, X. S. Li, D. H. Bailey, "Algorithms for quad-double precision floating point arithmetic", ARITH 2001.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from veilnet._core.types import Array

_SPLITTER = 134217729.0  # 2^27 + 1 cuts a double into two halves of 26 bits


@dataclass(frozen=True, eq=False)
class Twofold:
    """An array of numbers high + low, with ``low`` below half a unit in the last place of ``high``."""

    high: Array
    low: Array

    @classmethod
    def of(cls, doubles: Any) -> Twofold:
        """The given doubles, exactly."""
        high = np.array(doubles, dtype=np.float64)
        return cls(high, np.zeros_like(high))

    @classmethod
    def zeros(cls, shape: tuple[int, ...]) -> Twofold:
        """Zeros."""
        return cls(np.zeros(shape), np.zeros(shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.high.shape

    @property
    def T(self) -> Twofold:
        """The last two axes exchanged."""
        return Twofold(np.swapaxes(self.high, -1, -2), np.swapaxes(self.low, -1, -2))

    def __getitem__(self, key: Any) -> Twofold:
        return Twofold(self.high[key], self.low[key])

    def __setitem__(self, key: Any, value: Twofold) -> None:
        self.high[key] = value.high
        self.low[key] = value.low

    def __neg__(self) -> Twofold:
        return Twofold(-self.high, -self.low)

    def __add__(self, other: Twofold) -> Twofold:
        total, error = _two_sum(self.high, other.high)
        small, further = _two_sum(self.low, other.low)
        total, error = _quick_two_sum(total, error + small)
        return Twofold(*_quick_two_sum(total, error + further))

    def __sub__(self, other: Twofold) -> Twofold:
        return self + -other

    def __mul__(self, other: Twofold) -> Twofold:
        product, error = _two_product(self.high, other.high)
        error = error + (self.high * other.low + self.low * other.high)
        return Twofold(*_quick_two_sum(product, error))

    def __truediv__(self, other: Twofold) -> Twofold:
        first = Twofold.of(self.high / other.high)
        rest = self - first * other
        second = Twofold.of(rest.high / other.high)
        rest = rest - second * other
        return first + second + Twofold.of(rest.high / other.high)

    def __matmul__(self, other: Twofold) -> Twofold:
        """The matrix product, term by term: as many steps as there are terms in each sum."""
        shape = np.broadcast_shapes(self.shape[:-2], other.shape[:-2])
        total = Twofold.zeros((*shape, self.shape[-2], other.shape[-1]))
        for k in range(self.shape[-1]):
            total = total + self[..., :, k, None] * other[..., None, k, :]
        return total

    def scaled(self, powers: Array) -> Twofold:
        """Times powers of two, without any rounding."""
        return Twofold(self.high * powers, self.low * powers)

    def reshaped(self, *shape: int) -> Twofold:
        """The same numbers in another shape."""
        return Twofold(self.high.reshape(shape), self.low.reshape(shape))

    def total(self) -> Twofold:
        """The sum over the first axis, in pairs."""
        rest = self
        while rest.shape[0] > 1:
            half = rest.shape[0] // 2
            odd = rest[2 * half :]
            rest = rest[:half] + rest[half : 2 * half]
            if odd.shape[0]:
                rest = Twofold(np.concatenate([rest.high, odd.high]), np.concatenate([rest.low, odd.low]))
        return rest[0] if rest.shape[0] else Twofold.zeros(rest.shape[1:])


def stack_blocks(rows: list[list[Twofold]]) -> Twofold:
    """A matrix (or a stack of matrices) put together from blocks."""
    return Twofold(
        np.concatenate([np.concatenate([b.high for b in row], axis=-1) for row in rows], axis=-2),
        np.concatenate([np.concatenate([b.low for b in row], axis=-1) for row in rows], axis=-2),
    )


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _quick_two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    return total, b - (total - a)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    product = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _halves(a: Array) -> tuple[Array, Array]:
    wide = _SPLITTER * a
    high = wide - (wide - a)
    return high, a - high
