"""Windows of rows as one row."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from veilnet.symbols.windows import window_features, window_names


def test_features_are_those_of_a_straight_line_and_of_numpy() -> None:
    rng = np.random.default_rng(1)
    rows = np.stack([3.0 + 0.5 * np.arange(23), rng.normal(size=23)], axis=1)
    found = window_features(rows, 5)
    assert found.shape == (4, 6)
    assert np.allclose(found[:, 2], 0.5)
    assert np.allclose(found[:, 0], [4.0, 6.5, 9.0, 11.5])
    for k, window in enumerate(np.split(rows[:20, 1], 4)):
        line = np.polyfit(np.arange(5), window, 1)[0]
        assert np.allclose(found[k, 3:], [window.mean(), window.std(), line])
    assert window_names(["T", "RH"])[2:4] == ["T slope", "RH mean"]


def test_a_window_with_a_gap_is_not_sent() -> None:
    rows = np.ones((6, 1))
    rows[1] = np.inf
    assert np.isnan(window_features(rows, 3)[0]).all()
    assert np.isfinite(window_features(rows, 3)[1]).all()
    with pytest.raises(vn.InvalidRequest, match="length"):
        window_features(rows, 1)


def test_what_is_masked_or_text_is_not_used() -> None:
    rows = np.ma.masked_array(np.ones((6, 1)), mask=[[0], [1], [0], [0], [0], [0]])
    assert np.isnan(window_features(rows, 3)[0]).all()
    assert np.isfinite(window_features(rows, 3)[1]).all()
    for given in ([["1.5"], ["2.5"]], [["secret"], ["1"]], [[1.0], ["secret"]], [[1.0], [2.0, 3.0]]):
        with pytest.raises(vn.InvalidReading) as refused:
            window_features(given, 2)
        assert "secret" not in str(refused.value)
        assert refused.value.__cause__ is None
