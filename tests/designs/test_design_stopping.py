"""Designs that are asked to stop return the best plan so far, certified and marked; Ctrl-C passes through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import veilnet as vn
from helpers.networks import random_network

NETWORK = random_network(18, prior="covariance")
COSTLY = 0.5 * min(vn.check(NETWORK).ceiling.values()) + 0.5 * min(vn.privacy_limit(NETWORK).values())
WAYS: dict[str, dict[str, Any]] = {
    "alternating": {"privacy": COSTLY, "method": "alternating"},
    "power": {"power": 1e4},
}


def stop_after(calls: int) -> Callable[[str, float], bool]:
    """A progress that answers False the so-manieth time, and fails the test when it is called again."""
    left = calls

    def progress(_what: str, _part: float) -> bool:
        nonlocal left
        left -= 1
        assert left >= 0, "it went on although it was asked to stop"
        return left > 0

    return progress


@pytest.mark.parametrize("way", WAYS)
def test_progress_answering_false_gives_the_best_plan_so_far(way: str) -> None:
    whole = vn.design(NETWORK, **WAYS[way])
    stopped = vn.design(NETWORK, **WAYS[way], progress=stop_after(1))
    assert whole.details["interrupted"] is False
    assert stopped.details["interrupted"] is True
    assert stopped.certificate.ok
    if way == "power":
        assert stopped.utility == pytest.approx(0.0, abs=1e-9)
        assert sum(stopped.privacy.values()) < sum(whole.privacy.values())
        assert stopped.details["upper_bound"] >= whole.details["total_privacy"]
    else:
        assert len(stopped.details["sweeps"]) == 2, "the start and one sweep"
        assert stopped.details["sweeps"] == whole.details["sweeps"][:2]
        assert stopped.utility < whole.utility


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_passes_through(way: str) -> None:
    def interrupt(_what: str, _part: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        vn.design(NETWORK, **WAYS[way], progress=interrupt)


def test_a_frontier_that_is_stopped_has_the_points_it_had() -> None:
    free = 0.5 * min(vn.check(NETWORK).ceiling.values())
    found = vn.frontier(
        NETWORK, [free, COSTLY, 2 * max(vn.privacy_limit(NETWORK).values())], progress=stop_after(1)
    )
    assert found.interrupted
    assert [point.method for point in found.rows] == ["perfect", "infeasible"]
    assert "interrupted" in str(found)
