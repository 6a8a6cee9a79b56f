"""One group of all with a full prior: every trade-off exactly, by a semidefinite program with J dual variables.

**Theorem** (docs/explanation/sums.md). Let x have a full prior, P0 its covariance and P that of its error given all
readings; Σ = P0 - P is the covariance of the best estimate x̂. Whatever z the centre sees, of any mechanism at all,
its mean error covariance is P̃ = P + E Cov(x̂|z) with 0 ⪯ E Cov(x̂|z) ⪯ Σ. Each such P̃ is left by sums of what
members add: with P̃ = P0 - Σ^½ M Σ^½, 0 ⪯ M ⪯ I and M = Σ_k m_k v_k v_k', the numbers v_k'Σ^(-½) x̂, each with noise
of variance 1/m_k - 1, leave it; they are sums, since x̂ = const + Σ_i Ψ_i y_i.

So the least loss that reaches p_j >= ε_j is a linear program over M. In standard form, where P = I and
tr UU' = tr G_j G_j' = 1,

    loss = tr A - <A, M>,   p_j = tr B_j - <B_j, M>,     A = Σ^½ U'U Σ^½,  B_j = Σ^½ G_j'G_j Σ^½,
    least loss = max over λ >= 0 of   tr A - Σ_j λ_j (tr B_j - ε_j) - tr (A - Σ_j λ_j B_j)_+ ,

and every λ gives a bound that no mechanism, linear or not, undercuts (:meth:`SumProgram.least_loss_above`). The
maximum is found by an interior point method, and by Newton's method on the dual from nearby. All matrices are as
small as the rows of U and G_j are many.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array
from veilnet.model.network import Network
from veilnet.model.standard_form import StandardForm, standard_form

_EPS = float(np.finfo(float).eps)
_NO_ROW = 1e-13  # of the largest: a direction of x in which neither U nor any G_j has a part
_KNOWN_BEFORE = 1e-10  # of the raw information: in every direction so much is known beforehand
_SMOOTHEST, _SHARPEST, _SHARPER = 1.0, 1e-12, 0.2
_NEWTON_STEPS = 100
_WORTH_TRYING = 1e-2  # how sharp it has to be for Newton's method on the program itself
_CENTRED = 1e-3  # of Newton's decrement
_CLEAR = 1e-9  # an eigenvalue of M so near 0 or 1 is it
_ACTIVE = 1e-3  # a multiplier below this part of the largest is tried as zero
_EXACT = 1e-5  # a gap below it is none: what the margin of 1e-8, by which targets are aimed at, costs in loss


@dataclass(frozen=True, eq=False)
class Answer:
    """The best M and the multipliers that prove it.

    known:       M, in the coordinates of the program, (d, d).
    multipliers: λ_j, (J,).
    steps:       of Newton's method.
    """

    known: Array
    multipliers: Array
    steps: int


class SumProgram:
    """The program of a network in standard form with one agent, a group of all, and a full prior.

    gain:  A, leaks: B_j, in an orthonormal basis of what U and the G_j see of Σ^½, (d, d) each.
    """

    def __init__(self, form: StandardForm) -> None:
        left, vectors = np.linalg.eigh(form.information)
        self._spread = np.sqrt(np.maximum(1.0 / left - 1.0, 0.0))
        self._vectors = vectors
        rows = [each @ vectors * self._spread for each in (form.public, *form.private)]
        stacked = np.concatenate([each / max(np.linalg.norm(each), 1e-300) for each in rows])
        _, sizes, basis = np.linalg.svd(stacked, full_matrices=False)
        self._basis = basis[sizes > _NO_ROW * sizes[0]]
        inside = [each @ self._basis.T for each in rows]
        self.gain: Array = inside[0].T @ inside[0]
        self.leaks: Array = np.stack([each.T @ each for each in inside[1:]])
        self._observe = form.observe
        self.limits: Array = np.trace(self.leaks, axis1=1, axis2=2)

    def least_loss(self, targets: Array) -> Answer:
        """The M of least loss with p_j >= targets_j, (J,), each below its limit."""
        room = self.limits - targets
        scale = float(np.trace(self.gain))
        asks = np.flatnonzero((targets > 0) & (self.limits > 0))
        gain, leaks = self.gain / scale, self.leaks[asks] / room[asks, None, None]
        found, known, steps = most_within(gain, leaks)
        multipliers = np.zeros(len(targets))
        multipliers[asks] = found * scale / room[asks]
        return Answer(known, multipliers, steps)

    def least_loss_above(self, multipliers: Array, targets: Array) -> float:
        """No mechanism with p_j >= targets_j loses less than this, whatever the multipliers."""
        return float(np.trace(self.gain) - self._dual(multipliers) + multipliers @ targets)

    def privacy_below(self, multipliers: Array, loss: float) -> float:
        """No mechanism within this loss has Σ_j λ_j p_j above this."""
        return float(loss - np.trace(self.gain) + self._dual(multipliers))

    def _dual(self, multipliers: Array) -> float:
        rest = self.gain - np.tensordot(multipliers, self.leaks, 1)
        above = float(np.sum(np.maximum(np.linalg.eigvalsh(rest), 0.0)))
        return above + float(multipliers @ self.limits)

    def shrink(self, known: Array) -> Array:
        """X of the one agent, (1, N, N), that leaves P̃ = P0 - Σ^½ M Σ^½ (:mod:`veilnet.designs.shrink`)."""
        parts, vectors = np.linalg.eigh((known + known.T) / 2)
        parts = np.where(parts > 1 - _CLEAR, 1.0, parts)
        sent = parts > _CLEAR
        seen = self._spread > 0
        rows = (vectors[:, sent].T @ self._basis)[:, seen] / self._spread[seen]
        rows = rows @ self._vectors[:, seen].T @ self._observe.T
        noise = np.diag(1.0 / parts[sent] - 1.0)
        # white readings and added noise side by side: what of the former the numbers determine
        factor = np.concatenate([rows, np.sqrt(noise)], axis=1)
        basis = np.linalg.qr(factor.T)[0][: rows.shape[1]]
        return np.asarray(basis @ basis.T)[None]


def most_within(gain: Array, leaks: Array) -> tuple[Array, Array, int]:
    """(λ, M, steps) of the program max <A, M> with <B_j, M> <= 1 and 0 ⪯ M ⪯ I, tr A = 1.

    M maximises <A, M>/τ + log det M + log det(I - M) + Σ log s_j with s_j = 1 - <B_j, M>, τ towards 0; λ_j = τ/s_j.
    On the way Newton's method on the dual itself is tried: it ends where M is a projector, numbers without noise.
    Where some number needs noise, M is that of the smallest τ, within (2 d + J) τ of the best, and λ the one that
    proves most: a slack s_j that is all rounding proves little.
    """
    size = len(gain)
    traces = np.trace(leaks, axis1=1, axis2=2)
    known = np.eye(size) * min(0.5, 0.5 / max(float(np.max(traces, initial=0.0)), 1.0))
    sharpness, steps, best = _SMOOTHEST, 0, np.zeros(len(leaks))
    while True:
        sharpness *= _SHARPER
        known, taken = _centred(gain, leaks, known, sharpness)
        steps += taken
        found = sharpness / _slack(leaks, known)
        best = min(best, found, key=lambda tried: _dual_value(gain, leaks, tried))
        sharp = _polished(gain, leaks, found) if sharpness < _WORTH_TRYING else None
        if sharp is not None:
            return *sharp, steps
        if sharpness < _SHARPEST:
            return best, known, steps


def _dual_value(gain: Array, leaks: Array, found: Array) -> float:
    """Σ λ + tr(A - Σ λ_j B_j)_+, which no <A, M> exceeds."""
    values = np.linalg.eigvalsh(gain - np.tensordot(found, leaks, 1))
    return float(np.sum(found) + np.sum(np.maximum(values, 0.0)))


def _slack(leaks: Array, known: Array) -> Array:
    return np.asarray(1.0 - np.einsum("jab,ab->j", leaks, known))


def _centred(gain: Array, leaks: Array, known: Array, sharpness: float) -> tuple[Array, int]:
    """(M, steps): the centre for one τ. The barrier is self-concordant, so that damped steps stay inside and end.

    In the eigenbasis of M the barrier's Hessian is diagonal, 1/(m_a m_b) + 1/((1 - m_a)(1 - m_b)), but for J terms of
    rank one: no digits are lost, however near M is to a projector.
    """
    for taken in range(_NEWTON_STEPS):
        parts, basis = np.linalg.eigh(known)
        rest = np.linalg.eigvalsh(np.eye(len(known)) - known)[::-1]
        slack = _slack(leaks, known)
        inside = basis.T @ leaks @ basis / slack[:, None, None]
        slope = basis.T @ gain @ basis / sharpness + np.diag(1 / parts - 1 / rest) - np.sum(inside, axis=0)
        soft = 1.0 / (1 / np.outer(parts, parts) + 1 / np.outer(rest, rest))
        scaled = soft * inside
        inner = np.eye(len(leaks)) + np.einsum("jab,kab->jk", inside, scaled)
        along = np.einsum("jab,ab->j", scaled, slope)
        step = soft * slope - np.tensordot(np.linalg.solve(inner, along), scaled, 1)
        decrement = float(np.sqrt(max(np.sum(slope * step), 0.0)))
        size = 1.0 if decrement < 0.25 else 1.0 / (1.0 + decrement)
        moved = known + size * (basis @ step @ basis.T)
        moved = (moved + moved.T) / 2
        ends = np.linalg.eigvalsh(moved), np.linalg.eigvalsh(np.eye(len(moved)) - moved)
        if min(ends[0][0], ends[1][0], *_slack(leaks, moved)) <= 4 * _EPS:  # as near as rounding lets it come
            return known, taken
        known = moved
        if decrement < _CENTRED:
            return known, taken + 1
    return known, _NEWTON_STEPS


def _polished(gain: Array, leaks: Array, found: Array) -> tuple[Array, Array] | None:
    """(λ, M) by Newton's method on the program itself, from nearby; None where that does not end."""
    active = found > _ACTIVE * np.max(found, initial=0.0)
    found = np.where(active, found, 0.0)
    if not len(found):
        return None
    chosen = leaks[active]
    for _ in range(_NEWTON_STEPS):
        values, vectors = np.linalg.eigh(gain - np.tensordot(found, leaks, 1))
        up, down = vectors[:, values > 0], vectors[:, values <= 0]
        left = 1.0 - np.einsum("jab,ai,bi->j", leaks, up, up)
        wrong = float(np.max(np.abs(left[active]), initial=0.0))
        if wrong <= 64 * _EPS * len(values):
            return (found, np.asarray(up @ up.T)) if np.all(left >= -1e-9) and np.all(found >= 0) else None
        across = up.T @ chosen @ down
        rates = 2.0 / (values[values > 0][:, None] - values[values <= 0][None, :])
        hessian = np.einsum("jab,ab,kab->jk", across, rates, across)
        step = np.linalg.lstsq(hessian, -left[active], rcond=None)[0]
        if not np.all(np.isfinite(step)) or np.max(np.abs(step)) > 0.5 * np.max(found):
            return None
        found = found.copy()
        found[active] += step
    return None


