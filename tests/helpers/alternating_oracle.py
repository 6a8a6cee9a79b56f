"""The paper's Algorithm 3 the printed way: dense formulas of section VI, (P2) in CVXPY with Clarabel.

An oracle for tests and benchmarks. It shares nothing with the package but the definition of the standard form,
where R = I + E, K_i = I and Θ_i = X_i^-1 - I.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import cvxpy as cp
import numpy as np
from scipy.linalg import block_diag, sqrtm

from veilnet._core.types import Array
from veilnet.model.standard_form import StandardForm


class NoSolution(RuntimeError):
    """Clarabel returned nothing."""


class DenseModel(NamedTuple):
    """R, P, Ψ = PH'R^-1 and Φ = R^-1 - R^-1 H P H' R^-1 of the whole network."""

    noise: Array
    covariance: Array
    gain: Array
    residual: Array


class Subproblem(NamedTuple):
    """The constants of (P2): Ω, Γ_u, the Γ_pj, Δ_u, the Δ_pj and T."""

    omega: Array
    gamma_public: Array
    gamma_private: list[Array]
    delta_public: float
    delta_private: Array
    rest: Array


def dense_model(form: StandardForm) -> DenseModel:
    """The matrices of the paper's Table I for a standard form."""
    total = form.blocks.total
    noise = np.eye(total) + (0 if form.coupling is None else form.coupling)
    weighted = np.linalg.solve(noise, form.observe)
    covariance = np.asarray(np.linalg.inv(form.information + form.observe.T @ weighted), float)
    gain = covariance @ weighted.T
    return DenseModel(noise, covariance, gain, np.linalg.inv(noise) - weighted @ gain)


def dense_shrink(form: StandardForm, shrink: Sequence[Array]) -> list[Array]:
    """X_i in sending order from groups of equal size."""
    by_agent: dict[int, Array] = {}
    for group, blocks in zip(form.blocks.groups, shrink, strict=True):
        by_agent.update(zip(group.agents.tolist(), blocks, strict=True))
    return [by_agent[i] for i in range(form.blocks.count)]


def perturbed_covariance(form: StandardForm, by_agent: Sequence[Array]) -> Array:
    """P̃ = P + Ψ (Θ^-1 + Φ)^-1 Ψ', with (Θ^-1 + Φ)^-1 = N(X + ΦN)^-1, N = I - X, where Θ^-1 does not exist."""
    model = dense_model(form)
    return model.covariance + model.gain @ _rest(by_agent, model.residual) @ model.gain.T


def loss_and_privacy(form: StandardForm, by_agent: Sequence[Array]) -> tuple[float, Array]:
    """Utility loss and privacies by the definition of u and p_j."""
    raw, now = dense_model(form).covariance, perturbed_covariance(form, by_agent)
    ratios = [np.trace(a @ now @ a.T) / np.trace(a @ raw @ a.T) - 1 for a in (form.public, *form.private)]
    return float(ratios[0]), np.array(ratios[1:])


def _rest(by_agent: Sequence[Array], residual: Array) -> Array:
    if not by_agent:
        return np.zeros((0, 0))
    shrink = block_diag(*by_agent)
    noisy = np.eye(shrink.shape[0]) - shrink
    rest = np.asarray(np.linalg.solve((shrink + residual @ noisy).T, noisy.T).T, float)
    return np.asarray(0.5 * (rest + rest.T))


def printed_subproblem(form: StandardForm, by_agent: Sequence[Array], agent: int) -> Subproblem:
    r"""Ω, Γ, Δ and T exactly as section VI prints them (T written so that Θ_\i may be 0 or infinite)."""
    model = dense_model(form)
    own = np.arange(form.blocks.total)[form.blocks.rows(agent)]
    others = np.setdiff1d(np.arange(form.blocks.total), own)
    residual = model.residual
    rest = _rest([x for i, x in enumerate(by_agent) if i != agent], residual[np.ix_(others, others)])
    across = residual[np.ix_(own, others)]
    mine, theirs = model.gain[:, own], model.gain[:, others]

    def gamma(a: Array) -> Array:
        gram = a.T @ a
        return (
            mine.T @ gram @ mine
            - mine.T @ gram @ theirs @ rest @ across.T
            - across @ rest @ theirs.T @ gram @ mine
            + across @ rest @ theirs.T @ gram @ theirs @ rest @ across.T
        )

    def delta(a: Array) -> float:
        raw = np.trace(a @ model.covariance @ a.T)
        return float(np.trace(a @ theirs @ rest @ theirs.T @ a.T) / raw)

    return Subproblem(
        omega=residual[np.ix_(own, own)] - across @ rest @ across.T,
        gamma_public=gamma(form.public),
        gamma_private=[gamma(g) for g in form.private],
        delta_public=delta(form.public),
        delta_private=np.array([delta(g) for g in form.private]),
        rest=rest,
    )


