"""check, design and verify for a network in parts.

Two passes over the agents. The first adds up T with T'T = Σ H_i'R_i^-1 H_i; from it follow the L x rank(U) weights
that are all an agent needs of the others. The second finds what each agent has to send, writes it beside its input,
and adds up what is known from it. What is left is L x L: a network of one imaginary agent that observes T x with unit
noise has the same bounds, limits and conditioning as all agents together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.progress import Progress
from veilnet._core.threads import one_thread
from veilnet._core.types import Array
from veilnet.bounds.knowledge import knowledge_of_factor, privacy_limit
from veilnet.cluster.parts import Parts, opened
from veilnet.cluster.power import PowerSearch, read_power_of_parts
from veilnet.cluster.promises import forget_begun, promise_of, put_in_service
from veilnet.cluster.results import ROUNDING, PartsPlan, PartsVerdict
from veilnet.cluster.running import over_all_parts
from veilnet.cluster.tasks import BatchSums, certificate_sums, raw_sums, share_sums
from veilnet.cluster.tradeoff import PartsTradeoff, refuse_beyond
from veilnet.designs.confirmed import MARGINS
from veilnet.designs.power import PARTS_OF_POWER
from veilnet.designs.questions import Worst, read_asked
from veilnet.model.network import Network
from veilnet.plans.certificate import Certificate, Finding, Promise, certify, power_finding
from veilnet.recheck.summed import SummedRecheck
from veilnet.verdict.share_stacks import share_tolerance, share_weights

__all__ = ["check", "design", "verify"]

AGENTS = "agents"  # how many there are, among what is verified
_NO_LOSS = 1e-12  # what rounding leaves of nothing
_LARGE = 1e6  # a growth from which on doubles may be wrong about how large it is


def check(
    parts: Parts | str | PathLike[str], *, client: Any = None, progress: Progress | None = None
) -> PartsVerdict:
    """How much privacy is free in a network in parts; nothing is written, and a plan that is there stays as it is.

    parts:    the network, or its folder.
    client:   a ``dask.distributed`` client; None does the same here, with the same bits.
    progress: called with (what is being done, the part that is done).
    """
    network = opened(parts)
    whole, first = _added_up(network, client, progress, keep=False)
    return _free(network, whole, first, {}, client, progress, keep=False).verdict


def design(
    parts: Parts | str | PathLike[str],
    privacy: float | Mapping[str, float] | None = None,
    utility_loss: float | None = None,
    power: float | Mapping[str, float] | None = None,
    *,
    give_up: str | Sequence[str] = (),
    starts: int | None = None,
    seed: int = 0,
    client: Any = None,
    progress: Progress | None = None,
) -> PartsPlan:
    """What each agent of a network in parts should send.

    Without a target: the most privacy at perfect utility; every agent sends its share and nothing else (mathematics,
    section 3).

    privacy:      p_j to reach, one number for all or name -> number: least utility loss.
    utility_loss: loss allowed (0.05 is 5 %): the largest privacy that all reach.
    power:        largest noise power tr Θ_i of an agent, one number for all or the name of a part -> number: most
                  privacy at perfect utility by noise alone, with a certified gap (``details["relative_gap"]``).
    give_up:      private parameters, by name, that may be hidden less than they are for free; within a utility_loss=
                  nothing is spent on them.
    starts, seed: of the search for a trade-off.

    The other arguments are those of :func:`check`. Whatever is paid for, nothing of which privacy= gives no number is
    hidden less than it is for free. The plan is written to ``plan/`` beside the inputs. A plan that is there is
    replaced once the new one is confirmed, and stays as it is where that is refused or cut off. Parts that an earlier
    run finished are not computed again. InvalidPlan where the promise is not confirmed.
    """
    network = opened(parts)
    by_name = {"privacy": privacy, "utility_loss": utility_loss, "power": power}
    given = [name for name, value in by_name.items() if value is not None]
    if len(given) > 1:
        raise InvalidRequest(f"{' and '.join(given)}: expected one target, found {len(given)}; choose one")
    if give_up and privacy is None and utility_loss is None:
        raise InvalidRequest(
            "give_up: goes with privacy= or utility_loss=, where one parameter's protection can be traded for "
            "another's; leave it out"
        )
    powers = {} if power is None else read_power_of_parts(network, power)
    whole, first = _added_up(network, client, progress, keep=True)
    asked = read_asked(whole, privacy, utility_loss, give_up=give_up)
    if asked.worst:
        raise InvalidRequest(f"privacy: {Worst.__name__}(...) is for networks in one piece; ask for a number")
    if power is not None:
        noise = PowerSearch(network, whole, first, powers, client, progress)
        answers = (noise.answer(part) for part in PARTS_OF_POWER)
        plan = _searched(
            network, whole, first, noise.ceiling, answers, Promise(0.0, {}, {}, 0.0, power=powers)
        )
        noise.forget()
        return plan
    targets = {} if privacy is None else asked.targets
    refuse_beyond(targets, privacy_limit(whole), ROUNDING)
    if any(targets.values()) or asked.most_loss:
        search = PartsTradeoff(network, whole, first.readings, starts, seed, progress, client)
        if asked.most_loss or any(target > search.ceiling[name] for name, target in targets.items()):
            kept = search.keeping(asked, privacy_limit(whole))
            answers = (search.answer(kept, margin, progress) for margin in MARGINS)
            promise = Promise(0.0, {}, kept.targets, kept.most_loss, {}, kept.floors)
            plan = _searched(network, whole, first, search.ceiling, answers, promise)
            search.crowd.forget()
            return plan
        search.crowd.forget()
    found = _free(network, whole, first, targets, client, progress, keep=True)
    return _in_service(network, first, found, targets, 0.0, {})


@dataclass(frozen=True, eq=False)
class _Found:
    """A plan that was confirmed: its promise, its certificate, its sums over all parts, and what is free."""

    promise: Promise
    certificate: Certificate
    sums: BatchSums
    verdict: PartsVerdict


def _in_service(
    network: Parts,
    first: BatchSums,
    found: _Found,
    targets: Mapping[str, float],
    most_loss: float | None,
    details: Mapping[str, Any],
) -> PartsPlan:
    """What was found, in the place of the plan that was there."""
    promise = found.promise
    replaced = put_in_service(network, promise, found.verdict.limit, first.readings, found.sums)
    computed = tuple(sorted({*first.computed, *found.sums.computed}))
    return PartsPlan(
        network, promise.utility, promise.privacy, found.certificate, found.verdict, computed, targets, most_loss,
        details, replaced,
    )  # fmt: skip


def _added_up(
    network: Parts, client: Any, progress: Progress | None, *, keep: bool
) -> tuple[Network, BatchSums]:
    """One imaginary agent that tells what all agents tell, and the sums of the first pass."""
    first = over_all_parts(raw_sums, network, (keep,), client=client, progress=progress, what="adding up")
    with one_thread():
        return _summary(network, first), first


def _searched(
    network: Parts,
    whole: Network,
    first: BatchSums,
    ceiling: Mapping[str, float],
    answers: Iterable[tuple[BatchSums, dict[str, Any]]],
    asked: Promise,
) -> PartsPlan:
    """The first answer of a search that is confirmed.

    answers: sums of a plan and how it was found, each with more room for rounding than the one before.
    asked:   a promise that has no figures yet.
    """
    for sums, details in answers:
        with one_thread():
            known = knowledge_of_factor(whole, sums.triangle)
            lost = known.growth(whole.U)
            hidden = {name: known.growth(rows) for name, rows in whole.private.items()}
            promise = replace(asked, utility=0.0 if abs(lost) < _NO_LOSS else -lost, privacy=hidden)
            certificate = _certified(whole, promise, sums)
        if certificate.ok:
            verdict = PartsVerdict(ceiling, privacy_limit(whole), sums.agents, sums.numbers, sums.exposed)
            found = _Found(promise, certificate, sums, verdict)
            return _in_service(network, first, found, promise.targets, promise.most_loss, details)
    raise _not_confirmed(network, certificate)


def _free(
    network: Parts,
    whole: Network,
    first: BatchSums,
    targets: Mapping[str, float],
    client: Any,
    progress: Progress | None,
    *,
    keep: bool,
) -> _Found:
    """The most privacy at perfect utility; its parts are written down or not."""
    with one_thread():
        weights = share_weights(whole.raw_triangle, whole.U)
        tolerance = share_tolerance(max(whole.conditioning, first.condition), first.readings)
    sums = over_all_parts(
        share_sums, network, (weights, tolerance, keep), client=client, progress=progress,
        what="designing" if keep else "looking",
    )  # fmt: skip
    with one_thread():
        known = knowledge_of_factor(whole, sums.triangle)
        utility = 0.0 - known.growth(whole.U)
        ceiling = {name: known.growth(rows) for name, rows in whole.private.items()}
        hidden = _told_by_sums(whole, ceiling, sums)
        promise = Promise(0.0 if abs(utility) < _NO_LOSS else utility, hidden, targets, 0.0)
        certificate = _certified(whole, promise, sums)
        limit = privacy_limit(whole)
    if not certificate.ok:
        raise _not_confirmed(network if keep else None, certificate)
    return _Found(
        promise, certificate, sums, PartsVerdict(ceiling, limit, sums.agents, sums.numbers, sums.exposed)
    )


def _not_confirmed(network: Parts | None, certificate: Certificate) -> InvalidPlan:
    """The error about a plan that will not be in service; its parts are removed where they were written."""
    if network is not None:
        forget_begun(network)
    return InvalidPlan(f"the plan is not confirmed and was not returned: {certificate.complaint()}")


def verify(
    parts: Parts | str | PathLike[str], *, client: Any = None, progress: Progress | None = None
) -> Certificate:
    """The promises of a saved plan, recomputed from the parts on disk by formulas that no design uses.

    The arguments are those of :func:`check`. The certificate says what was promised and what was found.
    """
    network = opened(parts)
    promise = promise_of(network)
    sums = over_all_parts(certificate_sums, network, (), client=client, progress=progress, what="verifying")
    with one_thread():
        values, vectors = np.linalg.eigh(sums.raw)
        half = (vectors * np.sqrt(np.maximum(values, 0.0))).T
        whole = _network(network, half)
        found = _certified(whole, promise, sums)
    count = Finding(AGENTS, float(network.agents), float(sums.agents), network.agents == sums.agents)
    return Certificate((*found.findings, count))


def _told_by_sums(whole: Network, ceiling: Mapping[str, float], sums: BatchSums) -> dict[str, float]:
    """Privacies as they are promised: sums in doubles never show that one is without bound, only that it is large."""
    recheck = SummedRecheck(whole, sums.raw, sums.left)
    hidden = dict(ceiling)
    for name in hidden:
        if hidden[name] > _LARGE:
            found = recheck.growth(whole.private[name], hidden[name])
            hidden[name] = min(hidden[name], found) if found > _LARGE else hidden[name]
    return hidden


def _certified(whole: Network, promise: Promise, sums: BatchSums) -> Certificate:
    """Every promise, recomputed from the sums that the certificate's own formulas gave in all parts."""
    found = certify(whole, {}, promise, begun=SummedRecheck(whole, sums.raw, sums.left))
    if not promise.power:
        return found
    names = [f"agent {place} of {part}" for part, place, _ in sums.noisiest]
    allowed = np.array([promise.power[part] for part, _, _ in sums.noisiest])
    used = np.array([each for _, _, each in sums.noisiest])
    return Certificate((*found.findings, power_finding(names, allowed, used)))


def _summary(parts: Parts, sums: BatchSums) -> Network:
    if sums.agents != parts.agents:
        raise InvalidRequest(
            f"{parts.folder}: the header speaks of {parts.agents} agents, the parts have {sums.agents}; write the "
            "folder again"
        )
    return _network(parts, sums.triangle)


def _network(parts: Parts, rows: Array) -> Network:
    return Network({"all agents": rows}, 1.0, parts.public, parts.private, parts.prior)
