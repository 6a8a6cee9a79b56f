"""A curve says where a little more privacy costs very much; others keep what is free, whatever is paid for one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.helpers.said import says

import veilnet as vn
from veilnet.designs.frontiers import Frontier, Point

pytestmark = pytest.mark.small_search

NETWORK = vn.Network(
    {"kitchen": [[1, 0.5, 0.2], [0.3, 1, 0.1]], "hall": [[0.8, 0.1, 1], [0.2, 0.9, 0.4]]},
    0.25,
    {"heat": [1, 0, 0]},
    {"cooking": [0, 1, 0], "presence": [0, 0, 1]},
    vn.Prior(covariance=np.eye(3)),
)


def curve(*costs: tuple[float, float]) -> Frontier:
    plan = vn.design(NETWORK)
    rows = [Point(asked, -loss, dict(plan.privacy), "joint", plan) for asked, loss in costs]
    return Frontier(NETWORK, tuple(rows), 0.0, 1.0)


def test_a_cliff_is_named_and_a_slope_is_not() -> None:
    assert curve((0.2, 0.05), (0.5, 1.0), (0.9, 3.0)).cliff == ""
    steep = curve((0.2, 0.05), (0.41, 0.1025), (0.5, 6.1))
    says(steep.cliff, "cliff", "1.19x", "1.22x", "5 %", "2.66x")
    assert steep.cliff in str(steep)
    assert replace(steep, rows=steep.rows[:2]).cliff == ""


@pytest.mark.parametrize("loss", [0.01, 0.05, 0.2])
def test_whatever_is_paid_for_one_parameter_the_other_keeps_what_is_free(loss: float) -> None:
    free = vn.design(NETWORK)
    paid = vn.design(NETWORK, utility_loss=loss, weights={"cooking": 1.0})
    assert -paid.utility <= loss * (1 + 1e-6)
    assert paid.privacy["presence"] >= free.privacy["presence"] * (1 - 1e-6)
    assert paid.privacy["cooking"] >= free.privacy["cooking"] * (1 - 1e-6)
