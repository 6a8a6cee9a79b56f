"""The audit's findings: rows a privacy officer can read, and every figure for machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from veilnet._core.words import number

Judgement = Literal["ok", "info", "warn", "fail"]
Figure = float | str | None
LEFT_OUT = "left out"  # found, where something could not be looked at

__all__ = ["LEFT_OUT", "AuditReport", "Figure", "Judgement", "Row"]


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
    """

    section: str
    what: str
    promised: Figure
    found: Figure
    verdict: Judgement
    sentence: str
    interval: tuple[float, float] | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)


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
        cells = [("", "promised", "found", "between", "")] + [
            (row.what, *shown_figures(row), row.verdict) for row in self.rows
        ]
        widths = [max(len(cell[k]) for cell in cells) for k in range(5)]
        sections = iter(["", *(row.section for row in self.rows)])
        last = ""
        for cell in cells:
            section = next(sections)
            if section != last:
                lines += ["", section]
                last = section
            words = [cell[0].ljust(widths[0]), *(cell[k].rjust(widths[k]) for k in (1, 2, 3)), cell[4]]
            lines.append("  " + "  ".join(words).rstrip())
        remarks = self.remarks()
        if remarks:
            lines += ["", *remarks]
        return "\n".join([*lines, "", self.assurance()])

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


def shown_figures(row: Row) -> tuple[str, str, str]:
    """Promised, found and interval as text."""
    between = "" if row.interval is None else f"{number(row.interval[0])} .. {number(row.interval[1])}"
    return _shown(row.promised), _shown(row.found), between


def _shown(figure: Figure) -> str:
    if figure is None:
        return ""
    return figure if isinstance(figure, str) else number(figure)
