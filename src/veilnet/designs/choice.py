"""The question :func:`design` is asked decides which way to design answers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal, get_args

from veilnet._core.errors import InvalidRequest
from veilnet._core.progress import Progress
from veilnet._core.spelling import names_keywords
from veilnet._core.threads import one_thread
from veilnet._core.types import Array
from veilnet._core.validation import expect
from veilnet.bounds.streams.gaps import read_gap_privacy
from veilnet.designs.floors import keeping_what_is_free
from veilnet.designs.joint import SearchOptions
from veilnet.designs.noise import noise_plan
from veilnet.designs.perfect import perfect_plan
from veilnet.designs.power import power_plan
from veilnet.designs.proved import proved_plan, quickly_proved, refuse_proof_of_streams
from veilnet.designs.questions import (
    PERFECT,
    SILENCE,
    Target,
    Times,
    one_target,
    read_asked,
    read_count,
    read_gap,
    read_power,
    refuse_above_limit,
    refuse_beyond,
    refuse_public_and_private,
)
from veilnet.designs.secrets import secrets_in_numbers, stream_plan_for_secrets
from veilnet.designs.streams.tradeoff import StreamTradeoff
from veilnet.designs.tradeoff import RowTradeoff, Tradeoff
from veilnet.designs.worst import (
    asks_directions,
    hidden_for_free,
    seen_for_free,
    worst_ceilings,
    worst_direction_plan,
    worst_limits,
)
from veilnet.model.network import Network
from veilnet.model.stream_size import with_step
from veilnet.plans.asked import Asked
from veilnet.plans.plan import Plan, make_plan, with_its_dither
from veilnet.plans.rounding import read_bits
from veilnet.sums.handing_out import sparing
from veilnet.sums.merging import SumGroups, merged, read_summed
from veilnet.verdict.exact_test import Verdict, check
from veilnet.verdict.streams.exact_test import StreamVerdict

Method = Literal["auto", "perfect", "noise", "power", "joint", "alternating"]
_SWEEPS = 20  # of Algorithm 3, when nothing is said
_NOT_FOR_STREAMS = {
    "power": "noise of limited power is",
    "noise": "Algorithms 1 and 2 of the paper are",
    "alternating": "Algorithm 3 of the paper is",
}
_EVERY = "every direction of "
_SEARCHED = "goes with the joint search for privacy= or utility_loss= (method 'auto' or 'joint')"
_GOES_WITH = {
    "weights": "they divide privacy within utility_loss=",
    "partial": "goes with method='noise'",
    "sweeps": "goes with method='alternating'",
    "prove": "goes with privacy= or utility_loss=; closed forms are optimal, noise of limited power is certified",
    "give_up": f"{_SEARCHED}, where one parameter's protection can be traded for another's",
    "starts": _SEARCHED,
    "seed": _SEARCHED,
}


@names_keywords
def design(
    network: Network,
    privacy: Target | Mapping[str, Target] | None = None,
    utility_loss: float | str | Times | None = None,
    power: float | Mapping[str, float] | Sequence[float] | Array | None = None,
    method: Method = "auto",
    *,
    weights: Mapping[str, float] | None = None,
    give_up: str | Sequence[str] = (),
    partial: bool = False,
    sweeps: int | None = None,
    starts: int | None = None,
    seed: int | None = None,
    prove: bool | float = False,
    model_error: float | None = None,
    step: Any = None,
    gap_privacy: float | None = None,
    bits: float | None = None,
    summed: bool | Sequence[Sequence[str]] | Mapping[str, Sequence[str]] | SumGroups | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Find what each agent should send.

    Without targets: the most privacy at perfect utility, in closed form.

    network:      the model.
    privacy:      p_j to reach, one number for all or name -> number (the others keep what is free of them): least
                  utility loss. At or below the ceiling the answer is closed and costs nothing. The number is the mean
                  over the directions of g_j; ``Worst(5)`` in its place asks as much of every direction,
                  ``Times(2)`` for twice the raw standard error, ``AtLeast(12)`` for one of 12 in its unit. Of a
                  Secret, ``Auc(0.6)``, ``Accuracy``, ``Power`` or ``Mu`` say how surely its change may be seen,
                  over as long as it lasts.
    utility_loss: loss allowed, 0.05, "5%", or ``Times(1.05)`` for a public standard error 5 % larger: most privacy,
                  p_j >= t·weights_j with the largest common t. One above 100 % is written as a text, "150%".
    power:        largest noise power tr Θ_i, one number, agent -> number, or one for each agent in sending order:
                  most privacy at perfect utility by noise alone.
    method:       "auto", or "perfect" (closed form), "noise" (Algorithms 1 and 2, mended), "power" (section V),
                  "joint" (all agents at once), "alternating" (Algorithm 3, for comparison).
    give_up:      private parameters, by name, that may be hidden less than they are for free. All others of which
                  privacy= gives no number keep at least their ceiling, whatever is paid for (``plan.floors``). Of a
                  utility_loss= nothing is spent on what was given up, unless weights= says so or everything was. For
                  the joint search: noise of limited power costs no utility, and Algorithms 1 to 3 are the paper's.
    partial:      with method="noise": accept less privacy than asked where ASUP does not hold.
    weights:      with utility_loss: name -> how much of the privacy each private parameter gets; equal parts of
                  what was not given up when left out.
    sweeps:       with method="alternating": how many times all agents are visited (20).
    starts, seed: of the joint search, so with a target and method "auto" or "joint": how many starts (chosen by
                  size) and their seed (0). Where the closed form answers, they play no part, and
                  ``details["remark"]`` says so.
    prove:        for trade-offs: prove how far from the best possible the plan is (``plan.gap``), down to 1 % or
                  the fraction given; where more than 5 % stays open, the search starts anew from what the proof
                  says is hidden.
    model_error:  by which fraction the entries of H may be off, 0.05 for 5 %: the plan that is best on average over
                  such errors. It is made, and promises, for ``network.replace(model_error=...)``.
    step:         how long a row takes, such as "15min", or seconds: in its files the plan tells agents and centre so.
                  The plan is for ``network.replace(step=...)``; the rows of a stream keep the step they have.
    gap_privacy:  of a stream: the part of every private error that is left around a missed row and at a start
                  (0.99). Memories are drawn as large as that takes; ``plan.privacy_with_gaps`` is what was reached.
    bits:         rows with a full prior: by which part rounding may let the public error grow, 0.001 say. Agents
                  send on the coarsest grids that keep to it; ``plan.rounding`` has the bits that a row then takes.
    summed:       the centre sees only sums of messages: True for one sum of all agents, lists of agents for a sum of
                  each, ``SumGroups(...)`` to choose how many must be there. The plan is that of the network in which
                  groups are agents, and ``plan.members`` has what each agent does (docs/explanation/sums.md).
    progress:     called with (what is being done, fraction done) on long runs; answering False ends the search
                  with the best plan so far, and ``plan.interrupted`` says so.

    An option that could have no effect on the answer is refused.
    """
    if method not in get_args(Method):
        raise InvalidRequest(f"method: expected one of {', '.join(get_args(Method))}, found {method!r}")
    given = one_target(privacy=privacy, utility_loss=utility_loss, power=power)
    options: dict[str, object] = {"weights": weights, "partial": partial or None}
    options |= {"sweeps": sweeps, "starts": starts, "seed": seed, "prove": prove or None}
    options |= {"give_up": give_up or None}
    _refuse_stray_options(method, given, {name for name, value in options.items() if value is not None})
    search = SearchOptions(
        starts=None if starts is None else read_count(starts, "starts"),
        seed=0 if seed is None else read_count(seed, "seed", least=0),
        progress=progress,
        expected=method == "joint" or starts is not None or seed is not None,
    )
    gap = read_gap(prove)
    visits = _SWEEPS if sweeps is None else read_count(sweeps, "sweeps")
    network = _as_asked(network, summed, model_error, step)
    if gap_privacy is not None:
        read_gap_privacy(gap_privacy)
        if not network.is_stream:
            raise InvalidRequest(
                "gap_privacy: goes with streams, and the network has no dynamics; leave it out"
            )
    if bits is not None:
        read_bits(bits, network)
    asked = read_asked(network, privacy, utility_loss, weights, give_up)
    if network.is_stream:
        _refuse_for_streams(asked, method, power=power is not None, proving=gap is not None)

    def answer(network: Network) -> Plan:
        verdict = check(network)
        if power is not None or method == "power":
            return _by_power(verdict, power, method, progress)
        if method == "perfect" and asked.seen and not hidden_for_free(verdict, asked.seen):
            raise seen_for_free(verdict, asked.seen)
        wanted = asked if network.is_stream else secrets_in_numbers(network, asked)
        refuse_above_limit(verdict.limit, wanted.targets)
        if method in ("noise", "alternating"):
            plan = _by_the_paper(verdict, wanted, method, partial=partial, sweeps=visits, progress=progress)
        elif network.is_stream and asked.seen:
            plan = stream_plan_for_secrets(
                network, asked, lambda tried: _answered(verdict, tried, method, search)
            )
        else:
            plan = _answered(verdict, wanted, method, search)
        if gap is None:
            plan = quickly_proved(plan, asked.weights)
        elif plan.gap > gap:
            plan = proved_plan(plan, gap, asked.weights, seed=search.seed, progress=progress)
        plan = plan if gap_privacy is None else plan.with_gap_privacy(gap_privacy)
        plan = with_spare_noise(plan)
        return plan if bits is None else _in_fewer_bits(plan, bits)

    with one_thread() if network.is_stream else nullcontext():
        if asked.seen:  # p_j is measured from readings with their dither, so that has to be known beforehand
            network = with_its_dither(network, lambda tried: perfect_plan(check(tried), Asked())).network
        return with_its_dither(network, answer)


