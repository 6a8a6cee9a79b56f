"""The semidefinite programs of the paper's section V in CVXPY: an independent, slow second opinion.

Mended where the printed program is wrong (erratum 6: the trace and the weights 1/tr(G_j P G_j') are
missing). Two forms: the paper's own, with its equality constraint, and the facially reduced one in which
Θ_i = B_i X_i B_i' keeps utility perfect by construction.
"""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from scipy.linalg import block_diag, null_space, solve_triangular

from helpers.paper_networks import PaperArrays
from veilnet._core.types import Array

SOLVERS = ("CLARABEL", "SCS")


class OracleResult(NamedTuple):
    """objective is Σ_j p_j as the solver reports it; noise holds Θ_i; status and seconds of the solve."""

    objective: float
    noise: list[Array]
    status: str
    seconds: float


class Geometry(NamedTuple):
    """P, Ψ, and per agent an orthonormal basis B_i of Null(UΨ_i)."""

    bound: Array
    psi: Array
    bases: list[Array]


def geometry(arrays: PaperArrays) -> Geometry:
    """Mathematics, section 1, through Cholesky and QR factors."""
    readings, length = arrays.observe.shape
    noise_root = np.linalg.cholesky(arrays.noise)
    stacked = np.vstack([solve_triangular(noise_root, arrays.observe, lower=True), prior_root(arrays)])
    orthogonal, triangle = np.linalg.qr(stacked)
    psi = solve_triangular(
        triangle, solve_triangular(noise_root, orthogonal[:readings], lower=True, trans="T").T
    )
    inverse = solve_triangular(triangle, np.eye(length))
    cuts = np.cumsum(arrays.sizes)[:-1]
    bases = [null_space(arrays.public @ part) for part in np.split(psi, cuts, axis=1)]
    return Geometry(inverse @ inverse.T, psi, bases)


def prior_root(arrays: PaperArrays) -> Array:
    """T with T'T = P0^-1; no rows without a prior."""
    length = arrays.observe.shape[1]
    if arrays.prior_covariance is None:
        return np.zeros((0, length))
    factor = np.linalg.cholesky(arrays.prior_covariance)
    return np.asarray(solve_triangular(factor, np.eye(length), lower=True))


def privacy_sum(arrays: PaperArrays, noise: list[Array]) -> float:
    """Σ_j p_j(I, Θ) straight from the definition of P̃."""
    root = np.linalg.cholesky(arrays.noise + block_diag(*noise))
    stacked = np.vstack([solve_triangular(root, arrays.observe, lower=True), prior_root(arrays)])
    triangle = np.linalg.qr(stacked, mode="r")
    bound = geometry(arrays).bound
    total = 0.0
    for rows in arrays.private:
        after = np.sum(solve_triangular(triangle, rows.T, trans="T") ** 2)
        total += float(after / np.trace(rows @ bound @ rows.T)) - 1
    return total


def solve_paper_form(
    arrays: PaperArrays,
    power: Array,
    solver: str = "CLARABEL",
    *,
    printed_weights: bool = False,
    **options: Any,
) -> OracleResult:
    """The program of section V with tr(UΨΘΨ'U') = 0 as a constraint.

    ``printed_weights`` leaves the weights out, as printed; the objective is then Σ_j tr(G_j Z G_j').
    """
    shape = geometry(arrays)
    blocks = [cp.Variable((size, size), PSD=True) for size in arrays.sizes]
    noise = _block_diagonal(blocks)
    leak = arrays.public @ shape.psi
    constraints = [cp.trace(leak @ noise @ leak.T) == 0]
    return _solve(
        arrays, power, noise, blocks, constraints, solver, printed_weights, options, as_printed=True
    )


