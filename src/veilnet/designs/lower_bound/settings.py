"""The numbers of the search for a proof, all in one place.

None of them enters a promise: they decide how long and how the multipliers are looked for, and the theorem is
checked with whatever was found.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProofSettings:
    """How multipliers are searched for.

    patience:        seconds of this process after which a proof takes what it has: a few designs' worth.
    first_part, last_part: of it, what the splitting gets where the interior-point method follows, and when the latter
                     begins no other solve.
    early_part:      what pieces get of it where the program with turns follows.
    clear:           a stated bound stays so far, relative, from the exact edge that other machines' rounding
                     confirms it too.
    nearly:          an aim is as good as proved when the gap proved is at most this times it.
    dearest:         the largest gap aimed at.

    Rapidities:

    seen:            how far from singular Gram matrices of what agents see are kept, one after the other.
    binding:         parameters whose multiplier is below this part of the largest do not bind, and are left out.
    other_policies:  how large the further policies begin beside the first.
    few_policies:    how many are tried where the prior leaves the sum definite; without, as many as v has entries.
    first_fraction:  of the loss, what the ascent first tries to prove; worst_fraction where that fails.
    softenings, raise_steps: how often the softness of the least eigenvalue is cut to a third, and steps at each.
    memory:          of the curvature.
    inside:          of what is proved, where the central path begins: A is definite there.
    first_push, last_push, push_growth: how much the fraction counts beside log det A, first for each of its rows.
    near_steps, far_steps, most_differences: steps at each push, after second differences or, for more unknowns,
                     without; flat: the least curvature that counts, of the largest.
    most_fraction, singular: beyond these the path does not go.
    most_pieces:     of all v; slab: how wide, in standard deviations, a piece is cut where nothing bounds it; margin:
                     the least part of a piece that is cut off; beyond: how far outside what the prior allows.
    lowered, weighings: a new product begins with what leaves this part of the fraction proved; how often it is cut;
                     idle: products that count less, beside the most, are left out.
    definite:        a prior whose least information, of the raw information 1, is below this leaves the sum singular.
    nearer:          the part of the gap asked that pieces aim at.
    quick_gap, quick_size: without a gap asked for: when to stop, entries of W beyond which the closed
                     form is all; most_size is that of proofs asked for. Beyond quick_agents agents
                     the closed form is all there too, beyond most_agents nothing is tried.
    most_correlated: readings up to which correlated noise is split; quick_correlated without a gap asked for.

    The interior-point method, entries counted over all cones together:

    quick_entries:   programs up to this size are solved by it first, in a second or three.
    most_entries:    those up to this size after the splitting; beyond, it takes minutes and gigabytes.
    interior_aims:   how many gaps it aims at; close: it stops where the gap proved is within this factor of one
                     that resisted.

    The splitting, one iteration of which costs about work = Σ (cone size)³:

    chunk:           iterations between two looks at what is proved.
    most_iterations, most_work: iterations in all, and what they may cost together.
    dearest_iteration: networks where one iteration costs more are not tried.
    resists_after:   iterations after which an aim that is not proved counts as resisting.
    more_patient, tighter: where nothing between what is proved and what resists is left to aim at, the splitting
                     aims at this part of the gap proved once more and waits so many times longer.
    small_work, first_aim: on programs of more work the first aim is modest: a bound of half the loss comes long
                     before one of 99 %.
    penalty:         the first penalty is this over 1 + p: the duals are of that order.
    relaxation, balance_every: of the iteration, and how often primal and dual residuals are balanced.
    """

    patience: float = 30.0
    first_part: float = 0.3
    last_part: float = 0.7
    early_part: float = 0.1
    clear: float = 1e-6
    nearly: float = 1.3
    dearest: float = 100.0

    seen: tuple[float, ...] = (1e-12, 1e-6, 1e-4, 1e-2)
    binding: float = 1e-6
    other_policies: float = 0.1
    few_policies: int = 4
    first_fraction: float = 0.3
    worst_fraction: float = 0.03
    softenings: int = 6
    raise_steps: int = 40
    memory: int = 20
    inside: float = 0.95
    first_push: float = 2.0
    last_push: float = 1e4
    push_growth: float = 5.0
    near_steps: int = 8
    far_steps: int = 25
    most_differences: int = 200
    flat: float = 1e-6
    most_fraction: float = 3.0
    singular: float = 1e-14
    most_pieces: int = 1000
    slab: float = 2.0
    margin: float = 0.1
    beyond: float = 1e-3
    lowered: float = 0.8
    weighings: int = 60
    idle: float = 1e-4
    definite: float = 1e-9
    nearer: float = 0.9
    quick_gap: float = 0.01
    quick_size: int = 2000
    quick_correlated: int = 30
    quick_agents: int = 2000
    most_agents: int = 200_000
    most_size: int = 40_000
    most_correlated: int = 100

    quick_entries: int = 3_000
    most_entries: int = 6_500
    interior_aims: int = 8
    close: float = 1.15

    chunk: int = 50
    most_iterations: int = 6000
    most_work: float = 4e10
    dearest_iteration: float = 3e9
    resists_after: int = 200
    more_patient: int = 4
    tighter: float = 0.5
    small_work: float = 2e6
    first_aim: float = 0.5
    penalty: float = 5.0
    relaxation: float = 1.8
    balance_every: int = 50


SETTINGS = ProofSettings()
"""What every proof uses."""
