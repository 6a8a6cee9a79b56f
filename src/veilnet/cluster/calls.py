"""check, design and verify for a network in parts.

Two passes over the agents. The first adds up T with T'T = Σ H_i'R_i^-1 H_i; from it follow the L x rank(U) weights
that are all an agent needs of the others. The second finds what each agent has to send, writes it beside its input,
and adds up what is known from it. What is left is L x L: a network of one imaginary agent that observes T x with unit
noise has the same bounds, limits and conditioning as all agents together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.progress import Progress
from veilnet._core.threads import one_thread
from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.knowledge import knowledge_of_factor, privacy_limit
from veilnet.cluster.extracting import sanitizer_of
from veilnet.cluster.parts import Parts, opened
from veilnet.cluster.power import PowerSearch, read_power_of_parts
from veilnet.cluster.promises import promise_of, save_promise
from veilnet.cluster.running import over_all_parts
from veilnet.cluster.sending import PLAN
from veilnet.cluster.tasks import Sums, certificate_sums, raw_sums, share_sums, withdraw
from veilnet.cluster.tradeoff import Search
from veilnet.designs.floors import beyond, read_give_up
from veilnet.designs.power import PARTS_OF_POWER
from veilnet.designs.questions import Worst, read_loss, refuse_given_up_in_vain
from veilnet.designs.questions import read_targets as targets_and_worst
from veilnet.designs.tradeoff import MARGINS
from veilnet.model.network import Network
from veilnet.plans.certificate import Certificate, Finding, Promise, certify, power_finding
from veilnet.plans.in_words import power_in_words
from veilnet.recheck.summed import SummedRecheck
from veilnet.verdict.share_stacks import share_tolerance, share_weights

__all__ = ["PartsPlan", "PartsVerdict", "check", "design", "verify"]

AGENTS = "agents"  # how many there are, among what is verified
_NO_LOSS = 1e-12  # what rounding leaves of nothing


@dataclass(frozen=True, eq=False)
class PartsVerdict:
    """How much privacy is free.

    ceiling: name -> most privacy at perfect utility.
    limit:   name -> what the prior allows at most.
    agents:  how many there are.
    numbers: how many numbers they send in all.
    exposed: how many of them withhold something by exact numbers, of readings whose resolution nobody stated.
    """

    ceiling: Mapping[str, float]
    limit: Mapping[str, float]
    agents: int
    numbers: int
    exposed: int = 0

    @property
    def achievable(self) -> bool:
        """Whether as much privacy as anyone could ask for is free."""
        return all(_reached(self.ceiling[name], self.limit[name]) for name in self.limit)

    def __str__(self) -> str:
        lines = [
            f"{name}: the centre's error variance grows {1 + self.ceiling[name]:.4g}-fold for free, "
            f"{1 + self.limit[name]:.4g}-fold at most"
            for name in self.ceiling
        ]
        if self.exposed:
            lines.append(
                f"No resolution was stated for {self.exposed} agents: exact numbers then protect only continuous "
                "readings (give save_parts the steps of the readings, or 0 if they are continuous)."
            )
        return "\n".join([f"{self.agents} agents send {self.numbers} numbers.", *lines])


@dataclass(frozen=True, eq=False)
class PartsPlan:
    """A plan whose agents are in the parts of a folder.

    parts:       the network.
    utility:     u, 0 is perfect.
    privacy:     name -> p_j.
    certificate: every promise recomputed from network and sanitizers alone; for parts finished before, when they were
                 made (:func:`verify` recomputes them all).
    verdict:     what is free.
    computed:    names of the parts worked on by this run; the others were finished before.
    targets:     the p_j asked for.
    most_loss:   the utility loss allowed, None where privacy was asked for.
    details:     of a trade-off, or of limited noise power: how it was found.
    """

    parts: Parts
    utility: float
    privacy: Mapping[str, float]
    certificate: Certificate
    verdict: PartsVerdict
    computed: tuple[str, ...]
    targets: Mapping[str, float] = field(default_factory=dict)
    most_loss: float | None = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)

    def sanitizer(self, part: str, place: int) -> Sanitizer:
        """What one agent runs.

        part:  the name of its part, "part-00000.npz".
        place: its place in it, from 0.
        """
        return sanitizer_of(self.parts, part, place)

    def __str__(self) -> str:
        written = f"Written to {self.parts.folder / PLAN}."
        if "power_allowed" in self.details:
            grown = "; ".join(f"{name} {1 + each:.4g}-fold" for name, each in self.privacy.items())
            return (
                f"{self.verdict}\nNoise within the power makes the centre's error variance grow: {grown}; what is "
                "public is estimated as well as from raw readings. No other noise within it hides more than "
                f"{100 * self.details['relative_gap']:.2g} % better in total, which is certified. "
                f"{' '.join(power_in_words(self.certificate))} {written}"
            )
        if self.utility == 0.0:
            return f"{self.verdict}\nWhat is public is estimated as well as from raw readings. {written}"
        grown = "; ".join(f"{name} {1 + each:.4g}-fold" for name, each in self.privacy.items())
        return (
            f"{self.verdict}\nThe centre's error variance grows: {grown}; of what is public by "
            f"{-100 * self.utility:.3g} %. {written}"
        )


def check(
    parts: Parts | str | PathLike[str], *, client: Any = None, progress: Progress | None = None
) -> PartsVerdict:
    """How much privacy is free in a network in parts; writes its parts of the plan, since they tell.

    parts:    the network, or its folder.
    client:   a ``dask.distributed`` client; None does the same here, with the same bits.
    progress: called with (what is being done, the part that is done).
    """
    return design(parts, client=client, progress=progress).verdict


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

    The other arguments are those of :func:`check`. Whatever is paid for, nothing else is hidden less than it is
    for free. Parts of the plan are written to ``plan/`` beside the inputs; those that an earlier run finished are not
    computed again. InvalidPlan where the promise is not confirmed.
    """
    network = opened(parts)
    asked = {"privacy": privacy, "utility_loss": utility_loss, "power": power}
    given = [name for name, value in asked.items() if value is not None]
    if len(given) > 1:
        raise InvalidRequest(f"{' and '.join(given)}: expected one target, found {len(given)}; choose one")
    if give_up and privacy is None and utility_loss is None:
        raise InvalidRequest(
            "give_up: goes with privacy= or utility_loss=, where one parameter's protection can be traded for "
            "another's; leave it out"
        )
    powers = {} if power is None else read_power_of_parts(network, power)
    where = (network.folder, network.length)
    first = over_all_parts(
        raw_sums, network.batches(), where, client=client, progress=progress, what="adding up"
    )
    with one_thread():
        whole = _summary(network, first)
    given_up = read_give_up(whole, give_up)
    if power is not None:
        return _powered(network, whole, first, PowerSearch(network, whole, first, powers, client, progress))
    targets = {} if privacy is None else read_targets(whole, privacy)
    loss = None if utility_loss is None else read_loss(utility_loss)
    if any(targets.values()) or loss:
        search = Search(network, whole, first.readings, starts, seed, progress, client)
        if loss or any(target > search.ceiling[name] for name, target in targets.items()):
            refuse_given_up_in_vain(search.ceiling, privacy, given_up)
            return _traded(network, whole, first, search, targets, loss, given_up, progress)
        search.crowd.forget()
    return _perfect(network, whole, first, targets, client, progress)


