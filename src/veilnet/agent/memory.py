"""What an agent keeps of its past readings: a linear filter, for what it sends to depend on more than one row.

s_t = F s_{t-1} + K (y_t + d_t - offset). A share filter (mathematics, "Streams") is one: K the agent's columns of the
Kalman gain and F the filter's transition, reduced to what the public rows see of it.

Earlier readings in the memory mask later ones. Where they are missing, at a start and after a missed row, the agent
draws its memory from N(0, start) and begins anew: the draw masks what the readings would have (docs, streams).
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilnet._core.errors import InvalidNetwork
from veilnet._core.frozen import Frozen, derived
from veilnet._core.types import Array
from veilnet._core.validation import as_array, as_matrix, as_square, semidefinite

_MOST_DOUBLINGS = 48  # 2^48 times 64 rows: a memory that has not faded by then is refused
_FADED = 1e-6  # of a memory: twice what is left is added to the bound for all later rows
_TERMS = 64  # summed one by one, where the bound is exact; most memories fade within them
_MOST_ROWS = 100_000


class Memory(Frozen):
    """The filter of one agent: s_t = F s_{t-1} + K (y_t + d_t - offset).

    transition: F, k x k, stable (every eigenvalue inside the unit circle): else no reading would ever be forgotten.
    gain:       K, k x n for n readings.
    start:      k x k covariance of the memory that is drawn at a start and after a missed row. Left out, the memory
                begins at zero and goes on without a missed reading, s_t = F s_{t-1}.
    """

    def __init__(self, transition: Any, gain: Any, start: Any = None) -> None:
        self.transition: Array = np.array(_matrix(transition, "transition"))
        order = self.transition.shape[0]
        if self.transition.shape != (order, order):
            raise InvalidNetwork(
                f"transition: expected a square matrix F, found shape {self.transition.shape}; "
                "it takes the memory of one row to the next"
            )
        self.gain: Array = np.array(_matrix(gain, "gain"))
        if self.gain.shape[0] != order:
            raise InvalidNetwork(
                f"gain: expected {order} rows, as many as the transition has, found {self.gain.shape[0]}; "
                "K is k x n, one column per reading"
            )
        radius = float(np.max(np.abs(np.linalg.eigvals(self.transition))))
        if not radius < 1.0:
            raise InvalidNetwork(
                f"transition: expected a stable F, found an eigenvalue of size {radius:.6g}; "
                "a memory must forget: give one whose eigenvalues lie inside the unit circle"
            )
        self.start: Array | None = None
        if start is not None:
            self.start = np.array(semidefinite(as_square(start, "start", order), "start"))
        self._freeze()

    @property
    def order(self) -> int:
        """k, how many numbers are kept from row to row."""
        return int(self.transition.shape[0])

    @property
    def readings(self) -> int:
        """n, how many readings a row has."""
        return int(self.gain.shape[1])

    @derived
    def start_root(self) -> Array | None:
        """B with BB' = start; None where nothing is drawn."""
        if self.start is None:
            return None
        values, vectors = np.linalg.eigh(self.start)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    @derived
    def held(self) -> Array:
        """A bound on Σ_j |F^j K|, entry by entry: what the memory can hold of readings of size one."""
        return summed_sizes(self.transition, self.gain)

    def passed_on(self, rows: Array) -> Array:
        """A bound on Σ_j |C F^j|, entry by entry: what an error in the memory can do to numbers sent from then on.

        rows: C, the columns of a compression that act on the memory.
        """
        return summed_sizes(self.transition.T, rows.T).T

    def reached(self, largest: Array) -> Array:
        """A bound on |F^j s| over all j, entry by entry, for every s with |s| <= largest.

        largest: what each entry is at most. Row after row, until all of it lies where it began: from there on it
        reaches no farther.
        """
        box = np.where(largest > 0, largest, np.max(largest, initial=0.0))
        most, power = box, np.eye(self.order)
        for _ in range(_MOST_ROWS):
            power = self.transition @ power
            here = np.abs(power) @ box
            if np.all(here <= box):
                return most
            most = np.maximum(most, here)
        raise InvalidNetwork(
            "transition: an eigenvalue of F is so near the unit circle that a memory would not fade"
        )

    def same_as(self, other: Memory | None) -> bool:
        """Whether another one is the same to the last bit.

        other: the memory to compare with; None is none.
        """
        return other is not None and self.digest == other.digest

    @derived
    def digest(self) -> str:
        """A hash of all that makes it what it is: whatever its constructor takes, to the last bit."""
        found = hashlib.sha256()
        for name in inspect.signature(type(self)).parameters:
            value = getattr(self, name)
            array = None if value is None else np.asarray(value, dtype="<f8") + 0.0  # no sign of a zero
            found.update(f"{name} {None if array is None else array.shape}\n".encode())
            found.update(b"" if array is None else array.tobytes())
        return found.hexdigest()

    def with_start(self, start: Any) -> Memory:
        """The same memory, drawn from another law where it begins anew.

        start: its covariance; None for a memory that begins at zero.
        """
        return Memory(self.transition, self.gain, start)

    def __repr__(self) -> str:
        return f"Memory({self.order} number{'s' if self.order > 1 else ''} kept of {self.readings} readings a row)"


