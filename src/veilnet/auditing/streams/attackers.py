"""Learned attackers with memory: regressors that see the messages of many rows, earlier and later ones.

On streams drawn from the model they learn from one half and are judged on the other; the lower limit of their error
holds for every attacker (:mod:`veilnet.auditing.streams.attack`). ``on_data`` judges them on data from the world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array, Integers
from veilnet.auditing.attack.attackers import SECTION
from veilnet.auditing.attack.learners import Learner, guesses_of
from veilnet.auditing.deployed.deployment import Deployment, Misbehaves
from veilnet.auditing.report import Judgement, Row
from veilnet.auditing.streams.attack import law_of_errors, long_enough, middle
from veilnet.auditing.streams.simulation import draw_streams, release_streams
from veilnet.auditing.streams.window import Window
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
    rows = []
    for name, part in _parts(network).items():
        law, effective = law_of_errors(window, network.private[name], "hindsight", streams - streams // 2)
        for label, (sent, raw) in guesses.items():
            truth = seen.truth[seen.learned :, part]
            found = float(np.mean(np.sum((sent[:, part] - truth) ** 2, axis=1)))
            figures = _beside(seen, part, raw) | {"effective rows": effective, "bound": law.mean}
            beaten = found < law.lowest(chance=each)
            rows.append(_row(label, name, law.mean, found, beaten, law.interval(found), figures))
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


def _beside(seen: _Seen, part: slice, raw: Array) -> dict[str, float]:
    truth = seen.truth[seen.learned :, part]
    known = np.mean(seen.truth[: seen.learned, part], axis=0)
    return {
        "from raw readings": float(np.mean(np.sum((raw[:, part] - truth) ** 2, axis=1))),
        "guessing": float(np.mean(np.sum((truth - known) ** 2, axis=1))),
        "tested rows": float(len(truth)),
    }


def _row(
    label: str,
    name: str,
    bound: float,
    found: float,
    beaten: bool,
    interval: tuple[float, float],
    figures: dict[str, float],
) -> Row:
    if beaten:
        sentence = (
            f"{label} learns {name} from the messages of many rows better than the bound allows: mean square error "
            f"{found:.4g}, bound {bound:.4g}."
        )
    else:
        sentence = (
            f"{label} errs on {name} by {found:.4g} (mean square) from the messages of many rows, earlier and later; "
            f"the bound with hindsight is {bound:.4g}."
        )
    verdict: Judgement = "fail" if beaten else "ok"
    what = f"{label} on {name}, simulated"
    return Row(SECTION, what, bound, found, verdict, sentence, interval, figures)
