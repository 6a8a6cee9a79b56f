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
from veilnet.auditing.attack.error_rows import slices_of
from veilnet.auditing.attack.held_out import Samples, fitted_rows_again
from veilnet.auditing.attack.learners import Learner
from veilnet.auditing.attack.on_data import SECTION, AttackerView, OnData
from veilnet.auditing.attack.simulation import raw_sanitizers
from veilnet.auditing.deployed.deployment import Deployment
from veilnet.auditing.row import Row
from veilnet.auditing.streams.window import Window
from veilnet.auditing.streams.world import around, filtered, long_enough, reach_of
from veilnet.auditing.world import When
from veilnet.bounds.detectability import detectability
from veilnet.bounds.streams.knowledge import silent_stream
from veilnet.calibration.stretches import windowed, windows_for
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
        self.seen = detectability(network, planned)
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
    sent = deployment.release_all(samples.readings)
    messages = np.concatenate([sent[agent] for agent in network.agents], axis=1)
    window = long_enough(network, deployment.planned)
    raw_window = Window(network, raw_sanitizers(network), window.rows, lead=window.lead)
    at = np.arange(window.rows, len(messages) - window.rows)
    shown, shown_raw = (
        around(values[None], at, reach_of(window, values.shape[1])) for values in (messages, samples.readings)
    )
    view = AttackerView(0, np.arange(len(at)), shown, shown_raw, window.rows)
    sent_before, raw_before = (_windows(values, at) for values in (messages, samples.readings))
    class_view = replace(
        view,
        sent=np.concatenate([shown, sent_before], axis=1),
        raw=np.concatenate([shown_raw, raw_before], axis=1),
    )
    promises = _StreamPromises(network, deployment.planned)
    attack = OnData(samples.at(at), promises, attackers, [view], [class_view], chance)
    private = np.concatenate(list(network.private.values()))
    told, told_raw = (
        _slide(seen, private, values, at, "hindsight")
        for seen, values in ((window, messages), (raw_window, samples.readings - network.offset))
    )
    planned = {name: (told[:, part], told_raw[:, part]) for name, part in slices_of(network.private).items()}
    public = {
        name: (_slide(window, rows, messages, at, "now"), window.error(rows, window.rows // 2, "now"))
        for name, rows in network.public.items()
    }
    rows = [replace(row, what=f"{row.what}, now") for row in attack.public_rows(public)]
    names = list(network.private)
    rows += sorted(
        attack.private_rows(planned, advance), key=lambda row: names.index(row.figures["parameter"])
    )
    explained = (
        replace(row, why=f"{row.why} {_CAUSE}".strip()) if row.verdict == "fail" else row for row in rows
    )
    return [*fitted_rows_again(SECTION, network, samples), *explained]


def _windows(values: Array, at: Integers) -> Array:
    """Mean, slope and spread of the rows up to each."""
    lengths = windows_for(len(at), values.shape[1])
    return windowed(values, np.zeros(len(values), dtype=np.intp), lengths)[at, values.shape[1] :]


def _slide(window: Window, wanted: Array, messages: Array, at: Integers, when: When) -> Array:
    """What the model makes of a window around every row."""
    row = window.rows // 2
    weights = window.filter(wanted, row, when).reshape(len(wanted), -1)
    moved = messages - window.message_mean[row]
    views = sliding_window_view(moved, window.rows, axis=0)[at - row]  # (rows, sent, window)
    flat = np.moveaxis(views, 2, 1).reshape(len(at), -1)
    return np.asarray(flat @ weights.T + window.x_mean[row] @ wanted.T)
