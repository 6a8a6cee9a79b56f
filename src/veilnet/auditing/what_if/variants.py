"""The same network with one thing changed: how the audit asks "what if"."""

from __future__ import annotations

from typing import Any

import numpy as np

from veilnet._core.types import Array
from veilnet.model.coloured import ColouredNoise
from veilnet.model.network import Network, Prior

# Where nothing, or not everything, is known beforehand, x is drawn within so many raw deviations.
_WIDE = 10.0


def changed(network: Network, **changes: Any) -> Network:
    """A copy with some arguments of Network replaced.

    Another ``noise`` is that of the readings as they are combined: it counts whatever dither and model error there
    are, so that neither is kept beside it.
    """
    if "noise" in changes:
        changes = {"resolution": None, "model_error": 0.0} | changes
    return network.replace(**changes)


def with_stacked_observe(network: Network, stacked: Array, **changes: Any) -> Network:
    """A copy with another H, given stacked."""
    observe = {agent: stacked[network.blocks.rows(place)] for place, agent in enumerate(network.agents)}
    return changed(network, observe=observe, **changes)


def noise_of(network: Network, more: Array | float = 0.0) -> Any:
    """The noise of the readings, dither counted, with so much more variance of each (N,), as a Network takes it."""
    if network.colour is None:
        return network.R.plus(np.broadcast_to(more, (network.N,)))
    colour = network.colour
    floor = network.R.matrix() - colour.carried + np.diag(np.broadcast_to(more, (network.N,)))
    return ColouredNoise(colour.memory, colour.innovation, floor)


def with_more_noise(network: Network, more: Array) -> Network:
    """A copy whose readings have so much more variance (N,), drawn anew in every row."""
    return changed(network, noise=noise_of(network, more))


def raw_information(network: Network) -> Array:
    """J0 + H'R^-1 H."""
    return np.asarray(network.raw_triangle.T @ network.raw_triangle)


def prior_mean(network: Network) -> Array:
    """The prior mean, zero without a prior."""
    return np.zeros(network.L) if network.prior is None else network.prior.mean


def simulated(network: Network) -> Network:
    """The network itself where its prior is full; otherwise one with x within ten raw deviations.

    A trained attacker needs x to have a distribution. Where the plan assumes none, a wide one is taken, and
    bounds are those that hold for it.
    """
    if network.prior is not None and network.prior.full:
        return network
    before = np.zeros((network.L, network.L)) if network.prior is None else network.prior.information
    wide = before + raw_information(network) / _WIDE**2
    return changed(network, prior=Prior(information=(wide + wide.T) / 2, mean=prior_mean(network)))
