"""How surely learned detectors saw the values of a private parameter in the log that a network was fitted to.

A plan promises what the best detector sees *in the model*. A log need not follow the model, and of a parameter with
few values it does not. So ``fit`` lets detectors learn from its rows, and keeps with the network what they reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from veilnet._core.errors import InvalidNetwork
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
