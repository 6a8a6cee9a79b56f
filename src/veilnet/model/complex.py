"""Complex readings with circular noise, as an equivalent real network (the paper's Example 1).

A complex y = H x + n with n circular of covariance R = E[n n^H] is the real model

    [Re y]   [Re H  -Im H] [Re x]              1 [Re R  -Im R]
    [Im y] = [Im H   Re H] [Im x] + noise of   - [Im R   Re R]
                                               2

Agents keep their readings together: agent i sends Re y_i and Im y_i. A complex public or private row
becomes two real rows, one for its real and one for its imaginary part.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array
from veilnet._core.validation import refuse_unknown
from veilnet.model.arguments import read_parameters
from veilnet.model.common import CommonNoise
from veilnet.model.prior import Prior

Complex = NDArray[np.complex128]


def stack_complex(readings: Any) -> Array:
    """Complex readings (..., n) of one agent as the real ones (..., 2 n) its network expects."""
    array = np.asarray(readings)
    return np.concatenate([array.real, array.imag], axis=-1).astype(np.float64)


def join_complex(values: Any) -> Complex:
    """Back from (..., 2 n) real numbers, real parts first, to (..., n) complex ones."""
    array = np.asarray(values, dtype=np.float64)
    half = array.shape[-1] // 2
    return np.asarray(array[..., :half] + 1j * array[..., half:], dtype=np.complex128)


def circular_prior(covariance: Any, mean: Any = None) -> Prior:
    """The real prior of a circular complex x with covariance E[(x-m)(x-m)^H] and mean m."""
    return Prior(
        covariance=_real_covariance(_as_complex(covariance, "prior covariance", 2), "prior covariance"),
        mean=None if mean is None else stack_complex(mean),
    )


def real_arguments(
    observe: Any, noise: Any, public: Any, private: Any, offset: Any, parameters: Any, resolution: Any
) -> dict[str, Any]:
    """Arguments of the equivalent real Network; ``resolution`` is that of real and imaginary parts alike."""
    if not isinstance(observe, Mapping) or not observe:
        raise InvalidNetwork("observe: expected agent -> complex matrix, with at least one agent")
    matrices = {name: _as_complex(value, f"observe[{name!r}]", 2) for name, value in observe.items()}
    names = read_parameters(parameters, next(iter(matrices.values())).shape[1])
    for value, what in ((private, "private"), ({} if offset is None else offset, "offset")):
        if not isinstance(value, Mapping):
            raise InvalidNetwork(f"{what}: expected a mapping by name, found {type(value).__name__}")

    def by_name(rows: Mapping[str, Any], what: str) -> dict[str, Array]:
        return {name: _real_rows(_as_complex(each, f"{what} {name!r}", 2)) for name, each in rows.items()}

    if isinstance(resolution, Mapping):
        alike = {name: np.ndim(steps) == 0 for name, steps in resolution.items()}
        resolution = {name: s if alike[name] else np.tile(s, 2) for name, s in resolution.items()}
    return {
        "observe": {name: _real_rows(matrix) for name, matrix in matrices.items()},
        "noise": _real_noise(noise, {name: matrix.shape[0] for name, matrix in matrices.items()}),
        "public": by_name(public, "public")
        if isinstance(public, Mapping)
        else _real_rows(_as_complex(public, "public", 2)),
        "private": by_name(private, "private"),
        "offset": None
        if offset is None
        else {
            name: stack_complex(_as_complex(each, f"offset of {name!r}", 1)) for name, each in offset.items()
        },
        "parameters": [f"{part} {name}" for part in ("Re", "Im") for name in names],
        "resolution": resolution,
    }


def _real_noise(noise: Any, sizes: Mapping[str, int], label: str = "noise") -> Any:
    if isinstance(noise, CommonNoise):
        raise InvalidNetwork(
            "noise: common disturbances of complex readings are not offered; give the joint Hermitian covariance, or "
            "the real network with its CommonNoise"
        )
    if isinstance(noise, Mapping):
        refuse_unknown(noise, list(sizes), "noise")
        return {
            name: _real_noise(value, {name: sizes[name]}, f"noise of {name!r}")
            for name, value in noise.items()
        }
    total = sum(sizes.values())
    array = _as_complex(noise, label)
    if array.ndim <= 1 and np.any(array.imag):
        raise InvalidNetwork(f"{label}: expected real variances, found complex numbers; give E[n n^H] whole")
    if array.ndim == 0:
        return float(array.real) / 2
    if array.shape == (total,):
        variances = array.real / 2
        parts = np.split(variances, np.cumsum(list(sizes.values()))[:-1])
        return np.concatenate([np.tile(part, 2) for part in parts])
    covariance = array
    if covariance.shape != (total, total):
        raise InvalidNetwork(
            f"{label}: expected a {total} x {total} Hermitian covariance, found shape {covariance.shape}"
        )
    # Real parts then imaginary parts of all readings -> real and imaginary parts agent by agent.
    starts = np.cumsum([0, *sizes.values()])
    order = np.concatenate(
        [np.concatenate([np.arange(a, b), total + np.arange(a, b)]) for a, b in pairwise(starts.tolist())]
    )
    return _real_covariance(covariance, label)[np.ix_(order, order)]


def _real_covariance(covariance: Complex, name: str) -> Array:
    if covariance.shape[0] != covariance.shape[1]:
        raise InvalidNetwork(f"{name}: expected a square matrix, found shape {covariance.shape}")
    if np.max(np.abs(covariance - covariance.conj().T)) > 1e-10 * np.max(np.abs(covariance)):
        raise InvalidNetwork(f"{name}: expected a Hermitian covariance E[n n^H], found an asymmetric matrix")
    return np.block([[covariance.real, -covariance.imag], [covariance.imag, covariance.real]]) / 2


def _real_rows(rows: Complex) -> Array:
    return np.block([[rows.real, -rows.imag], [rows.imag, rows.real]])


def _as_complex(value: Any, name: str, dimensions: int | None = None) -> Complex:
    try:
        raw = np.asarray(value)
        if raw.dtype.kind in "USMm" or value is None:
            raise TypeError("text, dates and None are not numbers")
        array = raw.astype(np.complex128)
    except (TypeError, ValueError) as error:
        raise InvalidNetwork(f"{name}: expected complex numbers in rows of one length") from error
    if dimensions == 2 and array.ndim == 1:
        array = array[None, :]
    if array.size == 0 or (dimensions is not None and array.ndim != dimensions):
        raise InvalidNetwork(f"{name}: expected {dimensions} dimensions, found shape {array.shape}")
    if not np.all(np.isfinite(array)):
        raise InvalidNetwork(f"{name}: expected finite numbers, found NaN or infinity; remove missing values")
    return array
