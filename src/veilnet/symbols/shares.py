"""Learning what each agent can say of the public quantity: its share, as one hidden layer.

If the readings of the agents are independent given the public class u, the posterior of u is the prior times
Π_i p(y_i | u): the log-likelihoods of agent i are its share, and a classifier of u from y_i estimates them. For a
number u the share is the agent's term f_i(y_i) of an additive model u ≈ Σ_i f_i(y_i), fitted in turns (backfitting)
from the best linear one on.

Each row that learns gets its share from a layer that did not learn from its block, as rows in service will.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilnet._core.extras import missing_extra
from veilnet._core.threads import one_thread
from veilnet._core.types import AnyArray, Array, Booleans
from veilnet.symbols.agent import Layer
from veilnet.symbols.log import FOLDS, Log
from veilnet.symbols.quantity import Quantity

_HIDDEN, _MOST_WEIGHTS = 32, 4500  # an agent's file stays below 64 kB
_TURNS = 2  # of backfitting
_RIDGE = 1.0  # rows' worth of zero for each reading
_TREES = 150
_ROUNDS = 120  # of learning: more would follow the noise


@dataclass(frozen=True, eq=False)
class LearnedShares:
    """What was learned at the agents.

    layers:  agent -> the layer that goes into service.
    learned: agent -> (rows that learn, K), shares by layers that did not learn from them; not a number where a
             reading is missing.
    """

    layers: Mapping[str, Layer]
    learned: Mapping[str, Array]


def learn_shares(log: Log, seed: int, advance: Callable[[float], None]) -> LearnedShares:
    """Learn the layers, once for service and once without each fold."""
    _needs_sklearn()
    learn = ~log.certify
    layers = _fit(log, learn, seed)
    width = max(1, len(log.public.classes))
    learned = {agent: np.full((len(learn), width), np.nan) for agent in log.features}
    for fold in range(FOLDS):
        advance(fold / FOLDS)
        held = log.fold == fold
        if not held.any():
            continue
        for agent, layer in _fit(log, learn & ~held, seed).items():
            whole = held & np.isfinite(log.features[agent]).all(axis=1)
            learned[agent][whole] = layer(log.features[agent][whole])
    return LearnedShares(layers, {agent: shares[learn] for agent, shares in learned.items()})


def raw_score(log: Log, train: Booleans, test: Booleans, seed: int) -> float:
    """The public score of a forest that sees every reading of every agent."""
    _needs_sklearn()
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    readings = np.concatenate(list(log.features.values()), axis=1)
    kind = RandomForestClassifier if log.public.classes else RandomForestRegressor
    forest = kind(_TREES, random_state=seed, max_features="sqrt").fit(
        readings[train], log.public.values[train]
    )
    return score_of(log.public.take(test), forest.predict(readings[test]))


def score_of(public: Quantity, estimates: AnyArray) -> float:
    """Accuracy of classes, R² of numbers."""
    if public.classes:
        return float(np.mean(estimates == public.values))
    return float(1 - np.mean((estimates - public.values) ** 2) / np.var(public.values))


def _fit(log: Log, rows: Booleans, seed: int) -> dict[str, Layer]:
    if log.public.classes:
        return {agent: _classifier(log, agent, rows, seed) for agent in log.features}
    values, mean = log.public.values, float(np.mean(log.public.values[rows]))
    terms = _linear_terms(log, values - mean, rows)
    layers: dict[str, Layer] = {}
    for _ in range(_TURNS):
        for agent, readings in log.features.items():
            whole = np.isfinite(readings).all(axis=1)
            rest = values - mean - sum(term for other, term in terms.items() if other != agent)
            layers[agent] = _regressor(readings, rest, rows & whole, seed)
            terms[agent][whole] = layers[agent](readings[whole])[:, 0]
    return layers


def _linear_terms(log: Log, values: Array, rows: Booleans) -> dict[str, Array]:
    """Each agent's term of the best linear sum: from zero, the first agent would learn what all know together."""
    readings = np.concatenate(list(log.features.values()), axis=1)
    mean, scale = _standard(readings[rows & np.isfinite(readings).all(axis=1)])
    known = np.nan_to_num((readings - mean) / scale)  # a reading that is missing counts as the mean
    gram = known[rows].T @ known[rows] + _RIDGE * np.eye(known.shape[1])
    parts = known * np.linalg.solve(gram, known[rows].T @ values[rows])
    ends = np.cumsum([each.shape[1] for each in log.features.values()])[:-1]
    return {
        agent: each.sum(axis=1)
        for agent, each in zip(log.features, np.split(parts, ends, axis=1), strict=True)
    }


def _classifier(log: Log, agent: str, rows: Booleans, seed: int) -> Layer:
    readings, classes = log.features[agent], len(log.public.classes)
    used = rows & np.isfinite(readings).all(axis=1)
    scaling, network = _trained("MLPClassifier", readings[used], log.public.values[used], classes, seed)
    leave, level = network.coefs_[1], network.intercepts_[1]
    if len(network.classes_) == 2:  # scikit-learn keeps the difference alone
        leave, level = np.concatenate([0 * leave, leave], axis=1), np.append(0.0, level)
    every = np.zeros((len(leave), classes)), np.full(classes, float(np.min(level)) - 30.0)
    every[0][:, network.classes_], every[1][network.classes_] = leave, level
    return Layer(*scaling, network.coefs_[0], network.intercepts_[0], *every, probabilities=True)


def _regressor(readings: Array, values: Array, used: Booleans, seed: int) -> Layer:
    size = float(np.std(values[used])) or 1.0
    scaling, network = _trained("MLPRegressor", readings[used], values[used] / size, 1, seed)
    leave, level = size * network.coefs_[1], size * network.intercepts_[1]
    return Layer(*scaling, network.coefs_[0], network.intercepts_[0], leave, level, probabilities=False)


def _trained(
    kind: str, readings: Array, values: AnyArray, outputs: int, seed: int
) -> tuple[tuple[Array, Array], Any]:
    """((mean, scale) of readings, a network of this kind that learned from them in standard form)."""
    from sklearn import neural_network
    from sklearn.exceptions import ConvergenceWarning

    mean, scale = _standard(readings)
    hidden = int(np.clip(_MOST_WEIGHTS // (readings.shape[1] + outputs), 4, _HIDDEN))
    network = getattr(neural_network, kind)(
        hidden_layer_sizes=(hidden,), solver="lbfgs", alpha=1.0, max_iter=_ROUNDS, random_state=seed
    )
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # so many rounds were asked for, no more
        network.fit((readings - mean) / scale, values)
    return (mean, scale), network


def _standard(readings: Array) -> tuple[Array, Array]:
    scale = readings.std(axis=0)
    return readings.mean(axis=0), np.where(scale > 0, scale, 1.0)


def _needs_sklearn() -> None:
    try:
        import sklearn  # noqa: F401
    except ImportError as error:
        raise missing_extra("learning symbols needs scikit-learn", "sklearn") from error
