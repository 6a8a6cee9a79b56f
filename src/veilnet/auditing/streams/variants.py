"""The same stream with one thing changed: how the audit asks "what if" of rows that follow one another."""

from __future__ import annotations

from veilnet.auditing.what_if.variants import changed
from veilnet.model.coloured import ColouredNoise
from veilnet.model.network import Network

EVERYONE = "everyone"


def as_one_agent(network: Network) -> Network:
    """The network in which one agent has all readings, dither already counted in their noise."""
    if network.colour is None:
        noise: object = network.R.matrix()
    else:
        colour = network.colour
        noise = ColouredNoise(colour.memory, colour.innovation, network.R.matrix() - colour.carried)
    return changed(
        network,
        observe={EVERYONE: network.H},
        noise=noise,
        offset=None,
        reading_names={},
        limits={},
    )
