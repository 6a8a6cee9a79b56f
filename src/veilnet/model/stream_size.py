"""Streams: how large one may be for which way of computing it, the time of its rows, and what is not asked of one.

With the memories of all agents in one state, S agents of L parameters make a dense system of up to L(S + 1) numbers:
exact in every respect, and hopeless beyond some hundred agents. Where noises are white and independent between
agents, everything a plan at perfect utility promises is had from L x L sums over stacks of agents instead.
"""

from __future__ import annotations

from typing import Any

from veilnet._core.durations import duration_in_words, keeps_to, read_step
from veilnet._core.errors import InvalidRequest
from veilnet.model.network import Network

MOST_JOINT = 1000
"""Agents times parameters up to which the memories of all agents are kept in one state."""
NOW_IS_NOT_COMPUTED = (
    "Before later rows arrive, every error is at least as large as with hindsight; how much larger is not "
    "computed for so many agents."
)
"""What verdicts and plans say about larger streams."""
GAPS_ARE_NOT_COMPUTED = (
    "Promises are for a stream without gaps; for so many agents, starts and missed rows are not computed."
)
"""Likewise."""
# Numbers in one dense system: its steady state takes minutes and a gigabyte.
_LARGEST = 5000


def by_stacks(network: Network) -> bool:
    """Whether a stream is evaluated by sums over stacks of agents: it is large, and nothing else couples agents."""
    return (
        network.is_stream
        and network.colour is None
        and network.R.independent
        and network.S * network.L > MOST_JOINT
    )


def refuse_too_large(network: Network, numbers: int, what: str) -> None:
    """An error that says so, where a dense system would take hours or more memory than there is.

    numbers: how many the system has.
    what:    those numbers, in words.
    """
    if numbers <= _LARGEST:
        return
    kind = "is coloured" if network.colour is not None else "couples agents"
    why = (
        "trade-offs and errors now are not built for so many agents, share filters at perfect utility are"
        if network.colour is None and network.R.independent
        else f"its noise {kind}, and only streams with white noise independent between agents scale further"
    )
    raise InvalidRequest(
        f"network: a stream of {network.S} agents with {network.N} readings is too large for one system of "
        f"{what} ({numbers}; at most {_LARGEST}): {why}"
    )


def refuse_stream(network: Network) -> None:
    """Refuse a stream where the answer would be about one row alone, as if the others had no information on it."""
    if network.is_stream:
        raise InvalidRequest(
            "network: this is for independent rows, and the rows of a stream are correlated; use "
            "network.one_row for a single row"
        )


def with_step(network: Network, step: Any, name: str = "step") -> Network:
    """The network with another step; that of a stream is the one its dynamics are for, and stays.

    step: such as "15min", or seconds. name: what it is called in an error.
    """
    asked = read_step(step, name)
    if network.step is not None and asked is not None and keeps_to(asked, network.step):
        return network
    if network.is_stream and network.step is not None:
        raise InvalidRequest(
            f"{name}: the rows of this stream are {duration_in_words(network.step)} apart, and its dynamics "
            f"are for that, found {step}; leave it out, or fit the network to rows that are so far apart"
        )
    return network.replace(step=asked)
