"""The answer depends on the network, not on how it is written down."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from veilnet._core.types import Array

pytestmark = [pytest.mark.slow, pytest.mark.long]

SIZES = (3, 2, 3, 1, 3)


def written(way: str) -> vn.Network:
    """One network of correlated noise, written as it was drawn or in another way."""
    rng = np.random.default_rng(24)
    length, total = 5, sum(SIZES)
    observe = rng.standard_normal((total, length))
    own, loadings = rng.uniform(0.2, 2.0, total), rng.standard_normal((total, 1))
    wanted, prior = rng.standard_normal((3, length)), np.diag(rng.uniform(1.0, 30.0, length))
    noise: Array = np.diag(own) + loadings @ loadings.T
    rows = np.split(np.arange(total), np.cumsum(SIZES)[:-1])
    turns = [np.linalg.qr(rng.standard_normal((size, size)))[0] for size in SIZES]
    if way == "x rotated":
        turn = np.linalg.qr(rng.standard_normal((length, length)))[0]
        observe, wanted, prior = observe @ turn, wanted @ turn, turn.T @ prior @ turn
    if way == "readings rotated and rescaled":
        mixed = np.zeros((total, total))
        for place, turn in zip(rows, turns, strict=True):
            mixed[np.ix_(place, place)] = 10.0 ** rng.uniform(-3, 3) * turn
        observe, noise = mixed @ observe, mixed @ noise @ mixed.T
    order = [3, 0, 4, 2, 1] if way == "agents reordered" else range(len(SIZES))
    sent = np.concatenate([rows[place] for place in order])
    return vn.Network(
        observe={f"a{place}": observe[rows[place]] for place in order},
        noise=vn.CommonNoise(own, loadings) if way == "common disturbances" else noise[np.ix_(sent, sent)],
        public=wanted[:1],
        private={"g": wanted[1:2], "h": wanted[2:]},
        prior=vn.Prior(covariance=prior),
        resolution=0,
    )


WAYS = ["common disturbances", "agents reordered", "readings rotated and rescaled", "x rotated"]


@pytest.mark.parametrize("way", WAYS)
def test_a_loss_buys_as_much_however_the_network_is_written(way: str) -> None:
    drawn, other = (vn.design(written(each), utility_loss=0.05).privacy for each in ("as drawn", way))
    assert min(other.values()) == pytest.approx(min(drawn.values()), rel=0.01)


@pytest.mark.parametrize("way", WAYS)
def test_privacy_costs_as_much_however_the_network_is_written(way: str) -> None:
    target = 2 * max(vn.check(written("as drawn")).ceiling.values())
    drawn, other = (vn.design(written(each), privacy=target).utility for each in ("as drawn", way))
    assert drawn < 0
    assert other == pytest.approx(drawn, rel=0.01)
