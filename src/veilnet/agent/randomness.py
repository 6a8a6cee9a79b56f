"""Where the noise of a sanitizer comes from.

Two sources, and no third. :class:`SystemNoise` turns the entropy of the operating system into normal draws
and keeps no state of its own, so there is nothing a fork could duplicate, a pickle could carry away or a
memory image could replay. :class:`SeededNoise` repeats itself on purpose, for simulations, and says of
itself that it is not private.

What is drawn, exactly
----------------------
Each draw uses 96 fresh bits: one for the sign, 95 for an integer k, and is ± the normal quantile of p = (k
+ 1/2) / 2⁹⁶, which lies in [2⁻⁹⁷, 1/2). Evaluated in floating point, p carries a relative error below 2⁻⁵¹,
so tails are as accurate as the body: quantiles of a 53-bit uniform stop at 8.29 σ, these at 11.4 σ, a point
that a perfect normal passes with probability 2⁻⁹⁶. No draw is infinite. Around the centre neighbouring
draws lie about 2⁻⁵³ σ apart.

Every draw costs the same number of bits and the same array operations whatever its size, because the time a
sampler takes can betray how much noise it drew (Jin et al., 2022). The logarithm itself may still
branch, within nanoseconds. None of this makes the low bits of a *sum* safe (Mironov, 2012; Haney et al.,
2022): whatever is released goes through :mod:`veilnet.agent.grid`.

- I. Mironov, "On significance of the least significant bits for differential privacy", CCS 2012.
- J. Jin, E. McMurtry, B. Rubinstein, O. Ohrimenko, "Are we there yet? Timing and floating-point attacks on
  differential privacy systems", IEEE S&P 2022.
- S. Haney, D. Desfontaines, L. Hartman, R. Shrestha, M. Hay, "Precision-based attacks and interval
  refining", 2022.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veilnet._core.errors import VeilnetError
from veilnet._core.normal import lower_quantile
from veilnet._core.types import Array

BYTES_PER_DRAW = 12
_DRAWS_PER_CHUNK = 1 << 14  # temporaries stay in cache and below half a megabyte, whatever is asked for


class NoiseSource(ABC):
    """Standard normal and uniform draws, and whether they may protect anything."""

    private: bool
    """True only if the draws cannot be repeated."""

    @abstractmethod
    def normal(self, shape: tuple[int, ...]) -> Array:
        """Independent standard normal draws, one per entry of ``shape``."""

    @abstractmethod
    def uniform(self, shape: tuple[int, ...]) -> Array:
        """Independent uniform draws between -1/2 and 1/2, one per entry of ``shape``."""


class SystemNoise(NoiseSource):
    """Draws from the operating system's entropy; no state, hence safe to fork, pickle, copy and share."""

    private = True

    def normal(self, shape: tuple[int, ...]) -> Array:
        draws = np.empty(math.prod(shape))
        for start in range(0, draws.size, _DRAWS_PER_CHUNK):
            chunk = draws[start : start + _DRAWS_PER_CHUNK]
            count = chunk.size
            entropy = os.urandom(BYTES_PER_DRAW * count)
            leading = np.frombuffer(entropy, np.uint64, count)
            trailing = np.frombuffer(entropy, np.uint32, count, offset=8 * count)
            chunk[:] = normal_from_bits(leading, trailing)
        return draws.reshape(shape)

    def uniform(self, shape: tuple[int, ...]) -> Array:
        """As said, each of 64 bits."""
        draws = np.empty(math.prod(shape))
        for start in range(0, draws.size, _DRAWS_PER_CHUNK):
            chunk = draws[start : start + _DRAWS_PER_CHUNK]
            np.multiply(np.frombuffer(os.urandom(8 * chunk.size), np.int64), 2.0**-64, out=chunk)
        return draws.reshape(shape)


@dataclass(frozen=True)
class SeededNoise(NoiseSource):
    """Draws from a generator that can be repeated: for simulations only. What it produces is not private."""

    generator: np.random.Generator
    private = False  # who knows the seed can subtract the noise

    def normal(self, shape: tuple[int, ...]) -> Array:
        return self.generator.standard_normal(shape)

    def uniform(self, shape: tuple[int, ...]) -> Array:
        return self.generator.random(shape) - 0.5


def noise_source(rng: np.random.Generator | int | None = None) -> NoiseSource:
    """The source an ``rng=`` argument stands for: None is secure, a generator or a seed is a simulation."""
    if rng is None:
        return SystemNoise()
    if isinstance(rng, np.random.Generator):
        return SeededNoise(rng)
    if isinstance(rng, int | np.integer) and not isinstance(rng, bool) and rng >= 0:
        return SeededNoise(np.random.default_rng(int(rng)))
    raise VeilnetError(
        "rng: expected None (secure noise) or, to simulate, a numpy.random.Generator or a non-negative seed, "
        f"found {type(rng).__name__}; leave it out to protect readings, pass a generator to simulate"
    )


def normal_from_bits(leading: NDArray[np.uint64], trailing: NDArray[np.uint32]) -> Array:
    """The normal draw that 96 bits stand for.

    The lowest bit of ``leading`` is the sign (1 for positive); its other 63 bits, followed by the 32 of
    ``trailing``, are the integer k of the tail probability p = (k + 1/2) / 2⁹⁶.
    """
    magnitude = (leading >> np.uint64(1)).view(np.int64)  # as signed: the faster conversion, and 63 bits fit
    probability = magnitude.astype(np.float64)
    probability += (trailing + 0.5) * 2.0**-32
    probability *= 2.0**-64
    draws = lower_quantile(probability)
    bits = draws.view(np.uint64)
    bits ^= leading << np.uint64(63)  # quantiles of p <= 1/2 are negative; a flip never branches
    return draws
