"""What the page offers beside its sliders, in words: how questions are answered, and which rows an audit can have."""

from __future__ import annotations

import shlex
from typing import Any

from veilnet.report.words import names_of
from veilnet.studio.tasks import NOT_HELD_OUT
from veilnet.studio.workbench import Loaded

__all__ = ["audit_choices", "by_search"]

_SEARCH = "Each answer is a search of some seconds, which shows how far it is and can be cancelled: "


def by_search(now: Loaded) -> str:
    """Why no answer comes at once; nothing where it does."""
    if now.nearby is None:
        return f"{_SEARCH}rows of a stream hang together, and no plan beside a known one is at hand."
    if now.nearby.quick:
        return ""
    return f"{_SEARCH}the free plan tells nothing of {names_of(now.nearby.untold)}, and no other plan may."


def audit_choices(now: Loaded) -> list[dict[str, Any]]:
    """The rows that attackers can be let loose on, each with what it is worth and the command that does the same."""
    choices: list[dict[str, Any]] = [
        {
            "rows": "simulated",
            "label": "rows simulated from the model",
            "note": "Attackers that know the whole model try their best on rows drawn from it.",
            "command": _command(None),
        },
        {
            "rows": "held out",
            "label": "rows of your own, kept aside",
            "note": "A table with the readings and the truth about what is private, of rows that the model was not "
            "made from. The attackers learn on some of them and are judged on the others.",
            "command": _command(None if now.held_out is None else now.held_out.name),
            "table": None if now.held_out is None else now.held_out.name,
        },
    ]
    if now.fitted_to is not None:
        choices.append(
            {
                "rows": "fitted to",
                "label": f"the rows of {now.fitted_to.name}, which the model was made from",
                "note": NOT_HELD_OUT[0].upper() + NOT_HELD_OUT[1:],
                "command": _command(now.fitted_to.name),
            }
        )
    return choices


def _command(table: str | None) -> str:
    given = [] if table is None else ["--data", table]
    return " ".join(shlex.quote(word) for word in ["veilnet", "audit", "plan", *given])
