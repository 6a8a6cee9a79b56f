"""Windows of rows as one row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import veilnet as vn
from veilnet.symbols.windows import feature_names, features_of, in_windows, windows_of, windows_with


def features(rows: np.ndarray, window: int) -> np.ndarray:
    """Of each window of rows (T, N)."""
    return features_of(in_windows(list(rows.T), windows_of(len(rows), window)), window)


def test_features_are_those_of_a_straight_line_and_of_numpy() -> None:
    rng = np.random.default_rng(1)
    rows = np.stack([3.0 + 0.5 * np.arange(23), rng.normal(size=23)], axis=1)
    found = features(rows, 5)
    assert found.shape == (4, 6)
    assert np.allclose(found[:, 2], 0.5)
    assert np.allclose(found[:, 0], [4.0, 6.5, 9.0, 11.5])
    for k, window in enumerate(np.split(rows[:20, 1], 4)):
        line = np.polyfit(np.arange(5), window, 1)[0]
        assert np.allclose(found[k, 3:], [window.mean(), window.std(), line])
    assert feature_names(["T", "RH"], 5)[2:4] == ["T slope", "RH mean"]
    assert np.array_equal(features(rows, 1), rows)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_window_with_a_gap_has_no_features(value: float) -> None:
    rows = np.ones((6, 1))
    rows[1] = value
    assert not np.isfinite(features(rows, 3)[0]).any()
    assert np.isfinite(features(rows, 3)[1]).all()


def test_no_window_is_across_two_blocks() -> None:
    labels = np.array(["a"] * 5 + ["b"] * 2 + ["a"] * 4)
    assert windows_of(11, 2, labels).tolist() == [[0, 1], [2, 3], [5, 6], [7, 8], [9, 10]]


@pytest.mark.parametrize(
    ("window", "labels"), [(0, None), (1.5, None), (True, None), (7, None), (3, [0, 0] * 3)]
)
def test_windows_that_cannot_be_are_refused(window: Any, labels: Any) -> None:
    known = None if labels is None else np.repeat([0, 1, 2], 2)
    with pytest.raises(vn.InvalidRequest, match="window"):
        windows_of(6, window, known)


@pytest.mark.parametrize("window", [1, 2, 3, 25])
def test_windows_are_made_of_features(window: int) -> None:
    """And have them again; of two rows the slope alone, whose spread follows."""
    rng = np.random.default_rng(3)
    slope = rng.uniform(-0.3, 0.3, 40)
    spread = np.sqrt(slope**2 * (window**2 - 1) / 12 + (window > 2) * rng.random(40))
    asked = np.stack([rng.normal(size=40), spread, slope], axis=1)
    wanted = asked[:, :1] if window == 1 else np.concatenate([asked, asked[::-1]], axis=1)
    assert np.allclose(features_of(windows_with(wanted, window), window), wanted, atol=1e-12)
