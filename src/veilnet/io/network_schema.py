"""The fields of a network file, once for all its shapes: .toml and .json documents, .npz archives, parts of a plan.

``FIELDS`` is what is said of the network as a whole: in an archive one text, the JSON of the same table, in which
{ "array": "matrix0" } stands for an array beside it. ``PER_READING`` is what is said of each reading: agent by agent
in a document, an array for all in an archive. Noise has shapes of its own (:mod:`veilnet.io._noise_fields`). In a
document a matrix is a list of rows, or { file = "H.npy" }, { file = "H.mat", variable = "H" }.
docs/reference/formats.md says what each field means.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilnet._core.blocks import Blocks
from veilnet._core.durations import duration_in_words
from veilnet._core.errors import InvalidNetwork
from veilnet._core.names import NumberedNames, RowsByAgent, places_of
from veilnet._core.types import Array
from veilnet._core.validation import unknown
from veilnet.io import _archives, _noise_fields
from veilnet.io._archives import Arrays
from veilnet.io._formats import NETWORK, NETWORK_ARCHIVE, check_format
from veilnet.io._kinds import NUMBER, STEP, TEXT, WHOLE, YES, ByName, Kind, ListOf, Maybe, ObjectOf, Table
from veilnet.io._numbers import Numbers, as_table, as_texts, check_keys, flat, kind_of, open_edges, read_edges
from veilnet.io._toml import dotted
from veilnet.model.doubts import Doubt
from veilnet.model.dynamics import Dynamics
from veilnet.model.fitted import HeldOut, LogAuc
from veilnet.model.members import Members
from veilnet.model.network import Network
from veilnet.model.prior import Prior
from veilnet.model.readings import read_resolution
from veilnet.model.secret import Secret

# --- what is said of the network as a whole


@dataclass(frozen=True)
class Field:
    """One thing that is said of a network.

    name: its key, and the argument of Network.
    said: network -> its value as it stands in a document, None where there is nothing to say.
    read: (value, matrices of the document, name) -> the argument.
    keys: of a table that it is, or that it has for each name.
    """

    name: str
    said: Callable[[Network], Any]
    read: Callable[[Any, Numbers, str], Any]
    keys: tuple[str, ...] = ()


_SECRET = ("rows", "change", "lasts")
_PRIOR, _DYNAMICS = ("mean", "covariance", "information"), ("transition", "noise", "mean")
_DOUBT = ObjectOf(dict, words=TEXT, accepted=Maybe(YES))
HELD_OUT = ObjectOf(HeldOut, beyond=NUMBER, lowest=NUMBER, highest=NUMBER)
_LOG_AUC = ObjectOf(LogAuc, learner=TEXT, auc=NUMBER, low=NUMBER, high=NUMBER, model=NUMBER, rows=WHOLE)
_MEMBERS = ObjectOf(Members, agents=ListOf(TEXT), readings=ListOf(WHOLE), threshold=WHOLE, spare=WHOLE)


def _plain(name: str, kind: Kind, keys: Table | None = None) -> Field:
    """Something without matrices."""

    def said(network: Network) -> Any:
        value = getattr(network, name)
        return None if value is None else kind.write(value) or None

    def read(value: Any, _numbers: Numbers, where: str) -> Any:
        return kind.read(value, where)

    return Field(name, said, read, () if keys is None else tuple(keys.kinds))


def _record(made: Callable[..., Any], known: Sequence[str], needed: Sequence[str] = ()) -> Any:
    """How an object of a few matrices and a mean is read."""

    def read(value: Any, numbers: Numbers, name: str) -> Any:
        table = as_table(value, name)
        check_keys(table, known, needed, name)
        parts = {part: numbers.read(entry, name, part) for part, entry in table.items()}
        return made(**{part: flat(each) if part == "mean" else each for part, each in parts.items()})

    return read


def _short(rows: Array) -> Array:
    """Rows as people write them: one of them alone."""
    return rows[0] if rows.shape[0] == 1 else rows


def _private(network: Network) -> dict[str, Any]:
    """Rows by name. With a secret among them all are tables: in .toml these come last, and the order counts."""
    if not network.secrets:
        return {name: _short(rows) for name, rows in network.private.items()}
    said: dict[str, Any] = {}
    for name, rows in network.private.items():
        said[name] = {"rows": _short(rows)}
        secret = network.secrets.get(name)
        if secret is not None:
            lasts = {} if secret.lasts is None else {"lasts": duration_in_words(secret.lasts)}
            said[name] |= {"change": secret.change} | lasts
    return said


def _read_private(value: Any, numbers: Numbers, *path: str) -> Any:
    if not isinstance(value, dict) or "rows" not in value:
        return numbers.read(value, *path)
    where = dotted(*path)
    check_keys(value, _SECRET, ("rows", "change") if "lasts" in value else ("rows",), where)
    rows = numbers.read(value["rows"], *path, "rows")
    if "change" not in value:
        return rows
    lasts = value.get("lasts")
    return Secret(
        rows,
        numbers.read(value["change"], *path, "change"),
        lasts=None if lasts is None else STEP.read(lasts, f"{where}.lasts"),
    )


def _prior(network: Network) -> dict[str, Array] | None:
    first = network.first
    if first is None or not network.first_given:
        return None
    return {"mean": first.mean, first.given: getattr(first, first.given)}


FIELDS = (
    _plain("parameters", ListOf(TEXT)),
    Field(
        "public",
        lambda n: {name: _short(rows) for name, rows in n.public.items()},
        lambda value, numbers, name: numbers.named(value, name, plain=True),
    ),
    Field(
        "private",
        _private,
        lambda value, numbers, name: {
            key: _read_private(each, numbers, name, key) for key, each in as_table(value, name).items()
        },
        _SECRET,
    ),
    _plain("units", ByName(TEXT)),
    _plain("public_scales", ByName(NUMBER)),
    Field("prior", _prior, _record(Prior, _PRIOR), _PRIOR),
    Field(
        "dynamics",
        lambda n: n.dynamics and {part: getattr(n.dynamics, part) for part in _DYNAMICS},
        _record(Dynamics, _DYNAMICS, ("transition", "noise")),
        _DYNAMICS,
    ),
    Field("model_error", lambda n: n.model_error or None, lambda value, _numbers, _name: value),
    _plain("step", STEP),
    Field("dither", lambda n: n.dither, lambda value, numbers, name: flat(numbers.read(value, name))),
    _plain("fitted_rows", ListOf(TEXT)),
    Field(
        "doubts",
        lambda n: ByName(_DOUBT).write({each.name: each for each in n.doubts}) or None,
        lambda value, _numbers, name: [Doubt(key, **each) for key, each in ByName(_DOUBT).read(value, name).items()],
        tuple(_DOUBT.kinds),
    ),
    _plain("held_out", ByName(HELD_OUT), HELD_OUT),
    _plain("log_aucs", ByName(ByName(_LOG_AUC)), _LOG_AUC),
    _plain("members", ByName(_MEMBERS), _MEMBERS),
)  # fmt: skip


def _said(network: Network) -> dict[str, Any]:
    found = {field.name: field.said(network) for field in FIELDS}
    said = {name: value for name, value in found.items() if value is not None}
    return said | _noise_fields.noise_document(network)


def _arguments(document: Mapping[str, Any], numbers: Numbers) -> dict[str, Any]:
    return {
        field.name: field.read(document[field.name], numbers, field.name)
        for field in FIELDS
        if field.name in document
    }


# --- what is said of each reading


@dataclass(frozen=True)
class PerReading:
    """One thing that is said of each reading of some agents.

    name:     its key in the table of an agent.
    argument: of Network.
    columns:  its arrays in an archive, each as long as there are readings.
    silent:   what stands in those where an agent says nothing.
    said:     network -> those arrays, None where no agent says anything.
    """

    name: str
    argument: str
    columns: tuple[str, ...]
    silent: tuple[Any, ...]
    said: Callable[[Network], tuple[NDArray[Any], ...] | None]

    def entry(self, stacked: Sequence[NDArray[Any]], mine: slice) -> dict[str, Any]:
        """What the table of one agent says; nothing where the agent is silent."""
        parts = [each[mine] for each in stacked]
        if self._silent(parts):
            return {}
        if self.name == "limits":
            return {self.name: [open_edges(part) for part in parts]}
        return {self.name: parts[0].tolist() if self.name == "readings" else parts[0]}

    def read(self, value: Any, numbers: Numbers, agent: str) -> Any:
        """What the table of one agent says, as its part of the argument."""
        where = ("agents", agent, self.name)
        if self.name == "limits":
            return read_edges(value, dotted(*where))
        if self.name == "readings":
            return as_texts(value, dotted(*where))
        return flat(numbers.read(value, *where))

    def taken(self, arrays: Arrays, names: Sequence[str], blocks: Blocks) -> Any:
        """What an archive says, as the argument; None where it says nothing."""
        if not any(column in arrays for column in self.columns):
            return None
        texts = self.name == "readings"
        stacked = [_archives.each(arrays, column, blocks.total, texts=texts) for column in self.columns]
        if self.name == "offset":
            return stacked[0]
        if self.name == "resolution" and not np.any(np.isnan(stacked[0])):
            return RowsByAgent(names, places_of(names), blocks, _checked_steps(stacked[0]))
        cut = ([each[blocks.rows(place)] for each in stacked] for place in range(blocks.count))
        return {
            name: each if len(each) > 1 else each[0].tolist() if texts else each[0]
            for name, each in zip(names, cut, strict=True)
            if not self._silent(each)
        }

    def _silent(self, parts: Sequence[NDArray[Any]]) -> bool:
        if self.name == "readings":
            return not np.any(parts[0] != "")
        return all(
            np.full(part.shape, value).tobytes() == part.tobytes()
            for part, value in zip(parts, self.silent, strict=True)
        )


def _reading_names(network: Network) -> tuple[NDArray[Any], ...] | None:
    if not network.reading_names:
        return None
    named = zip(network.agents, network.blocks.sizes.tolist(), strict=True)
    return (np.array([name for a, n in named for name in network.reading_names.get(a, ("",) * n)]),)


def _resolution(network: Network) -> tuple[NDArray[Any], ...] | None:
    if isinstance(network.resolution, RowsByAgent):
        return (network.resolution.stacked,)
    if not network.resolution:
        return None
    steps = np.full(network.N, np.nan)
    for agent, mine in network.resolution.items():
        steps[network.blocks.rows(network.position[agent])] = mine
    return (steps,)


def _limits(network: Network) -> tuple[NDArray[Any], ...] | None:
    return network.stacked_limits if network.limits else None


def _checked_steps(array: NDArray[Any]) -> Array:
    try:
        return read_resolution(array, array.size)
    except InvalidNetwork as error:
        raise InvalidNetwork(f"resolution: {error}") from error


PER_READING = (
    PerReading("readings", "reading_names", ("reading_names",), ("",), _reading_names),
    PerReading("resolution", "resolution", ("resolution",), (np.nan,), _resolution),
    PerReading("limits", "limits", ("lowest", "highest"), (-np.inf, np.inf), _limits),
    PerReading("offset", "offset", ("offset",), (0.0,), lambda n: (n.offset,)),
)


# --- documents

_NAMES = tuple(field.name for field in FIELDS)
DOCUMENT_KEYS = ("format", "agent_count", *_NAMES, *_noise_fields.DOCUMENT_KEYS, "agents")
AGENT_KEYS = (*(each.name for each in PER_READING), *_noise_fields.AGENT_KEYS, "observe")


def to_document(network: Network) -> dict[str, Any]:
    """The document of a network. Agents come last, each one's ``observe`` at its end: a file that was cut
    off anywhere is then never mistaken for a smaller network.
    """
    document = {"format": NETWORK, "agent_count": network.S} | _said(network)
    said = [(each, stacked) for each in PER_READING if (stacked := each.said(network)) is not None]
    agents: dict[str, Any] = {}
    for place, name in enumerate(network.agents):
        mine = network.blocks.rows(place)
        agents[name] = {}
        for each, stacked in said:
            agents[name] |= each.entry(stacked, mine)
        agents[name] |= _noise_fields.agent_noise(network, place) | {"observe": _short(network.H[mine])}
    return document | {"agents": agents}


def from_document(document: Any, folder: Path) -> Network:
    """The network of a document; matrices in files are looked for in ``folder``."""
    if not isinstance(document, dict):
        raise InvalidNetwork(f"expected a table with the keys of a network, found {kind_of(document)}")
    check_format(document.get("format"), NETWORK, InvalidNetwork)
    check_keys(document, DOCUMENT_KEYS, ("public", "private", "agents"), "")
    entries = as_table(document["agents"], "agents")
    for name, entry in entries.items():
        check_keys(as_table(entry, dotted("agents", name)), AGENT_KEYS, ("observe",), dotted("agents", name))
    _check_count(document.get("agent_count"), len(entries))
    numbers = Numbers(folder)
    arguments = _arguments(document, numbers)
    for each in PER_READING:
        arguments[each.argument] = {
            name: each.read(entry[each.name], numbers, name)
            for name, entry in entries.items()
            if each.name in entry
        }
    observe = {
        name: numbers.read(entry["observe"], "agents", name, "observe") for name, entry in entries.items()
    }
    return Network(observe, _noise_fields.noise_from_document(document, entries, numbers), **arguments)


def _check_count(count: Any, found: int) -> None:
    if count is not None and type(count) is not int:
        raise InvalidNetwork(f"agent_count: expected a whole number, found {kind_of(count)}")
    if count not in (None, found):
        raise InvalidNetwork(
            f"agent_count: expected {count} agents, found {found}; the file was cut off or edited: "
            "copy it again, or correct the number"
        )


# --- archives

COLUMNS = (
    *("format", "document", "matrix<k>", "sizes", "observe", "agents"),
    *(column for each in PER_READING for column in each.columns),
    *_noise_fields.COLUMNS,
)


_NUMBERED = re.compile(r"(matrix|noise_of_size_)[0-9]{1,9}")  # the names that end in a number


def network_arrays(network: Network) -> Arrays:
    """The arrays of a network, the same for every network that says the same."""
    matrices: Arrays = {}

    def put_aside(matrix: NDArray[Any]) -> dict[str, str]:
        name = f"matrix{len(matrices)}"
        matrices[name] = matrix
        return {"array": name}

    document = json.dumps(_said(network), ensure_ascii=False, allow_nan=False, default=put_aside)
    arrays = matrices | {"format": np.array(NETWORK_ARCHIVE), "document": np.array(document)}
    return arrays | _stacked(network)


def _stacked(network: Network) -> Arrays:
    """What is said of each agent and each reading."""
    arrays: Arrays = {"sizes": network.blocks.sizes.astype(np.int64), "observe": network.H}
    numbered = NumberedNames(len(network.agents))
    if network.agents[-1] != numbered[-1] or numbered != network.agents:
        arrays["agents"] = np.array(network.agents)
    for each in PER_READING:
        arrays |= dict(zip(each.columns, each.said(network) or (), strict=False))
    return arrays | _noise_fields.noise_arrays(network)


def network_from_arrays(arrays: Arrays) -> Network:
    """The network that :func:`network_arrays` took apart, every array checked."""
    check_format(_archives.text(arrays, "format"), NETWORK_ARCHIVE, InvalidNetwork)
    strangers = [name for name in arrays if name not in COLUMNS and not _NUMBERED.fullmatch(name)]
    if strangers:
        raise unknown(strangers, COLUMNS, "arrays")
    sizes = _archives.sizes(arrays, "sizes")
    names = _archives.words(arrays, "agents") if "agents" in arrays else NumberedNames(sizes.size)
    if len(names) != sizes.size:
        raise InvalidNetwork(f"sizes: expected one for each of the {len(names)} agents, found {sizes.size}")
    rows = _archives.numbers(arrays, "observe", 2)
    if rows.shape[0] != sizes.sum():
        raise InvalidNetwork(f"observe: expected {sizes.sum()} rows by 'sizes', found {rows.shape[0]}")
    document = _archives.table(arrays, "document")
    check_keys(document, (*_NAMES, *_noise_fields.DOCUMENT_KEYS), ("public", "private"), "document")
    numbers = Numbers(arrays)
    equal, blocks = bool(np.all(sizes == sizes[0])), Blocks(sizes)
    if not equal and len(set(names)) != len(names):
        raise InvalidNetwork("agents: a name is used twice; names must differ")
    arguments = _arguments(document, numbers)
    return Network(
        rows.reshape(sizes.size, int(sizes[0]), -1)
        if equal
        else {name: rows[blocks.rows(place)] for place, name in enumerate(names)},
        _noise_fields.noise_from_arrays(arrays, document, names, blocks, numbers),
        **arguments,
        **{each.argument: each.taken(arrays, names, blocks) for each in PER_READING},
        agents=names if equal else None,
    )


_MAY_DIFFER = ("doubts", "fitted_rows", "held_out", "log_aucs", "dither")


def network_difference(one: Network, other: Network) -> str:
    """Where two networks differ, to the last bit; empty where they do not. What is doubted of them, or accepted, the
    rows they were fitted to and the dither that a plan decided on may.
    """
    given, found = (
        {name: value for name, value in (_said(each) | _stacked(each)).items() if name not in _MAY_DIFFER}
        for each in (one, other)
    )
    return _first_difference(given, found, "")


def _first_difference(one: Any, other: Any, where: str) -> str:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        if list(one) != list(other):
            odd = sorted({*one} ^ {*other})
            return f"{where}{odd[0]} differs" if odd else f"{where[:-1]}: another order"
        each = (_first_difference(one[name], other[name], f"{where}{name}.") for name in one)
        return next(filter(None, each), "")
    one, other = np.asarray(one), np.asarray(other)
    same = one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()
    return "" if same else f"{where[:-1]} differs"
