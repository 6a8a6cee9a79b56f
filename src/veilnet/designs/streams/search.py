"""Searching a stream's trade-offs from several starts: the augmented Lagrangian runs of the joint solver, raced.

Every start is advanced a little, the worse half dropped, and so on; the last ones are taken to convergence, snapped
to exact zeros and ones and made exactly feasible. The best is kept, among plans known beforehand too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from veilnet._core.types import Array
from veilnet.designs.joint.problem import Problem
from veilnet.designs.joint.run import Run
from veilnet.designs.joint.snap import Finished, finish
from veilnet.designs.joint.telling import Teller
from veilnet.designs.streams.objective import StreamObjective


@dataclass(frozen=True)
class StreamSettings:
    """How long and where the search looks; none of it enters a promise.

    race_rounds: steps between updates of the multipliers in each round, after which the worse half is dropped.
    coarse:      least noises of messages that searches begin with: with much noise there are fewer dead ends, with
                 little a small loss is still seen.
    last_steps:  steps between updates of the multipliers towards the end.
    step_tolerance: a decrease that counts as none. gap, infeasibility: what counts as converged.
    memory:      steps that a minimisation remembers: these problems are stiff, and many pay.
    cold_margin, warm_margin, near_margin, fine_margin: how far starts are drawn away from exact zeros and ones; with
                 the last they count as nearly optimal.
    agree:       in log loss, starts that ended so near the best agree with it.
    """

    race_rounds: tuple[tuple[int, ...], ...] = ((20, 20, 30), (40, 40))
    coarse: tuple[float, ...] = (1e-7, 1e-4)
    last_steps: int = 60
    step_tolerance: float = 1e-8
    gap: float = 3e-5
    infeasibility: float = 1e-5
    memory: int = 50
    cold_margin: float = 0.15
    near_margin: float = 1e-3
    warm_margin: float = 1e-2
    fine_margin: float = 1e-5
    agree: float = 1e-3


STREAM_SETTINGS = StreamSettings()


@dataclass(frozen=True, eq=False)
class Start:
    """A point to begin at, and how far it is drawn away from exact zeros and ones."""

    shrink: list[Array]
    margin: float


@dataclass(eq=False)
class Race:
    """A search under way, kept outside its loops so that stopping it loses nothing.

    rounds:   at most so many updates of the multipliers on the way to convergence.
    finished: plans that reach what is asked, each with the run that found it; None for plans known beforehand.
    """

    objective: StreamObjective
    problem: Problem
    tell: Teller
    rounds: int
    runs: list[Run] = field(default_factory=list)
    finished: list[tuple[Finished, Run | None]] = field(default_factory=list)

    def know(self, plans: Iterable[list[Array]]) -> None:
        """Take plans into account that were found elsewhere, where they reach what is asked."""
        for shrink in plans:
            at = self.objective(shrink)
            if self.problem.safe(at):
                self.finished.append((Finished(shrink, at, self.problem.value(at)), None))

    def run(self, starts: Sequence[Start], finishers: int, finest: float) -> None:
        """Race the starts where the least noise is ``finest``, settle as many as asked, take the best to the end.

        The first start is never dropped.
        """
        coarse = self.objective.coarser(finest)
        racing = [self._begin(start, coarse) for start in starts]
        favourite = racing[0]
        rounds = STREAM_SETTINGS.race_rounds if len(racing) > finishers else ()
        for number, steps in enumerate(rounds):
            for done, run in enumerate(racing):
                for count in steps:
                    self._advance(run, count)
                self.tell(f"round {number + 1} of {len(rounds)}", (done + 1) / len(racing))
            racing.sort(key=lambda run: (run is not favourite, run.estimate))
            racing = racing[: max(finishers, -(-len(racing) // 2))]
        for done, run in enumerate(racing[:finishers]):
            self._settle(run, done / finishers)
        best = min(racing[:finishers], key=lambda run: run.estimate)
        settled = finish(coarse, best.problem, best.shrink).shrink
        if coarse is not self.objective:
            settled = self.objective.finer(coarse, settled)
        self.know([settled])
        self.polish(Start(settled, STREAM_SETTINGS.fine_margin))

    def polish(self, start: Start) -> None:
        """Take one start to convergence."""
        run = self._begin(start, self.objective)
        self._settle(run, 0.0)
        self.finished.append((finish(self.objective, run.problem, run.shrink), run))

    def _settle(self, run: Run, part: float) -> None:
        for _ in range(self.rounds):
            if run.converged(STREAM_SETTINGS.gap, STREAM_SETTINGS.infeasibility):
                break
            self._advance(run, STREAM_SETTINGS.last_steps)
            self.tell("convergence", part)

    def stop(self) -> None:
        """Hand out the best so far of a search that was stopped."""
        leading = [run for run in self.runs if run.iterations]
        if leading and not any(run for _, run in self.finished):
            run = min(leading, key=lambda each: each.estimate)
            self.finished.append((finish(self.objective, run.problem, run.shrink), run))

    def best(self) -> tuple[Finished, Run | None]:
        """The best plan, and the run that found it."""
        return min(self.finished, key=lambda pair: pair[0].value)

    def agreeing(self, value: float) -> int:
        """How many runs ended at the best value."""
        return sum(run.estimate <= value + STREAM_SETTINGS.agree for run in self.runs if run.iterations)

    def _begin(self, start: Start, objective: StreamObjective) -> Run:
        primed = start.margin <= STREAM_SETTINGS.fine_margin
        run = Run(
            objective,
            self.problem.copy(),
            start.shrink,
            start.margin,
            primed=primed,
            memory=STREAM_SETTINGS.memory,
        )
        self.runs.append(run)
        return run

    def _advance(self, run: Run, steps: int) -> None:
        if not run.converged(STREAM_SETTINGS.gap, STREAM_SETTINGS.infeasibility):
            run.advance(steps, STREAM_SETTINGS.step_tolerance)


def embedded(objective: StreamObjective, plain: StreamObjective, shrink: Sequence[Array]) -> list[Array]:
    """A memoryless plan among those with memory: readings come first in every agent's knowledge."""
    by_agent: dict[int, Array] = {}
    for group, stack in zip(plain.groups, shrink, strict=True):
        by_agent.update(zip(group.agents.tolist(), stack, strict=True))
    made = []
    for group in objective.groups:
        stack = np.zeros((group.count, group.size, group.size))
        for place, agent in enumerate(group.agents.tolist()):
            x = by_agent[agent]
            stack[place, : len(x), : len(x)] = x
        made.append(stack)
    return made


def projectors(objective: StreamObjective, rows: Sequence[Array]) -> list[Array]:
    """Projectors onto the span of each agent's rows: these sent without noise, and nothing else."""
    made = []
    for group in objective.groups:
        stack = np.zeros((group.count, group.size, group.size))
        for place, agent in enumerate(group.agents.tolist()):
            _, sizes, right = np.linalg.svd(rows[agent], full_matrices=False)
            kept = right[sizes > 1e-12 * sizes.max(initial=0.0)]
            stack[place] = kept.T @ kept
        made.append(stack)
    return made
