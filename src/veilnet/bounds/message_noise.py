"""The noise of what agents send: C R C' + Θ, the readings' own noise as it passes plus the noise that is added.

(The certificate forms it once more by itself, since it shares no code with the bounds.)
"""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array
from veilnet.agent.mechanisms import Mechanisms
from veilnet.model.network import Network

__all__ = ["message_covariance", "own_covariances"]


def own_covariances(compression: Array, own: Array, added: Array | None) -> Array:
    """C R C' + Θ for one agent or a stack of agents alike."""
    covariance = compression @ own @ np.swapaxes(compression, -1, -2)
    if added is not None:
        covariance = covariance + added
    return np.asarray((covariance + np.swapaxes(covariance, -1, -2)) / 2)


def message_covariance(network: Network, sent: Mechanisms) -> Array:
    """C R C' + Θ of all agents, in sending order."""
    covariance = sent.compressed(sent.compressed(network.R.matrix()).T)
    for stack in sent.stacks:
        if stack.noise is not None:
            numbers = sent.numbers(stack)
            covariance[numbers[:, :, None], numbers[:, None, :]] += stack.noise
    return np.asarray((covariance + covariance.T) / 2)
