"""The noise of what agents send: C R C' + Θ, the readings' own noise as it passes plus the noise that is added.

(The certificate forms it once more by itself, since it shares no code with the bounds.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array
from veilnet.model.network import Network

__all__ = ["Sent", "joint_covariance", "own_covariance", "own_covariances"]


@dataclass(frozen=True, eq=False)
class Sent:
    """What one agent sends: its place in sending order, C_i, and Θ_i."""

    place: int
    compression: Array
    noise: Array


def own_covariance(network: Network, sent: Sent) -> Array:
    """C_i R_ii C_i' + Θ_i of one agent."""
    return own_covariances(sent.compression, network.R.block(sent.place), sent.noise)


def own_covariances(compression: Array, own: Array, added: Array | None) -> Array:
    """C R C' + Θ for one agent or a stack of agents alike."""
    covariance = compression @ own @ np.swapaxes(compression, -1, -2)
    if added is not None:
        covariance = covariance + added
    return np.asarray((covariance + np.swapaxes(covariance, -1, -2)) / 2)


def joint_covariance(network: Network, messages: Sequence[Sent]) -> Array:
    """C R C' + Θ of several agents, stacked in the order given; the block diagonal C is never formed whole."""
    noise = network.R.matrix()
    parts = [(network.blocks.rows(sent.place), sent.compression) for sent in messages]
    half = np.concatenate([rows @ noise[mine] for mine, rows in parts]).T
    covariance = np.concatenate([rows @ half[mine] for mine, rows in parts])
    end = 0
    for sent in messages:
        start, end = end, end + len(sent.compression)
        covariance[start:end, start:end] += sent.noise
    return np.asarray((covariance + covariance.T) / 2)
