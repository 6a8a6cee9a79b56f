"""The numbers of the search for a trade-off, all in one place, each with the reason for its value.

None of them enters a promise: they decide how long and where the solver looks, and what it finds is verified from
scratch. (Guards against overflow and rounding stay where they are used.) The numbers of the race were chosen on eight
of the hardest networks of the paper's size, those where random starts end 2 to 100 % apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from veilnet._core.progress import Progress, Teller
from veilnet.bounds.streams.gaps import GAP_PRIVACY


@dataclass(frozen=True)
class Pace:
    """How long starts are raced, and how closely.

    rounds:      per round, steps between updates of the multipliers, and how far a start then jumps towards the
                 projectors its Lagrangian wishes for; after each round the worse half is dropped.
    finishers:   how many leaders are taken to convergence.
    favourite:   whether the first start always is, and no race is run where all would be.
    last_rounds, last_steps: of the way to convergence.
    tolerance:   decrease of the merit (a logarithm) below which a minimisation stops.
    memory:      steps that the quasi-Newton method remembers.
    """

    rounds: tuple[tuple[tuple[int, ...], float], ...]
    finishers: int
    favourite: bool
    last_rounds: int
    last_steps: int
    tolerance: float
    memory: int


# Jumps carry a start of rows from basin to basin; half as many rounds, or shorter ones, missed the best basin.
ROWS = Pace(
    rounds=(((15, 15, 20, 30), 0.9), ((30, 40), 0.9), ((40, 60), 0.9), ((60,), 0.0)),
    finishers=2,
    favourite=False,
    last_rounds=30,
    last_steps=100,
    tolerance=1e-7,
    memory=12,
)
# A step costs a steady state, so there are fewer; the problems are stiff, and many remembered steps pay. Share
# filters, the first start, are where losses are least: what looks worse there early on is often the best in the
# end.
STREAM = Pace(
    rounds=(((20, 20, 30), 0.0), ((40, 40), 0.0)),
    finishers=2,
    favourite=True,
    last_rounds=12,
    last_steps=60,
    tolerance=1e-8,
    memory=50,
)
# A step of a joint state of more than 60 numbers costs so much that one leader has to do, and four rounds of it.
LARGE_STREAM = Pace(STREAM.rounds, 1, True, 4, STREAM.last_steps, STREAM.tolerance, STREAM.memory)


@dataclass(frozen=True)
class SearchSettings:
    """How trade-offs are searched for; lengths and tolerances of logarithms where nothing else is said."""

    # Copies of the leaders are disturbed in turn: this part of the agents hides another of so many directions that
    # the centre knows little of (which tells one basin from another), that part falls silent, or all are softened.
    hiding_part: float = 0.8
    little_known: int = 3
    silent_part: float = 0.2
    kick_margin: float = 0.05
    kick_jump: float = 0.9
    # Steps of a copy; of one that came this close to its parent; and how far below it replaces the parent.
    kick_steps: tuple[int, ...] = (20, 30, 40)
    settle_steps: tuple[int, ...] = (60, 80)
    promising: float = 0.05
    better: float = 1e-5
    # Σ n_i² of the agents up to which a start costs so little that every agent is turned about in turn.
    small_entries: int = 150
    # Rounds and steps for a plan that was nearly optimal before: it needs a few dozen steps, or has lost its way.
    polish: tuple[int, int] = (10, 50)
    # Frank-Wolfe gap and violation at which a start has converged: a tenth of what a plan's loss is shown with.
    gap: float = 3e-5
    infeasibility: float = 1e-5
    # The small jump that frees eigenvalues resting at 0 or 1, and the progress without which a start has settled.
    escape: float = 0.02
    worthwhile: float = 1e-6
    # A start that ends within this of the best counts as agreeing with it.
    agree: float = 1e-3
    # How far eigenvalues are drawn from 0 and 1: of a start, so that every derivative shows; of a mixture of plans;
    # of a plan near by, whose zeros and ones mostly stay; of an answer that is looked at again; of one that is
    # exact.
    cold_margin: float = 0.15
    mixed_margin: float = 1e-2
    warm_margin: float = 1e-3
    soft_margin: float = 0.02
    fine_margin: float = 1e-5
    # Least noises of a stream's messages that its searches begin with: with much noise there are fewer dead ends,
    # with little a small loss is still seen.
    coarse: tuple[float, ...] = (1e-7, 1e-4)

    # The augmented Lagrangian: weak at first, so that starts move; stronger where a plan is nearly optimal.
    first_penalty: float = 3.0
    primed_penalty: float = 30.0
    penalty_growth: float = 3.0
    penalty_limit: float = 1e7
    # The violation below which the gradients say what the multipliers are.
    nearly_feasible: float = 0.05
    # How near to 0 and 1 eigenvalues are set to them, what that may cost, and Newton steps that repair the privacy.
    snap_thresholds: tuple[float, ...] = (0.1, 0.03, 1e-2, 1e-3, 1e-4, 1e-6, 1e-9)
    snap_price: float = 1e-5
    snap_steps: int = 12
    # Directions of x worth hiding: how many are tried, how each is optimised, and the cosine that makes two one.
    direction_trials: int = 24
    direction_steps: int = 40
    direction_tolerance: float = 1e-3
    same_direction: float = 0.95
    # Steps remembered where X has more entries than this: more of them would outweigh the network.
    memory_of_many: int = 4
    many_entries: int = 500_000

    # Networks are raced at levels whose 1 + p grow by this factor, with half the starts; plans between two of them
    # are reached from both, so that the leaders need not converge there.
    rung: float = 3.0
    rung_rounds: int = 2
    # On small networks every answer is compared with that at the next of levels whose log(1 + p) are so far apart.
    step: float = 0.15
    # Privacy beyond this is had by knowing nothing of some direction of x, or not at all.
    far: float = 1e4
    # A loss is flat where it is so near, relative, to that of a level far above: there so many levels are looked at
    # again that a quick look finds too dear.
    flat: float = 1e-3
    second_looks: int = 4
    # Where a loss is below the price of a plan for every level by less than this part of it, a logarithm of the
    # loss is worth the inverse of the part saved of privacy's, at most so much; the first penalty grows by a part
    # of that, lest privacy be sold. One margin after the other is tried until one adds less than a part to what is
    # saved.
    flat_part: float = 0.01
    sharpest: float = 1e6
    sharp_penalty: float = 1e-3
    sharp_margins: tuple[float, ...] = (1e-3, 1e-5, 1e-3, 1e-5)
    worth_saving: float = 2e-3
    # How closely the mixture of two plans that just hides enough is found, relative to the lesser part in it.
    between_tolerance: float = 1e-3
    # Within this part above the ceiling the shares themselves are a start like no other.
    near_ceiling: float = 0.1
    # A level within this part of the limit counts as at it: no margin fits between.
    near_limit: float = 1e-7
    # Losses nearer than this, relative or absolute, count as the same: the recheck allows as much.
    rounding: float = 5e-13
    # How closely the level that a loss buys is bracketed by searches, before one plan is followed to it.
    root_tolerance: float = 5e-3
    root_steps: int = 14
    # Less than this, by which log loss grows with a log level, is said by multipliers that have not settled.
    least_law: float = 0.3

    # Hiding directions of x altogether: sets of agents tried that see nothing of them, directions tried in each
    # subspace, how many of the best are optimised and how far (their price is shown), and how many are kept.
    spared_patterns: int = 64
    hiding_trials: int = 6
    hiding_settled: int = 8
    hiding_steps: int = 200
    hiding_tolerance: float = 1e-12
    hiding_kept: int = 3
    # A hidden direction must move a parameter by this much of its raw deviation; a cheap one that does not is
    # tilted.
    moved: float = 1e-3
    tilt: float = 0.01

    # Every direction of a parameter: how far above the target the most exposed is aimed at, round by round; new
    # ones close in on the target slowly, and asking a little more of them ends it.
    worst_margins: tuple[float, ...] = (1e-8,) * 5 + (1e-7, 1e-6, 1e-5, 1e-5, 3e-5, 1e-4, 1e-4, 3e-4, 1e-3)


SETTINGS = SearchSettings()
"""What every search uses."""


@dataclass(frozen=True)
class SearchOptions:
    """What a caller says of a search.

    starts:   how many; None for as many as suit the size.
    seed:     what they are drawn from.
    progress: called with what is being done.
    expected: whether a search was asked for by name: then it is said where a closed form answers instead.
    sketch:   of a stream, a curve to look at: plans are confirmed without what gaps leave, and levels of a large one
              are followed from what is free.
    """

    starts: int | None = None
    seed: int = 0
    progress: Progress | None = None
    expected: bool = False
    sketch: bool = False

    @property
    def gap_privacy(self) -> float | None:
        """What plans have to leave around a gap; None where that is not computed."""
        return None if self.sketch else GAP_PRIVACY

    @property
    def tell(self) -> Teller:
        """Progress as the solvers report it."""
        return Teller(self.progress)
