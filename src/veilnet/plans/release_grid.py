"""The grid of every sanitizer in a plan, from the noise the centre knows each sent number to carry.

The finer a grid, the shorter its reach (:func:`veilnet.agent.recipe.reach`); a reading beyond it counts as its end.
Every reading can be sent as it is up to eight deviations from its mean, by the model, or up to its limits where these
are nearer: a grid that does not reach so far is made coarser, as far as it costs no more than any other, or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet._core.linalg import cholesky
from veilnet._core.lyapunov import stationary_root
from veilnet._core.types import Array
from veilnet._core.words import number
from veilnet.agent.grid import ROUNDING_COST, grid_step, grid_steps
from veilnet.agent.mechanisms import Mechanisms, SanitizerStack, stacks_of
from veilnet.agent.recipe import reach
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.message_noise import Sent, joint_covariance, own_covariance, own_covariances
from veilnet.bounds.streams.knowledge import StreamKnowledge, stream_knowledge
from veilnet.bounds.streams.riccati import Steady, steady_state
from veilnet.bounds.streams.state_space import message_model
from veilnet.model.network import Network
from veilnet.model.stream_size import by_stacks
from veilnet.model.usual import DEVIATIONS_REACHED

# Exact numbers of a stream may repeat one another in part; their grid heeds combinations down to this variance.
_LEAST_CORRELATION = 1e-4
# A filter carries rounding on from row to row, so that less of it may enter than in a row by itself.
_STREAM_COST = ROUNDING_COST / 16
# By so much a stream's grid may be coarser where it has to reach further: its cost is then that of a row.
_COARSER = 4.0


def with_release_grid(
    network: Network, sanitizers: Mapping[str, Sanitizer], *, known: StreamKnowledge | None = None
) -> Mapping[str, Sanitizer]:
    """The sanitizers in sending order, each with the grid its numbers are rounded to.

    Rows that repeat others (a singular C R C' + Θ) leave no grid far below every combination's noise: their
    normal form is sent instead. ``known`` is what the messages of a stream tell, where that was computed already.
    """
    if (
        isinstance(sanitizers, Mechanisms)
        and sanitizers.belong_to(network)
        and (not network.is_stream or by_stacks(network))
        and network.common_apart.R.independent
    ):
        return _with_stacked_grid(network.common_apart, sanitizers)
    if by_stacks(network):
        return _with_stacked_grid(network, stacks_of(network, sanitizers))
    independent = {
        agent: sanitizers[agent] if _independent_rows(sanitizers[agent]) else sanitizers[agent].normalized()
        for agent in network.agents
        if agent in sanitizers
    }
    if network.is_stream:
        return _with_stream_grid(network, independent, known or stream_knowledge(network, independent))
    sent = {agent: Sent(network.position[agent], s.compression, s.noise) for agent, s in independent.items()}
    # With common disturbances apart what is left of the noise is less, so that the grid is finer than it must be.
    apart = network.common_apart
    if apart.R.independent:
        steps = {agent: grid_steps(own_covariance(apart, each)) for agent, each in sent.items()}
    else:
        ends = np.cumsum([s.sent for s in independent.values()])
        together = grid_steps(joint_covariance(network, list(sent.values())))
        steps = dict(zip(independent, np.split(together, ends[:-1]), strict=True))
    return {
        agent: _reaching(network, sanitizer.with_grid(steps[agent]).for_agent(agent, network))
        for agent, sanitizer in independent.items()
    }


def _reaching(network: Network, sanitizer: Sanitizer) -> Sanitizer:
    """The same sanitizer, on a grid that reaches as far as its readings go."""
    if sanitizer.usual is None or sanitizer.grid is None:
        return sanitizer
    mean, deviation = sanitizer.usual
    low, high = (-np.inf, np.inf) if sanitizer.limits is None else sanitizer.limits
    far = reach(sanitizer.compression, sanitizer.grid, sanitizer.memory)
    needed = _needed(mean - sanitizer.offset, deviation, low - sanitizer.offset, high - sanitizer.offset)
    coarser = _coarser(network, needed / far, lambda _: sanitizer.agent)
    return sanitizer if coarser == 1.0 else sanitizer.with_grid(sanitizer.grid * coarser)


def _needed(mean: Array, deviation: Array, low: Array | float, high: Array | float) -> Array:
    """How far from zero readings are that have to be sent as they are."""
    lowest = np.maximum(mean - DEVIATIONS_REACHED * deviation, low)
    highest = np.minimum(mean + DEVIATIONS_REACHED * deviation, high)
    return np.asarray(np.maximum(np.maximum(-lowest, highest), 0.0))


def _coarser(network: Network, needed: Array, agent: Callable[[int], str]) -> Array:
    """The powers of two by which grids have to be coarser, from how far they must reach in units of how far they do.

    needed: (..., n), of one agent or of several; ``agent`` names the one at a place.
    """
    worst = np.max(needed, axis=-1, initial=0.0)
    factor = np.exp2(np.ceil(np.log2(np.maximum(worst, 1.0))))
    if np.any(factor > (_COARSER if network.is_stream else 1.0)):
        place = int(np.argmax(worst))
        raise InvalidNetwork(
            f"prior: by the model, readings of {agent(place)!r} go {number(float(np.max(worst)))} times as far as "
            "floating point can hide the rounding errors of their sums beside so little noise; state limits of the "
            "readings (limits=), a narrower prior, or none"
        )
    return np.asarray(factor)


def _with_stacked_grid(network: Network, sanitizers: Mechanisms) -> Mechanisms:
    """The same for many agents at once, whose rows are independent already."""
    noises = [network.R.stack(group) for group in network.blocks.groups]
    grids = [np.empty((stack.count, stack.sent)) for stack in sanitizers.stacks]
    for each in sanitizers.parts():
        own = noises[each.group][each.within]
        if network.is_stream:
            steps = _own_news_steps(each.stack, own)
        else:
            steps = grid_steps(own_covariances(each.stack.compression, own, each.stack.noise))
        grids[each.number][each.part] = steps * _stack_coarser(sanitizers.network, each.stack, steps)
    return sanitizers.with_grids(grids)


def _stack_coarser(network: Network, stack: SanitizerStack, steps: Array) -> Array | float:
    """The same as :func:`_reaching` of many agents: (count, 1)."""
    if network.usual is None or not stack.sent:
        return 1.0
    rows = network.blocks.starts[stack.places][:, None] + np.arange(stack.readings)
    offset = network.offset[rows]
    if network.dynamics is not None:
        offset = offset + network.H[rows] @ network.dynamics.mean
    low, high = (edge[rows] - offset for edge in network.stacked_limits)
    mean, deviation = (each[rows] for each in network.usual)
    far = reach(stack.compression, steps, stack)
    needed = _needed(mean - offset, deviation, low, high) / far
    return _coarser(network, needed, lambda place: network.agents[int(stack.places[place])])[:, None]


def _with_stream_grid(
    network: Network, sanitizers: Mapping[str, Sanitizer], known: StreamKnowledge
) -> dict[str, Sanitizer]:
    """Grids far below what is new in a row of messages: what the centre's filter weighs their rounding against."""
    sent = [_sent(network, sanitizers, agent) for agent in network.agents]
    assert isinstance(known.steady, Steady)
    news = known.steady.news
    if len(news) != sum(
        sent
    ):  # some agents give their readings away, so that their numbers were not evaluated
        news = steady_state(message_model(network, sanitizers)).news
    steps = np.split(_news_steps(news), np.cumsum(sent)[:-1])
    return {
        agent: _reaching(network, sanitizers[agent].with_grid(mine).for_agent(agent, network))
        for agent, mine in zip(network.agents, steps, strict=True)
        if agent in sanitizers
    }


def _sent(network: Network, sanitizers: Mapping[str, Sanitizer], agent: str) -> int:
    if agent in sanitizers:
        return int(sanitizers[agent].sent)
    return int(network.blocks.sizes[network.position[agent]])


def _news_steps(news: Array) -> Array:
    deviations = np.sqrt(np.diag(news))
    if not len(deviations):
        return deviations
    least = float(np.linalg.eigvalsh(news / deviations[:, None] / deviations[None, :])[0])
    return grid_step(deviations * np.sqrt(max(least, _LEAST_CORRELATION)), _STREAM_COST)


def _own_news_steps(stack: SanitizerStack, noise: Array) -> Array:
    """Grids far below what an agent's own noise brings into its numbers in a row: no more is new to a centre that has
    the messages of everybody, so that they are finer than they must be. A number into which today's reading hardly
    enters counts as having a part of its noise over all rows.
    """
    order = stack.order
    enters = stack.compression[:, :, order:]
    over_all = np.zeros((stack.count, stack.sent))
    if stack.transition is not None and stack.gain is not None:
        from_memory = stack.compression[:, :, :order]
        enters = enters + from_memory @ stack.gain
        kept = from_memory @ stationary_root(stack.transition, stack.gain @ cholesky(noise))
        over_all = np.sum(kept**2, axis=2)
    news = own_covariances(enters, noise, stack.noise)
    diagonal = np.arange(stack.sent)
    news[:, diagonal, diagonal] += _LEAST_CORRELATION * over_all
    deviations = np.sqrt(np.diagonal(news, axis1=1, axis2=2))
    if not stack.sent:
        return deviations
    least = np.linalg.eigvalsh(news / deviations[:, :, None] / deviations[:, None, :])[:, :1]
    return grid_step(deviations * np.sqrt(np.maximum(least, _LEAST_CORRELATION)), _STREAM_COST)


def _independent_rows(sanitizer: Sanitizer) -> bool:
    return bool(sanitizer.normal[0].shape[0] == sanitizer.sent)
