"""How sure is the fit? Noise and prior widened so that stated errors hold on rows that were not calibrated.

A model fitted to T rows is stated with the residuals of those rows, which it was fitted to make small, and used on
rows where H, the offset and the mean are off. Both effects have the size of what the fit leaves uncertain. With b
the memory of a reading's noise, w the part of its variance that carries over, and M the transition of x in units
where its covariance is I (:mod:`veilnet.calibration.stream_model`; both 0 for independent rows),

    h = (1 + L + 2 w b / (1 - b) + 2 w tr(b M (I - b M)^-1)) / T

is what an uncertain offset and H add to the variance of a new reading at a random x, in units of its noise: (L + 1)
/ T for independent rows, (L + 1) / (effective rows) for others. Residuals are too small by 1 - h where the degrees
of freedom count all rows, so the predictive noise is R times (1 + h) / (1 - h) · (T - L - 1) / T, and likewise the
prior for an uncertain mean.

Memories come out too short of few slow rows, and h with them. To first order in 1 / T, a fitted mean takes (1 + b)/T
off a memory b, a fitted column of H whose parameter has the memory m takes (b + m) / T, and the division by the rows'
own power takes 2 b / T (with a mean alone that is Kendall's (1 + 3 b) / T). Of this, the scatter of an estimated b
gives (1 + b) / T back, since (1 + b) / (1 - b) bends upwards. The rest is added before h is taken: (2 + L) b + tr M
over T to the noise's memories, 2 m / T to those of x.

What is left comes from weighing readings by an R and a prior that were themselves estimated, and depends on how
correlations were shrunk. It has no closed form, so it is measured: the whole calibration is repeated on rows
simulated from the fitted model, and noise and prior are scaled by κ, the mean ratio of the true to the stated error
variance of the public and private parameters. One factor on both scales every stated error by κ, and leaves every
privacy as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from veilnet._core.lyapunov import stationary_covariance
from veilnet._core.types import Array
from veilnet.calibration.linear_model import LinearModel
from veilnet.calibration.noise_memory import NoiseMemory, with_memories
from veilnet.calibration.stream_model import FittedStream, contracting

_MOST = 1.0 / 3.0  # of h: above it a fit is hardly one, and variances are at most doubled
_NEGLIGIBLE = 2e-3  # of h: below it nothing is simulated
_SIMULATED = 24
_SEED = 20150204  # fixed, so that one table has one network


@dataclass(frozen=True, eq=False)
class Widening:
    """By how much deviations grow from what residuals show to what new rows will show.

    noise:      (N,) of the readings.
    parameters: (L,) of x.
    common:     √κ, in both of them already.
    """

    noise: Array
    parameters: Array
    common: float

    @staticmethod
    def none(model: LinearModel) -> Widening:
        """No widening at all."""
        return Widening(np.ones(len(model.offset)), np.ones(len(model.mean)), 1.0)

    def of_model(self, model: LinearModel) -> LinearModel:
        """The model as it is to be stated."""
        return replace(
            model,
            noise=model.noise * np.outer(self.noise, self.noise),
            covariance=model.covariance * np.outer(self.parameters, self.parameters),
        )

    def of_stream(self, stream: FittedStream) -> FittedStream:
        """The stream that goes with it: the same memories, larger steps."""
        both = np.outer(self.noise, self.noise)
        colour = stream.noise
        scale = self.parameters
        return FittedStream(
            stream.transition * scale[:, None] / scale,
            stream.renewed * np.outer(scale, scale),
            NoiseMemory(colour.memory, colour.part, colour.innovation * both, colour.floor * both),
        )


def widening(model: LinearModel, stream: FittedStream, asked: Array, *, prior: bool) -> Widening:
    """What a fit of these rows leaves uncertain.

    stream: how the rows follow one another; asked: rows of x whose errors are to hold, public and private;
    prior: whether the centre uses mean and covariance of x.
    """
    rows, (readings, length) = len(model.residuals), model.observe.shape
    stream = without_bias(model, stream)
    of_noise, of_mean = uncertain(model, stream)
    analytic = Widening(
        np.sqrt((1 + of_noise) / (1 - of_noise) * (rows - length - 1) / rows),
        np.sqrt((1 + of_mean) / (1 - of_mean) * (rows - 1) / rows) if prior else np.ones(length),
        1.0,
    )
    if max(np.max(of_noise), np.max(of_mean) * prior) < _NEGLIGIBLE or rows - length - 1 < readings / 2:
        return analytic
    common = np.sqrt(_repeated(model, stream, analytic, asked, prior=prior))
    return Widening(
        common * analytic.noise, common * analytic.parameters if prior else analytic.parameters, common
    )


def without_bias(model: LinearModel, stream: FittedStream) -> FittedStream:
    """The stream with memories for which h comes out right on average; variances of one row stay as they are."""
    rows, length = len(model.residuals), model.mean.size
    longest = 1.0 - 1.0 / (rows + 1)
    root = np.linalg.cholesky(model.covariance)
    left, singular, right = np.linalg.svd(np.linalg.solve(root, stream.transition @ root))
    kept = np.minimum(singular + 2 * singular / rows, np.maximum(longest, singular))
    move = left * kept @ right
    colour = stream.noise
    taken = ((2 + length) * colour.memory + float(np.trace(move))) / rows
    memory = np.where(colour.memory > 0, np.minimum(colour.memory + taken, longest), 0.0)
    row = stationary_covariance(np.diag(colour.memory), colour.innovation) + colour.floor
    return FittedStream(*contracting(root, move), with_memories(memory, colour.part, row))


def uncertain(model: LinearModel, stream: FittedStream) -> tuple[Array, Array]:
    """(h of each reading, the same of each mean of x)."""
    rows, length = len(model.residuals), model.mean.size
    root = np.linalg.cholesky(model.covariance)
    move = np.linalg.solve(root, stream.transition @ root)
    memory, carried = stream.noise.memory, 1.0 - stream.noise.part
    together = [float(np.trace(np.linalg.solve(np.eye(length) - b * move, b * move))) for b in memory]
    of_noise = (1 + length + 2 * carried * (memory / (1 - memory) + together)) / rows
    kept = np.clip(np.diag(stream.transition), 0.0, 1.0 - 1.0 / rows)
    of_mean = (1 + 2 * kept / (1 - kept)) / rows
    return np.clip(of_noise, 0.0, _MOST), np.minimum(of_mean, _MOST)


def _repeated(
    model: LinearModel, stream: FittedStream, widened: Widening, asked: Array, *, prior: bool
) -> float:
    """κ: what repeated calibrations would find their true errors to be, against those they would state."""
    rng = np.random.default_rng(_SEED)
    rows, colour = len(model.residuals), stream.noise
    carried = stationary_covariance(np.diag(colour.memory), colour.innovation)
    x = _series(rng, rows, stream.transition, stream.renewed, model.covariance)
    noise = _series(rng, rows, np.diag(colour.memory), colour.innovation, carried)
    noise += _drawn(rng, noise.shape[:2], colour.floor)
    errors = []
    for one_x, one_noise in zip(x, noise, strict=True):
        found = widened.of_model(model.again(one_x @ model.observe.T + one_noise, one_x))
        errors.append(
            _errors(found, model.observe, carried + colour.floor, model.covariance, asked, prior=prior)
        )
    true, stated = np.mean(errors, axis=0)
    return max(1.0, float(np.exp(np.mean(np.log(true / stated)))))


def _errors(
    found: LinearModel, observe: Array, noise: Array, covariance: Array, asked: Array, *, prior: bool
) -> tuple[Array, Array]:
    """(true, stated) error variances of x along ``asked``, estimated by ``found``; mean and offset are truly 0."""
    gain = np.linalg.solve(found.noise, found.observe).T
    information = gain @ found.observe
    if prior:
        information = information + np.linalg.inv(found.covariance)
    stated: Array = np.asarray(np.linalg.inv(information), np.float64)
    gain = stated @ gain
    kept = gain @ observe - np.eye(len(covariance))
    bias = -gain @ found.offset
    if prior:
        bias = bias + found.mean - gain @ found.observe @ found.mean
    true = kept @ covariance @ kept.T + gain @ noise @ gain.T + np.outer(bias, bias)
    return _along(asked, true), _along(asked, stated)


def _along(rows: Array, matrix: Array) -> Array:
    return np.asarray(np.sum((rows @ matrix) * rows, axis=1), np.float64)


def _series(rng: np.random.Generator, rows: int, transition: Array, renewed: Array, start: Array) -> Array:
    """(simulated, T, size) stationary series."""
    state = _drawn(rng, (_SIMULATED,), start)
    steps = _drawn(rng, (rows, _SIMULATED), renewed)
    found = np.empty((rows, _SIMULATED, len(start)))
    for t in range(rows):
        found[t] = state
        state = state @ transition.T + steps[t]
    return np.ascontiguousarray(found.transpose(1, 0, 2))


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], covariance: Array) -> Array:
    """Draws of a covariance that may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(rng.standard_normal((*shape, len(covariance))) @ root.T)
