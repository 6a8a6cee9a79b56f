"""What a member of a group has to know of it: with whom its messages are added up, and modulo what.

Messages lie on a public grid, so they are whole numbers of steps. Added up modulo 2^k under masks they stay exact:
the sum of what arrives is the sum of what was sent, bit for bit, as long as that is below 2^(k-1) steps in size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet._core.types import Array

MOST_BITS = 64

_EXACT = 2.0**53


@dataclass(frozen=True)
class Membership:
    """One agent's place in a group whose messages are added up before anybody sees them.

    group:     its name.
    members:   names of all members, in order.
    threshold: how many of them must be there for a sum to be opened.
    bits:      k: sums are taken modulo 2^k.
    """

    group: str
    members: tuple[str, ...]
    threshold: int
    bits: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(self.members))
        if len(self.members) < 2 or len(set(self.members)) < len(self.members):
            raise InvalidRequest(
                f"members of {self.group!r}: expected at least two different agents, found {list(self.members)}"
            )
        if not 2 <= self.threshold <= len(self.members):
            raise InvalidRequest(
                f"threshold of {self.group!r}: expected 2 to {len(self.members)}, the number of members, found "
                f"{self.threshold}"
            )
        if not 1 <= self.bits <= MOST_BITS:
            raise InvalidRequest(f"bits of {self.group!r}: expected 1 to {MOST_BITS}, found {self.bits}")

    @property
    def colluders(self) -> int:
        """How many others may help the centre, and it still sees nothing but the sum.

        More than (S + c)/2 of S members must be needed (:mod:`veilnet.sums.rounds`), and two honest ones remain in
        every sum.
        """
        return max(0, min(2 * self.threshold - len(self.members) - 1, self.threshold - 2))

    def whole(self, message: Array, grid: Array) -> NDArray[np.int64]:
        """A message (..., m) in steps of its grid; InvalidReading where it does not lie on the grid.

        message: what an agent released, finite.
        grid:    the step of each number, (m,), powers of two.
        """
        steps = np.asarray(message, dtype=np.float64) / grid
        if not np.all(np.isfinite(steps) & (np.abs(steps) < _EXACT) & (np.rint(steps) == steps)):
            raise InvalidReading(f"message of {self.group!r}: expected multiples of its grid, found others")
        return steps.astype(np.int64)

    def residues(self, whole: NDArray[np.int64] | NDArray[np.unsignedinteger]) -> NDArray[np.uint64]:
        """Whole numbers modulo 2^k, as masks are added to them."""
        return whole.astype(np.uint64) & np.uint64(2**self.bits - 1)

    def opened(self, residues: NDArray[np.uint64], grid: Array) -> Array:
        """The sum of messages, from that of their residues: the number below 2^(k-1) steps in size, exactly.

        InvalidReading where it has 2^53 steps or more: doubles would round it.

        residues: (..., m), sums modulo 2^k, or any whole numbers that are equal to them modulo 2^k.
        grid:     the step of each number, (m,).
        """
        left = np.uint64(MOST_BITS - self.bits)
        signed = (np.asarray(residues, dtype=np.uint64) << left).view(np.int64) >> left.astype(np.int64)
        if np.any(np.abs(signed.astype(np.float64)) >= _EXACT):
            raise InvalidReading(
                f"sum of {self.group!r}: expected fewer than 2^53 steps of its grid, found more, which no double "
                "holds exactly; a member sends what its plan does not allow"
            )
        return np.asarray(signed * grid)
