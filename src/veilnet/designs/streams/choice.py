"""Which design answers what was asked of a stream, and what is not built for streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from veilnet._core.errors import InvalidRequest
from veilnet._core.progress import Progress
from veilnet.designs.questions import (
    above_ceiling,
    read_loss,
    read_targets,
    refuse_above_limit,
)
from veilnet.designs.streams.perfect import perfect_stream_plan
from veilnet.designs.streams.tradeoff import StreamTradeoff
from veilnet.model.network import Network
from veilnet.plans.plan import Plan
from veilnet.verdict.streams.exact_test import check_stream

__all__ = ["refuse_proof", "stream_design"]

_NOT_FOR_STREAMS = {
    "power": "noise of limited power is",
    "noise": "Algorithms 1 and 2 of the paper are",
    "alternating": "Algorithm 3 of the paper is",
}


def stream_design(
    network: Network,
    *,
    privacy: Any,
    utility_loss: Any,
    power: Any,
    method: str,
    proving: bool,
    searching: bool,
    weights: Mapping[str, float] | None,
    given_up: frozenset[str],
    starts: int | None,
    seed: int,
    progress: Progress | None,
) -> Plan:
    """The plan for a stream; ``searching`` where the user expects a search."""
    _refuse_what_is_not_built(network, privacy, power, method, proving)
    verdict = check_stream(network)
    tradeoff = StreamTradeoff(verdict, starts, seed, progress, given_up)
    if utility_loss is not None:
        return _within_loss(tradeoff, read_loss(utility_loss), weights, method, searching=searching)
    targets, _ = read_targets(network, privacy)
    refuse_above_limit(verdict, targets)
    short = [name for name, target in targets.items() if verdict.ceiling[name] < target]
    if not short:
        asked = any(targets.values())
        goal = "reaches the target" if asked else "gives the most privacy at perfect utility"
        remark = f"free: share filters already {goal}" if searching else None
        return perfect_stream_plan(verdict, targets, remark=remark)
    if method == "perfect":
        raise above_ceiling(verdict.ceiling, targets, " with hindsight")
    return tradeoff.least_loss(targets)


def _within_loss(
    tradeoff: StreamTradeoff,
    loss: float,
    weights: Mapping[str, float] | None,
    method: str,
    *,
    searching: bool,
) -> Plan:
    if method == "perfect":
        raise InvalidRequest(f"method: utility_loss= goes with 'auto' or 'joint', found {method!r}")
    verdict = tradeoff.verdict
    if loss == 0.0 or verdict.achievable:
        why = "at no loss" if loss == 0.0 else "already"
        remark = f"free: share filters {why} give all the privacy there is" if searching else None
        return perfect_stream_plan(verdict, {}, remark=remark)
    return tradeoff.most_privacy(loss, weights)


def refuse_proof() -> NoReturn:
    """Refuse to prove how good a trade-off on a stream is."""
    raise InvalidRequest(
        "prove: no bound on what a design can reach is known for streams; leave it out (share filters at perfect "
        "utility are optimal by theorem)"
    )


def _refuse_what_is_not_built(network: Network, privacy: Any, power: Any, method: str, proving: bool) -> None:
    asked = "power" if power is not None else method
    if asked in _NOT_FOR_STREAMS:
        raise InvalidRequest(
            f"{'power' if power is not None else 'method'}: {_NOT_FOR_STREAMS[asked]} made for rows that have "
            "nothing to do with one another, not for a stream; use method='auto', or design for network.one_row"
        )
    if proving:
        refuse_proof()
    _, worst = read_targets(network, privacy)
    if worst:
        raise InvalidRequest(
            "privacy: targets on every direction (Worst) are not built for streams; ask for numbers, and look at "
            "plan.worst_direction"
        )