def _as_asked(network: Network, summed: Any, model_error: float | None, step: Any) -> Network:
    """The network with the groups, model error and step that a design is asked for."""
    expect(network, Network, "network")
    refuse_public_and_private(network)
    groups = read_summed(summed)
    network = network if groups is None else merged(network, groups)
    if model_error is not None:
        network = network.replace(model_error=model_error)
    return network if step is None else with_step(network, step)


def with_spare_noise(plan: Plan) -> Plan:
    """The plan whose groups add so much noise that it is enough without that of the members that may be spared."""
    more = sparing(plan.network, plan.sanitizers)
    if more is None:
        return plan
    if plan.most_loss is not None and plan.utility < 0:
        raise InvalidRequest(
            "spare: noise for members that may drop out comes on top of what a privacy asks, so it goes with "
            "privacy=; leave it out"
        )
    details = {name: each for name, each in plan.details.items() if name != "multipliers"}
    return make_plan(plan.network, more, plan.method, plan.asked, details=details)


def _in_fewer_bits(plan: Plan, allowed: float) -> Plan:
    """The plan on the coarsest grids that keep the public error within this part of what it is."""
    asked = replace(plan.asked, rounding=allowed, power=plan.details.get("power_allowed", {}))
    made = make_plan(plan.network, plan.sanitizers, plan.method, asked, details=plan.details)
    return replace(made, proof=plan.proof)


