"""The table that symbols are learned from: what plays which part, and which rows learn and which certify.

Half of the blocks learn and choose, the other half certify and choose nothing. Blocks are put in order of their
public and private values, ties at random, and dealt in turn, so that both halves have the same base rates. Who is
dealt where depends on these values alone: given them, the readings of different blocks stay independent.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import AnyArray, Array, Booleans, Integers
from veilnet.calibration.roles import Roles
from veilnet.io.cells import is_missing, is_number
from veilnet.io.sources import RowSource
from veilnet.io.tables import first_rows, read_columns
from veilnet.symbols.quantity import Quantity
from veilnet.symbols.windows import feature_names, features_of, in_windows, windows_of

FOLDS = 6  # of the rows that learn: a row's symbol is chosen by a layer that did not learn from it
_MOST_CLASSES = 50  # whole numbers; texts may have more
_FEWEST_BLOCKS = 4  # of each public class, and four times as many in all


@dataclass(frozen=True, eq=False)
class Log:
    """A table, read and dealt; where windows are asked for, a row is a window from here on.

    columns:  agent -> names of its readings.
    window:   rows of the table that make one.
    readings: agent -> (n, window N_i), row after row; not a number where one is missing.
    features: agent -> (n, F_i) what the agent computes of that (:mod:`veilnet.symbols.windows`).
    public, private: what may be known, and name -> what must not.
    blocks:   (n,) which independent block each row belongs to.
    certify:  (n,) whether a row certifies.
    fold:     (n,) of rows that learn, which part; -1 for others.
    """

    columns: Mapping[str, tuple[str, ...]]
    window: int
    readings: Mapping[str, Array]
    features: Mapping[str, Array]
    public: Quantity
    private: Mapping[str, Quantity]
    blocks: Integers
    certify: Booleans
    fold: Integers


def read_log(
    table: Any, agents: Any, public: Any, private: Any, window: int, blocks: Any, rng: np.random.Generator
) -> Log:
    """Read a table and deal its blocks; errors name the argument and what to do."""
    if not isinstance(public, str):
        raise InvalidRequest(f"public: expected the name of one column, found {public!r}")
    named = [private] if isinstance(private, str) else private
    roles = Roles(agents, [public], named)
    hidden = [column for columns in roles.private.values() for column in columns]
    known = read_columns(table, roles.readings)
    rows = len(next(iter(known.values())))
    of_blocks = [blocks] if isinstance(blocks, str) else []
    if set(of_blocks) & {*roles.readings}:
        raise InvalidRequest(f"blocks: the column {blocks!r} is a reading; name one that numbers the blocks")
    cells = _cells(table, [public, *hidden, *of_blocks])
    labels = _labels(cells[blocks] if isinstance(blocks, str) else blocks, rows)
    index = windows_of(rows, window, labels)
    columns = {agent: tuple(names) for agent, names in roles.agents.items()}
    readings = {agent: in_windows([known[name] for name in names], index) for agent, names in columns.items()}
    features = {agent: features_of(each, window) for agent, each in readings.items()}
    quantities = {name: _quantity(name, [cells[name][k] for k in index[:, -1]]) for name in [public, *hidden]}
    wanted = quantities.pop(public)
    block = (
        np.arange(len(index)) if labels is None else np.unique(labels[index[:, 0]], return_inverse=True)[1]
    )
    certify, fold = _dealt([*quantities.values(), wanted], block, rng)
    log = Log(columns, window, readings, features, wanted, quantities, block, certify, fold)
    _refuse_few(log)
    return log


def read_quantity(table: Any, name: str, classes: tuple[Any, ...]) -> AnyArray:
    """The places, among classes that are known, of the values of a column; where there are none, its numbers."""
    found = _quantity(name, _cells(table, [name])[name])
    if not classes and not found.classes:
        return found.values
    strangers = [value for value in found.classes if value not in classes]
    if strangers or not classes or not found.classes:
        raise InvalidRequest(
            f"{name}: expected the values that the plan knows, {', '.join(map(str, classes)) or 'numbers'}"
        )
    return np.array([classes.index(value) for value in found.classes], np.intp)[found.values]


def _cells(table: Any, names: Sequence[str]) -> dict[str, list[Any]]:
    """name -> cells, as they stand in memory, or as text from a file."""
    in_memory = not isinstance(table, str | PathLike | RowSource)
    header, rows = first_rows(table, 0 if in_memory else sys.maxsize)
    for name in names:
        if name not in header:
            raise InvalidRequest(f"table: no column {name!r}; its columns are {', '.join(header[:12])}")
    if in_memory:
        return {name: np.asarray(table[name]).tolist() for name in names}
    return {name: [row[header.index(name)].strip() for row in rows] for name in names}


def _quantity(name: str, cells: list[Any]) -> Quantity:
    """Classes where cells are texts, yes or no, or few whole numbers; numbers otherwise."""
    gaps = sum(is_missing(cell, among_texts=True) or cell != cell for cell in cells)
    if gaps:
        raise InvalidRequest(f"{name}: {gaps} of {len(cells)} rows have no value; leave those rows out")
    if cells and all(isinstance(cell, str) and is_number(cell) for cell in cells):
        whole = all(cell.lstrip("+-").isdigit() for cell in cells)
        cells = [int(cell) if whole else float(cell) for cell in cells]
    numbers = not any(isinstance(cell, str) for cell in cells)
    numbers = numbers and not all(isinstance(cell, bool) for cell in cells)
    distinct = sorted(set(cells), key=lambda cell: (str(type(cell)), cell))
    if len(distinct) < 2:
        raise InvalidRequest(
            f"{name}: every row has the same value; a table with at least two is needed to learn or count anything"
        )
    many = len(distinct) > (_MOST_CLASSES if all(isinstance(cell, int) for cell in distinct) else 2)
    if numbers and many:
        values = np.array(cells, float)
        if not np.isfinite(values).all():
            raise InvalidRequest(f"{name}: expected finite numbers")
        return Quantity(name, values, ())
    if len(distinct) > len(cells) // 2:
        raise InvalidRequest(
            f"{name}: {len(distinct)} classes in {len(cells)} rows are more cells than can be counted; give a class "
            "at least two rows, or numbers"
        )
    place = {value: k for k, value in enumerate(distinct)}
    return Quantity(name, np.array([place[cell] for cell in cells], np.intp), tuple(distinct))


def _labels(given: Any, rows: int) -> AnyArray | None:
    if given is None:
        return None
    labels = np.asarray(given)
    if labels.shape != (rows,):
        raise InvalidRequest(f"blocks: expected a column or {rows} labels, found shape {labels.shape}")
    if len(np.unique(labels)) == rows:
        raise InvalidRequest(
            "blocks: every block has one row; give rows that resemble each other one label (a session, a day), or "
            "leave blocks out where rows are independent"
        )
    return labels


def _dealt(
    quantities: Sequence[Quantity], blocks: Integers, rng: np.random.Generator
) -> tuple[Booleans, Integers]:
    """(whether a row certifies, its part among those that learn)."""
    first = np.unique(blocks, return_index=True)[1]
    order = np.lexsort((rng.random(len(first)), *(_rank(each, blocks, first) for each in quantities)))
    dealt = np.empty(len(first), np.intp)
    dealt[order] = np.arange(len(first))
    place = dealt[blocks]
    certify = place % 2 == 0
    return certify, np.where(certify, -1, place // 2 % FOLDS)


def _rank(quantity: Quantity, blocks: Integers, first: Integers) -> Integers:
    """A block's class by its first row; of numbers which eighth its mean is in."""
    if quantity.classes:
        return np.asarray(quantity.values[first])
    means = np.bincount(blocks, quantity.values) / np.bincount(blocks)
    return np.asarray(np.searchsorted(np.quantile(means, np.arange(1, 8) / 8), means))


