"""The bound by rapidities once more, with 32 digits: where doubles see it hold, but by less than rounding.

An agent a thousand times sharper than the others is enough for that. F and E are those that doubles found, taken as
exact: any will do (:mod:`.rapidity`). Coordinates of x are those of :class:`veilnet.recheck.twofold.TwofoldRecheck`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from veilnet._core.twofold import Twofold, stack_blocks
from veilnet._core.types import Array
from veilnet.agent.mechanisms import mechanisms
from veilnet.model.network import Network
from veilnet.plans.lower_bound.rapidity import RapidityTheorem, private_vectors, public_columns
from veilnet.recheck.twofold import TwofoldRecheck, bordered_complement, error_of

ROUNDING = 2.0**-100
"""What one operation may be off by, relative."""
_MOST_WORK = 3e8  # products of 32 digits: about a minute


def precise_surplus(
    network: Network,
    theorem: RapidityTheorem,
    loss: float,
    privacy: Mapping[str, float],
    mixed: Mapping[str, Array],
) -> float:
    """By how much the inequality holds, rounding of 32 digits deducted; -inf where doubles see it fail or it is long.

    privacy, mixed: as a proof has them (:class:`veilnet.plans.lower_bound.proof.Proof`).
    """
    form, given = theorem.form, theorem.given
    rows = {name: mixed.get(name) for name in privacy}
    whole = [len(network.U), *(len(network.private[n] if b is None else b) for n, b in rows.items())]
    if whole != [len(form.public), *(len(form.private[j]) for j in theorem.asked)]:
        return -np.inf  # dependent rows were compressed, in doubles
    grown, kept = 1.0 + loss, np.array([1.0 + each for each in privacy.values()])
    spoilt = 1.0 + 64 * theorem.rounding * form.conditioning
    unsure = [
        place
        for place, piece in enumerate(theorem.pieces)
        if not piece.surplus(grown * spoilt, kept / spoilt) > 0
    ]
    lowest = [theorem.pieces[place].lowest(grown, kept) for place in unsure]
    work = len(unsure) * len(form.observe) * (form.size * given.half.shape[2]) ** 2
    if not all(each > 0 for each, _ in lowest) or work > _MOST_WORK:
        return -np.inf
    precise, least = PreciseForm(network, rows), np.inf
    for place, (_, sizes) in zip(unsure, lowest, strict=True):
        piece = theorem.pieces[place]
        mine = PrecisePiece(
            *(precise, given.half[place], given.proportions, piece.basis, given.cuts),
            given.weights[given.weights[:, 0] == place],
            theorem.signs[place],
        )
        by = ROUNDING * sizes
        if not mine.holds(grown, list(kept), *piece.chosen(grown), by):
            return -np.inf
        least = min(least, by)
    return least


class PreciseForm:
    """J0, Σ N_i ⊗ S_i, U and the G_j of a network with independent noise, and how far |U|, |G_j| are from 1.

    private: name -> G_j, or B G_j; of full row rank.
    """

    def __init__(self, network: Network, private: Mapping[str, Array | None]) -> None:
        recheck = TwofoldRecheck(network, mechanisms(network, {}))
        self._informations = recheck.informations()
        self.information = recheck.prior()
        self.public, self.public_size = self._unit(recheck, Twofold.of(network.U))
        found = []
        for name, mixed in private.items():
            rows = Twofold.of(network.private[name])
            found.append(self._unit(recheck, rows if mixed is None else Twofold.of(mixed) @ rows))
        self.private, self.private_sizes = [rows for rows, _ in found], [size for _, size in found]

    def lifted_sum(self, small: Twofold) -> Twofold:
        """Σ_i N_i ⊗ S_i: (L a, L b), x's coordinate slowest."""
        count, length = self._informations.shape[:2]
        a, b = small.shape[1:]
        flat = self._informations.reshaped(count, -1).T @ small.reshaped(count, -1)

        def ordered(part: Array) -> Array:
            return part.reshape(length, length, a, b).transpose(0, 2, 1, 3).reshape(length * a, length * b)

        return _each(ordered, flat)

    def _unit(self, recheck: TwofoldRecheck, rows: Twofold) -> tuple[Twofold, Twofold]:
        """(A/σ, tr(A J^-1 A')/σ²) in the coordinates of the recheck, σ a double."""
        turned = rows @ Twofold.of(recheck.change)
        size = error_of(recheck.raw_information, turned)
        scale = Twofold.of(np.sqrt(size.high))
        return turned / scale.reshaped(1, 1), size / scale / scale


