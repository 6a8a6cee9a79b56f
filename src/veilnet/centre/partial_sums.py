"""The sum over agents in parts: several centres, or the workers of a stream processor, add up, and one merges.

Where agents' noises are independent, an estimate needs of an epoch only the sum over agents of an L x L matrix and an
L vector (mathematics, section 1). Any part of the agents may be added up anywhere, in any order.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array
from veilnet.centre.fusion import Fusion
from veilnet.centre.messages import CentreModel, WhiteningStacks


@dataclass(frozen=True, eq=False)
class PartialSum:
    """What some agents sent of one epoch.

    information: (L, L), the sum of A'A over their whitened rows A. vector: (L,), of A' times their whitened messages.
    agents:      how many they are.
    """

    information: Array
    vector: Array
    agents: int

    def __add__(self, other: PartialSum) -> PartialSum:
        return PartialSum(
            self.information + other.information, self.vector + other.vector, self.agents + other.agents
        )

    def as_words(self, basis: str) -> dict[str, Any]:
        """The sum as JSON can say it, to the last bit; the model's basis tells other networks apart."""
        numbers = np.concatenate([self.information[np.tril_indices(len(self.vector))], self.vector])
        encoded = b64encode(numbers.astype("<f8").tobytes()).decode()
        return {"agents": self.agents, "basis": basis, "numbers": encoded}

    @classmethod
    def of_words(cls, words: Mapping[str, Any], fusion: Fusion) -> PartialSum:
        """What :meth:`as_words` said for the same network; InvalidRequest for another."""
        length = adding_model(fusion)[0].observe.shape[1]
        numbers = np.frombuffer(b64decode(words["numbers"]), "<f8")
        if words["basis"] != fusion.model.basis or len(numbers) != length * (length + 3) // 2:
            raise InvalidRequest("sum: expected that of the same network, found another's")
        information, lower = np.zeros((length, length)), np.tril_indices(length)
        information[lower] = information.T[lower] = numbers[:-length]
        return cls(information, numbers[-length:], words["agents"])


def partial_sum(fusion: Fusion, messages: Mapping[str, Array]) -> PartialSum:
    """The sum over some agents of one epoch; of none it is the beginning of a keyed state.

    fusion:   of a plan for single rows with independent noise. messages: agent -> its message, (M_i,), each once.
    """
    model, places = adding_model(fusion)
    length = model.observe.shape[1]
    information, vector = np.zeros((length, length)), np.zeros(length)
    for agent, message in messages.items():
        if agent not in places:
            raise InvalidRequest(f"messages: expected agents of the plan, found {agent!r}; leave it out")
        rows = model.blocks.rows(places[agent])
        values, observed = np.asarray(message, dtype=float), model.observe[rows]
        if values.shape != observed.shape[:1] or not np.isfinite(values).all():
            raise InvalidRequest(
                f"messages[{agent!r}]: expected {len(observed)} finite numbers, found {values.tolist()!r}; an agent "
                "that missed its reading is left out"
            )
        information += observed.T @ observed
        vector += observed.T @ (model.whiten[places[agent]] @ (values - model.expected[rows]))
    return PartialSum(information, vector, len(messages))


def estimate_from(fusion: Fusion, total: PartialSum) -> tuple[Array, Array]:
    """(the public parameters, the covariance of their error) from the merged sum of an epoch.

    The same as :meth:`veilnet.Fusion.estimate` without a gate, but for rounding. InvalidRequest where the agents in
    it do not determine all of x, which only the messages themselves can say more about.
    """
    model, _ = adding_model(fusion)
    information = model.prior.T @ model.prior + total.information
    sharpness, directions = np.linalg.eigh(information)
    if sharpness[0] <= model.least_sharpness**2 or not sharpness[0] > 0:
        raise InvalidRequest(
            f"total: expected sums of agents that determine x, found {total.agents} that do not; take Fusion.estimate"
        )
    half = model.public @ directions / np.sqrt(sharpness)
    x = directions @ (directions.T @ total.vector / sharpness)
    return model.public_expected + model.public @ x, half @ half.T


@lru_cache(maxsize=4)
def adding_model(fusion: Fusion) -> tuple[CentreModel, dict[str, int]]:
    """What is known of messages, and agent -> its place; InvalidRequest where messages cannot be added up."""
    model = fusion.model
    if not isinstance(model, CentreModel) or model.correlation is not None or model.sums:
        raise InvalidRequest(
            "fusion: expected one of single rows with independent noise, found streams, correlated noise or sums; "
            "their messages cannot be added up agent by agent"
        )
    return model, {agent: place for place, agent in enumerate(model.agents)}


def messages_of_part(model: CentreModel, agents: Sequence[str]) -> CentreModel:
    """The messages of some agents alone, as a centre that hears no others has to know them."""
    places = [model.agents.index(agent) for agent in agents]
    rows = np.concatenate([np.r_[model.blocks.rows(place)] for place in places])
    blocks = Blocks([int(model.blocks.sizes[place]) for place in places])
    return replace(
        model,
        agents=tuple(agents),
        blocks=blocks,
        whiten=WhiteningStacks.of_agents(blocks, [model.whiten[place] for place in places]),
        observe=model.observe[rows],
        expected=model.expected[rows],
    )
