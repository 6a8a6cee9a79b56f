"""Which private columns are secrets with a change."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import veilnet as vn


def test_a_column_of_two_values_is_a_secret_by_itself_and_others_where_asked() -> None:
    rng = np.random.default_rng(3)
    inside, people = rng.integers(0, 2, 400) * 2.5 + 1.0, rng.integers(0, 5, 400)
    outside = rng.standard_normal(400)
    table = {
        "inside": inside, "people": people, "outside": outside,
        "a": inside + outside + rng.standard_normal(400), "b": people - inside + rng.standard_normal(400),
        "c": outside + 0.3 * people + rng.standard_normal(400),
    }  # fmt: skip
    arguments: dict[str, Any] = {"agents": {"one": ["a", "b"], "two": ["c"]}, "public": ["outside"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vn.DoubtfulModel)
        plain = vn.fit(table, private=["inside", "people"], **arguments)
        asked = vn.fit(table, private=["inside", "people"], changes={"people": 2, "inside": 0.5}, **arguments)
        with pytest.raises(vn.InvalidRequest, match="changes"):
            vn.fit(table, private=["inside", "people"], changes={"outside": 1}, **arguments)
    assert {name: each.change for name, each in plain.secrets.items()} == {"inside": 2.5}
    assert {name: each.change for name, each in asked.secrets.items()} == {"inside": 0.5, "people": 2.0}
