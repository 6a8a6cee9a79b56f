"""The numbers of the search for a trade-off, all in one place.

None of them enters a promise: they decide how long and where the solver looks, and what it finds is verified from
scratch. (Guards against overflow and rounding stay where they are used.) The numbers of the race were chosen on eight
of the hardest networks of the paper's size, those where random starts end 2 to 100 % apart.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchSettings:
    """How the joint solver searches.

    The race (any network), several starts side by side:

    race_rounds:     per round, steps between updates of the multipliers, and how far a start then jumps towards the
                     projectors its Lagrangian wishes for; after each round the worse half is dropped.
    race_jump:       the same jump for disturbed copies.
    hiding_parts, little_known, silent_part, kick_margin: copies of the leaders are disturbed in turn: these parts of
                     the agents hide another of so many directions that the centre knows little of, this part falls
                     silent, or all are softened; eigenvalues are then drawn so far away from 0 and 1.
    memory, memory_of_many, many_entries: steps that a start's quasi-Newton method remembers, fewer where X has more
                     than so many entries: what it remembers would otherwise outweigh the network.
    kick_steps, settle_steps: the same for disturbed copies of the leaders, and for those that look promising.
    promising, better: in log loss, how close to its parent a copy must come to settle, how far below to replace it.
    small_entries:   on networks whose Σ n_i² over the agents stays below this, the best is tried with every agent
                     silent, or sending all it has, in turn.
    finishers:       how many leaders are taken to convergence.
    last_rounds, last_steps: of that; polish_rounds, polish_steps where a plan was nearly optimal before.
    step_tolerance:  decrease of the merit (a logarithm) below which a minimisation stops.
    gap, infeasibility: Frank-Wolfe gap and violation, relative, at which a start has converged.
    escape, open_gap, worthwhile: the small jump that frees eigenvalues resting at 0 or 1 while the gap is open, and
                     the progress (in log loss) without which a start counts as settled.
    agree:           in log loss, how near the best a start must end to count as agreeing with it.
    cold_margin, warm_margin, primed_margin, soft_margin: how far the eigenvalues of a start, of a plan for another
                     level, of a nearly optimal plan and of the answer of a small network, for a last look, are drawn
                     away from 0 and 1.

    first_penalty, primed_penalty, penalty_growth, penalty_limit: of the augmented Lagrangian.
    nearly_feasible: the violation, in logarithms, below which multipliers are fitted to the gradients.
    snap_thresholds, snap_price, snap_steps: how near to 0 and 1 eigenvalues are set to them, what that may cost in
                     log loss, and the Newton steps that repair the privacy.
    direction_trials, trials_per_start, direction_steps, direction_tolerance, same_direction: directions of x worth
                     hiding: how many are tried, how each is optimised, and the cosine that makes two one.

    The curve:

    rung:            networks are raced, with half the starts, at levels whose 1 + p grow by this factor;
                     plans between two of them are reached from both. rung_rounds: of the leaders, which need not
                     converge there.
    step:            on small networks every answer is compared with the one at the next level above, of levels whose
                     log(1 + p) are so far apart.
    far:             privacy beyond this is had by knowing nothing of some direction of x, or not at all.
    flat:            beyond it, a plan so near in loss, relative, to the one for that much is not improved; and a
                     level that a quick look finds dearer than a loss allowed by less than this is looked at again,
                     second_looks of them at most.
    flat_part, sharpest: where a loss is below the price of a plan for every level by less than this part of it, a
                     logarithm of the loss is worth the inverse of the part saved of privacy's, at most so much.
    sharp_margins, worth_saving: how far eigenvalues are then drawn away from 0 and 1, one attempt after the other,
                     until one adds less than this part to what is saved. sharp_penalty: by how much of the sharpness
                     the first penalty grows, lest privacy be sold for a loss that now weighs so much.
    between_tolerance, least_part: how closely the mixture of two plans that just hides enough is found, relative to
                     the lesser part in it, which need not be less than the second.
    near_ceiling:    within this part above the ceiling the shares themselves are a start like no other.
    near_limit:      a level within this part of the limit counts as at it.
    rounding:        losses nearer than this, relative or absolute, count as the same.
    root_tolerance:  in log level, how closely the level that a loss buys is bracketed; root_steps at most.

    Hiding directions of x altogether:

    spared_patterns: at most so many sets of agents are tried that see nothing of the hidden direction.
    hiding_trials, hiding_settled: directions tried in each subspace, and how many of the best are optimised.
    hiding_steps, hiding_tolerance: of that optimisation. hiding_kept: ways of hiding that are kept.
    moved:           a hidden direction must move a parameter by this much of its raw deviation.
    tilt:            how far a cheap direction that leaves a parameter alone is tilted towards one that moves it.

    Every direction of a parameter:

    worst_margins:   per round of adding the direction that is most exposed, how far above the target it is aimed at,
                     relative; the first is enough to stop.
    """

    race_rounds: tuple[tuple[tuple[int, ...], float], ...] = (
        ((15, 15, 20, 30), 0.9),
        ((30, 40), 0.9),
        ((40, 60), 0.9),
        ((60,), 0.0),
    )
    race_jump: float = 0.9
    hiding_parts: tuple[float, ...] = (0.8, 0.8, 0.8)
    little_known: int = 3
    silent_part: float = 0.2
    kick_margin: float = 0.05
    kick_steps: tuple[int, ...] = (20, 30, 40)
    settle_steps: tuple[int, ...] = (60, 80)
    promising: float = 0.05
    better: float = 1e-5
    finishers: int = 2
    last_rounds: int = 30
    last_steps: int = 100
    polish_rounds: int = 10
    polish_steps: int = 50
    step_tolerance: float = 1e-7
    gap: float = 3e-5
    infeasibility: float = 1e-5
    escape: float = 0.02
    open_gap: float = 3e-5
    worthwhile: float = 1e-6
    agree: float = 1e-3
    cold_margin: float = 0.15
    warm_margin: float = 1e-3
    soft_margin: float = 0.02
    primed_margin: float = 1e-3
    first_penalty: float = 3.0
    primed_penalty: float = 30.0
    penalty_growth: float = 3.0
    penalty_limit: float = 1e7
    nearly_feasible: float = 0.05
    snap_thresholds: tuple[float, ...] = (0.1, 0.03, 1e-2, 1e-3, 1e-4, 1e-6, 1e-9)
    snap_price: float = 1e-5
    snap_steps: int = 12
    direction_trials: int = 24
    trials_per_start: int = 2
    direction_steps: int = 40
    direction_tolerance: float = 1e-3
    same_direction: float = 0.95

    memory: int = 12
    memory_of_many: int = 4
    many_entries: int = 500_000
    small_entries: int = 150

    rung: float = 3.0
    rung_rounds: int = 2
    step: float = 0.15
    far: float = 1e4
    flat: float = 1e-3
    second_looks: int = 4
    flat_part: float = 0.01
    sharpest: float = 1e6
    sharp_margins: tuple[float, ...] = (1e-3, 1e-5, 1e-3, 1e-5)
    worth_saving: float = 2e-3
    sharp_penalty: float = 1e-3
    between_tolerance: float = 1e-3
    least_part: float = 1e-9
    rounding: float = 5e-13
    near_ceiling: float = 0.1
    near_limit: float = 1e-7
    root_tolerance: float = 5e-3
    root_steps: int = 14

    spared_patterns: int = 64
    hiding_trials: int = 6
    hiding_settled: int = 8
    hiding_steps: int = 200
    hiding_tolerance: float = 1e-12
    hiding_kept: int = 3
    moved: float = 1e-3
    tilt: float = 0.01

    worst_margins: tuple[float, ...] = (1e-8,) * 5 + (1e-7, 1e-6, 1e-5, 1e-5, 3e-5, 1e-4, 1e-4, 3e-4, 1e-3)


SETTINGS = SearchSettings()
"""What every search uses."""
