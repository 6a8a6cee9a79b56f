"""Learned attackers: regressors from what is seen to every private parameter, and how they are trained."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.extras import missing_extra
from veilnet._core.threads import one_thread
from veilnet._core.types import Array
from veilnet.calibration.classifiers import MOST_ROWS, scale_of, thinned
from veilnet.calibration.stretches import Stretch

_PENALTIES = np.logspace(-6, 3, 10)  # of a ridge, for each row it learns from
_BLOCKS = 4  # contiguous ones, each left out once to choose the penalty
KINDS = ("ridge", "neighbours", "boosting", "network")
QUICK = ("ridge", "neighbours")


@dataclass(frozen=True, eq=False)
class Learner:
    """A regressor with fit and predict, and the most rows it is trained on (None: all there are)."""

    regressor: Any
    most_rows: int | None = None


class BlockedRidge:
    """Ridge regression whose penalty, one for each output, is chosen on contiguous blocks of rows left out.

    Rows of a log depend on one another: leaving out single ones would choose too small a penalty.
    """

    def fit(self, seen: Array, truth: Array) -> None:
        """Learn truth (T, outputs) from what is seen (T, features), both with mean zero."""
        blocks = np.array_split(np.arange(len(seen)), _BLOCKS)
        grams = np.stack([seen[block].T @ seen[block] for block in blocks])
        crosses = np.stack([seen[block].T @ truth[block] for block in blocks])
        gram, cross = np.sum(grams, axis=0), np.sum(crosses, axis=0)
        errors = np.zeros((len(_PENALTIES), truth.shape[1]))
        for block, own, shared in zip(blocks, grams, crosses, strict=True):
            weights = _ridges(gram - own, cross - shared, _PENALTIES * (len(seen) - len(block)))
            errors += np.sum((truth[block] - seen[block] @ weights) ** 2, axis=1)
        best = np.argmin(errors, axis=0)
        found = _ridges(gram, cross, _PENALTIES * len(seen))
        self.weights: Array = found[best, :, np.arange(truth.shape[1])].T

    def predict(self, seen: Array) -> Array:
        """The outputs (T, outputs)."""
        return np.asarray(seen @ self.weights)


def _ridges(gram: Array, cross: Array, penalties: Array) -> Array:
    """(X'X + λI)^-1 X'Y for every penalty λ, (penalties, features, outputs)."""
    values, vectors = np.linalg.eigh(gram)
    turned = vectors.T @ cross
    return np.asarray(vectors @ (turned / (np.maximum(values, 0.0)[:, None] + penalties[:, None, None])))


def choose_attackers(
    wanted: str | Sequence[str] | Mapping[str, Any] | None, quick: bool
) -> dict[str, Learner]:
    """The attackers by name. "auto" takes all of them, if scikit-learn is installed."""
    if wanted is None:
        return {}
    if isinstance(wanted, Mapping):
        return {name: Learner(regressor) for name, regressor in wanted.items()}
    names = (
        (QUICK if quick else KINDS) if wanted == "auto" else (wanted,) if isinstance(wanted, str) else wanted
    )
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        raise InvalidRequest(f"attackers: unknown {unknown[0]!r}; known are {', '.join(KINDS)}, or 'auto'")
    try:
        return {name: _made(name) for name in names}
    except ImportError:
        raise missing_extra("learned attackers need scikit-learn", "sklearn") from None


def _made(name: str) -> Learner:
    if name == "ridge":
        return Learner(BlockedRidge())
    if name == "neighbours":
        from sklearn.neighbors import KNeighborsRegressor

        return Learner(KNeighborsRegressor(n_neighbors=30))
    if name == "boosting":
        from sklearn.ensemble import HistGradientBoostingRegressor
        from sklearn.multioutput import MultiOutputRegressor

        boosted = HistGradientBoostingRegressor(
            max_iter=80, max_leaf_nodes=15, early_stopping=True, random_state=0
        )
        return Learner(MultiOutputRegressor(boosted), most_rows=MOST_ROWS)
    from sklearn.neural_network import MLPRegressor

    perceptron = MLPRegressor(
        hidden_layer_sizes=(32,), early_stopping=True, max_iter=60, batch_size=128, random_state=0
    )
    return Learner(perceptron, most_rows=MOST_ROWS)


def guesses_of(attacker: Learner, features: Array, truth: Array, learned: int) -> Array:
    """Guesses on all but the first rows, by an attacker trained on those; everything in units of its spread."""
    with one_thread():  # scikit-learn brings libraries of its own, loaded after the audit began
        return _guesses(attacker, features[:learned], truth[:learned], features[learned:])


def learn(attacker: Learner, features: Array, truth: Array, stretches: list[Stretch]) -> Array:
    """Guesses on all rows, each by an attacker trained on other stretches of time."""
    guesses = np.empty(truth.shape)
    with one_thread():
        for stretch in stretches:
            train, goal = features[stretch.learned], truth[stretch.learned]
            guesses[stretch.judged] = _guesses(attacker, train, goal, features[stretch.judged])
    return guesses


def _guesses(attacker: Learner, train: Array, goal: Array, test: Array) -> Array:
    shape = (len(test), goal.shape[1])
    if train.shape[1] == 0:
        return np.broadcast_to(np.mean(goal, axis=0), shape)
    used = thinned(len(train), attacker.most_rows)
    (centre, spread), (middle, size) = scale_of(train), scale_of(goal)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an attacker that has not converged is a weaker one, no more
        attacker.regressor.fit(((train - centre) / spread)[used], ((goal - middle) / size)[used])
        found = np.asarray(attacker.regressor.predict((test - centre) / spread))
    return np.asarray(middle + size * found.reshape(shape))