def solve_reduced_form(
    arrays: PaperArrays, power: Array, solver: str = "CLARABEL", **options: Any
) -> OracleResult:
    """The same program over Θ_i = B_i X_i B_i', which has an interior.

    Each agent's readings are first turned so that its noise occupies the leading coordinates, and without a
    prior the inequality is taken as R + Θ - H Z H' ⪰ 0, congruent to the printed one: the sparsest form there
    is, so that the comparison flatters the solver rather than us.
    """
    bases = geometry(arrays).bases
    turns = [np.hstack([basis, null_space(basis.T)]) for basis in bases]
    turn = block_diag(*turns)
    turned = arrays._replace(observe=turn.T @ arrays.observe, noise=turn.T @ arrays.noise @ turn)
    blocks: list[Any] = []
    for basis in bases:
        size, free = basis.shape
        if 0 < free < size:
            rest = np.zeros((free, size - free))
            corner = np.zeros((size - free, size - free))
            blocks.append(cp.bmat([[cp.Variable((free, free), PSD=True), rest], [rest.T, corner]]))
        elif free:
            blocks.append(cp.Variable((size, size), PSD=True))
        else:
            blocks.append(cp.Constant(np.zeros((size, size))))
    result = _solve(turned, power, _block_diagonal(blocks), blocks, [], solver, False, options)
    return result._replace(noise=[t @ theta @ t.T for t, theta in zip(turns, result.noise, strict=True)])


def _block_diagonal(blocks: list[Any]) -> Any:
    zeros = [[np.zeros((p.shape[0], q.shape[0])) for q in blocks] for p in blocks]
    return cp.bmat([[p if i == j else zeros[i][j] for j in range(len(blocks))] for i, p in enumerate(blocks)])


def _solve(
    arrays: PaperArrays,
    power: Array,
    noise: Any,
    blocks: list[Any],
    constraints: list[Any],
    solver: str,
    printed_weights: bool,
    options: dict[str, Any],
    *,
    as_printed: bool = False,
) -> OracleResult:
    """Maximise Σ_j (w_j tr(G_j Z G_j') - 1) subject to Z ⪯ P̃(I, Θ) as a linear matrix inequality."""
    observe, length = arrays.observe, arrays.observe.shape[1]
    bound = geometry(arrays).bound
    z = cp.Variable((length, length), symmetric=True)
    if arrays.prior_covariance is None and not as_printed:
        lmi = noise + arrays.noise - observe @ z @ observe.T
    elif arrays.prior_covariance is None:
        inverse = np.linalg.inv(np.hstack([observe, null_space(observe.T)]))
        pad = np.zeros((length, observe.shape[0] - length))
        padded = cp.bmat([[z, pad], [pad.T, np.zeros((pad.shape[1], pad.shape[1]))]])
        lmi = inverse @ (noise + arrays.noise) @ inverse.T - padded
    else:
        prior = arrays.prior_covariance
        spread = arrays.noise + observe @ prior @ observe.T
        lmi = cp.bmat([[prior - z, prior @ observe.T], [observe @ prior, spread + noise]])
    limits = np.broadcast_to(np.asarray(power, dtype=np.float64), (len(arrays.sizes),))
    constraints = [*constraints, (lmi + lmi.T) / 2 >> 0]
    constraints += [cp.trace(block) <= limit for block, limit in zip(blocks, limits, strict=True)]
    target: Any = 0.0
    for rows in arrays.private:
        if printed_weights:
            target = target + cp.trace(rows @ z @ rows.T)
        else:
            target = target + cp.trace(rows @ z @ rows.T) / np.trace(rows @ bound @ rows.T) - 1
    problem = cp.Problem(cp.Maximize(target), constraints)
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "solution may be inaccurate": the status says so
            problem.solve(solver=solver, **options)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as failure:  # Clarabel's Rust panics derive from BaseException
        empty = [np.zeros((size, size)) for size in arrays.sizes]
        return OracleResult(
            float("nan"), empty, f"failed: {type(failure).__name__}", time.perf_counter() - start
        )
    seconds = time.perf_counter() - start
    if z.value is None:
        return OracleResult(
            float("nan"), [np.zeros((n, n)) for n in arrays.sizes], str(problem.status), seconds
        )
    found = [(np.asarray(b.value) + np.asarray(b.value).T) / 2 for b in blocks]
    return OracleResult(float(problem.value), found, str(problem.status), seconds)
