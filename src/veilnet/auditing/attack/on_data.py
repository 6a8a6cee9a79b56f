"""Attackers on data from the world: what they learn from messages, beside raw readings, guessing and the promise.

Errors are compared as parts of guessing on the very same rows (:mod:`.allowed`), rows are judged in stretches of time
that the attacker has not learned from (:mod:`veilnet.calibration.stretches`), and every chance counts that they
depend on one another (:mod:`veilnet.calibration.dependence`). Every attacker is also given a memory: past messages
beside those of the row. The promise of a plan for single rows does not speak of such an attacker; where one learns
more than the promise allows, the row says so in a verdict of its own, *not covered*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from veilnet._core.types import Array, Integers
from veilnet.auditing.attack.allowed import Promises
from veilnet.auditing.attack.class_rows import Told, class_row, two_verdicts
from veilnet.auditing.attack.error_rows import Judged, error_row, public_row, slices_of
from veilnet.auditing.attack.held_out import Samples, fitted_rows_again
from veilnet.auditing.attack.learners import Learner, learn
from veilnet.auditing.attack.model_fit import model_row
from veilnet.auditing.attack.simulation import LinearCentre, raw_sanitizers
from veilnet.auditing.deployed.deployment import Deployment
from veilnet.auditing.row import Judgement, Row
from veilnet.calibration.classes import Classes, classes_of
from veilnet.calibration.classifiers import COUNTERPARTS, learn_classes
from veilnet.calibration.stretches import (
    Stretch,
    lags_for,
    remembered,
    stretches_of,
    windowed,
    windows_for,
)

SECTION = "attackers on your data"
PLANNED = "best linear"
_FORGETS = ("neighbours",)  # distances among so many numbers say little


@dataclass(frozen=True, eq=False)
class AttackerView:
    """What an attacker is shown: features from messages and from raw readings, and of which rows."""

    memory: int  # past rows shown, beyond those that the promise speaks of
    rows: Integers
    sent: Array
    raw: Array
    apart: int  # rows between those that are learned from and those that are judged

    def stretches(self, classes: Integers | None = None) -> list[Stretch]:
        """Of its rows, what is learned from and judged; classes: which value each row has, where that counts."""
        return stretches_of(len(self.rows), self.apart, classes)


@dataclass(frozen=True, eq=False)
class OnData:
    """Every attacker on rows from the world, with every view it can make use of."""

    samples: Samples
    promises: Promises
    attackers: Mapping[str, Learner]
    views: Sequence[AttackerView]
    class_views: Sequence[AttackerView]  # all of the same rows
    chance: float

    @cached_property
    def classed(self) -> dict[str, Classes]:
        """The private parameters that take a few values."""
        few = {name: classes_of(truth) for name, truth in self.samples.private.items()}
        return {name: found for name, found in few.items() if found is not None}

    @cached_property
    def trials(self) -> list[tuple[str, AttackerView]]:
        """Who attacks, and what he is shown."""
        return [
            (label, view)
            for label in self.attackers
            for view in self.views
            if not view.memory or label not in _FORGETS
        ]

    @cached_property
    def class_trials(self) -> list[tuple[str, AttackerView]]:
        """Who tells values apart, and what he is shown."""
        learning = [by for label in self.attackers for by in COUNTERPARTS.get(label, ())]
        return [(by, view) for view in self.class_views for by in learning]

    @cached_property
    def each(self) -> float:
        """The part of the chance of a false alarm that every row has; the public estimate has one too."""
        attacks = len(self.samples.private) * (1 + len(self.trials))
        attacks += len(self.classed) * (
            1 + len(self.class_trials)
        )  # 1: of all of them that stop when they know
        return self.chance / (1 + attacks)

    def public_rows(self, estimates: Mapping[str, tuple[Array, float]]) -> list[Row]:
        """The centre's estimates of public parameters, each with the error promised, where the truth is known."""
        network, truth = self.promises.network, self.samples.public
        if truth is None:
            return []
        each, parts = self.each / len(network.public), slices_of(network.public)
        return [
            public_row(
                SECTION, network, name, found - truth[:, parts[name]], truth[:, parts[name]], promised, each
            )
            for name, (found, promised) in estimates.items()
        ]

    def private_rows(
        self, planned: Mapping[str, tuple[Array, Array]], advance: Callable[[float], None]
    ) -> list[Row]:
        """What the plan's own model makes of messages and of raw readings, and what attackers learn from them."""
        rows = [
            self._error_row(PLANNED, name, 0, self.samples.private[name], guesses)
            for name, guesses in planned.items()
        ]
        steps = len(self.trials) + len(self.classed)
        for done, (label, view) in enumerate(self.trials):
            rows += self._regressions(label, view)
            advance((done + 1) / steps)
        for done, name in enumerate(self.classed):
            rows += self._classifications(name)
            advance((len(self.trials) + done + 1) / steps)
        return rows

    def _error_row(
        self, label: str, name: str, memory: int, truth: Array, guesses: tuple[Array, Array]
    ) -> Row:
        judged = Judged(SECTION, label, name, memory, self.promises.network)
        return error_row(judged, truth, *guesses, self.promises, self.each)

    def _regressions(self, label: str, view: AttackerView) -> list[Row]:
        truth = np.concatenate([values[view.rows] for values in self.samples.private.values()], axis=1)
        attacker = self.attackers[label]
        sent, raw = (learn(attacker, features, truth, view.stretches()) for features in (view.sent, view.raw))
        return [
            self._error_row(label, name, view.memory, truth[:, part], (sent[:, part], raw[:, part]))
            for name, part in slices_of(self.promises.network.private).items()
        ]

    def _classifications(self, name: str) -> list[Row]:
        """Every attacker on a parameter with few values, then the promise and the log by themselves."""
        rows, told = list[Row](), list[Told]()
        for by, view in self.class_trials:
            known = Classes(self.classed[name].values, self.classed[name].rows[view.rows])
            stretches = view.stretches(known.rows)
            sent, raw = (learn_classes(by, each, known, stretches) for each in (view.sent, view.raw))
            judged = Judged(SECTION, by, name, view.memory, self.promises.network)
            truth = self.samples.private[name][view.rows]
            rows.append(class_row(judged, known, truth, sent, raw, stretches, self.promises, self.each))
            told.append(Told(rows[-1], known, sent, stretches))
        seen = self.promises.seen.get(name)
        return [*rows, *two_verdicts(SECTION, name, told, seen, self.each)] if told else rows


