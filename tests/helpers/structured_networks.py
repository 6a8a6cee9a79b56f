"""Networks as people write them: few agents, ones and halves in sparse matrices, rows that repeat.

Random dense networks hide what goes wrong on these: ties, ranks that drop, agents that see the same thing, private
parameters only one agent can tell, losses that jump when an agent falls silent. Every network is drawn from its
number alone, and every one has a trade-off: some privacy below the limit is not free.
"""

from __future__ import annotations

import numpy as np

import veilnet as vn
from veilnet import NotObservable
from veilnet.designs.questions import public_and_private

PRIORS = ("none", "diagonal", "chain", "singular")
NOISES = ("one", "halves and twos", "shared by all", "neighbours")
_ENTRIES = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 0.5, -1.0, 2.0])
# Fewer than this part of the way from nothing to the limit must be free, or there is no trade-off to speak of.
_FREE = 0.9


def structured_network(number: int) -> vn.Network:
    """The network with this number, the same on every machine."""
    for attempt in range(1000):
        rng = np.random.default_rng([4_711, number, attempt])
        try:
            network = _draw(rng, PRIORS[number % 4], NOISES[(number // 4) % 4], 1 + (number // 16) % 3)
        except NotObservable:
            continue
        low, high = levels_between(network)
        if low < _FREE * high and not public_and_private(network):
            return network
    raise AssertionError(f"no network with a trade-off found for number {number}")


def levels_between(network: vn.Network) -> tuple[float, float]:
    """The ceiling and the limit of a privacy asked of every parameter alike; a thousandfold stands for no limit."""
    verdict = vn.check(network)
    low, limit = min(verdict.ceiling.values()), min(verdict.limit.values())
    return low, min(limit, 1e3 * (1 + low)) if np.isfinite(low) else low


def grid_of_levels(network: vn.Network, points: int) -> list[float]:
    """Levels from just above the ceiling to the limit (the last one is at it, where there is one)."""
    low, high = levels_between(network)
    inner = (1 + low) * ((1 + high) / (1 + low)) ** np.linspace(0.02, 1, points)[:-1] - 1
    return [*(float(level) for level in inner), high]


def _draw(rng: np.random.Generator, prior: str, noise: str, private: int) -> vn.Network:
    length = int(rng.integers(2, 6))
    sizes = [int(size) for size in rng.integers(1, 4, int(rng.integers(2, 6)))]
    while sum(sizes) < length:
        sizes.append(int(rng.integers(1, 4)))
    rows = [_row(rng, length) for _ in range(sum(sizes))]
    for place in range(1, len(rows)):
        if rng.uniform() < 0.15:
            rows[place] = rows[int(rng.integers(place))]
    ends = np.cumsum(sizes)
    return vn.Network(
        observe={
            f"meter {k + 1}": np.array(rows[end - size : end])
            for k, (end, size) in enumerate(zip(ends, sizes, strict=True))
        },
        noise=_noise(rng, noise, np.repeat(np.arange(len(sizes)), sizes)),
        public=np.array([_row(rng, length) for _ in range(1 + int(length > 3 and rng.uniform() < 0.3))]),
        private={
            f"secret {j + 1}": np.array([_row(rng, length) for _ in range(1 + int(rng.uniform() < 0.25))])
            for j in range(private)
        },
        prior=_prior(rng, prior, length),
    )


def _row(rng: np.random.Generator, length: int) -> np.ndarray:
    while True:
        row = rng.choice(_ENTRIES, length)
        if np.any(row):
            return np.asarray(row)


def _noise(rng: np.random.Generator, kind: str, owner: np.ndarray) -> float | np.ndarray:
    total = owner.size
    if kind == "one":
        return 1.0
    if kind == "halves and twos":
        return np.asarray(rng.choice([0.5, 1.0, 2.0, 4.0], total))
    if kind == "shared by all":
        return np.eye(total) + 0.5
    apart = np.abs(owner[:, None] - owner[None, :])
    return np.asarray(
        np.where(apart == 0, np.eye(total), np.where(apart == 1, 0.2, 0.0)) + 0.5 * np.eye(total)
    )


def _prior(rng: np.random.Generator, kind: str, length: int) -> vn.Prior | None:
    if kind == "none":
        return None
    if kind == "diagonal":
        return vn.Prior(covariance=np.diag(rng.choice([1.0, 4.0, 25.0, 100.0], length)))
    if kind == "chain":
        apart = np.abs(np.arange(length)[:, None] - np.arange(length)[None, :])
        return vn.Prior(covariance=9.0 * 0.5**apart)
    known = np.array([_row(rng, length) for _ in range(int(rng.integers(1, length)))])
    return vn.Prior(information=known.T @ known / 10)
