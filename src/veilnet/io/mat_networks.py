"""A network as the variables of a MATLAB file: the arrays of :mod:`veilnet.io._npz` by the same names.

Vectors are columns and names are cells of text. What is written so is read back to the last bit. A file made by hand
in MATLAB or Octave may be shorter:

    observe = {H1, H2, H3};                      % cells, a matrix for each agent (or one matrix and sizes)
    agents  = {'kitchen', 'hall', 'attic'};      % left out: agent1, agent2, ...
    noise   = {R1, R2, R3};                      % or one variance, one per reading, one joint matrix
    public  = struct('temperature', [1 0 0]);    % or a matrix with public_names and public_sizes
    private = struct('gait', [0 1 0]);
    prior_covariance = P0;  prior_mean = m;      % or prior_information; left out: no prior
    save('network.mat', 'observe', 'agents', 'noise', 'public', 'private', 'prior_covariance', 'prior_mean', '-v7')

Offset, parameters and sizes may be left out, and all whole numbers may be doubles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet.io._document import FORMAT
from veilnet.io._mat import read_variables, write_variables
from veilnet.io._npz import Arrays, network_arrays, network_from_arrays
from veilnet.model.network import Network

__all__ = ["network_from_variables", "network_variables", "read_network", "write_network"]

_ADVICE = "see docs/adapters.md for the variables of a network"
_TEXTS = frozenset(
    {"agents", "parameters", "public_names", "private_names", "unit_names", "unit_values", "reading_names"}
    | {"doubt_names", "doubt_words", "fitted_rows"}
)
_VECTORS = frozenset(
    {"offset", "noise_variances", "prior_mean", "dynamics_mean", "lowest", "highest", "resolution", "dither"}
)
_WHOLE = frozenset({"sizes", "public_sizes", "private_sizes", "doubt_accepted"})
_VECTOR_OR_MATRIX = frozenset({"noise_memory", "noise_innovation", "noise_floor"})
_STACK = "noise_of_size_"


def write_network(network: Network, file: IO[bytes]) -> None:
    """Write a network as variables."""
    write_variables(file, network_variables(network))


def read_network(path: Path) -> Network:
    """Read a network that :func:`write_network`, MATLAB or Octave wrote."""
    return network_from_variables(read_variables(path))


def network_variables(network: Network) -> dict[str, Any]:
    """The arrays of a network as MATLAB has them: texts as char, lists of texts as cells."""
    return {
        name: (str(array) if array.ndim == 0 else array.tolist()) if array.dtype.kind == "U" else array
        for name, array in network_arrays(network).items()
    }


def network_from_variables(variables: Mapping[str, Any]) -> Network:
    """The network that variables describe, every one of them checked."""
    given = dict(variables)
    for name in ("observe", "public", "private"):
        if name not in given:
            found = ", ".join(repr(each) for each in list(given)[:8]) or "none"
            raise InvalidNetwork(f"no variable {name!r}; there are {found}: {_ADVICE}")
    arrays: Arrays = {"format": np.array(_text(given.pop("format", FORMAT), "format"))}
    observe, sizes = _observe(given.pop("observe"), given.pop("sizes", None))
    arrays |= {"observe": observe, "sizes": sizes}
    for name in ("public", "private"):
        arrays |= _named_rows(name, given)
    if "noise" in given:
        arrays |= _noise(given.pop("noise"), sizes)
    length = observe.shape[1] if observe.ndim == 2 else 0
    arrays["offset"] = _joined(given.pop("offset", np.zeros(int(sizes.sum()))), "offset")
    parameters = given.pop("parameters", [f"x{k + 1}" for k in range(length)])
    arrays["parameters"] = _texts(parameters, "parameters")
    for name, value in given.items():
        arrays[name] = _array(name, value)
    return network_from_arrays(arrays)


def _array(name: str, value: Any) -> np.ndarray[Any, Any]:
    if name in _TEXTS:
        return _texts(value, name)
    if name in _WHOLE:
        return _whole(value, name)
    array = _numbers(value, name)
    if name in _VECTORS or (name in _VECTOR_OR_MATRIX and min(array.shape, default=0) <= 1):
        return _vector(array, name)
    if name in ("model_error", "step") and array.size == 1:
        return array.reshape(())
    if name.startswith(_STACK) and array.ndim == 2:  # MATLAB keeps no third dimension of one
        return array[:, :, None]
    return array


def _observe(value: Any, sizes: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(all rows, how many each agent has), from cells or from one matrix."""
    if not isinstance(value, list):
        rows = _numbers(value, "observe")
        if sizes is None:
            raise InvalidNetwork(
                "sizes: say how many rows of observe belong to each agent, or give observe as cells, a matrix each"
            )
        return rows, _whole(sizes, "sizes")
    if sizes is not None:
        raise InvalidNetwork("sizes: with observe as cells it is known; leave it out")
    parts = [_numbers(each, f"observe{{{k + 1}}}") for k, each in enumerate(value)]
    columns = {part.shape[1] for part in parts if part.ndim == 2}
    if len(columns) != 1 or any(part.ndim != 2 for part in parts):
        raise InvalidNetwork("observe: expected cells with matrices, each with a column for every entry of x")
    return np.concatenate(parts), np.array([len(part) for part in parts], dtype=np.int64)


