"""A small log for symbols: three activities, seen by both agents, and two persons, seen as well."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

AGENTS = {"hall": ["a", "b"], "attic": ["c", "d"]}


def symbol_table(rows: int = 600, seed: int = 1) -> dict[str, Any]:
    """The columns; ``heat`` and ``weight`` are the same as numbers, three rows are a ``session``."""
    rng = np.random.default_rng(seed)
    activity, person = np.arange(rows) % 3, np.arange(rows) // 3 % 2
    made: dict[str, Any] = {"activity": activity.tolist(), "person": [("anna", "ben")[k] for k in person]}
    for one, other in AGENTS.values():
        made[one] = activity + 0.35 * rng.normal(size=rows)
        made[other] = 2.0 * person + 0.5 * rng.normal(size=rows)
    made["heat"] = activity + 0.3 * rng.normal(size=rows)
    made["weight"] = 10.0 * person + 2 * rng.normal(size=rows)
    made["session"] = np.arange(rows) // 3
    return made


def fast_table(rows: int = 400, seed: int = 1) -> dict[str, Any]:
    """The same three rows a second: each row as three successive ones, a little apart."""
    rng = np.random.default_rng(seed)
    slow = symbol_table(rows, seed)
    fast = {name: np.repeat(np.asarray(each), 3) for name, each in slow.items()}
    read = [name for names in AGENTS.values() for name in names]
    return fast | {name: fast[name] + 0.05 * rng.normal(size=3 * rows) for name in read}


def write_symbol_table(path: Path, table: dict[str, Any], *columns: str) -> None:
    """Some columns, or all, as a CSV with rows numbered."""
    named = columns or tuple(table)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["row", *named])
        writer.writerows(
            [k + 1, *line] for k, line in enumerate(zip(*(table[name] for name in named), strict=True))
        )
