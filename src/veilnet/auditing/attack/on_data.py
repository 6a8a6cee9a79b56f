"""Attackers on data from the world: what they learn from messages, beside raw readings, guessing and the promise.

Errors are compared as parts of guessing on the very same rows (:mod:`.allowed`). Attackers learn from another log
beside the truth where one is given; else rows are judged in stretches of time that the attacker has not learned from
(:mod:`veilnet.calibration.stretches`). Every chance counts that rows depend on one another
(:mod:`veilnet.calibration.dependence`). Every attacker is also given a memory: messages of the rows around one
(:mod:`.memory`). The promise of a plan for single rows does not speak of such an attacker; where one learns more than
the promise allows, the row says so in a verdict of its own, *not covered*. That of a stream counts every message
there is, so an attacker with memory is the one it speaks of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from veilnet._core.types import Array, Integers
from veilnet.auditing.attack.allowed import Promises
from veilnet.auditing.attack.class_rows import Attempt, class_row, two_verdicts
from veilnet.auditing.attack.error_rows import Judged, error_row, public_row, slices_of
from veilnet.auditing.attack.held_out import Samples, fitted_rows_again
from veilnet.auditing.attack.learners import Learner, learn
from veilnet.auditing.attack.memory import ROWS_A_LAG, around, reach_of, spans_for
from veilnet.auditing.deployed.deployment import Deployment
from veilnet.auditing.row import Judgement, Row
from veilnet.calibration.classes import Classes, classes_of
from veilnet.calibration.classifiers import COUNTERPARTS, learn_classes
from veilnet.calibration.stretches import Stretch, stretches_of, windowed, windows_for
from veilnet.model.network import Network

SECTION = "attackers on your data"
PLANNED = "best linear"
_FORGETS = ("neighbours",)  # distances among so many numbers say little


@dataclass(frozen=True, eq=False)
class ByTheModel:
    """What a plan's own model makes of a log.

    at:       the rows of the log that are judged.
    promises: of every private parameter.
    public:   name -> estimates from messages in these rows, and the error promised.
    private:  name -> estimates from messages, and from raw readings.
    checked:  whether the log contradicts the model, called with a chance of a false alarm; None where nobody asks.
    when:     said of public estimates.
    """

    at: Integers
    promises: Promises
    public: Mapping[str, tuple[Array, float]]
    private: Mapping[str, tuple[Array, Array]]
    checked: Callable[[float], Row] | None = None
    when: str = ""


@dataclass(frozen=True, eq=False)
class AttackerView:
    """What an attacker is shown of rows that are only learned from, then of those that are judged.

    memory:    how many rows are shown beyond those that the promise speaks of.
    sent, raw: features from messages and from raw readings, (rows, features).
    trained:   so many rows are only learned from.
    apart:     rows between those that are learned from and those that are judged, where none is.
    """

    memory: int
    sent: Array
    raw: Array
    trained: int
    apart: int

    def stretches(self, classes: Integers | None = None) -> list[Stretch]:
        """Which rows are learned from and judged; classes: which value each row has, where that counts."""
        count = len(self.sent)
        if self.trained:
            return [Stretch(np.arange(self.trained), np.arange(self.trained, count))]
        return stretches_of(count, self.apart, classes)

    def without(self, left_out: Integers) -> AttackerView:
        """The same, without some of the rows that are only learned from."""
        sent, raw = (np.delete(each, left_out, axis=0) for each in (self.sent, self.raw))
        return AttackerView(self.memory, sent, raw, self.trained - len(left_out), self.apart)


@dataclass(frozen=True, eq=False)
class OnData:
    """Every attacker on rows from the world, with every view it can make use of.

    samples: the rows that are only learned from, then those that are judged; all views are of these.
    """

    samples: Samples
    trained: int
    network: Network
    promises: Promises
    attackers: Mapping[str, Learner]
    views: Sequence[AttackerView]
    class_views: Sequence[AttackerView]
    chance: float

    @cached_property
    def judged(self) -> Samples:
        """The rows that are judged."""
        return self.samples.at(np.arange(self.trained, len(self.samples)))

    @cached_property
    def classed(self) -> dict[str, Classes]:
        """The private parameters that take a few values in the rows that are judged."""
        few = {name: classes_of(truth) for name, truth in self.judged.private.items()}
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
        # 1: of all of them that stop when they know
        attacks += len(self.classed) * (1 + len(self.class_trials))
        return self.chance / (1 + attacks)

    def public_rows(self, estimates: Mapping[str, tuple[Array, float]]) -> list[Row]:
        """The centre's estimates of public parameters, each with the error promised, where the truth is known."""
        network, truth = self.network, self.judged.public
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
            self._error_row(PLANNED, name, 0, self.judged.private[name], guesses)
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
        judged = Judged(SECTION, label, name, memory, self.network)
        return error_row(judged, truth, *guesses, self.promises, self.each)

    def _regressions(self, label: str, view: AttackerView) -> list[Row]:
        truth = np.concatenate(list(self.samples.private.values()), axis=1)
        attacker = self.attackers[label]
        sent, raw = (
            learn(attacker, features, truth, view.stretches())[self.trained :]
            for features in (view.sent, view.raw)
        )
        goal = truth[self.trained :]
        return [
            self._error_row(label, name, view.memory, goal[:, part], (sent[:, part], raw[:, part]))
            for name, part in slices_of(self.network.private).items()
        ]

    def _classifications(self, name: str) -> list[Row]:
        """Every attacker on a parameter with few values, then the promise and the log by themselves."""
        rows, attempts = list[Row](), list[Attempt]()
        judged, truth = self.classed[name], self.judged.private[name]
        values = self.samples.private[name][:, 0]
        strange = np.flatnonzero(~np.isin(values, judged.values))  # that the log to be judged does not have
        known = Classes(judged.values, np.searchsorted(judged.values, np.delete(values, strange)))
        for by, shown in self.class_trials:
            view = shown.without(strange) if strange.size else shown
            stretches = view.stretches(known.rows)
            sent, raw = (
                learn_classes(by, each, known, stretches)[view.trained :] for each in (view.sent, view.raw)
            )
            own = [Stretch(each.learned, each.judged - view.trained) for each in stretches]
            about = Judged(SECTION, by, name, view.memory, self.network)
            rows.append(class_row(about, judged, truth, sent, raw, own, self.promises, self.each))
            attempts.append(Attempt(rows[-1], judged, sent, own))
        seen = self.promises.seen.get(name)
        return [*rows, *two_verdicts(SECTION, name, attempts, seen, self.each)] if attempts else rows


