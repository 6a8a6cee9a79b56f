"""Shares against sums: what agents can do alone, what adding up buys, and whom it asks to be trusted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.words import join_names, times
from veilnet.model.network import Network
from veilnet.sums.collusion import Collusion, worst_collusion
from veilnet.sums.handing_out import members_of
from veilnet.sums.merging import SumGroups, apart, merged
from veilnet.verdict.exact_test import check


@dataclass(frozen=True)
class Comparison:
    """One private parameter at perfect utility; privacies are p_j.

    shares:    where every agent sends its own share.
    helped:    the same with the worst one agent on the centre's side.
    sums:      where the centre sees only sums.
    one, two:  the same with the worst one and the worst two agents on the centre's side; None where so many are all.
    limit:     where nothing is sent.
    """

    name: str
    shares: float
    helped: Collusion | None
    sums: float
    one: Collusion | None
    two: Collusion | None
    limit: float

    def row(self) -> list[str]:
        """Its cells, growths of standard errors."""
        return [
            self.name,
            times(1 + self.shares),
            _with(self.helped),
            times(1 + self.sums),
            *(_with(each) for each in (self.one, self.two)),
            times(1 + self.limit),
        ]


HEADINGS = (
    "private",
    "shares",
    "and one helps",
    "only sums",
    "and one helps",
    "and two help",
    "nothing sent",
)
MEANING = (
    "How standard errors grow at perfect utility. Only sums: the centre sees what groups of agents add up "
    "to, by masks, and no agent's own message. An agent that helps the centre hands it its readings; the worst is "
    "named. One that drops out tells less than that."
)


def compared(network: Network, summed: SumGroups | None = None) -> list[Comparison]:
    """Every private parameter of a network, of agents or of groups."""
    groups = merged(network, summed)
    alone, together = check(apart(groups)), check(groups)
    sent = together.shares.sanitizers
    helping = {
        count: worst_collusion(together.network, sent, count)
        for count in (1, 2)
        if count < len(members_of(groups)) and not (network.is_stream and count > 1)
    }
    nobody: dict[str, Collusion] = {}
    helped = worst_collusion(alone.network, alone.shares.sanitizers, 1) if 1 in helping else nobody
    return [
        Comparison(
            name,
            alone.ceiling[name],
            helped.get(name),
            together.ceiling[name],
            helping.get(1, nobody).get(name),
            helping.get(2, nobody).get(name),
            together.limit[name],
        )
        for name in network.private
    ]


def _with(found: Collusion | None) -> str:
    if found is None:
        return ""
    growth = times(1 + max(found.privacy, 0.0)) if np.isfinite(found.privacy) else times(np.inf)
    return f"{growth} ({join_names(list(found.agents))}{'' if found.exact else ', perhaps others'})"
