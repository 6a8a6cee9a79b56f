"""Agents that forget what they released: for tests of anything else, which give the same readings again and again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def forget(arguments: Iterable[object]) -> None:
    """Remove what ``sanitize`` keeps beside the agents' files among some arguments."""
    for each in map(str, arguments):
        if each.endswith(".json"):
            Path(each).with_suffix(".released").unlink(missing_ok=True)
