"""A point of a frontier that borrows the plan of a higher level claims no bound: the proof is of that level."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from veilnet.designs.frontiers import Point


def point(asked: float, made_for: float, method: str = "joint") -> Point:
    plan: Any = SimpleNamespace(targets={"g": made_for, "h": made_for}, gap=0.25)
    return Point(asked, -0.5, {"g": made_for, "h": made_for}, method, plan)


def test_a_plan_made_for_more_proves_nothing_of_less() -> None:
    """No plan for 3 loses less than 0.4; one for 2 may, although the plan for 3 is the best that was found for it."""
    own, borrowed = point(3.0, 3.0), point(2.0, 3.0)
    assert not own.borrowed
    assert own.bound == pytest.approx(0.4)
    assert borrowed.borrowed
    assert np.isinf(borrowed.gap)
    assert borrowed.bound == 0.0
    assert not point(0.5, 1.0, "perfect").borrowed  # what is free is free at every level below
