"""Where the centre's knowledge of one parameter comes from: a bar for each agent."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from veilnet._core.words import percent
from veilnet.report.html import Html, element, shown, table
from veilnet.report.svg import label, line, picture
from veilnet.report.words import fold

__all__ = ["BEFOREHAND", "share_picture", "share_table", "silence_picture", "silence_table"]

BEFOREHAND = "known beforehand"
_WIDTH, _LEFT, _RIGHT, _ROW = 340.0, 128.0, 84.0, 24.0
_CHARACTERS = 18


def share_picture(parameter: str, parts: Mapping[str, float]) -> Html:
    """Parts that add up to one, each as a bar; that known beforehand is hollow."""
    texts = {name: percent(part) for name, part in parts.items()}
    title = f"Where knowledge of {shown(parameter)} comes from: " + _listed(texts)
    return _bars(title, parts, texts, most=max([1e-9, *map(abs, parts.values())]), key=parameter)


def silence_picture(parameter: str, growth: Mapping[str, float]) -> Html:
    """How far the error grows when one agent of a stream keeps silent."""
    texts = {name: fold(each) for name, each in growth.items()}
    finite = [each - 1 for each in growth.values() if np.isfinite(each)]
    most = max([1e-3, *finite])
    lengths = {name: min(each - 1, 1.1 * most) for name, each in growth.items()}
    title = f"Error on {shown(parameter)} if one agent kept silent: " + _listed(texts)
    return _bars(title, lengths, texts, most=max([most, *lengths.values()]), key=parameter)


def _bars(
    title: str, lengths: Mapping[str, float], texts: Mapping[str, str], *, most: float, key: str
) -> Html:
    reach = _WIDTH - _LEFT - _RIGHT
    marks = []
    for place, (name, length) in enumerate(lengths.items()):
        y = _ROW * (place + 0.5) + 2
        end = _LEFT + reach * min(abs(length) / most, 1.0)
        kind = "minus" if name == BEFOREHAND or length < 0 else "plus"
        marks.append(label(_LEFT - 8, y + 4.5, shown(name, most=_CHARACTERS), anchor="end"))
        if end - _LEFT > 0.5:
            marks.append(element("rect", x=_LEFT + 1, y=y - 6, width=end - _LEFT, height=12, class_=kind))
        marks.append(label(end + 8, y + 4.5, texts[name]))
    height = _ROW * len(lengths) + 4
    return picture(title, _WIDTH, height, [line(_LEFT, 0, _LEFT, height, "axis"), *marks], key=key)


def _listed(texts: Mapping[str, str]) -> str:
    return ", ".join(f"{shown(name)} {text}" for name, text in texts.items()) + "."


def share_table(parameter: str, parts: Mapping[str, float]) -> Html:
    """The parts in percent."""
    rows = [(shown(name), percent(part)) for name, part in parts.items()]
    return table(f"Where knowledge of {shown(parameter)} comes from", ("from", "part"), rows, numeric=(1,))


def silence_table(parameter: str, growth: Mapping[str, float]) -> Html:
    """The errors, beside what they are with every agent."""
    rows = [(shown(name), fold(each)) for name, each in growth.items()]
    columns = ("if this agent kept silent", "error")
    return table(f"Error on {shown(parameter)}", columns, rows, numeric=(1,))
