"""The plan of a network in parts: its promises in one file, what agents send in a file beside each part.

plan/plan.json       what is promised, and what the raw readings of all agents tell; there only as long as all
                     parts are those of one confirmed plan
plan/part-00000.npz  of the agents of that part: ``compression`` (s, most, n), ``sent`` (s,), how many of those
                     rows each sends, ``grid`` (s, most), and ``variances`` (s, most), 0 or 1, where noise is
                     added; and a seal of these (:mod:`veilnet.cluster.sums`)
plan/begun/          parts of a plan that is not in service yet, and
plan/search/         what was answered in the search for it (:mod:`veilnet.cluster.searching`)
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.types import Array, Booleans, Integers
from veilnet._core.words import times
from veilnet.agent.mechanisms import Mechanisms
from veilnet.agent.sanitizer import Sanitizer
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.cluster.files import read_arrays, read_header, write_header
from veilnet.cluster.parts import PartFile, Parts, opened
from veilnet.io._atomic import remember_folder
from veilnet.io._kinds import FIGURE, FIGURES, PACKED, WHOLE, Maybe, Table
from veilnet.io._sealed import seal
from veilnet.io.sanitizer_files import to_document
from veilnet.model.network import Network
from veilnet.plans.certificate import Certificate, Promise
from veilnet.plans.in_words import power_in_words

FORMAT = "veilnet-parts-plan/2"
PLAN, PROMISES, BEGUN, SEARCH = "plan", "plan.json", "begun", "search"
_FIELDS = Table(
    agents=WHOLE, readings=WHOLE, numbers_sent=WHOLE, utility=FIGURE, privacy=FIGURES, limit=FIGURES, targets=FIGURES,
    floors=FIGURES, most_loss=Maybe(FIGURE), power=Maybe(FIGURES), triangle=PACKED,
)  # fmt: skip
# what is free may miss the limit by so much, relative to 1 plus the limit, where it reaches it
_ROUNDING = 1e-9


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
        return all(
            free >= limit - _ROUNDING * (1 + limit) if np.isfinite(limit) else np.isinf(free)
            for free, limit in ((self.ceiling[name], self.limit[name]) for name in self.limit)
        )

    def __str__(self) -> str:
        lines = [
            f"{name}: the standard error grows {times(1 + self.ceiling[name])} for free, "
            f"{times(1 + self.limit[name])} at most"
            for name in self.ceiling
        ]
        if self.exposed:
            lines.append(
                f"No resolution was stated for {self.exposed:,} agents: exact numbers then protect only continuous "
                "readings (give save_parts the steps of the readings, or 0 if they are continuous)."
            )
        return "\n".join([f"{self.agents:,} agents send {self.numbers:,} numbers.", *lines])


@dataclass(frozen=True, eq=False)
class PartsPlan:
    """A plan whose agents are in the parts of a folder.

    parts:       the network.
    utility:     u, 0 is perfect.
    privacy:     name -> p_j; a large figure where it is without bound, which sums in doubles cannot tell from that.
    certificate: every promise recomputed from network and sanitizers alone, of finished parts from their files.
    verdict:     what is free.
    computed:    names of the parts worked on by this run; the others were finished before.
    targets:     the p_j asked for.
    most_loss:   the utility loss allowed, None where privacy was asked for.
    details:     of a trade-off, or of limited noise power: how it was found.
    replaced:    whether a plan with other promises was there before; messages made by that cannot be fused any more.
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
    replaced: bool = False

    def sanitizer(self, part: str, place: int) -> Sanitizer:
        """What one agent runs.

        part:  the name of its part, "part-00000.npz".
        place: its place in it, from 0.
        """
        sent = sent_by(self.parts.file(part))
        if place not in range(len(sent)):
            raise InvalidRequest(f"place: expected 0 to {len(sent) - 1} in {part}, found {place}")
        return sent[sent.network.agents[place]]

    def __str__(self) -> str:
        written = f"Written to {self.parts.folder / PLAN}."
        if "power_allowed" in self.details:
            grown = "; ".join(f"{name} {times(1 + each)}" for name, each in self.privacy.items())
            return (
                f"{self.verdict}\nNoise within the power makes standard errors grow: {grown}; what is "
                "public is estimated as well as from raw readings. No other noise within it hides more than "
                f"{100 * self.details['relative_gap']:.2g} % better in total, which is certified. "
                f"{' '.join(power_in_words(self.certificate))} {written}"
            )
        if self.utility == 0.0:
            return f"{self.verdict}\nWhat is public is estimated as well as from raw readings. {written}"
        grown = "; ".join(f"{name} {times(1 + each)}" for name, each in self.privacy.items())
        return (
            f"{self.verdict}\nStandard errors grow: {grown}; of what is public "
            f"{times(1 - self.utility)}. {written}"
        )


