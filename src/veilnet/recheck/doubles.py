"""The quick recheck, in ordinary doubles: J and J̃ formed explicitly, and compared by an eigenproblem.

J̃ = J0 + Σ H'C'(C R C' + Θ)^+ C H is formed by spectral pseudo-inverses, without the normal form; the bounds use
triangular factors and singular values.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh, solve

from veilnet._core.types import Array
from veilnet.agent.mechanisms import Mechanisms
from veilnet.model.network import Network
from veilnet.recheck.sums import raw_information, sent_information, weighted_gram


class DoubleRecheck:
    """J and J̃ in parameters scaled by their raw information; LinAlgError where doubles cannot tell them apart."""

    def __init__(self, network: Network, sent: Mechanisms) -> None:
        prior = np.zeros((network.L, network.L)) if network.prior is None else network.prior.information
        raw, left = information_sums(network, sent)
        self._compare(prior + raw, prior + left)

    @classmethod
    def of_information(cls, raw: Array, left: Array) -> DoubleRecheck:
        """The same from J and J̃ themselves, the prior's information in both."""
        made = object.__new__(cls)
        made._compare(raw, left)
        return made

    def _compare(self, raw: Array, left: Array) -> None:
        self.raw = raw
        self._scale = 1.0 / np.sqrt(np.diag(raw))
        self._values, self._vectors = eigh(self._scaled(left), self._scaled(raw))

    def _scaled(self, matrix: Array) -> Array:
        scaled = matrix * self._scale[:, None] * self._scale[None, :]
        return np.asarray((scaled + scaled.T) / 2)

    def growth(self, rows: Array, weak: float) -> float:
        """tr(A (J̃ + weak·J)^-1 A') / tr(A J^-1 A') - 1 for rows A."""
        parts = np.sum((rows * self._scale @ self._vectors) ** 2, axis=0)
        return float(np.sum(parts / (np.maximum(self._values, 0.0) + weak)) / np.sum(parts) - 1.0)

    def errors(self, rows: Array, weak: float) -> Array:
        """A (J̃ + weak·J)^-1 A' for rows A."""
        half = rows * self._scale @ self._vectors
        return np.asarray((half / (np.maximum(self._values, 0.0) + weak)) @ half.T)

    def least_growth(self, rows: Array, weak: float) -> float:
        """The growth of the most exposed direction: the least eigenvalue of (A (J̃ + weak·J)^-1 A', A J^-1 A') - 1."""
        _, sizes, right = np.linalg.svd(rows * self._scale @ self._vectors, full_matrices=False)
        parts = right[sizes > 1e-10 * sizes[0]]  # dependent rows count once, each direction by its raw error
        errors = (parts / (np.maximum(self._values, 0.0) + weak)) @ parts.T
        return float(np.linalg.eigvalsh(errors)[0] - 1.0)


def information_sums(network: Network, sent: Mechanisms) -> tuple[Array, Array]:
    """(H'R^-1 H, H'C'(C R C' + Θ)^+ C H), (L, L) each: what readings tell, and what is left of it in what is sent."""
    return _raw_information(network), _information(network, sent)


def _raw_information(network: Network) -> Array:
    """H'R^-1 H, by plain solves: R has no direction to drop."""
    if not network.R.independent:
        raw = network.H.T @ solve(network.R.matrix(), network.H, assume_a="pos")
        return np.asarray((raw + raw.T) / 2)
    total = np.zeros((network.L, network.L))
    for group in network.blocks.groups:
        total += raw_information(network.blocks.take(network.H, group.agents), network.R.stack(group))
    return total


def _information(network: Network, sent: Mechanisms) -> Array:
    """Σ H'C'(C R C' + Θ)^+ C H, over agents alike where noises are independent, at once otherwise."""
    if not network.R.independent:
        return _joint_information(network, sent)
    total = np.zeros((network.L, network.L))
    own = [network.R.stack(group) for group in network.blocks.groups]
    for each in sent.parts():
        noise = own[each.group][each.within]
        total += sent_information(each.observe, noise, each.stack.compression, each.stack.noise)
    return total


def _joint_information(network: Network, sent: Mechanisms) -> Array:
    """The same with C formed whole: what the bounds never do."""
    compression = np.zeros((sent.blocks.total, network.N))
    added = np.zeros((sent.blocks.total, sent.blocks.total))
    for place, agent in enumerate(network.agents):
        mine = sent.blocks.rows(place)
        compression[mine, network.blocks.rows(place)] = sent[agent].compression
        added[mine, mine] = sent[agent].noise
    covariance = compression @ network.R.matrix() @ compression.T + added
    return weighted_gram((compression @ network.H)[None], ((covariance + covariance.T) / 2)[None])
