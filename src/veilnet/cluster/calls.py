"""check, design and verify for a network in parts.

Two passes over the agents. The first adds up T with T'T = Σ H_i'R_i^-1 H_i; from it follow the L x rank(U) weights
that are all an agent needs of the others. The second finds what each agent has to send, writes it beside its input,
and adds up what is known from it. What is left is L x L: a network of one imaginary agent that observes T x with unit
noise has the same bounds, limits and conditioning as all agents together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.names import NumberedNames
from veilnet._core.progress import Progress
from veilnet._core.threads import one_thread
from veilnet._core.types import Array
from veilnet._core.validation import unknown
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.knowledge import knowledge_of_factor, privacy_limit
from veilnet.cluster.parts import Parts, open_parts, read_part
from veilnet.cluster.running import over_all_parts
from veilnet.cluster.tasks import PLAN, Sums, certificate_sums, raw_sums, read_plan_part, share_sums
from veilnet.io._atomic import write_text
from veilnet.model.network import Network
from veilnet.plans.certificate import Certificate, Finding, Promise, certify
from veilnet.recheck.summed import SummedRecheck
from veilnet.verdict.share_stacks import share_tolerance, share_weights

__all__ = ["PartsPlan", "PartsVerdict", "check", "design", "verify"]

FORMAT = "veilnet-parts-plan/1"
_NO_LOSS = 1e-12  # what rounding leaves of nothing


@dataclass(frozen=True, eq=False)
class PartsVerdict:
    """How much privacy is free.

    ceiling: name -> most privacy at perfect utility.
    limit:   name -> what the prior allows at most.
    agents:  how many there are.
    numbers: how many numbers they have to send in all.
    """

    ceiling: Mapping[str, float]
    limit: Mapping[str, float]
    agents: int
    numbers: int

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
        return "\n".join([f"{self.agents} agents send {self.numbers} numbers at perfect utility.", *lines])


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
    """

    parts: Parts
    utility: float
    privacy: Mapping[str, float]
    certificate: Certificate
    verdict: PartsVerdict
    computed: tuple[str, ...]

    def sanitizer(self, part: str, place: int) -> Sanitizer:
        """What one agent runs.

        part:  the name of its part, "part-00000.npz".
        place: its place in it, from 0.
        """
        known = [each.name for each in self.parts.parts]
        if part not in known:
            raise unknown([part], known, "part", error=InvalidRequest)
        found = read_plan_part(self.parts.folder, part)
        count = len(found["sent"])
        if place not in range(count):
            raise InvalidRequest(f"place: expected 0 to {count - 1} in {part}, found {place}")
        sent = int(found["sent"][place])
        rows = np.array(found["compression"][place, :sent])
        made = Sanitizer.exact(rows, offset=np.zeros(rows.shape[1]), agent=self._name(part, place))
        return made.with_grid(found["grid"][place, :sent])

    def _name(self, part: str, place: int) -> str:
        """Its own name, or its number among all agents."""
        given = read_part(self.parts.folder / part, self.parts.length).names
        if given is not None:
            return given[place]
        before = [each.name for each in self.parts.parts].index(part)
        return NumberedNames(self.parts.agents)[sum(p.agents for p in self.parts.parts[:before]) + place]

    def __str__(self) -> str:
        written = f"Written to {self.parts.folder / PLAN}."
        return f"{self.verdict}\nWhat is public is estimated as well as from raw readings. {written}"


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
    parts: Parts | str | PathLike[str], *, client: Any = None, progress: Progress | None = None
) -> PartsPlan:
    """The most privacy at perfect utility: every agent sends its share and nothing else (mathematics, section 3).

    The arguments are those of :func:`check`. Parts of the plan are written to ``plan/`` beside the inputs; those that
    an earlier run finished are not computed again. InvalidPlan where the promise is not confirmed.
    """
    network = parts if isinstance(parts, Parts) else open_parts(parts)
    batches = network.batches()
    where = (network.folder, network.length)
    first = over_all_parts(raw_sums, batches, where, client=client, progress=progress, what="adding up")
    with one_thread():
        whole = _summary(network, first)
        weights = share_weights(whole.raw_triangle, whole.U)
        tolerance = share_tolerance(max(whole.conditioning, first.condition), first.readings)
    second = over_all_parts(
        share_sums, batches, (*where, weights, tolerance), client=client, progress=progress, what="designing"
    )
    with one_thread():
        known = knowledge_of_factor(whole, second.triangle)
        utility = 0.0 - known.growth(whole.U)
        ceiling = {name: known.growth(rows) for name, rows in whole.private.items()}
        promise = Promise(0.0 if abs(utility) < _NO_LOSS else utility, ceiling, {}, 0.0)
        certificate = certify(whole, {}, promise, begun=SummedRecheck(whole, second.raw, second.left))
        verdict = PartsVerdict(ceiling, privacy_limit(whole), second.agents, second.numbers)
    if not certificate.ok:
        raise InvalidPlan(f"the plan is not confirmed and was not returned: {certificate.complaint()}")
    computed = tuple(sorted({*first.computed, *second.computed}))
    plan = PartsPlan(network, promise.utility, ceiling, certificate, verdict, computed)
    _save(plan, first)
    return plan


def verify(
    parts: Parts | str | PathLike[str], *, client: Any = None, progress: Progress | None = None
) -> Certificate:
    """The promises of a saved plan, recomputed from the parts on disk by formulas that no design uses.

    The arguments are those of :func:`check`. The certificate says what was promised and what was found.
    """
    network = parts if isinstance(parts, Parts) else open_parts(parts)
    promise = _load(network)
    where = (network.folder, network.length)
    sums = over_all_parts(
        certificate_sums, network.batches(), where, client=client, progress=progress, what="verifying"
    )
    with one_thread():
        values, vectors = np.linalg.eigh(sums.raw)
        half = (vectors * np.sqrt(np.maximum(values, 0.0))).T
        whole = _network(network, half)
        found = certify(whole, {}, promise, begun=SummedRecheck(whole, sums.raw, sums.left))
    count = Finding("agents", float(network.agents), float(sums.agents), network.agents == sums.agents)
    return Certificate((*found.findings, count))


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


def _save(plan: PartsPlan, sums: Sums) -> None:
    document = {
        "format": FORMAT,
        "agents": plan.verdict.agents,
        "readings": sums.readings,
        "numbers_sent": plan.verdict.numbers,
        "utility": repr(plan.utility),
        "privacy": {name: repr(value) for name, value in plan.privacy.items()},
        "limit": {name: repr(value) for name, value in plan.verdict.limit.items()},
    }
    write_text(plan.parts.folder / PLAN / "plan.json", json.dumps(document, indent=2) + "\n")


def _load(parts: Parts) -> Promise:
    path: Path = parts.folder / PLAN / "plan.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT or list(document["privacy"]) != list(parts.private):
            raise InvalidPlan(
                f"{path}: not a plan for the private parameters of {parts.folder}; design once more"
            )
        privacy = {name: float(value) for name, value in document["privacy"].items()}
        return Promise(float(document["utility"]), privacy, {}, 0.0)
    except OSError as error:
        raise InvalidPlan(f"{path}: {error.strerror}; design first") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InvalidPlan):
            raise
        raise InvalidPlan(f"{path}: {error}; the plan was changed, design once more") from error
