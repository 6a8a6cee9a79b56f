"""Figures on one scale that begins at zero: raw, sent, and from the prior only."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from veilnet._core.words import alike, plus_minus
from veilnet.bounds.typical_errors import TypicalError
from veilnet.report.html import Html, element, shown
from veilnet.report.svg import label, line, mark, picture, width_of

_WIDTH = 340.0
_ROW = 28.0
_LEFT = 120.0
_LEAST_REACH = 70.0
_UNIT = 14  # characters of a unit that are shown beside a bar
_KINDS = {"raw": "raw", "promised": "raw", "prior only": "guess", "guessing": "guess"}


def three_errors(error: TypicalError) -> dict[str, float]:
    """What is compared, in the order it is shown."""
    sent = error.raw if error.sent is None else error.sent
    return {"raw": error.raw, "sent": sent, "prior only": error.guessing}


def in_words(error: TypicalError, *, unit: str | None = None) -> dict[str, str]:
    """The three errors as text, with the digits it takes to tell them apart."""
    values = three_errors(error)
    words = alike(values, shown(error.unit) if unit is None else unit)
    return {name: words[name] if np.isfinite(value) else "without bound" for name, value in values.items()}


def error_picture(error: TypicalError, *, measured: float | None = None) -> Html:
    """The three errors on one parameter; where an attack measured another than was promised, that too."""
    unit = shown(error.unit, most=_UNIT)
    words, values = in_words(error, unit=unit), three_errors(error)
    if measured is not None:
        words |= {"promised": words["sent"], "found": plus_minus(measured, unit)}
        values |= {"promised": values["sent"], "found": measured}
        order = ("raw", "promised", "found", "prior only")
        words, values = {each: words[each] for each in order}, {each: values[each] for each in order}
    title = f"Error on {shown(error.name)}: " + ", ".join(f"{name} {text}" for name, text in words.items())
    return stems_picture(title.replace("from merely", "when merely"), values, words, key=error.private)


def stems_picture(
    title: str, values: Mapping[str, float], words: Mapping[str, str], *, key: object = ""
) -> Html:
    """A stem for each figure, by its name; one without end where nothing bounds it. ``words`` are the figures."""
    finite = [value for value in values.values() if np.isfinite(value)]
    longest = max(finite, default=1.0) * (1.0 if len(finite) == len(values) else 1.25)
    widest = max(width_of(text, 13.5) for text in words.values())
    reach = max(_LEAST_REACH, _WIDTH - _LEFT - 14 - widest)
    marks = [line(_LEFT, 4, _LEFT, len(values) * _ROW, "axis")]
    for place, (name, value) in enumerate(values.items()):
        y = _ROW * (place + 0.5) + 2
        end = _LEFT + (reach * max(value, 0.0) / (longest or 1.0) if np.isfinite(value) else reach)
        kind = _KINDS.get(name, "sent")
        marks += [label(_LEFT - 8, y + 4.5, name, anchor="end", class_="strong" if kind == "sent" else None)]
        marks += [
            line(_LEFT, y, end, y, f"stem {kind}"),
            mark(kind, end, y) if np.isfinite(value) else _without_end(kind, end, y),
        ]
        marks += [label(end + 12, y + 4.5, words[name], class_="strong" if kind == "sent" else None)]
    return picture(title, _WIDTH, len(values) * _ROW + 6, marks, key=key)


def _without_end(kind: str, x: float, y: float) -> Html:
    """The arrow of an error that nothing bounds."""
    corners = f"M{x - 8:.1f} {y - 5:.1f}L{x:.1f} {y:.1f}L{x - 8:.1f} {y + 5:.1f}"
    return element("path", d=corners, class_=f"stem {kind}")
