"""Several starts side by side: after each round of steps the worse half is dropped, and the leaders go on to the end.

There they are snapped to exact zeros and ones and made exactly feasible. Nonconvex: the best is the answer, among
plans known beforehand too, and how many agreed with it is reported. Rows and streams are raced alike.

Eigenvalues near 0 and 1 are set to 0 and 1 (a direction withheld, a direction sent without noise). What that
costs in feasibility is repaired by Newton steps inside the face that is left: eigenvectors turn, fractional
eigenvalues move. At a KKT point every direction in the face buys privacy at the same price, so the least-norm
step is as good as any. If the face has no room, X is shrunk as a whole, which raises every privacy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from veilnet._core.progress import Teller
from veilnet._core.types import Array
from veilnet.designs.joint.objective import Evaluation, Objective
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.run import Run, toward_vertex
from veilnet.designs.joint.settings import SETTINGS, Pace


@dataclass(frozen=True, eq=False)
class JointResult:
    """What the joint solver found, and how.

    shrink: X per size group, (count, n, n), symmetric with eigenvalues in [0, 1].
    loss, privacy: at that X; every target is met, not by rounding only.
    starts, agreed: starts run (disturbed copies of the leaders included), and how many of them ended within
    1e-3 of the best objective; those dropped on the way seldom do.
    iterations: of all starts together. kkt_residual: the relative improvement a first-order model of the
    Lagrangian still promises (Frank-Wolfe gap), dimensionless.
    history: per outer iteration of the winning start, (loss, least privacy / target).
    multipliers: of the targets, (J,), where they prove that nothing is better; None where they do not.
    """

    shrink: list[Array]
    loss: float
    privacy: Array
    starts: int
    agreed: int
    iterations: int
    kkt_residual: float
    interrupted: bool
    history: list[tuple[float, float]]
    multipliers: Array | None = None


class Race:
    """A search under way, kept outside its loops so that stopping it loses nothing.

    refuge:   X that is handed out, retreated to where every constraint holds, as long as nothing better is known.
    runs:     every start.
    finished: plans that reach what is asked, each with the run that found it; None for plans known beforehand.
    """

    def __init__(
        self,
        objective: Objective,
        problem: LeastLoss,
        tell: Teller,
        pace: Pace,
        refuge: list[Array] | None = None,
    ) -> None:
        self.objective, self.problem, self.tell, self.pace = objective, problem, tell, pace
        self.runs: list[Run] = []
        self.finished: list[tuple[Evaluation, Run | None]] = []
        if refuge is not None:
            self.finished.append((retreat(objective, problem, refuge), None))

    def know(self, plans: Iterable[list[Array]]) -> None:
        """Take plans into account that were found elsewhere, where they reach what is asked."""
        known = map(self.objective, plans)
        self.finished += [(plan, None) for plan in known if self.problem.safe(plan)]

    def begin(self, shrink: list[Array], margin: float, *, primed: bool = False) -> Run:
        """One more start, its eigenvalues drawn away from 0 and 1 by a margin."""
        run = Run(self.objective, self.problem.copy(), shrink, margin, primed=primed, memory=self.pace.memory)
        self.runs.append(run)
        return run

    def advance(self, run: Run, steps: Sequence[int], jump: float = 0.0) -> None:
        """So many steps between one update of the multipliers and the next, unless it has converged."""
        for count in steps:
            if not run.converged(SETTINGS.gap, SETTINGS.infeasibility):
                run.advance(count, self.pace.tolerance, jump)

    def leaders(self) -> list[Run]:
        """Advance all starts, keep the better half, again; the last few, best first. The first is never dropped."""
        racing, few = list(self.runs), self.pace.finishers
        favourite = racing[0] if racing and self.pace.favourite else None
        rounds = self.pace.rounds if len(racing) > few or not self.pace.favourite else ()
        for number, (steps, jump) in enumerate(rounds):
            for done, run in enumerate(racing):
                self.advance(run, steps, jump)
                self.tell(f"round {number + 1} of {len(rounds)}", (done + 1) / len(racing))
            racing.sort(key=lambda run: (run is not favourite, run.estimate))
            racing = racing[: max(few, -(-len(racing) // 2))]
        return racing[:few]

    def converge(
        self, run: Run, rounds: int | None = None, steps: int | None = None, *, to_beat: float = np.inf
    ) -> None:
        """Advance a start until it has converged, or has no hope to fall below ``to_beat`` in the rounds left."""
        for left in range(self.pace.last_rounds if rounds is None else rounds, 0, -1):
            if run.converged(SETTINGS.gap, SETTINGS.infeasibility):
                break
            before = run.estimate
            run.advance(self.pace.last_steps if steps is None else steps, self.pace.tolerance)
            if run.estimate - to_beat > max(before - run.estimate, 0.0) * left:
                return
        self.finish(run)

    def polish(
        self,
        points: Sequence[list[Array]],
        margin: float,
        rounds: int | None = None,
        steps: int | None = None,
        *,
        rivals: bool = False,
    ) -> None:
        """Take points that are nearly optimal to convergence, each on its own.

        Of ``rivals`` those are given up that, at the pace of their last round, would not overtake the best so far.
        """
        for done, point in enumerate(points):
            run = self.begin(point, margin, primed=True)
            to_beat = self.best()[0].value if rivals and self.finished else np.inf
            self.converge(run, rounds, steps, to_beat=to_beat)
            self.tell("convergence", (done + 1) / len(points))

    def finish(self, run: Run) -> None:
        """Hand out what a start has reached."""
        self.finished.append((simplest_near(self.objective, run.problem, run.at.shrink), run))

    def stop(self) -> None:
        """Hand out the best so far of a search that was stopped."""
        leading = [run for run in self.runs if run.iterations]
        if leading and not any(run for _, run in self.finished):
            self.finish(min(leading, key=lambda each: each.estimate))

    def best(self) -> tuple[Evaluation, Run | None]:
        """The best plan, and the run that found it."""
        return min(self.finished, key=lambda pair: pair[0].value)

    def result(self, *, interrupted: bool = False) -> JointResult:
        """The best plan, and how the race went."""
        winner, run = self.best()
        residual, history = np.inf, []
        if run is not None:
            residual = toward_vertex(self.objective, run.problem, winner)[0]
            history = [(loss, self.problem.level(privacy)) for loss, privacy in run.history]
        near = [each.estimate <= winner.value + SETTINGS.agree for each in self.runs if each.iterations]
        return JointResult(
            winner.shrink,
            winner.loss,
            self.objective.with_infinities(winner.shrink, winner.privacy),
            len(self.runs),
            max(sum(near), 1),
            sum(each.iterations for each in self.runs),
            residual,
            interrupted,
            history,
        )


_LONGEST_STEP = 0.5


@dataclass(frozen=True, eq=False)
class _Face:
    """X by eigenvectors and eigenvalues; eigenvalues that are exactly 0 or 1 stay."""

    vectors: list[Array]
    values: list[Array]

    def shrink(self) -> list[Array]:
        made = []
        for vectors, values in zip(self.vectors, self.values, strict=True):
            x = (vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1)
            made.append((x + x.transpose(0, 2, 1)) / 2)
        return made

    def tangent(self, gradients: list[Array]) -> tuple[list[Array], list[Array]]:
        """Gradient by rotations (skew) and by fractional eigenvalues, from the gradient by X."""
        turns, moves = [], []
        for vectors, values, gradient in zip(self.vectors, self.values, gradients, strict=True):
            inner = vectors.transpose(0, 2, 1) @ gradient @ vectors
            turns.append(inner * (values[:, None, :] - values[:, :, None]))
            free = (values > 0) & (values < 1)
            moves.append(np.where(free, np.einsum("kii->ki", inner), 0.0))
        return turns, moves

    def moved(self, turns: list[Array], moves: list[Array]) -> _Face:
        """The face after rotating by the Cayley transform of ``turns`` and shifting eigenvalues."""
        vectors, values = [], []
        for v, d, turn, move in zip(self.vectors, self.values, turns, moves, strict=True):
            identity = np.eye(v.shape[1])
            vectors.append(v @ np.linalg.solve(identity - turn / 2, identity + turn / 2))
            values.append(np.clip(d + move, 0.0, 1.0))
        return _Face(vectors, values)


def simplest_near(objective: Objective, problem: LeastLoss, shrink: list[Array]) -> Evaluation:
    """The simplest feasible X near ``shrink``: as many exact zeros and ones as cost next to nothing."""
    decomposed = [np.linalg.eigh(x) for x in shrink]
    best: Evaluation | None = None
    tried: list[Evaluation] = []
    counts: set[tuple[int, ...]] = set()
    for threshold in SETTINGS.snap_thresholds:
        near = ((d, d <= threshold, d >= 1 - threshold) for d, _ in decomposed)
        values = [np.where(low, 0.0, np.where(high, 1.0, d)) for d, low, high in near]
        pattern = tuple(int(((d > 0) & (d < 1)).sum()) for d in values)
        if pattern in counts:
            continue
        counts.add(pattern)
        repaired = _repair(objective, problem, _Face([v for _, v in decomposed], values))
        if repaired is not None:
            tried.append(repaired)
            if best is None or repaired.value < best.value:
                best = repaired
    if best is None:
        return retreat(objective, problem, shrink)
    return next(candidate for candidate in tried if candidate.value <= best.value + SETTINGS.snap_price)


def retreat(objective: Objective, problem: LeastLoss, shrink: list[Array]) -> Evaluation:
    """The feasible point reached by giving way as a whole: crude, but it always exists."""
    return objective(problem.retreat(objective, [_clipped(x) for x in shrink]))


def _clipped(x: Array) -> Array:
    values, vectors = np.linalg.eigh(x)
    clipped: Array = (vectors * np.clip(values, 0, 1)[:, None, :]) @ vectors.transpose(0, 2, 1)
    return clipped


def _repair(objective: Objective, problem: LeastLoss, face: _Face) -> Evaluation | None:
    """Newton steps inside the face until every constraint holds with a whisker to spare."""
    groups = len(face.values)
    for _ in range(SETTINGS.snap_steps):
        at = objective(face.shrink())
        if not np.isfinite(at.loss):
            return None
        wanting, weights = problem.wanting(at)
        if wanting.size == 0 and problem.safe(at):
            return at
        tangents = [face.tangent(objective.gradient(at, float(weight[0]), weight[1:])) for weight in weights]
        flat = np.array(
            [np.concatenate([part.reshape(-1) for part in turns + moves]) for turns, moves in tangents]
        )
        gram = flat @ flat.T
        if not np.all(np.isfinite(gram)) or not np.any(np.diag(gram) > 0):
            return None
        pull = np.linalg.lstsq(gram, wanting, rcond=1e-12)[0]
        length = float(np.abs(pull @ flat).max())
        pull *= min(1.0, _LONGEST_STEP / max(length, np.finfo(float).tiny))
        face = face.moved(
            *(
                [
                    sum(a * each[kind][g] for a, each in zip(pull, tangents, strict=True))
                    for g in range(groups)
                ]
                for kind in (0, 1)
            )
        )
    at = objective(face.shrink())
    return at if problem.safe(at) else None
