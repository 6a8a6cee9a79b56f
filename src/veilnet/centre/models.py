"""What the centre has to know of a plan's messages: of single rows, or of a stream.

Messages of one row that were made by several plans of one network are fused together: each agent's message says
something of x, whichever plan made it: whiten (z - expected) = observe x + unit noise. Where the plans are for the
same network, their files count x from the same mean and in the same coordinates, which ``basis`` tells; and where
agents' noises are independent, each one's rows can be taken from the plan that it used. The estimate is then exact,
as if one plan had been designed so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TypeAlias

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.durations import same_step
from veilnet.agent.sanitizer import Sanitizer
from veilnet.centre.messages import CentreModel, WhiteningStacks, centre_model, rows_agree
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


def can_mix(one: Messages, other: Messages) -> bool:
    """Whether messages by both models can be fused together."""
    return (
        isinstance(one, CentreModel)
        and isinstance(other, CentreModel)
        and bool(one.basis)
        and one.basis == other.basis
        and one.correlation is None
        and other.correlation is None
        and not (one.sums or other.sums)
        and (tuple(one.agents), one.labels, one.units) == (tuple(other.agents), other.labels, other.units)
    )


def mixed(models: Sequence[CentreModel]) -> CentreModel:
    """The messages of all agents, each by a model of its own, in sending order; any two of them can be mixed."""
    first = models[0]
    own = [each.blocks.rows(place) for place, each in enumerate(models)]
    blocks = Blocks([int(each.blocks.sizes[place]) for place, each in enumerate(models)])
    return replace(
        first,
        blocks=blocks,
        whiten=WhiteningStacks.of_agents(blocks, [each.whiten[place] for place, each in enumerate(models)]),
        observe=np.concatenate([each.observe[rows] for each, rows in zip(models, own, strict=True)]),
        expected=np.concatenate([each.expected[rows] for each, rows in zip(models, own, strict=True)]),
        plan="",
    )
