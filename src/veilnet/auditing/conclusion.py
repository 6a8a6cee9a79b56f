"""The last paragraph of an audit: what was promised, what was found, what could not be told, what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from veilnet._core.words import join_names, plus_minus
from veilnet.auditing.sections import Section
from veilnet.bounds.typical_errors import TypicalError, typical_errors
from veilnet.model.doubts import Doubt
from veilnet.plans.plan import Plan

_NEXT = {
    "fail": "What to do next: release nothing by this plan until what is marked BROKEN is dealt with",
    "not covered": "plan for attackers who remember: fit the network as a stream (dynamics), and design again",
    "cannot tell": "audit again on more rows, above all on more days or places that differ from one another",
}
LEDGER_IS_WHOLE = "the ledger is whole; nothing else was looked at"
FITTED_ROWS = "rows of the fit"  # what the row is called that finds them again
HELD = (
    "ok",
    "holds",
)  # verdicts of a promise that was tested and holds: as they are, and as they are printed


IN_MODEL, IN_LOG = ": the promise in the model", ": what the log shows"  # the two verdicts on a secret
_IN_MODEL = {"ok": "as promised", "holds": "as promised", "warn": "not hidden", "look at it": "not hidden"}
_IN_LOG = {
    "ok": "no more was seen",
    "holds": "no more was seen",
    "warn": "not hidden",
    "look at it": "not hidden",
    "cannot tell": "cannot be told",
    "fail": "BROKEN",
    "not covered": "not covered",
}


class Finding(Protocol):
    """What is needed of a row: what was looked at, and the verdict on it."""

    @property
    def section(self) -> str:
        """The section of the audit it belongs to."""

    @property
    def what(self) -> str:
        """What was looked at."""

    @property
    def verdict(self) -> str:
        """The verdict."""


class Found(Protocol):
    """What is needed of a report."""

    @property
    def rows(self) -> Sequence[Finding]:
        """The findings."""

    @property
    def promised(self) -> str:
        """What the plan promises, in a sentence."""

    @property
    def doubts(self) -> Sequence[Doubt]:
        """What is doubtful about the network."""

    @property
    def on_data(self) -> float | None:
        """None where nothing was judged on data."""

    @property
    def takes_data(self) -> bool:
        """Whether it could have been on data."""

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped."""


def promised_in_words(plan: Plan) -> str:
    """What a plan promises: how well the centre knows what is public, and how badly what is private."""
    errors = typical_errors(plan.network, plan.sanitizers, privacy=plan.privacy)
    seen = plan.detectability
    public = [_told(e, "to") for e in errors.values() if not e.private]
    private = [
        f"whether {e.name} changes with AUC {seen[e.name].auc:.2f} (raw {seen[e.name].raw.auc:.2f}, guessing 0.50)"
        if e.name in seen
        else f"{_told(e, 'no better than')} (raw readings {_error(e, e.raw)}, guessing {_error(e, e.guessing)})"
        for e in errors.values()
        if e.private
    ]
    return f"Promised: what is sent tells {join_names([*public, *private])}."


def _told(error: TypicalError, how: str) -> str:
    """What messages tell of a parameter: ``u to ±0.4 °C``, ``nothing of g``."""
    if error.sent is None or np.isinf(error.sent):
        return f"nothing of {error.name}"
    return f"{error.name} {how} {_error(error, error.sent)}"


def _error(error: TypicalError, value: float) -> str:
    return "without bound" if np.isinf(value) else plus_minus(value, error.unit)


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
            on_log = "" if log is None else f", on the log {_IN_LOG.get(log, log)}"
            said.append(f"{name}: in the model {_IN_MODEL.get(verdict, 'no promise')}{on_log}")
    return said


