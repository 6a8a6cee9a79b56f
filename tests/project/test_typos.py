"""A misspelt word is answered with the one that was meant, and what is public cannot be private."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.helpers.said import says

import veilnet as vn

OBSERVE = {"kitchen": np.eye(2), "hall": np.eye(2)}


def network(private: Any) -> vn.Network:
    return vn.Network(OBSERVE, 0.5, {"heat": [1.0, 0.0]}, private, vn.Prior(covariance=np.eye(2)))


@pytest.mark.parametrize(
    ("call", "wrong", "meant"),
    [
        (lambda given: vn.design(network({"gait": [0, 1]}), **given), "utilty_loss", "utility_loss"),
        (lambda given: vn.frontier(network({"gait": [0, 1]}), **given), "privacyy", "privacy"),
        (
            lambda given: vn.Network(OBSERVE, 1.0, [[1, 0]], {"g": [0, 1]}, **given),
            "resolutoin",
            "resolution",
        ),
        (lambda given: vn.fit({}, {}, [], [], **given), "grop", "group"),
        (lambda given: vn.audit("plan", **given), "trian", "train"),
    ],
)
def test_a_misspelt_keyword_names_the_nearest(
    call: Callable[[dict[str, Any]], object], wrong: str, meant: str
) -> None:
    with pytest.raises(TypeError) as refused:
        call({wrong: 1})
    says(refused.value, wrong, meant)


def test_a_misspelt_name_names_the_nearest() -> None:
    with pytest.raises(vn.InvalidRequest) as refused:
        vn.design(network({"gait": [0, 1]}), privacy={"giat": 0.1})
    says(refused.value, "giat", "did you mean gait")


@pytest.mark.parametrize("row", [[1.0, 0.0], [-3.0, 0.0]])
def test_the_same_row_public_and_private_is_refused(row: list[float]) -> None:
    for asked in (lambda: vn.design(network({"warmth": row})), lambda: vn.frontier(network({"warmth": row}))):
        with pytest.raises(vn.InvalidRequest) as refused:
            asked()
        says(refused.value, "warmth", "heat", "private", "public")
