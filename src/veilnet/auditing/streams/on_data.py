"""What a plan for a stream makes of a log from the world by its own model: the centre's filter, looking back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from veilnet._core.missed import MISSED
from veilnet._core.types import Array, Integers
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.attack.allowed import Allowed, Promises
from veilnet.auditing.attack.error_rows import slices_of
from veilnet.auditing.attack.held_out import Samples
from veilnet.auditing.attack.memory import FARTHEST
from veilnet.auditing.attack.on_data import ByTheModel
from veilnet.auditing.attack.simulation import raw_sanitizers
from veilnet.auditing.deployed.deployment import Deployment
from veilnet.auditing.streams.world import filtered
from veilnet.bounds.detectability import detectability
from veilnet.bounds.streams.knowledge import silent_stream
from veilnet.centre.streams.fusing import StreamFusion
from veilnet.centre.streams.model import stream_model
from veilnet.model.network import Network

_Found = tuple[Mapping[str, Array], Mapping[str, float]]


class _StreamPromises(Promises):
    """What is promised of every private parameter with hindsight: in the long run, or around these gaps if less.

    around: name -> the mean square error that the model states of the rows judged, from messages and raw readings.
    """

    def __init__(
        self, network: Network, planned: Mapping[str, Sanitizer], around: Mapping[str, tuple[float, float]]
    ) -> None:
        self.network = network
        self.full = True
        self.seen = detectability(network, planned)
        self._around = around
        self._filtered = filtered(network, planned), filtered(network, raw_sanitizers(network))
        self._silent = silent_stream(network)

    def _allowed(self, by: str, name: str) -> Allowed:
        rows, raw = self.network.private[name], by == "raw"
        sent_and_raw = [each.error(rows, "hindsight") for each in self._filtered]
        before = sent_and_raw[1] * (1.0 + self._silent.growth(rows, hindsight=True))
        error = min(sent_and_raw[raw], self._around[name][raw])
        if len(rows) > 1 or not np.isfinite(before) or error <= 0:
            return Allowed(None, error)
        return Allowed(np.array([[max(0.0, 1.0 / error - 1.0 / before)]]), error)


def stream_by_the_model(deployment: Deployment, samples: Samples, messages: Array) -> ByTheModel:
    """Estimates from all messages (T, sent), and from all readings, of every row; gaps were missed by everybody."""
    network, raw, at = (
        deployment.network,
        raw_sanitizers(deployment.network),
        samples.places - samples.places[0],
    )
    ends = min(FARTHEST, len(at) // 8)  # rows there have no memory, or no future
    judged = np.flatnonzero((at >= ends) & (at <= at[-1] - ends))
    moved = samples.readings - network.offset
    of_private = network.replace(public=dict(network.private), public_scales=None, held_out=None)
    learned, stated = _learned(of_private, deployment.planned, messages, at, judged, None)
    learned_raw, stated_raw = _learned(of_private, raw, moved, at, judged, None)
    now, promised = _learned(network, deployment.planned, messages, at, judged, 0)
    around = {name: (stated[name], stated_raw[name]) for name in learned}
    return ByTheModel(
        judged,
        _StreamPromises(network, deployment.planned, around),
        {name: (found, promised[name]) for name, found in now.items()},
        {name: (found, learned_raw[name]) for name, found in learned.items()},
        when=", now",
    )


def _learned(
    network: Network,
    sanitizers: Mapping[str, Sanitizer],
    numbers: Array,
    at: Integers,
    judged: Integers,
    lag: int | None,
) -> _Found:
    """public name -> estimates (judged, rows) and their mean square error as the model states it.

    numbers: (T, sent) of the rows ``at``, counted from 0; lag: how many later rows an estimate knows, None for all.
    """
    fusion = StreamFusion(stream_model(network, sanitizers), None, keep=False, history=1)
    filled = np.full((int(at[-1]) + 1, numbers.shape[1]), MISSED)
    filled[at] = numbers
    found = fusion.estimate(filled, lag)
    parts = slices_of(network.public)
    public, variances = found.public[at[judged]], found.model_deviation[at[judged]] ** 2
    stated = {name: float(np.mean(np.sum(variances[:, part], axis=1))) for name, part in parts.items()}
    return {name: public[:, part] for name, part in parts.items()}, stated
