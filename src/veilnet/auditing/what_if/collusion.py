"""Collusion: agents that hand the centre their raw readings, or their noise.

Handing over raw readings is the same as having no sanitizer. Handing over the noise is the same as having
drawn none: the centre subtracts it, C stays and Θ is zero. Either way the dither of that agent is gone too, and its
readings carry the noise of the sensor alone. (Of readings on a lattice, exact numbers without their dither can tell
as much as the readings themselves.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from veilnet._core.linalg import solve_lower
from veilnet._core.types import Array
from veilnet._core.words import join_names
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.measures import Compared, in_units, kept
from veilnet.auditing.row import Row
from veilnet.auditing.sections import Section
from veilnet.auditing.what_if.subsets import (
    MOST_SETS,
    MOST_SINGLE,
    AgentTerms,
    WorstSet,
    adds_up,
    agent_terms,
    direct_errors,
    worst_set,
)
from veilnet.auditing.what_if.variants import changed
from veilnet.auditing.worlds import World, world_of
from veilnet.model.common import SharedNoise
from veilnet.model.network import Network
from veilnet.sums.collusion import worst_collusion
from veilnet.sums.handing_out import members_of

SECTION = Section.COLLUSION.heading
Betrayal = Literal["readings", "noise"]
_ROUNDS = 60  # of the relaxation that bounds every set


def with_colluders(
    network: Network, sanitizers: Mapping[str, Sanitizer], colluders: Sequence[str], betrays: Betrayal
) -> dict[str, Sanitizer]:
    """The sanitizers as the centre sees them when some agents hand it their raw readings or their noise."""
    return {
        agent: _betrayed(network, agent, sanitizer, betrays) if agent in colluders else sanitizer
        for agent, sanitizer in sanitizers.items()
    }


def _betrayed(network: Network, agent: str, sanitizer: Sanitizer, betrays: Betrayal) -> Sanitizer:
    if betrays == "noise":
        return Sanitizer(sanitizer.compression, offset=sanitizer.offset, memory=sanitizer.memory)
    return Sanitizer.raw(int(network.blocks.sizes[network.position[agent]]))


def privacy_left(
    world: World, sanitizers: Mapping[str, Sanitizer], colluders: Sequence[str], betrays: Betrayal
) -> dict[str, float]:
    """p_j when these agents collude, by the definition."""
    network = world.network
    seen = with_colluders(network, sanitizers, colluders, betrays)
    return world.privacies(seen, without_dither(network, colluders))


def without_dither(network: Network, agents: Sequence[str]) -> Network:
    """The network in which these agents' readings are not dithered."""
    draws = np.array(network.draws)
    for agent in agents:
        draws[network.blocks.rows(network.position[agent])] = 0.0
    return network if np.array_equal(draws, network.draws) else changed(network, dither=draws)


def collusion_rows(
    network: Network,
    sanitizers: Mapping[str, Sanitizer],
    colluding: int,
    least_privacy: Mapping[str, float],
    advance: Callable[[float], None],
) -> list[Row]:
    """Privacy left by each single agent and by the worst set of up to ``colluding`` agents."""
    world, units = world_of(network), in_units(network)
    noisy = any(np.any(s.noise) or s.dithers for s in sanitizers.values())
    kinds: tuple[Betrayal, ...] = ("readings", "noise") if noisy else ("readings",)
    studies: list[_Study | _Members] = [_Study(world, sanitizers, betrays) for betrays in kinds]
    most = min(colluding, network.S)
    if network.members:
        studies, most = [_Members(world, sanitizers)], min(colluding, len(members_of(network)) - 1)
    rows = []
    for turn, study in enumerate(studies):
        for size in range(1, most + 1):
            rows += [
                _collusion_row(units[name], name, size, study, each, least_privacy.get(name))
                for name, each in study.hurt(size).items()
            ]
            advance((turn * most + size) / (len(studies) * most))
    return rows


@dataclass(frozen=True)
class _Hurt:
    """What is left of one parameter when the worst set of agents colludes.

    who:      that set, and whether no other one of its size is worse.
    promised: p_j when nobody does; left: when they do; raw: when they do and nobody sanitizes.
    lowest:   no set of this size leaves less, where that is known.
    figures:  what else was computed.
    """

    who: Sequence[str]
    exact: bool
    promised: float
    left: float
    raw: float = 0.0
    lowest: float | None = None
    figures: Mapping[str, object] = field(default_factory=dict)


def _collusion_row(
    error: Compared, name: str, size: int, study: _Study | _Members, found: _Hurt, least: float | None
) -> Row:
    why = ""
    if not found.exact:
        why = f"Found {study.way}: another set may leave less."
        if found.lowest is not None:
            lowest = error.cells({"": found.lowest})[""]
            why = f"Found {study.way}; no set of {size} brings it below {lowest}."
    figures: dict[str, object] = {"who": list(found.who), "exact": found.exact, **found.figures}
    if least is not None:
        figures["least privacy"] = least
        why = f"{error.cells({'': least})['']} has to remain. {why}".rstrip()
    many, hand = ("one agent", "hands") if size == 1 else (f"{size} agents", "hand")
    lowest_left = found.left if found.exact else -np.inf if found.lowest is None else found.lowest
    growths = {"raw readings": found.raw, "nobody helps (promised)": found.promised, "they help": found.left}
    return error.row(
        SECTION, f"{name}, {many} {hand} over {study.betrays}", growths, kept(found.left, least, lowest_left), why,
        figures=figures, shown={"who helps": join_names(list(found.who))},
    )  # fmt: skip


