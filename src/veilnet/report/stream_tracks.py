"""A stretch of a stream, simulated from the model: the truth, and what the centre makes of it.

The seed is fixed, so that a report of the same plan shows the same rows; nothing of it is measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.streams.window import draw_streams
from veilnet.bounds.typical_errors import unit_of
from veilnet.centre.fusion import Fusion
from veilnet.centre.streams.model import stream_model
from veilnet.model.network import Network
from veilnet.plans.plan import Plan

ROWS = 96
_SETTLING = 120  # rows before and after: memories have settled, and later messages have added what they can
_SEED = 20
_MOST_STATES = 240  # of the centre's filter: a larger one takes too long for a picture


@dataclass(frozen=True, eq=False)
class Track:
    """One row of a parameter over time; not a number where the centre cannot say.

    private: estimated with hindsight, from all messages; a public one now, from those so far.
    """

    name: str
    unit: str
    private: bool
    truth: Array
    from_raw: Array
    from_sent: Array

    @property
    def lines(self) -> dict[str, Array]:
        """All three, by what they are called."""
        return {
            "truth": self.truth, "from raw readings": self.from_raw, "from what is sent": self.from_sent
        }  # fmt: skip


def simulated_tracks(plan: Plan) -> list[Track]:
    """A track for each row of every public and private parameter; none where that would take too long."""
    network = plan.network
    if network.L + network.N * (network.colour is not None) + sum(plan.kept.values()) > _MOST_STATES:
        return []
    rng = np.random.default_rng(_SEED)
    drawn = draw_streams(network, 1, ROWS + 2 * _SETTLING, rng)
    readings = {
        agent: np.ascontiguousarray(drawn.readings[0][:, network.blocks.rows(place)])
        for place, agent in enumerate(network.agents)
    }
    raw = {agent: Sanitizer.raw(own.shape[1], agent=agent) for agent, own in readings.items()}
    sent = {
        agent: np.asarray(plan.sanitizers[agent].stream(rng=rng).sanitize(own))
        for agent, own in readings.items()
    }
    wanted = np.concatenate([network.U, *network.private.values()])
    curious = network.replace(public=wanted, units=None, public_scales=None, held_out=None)
    middle, count = slice(_SETTLING, _SETTLING + ROWS), len(network.U)

    def estimated(sanitizers: dict[str, Sanitizer], messages: dict[str, Array]) -> Array:
        centre = Fusion(stream_model(curious, sanitizers))
        now, later = centre.estimate(messages).public[middle], centre.smooth(messages).public[middle]
        return np.concatenate([now[:, :count], later[:, count:]], axis=1)

    truth = drawn.x[0][middle] @ wanted.T
    from_raw, from_sent = estimated(raw, readings), estimated(dict(plan.sanitizers), sent)
    labels = [
        (name if len(rows) == 1 else f"{name}: {_row_name(network, row, k)}", unit_of(network, name), private)
        for private, named in ((False, network.public), (True, network.private))
        for name, rows in named.items()
        for k, row in enumerate(rows)
    ]
    return [Track(*labels[k], truth[:, k], from_raw[:, k], from_sent[:, k]) for k in range(len(labels))]


def _row_name(network: Network, row: Array, place: int) -> str:
    """The entry of x that a row is, or its number."""
    entries = np.flatnonzero(row)
    plain = len(entries) == 1 and row[entries[0]] == 1.0
    return network.parameters[entries[0]] if plain else f"row {place + 1}"
