"""What the theorem reads of a network: units removed, rows compressed, correlated noise made independent.

With independent noise this is the standard form (:mod:`veilnet.model.standard_form`) and nothing else:

    J(X) = J0 + Σ_i H_i'X_i H_i,   0 ⪯ X_i ⪯ I,   loss = tr(U J^-1 U') - 1,   p_j = tr(G_j J^-1 G_j') - 1.

Only U'U and G_j'G_j matter, so dependent rows are compressed to rank(U) and rank(G_j) rows.

**Correlated noise.** Let the noise, each agent's own part white, have covariance R = I + E. Split it as R' = D
+ F F' with D block diagonal over agents and positive definite, F of k columns. Then y = H x + F w + d with w ~
N(0, I) independent of d ~ N(0, D) is the same model. Give the centre the larger unknown (x, w): prior
information J0 ⊕ I, readings D^-½ (H, F), independent noise. A mechanism (C_i, Θ_i) adds the information Σ_i
(·)'X_i(·) with X_i = D_i^½ C_i'(C_i D_i C_i' + Θ_i)^+ C_i D_i^½, which lies between 0 and I whatever the
mechanism; the error of U x and of G_j x is that of (U, 0)(x, w) and (G_j, 0)(x, w). So a bound for the larger
model is one for the network. F is kept narrow (D as large as it may be), since the price of a proof grows
steeply with L + k.

R' differs from R a little, R/(1 + η) ⪯ R' ⪯ (1 + η) R, and so does every mechanism's information. Hence p_j >=
ε_j and loss <= β on the network give 1 + p_j >= (1 + ε_j)/(1 + η) and 1 + loss <= (1 + β)(1 + η) here: that is
how :mod:`.theorem` reads targets and bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import qr

from veilnet._core.blocks import Blocks
from veilnet._core.stacks import parts
from veilnet._core.types import Array, Integers
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
    def stacks(self) -> list[tuple[Integers, Array]]:
        """Agents of one size and what they observe, (places, H (s, n, L)), a few thousand at a time."""
        by_size: dict[int, list[int]] = {}
        for place, observe in enumerate(self.observe):
            by_size.setdefault(len(observe), []).append(place)
        found = []
        for size, places in by_size.items():
            for part in parts(len(places), max(size, self.size), self.size):
                here = places[part]
                found.append((np.array(here, dtype=np.intp), np.stack([self.observe[at] for at in here])))
        return found

    @cached_property
    def informations(self) -> Array:
        """N_i = H_i'H_i, (agents, L, L)."""
        found = np.empty((len(self.observe), self.size, self.size))
        for places, stack in self.stacks:
            found[places] = stack.transpose(0, 2, 1) @ stack
        return found

    def grams(self, columns: Array) -> Array:
        """V'N_i V of every agent, (agents, k, k), for V (L, k)."""
        found = np.empty((len(self.observe), columns.shape[1], columns.shape[1]))
        for places, stack in self.stacks:
            shown = stack @ columns
            found[places] = shown.transpose(0, 2, 1) @ shown
        return found

    def lifted_sum(self, small: Array) -> Array:
        """Σ_i N_i ⊗ S_i for S_i of shape (a, b): (L a, L b), x's coordinate slowest."""
        total = np.zeros((self.size * small.shape[1], self.size * small.shape[2]))
        for places, stack in self.stacks:
            total += lifted_sum(stack.transpose(0, 2, 1) @ stack, small[places])
        return total


def lifted_form(
    network: Network, common: Array | None = None, mixed: Mapping[int, Array] | None = None
) -> LiftedForm:
    """The lifted form of a network with any prior, any noise, any number of public and private rows.

    ``common`` is F of :func:`split_noise`, (N, k), for correlated noise; found anew when it is not given.
    ``mixed`` has position -> B, (any, r): the parameter is then B g.
    """
    form = standard_form(network)
    network = network.common_apart
    observe, information = form.observe, form.information
    nuisance, slack = 0, 0.0
    roots = _own_roots(network)
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
        private=tuple(
            _compressed(_mixed(rows, (mixed or {}).get(place)), nuisance)
            for place, rows in enumerate(form.private)
        ),
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


def lifted_sum(informations: Array, small: Array) -> Array:
    """Σ_i N_i ⊗ S_i for S_i of shape (a, b): (L a, L b), x's coordinate slowest."""
    count, length = informations.shape[:2]
    a, b = small.shape[1:]
    total = informations.reshape(count, -1).T @ small.reshape(count, -1)
    return np.asarray(
        total.reshape(length, length, a, b).transpose(0, 2, 1, 3).reshape(length * a, length * b)
    )


def _own_roots(network: Network) -> tuple[Array, ...]:
    """The lower triangle of each agent's own noise."""
    found: list[Array] = [np.zeros(0)] * network.S
    for group, roots in zip(network.blocks.groups, network.R.own_roots(), strict=True):
        for place, root in zip(group.agents.tolist(), roots, strict=True):
            found[place] = root
    return tuple(found)


def _mixed(rows: Array, mixed: Array | None) -> Array:
    """B G with tr(B G P G'B') = 1."""
    if mixed is None:
        return rows
    combined = mixed @ rows
    return np.asarray(combined / np.linalg.norm(combined))


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
