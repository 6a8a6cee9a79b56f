"""Each claim of the paper's section VII as code: what it says, what the draws show, whether they agree.

Words such as "close" and "well" are given numbers beside the claims, where they can be seen and argued with.
"""

from __future__ import annotations

from collections.abc import Callable

from veilnet.paper._claim import Claim
from veilnet.paper._claims_privacy import (
    caption_limit,
    falls_with_agents,
    falls_with_public_rows,
    fewer_agents_more_likely,
    infinite_with_one_agent,
    less_freedom,
    never_free_with_prior,
    not_close_to_limit,
    theorem_1_is_exact,
)
from veilnet.paper._claims_tradeoff import (
    approximates_optimum,
    converges,
    converges_to_optimum,
    nearly_perfect_at_ceiling,
    utility_falls_with_agents,
    utility_falls_with_privacy,
)
from veilnet.paper.settings import Settings
from veilnet.paper.tables import Table

__all__ = ["Claim", "claims_of"]


def claims_of(figure: str, table: Table, settings: Settings) -> list[Claim]:
    """All claims about one figure."""
    return [claim(table, settings) for claim in _CLAIMS[figure]]


_CLAIMS: dict[str, tuple[Callable[[Table, Settings], Claim], ...]] = {
    "fig1": (
        infinite_with_one_agent,
        fewer_agents_more_likely,
        theorem_1_is_exact,
        falls_with_agents,
        falls_with_public_rows,
        less_freedom,
    ),
    "fig2": (
        not_close_to_limit,
        never_free_with_prior,
        caption_limit,
        falls_with_agents,
        falls_with_public_rows,
    ),
    "fig3": (
        utility_falls_with_privacy,
        utility_falls_with_agents,
        nearly_perfect_at_ceiling,
        approximates_optimum,
    ),
    "fig4": (converges, converges_to_optimum),
}
