"""Noise of a network in files. What it looks like depends on what it is:

a document has one ``noise`` for all readings, a table of ``memory``, ``innovation`` and ``floor`` where it carries
over, or each agent's own; where agents share disturbances, ``common`` and each agent's ``loadings`` too.

An archive has the same, but for what each agent says: ``noise_variances`` (N), or one ``noise_of_size_<n>``
(count, n, n) for each size of agent, and ``noise_loadings`` (N, k).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array
from veilnet._core.validation import symmetric
from veilnet.io import _archives
from veilnet.io._archives import Arrays
from veilnet.io._numbers import Numbers, check_keys, flat, is_reference
from veilnet.io._toml import dotted
from veilnet.model.coloured import ColouredNoise
from veilnet.model.common import CommonNoise, SharedNoise
from veilnet.model.network import Network
from veilnet.model.noise import IndependentNoise

DOCUMENT_KEYS, AGENT_KEYS = ("noise", "common"), ("noise", "loadings")
_COLOUR = ("memory", "innovation", "floor")
_STACK = "noise_of_size_"
COLUMNS = ("noise_variances", f"{_STACK}<n>", "noise_loadings")

Entries = Mapping[str, Mapping[str, Any]]


def noise_document(network: Network) -> dict[str, Any]:
    """What a document says of noise at its top."""
    noise = network.sensor_noise
    if network.colour is not None:
        return {"noise": _colour(network)}
    if isinstance(noise, SharedNoise):
        return {"common": noise.common}
    return {} if noise.independent else {"noise": noise.matrix()}


def _colour(network: Network) -> dict[str, Array]:
    """Memory, innovation and floor of noise that carries over; one number per reading where that says it all."""
    found = {}
    for name in _COLOUR:
        matrix = getattr(network.colour, name)
        if name != "floor" or np.any(matrix):
            found[name] = np.diag(matrix) if is_diagonal(matrix) else matrix
    return found


def _own(network: Network) -> IndependentNoise | None:
    """The noise that each agent says it has; None where the top of a document says all."""
    noise = network.sensor_noise
    own = noise.own if isinstance(noise, SharedNoise) else noise
    return own if network.colour is None and isinstance(own, IndependentNoise) else None


def agent_noise(network: Network, place: int) -> dict[str, Any]:
    """What a document says of the noise of one agent."""
    own = _own(network)
    if own is None:
        return {}
    block = own.block(place)
    entry = {"noise": np.diag(block) if is_diagonal(block) else block}
    if isinstance(network.sensor_noise, SharedNoise):
        entry["loadings"] = network.sensor_noise.loadings[network.blocks.rows(place)]
    return entry


def noise_arrays(network: Network) -> Arrays:
    """What agents say of their noise, as arrays."""
    own = _own(network)
    if own is None:
        return {}
    arrays: Arrays = {}
    if isinstance(network.sensor_noise, SharedNoise):
        arrays["noise_loadings"] = network.sensor_noise.loadings
    groups = list(zip(network.blocks.groups, own.stacks, strict=True))
    if not all(is_diagonal(stack) for _, stack in groups):
        return arrays | {f"{_STACK}{group.size}": stack for group, stack in groups}
    variances = np.empty(network.N)
    for group, stack in groups:
        group.put(variances, np.diagonal(stack, axis1=1, axis2=2))
    return arrays | {"noise_variances": variances}


def noise_from_document(document: Mapping[str, Any], entries: Entries, numbers: Numbers) -> Any:
    """The noise of a document, as an argument of a network."""
    own, loadings = (
        {
            name: numbers.read(entry[key], "agents", name, key)
            for name, entry in entries.items()
            if key in entry
        }
        for key in AGENT_KEYS
    )
    if "noise" not in document:
        for name in entries:
            if name not in own:
                raise InvalidNetwork(
                    f"{dotted('agents', name)}: the key 'noise' is missing; give the variances of its readings, "
                    "or one noise for all readings at the top of the file"
                )
    elif own:
        raise InvalidNetwork(
            f"noise: given for all readings and again in {dotted('agents', next(iter(own)))}; give it once"
        )
    return _together(
        document, {name: flat(each) for name, each in own.items()} or None, loadings or None, numbers
    )


def noise_from_arrays(
    arrays: Arrays, document: Mapping[str, Any], names: Sequence[str], blocks: Blocks, numbers: Numbers
) -> Any:
    """The noise of an archive, as an argument of a network."""
    stacks = {int(name.removeprefix(_STACK)): name for name in arrays if name.startswith(_STACK)}
    given = [name for name, there in (("noise", document), ("noise_variances", arrays)) if name in there]
    given += list(stacks.values())[:1]
    if len(given) != 1:
        raise InvalidNetwork(f"noise: expected one kind of it, found {', '.join(given) or 'none'}")
    own: Any = None
    if given == ["noise_variances"]:
        own = _archives.numbers(arrays, "noise_variances", 1)
    elif stacks:
        own = IndependentNoise(blocks, _checked(arrays, stacks, blocks), names)
    loadings = _archives.numbers(arrays, "noise_loadings", 2) if "noise_loadings" in arrays else None
    return _together(document, own, loadings, numbers)


def _together(document: Mapping[str, Any], own: Any, loadings: Any, numbers: Numbers) -> Any:
    """Noise of what the top of a document says, and what agents say."""
    noise = _of_all(document["noise"], numbers) if "noise" in document else own
    if "common" not in document and loadings is None:
        return noise
    if loadings is None:
        raise InvalidNetwork(
            "common: no agent has 'loadings'; say how much of the disturbances each one gets"
        )
    common = flat(numbers.read(document["common"], "common")) if "common" in document else None
    return CommonNoise(noise, loadings, common)


def _of_all(given: Any, numbers: Numbers) -> Any:
    if not isinstance(given, dict) or is_reference(given):
        return flat(numbers.read(given, "noise"))
    check_keys(given, _COLOUR, ("memory", "innovation"), "noise")
    return ColouredNoise(**{name: _for_readings(value, name, numbers) for name, value in given.items()})


def _for_readings(value: Any, name: str, numbers: Numbers) -> Any:
    """Numbers for all readings, or agent -> numbers."""
    if not isinstance(value, dict) or is_reference(value):
        return flat(numbers.read(value, "noise", name))
    return {agent: flat(numbers.read(each, "noise", name, agent)) for agent, each in value.items()}


def _checked(arrays: Arrays, stacks: Mapping[int, str], blocks: Blocks) -> list[Array]:
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
    return checked


def is_diagonal(blocks: Array) -> bool:
    """Whether one matrix, or each of a stack, is plus zero beside its diagonal."""
    beside = blocks[..., ~np.eye(blocks.shape[-1], dtype=bool)]
    return not np.any(beside) and not np.any(np.signbit(beside))
