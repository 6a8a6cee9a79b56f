"""The audit's findings: rows a privacy officer can read, and every figure for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from veilnet._core.words import join_names, number
from veilnet.auditing.conclusion import conclusion, of_ledger_alone, outcome
from veilnet.auditing.sections import introduction
from veilnet.model.doubts import Doubt, doubt_notes

Judgement = Literal["ok", "info", "warn", "fail", "not covered", "cannot tell"]
Figure = float | str | None
LEFT_OUT = "left out"  # found, where something could not be looked at
IN_WORDS: dict[Judgement, str] = {"ok": "holds", "fail": "broken", "warn": "look at it"}
"""Verdicts as they are printed; the others are printed as they are."""
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
    verdict:  "ok" a promise was tested and holds; "fail" it is broken; "not covered" what is sent tells somebody the
              promise does not speak of more than it allows; "cannot tell" the test could not have seen a leak that
              matters; "warn" holds, but look at it; "info" is for information.
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
    on_data:     the chance, approximately, that data from the world on which every promise holds show any "fail" or
                 "not covered"; None when no such rows were judged.
    interrupted: whether the audit was stopped before every section was finished; rows are those of the sections
                 that were.
    promised:    what the plan promises, in one sentence.
    doubts:      what is doubtful about the network that the plan was made for.
    plan:        the fingerprint of the plan that was audited.
    takes_data:  whether such an audit can also be on data from the world, which one that was not then advises.
    """

    rows: tuple[Row, ...]
    false_alarm: float
    title: str = "Audit"
    on_data: float | None = None
    interrupted: bool = False
    promised: str = ""
    doubts: tuple[Doubt, ...] = ()
    plan: str = ""
    takes_data: bool = True

    @property
    def ok(self) -> bool:
        """Whether the audit was finished and nothing was found broken or not covered."""
        return not self.failed and not self.interrupted

    @property
    def failed(self) -> tuple[Row, ...]:
        """The findings that are broken, or not covered by any promise although they tell too much."""
        return tuple(row for row in self.rows if row.verdict in ("fail", "not covered"))

    @property
    def unclear(self) -> tuple[Row, ...]:
        """The findings from which nothing can be told."""
        return tuple(row for row in self.rows if row.verdict == "cannot tell")

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
            "conclusion": self.conclusion(),
            "doubts": [asdict(doubt) for doubt in self.doubts],
            "plan": self.plan,
        }

    def headline(self) -> str:
        """The outcome in one sentence."""
        sections = [row.section for row in self.rows]
        if self.ok:
            told = outcome([row.verdict for row in self.rows], sections, [row.what for row in self.rows])
            return f"{self.title}: {told}."
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
        remarks = [*self.remarks(), *doubt_notes(self.doubts)]
        if remarks:
            lines += ["", *remarks]
        return "\n".join([*lines, "", self.assurance(), "", self.conclusion()])

    def _repr_html_(self) -> str:
        from veilnet.report.cards import audit_card

        return audit_card(self)

    def remarks(self) -> list[str]:
        """A sentence for each finding that is broken, unclear or wants a look, and for what was left out, and why."""
        said: list[str] = []
        causes: dict[str, list[str]] = {}
        for row in self.rows:
            if row.verdict in ("ok", "info", "cannot tell") and row.found != LEFT_OUT:
                continue
            word = "NOTE" if row.found == LEFT_OUT else IN_WORDS.get(row.verdict, row.verdict).upper()
            cause = str(row.figures.get("cause", ""))
            if cause:
                causes.setdefault(cause, []).append(row.what)
            said.append(f"{word}: {row.sentence.removesuffix(cause).rstrip()}")
        said += [
            f"WHAT IT MAY COME FROM ({join_names(rows, names_shown=3)}): {cause}"
            for cause, rows in causes.items()
        ]
        reasons: dict[str, list[str]] = {}
        for row in self.unclear:
            reasons.setdefault(str(row.figures.get("why") or row.sentence), []).append(row.what)
        return said + [
            f"CANNOT TELL: {join_names(rows, names_shown=len(rows))}. {reason}"
            for reason, rows in reasons.items()
        ]

    def assurance(self) -> str:
        """How seldom a sound plan fails, in one sentence."""
        if of_ledger_alone([row.section for row in self.rows]):
            return "Nothing was simulated: a ledger is whole, or it is not."
        sure = f"Chance of a false alarm, over everything that is simulated: at most {self.false_alarm:.0e}"
        if self.on_data is None:
            return f"{sure}."
        return f"{sure}; over everything judged on your data: about {self.on_data:g} (rows depend on one another)."

    def conclusion(self) -> str:
        """What was promised, what was found, what could not be told and what to do next, in one paragraph."""
        return conclusion(self)


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
        tables[-1][2].append((row.what, *middle.values(), IN_WORDS.get(row.verdict, row.verdict)))
    return tables


def shown_figures(row: Row) -> tuple[str, str, str]:
    """Promised, found and interval as text."""
    between = "" if row.interval is None else f"{number(row.interval[0])} .. {number(row.interval[1])}"
    return _shown(row.promised), _shown(row.found), between


def _shown(figure: Figure) -> str:
    if figure is None:
        return ""
    return figure if isinstance(figure, str) else number(figure)
