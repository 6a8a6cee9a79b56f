"""Learned attackers on simulated rows: regressors trained from sanitized messages to each private parameter.

They are given what an attacker could have at best, messages beside the truth, and are judged on rows they
have not seen. On rows drawn from the model no attacker beats the bound: whatever it answers, its error is
g - E[g|z], normal with covariance G P̃ G' and independent of z, plus something that depends on z alone; given
the messages its sum of squares is thus at least as large, in distribution, as that of the first part. The
lower limit of :class:`SquareSum` therefore holds for every attacker there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from veilnet._core.types import Array
from veilnet.auditing.attack.error_rows import InUnits
from veilnet.auditing.attack.held_out import Samples
from veilnet.auditing.attack.learners import Learner, choose_attackers, guesses_of
from veilnet.auditing.attack.on_data import rows_on_data
from veilnet.auditing.attack.simulated_rows import SECTION, Attack, simulated_row
from veilnet.auditing.deployed.deployment import Deployment, Misbehaves
from veilnet.auditing.report import Row
from veilnet.auditing.statistics import SquareSum
from veilnet.bounds.knowledge import knowledge, knowledge_of_factor
from veilnet.bounds.typical_errors import unit_of
from veilnet.model.network import Network

__all__ = ["SECTION", "Learner", "attacker_rows", "choose_attackers"]


def attacker_rows(
    deployment: Deployment,
    samples: Samples,
    attackers: Mapping[str, Learner],
    chance: float,
    advance: Callable[[float], None],
) -> list[Row]:
    """Errors of every attacker on every private parameter: from messages, from raw readings, by guessing."""
    network = samples.model if samples.model is not None else deployment.network
    try:
        messages = deployment.release_all(samples.readings)
    except Misbehaves as trouble:
        return [Row(SECTION, "messages", None, None, "fail", f"the attack could not be run: {trouble}.")]
    if samples.model is None:
        return rows_on_data(deployment, messages, samples, attackers, chance, advance)
    sent = np.concatenate([messages[agent] for agent in network.agents], axis=1)
    learned = len(samples) // 2
    truth = np.concatenate(list(samples.private.values()), axis=1)
    ends = np.cumsum([part.shape[1] for part in samples.private.values()])
    parts = {
        name: slice(int(end) - samples.private[name].shape[1], int(end))
        for name, end in zip(samples.private, ends, strict=True)
    }
    guesses: dict[str, tuple[Array, Array]] = {}
    for done, (label, attacker) in enumerate(attackers.items()):
        from_messages = guesses_of(attacker, sent, truth, learned)
        advance((done + 0.5) / len(attackers))
        guesses[label] = from_messages, guesses_of(attacker, samples.readings, truth, learned)
        advance((done + 1) / len(attackers))
    each = chance / max(1, len(guesses) * len(parts))
    bounds = _Bounds(network, deployment)
    return [
        _row(label, name, truth[:, part], learned, (a[:, part], b[:, part]), bounds, each)
        for name, part in parts.items()
        for label, (a, b) in guesses.items()
    ]


class _Bounds:
    """tr(G P̃ G') and its spectrum, from messages; raw and before anything was sent."""

    def __init__(self, network: Network, deployment: Deployment) -> None:
        self.network = network
        self._sent = knowledge(network, deployment.planned)
        self._raw = knowledge(network)
        self._before = knowledge_of_factor(network, np.zeros((0, network.L)))

    def spectrum(self, name: str) -> Array:
        """Eigenvalues of G P̃ G'; infinite where it is unbounded."""
        rows = self.network.private[name]
        if np.isinf(self._sent.growth(rows)):
            return np.array([np.inf])
        values = np.linalg.eigvalsh(self._sent.error_covariance(rows))
        return np.asarray(np.maximum(values, 0.0))

    def raw(self, name: str) -> float:
        """tr(G P G')."""
        return float(np.trace(self._raw.error_covariance(self.network.private[name])))

    def before(self, name: str) -> float:
        """tr(G P0 G'), inf without a prior."""
        rows = self.network.private[name]
        if np.isinf(self._before.growth(rows)):
            return np.inf
        return float(np.trace(self._before.error_covariance(rows)))


def _row(
    label: str,
    name: str,
    truth: Array,
    learned: int,
    guesses: tuple[Array, Array],
    bounds: _Bounds,
    chance: float,
) -> Row:
    goal = truth[learned:]
    squares, raw_squares = (np.sum((guess - goal) ** 2, axis=1) for guess in guesses)
    by_guessing = np.sum((goal - np.mean(truth[:learned], axis=0)) ** 2, axis=1)
    units = InUnits(unit_of(bounds.network, name), truth.shape[1])
    attack = Attack(label, name, squares, raw_squares, by_guessing, units)
    law = SquareSum(bounds.spectrum(name), len(goal))
    return simulated_row(attack, law, bounds.raw(name), chance, {"prior bound": bounds.before(name)})
