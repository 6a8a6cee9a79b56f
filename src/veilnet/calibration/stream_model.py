"""Rows as a stream: dynamics of x and noise that carries over, and whether the data warrant them.

Whether they do is asked of rows the fit had not seen: both models are fitted to all rows but those of one contiguous
block, and each says how probable that block is. The stream model is warranted when it wins by more than twice the
deviation of its gain over the blocks: on independent rows its parameters cost likelihood, and it loses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array, Booleans
from veilnet.calibration.dynamics import fit_transition
from veilnet.calibration.likelihood import noise_likelihood, row_likelihood, transition_likelihood
from veilnet.calibration.linear_model import LinearModel, determined, fit_linear
from veilnet.calibration.noise_memory import NoiseMemory, fit_memory
from veilnet.calibration.rows import Rows
from veilnet.calibration.stretches import blocks_of

__all__ = ["FittedStream", "Gain", "fit_stream", "held_out_gain"]

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
    for block in blocks_of(len(rows), _FOLDS, rows.parameters):
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
