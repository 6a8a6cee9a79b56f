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
from veilnet.auditing.attack.held_out import Samples
from veilnet.auditing.attack.learners import Learner, choose_attackers
from veilnet.auditing.attack.on_data import rows_on_data
from veilnet.auditing.attack.simulated_rows import SECTION, Limit, Seen, simulated_rows
from veilnet.auditing.deployed.deployment import Deployment, Misbehaves
from veilnet.auditing.report import Row
from veilnet.auditing.statistics import SquareSum
from veilnet.bounds.knowledge import Knowledge, knowledge, knowledge_of_factor

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
    truth = np.concatenate(list(samples.private.values()), axis=1)
    learned = len(samples) // 2
    known, raw = knowledge(network, deployment.planned), knowledge(network)
    before = knowledge_of_factor(network, np.zeros((0, network.L)))

    def limit_of(name: str) -> Limit:
        rows = network.private[name]
        law = SquareSum(_spectrum(known, rows), len(samples) - learned)
        prior_bound = float(np.sum(_spectrum(before, rows)))
        return Limit(law, float(np.trace(raw.error_covariance(rows))), {"prior bound": prior_bound})

    seen = Seen(sent, samples.readings, truth, learned)
    return simulated_rows(network, seen, attackers, limit_of, chance, advance)


def _spectrum(known: Knowledge, rows: Array) -> Array:
    """Eigenvalues of G P̃ G'; infinite where it is unbounded."""
    if np.isinf(known.growth(rows)):
        return np.array([np.inf])
    return np.asarray(np.maximum(np.linalg.eigvalsh(known.error_covariance(rows)), 0.0))
