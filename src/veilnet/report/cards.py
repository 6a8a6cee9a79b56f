"""What a notebook shows of one object: the pieces of the report, each by itself."""

from __future__ import annotations

import numpy as np

from veilnet._core.errors import VeilnetError
from veilnet._core.words import counted, number, plus_minus
from veilnet.auditing.report import AuditReport
from veilnet.bounds.typical_errors import TypicalError, typical_errors
from veilnet.centre.estimates import Estimate
from veilnet.model.network import Network
from veilnet.plans.plan import Plan
from veilnet.report.audit_section import audit_section
from veilnet.report.html import Html, element, join, paragraph, shown, table
from veilnet.report.known_section import error_cards, gaps_note
from veilnet.report.page import fragment
from veilnet.report.verdict_section import verdict_table
from veilnet.report.words import headline, names_of
from veilnet.verdict.verdict import Verdict

_MOST_ROWS = 10
_MOST_COLUMNS = 8
_MOST_PARAMETERS = 40


def network_card(network: Network) -> Html:
    """Who observes, what may be known and what not, and how sharply raw readings tell each."""
    kind = "Stream network" if network.is_stream else "Network"
    title = f"{kind}: {counted(network.S, 'agent')}, {counted(network.N, 'reading')}"
    may, must_not = names_of(list(network.public)), names_of(list(network.private))
    words = f"The centre may know {may}; it must not learn {must_not}."
    return _card(title, paragraph(words), _known_so_far(network))


def _known_so_far(network: Network) -> Html | None:
    try:
        errors = list(typical_errors(network).values())
    except VeilnetError:  # some streams have no steady state; checking says so, showing need not
        return None
    rows = [
        [
            shown(each.name),
            "private" if each.private else "public",
            _error(each.raw, each),
            _error(each.guessing, each),
        ]
        for each in errors[:_MOST_PARAMETERS]
    ]
    columns = ("parameter", "", "raw", "prior only")
    return table("Standard errors (1σ) of the best estimates", columns, rows, numeric=(2, 3))


def _error(value: float, error: TypicalError) -> str:
    return plus_minus(value, shown(error.unit)) if np.isfinite(value) else "without bound"


def verdict_card(verdict: Verdict) -> Html:
    """The verdict, and what is free for each private parameter."""
    return _card(verdict.headline, verdict_table(verdict))


def plan_card(plan: Plan) -> Html:
    """What the plan does; plan.report() shows the rest."""
    errors = list(typical_errors(plan.network, plan.sanitizers, privacy=plan.privacy).values())
    rest = paragraph(
        element("code", "plan.report()"), " shows what each agent sends, and the rest.", class_="soft"
    )
    return _card(headline(plan, errors), error_cards(errors, plan), gaps_note(plan), rest)


def estimate_card(estimate: Estimate) -> Html:
    """The first rows, each figure with its error."""
    public = np.atleast_2d(estimate.public)
    deviation = np.atleast_2d(estimate.deviation)
    labels = [shown(each) for each in estimate.labels[:_MOST_COLUMNS]]
    units = [f" ({shown(each)})" if each else "" for each in estimate.units[:_MOST_COLUMNS]]
    missing = (estimate.missing,) if estimate.single else estimate.missing
    rows = [
        [
            str(row + 1),
            *(_estimated(float(public[row, k]), float(deviation[row, k])) for k in range(len(labels))),
            names_of(missing[row]) if missing[row] else "–",
        ]
        for row in range(min(len(public), _MOST_ROWS))
    ]
    columns = ["row", *(f"{name}{unit}" for name, unit in zip(labels, units, strict=True)), "did not send"]
    left = len(public) - len(rows)
    return _card(
        f"Estimate of {names_of(estimate.labels)}",
        table(
            "Estimates and their errors (standard deviations)",
            columns,
            rows,
            numeric=range(1, len(columns) - 1),
        ),
        paragraph(f"{left} more rows.", class_="soft") if left else None,
    )


def _estimated(value: float, deviation: float) -> str:
    return "cannot be estimated" if np.isnan(value) else f"{number(value)} {plus_minus(deviation)}"


def audit_card(report: AuditReport) -> Html:
    """What an audit found."""
    return _card(report.title, audit_section(report))


def _card(title: str, *children: Html | None) -> Html:
    return fragment(join([element("h3", title), *children]))
