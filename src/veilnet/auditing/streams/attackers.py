"""Learned attackers with memory: regressors that see the messages of many rows, earlier and later ones.

On streams drawn from the model they learn from one half and are judged on the other; the lower limit of their error
holds for every attacker (:mod:`veilnet.auditing.streams.attack`). ``on_data`` judges them on data from the world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array, Integers
from veilnet.auditing.attack.error_rows import InUnits
from veilnet.auditing.attack.learners import Learner, guesses_of
from veilnet.auditing.attack.simulated_rows import SECTION, Attack, simulated_row
from veilnet.auditing.attack.simulation import raw_sanitizers
from veilnet.auditing.deployed.deployment import Deployment, Misbehaves
from veilnet.auditing.report import Row
from veilnet.auditing.streams.attack import law_of_errors, long_enough, middle
from veilnet.auditing.streams.simulation import draw_streams, release_streams
from veilnet.auditing.streams.steady import filtered
from veilnet.auditing.streams.window import Window
from veilnet.bounds.typical_errors import unit_of
from veilnet.model.network import Network

_MOST_FEATURES = 240  # messages an attacker is shown at once


@dataclass(frozen=True, eq=False)
class _Seen:
    """What attackers learn from and are judged on: features and truth, the first part to learn from."""

    messages: Array  # (rows, features)
    readings: Array
    truth: Array  # (rows, all private rows)
    learned: int  # so many rows come first, to learn from


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
    seen = _Seen(
        around(messages, window.lead + at, reach_of(window, messages.shape[2])),
        around(drawn.readings, window.lead + at, reach_of(window, network.N)),
        (drawn.x[:, window.lead + at] @ private.T).reshape(-1, len(private)),
        streams // 2 * len(at),
    )
    guesses = _learn(attackers, seen, advance)
    each = chance / max(1, len(guesses) * len(network.private))
    unprotected = filtered(network, raw_sanitizers(network))
    rows = []
    for name, part in _parts(network).items():
        law, effective = law_of_errors(window, network.private[name], "hindsight", streams - streams // 2)
        truth, known = seen.truth[seen.learned :, part], np.mean(seen.truth[: seen.learned, part], axis=0)
        units = InUnits(unit_of(network, name), truth.shape[1])
        raw_bound = unprotected.error(network.private[name], "hindsight")
        for label, guessed in guesses.items():
            squares = [
                np.sum((guess - truth) ** 2, axis=1) for guess in (*(g[:, part] for g in guessed), known)
            ]
            attack = Attack(label, name, squares[0], squares[1], squares[2], units)
            rows.append(simulated_row(attack, law, raw_bound, each, {"effective rows": effective}))
    return rows


def _learn(
    attackers: Mapping[str, Learner], seen: _Seen, advance: Callable[[float], None]
) -> dict[str, tuple[Array, Array]]:
    """label -> guesses from messages and from raw readings, on the rows to be judged on."""
    guesses = {}
    for done, (label, attacker) in enumerate(attackers.items()):
        from_messages = guesses_of(attacker, seen.messages, seen.truth, seen.learned)
        advance((done + 0.5) / len(attackers))
        guesses[label] = from_messages, guesses_of(attacker, seen.readings, seen.truth, seen.learned)
        advance((done + 1) / len(attackers))
    return guesses


def around(values: Array, at: Integers, reach: int) -> Array:
    """(streams * len(at), features): the values of ``reach`` rows before and after, and of the row itself."""
    views = [values[:, at + lag] for lag in range(-reach, reach + 1)]
    return np.concatenate(views, axis=2).reshape(len(values) * len(at), -1)


def reach_of(window: Window, numbers: int) -> int:
    """How many rows before and after an attacker is shown."""
    return max(1, min(window.rows // 4, (_MOST_FEATURES // max(1, numbers) - 1) // 2))


def _parts(network: Network) -> dict[str, slice]:
    ends = np.cumsum([len(rows) for rows in network.private.values()])
    return {
        name: slice(int(end) - len(rows), int(end))
        for (name, rows), end in zip(network.private.items(), ends, strict=True)
    }
