"""A network as a document of plain tables, lists and numbers, the shape .toml and .json files share.

    format       "veilnet-network/1"
    parameters   names of the entries of x (optional)
    agent_count  number of agents, to notice a file that was cut off (optional)
    noise        one matrix for all readings, variances or one variance; or each agent has its own. Noise that carries
                 over from row to row: a table of memory, innovation and floor (optional), each for all readings or
                 agent -> numbers
    common       covariance, or variances, of disturbances that agents share (optional: the identity where agents have
                 loadings)
    units        name -> unit (optional)
    public       name -> rows, or rows
    private      name -> rows
    prior        mean (optional) and either covariance or information (optional)
    dynamics     transition, noise and mean (optional), for rows that follow one another (optional)
    model_error  by which fraction the entries of observe may be off (optional)
    step         how long a row takes, such as "15min" (optional)
    dither       by how many draws of its step each reading is moved, all agents' one after the other (optional)
    fitted_rows  hashes of runs of the rows it was fitted to (optional)
    doubts       name -> words and accepted, what is doubtful about the model (optional)
    agents       name -> readings (their names), resolution (their steps), limits (lowest and highest), offset
                 (all optional), noise (unless given for all; the agent's own where disturbances are shared), loadings
                 (readings x disturbances, optional), observe

A matrix is a list of rows, or { file = "H.npy" }, { file = "H.mat", variable = "H" }.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from veilnet._core.durations import in_words
from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array
from veilnet.io._numbers import Numbers, as_table, as_texts, check_keys, flat, is_reference, kind_of
from veilnet.io._toml import dotted
from veilnet.model.coloured import ColouredNoise
from veilnet.model.common import CommonNoise, SharedNoise
from veilnet.model.doubts import Doubt
from veilnet.model.dynamics import Dynamics
from veilnet.model.network import Network
from veilnet.model.prior import Prior

FORMAT = "veilnet-network/1"

_TOP = (
    *(
        "format",
        "parameters",
        "agent_count",
        "noise",
        "public",
        "private",
        "prior",
        "units",
        "model_error",
        "step",
        "dither",
    ),
    *("common", "dynamics", "doubts", "fitted_rows", "agents"),
)
_DYNAMICS = ("transition", "noise", "mean")
_COLOUR = ("memory", "innovation", "floor")
_PRIOR = ("mean", "covariance", "information")
_DOUBT = ("words", "accepted")
_AGENT = ("readings", "resolution", "limits", "offset", "noise", "loadings", "observe")


# --- from a network to a document


def to_document(network: Network) -> dict[str, Any]:
    """The document of a network. Agents come last, each one's ``observe`` at its end: a file that was cut
    off anywhere is then never mistaken for a smaller network.
    """
    document: dict[str, Any] = {
        "format": FORMAT,
        "parameters": list(network.parameters),
        "agent_count": network.S,
    }
    if network.model_error:
        document["model_error"] = network.model_error
    if network.step is not None:
        document["step"] = in_words(network.step)
    if network.dither is not None:
        document["dither"] = network.dither
    if network.fitted_rows:
        document["fitted_rows"] = list(network.fitted_rows)
    if network.colour is not None:
        document["noise"] = colour_arrays(network)
    elif isinstance(network.sensor_noise, SharedNoise):
        document["common"] = network.sensor_noise.common
    elif not network.sensor_noise.independent:
        document["noise"] = network.sensor_noise.matrix()
    if network.units:
        document["units"] = dict(network.units)
    document["public"] = {name: _short(rows) for name, rows in network.public.items()}
    document["private"] = {name: _short(rows) for name, rows in network.private.items()}
    if network.first is not None and network.first_given:
        document["prior"] = {
            "mean": network.first.mean,
            network.first.given: getattr(network.first, network.first.given),
        }
    if network.dynamics is not None:
        document["dynamics"] = {name: getattr(network.dynamics, name) for name in _DYNAMICS}
    if network.doubts:
        document["doubts"] = {
            doubt.name: {"words": doubt.words, "accepted": doubt.accepted} for doubt in network.doubts
        }
    document["agents"] = {name: _agent(network, place) for place, name in enumerate(network.agents)}
    return document


def colour_arrays(network: Network) -> dict[str, Array]:
    """Memory, innovation and floor of noise that carries over; one number per reading where that says it all."""
    if network.colour is None:
        return {}
    found = {}
    for name in _COLOUR:
        matrix = getattr(network.colour, name)
        if name != "floor" or np.any(matrix):
            found[name] = np.diag(matrix) if is_diagonal(matrix) else matrix
    return found


def _agent(network: Network, place: int) -> dict[str, Any]:
    rows = network.blocks.rows(place)
    name = network.agents[place]
    entry: dict[str, Any] = {}
    if name in network.reading_names:
        entry["readings"] = list(network.reading_names[name])
    if name in network.resolution:
        entry["resolution"] = network.resolution[name]
    if name in network.limits:
        entry["limits"] = [[_edge(value) for value in edges] for edges in network.limits[name]]
    offset = network.offset[rows]
    if not is_plain_zero(offset):
        entry["offset"] = offset
    noise = network.sensor_noise
    shared = isinstance(noise, SharedNoise)
    if network.colour is None and (noise.independent or shared):
        block = (noise.own if isinstance(noise, SharedNoise) else noise).block(place)
        entry["noise"] = np.diag(block) if is_diagonal(block) else block
    if isinstance(noise, SharedNoise) and network.colour is None:
        entry["loadings"] = noise.loadings[rows]
    entry["observe"] = _short(network.H[rows])
    return entry


def _edge(value: float) -> float | str:
    """A limit; JSON has no infinity, so that an open side is a word."""
    return float(value) if np.isfinite(value) else ("none" if value > 0 else "-none")


def _short(rows: Array) -> Array:
    return rows[0] if rows.shape[0] == 1 else rows


def is_diagonal(blocks: Array) -> bool:
    """Whether one matrix, or each of a stack, is zero beside its diagonal, sign of zero included."""
    return is_plain_zero(blocks[..., ~np.eye(blocks.shape[-1], dtype=bool)])


def is_plain_zero(array: Array) -> bool:
    """Whether all entries are zero and none is minus zero."""
    return not np.any(array) and not np.any(np.signbit(array))


# --- from a document to a network


def from_document(document: Any, folder: Path) -> Network:
    """The network of a document; matrices in files are looked for in ``folder``."""
    if not isinstance(document, dict):
        raise InvalidNetwork(f"expected a table with the keys of a network, found {kind_of(document)}")
    check_format(document.get("format"))
    check_keys(document, _TOP, ("public", "private", "agents"), "")
    agents = as_table(document["agents"], "agents")
    entries = {name: _agent_entry(name, value) for name, value in agents.items()}
    _check_count(document.get("agent_count"), len(entries))
    numbers = Numbers(folder)
    return Network(
        observe={
            name: numbers.read(entry["observe"], "agents", name, "observe") for name, entry in entries.items()
        },
        noise=_noise(document, entries, numbers),
        public=numbers.named(document["public"], "public", plain=True),
        private=numbers.named(document["private"], "private"),
        prior=_prior(document["prior"], numbers) if "prior" in document else None,
        dynamics=_dynamics(document["dynamics"], numbers) if "dynamics" in document else None,
        offset={
            name: flat(numbers.read(entry["offset"], "agents", name, "offset"))
            for name, entry in entries.items()
            if "offset" in entry
        },
        parameters=as_texts(document["parameters"], "parameters") if "parameters" in document else None,
        units=_units(document["units"]) if "units" in document else None,
        reading_names={
            name: as_texts(entry["readings"], dotted("agents", name, "readings"))
            for name, entry in entries.items()
            if "readings" in entry
        },
        resolution={
            name: flat(numbers.read(entry["resolution"], "agents", name, "resolution"))
            for name, entry in entries.items()
            if "resolution" in entry
        },
        limits={
            name: _limits(entry["limits"], dotted("agents", name, "limits"))
            for name, entry in entries.items()
            if "limits" in entry
        },
        dither=flat(numbers.read(document["dither"], "dither")) if "dither" in document else None,
        model_error=document.get("model_error", 0.0),
        step=_step(document.get("step")),
        doubts=_doubts(document["doubts"]) if "doubts" in document else (),
        fitted_rows=as_texts(document.get("fitted_rows", []), "fitted_rows"),
    )


def check_format(found: Any) -> None:
    """The file must say that it is a network, and of which version."""
    if found is None:
        raise InvalidNetwork(f'format: missing; a network file begins with format = "{FORMAT}"')
    if found != FORMAT:
        newer = isinstance(found, str) and found.startswith(FORMAT.partition("/")[0] + "/")
        advice = "it was written by another version of veilnet; update" if newer else "is it a network file?"
        raise InvalidNetwork(f"format: expected {FORMAT!r}, found {found!r}; {advice}")


def _check_count(count: Any, found: int) -> None:
    if count is None:
        return
    if type(count) is not int:
        raise InvalidNetwork(f"agent_count: expected a whole number, found {kind_of(count)}")
    if count != found:
        raise InvalidNetwork(
            f"agent_count: expected {count} agents, found {found}; the file was cut off or edited: "
            "copy it again, or correct the number"
        )


def _agent_entry(name: str, value: Any) -> dict[str, Any]:
    where = dotted("agents", name)
    entry = as_table(value, where)
    check_keys(entry, _AGENT, ("observe",), where)
    return entry


def _limits(value: Any, where: str) -> list[Any]:
    """[lowest, highest], each a number or one per reading; "none" is an open side."""
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidNetwork(f"{where}: expected [lowest, highest], found {kind_of(value)}")
    open_sides = {"none": np.inf, "-none": -np.inf}
    sides = [side if isinstance(side, list) else [side] for side in value]
    for side in sides:
        for edge in side:
            if type(edge) not in (int, float) and edge not in open_sides:
                raise InvalidNetwork(f'{where}: expected numbers or "none", found {kind_of(edge)}')
    read = [[open_sides[edge] if isinstance(edge, str) else edge for edge in side] for side in sides]
    return [side if isinstance(given, list) else side[0] for side, given in zip(read, value, strict=True)]


def _noise(document: dict[str, Any], entries: dict[str, dict[str, Any]], numbers: Numbers) -> Any:
    if "common" in document or any("loadings" in entry for entry in entries.values()):
        return _common(document, entries, numbers)
    return _unshared(document, entries, numbers)


def _common(document: dict[str, Any], entries: dict[str, dict[str, Any]], numbers: Numbers) -> CommonNoise:
    """Common disturbances: their covariance at the top, loadings beside each agent's own noise."""
    loadings = {
        name: numbers.read(entry["loadings"], "agents", name, "loadings")
        for name, entry in entries.items()
        if "loadings" in entry
    }
    if not loadings:
        raise InvalidNetwork(
            "common: no agent has 'loadings'; say how much of the disturbances each one gets"
        )
    common = flat(numbers.read(document["common"], "common")) if "common" in document else None
    return CommonNoise(_unshared(document, entries, numbers), loadings, common)