def solve_with_cvxpy(cost: Array, gains: Sequence[Array], thresholds: Array) -> tuple[Array, float]:
    """min tr(A X) s.t. tr(B_j X) >= ε'_j, 0 ⪯ X ⪯ I by Clarabel: the X found and the optimal value."""
    size = cost.shape[0]
    if any(e > (1 - 1e-7) * np.trace(gain) for gain, e in zip(gains, thresholds, strict=True)):
        raise NoSolution("no interior: a threshold that only silence meets makes Clarabel abort")
    x = cp.Variable((size, size), symmetric=True)
    constraints = [x >> 0, np.eye(size) - x >> 0]
    constraints += [
        cp.trace((gain / np.trace(gain)) @ x) >= threshold / np.trace(gain)
        for gain, threshold in zip(gains, thresholds, strict=True)
        if threshold > 0
    ]
    scale = float(np.trace(cost))
    problem = cp.Problem(cp.Minimize(cp.trace((cost / scale) @ x)), constraints)
    problem.solve(solver=cp.CLARABEL)
    if x.value is None:
        raise NoSolution(f"Clarabel found no solution: {problem.status}")
    return x.value, scale * float(problem.value)


def change_of_variable(problem: Subproblem) -> tuple[Array, Array, list[Array]]:
    """C = Ω^-½ and A = CΓ_uC, B_j = CΓ_pjC, so that Z = C X C."""
    root = np.linalg.inv(np.real(sqrtm(problem.omega)))
    root = 0.5 * (root + root.T)
    return root, root @ problem.gamma_public @ root, [root @ gamma @ root for gamma in problem.gamma_private]


def printed_thresholds(form: StandardForm, problem: Subproblem, targets: Array) -> Array:
    """ε'_j = (ε_j - Δ_pj) tr(G_j P G_j')."""
    raw = dense_model(form).covariance
    return np.array(
        [
            (target - delta) * np.trace(g @ raw @ g.T)
            for target, delta, g in zip(targets, problem.delta_private, form.private, strict=True)
        ]
    )


def turn_with_cvxpy(
    form: StandardForm,
    by_agent: Sequence[Array],
    agent: int,
    targets: Array,
    solve: Callable[[Array, Sequence[Array], Array], tuple[Array, float]] = solve_with_cvxpy,
) -> Array:
    """One agent's new X_i: (P2) solved, then Θ̄ = Z^-1 - Ω and X_i = Θ̄(I + Θ̄)^-1.

    Written with I - X so that X = I (silence) loses no digits: X_i = Ω^½(I - X)(Ω(I - X) + X)^-1 Ω^½.
    """
    problem = printed_subproblem(form, by_agent, agent)
    root, cost, gains = change_of_variable(problem)
    try:
        solution, _ = solve(cost, gains, printed_thresholds(form, problem, targets))
    except NoSolution:
        # The target is met with nothing to spare, which leaves this agent nothing to choose.
        return by_agent[agent]
    half = np.linalg.inv(root)
    sent = np.eye(root.shape[0]) - solution
    new = half @ sent @ np.linalg.solve(problem.omega @ sent + solution, half)
    values, vectors = np.linalg.eigh(0.5 * (new + new.T))
    return np.asarray((vectors * np.clip(values, 0, 1)) @ vectors.T)


def sweep_with_cvxpy(form: StandardForm, by_agent: Sequence[Array], targets: Array) -> list[Array]:
    """Every agent's turn in order, by CVXPY."""
    current = list(by_agent)
    for agent in range(form.blocks.count):
        current[agent] = turn_with_cvxpy(form, current, agent, targets)
    return current
