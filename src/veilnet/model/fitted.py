"""What a fit leaves with the network that was fitted: what rows of its log showed beside the model.

How surely learned detectors saw the values of a private parameter (:class:`LogAuc`). A plan promises what the best
detector sees *in the model*. A log need not follow the model, and of a parameter with few values it does not. So
``fit`` lets detectors learn from its rows, and keeps what they reached.

How far off a centre was on rows that the fit had not seen (:class:`HeldOut`). The error that the model states of a
public estimate is true where rows follow the model. Rows of a log do not quite: what readings show of x changes,
bends, and was itself estimated. ``fit`` measures what that adds (:mod:`veilnet.calibration.held_out_errors`), and
the centre states it. Promises of privacy stay those of the model.

Which rows it was fitted to, as a few hashes that only who guesses sixteen rows at once can open. An audit on the rows
of the fit flatters the model, so it has to notice them, also where they are only a part of the table it is given. The
rows are cut into runs where their own numbers say so, and the same runs come out of every table that contains them in
the same order. A hash is of a run of at least 16 rows, never of a single row, whose readings could be found by trying
values; a table of fewer rows leaves none.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from math import isfinite
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array, Booleans
from veilnet._core.validation import refuse_unknown
from veilnet._core.words import in_columns

FROM = {"raw": "raw readings", "free": "what a free plan sends"}
"""What detectors were shown: its key, and in words."""
_MOST_LETTERS = 60


@dataclass(frozen=True)
class LogAuc:
    """The best of some learned detectors, judged on rows it had not learned from.

    learner:   what it is: "random forest with memory", which also saw rows before.
    auc:       how often a row with a value gets a higher score than one without, the mean over values.
    low, high: where its true value lies, at 95 % for the best of all that were tried.
    model:     the same of the model: from raw readings that of its own detector on the same rows, from what a free
               plan sends that of the plan's promise.
    rows:      how many rows were judged.
    """

    learner: str
    auc: float
    low: float
    high: float
    model: float
    rows: int

    @property
    def sees_more(self) -> bool:
        """Whether it sees values more surely than the model says, beyond chance."""
        return self.low > self.model

    def __str__(self) -> str:
        return f"{self.learner} reaches AUC {self.auc:.2f} ({self.low:.2f} to {self.high:.2f})"


def log_headlines(found: Mapping[str, Mapping[str, LogAuc]], promised: Mapping[str, float]) -> list[str]:
    """A sentence for each parameter of which learned detectors saw more than the model, none for the others.

    promised: the AUC of what is sent, by name, in the model; of some parameters it is not known.
    """
    said = []
    for name, shown in found.items():
        sent, raw = shown.get("free"), shown.get("raw")
        lead = f"{name}: in the model AUC {promised[name]:.2f}; " if name in promised else f"{name}: "
        if sent is not None and sent.sees_more:
            said.append(
                f"{lead}on the log of the fit {sent} from what a free plan sends, where {sent.model:.2f} is "
                "promised: the linear plan does not hide this."
            )
        elif raw is not None and raw.sees_more:
            said.append(
                f"{lead}on the log of the fit {raw} from raw readings, where the model's own detector has "
                f"{raw.model:.2f}: readings tell more than the model knows. Do not take this for hidden before "
                "audit --data has tried what is sent."
            )
    return said


def log_in_words(name: str, found: Mapping[str, LogAuc]) -> str:
    """What a log showed of one parameter, for somebody who fits a network to it.

    found: by what detectors were shown.
    """
    rows = next(iter(found.values())).rows
    table = [
        (FROM[what], one.learner, f"{one.auc:.2f}", f"{one.low:.2f} to {one.high:.2f}", f"{one.model:.2f}")
        for what, one in found.items()
    ]
    headings = ("from", "best detector", "AUC", "95 % interval", "model")
    return "\n".join(
        [
            f"How well detectors see {name}, learned and judged on different stretches of these {rows} rows (AUC 0.5 "
            "is guessing; no promise):",
            *in_columns([headings, *table], left=2),
        ]
    )


def read_log_aucs(given: Any, private: Any) -> dict[str, dict[str, LogAuc]]:
    """What a log showed of private parameters, by name and by what detectors were shown."""
    table = _table({} if given is None else given, "log_aucs", list(private))
    return {
        name: {
            what: _read(each, f"log_aucs.{name}.{what}")
            for what, each in _table(shown, f"log_aucs.{name}", list(FROM)).items()
        }
        for name, shown in table.items()
    }


def _table(given: Any, where: str, known: list[str]) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or any(name not in known for name in given):
        raise InvalidNetwork(
            f"{where}: expected some of {', '.join(known)}, each with a LogAuc, found {given!r}"
        )
    return given


def _read(given: Any, where: str) -> LogAuc:
    if not isinstance(given, LogAuc):
        raise InvalidNetwork(f"{where}: expected a LogAuc, found {type(given).__name__}")
    for what in ("auc", "low", "high", "model"):
        value = getattr(given, what)
        if type(value) is not float or not isfinite(value) or not 0.0 <= value <= 1.0:
            raise InvalidNetwork(f"{where}.{what}: expected a number from 0 to 1, found {value!r}")
    if not given.low <= given.auc <= given.high:
        raise InvalidNetwork(f"{where}: expected low <= auc <= high, found {given}")
    if type(given.rows) is not int or given.rows < 1:
        raise InvalidNetwork(f"{where}.rows: expected a number of rows, found {given.rows!r}")
    learner = given.learner
    if not isinstance(learner, str) or not learner.isprintable() or not 0 < len(learner) <= _MOST_LETTERS:
        raise InvalidNetwork(
            f"{where}.learner: expected a name of up to {_MOST_LETTERS} letters, found {learner!r}"
        )
    return given


@dataclass(frozen=True)
class HeldOut:
    """What rows that were held out of a fit show of one public parameter.

    beyond:          what is to be added, in quadrature, to the standard error that the model states.
    lowest, highest: of the parameter in the rows of the fit: beyond them the model was never tried.
    """

    beyond: float
    lowest: float
    highest: float


def read_held_out(given: Any, labels: Sequence[str]) -> dict[str, HeldOut]:
    """label of a public row -> what was held out shows of it."""
    table = {} if given is None else given
    if not isinstance(table, Mapping):
        raise InvalidNetwork(
            f"held_out: expected public name -> HeldOut, found {type(given).__name__}; fit writes it"
        )
    refuse_unknown(table, labels, "held_out")
    for name, each in table.items():
        if not isinstance(each, HeldOut) or not all(
            type(one) is float and isfinite(one) for one in astuple(each)
        ):
            raise InvalidNetwork(f"held_out.{name}: expected a HeldOut of three numbers, found {each!r}")
        if each.beyond < 0 or each.lowest > each.highest:
            raise InvalidNetwork(f"held_out.{name}: expected beyond >= 0 and lowest <= highest, found {each}")
    return {name: table[name] for name in labels if name in table}


_SHORTEST = 16  # rows of a run
_RUN = 32  # one row in so many may end a run
_KEPT = 16  # hashes, spread evenly over the table
_MARK = re.compile(r"[0-9a-f]{16}")
_ODD = 0x9E3779B97F4A7C15  # a multiplier that mixes bits


def marks_of(readings: Array) -> tuple[str, ...]:
    """A few hashes of runs of the rows (T, N), in the order of the table."""
    marks = all_marks(readings)
    places = np.unique(np.linspace(0, len(marks) - 1, min(_KEPT, len(marks))).round().astype(int))
    return tuple(marks[place] for place in places)


def fitted_again(marks: Sequence[str], readings: Array) -> float:
    """Which part of the marks is found again in these rows; 0 where there are none."""
    return len(set(marks) & set(all_marks(readings))) / len(set(marks)) if marks else 0.0


def within_the_fit(marks: Sequence[str], readings: Array) -> bool:
    """Whether these rows begin and end as those of the fit do, so that all of them are among those."""
    mine = all_marks(readings)
    return bool(mine) and {mine[0], mine[-1]} <= set(marks)


def read_marks(marks: Any) -> tuple[str, ...]:
    """The marks of a network, as :func:`marks_of` makes them."""
    if isinstance(marks, str) or not isinstance(marks, Sequence):
        raise InvalidNetwork(f"fitted_rows: expected a list of hashes, found {marks!r}")
    for mark in marks:
        if not isinstance(mark, str) or not _MARK.fullmatch(mark):
            raise InvalidNetwork(f"fitted_rows: expected hashes of 16 hexadecimal digits, found {mark!r}")
    return tuple(marks)


def all_marks(readings: Array) -> list[str]:
    """A hash of every run of the rows (T, N)."""
    found, rest = runs_of(readings)
    return found + marks_of_run(rest)


def runs_of(readings: Array, *, distinct: int = 1) -> tuple[list[str], Array]:
    """(a hash of every run of the rows (T, N) in which at least so many rows differ, the rows after the last one)."""
    found: list[str] = []
    start = 0
    ends = _ends(np.ascontiguousarray(readings + 0.0, dtype="<f8"))
    for stop in (np.flatnonzero(ends) + 1).tolist():
        if stop - start >= _SHORTEST:
            found += marks_of_run(readings[start:stop], distinct=distinct)
            start = stop
    return found, readings[start:]


def marks_of_run(run: Array, *, distinct: int = 1) -> list[str]:
    """The hash of a run of rows; none of a short one, nor where fewer rows differ."""
    rows = np.ascontiguousarray(run + 0.0, dtype="<f8")
    if len(rows) < _SHORTEST or (distinct > 1 and len(np.unique(rows, axis=0)) < distinct):
        return []
    return [hashlib.sha256(rows.tobytes()).hexdigest()[:16]]


def _ends(rows: Array) -> Booleans:
    """The rows that may end a run, by their own numbers."""
    mixed = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.view("<u8").T:
        mixed = (mixed ^ column) * np.uint64(_ODD)
        mixed ^= mixed >> np.uint64(29)
    return np.asarray(mixed % np.uint64(_RUN) == 0)
