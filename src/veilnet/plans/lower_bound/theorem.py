"""The theorem that bounds a trade-off from below, and its check: plain NumPy, whatever found the multipliers.

**Setting** (:mod:`.lifted_form`). J = J0 + Σ_i H_i'X_i H_i, 0 ⪯ X_i ⪯ I. Asked: p_j >= ε_j for some parameters
j, G_j of r_j rows; c_j = 1 + ε_j. loss <= β iff some T has tr T <= 1 + β and [[T, U], [U', J]] ⪰ 0 (take T = U
J^+ U'). p_j >= ε_j iff some V ≠ 0, (L, r_j), has tr(V'J V) <= (tr G_j V)²/c_j (take V = J^-1 G_j', or one
column in Null(J) that G_j sees). Write v_j = vec V in R^L ⊗ R^r, n = L r_j, and g_j = vec G_j': then tr(V'J V)
= v_j'(J ⊗ I)v_j, tr(G_j V) = g_j'v_j, and everything is linear in v_j v_j', X_i ⊗ v_j v_j' and T ⊗ v_j v_j':
this is the lift, one for every parameter.

**Theorem.** For each j asked let μ_j >= 0; Z_j ⪰ 0 on (R^m ⊕ R^L) ⊗ R^n with blocks Z_TT, Z_TJ, Z_JJ; W_j
symmetric on R^n; K_j and K_ij antisymmetric under partial transposition (K^PT = -K); M_ij symmetric with Σ_j
M_ij = 0; and

    Z_TT ⪯ I ⊗ W_j + K_j,      Y_ij ⪰ 0,      Y_ij ⪰ (H_i ⊗ I) Z_JJ (H_i ⊗ I)' - μ_j E_i - K_ij - M_ij ⊗ I,

E_i the matrix with <E_i, X ⊗ vv'> = v'(H_i'X H_i ⊗ I)v. Put

    A_j = μ_j (J0 ⊗ I - g_j g_j'/c_j) - (1 + β) W_j - 2 sym tr_1[(U ⊗ I)' Z_TJ] - tr_1[(J0 ⊗ I) Z_JJ] - Σ_i tr_1 Y_ij.

If Σ_j λ_min(A_j) > 0, no X has loss <= β and p_j >= ε_j for every j asked: the least loss exceeds β.

The proof is in ``docs/explanation/mathematics.md``, section 8: pair each multiplier with what it multiplies at the X
and v_j of such a design, add, and v_j'A_j v_j <= Σ_i <M_ij, X_i> for every j, whose right sides sum to 0.

With one public row, one private row and one parameter the best Z_TT and Z_TJ for given Z_JJ are known, and A =
J0 - gg'/c + (u ⊗ I)'Z(u ⊗ I)/(1 + β) - tr_1[(J0 ⊗ I) Z] - Σ_i tr_1 Y_i remains, Z = Z_JJ. Read with β fixed and
c_j growing it bounds privacy from above: both readings are below.

**Rounding.** Z_j = F F', K_j, K_ij and M_ij are what they must be by construction, Y_ij is completed to what it
must majorise and W_j is raised likewise; what floating point may have spoilt in all that, and on the way from
the network to the lifted form, is bounded by sizes times machine precision and taken off Σ_j λ_min(A_j) before
its sign is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array
from veilnet.plans.lower_bound.inequality import Inequality
from veilnet.plans.lower_bound.lifted_form import LiftedForm

_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class Multipliers:
    """What is proved about one parameter j, in the letters of the theorem.

    weight: μ_j.
    root:   F, (m + L, n, k): Z_j = F F' with its first two axes taken as one.
    public: W_j, (n, n).
    turn:   K_j as coefficients, (m(m-1)/2, n(n-1)/2): see :func:`turned`.
    turns:  K_ij likewise, per agent.
    heard:  a first guess of Y_ij per agent, (n_i n, n_i n); what it lacks is added.
    links:  M_ij, (n_i, n_i) per agent; their mean over j is taken off.
    """

    weight: float
    root: Array
    public: Array
    turn: Array
    turns: tuple[Array, ...]
    heard: tuple[Array, ...]
    links: tuple[Array, ...]


def turned(coefficients: Array, first: int, second: int) -> Array:
    """Σ c_kl (a_k ⊗ b_l), a_k and b_l the antisymmetric units: symmetric, and minus its own partial transpose."""
    left, right = np.triu_indices(first, 1), np.triu_indices(second, 1)
    full = np.zeros((first, first, second, second))
    for sign_1, (p, q) in ((1.0, left), (-1.0, left[::-1])):
        for sign_2, (a, b) in ((1.0, right), (-1.0, right[::-1])):
            full[p[:, None], q[:, None], a[None, :], b[None, :]] = sign_1 * sign_2 * coefficients
    return np.asarray(full.transpose(0, 2, 1, 3).reshape(first * second, first * second))


def turn_of(matrix: Array, first: int, second: int) -> Array:
    """The coefficients of the part of a symmetric matrix that :func:`turned` spans (its projection)."""
    four = matrix.reshape(first, second, first, second)
    p, q = np.triu_indices(first, 1)
    a, b = np.triu_indices(second, 1)
    one = four[p[:, None], a[None, :], q[:, None], b[None, :]]
    other = four[p[:, None], b[None, :], q[:, None], a[None, :]]
    return np.asarray((one - other) / 2)


def heard_by(observe: Array, r: int) -> Array:
    """E_i: <E_i, X ⊗ vv'> = v'(H_i'X H_i ⊗ I)v, for v of r columns."""
    size, length = observe.shape
    seen = np.einsum("pl,ks->plsk", observe, np.eye(r)).reshape(size * length * r, r)
    return np.asarray(seen @ seen.T)


class Theorem(Inequality):
    """The theorem with its multipliers put in: what is left is one inequality in β and the c_j.

    ``multipliers`` belong to the private parameters at the positions ``asked`` of the form, one by one.
    """

    def __init__(
        self, form: LiftedForm, asked: tuple[int, ...], multipliers: tuple[Multipliers, ...]
    ) -> None:
        if len(asked) != len(multipliers) or not asked:
            raise ValueError(
                f"multipliers: expected those of {len(asked)} parameters, found {len(multipliers)}"
            )
        for j, given in zip(asked, multipliers, strict=True):
            refuse_misfits(form, form.private[j], given)
        self.form, self.asked = form, asked
        over = [np.mean([given.links[i] for given in multipliers], axis=0) for i in range(len(form.observe))]
        self._parts = [
            _Part(
                form,
                form.private[j],
                given,
                [link - mean for link, mean in zip(given.links, over, strict=True)],
            )
            for j, given in zip(asked, multipliers, strict=True)
        ]

    def _surplus(self, grown: float, kept: dict[int, float]) -> float:
        """Σ_j λ_min(A_j), less what rounding may have added to it."""
        parts = zip(self.asked, self._parts, strict=True)
        return float(sum(part.surplus(grown, kept[j]) for j, part in parts))

    def hidden(self, loss: float, privacy: Mapping[int, float], count: int) -> list[Array]:
        """As :meth:`Inequality.hidden`."""
        found = []
        for j, part in zip(self.asked, self._parts, strict=True):
            _, vectors = np.linalg.eigh(part.at(1.0 + loss, 1.0 + privacy[j]))
            for v in vectors.T[:count]:
                left, _, _ = np.linalg.svd(v.reshape(self.form.size, -1))
                found.append(left[:, 0])
        return found


class _Part:
    """A_j, affine in 1 + β and in 1/c_j, with a bound on its rounding."""

    def __init__(self, form: LiftedForm, rows: Array, given: Multipliers, links: list[Array]) -> None:
        m, r = form.public.shape[0], rows.shape[0]
        self._n = n = form.size * r
        self._weight, self._private, self._sizes = float(given.weight), rows.T.reshape(-1), 0.0
        upper, lower = given.root[:m], given.root[m:]
        self._public = self._majorant(upper, given)
        cross = np.einsum("mak,ml,lbk->ab", upper, form.public, lower, optimize=True)
        prior = np.einsum("lak,lp,pbk->ab", lower, form.information, lower, optimize=True)
        known = np.asarray(self._weight * np.kron(form.information, np.eye(r)), dtype=np.float64)
        self._count(cross, prior, known)
        self._fixed = known - (cross + cross.T) - (prior + prior.T) / 2
        for i, observe in enumerate(form.observe):
            self._fixed -= self._listened(observe, lower, given.turns[i], given.heard[i], links[i])
        self._amplified = form.conditioning * (m + form.size + max(len(h) for h in form.observe)) * n

    def at(self, grown: float, kept: float) -> Array:
        """A_j for 1 + β = grown and c_j = kept."""
        matrix = self._fixed - grown * self._public
        matrix = matrix - (self._weight / kept) * np.outer(self._private, self._private)
        return np.asarray((matrix + matrix.T) / 2)

    def surplus(self, grown: float, kept: float) -> float:
        """λ_min(A_j) less a bound on what rounding may have added to it."""
        sizes = self._sizes + grown * float(np.linalg.norm(self._public)) + self._weight / kept
        lowest = float(np.linalg.eigvalsh(self.at(grown, kept))[0])
        return float(lowest - 16 * _EPS * self._amplified * sizes)

    def _majorant(self, upper: Array, given: Multipliers) -> Array:
        """W_j, raised so far that I ⊗ W_j + K_j majorises Z_TT."""
        m, n = upper.shape[:2]
        flat = upper.reshape(m * n, -1)
        public = (given.public + given.public.T) / 2
        excess = flat @ flat.T - np.kron(np.eye(m), public) - turned(given.turn, m, n)
        self._count(flat @ flat.T, public, given.turn)
        return np.asarray(public + max(0.0, float(np.linalg.eigvalsh(excess)[-1])) * np.eye(n))

    def _listened(self, observe: Array, lower: Array, turn: Array, guess: Array, link: Array) -> Array:
        """tr_1 Y_ij for Y_ij = Ŷ + (N - Ŷ)_+, where N is what it must majorise and Ŷ the positive part of the guess.

        Both conditions hold for any guess. Without one Y_ij = N_+ has the least trace, but what counts is
        λ_min(A_j): the best Y_ij is small along the v that matter and may be large elsewhere, as a solver's
        dual variable is.
        """
        size, n = observe.shape[0], self._n
        through = np.einsum("pl,lak->pak", observe, lower, optimize=True).reshape(size * n, -1)
        estimated = self._weight * heard_by(observe, n // observe.shape[1])
        needed = through @ through.T - estimated - turned(turn, size, n)
        needed -= np.kron((link + link.T) / 2, np.eye(n))
        first = _positive_root(guess)
        second = _positive_root(needed - first @ first.T)
        self._count(through @ through.T, estimated, turn, link, first @ first.T)
        half = np.concatenate([first, second], axis=1).reshape(size, n, -1)
        return np.asarray(np.einsum("pak,pbk->ab", half, half, optimize=True))

    def _count(self, *matrices: Array) -> None:
        self._sizes += float(sum(np.linalg.norm(each) for each in matrices))


def refuse_misfits(form: LiftedForm, rows: Array, given: Multipliers) -> None:
    """ValueError where the multipliers are not of this form's shape, not finite, or of the wrong sign."""
    m, n = form.public.shape[0], form.size * rows.shape[0]

    def pairs(size: int) -> int:
        return size * (size - 1) // 2

    sizes = [len(observe) for observe in form.observe]
    expected = {
        "root": [(m + form.size, n, *given.root.shape[2:3])],
        "public": [(n, n)],
        "turn": [(pairs(m), pairs(n))],
        "turns": [(pairs(size), pairs(n)) for size in sizes],
        "heard": [(size * n, size * n) for size in sizes],
        "links": [(size, size) for size in sizes],
    }
    for name, shapes in expected.items():
        value = getattr(given, name)
        arrays = list(value) if isinstance(value, tuple) else [value]
        if [each.shape for each in arrays] != shapes:
            raise ValueError(f"multipliers: {name} should have the shapes {shapes}")
        if not all(np.all(np.isfinite(each)) for each in arrays):
            raise ValueError(f"multipliers: {name} holds numbers that are not finite")
    if not (np.isfinite(given.weight) and given.weight >= 0):
        raise ValueError(f"multipliers: the weight should be at least 0, found {given.weight}")


def _positive_root(symmetric: Array) -> Array:
    """F with F F' the positive part."""
    values, vectors = np.linalg.eigh((symmetric + symmetric.T) / 2)
    keep = values > 0
    return np.asarray(vectors[:, keep] * np.sqrt(values[keep]))
