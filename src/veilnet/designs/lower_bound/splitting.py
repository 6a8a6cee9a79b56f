"""Multipliers from an operator splitting, NumPy alone: small networks to many digits, large ones as far as time
allows.

The alternating direction method of multipliers on the lifted program: a linear solve, a projection on the cones
(one eigendecomposition each), an update of the duals, over and over. Because every cone acts on the slots alone
(:mod:`.lifted_program`), the linear solve is one small matrix for all pairs of v, so an iteration costs little
more than its eigendecompositions. Any iterate's duals are multipliers; the theorem makes a valid bound of them.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from veilnet._core.types import Array
from veilnet.designs.lower_bound.lifted_program import LiftedProgram
from veilnet.designs.lower_bound.settings import SETTINGS
from veilnet.plans.lower_bound.lifted_form import LiftedForm
from veilnet.plans.lower_bound.theorem import Multipliers, heard_by, turn_of

# Directions of Z this small beside the largest are left out of its root: they prove nothing.
_NEGLIGIBLE = 1e-13


class Splitting:
    """The iteration over all parameters asked; :meth:`run` goes on from where it stands."""

    def __init__(
        self, form: LiftedForm, programs: list[LiftedProgram], starts: list[Array], penalty: float
    ) -> None:
        self.form = form
        self.penalty = penalty
        self._parts = [_Part(program, start) for program, start in zip(programs, starts, strict=True)]
        self._room = np.zeros(len(programs))
        self._scaled_room = np.zeros(len(programs))
        self._prepare_equations()

    def aim(self, programs: list[LiftedProgram]) -> None:
        """Take another loss or privacy to prove, keeping the iterate."""
        for part, program in zip(self._parts, programs, strict=True):
            part.aim(program)
        self._prepare_equations()

    def _prepare_equations(self) -> None:
        """tr B_j = 1, equal tr_2 X̂_ij, equal defects: rows on the x_j and on the room each defect has to the
        largest.

        The defect of j plus its room is the same for all j; its value, that of the last, is minimised.
        """
        parts = self._parts
        first = parts[0].program.slots[0].start
        linked = len(parts[0].x) - first
        count = len(parts) + (len(parts) - 1) * (linked + 1)
        self._rows = [np.zeros((count, *part.x.shape)) for part in parts]
        self._rooms = np.zeros((count, len(parts)))
        self._right = np.zeros(count)
        self._right[: len(parts)] = 1.0
        for k, part in enumerate(parts):
            self._rows[k][k, 0] = part.program.trace
        at = len(parts)
        for k, part in enumerate(parts[:-1]):
            for slot in range(first, first + linked):
                self._rows[k][at, slot], self._rows[-1][at, slot] = (
                    part.program.trace,
                    -parts[-1].program.trace,
                )
                at += 1
        for k, part in enumerate(parts[:-1]):
            self._rows[k][at], self._rows[-1][at] = part.program.defect, -parts[-1].program.defect
            self._rooms[at, k], self._rooms[at, -1] = 1.0, -1.0
            at += 1
        self._solved = [
            np.stack([part.solve(row) for row in rows]) for part, rows in zip(parts, self._rows, strict=True)
        ]
        gram = self._rooms @ self._rooms.T
        for rows, solved in zip(self._rows, self._solved, strict=True):
            gram += rows.reshape(count, -1) @ solved.reshape(count, -1).T
        self._gram = cho_factor(gram + 1e-14 * np.trace(gram) / count * np.eye(count))
        self._forces = np.zeros(count)

    def run(self, iterations: int) -> None:
        """So many iterations more."""
        for count in range(iterations):
            self._step()
            if count % SETTINGS.balance_every == SETTINGS.balance_every - 1:
                primal, dual = (
                    sum(getattr(part, name) for part in self._parts) for name in ("primal", "dual")
                )
                self._balance(np.sqrt(primal / max(dual, np.finfo(float).tiny)))

    def _step(self) -> None:
        free = [part.target() for part in self._parts]
        free[-1] -= self._parts[-1].program.defect / self.penalty
        free = [part.solve(each) for part, each in zip(self._parts, free, strict=True)]
        room = self._room - self._scaled_room
        room[-1] -= 1.0 / self.penalty
        wrong = self._rooms @ room - self._right
        for rows, x in zip(self._rows, free, strict=True):
            wrong += rows.reshape(len(rows), -1) @ x.reshape(-1)
        correction = cho_solve(self._gram, wrong)
        self._forces = self.penalty * correction
        for part, x, solved in zip(self._parts, free, self._solved, strict=True):
            part.x = x - np.tensordot(correction, solved, axes=1)
            part.project()
        moved = room - self._rooms.T @ correction + self._scaled_room
        self._room, self._scaled_room = np.maximum(moved, 0.0), np.minimum(moved, 0.0)

    def _balance(self, ratio: float) -> None:
        """Primal and dual residuals are kept alike by the penalty."""
        if 0.5 <= ratio <= 2:
            return
        factor = float(np.clip(ratio, 0.2, 5.0))
        self.penalty *= factor
        self._scaled_room = self._scaled_room / factor
        for part in self._parts:
            part.rescale(1 / factor)

    def multipliers(self) -> tuple[Multipliers, ...]:
        """The theorem's letters at the present iterate."""
        asked = len(self._parts)
        weights = np.ones(1) if asked == 1 else np.maximum(0.0, -self.penalty * self._scaled_room)
        first = self._parts[0].program.slots[0].start
        linked = len(self._parts[0].x) - first
        found = []
        for k, part in enumerate(self._parts):
            forces = np.zeros(linked)
            if k < asked - 1:
                forces = self._forces[asked + k * linked : asked + (k + 1) * linked]
            elif asked > 1:
                forces = (
                    -self._forces[asked : asked + (asked - 1) * linked].reshape(asked - 1, linked).sum(axis=0)
                )
            links = []
            for observe, slots in zip(self.form.observe, part.program.slots, strict=True):
                p, q = np.triu_indices(len(observe))
                link = np.zeros((len(observe), len(observe)))
                values = forces[slots.start - first : slots.stop - first]
                link[p, q] = link[q, p] = values * np.where(p == q, 1.0, 0.5)
                links.append(link)
            found.append(
                multipliers_from_duals(self.form, float(weights[k]), part.duals(self.penalty), links)
            )
        return tuple(found)


