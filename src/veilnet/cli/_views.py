"""Tables and sentences about verdicts and plans, shared by the verbs that show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from veilnet.cli._shared import table

if TYPE_CHECKING:
    from veilnet.plans.plan import Plan
    from veilnet.verdict.exact_test import Verdict


def verdict_table(verdict: Verdict) -> Table:
    """What is free, per private parameter."""
    from veilnet._core.words import join_names, times

    rows = []
    for name in verdict.ceiling:
        agents = list(verdict.blocking[name]) if verdict.names_blocking else []
        rows.append(
            [
                name,
                times(1 + verdict.ceiling[name]),
                times(1 + verdict.limit[name]),
                "yes" if name not in verdict.blocked else "no",
                join_names(agents, names_shown=3) if agents else "-",
            ]
        )
    return table(
        ["private", "variance grows for free", "if nothing were sent", "all of it free?", "in the way"], rows
    )


def plan_table(plan: Plan) -> Table:
    """What the centre's error on each parameter does under a plan."""
    from veilnet._core.words import number, times

    rows = [["public", ", ".join(plan.network.public), times(1 - plan.utility), "", number(plan.utility)]]
    rows += [
        ["private", name, times(1 + p), times(1 + plan.worst_direction[name]), number(p)]
        for name, p in plan.privacy.items()
    ]
    columns = ["", "parameter", "error variance grows", "most exposed part", "u or p"]
    if plan.network.is_stream:
        # Utility is judged now and privacy with hindsight; what is hidden only until later rows arrive stands beside.
        now = [times(1 - plan.utility), *(times(1 + each) for each in plan.privacy_now.values())]
        rows = [[*row[:3], each, *row[3:]] for row, each in zip(rows, now, strict=True)]
        rows[0][2] = ""
        columns = ["", "parameter", "variance grows, with hindsight", "now", "most exposed part", "u or p"]
    return table(columns, rows)


def sending_table(plan: Plan, *, agents_shown: int = 20) -> Table:
    """What each agent sends under a plan."""
    import numpy as np

    rows: list[list[object]] = []
    for agent, sanitizer in list(plan.sanitizers.items())[:agents_shown]:
        kept, noisy = sanitizer.normal
        rows.append(
            [
                agent,
                sanitizer.readings,
                int(np.sum(~noisy)),
                int(np.sum(noisy)),
                sanitizer.order if plan.network.is_stream else sanitizer.readings - kept.shape[0],
            ]
        )
    if len(plan.sanitizers) > agents_shown:
        rows.append([f"... {len(plan.sanitizers) - agents_shown} more", "", "", "", ""])
    last = "kept from row to row" if plan.network.is_stream else "withheld"
    return table(["agent", "readings", "sent exactly", "sent with noise", last], rows)
