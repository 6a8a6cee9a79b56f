"""An audit on one scale: guessing, raw readings, what was promised and what was found, a line for each attacker."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from veilnet._core.words import plus_minus
from veilnet.auditing.row import Row
from veilnet.report.html import Html, shown, table
from veilnet.report.stream_section import lines_picture, table_of_lines
from veilnet.report.svg import figure, label, line, mark, nice_ticks, picture, width_of

_WIDTH, _ROW, _TOP = 560.0, 26.0, 34.0
_MOST_ATTACKERS = 8
_LONGEST = 34  # characters of an attacker's name
_BAD = ("fail", "not covered")
_SHAPES = {"raw": "raw", "promised": "promised", "sent": "sent", "guessing": "guess"}


def attacks_on(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Private parameter -> the findings that measured errors on it, who learned most first."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if _errors(row):
            found.setdefault(str(row.figures["parameter"]), []).append(row)
    return {name: sorted(rows, key=lambda row: _errors(row)["sent"]) for name, rows in found.items()}


def attack_height(rows: Sequence[Row]) -> float:
    """How high the picture of these attackers is."""
    return _TOP + _ROW * len(rows[:_MOST_ATTACKERS]) + 24


def attack_picture(name: str, rows: Sequence[Row]) -> Html:
    """The four errors of every attacker on a parameter, as parts of the error of guessing."""
    chosen = list(rows[:_MOST_ATTACKERS])
    words = [_attacker(row) for row in chosen]
    left = 14 + max(width_of(each, 15) for each in words)
    errors = [_errors(row) for row in chosen]
    highest = max(1.0, *(value for each in errors for value in each.values())) * 1.05
    high = attack_height(rows) - 24

    def x(part: float) -> float:
        return left + (_WIDTH - left - 12) * part / highest

    marks = _legend(left)
    for tick in nice_ticks(0.0, highest, 4):
        marks += [line(x(tick), _TOP - 6, x(tick), high, "grid")]
        marks += [label(x(tick), high + 16, f"{100 * tick:.0f} %", anchor="middle", class_="small")]
    for place, (row, parts) in enumerate(zip(chosen, errors, strict=True)):
        y = _TOP + _ROW * (place + 0.5)
        strong = "strong" if row.verdict in _BAD else None
        marks += [label(left - 10, y + 4, words[place], anchor="end", class_=strong or "small")]
        marks += [line(x(min(parts.values())), y, x(max(parts.values())), y, "stem")]
        marks += [mark(_SHAPES[kind], x(parts[kind]), y) for kind in _SHAPES if kind in parts]
    worst = errors[0]
    title = f"Attacks on {shown(name)}: the best has {100 * worst['sent']:.0f} % of the error of guessing"
    title += f", promised were {100 * worst['promised']:.0f} %." if "promised" in worst else "."
    return picture(title, _WIDTH, high + 24, marks)


def attack_figure(name: str, rows: Sequence[Row]) -> Html:
    """The picture, with what it means, and its attackers as a table."""
    chosen = list(rows[:_MOST_ATTACKERS])
    headings = list(dict.fromkeys(heading for row in chosen for heading in row.cells))
    cells = [[row.what, *(row.cells.get(each, "") for each in headings)] for row in chosen]
    same = table(
        f"Errors on {shown(name)}", ["attacker", *headings], cells, numeric=range(1, 1 + len(headings))
    )
    more = f" {len(rows) - len(chosen)} more learned less." if len(rows) > len(chosen) else ""
    caption = (
        f"Errors on {shown(name)} beside guessing: left of the triangle, more is learned than promised.{more}"
    )
    return figure(attack_picture(name, rows), caption, same, class_="wide")


def estimates_on(rows: Sequence[Row]) -> list[Row]:
    """The findings that compared a public estimate with the truth of the user's own rows."""
    return [row for row in rows if row.figures.get("truth") and row.figures.get("estimate")]


def estimate_figure(row: Row) -> Html:
    """A public estimate from what is sent beside the truth, over the first rows of the user's log."""
    name = shown(str(row.figures["estimated"]))
    lines = {
        words: np.array(row.figures[key], float)
        for words, key in (("truth", "truth"), ("from what is sent", "estimate"))
    }
    error = float(np.sqrt(np.nanmean((lines["from what is sent"] - lines["truth"]) ** 2)))
    unit = str(row.figures.get("unit", ""))
    title = f"{name} in your rows: from what is sent the centre errs by {plus_minus(error, unit)}."
    caption = (
        f"{name} in the first {len(lines['truth'])} rows of your log: the truth, and the centre's estimate."
    )
    return figure(lines_picture(title, unit, lines), caption, table_of_lines(name, lines), class_="wide")


def _attacker(row: Row) -> str:
    verdict = " (BROKEN)" if row.verdict == "fail" else " (NOT COVERED)" if row.verdict in _BAD else ""
    name = row.what.replace(f" on {row.figures['parameter']}", "")
    return shown(name, most=_LONGEST) + verdict


def _errors(row: Row) -> dict[str, float]:
    """The errors that a finding measured, as parts of guessing's; nothing where it measured none."""
    squares = {
        "raw": row.figures.get("from raw readings"),
        "promised": row.promised,
        "sent": row.found,
        "guessing": row.figures.get("guessing"),
    }
    known = {
        kind: float(value)
        for kind, value in squares.items()
        if isinstance(value, int | float) and math.isfinite(float(value)) and value >= 0
    }
    if "parameter" not in row.figures or not {"sent", "guessing"} <= known.keys() or known["guessing"] <= 0:
        return {}
    return {kind: math.sqrt(value / known["guessing"]) for kind, value in known.items()}


def _legend(x: float) -> list[Html]:
    marks = []
    for kind in _SHAPES:
        marks += [mark(_SHAPES[kind], x, 14), label(x + 11, 18, kind, class_="small")]
        x += 34 + width_of(kind, 12)
    return marks
