"""What more privacy would cost: the frontier, with this plan and the free one on it.

Both axes tell how large an error is beside the one from raw readings: 1 is as sharp as before. Neither axis has a
zero to be drawn on a logarithmic scale. Of secrets the private axis is how surely their changes are seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from veilnet._core.words import number
from veilnet.designs.frontiers import Frontier
from veilnet.plans.plan import Plan
from veilnet.report.html import Html, element, table
from veilnet.report.svg import diamond, label, line, nice_ticks, path, picture, width_of
from veilnet.report.words import fold

_WIDTH, _HEIGHT = 440.0, 310.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 60.0, 22.0, 34.0, 56.0
_ONE_SPOT = 3.0  # points: two plans this near are one in the picture
_LOGARITHMIC = 6.0  # an axis that spans more than this is drawn in equal ratios


@dataclass(frozen=True)
class Place:
    """Where a plan lies: how many-fold the error on every private parameter is at least (of secrets, how surely their
    changes are seen at most), and the public one is.
    """

    private: float
    public: float


def place_of(plan: Plan, curve: Frontier | None = None) -> Place:
    """The place of a plan: its least protected private parameter counts."""
    public = float(np.sqrt(1 - plan.utility))
    if curve is None or not curve.seen:
        return Place(float(np.sqrt(1 + min(plan.privacy.values()))), public)
    found = {name: plan.detectability[name].longest.sent for name in curve.seen}
    return Place(max(each.reached(found[name]) for name, each in curve.seen.items()), public)


def on_axis(curve: Frontier, asked: float) -> float:
    """What was asked, as it is drawn: a growth p makes an error √(1 + p) times as large."""
    return asked if curve.seen else float(np.sqrt(1 + asked))


def in_words(curve: Frontier, private: float) -> str:
    """A place on the private axis, in words."""
    return number(private) if curve.seen else fold(private)


def _points(curve: Frontier) -> list[Place]:
    return [
        Place(on_axis(curve, point.asked), float(np.sqrt(1 - point.utility)))
        for point in sorted(curve.rows, key=lambda point: point.asked, reverse=bool(curve.seen))
        if point.plan is not None
    ]


class _Axis:
    """From errors, so many-fold, to points of the picture."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self.high = max([1.0, *(value for value in values if np.isfinite(value))])
        self.high = self.high * 1.04 if self.high > 1.05 else 1.05
        self.logarithmic = self.high > _LOGARITHMIC
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        value = min(value, self.high)
        part = np.log(value) / np.log(self.high) if self.logarithmic else (value - 1) / (self.high - 1)
        return float(self.start + part * (self.end - self.start))

    def words(self, tick: float) -> str:
        if tick < 1 + 1e-9:
            return "as raw"
        return f"+{100 * (tick - 1):.3g} %" if self.high < 1.5 else f"×{tick:.4g}"

    def ticks(self) -> list[float]:
        if not self.logarithmic:
            return nice_ticks(1.0, self.high)
        decades = np.arange(0, int(np.log10(self.high)) + 1)
        each = (1, 2, 5) if self.high < 2000 else (1,)
        return [float(k * 10.0**d) for d in decades for k in each if 1 <= k * 10.0**d <= self.high]


class _SeenAxis:
    """From how surely changes are seen to points of the picture: further right is guessing."""

    def __init__(self, values: Sequence[float], least: float, start: float, end: float) -> None:
        self.most, self.least = max([*values, least + 0.01]), least
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        return self.start + (self.most - value) / (self.most - self.least) * (self.end - self.start)

    def words(self, tick: float) -> str:
        return number(tick)

    def ticks(self) -> list[float]:
        return sorted(nice_ticks(self.least, self.most), reverse=True)


def frontier_picture(plan: Plan | None, curve: Frontier) -> Html:
    """The least public error for each private one; this plan, if any, a diamond, the free plan a circle."""
    points, mine = _points(curve), None if plan is None else place_of(plan, curve)
    free, limit = on_axis(curve, curve.ceiling), on_axis(curve, curve.limit)
    own = [] if mine is None else [mine]
    private = [*(p.private for p in (*points, *own)), free]
    x: _Axis | _SeenAxis = (
        _SeenAxis(private, limit, _LEFT, _WIDTH - _RIGHT)
        if curve.seen
        else _Axis([*private, limit], _LEFT, _WIDTH - _RIGHT)
    )
    y = _Axis([p.public for p in (*points, *own)], _HEIGHT - _BOTTOM, _TOP)
    marks = [*_free_region(x, free), *_grid(x, y, curve.measure)]
    if np.isfinite(limit):
        marks += [line(x(limit), _TOP, x(limit), _HEIGHT - _BOTTOM, "limit")]
        marks += [label(x(limit) - 5, _TOP + 10, "nothing sent", anchor="end", class_="small")]
    paid = [p for p in points if x(p.private) > x(free)]
    way = [
        Place(max(private) if curve.seen else 1.0, 1.0),
        *([Place(free, 1.0)] if np.isfinite(free) else []),
        *paid,
    ]
    marks.append(path([(x(p.private), y(p.public)) for p in way], "curve"))
    marks += [element("circle", cx=x(p.private), cy=y(p.public), r=2.5, class_="dot") for p in paid]
    spots = [(each, "this plan", "sent") for each in own]
    if (
        mine
        and np.isfinite(free)
        and np.hypot(x(mine.private) - x(free), y(mine.public) - y(1.0)) < _ONE_SPOT
    ):
        spots = [(mine, "this plan, the free one", "sent")]
    elif np.isfinite(free):
        spots.insert(0, (Place(free, 1.0), "free plan", "raw"))
    marks += _spots(spots, x, y)
    return picture(_title(mine, free, limit, curve), _WIDTH, _HEIGHT, marks)


