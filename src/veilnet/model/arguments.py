"""The arguments of a network, each checked once and brought into one form; errors name the argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.errors import InvalidNetwork
from veilnet._core.names import NumberedNames, RowsByAgent, places_of
from veilnet._core.types import Array
from veilnet._core.validation import (
    are_stacks,
    as_array,
    as_matrix,
    as_name,
    as_names,
    as_number,
    as_vector,
    refuse_unknown,
)
from veilnet.model.coloured import Colour, read_colour
from veilnet.model.dynamics import Dynamics
from veilnet.model.prior import Prior
from veilnet.model.readings import read_resolution

T = TypeVar("T")

_RESERVED = frozenset({"center", "plan"})  # names of files in a plan folder that are not agents

_SAID_OF_AN_AGENT = {
    "reading_names": "names of its readings",
    "limits": "(lowest, highest), each one number or one per reading",
    "resolution": "step or steps",
}


def read_observe(observe: Any, agents: Sequence[str] | None) -> tuple[Sequence[str], Array, Blocks]:
    """(names, H stacked, how its rows fall to the agents) of the ``observe`` argument."""
    if isinstance(observe, RowsByAgent) and agents is None:  # of another network, read when that was made
        return observe.names, observe.stacked, observe.blocks
    if not isinstance(observe, Mapping):
        return _read_stack(observe, agents)
    if agents is not None:
        raise InvalidNetwork("agents: give names either as keys of observe or as agents=, not both")
    if not observe:
        raise InvalidNetwork("observe: expected at least one agent, found none")
    names = as_names(list(observe), "observe")
    _refuse_reserved(names)
    first = as_matrix(observe[names[0]], f"observe[{names[0]!r}]")
    matrices = [first] + [as_matrix(observe[n], f"observe[{n!r}]", columns=first.shape[1]) for n in names[1:]]
    return names, np.concatenate(matrices), Blocks([matrix.shape[0] for matrix in matrices])


def _read_stack(observe: Any, agents: Sequence[str] | None) -> tuple[Sequence[str], Array, Blocks]:
    if are_stacks(observe):
        stacks = [_one_stack(each, f"observe[{place}]") for place, each in enumerate(observe)]
        lengths = {stack.shape[2] for stack in stacks}
        if len(lengths) > 1:
            raise InvalidNetwork(
                f"observe: expected stacks with as many columns (one per parameter), found {sorted(lengths)}"
            )
        sizes = np.repeat([stack.shape[1] for stack in stacks], [stack.shape[0] for stack in stacks])
        stacked = np.concatenate([stack.reshape(-1, stack.shape[2]) for stack in stacks])
    else:
        stack = _one_stack(observe, "observe")
        sizes = np.full(stack.shape[0], stack.shape[1])
        stacked = stack.reshape(-1, stack.shape[2])
    names: Sequence[str] = NumberedNames(len(sizes)) if agents is None else agents
    if not isinstance(names, NumberedNames):
        names = as_names(names, "agents")
        _refuse_reserved(names)
    if len(names) != len(sizes):
        raise InvalidNetwork(f"agents: expected {len(sizes)} names, found {len(names)}")
    return names, stacked, Blocks(sizes)


def _one_stack(observe: Any, name: str) -> Array:
    stack = as_array(observe, name)
    if stack.ndim != 3 or 0 in stack.shape:
        raise InvalidNetwork(
            f"{name}: expected agent -> matrix, or a stack of shape (S, n, L), found shape {stack.shape}"
        )
    return stack


def _refuse_reserved(names: Sequence[str]) -> None:
    for name in names:
        if name.lower() in _RESERVED or any(mark in name for mark in "/\\") or name.startswith("."):
            raise InvalidNetwork(
                f"observe: the agent name {name!r} cannot be a file name of its own in a plan folder; "
                "avoid 'plan', 'center', slashes and a leading dot"
            )


def read_parameters(parameters: Sequence[str] | None, length: int) -> tuple[str, ...]:
    """Names of the L entries of x; made up where none are given."""
    if parameters is None:
        return tuple(f"x{k + 1}" for k in range(length))
    names = as_names(parameters, "parameters")
    if len(names) != length:
        raise InvalidNetwork(f"parameters: expected {length} names (columns of H), found {len(names)}")
    return names


def read_public(public: Any, length: int) -> tuple[Mapping[str, Array], Array]:
    """(name -> rows, all of them stacked) of the ``public`` argument."""
    rows = _read_rows(public if isinstance(public, Mapping) else {"public": public}, "public", length)
    return MappingProxyType(rows), np.concatenate(list(rows.values()))


def read_private(private: Any, length: int) -> dict[str, Array]:
    """name -> rows of the ``private`` argument."""
    if not isinstance(private, Mapping):
        raise InvalidNetwork(
            f"private: expected name -> rows, found {type(private).__name__}; "
            'write private={"gait": rows} so that messages can name what is protected'
        )
    return _read_rows(private, "private", length)


def _read_rows(named: Mapping[str, Any], what: str, length: int) -> dict[str, Array]:
    if not named:
        raise InvalidNetwork(f"{what}: expected at least one {what} parameter, found none")
    as_names(list(named), what)
    matrices = {name: as_matrix(each, f"{what} {name!r}", columns=length) for name, each in named.items()}
    return {name: _no_zero_rows(rows, f"{what} {name!r}") for name, rows in matrices.items()}


def _no_zero_rows(rows: Array, name: str) -> Array:
    zero = np.flatnonzero(~np.any(rows, axis=1))
    if zero.size:
        raise InvalidNetwork(
            f"{name}: row {int(zero[0]) + 1} is zero, so it names nothing in x; remove the row"
        )
    return rows


def read_noise_colour(
    noise: Any, agents: Sequence[str], blocks: Blocks, dynamics: Dynamics | None
) -> Colour | None:
    """The noise that carries over, where it was given; it needs dynamics."""
    colour = read_colour(noise, agents, blocks)
    if colour is not None and dynamics is None:
        raise InvalidNetwork(
            "noise: coloured noise carries over from row to row, so it needs dynamics=Dynamics(transition=A, "
            "noise=Q); for independent rows give plain noise"
        )
    return colour


def read_prior(prior: Any, length: int) -> Prior | None:
    """The prior, of as many parameters as H has columns."""
    if prior is None:
        return None
    if not isinstance(prior, Prior):
        raise InvalidNetwork(
            f"prior: expected None or a Prior, found {type(prior).__name__}; "
            "write Prior(covariance=P0) or Prior(information=J0)"
        )
    if prior.size != length:
        raise InvalidNetwork(f"prior: expected {length} parameters (columns of H), found {prior.size}")
    return prior


def read_offset(offset: Any, agents: Sequence[str], blocks: Blocks) -> Array:
    """The offset of all N readings; zero where nothing is said."""
    if offset is None:
        return np.zeros(blocks.total)
    if not isinstance(offset, Mapping):
        values = as_array(offset, "offset")
        if values.shape == (blocks.total,):
            return values
        return _of_agents_alike(values, "offset", blocks, f"agent -> vector, {blocks.total} numbers")
    refuse_unknown(offset, agents, "offset")
    stacked = np.zeros(blocks.total)
    for place, name in enumerate(agents):
        if name in offset:
            stacked[blocks.rows(place)] = as_vector(
                offset[name], f"offset of {name!r}", int(blocks.sizes[place])
            )
    return stacked


def _of_agents_alike(given: Any, name: str, blocks: Blocks, other_forms: str) -> Array:
    """The numbers of all N readings, where each of S agents has n: given as (S, n), or as one row of n for all."""
    values = as_array(given, name)
    agents, size = len(blocks.sizes), int(blocks.sizes[0])
    alike = bool(np.all(blocks.sizes == size))
    if alike and values.shape in ((size,), (agents, size)):
        return np.array(np.broadcast_to(values, (agents, size))).reshape(-1)
    each = f", {size} for every agent, or ({agents}, {size}) for each its own" if alike else ""
    raise InvalidNetwork(f"{name}: expected {other_forms}{each}; found shape {values.shape}")


def read_steps(resolution: Any, agents: Sequence[str], blocks: Blocks) -> Mapping[str, Array]:
    """agent -> the steps of its readings, where they were stated."""
    if resolution is None:
        return MappingProxyType({})
    if (
        isinstance(resolution, RowsByAgent)  # of another network, read when that was made
        and np.array_equal(resolution.blocks.sizes, blocks.sizes)
        and (resolution.names == agents or list(resolution.names) == list(agents))
    ):
        return RowsByAgent(agents, places_of(agents), blocks, resolution.stacked)
    if not isinstance(resolution, Mapping):
        if not isinstance(resolution, str | int | float) and np.shape(as_array(resolution, "resolution")):
            resolution = _of_agents_alike(
                resolution, "resolution", blocks, "agent -> step or steps, one step for all readings"
            )
        try:
            steps = read_resolution(resolution, blocks.total)
        except InvalidNetwork as error:
            raise InvalidNetwork(f"resolution of {agents[0]!r}: {error}") from None
        return RowsByAgent(agents, places_of(agents), blocks, steps)
    return MappingProxyType(per_agent(resolution, agents, blocks, "resolution", read_resolution))


def per_agent(
    given: Mapping[str, Any] | None,
    agents: Sequence[str],
    blocks: Blocks,
    what: str,
    read: Callable[[Any, int], T],
) -> dict[str, T]:
    """What is said of some agents, each checked against its number of readings, in sending order."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidNetwork(
            f"{what}: expected agent -> {_SAID_OF_AN_AGENT[what]}, found {type(given).__name__}; write "
            f"{what}={{{agents[0]!r}: ...}}, with a key for every agent it is said of"
        )
    refuse_unknown(given, agents, what)
    found = {}
    for place, name in enumerate(agents):
        if name in given:
            try:
                found[name] = read(given[name], int(blocks.sizes[place]))
            except InvalidNetwork as error:
                raise InvalidNetwork(f"{what} of {name!r}: {error}") from None
    return found


def read_scales(given: Any, public: Mapping[str, Array]) -> dict[str, float]:
    """public name -> the error that counts as one, above zero."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidNetwork(f"public_scales: expected public name -> error, found {type(given).__name__}")
    refuse_unknown(given, list(public), "public_scales")
    found = {name: as_number(scale, f"public_scales[{name!r}]") for name, scale in given.items()}
    for name, scale in found.items():
        if scale <= 0:
            raise InvalidNetwork(f"public_scales[{name!r}]: expected an error above 0, found {scale:g}")
    return found


def read_units(units: Mapping[str, str] | None, names: Sequence[str]) -> dict[str, str]:
    """name -> unit, of names that the network knows."""
    if units is None:
        return {}
    if not isinstance(units, Mapping):
        raise InvalidNetwork(f"units: expected name -> unit, found {type(units).__name__}")
    refuse_unknown(units, names, "units")
    return {name: as_name(unit, f"unit of {name!r}") for name, unit in units.items()}
