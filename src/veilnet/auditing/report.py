"""The audit's findings: rows a privacy officer can read, and every figure for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from veilnet._core.words import number
from veilnet.auditing.sections import introduction

Judgement = Literal["ok", "info", "warn", "fail"]
Figure = float | str | None
LEFT_OUT = "left out"  # found, where something could not be looked at
_HEADINGS = ("promised", "found", "between")

__all__ = ["LEFT_OUT", "AuditReport", "Figure", "Judgement", "Row", "shown_tables"]


@dataclass(frozen=True)
class Row:
    """One finding.

    section:  which part of the audit it belongs to.
    what:     what was looked at.
    promised: what the plan promises or the theory expects.
    found:    what was found, in the same unit.
    interval: a confidence interval for ``found`` where it was measured.
    verdict:  "ok" holds; "fail" does not hold; "warn" holds, but look at it; "info" is for information.
    sentence: the finding in plain words.
    figures:  everything else that was computed, for machines.
    shown:    what a table shows in place of promised, found and interval: heading -> text.
    """

    section: str
    what: str
    promised: Figure
    found: Figure
    verdict: Judgement
    sentence: str
    interval: tuple[float, float] | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class AuditReport:
    """What an audit found.

    rows:        the findings, in the order they were made.
    false_alarm: the chance, at most, that a sound plan soundly deployed shows any "fail" that is decided
                 by chance, over the whole audit.
    title:       what was audited, in words.
    on_data:     whether rows from the world were judged, where that chance holds approximately.
    interrupted: whether the audit was stopped before every section was finished; rows are those of the sections
                 that were.
    """

    rows: tuple[Row, ...]
    false_alarm: float
    title: str = "Audit"
    on_data: bool = False
    interrupted: bool = False

    @property
    def ok(self) -> bool:
        """Whether the audit was finished and nothing failed."""
        return not self.failed and not self.interrupted

    @property
    def failed(self) -> tuple[Row, ...]:
        """The findings that failed."""
        return tuple(row for row in self.rows if row.verdict == "fail")

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections, in order."""
        return tuple(dict.fromkeys(row.section for row in self.rows))

    def of(self, section: str) -> tuple[Row, ...]:
        """The rows of one section.

        section: its name, one of ``sections``.
        """
        return tuple(row for row in self.rows if row.section == section)

    def to_dict(self) -> dict[str, Any]:
        """Every figure, as plain types."""
        return {
            "ok": self.ok,
            "false_alarm": self.false_alarm,
            "on_data": self.on_data,
            "interrupted": self.interrupted,
            "rows": [
                {
                    "section": row.section,
                    "what": row.what,
                    "promised": row.promised,
                    "found": row.found,
                    "interval": None if row.interval is None else list(row.interval),
                    "verdict": row.verdict,
                    "sentence": row.sentence,
                    "figures": dict(row.figures),
                    "shown": dict(row.shown),
                }
                for row in self.rows
            ],
        }

    def headline(self) -> str:
        """The outcome in one sentence."""
        if self.ok:
            worries = sum(row.verdict == "warn" for row in self.rows)
            aside = f"; {worries} to look at" if worries else ""
            return f"{self.title}: every promise holds{aside}."
        count = len(self.failed)
        if not count:
            return f"{self.title}: INTERRUPTED, so not every promise was looked at; nothing failed so far."
        aside = " so far (interrupted)" if self.interrupted else ""
        return f"{self.title}: FAILED, {count} finding{'s' if count > 1 else ''}{aside}."

    def __str__(self) -> str:
        lines = [self.headline()]
        for section, headings, cells in shown_tables(self.rows):
            if section:
                lines += ["", section, *introduction(section)]
            table = [headings, *cells]
            widths = [max(len(cell[k]) for cell in table) for k in range(len(headings))]
            for cell in table:
                middle = [cell[k].rjust(widths[k]) for k in range(1, len(cell) - 1)]
                lines.append("  " + "  ".join([cell[0].ljust(widths[0]), *middle, cell[-1]]).rstrip())
        remarks = self.remarks()
        if remarks:
            lines += ["", *remarks]
        return "\n".join([*lines, "", self.assurance()])

    def _repr_html_(self) -> str:
        from veilnet.report.cards import audit_card

        return audit_card(self)

    def remarks(self) -> list[str]:
        """A sentence for each finding that failed or wants a look, and for what was left out, and why."""
        return [
            f"{'NOTE' if row.found == LEFT_OUT else row.verdict.upper()}: {row.sentence}"
            for row in self.rows
            if row.verdict in ("fail", "warn") or row.found == LEFT_OUT
        ]

    def assurance(self) -> str:
        """How seldom a sound plan fails, in one sentence."""
        most = "about" if self.on_data else "at most"
        aside = " (on your data by batch means, approximately)" if self.on_data else ""
        return f"Chance of a false alarm, over everything: {most} {self.false_alarm:.0e}{aside}."


def shown_tables(rows: Sequence[Row]) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """(section, headings, cells) of every table; a section whose rows have other headings goes on without a name."""
    tables: list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]] = []
    last: tuple[str, tuple[str, ...]] | None = None
    for row in rows:
        middle = dict(row.shown) or dict(zip(_HEADINGS, shown_figures(row), strict=True))
        headings = ("", *middle, "")
        if last != (row.section, headings):
            tables.append((row.section if last is None or last[0] != row.section else "", headings, []))
            last = row.section, headings
        tables[-1][2].append((row.what, *middle.values(), row.verdict))
    return tables


def shown_figures(row: Row) -> tuple[str, str, str]:
    """Promised, found and interval as text."""
    between = "" if row.interval is None else f"{number(row.interval[0])} .. {number(row.interval[1])}"
    return _shown(row.promised), _shown(row.found), between


def _shown(figure: Figure) -> str:
    if figure is None:
        return ""
    return figure if isinstance(figure, str) else number(figure)
