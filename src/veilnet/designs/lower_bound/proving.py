"""From a design to a proof of how good it is, and from a proof to what a better design might hide."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from veilnet._core.progress import Progress, asks_to_stop, silent
from veilnet._core.types import Array
from veilnet.agent.mechanisms import mechanisms
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.knowledge import knowledge
from veilnet.designs.lower_bound.lifted_program import LiftedProgram, lifted_design, lifted_program, shrink_of
from veilnet.designs.lower_bound.mixing import mixed_rows
from veilnet.designs.lower_bound.pieces import Pieces
from veilnet.designs.lower_bound.rapidities import FirstOrder, RapidityAscent, begin, raised
from veilnet.designs.lower_bound.semidefinite import entries_of, interior_point_available, solve_semidefinite
from veilnet.designs.lower_bound.settings import SETTINGS
from veilnet.designs.lower_bound.splitting import Splitting
from veilnet.model.network import Network
from veilnet.model.standard_form import standard_form
from veilnet.plans.lower_bound.inequality import Inequality
from veilnet.plans.lower_bound.lifted_form import LiftedForm, lifted_form, split_noise
from veilnet.plans.lower_bound.precise import ROUNDING
from veilnet.plans.lower_bound.proof import Proof
from veilnet.plans.lower_bound.rapidity import Rapidities, RapidityTheorem, half_of
from veilnet.plans.lower_bound.theorem import Multipliers, Theorem


@dataclass(frozen=True)
class ProofGoal:
    """What was asked and what the design at hand reaches: the proof says how much better it could be at most.

    privacy: position -> p_j asked (least loss), or the weights among parameters (most privacy).
    loss:    what the design loses (least loss), or the loss allowed (most privacy).
    reached: None (least loss), or the t reached, p_j >= t·weight_j (most privacy).
    floors:  position -> p_j that every design considered has, whatever its t (most privacy).
    every:   position -> each M, of parameters of which something is asked of every direction (least loss).
    """

    privacy: Mapping[int, float]
    loss: float
    reached: float | None = None
    floors: Mapping[int, float] = field(default_factory=dict)
    every: Mapping[int, Sequence[Array]] = field(default_factory=dict)

    def aim(self, slack: float) -> tuple[float, dict[int, float]]:
        """(β, ε) that a proof of the gap ``slack`` needs."""
        if self.reached is None:
            return self.loss / (1.0 + slack), dict(self.privacy)
        level = self.reached * (1.0 + slack)
        return self.loss, {
            j: max(level * share, self.floors.get(j, 0.0)) for j, share in self.privacy.items()
        }

    def gap(self, theorem: Inequality) -> float:
        """The least gap that multipliers prove, inf where they prove none."""
        if self.reached is None:
            bound = theorem.largest_loss(self.privacy, self.loss)
            return self.loss / bound - 1.0 if bound > 0 else np.inf
        least = theorem.least_unaffordable_privacy(self.loss, self.privacy, self.reached, self.floors)
        return least / self.reached - 1.0


def prove_least_loss(
    network: Network,
    targets: Mapping[str, float],
    loss: float,
    gap: float | None,
    *,
    design: Mapping[str, Sanitizer],
    every: Mapping[str, Sequence[Array]] = MappingProxyType({}),
    progress: Progress | None = None,
) -> Proof | None:
    """A proof that reaching ``targets`` costs at least loss/(1 + gap), or as near as it gets; None for nothing.

    ``design`` are the sanitizers that lose so much: the search for multipliers starts there. Without a ``gap`` only
    what takes some tenths of a second is tried. ``every`` has name -> each M of what is asked of every direction,
    G P̃ G' >= M.
    """
    places = {name: place for place, name in enumerate(network.private)}
    asked = {places[name]: target for name, target in targets.items() if target > 0}
    goal = ProofGoal(asked, loss, every={places[name]: each for name, each in every.items()})
    return _prove(network, goal, gap, design, progress or silent)


def prove_most_privacy(
    network: Network,
    loss: float,
    weights: Mapping[str, float],
    reached: float,
    gap: float | None,
    *,
    floors: Mapping[str, float] | None = None,
    design: Mapping[str, Sanitizer],
    progress: Progress | None = None,
) -> Proof | None:
    """A proof that a loss of ``loss`` buys at most p_j = reached (1 + gap) weight_j for all j; None for nothing.

    ``floors`` are privacies that every design has which the proof is about.
    """
    places = {name: place for place, name in enumerate(network.private)}
    kept = {places[name]: floor for name, floor in (floors or {}).items() if floor > 0}
    by_place = {place: weights.get(name, 0.0) for name, place in places.items()}
    asked = {place: weight for place, weight in by_place.items() if weight > 0 or place in kept}
    question = ProofGoal(asked, loss, reached, kept)
    return _prove(network, question, gap, design, progress or silent)


def hidden_directions(proof: Proof, network: Network, count: int = 2) -> list[Array]:
    """Directions of x in standard form, (L,) and of unit length, that the proof says a better design would hide."""
    theorem = proof.theorem(network)
    asked = dict(zip(theorem.asked, proof.privacy.values(), strict=True))
    length = network.common_apart.L
    found = [each[:length] for each in theorem.hidden(proof.loss, asked, count)]
    return [each / np.linalg.norm(each) for each in found if np.linalg.norm(each) > 0]


def _prove(
    network: Network,
    question: ProofGoal,
    gap: float | None,
    design: Mapping[str, Sanitizer],
    progress: Progress,
) -> Proof | None:
    if not (question.privacy or question.every) or not question.loss > 0:
        return None
    if gap is None and SETTINGS.most_agents < network.S:
        return None
    standard = standard_form(network)
    most = SETTINGS.quick_correlated if gap is None else SETTINGS.most_correlated
    if standard.coupling is not None and most < network.N:
        return None  # splitting the noise alone takes longer than a quick proof may
    common = None if standard.coupling is None else split_noise(standard.coupling, standard.blocks)
    form = lifted_form(network, common)
    shrinks = shrink_of(form, mechanisms(network, design))
    for mixed in _mixtures(network, form, shrinks, question):
        asked = _of_mixed(network, question, mixed) if mixed else question
        if not asked.privacy:
            continue
        own = lifted_form(network, common, mixed) if mixed else form
        best = _Best(own, asked, SETTINGS.quick_gap if gap is None else gap)
        dear = gap is None or _work_estimate(network, asked) >= SETTINGS.dearest_iteration
        _by_rapidities(best, shrinks, progress, 1.0 if dear else SETTINGS.early_part, quick=gap is None)
        if not (dear or best.enough()):
            _by_program(best, shrinks, progress)
        if best.found is not None:
            return best.proof(network, common, mixed)
    return None


def _mixtures(
    network: Network, form: LiftedForm, shrinks: list[Array], question: ProofGoal
) -> Iterator[dict[int, Array]]:
    """What stands for parameters of which something is asked of every direction; last, the mean of each."""
    if question.every:
        plain = [j for j in question.privacy if j not in question.every]
        with suppress(np.linalg.LinAlgError, ValueError):  # some direction is hidden altogether
            yield mixed_rows(network, form, shrinks, plain, question.every)
    yield {}


def _of_mixed(network: Network, question: ProofGoal, mixed: Mapping[int, Array]) -> ProofGoal:
    """The same question, of the combinations of rows that stand for what is asked of every direction."""
    asked = {j: each for j, each in question.privacy.items() if j not in question.every}
    rows = list(network.private.values())
    for j, combined in mixed.items():
        raw = combined @ knowledge(network).error_covariance(rows[j]) @ combined.T
        least = max(float(np.trace(combined @ each @ combined.T)) for each in question.every[j])
        asked[j] = (least / float(np.trace(raw)) - 1.0) * (1 - SETTINGS.clear)
    return replace(question, privacy={j: each for j, each in asked.items() if each > 0})


class _Best:
    """What proves the least gap so far."""

    def __init__(self, form: LiftedForm, question: ProofGoal, gap: float) -> None:
        self.form, self.question, self.gap = form, question, gap
        self.found: tuple[Inequality, tuple[Multipliers, ...] | Rapidities] | None = None
        self.least = np.inf
        self._begun = time.process_time()

    def take(
        self, given: tuple[Multipliers, ...] | Rapidities, asked: tuple[int, ...] | None = None
    ) -> float:
        """The gap that these prove of the parameters asked, all by default; they are kept where it is the least."""
        asked = tuple(self.question.privacy) if asked is None else asked
        theorem: Inequality
        if isinstance(given, Rapidities):
            theorem = RapidityTheorem(self.form, asked, given)
        else:
            theorem = Theorem(self.form, asked, given)
        proved = self.question.gap(theorem)
        if proved > self.gap and isinstance(given, Rapidities) and self.form.slack == 0:
            # With 32 digits rounding takes less away: worth their time where that is a third.
            finer = RapidityTheorem(self.form, asked, given, ROUNDING)
            loss, privacy = self.question.aim(min(proved, SETTINGS.dearest) / 1.5)
            if finer.proves(loss, {j: privacy[j] for j in asked}):
                theorem, proved = finer, self.question.gap(finer)
        if proved < self.least:
            self.found, self.least = (theorem, given), proved
        return proved

    def proof(self, network: Network, common: Array | None, mixed: Mapping[int, Array]) -> Proof | None:
        """The best, a little away from the edge and checked from the network alone."""
        assert self.found is not None
        theorem, given = self.found
        names = list(network.private)
        loss, privacy = self.question.aim(self.least)
        if self.question.reached is None:
            loss *= 1 - SETTINGS.clear
        else:
            # Floors are not raised: designs rest on them.
            resting = {j for j, floor in self.question.floors.items() if privacy[j] == floor}
            privacy = {
                j: each if j in resting else each * (1 + SETTINGS.clear) for j, each in privacy.items()
            }
        stated = {names[j]: float(privacy[j]) for j in theorem.asked}
        combined = {names[j]: rows for j, rows in mixed.items() if names[j] in stated}
        proof = Proof(float(loss), stated, given, common, combined)
        return proof if proof.holds(network) else None

    def enough(self, part: float = 1.0) -> bool:
        """Whether what was asked is proved, or this part of the time is up."""
        used = time.process_time() - self._begun
        return self.least <= self.gap or used > part * SETTINGS.patience

    def programs(self, slack: float) -> list[LiftedProgram]:
        """The relaxations that would prove the gap ``slack``."""
        return _programs_of(self.form, self.question, slack)


def _by_rapidities(
    best: _Best, shrinks: list[Array], progress: Progress, part: float, *, quick: bool
) -> None:
    """The closed form, then an ascent, then pieces in ``part`` of the time."""
    with np.errstate(all="ignore"):
        try:
            first = FirstOrder(best.form, tuple(best.question.privacy), shrinks)
            closed = _closed_form(best, first)
        except (np.linalg.LinAlgError, ValueError):
            return  # something is hidden altogether: no first-order point of this kind
        whole = sum(len(best.form.private[j]) for j in first.asked) * best.form.size
        values = np.linalg.eigvalsh(best.form.information)
        unknown = int(np.sum(values <= SETTINGS.definite)) * (whole // best.form.size)
        definite = unknown == 0
        if quick and len(best.form.observe) > SETTINGS.quick_agents:
            return
        each = best.form.size * len(best.form.public) * whole
        most = (SETTINGS.quick_size if quick else SETTINGS.most_size) // each
        ways = [(min(unknown + 1, whole), 0.0 if quick else part)]
        # Several policies prove more of one piece, one is quicker in many: not always enough to begin.
        if definite:
            few = min(SETTINGS.few_policies, max(most, 1))
            ways = [(few, 0.0)] if quick else [(few, 0.0), *ways, (few, part)]
        for policies, cut in ways:
            if policies <= most and not best.enough():
                with suppress(np.linalg.LinAlgError):  # t went beyond floating point: what was proved counts
                    if _ascend(best, first, closed, policies, progress, cut) and cut:
                        return


def _closed_form(best: _Best, first: FirstOrder) -> Array:
    """The rapidities in closed form that prove most; where none prove anything, the tamest."""
    found, least = np.zeros(0), np.inf
    for seen in SETTINGS.seen:
        rapidity = first.rapidity(seen)
        with suppress(np.linalg.LinAlgError):
            gap = best.take(Rapidities(half_of(rapidity)[None], first.proportions), first.asked)
            if gap <= least:
                found, least = rapidity, gap
        if best.enough():
            break
    return found if found.size else rapidity


def _ascend(
    best: _Best, first: FirstOrder, closed: Array, policies: int, progress: Progress, part: float
) -> bool:
    """Some fraction of what the design reaches, as much as one piece proves, and more in ``part`` of the time.

    Whether something was proved.
    """

    def aimed(fraction: float) -> tuple[float, Array]:
        loss, privacy = best.question.aim(1 / fraction - 1)
        return loss, np.array([1 + privacy[j] for j in first.asked])

    ascent = RapidityAscent(best.form, first.asked, first.proportions, policies)
    t = begin(ascent, closed, policies)
    centre = SETTINGS.inside / (1 + best.least)  # 0 where nothing is proved so far
    found = (
        float(np.linalg.eigvalsh(ascent.at(ascent.parts(t), *aimed(max(centre, 1e-9)))[0])[0]) > 0 < centre
    )
    for centre in () if found else (SETTINGS.first_fraction, SETTINGS.worst_fraction):
        t, found = raised(ascent, t, *aimed(centre), best.enough)
        if found:
            break
    if not found:
        return False
    goal = 1 / (1 + SETTINGS.nearer * best.gap)
    pieces = Pieces(ascent, aimed, lambda: best.enough(part or 1.0))
    pieces.begin(t, centre, goal)
    best.take(pieces.rapidities(), first.asked)
    if part and not best.enough(part):
        pieces.refine(goal, lambda proved: asks_to_stop(progress("proving the gap", min(proved, 1.0))))
        best.take(pieces.rapidities(), first.asked)
    return True


def _by_program(best: _Best, shrinks: list[Array], progress: Progress) -> None:
    """The program with turns; stops at the gap asked.

    An interior-point method has the small programs solved to many digits before the splitting has found three.
    Those of middling size it gets where a first part of the time was not enough for the splitting.
    """
    entries = entries_of(best.programs(best.gap / 2))
    if entries <= SETTINGS.quick_entries:
        if not _interior(best, progress):
            _split(best, shrinks, progress)
    elif entries <= SETTINGS.most_entries and interior_point_available():
        _split(best, shrinks, progress, part=SETTINGS.first_part)
        if not best.enough(SETTINGS.last_part):
            _interior(best, progress)
    else:
        _split(best, shrinks, progress)


def _interior(best: _Best, progress: Progress) -> bool:
    """Solve for half the gap asked; where the relaxation is too loose for it, close in on what it does prove.

    Whether there is an interior-point method and it solved something.
    """
    resists, aimed = 0.0, best.gap / 2
    for done in range(SETTINGS.interior_aims):
        if asks_to_stop(progress("proving the gap", done / SETTINGS.interior_aims)):
            return True
        solved = solve_semidefinite(best.form, best.programs(aimed))
        if solved is None:
            return done > 0
        if best.take(solved) > SETTINGS.nearly * aimed:
            resists = aimed
        if best.enough(SETTINGS.last_part) or (resists > 0 and best.least < SETTINGS.close * resists):
            return True
        highest = best.least if np.isfinite(best.least) else SETTINGS.dearest
        aimed = float(np.sqrt(max(resists, best.gap / 2) * highest))
    return True


def _split(best: _Best, shrinks: list[Array], progress: Progress, *, part: float = 1.0) -> None:
    """Iterate until the gap asked is proved, aiming for less where it resists and for more where it gives way."""
    form, question, gap = best.form, best.question, best.gap
    programs = best.programs(gap / 2)
    starts = [lifted_design(form, form.private[j], shrinks) for j in question.privacy]
    hidden = 1.0 + min(question.aim(0.0)[1].values())
    splitting = Splitting(form, programs, starts, min(1.0, SETTINGS.penalty / hidden))
    work = _work_of(programs)
    iterations = int(np.clip(SETTINGS.most_work / work, 3 * SETTINGS.chunk, SETTINGS.most_iterations))
    aimed = gap / 2 if work < SETTINGS.small_work else max(gap / 2, SETTINGS.first_aim)
    splitting.aim(best.programs(aimed))
    waited, patient = 0, SETTINGS.resists_after
    for done in range(0, iterations, SETTINGS.chunk):
        if asks_to_stop(progress("proving the gap", done / iterations)):
            return
        splitting.run(SETTINGS.chunk)
        waited += SETTINGS.chunk
        proved = best.take(splitting.multipliers())
        if best.enough(part):
            return
        # Aim for more where what was aimed at is nearly proved, for less where it resists.
        nearly = proved < SETTINGS.nearly * aimed and aimed > gap / 2
        resists = waited >= patient
        if resists and not nearly and best.least < SETTINGS.close * aimed:
            # What resists for so long may give way in longer: tight aims need more iterations than loose ones.
            patient *= SETTINGS.more_patient
            aimed, waited = max(gap / 2, SETTINGS.tighter * best.least), 0
            splitting.aim(best.programs(aimed))
        elif nearly or resists:
            less = (
                max(4 * aimed, 0.05)
                if np.isinf(best.least)
                else float(np.sqrt(aimed * max(aimed, best.least)))
            )
            aimed = max(gap / 2, aimed / 3) if nearly else min(less, SETTINGS.dearest)
            splitting.aim(best.programs(aimed))
            waited = 0


def _programs_of(form: LiftedForm, question: ProofGoal, slack: float) -> list[LiftedProgram]:
    loss, privacy = question.aim(slack)
    return [lifted_program(form, form.private[j], each, loss) for j, each in privacy.items()]


def _work_estimate(network: Network, question: ProofGoal) -> float:
    """About :func:`_work_of`, before anything large is made."""
    network = network.common_apart
    sizes = np.asarray(network.blocks.sizes, dtype=float)
    length = float(network.L)
    if not network.R.independent:
        # A split into own and common noise has at least so many common ones (it must have room for all correlations).
        free = float(np.sum(sizes * (sizes + 1) / 2))
        length += max(1.0, network.N - (np.sqrt(8 * free + 1) - 1) / 2)
    rows = list(network.private.values())
    widths = [length * rows[j].shape[0] for j in question.privacy]
    mains = (network.U.shape[0] + length) ** 3
    return float(sum(n**3 * (mains + 2 * np.sum(sizes**3)) for n in widths))


def _work_of(programs: list[LiftedProgram]) -> float:
    """Σ (cone size)³ over all programs: what an iteration's eigendecompositions cost."""
    return float(sum((cone.shape[0] * program.n) ** 3 for program in programs for cone in program.cones))
