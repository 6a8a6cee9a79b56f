"""Can privacy be free here, and who stands in the way: the verdict on the network."""

from __future__ import annotations

import numpy as np

from veilnet._core.words import join_names
from veilnet.report.html import Html, join, paragraph, shown, table
from veilnet.report.words import fold
from veilnet.verdict.verdict import Verdict

_MOST_ROWS = 40


def verdict_section(verdict: Verdict) -> Html:
    """The verdict in one sentence, and per private parameter what is free and what is possible at all."""
    return join(
        [
            paragraph(verdict.headline),
            verdict_table(verdict),
            paragraph(
                "Free means at no loss on the public parameters; no plan makes an error larger than sending "
                "nothing does. An agent is named if its silence would make more privacy free.",
                class_="soft",
            ),
        ]
    )


def verdict_table(verdict: Verdict) -> Html:
    """What is free for each private parameter, the least protected first where there are many."""
    names = list(verdict.ceiling)
    if len(names) > _MOST_ROWS:
        names = sorted(names, key=lambda name: verdict.ceiling[name])[:_MOST_ROWS]
    rows = []
    for name in names:
        agents = list(verdict.blocking[name]) if verdict.names_blocking else []
        seen = verdict.detectability.get(name)
        at_least = "at least " if name in verdict.at_least else ""
        rows.append(
            [
                shown(name),
                f"change seen with AUC {seen.auc:.3f}"
                if seen is not None
                else at_least + fold(float(np.sqrt(1 + verdict.ceiling[name]))),
                fold(float(np.sqrt(1 + verdict.limit[name]))) if seen is None else "AUC 0.5 (guessing)",
                "no" if name in verdict.blocked else "yes",
                join_names([shown(agent) for agent in agents]) if agents else "–",
            ]
        )
    columns = (
        "private parameter",
        "error, for free",
        "error, when nothing is sent",
        "all of it free?",
        "largest leaks, in order",
    )
    found = table(
        "How large errors are, compared with those from raw readings",
        columns,
        rows,
        numeric=(1, 2),
        class_="verdict",
    )
    left = len(verdict.ceiling) - len(rows)
    return join(
        [found, paragraph(f"{left} more, better protected, are left out.", class_="soft") if left else None]
    )
