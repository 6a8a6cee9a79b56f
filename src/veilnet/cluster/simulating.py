"""What a worker does in an audit: draw the readings of its agents, sanitize them, and say what the messages tell.

Readings are drawn from the model and sanitized by what is really in the parts of the plan. What the messages tell is
added up as for the centre (:mod:`veilnet.cluster.centre`). Since the readings are known here, so is what was added to
them: numbers that carry noise are tested for its variance one by one, and those that carry none must be what the plan
says but for rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.names import NumberedNames
from veilnet._core.stacks import parts as some_at_a_time
from veilnet._core.threads import one_thread
from veilnet._core.types import Array
from veilnet.agent.mechanisms import SanitizerStack
from veilnet.agent.randomness import SeededNoise
from veilnet.auditing.attack.simulation import read_in_steps
from veilnet.auditing.statistics import subgaussian_square_p
from veilnet.cluster.centre import told_by
from veilnet.cluster.parts import LoadedPart, loaded
from veilnet.cluster.sanitizing import part_generator, release_of
from veilnet.cluster.sending import read_sending
from veilnet.model.noise import IndependentNoise
from veilnet.model.readings import MOST_DRAWS, dither_variance

_OF_X, _OF_READINGS, _OF_AGENTS = 1, 2, 3  # what a seed is used for, so that no two draw the same
_NOISY = 1e4  # a variance of so many squared steps of the grid is noise; what is less is rounding
_ROUNDED = 1e-3  # of a step, that the arithmetic of a sum may be off (veilnet.agent.grid.CROSSING_LIMIT)


@dataclass(frozen=True, eq=False)
class Simulated:
    """What the simulated messages of some parts tell, and whether they are what the plan says.

    vectors:     b of every row, (T, L).
    information: J, (L, L).
    refused:     how many messages of credible readings were not sent.
    strayed:     how many numbers without noise are not what the plan says.
    tested:      how many numbers with noise were tested.
    least:       the smallest p-value among them, and
    worst:       whose it is.
    """

    vectors: Array
    information: Array
    refused: int = 0
    strayed: int = 0
    tested: int = 0
    least: float = 1.0
    worst: str = ""


def simulated_together(several: Sequence[Simulated]) -> Simulated:
    """Several batches together, in the order given."""
    vectors, information = several[0].vectors.copy(), several[0].information.copy()
    for each in several[1:]:
        vectors += each.vectors
        information += each.information
    worst = min(several, key=lambda each: each.least)
    return Simulated(
        vectors,
        information,
        sum(each.refused for each in several),
        sum(each.strayed for each in several),
        sum(each.tested for each in several),
        worst.least,
        worst.worst,
    )


def simulated_sums(
    names: Sequence[str],
    folder: Path,
    length: int,
    draws: tuple[int, int],
    spread: Array,
    mean: Array,
    change: Array,
) -> Simulated:
    """A task: simulate the agents of some parts.

    draws:        the seed, and how many rows.
    spread, mean: of x, which is the same for all parts.
    change:       as in :func:`veilnet.cluster.centre.told_by`.
    """
    seed, rows = draws
    with one_thread():
        x = drawn_x(seed, rows, mean, spread)
        found = [Simulated(np.zeros(x.shape), np.zeros((length, length)))]
        for name, part in loaded(folder, names, length):
            sensors = part_generator(name, seed, _OF_READINGS)
            noise = SeededNoise(part_generator(name, seed, _OF_AGENTS))
            for stack in read_sending(folder, name, part).stacks():
                for some in some_at_a_time(stack.count, rows, stack.readings):
                    few = stack.take(some)
                    readings = _readings(few, part, x, sensors)
                    messages = release_of(few, part, readings, noise)
                    here = _simulated(few, part, name, readings, messages, change, mean)
                    found = [simulated_together([*found, here])]
    return found[0]


def drawn_x(seed: int, rows: int, mean: Array, spread: Array) -> Array:
    """x in every row, the same for all parts."""
    draws = np.random.default_rng([seed, _OF_X]).standard_normal((rows, len(mean)))
    return np.asarray(mean + draws @ spread.T)


def _readings(stack: SanitizerStack, part: LoadedPart, x: Array, rng: np.random.Generator) -> Array:
    """What the sensors of some agents read of x, (rows, count, n), in steps where they have some."""
    observe = part.observe[stack.places]
    count, size, length = observe.shape
    steps = _steps(stack, part)
    noise = part.noise[stack.places] - dither_variance(steps, MOST_DRAWS)[:, :, None] * np.eye(size)
    exact = x @ observe.reshape(-1, length).T + part.offset[stack.places].reshape(-1)
    own = IndependentNoise(Blocks([size] * count), [noise], NumberedNames(count))
    return read_in_steps(exact, own, steps.reshape(-1), rng).reshape(len(x), count, size)


def _steps(stack: SanitizerStack, part: LoadedPart) -> Array:
    """The steps of the readings of some agents, (count, n)."""
    if part.resolution is None:
        return np.zeros((stack.count, part.observe.shape[1]))
    return np.asarray(part.resolution[stack.places])


def _simulated(
    stack: SanitizerStack,
    part: LoadedPart,
    name: str,
    readings: Array,
    messages: Array,
    change: Array,
    mean: Array,
) -> Simulated:
    """What the messages (rows, count, k) of some agents tell, and what was added to their readings."""
    rows = len(messages)
    assert stack.grid is not None  # a part of a plan always has one
    lost = np.asarray(~np.isfinite(messages).all(axis=2))
    told = told_by(stack, part, change, mean)
    deviations = np.where(lost[:, :, None], 0.0, messages).reshape(rows, -1) - told.expected
    deviations[np.repeat(lost, messages.shape[2], axis=1)] = 0.0
    exact = np.einsum("tcn,ckn->tck", readings - part.offset[stack.places], stack.compression)
    added = np.where(lost[:, :, None], 0.0, messages - exact)
    steps = _steps(stack, part)
    variances = np.einsum("ckn,cn->ck", stack.compression**2, dither_variance(steps, MOST_DRAWS))
    if stack.variances is not None:
        variances = variances + stack.variances
    noisy = variances > _NOISY * stack.grid**2
    chances = subgaussian_square_p(
        np.sum(added**2, axis=0) / np.where(noisy, variances, 1.0), rows, np.full(noisy.shape, 1 / _NOISY)
    )
    chances = np.where(noisy, chances, 1.0)
    furthest = stack.grid * (1 + _ROUNDED) + np.einsum(
        "ckn,cn->ck", np.abs(stack.compression), MOST_DRAWS * steps / 2
    )
    if stack.variances is not None:
        furthest = np.where(stack.variances > 0, np.inf, furthest)
    place = int(np.argmin(np.min(chances, axis=1)))
    return Simulated(
        deviations @ told.weights,
        told.rows.T @ told.rows,
        int(np.sum(lost)),
        int(np.sum(np.abs(added) > furthest)),
        int(np.sum(noisy)),
        float(np.min(chances)),
        f"agent {int(stack.places[place])} of {name}",
    )
