"""Rapidities from a design, and better ones by ascent (:mod:`veilnet.plans.lower_bound.rapidity`).

**Closed form.** At a point where the first-order conditions of the trade-off hold with multipliers ν_j, X_i is
the projector on the positive part of H_i(W W' - V V')H_i', W = J^-1 U', V_j = ν_j^½ J^-1 G_j'. The rapidity that
makes H_i P and H_i Q orthogonal has |H_i P|² equal to the trace of that positive part: nothing is given away
there, A v = 0 at v = vec V, and if A is positive elsewhere the bound is the loss itself.

**Ascent.** Where A is not positive elsewhere, more numbers s_b ("policies") help: without a prior A is the difference
of a matrix of rank k and a positive one, so as many as v has entries are needed. At a fixed β the least eigenvalue of
A is raised, softened, until it is positive; then t and β are raised together (:mod:`.pieces`). All t are matrices of
any size, so nothing is constrained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize as scipy_minimize

from veilnet._core.types import Array
from veilnet.designs.joint.lbfgs import Curvature, minimize
from veilnet.designs.lower_bound.settings import SETTINGS
from veilnet.plans.lower_bound.lifted_form import LiftedForm, lifted_sum
from veilnet.plans.lower_bound.rapidity import (
    in_proportion,
    private_vectors,
    public_columns,
)

_TINY = float(np.finfo(float).tiny)
_STEP = 1e-7  # of a difference quotient of what is nearly linear


class FirstOrder:
    """The multipliers ν_j of a design and the directions that follow from them.

    asked:    the parameters that bind, ν_j > 0: the others would only weaken the proof.
    proportions: θ_j.
    weights:  their ν_j.
    """

    def __init__(self, form: LiftedForm, asked: Sequence[int], shrink: Sequence[Array]) -> None:
        revealed = np.zeros(form.information.shape)
        for places, observe in form.stacks:
            stack = np.stack([shrink[place] for place in places.tolist()])
            flat = observe.reshape(-1, form.size)
            revealed += flat.T @ (stack @ observe).reshape(-1, form.size)
        information = form.information + (revealed + revealed.T) / 2
        public = np.asarray(np.linalg.solve(information, form.public.T))
        private = [np.asarray(np.linalg.solve(information, form.private[j].T)) for j in asked]
        weights = _multipliers(form, revealed, public, private)
        keep = [place for place, weight in enumerate(weights) if weight > SETTINGS.binding * weights.max()]
        self.asked = tuple(asked[place] for place in keep)
        self.weights = weights[keep]
        scaled = [np.sqrt(weights[place]) * private[place] for place in keep]
        self.proportions = np.array(
            [np.sum(form.private[asked[place]].T * v) for place, v in zip(keep, scaled, strict=True)]
        )
        self._form, self._public = form, public
        self._private = np.asarray(np.concatenate(scaled, axis=1))

    def rapidity(self, seen: float) -> Array:
        """t_i in closed form, (agents, m, r).

        ``seen`` keeps the Gram matrices of what agents see so far from singular, relative: an agent with few readings
        sees only a part, and its rapidity would be infinite. The ascent is led astray by very large ones.
        """
        return _aligning(self._form, self._public, self._private, seen)


def _multipliers(form: LiftedForm, revealed: Array, public: Array, private: list[Array]) -> Array:
    """ν >= 0 that leave least of Σ_i tr(D_i)_+ - <X_i, D_i>, D_i = H_i(W W' - Σ ν_j V_j V_j')H_i'.

    That is convex in ν, and 0 where the first-order conditions hold.
    """
    rows = [public.shape[1], *(each.shape[1] for each in private)]
    both = np.concatenate([public, *private], axis=1)
    owner = np.repeat(np.arange(len(rows)), rows)
    values, vectors = np.linalg.eigh(form.grams(both))
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]  # Gram matrix K = root root'
    by_row = np.diag(both.T @ revealed @ both)
    first = [np.sum(public**2) / max(float(np.sum(each**2)), _TINY) for each in private]

    def left(logarithms: Array) -> tuple[float, Array]:
        weights = np.exp(np.clip(logarithms, -300.0, 300.0))
        signs = np.concatenate([[1.0], -weights])[owner]
        values, vectors = np.linalg.eigh(root.transpose(0, 2, 1) @ (signs[:, None] * root))
        positive = root @ (vectors * (values > 0)[:, None, :])
        most = np.einsum("ikp,ikp->k", positive, positive)
        by_owner = np.bincount(owner, most - by_row, minlength=len(rows))
        total = float(by_owner[0] - weights @ by_owner[1:])
        return total, np.asarray(-weights * by_owner[1:])

    tries = [
        scipy_minimize(left, np.log(np.maximum(first, _TINY)) + shift, jac=True, method="L-BFGS-B")
        for shift in (0.0, -4.0, 4.0)
    ]
    return np.asarray(np.exp(np.clip(min(tries, key=lambda each: each.fun).x, -300.0, 300.0)))


def _aligning(form: LiftedForm, public: Array, private: Array, seen: float) -> Array:
    """t_i with H_i P and H_i Q orthogonal: the pencil of the Gram matrix and diag(I, -I), diagonalised together."""
    m, r = public.shape[1], private.shape[1]
    both = np.concatenate([public, private], axis=1)
    grams = form.grams(both)
    sizes = np.trace(grams, axis1=1, axis2=2)
    seeing = sizes > _TINY
    found = np.zeros((len(grams), m, r))
    if not np.any(seeing):
        return found
    values, vectors = np.linalg.eigh(grams[seeing] / sizes[seeing, None, None] + seen * np.eye(m + r))
    root = (vectors * np.sqrt(values)[:, None, :]) @ vectors.transpose(0, 2, 1)
    signs = np.repeat([1.0, -1.0], [m, r])
    # S v = μ K v has the solutions v = S K^½ y, y eigenvectors of K^½ S K^½: nothing is divided by.
    turned = np.linalg.eigh((root * signs) @ root)[1]
    ahead = signs[:, None] * (root @ turned[:, :, r:])  # the m columns with positive signs
    # tanh of the rapidity, (m, r)
    tangent = -np.linalg.solve(ahead[:, :m].transpose(0, 2, 1), ahead[:, m:].transpose(0, 2, 1))
    left, values, right = np.linalg.svd(tangent, full_matrices=False)
    values = np.minimum(values, 1 - 1e-12)
    found[seeing] = (left * (values / np.sqrt((1 - values) * (1 + values)))[:, None, :]) @ right
    return found


class FormAtT(NamedTuple):
    """What t alone decides of A = fixed + heard'((1 + β) - seen)^-1 heard - Σ_j g_j g_j'/c_j.

    best:   M^-1 [B, U].
    vectors, roots, grown: of t't: its eigenvectors, (1 + its eigenvalues)^½ and (1 + t't)^½.
    """

    fixed: Array
    seen: Array
    heard: Array
    best: Array
    vectors: Array
    roots: Array
    grown: Array


class RapidityAscent:
    """A as a function of t, with its derivative; k policies."""

    def __init__(self, form: LiftedForm, asked: tuple[int, ...], proportions: Array, policies: int) -> None:
        self._informations, self._policies = form.informations, policies
        private = private_vectors([form.private[j] for j in asked])
        self._rows = private.shape[1] // form.size
        self._basis = self.basis = in_proportion(private, proportions)
        self._private = private @ self._basis
        self.height = self._private[0] / proportions[0]
        self._known = self._basis.T @ np.kron(form.information, np.eye(self._rows)) @ self._basis
        self._queues = len(form.public) * policies
        self._main = np.kron(form.information + form.informations.sum(axis=0), np.eye(self._queues))
        self._columns = public_columns(form.public, policies)
        self.size, self.proportions = len(self._known), proportions

    def shape(self) -> tuple[int, int, int]:
        """Of t."""
        return len(self._informations), self._queues, self._rows

    def parts(self, t: Array) -> FormAtT:
        """All of A that does not depend on β and c."""
        values, vectors = np.linalg.eigh(t.transpose(0, 2, 1) @ t)
        roots = np.sqrt(1 + np.maximum(values, 0.0))
        grown = (vectors * roots[:, None, :]) @ vectors.transpose(0, 2, 1)
        main = self._main + lifted_sum(self._informations, t @ t.transpose(0, 2, 1))
        cross = lifted_sum(self._informations, t @ grown) @ self._basis
        taken = self._basis.T @ lifted_sum(self._informations, t.transpose(0, 2, 1) @ t) @ self._basis
        best = np.linalg.solve(main, np.concatenate([cross, self._columns], axis=1))
        n = self.size
        fixed = self._known - taken + cross.T @ best[:, :n]
        seen, heard = self._columns.T @ best[:, n:], self._columns.T @ best[:, :n]
        return FormAtT(*map(np.asarray, (fixed, seen, heard, best, vectors, roots, grown)))

    def at(self, parts: FormAtT, loss: float, kept: Array) -> tuple[Array, Array]:
        """(A, E) for β and c."""
        answer = np.linalg.solve((1 + loss) * np.eye(len(parts.seen)) - parts.seen, parts.heard)
        matrix = parts.fixed + parts.heard.T @ answer - (self._private.T / kept) @ self._private
        return np.asarray((matrix + matrix.T) / 2), np.asarray(answer)

    def known(self, kept: Array) -> Array:
        """J0 - Σ_j g_j g_j'/c_j: negative at v of which nothing but the prior has to be heard."""
        return np.asarray(self._known - (self._private.T / kept) @ self._private)

    def leaves_room(self, parts: FormAtT, loss: float) -> bool:
        """Whether 1 + β exceeds what the best s would win."""
        seen = parts.seen
        return bool(np.linalg.eigvalsh((seen + seen.T) / 2)[-1] < 1 + loss)

    def lowered(
        self, weight: Array, answer: Array, aim: Callable[[float], tuple[float, Array]], at: float
    ) -> float:
        """Minus the derivative of <weight, A> in the logarithm of the fraction aimed at."""
        (loss, kept), (more, less) = aim(at), aim(at * (1 + _STEP))
        lost = (more - loss) / _STEP * float(np.sum((answer @ weight) * answer))
        heard = np.einsum("ji,ik,jk->j", self._private, weight, self._private)
        return lost + float(heard @ (1 / less - 1 / kept)) / _STEP

    def pulled(self, weight: Array, t: Array, parts: FormAtT, answer: Array) -> Array:
        """The derivative of <weight, A> in t: that of the form with F and E held, since they are the best."""
        best, vectors, roots = parts.best, parts.vectors, parts.roots
        moved = best[:, : self.size] + best[:, self.size :] @ answer
        wide = self._basis @ weight
        of_t = self._lowered(wide @ self._basis.T, self._rows, self._rows)
        of_main = self._lowered(moved @ weight @ moved.T, self._queues, self._queues)
        of_cross = self._lowered(moved @ wide.T, self._queues, self._rows)
        inner = t.transpose(0, 2, 1) @ of_cross
        turned = vectors.transpose(0, 2, 1) @ (inner + inner.transpose(0, 2, 1)) @ vectors
        of_root = vectors @ (turned / (roots[:, :, None] + roots[:, None, :])) @ vectors.transpose(0, 2, 1)
        return np.asarray(2 * (of_cross @ parts.grown + t @ (of_root - of_t) - of_main @ t))

    def _lowered(self, large: Array, a: int, b: int) -> Array:
        """<N_i, ·> on x's coordinates: the adjoint of :func:`lifted_sum`."""
        count, length = self._informations.shape[:2]
        four = large.reshape(length, a, length, b).transpose(0, 2, 1, 3).reshape(length * length, a * b)
        return np.asarray((self._informations.reshape(count, -1) @ four).reshape(count, a, b))


