"""Tables and sentences about verdicts, plans and live networks, shared by the verbs that show them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from veilnet._core.words import number, percent
from veilnet.cli._shared import show, table
from veilnet.plans.in_words import finding_in_words, growth_in_words

if TYPE_CHECKING:
    from veilnet.bounds.detectability import Detectability
    from veilnet.plans.certificate import Finding
    from veilnet.plans.plan import Plan
    from veilnet.plans.verification import Check


def how_found(plan: Plan) -> str:
    """How a plan was found, for those who want to know."""
    details = plan.details
    if plan.method == "perfect":
        how = "It was found in closed form: agents send their share of the public estimate, and nothing else."
        kept, dropped = details.get("smallest_part_kept"), details.get("largest_part_dropped")
        if kept is None or dropped is None:
            return how
        return (
            f"{how} The least combination that was kept moves that estimate by {number(kept)} of its deviation, the "
            f"largest that was left out by {number(dropped)}."
        )
    how = f"It was found by the method {plan.method!r}"
    if "starts" in details:
        how += (
            f": {details['starts']} starts in {details['iterations']} steps, {details['starts_agreed']} of which "
            "ended at the best plan"
        )
    if np.isfinite(details.get("kkt_residual", np.inf)):
        how += f"; a step more would promise {percent(details['kkt_residual'])}"
    return f"{how}."


def check_rows(checks: Sequence[Check | Finding], public: str) -> list[list[object]]:
    """What was verified, in words: what, promised, found, and whether it is confirmed."""

    def grown(what: str, value: float | None) -> str | None:
        return None if value is None else growth_in_words(what, value)

    return [
        [
            finding_in_words(each.what, public),
            grown(each.what, each.promised),
            grown(each.what, each.found),
            each.ok,
        ]
        for each in checks
    ]


def paper_line(utility: float, privacy: Mapping[str, float]) -> str:
    """The paper's u and p, on one line."""
    each = ", ".join(f"{name} {number(value)}" for name, value in privacy.items())
    return f"Paper's scale (growth of error variances): u = {number(utility)}; p: {each}."


def sending_table(plan: Plan, *, agents_shown: int = 20) -> Table:
    """What each agent sends under a plan."""
    rows: list[list[object]] = []
    for agent, sanitizer in islice(plan.sanitizers.items(), agents_shown):
        kept, noisy = sanitizer.normal
        last = sanitizer.order if plan.network.is_stream else sanitizer.readings - kept.shape[0]
        rows.append([agent, sanitizer.readings, int(np.sum(~noisy)), int(np.sum(noisy)), last])
    if len(plan.sanitizers) > agents_shown:
        rows.append([f"... {len(plan.sanitizers) - agents_shown} more", "", "", "", ""])
    rest = "numbers kept from row to row" if plan.network.is_stream else "withheld"
    return table(
        ["agent", "readings", "combinations sent exactly", "sent with noise", rest],
        rows,
        title="How many combinations (weighted sums) of its readings each agent sends",
    )


def detectability_json(found: Mapping[str, Detectability]) -> dict[str, Any]:
    """How surely each change is seen, for machines: sent and raw, in one row and as long as it lasts."""
    return {
        name: {
            "change": each.change,
            "rows": each.rows,
            "delta": each.delta,
            **_sent_and_raw(each),
            "lasting": each.lasting and _sent_and_raw(each.lasting),
        }
        for name, each in found.items()
    }


def _sent_and_raw(found: Detectability) -> dict[str, dict[str, float]]:
    return {
        who: {name: getattr(detector, name) for name in ("auc", "accuracy", "power", "mu")}
        | {"epsilon": detector.epsilon_at(found.delta)}
        for who, detector in (("sent", found.sent), ("raw", found.raw))
    }


def show_centre(status: Any) -> None:
    """How a live centre is doing, and each of its agents."""
    from veilnet.live.intake import NOT_USED
    from veilnet.live.showing import void

    revised = status.estimates - status.epochs
    show(
        f"{status.epochs} epochs estimated up to {status.newest}, {revised} revisions; "
        f"{len(status.plans)} plan{'s' if len(status.plans) > 1 else ''}, the newest {status.plans[-1][:16]}."
        if status.plans
        else "No plan is in use yet."
    )
    columns = ["agent", "messages", "missed", "silent", "lag", "last heard", "again", "refused"]
    rows = [
        [each.agent, each.messages, each.missed, each.silent, each.lag, _ago(each.heard), each.duplicates,
         each.refused]
        for each in status.agents
    ]  # fmt: skip
    show(table(columns, rows))
    for (agent, reason), count in status.refusals.items():
        did = "Did not use" if reason in NOT_USED else "Refused"
        show(f"{did} {count} on the topic of {agent or 'nobody'}: {reason}.")
    if status.drifted:
        show(void(status.drifted))


def _ago(heard: float) -> str:
    if not heard:
        return "never"
    seconds = max(0.0, time.time() - heard)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"
