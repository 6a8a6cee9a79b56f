"""What can be read in two ways is asked about, and what the command line takes is answered with what to write."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from veilnet.designs.questions import read_loss

NETWORK = vn.Network(
    {"a": [[1.0, 0.4], [0.3, 1.0]], "b": [[0.8, -0.5]]}, 0.3, {"u": [1, 0]}, {"g": [0, 1]},
    vn.Prior(covariance=np.eye(2), mean=[0.0, 0.0]), resolution=0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("given", "loss"), [(0.05, 0.05), (1, 1.0), ("5%", 0.05), ("500%", 5.0), (" 5 % ", 0.05)]
)
def test_a_loss_is_a_fraction_or_a_percentage(given: float | str, loss: float) -> None:
    assert read_loss(given) == pytest.approx(loss)


def test_a_loss_above_one_is_asked_about_and_both_readings_are_offered() -> None:
    with pytest.raises(vn.InvalidRequest, match="utility_loss") as refused:
        vn.design(NETWORK, utility_loss=5)
    for written in ("0.05", '"5%"', '"500%"'):
        assert written in str(refused.value)
    plan = vn.design(NETWORK, utility_loss="150%")
    assert -plan.utility <= 1.5


@pytest.mark.parametrize(("given", "number"), [("3x", "3"), ("50%", "1.5"), ("1.5x", "1.5")])
def test_a_privacy_in_words_is_answered_with_its_number(given: str, number: str) -> None:
    with pytest.raises(vn.InvalidRequest, match=rf"privacy: .*vn.Times\({number}\)$"):
        vn.design(NETWORK, privacy=given)  # type: ignore[arg-type]
    with pytest.raises(vn.InvalidRequest, match=rf"privacy\['g'\]: .*vn.Times\({number}\)$"):
        vn.design(NETWORK, privacy={"g": given})  # type: ignore[dict-item]


@pytest.mark.parametrize("given", ["much", "0.5x", "3y", "..x"])
def test_other_texts_are_no_numbers(given: str) -> None:
    with pytest.raises(vn.InvalidRequest, match="privacy: expected a number, found"):
        vn.design(NETWORK, privacy=given)  # type: ignore[arg-type]
