"""The worst set of k agents: by looking at all of them while that is affordable, else greedily.

With independent noise J̃ = J0 + Σ_i J_i is a sum over agents, and a set of agents changes its own terms only.
All sets are then evaluated at once. Figures that are reported are recomputed afterwards by the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from veilnet._linalg import cholesky, solve_lower
from veilnet._types import Array, Booleans
from veilnet.auditing.measures import growth
from veilnet.bounds import Knowledge
from veilnet.network import Network
from veilnet.sanitizer import Sanitizer

MOST_SETS = 20_000
"""So many sets are looked at one by one with independent noise,"""
MOST_SETS_JOINT = 500
"""and so many where each needs a factorisation of all messages."""

_AT_ONCE = 4_000_000  # numbers in one batch of information matrices
_LEAST = 1e-14  # information below this, relative to raw readings, is rounding in a sum

Values = Callable[[Booleans], Array]
"""(sets, S) -> (sets,): a value to be made as small as possible."""


@dataclass(frozen=True)
class WorstSet:
    """A set of agents, and whether no other one of its size is worse."""

    agents: tuple[int, ...]
    exact: bool


def worst_set(values: Values, agents: int, size: int, most: int) -> WorstSet:
    """The set of so many agents with the least value."""
    if comb(agents, size) <= most:
        places = np.array(list(combinations(range(agents), size)), dtype=np.intp).reshape(-1, size)
        masks = np.zeros((len(places), agents), bool)
        masks[np.arange(len(places))[:, None], places] = True
        best = places[int(np.argmin(values(masks)))]
        return WorstSet(tuple(int(k) for k in best), True)
    chosen: list[int] = []
    for _ in range(size):
        rest = [k for k in range(agents) if k not in chosen]
        masks = np.zeros((len(rest), agents), bool)
        masks[:, chosen] = True
        masks[np.arange(len(rest)), rest] = True
        chosen.append(rest[int(np.argmin(values(masks)))])
    return WorstSet(tuple(sorted(chosen)), False)


@dataclass(frozen=True, eq=False)
class AgentTerms:
    """J0 and the term of every agent, as it is and as it is when the agent belongs to the set.

    All in coordinates of x where the raw information is the identity. Independent noise only.
    """

    prior: Array
    usual: Array  # (S, L, L)
    changed: Array  # (S, L, L)

    def error(self, rows: Array) -> Values:
        """Values: tr(A J̃^-1 A') for rows A in raw coordinates."""
        gram = rows.T @ rows

        def values(masks: Booleans) -> Array:
            size = len(self.prior)
            results = np.empty(len(masks))
            step = max(1, _AT_ONCE // size**2)
            flat_usual, flat_changed = self.usual.reshape(-1, size**2), self.changed.reshape(-1, size**2)
            for start in range(0, len(masks), step):
                some = masks[start : start + step].astype(float)
                sums = self.prior.reshape(-1) + (1 - some) @ flat_usual + some @ flat_changed
                eigenvalues, vectors = np.linalg.eigh(sums.reshape(-1, size, size))
                parts = np.einsum("kij,il,klj->kj", vectors, gram, vectors, optimize=True)
                results[start : start + step] = np.sum(parts / np.maximum(eigenvalues, _LEAST), axis=1)
            return results

        return values


def agent_terms(
    network: Network,
    usual: Mapping[str, Sanitizer],
    changed: Mapping[str, Sanitizer],
    within: Network | None = None,
) -> AgentTerms:
    """The terms of a network with independent noise, in the raw coordinates of ``within`` (or its own)."""
    frame = network if within is None else within
    root = frame.in_raw_coordinates(frame.prior_root)
    return AgentTerms(root.T @ root, _terms(network, usual, frame), _terms(network, changed, frame))


def _terms(network: Network, sanitizers: Mapping[str, Sanitizer], frame: Network) -> Array:
    terms = np.zeros((network.S, network.L, network.L))
    for place, agent in enumerate(network.agents):
        rows, noisy = sanitizers[agent].normal
        if not len(rows):
            continue
        covariance = rows @ network.noise.block(place) @ rows.T + np.diag(noisy.astype(float))
        factor = solve_lower(cholesky(covariance), rows @ network.H[network.blocks.rows(place)])
        factor = frame.in_raw_coordinates(factor)
        terms[place] = factor.T @ factor
    return terms


def direct_error(evaluate: Callable[[tuple[int, ...]], Knowledge], rows: Array) -> Values:
    """Values by the definition, one set after another: for correlated noise."""

    def values(masks: Booleans) -> Array:
        sets = (tuple(int(k) for k in np.flatnonzero(mask)) for mask in masks)
        return np.array([growth(evaluate(some), rows) for some in sets])

    return values
