"""One finding of an audit: a row that a privacy officer can read, and every figure for machines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from veilnet._core.words import number

Judgement = Literal["ok", "info", "warn", "fail", "not covered", "cannot tell"]
Figure = float | str | None
LEFT_OUT = "left out"  # found, where something could not be looked at
NOT_COMPUTED = "could not be computed"  # found, where a section ended with an error
IN_MODEL, IN_LOG = ": the promise in the model", ": what the log shows"  # the two verdicts on a secret
IN_WORDS: dict[Judgement, str] = {"ok": "holds", "fail": "broken", "warn": "look at it"}
"""Verdicts as they are printed; the others are printed as they are."""


class LeftOut(Exception):
    """A part of an audit that is not made of this plan; the message says why."""


@dataclass(frozen=True)
class Row:
    """One finding.

    section:  which part of the audit it belongs to.
    what:     what was looked at.
    promised: what the plan promises or the theory expects.
    found:    what was found, in the same unit.
    verdict:  "ok" a promise was tested and holds; "fail" it is broken; "not covered" what is sent tells somebody the
              promise does not speak of more than it allows; "cannot tell" the test could not have seen a leak that
              matters; "warn" holds, but look at it; "info" is for information.
    why:      what the figures do not say, in whole sentences: a reason, a cause, what to do.
    interval: a confidence interval for ``found`` where it was measured.
    figures:  everything else that was computed, for machines.
    shown:    what a table shows in place of promised, found and interval: heading -> text.
    """

    section: str
    what: str
    promised: Figure
    found: Figure
    verdict: Judgement
    why: str = ""
    interval: tuple[float, float] | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)

    @property
    def cells(self) -> dict[str, str]:
        """Heading -> text: what a table shows of it."""
        if self.shown:
            return dict(self.shown)
        between = "" if self.interval is None else f"{_shown(self.interval[0])} .. {_shown(self.interval[1])}"
        return {"promised": _shown(self.promised), "found": _shown(self.found), "between": between}

    @property
    def facts(self) -> str:
        """What was looked at, and every figure under its heading, as a sentence."""
        figures = "; ".join(f"{heading} {text}" for heading, text in self.cells.items() if text)
        return f"{self.what}: {figures}." if figures else f"{self.what}."

    @property
    def sentence(self) -> str:
        """The finding in plain words: the facts, and why."""
        return f"{self.facts} {self.why}".rstrip()


def shown_tables(rows: Sequence[Row]) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """(section, headings, cells) of every table; a section whose rows have other headings goes on without a name."""
    tables: list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]] = []
    last: tuple[str, tuple[str, ...]] | None = None
    for row in rows:
        middle = row.cells
        headings = ("", *middle, "")
        if last != (row.section, headings):
            tables.append((row.section if last is None or last[0] != row.section else "", headings, []))
            last = row.section, headings
        tables[-1][2].append((row.what, *middle.values(), IN_WORDS.get(row.verdict, row.verdict)))
    return tables


def row_of_file(row: Mapping[str, Any]) -> Row:
    """A row of an audit's file."""
    texts = {name: str(row.get(name, "")) for name in ("section", "what", "verdict", "why")}
    interval, figures, shown = (row.get(name) for name in ("interval", "figures", "shown"))
    return Row(
        **texts,  # type: ignore[arg-type]
        promised=row.get("promised"),
        found=row.get("found"),
        interval=tuple(interval) if isinstance(interval, list) and len(interval) == 2 else None,
        figures=figures if isinstance(figures, Mapping) else {},
        shown={str(key): str(text) for key, text in shown.items()} if isinstance(shown, Mapping) else {},
    )


def _shown(figure: Figure) -> str:
    """A figure of an audit or of its file, where infinities are words."""
    if figure is None:
        return ""
    if isinstance(figure, str):
        return {"inf": "∞", "-inf": "-∞", "nan": ""}.get(figure, figure)
    return "" if math.isnan(figure) else number(float(figure))
