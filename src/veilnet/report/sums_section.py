"""What it buys that the centre sees only sums, and whom that asks to be trusted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veilnet._core.words import times
from veilnet.plans.in_words import sums_in_words
from veilnet.plans.plan import Plan
from veilnet.report.html import Html, element, join, paragraph, shown, table
from veilnet.report.svg import Frame, diamond, figure, label, line, picture, width_of
from veilnet.sums.comparing import HEADINGS, MEANING, Comparison, compared

_ROW, _TOP, _MARK = 40.0, 30.0, 6.0
_BESIDE = 9.0  # crosses lie so far from the line
_ROUND = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0, 10000.0)
_SHARES_HELPED, _SUMS_HELPED = "shares and one agent helps", "only sums and one agent helps"
_CAPTION = (
    "By how much standard errors of private parameters grow, at no public loss; further right is more private. Every "
    "agent sends its share: a circle, and above the line a cross where the worst one agent helps the centre. The "
    "centre sees only sums: a diamond, and a cross below the line. A bar: nothing is sent."
)


def sums_section(plan: Plan) -> Html:
    """Shares against sums against silence, with and without agents who help the centre."""
    found = compared(plan.network)
    rows = [each.row() for each in found]
    same = table("Growth of standard errors at perfect utility", list(HEADINGS), rows)
    return join(
        [
            paragraph(MEANING),
            figure(_dots(found), _CAPTION, same, class_="wide"),
            *map(paragraph, sums_in_words(plan)),
        ]
    )


def _dots(found: Sequence[Comparison]) -> Html:
    """A line for each private parameter, with a mark for each way; growths on a logarithmic scale."""
    growths = [_growths(each) for each in found]
    finite = [value for each in growths for value in each.values() if np.isfinite(value)]
    longest = 1.08 * max([2.0, *finite]) * (1.0 if len(finite) == sum(map(len, growths)) else 1.5)
    names = [shown(each.name, most=18) for each in found]
    size = (460.0, _TOP + _ROW * len(found) + 34.0)
    left = 16.0 + max(map(width_of, names))
    frame = Frame((0.0, float(np.log(longest))), (0.0, 1.0), size=size, left=left)
    ticks = [tick for tick in _ROUND if tick <= longest][-6:]
    bottom = _TOP + _ROW * len(found)
    marks = [line(x, _TOP - 8, x, bottom, "grid") for x in (frame.x(np.log(tick)) for tick in ticks)]
    marks += frame.scale([(float(np.log(tick)), times(tick**2)) for tick in ticks])
    for place, (name, each) in enumerate(zip(names, growths, strict=True)):
        y = _TOP + _ROW * (place + 0.5) - 8
        at = {way: frame.x(np.log(min(value, longest))) for way, value in each.items()}
        marks += [label(left - 10, y + 4.5, name, anchor="end")]
        marks += [line(min(at.values()), y, at["only sums"], y, "stem")]
        marks += [_mark(way, x, y) for way, x in at.items()]
    words = "; ".join(
        f"{shown(each.name)}: " + ", ".join(f"{way} {times(value**2)}" for way, value in growth.items())
        for each, growth in zip(found, growths, strict=True)
    )
    return picture(f"Growth of standard errors. {words}", *size, marks, key="sums")


def _growths(each: Comparison) -> dict[str, float]:
    """Growths of standard errors, in the order in which they are drawn, from the back to the front."""
    found = {"nothing sent": each.limit, "shares": each.shares, "only sums": each.sums}
    for way, helped in {_SHARES_HELPED: each.helped, _SUMS_HELPED: each.one}.items():
        if helped is not None:
            found[way] = helped.privacy
    return {way: float(np.sqrt(1.0 + max(privacy, 0.0))) for way, privacy in found.items()}


def _mark(way: str, x: float, y: float) -> Html:
    """A shape of its own for each: colours never carry the meaning alone."""
    if way == "only sums":
        return diamond(x, y, _MARK)
    if way == "shares":
        return element("circle", cx=x, cy=y, r=_MARK - 1, class_="mark raw")
    if way == "nothing sent":
        return element("rect", x=x - 2, y=y - _MARK - 3, width=4, height=2 * _MARK + 6, class_="mark guess")
    y += _BESIDE if way == _SUMS_HELPED else -_BESIDE
    half, down = _MARK - 2, 2 * _MARK - 4
    strokes = f"M{x - half:.1f} {y - half:.1f}l{down:.1f} {down:.1f}m0 {-down:.1f}l{-down:.1f} {down:.1f}"
    return element("path", d=strokes, class_="curve" if way == _SUMS_HELPED else "stem")