def has_program(form: StandardForm) -> bool:
    """Whether every trade-off is exact: one agent, perhaps a group of all, with a full prior."""
    if form.blocks.count != 1 or form.withheld is not None:
        return False
    return float(np.linalg.eigvalsh(form.information)[0]) > _KNOWN_BEFORE


def proved_gap(
    network: Network,
    multipliers: Mapping[str, float],
    loss: float,
    privacy: Mapping[str, float],
    targets: Mapping[str, float],
) -> float:
    """How much better any mechanism can be at most, relative; inf where the multipliers prove nothing.

    loss, privacy: of the plan. targets: what it was asked for; empty where it was asked for the most within its loss.
    """
    if network.is_stream or not isinstance(multipliers, Mapping) or set(multipliers) != set(network.private):
        return np.inf
    if not all(isinstance(each, int | float) and 0 <= each < np.inf for each in multipliers.values()):
        return np.inf
    form = standard_form(network)
    if not has_program(form):
        return np.inf
    program = SumProgram(form)
    weights = np.array([multipliers[name] for name in network.private])
    if targets:
        asked = np.array([targets.get(name, 0.0) for name in network.private])
        bound = program.least_loss_above(weights, asked)
        gap = loss / bound - 1.0 if bound > 0 else np.inf
    else:
        reached = float(weights @ np.array([privacy[name] for name in network.private]))
        gap = program.privacy_below(weights, loss) / reached - 1.0 if 0 < reached < np.inf else np.inf
    return 0.0 if gap <= _EXACT else float(gap)
