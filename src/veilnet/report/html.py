"""HTML as small functions: whatever is not HTML already is escaped, so that no name can become markup."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_VOID = frozenset({"br", "col", "meta", "link", "hr"})
_LONGEST = 60  # characters of a name that are shown
_TAIL = 12  # of them from its end, where long names differ most often
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


class Html(str):
    """Text that is HTML already; every other text is escaped when it is put into an element."""

    __slots__ = ()


def element(tag: str, *children: Any, **attributes: Any) -> Html:
    """One element. ``class_`` is class, underscores are hyphens, an attribute that is None or False is left out."""
    opening = "".join([f"<{tag}", *map(_attribute, attributes, attributes.values()), ">"])
    if tag in _VOID:
        return Html(opening)
    return Html(f"{opening}{join(children)}</{tag}>")


def join(parts: Iterable[Any]) -> Html:
    """Parts one after the other; None is nothing."""
    return Html("".join(_escaped(part) for part in parts if part is not None))


def paragraph(*children: Any, **attributes: Any) -> Html:
    """One paragraph."""
    return element("p", *children, **attributes)


def details(summary: Any, *children: Any, **attributes: Any) -> Html:
    """What is one key away: folded until it is asked for."""
    return element("details", element("summary", summary), *children, **attributes)


@dataclass(frozen=True)
class Cell:
    """What a table shows in words, and the number by which it is sorted where scripts run."""

    text: str
    value: float


def table(
    caption: Any,
    columns: Sequence[Any],
    rows: Iterable[Sequence[Any]],
    *,
    numeric: Iterable[int] = (),
    **attributes: Any,
) -> Html:
    """A table whose first column names its rows.

    caption: what it shows. columns: the headings. rows: text, HTML or :class:`Cell`.
    numeric: places of columns that stand at the right.
    """
    right = frozenset(numeric)
    classes = ["number" if place in right else None for place in range(len(columns))]
    head = [
        element("th", heading, scope="col", class_=kind)
        for heading, kind in zip(columns, classes, strict=True)
    ]
    body = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(_td(cell, kind) for cell, kind in zip(row[1:], classes[1:], strict=True)),
        )
        for row in rows
    ]
    # A wide table scrolls by itself: by touch, and by keys once it has the focus.
    label = f"Table: {caption}" if not isinstance(caption, Html) else "Table"
    return element(
        "div",
        element(
            "table",
            # On a phone the caption stays in sight while the table scrolls beneath it.
            element("caption", element("span", caption)),
            element("thead", element("tr", *head)),
            element("tbody", *body),
            **attributes,
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=label,
    )


def _td(cell: Any, kind: str | None) -> Html:
    if not isinstance(cell, Cell):
        return element("td", cell, class_=kind)
    # An infinity as scripts spell it.
    value = f"{cell.value:.6g}".replace("inf", "Infinity")
    return element("td", cell.text, class_=kind, data_value=value)


def shown(name: str, *, most: int = 0) -> str:
    """A name as it may be shown: characters nobody sees are marked, and a long name is cut in the middle.

    most: cut it at its end after so many characters, where there is little room.
    """
    clean = readable(name)
    if most and len(clean) > most:
        return f"{clean[: most - 1]}…"
    if len(clean) <= _LONGEST:
        return clean
    return f"{clean[: _LONGEST - _TAIL]}…{clean[-_TAIL:]} ({len(clean):,} characters)"


def readable(text: str) -> str:
    """A text with every character that nobody sees marked."""
    return "".join("\N{REPLACEMENT CHARACTER}" if _unseen(each) else each for each in text)


def _unseen(character: str) -> bool:
    return unicodedata.category(character) in _UNSEEN


def _attribute(name: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    plain = name.rstrip("_").replace("_", "-")
    return f" {plain}" if value is True else f' {plain}="{html.escape(_number(value), quote=True)}"'


def _escaped(part: Any) -> str:
    return part if isinstance(part, Html) else html.escape(str(part), quote=True)


def _number(value: Any) -> str:
    """Attributes of pictures need no more than a hundredth of a point."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
