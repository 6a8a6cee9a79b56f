"""Random networks in the setting of the paper's section VII, as bare arrays and in standard form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag, solve_triangular

from veilnet._core.blocks import Blocks
from veilnet._core.types import Array
from veilnet.model.network import Network, Prior
from veilnet.model.standard_form import StandardForm


class PaperArrays(NamedTuple):
    """H (N, L), R (N, N), J0 (L, L) or None, U, the G_j, and the agents' sizes."""

    observe: Array
    noise: Array
    prior_covariance: Array | None
    public: Array
    private: tuple[Array, ...]
    sizes: tuple[int, ...]


def paper_arrays(
    seed: int,
    agents: int,
    public_rows: int,
    prior: bool,
    private: int = 1,
    *,
    readings: int = 72,
    parameters: int = 12,
    independent: bool = False,
) -> PaperArrays:
    """One draw: R = AA', P0 = AA', everything uniform as printed; agents share the readings equally."""
    rng = np.random.default_rng([seed, agents, public_rows, prior, private])
    root = rng.uniform(-0.5, 0.5, (readings, readings))
    sizes = tuple(len(part) for part in np.array_split(np.arange(readings), agents))
    noise = root @ root.T
    if independent:
        noise *= Blocks(sizes).same_agent()
    observe = rng.uniform(-0.5, 0.5, (readings, parameters))
    prior_root = rng.uniform(-10, 10, (parameters, parameters))
    public = rng.uniform(-0.5, 0.5, (public_rows, parameters))
    hidden = tuple(rng.uniform(-0.5, 0.5, (3, parameters)) for _ in range(private))
    return PaperArrays(observe, noise, prior_root @ prior_root.T if prior else None, public, hidden, sizes)


def as_network(arrays: PaperArrays) -> Network:
    """The draw as a veilnet network, agents a1, a2, ... and private parameters g1, g2, ..."""
    blocks = Blocks(arrays.sizes)
    return Network(
        observe={f"a{i + 1}": arrays.observe[blocks.rows(i)] for i in range(blocks.count)},
        noise=arrays.noise,
        public=arrays.public,
        private={f"g{j + 1}": rows for j, rows in enumerate(arrays.private)},
        prior=None if arrays.prior_covariance is None else Prior(covariance=arrays.prior_covariance),
    )


def paper_network(
    seed: int, agents: int, public_rows: int, prior: bool, private: int = 1, *, independent: bool = False
) -> Network:
    """A draw of the paper's setting, as a network."""
    return as_network(paper_arrays(seed, agents, public_rows, prior, private, independent=independent))


def standardize(arrays: PaperArrays) -> StandardForm:
    """The standard form straight from its definition, independent of the package's own conversion."""
    blocks = Blocks(arrays.sizes)
    rows = [blocks.rows(i) for i in range(blocks.count)]
    root = block_diag(*[np.linalg.cholesky(arrays.noise[r, r]) for r in rows])
    white = solve_triangular(root, arrays.observe, lower=True)
    correlation = solve_triangular(root, solve_triangular(root, arrays.noise, lower=True).T, lower=True)
    coupling = correlation * (1 - blocks.same_agent())
    full = coupling + np.eye(blocks.total)
    length = arrays.observe.shape[1]
    prior: Array = np.zeros((length, length))
    if arrays.prior_covariance is not None:
        prior = np.asarray(np.linalg.inv(arrays.prior_covariance), float)
    information = prior + white.T @ np.linalg.solve(full, white)
    triangle = np.linalg.cholesky((information + information.T) / 2)

    def change(matrix: Array) -> Array:
        changed: Array = solve_triangular(triangle, matrix.T, lower=True).T
        return changed

    half = change(prior)
    standard_prior = change(half.T)
    independent = not np.any(np.abs(arrays.noise * (1 - blocks.same_agent())) > 0)
    return StandardForm(
        information=(standard_prior + standard_prior.T) / 2,
        observe=change(white),
        coupling=None if independent else coupling,
        blocks=blocks,
        public=(rows_u := change(arrays.public)) / np.linalg.norm(rows_u),
        private=tuple((rows_g := change(g)) / np.linalg.norm(rows_g) for g in arrays.private),
    )


def standard_paper_network(
    seed: int, agents: int, public_rows: int, prior: bool, private: int = 1, *, independent: bool = False
) -> StandardForm:
    """A draw of the paper's setting, in standard form."""
    return standardize(paper_arrays(seed, agents, public_rows, prior, private, independent=independent))
