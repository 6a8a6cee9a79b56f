"""The bound by rapidities: one small matrix per agent, sums over agents, and no search in its check.

**Setting** (:mod:`.lifted_form`). J = J0 + Σ_i H_i'X_i H_i, 0 ⪯ X_i ⪯ I, N_i = H_i'H_i. Asked: p_j >= ε_j for the
parameters j, G_j of r_j rows, c_j = 1 + ε_j; r = Σ_j r_j. Let V = (V_1, V_2, ...), (L, r), v = vec V, g_j'v =
tr(G_j V_j).

**Theorem.** For each agent let t_i be a matrix (m k, r), a_i symmetric with a_i² = I + t_i t_i'; let F and E be
matrices that make of every V the matrices W = F V, (L, m k), and s = E v, k numbers; let θ_j > 0. Write w_ab for the
column of W that belongs to the public row u_a and the number s_b, and

    v'A v = tr(V'J0 V) - Σ_j (g_j'v)²/c_j - (1 + β)|s|² + 2 Σ_ab s_b u_a'w_ab - tr(W'J0 W)
            - Σ_i |H_i(W a_i - V t_i')|².

If v'A v > 0 for every v ≠ 0 whose g_j'v are in the proportions θ_j, no X has loss <= β and p_j >= ε_j for all j.

*Proof.* Suppose X does. (1) p_j >= ε_j: some V_j has tr(V_j'J V_j) <= (g_j'v)²/c_j and g_j'v = θ_j (J^-1 G_j', or one
column in Null(J) that G_j sees, scaled). (2) loss <= β: [[T, U], [U', J]] ⪰ 0 for some T with tr T <= 1 + β. Its
value at (s_b e_a, -w_ab) is not negative; summed over a and b: (1 + β)|s|² - 2 Σ s_b u_a'w_ab + tr(W'J W) >= 0.
(3) W W' - V V' = P P' - Q Q' with P = W a_i - V t_i', Q = V b_i - W t_i, b_i² = I + t_i't_i, since a_i t_i = t_i b_i:
the columns are rotated by the rapidity t_i. So <X_i, H_i(W W' - V V')H_i'> <= |H_i P|², since 0 ⪯ X_i ⪯ I.
Take (2) from (1) summed over j: 0 >= tr(V'J V) - Σ (g_j'v)²/c_j - [(1 + β)|s|² - 2 Σ s u'w + tr(W'J W)], and by (3)
the right side is at least v'A v > 0: a contradiction. ∎

For given t_i the best F and E are known: with M = J0 ⊗ I + Σ N_i ⊗ a_i² and B = Σ N_i ⊗ a_i t_i the form is
concave in W, W = M^-1(B v + U's), then in s. The check computes them itself, how well is of no account: any do.
What a proof holds is τ_i, tanh of half the rapidity: a = (I + ττ')(I - ττ')^-1 and t = 2 (I - ττ')^-1 τ are then
quotients, with a² = I + tt' to the last digit.

**Pieces.** Step (1) finds one v in proportion with h'v = 1, h = g_1/θ_1. Let a binary tree of cuts l_c part these v:
l_c'v <= 0 below, l_c'v >= 0 above. On a piece h and the l_c of its path, with their signs, are nonnegative, and so
are their products (l'v)(m'v). If for every piece some t_i and λ >= 0 make v'A v - Σ λ_lm (l'v)(m'v) positive for
every v ≠ 0, the theorem holds: the v of step (1) lies in a piece, and v'A v > 0 there. ∎
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from veilnet._core.types import Array
from veilnet.plans.lower_bound.inequality import Inequality
from veilnet.plans.lower_bound.lifted_form import LiftedForm

_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class Rapidities:
    """What proves a bound, in the letters of the theorem.

    half:        τ_i of every piece, (pieces, agents, m k, r), every singular value below 1.
    proportions: θ_j > 0, one for each parameter asked.
    cuts:        l_c, (cuts, L r).
    children:    what lies below and above each cut, (cuts, 2): a later cut, or -1 - p for piece p.
    weights:     (any, 4): piece, two rows (0 for h, c + 1 for cut c of its path) and the λ of their product.
    """

    half: Array
    proportions: Array
    cuts: Array = field(default_factory=lambda: np.zeros((0, 1)))
    children: Array = field(default_factory=lambda: np.zeros((0, 2)))
    weights: Array = field(default_factory=lambda: np.zeros((0, 4)))


def sides_of(given: Rapidities) -> list[dict[int, float]]:
    """Cut -> its sign, for each piece; ValueError where the cuts are no tree with every piece at one end."""
    cuts, pieces = len(given.cuts), len(given.half)
    children = given.children
    fits = children.shape == (cuts, 2) and given.weights.ndim == 2 and given.weights.shape[1] == 4
    whole = (
        np.concatenate([children.reshape(-1), given.weights[:, :3].reshape(-1)]) if fits else np.ones(1) / 2
    )
    if not (pieces == cuts + 1 and np.all(whole == np.round(whole)) and np.all(np.isfinite(given.cuts))):
        raise ValueError("rapidities: the cuts and the pieces do not fit together")
    if not np.all((given.weights[:, 3] >= 0) & (given.weights[:, 3] < np.inf)):
        raise ValueError("rapidities: the multipliers of products should be at least 0")
    found: dict[int, dict[int, float]] = {}
    waiting: list[tuple[int, dict[int, float]]] = [(0 if cuts else -1, {})]
    while waiting:
        at, path = waiting.pop()
        if (
            at >= cuts
            or (at < 0 and (-1 - at in found or -1 - at >= pieces))
            or (path and 0 <= at <= max(path))
        ):
            raise ValueError("rapidities: the cuts are no tree")
        if at < 0:
            found[-1 - at] = path
        else:
            low, high = (int(child) for child in children[at])
            waiting += [(low, {**path, at: -1.0}), (high, {**path, at: 1.0})]
    return [found[place] for place in range(pieces)]


def rotations(half: Array) -> tuple[Array, Array]:
    """(a_i, t_i) of τ_i, stacked."""
    square = half @ half.transpose(0, 2, 1)
    unit = np.eye(half.shape[1])
    left = np.linalg.inv(unit - square)
    return np.asarray((unit + square) @ left), np.asarray(2 * left @ half)


def half_of(rapidity: Array) -> Array:
    """τ_i of t_i: t (1 + (1 + t't)^½)^-1."""
    values, vectors = np.linalg.eigh(rapidity.transpose(0, 2, 1) @ rapidity)
    grown = 1 / (1 + np.sqrt(1 + np.maximum(values, 0.0)))
    return np.asarray(rapidity @ ((vectors * grown[:, None, :]) @ vectors.transpose(0, 2, 1)))


def public_columns(public: Array, count: int) -> Array:
    """(L m k, k): column b has u_a where W has w_ab."""
    rows, length = public.shape
    columns = np.zeros((length, rows, count, count))
    for b in range(count):
        columns[:, :, b, b] = public.T
    return columns.reshape(-1, count)


def private_vectors(rows: Sequence[Array]) -> Array:
    """g_j, from the G_j asked, as vectors on R^L ⊗ R^r, one a row."""
    found = np.zeros((len(rows), rows[0].shape[1], sum(map(len, rows))))
    start = 0
    for place, each in enumerate(rows):
        found[place, :, start : start + len(each)] = each.T
        start += len(each)
    return found.reshape(len(rows), -1)


def in_proportion(private: Array, proportions: Array) -> Array:
    """An orthonormal basis, (n, n - J + 1), of the v whose g_j'v are in these proportions."""
    unit = private / proportions[:, None]
    unequal = np.vstack([unit[1:] - unit[0], np.zeros((1, unit.shape[1]))])
    return np.asarray(np.linalg.svd(unequal)[2][len(private) - 1 :].T)


class RapidityTheorem(Inequality):
    """The theorem with its rapidities put in: what is left is one inequality in β and the c_j.

    ``rounding`` is what one operation may be off by, relative. With less than doubles have it is a guess, for
    :func:`.precise.precise_surplus` to confirm.
    """

    def __init__(
        self, form: LiftedForm, asked: tuple[int, ...], given: Rapidities, rounding: float = _EPS
    ) -> None:
        self.form, self.asked, self.given, self.rounding = form, asked, given, rounding
        private = private_vectors([form.private[j] for j in asked])
        length, rows = form.size, private.shape[1] // form.size
        half, proportions = given.half, given.proportions
        m = len(form.public)
        if half.ndim != 4 or half.shape[1] != len(form.observe) or half.shape[3] != rows or half.shape[2] % m:
            raise ValueError(
                f"rapidities: should have the shape (pieces, {len(form.observe)}, {m} k, {rows})"
            )
        if proportions.shape != (len(asked),) or not np.all((proportions > 0) & np.isfinite(proportions)):
            raise ValueError(f"proportions: should be {len(asked)} positive numbers")
        if not (np.all(np.isfinite(half)) and np.all(np.linalg.norm(half, 2, axis=(2, 3)) < 1)):
            raise ValueError("rapidities: the tanh of half of each should be below 1")
        if len(given.cuts) and given.cuts.shape[1:] != (length * rows,):
            raise ValueError(f"rapidities: each cut should have {length * rows} numbers")
        self.signs, basis = sides_of(given), in_proportion(private, proportions)
        lines = np.concatenate([private[:1] / proportions[0], given.cuts.reshape(-1, length * rows)]) @ basis
        owner = given.weights[:, 0]
        self.pieces = [
            CheckedPiece(
                form, private, basis, each, _products(lines, given.weights[owner == place], self.signs[place])
            )
            for place, each in enumerate(half)
        ]

    def at(self, loss: float, privacy: Mapping[int, float]) -> Array:
        """A on the v in proportion, for β and c_j = 1 + p_j, products taken off; of the piece where it is least."""
        found = [piece.at(*self._of(loss, privacy))[0] for piece in self.pieces]
        return min(found, key=lambda each: float(np.linalg.eigvalsh(each)[0]))

    def _of(self, loss: float, privacy: Mapping[int, float]) -> tuple[float, Array]:
        return 1.0 + loss, np.array([1.0 + privacy[j] for j in self.asked])

    def _surplus(self, grown: float, kept: dict[int, float]) -> float:
        least = np.inf
        for piece in self.pieces:
            asked = np.array([kept[j] for j in self.asked])
            least = min(least, piece.surplus(grown, asked, self.rounding))
            if not least > 0:
                break  # one piece that is not proved is enough
        return least

    def hidden(self, loss: float, privacy: Mapping[int, float], count: int) -> list[Array]:
        """As :meth:`Inequality.hidden`, of the pieces of which least is proved."""
        found = []
        for piece in self.pieces:
            values, vectors = np.linalg.eigh(piece.at(*self._of(loss, privacy))[0])
            wide = (piece.basis @ vectors[:, :count]).T.reshape(-1, self.form.size, piece.rows)
            found += [
                (float(value), np.linalg.svd(each)[0][:, 0])
                for value, each in zip(values, wide, strict=False)
            ]
        return [np.asarray(each) for _, each in sorted(found, key=lambda one: one[0])[:count]]


def _products(lines: Array, weights: Array, signs: Mapping[int, float]) -> tuple[Array, float]:
    """(Σ λ_lm sym(l m'), Σ λ_lm |l||m|) of one piece; ValueError where a row is not of its path."""
    total, size = np.zeros((lines.shape[1], lines.shape[1])), 0.0
    for _, first, second, weight in weights:
        sign = 1.0
        for row in (int(first), int(second)):
            if row and row - 1 not in signs:
                raise ValueError("rapidities: a product of a cut that is not on the way to its piece")
            sign *= signs[row - 1] if row else 1.0
        one, other = lines[int(first)], lines[int(second)]
        total += sign * weight * (np.outer(one, other) + np.outer(other, one)) / 2
        size += weight * float(np.linalg.norm(one) * np.linalg.norm(other))
    return total, size


class CheckedPiece:
    """A of one piece with its rapidities put in."""

    def __init__(
        self, form: LiftedForm, private: Array, basis: Array, half: Array, products: tuple[Array, float]
    ) -> None:
        self.basis, self.rows = basis, private.shape[1] // form.size
        grown, moved = rotations(half)
        main = form.lifted_sum(grown @ grown)
        main += np.kron(form.information, np.eye(half.shape[1]))
        self._private = private @ basis
        cross = form.lifted_sum(grown @ moved) @ basis
        taken = basis.T @ form.lifted_sum(moved.transpose(0, 2, 1) @ moved) @ basis
        known = basis.T @ np.kron(form.information, np.eye(self.rows)) @ basis
        columns = public_columns(form.public, half.shape[1] // len(form.public))
        both = np.concatenate([cross, columns], axis=1)
        self._best = best = np.asarray(cho_solve(cho_factor(main), both))
        # With W = best (I; E) everything below is exact whatever ``best`` is, so its rounding costs nothing.
        self._size = basis.shape[1]
        self._fixed = known - taken - products[0]
        self._squares, self._pairs = best.T @ main @ best, best.T @ both
        self._sizes = float(np.linalg.norm(known) + np.linalg.norm(taken)) + products[1]
        self._amplified = form.conditioning * (form.size * (half.shape[1] + self.rows) + len(form.observe))

    def chosen(self, grown: float) -> tuple[Array, Array]:
        """(F, E) on the v in proportion."""
        answer = self._answer(grown)
        return np.asarray(self._best @ np.concatenate([np.eye(self._size), answer])), answer

    def at(self, grown: float, kept: Array) -> tuple[Array, float]:
        """(A less the products, the sizes of what it was added up from)."""
        n, answer = self._size, self._answer(grown)
        both = np.concatenate([np.eye(n), answer])
        crossed = (self._pairs[:, :n].T @ both) + answer.T @ (self._pairs[:, n:].T @ both)
        spent = both.T @ self._squares @ both
        paid = grown * answer.T @ answer
        hidden = (self._private.T / kept) @ self._private
        matrix = self._fixed + crossed + crossed.T - spent - paid - hidden
        # Products with E are as large as E makes them, whatever cancels.
        large = (1 + float(np.linalg.norm(answer))) ** 2
        sizes = self._sizes + large * float(
            np.linalg.norm(self._squares) + 2 * np.linalg.norm(self._pairs) + grown
        )
        return np.asarray((matrix + matrix.T) / 2), sizes + float(np.linalg.norm(hidden))

    def lowest(self, grown: float, kept: Array) -> tuple[float, float]:
        """(λ_min(A less the products), what roundings of a relative 1 may have added to it)."""
        seen = self._pairs[self._size :, self._size :]
        if not float(np.linalg.eigvalsh((seen + seen.T) / 2)[-1]) < grown:
            return -np.inf, 0.0
        matrix, sizes = self.at(grown, kept)
        return float(np.linalg.eigvalsh(matrix)[0]), 16 * self._amplified * sizes

    def surplus(self, grown: float, kept: Array, rounding: float = _EPS) -> float:
        """λ_min(A less the products), less what rounding may have added to it."""
        lowest, sizes = self.lowest(grown, kept)
        return lowest - rounding * sizes

    def _answer(self, grown: float) -> Array:
        """E."""
        seen = self._pairs[self._size :, self._size :]
        spare = grown * np.eye(len(seen)) - (seen + seen.T) / 2
        return np.asarray(np.linalg.solve(spare, self._pairs[self._size :, : self._size]))