def stacked(network: Network, arrays: Mapping[str, Any]) -> Mechanisms:
    """What the agents of a part send, by how many numbers each sends, from the arrays of its file."""
    sent, stacks = arrays["sent"], []
    for number in np.unique(sent).tolist():
        places = np.flatnonzero(sent == number)
        few = (
            None if arrays.get(name) is None else np.ascontiguousarray(arrays[name][places, :number])
            for name in ("compression", "variances", "grid")
        )
        stacks.append(SanitizerStack(places, *few))  # type: ignore[arg-type]  # rows are always there
    return Mechanisms(network, stacks)


def planned(part: PartFile, arrays: Mapping[str, Any], path: Path) -> Mechanisms:
    """What the agents of a part send; InvalidPlan where the arrays at a path are no plan for this part."""
    count, size = part.network.stacked.shape[:2]
    try:
        rows, sent, grid = arrays["compression"], arrays["sent"], arrays["grid"]
        digest = str(arrays["digest"])
    except KeyError as error:
        raise InvalidPlan(f"{path}: {error} is missing; design once more") from error
    if digest != part.digest:
        raise InvalidPlan(f"{path}: made for another {part.name} than the one beside it; design once more")
    fits = rows.ndim == 3 and rows.shape[::2] == (count, size) and sent.shape == (count,)
    fits = fits and grid.shape == rows.shape[:2] and rows.dtype == grid.dtype == np.float64
    if not fits or sent.dtype.kind not in "iu" or np.any((sent < 0) | (sent > rows.shape[1])):
        raise InvalidPlan(f"{path}: expected what {count} agents of {size} readings send; design once more")
    noisy = arrays.get("variances", np.zeros(grid.shape))
    if noisy.shape != grid.shape or noisy.dtype != np.float64 or not np.all((noisy == 0) | (noisy == 1)):
        raise InvalidPlan(f"{path}: expected noise of variance 0 or 1 for each number; design once more")
    if not np.all(np.isfinite(rows)):
        raise InvalidPlan(f"{path}: expected finite numbers to send; design once more")
    return stacked(part.network, arrays)


def sent_by(part: PartFile) -> Mechanisms:
    """What the agents of a part send, by the plan in service."""
    path = part.folder / PLAN / part.name
    arrays = read_arrays(path, InvalidPlan, "design once more")
    if arrays is None:
        raise InvalidPlan(f"{path}: this part of the plan is missing; design once more")
    return planned(part, arrays, path)


def senders_of(sent: Mechanisms) -> Integers:
    """The places of the agents that send anything."""
    return np.flatnonzero(sent.blocks.sizes)


def silent_in(sent: Mechanisms, numbers: Array) -> Booleans:
    """Which senders sent nothing in each of some rows (T, numbers): not all of their numbers are finite."""
    if not sent.blocks.total:
        return np.zeros((len(numbers), 0), bool)
    starts = sent.blocks.starts[senders_of(sent)]
    return np.asarray(~np.logical_and.reduceat(np.isfinite(numbers), starts, axis=1))