def outcome(verdicts: Sequence[str], sections: Sequence[str], whats: Sequence[str]) -> str:
    """What verdicts among which none is bad come to, with how many cannot be told or want a look.

    sections, whats: of the findings, in the same order.
    """
    secrets = secrets_in_words(dict(zip(whats, verdicts, strict=True)))
    of_models = [what.endswith(IN_MODEL) for what in whats]
    bare = any(each == "warn" for each, of_model in zip(verdicts, of_models, strict=True) if of_model)
    verdicts = [each for each, of_model in zip(verdicts, of_models, strict=True) if not of_model]
    unclear, worries = (sum(each == kind for each in verdicts) for kind in ("cannot tell", "warn"))
    tested = "every promise that could be tested holds" if unclear else "every promise holds"
    if not any(each in HELD for each in verdicts):
        tested = (
            "nothing was found broken, and nothing could be tested" if unclear else "no promise was tested"
        )
    if bare:
        tested = "nothing was found broken, and the plan does not hide every secret"
    if of_ledger_alone(sections):
        tested = LEDGER_IS_WHOLE
    asides = [f"{unclear} cannot be told"] * bool(unclear) + [f"{worries} to look at"] * bool(worries)
    return "; ".join([tested, *asides, *secrets])


def conclusion(report: Found) -> str:
    """One paragraph, in whole sentences."""
    parts = [report.promised, _found(report), _unclear(report), _next(report)]
    return " ".join(part for part in parts if part)


def _about_ledger_alone(report: Found) -> bool:
    return of_ledger_alone([row.section for row in report.rows])


def _found(report: Found) -> str:
    broken = [row for row in report.rows if row.verdict == "fail"]
    if not broken and _about_ledger_alone(report):
        return f"Found: {LEDGER_IS_WHOLE}."
    beyond = [row for row in report.rows if row.verdict == "not covered"]
    held = sum(row.verdict == "ok" and not row.what.endswith(IN_MODEL) for row in report.rows)
    said = []
    if broken:
        said.append(f"{_count(len(broken))} broken: {_names(broken)}.")
    if beyond:
        said.append(
            "An attacker who remembers past messages learns more than the promise for single rows allows: "
            f"{_names(beyond)}."
        )
    if held:
        said.append(
            f"{held} of {len(report.rows)} rows were tested and hold."
            if said
            else f"all {held} rows that could be tested hold; the others are for information, or cannot tell."
        )
    if not said:
        unclear = any(row.verdict == "cannot tell" for row in report.rows)
        said.append(
            "nothing broken, and nothing that proves a promise." if unclear else "no promise was tested."
        )
    said += [f"{each}." for each in secrets_in_words({row.what: row.verdict for row in report.rows})]
    return "Found: " + " ".join(said)


def _unclear(report: Found) -> str:
    said = []
    unclear = [row for row in report.rows if row.verdict == "cannot tell"]
    if unclear:
        said.append(f"Nothing can be told from {_names(unclear)}.")
    if report.on_data is None and not _about_ledger_alone(report):
        said.append(
            "Every attack was on simulated rows: whether the model describes the world was not looked at."
        )
    if report.interrupted:
        said.append("The audit was stopped before it was finished.")
    return " ".join(said)


def _next(report: Found) -> str:
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


def _first_step(report: Found) -> str:
    verdicts = {row.verdict for row in report.rows}
    if "fail" in verdicts:
        steps = [_NEXT["fail"]]
        steps += [_NEXT["not covered"]] if "not covered" in verdicts else []
        return "; ".join(steps) + "."
    if "not covered" in verdicts:
        return f"What to do next: {_NEXT['not covered']}."
    if report.interrupted:
        return "What to do next: run it to its end."
    if _about_ledger_alone(report):
        return "What to do next: keep the head, and audit the plan itself without --only ledger."
    if report.on_data is None and report.takes_data:
        return "What to do next: audit with --data, on rows that were not used to fit the network."
    if any(row.what == FITTED_ROWS for row in report.rows):
        return "What to do next: audit on rows that the model was not fitted on."
    if "cannot tell" in verdicts:
        return f"What to do next: {_NEXT['cannot tell']}."
    if "warn" in verdicts:
        return "What to do next: look at the rows marked 'look at it'; none of them breaks a promise."
    return "What to do next: audit again when the conditions change."


def _names(rows: Sequence[Finding]) -> str:
    return join_names([row.what for row in rows], names_shown=3)


def _count(number: int) -> str:
    return "one row is" if number == 1 else f"{number} rows are"