class _Members:
    """Members of groups that add up: the centre takes what they hand over out of the sum."""

    betrays, way = "readings and draws", "agent by agent"

    def __init__(self, world: World, sanitizers: Mapping[str, Sanitizer]) -> None:
        self.network, self.sanitizers = world.network, sanitizers
        self._promised = world.privacies(sanitizers)

    def hurt(self, size: int) -> dict[str, _Hurt]:
        """Each parameter at the worst set of so many."""
        worst = worst_collusion(self.network, self.sanitizers, size)
        return {
            name: _Hurt(found.agents, found.exact, self._promised[name], found.privacy)
            for name, found in worst.items()
        }


class _Study:
    """One kind of betrayal: what sets of agents leave, each evaluated once, and the worst ones."""

    way = "greedily"

    def __init__(self, world: World, sanitizers: Mapping[str, Sanitizer], betrays: Betrayal) -> None:
        self.world, self.sanitizers, self.betrays = world, sanitizers, betrays
        self.network = world.network
        self._bare = _Study(world, {}, "readings") if sanitizers else self
        self._found: dict[tuple[int, ...], dict[str, float]] = {}

    def hurt(self, size: int) -> dict[str, _Hurt]:
        """Each parameter at the worst set of so many agents."""
        return {name: self._hurt(name, size) for name in self.network.private}

    def _hurt(self, name: str, size: int) -> _Hurt:
        """One parameter; ``raw`` is below 0 where readings lose the dither that raw ones have."""
        network, worst = self.network, self.worst(name, size)
        colluders = [network.agents[k] for k in worst.agents]
        lowest, figures = None, dict[str, object]()
        if size == 1 and network.S <= MOST_SINGLE:
            figures["single agents"] = {agent: self.left(k)[name] for k, agent in enumerate(network.agents)}
        if not worst.exact and not network.is_stream:
            figures["no set of this size leaves less than"] = lowest = self.least(name, size)
        left, raw = (each.left(*worst.agents)[name] for each in (self, self._bare))
        return _Hurt(colluders, worst.exact, self.left()[name], left, raw, lowest, figures)

    def left(self, *places: int) -> dict[str, float]:
        """p_j of every private parameter when the agents in these places collude."""
        if places not in self._found:
            colluders = [self.network.agents[k] for k in places]
            self._found[places] = privacy_left(self.world, self.sanitizers, colluders, self.betrays)
        return self._found[places]

    @cached_property
    def terms(self) -> AgentTerms | None:
        return self._terms(self.network) if adds_up(self.network) else None

    def _terms(self, network: Network) -> AgentTerms:
        everyone = with_colluders(network, self.sanitizers, network.agents, self.betrays)
        bare = without_dither(network, network.agents)
        return agent_terms(network, self.sanitizers, everyone, changed_in=bare, within=self.network)

    def worst(self, name: str, size: int) -> WorstSet:
        if self.terms is not None:
            rows = self.network.in_raw_coordinates(self.network.private[name])
            return worst_set(self.terms.errors(rows), self.network.S, size, MOST_SETS)
        errors, affordable = direct_errors(self.network, lambda places: self.left(*places)[name])
        return worst_set(errors, self.network.S, size, affordable)

    def least(self, name: str, size: int) -> float:
        """No set of so many colluders leaves less privacy than this.

        Independent noise: J̃ + Σ_{i in A} Δ_i with Δ_i ⪰ 0 the information agent i adds by colluding. The
        error f(w) = tr(G (J̃ + Σ w_i Δ_i)^-1 G') is convex in w, and sets of k agents are among the w in
        [0, 1]^S that sum to at most k. At any such w, f(w) + min_s <∇f(w), s - w> is therefore below f of
        every set; Frank and Wolfe's steps raise it. Correlated noise: R ⪰ λ diag(R_ii) with λ the smallest
        eigenvalue of R whitened agent by agent, and information falls as R grows, so the same bound in the
        network with independent noises λ R_ii holds for this one too (loose where λ is small).
        """
        terms = self.terms
        if terms is None:
            bare = without_dither(self.network, self.network.agents)
            terms = self._terms(_no_noisier(bare))
        rows = self.network.in_raw_coordinates(self.network.private[name])
        steps = terms.changed - terms.usual
        weights = np.full(self.network.S, size / self.network.S)
        base = terms.prior + np.sum(terms.usual, axis=0)
        best = 0.0
        for turn in range(_ROUNDS):
            information = base + np.tensordot(weights, steps, 1)
            half = np.linalg.solve(information, rows.T)
            value = float(np.sum(rows.T * half))
            slopes = -np.einsum("li,klm,mi->k", half, steps, half, optimize=True)
            target = np.zeros(self.network.S)
            target[np.argsort(slopes)[:size]] = 1.0
            best = max(best, value + float(slopes @ (target - weights)))
            weights = weights + (target - weights) * 2.0 / (turn + 2.0)
            if turn == 0:  # the first full step would leave the interior, where J̃ may be singular
                weights = 0.5 * target + 0.5 * size / self.network.S
        relative = best / float(np.sum(rows**2)) - 1.0
        return max(0.0, relative)


def _no_noisier(network: Network) -> Network:
    """Independent noises λ R_ii with λ diag(R_ii) ⪯ R; with common disturbances, each agent's own noise."""
    if isinstance(network.R, SharedNoise):
        return changed(network, noise=network.R.own)
    white = np.array(network.R.matrix())
    for _ in range(2):  # from the left, then from the right
        for group, roots in zip(network.blocks.groups, network.R.own_roots(), strict=True):
            for rows, root in zip(group.rows, roots, strict=True):
                white[rows] = solve_lower(root, np.ascontiguousarray(white[rows]))
        white = np.array(white.T)
    smallest = float(np.linalg.eigvalsh((white + white.T) / 2)[0])
    shrunk: dict[str, Array] = {
        agent: smallest * network.R.block(place) for place, agent in enumerate(network.agents)
    }
    return changed(network, noise=shrunk)
