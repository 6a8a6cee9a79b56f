"""The frame of every picture: inline SVG with a title, a label, and the same as a table one key away."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from veilnet.report.html import Html, details, element, join

__all__ = ["diamond", "figure", "label", "line", "nice_ticks", "path", "picture", "width_of"]


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


def label(x: float, y: float, words: Any, *, anchor: str = "start", class_: str | None = None) -> Html:
    """A text that begins, ends or is centred at x."""
    return element(
        "text",
        words,
        x=float(x),
        y=float(y),
        text_anchor=None if anchor == "start" else anchor,
        class_=class_,
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
