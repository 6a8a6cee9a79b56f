"""What very many agents of a stream send, as the centre has to know it: what their shares add up to.

Agent i's memory makes of its readings its share ξ_i = F ξ_i + K_i y_i of the filter of raw readings, and its numbers,
weighed by W_i, are rows ξ_i, the public rows of it; of an agent that sends its readings the centre keeps ξ_i itself.
So what arrives adds up to rows x̂, x̂ = Σ ξ_i, and

    x_t = A x_{t-1} + N(0, Q),    x̂_t = F x̂_{t-1} + G x_t + N(0, V),    G = Σ K_i H_i,    V = Σ K_i R_i K_i',

are 2L numbers however many agents there are, the sums over those who had a reading. The rounding of numbers to their
grids is part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.errors import InvalidPlan
from veilnet._core.linalg import solve_lower_batch
from veilnet._core.stacks import parts
from veilnet._core.types import Array, Booleans, Integers
from veilnet.agent.mechanisms import Mechanisms, mechanisms
from veilnet.agent.sanitizer import Sanitizer
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.bounds.streams.knowledge import raw_stream
from veilnet.bounds.streams.share_sums import ShareSystem, sends_all, share_weights
from veilnet.centre.streams.model import arrays_of, vague_start
from veilnet.model.fitted import HeldOut
from veilnet.model.network import Network


@dataclass(frozen=True, eq=False)
class SharesOfStack:
    """Agents that send as many numbers of as many readings.

    places:  in sending order, (count,).
    weights: of the numbers sent, (count, r, k): W_i; (count, L, k): K_i by number sent where ``telling``.
    gains:   K_i by readings of unit noise, (count, L, n).
    seen:    those readings of x, (count, n, L).
    telling: whether the agents send readings, so that the centre keeps their shares.
    """

    places: Integers
    weights: Array
    gains: Array
    seen: Array
    telling: bool


@dataclass(frozen=True, eq=False)
class SumModel:
    """What the shares of all agents add up to, and what each is of it.

    agents:     names in sending order, ``blocks`` how the M stacked numbers fall to them.
    transition: A, ``noise`` Q and ``follow`` F, (L, L) each.
    observe:    G of all agents, ``entering`` V of all agents, (L, L).
    rows:       of x̂ that the numbers add up to, (r, L); U = ``root`` rows.
    floor:      covariance of the rounding in that sum, (r, r).
    start:      covariance of x at row 1, ``start_mean`` its mean; ``vague`` where nothing is known of it.
    stacks:     what each agent is of it.
    labels:     one per public row, with ``units``; ``public_expected`` its value at the mean.
    step:       seconds of a row, None where nobody said.
    held_out:   label -> what rows held out of the fit add to stated errors.
    """

    agents: Sequence[str]
    blocks: Blocks
    transition: Array
    noise: Array
    follow: Array
    observe: Array
    entering: Array
    rows: Array
    root: Array
    floor: Array
    start: Array
    start_mean: Array
    vague: bool
    stacks: tuple[SharesOfStack, ...]
    public_expected: Array
    labels: tuple[str, ...]
    units: tuple[str, ...]
    plan: str = ""
    step: float | None = None
    held_out: Mapping[str, HeldOut] = field(default_factory=dict)

    @cached_property
    def telling(self) -> Booleans:
        """Which agents send readings, (S,)."""
        found = np.zeros(len(self.agents), bool)
        for stack in self.stacks:
            found[stack.places] = stack.telling
        return found

    @cached_property
    def adding(self) -> tuple[Array, Array]:
        """(M, r) and (M, L): what each number adds to the sum, and to the shares that the centre keeps."""
        summed = np.zeros((self.blocks.total, len(self.rows)))
        kept = np.zeros((self.blocks.total, len(self.transition)))
        for stack in self.stacks:
            count, size, sent = stack.weights.shape
            if sent:
                numbers = self.blocks.starts[stack.places][:, None] + np.arange(sent)
                target = kept if stack.telling else summed
                target[numbers.reshape(-1)] = np.swapaxes(stack.weights, 1, 2).reshape(count * sent, size)
        return summed, kept

    def without(self, places: Integers) -> tuple[Array, Array]:
        """(G, V) of all agents but some."""
        observe, entering = self.observe.copy(), self.entering.copy()
        if not places.size:
            return observe, entering
        left = np.zeros(len(self.agents), bool)
        left[places] = True
        for stack in self.stacks:
            chosen = np.flatnonzero(left[stack.places])
            for part in parts(len(chosen), self.transition.size):
                gains, seen = stack.gains[chosen[part]], stack.seen[chosen[part]]
                observe -= np.sum(gains @ seen, axis=0)
                entering -= np.sum(gains @ np.swapaxes(gains, 1, 2), axis=0)
        return observe, (entering + entering.T) / 2

    def words(self) -> tuple[object, ...]:
        """What another model of the same messages has to share to the letter."""
        sizes = self.blocks.sizes.tolist()
        return list(self.agents), sizes, self.labels, self.units, self.vague, len(self.stacks)

    def numbers(self) -> Iterator[Array]:
        """Everything else in it."""
        yield from arrays_of(self)
        for stack in self.stacks:
            yield stack.places[:, None].astype(float)
            for array in (stack.weights, stack.gains, stack.seen):
                yield array.reshape(len(array), -1)


def sum_model(network: Network, sanitizers: Mapping[str, Sanitizer], plan: str = "") -> SumModel:
    """The messages of share filters on a stream of very many agents.

    network:    the model, with dynamics.
    sanitizers: agent -> Sanitizer, as :func:`veilnet.design` finds them at perfect utility.
    plan:       the id of the plan they belong to.
    """
    assert network.dynamics is not None
    many = _with_offsets_of(network, sanitizers)
    system = ShareSystem.of(network, raw_stream(network))
    size, rows = network.L, len(network.U)
    observe, entering, floor = np.zeros((size, size)), np.zeros((size, size)), np.zeros((rows, rows))
    roots = network.R.own_roots()
    pieces: list[list[SharesOfStack]] = [[] for _ in many.stacks]
    for each in many.parts():
        made, rounded = _shares(system, each.stack, each.observe, roots[each.group][each.within])
        pieces[each.number].append(made)
        observe += np.sum(made.gains @ made.seen, axis=0)
        entering += np.sum(made.gains @ np.swapaxes(made.gains, 1, 2), axis=0)
        if made.telling:
            entering += rounded
        else:
            floor += rounded
    vague = network.first is None or network.first.covariance is None
    first = None if network.first is None else network.first
    start = vague_start(network) if vague else first.covariance  # type: ignore[union-attr]
    assert start is not None
    return SumModel(
        agents=network.agents,
        blocks=many.blocks,
        transition=network.dynamics.transition,
        noise=network.dynamics.noise,
        follow=system.transition,
        observe=observe,
        entering=(entering + entering.T) / 2,
        rows=system.rows,
        root=system.root,
        floor=(floor + floor.T) / 2,
        start=np.asarray(start),
        start_mean=np.zeros(size) if first is None else first.mean - network.dynamics.mean,
        vague=vague,
        stacks=tuple(_joined(mine) for mine in pieces),
        public_expected=network.U @ network.dynamics.mean,
        labels=network.public_rows,
        units=network.public_units,
        plan=plan,
        step=network.step,
        held_out=network.held_out,
    )


def _with_offsets_of(network: Network, sanitizers: Mapping[str, Sanitizer]) -> Mechanisms:
    """The sanitizers as they are; refused where one subtracts another offset than the network has."""
    sent = mechanisms(network, sanitizers)
    wrong = network.blocks.owner[sent.offset != network.offset_at_mean].tolist()
    wrong += [int(stack.places[0]) for stack in sent.stacks if stack.covariance is not None]
    if wrong:
        raise InvalidPlan(
            f"{network.agents[min(wrong)]}: subtracts another offset than its readings have at the mean, or sends "
            "numbers that repeat others, which the centre of so many agents does not know of; design the plan again"
        )
    return sent


def _shares(
    system: ShareSystem, stack: SanitizerStack, observe: Array, roots: Array
) -> tuple[SharesOfStack, Array]:
    """What some agents are of the sum, and the rounding that they add to it, or to shares that the centre keeps."""
    gains = system.gains(observe, roots)
    telling = sends_all(stack)
    weights = (
        np.swapaxes(np.linalg.solve(np.swapaxes(stack.compression, 1, 2), np.swapaxes(gains, 1, 2)), 1, 2)
        if telling
        else share_weights(system, stack, gains, roots)
    )
    steps = np.zeros((stack.count, stack.sent)) if stack.grid is None else stack.grid
    spread = weights * (steps / np.sqrt(6.0))[:, None, :]
    rounded = np.sum(spread @ np.swapaxes(spread, 1, 2), axis=0)
    return (
        SharesOfStack(stack.places, weights, gains @ roots, solve_lower_batch(roots, observe), telling),
        rounded,
    )


def _joined(pieces: list[SharesOfStack]) -> SharesOfStack:
    if len(pieces) == 1:
        return pieces[0]
    stacked = ("places", "weights", "gains", "seen")
    every: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in pieces]) for name in stacked}
    return replace(pieces[0], **every)
