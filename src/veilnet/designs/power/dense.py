"""The noise of few agents, or of agents whose noises are correlated, as one convex problem without an SDP solver.

For X block diagonal, X_i ⪰ 0, tr X_i <= 1 (powers are scaled into F and A), and F = C C' (mathematics, section 4),

    f(X) = tr(A' X (I + F X)^-1 A) = max_Y  2<A, Y> - Σ_i tr(Y_i' X_i^-1 Y_i) - |C'Y|²
                                   = min_T  Σ_i <X_i, (A - CT)_i (A - CT)_i'> + |T|².

Maximising over X gives a pair of dual problems without X: with |.|_* the nuclear norm and σ the largest
singular value,

    max_Y  2<A, Y> - Σ_i |Y_i|_*² - |C'Y|²   =   min_T  Σ_i σ((A - CT)_i)² + |T|².

Hence *any* T bounds the optimum from above, and *any* Y gives X_i = (Y_i Y_i')^½ / |Y_i|_*, whose f(X) is at least
its value; at the optimum T = C'Y. Alternating directions (:mod:`veilnet.designs.power.answers`) go on until the
two meet. No bound trusts the solver that produced the point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag, solve_triangular

from veilnet._core.blocks import Blocks
from veilnet._core.linalg import EPS, cholesky
from veilnet._core.progress import Progress, Stopped, Teller
from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.designs.power.answers import CHECK_EVERY, Splitting, largest_squares, noise_root, shrunk
from veilnet.designs.power.ascent import RELATIVE_GAP, PowerResult, relative_gap
from veilnet.verdict.exact_test import Verdict

_PATIENCE = 500  # rounds within which the gap has to shrink by a tenth


@dataclass(frozen=True, eq=False)
class DenseNoise(PowerResult):
    """The best X_i found, one per agent."""

    blocks: list[Array]


def maximize_privacy(
    root: Array,
    gain: Array,
    sizes: Sequence[int],
    power: Array,
    *,
    wanted_gap: float = RELATIVE_GAP,
    max_iterations: int = 5000,
    progress: Progress | None = None,
) -> DenseNoise:
    """The X_i of most f(X) with tr X_i <= power_i, by as many rounds as close the gap, as long as rounding lets them.

    root: C, (b, k);  gain: A, (b, r);  sizes: b_i;  power: δ_i >= 0.
    progress is called with (what is being done, fraction done).
    """
    blocks = Blocks(sizes)
    limits = np.broadcast_to(np.asarray(power, dtype=np.float64), (blocks.count,))
    amplitude = np.sqrt(limits)[blocks.owner][:, None]
    scale = float(np.linalg.norm(amplitude * gain))
    best = [np.zeros((size, size)) for size in blocks.sizes]
    if scale == 0:
        return DenseNoise(0.0, 0.0, 0, interrupted=False, blocks=best)
    root, gain = amplitude * root, _compressed_columns(amplitude * gain / scale)
    vectors, singular, _ = np.linalg.svd(root, full_matrices=True)  # small ones keep their digits
    values = np.zeros(len(root))
    values[: singular.size] = singular**2

    def shrink(stacked: Array, penalty: Array) -> Array:
        found = np.empty_like(stacked)
        for group in blocks.groups:
            group.put(found[0], shrunk(group.take(stacked[0]), np.repeat(penalty, group.count)))
        return found

    def most(residual: Array) -> float:
        return sum(float(np.sum(largest_squares(group.take(residual)))) for group in blocks.groups)

    splitting = Splitting(values[None], vectors[None], gain[None], shrink)
    lower, upper, before, interrupted = 0.0, most(gain), np.inf, False
    tell = Teller(progress)
    try:
        while splitting.iterations < max_iterations and relative_gap(lower, upper) > wanted_gap:
            splitting.step()
            if splitting.iterations % CHECK_EVERY:
                continue
            # T = C'Y is taken in the eigenbasis, where it loses no digits.
            image = values[:, None] * splitting.coefficients[0]
            upper = min(
                upper, float(np.sum(image * splitting.coefficients[0])) + most(gain - vectors @ image)
            )
            roots = [noise_root(splitting.low_rank[:, blocks.rows(k)])[0] for k in range(blocks.count)]
            reached = _reached(root, gain, block_diag(*roots))
            if reached > lower:
                lower, best = reached, [each @ each.T for each in roots]
            gap = relative_gap(lower, upper)
            # How many of the digits asked for are there.
            digits, asked = -np.log(max(gap, wanted_gap, EPS)), -np.log(np.clip(wanted_gap, EPS, 0.5))
            tell(f"closing the gap, {gap:.0e} left", float(np.clip(digits / asked, 0, 1)))
            if splitting.iterations % _PATIENCE == 0:
                if gap > 0.9 * before:
                    break  # rounding leaves no more digits
                before = gap
    except Stopped:
        interrupted = relative_gap(lower, upper) > wanted_gap
    best = [limit * block for limit, block in zip(limits, best, strict=True)]
    upper = max(upper, lower)
    return DenseNoise(lower * scale**2, upper * scale**2, splitting.iterations, interrupted, best)


def _compressed_columns(gain: Array) -> Array:
    """Only A A' matters: as many columns as A has rank."""
    left, singular, _ = np.linalg.svd(gain, full_matrices=False)
    rank = int(np.sum(singular > EPS * singular[0]))
    return np.asarray(left[:, :rank] * singular[:rank])