def _named_rows(name: str, given: dict[str, Any]) -> Arrays:
    """Rows, names and sizes of what is public or private: a struct, or a matrix with names."""
    value = given.pop(name)
    names, sizes = given.pop(f"{name}_names", None), given.pop(f"{name}_sizes", None)
    if isinstance(value, dict):
        if names is not None or sizes is not None:
            raise InvalidNetwork(f"{name}: a struct names its rows; leave out {name}_names and {name}_sizes")
        rows = [_numbers(each, f"{name}.{key}") for key, each in value.items()]
        if not rows or len({each.shape[-1] for each in rows}) != 1:
            raise InvalidNetwork(
                f"{name}: expected a struct of rows, each with a number for every entry of x"
            )
        return {
            name: np.concatenate(rows),
            f"{name}_names": np.array(list(value)),
            f"{name}_sizes": np.array([len(each) for each in rows], dtype=np.int64),
        }
    matrix = _numbers(value, name)
    if names is None:
        raise InvalidNetwork(f"{name}_names: missing; name the rows of {name}, or give {name} as a struct")
    labels = _texts(names, f"{name}_names")
    each = np.ones(len(labels), dtype=np.int64) if sizes is None else _whole(sizes, f"{name}_sizes")
    return {name: matrix, f"{name}_names": labels, f"{name}_sizes": each}


def _noise(value: Any, sizes: np.ndarray[Any, Any]) -> Arrays:
    """Noise in any form: one variance, variances, a joint matrix, or cells with either of the latter."""
    if not isinstance(value, list):
        array = _numbers(value, "noise")
        if array.size == 1:
            return {"noise_variances": np.full(int(sizes.sum()), array.reshape(-1)[0])}
        return {"noise_variances": array.reshape(-1)} if min(array.shape) == 1 else {"noise": array}
    if len(value) != len(sizes):
        raise InvalidNetwork(f"noise: expected {len(sizes)} cells, one for each agent, found {len(value)}")
    blocks: dict[int, list[np.ndarray[Any, Any]]] = {}
    for place, (each, size) in enumerate(zip(value, sizes.tolist(), strict=True)):
        array = _numbers(each, f"noise{{{place + 1}}}")
        if array.size == size:
            array = np.diag(array.reshape(-1))
        elif array.size == 1:
            array = array.reshape(-1)[0] * np.eye(size)
        if array.shape != (size, size):
            raise InvalidNetwork(
                f"noise{{{place + 1}}}: expected 1, {size} or {size} x {size} numbers, found shape {array.shape}"
            )
        blocks.setdefault(size, []).append(array)
    return {f"{_STACK}{size}": np.stack(arrays) for size, arrays in blocks.items()}


def _joined(value: Any, name: str) -> np.ndarray[Any, Any]:
    """One vector, from cells of vectors too."""
    if isinstance(value, list):
        parts = [_vector(_numbers(each, f"{name}{{{k + 1}}}"), name) for k, each in enumerate(value)]
        return np.concatenate([np.zeros(0), *parts])
    return _vector(_numbers(value, name), name)


def _vector(array: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    if array.ndim > 1 and array.size != max(array.shape):
        raise InvalidNetwork(f"{name}: expected a row or column of numbers, found shape {array.shape}")
    return array.reshape(-1)


def _whole(value: Any, name: str) -> np.ndarray[Any, Any]:
    array = _vector(_numbers(value, name), name)
    if array.dtype.kind == "f" and np.all(np.isfinite(array)) and np.all(np.abs(array) < 2**53):
        whole = array.astype(np.int64)
        if np.array_equal(whole, array):
            return whole
    if array.dtype.kind not in "iu":
        raise InvalidNetwork(f"{name}: expected whole numbers")
    return array


def _numbers(value: Any, name: str) -> np.ndarray[Any, Any]:
    if not isinstance(value, np.ndarray):
        kind = {"str": "text", "list": "cells", "dict": "a struct"}[type(value).__name__]
        raise InvalidNetwork(f"{name}: expected numbers, found {kind}")
    return value


def _texts(value: Any, name: str) -> np.ndarray[Any, Any]:
    texts: Sequence[Any] = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(each, str) for each in texts):
        raise InvalidNetwork(f"{name}: expected cells of text")
    return np.array(texts)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidNetwork(f"{name}: expected text")
    return value
