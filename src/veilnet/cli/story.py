"""The bundled house, played through: what the centre knows before, from raw readings, and from what is sent.

Of a stream the public parameters are judged now, from the messages so far; the private ones with hindsight, from all
of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.attack.simulation import draw_readings, draw_x
from veilnet.auditing.streams.window import draw_streams
from veilnet.bounds.knowledge import crlb
from veilnet.centre.fusion import Fusion
from veilnet.centre.models import messages_of
from veilnet.model.network import Network
from veilnet.plans.plan import Plan

_SETTLING = 200  # rows after which the centre's filter and the agents' memories have settled
_BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class StoryLine:
    """One parameter and the deviation of the centre's error on it, in the parameter's unit.

    before: from the prior alone; raw: from raw readings; promised: from what is sent (Cramér–Rao bounds);
    measured: root mean square error of the best estimate from what was really sent.
    """

    name: str
    unit: str
    private: bool
    before: float
    raw: float
    promised: float
    measured: float


@dataclass(frozen=True, eq=False)
class Story:
    """Errors beside promises; row by row, the private parameter that stays closest to a guess.

    shown: its name, then its truth and the centre's estimates of it, by what they are called.
    """

    lines: list[StoryLine]
    shown: dict[str, Array]


def play(plan: Plan, rows: int, seed: int) -> Story:
    """Simulate so many rows, sanitize them with secure noise, estimate, and set errors beside promises.

    The house is drawn from the seed; the agents' noise comes from the operating system. The centre that estimates the
    private parameters is the fusion centre turned curious.
    """
    network = plan.network
    if network.prior is None or network.prior.covariance is None:
        raise InvalidRequest("prior: the story starts from what is known beforehand and needs a full prior")
    curious = network.replace(public={**network.public, **network.private}, public_scales=None, held_out=None)
    wanted, public = curious.U, len(network.U)
    x, readings, kept = drawn_house(network, rows, seed)
    sent = {agent: plan.sanitizers[agent].stream().sanitize(own) for agent, own in readings.items()}
    raw = {agent: Sanitizer.raw(own.shape[1], agent=agent) for agent, own in readings.items()}
    truth = x[kept] @ wanted.T
    from_sent = _estimated(curious, public, plan.sanitizers, sent)[kept]
    from_raw = _estimated(curious, public, raw, readings)[kept]
    columns = [
        _deviations(wanted, network.prior.covariance),
        _promised(network, None, wanted, public),
        _promised(network, plan, wanted, public),
        np.sqrt(np.mean((from_sent - truth) ** 2, axis=0)),
    ]
    lines = [
        StoryLine(label, network.unit(name), hidden, *(float(column[k]) for column in columns))
        for k, (label, name, hidden) in enumerate(_rows_in_words(network))
    ]
    shown = max(range(public, len(wanted)), key=lambda k: lines[k].promised / lines[k].before)
    tracks = {
        f"{lines[shown].name}, true": truth,
        "from raw readings": from_raw,
        "from what is sent": from_sent,
    }
    return Story(lines, {label: values[:, shown] for label, values in tracks.items()})


def drawn_house(network: Network, rows: int, seed: int) -> tuple[Array, dict[str, Array], slice]:
    """(x, agent -> readings, the rows that count) of so many rows and, in a stream, of those before and after."""
    rng = np.random.default_rng(seed)
    if network.is_stream:
        drawn = draw_streams(network, 1, rows + 2 * _SETTLING, rng)
        x, stacked, kept = drawn.x[0], drawn.readings[0], slice(_SETTLING, rows + _SETTLING)
    else:
        x, kept = draw_x(network, rng, rows), slice(rows)
        stacked = draw_readings(network, x, rng)
    by_agent = {
        agent: np.ascontiguousarray(stacked[:, network.blocks.rows(place)])
        for place, agent in enumerate(network.agents)
    }
    return x, by_agent, kept


def _estimated(
    curious: Network, public: int, sanitizers: Mapping[str, Sanitizer], messages: Mapping[str, Array]
) -> Array:
    """So many public rows from the messages so far, private rows from all of them."""
    centre = Fusion(messages_of(curious, sanitizers))
    now = centre.estimate(messages).public
    later = centre.smooth(messages).public if curious.is_stream else now
    return np.concatenate([now[:, :public], later[:, public:]], axis=1)


def _promised(network: Network, plan: Plan | None, wanted: Array, public: int) -> Array:
    now = crlb(network, plan)
    later = crlb(network, plan, when="hindsight") if network.is_stream else now
    return np.concatenate([_deviations(wanted[:public], now), _deviations(wanted[public:], later)])


def _rows_in_words(network: Network) -> list[tuple[str, str, bool]]:
    """(label of the row, name of its parameter, whether it is private), public rows first."""
    found = []
    for hidden, named in ((False, network.public), (True, network.private)):
        for name, rows in named.items():
            for row in rows:
                parts = " and ".join(network.parameters[k] for k in np.flatnonzero(row)[:2])
                found.append((name if len(rows) == 1 else f"{name}: {parts}", name, hidden))
    return found


def _deviations(rows: Array, covariance: Array) -> Array:
    return np.asarray(np.sqrt(np.sum((rows @ covariance) * rows, axis=1)))


def in_blocks(values: Array, lowest: float, highest: float) -> str:
    """One character per value, from low to high between the two ends."""
    part = (values - lowest) / (highest - lowest)
    levels = np.clip((part * len(_BLOCKS)).astype(int), 0, len(_BLOCKS) - 1)
    return "".join(_BLOCKS[level] for level in levels)


def shown_in_blocks(story: Story, rows: int) -> list[str]:
    """The truth and both estimates over the first rows, on one scale."""
    curves = {label: values[:rows] for label, values in story.shown.items()}
    together = np.concatenate(list(curves.values()))
    width = max(map(len, curves))
    return [
        f"{label:>{width}}  {in_blocks(values, float(together.min()), float(together.max()))}"
        for label, values in curves.items()
    ]
