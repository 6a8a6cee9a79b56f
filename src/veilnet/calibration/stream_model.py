"""Rows as a stream: dynamics of x and noise that carries over, and whether the data warrant them.

Whether they do is asked of rows the fit had not seen: both models are fitted to all rows but those of one contiguous
block, and each says how probable that block is. The stream model is warranted when it wins by more than twice the
deviation of its gain over the blocks: on independent rows its parameters cost likelihood, and it loses.

How x moves from row to row, from rows that are known to follow one another.

x_{t+1} - m = A (x_t - m) + w_t, w ~ N(0, Q). With P0 = W W' the covariance of one row (the row model's prior) and
P1 = E (x_{t+1} - m)(x_t - m)' from neighbouring rows,

    M = W^-1 P1 W^-T,    A = W M W^-1,    Q = W (I - M M') W'.

A and P0 go together (P0 = A P0 A' + Q) when M is a contraction. Sample moments of one unbroken series see to that
themselves (Yule and Walker); with gaps, or with a series that wanders, singular values of M may reach 1 and are cut
to 1 - 1 / (pairs of neighbours + 1): more persistence than that cannot be estimated from so few. So A is always
stable, and rows taken one by one are described by the same prior as without dynamics.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.types import AnyArray, Array, Booleans, Integers
from veilnet.calibration.likelihood import noise_likelihood, row_likelihood, transition_likelihood
from veilnet.calibration.linear_model import LinearModel, determined, fit_linear
from veilnet.calibration.noise_memory import NoiseMemory, fit_memory
from veilnet.calibration.rows import Rows
from veilnet.calibration.stretches import blocks_of

_FOLDS = 8
_CERTAIN = 2.0  # deviations


@dataclass(frozen=True, eq=False)
class FittedStream:
    """How rows follow one another, beside the model of one row.

    transition, renewed: A and Q, (L, L); the covariance of x in the long run is that of the row model.
    noise: what carries over of the readings' noise.
    """

    transition: Array
    renewed: Array
    noise: NoiseMemory


@dataclass(frozen=True)
class Gain:
    """By how much the stream model makes unseen rows more probable than the row model, in nats a row.

    of_x, of_noise: by the dynamics of x, and by the memory of the noise.
    deviation:      of their sum, from how it varies between blocks.
    """

    of_x: float
    of_noise: float
    deviation: float

    @property
    def warranted(self) -> bool:
        """Whether unseen rows favour the stream model beyond doubt."""
        return self.of_x + self.of_noise > _CERTAIN * self.deviation


def fit_stream(model: LinearModel, rows: Rows, joint: Booleans) -> FittedStream:
    """The dynamics that go with a fitted row model; joint: (N, N), which pairs of readings may share noise."""
    transition, renewed = fit_transition(
        rows.parameters - model.mean, rows.segments, model.covariance, model.prior_shrinkage
    )
    return FittedStream(transition, renewed, fit_memory(model.residuals, rows.segments, model.noise, joint))


def held_out_gain(rows: Rows, joint: Booleans) -> Gain:
    """The gain on contiguous blocks of rows that neither model had seen, within each class where rows are sorted."""
    gains = []
    for block in blocks_of(len(rows), _FOLDS, rows.parameters, rows.groups):
        unseen = np.zeros(len(rows), bool)
        unseen[block] = True
        if determined(rows.parameters[~unseen]):  # a value in a handful of rows may all be in one block
            gains.append(_gain(rows.take(~unseen), rows.take(unseen), joint))
    if len(gains) < 2:
        return Gain(0.0, 0.0, np.inf)
    of_x, of_noise = np.mean(gains, axis=0)
    deviation = float(np.std(np.sum(gains, axis=1), ddof=1)) / np.sqrt(len(gains))
    return Gain(float(of_x), float(of_noise), deviation)


def _gain(seen: Rows, unseen: Rows, joint: Booleans) -> tuple[float, float]:
    model = fit_linear(seen.readings, seen.parameters)
    stream = fit_stream(model, seen, joint)
    centred = unseen.parameters - model.mean
    x_gain = transition_likelihood(
        centred, unseen.segments, stream.transition, stream.renewed, model.covariance
    ) - row_likelihood(centred, model.covariance)
    residuals = unseen.readings - unseen.parameters @ model.observe.T - model.offset
    colour = stream.noise
    noise_gain = noise_likelihood(
        residuals, unseen.segments, colour.memory, colour.innovation, colour.floor
    ) - row_likelihood(residuals, np.where(joint, model.noise, 0.0))
    return float(np.mean(x_gain)), float(np.mean(noise_gain))


def neighbours(segments: Integers) -> Integers:
    """The rows that are followed by their neighbour."""
    return np.flatnonzero(np.diff(segments) == 0)


def fit_transition(
    centred: Array, segments: Integers, covariance: Array, shrinkage: float
) -> tuple[Array, Array]:
    """(A, Q) of a stream whose rows have this covariance.

    centred: (T, L) in order of time, means removed; segments: (T,) the runs of neighbours; shrinkage: λ that the
    correlations in ``covariance`` were shrunk by, used for those between neighbours, too.
    """
    before = neighbours(segments)
    length = centred.shape[1]
    if before.size == 0:
        return np.zeros((length, length)), covariance
    unit = centred / np.sqrt(np.mean(centred**2, axis=0))
    lagged = unit[before + 1].T @ unit[before] / before.size
    lagged = (1.0 - shrinkage) * lagged + shrinkage * np.diag(np.diag(lagged))
    deviation = np.sqrt(np.diag(covariance))
    root = np.linalg.cholesky(covariance)
    half = np.linalg.solve(root, np.outer(deviation, deviation) * lagged)
    left, singular, right = np.linalg.svd(np.linalg.solve(root, half.T).T)
    return contracting(root, left * np.minimum(singular, 1.0 - 1.0 / (before.size + 1)) @ right)


def contracting(root: AnyArray, contraction: AnyArray) -> tuple[Array, Array]:
    """(A, Q) of M in the units of a row, whose covariance is root root'."""
    transition = np.linalg.solve(root.T, (root @ contraction).T).T
    renewed = root @ (np.eye(len(root)) - contraction @ contraction.T) @ root.T
    return np.asarray(transition), np.asarray((renewed + renewed.T) / 2)
