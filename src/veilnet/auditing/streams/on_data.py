"""Attackers on one stream from the world, who see the messages of many rows, earlier and later ones.

As :mod:`veilnet.auditing.attack.on_data` for single rows. The promise of a stream plan counts every message there is,
so an attacker with memory is the one it speaks of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from veilnet._core.types import Array, Integers
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.attack.allowed import Allowed, Promises
from veilnet.auditing.attack.class_rows import class_row
from veilnet.auditing.attack.classes import NAMES, Classes, classes_of, classifier
from veilnet.auditing.attack.error_rows import Judged, error_row, public_row, slices_of
from veilnet.auditing.attack.held_out import Samples, fitted_rows_again
from veilnet.auditing.attack.learners import Learner, learn, learn_classes
from veilnet.auditing.attack.on_data import PLANNED, SECTION
from veilnet.auditing.attack.simulation import raw_sanitizers
from veilnet.auditing.attack.stretches import stretches_of
from veilnet.auditing.deployed.deployment import Deployment, Misbehaves
from veilnet.auditing.report import Row
from veilnet.auditing.streams.attack import long_enough
from veilnet.auditing.streams.attackers import around, reach_of
from veilnet.auditing.streams.steady import filtered
from veilnet.auditing.streams.window import When, Window
from veilnet.bounds.streams.knowledge import silent_stream
from veilnet.model.network import Network

_CAUSE = (
    "Either the model does not describe these data (conditions may have changed since it was fitted), or what is "
    "deployed is not what was planned: look at the section 'deployed', then refit on recent rows and design again."
)


class _StreamPromises(Promises):
    """What is promised of every private parameter with hindsight."""

    def __init__(self, network: Network, planned: Mapping[str, Sanitizer]) -> None:
        self.network = network
        self.full = True
        self._known = {"sent": filtered(network, planned), "raw": filtered(network, raw_sanitizers(network))}
        self._silent = silent_stream(network)

    def sent(self, name: str) -> Allowed:
        """The promise about messages."""
        return self._allowed_of("sent", name)

    def raw(self, name: str) -> Allowed:
        """What raw readings tell by the model."""
        return self._allowed_of("raw", name)

    def _allowed_of(self, which: str, name: str) -> Allowed:
        rows = self.network.private[name]
        error = self._known[which].error(rows, "hindsight")
        raw = self._known["raw"].error(rows, "hindsight")
        before = raw * (1.0 + self._silent.growth(rows, hindsight=True))
        if len(rows) > 1 or not np.isfinite(before) or error <= 0:
            return Allowed(None, error)
        return Allowed(np.array([[max(0.0, 1.0 / error - 1.0 / before)]]), error)


def attacks_on_data(
    deployment: Deployment,
    samples: Samples,
    attackers: Mapping[str, Learner],
    chance: float,
    advance: Callable[[float], None],
) -> list[Row]:
    """Every attacker against every private parameter on one stream from the world, and the plan's own estimates."""
    network = deployment.network
    try:
        sent = deployment.release_all(samples.readings)
    except Misbehaves as trouble:
        return [Row(SECTION, "messages", None, None, "fail", f"the attack could not be run: {trouble}.")]
    messages = np.concatenate([sent[agent] for agent in network.agents], axis=1)
    window = long_enough(network, deployment.planned)
    raw_window = Window(network, raw_sanitizers(network), window.rows, lead=window.lead)
    at = np.arange(window.rows, len(messages) - window.rows)
    features = [
        around(values[None], at, reach_of(window, values.shape[1])) for values in (messages, samples.readings)
    ]
    stretches = stretches_of(len(at), window.rows)
    promises = _StreamPromises(network, deployment.planned)
    truths = {name: truth[at] for name, truth in samples.private.items()}
    few = {name: classes_of(truth) for name, truth in truths.items()}
    classed = {name: found for name, found in few.items() if found is not None}
    able = [label for label in attackers if classifier(label) is not None]
    each = chance / (1 + len(truths) * (1 + len(attackers)) + len(classed) * len(able))
    rows = _public_on_data(window, messages, samples, at, each)
    private = np.concatenate(list(network.private.values()))
    guesses = {
        PLANNED: [
            _slide(view, private, values, at, "hindsight")
            for view, values in ((window, messages), (raw_window, samples.readings - network.offset))
        ]
    }
    goal = np.concatenate(list(truths.values()), axis=1)
    for done, (label, attacker) in enumerate(attackers.items()):
        guesses[label] = [learn(attacker, seen, goal, stretches) for seen in features]
        advance((done + 1) / len(attackers))
    start = 0
    for name, truth in truths.items():
        part = slice(start, start + truth.shape[1])
        start = part.stop
        for label, (from_sent, from_raw) in guesses.items():
            judged = Judged(SECTION, label, name, 0, network)
            rows.append(error_row(judged, truth, from_sent[:, part], from_raw[:, part], promises, each))
        for label in able if name in classed else ():
            classes: Classes = classed[name]
            given = [learn_classes(label, seen, classes, stretches) for seen in features]
            judged = Judged(SECTION, NAMES.get(label, label), name, 0, network)
            rows.append(class_row(judged, classes, truth, given[0], given[1], stretches, promises, each))
    return [*fitted_rows_again(SECTION, network, samples), *(_explained(row) for row in rows)]


def _explained(row: Row) -> Row:
    if row.verdict != "fail":
        return row
    return replace(row, sentence=f"{row.sentence} {_CAUSE}", figures={**row.figures, "cause": _CAUSE})


def _slide(window: Window, wanted: Array, messages: Array, at: Integers, when: When) -> Array:
    """What the model makes of a window around every row."""
    row = window.rows // 2
    weights = window.filter(wanted, row, when).reshape(len(wanted), -1)
    moved = messages - window.message_mean[row]
    views = sliding_window_view(moved, window.rows, axis=0)[at - row]  # (rows, sent, window)
    flat = np.moveaxis(views, 2, 1).reshape(len(at), -1)
    return np.asarray(flat @ weights.T + window.x_mean[row] @ wanted.T)


def _public_on_data(
    window: Window, messages: Array, samples: Samples, at: Integers, chance: float
) -> list[Row]:
    if samples.public is None:
        return []
    network, found = window.network, []
    for name, part in slices_of(network.public).items():
        wanted, truth = network.U[part], samples.public[at][:, part]
        errors = _slide(window, wanted, messages, at, "now") - truth
        promised = window.error(wanted, window.rows // 2, "now")
        row = public_row(SECTION, network, name, errors, truth, promised, chance / len(network.public))
        found.append(replace(row, what=f"{row.what}, now"))
    return found
