"""The bundled house as a stream: what a centre that remembers every row learns, from raw readings and from shares.

The public parameters are judged now, from the messages so far; the private ones with hindsight, from all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.streams.simulation import draw_streams
from veilnet.bounds.knowledge import crlb
from veilnet.centre.fusion import Fusion
from veilnet.centre.streams.model import stream_model
from veilnet.cli.story import StoryLine, deviations, rows_in_words
from veilnet.model.network import Network
from veilnet.plans.plan import Plan

_SETTLING = 200  # rows after which the centre's filter and the agents' memories have settled
_BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, eq=False)
class PrivateTrack:
    """One private parameter, row by row: the truth, and the centre's estimates with hindsight."""

    name: str
    unit: str
    truth: Array
    from_raw: Array
    from_sent: Array


@dataclass(frozen=True, eq=False)
class StreamStory:
    """Errors beside promises, and the private parameter that stays closest to a guess, to look at."""

    lines: list[StoryLine]
    track: PrivateTrack


def play_stream(plan: Plan, rows: int, seed: int) -> StreamStory:
    """Simulate so many rows, sanitize them in earnest, filter and smooth, and set errors beside promises.

    The house is drawn from the seed; dither comes from the operating system.
    """
    network = plan.network
    drawn = draw_streams(network, 1, rows + 2 * _SETTLING, np.random.default_rng(seed))
    truth, readings = drawn.x[0], drawn.readings[0]
    by_agent = {
        agent: np.ascontiguousarray(readings[:, network.blocks.rows(place)])
        for place, agent in enumerate(network.agents)
    }
    sent = {agent: plan.sanitizers[agent].stream().sanitize(own) for agent, own in by_agent.items()}
    raw = {agent: Sanitizer.raw(own.shape[1], agent=agent) for agent, own in by_agent.items()}
    settled = slice(_SETTLING, rows + _SETTLING)
    count = len(network.U)
    curious = network.replace(public={**network.public, **network.private})

    def estimated(sanitizers: dict[str, Sanitizer], messages: dict[str, Array]) -> Array:
        """Public rows from the messages so far, private rows from all of them."""
        centre = Fusion(stream_model(curious, sanitizers))
        now, later = centre.estimate(messages).public, centre.smooth(messages).public
        return np.concatenate([now[settled, :count], later[settled, count:]], axis=1)

    from_sent = estimated(dict(plan.sanitizers), sent)
    from_raw = estimated(raw, by_agent)
    wanted = curious.U
    true = truth[settled] @ wanted.T
    columns = [
        _before(network, wanted),
        _promised(network, None, wanted, count),
        _promised(network, plan, wanted, count),
        np.sqrt(np.mean((from_sent - true) ** 2, axis=0)),
    ]
    lines = [
        StoryLine(label, network.unit(name), hidden, *(float(column[k]) for column in columns))
        for k, (label, name, hidden) in enumerate(rows_in_words(network))
    ]
    shown = max(range(count, len(wanted)), key=lambda k: lines[k].promised / lines[k].before)
    track = PrivateTrack(
        lines[shown].name, lines[shown].unit, true[:, shown], from_raw[:, shown], from_sent[:, shown]
    )
    return StreamStory(lines, track)


def _before(network: Network, wanted: Array) -> Array:
    assert network.prior is not None
    assert network.prior.covariance is not None
    return deviations(wanted, network.prior.covariance)


def _promised(network: Network, plan: Plan | None, wanted: Array, public: int) -> Array:
    now, hindsight = crlb(network, plan, when="now"), crlb(network, plan, when="hindsight")
    return np.concatenate([deviations(wanted[:public], now), deviations(wanted[public:], hindsight)])


def in_blocks(values: Array, lowest: float, highest: float) -> str:
    """One character per value, from low to high between the two ends."""
    part = (values - lowest) / (highest - lowest)
    levels = np.clip((part * len(_BLOCKS)).astype(int), 0, len(_BLOCKS) - 1)
    return "".join(_BLOCKS[level] for level in levels)


def track_in_blocks(track: PrivateTrack, rows: int) -> list[str]:
    """The truth and both estimates over the first rows, on one scale."""
    curves = {
        f"{track.name}, true": track.truth[:rows],
        "from raw readings": track.from_raw[:rows],
        "from what is sent": track.from_sent[:rows],
    }
    together = np.concatenate(list(curves.values()))
    width = max(map(len, curves))
    return [
        f"{label:>{width}}  {in_blocks(values, float(together.min()), float(together.max()))}"
        for label, values in curves.items()
    ]