def _traded(
    network: Parts,
    whole: Network,
    first: Sums,
    search: Search,
    targets: Mapping[str, float],
    loss: float | None,
    given_up: frozenset[str],
    progress: Progress | None,
) -> PartsPlan:
    """The trade-off found, with more margin where the first was not confirmed."""
    limit = privacy_limit(whole)
    asked = search.asked(targets, loss, limit, given_up)
    for margin in MARGINS:
        sums, details = search.answer(asked, margin, progress)
        with one_thread():
            known = knowledge_of_factor(whole, sums.triangle)
            hidden = {name: known.growth(rows) for name, rows in whole.private.items()}
            promise = Promise(
                0.0 - known.growth(whole.U), hidden, targets, loss, {}, beyond(asked.floors, targets)
            )
            certificate = _certified(whole, promise, sums)
        if certificate.ok:
            break
    else:
        raise InvalidPlan(f"the plan is not confirmed and was not returned: {certificate.complaint()}")
    verdict = PartsVerdict(search.ceiling, limit, sums.agents, sums.numbers, sums.exposed)
    computed = tuple(sorted({*first.computed, *sums.computed}))
    if given_up:
        details = {**details, "given_up": sorted(given_up)}
    plan = PartsPlan(network, promise.utility, hidden, certificate, verdict, computed, targets, loss, details)
    save_promise(network, promise, plan.verdict.limit, first.readings, plan.verdict.numbers)
    search.crowd.forget()
    return plan


