"""What it buys that the centre sees only sums, and whom that asks to be trusted."""

from __future__ import annotations

from veilnet.plans.in_words import sums_in_words
from veilnet.plans.plan import Plan
from veilnet.report.html import Html, join, paragraph, table
from veilnet.sums.comparing import HEADINGS, MEANING, compared


def sums_section(plan: Plan) -> Html:
    """Shares against sums against silence, with and without agents who help the centre."""
    rows = [each.row() for each in compared(plan.network)]
    return join(
        [
            paragraph(MEANING),
            table("Growth of standard errors at perfect utility", list(HEADINGS), rows),
            *map(paragraph, sums_in_words(plan)),
        ]
    )
