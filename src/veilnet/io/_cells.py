"""Texts in CSV files that a spreadsheet would run: written so that it shows them."""

from __future__ import annotations

__all__ = ["as_cell"]

_RUN = ("=", "+", "-", "@", "\t", "\r", "'")


def as_cell(text: str) -> str:
    """A text as a cell: an apostrophe before one that begins as a formula, or with an apostrophe; numbers stay."""
    if not text.startswith(_RUN):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
