"""What the centre has to know of a plan's messages: of single rows, or of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from veilnet.agent.sanitizer import Sanitizer
from veilnet.centre.messages import CentreModel, centre_model
from veilnet.centre.streams.model import StreamModel, stream_model
from veilnet.model.network import Network

__all__ = ["Messages", "messages_of", "same_messages"]

Messages: TypeAlias = CentreModel | StreamModel


def messages_of(network: Network, sanitizers: Mapping[str, Sanitizer], plan: str = "") -> Messages:
    """The messages of these sanitizers; agents without one send their readings raw."""
    return (stream_model if network.is_stream else centre_model)(network, sanitizers, plan)


def same_messages(one: Messages, other: Messages) -> bool:
    """Whether two models say the same, up to rounding on another machine."""
    if isinstance(one, StreamModel):
        return isinstance(other, StreamModel) and one.resembles(other)
    return isinstance(other, CentreModel) and one.resembles(other)