def multipliers_from_duals(
    form: LiftedForm, weight: float, duals: list[Array], links: list[Array]
) -> Multipliers:
    """The theorem's letters from the duals of a program's cones.

    Stationarity binds what is symmetric in both factors only; what is left over is antisymmetric in both: the turns.
    """
    m, agents = form.public.shape[0], len(form.observe)
    n = duals[-1].shape[0]
    root = _root(duals[0]).reshape(m + form.size, n, -1)
    upper, lower = root[:m].reshape(m * n, -1), root[m:]
    turns = []
    for i, observe in enumerate(form.observe):
        size = len(observe)
        through = np.einsum("pl,lak->pak", observe, lower).reshape(size * n, -1)
        residual = through @ through.T - weight * heard_by(observe, n // form.size)
        turns.append(turn_of(residual - duals[1 + agents + i] + duals[1 + i], size, n))
    return Multipliers(
        weight=weight,
        root=root,
        public=duals[-1],
        turn=turn_of(upper @ upper.T, m, n),
        turns=tuple(turns),
        heard=tuple(duals[1 + agents + i] for i in range(agents)),
        links=tuple(links),
    )


class _Part:
    """x, slacks and scaled duals of one parameter; cones of one size are projected together."""

    def __init__(self, program: LiftedProgram, start: Array) -> None:
        n = program.n
        self._pairs = np.triu_indices(n)
        self._table = np.zeros((n, n), np.intp)
        self._table[self._pairs] = self._table[self._pairs[::-1]] = np.arange(self._pairs[0].size)
        self._count = np.where(self._pairs[0] == self._pairs[1], 1.0, 2.0)
        self._alike: dict[int, list[int]] = {}
        for place, cone in enumerate(program.cones):
            self._alike.setdefault(cone.shape[0], []).append(place)
        self.aim(program)
        self.x = start
        self._slack = [_split(self._matrices(tensor))[0] for tensor in self._tensors]
        self._scaled = [np.zeros_like(each) for each in self._slack]
        self.primal = self.dual = 0.0

    def aim(self, program: LiftedProgram) -> None:
        """Take another program of the same shape."""
        self.program = program
        cones = program.cones
        self._tensors = [np.stack([cones[place] for place in group]) for group in self._alike.values()]
        normal = [np.einsum("gpqs,gpqt->st", each, each, optimize=True) for each in self._tensors]
        self._normal = cho_factor(np.sum(normal, axis=0))

    def target(self) -> Array:
        """The adjoint of slacks less scaled duals."""
        total = np.zeros_like(self.x)
        for tensor, slack, scaled in zip(self._tensors, self._slack, self._scaled, strict=True):
            total += self._adjoint(tensor, slack - scaled)
        return total

    def solve(self, right: Array) -> Array:
        """The inverse of the normal operator: one small matrix for every pair."""
        return np.asarray(cho_solve(self._normal, right) / self._count)

    def project(self) -> None:
        """Slacks on the cones, scaled duals and residuals."""
        self.primal = self.dual = 0.0
        for k, tensor in enumerate(self._tensors):
            reached, before = self._matrices(tensor), self._slack[k]
            relaxed = SETTINGS.relaxation * reached + (1 - SETTINGS.relaxation) * before
            self._slack[k], self._scaled[k] = _split(relaxed + self._scaled[k])
            self.primal += float(np.sum((reached - self._slack[k]) ** 2))
            self.dual += float(np.sum((self._slack[k] - before) ** 2))

    def rescale(self, factor: float) -> None:
        """The scaled duals after a change of the penalty."""
        self._scaled = [each * factor for each in self._scaled]

    def duals(self, penalty: float) -> list[Array]:
        """The dual matrices in the order of the program's cones."""
        found: dict[int, Array] = {}
        for group, scaled in zip(self._alike.values(), self._scaled, strict=True):
            found.update(zip(group, -penalty * scaled, strict=True))
        return [found[place] for place in range(len(found))]

    def _matrices(self, tensor: Array) -> Array:
        small = np.tensordot(tensor, self.x, axes=1)[:, :, :, self._table]
        g, d, n = tensor.shape[0], tensor.shape[1], self.program.n
        return np.asarray(small.transpose(0, 1, 3, 2, 4).reshape(g, d * n, d * n))

    def _adjoint(self, tensor: Array, matrices: Array) -> Array:
        g, d, n = tensor.shape[0], tensor.shape[1], self.program.n
        five = matrices.reshape(g, d, n, d, n)
        a, b = self._pairs
        both = (five[:, :, a, :, b] + five[:, :, b, :, a]) * (self._count / 2)[:, None, None, None]
        return np.asarray(np.tensordot(tensor, both, axes=((0, 1, 2), (1, 2, 3))))


def _split(matrices: Array) -> tuple[Array, Array]:
    """Positive and negative part of each."""
    values, vectors = np.linalg.eigh((matrices + matrices.transpose(0, 2, 1)) / 2)
    positive = (vectors * np.maximum(values, 0.0)[:, None, :]) @ vectors.transpose(0, 2, 1)
    return positive, matrices - positive


def _root(symmetric: Array) -> Array:
    values, vectors = np.linalg.eigh((symmetric + symmetric.T) / 2)
    keep = values > _NEGLIGIBLE * max(float(values[-1]), 0.0)
    return np.asarray(vectors[:, keep] * np.sqrt(values[keep]))
