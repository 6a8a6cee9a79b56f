"""A network as a folder of parts, so that no machine ever holds all of its agents.

    header.json      what all agents have in common: public and private rows, prior, and the list of parts
    part-00000.npz   a stack of agents alike: ``observe`` (s, n, L), ``noise`` (s, n, n), and if there are any their
                     ``names``, ``offset`` (s, n) and ``resolution`` (s, n)
    plan/            what was designed, part by part (:mod:`veilnet.cluster.plans`)

The header is written last, and names every part with its number of agents: a folder whose writing was cut off has
none, and a part that is missing is noticed. Every worker has to see the folder under the same path.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidRequest
from veilnet._core.names import NumberedNames
from veilnet._core.types import Array
from veilnet._core.validation import as_array, as_names, refuse_unknown
from veilnet.cluster.files import HEADER, read_arrays, read_header, write_arrays, write_header
from veilnet.io._kinds import MATRIX, TEXT, VECTOR, WHOLE, ByName, ListOf, Maybe, Table
from veilnet.model.arguments import read_prior, read_private, read_public
from veilnet.model.network import Network
from veilnet.model.prior import Prior
from veilnet.model.readings import MOST_DRAWS

FORMAT = "veilnet-parts/1"
_FIELDS = Table(
    parameters=WHOLE,
    public=ByName(MATRIX),
    private=ByName(MATRIX),
    prior=Maybe(Table(mean=Maybe(VECTOR), covariance=Maybe(MATRIX), information=Maybe(MATRIX))),
    parts=ListOf(Table(name=TEXT, agents=WHOLE)),
)
_PART = re.compile(r"part-[0-9]{5,}\.npz")
_NEEDED, _ALLOWED = ("observe", "noise"), ("names", "offset", "resolution")
# Small parts are taken together until a task has so many agents: a scheduler spends up to a millisecond on each task.
AGENTS_PER_TASK = 4096


@dataclass(frozen=True)
class Part:
    """One file of a folder: its name, and how many agents are in it."""

    name: str
    agents: int


@dataclass(frozen=True, eq=False)
class Parts:
    """A network whose agents are in a folder of parts.

    folder:  where the parts are.
    length:  L, the number of parameters.
    public:  name -> rows of what may be known.
    private: name -> rows of what must not.
    prior:   what is known beforehand, None for nothing.
    parts:   the files, in sending order.
    """

    folder: Path
    length: int
    public: Mapping[str, Array]
    private: Mapping[str, Array]
    prior: Prior | None
    parts: tuple[Part, ...]

    @cached_property
    def agents(self) -> int:
        """How many agents there are in all parts."""
        return sum(part.agents for part in self.parts)

    @cached_property
    def before(self) -> Mapping[str, int]:
        """How many agents come before those of each part, by its name."""
        ends = np.cumsum([0, *(part.agents for part in self.parts)]).tolist()
        return dict(zip((part.name for part in self.parts), ends, strict=False))

    def batches(self) -> list[tuple[str, ...]]:
        """Parts that are one task each: by the order and size of parts alone, however many workers there are."""
        batches: list[tuple[str, ...]] = []
        waiting: list[str] = []
        count = 0
        for part in self.parts:
            waiting.append(part.name)
            count += part.agents
            if count >= AGENTS_PER_TASK:
                batches.append(tuple(waiting))
                waiting, count = [], 0
        return [*batches, tuple(waiting)] if waiting else batches

    def file(self, name: str) -> PartFile:
        """One of its parts."""
        if name not in self.before:
            refuse_unknown([name], list(self.before), "part", error=InvalidRequest)
        return PartFile(self.folder, name)

    def whole(self, triangle: Array) -> Network:
        """One imaginary agent in place of all: it observes T x with unit noise, T'T the raw information of all."""
        return Network({"all agents": triangle}, 1.0, self.public, self.private, self.prior)

    def stack(self, arrays: Mapping[str, Any], name: str) -> Stack:
        """The agents of a part, from its arrays; InvalidNetwork names the part where they are no network."""
        if set(arrays) - {*_NEEDED, *_ALLOWED} or not set(_NEEDED) <= set(arrays):
            raise InvalidNetwork(
                f"{self.folder / name}: expected the arrays observe and noise, and {', '.join(_ALLOWED)} if there "
                f"are any; found {', '.join(arrays)}"
            )
        observe, names, offset = arrays["observe"], arrays.get("names"), arrays.get("offset")
        if observe.ndim != 3 or 0 in observe.shape or observe.shape[2] != self.length:
            raise InvalidNetwork(
                f"{self.folder / name}: observe: expected shape (s, n, {self.length}), found {observe.shape}"
            )
        if names is None:
            numbered = NumberedNames(len(observe), first=self.before.get(name, 0), total=self.agents)
        try:
            return Stack(
                observe, arrays["noise"], self.public, self.private, self.prior,
                offset=offset if offset is None or np.ndim(offset) else np.full(observe.shape[:2], offset),
                agents=numbered if names is None else list(names),
                resolution=arrays.get("resolution"), dither=MOST_DRAWS,
            )  # fmt: skip
        except InvalidNetwork as error:
            raise InvalidNetwork(f"{self.folder / name}: {error}") from error


