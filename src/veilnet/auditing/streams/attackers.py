"""Learned attackers with memory: regressors that see the messages of many rows, earlier and later ones.

On streams drawn from the model they learn from one half and are judged on the other; the lower limit of their error
holds for every attacker (:mod:`veilnet.auditing.streams.attack`). ``on_data`` judges them on data from the world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from veilnet._core.types import Array, Integers
from veilnet.auditing.attack.learners import Learner
from veilnet.auditing.attack.simulated_rows import SECTION, Limit, Seen, simulated_rows
from veilnet.auditing.attack.simulation import raw_sanitizers
from veilnet.auditing.deployed.deployment import Deployment, Misbehaves
from veilnet.auditing.report import Row
from veilnet.auditing.streams.attack import law_of_errors, long_enough, middle
from veilnet.auditing.streams.simulation import draw_streams, release_streams
from veilnet.auditing.streams.steady import filtered
from veilnet.auditing.streams.window import Window

_MOST_FEATURES = 240  # messages an attacker is shown at once


def simulated_attacks(
    deployment: Deployment,
    attackers: Mapping[str, Learner],
    count: int,
    seed: int,
    chance: float,
    advance: Callable[[float], None],
) -> list[Row]:
    """Every attacker against every private parameter, on streams drawn from the model."""
    network = deployment.network
    window = long_enough(network, deployment.planned)
    at = middle(window)
    streams = max(4, 2 * -(-count // (2 * len(at))))
    drawn = draw_streams(network, streams, window.lead + window.rows, np.random.default_rng([seed, 4]))
    try:
        messages = release_streams(deployment, drawn.readings)
    except Misbehaves as trouble:
        return [Row(SECTION, "messages", None, None, "fail", f"the attack could not be run: {trouble}.")]
    private = np.concatenate(list(network.private.values()))
    seen = Seen(
        around(messages, window.lead + at, reach_of(window, messages.shape[2])),
        around(drawn.readings, window.lead + at, reach_of(window, network.N)),
        (drawn.x[:, window.lead + at] @ private.T).reshape(-1, len(private)),
        streams // 2 * len(at),
    )
    unprotected = filtered(network, raw_sanitizers(network))

    def limit_of(name: str) -> Limit:
        rows = network.private[name]
        law, effective = law_of_errors(window, rows, "hindsight", streams - streams // 2)
        return Limit(law, unprotected.error(rows, "hindsight"), {"effective rows": effective})

    return simulated_rows(network, seen, attackers, limit_of, chance, advance)


def around(values: Array, at: Integers, reach: int) -> Array:
    """(streams * len(at), features): the values of ``reach`` rows before and after, and of the row itself."""
    views = [values[:, at + lag] for lag in range(-reach, reach + 1)]
    return np.concatenate(views, axis=2).reshape(len(values) * len(at), -1)


def reach_of(window: Window, numbers: int) -> int:
    """How many rows before and after an attacker is shown."""
    return max(1, min(window.rows // 4, (_MOST_FEATURES // max(1, numbers) - 1) // 2))