def _unshared(document: dict[str, Any], entries: dict[str, dict[str, Any]], numbers: Numbers) -> Any:
    own = [name for name, entry in entries.items() if "noise" in entry]
    if "noise" in document:
        if own:
            raise InvalidNetwork(
                f"noise: given for all readings and again in {dotted('agents', own[0])}; give it once"
            )
        if isinstance(document["noise"], dict) and not is_reference(document["noise"]):
            return _coloured(document["noise"], numbers)
        return flat(numbers.read(document["noise"], "noise"))
    for name in entries:
        if "noise" not in entries[name]:
            raise InvalidNetwork(
                f"{dotted('agents', name)}: the key 'noise' is missing; give the variances of its readings, "
                "or one noise for all readings at the top of the file"
            )
    return {
        name: flat(numbers.read(entry["noise"], "agents", name, "noise")) for name, entry in entries.items()
    }


def _coloured(table: dict[str, Any], numbers: Numbers) -> ColouredNoise:
    check_keys(table, _COLOUR, ("memory", "innovation"), "noise")
    return ColouredNoise(**{name: _per_agent(value, name, numbers) for name, value in table.items()})


def _per_agent(value: Any, name: str, numbers: Numbers) -> Any:
    """Numbers for all readings, or agent -> numbers."""
    if not isinstance(value, dict) or is_reference(value):
        return flat(numbers.read(value, "noise", name))
    return {agent: flat(numbers.read(each, "noise", name, agent)) for agent, each in value.items()}


