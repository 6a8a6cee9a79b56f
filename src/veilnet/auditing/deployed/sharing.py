"""Do two agents draw from the same seed? Their noise and random rounding against each other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from veilnet._core.types import Array, Integers
from veilnet.auditing.deployed.measurements import AgentDraws, Probed, score_against
from veilnet.auditing.statistics import subgaussian_p

_MOST_PAIRS = 2000  # beyond, two streams are compared at the same place only


def between_agents(streams: dict[str, AgentDraws]) -> list[Probed]:
    """Noise and random rounding of two agents must be unrelated, whatever the distance in their streams."""
    measured = []
    kinds = (
        ({agent: s.white for agent, s in streams.items()}, "their noise"),
        ({agent: s.dither for agent, s in streams.items()}, "their random rounding"),
        ({agent: _fair(s.coins) for agent, s in streams.items()}, "the size of their noise"),
    )
    for drawn, kind in kinds:
        kept = {agent: stream for agent, stream in drawn.items() if stream.size}
        for one, other, scores in _related(kept):
            worst = float(scores[np.argmax(np.abs(scores))])
            p = min(1.0, scores.size * float(subgaussian_p(np.array(worst))))
            words = f"{one} and {other}: {kind} is drawn from the same seed"
            measured.append(Probed("seeds", f"{one}, {other}", p, worst, words))
    return measured


def _fair(coins: Array) -> Array:
    """±1 a little smaller, for the unfairness that rounding within a hundredth of a deviation may bring."""
    return np.asarray(coins / 1.05)


def _related(streams: dict[str, Array]) -> Iterator[tuple[str, str, Array]]:
    """For every two agents, scores of what they drew, (rows, numbers) each; every score is 1-sub-Gaussian.

    Number against number, row by row; and draw against draw in the order they were made, at every lag.
    Given one stream, Σ a_t b_{t+l} / |b| is a weighted sum of independent centred draws.
    """
    names = list(streams)
    if len(names) * (len(names) - 1) // 2 > _MOST_PAIRS:
        yield from _related_in_place({name: s.reshape(-1) for name, s in streams.items()})
        yield from _related_in_place({name: s[:, 0] for name, s in streams.items()})
        return
    flat = {name: s.reshape(-1) for name, s in streams.items()}
    longest = max((s.size for s in flat.values()), default=0)
    size = 1 << int(np.ceil(np.log2(max(2 * longest, 2))))
    transforms = {name: np.fft.rfft(s, size) for name, s in flat.items()}
    for j, one in enumerate(names):
        for other in names[j + 1 :]:
            by_row = [score_against(column, streams[other]) for column in streams[one].T]
            sums = np.fft.irfft(np.conj(transforms[one]) * transforms[other], size)
            lags = np.concatenate([np.arange(flat[other].size), size - np.arange(1, flat[one].size)])
            at_lags = sums[lags] / _overlap_norms(flat[one].size, flat[other], lags, size)
            yield one, other, np.concatenate([*by_row, at_lags])


def _related_in_place(streams: dict[str, Array]) -> Iterator[tuple[str, str, Array]]:
    """For many agents: each against the one it resembles most, with the scores against all the others."""
    names = list(streams)
    length = min(512, *(stream.size for stream in streams.values()))
    stack = np.stack([stream[:length] for stream in streams.values()])
    unit = stack / np.maximum(np.linalg.norm(stack, axis=1, keepdims=True), np.finfo(float).tiny)
    for place, name in enumerate(names[:-1]):
        scores = unit[place + 1 :] @ stack[place]
        yield name, names[place + 1 + int(np.argmax(np.abs(scores)))], scores


def _overlap_norms(size_one: int, other: Array, lags: Integers, size: int) -> Array:
    """|b| over the part of stream b that meets stream a at each lag."""
    squares = np.concatenate([[0.0], np.cumsum(other**2)])
    shift = np.where(lags < size // 2, lags, lags - size).astype(int)
    start = np.clip(shift, 0, other.size)
    stop = np.clip(shift + size_one, 0, other.size)
    norms = np.sqrt(np.maximum(squares[stop] - squares[start], 0.0))
    return np.asarray(np.where(norms > 0, norms, np.inf))
