"""The memories that trade-offs of a stream are searched with, and back to what agents run."""

from __future__ import annotations

import numpy as np

from veilnet._core.linalg import cholesky, solve_lower
from veilnet._core.types import Array
from veilnet.agent.memory import Memory
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.streams.knowledge import raw_stream
from veilnet.bounds.streams.share_sums import ShareSystem
from veilnet.designs.streams.knowledge import JointState, ShareFilter
from veilnet.model.common import padded
from veilnet.model.network import Network
from veilnet.verdict.streams.share_filters import Reduction, ShareFilters

# Parts of a share filter below these, in deviations of the public error, are left out of the memory; the next where
# the agents together would keep more than so many numbers.
_SMALLEST_PARTS = (1e-6, 1e-5, 1e-4)
_MOST_KEPT = 200
# What an eigendecomposition blurs of exact zeros and ones.
_BLUR = 1e-13
_NO_MEMORY = 1e-12


def memories_of(network: Network, shares: ShareFilters) -> list[ShareFilter]:
    """Every agent's share filter, with as much memory as its share needs."""
    for tolerance in _SMALLEST_PARTS:
        filters = _memories(network, shares, tolerance)
        if sum(each.order for each in filters) <= _MOST_KEPT:
            break
    return filters


def _memories(network: Network, shares: ShareFilters, tolerance: float) -> list[ShareFilter]:
    raw = raw_stream(network)
    system = ShareSystem.of(network, raw)
    assert system.gain is not None
    public = padded(network.measured, len(system.transition))
    scale = float(np.sqrt(np.trace(raw.error(public, hindsight=False))))
    reduction = Reduction(system.transition, public / scale, tolerance)
    filters = []
    for place, agent in enumerate(network.agents):
        root = cholesky(network.R.block(place))
        [found] = reduction.remembered(system.gain[None, :, network.blocks.rows(place)] @ root)
        filters.append(
            ShareFilter(
                found.transition[0],
                found.gain[0] @ solve_lower(root, np.eye(len(root))),
                found.from_memory[0] * scale,
                plain=shares.sanitizers[agent].order == 0,
            )
        )
    return filters


def sanitizers_from_knowledge(
    network: Network,
    knowledge: JointState,
    filters: list[ShareFilter],
    shrink: list[Array],
    *,
    finest: float = 0.0,
) -> dict[str, Sanitizer]:
    """Agent -> Sanitizer in normal form, from X per group of agents who know equally much.

    ``finest`` is the least noise of every number, relative to what it is made of.
    """
    made = {place: np.zeros((0, 0)) for place in range(network.S)}
    for group, stack in zip(knowledge.blocks.groups, shrink, strict=True):
        made.update(zip(group.agents.tolist(), stack, strict=True))
    return {
        agent: _sanitizer(network, place, knowledge.frames[place], filters[place], made[place], finest)
        for place, agent in enumerate(network.agents)
    }


def _sanitizer(
    network: Network, place: int, frame: Array, memory: ShareFilter, shrink: Array, finest: float
) -> Sanitizer:
    values, vectors = np.linalg.eigh(shrink)
    values = np.clip(values, 0.0, 1.0)
    sent = values > _BLUR
    exact = (values[sent] > 1 - _BLUR) & (finest == 0.0)
    variance = np.where(exact, 0.0, 1.0 / values[sent] - 1.0 + finest)
    # Knowledge is white: what a row has of the memory is how much of it the memory makes up.
    rows = (vectors[:, sent].T @ frame) / np.sqrt(np.where(exact, 1.0, variance))[:, None]
    order = np.argsort(~exact, kind="stable")
    mine = network.blocks.rows(place)
    assert network.dynamics is not None
    offset = network.offset[mine] + network.H[mine] @ network.dynamics.mean
    noise = np.diag((~exact[order]).astype(float))
    agent = network.agents[place]
    if memory.order == 0 or not _uses_memory(vectors[:, sent], frame, memory.order):
        return Sanitizer(rows[order][:, memory.order :], noise, offset=offset, agent=agent)
    return Sanitizer(
        rows[order], noise, offset=offset, agent=agent, memory=Memory(memory.transition, memory.gain)
    )


def _uses_memory(vectors: Array, frame: Array, order: int) -> bool:
    """Whether any row sent has a part of knowledge that the reading alone does not give."""
    remembers = np.any(frame[:, :order] != 0, axis=1)
    return bool(np.any(np.abs(vectors[remembers]) > _NO_MEMORY))
