"""What symbols say of the public quantity, and the plans of symbols to choose from, as pictures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veilnet._core.types import Array
from veilnet._core.words import at_most, three_digits
from veilnet.report.html import Html, element, shown, table
from veilnet.report.svg import Frame, diamond, figure, label, line, path, picture, square, width_of
from veilnet.report.words import at_least
from veilnet.symbols.agent import SymbolAgent
from veilnet.symbols.plan import SymbolPlan

_COLUMN, _ROW, _TOP = 30.0, 26.0, 40.0
_LEFT = 40.0
_WIDEST = 20  # classes beyond have no picture
_LINE = 240.0  # of the picture of a number


def symbols_picture(plan: SymbolPlan, place: int, agent: SymbolAgent) -> Html | None:
    """What each symbol of an agent, at its place, says of the public quantity; None of too many classes."""
    found, public = _given_symbol(plan, place, agent), shown(plan.centre.public)
    title = f"What the symbols of {shown(agent.agent)} say of {public}"
    if not plan.centre.classes:
        return _intervals(title, found, agent.agent)
    if found.shape[1] > _WIDEST:
        return None
    part = found / np.maximum(found.sum(axis=1, keepdims=True), 1.0)
    names = [shown(str(each), most=12) for each in plan.centre.classes]
    slanted = max(map(width_of, names)) > _COLUMN - 4
    top = _TOP + (0.5 * max(map(width_of, names)) if slanted else 0.0)
    marks = []
    for column, words in enumerate(names):
        x = _LEFT + _COLUMN * (column + 0.5)
        anchor, slant = ("start", -35.0) if slanted else ("middle", 0.0)
        marks.append(label(x, top - 12, words, anchor=anchor, class_="small", slant=slant))
    for row in range(len(part)):
        y = top + _ROW * (row + 0.5)
        marks.append(label(_LEFT - 10, y + 4.5, str(row), anchor="end"))
        marks.append(line(8, y + _ROW / 2, _LEFT + _COLUMN * len(names), y + _ROW / 2, "grid"))
        marks += [
            square(_LEFT + _COLUMN * (k + 0.5), y, float(each), _ROW - 6)
            for k, each in enumerate(part[row])
            if each > 0.005
        ]
    width = _LEFT + _COLUMN * len(names) + (60 if slanted else 10)
    return picture(title, width, top + _ROW * len(part) + 6, marks, key=agent.agent)


def _given_symbol(plan: SymbolPlan, place: int, agent: SymbolAgent) -> Array:
    """(symbols, K) what was counted of the public quantity with each of an agent's symbols."""
    found = np.zeros((agent.symbols + 1, plan.centre.table.shape[1]))
    np.add.at(found, plan.centre.cells[:, place], plan.centre.table)
    return found[: agent.symbols]


def _intervals(title: str, found: Array, key: str) -> Html:
    """Of each symbol the mean of a number, and a standard deviation to either side."""
    rows = np.maximum(found[:, 0], 1.0)
    mean = found[:, 1] / rows
    spread = np.sqrt(np.maximum(found[:, 2] / rows - mean**2, 0.0))
    frame = Frame(
        (float(np.min(mean - spread)), float(np.max(mean + spread))), (len(mean), 0),
        size=(_LINE + 60, _ROW * len(mean) + 30), left=_LEFT, right=20, top=4, bottom=26,
    )  # fmt: skip
    marks = frame.scale()
    for place, (middle, off) in enumerate(zip(mean.tolist(), spread.tolist(), strict=True)):
        y = frame.y(place + 0.5)
        marks.append(label(_LEFT - 10, y + 4.5, str(place), anchor="end"))
        marks.append(line(frame.x(middle - off), y, frame.x(middle + off), y, "stem sent"))
        marks.append(diamond(frame.x(middle), y, 5.0))
    return picture(title, frame.width, frame.height, marks, key=key)


def curve_figure(plan: SymbolPlan, points: Sequence[tuple[float, float]], caption: str) -> Html:
    """The public score against what is promised of the first private quantity; the plan itself is a diamond.

    points:  (promise, score) of what else can be had.
    caption: where these come from.
    """
    name, promise = next(iter(plan.certificate.items()))
    here = (promise.promise, plan.score)
    across, up = zip(*points, here, (promise.chance, plan.raw_score), strict=True)
    margin = max(0.02, 0.15 * (max(up) - min(up)))
    wide = 0.08 * (max(across) - min(across)) + 1e-3
    kind = "accuracy" if plan.centre.classes else "R²"
    public, private = shown(plan.centre.public), shown(name)
    guessing, private_side = ("left", "left") if promise.classes else ("right", "right")
    ends = (promise.chance, max(across) + wide) if promise.classes else (min(across) - wide, promise.chance)
    frame = Frame(
        ends, (min(up) - margin, max(up) + margin), size=(440.0, 270.0), left=52, right=16, top=34, bottom=50
    )
    words = (
        f"anybody right about {private}, at most" if promise.classes else f"everybody off about {private} by"
    )
    marks = [label(4, 14, f"{kind} of {public}", class_="small"), *frame.levels(), *frame.scale()]
    raw = frame.y(plan.raw_score)
    marks.append(line(frame.left, raw, frame.end, raw, "limit"))
    marks.append(label(frame.left + 6, raw - 5, "raw", class_="small"))
    under = f"{words} ({guessing} end: guessing)"
    marks.append(
        label((frame.left + frame.end) / 2, frame.height - 8, under, anchor="middle", class_="small")
    )
    marks.append(path([frame.at(x, y) for x, y in sorted(points)], "curve"))
    for x, y in points:
        cx, cy = frame.at(x, y)
        marks.append(element("circle", cx=cx, cy=cy, r=5, class_="mark raw"))
    marks.append(diamond(*frame.at(*here), 8.0))
    rounded = at_most if promise.classes else at_least
    rows = [("", rounded(x), three_digits(y)) for x, y in points]
    rows.append(("this plan", rounded(here[0]), three_digits(here[1])))
    columns = ("", words, f"{kind} of {public}")
    same = table("What else can be had", columns, rows, numeric=(1, 2))
    title = f"{kind} of {public} against what is promised of {private}: {len(points)} choices and this plan"
    reading_it = (
        f"Further {private_side} is more private, further up more useful. The diamond is this plan. {caption}"
    )
    return figure(picture(title, frame.width, frame.height, marks), reading_it, same, class_="wide")
