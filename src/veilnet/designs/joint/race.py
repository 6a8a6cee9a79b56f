"""Several starts side by side: after each round of steps the worse half is dropped, and the leaders go on to the end.

There they are snapped to exact zeros and ones and made exactly feasible. Nonconvex: the best is the answer, among
plans known beforehand too, and how many agreed with it is reported. Rows and streams are raced alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from veilnet._core.progress import Teller
from veilnet._core.types import Array
from veilnet.designs.joint.objective import Objective
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.run import Run, toward_vertex
from veilnet.designs.joint.settings import SETTINGS, Pace
from veilnet.designs.joint.snap import Finished, retreat, simplest_near


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
        self.finished: list[tuple[Finished, Run | None]] = []
        if refuge is not None:
            self.finished.append((retreat(objective, problem, refuge), None))

    def know(self, plans: Iterable[list[Array]]) -> None:
        """Take plans into account that were found elsewhere, where they reach what is asked."""
        for shrink in plans:
            at = self.objective(shrink)
            if self.problem.safe(at):
                self.finished.append((Finished(shrink, at, self.problem.value(at)), None))

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
        self.finished.append((simplest_near(self.objective, run.problem, run.shrink), run))

    def stop(self) -> None:
        """Hand out the best so far of a search that was stopped."""
        leading = [run for run in self.runs if run.iterations]
        if leading and not any(run for _, run in self.finished):
            self.finish(min(leading, key=lambda each: each.estimate))

    def best(self) -> tuple[Finished, Run | None]:
        """The best plan, and the run that found it."""
        return min(self.finished, key=lambda pair: pair[0].value)

    def result(self, *, interrupted: bool = False) -> JointResult:
        """The best plan, and how the race went."""
        winner, run = self.best()
        residual, history = np.inf, []
        if run is not None:
            residual = toward_vertex(self.objective, run.problem, winner.at, winner.shrink)[0]
            history = [(loss, self.problem.level(privacy)) for loss, privacy in run.history]
        near = [each.estimate <= winner.value + SETTINGS.agree for each in self.runs if each.iterations]
        return JointResult(
            winner.shrink,
            winner.at.loss,
            self.objective.with_infinities(winner.shrink, winner.at.privacy),
            len(self.runs),
            max(sum(near), 1),
            sum(each.iterations for each in self.runs),
            residual,
            interrupted,
            history,
        )
