"""The report of a plan, put together from its sections."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.progress import Progress
from veilnet._core.validation import expect
from veilnet._core.words import NOTHING
from veilnet.auditing.report import AuditReport
from veilnet.bounds.typical_errors import typical_errors
from veilnet.designs.frontiers import Frontier, frontier, sketched, through
from veilnet.designs.secrets import Auc
from veilnet.model.stream_size import by_stacks
from veilnet.plans.fingerprint import network_fingerprint, plan_fingerprint
from veilnet.plans.plan import Plan
from veilnet.report.agents_section import agents_section
from veilnet.report.audit_section import audit_headline, audit_section, broken_headline, broken_promises
from veilnet.report.certificate_section import certificate_section, symbols
from veilnet.report.doubts_section import doubts_section, open_doubts
from veilnet.report.frontier_section import frontier_section
from veilnet.report.html import Html, element, join, paragraph
from veilnet.report.known_section import known_section
from veilnet.report.page import Report
from veilnet.report.stream_section import stream_section
from veilnet.report.sums_section import sums_section
from veilnet.report.symbols_section import (
    attacks_section,
    choice_section,
    promise_cards,
    rows_section,
    says_section,
    service_section,
    symbols_certificate,
    symbols_headline,
    symbols_lead,
)
from veilnet.report.verdict_section import verdict_section
from veilnet.report.words import headline, names_of
from veilnet.symbols.plan import SymbolPlan
from veilnet.verdict.exact_test import Verdict, check

_POINTS, _STREAM_POINTS = 8, 5  # a point of a large stream costs three seconds
_SECONDS = 60.0


def report_of(
    plan: Plan | SymbolPlan,
    *,
    audit: AuditReport | Mapping[str, Any] | None = None,
    curve: Frontier | None = None,
) -> Report:
    """The report of a plan, of numbers or of symbols.

    plan:   what it is about.
    audit:  an audit of it, or the content of a file that ``veilnet audit --json`` wrote.
    curve:  the frontier of its network; without it that section says that it was not traced.
    """
    if isinstance(plan, SymbolPlan):
        return _report_of_symbols(plan, audit)
    _check_arguments(plan, audit, curve)
    verdict = check(plan.network)
    errors = list(typical_errors(plan.network, plan.sanitizers, privacy=plan.privacy).values())
    broken = broken_promises(audit)
    sections = [
        ("known", "What the centre can know", known_section(plan, errors, broken)),
        ("verdict", "Can privacy be free here?", verdict_section(verdict)),
        ("frontier", "What more privacy would cost", frontier_section(plan, curve)),
        ("agents", "What each agent sends", agents_section(plan)),
        *([("sums", "Shares, or only sums?", sums_section(plan))] if plan.network.members else []),
        *(
            [("stream", "What the centre makes of it, row after row", stream_section(plan))]
            if plan.network.is_stream and not by_stacks(plan.network)
            else []
        ),
        ("audit", "What the audit found", audit_section(audit)),
        ("doubts", "How far to trust the model", doubts_section(plan)),
        ("certificate", "The certificate", join([certificate_section(plan), symbols(plan, verdict)])),
    ]
    title, lead = headline(plan, errors), _lead(plan, verdict)
    if broken:
        title, lead = broken_headline(broken), f"What it promised: {title} {lead}"
    return _assembled(title, lead, _facts_of(plan, audit), sections)


def _report_of_symbols(plan: SymbolPlan, audit: object) -> Report:
    if audit is not None and not (isinstance(audit, Mapping) and "attacks" in audit):
        raise InvalidRequest(
            "audit: expected what 'veilnet audit --json' wrote of a plan of symbols, found something else"
        )
    found = audit if isinstance(audit, Mapping) else None
    plan.confirm()
    attacked = ("look", "Not attacked")
    if found is not None:
        holds = all(each["ok"] is not False for each in found["attacks"])
        attacked = ("good", "✓ No attacker above the promise") if holds else ("bad", "✗ An attacker above it")
    facts = [("good", "✓ Every promise recomputed and confirmed"), attacked]
    return _assembled(
        symbols_headline(plan),
        symbols_lead(plan),
        facts,
        [
            ("known", "What the centre can know", promise_cards(plan)),
            ("choice", "What less to guess would cost", choice_section(plan)),
            ("agents", "What each agent says", says_section(plan)),
            ("rows", "Over many rows", rows_section(plan)),
            ("service", "In service", service_section(found)),
            ("audit", "What attackers found", attacks_section(found)),
            ("certificate", "The certificate", symbols_certificate(plan)),
        ],
    )


def _assembled(
    title: str, lead: str, facts: Sequence[tuple[str, str]], sections: Sequence[tuple[str, str, Html]]
) -> Report:
    """The page around the sections, (id, heading, content); facts are (good, look or bad, words)."""
    kinds = {"good": None, "look": "look", "bad": "bad"}
    listed = [element("li", words, class_=kinds[kind]) for kind, words in facts]
    body = join(
        [
            element(
                "header",
                paragraph("Privacy report", class_="kicker"),
                element("h1", title),
                paragraph(lead, class_="lead"),
                element("ul", *listed, class_="facts"),
                _contents(sections),
            ),
            *(
                element(
                    "section",
                    element("h2", heading, id=f"{name}-heading"),
                    content,
                    id=name,
                    aria_labelledby=f"{name}-heading",
                )
                for name, heading, content in sections
            ),
            element(
                "footer", "Made by veilnet from the plan itself: every figure was computed, none was typed."
            ),
        ]
    )
    return Report(title, body)


def traced_frontier(
    plan: Plan, *, seconds: float = _SECONDS, progress: Progress | None = None
) -> Frontier | None:
    """The frontier of a plan's network through the plan, as far as it can be traced in so many seconds, if at all."""
    if by_stacks(plan.network):  # no trade-offs are searched for on streams of so many agents
        return None
    until = time.monotonic() + seconds
    levels = traced_levels(plan, check(plan.network))

    def going(what: str, part: float) -> bool:
        goes_on = True if progress is None else progress(what, part)
        return goes_on is not False and time.monotonic() < until

    traced = frontier if plan.network.secrets else sketched
    curve = through(traced(plan.network, levels, progress=going), plan)
    return curve if curve.rows else None


