"""The one-agent subproblem (P2) of the paper's Algorithm 3, solved exactly.

With the other agents fixed, the paper's section VI asks for

    min tr(Γ_u Z)   s.t.   tr(Γ_pj Z) >= ε'_j,   0 ⪯ Z ⪯ Ω^-1,

and Z = Ω^-½ X Ω^-½ turns it into

    min tr(A X)     s.t.   tr(B_j X) >= ε'_j,    0 ⪯ X ⪯ I,

whose dual has one variable per private parameter: max over μ >= 0 of μ'ε' - tr((Σ μ_j B_j - A)_+).

The optimum need not be unique: where silence is free (the null space of A) several X do equally well for the
utility. The greatest of them is returned, which hides most and leaves most to the other agents.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dsyevd

from veilnet._core.errors import Infeasible
from veilnet._core.types import Array, Booleans, Integers
from veilnet.sums.program import most_within

# Eigenvalues of A below this share of tr(A) are rounding: silence there costs nothing.
_NULL = 1e-13
# Duality gap, as a share of tr(A), at which the searches stop.
_GAP = 1e-13
_MOST_STEPS = 100
_TINY = 1e-300


def solve_subproblem(utility_cost: Array, privacy_gains: Sequence[Array], thresholds: Array) -> Array:
    """The greatest optimal X of min tr(A X) s.t. tr(B_j X) >= ε'_j, 0 ⪯ X ⪯ I (P2 after its change of variable).

    ``utility_cost`` is A ⪰ 0, ``privacy_gains`` the B_j ⪰ 0, ``thresholds`` the ε'_j. The result meets every
    threshold (to the last bit of tr(B_j)); its distance to the dual optimum is a rounding error of tr(A).
    """
    wanted = np.asarray(thresholds, dtype=np.float64)
    size = utility_cost.shape[0]
    totals = np.array([float(np.trace(gain)) for gain in privacy_gains])
    if np.any(wanted > totals * (1 + 1e-12)):
        worst = int(np.argmax(wanted - totals))
        raise Infeasible(
            f"thresholds: at most tr(B_{worst}) = {totals[worst]:.6g} can be asked of one agent, "
            f"found {wanted[worst]:.6g}; the other agents must reveal less first."
        )
    cost = float(np.trace(utility_cost))
    if cost <= 0:
        return np.eye(size)
    demanding = np.flatnonzero(wanted > 0)
    scaled = [privacy_gains[int(j)] / totals[j] for j in demanding]
    required = np.minimum(wanted[demanding] / totals[demanding], 1.0)
    return _solve_scaled(utility_cost / cost, scaled, required)


def solve_factored(factors: Array, edges: Integers, thresholds: Array, guess: float) -> Optimum | None:
    """The subproblem with A = F_0 F_0', B_j = F_j F_j', F_j the columns edges[j]..edges[j + 1] of ``factors``.

    Returns None when the thresholds cannot be met. ``guess`` is a price to start from.
    """
    size, columns = factors.shape
    if columns < size:
        # Outside the range of the factors nothing is at stake: withhold it, and solve inside.
        basis, triangle = np.linalg.qr(factors, mode="complete")
        inner = solve_factored(triangle[:columns], edges, thresholds, guess)
        if inner is None:
            return None
        vectors = np.concatenate([basis[:, :columns] @ inner.vectors, basis[:, columns:]], axis=1)
        return Optimum(
            vectors, np.concatenate([inner.values, np.ones(size - columns)]), inner.price, inner.gap
        )
    parts = [factors[:, a:b] for a, b in pairwise(edges)]
    cost, *gains = (part @ part.T for part in parts)
    whole = float(cost.trace())
    if len(gains) == 1 and whole > 0:
        total = float(gains[0].trace())
        share = float(thresholds[0]) / total if total > 0 else 0.0
        if share < 1 - 1e-14:
            values, vectors, _ = dsyevd(cost)
            free = int(np.searchsorted(values, _NULL * values[-1], side="right"))
            hidden = parts[1].T @ vectors[:, :free]
            if float(np.vdot(hidden, hidden)) >= share * total:
                return Optimum(vectors, (np.arange(size) < free).astype(np.float64), guess, 0.0)
            return search_price(cost / whole, gains[0] / total, share, guess)
    try:
        shrink = solve_subproblem(cost, gains, thresholds)
    except Infeasible:
        return None
    values, vectors = np.linalg.eigh(shrink)
    return Optimum(vectors, np.clip(values, 0.0, 1.0), guess, 0.0)


def _solve_scaled(cost: Array, gains: list[Array], required: Array) -> Array:
    """The subproblem with every trace 1, so that each gain ``required`` lies in (0, 1]."""
    forced = required >= 1 - 1e-14
    if np.any(forced):
        return _with_forced_silence(cost, gains, required, forced)
    free = _null_projector(cost)
    missing = required - np.array([np.sum(gain * free) for gain in gains])
    if not np.any(missing > 0):
        return free
    # If one constraint alone gives a point that meets the others, that point is optimal; else all at once.
    for _ in range(2 if required.size > 1 else 1):
        first = int(np.argmax(missing))
        one = search_price(cost, gains[first], float(required[first])).matrix()
        missing = required - np.array([np.sum(gain * one) for gain in gains])
        missing[first] = 0.0
        if not np.any(missing > 0):
            return one
    stacked = np.stack(gains)
    sent = most_within(cost, stacked / (1 - required)[:, None, None])[1]
    # Whatever rounding left missing is made up by moving towards silence.
    reached = 1 - np.tensordot(stacked, sent, 2)
    towards = float(np.max((required - reached) / np.maximum(1 - reached, _TINY), initial=0.0))
    return _greatest(np.eye(len(cost)) - (1 - min(towards, 1.0)) * sent, cost)


def _with_forced_silence(cost: Array, gains: list[Array], required: Array, forced: Booleans) -> Array:
    """A share of 1 leaves no choice on the range of that B_j: X is the identity there; solve on the rest."""
    total = np.sum([gain for gain, full in zip(gains, forced, strict=True) if full], axis=0)
    values, vectors = np.linalg.eigh(total)
    rest = vectors[:, values <= _NULL * values[-1]]
    if rest.shape[1] == 0:
        return np.eye(cost.shape[0])
    inner_gains = [rest.T @ gain @ rest for gain, full in zip(gains, forced, strict=True) if not full]
    hidden = np.array([1 - np.trace(gain) for gain in inner_gains])
    inner = solve_subproblem(rest.T @ cost @ rest, inner_gains, required[~forced] - hidden)
    shrink: Array = np.eye(cost.shape[0]) - rest @ (np.eye(rest.shape[1]) - inner) @ rest.T
    return shrink


def _null_projector(cost: Array) -> Array:
    values, vectors = np.linalg.eigh(cost)
    basis = vectors[:, values <= _NULL * values[-1]]
    projector: Array = basis @ basis.T
    return projector


class Optimum(NamedTuple):
    """X = V diag(x) V', with one private parameter its price μ and primal minus dual value."""

    vectors: Array
    values: Array
    price: float
    gap: float

    def matrix(self) -> Array:
        full: Array = (self.vectors * self.values) @ self.vectors.T
        return full


