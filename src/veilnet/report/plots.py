"""Single pictures as files, drawn as the report draws them: what ``--plot`` writes.

Each is one SVG with the report's colours inside, light and dark. Pictures stand below one another, each under a line
that says what it shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from veilnet._core.types import Array
from veilnet.auditing.row import Row
from veilnet.bounds.typical_errors import TypicalError
from veilnet.designs.frontiers import Frontier
from veilnet.report.audit_picture import attack_height, attack_picture, attacks_on
from veilnet.report.error_picture import error_picture
from veilnet.report.frontier_picture import frontier_picture
from veilnet.report.html import Html, element, join, shown
from veilnet.report.svg import Frame, label, line, path, picture

_WIDTH, _HEAD = 560.0, 26.0
_DOTS = 400  # points of a scatter: more are not seen apart
_REACH = 4.0  # noise deviations up and down
_MOST = 24  # pictures of one file


def errors_plot(errors: Iterable[TypicalError]) -> str:
    """Raw, sent and prior-only standard errors, a picture for each parameter."""
    kinds = {True: "private", False: "public"}
    return _page(
        [(f"{shown(e.name)} ({kinds[e.private]}), standard error", error_picture(e), 90.0) for e in errors]
    )


def frontier_plot(curve: Frontier) -> str:
    """The public standard error against the private one."""
    return _page([("Least public standard error for each private one", frontier_picture(None, curve), 300.0)])


def residuals_plot(residuals: Mapping[str, tuple[Array, Array]]) -> str:
    """Residuals of each reading in deviations of its noise, against the fitted value: (fitted, residual)."""
    return _page(
        [
            (f"{shown(name)}: residual / noise", _scatter(name, *each), 200.0)
            for name, each in residuals.items()
        ]
    )


def audit_plot(rows: Sequence[Row]) -> str:
    """ROC curves of parameters with classes; guess, raw, promised and sent errors of the others."""
    pictures: list[tuple[str, Html, float]] = []
    for row in rows:
        curves = row.figures.get("roc")
        if isinstance(curves, Mapping):
            pictures.append((shown(row.what), _roc(row.what, curves), 240.0))
    for name, some in attacks_on(rows).items():
        heading = f"Attackers' standard errors on {shown(name)}, as parts of guessing"
        pictures.append((heading, attack_picture(name, some), attack_height(some)))
    return _page(pictures or [("No attacker was run: nothing to draw", Html(""), 4.0)])


def _page(pictures: Sequence[tuple[str, Html, float]]) -> str:
    """Pictures (heading, picture, height) below one another, as one file."""
    css = (files("veilnet.report") / "page.css").read_text(encoding="utf-8")
    marks, y = [], 10.0
    for heading, drawn, height in pictures[:_MOST]:
        marks.append(
            element("svg", label(4, 16, heading, class_="strong"), x=0.0, y=y, width=_WIDTH, height=_HEAD)
        )
        marks.append(element("svg", drawn, x=0.0, y=y + _HEAD, width=_WIDTH, height=height))
        y += _HEAD + height + 14
    if len(pictures) > _MOST:
        words = f"{len(pictures) - _MOST} more are left out"
        marks.append(
            element("svg", label(4, 16, words, class_="small"), x=0.0, y=y, width=_WIDTH, height=_HEAD)
        )
        y += _HEAD
    background = element("rect", width=_WIDTH, height=y, style="fill:var(--paper)")
    return str(
        element(
            "svg", element("style", Html(_rules(css))), background, join(marks), xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {_WIDTH:.0f} {y:.0f}", width=_WIDTH, height=y, class_="vn",
        )
    )  # fmt: skip


def _rules(css: str) -> str:
    """Of the page's rules those for pictures: colours, and everything inside an SVG."""
    start = css[: css.index("body.vn")]
    inside = [each for each in css.splitlines() if each.startswith((".vn svg text", ".vn svg ."))]
    return "\n".join([start, *inside])


def _scatter(name: str, fitted: Array, residual: Array) -> Html:
    step = max(1, len(fitted) // _DOTS)
    fitted, residual = fitted[::step], np.clip(residual[::step], -_REACH, _REACH)
    frame = Frame((float(np.min(fitted)), float(np.max(fitted))), (-_REACH, _REACH), size=(_WIDTH, 200.0))
    marks = [*frame.levels(), *frame.scale()]
    marks += [
        element("circle", cx=frame.x(float(a)), cy=frame.y(float(b)), r=1.6, class_="dot")
        for a, b in zip(fitted, residual, strict=True)
    ]
    return picture(f"Residuals of {shown(name)} against its fitted values", _WIDTH, 200.0, marks)


def _roc(what: str, curves: Mapping[str, Any]) -> Html:
    """Hits against false alarms: from raw readings dashed, from what is sent solid; the diagonal is guessing."""
    frame = Frame((0.0, 1.0), (0.0, 1.0), size=(320.0, 240.0))
    marks = [*frame.levels(), *frame.scale(), line(*frame.at(0.0, 0.0), *frame.at(1.0, 1.0), "limit")]
    for kind, class_ in (("raw", "from-raw"), ("sent", "from-sent")):
        marks.append(path([frame.at(float(a), float(b)) for a, b in curves[kind]], class_))
    marks.append(
        label(frame.end - 4, 200, "false alarms; solid: sent, dashed: raw", anchor="end", class_="small")
    )
    return picture(f"ROC curves: {shown(what)}", 320.0, 240.0, marks)