def _refuse_few(log: Log) -> None:
    count = int(log.blocks.max()) + 1
    what = "rows" if count == len(log.blocks) else "blocks"
    if count < 4 * _FEWEST_BLOCKS:
        raise InvalidRequest(
            f"table: expected at least {4 * _FEWEST_BLOCKS} independent {what}, found {count}; nothing can be "
            "certified from so few"
        )
    for place, value in enumerate(log.public.classes):
        seen = len(np.unique(log.blocks[log.public.values == place]))
        if seen < _FEWEST_BLOCKS:
            raise InvalidRequest(
                f"{log.public.name}: the class {value!r} is in {seen} {what}; expected at least {_FEWEST_BLOCKS}: "
                "leave it out, or join it with another"
            )
    for agent, features in log.features.items():
        whole = np.isfinite(features).all(axis=1) & ~log.certify
        if np.sum(whole) < np.sum(~log.certify) / 2:
            raise InvalidRequest(
                f"agents[{agent!r}]: more than half of the rows lack a reading; leave out the column that is missing"
            )
        names = feature_names(log.columns[agent], log.window)
        flat = [name for name, x in zip(names, features[whole].T, strict=True) if np.ptp(x) == 0]
        if flat:
            raise InvalidRequest(f"agents[{agent!r}]: the column {flat[0]!r} never changes; leave it out")
