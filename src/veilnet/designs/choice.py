"""The question :func:`design` is asked decides which way to design answers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from veilnet._core.errors import Infeasible, InvalidRequest
from veilnet._core.progress import Progress
from veilnet._core.words import number
from veilnet.designs.questions import read_count, read_loss, read_power, read_targets, refuse_above_limit
from veilnet.model.network import Network
from veilnet.plans.plan import Plan
from veilnet.verdict.exact_test import Verdict, check

__all__ = ["Method", "design"]

Method = Literal["auto", "perfect", "noise", "power", "joint", "alternating"]


def design(
    network: Network,
    privacy: float | Mapping[str, float] | None = None,
    utility_loss: float | None = None,
    power: float | Mapping[str, float] | None = None,
    method: Method = "auto",
    *,
    weights: Mapping[str, float] | None = None,
    partial: bool = False,
    sweeps: int = 20,
    starts: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """Find what each agent should send.

    Without targets: the most privacy at perfect utility, in closed form.

    privacy:      p_j to reach, one number for all or name -> number (others are then left at 0): least
                  utility loss. At or below the ceiling the answer is closed and costs nothing.
    utility_loss: loss allowed (0.05 is 5 %): most privacy, p_j >= t·weights_j with the largest common t.
    power:        largest noise power tr Θ_i, one number or agent -> number: most privacy at perfect utility
                  by noise alone.
    method:       "auto", or "perfect" (closed form), "noise" (Algorithms 1 and 2, mended), "power" (section V),
                  "joint" (all agents at once), "alternating" (Algorithm 3, for comparison).
    partial:      with method="noise": accept less privacy than asked where ASUP does not hold.
    sweeps:       with method="alternating": how many times all agents are visited.
    starts, seed: with the joint solver: how many starts (chosen by size when None) and their seed.
    progress:     called with (what is being done, fraction done) on long runs.
    """
    if method not in get_args(Method):
        raise InvalidRequest(f"method: expected one of {', '.join(get_args(Method))}, found {method!r}")
    asked = {"privacy": privacy, "utility_loss": utility_loss, "power": power}
    given = [name for name, value in asked.items() if value is not None]
    if len(given) > 1:
        raise InvalidRequest(f"{' and '.join(given)}: expected one target, found {len(given)}; choose one")
    _refuse_stray_options(method, weights, utility_loss, partial)
    sweeps, seed = read_count(sweeps, "sweeps"), read_count(seed, "seed", least=0)
    starts = None if starts is None else read_count(starts, "starts")
    verdict = check(network)
    if power is not None or method == "power":
        return _by_power(verdict, power, method, progress)
    if utility_loss is not None:
        loss = read_loss(utility_loss)
        return _within_loss(verdict, loss, weights, method, starts=starts, seed=seed, progress=progress)
    targets = read_targets(network, privacy)
    refuse_above_limit(verdict, targets)
    return _for_privacy(
        verdict, targets, method, partial=partial, sweeps=sweeps, starts=starts, seed=seed, progress=progress
    )


def _for_privacy(verdict: Verdict, targets: dict[str, float], method: Method, **options: Any) -> Plan:
    from veilnet.designs.perfect import perfect_plan

    free = all(verdict.ceiling[name] >= target for name, target in targets.items())
    if method == "noise":
        from veilnet.designs.noise import noise_plan

        if not any(targets.values()):
            raise InvalidRequest("privacy: method='noise' needs a target; noise without one has no strength")
        return noise_plan(verdict, targets, partial=options["partial"])
    if method == "alternating":
        from veilnet.designs.alternating.plan import alternating_plan

        if not any(targets.values()):
            raise InvalidRequest("privacy: method='alternating' needs a target, for example privacy=10")
        return alternating_plan(verdict, targets, sweeps=options["sweeps"], progress=options["progress"])
    if method == "perfect" and not free:
        name = next(name for name, target in targets.items() if verdict.ceiling[name] < target)
        raise Infeasible(
            f"privacy: {name} was asked to reach {number(targets[name])}, but at perfect utility no mechanism "
            f"exceeds {number(verdict.ceiling[name])}; ask for less, or use method='auto' to trade utility for it"
        )
    if free:
        return perfect_plan(verdict, targets)
    from veilnet.designs.tradeoff import least_loss_plan

    return least_loss_plan(
        verdict, targets, starts=options["starts"], seed=options["seed"], progress=options["progress"]
    )


def _within_loss(
    verdict: Verdict, loss: float, weights: Mapping[str, float] | None, method: Method, **options: Any
) -> Plan:
    if method not in ("auto", "joint"):
        raise InvalidRequest(f"method: utility_loss= goes with 'auto' or 'joint', found {method!r}")
    if loss == 0.0 or verdict.achievable:
        from veilnet.designs.perfect import perfect_plan

        return perfect_plan(verdict, {})
    from veilnet.designs.tradeoff import most_privacy_plan

    return most_privacy_plan(verdict, loss, weights, **options)


def _by_power(verdict: Verdict, power: Any, method: Method, progress: Progress | None) -> Plan:
    from veilnet.designs.power import power_plan

    if method not in ("auto", "power"):
        raise InvalidRequest(f"method: power= goes with 'auto' or 'power', found {method!r}")
    if power is None:
        raise InvalidRequest("power: method='power' needs the largest noise power of an agent, power=1e4 say")
    return power_plan(verdict, read_power(verdict.network, power), progress=progress)


def _refuse_stray_options(
    method: Method, weights: Mapping[str, float] | None, utility_loss: float | None, partial: bool
) -> None:
    if weights is not None and utility_loss is None:
        raise InvalidRequest(
            "weights: they divide privacy within utility_loss=; give that too, or leave them out"
        )
    if partial and method != "noise":
        raise InvalidRequest(f"partial: goes with method='noise', found {method!r}")
