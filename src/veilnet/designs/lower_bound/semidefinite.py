"""Multipliers from an interior-point method (Clarabel, in the extra ``paper``): where the splitting is slow and
the program small.

Clarabel solves the lifted program as it stands; its dual variables are the multipliers. Nothing it says is
believed: the theorem is checked with them afterwards, and without Clarabel there is only less that can be
proved.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

from veilnet._core.types import Array
from veilnet.designs.lower_bound.lifted_program import LiftedProgram
from veilnet.designs.lower_bound.splitting import multipliers_from_duals
from veilnet.plans.lower_bound.lifted_form import LiftedForm
from veilnet.plans.lower_bound.theorem import Multipliers


def entries_of(programs: list[LiftedProgram]) -> int:
    """How many entries the cones of all programs have together."""
    sizes = [cone.shape[0] * program.n for program in programs for cone in program.cones]
    return sum(size * (size + 1) // 2 for size in sizes)


def interior_point_available() -> bool:
    """Whether Clarabel is installed."""
    return find_spec("clarabel") is not None


def solve_semidefinite(form: LiftedForm, programs: list[LiftedProgram]) -> tuple[Multipliers, ...] | None:
    """Multipliers for each program's parameter; None where Clarabel is missing or fails."""
    try:
        import clarabel
    except ImportError:
        return None
    assembled = _Assembled(programs)
    cones = [clarabel.ZeroConeT(assembled.zeros), clarabel.NonnegativeConeT(len(programs))]
    cones += [clarabel.PSDTriangleConeT(size) for size in assembled.sizes]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    unknowns = assembled.rows.shape[1]
    objective = np.zeros(unknowns)
    objective[-1] = 1.0
    try:
        solver = clarabel.DefaultSolver(
            sparse.csc_matrix((unknowns, unknowns)),
            objective,
            assembled.rows,
            assembled.right,
            cones,
            settings,
        )
        dual = np.asarray(solver.solve().z)
    except BaseException as failure:  # Clarabel's panics are not Exceptions; no proof from it is no harm
        if isinstance(failure, KeyboardInterrupt | SystemExit | GeneratorExit):
            raise
        return None
    if dual.size != assembled.rows.shape[0] or not np.all(np.isfinite(dual)):
        return None
    return tuple(assembled.read(form, place, dual) for place in range(len(programs)))


class _Assembled:
    """A x + s = b, s in the cones; the last unknown is τ, the largest defect. Rows: zeros, defects, cones."""

    def __init__(self, programs: list[LiftedProgram]) -> None:
        self.programs = programs
        self.starts = np.concatenate([[0], np.cumsum([program.defect.size for program in programs])])
        self.total = int(self.starts[-1]) + 1
        self.linked = programs[0].defect.shape[0] - programs[0].slots[0].start
        self.zeros = len(programs) + (len(programs) - 1) * self.linked
        blocks = [self._row(k, program.trace, 0.0) for k, program in enumerate(programs)]
        blocks += [self._traces(k) - self._traces(len(programs) - 1) for k in range(len(programs) - 1)]
        blocks += [self._row(k, program.defect.reshape(-1), -1.0) for k, program in enumerate(programs)]
        self.sizes = [cone.shape[0] * program.n for program in programs for cone in program.cones]
        blocks += [-self._cone(k, cone) for k, program in enumerate(programs) for cone in program.cones]
        self.rows = sparse.csc_matrix(sparse.vstack(blocks))
        self.right = np.zeros(self.rows.shape[0])
        self.right[: len(programs)] = 1.0

    def read(self, form: LiftedForm, place: int, dual: Array) -> Multipliers:
        """The multipliers of one parameter from all dual variables."""
        program, count = self.programs[place], len(self.programs)
        forces = dual[count : self.zeros].reshape(count - 1, self.linked)
        own = forces[place] if place < count - 1 else -forces.sum(axis=0)
        links = []
        for slots in program.slots:
            values = own[slots.start - program.slots[0].start : slots.stop - program.slots[0].start]
            size = int((np.sqrt(8 * values.size + 1) - 1) / 2)
            p, q = np.triu_indices(size)
            link = np.zeros((size, size))
            link[p, q] = link[q, p] = values * np.where(p == q, 1.0, 0.5)
            links.append(link)
        cones = len(program.cones)
        ends = self.zeros + count + np.cumsum([size * (size + 1) // 2 for size in self.sizes])
        matrices = [
            _matrix(dual[end - size * (size + 1) // 2 : end])
            for size, end in zip(self.sizes, ends, strict=True)
        ]
        weight = max(0.0, float(dual[self.zeros + place]))
        return multipliers_from_duals(form, weight, matrices[place * cones : (place + 1) * cones], links)

    def _row(self, place: int, values: Array, last: float) -> Any:
        row = np.zeros(self.total)
        row[self.starts[place] : self.starts[place] + values.size] = values
        row[-1] = last
        return sparse.csr_matrix(row)

    def _traces(self, place: int) -> Any:
        """tr_2 X̂_i, one row per slot of an X_i."""
        program = self.programs[place]
        diagonal = np.flatnonzero(program.trace)
        rows = np.repeat(np.arange(self.linked), diagonal.size)
        slots = program.slots[0].start + rows
        columns = self.starts[place] + slots * program.trace.size + np.tile(diagonal, self.linked)
        return sparse.csr_matrix((np.ones(rows.size), (rows, columns)), shape=(self.linked, self.total))

    def _cone(self, place: int, cone: Array) -> Any:
        """The upper triangle of a cone's matrix, column by column, entries off the diagonal times √2."""
        n = self.programs[place].n
        column, row = np.tril_indices(cone.shape[0] * n)
        scale = np.where(row == column, 1.0, np.sqrt(2.0))
        low, high = np.minimum(row % n, column % n), np.maximum(row % n, column % n)
        pairs = low * n - low * (low - 1) // 2 + high - low
        values = cone[row // n, column // n] * scale[:, None]
        at, slot = np.nonzero(values)
        columns = self.starts[place] + slot * (n * (n + 1) // 2) + pairs[at]
        return sparse.csr_matrix((values[at, slot], (at, columns)), shape=(row.size, self.total))


def _matrix(triangle: Array) -> Array:
    size = int((np.sqrt(8 * triangle.size + 1) - 1) / 2)
    column, row = np.tril_indices(size)
    matrix = np.zeros((size, size))
    matrix[row, column] = matrix[column, row] = triangle * np.where(row == column, 1.0, np.sqrt(0.5))
    return matrix
