"""A network whose rows take a stated time: the step that a plan gives to agents and centre."""

from __future__ import annotations

from typing import Any

from veilnet._core.durations import in_words, read_step, same_step
from veilnet._core.errors import InvalidRequest
from veilnet.model.network import Network

__all__ = ["with_step"]


def with_step(network: Network, step: Any, name: str = "step") -> Network:
    """The network with another step; that of a stream is the one its dynamics are for, and stays.

    step: such as "15min", or seconds. name: what it is called in an error.
    """
    seconds = read_step(step, name)
    if network.is_stream and network.step is not None and not same_step(network.step, seconds):
        raise InvalidRequest(
            f"{name}: the rows of this stream are {in_words(network.step)} apart, and its dynamics are for that, "
            f"found {step}; leave it out, or fit the network to rows that are so far apart"
        )
    return network.replace(step=seconds)
