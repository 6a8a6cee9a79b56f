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

from veilnet._core.linalg import cholesky, solve_lower
from veilnet._core.types import Array, Booleans
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.knowledge import own_covariances
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


SetErrors = Callable[[Booleans], Array]
"""(sets, S) -> (sets,): the error on some rows A x when each of these sets of agents is changed."""


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
        best = places[int(np.argmin(sign * errors(masks)))]
        return WorstSet(tuple(int(k) for k in best), True)
    chosen: list[int] = []
    for _ in range(size):
        masks = np.eye(agents, dtype=bool)
        masks[:, chosen] = True
        values = sign * errors(masks)
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

    def errors(self, rows: Array) -> SetErrors:
        """tr(A J̃^-1 A') of sets, for rows A in raw coordinates."""
        gram, size = rows.T @ rows, len(self.prior)
        usual, changed = (each.reshape(-1, size**2) for each in (self.usual, self.changed))

        def found(masks: Booleans) -> Array:
            some = masks.astype(float)
            information = self.prior.reshape(-1) + (1 - some) @ usual + some @ changed
            values, vectors = np.linalg.eigh(information.reshape(-1, size, size))
            parts = np.einsum("kij,kij->kj", vectors, gram @ vectors)
            return np.asarray(np.sum(parts / np.maximum(values, _LEAST), axis=1))

        step = max(1, _AT_ONCE // size**2)
        return lambda masks: np.concatenate(
            [found(masks[start : start + step]) for start in range(0, len(masks), step)]
        )


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


def direct_errors(network: Network, error: Callable[[tuple[int, ...]], float]) -> tuple[SetErrors, int]:
    """Errors by the definition, one set after another (correlated noise, streams), and how many are affordable."""
    affordable = MOST_SETS_STREAM if network.is_stream else MOST_SETS_JOINT
    return lambda masks: np.array([error(tuple(np.flatnonzero(mask).tolist())) for mask in masks]), affordable
