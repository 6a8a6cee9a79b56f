"""The result of a design: what each agent sends, what it costs, what it protects, and the proof."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.frozen import Frozen, derived
from veilnet.agent.dither import counting_dither, with_more_dither
from veilnet.agent.mechanisms import as_rounded, mechanisms
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.detectability import Detectability, detectability
from veilnet.bounds.knowledge import Outlook, outlook, privacy
from veilnet.bounds.streams.gaps import GAP_PRIVACY, promise_with_gaps, read_gap_privacy
from veilnet.bounds.streams.knowledge import StreamKnowledge
from veilnet.centre.models import Messages, messages_of
from veilnet.model.network import Network
from veilnet.model.stream_size import by_stacks
from veilnet.plans.asked import Asked
from veilnet.plans.certificate import LOSS_ALLOWED, Certificate, Promise, confirmed_promise
from veilnet.plans.every_direction import growth_asked
from veilnet.plans.lower_bound.proof import Proof
from veilnet.plans.release_grid import with_release_grid
from veilnet.plans.rounding import Rounding, rounding_of
from veilnet.sums.collusion import Collusion, worst_collusion
from veilnet.sums.handing_out import handed_out
from veilnet.sums.program import proved_gap
from veilnet.verdict.notes import notes_on, refuse_narrow_limits

_NO_LOSS = 1e-13  # some hundred roundings of one
_NOTHING_ASKED = Asked()
Answer = TypeVar("Answer")


@dataclass(frozen=True, eq=False)
class Plan(Frozen):
    """What every agent sends, with the utility and privacy that follow.

    network:     the model the plan was made for.
    sanitizers:  agent -> Sanitizer.
    method:      how it was found.
    utility:     the paper's u <= 0; 0 is perfect.
    privacy:     p_j per private parameter, inf where g_j as a whole cannot be estimated; of a stream, with hindsight
                 and without gaps.
    privacy_with_gaps: of a stream, the least p_j around a missed row of an agent or of all, and at a start; empty
                 where agents are so many that it is not computed, and for plans of single rows.
    certificate: the same numbers recomputed from the network and the sanitizers alone, by another route.
    targets:     the p_j asked for.
    worst_targets: what was asked of every direction of g_j (:class:`veilnet.Worst`).
    floors:      the p_j that is free and was kept where more was paid for, of parameters whose target is lower.
    details:     how it was found, in the method's own terms (starts, iterations, bounds, power).
    seen:        by how many deviations d' a secret's change and none may be apart, where that was asked.
    proof:       what no design can beat, with the multipliers that prove it, where ``design(..., prove=)`` found one.
    """

    network: Network
    sanitizers: Mapping[str, Sanitizer]
    method: str
    utility: float
    privacy: Mapping[str, float]
    certificate: Certificate
    targets: Mapping[str, float] = field(default_factory=dict)
    worst_targets: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    proof: Proof | None = None
    floors: Mapping[str, float] = field(default_factory=dict)
    privacy_with_gaps: Mapping[str, float] = field(default_factory=dict)
    seen: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sanitizers", mechanisms(self.network, self.sanitizers))
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Mapping) and each.name != "sanitizers":
                object.__setattr__(self, each.name, MappingProxyType(dict(value)))

    @property
    def gap(self) -> float:
        """How much better the best possible design can be at most, relative: 0 is optimal, inf means not proved.

        Asked for privacy: (loss - bound)/bound, where every design that reaches the targets loses more than the
        bound. Asked for a loss: (bound - p)/p, where no design within the loss hides everything more than the bound,
        p what this one reaches. Closed forms are optimal; a power-limited design has its certified gap in total
        privacy.
        """
        if self.method == "power":
            return float(self.details.get("relative_gap", np.inf))
        if self.method == "perfect" or (self.targets and self.certificate.ok and self.utility == 0.0):
            return 0.0
        if "multipliers" in self.details:
            return self._gap_of_one_sum
        if self.targets or self.worst_targets:
            return self._gap_in_loss()
        return self._gap_in_privacy()

    @derived
    def _gap_of_one_sum(self) -> float:
        # Floors are not asked of mechanisms within a loss: their bound holds without them.
        return proved_gap(
            self.network,
            self.details["multipliers"],
            -self.utility if self.targets or self.most_loss is None else self.most_loss,
            self.privacy,
            self.privacy_asked if self.targets else {},
        )

    @property
    def privacy_asked(self) -> dict[str, float]:
        """The least p_j that every design has which is compared with this one.

        Floors count, since the best possible design keeps them too, and what is asked of every direction of g_j is
        reached by their mean.
        """
        each = (self.targets, self.floors, self.worst_targets)
        return {name: max(one.get(name, 0.0) for one in each) for name in self.privacy}

    def _gap_in_loss(self) -> float:
        if self.proof is None or any(
            each > self._asked_of(name) for name, each in self.proof.privacy.items()
        ):
            return np.inf
        return max(0.0, -self.utility / self.proof.loss - 1.0) if self.proof.loss > 0 else np.inf

    def _asked_of(self, name: str) -> float:
        """What is asked of a parameter, or of the combination of its rows that the proof is about."""
        mixed = None if self.proof is None else self.proof.mixed.get(name)
        if mixed is None:
            return self.privacy_asked[name]
        worst = self.worst_targets.get(name, 0.0)
        return growth_asked(self.network, name, mixed, worst, self.seen.get(name))

    def _gap_in_privacy(self) -> float:
        allowed = self.most_loss
        if allowed is None:
            return np.inf
        if all(np.isinf(each) for each in self.privacy.values()):
            return 0.0
        if self.proof is None or self.proof.loss < allowed or self.proof.mixed:
            return np.inf
        if any(self.privacy[name] <= 0 for name in self.proof.privacy):
            return np.inf
        return max(0.0, max(each / self.privacy[name] for name, each in self.proof.privacy.items()) - 1.0)

    def with_proof(self, proof: Proof) -> Plan:
        """The same plan with a proof of how good it is; InvalidPlan where the proof does not hold on its network.

        proof: what no design of this network can beat, with the multipliers that prove it.
        """
        if not proof.holds(self.network):
            raise InvalidPlan(
                "proof: the theorem's inequality does not hold on this network; nothing is proved"
            )
        return replace(self, proof=proof)

    def with_gap_privacy(self, part: float) -> Plan:
        """The same plan of a stream, its memories drawn so large that ``part`` of every error is left around a gap.

        part: of the error without gaps, from 0 to below 1; designs have 0.99.
        """
        if not self.privacy_with_gaps:
            raise InvalidRequest("gap_privacy: goes with streams whose gaps are computed; leave it out")
        return make_plan(
            self.network, self.sanitizers, self.method, self.asked, details=self.details, gap_privacy=part
        )

    def hiding_changes(self, seen: Mapping[str, float]) -> Plan:
        """The same plan, which also promises how surely the changes of secrets are seen at most.

        seen: name -> d'; InvalidPlan where the recheck finds more.
        """
        asked = replace(self.asked, seen=seen)
        return make_plan(self.network, self.sanitizers, self.method, asked, details=self.details)

    @derived
    def detectability(self) -> dict[str, Detectability]:
        """How surely the change of each secret is seen in what is sent: see :func:`veilnet.detectability`."""
        return detectability(self.network, self.sanitizers)

    @derived
    def worst_direction(self) -> dict[str, float]:
        """The part of each private parameter that stays most exposed: see ``privacy(..., worst=True)``."""
        return privacy(self.network, self.sanitizers, worst=True)

    @derived
    def privacy_now(self) -> dict[str, float]:
        """For a stream, the privacy from the messages up to a row, before later ones tell more of it.

        Empty for streams of so many agents that it is not computed: the error is at least that with hindsight.
        """
        return {} if by_stacks(self.network) else privacy(self.network, self.sanitizers, when="now")

    @derived
    def messages(self) -> Messages:
        """What the centre has to know of what is sent."""
        coarse = "rounding_allowed" in self.details
        sent = as_rounded(self.network, self.sanitizers) if coarse else self.sanitizers
        return messages_of(self.network, sent)

    @derived
    def rounding(self) -> Rounding | None:
        """What ``design(..., bits=)`` saves, costs and hides; None where numbers are sent as finely as is safe."""
        return rounding_of(self.network, self.sanitizers) if "rounding_allowed" in self.details else None

    @property
    def asked(self) -> Asked:
        """What it was made for; the power of its noise stands among its details."""
        rounding = self.details.get("rounding_allowed")
        return Asked(
            *(self.targets, self.worst_targets, self.most_loss, self.floors),
            seen=self.seen,
            rounding=rounding,
        )

    @property
    def most_loss(self) -> float | None:
        """The utility loss the plan was allowed, None where none was given."""
        allowed = [finding.promised for finding in self.certificate.findings if finding.what == LOSS_ALLOWED]
        return allowed[0] if allowed else None

    @property
    def given_up(self) -> tuple[str, ...]:
        """The private parameters that were given up, and so may be protected less than for free."""
        noted = self.details.get("given_up", ())
        return tuple(name for name in self.privacy if isinstance(noted, list) and name in noted)

    @property
    def interrupted(self) -> bool:
        """Whether the search was stopped before its end: the promises hold, but a better plan may exist."""
        return bool(self.details.get("interrupted", False))

    @derived
    def members(self) -> dict[str, Sanitizer]:
        """agent -> what it does, where agents add up their messages; the same as ``sanitizers`` where none do."""
        return handed_out(self.network, self.sanitizers)

    @derived
    def colluding(self) -> dict[str, float]:
        """p_j when the worst one agent helps the centre, or drops out; :meth:`collusion` names it."""
        return {name: each.privacy for name, each in self.collusion(1).items()}

    def collusion(self, count: int = 1) -> dict[str, Collusion]:
        """Of each private parameter, the agents that help the centre most, and the privacy that is left.

        count: how many of them hand over their readings and draws. Where sets are very many, the worst grows agent
               by agent, and says so.
        """
        kept: dict[int, dict[str, Collusion]] = self.__dict__.setdefault("_collusions", {})
        if count not in kept:
            kept[count] = worst_collusion(self.network, self.sanitizers, count)
        return kept[count]

    @property
    def sent(self) -> Mapping[str, int]:
        """How many numbers each agent sends (in a row of a stream)."""
        return mechanisms(self.network, self.sanitizers).numbers_sent

    @property
    def kept(self) -> Mapping[str, int]:
        """How many numbers each agent keeps from row to row; 0 for those without a memory."""
        return mechanisms(self.network, self.sanitizers).numbers_kept

    def save(self, folder: str | PathLike[str], *, force: bool = False) -> None:
        """Write one file per agent, one for the centre and one for the whole; or one compact file for many agents.

        folder: where to; it is made if there is none, and an earlier plan of the same network in it is replaced,
                whole or not at all. A name that ends in .npz is one file, from which ``veilnet extract``
                takes any agent's own.
        force:  replace the plan of another network too; without it, InvalidPlan is raised and nothing is written.
        """
        from veilnet.io.plan_files import save_plan
        from veilnet.io.plan_reading import check_destination

        check_destination(Path(folder), self.network, force=force)
        save_plan(self, folder)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Plan:
        """Read a plan and verify it; a changed, truncated or mixed-up file is refused.

        folder: where :meth:`save` or ``veilnet design --out`` wrote it, a folder or a plan.npz.
        """
        from veilnet.plans.verification import load_plan

        return load_plan(folder)

    def report(self, *, audit: Any = None, frontier: Any = None) -> Any:
        """A page that shows the plan (:class:`veilnet.report.page.Report`): a notebook displays it, and its
        ``save("report.html")`` writes it.

        audit:    what :func:`veilnet.audit` found, or the content of a file that ``veilnet audit --json`` wrote.
        frontier: what :func:`veilnet.frontier` traced for the plan's network, to draw the plan on it.
        """
        from veilnet.report.building import report_of

        return report_of(self, audit=audit, curve=frontier)

    def _repr_html_(self) -> str:
        from veilnet.report.cards import plan_card

        return plan_card(self)

    def __str__(self) -> str:
        from veilnet.plans.in_words import plan_in_words

        return plan_in_words(self)

    def notes(self) -> list[str]:
        """What to know of its readings, its model and the fit (:mod:`veilnet.verdict.notes`)."""
        return notes_on(self.network, self.sanitizers)

    def __repr__(self) -> str:
        privacy = ", ".join(f"{name}={value:.4g}" for name, value in self.privacy.items())
        return f"Plan({self.method}, utility={self.utility:.4g}, privacy: {privacy})"


class OtherDither(Exception):
    """What agents would send needs other dither than the network counts; ``network`` counts what serves."""

    def __init__(self, network: Network) -> None:
        super().__init__("what agents would send needs other dither than the network counts")
        self.network = network


def with_its_dither(network: Network, answer: Callable[[Network], Answer]) -> Answer:
    """What is answered for the network with the dither that the answer itself calls for.

    network: the model; dither that it states itself is kept where it serves.
    answer:  from a network to plans of it; each time dither does not serve them it is made again with more.
    """
    while True:
        try:
            return answer(network)
        except OtherDither as other:
            network = other.network


def make_plan(
    network: Network,
    sanitizers: Mapping[str, Sanitizer],
    method: str,
    asked: Asked = _NOTHING_ASKED,
    *,
    details: Mapping[str, Any] | None = None,
    known: Outlook | None = None,
    gap_privacy: float | None = GAP_PRIVACY,
) -> Plan:
    """Evaluate, re-verify by another route and seal a plan; InvalidPlan when its promise is not confirmed.

    ``asked`` is what it was made for, ``known`` what is known from these very sanitizers, where that was computed
    already, ``gap_privacy`` the part of an error without gaps that has to be left around one, None where
    that is not computed.
    """
    refuse_narrow_limits(network)
    network = counting_dither(network, sanitizers)
    sent = mechanisms(network, sanitizers)
    known = outlook(network, sent) if known is None else known
    gridded = with_release_grid(network, sent, known=known, rounding=asked.rounding)
    utility, hidden = known.utility, known.privacy
    noted, with_gaps = dict(details or {}), {}
    if asked.rounding is not None:
        noted["rounding_allowed"] = asked.rounding
    if asked.given_up and method == "joint":
        noted["given_up"] = sorted(asked.given_up)
    if isinstance(known, StreamKnowledge) and not by_stacks(network) and gap_privacy is not None:
        masked = promise_with_gaps(network, gridded, known, read_gap_privacy(gap_privacy))
        gridded, with_gaps = mechanisms(network, masked.sanitizers), dict(masked.privacy)
        noted |= {"start_size": masked.size, "public_after_missed_row": list(masked.public)}
    if abs(utility) < _NO_LOSS:
        utility = 0.0  # what rounding leaves of nothing is nothing
    promise = Promise(**vars(asked), utility=utility, privacy=hidden, with_gaps=with_gaps)
    other = with_more_dither(network, gridded)
    if other is not None:
        raise OtherDither(other)
    promise, certificate = confirmed_promise(network, gridded, promise)
    if not certificate.ok:
        raise InvalidPlan(
            f"the {method} plan is not confirmed and was not returned: {certificate.complaint()}; "
            f"{_advice(network)}"
        )
    return sealed_plan(network, gridded, method, promise, certificate, noted)


def sealed_plan(
    network: Network, sanitizers: Mapping[str, Sanitizer], method: str, promise: Promise,
    certificate: Certificate, details: Mapping[str, Any], proof: Proof | None = None,
) -> Plan:  # fmt: skip
    """The plan of a promise that was confirmed."""
    return Plan(
        network, sanitizers, method, promise.utility, promise.privacy, certificate,
        targets=promise.targets, worst_targets=promise.worst, floors=promise.floors, details=details,
        proof=proof, privacy_with_gaps=promise.with_gaps, seen=promise.seen,
    )  # fmt: skip


def _advice(network: Network) -> str:
    if network.is_stream:
        return "the steady state is hard to compute here: drop readings that nearly repeat others, or give more noise"
    if network.conditioning > 1e4:
        return (
            f"the network amplifies rounding {network.conditioning:.0e}-fold: drop readings that nearly repeat "
            "others, give a prior, or take out of x what hardly any reading sees"
        )
    return "ask for a little less privacy or allow a little more utility loss"
