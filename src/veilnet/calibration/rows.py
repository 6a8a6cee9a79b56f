"""The rows of a calibration table as a fit uses them: complete, in order of time, cut where time has gaps."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Literal

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidRequest
from veilnet._core.types import Array, Booleans, Integers
from veilnet._core.validation import unknown
from veilnet.calibration.roles import Roles
from veilnet.calibration.timeline import TimeReport, timeline
from veilnet.io.cells import column_of
from veilnet.io.row_keys import looks_like_times
from veilnet.io.sources import RowSource
from veilnet.io.tables import first_rows, read_columns

Missing = Literal["refuse", "drop"]
_LOOKED_AT = 20  # rows that tell whether a column looks like times


@dataclass(frozen=True, eq=False)
class Rows:
    """What a fit is made of.

    readings, parameters: (T, N) and (T, L), no value missing, in order of time where times are known.
    segments:   (T,) the run of neighbouring rows that each row belongs to.
    numbers:    (T,) which row of the table each one is, from 1.
    dropped:    how many rows of the table were left out for missing values.
    time:       what the times show, None where there were none.
    groups:     (T,) the group that each row belongs to, from 0; None where rows have none.
    notes:      how columns were read that were not plain numbers.
    """

    readings: Array
    parameters: Array
    segments: Integers
    numbers: Integers
    dropped: int
    time: TimeReport | None
    notes: tuple[str, ...] = ()
    groups: Integers | None = None

    def __len__(self) -> int:
        return len(self.readings)

    def take(self, kept: Booleans) -> Rows:
        """The rows of a mask; a row left out ends its segment, since its neighbours do not follow one another."""
        cuts = np.cumsum(~kept)
        changed = np.diff(self.segments[kept] + cuts[kept]) != 0
        segments = np.concatenate([[0], np.cumsum(changed)]) if np.any(kept) else np.zeros(0)
        groups = None if self.groups is None else np.unique(self.groups[kept], return_inverse=True)[1]
        rows = {name: getattr(self, name)[kept] for name in ("readings", "parameters", "numbers")}
        return replace(self, **rows, segments=segments.astype(np.intp), groups=groups)


def read_rows(table: Any, roles: Roles, missing: Missing, time: str | None, group: str | None = None) -> Rows:
    """Read a table; rows with missing values are refused or dropped, the others sorted by the column ``time``.

    group: the column whose values tell which rows belong together; these stand one after the other then.
    """
    for what, column in (("time", time), ("group", group)):
        if column is not None:
            _refuse_other_role(what, column, roles)
    notes: list[str] = []
    wanted = [*roles.parameters, *roles.readings]
    columns = read_columns(table, wanted, notes, time=time, readings=roles.readings)
    label = str(table) if isinstance(table, str | PathLike | RowSource) else "table"
    complete = _complete_rows(columns, missing, label)
    readings = np.stack([columns[name] for name in roles.readings], axis=1)[complete]
    parameters = np.stack([columns[name] for name in roles.parameters], axis=1)[complete]
    numbers = np.flatnonzero(complete) + 1
    dropped = int(np.sum(~complete))
    groups = None if group is None else _groups(table, group)[complete]
    apart = np.zeros(len(readings), np.intp) if groups is None else groups
    order, segments, report = np.argsort(apart, kind="stable"), np.sort(apart), None
    if time is not None and len(readings) > 1:
        found = timeline(columns[time][complete], np.concatenate([readings, parameters], axis=1), time, apart)
        order, segments, report = found.order, found.segments, found.report
    return Rows(
        readings[order],
        parameters[order],
        segments,
        numbers[order],
        dropped,
        report,
        tuple(notes),
        None if groups is None else groups[order],
    )


def _groups(table: Any, column: str) -> Integers:
    """(T,) the group of each row of a table, from 0."""
    names, rows = first_rows(table, sys.maxsize)
    if column not in names:
        raise InvalidRequest(str(unknown([column], names, "group")))
    labels = np.array([row[names.index(column)].strip() for row in rows])
    if np.any(labels == ""):
        line = int(np.argmax(labels == "")) + 1
        raise InvalidNetwork(
            f"group: row {line} has nothing in the column {column!r}; say which group it is of"
        )
    found, groups = np.unique(labels, return_inverse=True)
    if not 2 <= len(found) < len(labels):
        what = "one value in every row" if len(found) < 2 else "another value in every row"
        raise InvalidNetwork(
            f"group: the column {column!r} has {what}; name one whose values repeat, a person, a session or a day, "
            "or leave it out"
        )
    return groups.astype(np.intp)


def unused_time_column(table: Any, roles: Roles) -> str | None:
    """A column without a part that looks like times, if there is one."""
    used = {*roles.readings, *roles.parameters}
    names, rows = first_rows(table, _LOOKED_AT)
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return next((n for n in names if n not in used and looks_like_times(n, columns[n])), None)


def _refuse_other_role(what: str, column: str, roles: Roles) -> None:
    if not isinstance(column, str):
        raise InvalidRequest(f"{what}: expected the name of a column, found {type(column).__name__}")
    taken = {column_of(name, [column])[0] for name in (*roles.readings, *roles.parameters)}
    if column in taken:
        raise InvalidRequest(
            f"{what}: the column {column!r} is also a reading or a parameter; a {what} cannot be either, leave it "
            "out there"
        )


def _complete_rows(columns: Mapping[str, Array], missing: Missing, label: str) -> Booleans:
    gaps = {name: np.isnan(values) for name, values in columns.items()}
    incomplete = np.any(np.stack(list(gaps.values())), axis=0)
    if missing == "refuse" and np.any(incomplete):
        worst = max(gaps, key=lambda name: int(np.sum(gaps[name])))
        raise InvalidNetwork(
            f"{label}: {int(np.sum(incomplete))} of {incomplete.size} rows have missing values (most in the column "
            f'{worst!r}: {int(np.sum(gaps[worst]))}); fill them in, or leave those rows out with missing="drop" '
            "(on the command line: --missing drop)"
        )
    return np.asarray(~incomplete)
