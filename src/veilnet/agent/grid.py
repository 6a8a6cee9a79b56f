"""The public grid on which every released number lies.

Why a grid
----------
An agent computes z = c'y (plus noise) in floating point. In exact arithmetic z depends on the readings y
only through c'y; in floating point its last bits depend on each term and on the order of summation, hence
on the withheld part of y: they are a fingerprint of what the sanitizer was to hide (Mironov, 2012; Haney et
al., 2022; see :mod:`veilnet.agent.randomness`). Every released number is therefore rounded to a multiple of a
power of two which is public, far above the rounding errors and far below the standard deviation σ of what
the number carries given x (the measurement noise c'n and the added noise, a public quantity). Rounding
comes last and looks only at z: it cannot make anything less private.

Rounding to nearest alone is not enough. Readings are decimals and coefficients are often simple: c'y then
falls *on* a rounding boundary far more often than chance would have it, and there the last bit decides.
Where the added noise does not blur the boundary, it is moved at random: uniform dither of one step before
rounding (stochastic rounding, which is also unbiased for every value).

What it costs
-------------
The rounding error has variance step²/12 after noise and at most step²/6, on average, with dither; it is
uncorrelated with x, since z is many steps wide given x (Bennett; Widrow: up to terms of order
exp(-2π²σ²/step²), below 1e-1000). With Σ the noise covariance of all released numbers and
D = diag(step²/6) ⪯ ηΣ, information is divided by at most 1 + η, hence P̃ ⪯ P̃_rounded ⪯ (1 + η)P̃ and a
utility loss ℓ becomes at most ℓ + η(1 + ℓ). :func:`grid_steps` keeps η below 5e-7.

What remains
------------
The computed c'y is off by at most n·2⁻⁵³·Σ|c_k y_k| to first order, for n terms in any order, and adding
noise or dither rounds once more. Two readings with the same c'y, whatever they are, give the same released
number for the same draws unless a rounding boundary falls between the two computed values. The draws put it
there with probability at most (n + 1)·2⁻⁵²·Σ|c_k y_k|/step (the larger of the two sums; large noise ν adds
2⁻⁵²·|ν|/step, some 2⁻⁴⁰): 3e-10 for twelve readings whose terms sum to a hundred deviations. So much, and no
more, can any attack on the low bits gain over guessing. :func:`crossing_weights` give this bound, and
an agent refuses readings for which it is above CROSSING_LIMIT: no grid below σ could hide the rounding errors
of readings large enough. (Compensated dot products would square the unit roundoff; they cost several times
the plain product, and the bound does not need them.)

The grid does not help where y itself is coarse. Readings of a converter lie on a lattice, and c'y of a
lattice point can name the point even on this grid: of two readings with unit noise and a withheld part within
±50, the released number leaves 1 candidate at resolution 1, about 80 at 1/16, 15,000 at 1/256. Readings with a
resolution are therefore dithered by one step before they are combined (:mod:`veilnet.agent.release`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from veilnet._core.errors import InvalidNetwork, InvalidReading
from veilnet._core.types import Array
from veilnet.agent.randomness import NoiseSource

ROUNDING_COST = 5e-7
"""Default bound η on the relative growth of the noise covariance, half of what is promised."""

CROSSING_LIMIT = 2.0**-12
"""Readings whose rounding errors cross a grid boundary more often than this are not released."""

_LARGEST_MULTIPLE = 2.0**51  # multiples below it, and sums of two of them, are exact in float64
_STEP_EXPONENTS = (-1000, 900)  # away from subnormal numbers and overflow, where multiples would not be exact


def grid_step(deviation: npt.ArrayLike, cost: float = ROUNDING_COST) -> Array:
    """For each deviation the largest power of two whose rounding error has at most ``cost`` of its variance.

    For numbers with independent noises; :func:`grid_steps` serves correlated ones.
    """
    sigma = np.asarray(deviation, dtype=np.float64)
    if not (np.isfinite(sigma) & (sigma > 0)).all():
        raise InvalidNetwork(
            "deviation: expected positive, finite standard deviations of the released numbers, found "
            f"{sigma[~(np.isfinite(sigma) & (sigma > 0))].flat[0]}; leave out rows that send nothing"
        )
    if not 0 < cost < 1:
        raise InvalidNetwork(f"cost: expected a number between 0 and 1, found {cost}; 5e-7 is the default")
    with np.errstate(over="ignore", under="ignore"):
        _, exponents = np.frexp(sigma * np.sqrt(6.0 * cost))
    lowest, highest = _STEP_EXPONENTS
    if not ((exponents - 1 >= lowest) & (exponents - 1 <= highest)).all():
        raise InvalidNetwork(
            "deviation: expected standard deviations between about 1e-298 and 1e273, found "
            f"{sigma.min()} to {sigma.max()}; give the readings in other units"
        )
    return np.asarray(np.ldexp(1.0, exponents - 1), dtype=np.float64)


def grid_steps(covariance: npt.ArrayLike, cost: float = ROUNDING_COST) -> Array:
    """One power of two per released number such that η, what rounding costs, is at most ``cost``.

    ``covariance`` is that of the noise (C n plus what is added) of all numbers whose noises are correlated:
    of one agent where agents are independent, (k, k), or a stack (..., k, k) of agents that send as many; of the
    whole network otherwise. A grid chosen per number would be too coarse along the combinations in which correlated
    noises cancel: with λ the smallest eigenvalue of the correlation matrix, Σ ⪰ λ diag(Σ), so deviations are shrunk
    by √λ first.
    """
    sigma, smallest = _deviations_and_smallest_correlation(covariance)
    return grid_step(sigma * np.sqrt(smallest)[..., None], cost)


def crossing_weights(compression: npt.ArrayLike, step: npt.ArrayLike) -> Array:
    """w with |y|'w at least the chance that rounding errors of sums move any number of a row to another grid point.

    That is (n + 1)·2⁻⁵²·Σ|c_k y_k|/step, summed over the m numbers of the row. It covers every order of summation,
    with or without fused operations. Also of a stack (..., m, n). ``step`` is a grid that was checked.
    """
    matrix = np.abs(np.asarray(compression, dtype=np.float64))
    per_step = np.broadcast_to(np.asarray(step, dtype=np.float64), matrix.shape[:-1])
    weights = np.sum(matrix / per_step[..., np.newaxis], axis=-2) * ((matrix.shape[-1] + 1) * 2.0**-52)
    # no weight is zero: a reading that is not finite must spoil its row even where it is not used
    return np.asarray(np.maximum(weights, np.finfo(np.float64).tiny))


def rounded_to_grid(multiples: Array, noise_deviation: Array, source: NoiseSource) -> Array:
    """Computed numbers (..., m) in steps of their grid, noise added, as they may leave the agent: whole numbers.

    ``noise_deviation`` (m,), in steps too, is that of the noise which was added to each number, 0 where none was.
    Where it is below one step, too small to blur the boundaries of the grid, numbers are dithered.
    """
    needs_dither = noise_deviation < 1.0
    if needs_dither.all():
        multiples = multiples + source.uniform(multiples.shape)
    elif needs_dither.any():
        dither = source.uniform((*multiples.shape[:-1], int(needs_dither.sum())))
        multiples = multiples.copy()
        multiples[..., needs_dither] += dither
    return whole_steps(multiples)


def whole_steps(multiples: Array) -> Array:
    """The nearest whole numbers of steps, exactly; ties to even.

    Zero is always +0: the sign of a zero would tell on which side the value lay. Values that are not finite
    or reach 2⁵¹ steps are refused, all of them with the first one named, since nothing of an uncertain row
    may leave.
    """
    inside = np.abs(multiples) < _LARGEST_MULTIPLE
    if not inside.all():
        position = tuple(int(i) for i in np.argwhere(~inside)[0])
        where = f" at index {position if len(position) > 1 else position[0]}" if position else ""
        raise InvalidReading(
            f"values: expected finite numbers below 2^51 steps of their grid, found another{where}; "
            "drop the row, or subtract a public offset from the readings"
        )
    whole = np.rint(multiples)
    whole += 0.0
    return np.asarray(whole)


def checked_steps(step: npt.ArrayLike, name: str = "step") -> Array:
    """The steps of a grid, refused where they are no powers of two or beyond the range of exact multiples."""
    grid = np.asarray(step, dtype=np.float64)
    mantissas, exponents = np.frexp(grid)
    lowest, highest = _STEP_EXPONENTS
    if not ((mantissas == 0.5) & (exponents - 1 >= lowest) & (exponents - 1 <= highest)).all():
        raise InvalidNetwork(
            f"{name}: expected positive powers of two between 2^{lowest} and 2^{highest}, found {grid.tolist()}; "
            "take them from grid_steps"
        )
    return grid


def _deviations_and_smallest_correlation(covariance: npt.ArrayLike) -> tuple[Array, Array]:
    """Deviations (..., k) and the smallest eigenvalue of each correlation matrix, at most 1, (...)."""
    matrix = np.asarray(covariance, dtype=np.float64)
    if matrix.ndim < 2 or matrix.shape[-2] != matrix.shape[-1]:
        raise InvalidNetwork(f"covariance: expected a square matrix, found shape {matrix.shape}")
    variances = np.diagonal(matrix, axis1=-2, axis2=-1)
    if not np.isfinite(matrix).all() or not (variances > 0).all():
        raise InvalidNetwork(
            "covariance: expected finite numbers and positive variances; leave out rows that send nothing"
        )
    sigma = np.sqrt(variances)
    count = sigma.shape[-1]
    if count == 0:
        return sigma, np.ones(sigma.shape[:-1])
    eigenvalues = np.linalg.eigvalsh(matrix / (sigma[..., :, None] * sigma[..., None, :]))
    smallest = eigenvalues[..., 0]
    if not (smallest > count * np.finfo(np.float64).eps).all():
        raise InvalidNetwork(
            f"covariance: expected a positive definite matrix, found correlation eigenvalue {smallest.min():.3g}; "
            "leave out numbers that repeat others"
        )
    return sigma, np.asarray(np.minimum(smallest, 1.0))
