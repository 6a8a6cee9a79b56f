"""Collusion: agents that hand the centre their raw readings, or their noise.

Handing over raw readings is the same as having no sanitizer. Handing over the noise is the same as having
drawn none: the centre subtracts it, C stays and Θ is zero. Either way the dither of that agent is gone too, and its
readings carry the noise of the sensor alone. (Of readings on a lattice, exact numbers without their dither can tell
as much as the readings themselves.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Literal

import numpy as np

from veilnet._core.linalg import solve_lower
from veilnet._core.types import Array
from veilnet._core.words import join_names
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.measures import GrowthsInUnits, in_units
from veilnet.auditing.row import Judgement, Row
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
from veilnet.auditing.world import World
from veilnet.auditing.worlds import world_of
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
    if network.members:
        return _rows_of_members(network, sanitizers, colluding, least_privacy, advance)
    world, units = world_of(network), in_units(network)
    sizes = range(1, min(colluding, network.S) + 1)
    noisy = any(np.any(s.noise) or s.dithers for s in sanitizers.values())
    kinds: tuple[Betrayal, ...] = ("readings", "noise") if noisy else ("readings",)
    bare = _Study(world, {}, "readings")
    rows = []
    for turn, betrays in enumerate(kinds):
        study = _Study(world, sanitizers, betrays)
        for size in sizes:
            rows += [
                _collusion_row(study, bare, units[name], size, least_privacy.get(name))
                for name in network.private
            ]
            advance((turn * len(sizes) + size) / (len(kinds) * len(sizes)))
    return rows


def _rows_of_members(
    network: Network,
    sanitizers: Mapping[str, Sanitizer],
    colluding: int,
    least_privacy: Mapping[str, float],
    advance: Callable[[float], None],
) -> list[Row]:
    """The same where groups add up: the centre takes what members hand over out of the sum."""
    units, rows = in_units(network), []
    promised = world_of(network).privacies(sanitizers, network)
    many = range(1, min(colluding, len(members_of(network)) - 1) + 1)
    for size in many:
        for name, found in worst_collusion(network, sanitizers, size).items():
            compared = {
                "guessing": units[name].guessing,
                "raw readings": 0.0,
                "nobody helps (promised)": promised[name],
                "they help": found.privacy,
            }
            figures = units[name].figures(compared) | {"who": list(found.agents), "exact": found.exact}
            least = least_privacy.get(name)
            verdict: Judgement = "info"
            if least is not None:
                verdict = "fail" if found.privacy < least else "ok" if found.exact else "warn"
                figures["least privacy"] = least
            hands = "one agent hands" if size == 1 else f"{size} agents hand"
            why = "" if found.exact else "Found agent by agent: another set may leave less."
            shown = {"who helps": join_names(list(found.agents))} | units[name].cells(compared)
            what = f"{name}, {hands} over readings and draws"
            rows.append(Row(SECTION, what, promised[name], found.privacy, verdict, why, None, figures, shown))
        advance(size / len(many))
    return rows


def _collusion_row(study: _Study, bare: _Study, error: GrowthsInUnits, size: int, least: float | None) -> Row:
    """What is left of the privacy of one parameter when the worst set of so many agents colludes.

    bare: the same agents where nobody sanitizes; below 0 where their readings lose the dither that raw ones have.
    """
    network, name = study.network, error.typical.name
    worst = study.worst(name, size)
    colluders = [network.agents[k] for k in worst.agents]
    promised, left, raw = (
        each[name] for each in (study.left(), study.left(*worst.agents), bare.left(*worst.agents))
    )
    compared = {
        "guessing": error.guessing,
        "raw readings": raw,
        "nobody helps (promised)": promised,
        "they help": left,
    }
    figures = error.figures(compared) | {"who": colluders, "exact": worst.exact}
    if size == 1 and network.S <= MOST_SINGLE:
        figures["single agents"] = {agent: study.left(k)[name] for k, agent in enumerate(network.agents)}
    lowest, why = left, ""
    if not worst.exact:
        why = "Found greedily: another set may leave less."
        if not network.is_stream:
            figures["no set of this size leaves less than"] = lowest = study.least(name, size)
            why = f"Found greedily; no set of {size} brings it below {error.cells({'': lowest})['']}."
    verdict: Judgement = "info"
    if least is not None:
        verdict = "fail" if left < least else "warn" if lowest < least else "ok"
        figures["least privacy"] = least
        why = f"{error.cells({'': least})['']} has to remain. {why}".rstrip()
    many, hand = ("one agent", "hands") if size == 1 else (f"{size} agents", "hand")
    what = f"{name}, {many} {hand} over {study.betrays}"
    shown = {"who helps": join_names(colluders)} | error.cells(compared)
    return Row(SECTION, what, promised, left, verdict, why, None, figures, shown)


class _Study:
    """One kind of betrayal: what sets of agents leave, each evaluated once, and the worst ones."""

    def __init__(self, world: World, sanitizers: Mapping[str, Sanitizer], betrays: Betrayal) -> None:
        self.world, self.sanitizers, self.betrays = world, sanitizers, betrays
        self.network = world.network
        self._found: dict[tuple[int, ...], dict[str, float]] = {}

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
