"""What a plan for a stream makes of a log from the world by its own model, over a window around every row."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from veilnet._core.types import Array, Integers
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.attack.allowed import Allowed, Promises
from veilnet.auditing.attack.error_rows import slices_of
from veilnet.auditing.attack.held_out import Samples
from veilnet.auditing.attack.on_data import ByTheModel
from veilnet.auditing.attack.simulation import raw_sanitizers
from veilnet.auditing.deployed.deployment import Deployment
from veilnet.auditing.streams.window import Window
from veilnet.auditing.streams.world import filtered, long_enough
from veilnet.auditing.world import When
from veilnet.bounds.detectability import detectability
from veilnet.bounds.streams.knowledge import silent_stream
from veilnet.model.network import Network


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


def stream_by_the_model(deployment: Deployment, samples: Samples, messages: Array) -> ByTheModel:
    """Estimates from a window of messages (T, sent), and of readings, around every row that has a whole one."""
    network = deployment.network
    window = long_enough(network, deployment.planned)
    raw_window = Window(network, raw_sanitizers(network), window.rows, lead=window.lead)
    at = np.arange(window.rows, len(messages) - window.rows)
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
    return ByTheModel(at, _StreamPromises(network, deployment.planned), public, planned, when=", now")


def _slide(window: Window, wanted: Array, messages: Array, at: Integers, when: When) -> Array:
    """What the model makes of a window around every row."""
    row = window.rows // 2
    weights = window.filter(wanted, row, when).reshape(len(wanted), -1)
    moved = messages - window.message_mean[row]
    views = sliding_window_view(moved, window.rows, axis=0)[at - row]  # (rows, sent, window)
    flat = np.moveaxis(views, 2, 1).reshape(len(at), -1)
    return np.asarray(flat @ weights.T + window.x_mean[row] @ wanted.T)
