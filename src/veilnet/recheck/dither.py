"""Do agents dither each reading as what they send calls for? From the numbers sent, not by the rule that chose it.

Two draws always serve. One draw serves where rounding to the lattice gains no more than a thousandth of the reading's
variance, and none where the reading is sent whole or not at all (mathematics, "Readings on a lattice"). What the
numbers z = C v + ξ of an agent leave of v = y + d, x and all other readings known, is the conditional covariance

    W = V - V C' (C V C' + Θ)^+ C V,   V the readings' own noise with one draw.
"""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array, Booleans
from veilnet.agent.mechanisms import Mechanisms
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.model.common import SharedNoise
from veilnet.model.network import Network

_MOST_GAIN = 1.001e-3  # of a reading's variance, and what two routes may differ by
_WHOLE = 1e-6  # of a reading's deviation: what differences of covariances in doubles leave of nothing
_AT_ONCE = 4096  # agents
_LEAST = 1e-14  # of the largest eigenvalue: numbers that repeat others


def wrongly_dithered(network: Network, sent: Mechanisms) -> Booleans:
    """Which agents (S,) count or do dither that their numbers do not call for; those without a sanitizer are raw."""
    wrong = np.zeros(network.S, bool)
    if not np.any((network.steps > 0) & (network.draws < 2)):
        return wrong
    alone = _own_noise(network)
    for stack in sent.stacks:
        for first in range(0, stack.count, _AT_ONCE):
            part = stack.take(slice(first, first + _AT_ONCE))
            wrong[part.places] = _wrong(network, part, alone)
    return wrong


def as_dithered(network: Network, sent: Mechanisms) -> Network:
    """The network that counts the dither its agents do, where it does not say itself; raw readings have none."""
    if network.dither is not None or not np.any(network.steps):
        return network
    return network.replace(dither=np.nan_to_num(sent.dither))


def _wrong(network: Network, stack: SanitizerStack, alone: Array | None) -> Booleans:
    """Which agents of a stack (count,)."""
    rows = network.blocks.starts[stack.places][:, None] + np.arange(stack.readings)
    steps, draws = network.steps[rows], network.draws[rows]
    doubtful = (steps > 0) & (draws < 2)
    if stack.order:
        return np.asarray(np.any(doubtful, axis=1))
    own = (
        np.stack([network.undithered_noise.block(place) for place in stack.places.tolist()])
        if alone is None
        else alone[rows[:, :, None], rows[:, None, :]]
    )
    moved = own + (steps**2 / 12.0)[:, :, None] * np.eye(stack.readings)
    left = _left(stack.compression, stack.noise, moved)
    variances = np.diagonal(moved, axis1=1, axis2=2)
    gain = steps**2 / 12.0 * np.exp(-((2 * np.pi * left / np.where(steps > 0, steps, 1.0)) ** 2))
    once = (draws == 1) & (gain <= _MOST_GAIN * variances) & (network.colour is None)
    whole = left <= _WHOLE * np.sqrt(variances)
    never = (draws == 0) & (whole | ~np.any(stack.compression, axis=1))
    return np.asarray(np.any(doubtful & ~once & ~never, axis=1))


def _left(rows: Array, noise: Array | None, own: Array) -> Array:
    """(count, n): the deviations left of the readings, computed in units in which each has one beforehand."""
    scale = np.sqrt(np.diagonal(own, axis1=1, axis2=2))
    alike = own / scale[:, :, None] / scale[:, None, :]
    sent = rows * scale[:, None, :]
    across = alike @ np.swapaxes(sent, 1, 2)
    together = sent @ across + (0.0 if noise is None else noise)
    heights = np.sqrt(np.diagonal(together, axis1=1, axis2=2))
    heights = np.where(heights > 0, heights, 1.0)
    across = across / heights[:, None, :]
    together = together / heights[:, :, None] / heights[:, None, :]
    known = across @ np.linalg.pinv(together, rcond=_LEAST, hermitian=True) @ np.swapaxes(across, 1, 2)
    rest = np.diagonal(alike - known, axis1=1, axis2=2)
    return np.asarray(scale * np.sqrt(np.maximum(rest, 0.0)))


def _own_noise(network: Network) -> Array | None:
    """The joint noise given all other agents' readings, block diagonal; None where agents' noises are independent."""
    noise = network.undithered_noise
    if noise.independent:
        return None
    if isinstance(noise, SharedNoise):
        return noise.own.matrix()
    known = np.linalg.inv(noise.matrix())
    found = np.zeros(known.shape)
    for place in range(network.S):
        mine = network.blocks.rows(place)
        found[mine, mine] = np.linalg.inv(known[mine, mine])
    return found
