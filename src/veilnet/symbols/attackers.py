"""Attackers that learn the private quantity from symbols: they have to stay under the certificate."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

from veilnet._core.errors import InvalidRequest
from veilnet._core.extras import missing_extra
from veilnet._core.types import AnyArray, Array, Integers
from veilnet.symbols.certificate import ClassCertificate, whole_from_one
from veilnet.symbols.log import read_quantity
from veilnet.symbols.plan import SymbolPlan

__all__ = ["Attacked", "attack"]

_FALSE_ALARM = 0.001  # of all attackers together
_NEIGHBOURS = 25
_FEWEST = 4 * _NEIGHBOURS  # rows or windows, half of which are learned from


@dataclass(frozen=True)
class Attacked:
    """What one attacker got.

    attacker, private: who tried to learn what, from windows of ``rows`` rows each.
    right:    the share of windows that it named right, of ``tried``.
    promised: what the certificate promises of one row; None of several, of which nothing is promised.
    ok:       whether that agrees with the promise; None where nothing is promised.
    """

    attacker: str
    private: str
    rows: int
    right: float
    tried: int
    promised: float | None
    ok: bool | None


def attack(
    plan: SymbolPlan, table: Any, *, windows: Sequence[int] = (1, 5, 20), seed: int = 0
) -> tuple[Attacked, ...]:
    """Let six attackers learn private classes from what agents send of a table, and try them on its other half.

    table:   with the readings and the private columns, of rows that the plan did not learn from.
    windows: how many rows of one value an attacker sees at a time, each a whole number. Windows of which the table
             has too few to learn from are left out, but not those of one row: there it is refused.
    seed:    of what attackers draw.
    """
    if not whole_from_one(windows):
        raise InvalidRequest(f"windows: expected whole numbers of rows from 1 on, found {windows!r}")
    sent = np.stack(list(plan.send(table).values()), axis=1) + 1
    found: list[Attacked] = []
    named = [each for each in plan.certificate.values() if isinstance(each, ClassCertificate)]
    if not named:
        raise InvalidRequest("plan: attackers learn classes, and its private quantities are numbers")
    tests = len(named) * len(dict(_attackers(0)))
    for promise in named:
        values = read_quantity(table, promise.name, promise.classes)
        for rows in windows:
            features, targets = _windows(sent, values, int(rows))
            few = len(targets) < _FEWEST
            if few or len(np.unique(targets[: len(targets) // 2])) < 2:
                if rows > 1:
                    continue
                raise InvalidRequest(
                    f"table: attackers need at least {_FEWEST} rows, with two values of {promise.name} in the first "
                    f"half; found {len(targets)} rows"
                    + ("" if few else " with one value there; mix the rows")
                )
            for name, attacker in _attackers(seed):
                right = _learned(attacker, features, targets)
                tried = len(targets) - len(targets) // 2
                ok, known = None, None
                if rows == 1:
                    known = promise.guessed
                    ok = bool(binom.sf(round(right * tried) - 1, tried, known) > _FALSE_ALARM / tests)
                found.append(Attacked(name, promise.name, int(rows), right, tried, known, ok))
    if not found:
        raise InvalidRequest(
            f"table: attackers need at least {_FEWEST} windows of two values; give more rows, or shorter windows"
        )
    return tuple(found)


def _windows(sent: Integers, values: Integers, rows: int) -> tuple[Array, Integers]:
    """How often each symbol was sent in each window of so many successive rows of one value, and that value."""
    hot = np.concatenate([np.eye(int(mine.max()) + 1)[mine] for mine in sent.T], axis=1)
    features, targets, order = [], [], []
    for value in np.unique(values):
        where = np.flatnonzero(values == value)
        mine = where[: len(where) // rows * rows].reshape(-1, rows)
        features.append(hot[mine].mean(axis=1))
        targets.append(np.full(len(mine), value))
        order.append(mine[:, 0])
    first = np.argsort(np.concatenate(order), kind="stable")
    return np.concatenate(features)[first], np.concatenate(targets)[first]


def _learned(attacker: Any, features: Array, targets: AnyArray) -> float:
    """The share right in the second half, learned from the first: neighbouring rows are alike."""
    half = len(targets) // 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an attacker may stop before it converged
        return float(attacker.fit(features[:half], targets[:half]).score(features[half:], targets[half:]))


def _attackers(seed: int) -> Iterator[tuple[str, Any]]:
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.naive_bayes import MultinomialNB
        from sklearn.neighbors import KNeighborsClassifier
        from sklearn.neural_network import MLPClassifier
    except ImportError as error:
        raise missing_extra("attackers need scikit-learn", "sklearn") from error

    yield "logistic regression", LogisticRegression(max_iter=300)
    yield "forest", RandomForestClassifier(100, random_state=seed)
    yield "boosting", HistGradientBoostingClassifier(max_iter=30, early_stopping=False, random_state=seed)
    yield "neighbours", KNeighborsClassifier(_NEIGHBOURS, algorithm="brute")
    yield "naive Bayes", MultinomialNB()
    yield "network", MLPClassifier((32,), solver="lbfgs", alpha=1.0, max_iter=150, random_state=seed)
