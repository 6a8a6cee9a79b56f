"""Readings beside the truth: held-out rows that were given, or simulated ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.labelled import labels_of, picked
from veilnet._core.types import Array, Booleans, Integers
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.attack.simulation import draw_readings, draw_x
from veilnet.auditing.report import FITTED_ROWS, Row
from veilnet.io.tables import column_names, read_columns
from veilnet.model.fitted import all_marks, fitted_again, within_the_fit
from veilnet.model.network import Network

_FEWEST = 100  # complete rows
_LONGEST = 100  # steps for each row: more gaps than that are another log


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows of readings (T, N) with the truth about every private parameter and the public ones.

    model:  the network the rows were drawn from; None for data from the world.
    places: the number of each row in the log it comes from, where rows with gaps were left out.
    """

    readings: Array
    private: Mapping[str, Array]
    public: Array | None
    model: Network | None
    places: Integers

    def __len__(self) -> int:
        return len(self.readings)

    def at(self, rows: Integers | Booleans) -> Samples:
        """Some of the rows."""
        return Samples(
            self.readings[rows],
            {name: part[rows] for name, part in self.private.items()},
            None if self.public is None else self.public[rows],
            self.model,
            self.places[rows],
        )


def simulate(network: Network, count: int, seed: int) -> Samples:
    """Rows drawn from a network with a full prior."""
    rng = np.random.default_rng([seed, 4])
    x = draw_x(network, rng, count)
    truth = {name: x @ rows.T for name, rows in network.private.items()}
    return Samples(draw_readings(network, x, rng), truth, x @ network.U.T, network, np.arange(count))


def read_samples(
    network: Network, sanitizers: Mapping[str, Sanitizer], data: Any, time: str | None = None
) -> Samples:
    """Held-out rows from agent -> (T, N_i) and name -> (T,) or (T, rows) arrays, or from a table of columns.

    A table is name -> column, a pandas or polars frame, a structured array or the path of a CSV file. An
    agent's columns bear the names of its readings, or ``agent[1]``, ``agent[2]``, ... (``agent`` for one).
    The truth is in columns named after the private and public parameters (``presence[1]``, ...), or after all
    entries of x. Rows with a gap are left out, and counted: of a stream they are rows that every agent missed.

    time: the column of a table that tells when rows were read; they are put in its order and, where the network has a
          step, numbered by it. Without it rows follow one another.
    """
    if isinstance(data, Mapping) and any(np.ndim(data.get(agent, 0)) == 2 for agent in network.agents):
        if time is not None:
            raise InvalidRequest("time: it names a column of a table; of arrays, rows follow one another")
        return _checked(*_from_arrays(network, data))
    columns = _from_table(network, sanitizers, data)
    return _checked(*columns, None if time is None else _numbered(network, data, time))


def _numbered(network: Network, data: Any, time: str) -> Array:
    """(T,) which row each line of a table is, by its time; not a number where it has none."""
    seconds = read_columns(data, [], time=time)[time]
    if network.step is not None:
        known = np.isfinite(seconds)
        rows = np.full(len(seconds), np.nan)
        rows[known] = network.step.row_at(np.round(seconds[known] * 1e6).astype(np.int64))
        return rows
    if network.is_stream:
        raise InvalidRequest(
            "time: the plan does not say how far apart its rows are (step), so times number none; leave it out, and "
            "rows follow one another, or fit again with --time and design again"
        )
    return np.where(np.isfinite(seconds), np.argsort(np.argsort(seconds, kind="stable")), np.nan)


def read_training(
    network: Network,
    sanitizers: Mapping[str, Sanitizer],
    train: Any,
    judged: Samples,
    time: str | None = None,
) -> Samples:
    """Rows that attackers learn from, in the form of :func:`read_samples`; none of them may be judged."""
    try:
        found = read_samples(network, sanitizers, train, time)
    except InvalidRequest as error:
        raise InvalidRequest(re.sub("^data", "train", str(error))) from error
    if set(all_marks(found.readings)) & set(all_marks(judged.readings)):
        raise InvalidRequest(
            "train: has rows that are in data too, so that attackers would be tested on their training rows; "
            "give the log of the fit as train, and later rows as data"
        )
    return found


def fitted_rows_again(section: str, network: Network, samples: Samples) -> list[Row]:
    """A warning where the network was fitted to these rows, or to a part of them."""
    again = fitted_again(network.fitted_rows, samples.readings)
    if not again:
        return []
    seen = within_the_fit(network.fitted_rows, samples.readings)
    why = (
        f"{'These rows were' if seen else 'Some of these rows were'} used for the fit, on which a model looks better "
        "than it is. Audit on other rows."
    )
    shown = {"guessing": "", "raw": "used for the fit", "promised": "", "sent": ""}
    figures = {"part of the fit found again": again}
    return [Row(section, FITTED_ROWS, None, again, "warn", why, None, figures, shown)]