def _dynamics(value: Any, numbers: Numbers) -> Dynamics:
    table = as_table(value, "dynamics")
    check_keys(table, _DYNAMICS, ("transition", "noise"), "dynamics")
    read = {name: numbers.read(entry, "dynamics", name) for name, entry in table.items()}
    if "mean" in read:
        read["mean"] = flat(read["mean"])
    return Dynamics(**read)


def _prior(value: Any, numbers: Numbers) -> Prior:
    table = as_table(value, "prior")
    check_keys(table, _PRIOR, (), "prior")
    read = {name: numbers.read(entry, "prior", name) for name, entry in table.items()}
    if "mean" in read:
        read["mean"] = flat(read["mean"])
    return Prior(**read)


def _doubts(value: Any) -> list[Doubt]:
    found = []
    for name, one in as_table(value, "doubts").items():
        where = dotted("doubts", name)
        entry = as_table(one, where)
        check_keys(entry, _DOUBT, ("words",), where)
        found.append(Doubt(name, **entry))
    return found


def _step(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InvalidNetwork(f'step: expected text such as "15min", found {kind_of(value)}')
    return value


def _units(value: Any) -> dict[str, str]:
    table = as_table(value, "units")
    for name, unit in table.items():
        if not isinstance(unit, str):
            raise InvalidNetwork(f"{dotted('units', name)}: expected text, found {kind_of(unit)}")
    return table
