"""The frame of every picture: inline SVG with a title, a label, and the same as a table one key away."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from veilnet.report.html import Html, details, element, join

_DOT = 2.0  # side of the smallest square: what is there at all is seen
_LARGEST = 1.25  # times as large as drawn, at most: letters then are as large as those around the picture


def picture(title: str, width: float, height: float, marks: Sequence[Html], *, key: object = "") -> Html:
    """An image that says what it shows.

    title: what a screen reader says in its place. key: tells apart pictures that are alike.
    """
    content = join(marks)
    name = "t" + hashlib.sha256(f"{key}\0{title}\0{content}".encode()).hexdigest()[:12]
    return element(
        "svg",
        element("title", title, id=name),
        content,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        role="img",
        aria_labelledby=name,
        style=f"max-width:{_LARGEST * width:.0f}px",
    )


def figure(image: Html, caption: Any, same_as_table: Html, *, class_: str | None = None) -> Html:
    """A picture with what it means below, and its table folded."""
    return element(
        "figure",
        image,
        element("figcaption", caption),
        details("The same as a table", same_as_table),
        class_=class_,
    )


def label(
    x: float, y: float, words: Any, *, anchor: str = "start", class_: str | None = None, slant: float = 0.0
) -> Html:
    """A text that begins, ends or is centred at x, turned by so many degrees."""
    return element(
        "text",
        words,
        x=float(x),
        y=float(y),
        text_anchor=None if anchor == "start" else anchor,
        class_=class_,
        transform=f"rotate({slant:g} {x:.1f} {y:.1f})" if slant else None,
    )


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    """A straight line."""
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def path(points: Sequence[tuple[float, float]], class_: str) -> Html:
    """A line through points."""
    return element("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), class_=class_)


def diamond(x: float, y: float, size: float) -> Html:
    """The mark of what is sent, in every picture."""
    corners = ((x - size, y), (x, y - size), (x + size, y), (x, y + size))
    return element("polygon", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in corners), class_="mark sent")


def mark(kind: str, x: float, y: float, size: float = 6.0) -> Html:
    """A shape of its own for what is ``sent``, ``raw``, ``guess`` or ``promised``: colours never carry it alone."""
    if kind == "sent":
        return diamond(x, y, size)
    if kind == "raw":
        return element("circle", cx=x, cy=y, r=size - 1, class_="mark raw")
    if kind == "guess":
        return element("rect", x=x - 2, y=y - size, width=4, height=2 * size, class_="mark guess")
    corners = ((x - size, y - size), (x + size, y - size), (x, y + size))
    return element("polygon", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in corners), class_="mark")


def square(x: float, y: float, weight: float, largest: float) -> Html:
    """A square around (x, y) whose area is as large as the weight, of 1 at most; hollow where that is negative."""
    side = max(_DOT, largest * float(np.sqrt(abs(weight))))
    inset = 0.0 if weight > 0 else min(1.0, side / 4)  # the outline stays inside the square
    return element(
        "rect", x=x - side / 2 + inset, y=y - side / 2 + inset, width=side - 2 * inset, height=side - 2 * inset,
        class_="plus" if weight > 0 else "minus",
    )  # fmt: skip


class Frame:
    """Where two numbers lie in a picture: (low, high) of those that go across, and of those that go up."""

    def __init__(
        self,
        across: tuple[float, float],
        up: tuple[float, float],
        *,
        size: tuple[float, float] = (440.0, 240.0),
        left: float = 46.0,
        right: float = 10.0,
        top: float = 16.0,
        bottom: float = 34.0,
    ) -> None:
        (self.width, self.height), self.left, self.end = size, left, size[0] - right
        self._across, self._up, self._top, self._bottom = across, up, top, bottom

    def x(self, value: float) -> float:
        """From left to right."""
        low, high = self._across
        return float(self.left + (self.end - self.left) * (value - low) / ((high - low) or 1.0))

    def y(self, value: float) -> float:
        """From the bottom up."""
        low, high = self._up
        return float(
            self._top + (self.height - self._top - self._bottom) * (high - value) / ((high - low) or 1.0)
        )

    def at(self, across: float, up: float) -> tuple[float, float]:
        """Both."""
        return self.x(across), self.y(up)

    def levels(self, count: int = 4) -> list[Html]:
        """Lines across at round numbers, each with its number at the left."""
        marks = []
        for tick in nice_ticks(*self._up, count):
            y = self.y(tick)
            marks.append(line(self.left, y, self.end, y, "grid"))
            marks.append(label(self.left - 6, y + 4, f"{tick:.4g}", anchor="end", class_="small"))
        return marks

    def scale(self, ticks: Sequence[tuple[float, str]] = ()) -> list[Html]:
        """Numbers below: round ones, or (where, words)."""
        given = ticks or [(tick, f"{tick:.4g}") for tick in nice_ticks(*self._across)]
        below = self.height - self._bottom + 18
        return [label(self.x(at), below, words, anchor="middle", class_="small") for at, words in given]


def width_of(words: str, size: float = 13.0) -> float:
    """About how wide a text is: enough to keep texts apart, whatever the font."""
    return 0.56 * size * len(words)


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers from low to high, about so many."""
    if not high > low:
        return [low]
    raw = (high - low) / max(count, 1)
    unit = 10.0 ** np.floor(np.log10(raw))
    step = next(unit * each for each in (1.0, 2.0, 2.5, 5.0, 10.0) if unit * each >= raw)
    first = np.ceil(low / step - 1e-9)
    return [float(step * k) for k in range(int(first), int(np.floor(high / step + 1e-9)) + 1)]
