"""What probing a sanitizer yields: measurements, each with how likely a sound one shows it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array, Integers


@dataclass(frozen=True)
class Probed:
    """One thing measured at one agent (or two): how likely a sound sanitizer shows it, and what it shows."""

    check: str
    who: str
    p: float
    found: float
    words: str


@dataclass(frozen=True, eq=False)
class AgentDraws:
    """What is left of an agent's answers when the plan's compression is taken off."""

    white: Array  # (T, k): the draws behind the noise of a repeated reading
    dither: Array  # (T, m): random rounding of readings all over the range, in half grid steps
    coins: Array  # (T, k): +1 where a draw is larger than most, -1 where it is smaller


def probed(check: str, who: str, chances: Array, found: Array, words: str) -> list[Probed]:
    """One for each of several p-values, with what was found."""
    pairs = zip(np.ravel(chances).tolist(), np.ravel(found).tolist(), strict=True)
    return [Probed(check, who, p, each, words) for p, each in pairs]


def pairs_apart(count: int, lag: int) -> Integers:
    """Places of the first of disjoint pairs ``lag`` apart: no draw is on both sides of two of them."""
    first = np.flatnonzero((np.arange(count) // lag) % 2 == 0)
    return first[first + lag < count]


def score_against(one: Array, others: Array) -> Array:
    """one'b / |b| for each column b: 1-sub-Gaussian for 1-sub-Gaussian ``one`` independent of b."""
    norms = np.linalg.norm(others, axis=0)
    return np.asarray(one @ others / np.where(norms > 0, norms, np.inf))
