"""The certificate's sums over stacks of agents, by formulas that the bounds do not use.

J = Σ H_i'R_i^-1 H_i by plain solves, and J̃ = Σ H_i'C_i'(C_i R_i C_i' + Θ_i)^+ C_i H_i by spectral pseudo-inverses,
both formed explicitly; a few thousand agents at a time. Each takes stacks of agents alike and gives an L x L matrix;
those of several stacks add up.

The noise that agents add to their readings, from what they run, has the power tr Θ_i, Θ_i = C_i^-1 V_i C_i^-T.
A receiver of C_i y_i + ξ_i with C_i invertible and ξ_i ~ N(0, V_i) can take C_i^-1 of it, y_i + C_i^-1 ξ_i: that
is noise of covariance C_i^-1 V_i C_i^-T on the readings. Where C_i is not invertible something is withheld, which no
noise of finite power does.

The quick recheck compares J and J̃ in ordinary doubles, by an eigenproblem and without the normal form; the bounds
use triangular factors and singular values.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg import eigh, solve

from veilnet._core.types import Array
from veilnet.agent.mechanisms import Mechanisms
from veilnet.model.network import Network

_AGENTS_AT_ONCE = 2048


def raw_sum(observe: Array, noise: Array) -> Array:
    """Σ H_i'R_i^-1 H_i, (L, L): R has no direction to drop.

    observe: H_i, (S, n, L).
    noise:   R_i, (S, n, n).
    """
    length = observe.shape[2]
    total = np.zeros((length, length))
    for part in some_at_a_time(len(observe)):
        weighted = np.linalg.solve(noise[part], observe[part])
        total += observe[part].reshape(-1, length).T @ weighted.reshape(-1, length)
    return np.asarray((total + total.T) / 2)


def sent_information(observe: Array, noise: Array, compression: Array, added: Array | None = None) -> Array:
    """Σ H_i'C_i'(C_i R_i C_i' + Θ_i)^+ C_i H_i, (L, L).

    observe, noise: as for :func:`raw_information`.
    compression:    C_i, (S, k, n).
    added:          Θ_i, (S, k, k); none when left out.
    """
    length = observe.shape[2]
    total = np.zeros((length, length))
    if compression.shape[1] == 0:
        return total
    for part in some_at_a_time(len(observe)):
        sending = compression[part]
        covariance = sending @ noise[part] @ np.swapaxes(sending, 1, 2)
        if added is not None:
            covariance += added[part]
        total += weighted_gram(sending @ observe[part], covariance)
    return total


def weighted_gram(observed: Array, covariance: Array) -> Array:
    """Σ_k B_k'M_k^+ B_k; directions of zero variance are dropped (sent twice, or not at all)."""
    if observed.shape[1] == 0:
        return np.zeros((observed.shape[2], observed.shape[2]))
    deviation = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    deviation = np.where(deviation > 0, deviation, 1.0)
    values, vectors = np.linalg.eigh(covariance / deviation[:, :, None] / deviation[:, None, :])
    some = values > 1e-13 * values.shape[1]
    half = np.swapaxes(vectors, 1, 2) @ (observed / deviation[:, :, None])
    half *= np.where(some, 1.0 / np.sqrt(np.where(some, values, 1.0)), 0.0)[:, :, None]
    flat = half.reshape(-1, half.shape[2])
    return np.asarray(flat.T @ flat)


def some_at_a_time(count: int) -> Iterator[slice]:
    """The places 0..count-1, a few thousand at a time."""
    for start in range(0, count, _AGENTS_AT_ONCE):
        yield slice(start, min(start + _AGENTS_AT_ONCE, count))


# Rows, without units, that are more nearly dependent than this are taken for dependent: something is withheld.
_DEPENDENT = 1e13


def powers_of(sent: Mechanisms) -> Array:
    """tr Θ_i of every agent, (S,), in sending order; 0 of those that send raw readings."""
    found = np.zeros(sent.network.S)
    for stack in sent.stacks:
        found[stack.places] = noise_power(stack.compression, stack.noise)
    return found


def noise_power(compression: Array, noise: Array | None) -> Array:
    """tr(C^-1 V C^-T) of a stack of agents, (s,); inf for those that withhold something.

    compression: C_i, (s, k, n).
    noise:       V_i, (s, k, k); None where nothing is added.
    """
    count, sent, size = compression.shape
    found = np.full(count, np.inf)
    if sent != size:
        return found
    for some in some_at_a_time(count):
        found[some] = _power(compression[some], None if noise is None else noise[some])
    return found


def _power(compression: Array, noise: Array | None) -> Array:
    columns = np.max(np.abs(compression), axis=1)
    columns = np.where(columns > 0, columns, 1.0)
    unit = compression / columns[:, None, :]
    rows = np.linalg.norm(unit, axis=2)
    rows = np.where(rows > 0, rows, 1.0)
    unit = unit / rows[:, :, None]
    invertible = np.linalg.cond(unit) < _DEPENDENT
    found = np.where(invertible, 0.0, np.inf)
    if noise is not None:
        back = (
            np.linalg.inv(unit[invertible]) / columns[invertible][:, :, None] / rows[invertible][:, None, :]
        )
        found[invertible] = np.sum((back @ noise[invertible]) * back, axis=(1, 2))
    return found


class DoubleRecheck:
    """J and J̃, the prior's information in both, in parameters scaled by their raw information.

    LinAlgError where doubles cannot tell them apart.
    """

    def __init__(self, raw: Array, left: Array) -> None:
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

    def information(self, rows: Array, weak: float) -> Array:
        """(A (J̃ + weak·J)^-1 A')^-1 for independent rows A, by a triangle: what is without bound costs no digits."""
        half = rows * self._scale @ self._vectors / np.sqrt(np.maximum(self._values, 0.0) + weak)
        back = np.linalg.inv(np.linalg.qr(half.T, mode="r"))
        return np.asarray(back @ back.T)

    def least_growth(self, rows: Array, weak: float) -> float:
        """The growth of the most exposed direction: the least eigenvalue of (A (J̃ + weak·J)^-1 A', A J^-1 A') - 1."""
        _, sizes, right = np.linalg.svd(rows * self._scale @ self._vectors, full_matrices=False)
        parts = right[sizes > 1e-10 * sizes[0]]  # dependent rows count once, each direction by its raw error
        # Deviations, not their squares: beside a direction without bound those lose the digits of the least one.
        spread = parts / np.sqrt(np.maximum(self._values, 0.0) + weak)
        return float(np.linalg.svd(spread, compute_uv=False)[-1] ** 2 - 1.0)


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
        total += raw_sum(network.blocks.take(network.H, group.agents), network.R.stack(group))
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
