"""What a worker does in an audit: draw the readings of its agents, sanitize them, and say what the messages tell.

Readings are drawn from the model and sanitized by what is really in the parts of the plan. What the messages tell is
added up as for the centre (:mod:`veilnet.cluster.fusing`). Since the readings are known here, so is what was added to
them: numbers that carry noise are tested for its variance one by one, and those that carry none must be what the plan
says but for rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from veilnet._core.stacks import parts as some_at_a_time
from veilnet._core.types import Array
from veilnet.agent.mechanisms import Mechanisms
from veilnet.agent.randomness import SeededNoise
from veilnet.auditing.attack.simulation import draw_readings, draw_x
from veilnet.auditing.statistics import subgaussian_square_p
from veilnet.cluster.fusing import told_by
from veilnet.cluster.parts import PartFile
from veilnet.cluster.plans import sent_by
from veilnet.cluster.sanitizing import part_generator, release_of
from veilnet.cluster.sums import Summed, joined_by
from veilnet.model.network import Network
from veilnet.model.readings import MOST_DRAWS, dither_variance

_OF_X, _OF_READINGS, _OF_AGENTS = 1, 2, 3  # what a seed is used for, so that no two draw the same
_NOISY = 1e4  # a variance of so many squared steps of the grid is noise; what is less is rounding
_ROUNDED = 1e-3  # of a step, that the arithmetic of a sum may be off (veilnet.agent.grid.CROSSING_LIMIT)


@dataclass(frozen=True, eq=False)
class Simulated(Summed):
    """What the simulated messages of some parts tell, and whether they are what the plan says.

    vectors:     b of every row, (T, L).
    information: J, (L, L).
    refused:     how many messages of credible readings were not sent.
    strayed:     how many numbers without noise are not what the plan says.
    tested:      how many numbers with noise were tested.
    worst:       the smallest p-value among them, and whose it is.
    """

    vectors: Array
    information: Array
    refused: int = 0
    strayed: int = 0
    tested: int = 0
    worst: tuple[float, str] = field(default=(1.0, ""), metadata=joined_by(min))


def simulated_sums(part: PartFile, seed: int, rows: int, whole: Network) -> Simulated:
    """A task: simulate the agents of a part in so many rows.

    whole: one imaginary agent in place of all.
    """
    x = drawn_x(seed, rows, whole)
    sensors = part_generator(part.name, seed, _OF_READINGS)
    noise = SeededNoise(part_generator(part.name, seed, _OF_AGENTS))
    found = Simulated(np.zeros(x.shape), np.zeros((whole.L, whole.L)))
    for stack in sent_by(part).stacks:
        for some in some_at_a_time(stack.count if stack.sent else 0, rows, stack.readings):
            few = stack.take(some)
            network = part.network.some(few.places)
            readings = draw_readings(network, x, sensors).reshape(rows, few.count, few.readings)
            sent = Mechanisms(network, [replace(few, places=np.arange(few.count))])
            messages = release_of(network, sent.stacks[0], readings, noise)
            names = [part.network.agents[place] for place in few.places.tolist()]
            found += _simulated(sent, readings, messages, whole, names)
    return found


def drawn_x(seed: int, rows: int, whole: Network) -> Array:
    """x in every row, the same for all parts."""
    return draw_x(whole, np.random.default_rng([seed, _OF_X]), rows)


def _simulated(
    sent: Mechanisms, readings: Array, messages: Array, whole: Network, names: list[str]
) -> Simulated:
    """What the messages (rows, count, k) of some agents tell, and what was added to their readings."""
    network, (stack,), rows = sent.network, sent.stacks, len(messages)
    assert stack.grid is not None  # a part of a plan always has one
    lost = np.asarray(~np.isfinite(messages).all(axis=2))
    told = told_by(sent, whole)
    deviations = messages.reshape(rows, -1) - told.expected
    deviations[np.repeat(lost, messages.shape[2], axis=1)] = 0.0
    offset, steps = (network.blocks.groups[0].take(each) for each in (network.offset, network.steps))
    added = messages - np.einsum("tcn,ckn->tck", readings - offset, stack.compression)
    added[lost] = 0.0
    own = np.zeros(stack.grid.shape) if stack.variances is None else stack.variances
    variances = own + np.einsum("ckn,cn->ck", stack.compression**2, dither_variance(steps, MOST_DRAWS))
    noisy = variances > _NOISY * stack.grid**2
    squares = np.sum(added**2, axis=0) / np.where(noisy, variances, 1.0)
    chances = np.where(noisy, subgaussian_square_p(squares, rows, np.full(noisy.shape, 1 / _NOISY)), 1.0)
    dither = np.einsum("ckn,cn->ck", np.abs(stack.compression), MOST_DRAWS * steps / 2)
    furthest = np.where(own > 0, np.inf, stack.grid * (1 + _ROUNDED) + dither)
    least = np.min(chances, axis=1)
    return Simulated(
        deviations @ told.weights, told.rows.T @ told.rows, int(np.sum(lost)),
        int(np.sum(np.abs(added) > furthest)), int(np.sum(noisy)),
        (float(np.min(least)), names[int(np.argmin(least))]),
    )  # fmt: skip
