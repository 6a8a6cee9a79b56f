"""The audit's findings as a whole: tables, remarks, and a last paragraph that says what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from veilnet._core.words import join_names
from veilnet.auditing.row import (
    IN_LOG,
    IN_MODEL,
    IN_WORDS,
    LEFT_OUT,
    NOT_COMPUTED,
    Judgement,
    LeftOut,
    Row,
    row_of_file,
    shown_tables,
)
from veilnet.auditing.sections import Section, introduction
from veilnet.io.audit_files import FORMAT
from veilnet.model.doubts import Doubt, doubt_notes

__all__ = [
    "FITTED_ROWS", "LEFT_OUT", "NOT_COMPUTED", "AuditReport", "Judgement", "LeftOut", "Row", "outcome",
    "shown_tables",
]  # fmt: skip

_NEXT = {
    "fail": "What to do next: release nothing under this plan until every BROKEN row is explained",
    "not covered": "plan for attackers who remember: fit the network as a stream (dynamics), and design again",
    "cannot tell": "audit again on more rows, above all on more days or places that differ from one another",
}
_OF_MODEL = {"ok": "as promised", "warn": "not hidden"}
_ON_LOG = {
    "ok": "no more was seen",
    "warn": "not hidden",
    "cannot tell": "undecided",
    "fail": "BROKEN",
    "not covered": "not covered",
}
LEDGER_IS_WHOLE = "the ledger is intact; nothing else was tested"
FITTED_ROWS = "rows of the fit"  # what the row is called that finds them again


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
        return not self.failed and not self.interrupted and not self.not_computed

    @property
    def failed(self) -> tuple[Row, ...]:
        """The findings that are broken, or not covered by any promise although they tell too much."""
        return tuple(row for row in self.rows if row.verdict in ("fail", "not covered"))

    @property
    def unclear(self) -> tuple[Row, ...]:
        """The findings that are undecided."""
        return tuple(row for row in self.rows if row.verdict == "cannot tell")

    @property
    def not_computed(self) -> tuple[Row, ...]:
        """The sections that ended with an error, so that the audit is not whole."""
        return tuple(row for row in self.rows if row.found == NOT_COMPUTED)

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
            "format": FORMAT,
            "ok": self.ok,
            "false_alarm": self.false_alarm,
            "on_data": self.on_data,
            "interrupted": self.interrupted,
            "rows": [asdict(row) | {"sentence": row.sentence} for row in self.rows],
            "conclusion": self.conclusion(),
            "doubts": [asdict(doubt) for doubt in self.doubts],
            "plan": self.plan,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> AuditReport:
        """The report in the content of an audit's file.

        document: what :meth:`to_dict` gave; what it does not say is empty.
        """
        return cls(
            tuple(row_of_file(row) for row in document["rows"]),
            float(document.get("false_alarm", 0.0)),
            on_data=document.get("on_data"),
            interrupted=bool(document.get("interrupted", False)),
            plan=str(document.get("plan", "")),
        )

    def headline(self) -> str:
        """The outcome in one sentence."""
        if self.ok:
            return f"{self.title}: {outcome(self.rows)}."
        count = len(self.failed)
        if not count and self.interrupted:
            return f"{self.title}: INTERRUPTED, so not every promise was looked at; nothing failed so far."
        if not count:
            missing = join_names([row.section for row in self.not_computed])
            return f"{self.title}: INCOMPLETE: {missing} could not be computed; nothing else failed."
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
        remarked = [
            row
            for row in self.rows
            if row.verdict in ("fail", "not covered", "warn") or row.found == LEFT_OUT
        ]
        whys = _by_why(remarked)
        said = []
        for row in remarked:
            word = "NOTE" if row.found == LEFT_OUT else IN_WORDS.get(row.verdict, row.verdict).upper()
            said.append(f"{word}: {row.facts if len(whys[row.why]) > 1 else row.sentence}")
        said += [
            f"POSSIBLE CAUSE ({_names(rows, 3)}): {why}"
            for why, rows in whys.items()
            if why and len(rows) > 1
        ]
        return said + [
            f"CANNOT TELL: {_names(rows, len(rows))}. {why}" for why, rows in _by_why(self.unclear).items()
        ]

    def assurance(self) -> str:
        """How seldom a sound plan fails, in one sentence."""
        if of_ledger_alone(self.sections):
            return "Nothing was simulated: a ledger is either intact or not."
        sure = f"False-alarm probability of the whole audit: at most {self.false_alarm:.0e} on simulated rows"
        if self.on_data is None:
            return f"{sure}."
        return f"{sure}, about {self.on_data:g} on your data (rows are correlated)."

    def conclusion(self) -> str:
        """What was promised, what was found, what is undecided and what to do next, in one paragraph."""
        return " ".join(part for part in (self.promised, _found(self), _unclear(self), _next(self)) if part)

    def still_open(self) -> list[str]:
        """What is undecided, and what to do next: what a reader of the headline and the counts still needs."""
        return [part for part in (_unclear(self), _next(self)) if part]


def _by_why(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows that have one reason together, in the order of the first."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.why, []).append(row)
    return found


def _names(rows: Sequence[Row], most: int) -> str:
    return join_names([row.what for row in rows], names_shown=most)


def of_ledger_alone(sections: Sequence[str]) -> bool:
    """Whether findings of these sections are about a ledger and nothing else: no promise was tested then."""
    return bool(sections) and set(sections) == {Section.LEDGER}


def secrets_in_words(verdicts: Mapping[str, str]) -> list[str]:
    """For each secret what holds in the model and what the log shows; they are two things.

    verdicts: by what was looked at.
    """
    said = []
    for what, verdict in verdicts.items():
        if what.endswith(IN_MODEL):
            name = what.removesuffix(IN_MODEL)
            log = verdicts.get(f"{name}{IN_LOG}")
            on_log = "" if log is None else f", on the log {_ON_LOG.get(log, log)}"
            said.append(f"{name}: in the model {_OF_MODEL.get(verdict, 'no promise')}{on_log}")
    return said


def outcome(rows: Sequence[Row]) -> str:
    """What rows among which none is bad come to, with how many are undecided or want a look."""
    secrets = secrets_in_words({row.what: row.verdict for row in rows})
    bare = any(row.verdict == "warn" for row in rows if row.what.endswith(IN_MODEL))
    verdicts = [row.verdict for row in rows if not row.what.endswith(IN_MODEL)]
    unclear, worries = (sum(each == kind for each in verdicts) for kind in ("cannot tell", "warn"))
    tested = "every promise that could be tested holds" if unclear else "every promise holds"
    if "ok" not in verdicts:
        tested = (
            "nothing was found broken, and nothing could be tested" if unclear else "no promise was tested"
        )
    if bare:
        tested = "nothing is broken, but the plan does not hide every secret"
    if of_ledger_alone([row.section for row in rows]):
        tested = LEDGER_IS_WHOLE
    asides = [f"{unclear} undecided"] * bool(unclear) + [f"{worries} to look at"] * bool(worries)
    return "; ".join([tested, *asides, *secrets])


def _found(report: AuditReport) -> str:
    broken = [row for row in report.rows if row.verdict == "fail"]
    if not broken and of_ledger_alone(report.sections):
        return f"Found: {LEDGER_IS_WHOLE}."
    beyond = [row for row in report.rows if row.verdict == "not covered"]
    held = sum(row.verdict == "ok" and not row.what.endswith(IN_MODEL) for row in report.rows)
    said = []
    if broken:
        said.append(f"{_count(len(broken))} broken: {_names(broken, 3)}.")
    if beyond:
        said.append(
            "An attacker who remembers past messages learns more than the promise for single rows allows: "
            f"{_names(beyond, 3)}."
        )
    if held:
        said.append(
            f"{held} of {len(report.rows)} rows were tested and hold."
            if said
            else f"all {held} rows that could be tested hold; the others are informative or undecided."
        )
    if not said:
        unclear = any(row.verdict == "cannot tell" for row in report.rows)
        said.append(
            "nothing broken, and nothing that proves a promise." if unclear else "no promise was tested."
        )
    said += [f"{each}." for each in secrets_in_words({row.what: row.verdict for row in report.rows})]
    return "Found: " + " ".join(said)


def _unclear(report: AuditReport) -> str:
    said = []
    unclear = [row for row in report.rows if row.verdict == "cannot tell"]
    if unclear:
        said.append(f"Undecided: {_names(unclear, 3)}.")
        reached = _reached(unclear)
        said += [f"But {join_names(reached)}: too few rows to be sure."] if reached else []
    if report.on_data is None and not of_ledger_alone(report.sections):
        said.append("All attacks used simulated rows: whether the model describes your data was not tested.")
    if report.interrupted:
        said.append("The audit was stopped before it was finished.")
    return " ".join(said)


def _reached(unclear: Sequence[Row]) -> list[str]:
    """What attackers reached beyond the promise without anybody being sure of it: the best on each parameter."""
    best: dict[str, tuple[tuple[bool, float], Row]] = {}
    for row in unclear:
        name, promised, found = row.figures.get("parameter"), row.promised, row.found
        if name is None or not {"sent", "promised"} <= set(row.cells):
            continue
        if not isinstance(promised, int | float) or not isinstance(found, int | float) or promised <= 0:
            continue
        # An AUC is better the larger it is, an error the smaller; where there is an AUC, it is what counts.
        area = "AUC, sent" in row.figures
        beyond = found / promised - 1.0 if area else 1.0 - found / promised
        if beyond > 0 and (area, beyond) > best.get(name, ((False, 0.0), row))[0]:
            best[name] = (area, beyond), row
    return [
        f"{row.what} reached {row.cells['sent']} where {row.cells['promised']} is promised"
        for _, row in best.values()
    ]


def _next(report: AuditReport) -> str:
    """What to do, by what matters most; what was doubted of the model stays to be done in any case."""
    step = _first_step(report)
    doubts = [doubt.name for doubt in report.doubts if not doubt.accepted]
    if not doubts:
        return step
    one = len(doubts) == 1
    return (
        f"{step} {'A doubt' if one else f'{len(doubts)} doubts'} about the model {'is' if one else 'are'} still open "
        f"({join_names(doubts)}), and every promise is as sure as {'that allows' if one else 'they allow'}: fit "
        f"again, transform the readings, or accept {'it' if one else 'them'} by name."
    )


def _first_step(report: AuditReport) -> str:
    verdicts = {row.verdict for row in report.rows}
    if "fail" in verdicts:
        steps = [_NEXT["fail"]]
        steps += [_NEXT["not covered"]] if "not covered" in verdicts else []
        return "; ".join(steps) + "."
    if "not covered" in verdicts:
        return f"What to do next: {_NEXT['not covered']}."
    if report.interrupted:
        return "What to do next: run it to its end."
    if report.not_computed:
        return f"What to do next: see why {_names(report.not_computed, 3)} could not be computed, and audit again."
    if of_ledger_alone(report.sections):
        return "What to do next: keep the head, and audit the plan itself without --only ledger."
    if report.on_data is None and report.takes_data:
        return "What to do next: audit with --data, on rows that were not used to fit the network."
    if any(row.what == FITTED_ROWS for row in report.rows):
        return "What to do next: audit on rows that the model was not fitted on."
    if "cannot tell" in verdicts:
        return f"What to do next: {_NEXT['cannot tell']}."
    if "warn" in verdicts:
        return "What to do next: read the rows marked 'look at it'; none of them breaks a promise."
    return "What to do next: audit again when the conditions change."


def _count(number: int) -> str:
    return "one row is" if number == 1 else f"{number} rows are"
