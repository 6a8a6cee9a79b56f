"""Sums modulo 2^k are the sums of messages, bit for bit; plain integers of any size are the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet.agent.membership import Membership


@pytest.mark.parametrize("bits", [3, 18, 41, 63, 64])
def test_a_sum_of_masked_residues_opens_to_the_sum_of_messages(bits: int) -> None:
    rng = np.random.default_rng(bits)
    group = Membership("downstairs", ("kitchen", "hall", "bath"), 2, bits)
    grid = np.array([2.0**-10, 0.5, 4.0])
    most = min(2 ** (bits - 1) // 3, 2**50)
    whole = rng.integers(-most, most, (3, 40, 3), endpoint=True)
    messages = whole * grid
    masks = rng.integers(0, 2**63, (2, 40, 3), dtype=np.uint64)
    masked = [group.residues(group.whole(each, grid)) for each in messages]
    masked = [masked[0] + masks[0], masked[1] + masks[1] - masks[0], masked[2] - masks[1]]
    found = group.opened(masked[0] + masked[1] + masked[2], grid)
    plain = [[[sum(int(m) for m in numbers) for numbers in row] for row in whole.transpose(1, 2, 0)]]
    assert np.array_equal(found, np.array(plain[0], dtype=float) * grid)
    assert all(int(each) < 2**bits for each in group.residues(whole[0]).flat)


def test_a_sum_that_doubles_would_round_is_refused() -> None:
    group = Membership("downstairs", ("kitchen", "hall"), 2, 64)
    grid = np.array([0.25])
    for most in (2**53 - 1, 1 - 2**53):
        assert group.opened(group.residues(np.array([most])), grid)[0] == most * 0.25
    for steps in (2**53, 2**53 + 1, -(2**60) - 1, -(2**63)):
        with pytest.raises(InvalidReading, match=r"fewer than 2\^53 steps"):
            group.opened(group.residues(np.array([steps])), grid)


def test_what_is_not_on_the_grid_is_refused() -> None:
    group = Membership("downstairs", ("kitchen", "hall"), 2, 20)
    for wrong in (0.3, np.nan, np.inf, 2.0**60):
        with pytest.raises(InvalidReading, match="multiples of its grid"):
            group.whole(np.array([wrong]), np.array([0.25]))


@pytest.mark.parametrize(
    ("members", "threshold", "bits"),
    [(("a",), 1, 8), (("a", "a"), 2, 8), (("a", "b"), 1, 8), (("a", "b"), 3, 8), (("a", "b"), 2, 65)],
)
def test_groups_that_protect_nobody_are_refused(members: tuple[str, ...], threshold: int, bits: int) -> None:
    with pytest.raises(InvalidRequest):
        Membership("downstairs", members, threshold, bits)