def _reached(root: Array, gain: Array, spread: Array) -> float:
    """f(X) of X = V V', by orthogonal factorisation: |L^-1 V'A|² with L L' = I + V'F V."""
    triangle = np.linalg.qr(np.vstack([root.T @ spread, np.eye(spread.shape[1])]), mode="r")
    return float(np.sum(solve_triangular(triangle, spread.T @ gain, trans="T") ** 2))


def noise_of_few(
    verdict: Verdict, power: Array, progress: Progress | None
) -> tuple[Mapping[str, Sanitizer], Array, DenseNoise]:
    """As :func:`veilnet.designs.power.plan.noise_of_many`, of all readings as one dense problem."""
    network = verdict.network
    apart = network.common_apart
    by_place = dict(verdict.shares.free())
    free = [by_place[place] for place in range(network.S)]
    root, gain = free_noise_problem(
        apart.H, cholesky(apart.R.matrix()), apart.prior_root, list(apart.private.values()), free
    )
    found = maximize_privacy(root, gain, [columns.shape[1] for columns in free], power, progress=progress)
    sanitizers = {}
    for place, (agent, columns, block) in enumerate(zip(network.agents, free, found.blocks, strict=True)):
        noise = columns @ block @ columns.T
        offset = network.offset[network.blocks.rows(place)]
        sanitizers[agent] = Sanitizer(np.eye(len(columns)), (noise + noise.T) / 2, offset=offset, agent=agent)
    used = np.array([float(np.trace(sanitizer.noise)) for sanitizer in sanitizers.values()])
    return sanitizers, used, found


def free_noise_problem(
    observe: Array, noise_root: Array, prior_root: Array, private: Sequence[Array], bases: Sequence[Array]
) -> tuple[Array, Array]:
    """(C, A) with C C' = B'ΦB and A = B'Ψ'[G_j'/√tr(G_j P G_j')]_j (mathematics, section 4).

    observe: H, (N, L);  noise_root: lower triangular K, R = K K';  prior_root: T, (any, L), J0 = T'T;
    private: the G_j;  bases: B_i, (N_i, b_i), the directions in which agent i may add noise for free.

    An orthogonal factorisation Q of the stacked [K^-1 H; T] gives Φ = K^-T Q_2 Q_2' K^-1 with Q_2 the first
    N rows of the complement: a root without the subtraction R^-1 - R^-1 H P H' R^-1, whose null space
    (no prior) is exact to rounding however large the noise that is later put there.
    """
    readings, length = observe.shape
    stacked = np.vstack([solve_triangular(noise_root, observe, lower=True), prior_root])
    orthogonal, triangle = np.linalg.qr(stacked, mode="complete")
    triangle = triangle[:length]
    basis = solve_triangular(noise_root, block_diag(*bases), lower=True)
    columns = []
    for rows in private:
        half = solve_triangular(triangle, rows.T, trans="T")
        size = np.linalg.norm(half)
        if size > 0:
            columns.append(half / size)
    directions = np.hstack(columns) if columns else np.zeros((length, 0))
    root: Array = basis.T @ orthogonal[:readings, length:]
    gain: Array = basis.T @ (orthogonal[:readings, :length] @ directions)
    return root, gain
