"""Whether what agents send in service still has the law that certificates counted; if not, promises are void."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtrc

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array
from veilnet._core.validation import as_number
from veilnet._core.words import join_names
from veilnet.symbols.centre import SymbolCentre

_LEAST_EXPECTED = 5.0  # rows of a symbol, on average, below which symbols are put together


@dataclass(frozen=True)
class SymbolDrift:
    """What was found.

    chances: agent -> the chance of so large a difference if nothing had changed.
    changed: agents whose law is another, at the false-alarm rate that was asked for, all together.
    """

    chances: dict[str, float]
    changed: tuple[str, ...]

    def __str__(self) -> str:
        if not self.changed:
            return "What agents send has the law that was counted, as far as so many rows can tell."
        return (
            f"What {join_names(self.changed)} sends has another law than the one that was counted: what the plan "
            "promises is void until it is learned anew."
        )


def symbol_drift(
    centre: SymbolCentre, symbols: Mapping[str, Any], *, false_alarm: float = 0.001
) -> SymbolDrift:
    """Compare symbols in service with the law on the rows that certified, of each agent by itself.

    symbols: agent -> (T,) symbols, -1 where it sent nothing.
    false_alarm: chance that an unchanged law is called changed, of all agents together.

    Pearson's test of two samples for each agent, with counts divided by the size of blocks: rows of a block may
    all be the same, so that they count as one. A change of what agents send together, while each by itself sends as
    before, is not seen.
    """
    if not 0 < as_number(false_alarm, "false_alarm", error=InvalidRequest) < 1:
        raise InvalidRequest(f"false_alarm: expected a chance between 0 and 1, found {false_alarm!r}")
    sent, chances = np.atleast_2d(centre.read(symbols)), {}
    for place, (agent, last) in enumerate(centre.agents.items()):
        if symbols.get(agent) is not None:
            mine = sent[:, place]
            now = np.bincount(np.where(mine < 0, last, mine), minlength=last + 1)
            chances[agent] = _same_law(centre.seen[agent] / centre.alike, now / centre.alike)
    level = false_alarm / max(1, len(chances))
    return SymbolDrift(chances, tuple(agent for agent, chance in chances.items() if chance < level))


def _same_law(before: Array, now: Array) -> float:
    """The chance of a larger difference between two tables of counts of one law."""
    both = np.stack([before, now])[:, np.argsort(before + now)]
    part = both.sum(axis=1) / both.sum()
    rare = np.cumsum(both.sum(axis=0)) * part.min() < _LEAST_EXPECTED
    pooled = np.concatenate([both[:, rare].sum(axis=1, keepdims=True), both[:, ~rare]], axis=1)
    pooled = pooled[:, pooled.sum(axis=0) > 0]
    if pooled.shape[1] < 2 or not np.all(both.sum(axis=1) > 0):
        return 1.0
    expected = np.outer(part, pooled.sum(axis=0))
    return float(chdtrc(pooled.shape[1] - 1, np.sum((pooled - expected) ** 2 / expected)))
