"""Messages of a stream that contradict the model, found before they enter the filter.

What is new in a row, the numbers that arrived less what the rows before make of them, is Gaussian with the covariance
``news`` of its :class:`veilnet.centre.streams.gains.Step`. With news = LL', q = L^-1 (what is new) is standard normal
and |q|² the joint distance. Leaving agent i out lowers it by |a_i|², a_i the part of q in the span of that agent's
columns of L^-1: how far its message is from what the rows before and the others say. These are the tests of
:mod:`veilnet.centre.contradictions`, with the past in the place of the prior.

An agent that is left out of a row is silent in it, as if its message had been lost: its memory went on, the filter
knows that, and its errors stay true. So an agent whose memory is wrong is left out row after row until it agrees
again, and one false number shuts nobody out for longer than its row.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from veilnet._core.linalg import cholesky, solve_lower
from veilnet._core.types import Array
from veilnet.centre.contradictions import DoubtedMessage, Redundancy, Tests, read_rate
from veilnet.centre.streams.gains import Step
from veilnet.centre.streams.model import StreamModel

_SEEN = 1e-12  # of the largest part of what is new, units removed: less is rounding


class StreamGate:
    """Tests what is new in rows of a stream at a false-alarm rate.

    model: of the messages.
    rate:  chance that anything in a row made by the model is doubted.
    keep:  name messages that contradict the model, and use them all the same.
    """

    untested: tuple[str, ...] = ()  # what an agent sent before tells of what it sends

    def __init__(self, model: StreamModel, rate: float, *, keep: bool = False) -> None:
        self.rate = read_rate(rate)
        self.model = model
        self.keep = keep
        self._owner = np.repeat(np.arange(len(model.agents)), model.blocks.sizes)
        self._tests: WeakKeyDictionary[Step, Tests] = WeakKeyDictionary()

    def failing(self, step: Step, new: Array) -> list[tuple[int, DoubtedMessage]]:
        """(place, whom to doubt) of rows that came by one step and fail a test; new: (rows, numbers that arrived)."""
        if not step.row.arrived.size:
            return []
        tests = self._tests.get(step)
        if tests is None:
            tests = self._tests[step] = Tests.at(self.rate, self._redundancy(step))
        return tests.failing(new)

    def _redundancy(self, step: Step) -> Redundancy:
        scale = np.sqrt(np.diag(step.news))
        joint = _white(step.news / np.outer(scale, scale)) / scale
        owner = self._owner[step.row.arrived]
        freedom = np.zeros(len(self.model.agents), dtype=np.intp)
        agents, owners = [np.zeros((0, len(owner)))], []
        for place in np.unique(owner).tolist():
            mine = owner == place
            basis = np.linalg.qr(joint[:, mine] * scale[mine])[0]
            freedom[place] = basis.shape[1]
            agents.append(basis.T @ joint)
            owners += [place] * basis.shape[1]
        return Redundancy(joint, np.concatenate(agents), np.array(owners, dtype=np.intp), freedom)


def _white(news: Array) -> Array:
    """W with W news W' = I, of a covariance whose units were removed; without the directions that are rounding."""
    try:
        return solve_lower(cholesky(news), np.eye(len(news)))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(news)
        seen = values > _SEEN * values[-1]
        return np.asarray(vectors[:, seen].T / np.sqrt(values[seen])[:, None])
