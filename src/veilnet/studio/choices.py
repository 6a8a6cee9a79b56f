"""What the page offers beside its sliders, in words: how questions are answered, which rows an audit can
have, and what the plan is worth when an agent keeps silent or hands the centre its raw readings.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.what_if.collusion import with_colluders, without_dither
from veilnet.bounds.detectability import Detectability, detectability
from veilnet.bounds.typical_errors import TypicalError, typical_errors
from veilnet.plans.plan import Plan
from veilnet.report.words import names_of
from veilnet.studio.tasks import NOT_HELD_OUT
from veilnet.studio.workbench import Loaded

_SEARCH = "Each answer is a search of some seconds, which shows how far it is and can be cancelled: "


def by_search(now: Loaded) -> str:
    """Why no answer comes at once; nothing where it does."""
    if now.nearby is None:
        return f"{_SEARCH}rows of a stream hang together, and no plan beside a known one is at hand."
    if now.nearby.quick:
        return ""
    return (
        f"{_SEARCH}the free plan reveals nothing about {names_of(now.nearby.hidden)}, and no other plan may."
    )


def audit_choices(now: Loaded) -> list[dict[str, Any]]:
    """The rows that attackers can be let loose on, each with what it is worth and the command that does the same."""
    held_out = None if now.held_out is None else now.held_out.name
    aside = (
        "A table with the readings and the truth about what is private, of rows that the model was not made from. "
        "The attackers learn on some of them and are judged on the others."
    )
    from_model = "Attackers that know the whole model try their best on rows drawn from it."
    choices = [
        _choice("simulated", "rows simulated from the model", from_model, None),
        _choice("held out", "rows of your own, kept aside", aside, held_out) | {"table": held_out},
    ]
    if now.fitted_to is not None:
        name, caution = now.fitted_to.name, NOT_HELD_OUT[0].upper() + NOT_HELD_OUT[1:]
        label = f"the rows of {name}, which the model was made from"
        choices.append(_choice("fitted to", label, caution, name))
    return choices


def _choice(rows: str, label: str, note: str, table: str | None) -> dict[str, Any]:
    words = ["veilnet", "audit", "plan", *([] if table is None else ["--data", table])]
    return {"rows": rows, "label": label, "note": note, "command": shlex.join(words)}


def known_if(
    plan: Plan, silent: Sequence[str], betrayed: Sequence[str]
) -> tuple[dict[str, TypicalError], dict[str, Detectability]]:
    """The centre's errors, and how surely it sees changes, when some agents send nothing and others' readings are
    known to it as they are.

    plan:     what all other agents keep to.
    silent:   agents of which nothing arrives.
    betrayed: agents that hand over their readings; one that is silent too counts as this.
    """
    seen: Mapping[str, Sanitizer] = {
        agent: _nothing(plan, agent) if agent in silent else sanitizer
        for agent, sanitizer in plan.sanitizers.items()
    }
    known = with_colluders(plan.network, seen, tuple(betrayed), "readings")
    network = without_dither(plan.network, tuple(betrayed))
    return typical_errors(network, known), detectability(network, known)


def _nothing(plan: Plan, agent: str) -> Sanitizer:
    return Sanitizer(np.zeros((0, plan.sanitizers[agent].readings)), agent=agent)
