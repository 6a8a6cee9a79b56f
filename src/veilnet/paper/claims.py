"""Each claim of the paper's section VII as code: what it says, what the draws show, whether they agree.

Words such as "close" and "well" are given numbers beside the claims, where they can be seen and argued with.
"""

from __future__ import annotations

from collections.abc import Callable

from veilnet.paper import _claims_privacy as privacy
from veilnet.paper import _claims_tradeoff as tradeoff
from veilnet.paper._claim import Claim
from veilnet.paper.settings import Settings
from veilnet.paper.tables import Table

__all__ = ["Claim", "claims_of"]


def claims_of(figure: str, table: Table, settings: Settings) -> list[Claim]:
    """All claims about one figure."""
    return [claim(table, settings) for claim in _CLAIMS[figure]]


_CLAIMS: dict[str, tuple[Callable[[Table, Settings], Claim], ...]] = {
    "fig1": (
        privacy.infinite_with_one_agent, privacy.fewer_agents_more_likely, privacy.theorem_1_is_exact,
        privacy.falls_with_agents, privacy.falls_with_public_rows, privacy.less_freedom,
    ),
    "fig2": (
        privacy.not_close_to_limit, privacy.never_free_with_prior, privacy.caption_limit,
        privacy.falls_with_agents, privacy.falls_with_public_rows,
    ),
    "fig3": (
        tradeoff.utility_falls_with_privacy, tradeoff.utility_falls_with_agents,
        tradeoff.nearly_perfect_at_ceiling, tradeoff.approximates_optimum,
    ),
    "fig4": (tradeoff.converges, tradeoff.converges_to_optimum),
}  # fmt: skip
