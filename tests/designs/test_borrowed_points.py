"""A point of a frontier that borrows the plan of a higher level claims no bound: the proof is of that level."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from veilnet.designs.frontiers import _point


def plan(loss: float, method: str = "joint") -> Any:
    return SimpleNamespace(utility=-loss, privacy={"g": 3.0}, method=method, gap=0.25)


def test_a_plan_made_for_more_proves_nothing_of_less() -> None:
    """No plan for 3 loses less than 0.4; one for 2 may, although the plan for 3 is the best that was found for it."""
    plans = {2.0: plan(0.6), 3.0: plan(0.5)}
    borrowed, own = _point(2.0, plans), _point(3.0, plans)
    assert not own.borrowed
    assert own.bound == pytest.approx(0.4)
    assert borrowed.borrowed
    assert borrowed.utility == own.utility
    assert np.isinf(borrowed.gap)
    assert borrowed.bound == 0.0
    free = _point(0.5, {0.5: plan(0.0, "perfect"), 1.0: plan(0.0, "perfect")})
    assert not free.borrowed  # what is free is free at every level below