_Columns = tuple[Array, dict[str, Array], Array | None]


def _from_arrays(network: Network, data: Mapping[str, Any]) -> _Columns:
    blocks = [
        _matrix(data, agent, int(size), network.reading_names.get(agent, ()))
        for agent, size in zip(network.agents, network.blocks.sizes, strict=True)
    ]
    if "x" in data:
        x = _matrix(data, "x", network.L)
        truth = {name: x @ rows.T for name, rows in network.private.items()}
        public: Array | None = x @ network.U.T
    else:
        truth = {name: _matrix(data, name, len(rows)) for name, rows in network.private.items()}
        known = all(name in data for name in network.public)
        public = (
            np.concatenate([_matrix(data, n, len(r)) for n, r in network.public.items()], axis=1)
            if known
            else None
        )
    return np.concatenate(blocks, axis=1), truth, public


def _matrix(data: Mapping[str, Any], name: str, columns: int, labels: Sequence[str] = ()) -> Array:
    """One entry of the data as (T, columns); its columns by their labels, where both have some."""
    if name not in data:
        raise InvalidRequest(f"data: nothing given for {name!r}; give an array with {columns} columns")
    given = data[name]
    if labels and labels_of(given) is not None:
        given = picked(given, labels, f"data[{name!r}]", InvalidRequest)
    array = np.asarray(given, dtype=np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] != columns:
        raise InvalidRequest(f"data[{name!r}]: expected shape (T, {columns}), found {array.shape}")
    return array


def _from_table(network: Network, sanitizers: Mapping[str, Sanitizer], data: Any) -> _Columns:
    known = set(column_names(data))
    wanted: list[str] = []
    for agent, size in zip(network.agents, network.blocks.sizes, strict=True):
        names = getattr(sanitizers.get(agent), "names", ()) or ()
        wanted += list(names) if names and set(names) <= known else labels(agent, int(size))
    by_parameter = set(network.parameters) <= known
    truths = {name: labels(name, len(rows)) for name, rows in network.private.items()}
    publics = [label for name, rows in network.public.items() for label in labels(name, len(rows))]
    named = all(set(labels) <= known for labels in truths.values())
    if not named and not by_parameter:
        missing = next(label for labels in truths.values() for label in labels if label not in known)
        raise InvalidRequest(
            f"data: no column {missing!r}; the truth about every private parameter is needed, in columns named "
            "after the private parameters or after all entries of x"
        )
    with_public = set(publics) <= known
    columns = wanted + [label for labels in truths.values() for label in labels if named]
    columns += publics if with_public else []
    columns += list(network.parameters) if by_parameter else []
    table = read_columns(data, list(dict.fromkeys(columns)))

    def stacked(labels: list[str]) -> Array:
        return np.stack([table[label] for label in labels], axis=1)

    x = stacked(list(network.parameters)) if by_parameter else None
    if named:
        truth = {name: stacked(labels) for name, labels in truths.items()}
    elif x is not None:
        truth = {name: x @ rows.T for name, rows in network.private.items()}
    public = stacked(publics) if with_public else None if x is None else x @ network.U.T
    return stacked(wanted), truth, public


def labels(name: str, count: int) -> list[str]:
    """The columns of a parameter or agent with so many numbers."""
    return [name] if count == 1 else [f"{name}[{k + 1}]" for k in range(count)]


def _checked(
    readings: Array, truth: dict[str, Array], public: Array | None, places: Array | None = None
) -> Samples:
    """The complete rows in order, each number once.

    places: (T,) their numbers, not a number where none is known; None: they follow one another.
    """
    parts = [readings, *truth.values(), *([] if public is None else [public])]
    if len({len(part) for part in parts}) != 1:
        raise InvalidRequest("data: every agent and every truth needs the same number of rows")
    places = np.arange(len(readings), dtype=np.float64) if places is None else places
    complete = np.all([np.isfinite(places), *(np.all(np.isfinite(part), axis=1) for part in parts)], axis=0)
    kept = np.flatnonzero(complete)
    numbers, first = np.unique(places[kept], return_index=True)
    if len(numbers) < _FEWEST:
        raise InvalidRequest(f"data: expected at least {_FEWEST} complete rows, found {len(numbers)}")
    if numbers[-1] - numbers[0] > _LONGEST * len(numbers):
        raise InvalidRequest(
            f"time: {len(numbers)} rows lie {numbers[-1] - numbers[0]:.0f} steps apart; give rows of one time"
        )
    rows = Samples(readings, truth, public, None, np.zeros(len(readings), np.intp)).at(kept[first])
    return replace(rows, places=(numbers - numbers[0]).astype(np.intp))
