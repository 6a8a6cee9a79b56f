"""What check and design answer for a network in parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.validation import refuse_unknown
from veilnet._core.words import times
from veilnet.agent.sanitizer import Sanitizer
from veilnet.cluster.parts import Parts
from veilnet.cluster.plans import PLAN, sent_by
from veilnet.plans.certificate import Certificate
from veilnet.plans.in_words import power_in_words

__all__ = ["PartsPlan", "PartsVerdict"]

_ROUNDING = (
    1e-9  # what is free may miss the limit by so much, relative to 1 plus the limit, where it reaches it
)


@dataclass(frozen=True, eq=False)
class PartsVerdict:
    """How much privacy is free.

    ceiling: name -> most privacy at perfect utility.
    limit:   name -> what the prior allows at most.
    agents:  how many there are.
    numbers: how many numbers they send in all.
    exposed: how many of them withhold something by exact numbers, of readings whose resolution nobody stated.
    """

    ceiling: Mapping[str, float]
    limit: Mapping[str, float]
    agents: int
    numbers: int
    exposed: int = 0

    @property
    def achievable(self) -> bool:
        """Whether as much privacy as anyone could ask for is free."""
        return all(_reached(self.ceiling[name], self.limit[name]) for name in self.limit)

    def __str__(self) -> str:
        lines = [
            f"{name}: the centre's error variance grows {times(1 + self.ceiling[name])} for free, "
            f"{times(1 + self.limit[name])} at most"
            for name in self.ceiling
        ]
        if self.exposed:
            lines.append(
                f"No resolution was stated for {self.exposed:,} agents: exact numbers then protect only continuous "
                "readings (give save_parts the steps of the readings, or 0 if they are continuous)."
            )
        return "\n".join([f"{self.agents:,} agents send {self.numbers:,} numbers.", *lines])


@dataclass(frozen=True, eq=False)
class PartsPlan:
    """A plan whose agents are in the parts of a folder.

    parts:       the network.
    utility:     u, 0 is perfect.
    privacy:     name -> p_j; a large figure where it is without bound, which sums in doubles cannot tell from that.
    certificate: every promise recomputed from network and sanitizers alone; for parts finished before, when they were
                 made (:func:`verify` recomputes them all).
    verdict:     what is free.
    computed:    names of the parts worked on by this run; the others were finished before.
    targets:     the p_j asked for.
    most_loss:   the utility loss allowed, None where privacy was asked for.
    details:     of a trade-off, or of limited noise power: how it was found.
    replaced:    whether a plan with other promises was there before; messages made by that cannot be fused any more.
    """

    parts: Parts
    utility: float
    privacy: Mapping[str, float]
    certificate: Certificate
    verdict: PartsVerdict
    computed: tuple[str, ...]
    targets: Mapping[str, float] = field(default_factory=dict)
    most_loss: float | None = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)
    replaced: bool = False

    def sanitizer(self, part: str, place: int) -> Sanitizer:
        """What one agent runs.

        part:  the name of its part, "part-00000.npz".
        place: its place in it, from 0.
        """
        refuse_unknown([part], list(self.parts.before), "part", error=InvalidRequest)
        sent = sent_by(self.parts.file(part))
        if place not in range(len(sent)):
            raise InvalidRequest(f"place: expected 0 to {len(sent) - 1} in {part}, found {place}")
        return sent[sent.network.agents[place]]

    def __str__(self) -> str:
        written = f"Written to {self.parts.folder / PLAN}."
        if "power_allowed" in self.details:
            grown = "; ".join(f"{name} {times(1 + each)}" for name, each in self.privacy.items())
            return (
                f"{self.verdict}\nNoise within the power makes the centre's error variance grow: {grown}; what is "
                "public is estimated as well as from raw readings. No other noise within it hides more than "
                f"{100 * self.details['relative_gap']:.2g} % better in total, which is certified. "
                f"{' '.join(power_in_words(self.certificate))} {written}"
            )
        if self.utility == 0.0:
            return f"{self.verdict}\nWhat is public is estimated as well as from raw readings. {written}"
        grown = "; ".join(f"{name} {times(1 + each)}" for name, each in self.privacy.items())
        return (
            f"{self.verdict}\nThe centre's error variance grows: {grown}; of what is public "
            f"{times(1 - self.utility)}. {written}"
        )


def _reached(ceiling: float, limit: float) -> bool:
    return bool(ceiling >= limit - _ROUNDING * (1 + limit)) if np.isfinite(limit) else bool(np.isinf(ceiling))
