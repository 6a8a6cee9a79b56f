"""By how many draws an agent dithers each reading: what it sends decides.

A reading y on a lattice of step q is moved by d, the sum of m uniform draws of width q, before it is combined. Let s
be the deviation that y + d has left for somebody who knows x, the other agents' readings and all numbers of the agent
(mathematics, "Readings on a lattice"):

- s = 0, the reading is sent whole: a receiver who rounds to the lattice has y, whatever one draw added. m = 0, and no
  figure counts a dither. The same for a reading of which nothing is sent.
- else, of one draw's variance rounding takes at most q²/12 exp(-4 π² s²/q²) away. Where that is no more than a
  thousandth of the reading's variance, m = 1: no error that is promised is off by more than that part.
- otherwise m = 2: the mean of two draws is zero wherever between two lattice points their sum fell, so that rounding
  gains nothing, however small s is.

Two draws thus serve whatever is sent. An agent with a memory has two, and so has one whose noise carries over from
row to row: other rows have information on the reading too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from veilnet._core.linalg import cholesky
from veilnet._core.types import Array
from veilnet.agent.mechanisms import Sanitizers, mechanisms
from veilnet.model.common import SharedNoise
from veilnet.model.network import Network
from veilnet.model.noise import IndependentNoise, NoiseModel
from veilnet.model.readings import MOST_DRAWS, dither_variance

_MOST_GAIN = 1e-3  # of a reading's variance
_WHOLE = 1e-9  # of its deviation: a reading with less left is sent whole, the rest far below any release grid


def dither_for(network: Network, sanitizers: Sanitizers) -> Array:
    """The draws (N,) that each reading needs where agents send this; who has no sanitizer sends its readings raw."""
    found = np.zeros(network.N)
    if not np.any(network.steps):
        return found
    noise, most = own_noise(network), network.colour is not None
    for each in mechanisms(network, sanitizers).normal.parts():
        stack = each.stack
        rows = network.blocks.starts[stack.places][:, None] + np.arange(stack.readings)
        noisy = np.zeros((stack.count, stack.sent)) if stack.variances is None else stack.variances
        own = noise.stack(network.blocks.groups[each.group])[each.within]
        found[rows] = _draws(stack.compression, noisy, own, network.steps[rows], stack.order, most=most)
    return found


def with_more_dither(network: Network, sanitizers: Sanitizers) -> Network | None:
    """The network that counts two draws of each reading for which what is sent needs other draws than it counts; None
    where there is none.
    """
    needed = dither_for(network, sanitizers)
    wrong = (network.draws != needed) & (network.draws != MOST_DRAWS)
    return network.replace(dither=np.where(wrong, MOST_DRAWS, network.draws)) if np.any(wrong) else None


def with_settled_dither(network: Network, sent: Callable[[Network], Sanitizers]) -> Network:
    """The network with the dither that what agents send calls for, which depends on their dither in turn.

    network: returned as it is where its dither was decided.
    sent:    network -> agent -> Sanitizer.
    """
    if network.dither is not None or not np.any(network.steps):
        return network
    network = network.replace(dither=dither_for(network, sent(network)))
    while (other := with_more_dither(network, sent(network))) is not None:
        network = other
    return network


def counting_dither(network: Network, sanitizers: Sanitizers) -> Network:
    """The network whose R counts the dither that these sanitizers do, where it was not decided: of one that says
    nothing of its readings' lattice, the dither that it needs.
    """
    if network.dither is not None or not np.any(network.steps):
        return network
    run = mechanisms(network, sanitizers).dither
    unsaid = np.isnan(run)
    return network.replace(
        dither=np.where(unsaid, dither_for(network, sanitizers), run) if np.any(unsaid) else run
    )


def own_noise(network: Network) -> NoiseModel:
    """The noise of each agent's readings once all other readings are known, independent between agents."""
    noise = network.undithered_noise
    if noise.independent:
        return noise
    if isinstance(noise, SharedNoise):
        return noise.own
    white = noise.whiten(np.eye(network.N))
    known = white.T @ white
    stacks = [np.linalg.inv(group.diagonal_blocks(known)) for group in network.blocks.groups]
    return IndependentNoise(
        network.blocks, [(each + np.swapaxes(each, 1, 2)) / 2 for each in stacks], network.agents
    )


def _draws(compression: Array, noisy: Array, own: Array, steps: Array, order: int, *, most: bool) -> Array:
    """(count, n) draws of agents alike, their rows in normal form, ``noisy`` 1 where they carry noise and else 0."""
    coarse = steps > 0
    if order:
        return np.where(coarse, MOST_DRAWS, 0.0)
    diagonal = np.arange(steps.shape[1])
    moved = np.array(own)
    moved[:, diagonal, diagonal] += dither_variance(steps)
    deviations = np.sqrt(moved[:, diagonal, diagonal])
    root = cholesky(moved)
    left = _left(compression @ root, noisy, root)
    gain = dither_variance(steps) * np.exp(-4 * np.pi**2 * (left / np.where(coarse, steps, 1.0)) ** 2)
    draws = np.where((not most) & (gain <= _MOST_GAIN * deviations**2), 1.0, MOST_DRAWS)
    needless = (left <= _WHOLE * deviations) | np.all(compression == 0, axis=1)
    return np.where(coarse & ~needless, draws, 0.0)


def _left(sent: Array, noisy: Array, root: Array) -> Array:
    """(count, n): how far the best guess of each reading from the numbers is off, by least squares.

    Reading k is e_k' root w with w white, the numbers ``sent`` w plus noise of variance 0 or 1: the guess with
    coefficients a is off by root' e_k - sent' a and the noise's a.
    """
    count, rows, size = sent.shape
    if not rows:
        return np.asarray(np.linalg.norm(root, axis=2))
    columns = np.concatenate([np.swapaxes(sent, 1, 2), noisy[:, :, None] * np.eye(rows)], axis=1)
    lengths = np.linalg.norm(columns, axis=1, keepdims=True)
    basis = np.linalg.qr(columns / np.where(lengths > 0, lengths, 1.0))[0]
    wanted = np.concatenate([np.swapaxes(root, 1, 2), np.zeros((count, rows, size))], axis=1)
    rest = wanted - basis @ (np.swapaxes(basis, 1, 2) @ wanted)
    return np.asarray(np.linalg.norm(rest, axis=1))
