"""A network as a folder of parts, so that no machine ever holds all of its agents.

    header.json      what all agents have in common: public and private rows, prior, and the list of parts
    part-00000.npz   a stack of agents alike: ``observe`` (s, n, L), ``noise`` (s, n, n), and if there are any their
                     ``names``, ``offset`` (s, n) and ``resolution`` (s, n)
    plan/            what was designed, part by part (:mod:`veilnet.cluster.tasks`)

The header is written last, and names every part with its number of agents: a folder whose writing was cut off has
none, and a part that is missing is noticed. Every worker has to see the folder under the same path.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.errors import InvalidNetwork, InvalidRequest, VeilnetError
from veilnet._core.names import NumberedNames
from veilnet._core.types import Array
from veilnet._core.validation import as_array, as_names, symmetric
from veilnet.io._atomic import write_bytes, write_text
from veilnet.io._formats import check_format
from veilnet.model.arguments import read_prior, read_private, read_public
from veilnet.model.noise import IndependentNoise, dithered
from veilnet.model.prior import Prior
from veilnet.model.readings import MOST_DRAWS
from veilnet.model.usual import DEVIATIONS_REACHED, usual_of

__all__ = [
    "DAMAGED",
    "LoadedPart",
    "Part",
    "Parts",
    "arrays_of",
    "open_parts",
    "opened",
    "read_part",
    "save_parts",
    "written",
]

FORMAT = "veilnet-parts/1"
HEADER = "header.json"
# What a file that was cut off, changed or is no archive at all can raise while it is read.
DAMAGED = (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, KeyError, RuntimeError)
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

    @property
    def agents(self) -> int:
        """How many agents there are in all parts."""
        return sum(part.agents for part in self.parts)

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


@dataclass(frozen=True, eq=False)
class LoadedPart:
    """The agents of one part.

    observe:    H_i, (s, n, L).
    noise:      R_i, (s, n, n), of the readings as they are combined: with the variance of their dither.
    roots:      the Cholesky roots of R_i.
    names:      of the agents, None where they are numbered.
    offset:     what the readings show at x = 0, (s, n).
    resolution: the steps of the readings, (s, n), 0 where they are continuous; None where nothing is said of them.
    digest:     the SHA-256 of the file.
    farthest:   how far from their offset readings go by the model, in eight deviations, (s, n); None without a prior.
    """

    observe: Array
    noise: Array
    roots: Array
    condition: float
    names: tuple[str, ...] | None
    digest: str
    offset: Array
    resolution: Array | None
    farthest: Array | None = None


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
    found: list[Part] = []
    length = 0
    for number, stack in enumerate(stacks):
        name = f"part-{number:05d}.npz"
        arrays = _given(stack, name)
        observe = arrays["observe"]
        if not found and observe.ndim == 3:
            # Before hours of writing: what all agents have in common is refused or not by the first of them.
            length = observe.shape[2]
            rows, _ = read_public(public, length)
            hidden, known = read_private(private, length), read_prior(prior, length)
        _noise_of(_checked(arrays, target / name, length), target / name)
        written(target / name, arrays)
        found.append(Part(name, len(observe)))
    if not found:
        raise InvalidNetwork("stacks: expected at least one stack of agents, found none")
    document = {
        "format": FORMAT,
        "parameters": length,
        "public": {name: each.tolist() for name, each in rows.items()},
        "private": {name: each.tolist() for name, each in hidden.items()},
        "prior": None
        if known is None
        else {"mean": known.mean.tolist(), known.given: getattr(known, known.given).tolist()},
        "parts": [{"name": part.name, "agents": part.agents} for part in found],
    }
    write_text(target / HEADER, json.dumps(document) + "\n")
    return open_parts(target)


def open_parts(folder: str | PathLike[str]) -> Parts:
    """Open a folder of parts; only its header is read.

    folder: where :func:`save_parts` wrote it.
    """
    target = Path(folder).resolve()
    path = target / HEADER
    document = read_header(
        path, FORMAT, InvalidNetwork, "a folder of parts begins with its header", "write the folder again"
    )
    try:
        length = document["parameters"]
        parts = tuple(Part(str(each["name"]), each["agents"]) for each in document["parts"])
        if not all(type(number) is int for number in (length, *(part.agents for part in parts))):
            raise TypeError("parameters and agents: expected whole numbers")
        prior = document["prior"]
        rows, _ = read_public(document["public"], length)
        hidden = read_private(document["private"], length)
        known = read_prior(None if prior is None else Prior(**prior), length)
    except VeilnetError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidNetwork(f"{path}: {error!r}; the header was changed, write the folder again") from error
    if not parts or not all(_PART.fullmatch(part.name) and part.agents > 0 for part in parts):
        raise InvalidNetwork(f"{path}: expected names such as part-00000.npz with one agent or more each")
    if len({part.name for part in parts}) != len(parts):
        raise InvalidNetwork(
            f"{path}: a part is named twice, and its agents would count twice; mend the header"
        )
    return Parts(target, length, rows, hidden, known, parts)


def read_header(path: Path, form: str, error: type[VeilnetError], begin: str, again: str) -> dict[str, Any]:
    """The JSON document of a format at a path.

    error: raised where there is none; it says how to ``begin`` where there is no file, and how to make it ``again``.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict):
            raise ValueError(f"expected an object, found {type(document).__name__}")
        check_format(document.get("format"), form, error)
    except OSError as problem:
        raise error(f"{path}: {problem.strerror}; {begin}") from problem
    except VeilnetError as problem:
        raise error(f"{path}: {problem}") from problem
    except ValueError as problem:
        raise error(f"{path}: not a JSON object ({problem}); {again}") from problem
    return document