def _free_region(x: _Axis | _SeenAxis, free: float) -> list[Html]:
    """All that costs nothing, as one region: points on it would be one plan, drawn again and again."""
    width = x(free) - _LEFT
    if width < 1:
        return []
    region = element("rect", x=_LEFT, y=_TOP, width=width, height=_HEIGHT - _BOTTOM - _TOP, class_="free")
    words = label(_LEFT + width / 2, _TOP + 16, "free", anchor="middle", class_="small")
    return [region, words] if width > width_of("free") else [region]


def _grid(x: _Axis | _SeenAxis, y: _Axis, measure: str) -> list[Html]:
    bottom = _HEIGHT - _BOTTOM
    marks = [label(4, 14, "error on public parameters, compared with raw readings", class_="small")]
    for tick in y.ticks():
        marks += [line(_LEFT, y(tick), _WIDTH - _RIGHT, y(tick), "grid")]
        marks += [label(_LEFT - 7, y(tick) + 4, y.words(tick), anchor="end", class_="small")]
    end = -np.inf
    for tick in x.ticks():
        words = x.words(tick)
        if x(tick) - width_of(words) / 2 < end:
            continue
        end = x(tick) + width_of(words) / 2 + 4
        marks += [line(x(tick), bottom, x(tick), bottom + 5, "axis")]
        marks += [label(x(tick), bottom + 19, words, anchor="middle", class_="small")]
    marks.append(line(_LEFT, bottom, _WIDTH - _RIGHT, bottom, "axis"))
    words = f"{measure}, at most" if measure else "error on every private parameter, at least"
    return [
        *marks,
        label((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 12, words, anchor="middle", class_="small"),
    ]


def _spots(spots: list[tuple[Place, str, str]], x: _Axis | _SeenAxis, y: _Axis) -> list[Html]:
    """Marks with their names, one above the other where they would meet."""
    marks = []
    taken: list[tuple[float, float]] = []
    for place, name, kind in spots:
        at, height = x(place.private), y(place.public)
        if kind == "sent":
            marks.append(diamond(at, height, 8.0))
        else:
            marks.append(element("circle", cx=at, cy=height, r=7, class_="mark raw"))
        above = height - 14
        while any(abs(above - other) < 16 and abs(at - where) < 90 for where, other in taken):
            above -= 16
        taken.append((at, above))
        half = width_of(name) / 2
        middle = min(max(at, _LEFT + half), _WIDTH - _RIGHT - half)
        marks.append(
            label(middle, above, name, anchor="middle", class_="strong halo" if kind == "sent" else "halo")
        )
    return marks


def _title(mine: Place | None, free: float, limit: float, curve: Frontier) -> str:
    free_words = (
        "Privacy is free without bound" if np.isinf(free) else f"Free up to private errors {fold(free)}"
    )
    if curve.seen:
        free_words = f"Free: {curve.measure} {number(free)}"
    most = "" if np.isinf(limit) else f"; {in_words(curve, limit)} when nothing is sent"
    against = curve.measure or "private error, both beside raw readings"
    words = f"Public error against {against}. {free_words}{most}."
    if mine is None:
        return words
    return f"{words} This plan: private {in_words(curve, mine.private)}, public {fold(mine.public)}."


def frontier_table(plan: Plan, curve: Frontier) -> Html:
    """The points of the picture, and the two plans."""
    mine = place_of(plan, curve)
    rows = [(in_words(curve, p.private), fold(p.public), "on the frontier") for p in _points(curve)]
    rows.append((in_words(curve, mine.private), fold(mine.public), "this plan"))
    if np.isfinite(curve.ceiling):
        rows.append((in_words(curve, on_axis(curve, curve.ceiling)), fold(1.0), "free plan"))
    first = f"{curve.measure}, at most" if curve.seen else "error on every private parameter, at least"
    columns = (first, "error on public parameters", "")
    return table("How large errors are, compared with those from raw readings", columns, rows, numeric=(1,))