def tradeoff_of(verdict: Verdict, options: SearchOptions) -> Tradeoff:
    """The trade-offs of a network, of rows or of a stream."""
    if isinstance(verdict, StreamVerdict):
        return StreamTradeoff(verdict, options)
    return RowTradeoff(verdict, options)


def _answered(verdict: Verdict, asked: Asked, method: Method, search: SearchOptions) -> Plan:
    """The closed form where what is asked is free, a trade-off where it is not."""
    if asked.most_loss is not None and method not in ("auto", "joint"):
        raise InvalidRequest(f"method: utility_loss= goes with 'auto' or 'joint', found {method!r}")
    if asked.worst:
        limits = {name: each * (1 + 1e-9) for name, each in worst_limits(verdict.network).items()}
        refuse_beyond(asked.worst, limits, f"of one {SILENCE[0]}", SILENCE[1], of=_EVERY)
    because = _free(verdict, asked)
    if because is not None:
        free = Asked(asked.targets, asked.worst, seen=asked.seen)
        return perfect_plan(verdict, free, remark=f"free: {because}" if search.expected else None)
    if method == "perfect":
        why, helps = PERFECT
        why += " with hindsight" if verdict.network.is_stream else ""
        refuse_beyond(asked.targets, verdict.ceiling, why, helps)
        refuse_beyond(asked.worst, worst_ceilings(verdict) if asked.worst else {}, why, helps, of=_EVERY)
    kept = keeping_what_is_free(verdict, asked)
    if asks_directions(verdict.network, asked):
        return worst_direction_plan(verdict, kept, search)
    tradeoff = tradeoff_of(verdict, search)
    return tradeoff.least_loss(kept) if asked.most_loss is None else tradeoff.most_privacy(kept)


