"""How surely the values of a private parameter are distinguished in the log of a fit: by the model, and by learning.

The model's own detector is the best linear estimate of g from the readings of a row, fitted to other stretches of
time than it is judged on. The learned ones are given the same rows, and mean, slope and spread of the rows before.
Both see raw readings. What a plan without loss would have sent of the log is shown to the learned ones, too: nothing
else is known of plans to come. Which of them sees most is decided on the same rows, so its interval counts all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.errors import VeilnetError
from veilnet._core.extras import missing_extra
from veilnet._core.types import Array
from veilnet._core.words import join_names
from veilnet.bounds.typical_errors import typical_errors
from veilnet.calibration.classes import Classes, allowed_measures, best_interval, classes_of, measured
from veilnet.calibration.classifiers import CLASSIFIERS, learn_classes
from veilnet.calibration.linear_model import fit_linear
from veilnet.calibration.rows import Rows
from veilnet.calibration.stretches import Stretch, stretches_of, windowed, windows_for
from veilnet.designs.choice import design
from veilnet.model.doubts import LONGEST_WORDS, Doubt
from veilnet.model.fitted import LogAuc, log_headlines
from veilnet.model.network import Network
from veilnet.plans.plan import Plan

_SEED = 864  # of a free plan's noise, fixed, so that one table has one report
_FEWEST_ROWS = 200


def log_aucs(network: Network, rows: Rows) -> dict[str, dict[str, LogAuc]]:
    """Private name -> "raw" and "free" -> the best learned detector; of parameters with few values alone.

    Nothing without scikit-learn, and nothing of fewer than 200 rows.
    """
    classed = _classed(network, rows)
    if not classed or not _can_learn():
        return {}
    free = _free_plan(network)
    sent = None if free is None else _released(free, rows)
    found = {}
    for name, classes in classed.items():
        log = _Log(rows, classes)
        found[name] = {"raw": log.best(rows.readings, log.of_model(network, name))}
        if free is not None and sent is not None:
            found[name]["free"] = log.best(sent, _promised(free, name, classes))
    return found


def learning_doubts(network: Network, found: Mapping[str, Mapping[str, LogAuc]], rows: Rows) -> list[Doubt]:
    """What learned detectors see beyond the model, or that none could be tried."""
    more = log_headlines(found, {})
    if more:
        words = "Detectors that learn see more than the model says. " + " ".join(more)
        return [Doubt("learned-detectors", words[:LONGEST_WORDS])]
    untried = [] if found or _can_learn() else list(_classed(network, rows))
    if not untried:
        return []
    install = missing_extra("learned detectors need scikit-learn", "sklearn")
    words = f"No detector that learns was tried on {join_names(untried)}: {install}."
    return [Doubt("no-learned-detectors", words)]


def _classed(network: Network, rows: Rows) -> dict[str, Classes]:
    """The private parameters of few values."""
    if len(rows) < _FEWEST_ROWS:
        return {}
    each = {name: classes_of(rows.parameters @ one.T) for name, one in network.private.items()}
    return {name: classes for name, classes in each.items() if classes is not None}


@dataclass(frozen=True, eq=False)
class _Log:
    """Rows whose values are to be distinguished."""

    rows: Rows
    classes: Classes

    def stretches(self, apart: int) -> list[Stretch]:
        """What is learned from and judged."""
        return stretches_of(len(self.rows), apart, self.classes.rows, self.rows.groups)

    def best(self, seen: Array, model: float) -> LogAuc:
        """The learned detector that tells most from these numbers (T, n); model: what the model says of it."""
        lengths = windows_for(len(self.rows), seen.shape[1])
        features = windowed(seen, self.rows.segments, lengths)
        stretches = self.stretches(max(lengths, default=0))
        tried = {
            name: measured(self.classes, learn_classes(name, features, self.classes, stretches), stretches)[
                "AUC"
            ]
            for name in CLASSIFIERS
        }
        name, auc = max(tried.items(), key=lambda each: each[1].value)
        ends = best_interval(auc, len(tried))
        memory = " with memory" if lengths else ""
        return LogAuc(
            f"{name}{memory}", float(auc.value), *ends, float(np.clip(model, 0.0, 1.0)), len(self.rows)
        )

    def of_model(self, network: Network, name: str) -> float:
        """The AUC of the best linear estimate, from a model fitted to other stretches."""
        scores = np.zeros((len(self.rows), len(self.classes.values)))
        stretches = self.stretches(0)
        for stretch in stretches:
            model = fit_linear(self.rows.readings[stretch.learned], self.rows.parameters[stretch.learned])
            moved = self.rows.readings[stretch.judged] - model.offset - model.observe @ model.mean
            seen = model.observe @ model.covariance
            weights = np.linalg.solve(seen @ model.observe.T + model.noise, seen)
            estimate = (moved @ weights + model.mean) @ network.private[name][0]
            scores[stretch.judged] = -np.abs(estimate[:, None] - self.classes.values)
        if len(self.classes.values) == 2:  # the estimate itself ranks rows; the nearness of values would not
            scores = np.stack([scores[:, 0] - scores[:, 1], scores[:, 1] - scores[:, 0]], axis=1)
        return measured(self.classes, scores, stretches)["AUC"].value


def _can_learn() -> bool:
    try:
        import sklearn  # noqa: F401
    except ImportError:
        return False
    return True


def _free_plan(network: Network) -> Plan | None:
    """A plan that loses nothing; None where there is none."""
    try:
        return design(network)
    except VeilnetError:
        return None


def _released(plan: Plan, rows: Rows) -> Array:
    """What the agents of a plan would have sent of these rows, (T, numbers)."""
    rng = np.random.default_rng(_SEED)
    sent = []
    for place, agent in enumerate(plan.network.agents):
        mine = np.ascontiguousarray(rows.readings[:, plan.network.blocks.rows(place)])
        sanitizer = plan.sanitizers[agent]
        if sanitizer.memory is None:
            sent.append(np.asarray(sanitizer.sanitize(mine, rng=rng)))
        else:
            runs = np.split(mine, np.flatnonzero(np.diff(rows.segments)) + 1)
            sent.append(np.concatenate([np.asarray(sanitizer.stream(rng=rng).sanitize(run)) for run in runs]))
    return np.concatenate(sent, axis=1)


def _promised(plan: Plan, name: str, classes: Classes) -> float:
    """The AUC that the error a plan promises allows."""
    error = typical_errors(plan.network, plan.sanitizers, privacy=plan.privacy)[name]
    if error.sent is None or not np.isfinite(error.sent) or error.guessing <= 0:
        return 0.5
    part = (error.sent / error.guessing) ** 2 if np.isfinite(error.guessing) else 0.0
    return allowed_measures(classes, min(1.0, part))["AUC"]
