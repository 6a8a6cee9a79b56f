"""How lines of messages are written and read in tests."""

from __future__ import annotations

import csv
import json
from pathlib import Path

GOOD = "20.5,450,6.1,120"
"""A credible row of the kitchen's readings."""


def mark_of(folder: Path) -> str:
    """How messages of a plan name it."""
    return str(json.loads((folder / "plan.json").read_text())["plan"][:8])


def rows_of(text: str) -> list[int]:
    """The numbers of the rows that were sent."""
    return [int(line.get("row") or line["counted"]) for line in csv.DictReader(text.splitlines())]