def _powered(network: Parts, whole: Network, first: Sums, search: PowerSearch) -> PartsPlan:
    """The noise found within the powers, or within a part of them where rounding of more was not confirmed."""
    for part in PARTS_OF_POWER:
        sums, details = search.answer(part)
        with one_thread():
            known = knowledge_of_factor(whole, sums.triangle)
            lost = known.growth(whole.U)
            hidden = {name: known.growth(rows) for name, rows in whole.private.items()}
            promise = Promise(0.0 if abs(lost) < _NO_LOSS else -lost, hidden, {}, 0.0, power=search.power)
            certificate = _certified(whole, promise, sums)
        if certificate.ok:
            break
    else:
        raise InvalidPlan(f"the plan is not confirmed and was not returned: {certificate.complaint()}")
    verdict = PartsVerdict(search.ceiling, privacy_limit(whole), sums.agents, sums.numbers, sums.exposed)
    computed = tuple(sorted({*first.computed, *sums.computed}))
    plan = PartsPlan(network, promise.utility, hidden, certificate, verdict, computed, {}, 0.0, details)
    save_promise(network, promise, plan.verdict.limit, first.readings, plan.verdict.numbers)
    search.forget()
    return plan


def _perfect(
    network: Parts,
    whole: Network,
    first: Sums,
    targets: Mapping[str, float],
    client: Any,
    progress: Progress | None,
) -> PartsPlan:
    batches = network.batches()
    where = (network.folder, network.length)
    withdraw(network.folder)
    with one_thread():
        weights = share_weights(whole.raw_triangle, whole.U)
        tolerance = share_tolerance(max(whole.conditioning, first.condition), first.readings)
    second = over_all_parts(
        share_sums, batches, (*where, weights, tolerance), client=client, progress=progress, what="designing"
    )
    with one_thread():
        known = knowledge_of_factor(whole, second.triangle)
        utility = 0.0 - known.growth(whole.U)
        ceiling = {name: known.growth(rows) for name, rows in whole.private.items()}
        promise = Promise(0.0 if abs(utility) < _NO_LOSS else utility, ceiling, targets, 0.0)
        certificate = _certified(whole, promise, second)
        limit = privacy_limit(whole)
    verdict = PartsVerdict(ceiling, limit, second.agents, second.numbers, second.exposed)
    if not certificate.ok:
        raise InvalidPlan(f"the plan is not confirmed and was not returned: {certificate.complaint()}")
    computed = tuple(sorted({*first.computed, *second.computed}))
    plan = PartsPlan(network, promise.utility, ceiling, certificate, verdict, computed, targets)
    save_promise(network, promise, plan.verdict.limit, first.readings, plan.verdict.numbers)
    return plan


def verify(
    parts: Parts | str | PathLike[str], *, client: Any = None, progress: Progress | None = None
) -> Certificate:
    """The promises of a saved plan, recomputed from the parts on disk by formulas that no design uses.

    The arguments are those of :func:`check`. The certificate says what was promised and what was found.
    """
    network = opened(parts)
    promise = promise_of(network)
    where = (network.folder, network.length)
    sums = over_all_parts(
        certificate_sums, network.batches(), where, client=client, progress=progress, what="verifying"
    )
    with one_thread():
        values, vectors = np.linalg.eigh(sums.raw)
        half = (vectors * np.sqrt(np.maximum(values, 0.0))).T
        whole = _network(network, half)
        found = _certified(whole, promise, sums)
    count = Finding(AGENTS, float(network.agents), float(sums.agents), network.agents == sums.agents)
    return Certificate((*found.findings, count))


def _certified(whole: Network, promise: Promise, sums: Sums) -> Certificate:
    """Every promise, recomputed from the sums that the certificate's own formulas gave in all parts."""
    found = certify(whole, {}, promise, begun=SummedRecheck(whole, sums.raw, sums.left))
    if not promise.power:
        return found
    names = [f"agent {place} of {part}" for part, place, _ in sums.noisiest]
    allowed = np.array([promise.power[part] for part, _, _ in sums.noisiest])
    used = np.array([each for _, _, each in sums.noisiest])
    return Certificate((*found.findings, power_finding(names, allowed, used)))


def read_targets(whole: Network, privacy: float | Mapping[str, float]) -> dict[str, float]:
    """The privacy asked of every private parameter; nothing is asked of single directions in parts."""
    targets, worst = targets_and_worst(whole, privacy)
    if worst:
        raise InvalidRequest(f"privacy: {Worst.__name__}(...) is for networks in one piece; ask for a number")
    return targets


def _summary(parts: Parts, sums: Sums) -> Network:
    if sums.agents != parts.agents:
        raise InvalidRequest(
            f"{parts.folder}: the header speaks of {parts.agents} agents, the parts have {sums.agents}; write the "
            "folder again"
        )
    return _network(parts, sums.triangle)


def _network(parts: Parts, rows: Array) -> Network:
    return Network({"all agents": rows}, 1.0, parts.public, parts.private, parts.prior)


def _reached(ceiling: float, limit: float) -> bool:
    return bool(ceiling >= limit - 1e-9 * (1 + limit)) if np.isfinite(limit) else bool(np.isinf(ceiling))
