"""Attackers on data from the world: what they learn from messages, beside raw readings, guessing and the promise.

Errors are compared as parts of guessing on the very same rows (:mod:`.allowed`), rows are judged in stretches of time
that the attacker has not learned from (:mod:`.stretches`), and every chance counts that they depend on one another
(:mod:`.dependence`). Every attacker is also given a memory: past messages beside those of the row. The promise of a
plan for single rows does not speak of such an attacker; where one learns more than the promise allows, the row says
so in a verdict of its own, *not covered*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from veilnet._core.types import Array, Integers
from veilnet.auditing.attack.allowed import Promises
from veilnet.auditing.attack.class_rows import class_row
from veilnet.auditing.attack.classes import NAMES, Classes, classes_of, classifier
from veilnet.auditing.attack.error_rows import Judged, error_row, public_row, slices_of
from veilnet.auditing.attack.held_out import Samples, fitted_rows_again
from veilnet.auditing.attack.learners import Learner, learn, learn_classes
from veilnet.auditing.attack.model_fit import model_row
from veilnet.auditing.attack.simulation import LinearCentre, raw_sanitizers
from veilnet.auditing.attack.stretches import Stretch, lags_for, remembered, stretches_of
from veilnet.auditing.deployed.deployment import Deployment
from veilnet.auditing.report import Judgement, Row
from veilnet.bounds.knowledge import knowledge

SECTION = "attackers on your data"
PLANNED = "best linear"
_FORGETS = ("neighbours",)  # distances among so many numbers say little


@dataclass(frozen=True, eq=False)
class _View:
    """What an attacker is shown: features from messages and from raw readings, and of which rows."""

    memory: int  # past rows shown
    rows: Integers
    sent: Array
    raw: Array
    stretches: list[Stretch]


def rows_on_data(
    deployment: Deployment,
    messages: Mapping[str, Array],
    samples: Samples,
    attackers: Mapping[str, Learner],
    chance: float,
    advance: Callable[[float], None],
) -> list[Row]:
    """Every attacker on every private parameter, with and without memory; the public estimate; the model itself."""
    network = deployment.network
    promises = Promises(network, knowledge(network, deployment.planned))
    few = {name: classes_of(truth) for name, truth in samples.private.items()}
    classed = {name: found for name, found in few.items() if found is not None and attackers}
    views = list(_views(deployment, messages, samples))
    trials = [
        (label, view) for label in attackers for view in views if not view.memory or label not in _FORGETS
    ]
    classifications = sum(classifier(label) is not None for label, _ in trials)
    each = chance / (1 + len(samples.private) * (1 + len(trials)) + len(classed) * classifications)
    centre, raw_centre = (
        LinearCentre(network, sanitizers) for sanitizers in (deployment.planned, raw_sanitizers(network))
    )
    readings = {
        agent: samples.readings[:, network.blocks.rows(k)] - network.offset[network.blocks.rows(k)]
        for k, agent in enumerate(network.agents)
    }
    rows = [_model(raw_centre, readings, samples, each), *_public(centre, messages, samples, each)]
    for name, truth in samples.private.items():
        if np.isfinite(centre.knowledge.growth(network.private[name])):
            guesses = centre.estimate(messages, network.private[name])
            raw = raw_centre.estimate(readings, network.private[name])
            rows.append(
                error_row(Judged(SECTION, PLANNED, name, 0, network), truth, guesses, raw, promises, each)
            )
    for done, (label, view) in enumerate(trials):
        rows += _regressions(label, attackers[label], view, samples, promises, each)
        rows += _classifications(label, view, classed, samples, promises, each)
        advance((done + 1) / len(trials))
    explained = _explained(sorted(rows, key=lambda row: _order(row, list(samples.private))))
    return [*fitted_rows_again(SECTION, network, samples), *explained]


def _views(deployment: Deployment, messages: Mapping[str, Array], samples: Samples) -> Iterator[_View]:
    """The messages of the row alone, and with those of past rows."""
    sent = np.concatenate([messages[agent] for agent in deployment.network.agents], axis=1)
    numbers = max(sent.shape[1], samples.readings.shape[1])
    lags = lags_for(len(samples), numbers)
    for past in ((), lags) if lags else ((),):
        features, rows = remembered(sent, samples.places, past)
        raw, _ = remembered(samples.readings, samples.places, past)
        if len(rows) >= len(samples) // 2:
            yield _View(len(past), rows, features, raw, stretches_of(len(rows), max(past, default=0)))


def _regressions(
    label: str, attacker: Learner, view: _View, samples: Samples, promises: Promises, chance: float
) -> list[Row]:
    network = promises.network
    truth = np.concatenate([values[view.rows] for values in samples.private.values()], axis=1)
    sent, raw = (learn(attacker, features, truth, view.stretches) for features in (view.sent, view.raw))
    rows, start = [], 0
    for name, values in samples.private.items():
        part = slice(start, start + values.shape[1])
        start = part.stop
        judged = Judged(SECTION, label, name, view.memory, network)
        rows.append(error_row(judged, truth[:, part], sent[:, part], raw[:, part], promises, chance))
    return rows


def _classifications(
    label: str,
    view: _View,
    classed: Mapping[str, Classes],
    samples: Samples,
    promises: Promises,
    chance: float,
) -> list[Row]:
    rows: list[Row] = []
    for name, classes in classed.items():
        if classifier(label) is None:
            continue
        known = Classes(classes.values, classes.rows[view.rows])
        sent, raw = (learn_classes(label, each, known, view.stretches) for each in (view.sent, view.raw))
        judged = Judged(SECTION, NAMES.get(label, label), name, view.memory, promises.network)
        truth = samples.private[name][view.rows]
        rows.append(class_row(judged, known, truth, sent, raw, view.stretches, promises, chance))
    return rows


def _public(
    centre: LinearCentre, messages: Mapping[str, Array], samples: Samples, chance: float
) -> list[Row]:
    network = centre.network
    if samples.public is None:
        return []
    found = []
    for name, part in slices_of(network.public).items():
        rows, truth = network.U[part], samples.public[:, part]
        if np.isfinite(centre.knowledge.growth(rows)):
            errors = centre.estimate(messages, rows) - truth
            promised = float(np.trace(centre.knowledge.error_covariance(rows)))
            each = chance / len(network.public)
            found.append(public_row(SECTION, network, name, errors, truth, promised, each))
    return found


def _model(centre: LinearCentre, readings: Mapping[str, Array], samples: Samples, chance: float) -> Row:
    network = centre.network
    truths = {name: (network.private[name], values) for name, values in samples.private.items()}
    if samples.public is not None:
        truths |= {
            name: (network.U[part], samples.public[:, part])
            for name, part in slices_of(network.public).items()
        }
    errors = {
        name: (
            np.sum((centre.estimate(readings, rows) - values) ** 2, axis=1),
            float(np.trace(centre.knowledge.error_covariance(rows))),
        )
        for name, (rows, values) in truths.items()
        if np.isfinite(centre.knowledge.growth(rows))
    }
    return model_row(SECTION, network, samples, errors, chance)


def _order(row: Row, names: list[str]) -> tuple[int, int]:
    """The model and the public estimate first, then every private parameter: single rows before memories."""
    name = row.figures.get("parameter")
    return (names.index(name) + 1 if name in names else 0), int(row.figures.get("past rows", 0.0) > 0)


def _explained(rows: list[Row]) -> list[Row]:
    """Rows with what a broken promise may come from; one for single rows does not cover an attacker with memory."""
    cause = {"warn": _DRIFT, "cannot tell": _UNKNOWN}.get(rows[0].verdict, _SOUND)
    broken = [row for row in rows if row.verdict == "fail"]
    single = {row.figures.get("parameter") for row in broken if not row.figures.get("past rows")}
    found = []
    for row in rows:
        if row.verdict != "fail":
            found.append(row)
            continue
        beyond = bool(row.figures.get("past rows")) and row.figures["parameter"] not in single
        why = cause if not beyond else f"{_MEMORY} {cause}" if cause is _DRIFT else _MEMORY
        figures = {**row.figures, "cause": why}
        verdict: Judgement = "not covered" if beyond else "fail"
        found.append(replace(row, verdict=verdict, sentence=f"{row.sentence} {why}", figures=figures))
    return found


_MEMORY = (
    "The promise is for the messages of single rows and does not cover an attacker who remembers; give the network "
    "dynamics (fit it as a stream) and design again."
)
_DRIFT = (
    "These data do not follow the model, so the cause may be drift and not what is deployed; refit on recent rows "
    "and design again."
)
_SOUND = (
    "The readings themselves follow the model as far as can be told: look at what is deployed first (the section "
    "'deployed'), then at whether the parameter is as normal as the model takes it to be."
)
_UNKNOWN = (
    "Whether the readings follow the model cannot be told from so few independent rows: look at what is deployed "
    "(the section 'deployed'); if that is as planned, the model is what does not hold here, so refit on recent rows."
)
