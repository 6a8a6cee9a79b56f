"""What the centre has to know of a plan's messages: of single rows, or of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import TypeAlias

import numpy as np

from veilnet._core.durations import same_step
from veilnet.agent.sanitizer import Sanitizer
from veilnet.centre.messages import CentreModel, centre_model, rows_agree
from veilnet.centre.streams.model import StreamModel, stream_model
from veilnet.centre.streams.sum_model import SumModel, sum_model
from veilnet.model.network import Network
from veilnet.model.stream_size import by_stacks

Messages: TypeAlias = CentreModel | StreamModel | SumModel


def messages_of(network: Network, sanitizers: Mapping[str, Sanitizer], plan: str = "") -> Messages:
    """The messages of these sanitizers; agents without one send their readings raw."""
    if by_stacks(network):
        return sum_model(network, sanitizers, plan)
    return (stream_model if network.is_stream else centre_model)(network, sanitizers, plan)


def same_messages(one: Messages, other: Messages, *, exactly: bool = False) -> bool:
    """Whether two models say the same, up to rounding on another machine or to the last bit."""
    agree = np.array_equal if exactly else rows_agree
    return (
        type(one) is type(other)
        and one.words() == other.words()
        and same_step(one.step, other.step)
        and all(
            mine is not None and theirs is not None and agree(mine, theirs)
            for mine, theirs in zip_longest(one.numbers(), other.numbers())
        )
    )
