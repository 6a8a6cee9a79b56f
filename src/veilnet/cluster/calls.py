"""check, design and verify for a network in parts.

Two passes over the agents. The first adds up T with T'T = Σ H_i'R_i^-1 H_i; from it follow the L x rank(U) weights
that are all an agent needs of the others. The second finds what each agent has to send, writes it beside its input,
and adds up what is known from it. What is left is L x L: a network of one imaginary agent that observes T x with unit
noise has the same bounds, limits and conditioning as all agents together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.progress import Progress
from veilnet._core.threads import one_thread
from veilnet._core.types import Array
from veilnet.bounds.knowledge import knowledge_of_factor, privacy_limit
from veilnet.cluster.parts import Parts, opened
from veilnet.cluster.plans import PartsPlan, PartsVerdict, forget_begun, promise_of, put_in_service
from veilnet.cluster.running import over_parts
from veilnet.cluster.searching import PartsPower, PartsTradeoff, read_power_of_parts
from veilnet.cluster.sums import SAME_INFORMATION, PlanSums, certificate_sums, raw_sums, share_sums
from veilnet.designs.joint import SearchOptions
from veilnet.designs.power import PARTS_OF_POWER
from veilnet.designs.questions import Worst, one_target, read_asked, refuse_above_limit
from veilnet.designs.tradeoff import MARGINS
from veilnet.plans.asked import Asked
from veilnet.plans.certificate import Certificate, Finding, Promise, certify, confirmed_promise, power_finding
from veilnet.recheck.route import Recheck
from veilnet.verdict.shares import public_weights, share_tolerance

AGENTS = "agents"  # how many there are, among what is verified
_NO_LOSS = 1e-12  # what rounding leaves of nothing
# by so much, relative to 1 plus the limit, a target may be above what rounding makes of its limit
_SLACK = 1e-9

Answers = Iterable[tuple[PlanSums, Mapping[str, Any]]]
"""Sums of a plan and how it was found, each with more room for rounding than the one before."""


def check(
    parts: Parts | str | PathLike[str], *, client: Any = None, progress: Progress | None = None
) -> PartsVerdict:
    """How much privacy is free in a network in parts; nothing is written, and a plan that is there stays as it is.

    parts:    the network, or its folder.
    client:   a ``dask.distributed`` client; None does the same here, with the same bits.
    progress: called with (what is being done, the part that is done).
    """
    return _Run(opened(parts), client, progress, keep=False).free({}).verdict


def design(
    parts: Parts | str | PathLike[str],
    privacy: float | Mapping[str, float] | None = None,
    utility_loss: float | str | None = None,
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
    given = one_target(privacy=privacy, utility_loss=utility_loss, power=power)
    if give_up and given not in (["privacy"], ["utility_loss"]):
        raise InvalidRequest(
            "give_up: goes with privacy= or utility_loss=, where one parameter's protection can be traded for "
            "another's; leave it out"
        )
    powers = {} if power is None else read_power_of_parts(network, power)
    run = _Run(network, client, progress, keep=True)
    asked = read_asked(run.whole, privacy, utility_loss, give_up=give_up)
    if asked.worst:
        raise InvalidRequest(f"privacy: {Worst.__name__}(...) is for networks in one piece; ask for a number")
    if power is not None:
        noise = PartsPower(network, run.whole, run.shares, powers, client, progress)
        wanted = Asked(most_loss=0.0, power=powers)
        return run.confirmed(map(noise.answer, PARTS_OF_POWER), wanted, noise.ceiling)
    targets = {} if privacy is None else asked.targets
    limit = privacy_limit(run.whole)
    refuse_above_limit({name: each + _SLACK * (1 + each) for name, each in limit.items()}, targets)
    if any(targets.values()) or asked.most_loss:
        options = SearchOptions(starts, seed, progress)
        search = PartsTradeoff(network, run.whole, run.first.readings, options, client)
        if asked.most_loss or any(target > search.ceiling[name] for name, target in targets.items()):
            kept = search.keeping(asked, limit)
            answers = (search.answer(kept, margin) for margin in MARGINS)
            wanted = Asked(kept.targets, most_loss=kept.most_loss, floors=kept.floors)
            return run.confirmed(answers, wanted, search.ceiling)
    return run.free(targets)


class _Run:
    """One call: the first pass over all parts, and what its sums say of a plan.

    whole: one imaginary agent that tells what all agents tell.
    first: the sums of the first pass.
    keep:  whether what is found is written down.
    """

    def __init__(self, network: Parts, client: Any, progress: Progress | None, *, keep: bool) -> None:
        self._network, self._keep = network, keep
        self._how = {"client": client, "progress": progress}
        self.first: PlanSums = over_parts(raw_sums, network, **self._how, what="adding up")
        if self.first.agents != network.agents:
            raise InvalidRequest(
                f"{network.folder}: the header speaks of {network.agents} agents, the parts have "
                f"{self.first.agents}; write the folder again"
            )
        with one_thread():
            self.whole = network.whole(self.first.triangle)

    @property
    def shares(self) -> tuple[Array, float]:
        """The weights and the tolerance of the shares of all agents."""
        with one_thread():
            amplified = max(self.whole.conditioning, self.first.condition)
            weights = public_weights(self.whole.raw_triangle, self.whole.U)
            return weights, share_tolerance(amplified, self.first.readings)

    def free(self, targets: Mapping[str, float]) -> PartsPlan:
        """The most privacy at perfect utility."""

        def answers() -> Iterator[tuple[PlanSums, Mapping[str, Any]]]:
            what = "designing" if self._keep else "looking"
            yield over_parts(share_sums, self._network, *self.shares, self._keep, **self._how, what=what), {}

        return self.confirmed(answers(), Asked(targets, most_loss=0.0))

    def confirmed(
        self, answers: Answers, asked: Asked, ceiling: Mapping[str, float] | None = None
    ) -> PartsPlan:
        """The first answer that is confirmed, in the place of the plan that was there.

        asked:   what it is to promise beside its figures.
        ceiling: the privacies that are free; those of the answer when left out.
        """
        whole = self.whole
        for sums, details in answers:
            with one_thread():
                known = knowledge_of_factor(whole, sums.triangle)
                lost = known.growth(whole.measured)
                grown = {name: known.growth(rows) for name, rows in whole.private.items()}
                promise = Promise(
                    **vars(asked), utility=0.0 if abs(lost) < _NO_LOSS else -lost, privacy=grown
                )
                recheck = Recheck(whole, sums=(sums.raw, sums.left))
                promise, certificate = confirmed_promise(whole, {}, promise, begun=recheck)
                certificate = _with_power(certificate, promise, sums)
            if certificate.ok:
                return self._in_service(promise, certificate, sums, details, ceiling or grown)
        if self._keep:
            forget_begun(self._network)
        raise InvalidPlan(f"the plan is not confirmed and was not returned: {certificate.complaint()}")

    def _in_service(
        self, promise: Promise, certificate: Certificate, sums: PlanSums, details: Mapping[str, Any],
        ceiling: Mapping[str, float],
    ) -> PartsPlan:  # fmt: skip
        network, limit = self._network, privacy_limit(self.whole)
        verdict = PartsVerdict(ceiling, limit, sums.agents, sums.numbers, sums.exposed)
        counts = {
            "agents": sums.agents,
            "readings": sums.readings,
            "numbers_sent": sums.numbers,
            "triangle": self.first.triangle,
            "limit": limit,
        }
        replaced = self._keep and put_in_service(network, promise, counts, sums.waiting)
        return PartsPlan(
            network, promise.utility, promise.privacy, certificate, verdict, sums.computed, promise.targets,
            promise.most_loss, details, replaced,
        )  # fmt: skip


def _with_power(certificate: Certificate, promise: Promise, sums: PlanSums) -> Certificate:
    """The same, with the agent whose noise comes nearest to its limit where powers are limited."""
    if not promise.power:
        return certificate
    parts, names, used = zip(*sums.noisiest, strict=True)
    allowed = np.array([promise.power[part] for part in parts])
    return Certificate((*certificate.findings, power_finding(names, allowed, np.array(used))))


def verify(
    parts: Parts | str | PathLike[str], *, client: Any = None, progress: Progress | None = None
) -> Certificate:
    """The promises of a saved plan, recomputed from the parts on disk by formulas that no design uses.

    The arguments are those of :func:`check`. The certificate says what was promised and what was found.
    """
    network = opened(parts)
    promise, stated = promise_of(network)
    sums: PlanSums = over_parts(certificate_sums, network, client=client, progress=progress, what="verifying")
    with one_thread():
        if not np.all(np.abs(stated.H.T @ stated.H - sums.raw) <= SAME_INFORMATION * np.trace(sums.raw)):
            raise InvalidPlan(
                f"{network.folder}: its plan says another triangle than raw readings; design once more"
            )
        values, vectors = np.linalg.eigh(sums.raw)
        whole = network.whole((vectors * np.sqrt(np.maximum(values, 0.0))).T)
        found = certify(whole, {}, promise, begun=Recheck(whole, sums=(sums.raw, sums.left)))
    count = Finding(AGENTS, float(network.agents), float(sums.agents), network.agents == sums.agents)
    return Certificate((*_with_power(found, promise, sums).findings, count))