def rows_on_data(
    deployment: Deployment,
    samples: Samples,
    training: Samples | None,
    by_the_model: Callable[[Deployment, Samples, Array], ByTheModel],
    attackers: Mapping[str, Learner],
    chance: float,
    advance: Callable[[float], None],
) -> list[Row]:
    """Every attacker on every private parameter, with and without memory; the public estimate; the model itself.

    training:     rows that attackers learn from; None for other stretches of the same log.
    by_the_model: what the plan's own model makes of the log and its messages (T, sent).
    """
    network = deployment.network
    logs = [_Shown.of(deployment, each) for each in (training, samples) if each is not None]
    model = by_the_model(deployment, samples, logs[-1].sent)
    logs[-1] = replace(logs[-1], at=model.at)
    views = [*_views(logs, network.is_stream)], [*_views(logs, network.is_stream, of_classes=True)]
    trained = sum(len(each.at) for each in logs[:-1])
    joined = _joined([each.samples.at(each.at) for each in logs])
    attack = OnData(joined, trained, network, model.promises, attackers, *views, chance)
    checked = [] if model.checked is None else [model.checked(attack.each)]
    public = [replace(row, what=f"{row.what}{model.when}") for row in attack.public_rows(model.public)]
    rows = [*checked, *public, *attack.private_rows(model.private, advance)]
    rows = sorted(rows, key=lambda row: _order(row, list(samples.private)))
    cause = _CHANGED if not checked else _CAUSES.get(checked[0].verdict, _SOUND)
    figures = {"learned rows": float(trained)} if trained else {}
    found = [replace(row, figures={**row.figures, **figures}) for row in _explained(rows, cause)]
    return [*fitted_rows_again(SECTION, network, samples), *found]


