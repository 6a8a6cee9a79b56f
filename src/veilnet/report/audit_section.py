"""The audit's findings, from an audit that was just run or from the file of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veilnet._core.words import number
from veilnet.auditing.conclusion import HELD, outcome
from veilnet.auditing.report import AuditReport
from veilnet.report.html import Html, details, element, join, paragraph, shown, table
from veilnet.report.words import names_of

__all__ = ["audit_headline", "audit_section", "findings_of"]

_MOST_ROWS = 120  # of a section, the worst first
_MOST_WORRIES = 60
_LONGEST = 1200  # characters of a sentence
_MARKS = {
    "ok": "✓ holds", "holds": "✓ holds", "fail": "✗ BROKEN", "broken": "✗ BROKEN", "warn": "! look at it",
    "cannot tell": "? cannot tell",
    "not covered": "✗ NOT COVERED", "info": "for information",
}  # fmt: skip
_BAD = ("fail", "broken", "not covered")
_DOUBTFUL = ("warn", "cannot tell")
_FIGURES = ("guessing", "raw", "promised", "found", "sent")
_HEADINGS = {"raw": "from raw readings", "sent": "from what is sent", "interval": "between"}


def findings_of(audit: AuditReport | Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of an audit as plain figures."""
    return [dict(row) for row in _document(audit)["rows"]]


def _document(audit: AuditReport | Mapping[str, Any]) -> Mapping[str, Any]:
    return audit.to_dict() if isinstance(audit, AuditReport) else audit


def audit_headline(audit: AuditReport | Mapping[str, Any]) -> tuple[str, str]:
    """(how it went: good, look or bad; the outcome in a few words)."""
    rows = findings_of(audit)
    verdicts = [str(row.get("verdict", "")) for row in rows]
    broken = sum(each in _BAD for each in verdicts)
    interrupted = (
        audit.interrupted if isinstance(audit, AuditReport) else bool(audit.get("interrupted", False))
    )
    if broken:
        return "bad", f"✗ Audit: {broken} finding{'s' if broken > 1 else ''} against the plan"
    if interrupted:
        return "look", "Audit: interrupted; nothing failed so far"
    sections, whats = ([str(row.get(key, "")) for row in rows] for key in ("section", "what"))
    words = outcome(verdicts, sections, whats)
    if any(each in _DOUBTFUL for each in verdicts) or not any(each in HELD for each in verdicts):
        return "look", f"Audit: {words}"
    return "good", f"✓ Audit: {words}"


def audit_section(audit: AuditReport | Mapping[str, Any] | None) -> Html:
    """What was found, worst first; what holds is folded, section by section."""
    if audit is None:
        return paragraph(
            "No audit was run, or none was given. ",
            element("code", "veilnet audit plan/ --out audit.json"),
            " attacks the plan and what is deployed of it; give the file with ",
            element("code", "--audit audit.json"),
            ".",
        )
    rows = findings_of(audit)
    kind, words = audit_headline(audit)
    conclusion = _document(audit).get("conclusion")
    worries = _worries(rows)
    listed = [element("li", element("strong", mark), f" {words}") for mark, words in worries[:_MOST_WORRIES]]
    if len(worries) > _MOST_WORRIES:
        listed.append(element("li", f"{len(worries) - _MOST_WORRIES} more."))
    sections = {name: [row for row in rows if row.get("section", "") == name] for name in _names(rows)}
    return join(
        [
            paragraph(f"{words}.", class_="alarm" if kind == "bad" else None),
            paragraph(str(conclusion)[: 3 * _LONGEST]) if conclusion else None,
            _of_which_plan(audit),
            element("ul", *listed) if listed else None,
            _summary(sections),
            details(
                "Every finding",
                *(_one_section(name, some) for name, some in sections.items()),
                open=kind == "bad",
            ),
        ]
    )


