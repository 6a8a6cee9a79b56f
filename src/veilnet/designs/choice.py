"""The question :func:`design` is asked decides which way to design answers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal, get_args

from veilnet._core.errors import Infeasible, InvalidRequest
from veilnet._core.progress import Progress
from veilnet._core.types import Array
from veilnet._core.validation import expect
from veilnet._core.words import number
from veilnet.bounds.streams.gap_promise import read_gap_privacy
from veilnet.designs.alternating.plan import alternating_plan
from veilnet.designs.floors import floors_of, noting, read_give_up
from veilnet.designs.noise import noise_plan
from veilnet.designs.perfect import perfect_plan
from veilnet.designs.power import power_plan
from veilnet.designs.proved import proved_plan
from veilnet.designs.questions import (
    Worst,
    above_ceiling,
    divided_by,
    read_count,
    read_gap,
    read_loss,
    read_power,
    read_spared,
    read_targets,
    refuse_above_limit,
    refuse_worst_above_limit,
)
from veilnet.designs.streams.choice import stream_design
from veilnet.designs.tradeoff import least_loss_plan, most_privacy_plan
from veilnet.designs.worst import worst_ceilings, worst_direction_plan, worst_limits
from veilnet.model.network import Network
from veilnet.model.step import with_step
from veilnet.plans.plan import Plan, with_its_dither
from veilnet.verdict.exact_test import Verdict, check

__all__ = ["Method", "design"]

Method = Literal["auto", "perfect", "noise", "power", "joint", "alternating"]
_SWEEPS = 20  # of Algorithm 3, when nothing is said


def design(
    network: Network,
    privacy: float | Worst | Mapping[str, float | Worst] | None = None,
    utility_loss: float | None = None,
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
    progress: Progress | None = None,
) -> Plan:
    """Find what each agent should send.

    Without targets: the most privacy at perfect utility, in closed form.

    network:      the model.
    privacy:      p_j to reach, one number for all or name -> number (the others keep what is free of them): least
                  utility loss. At or below the ceiling the answer is closed and costs nothing. The number is the mean
                  over the directions of g_j; ``Worst(5)`` in its place asks as much of every direction.
    utility_loss: loss allowed (0.05 is 5 %): most privacy, p_j >= t·weights_j with the largest common t.
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
    progress:     called with (what is being done, fraction done) on long runs; answering False ends the search
                  with the best plan so far, and ``plan.interrupted`` says so.

    An option that could have no effect on the answer is refused.
    """
    if method not in get_args(Method):
        raise InvalidRequest(f"method: expected one of {', '.join(get_args(Method))}, found {method!r}")
    asked = {"privacy": privacy, "utility_loss": utility_loss, "power": power}
    given = [name for name, value in asked.items() if value is not None]
    if len(given) > 1:
        raise InvalidRequest(f"{' and '.join(given)}: expected one target, found {len(given)}; choose one")
    options: dict[str, object] = {"weights": weights, "partial": partial or None}
    options |= {"sweeps": sweeps, "starts": starts, "seed": seed, "prove": prove or None}
    options |= {"give_up": give_up or None}
    _refuse_stray_options(method, given, {name for name, value in options.items() if value is not None})
    search = _Search(
        starts=None if starts is None else read_count(starts, "starts"),
        seed=0 if seed is None else read_count(seed, "seed", least=0),
        expected=method == "joint" or starts is not None or seed is not None,
        progress=progress,
    )
    wanted = read_gap(prove)
    visits = _SWEEPS if sweeps is None else read_count(sweeps, "sweeps")
    expect(network, Network, "network")
    if model_error is not None:
        network = network.replace(model_error=model_error)
    if step is not None:
        network = with_step(network, step)
    if gap_privacy is not None:
        read_gap_privacy(gap_privacy)
        if not network.is_stream:
            raise InvalidRequest(
                "gap_privacy: goes with streams, and the network has no dynamics; leave it out"
            )
    given_up, spared = read_spared(network, privacy, read_give_up(network, give_up))
    if utility_loss is not None:
        weights = divided_by(network, weights, given_up)

    def answer(network: Network) -> Plan:
        if network.is_stream:
            plan = stream_design(
                network, privacy=privacy, utility_loss=utility_loss, power=power, method=method,
                proving=wanted is not None, searching=search.expected, weights=weights, given_up=spared,
                **search.options,
            )  # fmt: skip
            plan = noting(plan, given_up)
            return plan if gap_privacy is None else plan.with_gap_privacy(gap_privacy)
        verdict = check(network)
        if power is not None or method == "power":
            return _by_power(verdict, power, method, progress)
        if utility_loss is not None:
            plan = _within_loss(verdict, read_loss(utility_loss), weights, method, search, spared)
            return noting(_proved(plan, wanted, weights, search), given_up)
        targets, worst = read_targets(network, privacy)
        refuse_above_limit(verdict, targets)
        if worst:
            if wanted is not None:
                raise InvalidRequest(
                    "prove: no bound is known for targets on every direction (Worst); leave prove out, or ask for "
                    "numbers"
                )
            return noting(_for_every_direction(verdict, targets, worst, method, search, spared), given_up)
        plan = _for_privacy(verdict, targets, method, search, spared, partial=partial, sweeps=visits)
        return noting(_proved(plan, wanted, None, search), given_up)

    return with_its_dither(network, answer)


@dataclass(frozen=True)
class _Search:
    """How the joint search is to go, if it is needed; ``expected`` where the user asked for one."""

    starts: int | None
    seed: int
    expected: bool
    progress: Progress | None

    @property
    def options(self) -> dict[str, Any]:
        return {"starts": self.starts, "seed": self.seed, "progress": self.progress}

    def answered_without(self, why: str) -> str | None:
        """What to say when the closed form answers instead."""
        return why if self.expected else None


def _proved(plan: Plan, wanted: float | None, weights: Mapping[str, float] | None, search: _Search) -> Plan:
    """The plan with a proof of its gap, where one was wanted and is not already closed."""
    if wanted is None or plan.gap <= wanted:
        return plan
    return proved_plan(plan, wanted, weights, seed=search.seed, progress=search.progress)


def _for_privacy(
    verdict: Verdict,
    targets: dict[str, float],
    method: Method,
    search: _Search,
    spared: frozenset[str],
    *,
    partial: bool,
    sweeps: int,
) -> Plan:
    free = all(verdict.ceiling[name] >= target for name, target in targets.items())
    if method == "noise":
        if not any(targets.values()):
            raise InvalidRequest("privacy: method='noise' needs a target; noise without one has no strength")
        return noise_plan(verdict, targets, partial=partial)
    if method == "alternating":
        if not any(targets.values()):
            raise InvalidRequest("privacy: method='alternating' needs a target, for example privacy=10")
        return alternating_plan(verdict, targets, sweeps=sweeps, progress=search.progress)
    if method == "perfect" and not free:
        raise above_ceiling(verdict.ceiling, targets)
    if free:
        goal = "reaches the target" if any(targets.values()) else "gives the most privacy at perfect utility"
        return perfect_plan(
            verdict, targets, remark=search.answered_without(f"free: the closed form already {goal}")
        )
    return least_loss_plan(verdict, targets, _floors(verdict, spared), **search.options)


def _floors(verdict: Verdict, spared: frozenset[str]) -> dict[str, float]:
    """What a plan keeps that is paid for; nothing where there is only what is paid for."""
    if spared >= set(verdict.network.private) or len(verdict.network.private) == 1:
        return {}
    return floors_of(perfect_plan(verdict, {}), spared)


def _for_every_direction(
    verdict: Verdict,
    targets: dict[str, float],
    worst: dict[str, float],
    method: Method,
    search: _Search,
    spared: frozenset[str],
) -> Plan:
    if method not in ("auto", "perfect", "joint"):
        raise InvalidRequest(f"method: Worst(...) goes with 'auto', 'perfect' or 'joint', found {method!r}")
    refuse_worst_above_limit(worst_limits(verdict.network), worst)
    ceilings = worst_ceilings(verdict)
    free = all(verdict.ceiling[name] >= target for name, target in targets.items())
    if free and all(ceilings[name] >= target for name, target in worst.items()):
        remark = search.answered_without("free: the closed form already reaches the target")
        return perfect_plan(verdict, targets, worst_targets=worst, remark=remark)
    if method == "perfect":
        reached = ", ".join(f"{number(ceilings[name])} ({name})" for name in worst)
        raise Infeasible(
            f"privacy: at perfect utility the most exposed directions reach only {reached}; ask for less, or use "
            "method='auto' to trade utility for it"
        )
    return worst_direction_plan(verdict, targets, worst, _floors(verdict, spared), **search.options)


def _within_loss(
    verdict: Verdict,
    loss: float,
    weights: Mapping[str, float] | None,
    method: Method,
    search: _Search,
    spared: frozenset[str],
) -> Plan:
    if method not in ("auto", "joint"):
        raise InvalidRequest(f"method: utility_loss= goes with 'auto' or 'joint', found {method!r}")
    if loss == 0.0 or verdict.achievable:
        why = (
            "the closed form already gives all the privacy there is"
            if verdict.achievable
            else ("at no loss the closed form gives the most privacy")
        )
        return perfect_plan(verdict, {}, remark=search.answered_without(f"free: {why}"))
    return most_privacy_plan(verdict, loss, weights, _floors(verdict, spared), **search.options)


def _by_power(verdict: Verdict, power: Any, method: Method, progress: Progress | None) -> Plan:
    if method not in ("auto", "power"):
        raise InvalidRequest(f"method: power= goes with 'auto' or 'power', found {method!r}")
    if power is None:
        raise InvalidRequest("power: method='power' needs the largest noise power of an agent, power=1e4 say")
    return power_plan(verdict, read_power(verdict.network, power), progress=progress)


def _refuse_stray_options(method: Method, targets: Sequence[str], options: Set[str]) -> None:
    """Refuse options that could have no effect with this method and target."""
    if "weights" in options and "utility_loss" not in targets:
        raise InvalidRequest(
            "weights: they divide privacy within utility_loss=; give that too, or leave them out"
        )
    for option, needed in (("partial", "noise"), ("sweeps", "alternating")):
        if option in options and method != needed:
            raise InvalidRequest(
                f"{option}: goes with method={needed!r} and has no effect with {method!r}; leave it out"
            )
    if "prove" in options and not set(targets) & {"privacy", "utility_loss"}:
        raise InvalidRequest(
            "prove: goes with privacy= or utility_loss= and has no effect without; closed forms are optimal, and "
            "designs of limited power are certified anyway"
        )
    if "give_up" in options and not (
        method in ("auto", "joint") and set(targets) & {"privacy", "utility_loss"}
    ):
        raise InvalidRequest(
            "give_up: goes with privacy= or utility_loss= (method 'auto' or 'joint'), where one parameter's "
            "protection can be traded for another's; leave it out"
        )
    searching = method in ("auto", "joint") and set(targets) & {"privacy", "utility_loss"}
    for option in ("starts", "seed"):
        if option in options and not searching:
            found = f"method={method!r}" + ("" if targets else " without a target")
            raise InvalidRequest(
                f"{option}: goes with the joint search for privacy= or utility_loss= (method 'auto' or 'joint') and "
                f"has no effect with {' and '.join([found, *(f'{name}=' for name in targets)])}; leave it out"
            )
