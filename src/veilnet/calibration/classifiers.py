"""Learned detectors of a parameter with few values: from what is seen to a probability of each value."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from veilnet._core.threads import one_thread
from veilnet._core.types import Array, Integers
from veilnet.calibration.classes import Classes
from veilnet.calibration.stretches import Stretch

CLASSIFIERS = ("logistic regression", "boosting", "random forest")
COUNTERPARTS: Mapping[str, tuple[str, ...]] = {
    "ridge": ("logistic regression",),
    "boosting": ("boosting",),
    "network": ("random forest",),
}
"""Which of them tell values apart where a regressor of that name learns numbers."""
MOST_ROWS = 6000  # rows that slow learners are trained on


def learn_classes(name: str, features: Array, classes: Classes, stretches: list[Stretch]) -> Array:
    """Probabilities (T, values), each by a classifier trained on other stretches of time.

    name: one of ``CLASSIFIERS``.
    """
    found = np.tile(classes.parts, (len(features), 1))
    with one_thread():  # scikit-learn brings libraries of its own, loaded after the work began
        for stretch in stretches:
            goal = classes.rows[stretch.learned]
            if features.shape[1] and len(np.unique(goal)) > 1:
                found[stretch.judged] = _probabilities(name, features, goal, stretch, found.shape[1])
    return found


def _probabilities(name: str, features: Array, goal: Integers, stretch: Stretch, values: int) -> Array:
    used = thinned(len(goal), MOST_ROWS)
    centre, spread = scale_of(features[stretch.learned])
    fitted = _made(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one that has not converged is a weaker one, no more
        fitted.fit(((features[stretch.learned] - centre) / spread)[used], goal[used])
        given = fitted.predict_proba((features[stretch.judged] - centre) / spread)
    answers = np.zeros((len(stretch.judged), values))
    answers[:, fitted.classes_] = given
    return answers


def _made(name: str) -> Any:
    if name == "logistic regression":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=0.1, max_iter=300)
    if name == "boosting":
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(
            max_iter=60, max_leaf_nodes=8, min_samples_leaf=50, early_stopping=False, random_state=0
        )
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=40, min_samples_leaf=10, max_samples=0.4, random_state=0)


def thinned(count: int, most: int | None) -> slice:
    """All rows, or evenly so many of them."""
    return slice(0, None, 1 if most is None else max(1, -(-count // most)))


def scale_of(values: Array) -> tuple[Array, Array]:
    """Mean and deviation of each column, 1 where it does not vary."""
    spread = np.std(values, axis=0)
    return np.mean(values, axis=0), np.where(spread > 0, spread, 1.0)
