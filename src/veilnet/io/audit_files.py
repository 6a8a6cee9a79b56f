"""What ``veilnet audit --json`` wrote, read back for whoever shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from veilnet._core.errors import InvalidRequest
from veilnet.io._json import parse, with_infinities
from veilnet.io._reading import read_text

__all__ = ["load_audit"]


def load_audit(path: Path) -> dict[str, Any]:
    """The content of the file, its rows checked for what every row has."""
    try:
        document = parse(read_text(path))
        rows = document["rows"]
        if not isinstance(rows, list) or not all(_is_row(row) for row in rows):
            raise ValueError("rows")
    except (ValueError, KeyError, TypeError) as error:
        if type(error).__module__.startswith("veilnet"):
            raise
        raise InvalidRequest(
            f"{path}: expected what 'veilnet audit plan/ --json' writes, found something else; run the audit again, "
            "or leave the file out"
        ) from error
    return {**document, "rows": with_infinities(rows)}


def _is_row(row: Any) -> bool:
    return isinstance(row, dict) and all(
        isinstance(row.get(name), str) for name in ("section", "what", "verdict")
    )
