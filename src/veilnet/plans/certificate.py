"""A plan is never trusted because a solver said so: its promise is recomputed from scratch.

The recheck uses (network, C, Θ) alone and shares no code with the solvers or with :mod:`veilnet.bounds.knowledge`: it
forms J̃ = J0 + Σ H'C'(C R C' + Θ)^+ C H by spectral pseudo-inverses, without the normal form, and compares it
with J by a generalised eigenproblem, where the bounds use triangular factors and singular values. That a
parameter can no longer be estimated at all is shown by a witness: a change z of x with C_i H_i z = 0 at every
agent and J0 z = 0, which nothing that is sent can see, but which moves the parameter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, solve

from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.network import Network

# What two routes through floating point may differ by, relative to the larger of promise and one.
_AGREEMENT = 1e-6
LOSS_ALLOWED = "utility loss allowed"
DITHERED = "agents without their dither"
# Privacy beyond this cannot be told from rounding by forming J̃: it is then confirmed as "at least this".
_LARGEST_TOLD = 1e8


@dataclass(frozen=True)
class Promise:
    """What a plan claims: utility u, privacy p_j, and the targets it was made for."""

    utility: float
    privacy: Mapping[str, float]
    targets: Mapping[str, float]
    most_loss: float | None


@dataclass(frozen=True)
class Finding:
    """One promise and what the recheck found."""

    what: str
    promised: float
    found: float
    ok: bool


@dataclass(frozen=True)
class Certificate:
    """The promises of a plan, recomputed by another route."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether every promise was confirmed."""
        return all(finding.ok for finding in self.findings)

    def complaint(self) -> str:
        """What was not confirmed, in words."""
        return "; ".join(
            f"{finding.what}: promised {finding.promised:.6g}, found {finding.found:.6g}"
            for finding in self.findings
            if not finding.ok
        )


def certify(network: Network, sanitizers: Mapping[str, Sanitizer], promise: Promise) -> Certificate:
    """Recompute every promise from the network and the sanitizers alone."""
    model = _Recheck(network, sanitizers)
    loss = model.growth(network.public)
    findings = [
        Finding("utility", promise.utility, 0.0 - loss, _agree(-promise.utility, loss)),
    ]
    for name, promised in promise.privacy.items():
        found = model.growth(network.private[name])
        findings.append(Finding(f"privacy of {name}", promised, found, _confirmed(promised, found)))
        target = promise.targets.get(name, 0.0)
        if target > 0:
            # Privacy is promised as computed and confirmed above; the target must hold without any slack.
            findings.append(Finding(f"target of {name}", target, promised, bool(promised >= target)))
    if np.any(network.steps):
        undithered = _undithered(network, sanitizers)
        findings.append(Finding(DITHERED, 0.0, float(undithered), undithered == 0))
    if promise.most_loss is not None:
        held = bool(0.0 - promise.utility <= promise.most_loss + _rounding(model))
        findings.append(Finding(LOSS_ALLOWED, promise.most_loss, 0.0 - promise.utility, held))
    return Certificate(tuple(findings))


def _undithered(network: Network, sanitizers: Mapping[str, Sanitizer]) -> int:
    """How many agents do not dither their readings by the steps that the network says."""
    wrong = 0
    for agent, sanitizer in sanitizers.items():
        steps = network.resolution.get(agent, np.zeros(sanitizer.readings))
        mine = np.zeros(sanitizer.readings) if sanitizer.resolution is None else sanitizer.resolution
        wrong += not np.array_equal(mine, steps)
    return wrong


def _agree(promised: float, found: float) -> bool:
    if np.isinf(promised) or np.isinf(found):
        return bool(np.isinf(promised) and (np.isinf(found) or found > _LARGEST_TOLD))
    return bool(abs(promised - found) <= _AGREEMENT * (1 + promised))


def _confirmed(promised: float, found: float) -> bool:
    """At least the privacy that was promised; more would be a wrong promise too, but harms nobody."""
    if np.isinf(promised):
        return bool(np.isinf(found))
    if promised > _LARGEST_TOLD:
        return bool(found > _LARGEST_TOLD / 10)
    return bool(found >= promised - _AGREEMENT * (1 + promised))


def _rounding(model: _Recheck) -> float:
    return 1e-12 * max(1.0, model.network.conditioning)


class _Recheck:
    """J and J̃ formed explicitly, in parameters scaled by their raw information."""

    def __init__(self, network: Network, sanitizers: Mapping[str, Sanitizer]) -> None:
        self.network = network
        prior = np.zeros((network.L, network.L)) if network.prior is None else network.prior.information
        raw = prior + _raw_information(network)
        self._scale = 1.0 / np.sqrt(np.diag(raw))
        self._raw = self._scaled(raw)
        self._left = self._scaled(prior + _information(network, sanitizers))
        self._values, self._vectors = eigh(self._left, self._raw)
        self._unseen = _unseen_changes(network, sanitizers, self._scale)

    def _scaled(self, matrix: Array) -> Array:
        scaled = matrix * self._scale[:, None] * self._scale[None, :]
        return np.asarray((scaled + scaled.T) / 2)

    def growth(self, rows: Array) -> float:
        """tr(A P̃ A') / tr(A P A') - 1, inf when some change of x that nobody can see moves A x."""
        scaled = rows * self._scale
        moved = np.linalg.norm(scaled @ self._unseen)
        if moved > 1e-7 * np.linalg.norm(scaled):
            return np.inf
        parts = np.sum((scaled @ self._vectors) ** 2, axis=0)
        seen = np.ones(parts.size, bool)
        seen[: self._unseen.shape[1]] = False  # eigenvalues ascend: the unseen changes come first
        values = np.maximum(self._values[seen], np.finfo(float).tiny)
        return float(np.sum(parts[seen] / values) / np.sum(parts) - 1.0)