def search_price(cost: Array, gain: Array, share: float, guess: float = 1.0) -> Optimum:
    """Root search on the price μ of one private parameter; traces scaled to 1, 0 < share < 1.

    At a price μ the leading eigenvectors of M = μB - A are filled one after the other until tr(BX) is the
    share, the last by a fraction. That X is feasible, and its gap to the dual value at μ is
    tr(M_+) - tr(MX), so the search may stop at any price where this vanishes. Newton steps aim either at the
    price where tr(B P_+(μ)) passes the share smoothly, or at the one where the fractional eigenvector's
    eigenvalue crosses zero and tr(B P_+(μ)) jumps over it; bisection in log μ is the safeguard.
    """
    low, high = 0.0, np.inf
    price = guess
    best = Optimum(np.eye(cost.shape[0]), np.ones(cost.shape[0]), price, np.inf)
    patience = 0
    for _ in range(_MOST_STEPS):
        ascending, columns, failed = dsyevd(price * gain - cost)
        if failed:
            break
        vectors = columns[:, ::-1]
        values = ascending[::-1]
        rotated = vectors.T @ (gain @ vectors)
        filling = _fill(values.tolist(), rotated.diagonal().tolist(), share)
        patience = 0 if filling.gap < 0.25 * best.gap else patience + 1
        if filling.gap < best.gap:
            best = Optimum(vectors, np.array(filling.levels), price, filling.gap)
        low, high = (price, high) if filling.lacking > 0 else (low, price)
        if filling.gap <= _GAP or (low > 0 and high <= low * (1 + 4e-16)):
            break
        price = _next_price(values, rotated, filling, price, (low, high), patience)
        if not 1e-40 < price < 1e40:
            break
    return best


