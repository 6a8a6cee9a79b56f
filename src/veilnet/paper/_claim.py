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
    """One claim: where it stands, what the paper says, what was measured, whether they agree."""

    figure: str
    says: str
    measured: str
    agrees: bool


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


def shown(value: float) -> str:
    """Three digits; rounding is nothing."""
    return "0" if abs(value) < ROUNDING else number(value)
