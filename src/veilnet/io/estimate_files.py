"""Estimates as lines of text: CSV or JSON lines."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from typing import IO

import numpy as np

from veilnet.centre.estimates import Estimate
from veilnet.io.cells import as_cell
from veilnet.io.row_keys import ROW, RowKey
from veilnet.io.streams import Format

_AGENTS = ("missing", "contradicting")


def write_estimate_header(
    file: IO[bytes], format: Format, labels: Sequence[str], key: RowKey = ROW, *, calibrated: bool = False
) -> None:
    """The first line of a CSV of estimates; ``calibrated``: with a column for what lies outside what the fit saw."""
    if format == "csv":
        last = (*_AGENTS, "outside") if calibrated else _AGENTS
        file.write(
            csv_lines([[column_of(key), *labels, *(f"deviation of {label}" for label in labels), *last]])
        )


def write_estimates(
    file: IO[bytes],
    format: Format,
    rows: Sequence[int],
    estimate: Estimate,
    key: RowKey = ROW,
    *,
    counted: bool = False,
) -> None:
    """Append estimates to a binary file.

    CSV: the row or its time, the estimates, their standard deviations, who is missing and whose messages contradict
    the model, separated by semicolons, and where the network was fitted which estimates lie outside what was
    calibrated; cells of what is not estimable are empty. JSON: null instead. ``counted`` says
    how many are missing, and not who, where they may be thousands.
    """
    deviations = np.where(estimate.estimable, estimate.deviation, np.nan).tolist()
    labels = np.array(estimate.labels)
    outside = [";".join(labels[each]) for each in estimate.outside] if estimate.held_out else None
    entries = zip(
        rows, estimate.public.tolist(), deviations, estimate.missing, estimate.contradicting,
        [None] * len(rows) if outside is None else outside, strict=True,
    )  # fmt: skip
    if format == "csv":
        file.write(
            csv_lines(
                [key.text(row), *map(_cell, value), *map(_cell, deviation),
                 len(missing) if counted else ";".join(missing), ";".join(doubted), *([] if far is None else [far])]
                for row, value, deviation, missing, doubted, far in entries
            )
        )  # fmt: skip
        return
    for row, value, deviation, missing, doubted, far in entries:
        table = {
            column_of(key): json.loads(key.json(row)),
            "public": _named(estimate.labels, value),
            "deviation": _named(estimate.labels, deviation),
            "missing": len(missing) if counted else list(missing),
            "contradicting": list(doubted),
        } | ({} if far is None else {"outside": far.split(";") if far else []})
        file.write(f"{json.dumps(table, ensure_ascii=False)}\n".encode())


def column_of(key: RowKey) -> str:
    """The name of the first column, or key."""
    return "time" if key.is_time else "row"


def csv_lines(rows: Iterable[Sequence[str | int]]) -> bytes:
    """Rows of cells as lines of CSV; a text that a spreadsheet would run as a formula is quoted."""
    text = io.StringIO()
    cells = ([as_cell(each) if isinstance(each, str) else each for each in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(cells)
    return text.getvalue().encode()


def _cell(value: float) -> str:
    return repr(value) if math.isfinite(value) else ""


def _named(labels: Sequence[str], values: list[float]) -> dict[str, float | None]:
    return {
        label: value if math.isfinite(value) else None for label, value in zip(labels, values, strict=True)
    }
