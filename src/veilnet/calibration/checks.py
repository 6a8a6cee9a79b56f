"""How far a calibration table is from the linear Gaussian picture: one number per column and question.

Rows are taken to be in time order. Everything here is a pure function of arrays (T rows, one column each).
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincc

from veilnet._core.types import Array, Integers
from veilnet.calibration.linear_model import regression
from veilnet.calibration.stretches import blocks_of

_FOLDS = 5
_MOST_PRODUCTS = 6  # parameters up to which products, too, are tried as what the line misses
_LAGS = 10


def held_out(readings: Array, parameters: Array, groups: Integers | None = None) -> tuple[Array, Array, int]:
    """(R² on rows the fit had not seen, their mean square against the fitted noise variance, folds).

    The folds are whole groups where rows have some, else contiguous blocks of rows, within each class where rows are
    sorted by class. Neighbouring rows of a time series resemble each other: with rows drawn at random into folds,
    each one left out would have near copies in the training part.
    """
    rows, length = parameters.shape
    folds = min(_FOLDS, rows // 2)
    errors = np.zeros(readings.shape[1])
    spread = np.zeros(readings.shape[1])
    blocks = blocks_of(rows, folds, parameters, groups)
    for test in blocks:
        train = np.ones(rows, bool)
        train[test] = False
        observe, offset, _ = regression(readings[train], parameters[train])
        errors += np.sum((readings[test] - parameters[test] @ observe.T - offset) ** 2, axis=0)
        spread += np.sum((readings[test] - np.mean(readings[train], axis=0)) ** 2, axis=0)
    _, _, residuals = regression(readings, parameters)
    fitted = np.sum(residuals**2, axis=0) / (rows - length - 1)
    return 1.0 - errors / spread, errors / rows / fitted, len(blocks)


def skewness_and_kurtosis(centred: Array) -> tuple[Array, Array]:
    """Skewness and excess kurtosis per column; both are 0 for a normal distribution."""
    unit = centred / np.sqrt(np.mean(centred**2, axis=0))
    return np.mean(unit**3, axis=0), np.mean(unit**4, axis=0) - 3.0


def normality(skewness: Array, kurtosis: Array, effective: Array) -> Array:
    """How probable such moments are if the column is normal; 1 with fewer than twenty effective rows.

    D'Agostino and Pearson's test: both moments are transformed to be nearly normal themselves (D'Agostino,
    1970; Anscombe and Glynn, 1983), which Jarque and Bera's simpler one is not far out in the tails.
    """
    n = np.maximum(effective, 20.0)
    spread = skewness * np.sqrt((n + 1) * (n + 3) / (6 * (n - 2)))
    fourth = 3 * (n**2 + 27 * n - 70) * (n + 1) * (n + 3) / ((n - 2) * (n + 5) * (n + 7) * (n + 9))
    width = np.sqrt(2 * (fourth - 1)) - 1
    of_skewness = np.arcsinh(spread / np.sqrt(2 / (width - 1))) / np.sqrt(np.log(width) / 2)

    variance = 24 * n * (n - 2) * (n - 3) / ((n + 1) ** 2 * (n + 3) * (n + 5))
    standard = (kurtosis + 6 / (n + 1)) / np.sqrt(variance)
    third = (
        6
        * (n**2 - 5 * n + 2)
        / ((n + 7) * (n + 9))
        * np.sqrt(6 * (n + 3) * (n + 5) / (n * (n - 2) * (n - 3)))
    )
    degrees = 6 + 8 / third * (2 / third + np.sqrt(1 + 4 / third**2))
    root = np.cbrt((1 - 2 / degrees) / np.maximum(1 + standard * np.sqrt(2 / (degrees - 4)), 1e-12))
    of_kurtosis = (1 - 2 / (9 * degrees) - root) / np.sqrt(2 / (9 * degrees))
    return np.asarray(np.where(effective < 20, 1.0, np.exp(-(of_skewness**2 + of_kurtosis**2) / 2)))


def ljung_box(centred: Array, segments: Integers | None = None) -> Array:
    """How probable such correlations between rows are if the rows are independent; up to ten lags.

    Only rows of one segment are compared.
    """
    rows = centred.shape[0]
    lags = min(_LAGS, max(1, rows // 5))
    power = np.sum(centred**2, axis=0)
    statistic = np.zeros(centred.shape[1])
    run = np.zeros(rows, np.intp) if segments is None else segments
    for lag in range(1, lags + 1):
        together = run[lag:] == run[:-lag]
        pairs = int(np.sum(together))
        if pairs:
            product = np.sum((centred[lag:] * centred[:-lag])[together], axis=0) / power
            statistic += (product * (rows - lag) / pairs) ** 2 * pairs / (rows - lag) ** 2
    return np.asarray(gammaincc(lags / 2.0, rows * (rows + 2.0) * statistic / 2.0))


def curvature(residuals: Array, parameters: Array, effective: Array) -> tuple[Array, Array]:
    """(part of the noise variance explained by squares and products of parameters, its probability by chance)."""
    unit = parameters - np.mean(parameters, axis=0)
    unit = unit / np.sqrt(np.mean(unit**2, axis=0))
    length = unit.shape[1]
    terms = [unit[:, k] ** 2 for k in range(length)]
    if length <= _MOST_PRODUCTS:
        terms += [unit[:, j] * unit[:, k] for k in range(length) for j in range(k)]
    return _explained(residuals, unit, np.stack(terms, axis=1), effective)


def unequal_noise(residuals: Array, parameters: Array, effective: Array) -> tuple[Array, Array]:
    """(part of the variance of squared residuals explained by the parameters, its probability by chance)."""
    squares = residuals**2
    constant = np.zeros((parameters.shape[0], 0))
    return _explained(squares - np.mean(squares, axis=0), constant, parameters, effective)


def _explained(targets: Array, known: Array, added: Array, effective: Array) -> tuple[Array, Array]:
    """Adjusted R² of targets on what ``added`` has beyond ``known``, and its probability by chance."""
    rows = targets.shape[0]
    beyond = added - np.mean(added, axis=0)
    if known.shape[1]:
        beyond = regression(beyond, known)[2]
    basis, singular, _ = np.linalg.svd(
        beyond / max(float(np.max(np.abs(beyond))), 1e-300), full_matrices=False
    )
    rank = int(np.sum(singular > 1e-8 * max(float(singular[0]), 1e-300))) if np.any(beyond) else 0
    freedom = rows - known.shape[1] - rank - 1
    if rank == 0 or freedom < 1:
        return np.zeros(targets.shape[1]), np.ones(targets.shape[1])
    centred = targets - np.mean(targets, axis=0)
    total = np.sum(centred**2, axis=0)
    part = np.sum((basis[:, :rank].T @ centred) ** 2, axis=0) / np.where(total > 0, total, 1.0)
    adjusted = np.clip(1.0 - (1.0 - part) * (freedom + rank) / freedom, 0.0, 1.0)
    return np.asarray(adjusted), np.asarray(gammaincc(rank / 2.0, effective * part / 2.0))


def explained_by(targets: Array, given: Array) -> Array:
    """R² of each target column given other columns, adjusted for their number."""
    rows, count = given.shape
    if rows - count - 1 < 1:
        return np.zeros(targets.shape[1])
    _, _, left = regression(targets, given)
    centred = targets - np.mean(targets, axis=0)
    ratio = np.sum(left**2, axis=0) / np.sum(centred**2, axis=0)
    return np.asarray(np.clip(1.0 - ratio * (rows - 1) / (rows - count - 1), 0.0, 1.0))
