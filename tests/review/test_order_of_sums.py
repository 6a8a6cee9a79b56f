"""Whether a plan of sums tells more than another: fewer members needed, other members, or none at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import veilnet as vn
from veilnet.agent.membership import Membership
from veilnet.agent.sanitizer import Sanitizer
from veilnet.io.acceptance import accept, accepted_beside, read_accepted, revealed_beyond
from veilnet.io.statements import Statement
from veilnet.review.order import what_more

STATEMENT = Statement(
    "veilnet-signed/1", "x", "0" * 64, None, 1, "2026-01-01T00:00:00Z", "2099-01-01T00:00:00Z", None
)


def member(threshold: int | None, members: tuple[str, ...] = ("hall", "bath", "study", "attic")) -> Sanitizer:
    summed = None if threshold is None else Membership("all", members, threshold, 20)
    return Sanitizer(np.array([[1.0, 0.5]]), grid=[2.0**-10], agent="hall", summed=summed)


def test_less_company_asks_for_consent_and_more_does_not() -> None:
    agreed = member(3)
    assert what_more(member(3), agreed) == ()
    assert what_more(member(4), agreed) == ()
    assert what_more(member(3), member(None)) == ()  # sent bare before: a sum tells less
    for other, word in (
        (member(2), "2 members"),
        (member(None), "bare"),
        (member(3, ("hall", "bath", "study", "porch")), "attic and porch"),
        (member(3, ("hall", "bath", "study")), "attic"),
    ):
        (more,) = what_more(other, agreed)
        assert word in more


def test_another_plan_of_a_sum_always_asks_for_consent(tmp_path: Path) -> None:
    """What hides a member's messages is in the others' files: its own may stay as it is, and hide nothing."""
    path = tmp_path / "hall.json"

    def signed(version: int, sha256: str) -> Statement:
        return replace(STATEMENT, version=version, sha256=sha256)

    accept(path, member(3), signed(1, "1" * 64))
    accept(path, member(3), signed(1, "1" * 64))  # the same file, at the next start
    with pytest.raises(vn.InvalidPlan, match="other members"):
        accept(path, member(3), signed(2, "2" * 64))
    before = read_accepted(accepted_beside(path))
    assert revealed_beyond(member(3), signed(1, "1" * 64), before) == ()
    (more,) = revealed_beyond(member(3), signed(2, "2" * 64), before)  # which is what inspect shows, too
    assert "other members" in more
    accept(path, member(3), signed(2, "2" * 64), confirmed=True)
    accept(path, member(3), signed(2, "2" * 64))
