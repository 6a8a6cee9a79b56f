"""Whether a plan of sums tells more than another: fewer members needed, other members, or none at all."""

from __future__ import annotations

import numpy as np

from veilnet.agent.membership import Membership
from veilnet.agent.sanitizer import Sanitizer
from veilnet.review.order import what_more


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