def _worries(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """(mark, words) of what is bad, then of what wants a look, then of what cannot be told, by the reason why not."""
    told = []
    for verdicts in (_BAD, ("warn",)):
        for row in rows:
            if row.get("verdict") in verdicts:
                words = str(row.get("sentence", ""))[:_LONGEST]
                told.append((_mark(row), f"{shown(str(row.get('what', '')))}: {words}"))
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.get("verdict") == "cannot tell":
            figures = row.get("figures")
            why = figures.get("why") if isinstance(figures, Mapping) else None
            reasons.setdefault(str(why or row.get("sentence", ""))[:_LONGEST], []).append(
                str(row.get("what", ""))
            )
    told += [(_MARKS["cannot tell"], f"{names_of(whats)}. {why}") for why, whats in reasons.items()]
    return told


def _of_which_plan(audit: AuditReport | Mapping[str, Any]) -> Html | None:
    """A file that does not name its plan may be about another one: whoever reads must know."""
    if isinstance(audit, AuditReport) or "plan" in audit:
        return None
    return paragraph("The file of these findings does not say which plan it is about.", class_="alarm")


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(str(row.get("section", "")) for row in rows))


def _summary(sections: Mapping[str, Sequence[Mapping[str, Any]]]) -> Html:
    """How many findings of which kind each section has."""
    kinds = list(dict.fromkeys(_mark(row) for some in sections.values() for row in some))
    counts = [
        [shown(name), *(str(sum(_mark(row) == kind for row in some) or "–") for kind in kinds)]
        for name, some in sections.items()
    ]
    return table(
        "Findings by section", ["", *kinds], counts, numeric=range(1, len(kinds) + 1), class_="summary"
    )


def _one_section(name: str, rows: Sequence[Mapping[str, Any]]) -> Html:
    """The rows of a section, in as many tables as they have kinds of columns."""
    kinds: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    worst_first = rows if len(rows) <= _MOST_ROWS else sorted(rows, key=_rank)
    for row in worst_first[:_MOST_ROWS]:
        kinds.setdefault(tuple(row.get("shown") or ()), []).append(row)
    tables = [
        _words_table(name, kind, some) if kind else _figures_table(name, some) for kind, some in kinds.items()
    ]
    bad = any(row.get("verdict") in _BAD for row in rows)
    left = len(rows) - _MOST_ROWS
    rest = (
        paragraph(f"{left} more, none worse than these, are left out.", class_="soft") if left > 0 else None
    )
    return details(shown(name), *tables, rest, open=bad)


def _rank(row: Mapping[str, Any]) -> int:
    """The worst first."""
    verdict = row.get("verdict")
    return 0 if verdict in _BAD else 1 if verdict in _DOUBTFUL else 2


def _words_table(name: str, headings: tuple[str, ...], rows: Sequence[Mapping[str, Any]]) -> Html:
    """Rows that say themselves what to show under which heading."""
    cells = [
        [shown(str(row.get("what", ""))), *(shown(str(row["shown"][each])) for each in headings), _mark(row)]
        for row in rows
    ]
    columns = ["", *(shown(str(each)) for each in headings), "verdict"]
    return table(shown(name), columns, cells, numeric=range(1, len(headings) + 1))


def _figures_table(name: str, rows: Sequence[Mapping[str, Any]]) -> Html:
    figures = [each for each in _FIGURES if any(row.get(each) is not None for row in rows)]
    if any(row.get("interval") is not None for row in rows):
        figures.append("interval")
    columns = ["", *(_HEADINGS.get(each, each) for each in figures), "verdict"]
    cells = [
        [shown(str(row.get("what", ""))), *(_shown(row.get(each)) for each in figures), _mark(row)]
        for row in rows
    ]
    return table(shown(name), columns, cells, numeric=range(1, len(figures) + 1))


def _mark(row: Mapping[str, Any]) -> str:
    verdict = str(row.get("verdict", ""))
    return _MARKS.get(verdict, shown(verdict))


def _shown(figure: Any) -> str:
    """A figure of an audit or of its file, where infinities are words."""
    if figure is None:
        return ""
    if isinstance(figure, list | tuple):
        return " .. ".join(_shown(each) for each in figure)
    if isinstance(figure, str):
        return {"inf": "∞", "-inf": "-∞"}.get(figure, shown(figure))
    value = float(figure)
    return "" if np.isnan(value) else number(value)
