"""More is proved of a part of all hidden directions than of all: pieces, each with rapidities of its own.

One set of rapidities has to serve every v, the one that the design hides and those far from it. Planes through 0 cut
the v into pieces, and on a piece the products of what its cuts keep nonnegative may be taken off A
(:mod:`veilnet.plans.lower_bound.rapidity`). The piece of which least is proved is cut in two, where the moments A^-1
of its v spread most, again and again: branch and bound over what is hidden.

Within a piece log det A and the logarithm of the fraction proved are raised together, the latter counting more and
more: a central path in t, in the logarithms of the products' multipliers and in the fraction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from veilnet._core.types import Array
from veilnet.designs.joint.lbfgs import Curvature, minimize
from veilnet.designs.lower_bound.rapidities import FormAtT, RapidityAscent
from veilnet.designs.lower_bound.settings import SETTINGS
from veilnet.plans.lower_bound.rapidity import Rapidities, half_of

Aim: TypeAlias = Callable[[float], tuple[float, Array]]
"""(β, c) that a proof of this fraction of what the design reaches needs."""

_STEP = 1e-5  # of finite differences, relative
_MOST_LOGARITHM = 100.0
_LEAST_FRACTION = 1e-9  # less proves nothing, and a long step of a search would divide by it


@dataclass(frozen=True, eq=False)
class _Piece:
    """Some of the v.

    proved:   the fraction proved of it.
    t, logs:  what proves it: rapidities, and logarithms of the multipliers of ``products``.
    products: pairs of rows l with l'v >= 0 there: 0 for h, ±(cut + 1) for a cut and its side.
    between:  coordinate -> the nearest cuts below and above, as (value, row).
    """

    proved: float
    t: Array
    logs: Array
    products: tuple[tuple[int, int], ...]
    between: dict[int, tuple[tuple[float, int], tuple[float, int]]]


class Pieces:
    """All v in pieces, one to begin with; :meth:`refine` cuts until enough is proved of each."""

    def __init__(self, ascent: RapidityAscent, aim: Aim, enough: Callable[[], bool]) -> None:
        self._ascent, self._aim, self._enough = ascent, aim, enough
        self._height = ascent.height / np.linalg.norm(ascent.height)
        self._cuts: list[Array] = []
        self._children: list[list[int]] = []
        self._pieces: list[_Piece] = []

    def begin(self, t: Array, fraction: float, goal: float) -> None:
        """All v as one piece; ``t`` proves this fraction of it."""
        self._pieces = [self._climbed(_Piece(fraction, t, np.zeros(0), (), {}), goal)]

    @property
    def proved(self) -> float:
        """The fraction proved of every piece."""
        return min(each.proved for each in self._pieces)

    def refine(self, goal: float, stops: Callable[[float], bool]) -> None:
        """Cut the piece of which least is proved until ``goal`` is, time is up or ``stops`` says so."""
        self._choose_coordinates()
        while self.proved < goal and len(self._pieces) < SETTINGS.most_pieces:
            if self._enough() or stops(self.proved):
                return
            self._cut(min(range(len(self._pieces)), key=lambda place: self._pieces[place].proved), goal)

    def rapidities(self) -> Rapidities:
        """What the theorem is checked with."""
        size = float(np.linalg.norm(self._ascent.height))
        weights = [
            (place, abs(first), abs(second), np.exp(log) / size ** [first, second].count(0))
            for place, piece in enumerate(self._pieces)
            for (first, second), log in zip(piece.products, piece.logs, strict=True)
        ]
        basis = self._ascent.basis
        return Rapidities(
            half=np.stack([half_of(each.t) for each in self._pieces]),
            proportions=self._ascent.proportions,
            cuts=np.array(self._cuts).reshape(-1, basis.shape[1]) @ basis.T,
            children=np.array(self._children, dtype=float).reshape(-1, 2),
            weights=np.array(weights, dtype=float).reshape(-1, 4),
        )

    def _choose_coordinates(self) -> None:
        """Where moments spread most, in order; and how far v can be along each where the prior bounds that."""
        moments, mean = self._moments(self._pieces[0])
        across = np.eye(len(mean)) - np.outer(self._height, self._height)
        spread = across @ (moments - np.outer(mean, mean)) @ across
        self._coordinates = np.linalg.eigh((spread + spread.T) / 2)[1][:, :0:-1].T
        known = self._ascent.known(self._aim(1.0)[1])
        inner = self._coordinates @ known @ self._coordinates.T
        self._reach = np.full((len(inner), 2), np.inf) * [-1.0, 1.0]
        if len(inner) and np.linalg.eigvalsh(inner)[0] > SETTINGS.definite:
            centre = -np.linalg.solve(inner, self._coordinates @ known @ self._height)
            room = float(centre @ inner @ centre - self._height @ known @ self._height)
            width = np.sqrt(max(room, 0.0) * np.diag(np.linalg.inv(inner))) + SETTINGS.beyond * np.abs(centre)
            self._reach = centre[:, None] + (1 + SETTINGS.beyond) * width[:, None] * [-1.0, 1.0]

    def _moments(self, piece: _Piece) -> tuple[Array, Array]:
        """E vv' and E v over the v of which least is proved, h'v = 1."""
        matrix = self._matrix(piece, self._ascent.parts(piece.t), piece.proved)
        moments = np.linalg.inv(matrix)
        moments /= self._height @ moments @ self._height
        return np.asarray(moments), np.asarray(moments @ self._height)

    def _matrix(self, piece: _Piece, parts: FormAtT, fraction: float) -> Array:
        """A with the products taken off."""
        matrix = self._ascent.at(parts, *self._aim(fraction))[0]
        return np.asarray(matrix - np.tensordot(np.exp(piece.logs), self._terms(piece.products), 1))

    def _terms(self, products: tuple[tuple[int, int], ...]) -> Array:
        """Each product of two rows as a matrix, (count, n, n)."""
        rows = [self._height, *self._cuts]
        found = np.zeros((len(products), len(self._height), len(self._height)))
        for place, (first, second) in enumerate(products):
            sign = (1 if first >= 0 else -1) * (1 if second >= 0 else -1)
            outer = sign * np.outer(rows[abs(first)], rows[abs(second)])
            found[place] = (outer + outer.T) / 2
        return found

    def _cut(self, place: int, goal: float) -> None:
        """Along the coordinate in which the piece's moments spread most, at their mean."""
        piece = self._pieces[place]
        moments, mean = self._moments(piece)
        means = self._coordinates @ mean
        spread = np.einsum("ji,ik,jk->j", self._coordinates, moments, self._coordinates) - means**2
        j = int(np.argmax(spread))
        wide = SETTINGS.slab * float(np.sqrt(max(spread[j], 0.0)))
        if j not in piece.between:
            low, high = self._reach[j]
            if not np.isfinite(high - low):
                low, high = means[j] - wide, means[j] + wide
            self._parted(place, j, high, goal)
            self._parted(place, j, low, goal)
            place = len(self._pieces) - 1
        (low, _), (high, _) = self._pieces[place].between[j]
        if np.isfinite(high - low):
            margin = SETTINGS.margin * (high - low)
            self._parted(place, j, float(np.clip(means[j], low + margin, high - margin)), goal)
        else:
            self._parted(place, j, low + wide if np.isfinite(low) else high - wide, goal)

    def _parted(self, place: int, j: int, at: float, goal: float) -> None:
        """The half of the piece below in its place, the half above as the last."""
        cut, piece = len(self._cuts), self._pieces[place]
        self._cuts.append(self._coordinates[j] - at * self._height)
        for pair in self._children:
            pair[:] = [cut if child == -1 - place else child for child in pair]
        self._children.append([-1 - place, -1 - len(self._pieces)])
        below, above = piece.between.get(j, ((-np.inf, 0), (np.inf, 0)))
        halves = [(below, (at, -1 - cut)), ((at, 1 + cut), above)]
        outside = [at <= self._reach[j, 0], at >= self._reach[j, 1]]
        found = [
            self._half(piece, j, between, goal, out) for between, out in zip(halves, outside, strict=True)
        ]
        self._pieces[place] = found[0]
        self._pieces.append(found[1])

    def _half(
        self,
        piece: _Piece,
        j: int,
        between: tuple[tuple[float, int], tuple[float, int]],
        goal: float,
        out: bool,
    ) -> _Piece:
        """A half of the piece, with the product of its two sides and what is then proved."""
        half = replace(piece, between={**piece.between, j: between})
        begun = replace(self._lightened(half), proved=SETTINGS.lowered * piece.proved)
        if out:
            begun = replace(begun, proved=1.0, t=np.zeros_like(piece.t), products=(), logs=np.zeros(0))
        weighed = self._weighed(begun, (between[0][1], between[1][1]))
        if out or weighed is None:
            return weighed or half
        climbed = self._climbed(weighed, goal)
        return climbed if climbed.proved > piece.proved else half

    def _lightened(self, piece: _Piece) -> _Piece:
        """Without the products that hardly count, where that much is still proved."""
        moments, _ = self._moments(piece)
        counts = np.exp(piece.logs) * np.abs(np.tensordot(self._terms(piece.products), moments, 2))
        keep = counts > SETTINGS.idle * counts.max(initial=0.0)
        kept = tuple(pair for pair, stays in zip(piece.products, keep, strict=True) if stays)
        lighter = replace(piece, products=kept, logs=piece.logs[keep])
        matrix = self._matrix(lighter, self._ascent.parts(piece.t), SETTINGS.lowered * piece.proved)
        return lighter if np.linalg.eigvalsh(matrix)[0] > 0 else piece

    def _weighed(self, piece: _Piece, pair: tuple[int, int]) -> _Piece | None:
        """With as much of one product more as leaves proved what is; None where none does."""
        matrix = self._matrix(piece, self._ascent.parts(piece.t), piece.proved)
        term = self._terms((pair,))[0]
        log = float(np.log(np.linalg.norm(matrix) / np.linalg.norm(term)))
        for _ in range(SETTINGS.weighings):
            if np.linalg.eigvalsh(matrix - np.exp(log) * term)[0] > 0:
                return replace(piece, products=(*piece.products, pair), logs=np.append(piece.logs, log))
            log -= 1.0
        return None

    def _climbed(self, piece: _Piece, goal: float) -> _Piece:
        """The piece with better rapidities and multipliers: the goal, or as much as the central path reaches."""
        x = np.concatenate([piece.t.reshape(-1), piece.logs, [np.log(SETTINGS.inside * piece.proved)]])
        terms, push = self._terms(piece.products), SETTINGS.first_push * len(self._height)
        while push < SETTINGS.last_push:
            with np.errstate(all="ignore"):
                x = self._centred(x, piece.t.shape, terms, push)
            if np.exp(x[-1]) >= goal or self._enough():
                break
            push *= SETTINGS.push_growth
        count = piece.t.size
        return replace(
            piece, proved=float(min(np.exp(x[-1]), 1.0)), t=x[:count].reshape(piece.t.shape), logs=x[count:-1]
        )

    def _centred(self, x: Array, shape: tuple[int, ...], terms: Array, push: float) -> Array:
        """A few steps towards the least -push log(fraction) - log det A - Σ log λ, in coordinates that suit it."""
        count = int(np.prod(shape))

        def value(x: Array) -> tuple[float, Array]:
            fraction, logs = float(np.exp(x[-1])), x[count:-1]
            if not (_LEAST_FRACTION < fraction < SETTINGS.most_fraction and np.all(logs < _MOST_LOGARITHM)):
                return np.inf, x
            t, weights = x[:count].reshape(shape), np.exp(logs)
            parts = self._ascent.parts(t)
            loss, kept = self._aim(fraction)
            matrix, answer = self._ascent.at(parts, loss, kept)
            matrix -= np.tensordot(weights, terms, 1)
            if not (np.all(np.isfinite(matrix)) and self._ascent.leaves_room(parts, loss)):
                return np.inf, x
            values, vectors = np.linalg.eigh(matrix)
            if not values[0] > SETTINGS.singular * values[-1]:
                return np.inf, x
            inverse = (vectors / values) @ vectors.T
            slope = np.concatenate([
                -self._ascent.pulled(inverse, t, parts, answer).reshape(-1),
                weights * np.tensordot(terms, inverse, 2) - 1.0,
                [self._ascent.lowered(inverse, answer, self._aim, fraction) - push],
            ])  # fmt: skip
            return float(-np.sum(np.log(values)) - push * x[-1] - np.sum(logs)), slope

        begun, slope = value(x)
        if not np.isfinite(begun):
            return x
        if x.size > SETTINGS.most_differences:
            return minimize(value, x, Curvature(x.size, SETTINGS.memory), SETTINGS.far_steps, 1e-2)[0]
        sizes = np.concatenate(
            [np.full(count, np.abs(x[:count]).max(initial=_STEP)), np.ones(x.size - count)]
        )
        second = np.zeros((x.size, x.size))
        for place, step in enumerate(_STEP * sizes):
            moved = x.copy()
            moved[place] -= step
            there, other = value(moved)
            second[place] = (slope - other) / step if np.isfinite(there) else 0.0
        second = (second + second.T) / 2
        scale = 1 / np.sqrt(np.abs(np.diag(second)) + 1e-12)
        values, vectors = np.linalg.eigh(scale[:, None] * second * scale)
        # A saddle is left along what bends down, as fast as what bends up is gone to.
        wide = scale[:, None] * vectors / np.sqrt(np.maximum(np.abs(values), SETTINGS.flat))

        def turned(y: Array) -> tuple[float, Array]:
            found, slope = value(x + wide @ y)
            return found, wide.T @ slope

        steps = SETTINGS.near_steps
        y, _, _ = minimize(turned, np.zeros(x.size), Curvature(x.size, SETTINGS.memory), steps, 1e-2)
        return np.asarray(x + wide @ y)
