"""Messages of one row that were made by several plans of one network, fused together.

Each agent's message says something of x, whichever plan made it: whiten (z - expected) = observe x + unit noise.
Where the plans are for the same network, their files count x from the same mean and in the same coordinates, which
``basis`` tells; and where agents' noises are independent, each one's rows can be taken from the plan that it used.
The estimate is then exact, as if one plan had been designed so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet.centre.messages import CentreModel, WhiteningStacks
from veilnet.centre.models import Messages


def can_mix(one: Messages, other: Messages) -> bool:
    """Whether messages by both models can be fused together."""
    return (
        isinstance(one, CentreModel)
        and isinstance(other, CentreModel)
        and bool(one.basis)
        and one.basis == other.basis
        and one.correlation is None
        and other.correlation is None
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
