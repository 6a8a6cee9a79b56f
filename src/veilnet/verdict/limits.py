"""How often readings are beyond their limits, by the model, in words; and the refusal of what is too often."""

from __future__ import annotations

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array
from veilnet.model.network import Network
from veilnet.model.usual import MOST_BEYOND, chance_in_words, chances_beyond

__all__ = ["beyond_limits", "limit_notes", "refuse_narrow_limits"]


def beyond_limits(network: Network) -> Array | None:
    """The probability, at most, that a row of each agent has a reading beyond its limits; None without a prior."""
    if network.usual is None:
        return None
    each = chances_beyond(network.usual, network.stacked_limits)
    return np.minimum(np.bincount(network.blocks.owner, weights=each, minlength=network.S), 1.0)


def limit_notes(network: Network) -> list[str]:
    """One line where limits were stated: how often a reading is beyond them."""
    if not network.limits:
        return []
    said = "A reading beyond its limits counts as the limit: "
    chances = beyond_limits(network)
    if chances is None:
        return [said + "how often that is cannot be told without a prior."]
    return [f"{said}by the model in {_worst(network, chances)}{_too_often(chances)}."]


def refuse_narrow_limits(network: Network) -> None:
    """Refuse limits that readings are beyond too often: what is promised is promised of readings as they are."""
    chances = beyond_limits(network)
    if chances is not None and _too_often(chances):
        raise InvalidNetwork(
            f"limits: by the model a reading is beyond them in {_worst(network, chances)}{_too_often(chances)}; "
            "state limits that only a fault exceeds, or none"
        )


def _worst(network: Network, chances: Array) -> str:
    place = int(np.argmax(chances))
    return f"{chance_in_words(float(chances[place]))} of {network.agents[place]}"


def _too_often(chances: Array) -> str:
    if not np.max(chances, initial=0.0) > MOST_BEYOND:
        return ""
    return (
        f", more than 1 in {1 / MOST_BEYOND:,.0f}: no promise is made of such rows, and 'design' refuses them"
    )
