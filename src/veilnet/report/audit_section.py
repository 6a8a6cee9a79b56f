"""The audit's findings, from an audit that was just run or from the file of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from veilnet.auditing.report import AuditReport, Row, outcome
from veilnet.report.audit_picture import attack_figure, attacks_on, estimate_figure, estimates_on
from veilnet.report.html import Html, details, element, join, paragraph, shown, table
from veilnet.report.words import names_of

_MOST_ROWS = 120  # of a section, the worst first
_MOST_WORRIES = 60
_MOST_PICTURES = 4
_NAMED = 3  # findings that a headline quotes
_LONGEST = 1200  # characters of a sentence
_MARKS = {
    "ok": "✓ holds", "fail": "✗ BROKEN", "warn": "! look at it", "cannot tell": "? cannot tell",
    "not covered": "✗ NOT COVERED", "info": "for information",
}  # fmt: skip
_BAD = ("fail", "not covered")
_DOUBTFUL = ("warn", "cannot tell")


def report_of_file(audit: AuditReport | Mapping[str, Any]) -> AuditReport:
    """An audit, read from the content of its file where that is given."""
    return audit if isinstance(audit, AuditReport) else AuditReport.from_dict(audit)


def audit_headline(audit: AuditReport | Mapping[str, Any]) -> tuple[str, str]:
    """(how it went: good, look or bad; the outcome in a few words)."""
    report = report_of_file(audit)
    verdicts = [row.verdict for row in report.rows]
    broken = len(report.failed)
    if broken:
        return "bad", f"✗ Audit: {broken} finding{'s' if broken > 1 else ''} against the plan"
    if report.interrupted:
        return "look", "Audit: interrupted; nothing failed so far"
    words = outcome(report.rows)
    if any(each in _DOUBTFUL for each in verdicts) or "ok" not in verdicts:
        return "look", f"Audit: {words}"
    return "good", f"✓ Audit: {words}"


def broken_promises(audit: AuditReport | Mapping[str, Any] | None) -> dict[str, Row]:
    """Private parameter, or what was looked at -> the finding against it that is furthest from its promise."""
    found: dict[str, Row] = {}
    for row in () if audit is None else report_of_file(audit).failed:
        name = str(row.figures.get("parameter", row.what))
        if name not in found or _part_left(row) < _part_left(found[name]):
            found[name] = row
    return dict(sorted(found.items(), key=lambda each: _part_left(each[1])))


def found_in_words(row: Row) -> str:
    """A finding against a plan: ``ridge on appliances: ±71 Wh, where ±109 Wh was promised``."""
    cells = row.cells
    found = next((cells[each] for each in ("sent", "simulated", "found") if cells.get(each)), "")
    promised = cells.get("promised", "")
    if not found or not promised:
        return shown(row.what)
    return f"{shown(row.what)}: {shown(found)}, where {shown(promised)} was promised"


def broken_headline(broken: Mapping[str, Row]) -> str:
    """What was measured in place of what was promised."""
    found = [found_in_words(row) for row in list(broken.values())[:_NAMED]]
    more = len(broken) - len(found)
    return f"This plan is BROKEN: {'; '.join(found)}{f'; and {more} more' if more else ''}."


def _part_left(row: Row) -> float:
    """How far what was found is from what was promised, either way, as a part; 1 where no figures are compared."""
    promised, found = row.promised, row.found
    if isinstance(promised, int | float) and isinstance(found, int | float) and min(promised, found) > 0:
        return float(min(promised, found) / max(promised, found))
    return 1.0


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
    report = report_of_file(audit)
    kind, words = audit_headline(report)
    conclusion = audit.conclusion() if isinstance(audit, AuditReport) else audit.get("conclusion")
    worries = _worries(report)
    listed = [element("li", element("strong", mark), f" {words}") for mark, words in worries[:_MOST_WORRIES]]
    if len(worries) > _MOST_WORRIES:
        listed.append(element("li", f"{len(worries) - _MOST_WORRIES} more."))
    return join(
        [
            paragraph(f"{words}.", class_="alarm" if kind == "bad" else None),
            paragraph(str(conclusion)[: 3 * _LONGEST]) if conclusion else None,
            # A file that does not name its plan may be about another one: the reader must know.
            paragraph("The file of these findings does not say which plan it is about.", class_="alarm")
            if report is not audit and not report.plan
            else None,
            *(
                attack_figure(name, rows)
                for name, rows in list(attacks_on(report.rows).items())[:_MOST_PICTURES]
            ),
            *(estimate_figure(row) for row in estimates_on(report.rows)[:_MOST_PICTURES]),
            element("ul", *listed) if listed else None,
            _summary(report),
            details(
                "Every finding",
                *(_one_section(name, report.of(name)) for name in report.sections),
                open=kind == "bad",
            ),
        ]
    )


def _worries(report: AuditReport) -> list[tuple[str, str]]:
    """(mark, words) of what is bad, then of what wants a look, then of what is undecided, by the reason why not."""
    looked_at = [row for row in report.rows if row.verdict == "warn"]
    bad = [(_mark(row), row.sentence[:_LONGEST]) for row in [*report.failed, *looked_at]]
    reasons: dict[str, list[str]] = {}
    for row in report.unclear:
        reasons.setdefault(row.why[:_LONGEST], []).append(row.what)
    return bad + [(_MARKS["cannot tell"], f"{names_of(whats)}. {why}") for why, whats in reasons.items()]


def _summary(report: AuditReport) -> Html:
    """How many findings of which kind each section has."""
    kinds = list(dict.fromkeys(_mark(row) for row in report.rows))
    counts = [
        [shown(name), *(str(sum(_mark(row) == kind for row in report.of(name)) or "–") for kind in kinds)]
        for name in report.sections
    ]
    return table(
        "Findings by section", ["", *kinds], counts, numeric=range(1, len(kinds) + 1), class_="summary"
    )


def _one_section(name: str, rows: Sequence[Row]) -> Html:
    """The rows of a section, in as many tables as they have kinds of columns."""
    kinds: dict[tuple[str, ...], list[Row]] = {}
    worst_first = rows if len(rows) <= _MOST_ROWS else sorted(rows, key=_rank)
    for row in worst_first[:_MOST_ROWS]:
        kinds.setdefault(tuple(row.cells), []).append(row)
    tables = [_table(name, headings, some) for headings, some in kinds.items()]
    bad = any(row.verdict in _BAD for row in rows)
    left = len(rows) - _MOST_ROWS
    rest = (
        paragraph(f"{left} more, none worse than these, are left out.", class_="soft") if left > 0 else None
    )
    return details(shown(name), *tables, rest, open=bad)


def _rank(row: Row) -> int:
    """The worst first."""
    return 0 if row.verdict in _BAD else 1 if row.verdict in _DOUBTFUL else 2


def _table(name: str, headings: Sequence[str], rows: Sequence[Row]) -> Html:
    """Rows with the same headings; a column in which nothing stands is left out."""
    some = [each for each in headings if any(row.cells[each] for row in rows)]
    cells = [[shown(row.what), *(shown(row.cells[each]) for each in some), _mark(row)] for row in rows]
    columns = ["", *(shown(each) for each in some), "verdict"]
    return table(shown(name), columns, cells, numeric=range(1, len(some) + 1))


def _mark(row: Row) -> str:
    return _MARKS.get(row.verdict, shown(row.verdict))
