"""What answers show of an agent's draws: whether their seed can be guessed, and whether two agents share one.

A generator seeded by the time of day gives its secret away to anybody who knows roughly when it was started. The
audit knows: it tries every second, every millisecond and, where the call was short, every microsecond of it, small
whole numbers, and this process's number, with NumPy's and Python's generators. Noise and random rounding of every two
agents are compared with each other. Each measurement says how likely a sound sanitizer shows it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array, Integers
from veilnet.auditing.statistics import subgaussian_p


@dataclass(frozen=True)
class Probed:
    """One thing measured at one agent (or two): how likely a sound sanitizer shows it, and what it shows."""

    check: str
    who: str
    p: float
    found: float
    words: str


@dataclass(frozen=True, eq=False)
class AgentDraws:
    """What is left of an agent's answers when the plan's compression is taken off."""

    white: Array  # (T, k): the draws behind the noise of a repeated reading
    dither: Array  # (T, m): random rounding of readings all over the range, in half grid steps
    coins: Array  # (T, k): +1 where a draw is larger than most, -1 where it is smaller


def probed(check: str, who: str, chances: Array, found: Array, words: str) -> list[Probed]:
    """One for each of several p-values, with what was found."""
    pairs = zip(np.ravel(chances).tolist(), np.ravel(found).tolist(), strict=True)
    return [Probed(check, who, p, each, words) for p, each in pairs]


def pairs_apart(count: int, lag: int) -> Integers:
    """Places of the first of disjoint pairs ``lag`` apart: no draw is on both sides of two of them."""
    first = np.flatnonzero((np.arange(count) // lag) % 2 == 0)
    return first[first + lag < count]


def score_against(one: Array, others: Array) -> Array:
    """one'b / |b| for each column b: 1-sub-Gaussian for 1-sub-Gaussian ``one`` independent of b."""
    norms = np.linalg.norm(others, axis=0)
    return np.asarray(one @ others / np.where(norms > 0, norms, np.inf))


_DRAWS = 8
_MOST_OF_A_CLOCK = 8000
_SMALL = 256
_MOST_ROUNDING = 0.05


@dataclass(frozen=True)
class Span:
    """When a call began and ended, in seconds of the clock."""

    began: float
    ended: float

    def seeds(self) -> Iterator[int]:
        """Whole numbers that a clock showed during the call, in seconds, milliseconds and microseconds."""
        for unit, slack in ((1.0, 2), (1e3, 3), (1e6, 50)):
            first, last = int(self.began * unit) - slack, int(self.ended * unit) + slack
            if last - first <= _MOST_OF_A_CLOCK:
                yield from range(first, last + 1)


def guessed_seed(agent: str, white: Array, rounding: Array, span: Span) -> list[Probed]:
    """Whether the draws (T, k) of one call are those of a generator with a seed that can be guessed.

    A normal draw comes within r of a given number with probability at most 0.8 r; the chance that one guess meets
    all of the first draws is the product, and that any does, at most their number times as much.
    """
    off = float(np.max(rounding, initial=0.0)) + 1e-6
    if white.shape[1] == 0 or len(white) < _DRAWS or off > _MOST_ROUNDING:
        return []
    views = [white.reshape(-1)[:_DRAWS]]
    if white.shape[1] > 1:
        views.append(white[:_DRAWS, 0])
    tried, met = 0, ""
    seeds = [*range(_SMALL), os.getpid(), *span.seeds()]
    for name, draw in _GENERATORS.items():
        for seed in seeds:
            drawn = draw(seed)
            tried += len(views)
            if any(abs(drawn[0] - view[0]) <= off and np.all(np.abs(drawn - view) <= off) for view in views):
                met = f"{name} with the seed {seed}"
    words = f"{agent}: its noise can be repeated by anyone: it is that of {met}"
    p = min(1.0, tried * (0.8 * off) ** _DRAWS) if met else 1.0
    return [Probed("fresh noise", agent, p, float(tried), words)]


def _legacy(seed: int, generator: np.random.RandomState = np.random.RandomState(0)) -> Array:  # noqa: B008
    generator.seed(seed % 2**32)  # many times quicker than a new one
    return np.asarray(generator.standard_normal(_DRAWS))


def _current(seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(_DRAWS)


def _python(seed: int) -> Array:
    generator = random.Random(seed)
    return np.array([generator.gauss(0.0, 1.0) for _ in range(_DRAWS)])


_GENERATORS: dict[str, Callable[[int], Array]] = {
    "numpy.random.default_rng": _current,
    "numpy.random.RandomState": _legacy,
    "random.Random": _python,
}


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
