"""Arrays are checked once, at the door; every message says expected against found.

What describes a network raises InvalidNetwork; functions that read a question give ``error=InvalidRequest``.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidRequest, VeilnetError
from veilnet._core.spelling import did_you_mean
from veilnet._core.types import Array

# Asymmetry and negative eigenvalues below this, relative to the matrix's own scale, are rounding.
ROUNDING = 1e-10

Refusal: TypeAlias = type[VeilnetError]


def as_array(value: Any, name: str, *, error: Refusal = InvalidNetwork) -> Array:
    """A finite float64 array, or an error that names the argument."""
    if value is None:
        raise error(f"{name}: expected numbers, found None; give a matrix or leave the argument out")
    try:
        raw = np.asarray(value)
    except ValueError as cause:
        raise error(f"{name}: rows of different lengths; make every row equally long") from cause
    masked = sys.modules.get("numpy.ma")  # which a program with a masked array has loaded
    if masked is not None and masked.is_masked(value):
        raise error(f"{name}: expected numbers, found masked ones; fill or remove missing values first")
    if raw.dtype.kind in "USMm":
        raise error(f"{name}: expected numbers, found {_example(raw)}; convert text and dates first")
    if np.iscomplexobj(raw):
        raise error(
            f"{name}: expected real numbers, found complex ones; use Network.from_complex for complex models"
        )
    try:
        array = np.array(raw, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as cause:
        raise error(
            f"{name}: expected numbers, found {_example(raw)}; check for text, ragged rows or missing values"
        ) from cause
    if not np.all(np.isfinite(array)):
        where = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
        raise error(
            f"{name}: expected finite numbers, found {array[where]} at index {where}; "
            "remove or replace missing values first"
        )
    return array


def are_stacks(value: Any) -> bool:
    """Whether a value is a list of stacks, arrays of three dimensions each."""
    return isinstance(value, list | tuple) and any(getattr(each, "ndim", 0) == 3 for each in value)


def as_matrix(value: Any, name: str, *, columns: int | None = None) -> Array:
    """A finite matrix; one row may be given as a plain vector."""
    array = as_array(value, name)
    if array.ndim <= 1:
        array = np.atleast_1d(array)[None, :]
    if array.ndim != 2:
        raise InvalidNetwork(
            f"{name}: expected a matrix (two dimensions), found shape {array.shape}; stack its rows"
        )
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise InvalidNetwork(f"{name}: expected at least one row and column, found shape {array.shape}")
    if columns is not None and array.shape[1] != columns:
        raise InvalidNetwork(
            f"{name}: expected {columns} columns (one per parameter), found {array.shape[1]}; "
            "every matrix must refer to the same parameters x"
        )
    return array


def as_number(value: Any, name: str, *, error: Refusal = InvalidNetwork) -> float:
    """One finite number."""
    array = as_array(value, name, error=error)
    if array.ndim != 0:
        raise error(f"{name}: expected one number, found shape {array.shape}")
    return float(array)


def as_vector(value: Any, name: str, size: int) -> Array:
    """A finite vector of known length."""
    array = np.atleast_1d(as_array(value, name))
    if array.shape != (size,):
        raise InvalidNetwork(f"{name}: expected {size} numbers, found shape {array.shape}")
    return array


def as_square(value: Any, name: str, size: int) -> Array:
    """A finite symmetric matrix of known size; asymmetry beyond rounding is an error."""
    array = as_array(value, name)
    if array.shape == () and size == 1:
        array = array.reshape(1, 1)
    if array.shape != (size, size):
        raise InvalidNetwork(f"{name}: expected a {size} x {size} matrix, found shape {array.shape}")
    return symmetric(array, name)


def diagonal_or_whole(value: Any, name: str, size: int) -> Array:
    """A finite matrix of known size, or its diagonal: one number for all of it, or so many."""
    array = as_array(value, name)
    if array.ndim == 0 or array.shape == (size,):
        return np.diag(np.broadcast_to(array, (size,)))
    if array.shape != (size, size):
        raise InvalidNetwork(
            f"{name}: expected one number, {size} numbers or a {size} x {size} matrix, found shape {array.shape}"
        )
    return array


def as_covariance(value: Any, name: str, size: int) -> Array:
    """A covariance of known size: one variance for all, so many variances, or the whole matrix."""
    return semidefinite(symmetric(diagonal_or_whole(value, name, size), name), name)


def one_or_each(value: Any, count: int) -> Array | None:
    """So many numbers, finite or not: one for all, or each its own. None where it is neither."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return np.array(np.broadcast_to(array, (count,))) if array.shape in ((), (count,)) else None


