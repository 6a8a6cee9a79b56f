"""Can the noise be guessed? Generators that people use, seeded by the clock or by a small number.

A generator seeded by the time of day gives its secret away to whoever knows roughly when it was started. The audit
knows: it tries every second, every millisecond and, where the call was short, every microsecond of it, small whole
numbers, and this process's number, with NumPy's and Python's generators.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from veilnet._core.types import Array
from veilnet.auditing.deployed.measurements import Probed

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
