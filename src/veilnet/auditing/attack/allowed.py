"""What a plan allows an attacker to know of g = Gx, when g is spread otherwise in the data than the prior says.

The plan promises the error covariance E = G P̃ G' for a g with covariance P = G P0 G'. Messages tell K = E^-1 - P^-1
about g. Where g has another covariance S, and whatever else is in x follows g as before, they still tell K, and the
promise is m(S) = tr (S^-1 + K)^-1. A log in which g moves half as much as in the one the network was fitted to is
compared with m(S), not with tr E: an error can be small because there was little to err about.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array
from veilnet.agent.mechanisms import Sanitizers
from veilnet.bounds.detectability import detectability
from veilnet.bounds.knowledge import knowledge, knowledge_of_factor
from veilnet.model.network import Network

_EXACT = 1e-12  # of the spread: a smaller error counts as this


@dataclass(frozen=True, eq=False)
class Allowed:
    """The promise about one private parameter, for every spread.

    information: K, that of messages about g; None where the prior is not full, and ``fixed`` is all that is known.
    fixed: tr E, which is for an estimate that is right on average, whatever x is; inf where it is unbounded.
    """

    information: Array | None
    fixed: float

    def squares(self, deviations: Array) -> Array:
        """Squares (T,) whose mean is m(S), S the covariance of the deviations (T, k), linearised in S.

        m(S) + tr(D (gg' - S) D') with D = (I + SK)^-1: its mean is m(S), and it strays as m(S) does.
        """
        if self.information is None:
            return np.full(len(deviations), self.fixed)
        spread = deviations.T @ deviations / len(deviations)
        shrunk = np.linalg.inv(np.eye(len(spread)) + spread @ self.information)
        moved = np.sum((deviations @ shrunk.T) ** 2, axis=1)
        return np.asarray(float(np.trace(shrunk @ spread)) + moved - np.mean(moved))


class Promises:
    """What is promised of every private parameter: from messages, and from raw readings.

    seen: how surely the change of each secret is seen, in the model.
    """

    def __init__(self, network: Network, planned: Sanitizers) -> None:
        self.network = network
        self.seen = detectability(network, planned)
        self.full = network.prior is not None and network.prior.full
        self._known = {"sent": knowledge(network, planned), "raw": knowledge(network)}
        self._before = knowledge_of_factor(network, np.zeros((0, network.L)))

    def sent(self, name: str) -> Allowed:
        """The promise about messages."""
        return self._allowed("sent", name)

    def raw(self, name: str) -> Allowed:
        """What raw readings tell by the model."""
        return self._allowed("raw", name)

    def _allowed(self, by: str, name: str) -> Allowed:
        known, rows = self._known[by], self.network.private[name]
        if np.isinf(known.growth(rows)):
            return Allowed(None, np.inf)
        error = known.error_covariance(rows)
        information = _information(error, self._before.error_covariance(rows)) if self.full else None
        return Allowed(information, float(np.trace(error)))


def _information(error: Array, prior: Array) -> Array | None:
    """E^-1 - P^-1, in coordinates where P is the identity."""
    values, directions = np.linalg.eigh(prior)
    if values[0] <= _EXACT * values[-1]:
        return None
    whiten = directions / np.sqrt(values)
    left, turned = np.linalg.eigh(whiten.T @ error @ whiten)
    back = whiten @ turned
    return np.asarray(back * (1.0 / np.clip(left, _EXACT, 1.0) - 1.0) @ back.T)
