"""Attackers that learn the private quantity from symbols: they have to stay under the certificate."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.extras import missing_extra
from veilnet._core.threads import one_thread
from veilnet._core.types import AnyArray, Array, Booleans, Integers
from veilnet.symbols.certificate import SymbolCertificate, whole_from_one
from veilnet.symbols.deviation import Tally, is_refuted
from veilnet.symbols.log import read_quantity
from veilnet.symbols.plan import SymbolPlan
from veilnet.symbols.quantity import Quantity
from veilnet.symbols.windows import windows_of

_FALSE_ALARM = 0.001  # of all attackers together
_MANY = 6  # attackers
_NEIGHBOURS = 25
_FEWEST = 4 * _NEIGHBOURS  # rows or windows, half of which are learned from


@dataclass(frozen=True)
class Attacked:
    """What one attacker got.

    attacker, private: who tried to learn what, from windows of ``rows`` rows each.
    right:    the share of windows whose class it named right, of ``tried``; None of a number,
    error:    of which it is the root mean square error; None of a class.
    promised: what the certificate promises of one row; None of several, of which nothing is promised.
    ok:       whether that agrees with the promise; None where nothing is promised.
    """

    attacker: str
    private: str
    rows: int
    right: float | None
    error: float | None
    tried: int
    promised: float | None
    ok: bool | None


def attack(
    plan: SymbolPlan, table: Any, *, windows: Sequence[int] = (1, 5, 20), stretch: int = 20, seed: int = 0
) -> tuple[Attacked, ...]:
    """Let six attackers learn what is private from what agents send of half of a table, and try them on the rest.

    table:   with the readings and the private columns, of rows that the plan did not learn from.
    windows: how many rows of one value an attacker sees at a time, each a whole number; of a private number one row.
             Windows of which the table has too few to learn from are left out, but not those of one row: there it is
             refused.
    stretch: so many rows are learned from, as many after them are tried, and so on in turn: logs are often in order
             of their values.
    seed:    of what attackers draw.
    """
    if not whole_from_one(windows) or not whole_from_one([stretch]):
        raise InvalidRequest(
            f"windows, stretch: expected whole numbers of rows from 1 on, found {windows!r}, {stretch!r}"
        )
    sent = np.stack(list(plan.send(table).values()), axis=1) + 1
    found: list[Attacked] = []
    level = _FALSE_ALARM / (_MANY * len(plan.certificate))
    for promise in plan.certificate.values():
        values = read_quantity(table, promise.name, promise.classes)
        values = values[windows_of(len(values), plan.window)[:, -1]]
        for rows in windows if promise.classes else sorted({1} & set(windows)):
            features, targets = _windows(sent, values, int(rows)) if promise.classes else (_hot(sent), values)
            learned = np.arange(len(targets)) // max(1, stretch // int(rows)) % 2 == 0
            if _can_learn(targets, learned, promise.name, int(rows)):
                found += [
                    _tried(name, attacker, features, targets, learned, promise, int(rows), level)
                    for name, attacker in _attackers(seed, bool(promise.classes))
                ]
    if not found:
        raise InvalidRequest(
            f"table: attackers need at least {_FEWEST} windows of two values; give more rows, or shorter windows"
        )
    return tuple(found)


def _can_learn(targets: AnyArray, learned: Booleans, name: str, rows: int) -> bool:
    """Whether there are enough windows to learn from; an error where windows are of one row."""
    few = len(targets) < _FEWEST
    if not few and len(np.unique(targets[learned])) > 1:
        return True
    if rows > 1:
        return False
    raise InvalidRequest(
        f"table: attackers need at least {_FEWEST} rows, with two values of {name} in those they learn from; found "
        f"{len(targets)} rows" + ("" if few else " with one value there; give others")
    )


def _tried(
    name: str,
    attacker: Any,
    features: Array,
    targets: AnyArray,
    learned: Booleans,
    promise: SymbolCertificate,
    rows: int,
    level: float,
) -> Attacked:
    """What an attacker gets in the rows that it did not learn from.

    Its loss on a row is between 0 and 1, and the certificate promises a least mean of it, which few losses refute:
    of a class 1 where it is wrong, of a number its square error in units of the interval, all clipped to that.
    Rows depend on each other as they did where the certificate was counted: as many of them make a block.
    """
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an attacker may stop before it converged
        said = attacker.fit(features[learned], targets[learned]).predict(features[~learned])
    truth = targets[~learned]
    right = error = None
    if promise.classes:
        losses, right = said != truth, float(np.mean(said == truth))
    else:
        clipped = [Quantity("", each, ()).within(promise.edges).values for each in (said, truth)]
        losses, error = (clipped[0] - clipped[1]) ** 2, float(np.sqrt(np.mean((said - truth) ** 2)))
    promised = ok = None
    if rows == 1:
        promised = promise.guessed if promise.classes else promise.error
        alike = promise.sample.largest
        sample = Tally(len(truth), math.ceil(len(truth) / alike), alike, bool(promise.classes))
        ok = not is_refuted(float(np.sum(losses)), 1 - promise.leak, sample, level)
    return Attacked(name, promise.name, rows, right, error, len(truth), promised, ok)


def _hot(sent: Integers) -> Array:
    """(n, symbols of all agents) 1 for each symbol that was sent."""
    return np.concatenate([np.eye(int(mine.max()) + 1)[mine] for mine in sent.T], axis=1)


def _windows(sent: Integers, values: Integers, rows: int) -> tuple[Array, Integers]:
    """How often each symbol was sent in each window of so many successive rows of one value, and that value."""
    by_value = [np.flatnonzero(values == value) for value in np.unique(values)]
    index = np.concatenate([where[: len(where) // rows * rows].reshape(-1, rows) for where in by_value])
    index = index[np.argsort(index[:, 0], kind="stable")]
    return _hot(sent)[index].mean(axis=1), values[index[:, 0]]


def _attackers(seed: int, of_classes: bool) -> Iterator[tuple[str, Any]]:
    try:
        from sklearn import ensemble, linear_model, naive_bayes, neighbors, neural_network, tree
    except ImportError as error:
        raise missing_extra("attackers need scikit-learn", "sklearn") from error

    boosting = {"max_iter": 30, "early_stopping": False, "random_state": seed}
    network = {
        "hidden_layer_sizes": (32,),
        "solver": "lbfgs",
        "alpha": 1.0,
        "max_iter": 150,
        "random_state": seed,
    }
    near = {"n_neighbors": _NEIGHBOURS, "algorithm": "brute"}
    if of_classes:
        yield "logistic regression", linear_model.LogisticRegression(max_iter=300)
        yield "forest", ensemble.RandomForestClassifier(100, random_state=seed)
        yield "boosting", ensemble.HistGradientBoostingClassifier(**boosting)
        yield "neighbours", neighbors.KNeighborsClassifier(**near)
        yield "naive Bayes", naive_bayes.MultinomialNB()
        yield "network", neural_network.MLPClassifier(**network)
        return
    yield "linear regression", linear_model.Ridge()
    yield "forest", ensemble.RandomForestRegressor(100, random_state=seed, min_samples_leaf=3)
    yield "boosting", ensemble.HistGradientBoostingRegressor(**boosting)
    yield "neighbours", neighbors.KNeighborsRegressor(**near)
    yield "mean of each tuple", tree.DecisionTreeRegressor(min_samples_leaf=5, random_state=seed)
    yield "network", neural_network.MLPRegressor(**network)