@dataclass(frozen=True, eq=False)
class _Shown:
    """A log: its rows, all messages of each side by side (T, sent), and the rows ``at`` that attackers see."""

    samples: Samples
    sent: Array
    at: Integers

    @classmethod
    def of(cls, deployment: Deployment, samples: Samples) -> _Shown:
        messages = deployment.release_all(samples.readings, samples.places)
        sent = np.concatenate([messages[agent] for agent in deployment.network.agents], axis=1)
        return cls(samples, sent, np.arange(len(samples)))


def _joined(logs: Sequence[Samples]) -> Samples:
    """One log after the other."""
    last = logs[-1]
    return Samples(
        np.concatenate([each.readings for each in logs]),
        {name: np.concatenate([each.private[name] for each in logs]) for name in last.private},
        last.public if len(logs) == 1 else _public(logs),
        last.model,
        np.concatenate([each.places for each in logs]),
    )


def _public(logs: Sequence[Samples]) -> Array | None:
    """The truth about what is public; nobody learns it, so that it may be missing in rows that are learned from."""
    judged = logs[-1].public
    if judged is None:
        return None
    return np.concatenate([*(np.full((len(each), judged.shape[1]), np.nan) for each in logs[:-1]), judged])


def _views(logs: Sequence[_Shown], stream: bool, *, of_classes: bool = False) -> Iterator[AttackerView]:
    """The messages of the row alone, and with those around it; of a stream, whose promise counts all, the latter.

    of_classes: whether mean, slope and spread of the rows before are shown too, to tell values apart.
    """
    numbers = max(logs[-1].sent.shape[1], logs[-1].samples.readings.shape[1])
    count = len(logs[0].samples)
    spans = spans_for(count // ROWS_A_LAG, numbers)
    trained = sum(len(each.at) for each in logs[:-1])

    def shown(values: Array, log: _Shown, *, memory: bool) -> Array:
        if not memory:
            return values[log.at]
        places = log.samples.places
        features = [around(values, places, spans)]
        if of_classes:
            segments = np.cumsum(np.diff(places, prepend=places[0]) > 1, dtype=np.intp)
            features.append(windowed(values, segments, windows_for(count, numbers))[:, values.shape[1] :])
        return np.concatenate(features, axis=1)[log.at]

    for memory in (True,) if stream else (False, True) if spans else (False,):
        sent, raw = (
            np.concatenate([shown(values, log, memory=memory) for log, values in each])
            for each in ([(log, log.sent) for log in logs], [(log, log.samples.readings) for log in logs])
        )
        beyond = len(spans) if memory and not stream else 0
        yield AttackerView(beyond, sent, raw, trained, reach_of(spans) if memory else 0)


def _order(row: Row, names: list[str]) -> tuple[int, int]:
    """The model and the public estimate first, then each parameter: single rows, memories, its two verdicts."""
    name = row.figures.get("parameter")
    later = 2 if row.what.startswith(f"{name}: ") else int(row.figures.get("past rows", 0.0) > 0)
    return (names.index(name) + 1 if name in names else 0), later


def _explained(rows: list[Row], cause: str) -> list[Row]:
    """Rows with what a broken promise may come from; one for single rows does not cover an attacker with memory."""
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
    "The readings themselves seem to follow the model. Look at what is deployed first (the section 'deployed'), "
    "then at whether the parameter is as normal as the model takes it to be."
)
_UNKNOWN = (
    "So few independent rows leave open whether the readings follow the model. Look at what is deployed (the section "
    "'deployed'); if that is as planned, the model does not hold here: refit on recent rows."
)
_CHANGED = (
    "Either the model does not describe these data (conditions may have changed since the fit), or what is "
    "deployed is not what was planned. Look at the section 'deployed', then refit on recent rows and design again."
)
_CAUSES = {"warn": _DRIFT, "cannot tell": _UNKNOWN}
