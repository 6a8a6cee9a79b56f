"""What a log in order of time tells about streams: how rows follow one another, and what one row hides of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array
from veilnet.bounds.knowledge import crlb
from veilnet.calibration.stream_model import FittedStream, Gain
from veilnet.model.network import Network
from veilnet.verdict.exact_test import check


@dataclass(frozen=True)
class Carried:
    """How much of a reading's noise carries over.

    memory: the part of it that the next row still has, 0 where the noise is white.
    floor:  the part of its variance that does not carry over beside one that does.
    """

    memory: float
    floor: float


@dataclass(frozen=True)
class RowPromise:
    """What the plan that is free for one row promises of a private parameter, and what it is worth on the stream.

    promised:  deviation of the centre's error on one row by itself, as the row model has it.
    now:       the same for a centre that filters all messages up to the row.
    hindsight: the same for one that has all messages, later ones too.
    """

    promised: float
    now: float
    hindsight: float

    @property
    def overstated(self) -> float:
        """How many times larger the promised standard error is than the one with hindsight."""
        return self.promised / self.hindsight


@dataclass(frozen=True)
class StreamReport:
    """Whether rows are a stream, and what follows from it.

    gain:      by how much the stream model makes unseen rows more probable than the row model.
    warranted: whether that is beyond doubt.
    used:      whether the network is a stream.
    parameters: entry of x -> what its next row keeps of it (the diagonal of A).
    readings:  reading -> what carries over of its noise.
    promises:  private parameter -> what a plan made for one row would have promised, and what it is worth.
    """

    gain: Gain
    warranted: bool
    used: bool
    parameters: Mapping[str, float]
    readings: Mapping[str, Carried]
    promises: Mapping[str, RowPromise]

    def __str__(self) -> str:
        total = self.gain.of_x + self.gain.of_noise
        verdict = "warranted" if self.warranted else "not warranted"
        lines = [
            f"A stream model is {verdict}: on held-out rows its log-likelihood is {total:.2g} nats a row higher "
            f"(±{self.gain.deviation:.1g}; dynamics of x {self.gain.of_x:.2g}, memory of the noise "
            f"{self.gain.of_noise:.2g})."
            if total > 0
            else f"A stream model is {verdict}: held-out rows are less likely under it than row by row.",
            "The network is for streams." if self.used else "The network is for single rows.",
        ]
        if self.warranted or self.used:
            kept = [f"{name} {value:.3g}" for name, value in self.parameters.items()]
            noise = [
                f"{name} {one.memory:.3g}"
                + (f" ({100 * one.floor:.0f} % white)" if one.floor > 0.005 else "")
                for name, one in self.readings.items()
            ]
            lines.append(
                f"First-order coefficients of x: {', '.join(kept)}; of the noise: {', '.join(noise)}."
            )
            lines += [
                f"{name}: a plan for single rows would promise ±{one.promised:.3g}, {one.overstated:.3g} times too "
                f"much: filtering its messages gives ±{one.now:.3g}, smoothing ±{one.hindsight:.3g}."
                for name, one in self.promises.items()
            ]
        return "\n".join(lines)


def stream_report(network: Network, stream: FittedStream, gain: Gain, *, used: bool) -> StreamReport:
    """The report on a stream; ``network`` is the one with dynamics, whether it is used or not."""
    names = [name for agent in network.agents for name in network.reading_names[agent]]
    return StreamReport(
        gain=gain,
        warranted=gain.warranted,
        used=used,
        parameters=dict(zip(network.parameters, np.diag(stream.transition).tolist(), strict=True)),
        readings={
            name: Carried(float(stream.noise.memory[k]), float(stream.noise.part[k]))
            for k, name in enumerate(names)
        },
        promises=row_promises(network),
    )


def row_promises(network: Network) -> dict[str, RowPromise]:
    """What a plan made row by row promises of a stream, and what it is worth."""
    row = network.one_row
    sent = check(row).shares.sanitizers
    errors = [crlb(row, sent), crlb(network, sent, when="now"), crlb(network, sent, when="hindsight")]
    return {
        name: RowPromise(*(_deviation(rows, error) for error in errors))
        for name, rows in network.private.items()
    }


def _deviation(rows: Array, error: Array) -> float:
    return float(np.sqrt(np.trace(rows @ error @ rows.T)))
