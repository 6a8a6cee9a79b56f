"""Trading utility for privacy in rows, all agents at once (mathematics, section 5): a race of many kinds of starts.

The leaders are disturbed and settle again a few times before they are taken to convergence; on small networks the
best is tried with agents turned about, one by one. Starts differ in kind, not only in chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from veilnet._core.progress import Stopped, Teller
from veilnet._core.types import Array
from veilnet.designs.joint.hidden import directions_worth_hiding, hidden_exactly, hiding
from veilnet.designs.joint.objective import Evaluation, JointObjective, Objective
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.race import JointResult, Race, simplest_near
from veilnet.designs.joint.run import Run
from veilnet.designs.joint.settings import ROWS, SETTINGS
from veilnet.model.standard_form import StandardForm


class RowRace(Race):
    """The race of a network in standard form; shares are its refuge."""

    objective: JointObjective

    def __init__(self, objective: JointObjective, problem: LeastLoss, tell: Teller) -> None:
        super().__init__(objective, problem, tell, ROWS, objective.shares())

    def finish(self, run: Run) -> None:
        """What a start has reached, with the directions that are hardly known withheld where that is better."""
        finished = simplest_near(self.objective, run.problem, run.at.shrink)
        if np.max(finished.privacy) > SETTINGS.far:
            hidden = best_hidden(self.objective, self.problem, finished.shrink)
            finished = finished if hidden is None or hidden.value > finished.value else hidden
        self.finished.append((finished, run))

    def shake(self, leaders: list[Run], kicks: int, seed: int) -> None:
        """Disturb the leaders in turn and let them settle again; one that does better replaces its parent."""
        rng = np.random.default_rng([seed, 1])
        for number in range(kicks):
            place = number % len(leaders)
            point, margin = disturbed(self.objective, leaders[place].at.shrink, number, rng)
            leaders[place] = self._better(leaders[place], point, margin, SETTINGS.kick_jump)
            self.tell("disturbing the best", (number + 1) / kicks)

    def turn(self) -> None:
        """Try the best with one agent silent, or sending all it has, each in turn.

        Descent does not take an agent there where everything in between is dearer.
        """
        reached = [(finished, run) for finished, run in self.finished if run is not None]
        finished, run = min(reached, key=lambda pair: pair[0].value)
        leader = run
        points = turned_about(finished.shrink)
        for done, point in enumerate(points):
            # Where everything is sent, the logarithm of a privacy has no slope to follow.
            if self.problem.level(self.objective(point).privacy) > SETTINGS.rounding:
                leader = self._better(leader, point, 0.0, SETTINGS.escape)
            self.tell("turning agents", (done + 1) / len(points))
        if leader is not run:
            self.converge(leader)

    def soften(self) -> None:
        """Polish the best once more, its zeros and ones softened so that those that rest there wrongly come free."""
        for _ in range(SETTINGS.second_looks):
            best = self.best()[0]
            self.polish([best.shrink], SETTINGS.soft_margin, steps=SETTINGS.polish[1])
            if self.finished[-1][0].value > best.value - SETTINGS.better:
                return

    def _better(self, parent: Run, point: list[Array], margin: float, jump: float) -> Run:
        """A disturbed copy of a start that has settled where it does better, else its parent."""
        kicked = self.begin(point, margin)
        self.advance(kicked, SETTINGS.kick_steps, jump)
        if kicked.estimate < parent.estimate + SETTINGS.promising:
            self.advance(kicked, SETTINGS.settle_steps)
        return kicked if kicked.estimate < parent.estimate - SETTINGS.better else parent


def least_loss_problem(objective: JointObjective, targets: Array) -> LeastLoss:
    """The problem of least loss, privacy counted in units of the room there is."""
    shares, silence = objective.shares(), objective.silent
    return LeastLoss.between(targets, objective(shares).privacy, objective(silence).privacy)


def is_small(form: StandardForm) -> bool:
    """Whether a start costs so little that one more for every agent is no matter."""
    return int((form.blocks.sizes**2).sum()) <= SETTINGS.small_entries


def default_starts(form: StandardForm) -> int:
    """Fewer for large networks, where the starts agree more and each costs more."""
    entries = int((form.blocks.sizes**2).sum())
    return 10 if entries <= 2_000 else 6 if entries <= 8_000 else 2


def solve(
    form: StandardForm,
    objective: JointObjective,
    problem: LeastLoss,
    starts: int,
    warm: Sequence[list[Array]],
    seed: int,
    tell: Teller,
    *,
    rounds: int | None = None,
) -> JointResult:
    """A race of ``starts`` cold starts and of warm ones; the best, and whether the search was stopped.

    The leaders are taken to convergence in at most so many ``rounds``.
    """
    race = RowRace(objective, problem, tell)
    interrupted = False
    try:
        for point in warm:
            race.begin(point, SETTINGS.warm_margin)
        judge = problem.copy()
        judge.restart(race.best()[0], race.best()[0])
        for point in starting_points(form, objective, judge, starts, seed):
            race.begin(point, SETTINGS.cold_margin)
        leaders = race.leaders()
        if starts > 1:
            race.shake(leaders, starts, seed)
        for done, run in enumerate(leaders):
            race.converge(run, rounds)
            tell("convergence", (done + 1) / len(leaders))
    except Stopped:
        interrupted = True
        race.stop()
    return race.result(interrupted=interrupted)


def followed(
    objective: JointObjective, problem: LeastLoss, start: list[Array], rounds: int, steps: int
) -> JointResult:
    """One start, nearly optimal, followed for so many rounds of so many steps: for callers in a hurry."""
    race = RowRace(objective, problem, Teller(None))
    race.polish([start], SETTINGS.warm_margin, rounds, steps)
    return race.result()


def spent(
    objective: JointObjective,
    targets: Callable[[float], Array],
    budget: float,
    start: list[Array],
    least: float,
    level: float,
    highest: float,
    rounds: int,
    steps: int,
) -> JointResult | None:
    """One start followed to a level that costs a budget, for callers in a hurry; None where it was not found.

    Between rounds the level moves by what the multipliers say a loss buys.

    targets:        of a level.
    least, level, highest: the start's own, where to begin, and where it ends.
    """
    race = Race(objective, least_loss_problem(objective, targets(level)), Teller(None), ROWS)
    run = race.begin(start, SETTINGS.warm_margin, primed=True)
    problem, law, low, high = run.problem, 1.0, least, highest

    def move(missing: float) -> float:
        nonlocal low, high
        low, high = (max(low, level), high) if missing >= 0 else (low, min(high, level))
        moved = level * float(np.exp(np.clip(missing / law, -1.0, 1.0)))
        if not low < moved < high:  # what the multipliers say is far off
            moved = float(np.expm1((np.log1p(low) + np.log1p(high)) / 2))
        problem.aim(targets(moved), budget)
        return moved

    problem.aim(problem.targets, budget)
    for _ in range(rounds):
        run.advance(steps, ROWS.tolerance)
        rising = targets(1.01 * level) > problem.targets
        law = max(float(problem.worth @ rising), SETTINGS.least_law)
        level = move(np.log(budget) - run.estimate)
    low, high = least, highest
    for _ in range(SETTINGS.root_steps):
        finished = simplest_near(objective, problem, run.at.shrink)
        excess = finished.value - float(np.log(budget))
        if excess <= 0:
            race.finished = [(finished, run)]
        if -SETTINGS.flat < excess <= 0:
            break
        level = move(-excess - SETTINGS.flat / 10)
    return race.result() if race.finished else None


def best_hidden(objective: JointObjective, problem: LeastLoss, shrink: list[Array]) -> Evaluation | None:
    """The best safe point among those that withhold the least known directions altogether."""
    plans = [objective(hidden_exactly(objective, shrink, count)) for count in (1, 2, 3)]
    return min(filter(problem.safe, plans), key=lambda plan: plan.value, default=None)


def starting_points(
    form: StandardForm, objective: JointObjective, problem: LeastLoss, starts: int, seed: int
) -> Iterator[list[Array]]:
    """As many starts as asked, best bets first.

    - every agent sends only its share of the public estimate: perfect utility;
    - every agent hides one direction z of x: those that cost least, those the private rows see most, any;
    - shares disturbed, and random shrinkages.
    """
    rng = np.random.default_rng(seed)
    if starts > 0:
        yield objective.shares()
    if starts < 2:
        return
    blind = unseen_by(form.public)
    principal = np.linalg.svd(np.vstack(form.private) @ blind, full_matrices=False)[2]
    trials = np.vstack([principal[:3], rng.standard_normal((SETTINGS.direction_trials, blind.shape[1]))])
    worth = directions_worth_hiding(objective, problem, blind, trials[: 2 * (starts - 1)])
    share = -(-(starts - 1) // 4)
    chosen = [*worth[:share], *(blind @ row for row in principal[: min(share, 3)])][: starts - 1]
    for direction in chosen:
        yield hiding(objective, direction)
    for number in range(starts - 1 - len(chosen)):
        if number % 3 == 0:
            yield hiding(objective, blind @ rng.standard_normal(blind.shape[1]))
        elif number % 3 == 1:
            yield random_shrink(objective, rng)
        else:
            yield objective.shares(rng.uniform(0.0, 1.0), rng)


def random_shrink(objective: Objective, rng: np.random.Generator) -> list[Array]:
    """Uniform eigenvalues in random directions."""
    points = []
    for group in objective.groups:
        vectors = np.linalg.qr(rng.standard_normal((group.count, group.size, group.size)))[0]
        values = rng.uniform(0.0, 1.0, (group.count, group.size))
        points.append((vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1))
    return points


def turned_about(shrink: list[Array]) -> list[list[Array]]:
    """A known X with one agent silent or sending all it has, each in turn, and all others softened a little.

    Exactly 0 or 1, the agent's X rests where the chart hides its derivative: the others settle around it first.
    """
    soft = SETTINGS.warm_margin
    eased = [(1 - 2 * soft) * x + soft * np.eye(x.shape[1]) for x in shrink]
    points = []
    for group, x in enumerate(shrink):
        identity = np.eye(x.shape[1])
        for agent, own in enumerate(x):
            for turned in (0 * identity, identity):
                if np.abs(own - turned).max() > SETTINGS.warm_margin:
                    point = list(eased)
                    point[group] = eased[group].copy()
                    point[group][agent] = turned
                    points.append(point)
    return points


def disturbed(
    objective: JointObjective, shrink: list[Array], number: int, rng: np.random.Generator
) -> tuple[list[Array], float]:
    """A known X disturbed in one of several ways, by its number; and the margin to start it with.

    What tells one basin from another is mostly which direction of x is hidden. So most or some agents hide another of
    the directions that the centre knows little of; or some fall silent; or all are softened.
    """
    turn, kind = divmod(number, SETTINGS.little_known + 2)
    little_known = objective.least_known(shrink)[1][:, 1 : 1 + SETTINGS.little_known]
    if kind < SETTINGS.little_known and little_known.shape[1]:
        part = SETTINGS.hiding_part
        other = hiding(objective, little_known[:, (kind + turn) % little_known.shape[1]])
    elif kind == SETTINGS.little_known:
        part, other = SETTINGS.silent_part, [0 * x for x in shrink]
    else:
        return shrink, float(rng.uniform(0.05, 0.4))
    points = []
    for x, turned in zip(shrink, other, strict=True):
        chosen = rng.uniform(size=(x.shape[0], 1, 1)) < part
        points.append(np.where(chosen, turned, x))
    return points, SETTINGS.kick_margin


def unseen_by(rows: Array) -> Array:
    """Orthonormal columns that the rows do not see; everything when nothing would be left."""
    _, sizes, right = np.linalg.svd(rows)
    rank = int(np.count_nonzero(sizes > 1e-10 * sizes.max(initial=0.0)))
    return right[rank:].T if rank < right.shape[0] else np.eye(right.shape[0])
