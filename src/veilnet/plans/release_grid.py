"""The grid of every sanitizer in a plan, from the noise the centre knows each sent number to carry.

The finer a grid, the shorter its reach (:func:`veilnet.agent.recipe.reach`); a reading beyond it counts as its end.
Every reading can be sent as it is up to eight deviations from its mean, by the model, or up to its limits where these
are nearer: a grid that does not reach so far is made coarser, as far as it costs no more than any other, or refused.
"""

from __future__ import annotations

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet._core.linalg import cholesky
from veilnet._core.lyapunov import stationary_root
from veilnet._core.types import Array
from veilnet._core.words import number
from veilnet.agent.grid import ROUNDING_COST, grid_step, grid_steps
from veilnet.agent.mechanisms import Mechanisms, Sanitizers, mechanisms
from veilnet.agent.recipe import reach
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.bounds.knowledge import Outlook, message_covariance, own_covariances
from veilnet.bounds.streams.knowledge import StreamKnowledge, stream_knowledge
from veilnet.bounds.streams.riccati import steady_state
from veilnet.bounds.streams.state_space import message_model
from veilnet.bounds.streams.steady import Steady
from veilnet.model.network import Network
from veilnet.model.readings import DEVIATIONS_REACHED
from veilnet.model.stream_size import by_stacks
from veilnet.plans.rounding import coarse_steps

# Exact numbers of a stream may repeat one another in part; their grid serves combinations down to this variance.
_LEAST_CORRELATION = 1e-4
# A filter carries rounding on from row to row, so that less of it may enter than in a row by itself.
_STREAM_COST = ROUNDING_COST / 16
# By so much a stream's grid may be coarser where it has to reach further: its cost is then that of a row.
_COARSER = 4.0


def with_release_grid(
    network: Network, sanitizers: Sanitizers, *, known: Outlook | None = None, rounding: float | None = None
) -> Mechanisms:
    """What agents send, with the grid that the numbers of each agent are rounded to.

    Rows that repeat others (a singular C R C' + Θ) leave no grid far below every combination's noise: their
    normal form is sent instead. ``known`` is what the messages of a stream tell, where that was computed already;
    ``rounding`` the part of the public error that coarser grids may cost (:mod:`.rounding`).
    """
    sent = _without_repeats(mechanisms(network, sanitizers))
    # With common disturbances apart what is left of the noise is less, so that the grid is finer than it must be.
    noise = network.common_apart.R
    together = None
    if network.is_stream and not by_stacks(network):
        together = _stream_steps(network, sent, known)
    elif not noise.independent:
        together = grid_steps(message_covariance(network, sent))
    own = [] if together is not None else [noise.stack(group) for group in network.blocks.groups]
    grids = [np.empty((stack.count, stack.sent)) for stack in sent.stacks]
    for each in sent.parts():
        stack = each.stack
        if together is not None:
            steps = together[sent.numbers(stack)]
        elif network.is_stream:
            steps = _own_news_steps(stack, own[each.group][each.within])
        else:
            steps = grid_steps(own_covariances(stack.compression, own[each.group][each.within], stack.noise))
        steps = steps * _finer(network, stack)
        grids[each.number][each.part] = steps * _coarser(sent, stack, steps)
    if rounding is not None:
        steps = coarse_steps(network, sent, sent.with_grids(grids).grid, rounding)
        grids = [steps[sent.numbers(stack)] for stack in sent.stacks]
    return sent.with_grids(grids)


def _finer(network: Network, stack: SanitizerStack) -> Array | float:
    """The powers of two, (count, 1), by which grids of groups are finer: S members round S times what is added up."""
    if not network.members:
        return 1.0
    names = [network.agents[place] for place in stack.places.tolist()]
    counts = [len(network.members[name].agents) if name in network.members else 1 for name in names]
    return np.asarray(np.exp2(-np.ceil(np.log2(counts) / 2))[:, None])


def _without_repeats(sent: Mechanisms) -> Mechanisms:
    """The same, those agents in normal form whose numbers repeat one another."""
    repeats = sent.blocks.sizes != sent.normal.blocks.sizes
    if not np.any(repeats):
        return sent
    agents = zip(sent.items(), repeats.tolist(), strict=True)
    return mechanisms(
        sent.network, {agent: each.normalized() if some else each for (agent, each), some in agents}
    )


def _coarser(sent: Mechanisms, stack: SanitizerStack, steps: Array) -> Array | float:
    """The powers of two, (count, 1), by which the grids of some agents have to be coarser to reach as far as their
    readings go.
    """
    network = sent.network
    if network.usual is None or not stack.sent:
        return 1.0
    rows = network.blocks.starts[stack.places][:, None] + np.arange(stack.readings)
    offset = sent.offset[rows]
    low, high = (edge[rows] - offset for edge in network.stacked_limits)
    mean, deviation = (each[rows] for each in network.usual)
    lowest = np.maximum(mean - offset - DEVIATIONS_REACHED * deviation, low)
    highest = np.minimum(mean - offset + DEVIATIONS_REACHED * deviation, high)
    needed = np.maximum(np.maximum(-lowest, highest), 0.0) / reach(stack.compression, steps, stack)
    worst = np.max(needed, axis=-1, initial=0.0)
    factor = np.exp2(np.ceil(np.log2(np.maximum(worst, 1.0))))
    if np.any(factor > (_COARSER if network.is_stream else 1.0)):
        agent = network.agents[int(stack.places[np.argmax(worst)])]
        raise beyond_reach(agent, float(np.max(worst)))
    return np.asarray(factor)[:, None]


def beyond_reach(agent: str, times: float) -> InvalidNetwork:
    """What to say where readings of an agent go so many times as far as its grid reaches."""
    return InvalidNetwork(
        f"prior: by the model, readings of {agent!r} go {number(times)} times as far as floating point can hide the "
        "rounding errors of their sums beside so little noise; state limits of the readings (limits=), a narrower "
        "prior, or none"
    )


def _stream_steps(network: Network, sent: Mechanisms, known: Outlook | None) -> Array:
    """Grids far below what is new in a row of messages: what the centre's filter weighs their rounding against."""
    known = known if isinstance(known, StreamKnowledge) else stream_knowledge(network, sent)
    steady = known.steady
    assert isinstance(steady, Steady)
    news = steady.news
    if (
        len(news) != sent.blocks.total
    ):  # some agents give their readings away: their numbers were not evaluated
        news = steady_state(message_model(network, sent)).news
    return _news_steps(news)


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