class Stack(Network):
    """Agents alike, of a network in parts: alone they need not determine x, as all parts together do.

    Every reading with a step is dithered by two draws, whatever is sent of it.
    """

    def _refuse_unobservable(self) -> None:
        pass

    @property
    def stacked(self) -> Array:
        """H_i, (s, n, L)."""
        return self.blocks.groups[0].take(self.H)

    @property
    def roots(self) -> Array:
        """The Cholesky roots of R_i, (s, n, n)."""
        return self.R.own_roots()[0]

    def some(self, places: Any) -> Stack:
        """Some of the agents."""
        (group,) = self.blocks.groups
        steps = group.take(self.steps)[places] if self.resolution else None
        return Stack(
            self.stacked[places], self.sensor_noise.stack(group)[places], self.public, self.private, self.prior,
            offset=group.take(self.offset)[places], resolution=steps, dither=MOST_DRAWS,
        )  # fmt: skip


@dataclass(frozen=True)
class PartFile:
    """One part of a folder, for its worker: read when it is asked for.

    folder: of the network.
    name:   of the part, "part-00000.npz".
    """

    folder: Path
    name: str

    @property
    def path(self) -> Path:
        """Where its agents are."""
        return self.folder / self.name

    @cached_property
    def network(self) -> Stack:
        """Its agents, checked; InvalidNetwork names the part where it is missing, damaged or not a network."""
        arrays = read_arrays(self.path, InvalidNetwork, "write it again")
        if arrays is None:
            raise InvalidNetwork(
                f"{self.path}: the part is missing; every worker has to see the folder under this very path"
            )
        return _header_of(self.folder, (self.folder / HEADER).stat().st_mtime_ns).stack(arrays, self.name)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of its file."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=8)
def _header_of(folder: Path, _changed: int) -> Parts:
    return open_parts(folder)


def save_parts(
    folder: str | PathLike[str],
    stacks: Iterable[tuple[Any, ...] | Mapping[str, Any]],
    public: Any,
    private: Mapping[str, Any],
    prior: Prior | None = None,
) -> Parts:
    """Write a network as parts, one after the other: the stacks may come from a generator.

    folder:  where to; made if there is none, and refused if it holds parts already.
    stacks:  (observe, noise) or (observe, noise, names) each: H_i (s, n, L), R_i (s, n, n). Or a dictionary of
             them, with ``offset`` and ``resolution`` beside: one number for all, one per reading (n,), or (s, n).
    public, private, prior: as in :class:`veilnet.Network`.
    """
    target = Path(folder)
    if (target / HEADER).exists():
        raise InvalidRequest(f"folder: {target} holds a network already; choose another, or remove it first")
    target.mkdir(parents=True, exist_ok=True)
    common: Parts | None = None
    written: list[Part] = []
    for number, stack in enumerate(stacks):
        name = f"part-{number:05d}.npz"
        arrays = _given(stack, name)
        if common is None:
            # Before hours of writing: what all agents have in common is refused or not by the first of them.
            length = int(arrays["observe"].shape[-1]) if arrays["observe"].ndim else 0
            rows, hidden = read_public(public, length)[0], read_private(private, length)
            common = Parts(target, length, rows, hidden, read_prior(prior, length), ())
        common.stack(arrays, name)
        write_arrays(target / name, arrays)
        written.append(Part(name, len(arrays["observe"])))
    if common is None:
        raise InvalidNetwork("stacks: expected at least one stack of agents, found none")
    known = common.prior
    said = None if known is None else {"mean": known.mean, known.given: getattr(known, known.given)}
    header = {"parameters": length, "public": rows, "private": hidden, "prior": said}
    header["parts"] = [vars(part) for part in written]
    write_header(target / HEADER, FORMAT, _FIELDS, header)
    return open_parts(target)


def open_parts(folder: str | PathLike[str]) -> Parts:
    """Open a folder of parts; only its header is read.

    folder: where :func:`save_parts` wrote it.
    """
    target = Path(folder).resolve()
    path = target / HEADER
    begin, again = "a folder of parts begins with its header", "write the folder again"
    said = read_header(path, FORMAT, _FIELDS, InvalidNetwork, begin, again)
    length = said["parameters"]
    parts = tuple(Part(**each) for each in said["parts"])
    if not parts or not all(_PART.fullmatch(part.name) and part.agents > 0 for part in parts):
        raise InvalidNetwork(f"{path}: expected names such as part-00000.npz with one agent or more each")
    if len({part.name for part in parts}) != len(parts):
        raise InvalidNetwork(
            f"{path}: a part is named twice, and its agents would count twice; mend the header"
        )
    rows, hidden = read_public(said["public"], length)[0], read_private(said["private"], length)
    known = read_prior(None if said["prior"] is None else Prior(**said["prior"]), length)
    return Parts(target, length, rows, hidden, known, parts)


def opened(parts: Parts | str | PathLike[str]) -> Parts:
    """A network in parts, given as it is or by its folder."""
    return parts if isinstance(parts, Parts) else open_parts(parts)


def _given(stack: tuple[Any, ...] | Mapping[str, Any], part: str) -> dict[str, Any]:
    """The arrays of a part as its file has them, from what was given to save_parts."""
    if not isinstance(stack, Mapping):
        if len(stack) not in (2, 3):
            raise InvalidRequest(
                "stacks: expected (observe, noise), (observe, noise, names) or a dictionary of these with offset and "
                f"resolution, found {len(stack)} things"
            )
        stack = dict(zip(("observe", "noise", "names"), stack, strict=False))
    if not set(_NEEDED) <= set(stack):
        raise InvalidRequest(f"stacks: expected observe and noise, found {', '.join(map(str, stack))}")
    return {
        str(name): np.array(as_names(value, f"names of {part}"))
        if name == "names"
        else as_array(value, f"{name} of {part}")
        for name, value in stack.items()
    }
