"""Estimates from rows that stand by themselves: a product for each set of agents that sent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.bounded import Bounded
from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array, Booleans, Integers
from veilnet.centre.estimates import Estimate
from veilnet.centre.gate import SETS_BYTES, Gate, by_who_sent, silent_agents
from veilnet.centre.messages import CentreModel, View

_ROWS_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class _Weights:
    """What the estimate of one set of agents is: messages @ gain + constants.

    view:      what the messages of the set say.
    silent:    places of the agents that are not in it.
    gain:      (M, rows of U), 0 where an agent is silent or a parameter not estimable.
    constant:  (rows of U,), not a number where not estimable.
    """

    view: View
    silent: Integers
    gain: Array
    constant: Array

    @classmethod
    def of(cls, model: CentreModel, silent: Booleans) -> _Weights:
        view = model.view(~silent) if silent.any() else model.complete
        present = np.repeat(~silent, model.blocks.sizes)
        own = np.where(view.estimable[:, None], view.gain, 0.0).T
        gain = np.zeros((model.blocks.total, len(model.labels)))
        gain[present] = own
        constant = model.public_expected - model.expected[present] @ own
        constant[~view.estimable] = np.nan
        return cls(view, np.flatnonzero(silent), gain, constant)

    def apply(self, stacked: Array) -> Array:
        """The estimates of rows (T, M) in which nothing but numbers is, zeros where an agent is silent."""
        found = stacked @ self.gain
        # flat, since adding a short row to each of many rows costs more than the product
        flat = found.reshape(-1)
        flat += np.tile(self.constant, len(found))
        return found


class RowFusion:
    """Estimates of the public parameters, each row from those who sent in it.

    model: what the agents send.
    gate:  the false-alarm rate at which messages are tested before they are used; None for no test.
    keep:  name messages that contradict the model, and use them all the same.
    """

    is_stream = False

    def __init__(self, model: CentreModel, gate: float | None, *, keep: bool) -> None:
        self.model = model
        self.gate = None if gate is None else Gate(model, gate)
        self._keep = keep
        self._weights_of = Bounded[_Weights](SETS_BYTES, lambda each: 2 * each.gain.nbytes)

    def estimate(self, stacked: Array, lag: int | None = 0) -> Estimate:
        """All rows (T, M): numbers that are not finite did not arrive. No row waits for others."""
        if lag != 0:
            raise InvalidRequest("smooth: the plan is for independent rows; use estimate")
        doubts = [] if self.gate is None else self.gate.doubts(stacked)
        if doubts and not self._keep:
            stacked = stacked.copy()
            for doubt in doubts:
                mine = self.model.blocks.rows(self.model.agents.index(doubt.agent))
                stacked[doubt.row, mine] = np.nan
        public, set_of_row = np.empty((len(stacked), len(self.model.labels))), np.zeros(len(stacked), np.intp)
        sets: dict[bytes, int] = {}
        nobody, everything = np.zeros(len(self.model.agents), bool), np.ones(stacked.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(stacked), _ROWS_AT_ONCE):
                block = stacked[start : start + _ROWS_AT_ONCE]
                some = slice(start, start + len(block))
                # As if nobody were missing, which most rows show to be true; the others are estimated anew.
                public[some] = self._weights(nobody).apply(block)
                odd = np.flatnonzero(~np.isfinite(block @ everything))
                if len(odd) < len(block):
                    set_of_row[some] = sets.setdefault(nobody.tobytes(), len(sets))
                order, groups = by_who_sent(silent_agents(self.model.blocks, block[odd]))
                for silent, members in groups:
                    rows = odd[order[members]]
                    arrived = np.where(np.repeat(silent, self.model.blocks.sizes), 0.0, block[rows])
                    public[start + rows] = self._weights(silent).apply(arrived)
                    set_of_row[start + rows] = sets.setdefault(silent.tobytes(), len(sets))
        used = [self._weights(np.frombuffer(key, dtype=bool)) for key in sets]
        used = used or [self._weights(np.zeros(len(self.model.agents), bool))]
        agents = self.model.agents
        return Estimate(
            public=public,
            labels=self.model.labels,
            units=self.model.units,
            set_of_row=set_of_row,
            set_covariance=np.stack([each.view.covariance for each in used]),
            set_estimable=np.stack([each.view.estimable for each in used]),
            set_missing=tuple(tuple(agents[place] for place in each.silent.tolist()) for each in used),
            contradictions=tuple(doubts),
            held_out=self.model.held_out,
        )

    def _weights(self, silent: Booleans) -> _Weights:
        return self._weights_of.get(silent.tobytes(), lambda: _Weights.of(self.model, silent))
