"""What ``veilnet audit --json`` wrote, read back to be shown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from veilnet._core.errors import InvalidNetwork, InvalidRequest
from veilnet.io._formats import check_format
from veilnet.io._json import parse, with_infinities
from veilnet.io._reading import read_text

FORMAT = "veilnet-audit/1"
_WORDS = ("section", "what", "verdict")
_FIGURES = ("promised", "found", "interval", "guessing", "raw", "sent")


def load_audit(path: Path) -> dict[str, Any]:
    """The content of the file, its rows checked for what every row has."""
    try:
        document = parse(read_text(path))
        check_format(document.get("format"), FORMAT, InvalidRequest)
        if "attacks" in document and all(_is_attack(each) for each in document["attacks"]):
            return dict(document)
        rows = document["rows"]
        if not isinstance(rows, list) or not all(_is_row(row) for row in rows):
            raise ValueError("rows")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InvalidNetwork):  # the file cannot be read at all
            raise
        found = str(error) if isinstance(error, InvalidRequest) else "found something else"
        raise InvalidRequest(
            f"{path}: expected what 'veilnet audit plan/ --json' writes; run the audit again, or leave the file out "
            f"({found})"
        ) from error
    return {**document, "rows": [_with_figures(row) for row in rows]}


def _with_figures(row: dict[str, Any]) -> dict[str, Any]:
    """The row, infinities in its figures as numbers; a name may well be the word "inf"."""
    return row | {name: with_infinities(row[name]) for name in _FIGURES if name in row}


def _is_attack(row: Any) -> bool:
    """Whether a row of an audit of symbols has what each has."""
    words, figures = ("private", "attacker"), ("rows", "right", "error", "promised", "ok")
    return (
        isinstance(row, dict)
        and all(isinstance(row.get(name), str) for name in words)
        and all(name in row and isinstance(row[name], int | float | None) for name in figures)
        and (row["right"] is None) != (row["error"] is None)
    )


def _is_row(row: Any) -> bool:
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in _WORDS):
        return False
    shown = row.get("shown") or {}
    in_words = isinstance(shown, dict) and all(isinstance(text, str) for text in shown.values())
    return in_words and all(_is_figure(row.get(name)) for name in _FIGURES)


def _is_figure(value: Any) -> bool:
    """Nothing, a word, a number or a list of these."""
    if isinstance(value, list):
        return all(not isinstance(each, list) and _is_figure(each) for each in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) <= sys.float_info.max
    return value is None or isinstance(value, str | float)