class PrecisePiece:
    """A of one piece, as :class:`.rapidity.CheckedPiece` has it."""

    def __init__(
        self,
        form: PreciseForm,
        half: Array,
        proportions: Array,
        basis: Array,
        cuts: Array,
        weights: Array,
        signs: Mapping[int, float],
    ) -> None:
        self._form, tau = form, Twofold.of(half)
        count, queues, rows = half.shape
        unit = Twofold.of(np.broadcast_to(np.eye(queues), (count, queues, queues)))
        inverse = -bordered_complement(unit - tau @ tau.T, unit)
        two = Twofold.of(np.full((1, 1), 2.0))
        grown, moved = inverse * two - unit, inverse @ tau * two
        vectors = Twofold(
            *(private_vectors([getattr(each, part) for each in form.private]) for part in ("high", "low"))
        )
        thetas = Twofold.of(proportions[:, None])
        lines = vectors / thetas
        exact = Twofold.of(basis)
        if len(proportions) > 1:  # doubles are in proportion to 16 digits only
            apart = lines[1:] - lines[:1]
            exact = (
                exact
                + bordered_complement(apart @ apart.T, stack_blocks([[apart, apart @ exact]]))[
                    : basis.shape[0], basis.shape[0] :
                ]
            )
        self._heard = vectors @ exact
        self._main = form.lifted_sum(grown @ grown) + _beside(form.information, queues)
        self._cross = form.lifted_sum(grown @ moved) @ exact
        policies = queues // form.public.shape[0]
        self._columns = _each(lambda part: public_columns(part, policies), form.public)
        known = _beside(form.information, rows) - form.lifted_sum(moved.T @ moved)
        self._fixed = exact.T @ (known @ exact)
        ends = stack_blocks([[lines[:1]], [Twofold.of(cuts.reshape(-1, basis.shape[0]))]]) @ exact
        for _, first, second, weight in weights:
            sides = [signs[int(row) - 1] if row else 1.0 for row in (first, second)]
            half_weight = Twofold.of(np.full((1, 1), sides[0] * sides[1] * weight / 2))
            outer = ends[[int(first)]].T @ ends[[int(second)]]
            self._fixed = self._fixed - (outer + outer.T) * half_weight

    def holds(self, grown: float, kept: Sequence[float], wide: Array, answer: Array, by: float) -> bool:
        """Whether A, with W = ``wide`` v and s = ``answer`` v, exceeds ``by`` times the identity."""
        w, s = Twofold.of(wide), Twofold.of(answer)
        crossed = self._cross.T @ w + s.T @ (self._columns.T @ w)
        paid = s.T @ s * (Twofold.of(np.full((1, 1), grown)) * self._form.public_size.reshaped(1, 1))
        matrix = self._fixed + crossed + crossed.T - w.T @ (self._main @ w) - paid
        for place, (each, size) in enumerate(zip(kept, self._form.private_sizes, strict=True)):
            heard = self._heard[[place]]
            matrix = matrix - heard.T @ heard / (Twofold.of(np.full((1, 1), each)) * size.reshaped(1, 1))
        return _is_definite(matrix - Twofold.of(by * np.eye(matrix.shape[0])))


def _is_definite(matrix: Twofold) -> bool:
    """Whether every pivot of a symmetric matrix is positive."""
    rest = matrix
    while rest.shape[0]:
        if not rest.high[0, 0] > 0:
            return False
        column = rest[1:, :1]
        rest = rest[1:, 1:] - column / rest[:1, :1] * column.T
    return True


def _each(change: Callable[[Array], Array], given: Twofold) -> Twofold:
    return Twofold(change(given.high), change(given.low))


def _beside(matrix: Twofold, count: int) -> Twofold:
    """M ⊗ I."""
    return _each(lambda part: np.asarray(np.kron(part, np.eye(count)), np.float64), matrix)
