"""The worst set of k agents: by looking at all of them while that is affordable, else greedily.

With independent noise J̃ = J0 + Σ_i J_i is a sum over agents, and a set of agents changes its own terms only.
All sets are then evaluated at once. Figures that are reported are recomputed afterwards by the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Protocol

import numpy as np

from veilnet._core.linalg import cholesky, solve_lower
from veilnet._core.types import Array, Booleans
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.information import own_covariances
from veilnet.model.network import Network

MOST_SETS = 20_000
"""So many sets are looked at one by one with independent noise,"""
MOST_SETS_JOINT = 500
"""and so many where each needs a factorisation of all messages,"""
MOST_SETS_STREAM = 100
"""and so many where each needs the steady state of a filter."""

MOST_SINGLE = 200
"""Up to so many agents each is reported by itself."""

_AT_ONCE = 4_000_000  # numbers in one batch of information matrices
_LEAST = 1e-14  # information below this, relative to raw readings, is rounding in a sum


class SetErrors(Protocol):
    """The error on some rows A x when a set of agents is changed."""

    def of_sets(self, masks: Booleans) -> Array:
        """(sets, S) -> (sets,)."""

    def with_one_more(self, chosen: Sequence[int]) -> Array:
        """(S,): for the chosen agents and one more."""


@dataclass(frozen=True)
class WorstSet:
    """A set of agents, and whether no other one of its size is worse."""

    agents: tuple[int, ...]
    exact: bool


def worst_set(
    errors: SetErrors, agents: int, size: int, sets_affordable: int, *, largest: bool = False
) -> WorstSet:
    """The set of so many agents with the least error (or the largest)."""
    sign = -1.0 if largest else 1.0
    if size > 1 and comb(agents, size) <= sets_affordable:
        places = np.array(list(combinations(range(agents), size)), dtype=np.intp).reshape(-1, size)
        masks = np.zeros((len(places), agents), bool)
        masks[np.arange(len(places))[:, None], places] = True
        best = places[int(np.argmin(sign * errors.of_sets(masks)))]
        return WorstSet(tuple(int(k) for k in best), True)
    chosen: list[int] = []
    for _ in range(size):
        values = sign * errors.with_one_more(chosen)
        chosen.append(next(int(k) for k in np.argsort(values, kind="stable") if k not in chosen))
    return WorstSet(tuple(sorted(chosen)), size == 1)


@dataclass(frozen=True, eq=False)
class AgentTerms:
    """J0 and the term of every agent, as it is and as it is when the agent belongs to the set.

    All in coordinates of x where the raw information is the identity. Independent noise only.
    """

    prior: Array
    usual: Array  # (S, L, L)
    changed: Array  # (S, L, L)

    def error(self, rows: Array) -> AdditiveErrors:
        """tr(A J̃^-1 A') for rows A in raw coordinates."""
        return AdditiveErrors(self, rows.T @ rows)


@dataclass(frozen=True, eq=False)
class AdditiveErrors:
    """Errors of sets whose information is a sum over agents."""

    terms: AgentTerms
    gram: Array  # A'A

    def of_sets(self, masks: Booleans) -> Array:
        """(sets, S) -> (sets,)."""
        size = len(self.gram)
        results = np.empty(len(masks))
        step = max(1, _AT_ONCE // size**2)
        usual = self.terms.usual.reshape(-1, size**2)
        changed = self.terms.changed.reshape(-1, size**2)
        for start in range(0, len(masks), step):
            some = masks[start : start + step].astype(float)
            sums = self.terms.prior.reshape(-1) + (1 - some) @ usual + some @ changed
            results[start : start + step] = self._errors(sums.reshape(-1, size, size))
        return results

    def with_one_more(self, chosen: Sequence[int]) -> Array:
        """(S,): for the chosen agents and one more."""
        part = np.zeros(len(self.terms.usual), bool)
        part[list(chosen)] = True
        base = (
            self.terms.prior
            + np.sum(self.terms.usual[~part], axis=0)
            + np.sum(self.terms.changed[part], axis=0)
        )
        steps = self.terms.changed - self.terms.usual
        each = max(1, _AT_ONCE // len(self.gram) ** 2)
        return np.concatenate(
            [self._errors(base + steps[start : start + each]) for start in range(0, len(steps), each)]
        )

    def _errors(self, information: Array) -> Array:
        values, vectors = np.linalg.eigh(information)
        parts = np.einsum("kij,kij->kj", vectors, self.gram @ vectors)
        return np.asarray(np.sum(parts / np.maximum(values, _LEAST), axis=1))


def adds_up(network: Network) -> bool:
    """Whether the information of messages is a sum over agents: rows by themselves, with independent noise."""
    return network.R.independent and not network.is_stream


def agent_terms(
    network: Network,
    usual: Mapping[str, Sanitizer],
    changed: Mapping[str, Sanitizer],
    *,
    changed_in: Network | None = None,
    within: Network | None = None,
) -> AgentTerms:
    """The terms of a network with independent noise, in the raw coordinates of ``within`` (or its own).

    ``changed_in`` is the network for what changed, where its readings differ too.
    """
    frame = network if within is None else within
    other = network if changed_in is None else changed_in
    root = frame.in_raw_coordinates(frame.prior_root)
    return AgentTerms(root.T @ root, _terms(network, usual, frame), _terms(other, changed, frame))


def _terms(network: Network, sanitizers: Mapping[str, Sanitizer], frame: Network) -> Array:
    terms = np.zeros((network.S, network.L, network.L))
    for place, agent in enumerate(network.agents):
        rows, noisy = sanitizers[agent].normal
        if not len(rows):
            continue
        covariance = own_covariances(rows, network.R.block(place), np.diag(noisy.astype(float)))
        factor = solve_lower(cholesky(covariance), rows @ network.H[network.blocks.rows(place)])
        factor = frame.in_raw_coordinates(factor)
        terms[place] = factor.T @ factor
    return terms


@dataclass(frozen=True, eq=False)
class DirectErrors:
    """Errors by the definition, one set after another: for correlated noise, and for streams."""

    error: Callable[[tuple[int, ...]], float]
    agents: int

    def of_sets(self, masks: Booleans) -> Array:
        """(sets, S) -> (sets,)."""
        return np.array([self._error(np.flatnonzero(mask).tolist()) for mask in masks])

    def with_one_more(self, chosen: Sequence[int]) -> Array:
        """(S,): for the chosen agents and one more."""
        return np.array([self._error([*chosen, k]) for k in range(self.agents)])

    def _error(self, places: list[int]) -> float:
        return self.error(tuple(sorted(set(places))))
