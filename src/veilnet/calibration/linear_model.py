"""Linear Gaussian model of readings from calibration data: y = H x + offset + n, x ~ N(m, P0), n ~ N(0, R).

H and the offset by ordinary least squares with an intercept, R from the residuals (divided by the degrees of
freedom T - L - 1), m and P0 from the parameters themselves; R and P0 by :mod:`veilnet.calibration.shrinkage`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array, Booleans
from veilnet._core.words import join_names
from veilnet.calibration.shrinkage import correlations, shrunk_covariance

# All of them relative to a column's own deviation: rounding in double precision stays far below.
_COLLINEAR = 1e-8
_NOISE_FREE = 1e-9
_REPEATED = 1e-12
_ENOUGH_TO_COMPARE = 3  # residual degrees of freedom below which any two residuals look alike


@dataclass(frozen=True, eq=False)
class LinearModel:
    """The fitted model and what was left over.

    observe (N, L), offset (N,), noise (N, N), mean (L,), covariance (L, L), residuals (T, N);
    shrinkages are the λ of :mod:`veilnet.calibration.shrinkage`.
    """

    observe: Array
    offset: Array
    noise: Array
    noise_shrinkage: float
    mean: Array
    covariance: Array
    prior_shrinkage: float
    residuals: Array

    def again(self, readings: Array, parameters: Array) -> LinearModel:
        """The model of other rows, shrunk as much."""
        return fit_linear(readings, parameters, shrinkages=(self.noise_shrinkage, self.prior_shrinkage))


def fit_linear(
    readings: Array, parameters: Array, *, least: float = 0.0, shrinkages: tuple[float, float] | None = None
) -> LinearModel:
    """Fit readings (T, N) on parameters (T, L), T > L + 1.

    ``shrinkages`` are those of the noise and of the prior, where they are known already. ``least`` is the smallest
    shrinkage, and the smallest deviation of noise as a part of its reading's (of a constant column: 1). Above 0 any
    table gives a model; at 0 it must pass :func:`refuse_degenerate`.
    """
    rows, length = parameters.shape
    observe, offset, residuals = regression(readings, parameters)
    smallest = _smallest_deviations(readings, least)
    of_noise, of_prior = (None, None) if shrinkages is None else shrinkages
    noise, noise_shrinkage = shrunk_covariance(
        residuals, rows - length - 1, least=least, smallest=smallest, weight=of_noise
    )
    mean = np.mean(parameters, axis=0)
    smallest = _smallest_deviations(parameters, least)
    covariance, prior_shrinkage = shrunk_covariance(
        parameters - mean, rows - 1, least=least, smallest=smallest, reluctant=True, weight=of_prior
    )
    return LinearModel(observe, offset, noise, noise_shrinkage, mean, covariance, prior_shrinkage, residuals)


def _smallest_deviations(columns: Array, part: float) -> Array:
    deviation = np.where(_constant(columns), 0.0, np.std(columns, axis=0))
    return np.asarray(np.where(deviation > 0, part * deviation, float(part > 0)))


def regression(readings: Array, parameters: Array) -> tuple[Array, Array, Array]:
    """(H, offset, residuals) by least squares, in units that make the columns comparable."""
    x_mean, y_mean = np.mean(parameters, axis=0), np.mean(readings, axis=0)
    centred_x, centred_y = parameters - x_mean, readings - y_mean
    scale = np.linalg.norm(centred_x, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    weights, *_ = np.linalg.lstsq(centred_x / scale, centred_y, rcond=_COLLINEAR)
    observe = weights.T / scale
    residuals = centred_y - centred_x / scale @ weights
    return np.asarray(observe), np.asarray(y_mean - observe @ x_mean), np.asarray(residuals)


def refuse_degenerate(
    readings: Array, parameters: Array, reading_names: Sequence[str], parameter_names: Sequence[str]
) -> None:
    """InvalidNetwork, naming the column, where the data cannot determine a model with noise in every reading."""
    rows, length = parameters.shape
    if rows < length + 2:
        raise InvalidNetwork(
            f"table: expected at least {length + 2} complete rows for {length} parameters, found {rows}; "
            "measure longer, or make x smaller"
        )
    _refuse_constant(parameters, parameter_names)
    _refuse_constant(readings, reading_names)
    _refuse_collinear_parameters(parameters, parameter_names)
    centred = readings - np.mean(readings, axis=0)
    _, _, residuals = regression(readings, parameters)
    left = np.linalg.norm(residuals, axis=0) / np.linalg.norm(centred, axis=0)
    if np.min(left) <= _NOISE_FREE:
        exact = reading_names[int(np.argmin(left))]
        raise InvalidNetwork(
            f"table: the reading {exact!r} is an exact linear function of {join_names(parameter_names)}: it has "
            "no noise, so the centre learns that combination exactly; if it was computed from "
            "them, leave it out"
        )
    _refuse_repeated_readings(centred, residuals, rows - length - 1, reading_names)


def _constant(columns: Array) -> Booleans:
    spread = np.ptp(columns, axis=0)
    return np.asarray(spread <= 8 * np.finfo(np.float64).eps * np.max(np.abs(columns), axis=0))


def _refuse_constant(columns: Array, names: Sequence[str]) -> None:
    constant = np.flatnonzero(_constant(columns))
    if constant.size:
        place = int(constant[0])
        raise InvalidNetwork(
            f"table: the column {names[place]!r} is constant ({columns[0, place]:.6g} in every row), so nothing "
            "can be learned about it; leave it out, or calibrate while it varies"
        )


def determined(parameters: Array) -> bool:
    """Whether every column varies, and none is a linear function of the others: else H is not."""
    return not np.any(_constant(parameters)) and _singular(parameters)[0][-1] > 0


def _singular(parameters: Array) -> tuple[Array, Array]:
    """Singular values of the columns, in units of their spread, and directions; 0 where they are but rounding."""
    centred = parameters - np.mean(parameters, axis=0)
    _, singular, directions = np.linalg.svd(centred / np.linalg.norm(centred, axis=0), full_matrices=False)
    return np.where(singular > _COLLINEAR * singular[0], singular, 0.0), directions


def _refuse_collinear_parameters(parameters: Array, names: Sequence[str]) -> None:
    singular, directions = _singular(parameters)
    if singular[-1] > 0:
        return
    raise InvalidNetwork(
        f"table: of the public and private columns, {_function_of(directions[-1], names)}; their effects on the "
        "readings cannot be distinguished: leave one out"
    )


def _refuse_repeated_readings(centred: Array, residuals: Array, freedom: int, names: Sequence[str]) -> None:
    compared = residuals if freedom >= _ENOUGH_TO_COMPARE else centred
    correlation = correlations(compared)
    np.fill_diagonal(correlation, 0.0)
    first, second = divmod(int(np.argmax(np.abs(correlation))), len(names))
    if abs(correlation[first, second]) > 1.0 - _REPEATED:
        raise InvalidNetwork(
            f"table: the readings {names[min(first, second)]!r} and {names[max(first, second)]!r} repeat each "
            "other (their noises are the same); leave one of them out"
        )
    if freedom <= residuals.shape[1]:
        return  # too few rows to tell a dependence from chance
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    if values[0] <= _REPEATED:
        raise InvalidNetwork(
            f"table: of the readings, {_function_of(vectors[:, 0], names)} (their noises cancel); leave it out"
        )


def _function_of(direction: Array, names: Sequence[str]) -> str:
    order = np.argsort(-np.abs(direction))
    parts = [names[int(k)] for k in order if abs(direction[k]) > 1e-6 * abs(direction[order[0]])]
    return f"{parts[0]!r} is a linear function of {join_names(parts[1:])}"