def numbers_sent(parts: Parts | str | PathLike[str], part: str) -> Integers:
    """How many numbers each agent of a part sends, (s,): its messages have them side by side, agent after agent.

    parts: the network, or its folder; it was designed.
    part:  the name of its part, "part-00000.npz".
    """
    return sent_by(opened(parts).file(part)).blocks.sizes


def agent_file(parts: Parts | str | PathLike[str], agent: str) -> tuple[str, bytes]:
    """The name of the plan, and the content of the file that one agent needs, as a plan in one piece would have it.

    parts: the network, or its folder; it was designed.
    agent: its name, or its number among all agents ("agent0042") where parts give no names.
    """
    network = opened(parts)
    plan = plan_name(network.folder)
    if agent == "center":
        raise InvalidRequest(
            "agent: networks in parts have none for the centre; 'veilnet parts fuse' takes their folder and one of "
            "messages"
        )
    for name in network.before:
        part = network.file(name)
        if agent in part.network.position:
            return plan, seal(to_document(sent_by(part)[agent], plan))
    raise InvalidRequest(f"agent: {agent!r} is none of the {network.agents} agents of {network.folder}")


def plan_name(folder: Path) -> str:
    """The name of the plan of a network in parts, which its messages carry: a digest of what it promises."""
    path = folder / PLAN / PROMISES
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise InvalidPlan(f"{path}: {error.strerror}; design first") from error


def promise_of(parts: Parts) -> tuple[Promise, Network]:
    """What the saved plan of a network in parts promises, and one imaginary agent in place of all."""
    path = parts.folder / PLAN / PROMISES
    said = read_header(path, FORMAT, _FIELDS, InvalidPlan, "design first", "design once more")
    power = said["power"] or {}
    if list(said["privacy"]) != list(parts.private):
        raise InvalidPlan(
            f"{path}: not a plan for the private parameters of {parts.folder}; design once more"
        )
    if power and (
        list(power) != list(parts.before) or not all(0 <= each < np.inf for each in power.values())
    ):
        raise InvalidPlan(
            f"{path}: power: expected a finite number of at least 0 for each part; design once more"
        )
    if said["triangle"].shape != (parts.length, parts.length):
        raise InvalidPlan(f"{path}: triangle: expected {parts.length} rows and columns; design once more")
    names = ("utility", "privacy", "targets", "most_loss", "floors")
    return Promise(**{name: said[name] for name in names}, power=power), parts.whole(said["triangle"])


def put_in_service(
    parts: Parts, promise: Promise, figures: Mapping[str, Any], waiting: tuple[str, ...]
) -> bool:
    """Let a plan that was confirmed take the place of the one before; whether that promised something else.

    figures: what else its file says: how many agents, readings and numbers there are, the limits of privacy, and the
             raw triangle of all.
    waiting: names of its parts that are not in service yet.
    """
    folder = parts.folder / PLAN
    path, begun = folder / PROMISES, folder / BEGUN
    before = path.read_bytes() if path.exists() else None
    targets = {name: value for name, value in promise.targets.items() if value > 0}
    try:
        # All that needs room on the disk comes before anything is taken away.
        begun.mkdir(parents=True, exist_ok=True)
        said = {**vars(promise), **figures, "targets": targets, "power": promise.power or None}
        write_header(begun / PROMISES, FORMAT, _FIELDS, said)
        same = (begun / PROMISES).read_bytes() == before
        if waiting or not same:
            path.unlink(missing_ok=True)  # parts of two plans, should this be cut off, must not pass for one
            for name in (*waiting, PROMISES):
                (begun / name).replace(folder / name)
            remember_folder(folder)
    except OSError as error:
        raise InvalidRequest(
            f"{folder}: the new plan cannot take its place there ({error.strerror}); the same call goes on from "
            "there once it can"
        ) from error
    forget_begun(parts)
    return before is not None and not same


def forget_begun(parts: Parts) -> None:
    """Remove parts of a plan that will not be in service, and what was kept in case its search is cut off."""
    for name in (BEGUN, SEARCH):
        shutil.rmtree(parts.folder / PLAN / name, ignore_errors=True)
