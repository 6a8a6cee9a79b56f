"""The price curve in the report of a stream plan: monotone, and no plan below it, whenever its search was stopped."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import veilnet as vn
from helpers.stream_networks import random_stream
from veilnet.designs.frontiers import Frontier, sketched, through
from veilnet.report.building import traced_frontier
from veilnet.report.frontier_picture import place_of

pytestmark = pytest.mark.small_search


def small_stream(seed: int) -> vn.Network:
    return random_stream(seed, sizes=(1, 1), parameters=2, private_rows=(1,), radius=0.9)


@cache
def levels_of(seed: int) -> list[float]:
    """Some way from what is free to the limit."""
    verdict = vn.check(small_stream(seed))
    ceiling, limit = min(verdict.ceiling.values()), min(verdict.limit.values())
    return [ceiling + part * (limit - ceiling) for part in (0.1, 0.3, 0.6)]


@cache
def searched(seed: int) -> Frontier:
    """All tests here search alike, so that one curve serves them."""
    return vn.frontier(small_stream(seed), levels_of(seed))


def costs(curve: Frontier) -> list[tuple[float, float]]:
    return sorted((point.asked, -point.utility) for point in curve.rows if point.plan is not None)


def priced(curve: Frontier, level: float) -> float:
    """What the curve asks for a level: its next point at or above it."""
    return min(loss for asked, loss in costs(curve) if asked >= level * (1 - 1e-9))


@pytest.mark.parametrize("seed", [2, *(pytest.param(slow, marks=pytest.mark.long) for slow in (0, 1, 4, 5))])
def test_the_curve_is_monotone_and_the_plan_is_never_below_it(seed: int) -> None:
    network = small_stream(seed)
    plan = vn.design(network, privacy=sum(levels_of(seed)[:2]) / 2)
    calls = [0]

    def stopping(_what: str, _part: float) -> bool:
        calls[0] += 1
        return calls[0] < 40  # in the middle of a search

    level = min(plan.privacy.values())
    whole = through(searched(seed), plan)
    for curve in (whole, traced_frontier(plan, progress=stopping)):
        assert curve is not None
        found = costs(curve)
        losses = [loss for _, loss in found]
        assert losses == sorted(losses)
        mine = place_of(plan, curve)
        assert mine.public**2 - 1 >= priced(curve, level) - 1e-9
        for asked, loss in found:  # every point is what its own plan says
            point = next(each for each in curve.rows if each.asked == asked)
            assert point.plan is not None
            assert min(point.plan.privacy.values()) >= asked * (1 - 1e-9)
            assert loss == pytest.approx(-point.plan.utility, abs=1e-12)


def test_a_plan_that_a_search_missed_lowers_the_curve_at_all_levels_it_serves() -> None:
    network = small_stream(2)
    levels, curve = levels_of(2), searched(2)
    best = curve.rows[1].plan
    assert best is not None
    dear = curve.rows[2].plan
    assert dear is not None
    rows = tuple(replace(row, plan=dear, utility=dear.utility) for row in curve.rows)
    missed = Frontier(network, rows, curve.ceiling, curve.limit)
    found = through(missed, best)
    assert priced(found, levels[0]) == pytest.approx(-best.utility)
    assert priced(found, levels[2]) == pytest.approx(-dear.utility)
    assert np.all(np.diff([loss for _, loss in costs(found)]) >= 0)


@pytest.mark.parametrize("seed", [2, *(pytest.param(slow, marks=pytest.mark.long) for slow in (0, 1, 4, 5))])
def test_a_curve_to_look_at_is_near_the_one_that_is_searched_for(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """On five streams, followed as large ones are, it costs at most 15 % more than :func:`vn.frontier`."""
    network = small_stream(seed)
    levels = levels_of(seed)[1:]
    monkeypatch.setattr("veilnet.designs.streams.curve._SMALL", 0)
    followed = costs(sketched(network, levels, None))
    for (asked, loss), (_, least) in zip(followed, costs(searched(seed))[1:], strict=True):
        assert asked in levels
        assert loss <= least * 1.15
