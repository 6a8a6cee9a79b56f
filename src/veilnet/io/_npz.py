"""A network as an .npz archive: agents stacked, names as one text array, so that 10^5 agents are few arrays.

format, parameters, agents (left out where they are numbered, agent01, agent02, ...), sizes, observe (N, L),
offset (N)
noise (N, N), or noise_variances (N), or one noise_of_size_<n> (count, n, n) per size of agent; beside either of the
latter noise_loadings (N, k) and noise_common (k, k) where agents share disturbances
public, public_names, public_sizes; private, private_names, private_sizes
prior_mean and prior_covariance or prior_information (optional); unit_names, unit_values (optional)
dynamics_transition, dynamics_noise, dynamics_mean (optional); instead of noise noise_memory, noise_innovation and
noise_floor (optional), (N) or (N, N), where it carries over from row to row
reading_names (N), empty where an agent's readings have none; lowest and highest (N), infinite where open;
resolution (N), not a number where nothing is said; model_error, a fraction, and step, seconds of a row (optional)
doubt_names, doubt_words, doubt_accepted, 0 or 1 (optional); fitted_rows, hashes of runs of rows (optional)
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from veilnet._core.blocks import Blocks
from veilnet._core.errors import InvalidNetwork
from veilnet._core.names import NumberedNames, RowsByAgent, places_of
from veilnet._core.types import Array, Integers
from veilnet._core.validation import as_array, symmetric, unknown
from veilnet.io import _reading
from veilnet.io._document import FORMAT, check_format, colour_arrays, is_diagonal
from veilnet.io.matrices import read_npy
from veilnet.model.coloured import ColouredNoise
from veilnet.model.common import CommonNoise, SharedNoise
from veilnet.model.doubts import Doubt
from veilnet.model.dynamics import Dynamics
from veilnet.model.network import Network
from veilnet.model.noise import IndependentNoise, NoiseModel
from veilnet.model.prior import Prior
from veilnet.model.readings import read_resolution

Arrays = dict[str, NDArray[Any]]

_STACK = "noise_of_size_"
_REQUIRED = (
    *("format", "sizes", "observe", "offset", "parameters"),
    *("public", "public_names", "public_sizes", "private", "private_names", "private_sizes"),
)
_OPTIONAL = (
    *("agents", "noise", "noise_variances", f"{_STACK}<n>", "noise_loadings", "noise_common"),
    *("prior_mean", "prior_covariance", "prior_information", "unit_names", "unit_values"),
    *("reading_names", "lowest", "highest", "resolution", "dither", "model_error", "step"),
    *("dynamics_transition", "dynamics_noise", "dynamics_mean"),
    *("noise_memory", "noise_innovation", "noise_floor"),
    *("doubt_names", "doubt_words", "doubt_accepted", "fitted_rows"),
)


# --- writing


def write_npz(network: Network, file: IO[bytes]) -> None:
    """Write a network as an archive of plain arrays."""
    np.savez(file, **network_arrays(network))  # type: ignore[arg-type]  # the stubs take the names for options


def network_arrays(network: Network) -> Arrays:
    """The arrays of a network, the same for every network that says the same."""
    arrays: Arrays = {
        "format": np.array(FORMAT),
        **({} if _numbered(network.agents) else {"agents": np.array(network.agents)}),
        "sizes": network.blocks.sizes.astype(np.int64),
        "observe": network.H,
        "offset": network.offset,
        "parameters": np.array(network.parameters),
        **_named_rows("public", network.public),
        **_named_rows("private", network.private),
        **_noise_arrays(network),
    }
    if network.first is not None and network.first_given:
        arrays["prior_mean"] = network.first.mean
        arrays[f"prior_{network.first.given}"] = getattr(network.first, network.first.given)
    if network.dynamics is not None:
        for name in ("transition", "noise", "mean"):
            arrays[f"dynamics_{name}"] = getattr(network.dynamics, name)
    if network.units:
        arrays["unit_names"] = np.array(list(network.units))
        arrays["unit_values"] = np.array(list(network.units.values()))
    if network.reading_names:
        names = [
            network.reading_names.get(a, ("",) * int(n))
            for a, n in zip(network.agents, network.blocks.sizes, strict=True)
        ]
        arrays["reading_names"] = np.array([name for each in names for name in each])
    if network.limits:
        for side, (key, default) in enumerate((("lowest", -np.inf), ("highest", np.inf))):
            edges = np.full(network.N, default)
            for agent, both in network.limits.items():
                edges[network.blocks.rows(network.position[agent])] = both[side]
            arrays[key] = edges
    if isinstance(network.resolution, RowsByAgent):
        arrays["resolution"] = network.resolution.stacked
    elif network.resolution:
        steps = np.full(network.N, np.nan)
        for agent, mine in network.resolution.items():
            steps[network.blocks.rows(network.position[agent])] = mine
        arrays["resolution"] = steps
    if network.dither is not None:
        arrays["dither"] = network.dither
    if network.model_error:
        arrays["model_error"] = np.array(network.model_error)
    if network.step is not None:
        arrays["step"] = np.array(network.step)
    if network.fitted_rows:
        arrays["fitted_rows"] = np.array(network.fitted_rows)
    if network.doubts:
        arrays["doubt_names"] = np.array([doubt.name for doubt in network.doubts])
        arrays["doubt_words"] = np.array([doubt.words for doubt in network.doubts])
        arrays["doubt_accepted"] = np.array([int(doubt.accepted) for doubt in network.doubts])
    return arrays


def _numbered(agents: Sequence[str]) -> bool:
    return agents[-1] == NumberedNames(len(agents))[-1] and NumberedNames(len(agents)) == agents


def _named_rows(prefix: str, blocks: Mapping[str, Array]) -> Arrays:
    return {
        prefix: np.concatenate(list(blocks.values())),
        f"{prefix}_names": np.array(list(blocks)),
        f"{prefix}_sizes": np.array([rows.shape[0] for rows in blocks.values()], dtype=np.int64),
    }


def _noise_arrays(network: Network) -> Arrays:
    if network.colour is not None:
        return {f"noise_{name}": values for name, values in colour_arrays(network).items()}
    noise = network.sensor_noise
    if isinstance(noise, SharedNoise):
        shared: Arrays = {"noise_loadings": noise.loadings, "noise_common": noise.common}
        return shared | _own_arrays(network, noise.own)
    return _own_arrays(network, noise)


def _own_arrays(network: Network, noise: NoiseModel) -> Arrays:
    if not isinstance(noise, IndependentNoise):
        return {"noise": noise.matrix()}
    if not all(is_diagonal(stack) for stack in noise.stacks):
        return {
            f"{_STACK}{group.size}": stack
            for group, stack in zip(network.blocks.groups, noise.stacks, strict=True)
        }
    variances = np.empty(network.N)
    for group, stack in zip(network.blocks.groups, noise.stacks, strict=True):
        group.put(variances, np.diagonal(stack, axis1=1, axis2=2))
    return {"noise_variances": variances}


# --- reading


def read_npz(path: Path) -> Network:
    """Read a network from an archive; arrays of Python objects are refused, never unpickled."""
    return network_from_arrays(open_arrays(path))


def network_from_arrays(arrays: Arrays) -> Network:
    """The network that :func:`network_arrays` took apart, every array checked."""
    check_format(str(arrays["format"]) if "format" in arrays else None)
    _check_names(arrays)
    sizes = _sizes(arrays, "sizes")
    names = _texts(arrays, "agents") if "agents" in arrays else NumberedNames(sizes.size)
    if len(names) != sizes.size:
        raise InvalidNetwork(f"sizes: expected one for each of the {len(names)} agents, found {sizes.size}")
    rows = _numbers(arrays, "observe", 2)
    if rows.shape[0] != sizes.sum():
        raise InvalidNetwork(f"observe: expected {sizes.sum()} rows by 'sizes', found {rows.shape[0]}")
    equal = bool(np.all(sizes == sizes[0]))
    return Network(
        observe=rows.reshape(sizes.size, int(sizes[0]), -1) if equal else _cut(rows, names, sizes),
        agents=names if equal else None,
        noise=_noise(arrays, names, sizes),
        public=_rows_by_name(arrays, "public"),
        private=_rows_by_name(arrays, "private"),
        prior=_prior(arrays),
        dynamics=_dynamics(arrays),
        offset=_numbers(arrays, "offset", 1),
        parameters=_texts(arrays, "parameters"),
        units=_units(arrays),
        reading_names=_reading_names(arrays, names, Blocks(sizes)),
        limits=_limits(arrays, names, Blocks(sizes)),
        resolution=_resolution(arrays, names, Blocks(sizes)),
        dither=_numbers(arrays, "dither", 1) if "dither" in arrays else None,
        model_error=float(_numbers(arrays, "model_error", 0)) if "model_error" in arrays else 0.0,
        step=float(_numbers(arrays, "step", 0)) if "step" in arrays else None,
        doubts=_doubts(arrays),
        fitted_rows=_texts(arrays, "fitted_rows") if "fitted_rows" in arrays else (),
    )


def _reading_names(arrays: Arrays, names: Sequence[str], blocks: Blocks) -> dict[str, list[str]] | None:
    if "reading_names" not in arrays:
        return None
    found = _texts(arrays, "reading_names")
    if len(found) != blocks.total:
        raise InvalidNetwork(f"reading_names: expected {blocks.total}, found {len(found)}")
    per_agent = {name: found[blocks.rows(place)] for place, name in enumerate(names)}
    return {name: each for name, each in per_agent.items() if any(each)}


def _limits(arrays: Arrays, names: Sequence[str], blocks: Blocks) -> dict[str, tuple[Array, Array]] | None:
    if "lowest" not in arrays and "highest" not in arrays:
        return None
    edges = []
    for key in ("lowest", "highest"):
        array = _get(arrays, key)
        if array.dtype.kind not in "fiu" or array.shape != (blocks.total,):
            raise InvalidNetwork(
                f"{key}: expected {blocks.total} numbers, found {array.dtype} of shape {array.shape}"
            )
        edges.append(array.astype(np.float64))
    cut = {name: blocks.rows(place) for place, name in enumerate(names)}
    both = {name: (edges[0][rows], edges[1][rows]) for name, rows in cut.items()}
    return {name: pair for name, pair in both.items() if np.any(np.isfinite(np.concatenate(pair)))}


def _doubts(arrays: Arrays) -> list[Doubt]:
    if not any(name.startswith("doubt_") for name in arrays):
        return []
    names, words = _texts(arrays, "doubt_names"), _texts(arrays, "doubt_words")
    accepted = _get(arrays, "doubt_accepted")
    fits = accepted.shape == (len(names),) == (len(words),) and accepted.dtype.kind in "iu"
    if not fits or np.any((accepted != 0) & (accepted != 1)):
        raise InvalidNetwork(
            f"doubt_accepted: expected 0 or 1 for each of {len(names)} names, and as many words; found "
            f"{accepted.dtype} of shape {accepted.shape} and {len(words)} words"
        )
    return [
        Doubt(name, text, bool(yes)) for name, text, yes in zip(names, words, accepted.tolist(), strict=True)
    ]


def _resolution(arrays: Arrays, names: Sequence[str], blocks: Blocks) -> Mapping[str, Array] | None:
    if "resolution" not in arrays:
        return None
    array = _get(arrays, "resolution")
    if array.dtype.kind not in "fiu" or array.shape != (blocks.total,):
        raise InvalidNetwork(
            f"resolution: expected {blocks.total} steps, found {array.dtype} of shape {array.shape}"
        )
    if not np.any(np.isnan(array)):
        return RowsByAgent(names, places_of(names), blocks, _checked_steps(array))
    steps = {name: array[blocks.rows(place)].astype(np.float64) for place, name in enumerate(names)}
    return {name: mine for name, mine in steps.items() if not np.all(np.isnan(mine))}


def _checked_steps(array: NDArray[Any]) -> Array:
    try:
        return read_resolution(array, array.size)
    except InvalidNetwork as error:
        raise InvalidNetwork(f"resolution: {error}") from error


def open_arrays(path: Path) -> Arrays:
    """All arrays of an archive; nothing is unpickled, and no more is read than its size allows."""
    _reading.size_of(path, _reading.ARRAY_LIMIT)
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            # What is declared is also the most that is read: a small file cannot unfold into a huge one.
            _reading.refuse_oversized(path, sum(one.file_size for one in members), _reading.ARRAY_LIMIT)
            names = [one.filename.removesuffix(".npy") for one in members]
            if len(set(names)) != len(names):
                raise InvalidNetwork("the archive holds two arrays of one name; write it again")
            if "format" not in names:
                check_format(None)
            arrays: Arrays = {}
            for name, one in zip(names, members, strict=True):
                with archive.open(one) as stream:
                    arrays[name] = read_npy(stream, one.file_size, name)
            return arrays
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise InvalidNetwork(
            f"not readable as .npz, truncated or damaged ({error}); copy or write it again"
        ) from error


def _check_names(arrays: Arrays) -> None:
    known = {*_REQUIRED, *_OPTIONAL}
    strangers = [name for name in arrays if name not in known and not _is_stack(name)]
    if strangers:
        raise unknown(strangers, (*_REQUIRED, *_OPTIONAL), "arrays")
    missing = [name for name in _REQUIRED if name not in arrays]
    if missing:
        raise InvalidNetwork(f"the array {missing[0]!r} is missing; write the file again with Network.save")


def _is_stack(name: str) -> bool:
    size = name.removeprefix(_STACK)
    return name.startswith(_STACK) and size.isascii() and size.isdigit() and len(size) < 10


def _texts(arrays: Arrays, name: str) -> list[str]:
    array = _get(arrays, name)
    if array.dtype.kind != "U" or array.ndim != 1:
        raise InvalidNetwork(f"{name}: expected a list of names, found {array.dtype} of shape {array.shape}")
    return [str(item) for item in array.tolist()]


def _numbers(arrays: Arrays, name: str, dimensions: int) -> Array:
    array = _get(arrays, name)
    if array.dtype.kind == "U" or array.ndim != dimensions:
        raise InvalidNetwork(
            f"{name}: expected numbers in {dimensions} dimensions, found {array.dtype} of shape {array.shape}"
        )
    return as_array(array, name)


def _sizes(arrays: Arrays, name: str) -> Integers:
    array = _get(arrays, name)
    if array.dtype.kind not in "iu" or array.ndim != 1 or array.size == 0 or np.any(array < 1):
        raise InvalidNetwork(f"{name}: expected a list of positive whole numbers, found {array.dtype}")
    if np.any(array > _reading.ARRAY_LIMIT):
        raise InvalidNetwork(f"{name}: expected numbers of rows, found {array.max()}")
    return array.astype(np.intp)


def _get(arrays: Arrays, name: str) -> NDArray[Any]:
    if name not in arrays:
        raise InvalidNetwork(f"the array {name!r} is missing; write the file again with Network.save")
    return arrays[name]


def _cut(rows: Array, names: Sequence[str], sizes: Integers) -> dict[str, Array]:
    blocks = Blocks(sizes)
    if len(set(names)) != len(names):
        raise InvalidNetwork("agents: a name is used twice; names must differ")
    return {name: rows[blocks.rows(place)] for place, name in enumerate(names)}


def _rows_by_name(arrays: Arrays, prefix: str) -> dict[str, Array]:
    names, sizes = _texts(arrays, f"{prefix}_names"), _sizes(arrays, f"{prefix}_sizes")
    rows = _numbers(arrays, prefix, 2)
    if len(names) != sizes.size or sizes.sum() != rows.shape[0]:
        raise InvalidNetwork(
            f"{prefix}: expected {sizes.sum()} rows under {sizes.size} names, "
            f"found {rows.shape[0]} rows and {len(names)} names"
        )
    return _cut(rows, names, sizes)


def _dynamics(arrays: Arrays) -> Dynamics | None:
    if not any(name.startswith("dynamics_") for name in arrays):
        return None
    return Dynamics(
        transition=_numbers(arrays, "dynamics_transition", 2),
        noise=_numbers(arrays, "dynamics_noise", 2),
        mean=_numbers(arrays, "dynamics_mean", 1) if "dynamics_mean" in arrays else None,
    )


def _coloured(arrays: Arrays) -> ColouredNoise:
    found = {
        name: as_array(_get(arrays, f"noise_{name}"), f"noise_{name}")
        for name in ("memory", "innovation", "floor")
        if name != "floor" or "noise_floor" in arrays
    }
    return ColouredNoise(**found)


def _noise(arrays: Arrays, names: Sequence[str], sizes: Integers) -> Any:
    if "noise_memory" in arrays or "noise_innovation" in arrays:
        return _coloured(arrays)
    own = _own_noise(arrays, names, sizes)
    if "noise_loadings" not in arrays and "noise_common" not in arrays:
        return own
    return CommonNoise(own, _numbers(arrays, "noise_loadings", 2), _numbers(arrays, "noise_common", 2))


def _own_noise(arrays: Arrays, names: Sequence[str], sizes: Integers) -> Any:
    stacks = {int(name.removeprefix(_STACK)): name for name in arrays if _is_stack(name)}
    given = [name for name in ("noise", "noise_variances") if name in arrays] + list(stacks.values())[:1]
    if len(given) != 1:
        raise InvalidNetwork(f"noise: expected one kind of it, found {', '.join(given) or 'none'}")
    if not stacks:
        return _numbers(arrays, given[0], 2 if given[0] == "noise" else 1)
    blocks = Blocks(sizes)
    if sorted(stacks) != [group.size for group in blocks.groups]:
        raise InvalidNetwork(
            f"noise: the stacks {sorted(stacks.values())} do not fit the sizes of the agents"
        )
    checked = []
    for group in blocks.groups:
        name = stacks[group.size]
        stack = _numbers(arrays, name, 3)
        if stack.shape != (group.count, group.size, group.size):
            raise InvalidNetwork(
                f"{name}: expected shape {(group.count, group.size, group.size)}, found {stack.shape}"
            )
        checked.append(symmetric(stack, name))
    return IndependentNoise(blocks, checked, names)


def _prior(arrays: Arrays) -> Prior | None:
    given = [kind for kind in ("covariance", "information") if f"prior_{kind}" in arrays]
    if not given and "prior_mean" not in arrays:
        return None
    matrices: dict[str, Any] = {kind: _numbers(arrays, f"prior_{kind}", 2) for kind in given}
    return Prior(**matrices, mean=_numbers(arrays, "prior_mean", 1) if "prior_mean" in arrays else None)


def _units(arrays: Arrays) -> dict[str, str] | None:
    if "unit_names" not in arrays and "unit_values" not in arrays:
        return None
    names, values = _texts(arrays, "unit_names"), _texts(arrays, "unit_values")
    if len(names) != len(values):
        raise InvalidNetwork(f"unit_values: expected {len(names)} units, found {len(values)}")
    return dict(zip(names, values, strict=True))