def symmetric(array: Array, name: str) -> Array:
    """The symmetric part of one matrix or a stack of them; asymmetry beyond rounding is an error."""
    mirrored = np.swapaxes(array, -1, -2)
    if np.array_equal(array, mirrored):
        return array
    scale = _correlation_scale(array)
    gap = np.abs(array - mirrored) / scale
    worst = tuple(int(k) for k in np.unravel_index(int(np.argmax(gap)), gap.shape))
    if gap[worst] > ROUNDING:
        other = (*worst[:-2], worst[-1], worst[-2])
        raise InvalidNetwork(
            f"{name}: expected a symmetric matrix, found {array[worst]:.6g} at {worst} "
            f"but {array[other]:.6g} at {other}; use (R + R.T) / 2 if the difference is rounding"
        )
    return np.asarray((array + mirrored) / 2)


def semidefinite(array: Array, name: str) -> Array:
    """A symmetric matrix without negative eigenvalues (relative to its own diagonal)."""
    if not array.size:
        return array
    lowest = lowest_relative_eigenvalue(array)
    if lowest < -ROUNDING * max(1, array.shape[0]):
        found = f"number {np.min(np.diagonal(array)):.6g} on its diagonal"
        raise InvalidNetwork(
            f"{name}: expected a positive semidefinite matrix, found the "
            f"{f'relative eigenvalue {lowest:.3g}' if np.isfinite(lowest) else found}; "
            "a covariance or information matrix has nothing below zero"
        )
    return array


def lowest_relative_eigenvalues(stack: Array) -> Array:
    """Smallest eigenvalue of each symmetric matrix after scaling its diagonal to one: free of units.

    -inf where a diagonal entry is negative.
    """
    diagonal = np.diagonal(stack, axis1=-2, axis2=-1)
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    lowest = np.linalg.eigvalsh(stack / scale[..., :, None] / scale[..., None, :])[..., 0]
    return np.asarray(np.where(np.any(diagonal < 0, axis=-1), -np.inf, lowest))


def lowest_relative_eigenvalue(array: Array) -> float:
    """Smallest eigenvalue of one symmetric matrix, its diagonal scaled to one."""
    return float(lowest_relative_eigenvalues(array))


def as_name(value: Any, what: str, *, error: Refusal = InvalidNetwork) -> str:
    """A printable name of an agent or parameter."""
    if not isinstance(value, str) or not value.strip():
        raise error(f"{what}: expected a non-empty name, found {value!r}")
    if len(value) > 100 or not value.isprintable():
        raise error(f"{what}: expected at most 100 printable characters, found {value[:40]!r}...")
    return value


def as_names(values: Any, what: str, *, error: Refusal = InvalidNetwork) -> tuple[str, ...]:
    """Distinct names, in order."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise error(f"{what}: expected a list of names, found {values!r}; write [{values!r}, ...]")
    names = tuple(as_name(value, what, error=error) for value in values)
    if len(set(names)) != len(names):
        seen: set[str] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise error(f"{what}: the name {twice!r} is used twice; names must differ")
    return names


def expect(value: Any, kind: type, what: str) -> None:
    """Refuse an argument that is not of veilnet's own kind asked for, such as a Network."""
    if not isinstance(value, kind):
        raise InvalidRequest(f"{what}: expected a veilnet.{kind.__name__}, found {type(value).__name__}")


def refuse_unknown(
    given: Iterable[Any], known: Collection[str], what: str, *, error: Refusal = InvalidNetwork
) -> None:
    """Refuse names that are not among the known ones."""
    here = known if isinstance(known, Mapping) else set(known)
    strangers = [str(name) for name in given if name not in here]
    if strangers:
        raise unknown(strangers, known, what, error=error)


def unknown(
    given: Sequence[str], known: Collection[str], what: str, *, error: Refusal = InvalidNetwork
) -> VeilnetError:
    """The error for names that are not there, with those that are."""
    shown = ", ".join(repr(name) for name in islice(known, 8)) + (", ..." if len(known) > 8 else "")
    meant = did_you_mean(given[0], known)
    return error(f"{what}: unknown {', '.join(repr(name) for name in given[:5])}{meant}; known are {shown}")


def _correlation_scale(array: Array) -> Array:
    diagonal = np.abs(np.diagonal(array, axis1=-2, axis2=-1))
    deviation = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    return np.asarray(deviation[..., :, None] * deviation[..., None, :])


def _example(raw: np.ndarray[Any, Any]) -> str:
    item = raw.reshape(-1)[0] if raw.size else raw
    text = repr(item)
    return f"{text if len(text) <= 40 else text[:40] + '...'} (type {raw.dtype})"