def rows_on_data(
    deployment: Deployment,
    samples: Samples,
    attackers: Mapping[str, Learner],
    chance: float,
    advance: Callable[[float], None],
) -> list[Row]:
    """Every attacker on every private parameter, with and without memory; the public estimate; the model itself."""
    network, messages = deployment.network, deployment.release_all(samples.readings)
    promises = Promises(network, deployment.planned)
    views = list(_views(deployment, messages, samples)), list(_class_views(deployment, messages, samples))
    attack = OnData(samples, promises, attackers, *views, chance)
    centre, raw_centre = (
        LinearCentre(network, sanitizers) for sanitizers in (deployment.planned, raw_sanitizers(network))
    )
    readings = {
        agent: samples.readings[:, network.blocks.rows(k)] - network.offset[network.blocks.rows(k)]
        for k, agent in enumerate(network.agents)
    }
    public = {
        name: (centre.estimate(messages, rows), float(np.trace(centre.knowledge.error_covariance(rows))))
        for name, rows in network.public.items()
        if np.isfinite(centre.knowledge.growth(rows))
    }
    planned = {
        name: (centre.estimate(messages, rows), raw_centre.estimate(readings, rows))
        for name, rows in network.private.items()
        if np.isfinite(centre.knowledge.growth(rows))
    }
    rows = [_model(raw_centre, readings, samples, attack.each), *attack.public_rows(public)]
    rows += attack.private_rows(planned, advance)
    explained = _explained(sorted(rows, key=lambda row: _order(row, list(samples.private))))
    return [*fitted_rows_again(SECTION, network, samples), *explained]


def _views(deployment: Deployment, messages: Mapping[str, Array], samples: Samples) -> Iterator[AttackerView]:
    """The messages of the row alone, and with those of past rows."""
    sent = np.concatenate([messages[agent] for agent in deployment.network.agents], axis=1)
    numbers = max(sent.shape[1], samples.readings.shape[1])
    lags = lags_for(len(samples), numbers)
    for past in ((), lags) if lags else ((),):
        features, rows = remembered(sent, samples.places, past)
        raw, _ = remembered(samples.readings, samples.places, past)
        if len(rows) >= len(samples) // 2:
            yield AttackerView(len(past), rows, features, raw, max(past, default=0))


def _class_views(
    deployment: Deployment, messages: Mapping[str, Array], samples: Samples
) -> Iterator[AttackerView]:
    """The messages of the row alone, and with mean, slope and spread of those before."""
    sent = np.concatenate([messages[agent] for agent in deployment.network.agents], axis=1)
    segments = np.cumsum(np.diff(samples.places, prepend=samples.places[0]) > 1, dtype=np.intp)
    lengths = windows_for(len(samples), max(sent.shape[1], samples.readings.shape[1]))
    for past in ((), lengths) if lengths else ((),):
        shown, raw = (windowed(values, segments, past) for values in (sent, samples.readings))
        yield AttackerView(max(past, default=0), np.arange(len(samples)), shown, raw, max(past, default=0))


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
    """The model and the public estimate first, then each parameter: single rows, memories, its two verdicts."""
    name = row.figures.get("parameter")
    later = 2 if row.what.startswith(f"{name}: ") else int(row.figures.get("past rows", 0.0) > 0)
    return (names.index(name) + 1 if name in names else 0), later


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
        verdict: Judgement = "not covered" if beyond else "fail"
        found.append(replace(row, verdict=verdict, why=f"{row.why} {why}".strip()))
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
