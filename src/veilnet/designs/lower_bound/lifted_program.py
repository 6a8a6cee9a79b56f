"""The semidefinite relaxation whose dual variables are the theorem's multipliers, kept as small tensors.

For each parameter j asked the unknowns stand for B ~ v_j v_j', T̂ ~ T ⊗ v_j v_j', X̂_i ~ X_i ⊗ v_j v_j'
(:mod:`veilnet.plans.lower_bound.theorem`):

    minimise  max_j  <J0 ⊗ I - g_j g_j'/c_j, B_j> + Σ_i <E_i, X̂_ij>
    subject to  [[T̂_j, U ⊗ B_j], [., J0 ⊗ B_j + Σ_i (H_i ⊗ I)'X̂_ij (H_i ⊗ I)]] ⪰ 0,   0 ⪯ X̂_ij ⪯ I ⊗ B_j,
                tr_1 T̂_j ⪯ (1 + β) B_j,   tr B_j = 1,   tr_2 X̂_ij the same for every j.

Above zero it proves that more than β must be lost. All unknowns are symmetric in both factors, so one number is
kept per symmetric pair of each: an array x_j of shape (slots, pairs), slots = 1 for B, then the pairs of T,
then those of each X_i. Every cone acts on the slots alone, the same way for every pair of v: it is a tensor F
(d, d, slots), and its matrix has the entry Σ_s F[p, q, s] x[s, pair(a, b)] at ((p, a), (q, b)).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from veilnet._core.types import Array
from veilnet.agent.mechanisms import Mechanisms
from veilnet.plans.lower_bound.lifted_form import LiftedForm
from veilnet.plans.lower_bound.theorem import heard_by


@dataclass(frozen=True, eq=False)
class LiftedProgram:
    """The relaxation for one parameter.

    main, own, rest, budget: tensors (d, d, slots) of the four kinds of cone; ``own`` and ``rest`` one per agent.
    defect: (slots, pairs), how far v_j is from hiding g_j as asked: to be minimised.
    trace:  (pairs,), 1 on the diagonal of v.
    slots:  where each agent's X_i is kept.
    n:      length of v.
    """

    main: Array
    own: tuple[Array, ...]
    rest: tuple[Array, ...]
    budget: Array
    defect: Array
    trace: Array
    slots: tuple[slice, ...]
    n: int

    @property
    def cones(self) -> list[Array]:
        """All tensors, in the order main, own, rest, budget."""
        return [self.main, *self.own, *self.rest, self.budget]


def lifted_program(form: LiftedForm, rows: Array, privacy: float, loss: float) -> LiftedProgram:
    """The relaxation for the private parameter with rows G_j, privacy ε_j and loss β."""
    length, m, n = form.size, form.public.shape[0], form.size * rows.shape[0]
    sizes = [len(observe) for observe in form.observe]
    starts = np.cumsum([1 + m * (m + 1) // 2, *(size * (size + 1) // 2 for size in sizes)])
    count = int(starts[-1])
    slots = tuple(slice(int(start), int(end)) for start, end in pairwise(starts))
    of_public = slice(1, 1 + m * (m + 1) // 2)
    main = np.zeros((m + length, m + length, count))
    main[:m, m:, 0], main[m:, :m, 0], main[m:, m:, 0] = form.public, form.public.T, form.information
    main[:m, :m, of_public] = units(m)
    budget = np.zeros((1, 1, count))
    budget[0, 0, 0] = (1.0 + loss) * (1.0 + form.slack)
    budget[0, 0, of_public] = -np.trace(units(m))
    private = rows.T.reshape(-1)
    kept = (1.0 + privacy) / (1.0 + form.slack)
    defect = np.zeros((count, n * (n + 1) // 2))
    defect[0] = paired(np.kron(form.information, np.eye(len(rows))) - np.outer(private, private) / kept)
    own, rest = [], []
    for observe, place in zip(form.observe, slots, strict=True):
        size = len(observe)
        main[m:, m:, place] = np.einsum("pl,pqs,qk->lks", observe, units(size), observe, optimize=True)
        cone = np.zeros((size, size, count))
        cone[:, :, place] = units(size)
        own.append(cone)
        other = -cone
        other[:, :, 0] = np.eye(size)
        rest.append(other)
        defect[place] = _on_agent(heard_by(observe, len(rows)), size, n)
    first, second = np.triu_indices(n)
    trace = (first == second).astype(float)
    return LiftedProgram(main, tuple(own), tuple(rest), budget, defect, trace, slots, n)


def units(size: int) -> Array:
    """(size, size, pairs): the symmetric units S_pq = e_p e_q' + e_q e_p' (S_pp = e_p e_p')."""
    p, q = np.triu_indices(size)
    basis = np.zeros((size, size, p.size))
    basis[p, q, np.arange(p.size)] = basis[q, p, np.arange(p.size)] = 1.0
    return basis


def paired(symmetric: Array) -> Array:
    """<S, S_ab> for each pair: entries off the diagonal count twice."""
    a, b = np.triu_indices(symmetric.shape[0])
    return np.asarray(symmetric[a, b] * np.where(a == b, 1.0, 2.0))


def _on_agent(matrix: Array, size: int, n: int) -> Array:
    """(pairs of X, pairs of v): <matrix, S_pq ⊗ S_ab>."""
    four = matrix.reshape(size, n, size, n).transpose(0, 2, 1, 3)
    p, q = np.triu_indices(size)
    both = np.where((p == q)[:, None, None], four[p, q], four[p, q] + four[q, p])
    return np.stack([paired((each + each.T) / 2) for each in both])


def lifted_design(form: LiftedForm, rows: Array, shrinks: list[Array]) -> Array:
    """x of the relaxation at a design with shrink matrices X_i: B = vv', T̂ = (U J^-1 U') ⊗ vv', X̂_i = X_i ⊗ vv'."""
    information = form.information.copy()
    for observe, shrink in zip(form.observe, shrinks, strict=True):
        information += observe.T @ shrink @ observe
    inverse = np.linalg.pinv((information + information.T) / 2, hermitian=True)
    v = (inverse @ rows.T).reshape(-1)
    v /= np.linalg.norm(v)
    public = form.public @ inverse @ form.public.T
    parts = [np.ones(1), *(each[np.triu_indices(len(each))] for each in (public, *shrinks))]
    a, b = np.triu_indices(v.size)
    return np.asarray(np.concatenate(parts)[:, None] * (v[a] * v[b])[None, :])


def shrink_of(form: LiftedForm, sent: Mechanisms) -> list[Array]:
    """X_i = D_i^½ C_i'(C_i D_i C_i' + Θ_i)^+ C_i D_i^½, D_i the own noise of agent i in this form."""
    found: dict[int, Array] = {}
    for stack in sent.stacks:
        compression = stack.compression @ np.stack([form.roots[place] for place in stack.places])
        turned = np.swapaxes(compression, 1, 2)
        covariance = compression @ turned if stack.noise is None else compression @ turned + stack.noise
        shrink = turned @ np.linalg.pinv(covariance, rcond=1e-13, hermitian=True) @ compression
        found |= dict(zip(stack.places.tolist(), shrink, strict=True))
    return [found[place] for place in range(len(found))]