def begin(ascent: RapidityAscent, closed: Array, policies: int, seed: int = 0) -> Array:
    """The closed form as the first policy, and a little of everything for the others: zero is a saddle."""
    count, m, r = closed.shape
    rng = np.random.default_rng(seed)
    t = SETTINGS.other_policies * np.abs(closed).max() * rng.standard_normal((count, m, policies, r))
    t[:, :, 0] = closed
    return np.asarray(t.reshape(ascent.shape()))


def raised(
    ascent: RapidityAscent, t: Array, loss: float, kept: Array, enough: Callable[[], bool]
) -> tuple[Array, bool]:
    """t with A ≻ 0 at β = loss, by raising a softened least eigenvalue; whether that was reached."""
    shape, lowest = t.shape, np.inf

    def value(flat: Array) -> tuple[float, Array]:
        moved = flat.reshape(shape)
        parts = ascent.parts(moved)
        matrix, answer = ascent.at(parts, loss, kept)
        if not np.all(np.isfinite(matrix)):
            return np.inf, flat
        values, vectors = np.linalg.eigh(matrix)
        weights = np.exp(-(values - values[0]) / soft)
        weight = (vectors * (weights / weights.sum())) @ vectors.T
        softened = values[0] - soft * np.log(weights.sum())
        return -softened / soft, -ascent.pulled(weight, moved, parts, answer).reshape(-1) / soft

    def least(flat: Array) -> float:
        return float(np.linalg.eigvalsh(ascent.at(ascent.parts(flat.reshape(shape)), loss, kept)[0])[0])

    flat = t.reshape(-1)
    lowest = least(flat)
    soft = abs(lowest)
    for _ in range(SETTINGS.softenings):
        if lowest > 0 or enough():
            break
        flat, _, _ = minimize(value, flat, Curvature(flat.size, SETTINGS.memory), SETTINGS.raise_steps, 1e-5)
        lowest = least(flat)
        soft /= 3
    return flat.reshape(shape), lowest > 0