def _free(verdict: Verdict, asked: Asked) -> str | None:
    """Why the closed form is the answer; None where it is not."""
    if asked.most_loss is not None:
        if verdict.achievable:
            return "the closed form already gives all the privacy there is"
        return "at no loss the closed form gives the most privacy" if asked.most_loss == 0.0 else None
    if any(verdict.ceiling[name] < target for name, target in asked.targets.items()):
        return None
    if asked.worst:
        ceilings = worst_ceilings(verdict)
        if any(ceilings[name] < target for name, target in asked.worst.items()):
            return None
    if asks_directions(verdict.network, asked) and not hidden_for_free(verdict, asked.seen):
        return None
    goal = "reaches the target" if asked.numbered else "gives the most privacy at perfect utility"
    return f"the closed form already {goal}"


def _by_the_paper(
    verdict: Verdict, asked: Asked, method: Method, *, partial: bool, sweeps: int, progress: Progress | None
) -> Plan:
    """Algorithms 1 and 2, or 3."""
    if asked.most_loss is not None:
        raise InvalidRequest(f"method: utility_loss= goes with 'auto' or 'joint', found {method!r}")
    if asked.worst or asked.seen:
        raise InvalidRequest(
            f"method: Worst(...) and targets of secrets go with 'auto', 'perfect' or 'joint', found {method!r}"
        )
    if not asked.numbered:
        needs = {
            "noise": "needs a target; noise without one has no strength",
            "alternating": "needs a target, for example privacy=10",
        }
        raise InvalidRequest(f"privacy: method={method!r} {needs[method]}")
    if method == "noise":
        return noise_plan(verdict, asked.targets, partial=partial)
    from veilnet.paper.alternating.plan import alternating_plan

    return alternating_plan(verdict, asked.targets, sweeps=sweeps, progress=progress)


def _by_power(verdict: Verdict, power: Any, method: Method, progress: Progress | None) -> Plan:
    if any(group.spare for group in verdict.network.members.values()):
        raise InvalidRequest(
            "spare: noise for members that may drop out would exceed power=; leave one of them out"
        )
    if method not in ("auto", "power"):
        raise InvalidRequest(f"method: power= goes with 'auto' or 'power', found {method!r}")
    if power is None:
        raise InvalidRequest("power: method='power' needs the largest noise power of an agent, power=1e4 say")
    return power_plan(verdict, read_power(verdict.network, power), progress=progress)


def _refuse_for_streams(asked: Asked, method: Method, *, power: bool, proving: bool) -> None:
    """Refuse what is not built for streams."""
    named = "power" if power else method
    if named in _NOT_FOR_STREAMS:
        raise InvalidRequest(
            f"{'power' if power else 'method'}: {_NOT_FOR_STREAMS[named]} made for rows that have nothing to do "
            "with one another, not for a stream; use method='auto', or design for network.one_row"
        )
    if proving:
        refuse_proof_of_streams()
    if asked.worst:
        raise InvalidRequest(
            "privacy: targets on every direction (Worst) are not built for streams; ask for numbers, and look at "
            "plan.worst_direction"
        )


def _refuse_stray_options(method: Method, targets: Sequence[str], options: Set[str]) -> None:
    """Refuse options that could have no effect with this method and target."""
    traded = bool(set(targets) & {"privacy", "utility_loss"})
    searched = traded and method in ("auto", "joint")
    given = [
        f"method={method!r}" + ("" if targets else " without a target"),
        *(f"{name}=" for name in targets),
    ]
    effective = {
        "weights": "utility_loss" in targets, "partial": method == "noise", "sweeps": method == "alternating",
        "prove": traded, "give_up": searched, "starts": searched, "seed": searched,
    }  # fmt: skip
    for option, effect in effective.items():
        if option in options and not effect:
            raise InvalidRequest(
                f"{option}: {_GOES_WITH[option]}, and has no effect with {' and '.join(given)}; leave it out"
            )
