"""What a claim is, and the words claims share."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array, Booleans
from veilnet._core.words import number

# Privacies and losses below this are rounding.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Claim:
    """One claim: where it stands, what the paper says, what was measured, whether they agree.

    agrees:      with Algorithm 3, where it takes part, run for as many sweeps as in every draw.
    holds_after: where that is not so, the number of sweeps after which the draws that were run for longer do
                 agree, although the same draws did not before; None where no such number was seen.
    """

    figure: str
    says: str
    measured: str
    agrees: bool
    holds_after: int | None = None

    @property
    def verdict(self) -> str:
        """Yes, no, or no with the number of sweeps that makes it a yes."""
        if self.agrees:
            return "yes"
        return "no" if self.holds_after is None else f"no; after {self.holds_after} sweeps yes"


def never_rises(values: Sequence[float]) -> bool:
    """Never rises, but for rounding."""
    return all(after <= before + 1e-9 * abs(before) for before, after in itertools.pairwise(values))


def share(values: Array | Booleans) -> float:
    """The part of them that holds."""
    return float(np.mean(values))


def percent(value: float, digits: int = 0) -> str:
    """A part of one as a percentage."""
    return f"{100 * value:.{digits}f} %"


def listed(values: Iterable[float]) -> str:
    """Numbers with commas between."""
    return ", ".join(f"{value:g}" for value in values)


def first_draws(count: int) -> str:
    """So many of the first draws, in words."""
    return "the first draw" if count == 1 else f"the first {count} draws"


def shown(value: float) -> str:
    """Three digits; rounding is nothing."""
    return "0" if abs(value) < ROUNDING else number(value)
