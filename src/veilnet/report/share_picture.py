"""Where the centre's knowledge of one parameter comes from: a bar for each agent."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from veilnet._core.words import percent
from veilnet.report.html import Html, element, shown, table
from veilnet.report.svg import label, line, picture
from veilnet.report.words import fold

__all__ = ["BEFOREHAND", "share_picture", "share_table"]

BEFOREHAND = "known beforehand"
_WIDTH, _LEFT, _RIGHT, _ROW = 340.0, 128.0, 84.0, 24.0
_CHARACTERS = 18


def share_picture(parameter: str, parts: Mapping[str, float], *, of_silence: bool) -> Html:
    """A bar for each agent: its part of what is known, or how far the error grows when it keeps silent.

    parts: by agent, of one; or how many-fold the error is. What is known beforehand is hollow.
    """
    texts = {name: (fold if of_silence else percent)(part) for name, part in parts.items()}
    beyond = {name: part - 1 if of_silence else part for name, part in parts.items()}
    most = max([1e-3 if of_silence else 1e-9, *(abs(each) for each in beyond.values() if np.isfinite(each))])
    lengths = {name: min(each, 1.1 * most) for name, each in beyond.items()}
    longest = max([most, *lengths.values()])
    title = f"{_caption(parameter, of_silence)}: " + _listed(texts)
    return _bars(title, lengths, texts, most=longest, key=parameter)


def share_table(parameter: str, parts: Mapping[str, float], *, of_silence: bool) -> Html:
    """The same as a table."""
    rows = [(shown(name), (fold if of_silence else percent)(part)) for name, part in parts.items()]
    columns = ("if this agent kept silent", "error") if of_silence else ("from", "part")
    return table(_caption(parameter, of_silence), columns, rows, numeric=(1,))


def _caption(parameter: str, of_silence: bool) -> str:
    if of_silence:
        return f"Error on {shown(parameter)} if one agent kept silent"
    return f"Where knowledge of {shown(parameter)} comes from"


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