def traced_levels(plan: Plan, verdict: Verdict) -> list[Any]:
    """The privacies at which a frontier is traced, from nothing over what is free to nearly the limit.

    Where there are secrets: how surely their changes may be seen.
    """
    secrets = verdict.detectability
    if secrets:
        free = max(each.longest.auc for each in secrets.values())
        parts = np.linspace(0, 1, _POINTS + 1)[:-1]
        return [dict.fromkeys(secrets, Auc(round(free - part * (free - 0.5), 3))) for part in parts[1:]]
    ceiling, limit = min(verdict.ceiling.values()), min(verdict.limit.values())
    if np.isinf(ceiling) or limit <= 0:
        return [0.0]
    high = 0.98 * limit if np.isfinite(limit) else 30.0 * (1 + max(ceiling, min(plan.privacy.values())))
    low = min(ceiling, high)
    # Closer together towards the end, where the curve is steepest.
    points = _STREAM_POINTS if plan.network.is_stream else _POINTS
    parts = 1 - (1 - np.linspace(0, 1, points)[1:]) ** 2
    traded = np.expm1(np.log1p(low) + parts * (np.log1p(high) - np.log1p(low)))
    return sorted({low, *(float(each) for each in traded)})


def _check_arguments(plan: object, audit: object, curve: object) -> None:
    expect(plan, Plan, "plan")
    if curve is not None and not isinstance(curve, Frontier):
        raise InvalidRequest(f"frontier: expected what vn.frontier returns, found {type(curve).__name__}")
    if (
        isinstance(curve, Frontier)
        and isinstance(plan, Plan)
        and network_fingerprint(curve.network) != network_fingerprint(plan.network)
    ):
        raise InvalidRequest(
            "frontier: it was traced for another network than the plan was made for; trace it with "
            "vn.frontier(plan.network), or leave it out"
        )
    if audit is None:
        return
    if isinstance(audit, AuditReport):
        audit = {"rows": audit.rows, "plan": audit.plan or None}
    if not isinstance(audit, Mapping) or "rows" not in audit:
        raise InvalidRequest(
            f"audit: expected what vn.audit returns, or the content of its JSON file, found {type(audit).__name__}"
        )
    about = audit.get("plan")
    if isinstance(plan, Plan) and about not in (None, plan_fingerprint(plan.network, plan.sanitizers)):
        raise InvalidRequest("audit: it is about another plan; audit this one, or leave it out")


def _lead(plan: Plan, verdict: Verdict) -> str:
    count = len(plan.sanitizers)
    kind = "a stream of rows from " if plan.network.is_stream else ""
    return (
        f"This plan is for {kind}{count} agent{'s' if count > 1 else ''}. The fusion centre may know "
        f"{names_of(list(plan.network.public))}; it must not learn {names_of(list(plan.network.private))}. "
        f"{_how_free(verdict)}"
    )


def _how_free(verdict: Verdict) -> str:
    if verdict.achievable:
        return "Here privacy is free: hiding all of that costs nothing on what may be known."
    if max(verdict.ceiling.values()) < NOTHING:
        return "Here privacy is not free: any protection costs something on what may be known."
    return (
        "Here privacy is free up to a point: some protection costs nothing on what may be known, more does."
    )


def _facts_of(plan: Plan, audit: AuditReport | Mapping[str, Any] | None) -> list[tuple[str, str]]:
    confirmed = plan.certificate.ok
    facts = [
        ("good", "✓ Every promise recomputed and confirmed")
        if confirmed
        else ("bad", "✗ Promises NOT confirmed")
    ]
    facts.append(("look", "Not audited") if audit is None else audit_headline(audit))
    doubts = open_doubts(plan.network)
    if doubts:
        facts.append(("look", f"! {len(doubts)} doubt{'s' if len(doubts) > 1 else ''} about the model"))
    return facts


def _contents(sections: Sequence[tuple[str, str, Html]]) -> Html:
    links = [element("li", element("a", heading, href=f"#{name}")) for name, heading, _ in sections]
    return element("nav", element("ul", *links), aria_label="Contents")
