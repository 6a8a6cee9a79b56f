"""Small random networks of every kind, and bounds straight from their definition with dense matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.linalg import block_diag

import veilnet as vn
from veilnet._core.types import Array

NOISES = ("joint", "per agent", "variances", "scalar")
PRIORS = ("none", "covariance", "information", "singular")
SANITIZERS = ("noise", "rectangular", "dependent", "singular noise", "silent", "mixed")


def well_conditioned(rng: np.random.Generator, size: int) -> Array:
    """A random covariance with eigenvalues between 0.5 and 2."""
    basis, _ = np.linalg.qr(rng.standard_normal((size, size)))
    matrix = (basis * rng.uniform(0.5, 2.0, size)) @ basis.T
    return np.asarray((matrix + matrix.T) / 2)


def random_noise(rng: np.random.Generator, kind: str, sizes: Sequence[int]) -> Any:
    """The ``noise`` argument in one of its forms."""
    if kind == "joint":
        return well_conditioned(rng, sum(sizes))
    if kind == "per agent":
        return {f"a{k}": well_conditioned(rng, size) for k, size in enumerate(sizes)}
    if kind == "variances":
        return rng.uniform(0.5, 2.0, sum(sizes))
    return float(rng.uniform(0.5, 2.0))


def random_prior(rng: np.random.Generator, kind: str, size: int) -> vn.Prior | None:
    """A prior of one of the kinds; the singular one knows all but one direction."""
    if kind == "none":
        return None
    if kind == "covariance":
        return vn.Prior(covariance=well_conditioned(rng, size), mean=rng.standard_normal(size))
    if kind == "information":
        return vn.Prior(information=well_conditioned(rng, size))
    rows = rng.standard_normal((size - 1, size))
    return vn.Prior(information=rows.T @ rows)


def random_network(
    seed: int,
    *,
    noise: str = "joint",
    prior: str = "none",
    sizes: Sequence[int] = (3, 2, 4, 3),
    parameters: int = 4,
    public_rows: int = 2,
    private_rows: Sequence[int] = (1, 2),
) -> vn.Network:
    """A well conditioned network with agents a0, a1, ... and private parameters g0, g1, ..."""
    rng = np.random.default_rng([seed, NOISES.index(noise), PRIORS.index(prior), *sizes])
    return vn.Network(
        observe={f"a{k}": rng.standard_normal((size, parameters)) for k, size in enumerate(sizes)},
        noise=random_noise(rng, noise, sizes),
        public=rng.standard_normal((public_rows, parameters)),
        private={f"g{j}": rng.standard_normal((rows, parameters)) for j, rows in enumerate(private_rows)},
        prior=random_prior(rng, prior, parameters),
    )


def random_sanitizer(rng: np.random.Generator, kind: str, size: int) -> vn.Sanitizer:
    """One agent's sanitizer: each kind exercises another way for C or Θ to be awkward."""
    root = rng.standard_normal((size, size))
    if kind == "noise":
        return vn.Sanitizer(noise=root @ root.T)
    if kind == "rectangular":
        return vn.Sanitizer(rng.standard_normal((max(1, size - 1), size)))
    if kind == "dependent":
        # Few bits and whole coefficients: the further rows are dependent exactly, not only up to rounding.
        rows = np.round(rng.standard_normal((max(1, size - 1), size)) * 2**20) / 2**20
        return vn.Sanitizer(np.concatenate([rows, rng.integers(-3, 4, (2, len(rows))) @ rows, 0 * rows[:1]]))
    if kind == "singular noise":
        return vn.Sanitizer(rng.standard_normal((size, size)), root[:, :1] @ root[:, :1].T)
    if kind == "silent":
        return vn.Sanitizer.silent(size)
    raise ValueError(kind)


def random_sanitizers(network: vn.Network, seed: int, kind: str) -> dict[str, vn.Sanitizer]:
    """A sanitizer for every agent but the last; "mixed" takes another kind for each of them."""
    rng = np.random.default_rng([seed, 77])
    kinds = ("rectangular", "singular noise", "noise", "dependent") if kind == "mixed" else (kind,)
    return {
        name: random_sanitizer(rng, kinds[place % len(kinds)], network.observe[name].shape[0])
        for place, name in enumerate(network.agents[:-1])
    }


def prior_information(network: vn.Network) -> Array:
    """J0, zero without a prior."""
    return np.zeros((network.L, network.L)) if network.prior is None else network.prior.information


def message_model(network: vn.Network, sanitizers: Mapping[str, vn.Sanitizer]) -> tuple[Array, Array]:
    """(C, Θ), block diagonal and dense; agents without a sanitizer send raw readings."""
    sizes = [network.observe[name].shape[0] for name in network.agents]
    chosen = [
        sanitizers[name] if name in sanitizers else vn.Sanitizer.raw(size)
        for name, size in zip(network.agents, sizes, strict=True)
    ]
    # block_diag treats a 0 x n block as n empty columns, which is what silence means.
    return (
        np.asarray(block_diag(*[s.compression for s in chosen])),
        np.asarray(block_diag(*[s.noise for s in chosen])),
    )


def direct_information(network: vn.Network, sanitizers: Mapping[str, vn.Sanitizer]) -> Array:
    """J̃ = J0 + H'C'(C R C' + Θ)^+ C H, by the definition."""
    compression, noise = message_model(network, sanitizers)
    observed = compression @ network.H
    covariance = compression @ network.R.matrix() @ compression.T + noise
    weights = np.linalg.pinv(covariance, rcond=1e-11, hermitian=True)
    information = prior_information(network) + observed.T @ weights @ observed
    return np.asarray((information + information.T) / 2)


def direct_crlb(network: vn.Network, sanitizers: Mapping[str, vn.Sanitizer]) -> Array:
    """P̃(C, Θ), by the definition; J̃ must be invertible."""
    return np.asarray(np.linalg.inv(direct_information(network, sanitizers)))


def direct_error(information: Array, rows: Array, rcond: float = 1e-9) -> float:
    """tr(A J̃^+ A'), inf when a row of A leaves range(J̃)."""
    values, vectors = np.linalg.eigh(information)
    known = values > rcond * max(values[-1], np.finfo(float).tiny)
    parts = rows @ vectors
    if np.max(np.abs(parts[:, ~known]), initial=0.0) > 1e-6 * np.linalg.norm(rows):
        return np.inf
    return float(np.sum(parts[:, known] ** 2 / values[known]))


def direct_growth(network: vn.Network, information: Array, rows: Array) -> float:
    """tr(A P̃ A') / tr(A P A') - 1."""
    raw = direct_information(network, {})
    return direct_error(information, rows) / direct_error(raw, rows) - 1
