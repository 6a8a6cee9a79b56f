"""What more privacy would cost, and what was given away for free."""

from __future__ import annotations

import numpy as np

from veilnet._core.words import number
from veilnet.designs.frontiers import Frontier
from veilnet.plans.plan import Plan
from veilnet.report.frontier_picture import frontier_picture, frontier_table, place_of
from veilnet.report.html import Html, paragraph
from veilnet.report.svg import figure
from veilnet.report.words import fold


def frontier_section(plan: Plan, curve: Frontier | None) -> Html:
    """The picture, and how to read it."""
    if curve is None:
        return paragraph("The frontier was not traced for this report.")
    if np.isinf(curve.ceiling):
        return paragraph("Nothing: privacy is free here without bound, so that there is no curve to draw.")
    mine = place_of(plan, curve)
    several = len(plan.network.private) > 1 and not curve.seen
    caption = (
        f"Further right is more private, further down more useful. This plan makes {'every' if several else 'the'} "
        f"private error at least {fold(mine.private)} and the public one {fold(mine.public)}."
        if mine.private > 1.00025
        else "Further right is more private, further down more useful. This plan leaves some private error as it was."
    )
    if curve.seen:
        caption = (
            "Further right is more private, further down more useful. With this plan the "
            f"{curve.measure} is {number(mine.private)}, and the public error {fold(mine.public)}. All other private "
            "parameters keep what is free of them."
        )
    if several:
        caption += (
            " The curve asks the same of every private parameter. A plan that protects one more than another may "
            "lie above the curve."
        )
    if not curve.seen and curve.ceiling >= curve.limit * (1 - 1e-9):
        caption += " All the privacy there can be is free here."
    if np.isinf(curve.limit):
        caption += " Nothing is known beforehand, so an error can grow without bound; the curve is cut off."
    caption += f" {curve.cliff}" if curve.cliff else ""
    if curve.interrupted:
        caption += f" The search was stopped for time: {len(curve.rows)} points were found by then."
    return figure(frontier_picture(plan, curve), caption, frontier_table(plan, curve), class_="wide")