class _Filling(NamedTuple):
    """Leading eigenvectors filled up to the share: how far, and what that is short of optimal."""

    levels: list[float]
    gap: float
    positive: int
    last: int
    lacking: float


def _fill(values: list[float], gains: list[float], share: float) -> _Filling:
    """Fill eigenvectors, largest eigenvalue first, until their gains make up the share."""
    levels: list[float] = []
    gap, filled, reached = 0.0, 0.0, 0.0
    positive, last = 0, len(values) - 1
    for k, (value, gain) in enumerate(zip(values, gains, strict=True)):
        room = share - filled
        if room <= 0:
            level = 0.0
        else:
            level = 1.0 if gain <= room else room / gain
            last = k
        levels.append(level)
        filled += level * gain
        if level < 1.0:
            # Rounding must not reopen a share that the fraction has just closed.
            filled = max(filled, share)
        if value > 0:
            positive += 1
            reached += max(gain, 0.0)
            gap += value * (1 - level)
        else:
            gap -= value * level
    return _Filling(levels, gap, positive, last, share - reached)


def _next_price(
    values: Array,
    rotated: Array,
    filling: _Filling,
    price: float,
    bracket: tuple[float, float],
    patience: int,
) -> float:
    """The next price to try, strictly inside the bracket."""
    low, high = bracket
    positive, last, lacking = filling.positive, filling.last, filling.lacking
    step = np.inf if lacking > 0 else -np.inf
    cross = rotated[:positive, positive:]
    if cross.size:
        slope = 2 * float((cross**2 / (values[:positive, None] - values[positive:] + _TINY)).sum())
        step = lacking / slope if slope > 0 else step
    jumping = last == positive if lacking > 0 else last == positive - 1
    if jumping and rotated[last, last] > 0:
        crossing = -float(values[last] / rotated[last, last])
        step = crossing if abs(crossing) < abs(step) else step
    trial = price + step
    if patience < 3 and max(low, 1e-3 * price) < trial < min(high, 1e3 * price):
        return trial
    if high == np.inf:
        return 30 * low
    if low == 0.0:
        return high / 30
    return math.sqrt(low) * math.sqrt(high)


def _greatest(shrink: Array, cost: Array) -> Array:
    """The greatest X' ⪰ X in [0, I] that costs what X costs.

    X' - X must live on the null space of A below I - X =: V, and the greatest such matrix is V shorted to that
    space. What is left, I - X', is V^½ Π V^½ with Π the projector on V^½ range(A).
    """
    values, vectors = np.linalg.eigh(cost)
    costly = vectors[:, values > _NULL * values[-1]]
    if costly.shape[1] == cost.shape[0]:
        return shrink
    sent, basis = np.linalg.eigh(np.eye(cost.shape[0]) - shrink)
    root = (basis * np.sqrt(np.maximum(sent, 0.0))) @ basis.T
    orthonormal, _ = np.linalg.qr(root @ costly)
    kept = root @ orthonormal
    greatest: Array = np.eye(cost.shape[0]) - kept @ kept.T
    return greatest
