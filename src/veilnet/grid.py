"""The public grid on which every released number lies.

Why a grid
----------
An agent computes z = c'y (plus noise) in floating point. In exact arithmetic z depends on the readings y
only through c'y; in floating point its last bits depend on each term and on the order of summation, hence
on the withheld part of y: they are a fingerprint of what the sanitizer was to hide (Mironov, 2012; Haney et
al., 2022; see :mod:`veilnet.randomness`). Every released number is therefore rounded to a multiple of a
power of two which is public, far above the rounding errors and far below the standard deviation σ of what
the number carries given x (the measurement noise c'n and the added noise, a public quantity). Rounding
comes last and looks only at z: it cannot make anything less private.

What it costs
-------------
Given x, z is normal with deviation σ, many grid steps wide, so that the rounding error is uniform,
independent of x and of variance step²/12 up to terms of order exp(-2π²σ²/step²) (Bennett; Widrow): far
below 1e-1000 here. With Σ the noise covariance of all released numbers and D = diag(step²/12) ⪯ ηΣ,
information is divided by at most 1 + η, hence P̃ ⪯ P̃_rounded ⪯ (1 + η)P̃ and a utility loss ℓ becomes at
most ℓ + η(1 + ℓ). :func:`grid_steps` keeps η below 5e-7; :func:`rounding_cost` is the exact η.

What remains
------------
The computed c'y is off by at most n·2⁻⁵³·Σ|c_k y_k| to first order, for n terms in any order. Two readings
with the same c'y give the same released number unless a rounding boundary falls between the two computed
values, which happens with probability at most n·2⁻⁵²·Σ|c_k y_k|/step (the larger of the two sums; adding
noise to z adds one rounding, 2⁻⁵²·|z|/step): 3e-10 for twelve readings a hundred deviations large.
:func:`crossing_probability` is this bound, and :func:`releasable` refuses readings for which it is not
small: with readings large enough, no grid below σ could hide their rounding errors. (Compensated dot
products would square the unit roundoff; they cost several times the plain product and the bound does not
need them.)

The grid does not help where y itself is coarse. Readings of a converter lie on a lattice, and c'y of a
lattice point can name the point even on this grid: of two readings with unit noise and a withheld part within
±50, the released number leaves 1 candidate at resolution 1, about 80 at 1/16, 15,000 at 1/256. The Gaussian
model, and every promise built on it, presumes readings whose resolution is far below their noise; readings of
a coarser one need uniform dither of one resolution step before they are sanitized.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from veilnet._types import Array, Booleans
from veilnet.errors import InvalidNetwork, InvalidReading

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
        _, exponents = np.frexp(sigma * np.sqrt(12.0 * cost))
    lowest, highest = _STEP_EXPONENTS
    if not ((exponents - 1 >= lowest) & (exponents - 1 <= highest)).all():
        raise InvalidNetwork(
            "deviation: expected standard deviations between about 1e-298 and 1e273, found "
            f"{sigma.min()} to {sigma.max()}; give the readings in other units"
        )
    return np.asarray(np.ldexp(1.0, exponents - 1), dtype=np.float64)


def grid_steps(covariance: npt.ArrayLike, cost: float = ROUNDING_COST) -> Array:
    """One power of two per released number such that :func:`rounding_cost` is at most ``cost``.

    ``covariance`` is that of the noise (C n plus what is added) of all numbers whose noises are correlated:
    of one agent where agents are independent, of the whole network otherwise. A grid chosen per number
    would be too coarse along the combinations in which correlated noises cancel: with λ the smallest
    eigenvalue of the correlation matrix, Σ ⪰ λ diag(Σ), so deviations are shrunk by √λ first.
    """
    sigma, smallest = _deviations_and_smallest_correlation(covariance)
    return grid_step(sigma * np.sqrt(smallest), cost)


def rounding_cost(covariance: npt.ArrayLike, step: npt.ArrayLike) -> float:
    """The smallest η with diag(step²/12) ⪯ η·covariance: a utility loss ℓ becomes at most ℓ + η(1 + ℓ)."""
    sigma, _ = _deviations_and_smallest_correlation(covariance)
    correlation = np.asarray(covariance, dtype=np.float64) / np.outer(sigma, sigma)
    relative = np.broadcast_to(_checked_step(step), sigma.shape) / sigma
    whitened = np.linalg.solve(np.linalg.cholesky(correlation), np.diag(relative))
    return float(np.linalg.norm(whitened, 2) ** 2 / 12.0)


def crossing_probability(readings: npt.ArrayLike, compression: npt.ArrayLike, step: npt.ArrayLike) -> Array:
    """How often, at most, the rounding errors of its sums move any number of a row to another grid point.

    ``readings`` (..., n) and ``compression`` (m, n) give bounds (...): n·2⁻⁵²·Σ|c_k y_k|/step, summed over
    the m numbers of the row; not a number, or infinite, where a reading is not finite. The bound covers every
    order of summation, with or without fused operations.
    """
    matrix = np.abs(np.asarray(compression, dtype=np.float64))
    per_step = np.broadcast_to(_checked_step(step), matrix.shape[:1])
    weights = np.sum(matrix / per_step[:, np.newaxis], axis=0) * (matrix.shape[1] * 2.0**-52)
    # no weight is zero: a reading that is not finite must spoil its row even where it is not used
    weights = np.maximum(weights, np.finfo(np.float64).tiny)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return np.asarray(np.abs(np.asarray(readings, dtype=np.float64)) @ weights, dtype=np.float64)


def releasable(readings: npt.ArrayLike, compression: npt.ArrayLike, step: npt.ArrayLike) -> Booleans:
    """Which rows of ``readings`` are finite and small enough for the grid to hide their rounding errors.

    An agent in doubt sends nothing. That a row was refused is itself visible; a reading so far beyond its
    noise is a fault of the sensor or a missing offset.
    """
    return np.asarray(crossing_probability(readings, compression, step) <= CROSSING_LIMIT)


def round_to_grid(values: npt.ArrayLike, step: npt.ArrayLike) -> Array:
    """The nearest multiple of ``step`` (a power of two, broadcast against ``values``), exactly; ties to even.

    Zero is always +0: the sign of a zero would tell on which side the value lay. Values that are not finite
    or reach 2⁵¹ steps are refused, all of them with the first one named, since nothing of an uncertain row
    may leave.
    """
    grid = _checked_step(step)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        multiples = np.asarray(np.asarray(values, dtype=np.float64) / grid)
    inside = np.abs(multiples) < _LARGEST_MULTIPLE
    if not inside.all():
        position = tuple(int(i) for i in np.argwhere(~inside)[0])
        where = f" at index {position if len(position) > 1 else position[0]}" if position else ""
        raise InvalidReading(
            f"values: expected finite numbers below 2^51 steps of their grid, found another{where}; "
            "drop the row, or subtract a public offset from the readings"
        )
    np.rint(multiples, out=multiples)
    multiples *= grid
    multiples += 0.0
    return multiples


def _checked_step(step: npt.ArrayLike) -> Array:
    grid = np.asarray(step, dtype=np.float64)
    mantissas, exponents = np.frexp(grid)
    lowest, highest = _STEP_EXPONENTS
    if not ((mantissas == 0.5) & (exponents - 1 >= lowest) & (exponents - 1 <= highest)).all():
        raise InvalidNetwork(
            f"step: expected powers of two between 2^{lowest} and 2^{highest}, found {grid.tolist()}; "
            "take them from grid_steps"
        )
    return grid


def _deviations_and_smallest_correlation(covariance: npt.ArrayLike) -> tuple[Array, float]:
    matrix = np.asarray(covariance, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InvalidNetwork(f"covariance: expected a square matrix, found shape {matrix.shape}")
    variances = np.diagonal(matrix)
    if not np.isfinite(matrix).all() or not (variances > 0).all():
        raise InvalidNetwork(
            "covariance: expected finite numbers and positive variances; leave out rows that send nothing"
        )
    sigma = np.sqrt(variances)
    if sigma.size == 0:
        return sigma, 1.0
    eigenvalues = np.linalg.eigvalsh(matrix / np.outer(sigma, sigma))
    smallest = float(eigenvalues[0])
    if not smallest > len(sigma) * np.finfo(np.float64).eps:
        raise InvalidNetwork(
            f"covariance: expected a positive definite matrix, found correlation eigenvalue {smallest:.3g}; "
            "leave out numbers that repeat others"
        )
    return sigma, min(smallest, 1.0)
