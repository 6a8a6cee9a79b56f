"""Noise of a network in files. What it looks like depends on what it is:

a document has one ``noise`` for all readings, a table of ``memory``, ``innovation`` and ``floor`` where it carries
over, or each agent's own; where agents share disturbances, ``common`` and each agent's ``loadings`` too.

An archive has ``noise`` (N, N), ``noise_variances`` (N), or one ``noise_of_size_<n>`` (count, n, n) for each size of
agent; ``noise_loadings`` (N, k) and ``noise_common`` (k, k) beside those; or ``noise_memory``, ``noise_innovation``
and ``noise_floor``, each (N) or (N, N).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array
from veilnet._core.validation import as_array, symmetric
from veilnet.io import _archives
from veilnet.io._archives import Arrays
from veilnet.io._numbers import Numbers, check_keys, flat, is_reference
from veilnet.io._toml import dotted
from veilnet.model.coloured import ColouredNoise
from veilnet.model.common import CommonNoise, SharedNoise
from veilnet.model.network import Network
from veilnet.model.noise import IndependentNoise, NoiseModel

DOCUMENT_KEYS, AGENT_KEYS = ("noise", "common"), ("noise", "loadings")
_COLOUR = ("memory", "innovation", "floor")
_STACK = "noise_of_size_"
COLUMNS = (
    *("noise", "noise_variances", f"{_STACK}<n>", "noise_loadings", "noise_common"),
    *(f"noise_{name}" for name in _COLOUR),
)

Entries = Mapping[str, Mapping[str, Any]]


def noise_document(network: Network) -> dict[str, Any]:
    """What a document says of noise at its top."""
    noise = network.sensor_noise
    if network.colour is not None:
        return {"noise": _colour(network)}
    if isinstance(noise, SharedNoise):
        return {"common": noise.common}
    return {} if noise.independent else {"noise": noise.matrix()}


def agent_noise(network: Network, place: int) -> dict[str, Any]:
    """What a document says of the noise of one agent."""
    noise = network.sensor_noise
    shared = isinstance(noise, SharedNoise)
    if network.colour is not None or not (noise.independent or shared):
        return {}
    block = (noise.own if isinstance(noise, SharedNoise) else noise).block(place)
    entry = {"noise": np.diag(block) if is_diagonal(block) else block}
    if isinstance(noise, SharedNoise):
        entry["loadings"] = noise.loadings[network.blocks.rows(place)]
    return entry


def noise_arrays(network: Network) -> Arrays:
    """The arrays of noise."""
    if network.colour is not None:
        return {f"noise_{name}": values for name, values in _colour(network).items()}
    noise = network.sensor_noise
    if isinstance(noise, SharedNoise):
        shared: Arrays = {"noise_loadings": noise.loadings, "noise_common": noise.common}
        return shared | _own_arrays(network, noise.own)
    return _own_arrays(network, noise)


def _own_arrays(network: Network, noise: NoiseModel) -> Arrays:
    if not isinstance(noise, IndependentNoise):
        return {"noise": noise.matrix()}
    groups = list(zip(network.blocks.groups, noise.stacks, strict=True))
    if not all(is_diagonal(stack) for _, stack in groups):
        return {f"{_STACK}{group.size}": stack for group, stack in groups}
    variances = np.empty(network.N)
    for group, stack in groups:
        group.put(variances, np.diagonal(stack, axis1=1, axis2=2))
    return {"noise_variances": variances}


def _colour(network: Network) -> dict[str, Array]:
    """Memory, innovation and floor of noise that carries over; one number per reading where that says it all."""
    found = {}
    for name in _COLOUR:
        matrix = getattr(network.colour, name)
        if name != "floor" or np.any(matrix):
            found[name] = np.diag(matrix) if is_diagonal(matrix) else matrix
    return found


def noise_from_document(document: Mapping[str, Any], entries: Entries, numbers: Numbers) -> Any:
    """The noise of a document, as an argument of a network."""
    loadings = {
        name: numbers.read(entry["loadings"], "agents", name, "loadings")
        for name, entry in entries.items()
        if "loadings" in entry
    }
    if "common" not in document and not loadings:
        return _unshared(document, entries, numbers)
    if not loadings:
        raise InvalidNetwork(
            "common: no agent has 'loadings'; say how much of the disturbances each one gets"
        )
    common = flat(numbers.read(document["common"], "common")) if "common" in document else None
    return CommonNoise(_unshared(document, entries, numbers), loadings, common)


def _unshared(document: Mapping[str, Any], entries: Entries, numbers: Numbers) -> Any:
    own = {name: entry["noise"] for name, entry in entries.items() if "noise" in entry}
    if "noise" not in document:
        for name in entries:
            if name not in own:
                raise InvalidNetwork(
                    f"{dotted('agents', name)}: the key 'noise' is missing; give the variances of its readings, "
                    "or one noise for all readings at the top of the file"
                )
        return {name: flat(numbers.read(each, "agents", name, "noise")) for name, each in own.items()}
    if own:
        raise InvalidNetwork(
            f"noise: given for all readings and again in {dotted('agents', next(iter(own)))}; give it once"
        )
    given = document["noise"]
    if not isinstance(given, dict) or is_reference(given):
        return flat(numbers.read(given, "noise"))
    check_keys(given, _COLOUR, ("memory", "innovation"), "noise")
    return ColouredNoise(**{name: _for_readings(value, name, numbers) for name, value in given.items()})


def _for_readings(value: Any, name: str, numbers: Numbers) -> Any:
    """Numbers for all readings, or agent -> numbers."""
    if not isinstance(value, dict) or is_reference(value):
        return flat(numbers.read(value, "noise", name))
    return {agent: flat(numbers.read(each, "noise", name, agent)) for agent, each in value.items()}


def noise_from_arrays(arrays: Arrays, names: Sequence[str], blocks: Blocks) -> Any:
    """The noise of an archive, as an argument of a network."""
    if "noise_memory" in arrays or "noise_innovation" in arrays:
        given = [name for name in _COLOUR if name != "floor" or "noise_floor" in arrays]
        taken = {name: _archives.take(arrays, f"noise_{name}") for name in given}
        return ColouredNoise(**{name: as_array(each, f"noise_{name}") for name, each in taken.items()})
    own = _own_noise(arrays, names, blocks)
    if "noise_loadings" not in arrays and "noise_common" not in arrays:
        return own
    shared = (_archives.numbers(arrays, name, 2) for name in ("noise_loadings", "noise_common"))
    return CommonNoise(own, *shared)


def _own_noise(arrays: Arrays, names: Sequence[str], blocks: Blocks) -> Any:
    stacks = {int(name.removeprefix(_STACK)): name for name in arrays if name.startswith(_STACK)}
    given = [name for name in ("noise", "noise_variances") if name in arrays] + list(stacks.values())[:1]
    if len(given) != 1:
        raise InvalidNetwork(f"noise: expected one kind of it, found {', '.join(given) or 'none'}")
    if not stacks:
        return _archives.numbers(arrays, given[0], 2 if given[0] == "noise" else 1)
    if sorted(stacks) != [group.size for group in blocks.groups]:
        raise InvalidNetwork(
            f"noise: the stacks {sorted(stacks.values())} do not fit the sizes of the agents"
        )
    checked = []
    for group in blocks.groups:
        name = stacks[group.size]
        stack = _archives.numbers(arrays, name, 3)
        if stack.shape != (group.count, group.size, group.size):
            raise InvalidNetwork(
                f"{name}: expected shape {(group.count, group.size, group.size)}, found {stack.shape}"
            )
        checked.append(symmetric(stack, name))
    return IndependentNoise(blocks, checked, names)


def is_diagonal(blocks: Array) -> bool:
    """Whether one matrix, or each of a stack, is plus zero beside its diagonal."""
    beside = blocks[..., ~np.eye(blocks.shape[-1], dtype=bool)]
    return not np.any(beside) and not np.any(np.signbit(beside))