def _raw_information(network: Network) -> Array:
    """H'R^-1 H, by plain solves: R has no direction to drop."""
    if not network.noise.independent:
        raw = network.H.T @ solve(network.noise.matrix(), network.H, assume_a="pos")
        return np.asarray((raw + raw.T) / 2)
    total = np.zeros((network.L, network.L))
    for group in network.blocks.groups:
        own = np.stack([network.noise.block(int(place)) for place in group.agents])
        observed = network.H[group.rows]
        weighted = np.linalg.solve(own, observed)
        total += observed.reshape(-1, network.L).T @ weighted.reshape(-1, network.L)
    return np.asarray((total + total.T) / 2)


def _information(network: Network, sanitizers: Mapping[str, Sanitizer]) -> Array:
    """Σ H'C'(C R C' + Θ)^+ C H, over agents alike where noises are independent, at once otherwise."""
    mechanisms = [
        (sanitizers[agent].compression, sanitizers[agent].noise)
        if agent in sanitizers
        else (np.eye(int(size)), np.zeros((int(size), int(size))))
        for agent, size in zip(network.agents, network.blocks.sizes, strict=True)
    ]
    if not network.noise.independent:
        return _joint_information(network, mechanisms)
    alike: dict[tuple[int, ...], list[int]] = {}
    for place, (compression, _) in enumerate(mechanisms):
        alike.setdefault(compression.shape, []).append(place)
    total = np.zeros((network.L, network.L))
    for places in alike.values():
        compression = np.stack([mechanisms[place][0] for place in places])
        noise = np.stack([mechanisms[place][1] for place in places])
        own = np.stack([network.noise.block(place) for place in places])
        observed = np.stack([network.H[network.blocks.rows(place)] for place in places])
        covariance = compression @ own @ np.swapaxes(compression, 1, 2) + noise
        total += _weighted_gram(compression @ observed, covariance)
    return total


def _joint_information(network: Network, mechanisms: list[tuple[Array, Array]]) -> Array:
    ends = np.cumsum([noise.shape[0] for _, noise in mechanisms])
    sent = [slice(end - noise.shape[0], end) for end, (_, noise) in zip(ends, mechanisms, strict=True)]
    covariance = np.zeros((int(ends[-1]), network.N))
    observed = np.zeros((int(ends[-1]), network.L))
    for place, (compression, _) in enumerate(mechanisms):
        rows = network.blocks.rows(place)
        covariance[sent[place]] = compression @ network.noise.matrix()[rows]
        observed[sent[place]] = compression @ network.H[rows]
    squared = np.zeros((int(ends[-1]), int(ends[-1])))
    for place, (compression, noise) in enumerate(mechanisms):
        squared[:, sent[place]] = covariance[:, network.blocks.rows(place)] @ compression.T
        squared[sent[place], sent[place]] += noise
    return _weighted_gram(observed[None], ((squared + squared.T) / 2)[None])


def _weighted_gram(observed: Array, covariance: Array) -> Array:
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


def _unseen_changes(network: Network, sanitizers: Mapping[str, Sanitizer], scale: Array) -> Array:
    """Changes z of (scaled) x that no message and no prior sees: columns of an orthonormal basis."""
    seen = [] if network.prior is None else [_unit_rows(network.prior.information * scale)]
    for place, agent in enumerate(network.agents):
        observed = network.H[network.blocks.rows(place)] * scale
        if agent not in sanitizers:
            seen.append(_unit_rows(observed))
            continue
        compression = sanitizers[agent].compression
        # A row is unseen relative to what it could have been without cancellation between readings.
        sizes = np.sqrt((compression**2) @ np.sum(observed**2, axis=1))
        rows = compression @ observed
        keep = np.linalg.norm(rows, axis=1) > 1e-11 * sizes
        seen.append(rows[keep] / np.where(sizes > 0, sizes, 1.0)[keep, None])
    reduced = np.linalg.qr(np.concatenate([*seen, np.zeros((network.L, network.L))]), mode="r")
    _, singular, basis = np.linalg.svd(reduced)
    rank = int(np.sum(singular > 1e-10 * max(float(singular[0]), np.finfo(float).tiny)))
    return np.asarray(basis[rank:].T)


def _unit_rows(rows: Array) -> Array:
    sizes = np.linalg.norm(rows, axis=1)
    return np.asarray(rows[sizes > 0] / sizes[sizes > 0, None])
