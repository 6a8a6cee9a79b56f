"""What the centre has to know of a plan's messages: of single rows, or of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from veilnet.agent.sanitizer import Sanitizer
from veilnet.centre.messages import CentreModel, centre_model
from veilnet.centre.streams.model import StreamModel, stream_model
from veilnet.centre.streams.sum_model import SumModel, sum_model
from veilnet.model.network import Network
from veilnet.model.stream_size import by_stacks

__all__ = ["Messages", "messages_of", "same_messages"]

Messages: TypeAlias = CentreModel | StreamModel | SumModel


def messages_of(network: Network, sanitizers: Mapping[str, Sanitizer], plan: str = "") -> Messages:
    """The messages of these sanitizers; agents without one send their readings raw."""
    if by_stacks(network):
        return sum_model(network, sanitizers, plan)
    return (stream_model if network.is_stream else centre_model)(network, sanitizers, plan)


def same_messages(one: Messages, other: Messages) -> bool:
    """Whether two models say the same, up to rounding on another machine."""
    if isinstance(one, SumModel):
        return isinstance(other, SumModel) and one.resembles(other)
    if isinstance(one, StreamModel):
        return isinstance(other, StreamModel) and one.resembles(other)
    return isinstance(other, CentreModel) and one.resembles(other)
