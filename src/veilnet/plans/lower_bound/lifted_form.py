"""What the theorem reads of a network: units removed, rows compressed, correlated noise made independent.

With independent noise this is the standard form (:mod:`veilnet.model.standard_form`) and nothing else:

    J(X) = J0 + Σ_i H_i'X_i H_i,   0 ⪯ X_i ⪯ I,   loss = tr(U J^-1 U') - 1,   p_j = tr(G_j J^-1 G_j') - 1.

Only U'U and G_j'G_j matter, so dependent rows are compressed to rank(U) and rank(G_j) rows.

**Correlated noise.** Let the noise, each agent's own part white, have covariance R = I + E. Split it as R' = D
+ F F' with D block diagonal over agents and positive definite, F of k columns. Then y = H x + F w + d with w ~
N(0, I) independent of d ~ N(0, D) is the same model. Give the centre the larger unknown (x, w): prior
information J0 ⊕ I, readings D^-½ (H, F), independent noise. What a mechanism (C_i, Θ_i) tells of (x, w) is Σ_i
(·)'X_i(·) with X_i = D_i^½ C_i'(C_i D_i C_i' + Θ_i)^+ C_i D_i^½, which lies between 0 and I whatever the
mechanism; the error of U x and of G_j x is that of (U, 0)(x, w) and (G_j, 0)(x, w). So a bound for the larger
model is one for the network. F is kept narrow (D as large as it may be), since the price of a proof grows
steeply with L + k.

R' differs from R a little, R/(1 + η) ⪯ R' ⪯ (1 + η) R, and so does every mechanism's information. Hence p_j >=
ε_j and loss <= β on the network give 1 + p_j >= (1 + ε_j)/(1 + η) and 1 + loss <= (1 + β)(1 + η) here: that is
how :mod:`.theorem` reads targets and bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import qr

from veilnet._core.blocks import Blocks
from veilnet._core.types import Array
from veilnet.model.network import Network
from veilnet.model.standard_form import standard_form

_EPS = float(np.finfo(float).eps)
_SPLIT_STEPS, _SPLIT_STEP = 2000, 0.05
# Common noise this small beside the largest is dropped, and paid for by η.
_DROPPED = 1e-7


@dataclass(frozen=True, eq=False)
class LiftedForm:
    """A network as the theorem sees it.

    information:  J0, (L, L); L counts the nuisance parameters of correlated noise too.
    observe:      H_i per agent, (n_i, L); agents' noises are independent and white.
    public:       U, (m, L), of full row rank, tr(U P U') = 1.
    private:      G_j, (r_j, L), of full row rank, tr(G_j P G_j') = 1, in the network's order.
    roots:        (n_i, n_i) per agent: its readings' own noise is roots_i times white noise.
    conditioning: how much rounding the way from the network to here may have been amplified.
    slack:        η: the noise of this form is that of the network up to a factor 1 + η (0 if independent).
    """

    information: Array
    observe: tuple[Array, ...]
    public: Array
    private: tuple[Array, ...]
    roots: tuple[Array, ...]
    conditioning: float
    slack: float

    @property
    def size(self) -> int:
        """L, nuisance parameters included."""
        return int(self.information.shape[0])

    @cached_property
    def informations(self) -> Array:
        """N_i = H_i'H_i, (agents, L, L)."""
        found = np.empty((len(self.observe), self.size, self.size))
        by_size: dict[int, list[int]] = {}
        for place, observe in enumerate(self.observe):
            by_size.setdefault(len(observe), []).append(place)
        for places in by_size.values():
            stack = np.stack([self.observe[place] for place in places])
            found[places] = stack.transpose(0, 2, 1) @ stack
        return found


def lifted_form(network: Network, common: Array | None = None) -> LiftedForm:
    """The lifted form of a network with any prior, any noise, any number of public and private rows.

    ``common`` is F of :func:`split_noise`, (N, k), for correlated noise; found anew when it is not given.
    """
    form = standard_form(network)
    network = network.common_apart
    observe, information = form.observe, form.information
    nuisance, slack = 0, 0.0
    roots: tuple[Array, ...] = tuple(
        np.asarray(np.linalg.cholesky(network.R.block(i))) for i in range(network.S)
    )
    if form.coupling is not None:
        common = split_noise(form.coupling, form.blocks) if common is None else common
        own, slack = _own_noise(form.coupling, form.blocks, common)
        nuisance = common.shape[1]
        each = [form.blocks.rows(i) for i in range(form.blocks.count)]
        roots = tuple(root @ np.linalg.cholesky(own[at, at]) for root, at in zip(roots, each, strict=True))
        observe = _white(own, np.concatenate([observe, common], axis=1), form.blocks)
        extended = np.eye(form.information.shape[0] + nuisance)
        extended[: len(form.information), : len(form.information)] = form.information
        information = extended
    return LiftedForm(
        information=information,
        observe=tuple(observe[form.blocks.rows(i)] for i in range(form.blocks.count)),
        public=_compressed(form.public, nuisance),
        private=tuple(_compressed(rows, nuisance) for rows in form.private),
        roots=roots,
        conditioning=float(network.conditioning),
        slack=slack,
    )


def split_noise(coupling: Array, blocks: Blocks) -> Array:
    """F, (N, k), such that I + E - F F' is nearly block diagonal and positive definite.

    The trace of F F' is minimised with its blocks between agents given, which makes it of low rank
    (minimum-trace factor analysis, by Douglas-Rachford splitting). Nothing depends on how well that goes: a
    poor split is only wider.
    """
    whole = coupling + np.eye(coupling.shape[0])
    within = blocks.same_agent() > 0
    lowest = float(np.linalg.eigvalsh(whole)[0])
    state = whole - 0.5 * lowest * np.eye(len(whole))
    rest = state
    for _ in range(_SPLIT_STEPS):
        rest = _positive_part(state - _SPLIT_STEP * np.eye(len(whole)))
        state = state + np.where(within, 2 * rest - state, coupling) - rest
    own = np.where(within, whole - rest, 0.0)
    # The own noise stays well away from singular: whitening by it must not amplify rounding.
    low = float(np.linalg.eigvalsh(own)[0])
    if low < 0.25 * lowest:
        share = 0.75 * lowest / (lowest - low)
        own = share * own + (1 - share) * lowest * np.eye(len(whole))
    values, vectors = np.linalg.eigh(whole - own)
    keep = values > _DROPPED * float(values[-1])
    return np.asarray(vectors[:, keep] * np.sqrt(values[keep]))


def _own_noise(coupling: Array, blocks: Blocks, common: Array) -> tuple[Array, float]:
    """(D, η): what F F' leaves of I + E within agents, and how far D + F F' is from I + E."""
    whole = coupling + np.eye(coupling.shape[0])
    shared = common @ common.T
    own = np.where(blocks.same_agent() > 0, whole - shared, 0.0)
    if not float(np.linalg.eigvalsh(own)[0]) > 0:
        raise ValueError("common noise: more than the whole; what is left at some agent is no covariance")
    difference = float(np.linalg.norm(whole - own - shared)) + 1e2 * _EPS * len(whole)
    relative = difference / float(np.linalg.eigvalsh(whole)[0])
    return own, relative / (1 - relative) if relative < 1 else np.inf


def _white(own: Array, rows: Array, blocks: Blocks) -> Array:
    white = np.empty(rows.shape)
    for place in range(blocks.count):
        at = blocks.rows(place)
        white[at] = np.linalg.solve(np.linalg.cholesky(own[at, at]), rows[at])
    return white


def _positive_part(symmetric: Array) -> Array:
    values, vectors = np.linalg.eigh((symmetric + symmetric.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _compressed(rows: Array, nuisance: int) -> Array:
    """rank(A) rows with the same A'A, zero on the nuisance parameters; independent rows stay as they are."""
    singular = np.linalg.svd(rows, compute_uv=False)
    rank = int(np.sum(singular > 1e3 * _EPS * max(rows.shape) * singular[0]))
    if rank < rows.shape[0]:
        # Pivoted so that the choice of rows does not depend on the machine, as singular vectors would.
        upper, pivots = qr(rows, mode="r", pivoting=True)
        rows = np.zeros((rank, rows.shape[1]))
        rows[:, pivots] = upper[:rank]
    return np.concatenate([rows, np.zeros((rows.shape[0], nuisance))], axis=1)
