"""Tables and sentences about verdicts and plans, shared by the verbs that show them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

from veilnet._core.words import number, percent, times
from veilnet.cli._shared import table
from veilnet.plans.certificate import DITHERED, LOSS_ALLOWED

if TYPE_CHECKING:
    from veilnet.plans.plan import Plan
    from veilnet.plans.verification import Check


def how_found(plan: Plan) -> str:
    """How a plan was found, for those who want to know."""
    details = plan.details
    if plan.method == "perfect":
        how = "It was found in closed form: agents send their share of the public estimate, and nothing else."
        kept, dropped = details.get("smallest_part_kept"), details.get("largest_part_dropped")
        if kept is not None and dropped is not None:
            how += (
                f" The least combination that was kept moves that estimate by {number(kept)} of its deviation, the "
                f"largest that was left out by {number(dropped)}."
            )
        return how
    how = f"It was found by the method {plan.method!r}"
    if "starts" in details:
        how += (
            f": {details['starts']} starts in {details['iterations']} steps, {details['starts_agreed']} of which "
            "ended at the best plan"
        )
    if np.isfinite(details.get("kkt_residual", np.inf)):
        how += f"; a step more would promise {percent(details['kkt_residual'])}"
    return f"{how}."


def check_rows(checks: Sequence[Check], public: str) -> list[list[object]]:
    """What was verified, in words: what, promised, found, and whether it is confirmed."""
    return [
        [_what(check.what, public), _figure(check, check.promised), _figure(check, check.found), check.ok]
        for check in checks
    ]


def _what(what: str, public: str) -> str:
    """A finding of the certificate for a reader: privacies and losses are growths of error variances."""
    plain = {
        "utility": f"error variance on {public} grows",
        LOSS_ALLOWED: f"no more than was allowed on {public}",
        DITHERED: "agents that do not move their readings within a step",
        "grids": "numbers are rounded as their noise calls for",
        "names, limits, resolution": "agents know their readings' names, limits and steps",
    }
    for beginning, words in (
        ("privacy of ", "error variance on {} grows"),
        ("target of ", "as was asked of {}"),
        ("every direction of ", "as was asked of every direction of {}"),
        ("no less than is free of ", "no less than is free, of {}"),
    ):
        if what.startswith(beginning):
            return words.format(what.removeprefix(beginning))
    return f"{what} is intact" if what.endswith(".json") else plain.get(what, what)


def _figure(check: Check, value: float | None) -> object:
    if value is None or check.what == DITHERED:
        return None if value is None else f"{value:g}"
    growing = ("privacy of ", "target of ", "every direction of ", "no less than is free of ")
    if check.what == "utility":
        return times(1 - value)
    if check.what == LOSS_ALLOWED or check.what.startswith(growing):
        return times(1 + value)
    return value


def sending_table(plan: Plan, *, agents_shown: int = 20) -> Table:
    """What each agent sends under a plan."""
    rows: list[list[object]] = []
    for agent, sanitizer in islice(plan.sanitizers.items(), agents_shown):
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
    last = "numbers kept from row to row" if plan.network.is_stream else "withheld"
    return table(
        ["agent", "readings", "combinations sent exactly", "sent with noise", last],
        rows,
        title="How many combinations (weighted sums) of its readings each agent sends",
    )