def opened(parts: Parts | str | PathLike[str]) -> Parts:
    """A network in parts, given as it is or by its folder."""
    return parts if isinstance(parts, Parts) else open_parts(parts)


def read_part(path: Path, length: int) -> LoadedPart:
    """The agents of a part, checked; InvalidNetwork names the part where it is missing, damaged or not a network."""
    content = _content(path)
    arrays = _arrays(content, path)
    given = _checked(arrays, path, length)
    own = _noise_of(given, path)
    return LoadedPart(
        given.observe,
        own.stacks[0],
        own.own_roots()[0],
        own.condition(),
        given.names,
        hashlib.sha256(content).hexdigest(),
        np.zeros(given.observe.shape[:2]) if given.offset is None else given.offset,
        given.resolution,
        _farthest(
            given.observe, own.stacks[0], _prior_of(path.parent, (path.parent / HEADER).stat().st_mtime_ns)
        ),
    )


@lru_cache(maxsize=8)
def _prior_of(folder: Path, _changed: int) -> Prior | None:
    return open_parts(folder).prior


def _farthest(observe: Array, noise: Array, prior: Prior | None) -> Array | None:
    count, size, length = observe.shape
    variances = np.diagonal(noise, axis1=1, axis2=2).ravel()
    usual = usual_of(prior, observe.reshape(-1, length), variances, np.zeros(count * size))
    return None if usual is None else (np.abs(usual[0]) + DEVIATIONS_REACHED * usual[1]).reshape(count, size)


def written(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays as one file, whole or not at all; a full disk is told with the part's name."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, buffer.getvalue())
    except OSError as error:
        raise InvalidRequest(
            f"{path}: cannot be written ({error.strerror}); parts that are finished are kept, and the same call "
            "goes on from there once there is room"
        ) from error


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise InvalidNetwork(
            f"{path}: the part is missing; every worker has to see the folder under this very path"
        ) from error
    except OSError as error:
        raise InvalidNetwork(f"{path}: the part cannot be read ({error.strerror})") from error


def _arrays(content: bytes, path: Path) -> dict[str, Any]:
    try:
        return arrays_of(io.BytesIO(content))
    except DAMAGED as error:
        raise InvalidNetwork(f"{path}: the part is damaged ({error}); write it again") from error


def arrays_of(file: IO[bytes]) -> dict[str, Any]:
    """All arrays of an archive, nothing unpickled; one of DAMAGED where it is none."""
    archive = np.load(file, allow_pickle=False)
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise ValueError("one array instead of an archive")
    with archive:
        return {name: np.asarray(archive[name]) for name in archive.files}


class _Given(NamedTuple):
    """The arrays of a part, of shapes that go together."""

    observe: Array
    noise: Array
    names: tuple[str, ...] | None
    offset: Array | None
    resolution: Array | None


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
    arrays = {
        str(name): np.array(as_names(value, f"names of {part}"))
        if name == "names"
        else as_array(value, f"{name} of {part}")
        for name, value in stack.items()
    }
    shape = arrays["observe"].shape[:2]
    for name in ("offset", "resolution"):
        if name in arrays and arrays[name].shape in ((), shape[1:]):
            arrays[name] = np.array(np.broadcast_to(arrays[name], shape))
    return arrays


def _checked(arrays: Mapping[str, Any], path: Path, length: int) -> _Given:
    strangers = set(arrays) - {*_NEEDED, *_ALLOWED}
    if strangers or not set(_NEEDED) <= set(arrays):
        raise InvalidNetwork(
            f"{path}: expected the arrays observe and noise, and {', '.join(_ALLOWED)} if there are any; found "
            f"{', '.join(arrays)}"
        )
    numbers = {name: as_array(array, f"{path}: {name}") for name, array in arrays.items() if name != "names"}
    observe = numbers["observe"]
    if observe.ndim != 3 or 0 in observe.shape or observe.shape[2] != length:
        raise InvalidNetwork(f"{path}: observe: expected shape (s, n, {length}), found {observe.shape}")
    count, size, _ = observe.shape
    shapes = {"noise": (count, size, size), "offset": (count, size), "resolution": (count, size)}
    for name, shape in shapes.items():
        if name in numbers and numbers[name].shape != shape:
            raise InvalidNetwork(f"{path}: {name}: expected shape {shape}, found {numbers[name].shape}")
    steps = numbers.get("resolution")
    if steps is not None and np.any(steps < 0):
        raise InvalidNetwork(
            f"{path}: resolution: expected steps of at least 0, 0 for continuous readings, found {steps.min():g}"
        )
    names = None
    if "names" in arrays:
        given = arrays["names"]
        if given.dtype.kind != "U" or given.shape != (count,):
            raise InvalidNetwork(
                f"{path}: names: expected {count} names, found {given.dtype} of {given.shape}"
            )
        names = tuple(str(each) for each in given)
    return _Given(observe, numbers["noise"], names, numbers.get("offset"), steps)


def _noise_of(given: _Given, path: Path) -> IndependentNoise:
    """The noise of the readings as they are combined; InvalidNetwork where it is none, or less than rounding has."""
    count, size, _ = given.observe.shape
    names = given.names or NumberedNames(count)
    try:
        own = IndependentNoise(Blocks([size] * count), [symmetric(given.noise, "noise")], names)
        steps = given.resolution
        found = own if steps is None else dithered(own, steps.reshape(-1), MOST_DRAWS, names)
    except InvalidNetwork as error:
        raise InvalidNetwork(f"{path}: {error}") from error
    assert isinstance(found, IndependentNoise)
    return found


def loaded(folder: Path, names: Sequence[str], length: int) -> Iterator[tuple[str, LoadedPart]]:
    """The parts of a batch, one after the other."""
    for name in names:
        yield name, read_part(folder / name, length)