def response(
    compression: Array, transition: Array | None, gain: Array | None, turns: NDArray[Any]
) -> NDArray[Any]:
    """h(ω) = C_s (I - F e^{-iω})^-1 K + C_y at turns e^{-iω}, (f,): what readings do to what is sent, (..., f, k, n).

    compression: C on (memory, readings), (..., k, order + n), of one agent or a stack of them.
    transition:  F, gain: K; None without a memory, and f = 1 then, one for all frequencies.
    """
    if transition is None or gain is None:
        return compression[..., None, :, :]
    order = transition.shape[-1]
    moves = np.eye(order) - turns[:, None, None] * transition[..., None, :, :]
    kept = np.linalg.solve(moves, gain[..., None, :, :] + 0j)
    return np.asarray(compression[..., None, :, order:] + compression[..., None, :, :order] @ kept)


def impulses(compression: Array, transition: Array, gain: Array) -> Iterator[Array]:
    """What a reading does to what is sent in its own row, (..., k, n), and in each row after it, without end."""
    order, kept = transition.shape[-1], gain
    yield compression[..., order:] + compression[..., :order] @ kept
    while True:
        kept = transition @ kept
        yield compression[..., :order] @ kept


def summed_sizes(transition: Array, columns: Array) -> Array:
    """At least Σ_j |F^j B| over all j, F and B matrices or stacks of them.

    The first N terms one by one; T is their sum. The others are at most Σ_i |M^i| T over i > 0, M = F^N, and the
    sum of the first 2m of those sizes is at most I + |M^m| times that of the first m.
    """
    total, term = np.abs(columns), columns
    for _ in range(_TERMS - 1):
        term = transition @ term
        total = total + np.abs(term)
    power = np.linalg.matrix_power(transition, _TERMS)
    size = np.broadcast_to(np.eye(transition.shape[-1]), transition.shape)
    for _ in range(_MOST_DOUBLINGS):
        left = float(np.max(np.sum(np.abs(power), axis=-1)))
        if left <= _FADED:
            size = size + 2 * left * np.max(size, axis=-2, keepdims=True)
            return np.asarray(size @ total)
        size = size + np.abs(power) @ size
        power = power @ power
    raise InvalidNetwork(
        "transition: an eigenvalue of F is so near the unit circle that rounding errors would not fade"
    )


def _matrix(value: Any, name: str) -> Array:
    array = as_array(value, name)
    if array.ndim == 0:
        array = array.reshape(1, 1)
    return as_matrix(array, name)
