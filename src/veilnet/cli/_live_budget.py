"""``veilnet live budget``: how many releases leave the privacy that has to remain."""

from __future__ import annotations

import math
from pathlib import Path

from veilnet.cli._command_line import JSON, argument, option


def command(
    plan: Path = argument("The folder of a plan, or plan.npz."),
    least_privacy: list[str] = option(
        "--least-privacy",
        "The privacy that has to remain of what does not move: 3, or gait=3 (repeat).",
        required=True,
    ),
    json: bool = JSON,
) -> int:
    """Say how many epochs may be released before a private parameter that never moves would be known too well.

    Every release of the same x tells more of it. For x that changes from epoch to epoch a plan's promise holds for
    each; for one that stays, the information adds up. The answer is what each agent's store is begun with:
    veilnet agent ... --begin --budget N. A plan for streams counts every row already, and needs none.
    """
    from veilnet._core.errors import InvalidRequest
    from veilnet.auditing.measures import read_least_privacy
    from veilnet.auditing.what_if.repetition import releases_until
    from veilnet.cli._shared import amounts, console, print_json, tell
    from veilnet.plans.plan import Plan

    found = Plan.load(plan)
    if found.network.is_stream:
        raise InvalidRequest(
            "plan: the promise of a plan for streams counts every row already, so no budget is needed"
        )
    asked = read_least_privacy(found.network, amounts(least_privacy, "--least-privacy"))
    allowed = {
        name: releases_until(found.network, found.sanitizers, name, least) - 1
        for name, least in asked.items()
    }
    name, most = min(allowed.items(), key=lambda entry: entry[1])
    if json:
        print_json({"budget": most, "by_parameter": allowed})
        return 0
    if math.isinf(most):
        console.print("As many releases as you like leave that much privacy: no budget is needed.")
        return 0
    if most < 1:
        console.print(f"Not even one release leaves a privacy of {asked[name]:g} of {name}.")
        return 1
    tell(
        f"{most:.0f} releases leave a privacy of {asked[name]:g} of {name}, one more does not. Begin each agent with "
        f"--budget {most:.0f}."
    )
    return 0
