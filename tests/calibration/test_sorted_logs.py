"""Logs that are sorted by class: every row of one class, then every row of the next."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from veilnet._core.types import Array
from veilnet.calibration import fitting
from veilnet.calibration.fitting import Calibration, fit_report
from veilnet.calibration.intervals import drawn_models
from veilnet.calibration.stretches import blocks_of, stretches_of

AGENTS = {"a": ["y0", "y1"], "b": ["y2", "y3"]}


@pytest.fixture(autouse=True)
def no_learned_detectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they see has tests of its own, and learning takes most of a fit's time."""
    monkeypatch.setattr(fitting, "log_aucs", lambda *_: {})


def sorted_log(sizes: list[int], *, seed: int = 1) -> tuple[dict[str, Array], list[str]]:
    """Four readings of u and of the class, and a column for each class but the first."""
    rng = np.random.default_rng(seed)
    classes = np.repeat(np.arange(len(sizes)), sizes)
    u = rng.normal(size=len(classes))
    levels, slopes = rng.normal(size=(4, len(sizes))), rng.normal(size=4)
    table = {f"y{k}": slopes[k] * u + levels[k][classes] + 0.3 * rng.normal(size=u.size) for k in range(4)}
    table |= {"u": u, "time": 60.0 * np.arange(u.size)}
    named = [f"is_{k}" for k in range(1, len(sizes))]
    return table | {name: (classes == k + 1) * 1.0 for k, name in enumerate(named)}, named


def fitted(sizes: list[int], **options: Any) -> Calibration:
    table, named = sorted_log(sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_report(table, AGENTS, ["u"], named, **options)


@pytest.mark.parametrize("time", [None, pytest.param("time", marks=pytest.mark.long)])
@pytest.mark.parametrize("sizes", [[960, 40], [900, 40, 30, 30], [125] * 8])
def test_a_sorted_log_is_fitted(sizes: list[int], time: str | None) -> None:
    """Resampling of blocks lost a class, and the fit ended in a bare LinAlgError."""
    made = fitted(sizes, time=time)
    assert made.network.is_stream or time is None
    for promise in made.report.promises.values():
        assert np.isfinite(promise.ceiling)
        assert promise.interval is None or promise.interval.low <= promise.interval.high < 1e3
    # A straight line describes these classes, and held-out rows of every class say so.
    assert all(each.held_out > each.explained - 0.05 for each in made.report.readings)


def test_a_class_in_hardly_any_block_has_no_interval_and_a_reason() -> None:
    """One class lies within one of sixteen blocks: a third of all draws has no row of it, and is drawn again."""
    table, named = sorted_log([990, 10])
    readings = np.stack([table[f"y{k}"] for k in range(4)], axis=1)
    parameters = np.stack([table["u"], table[named[0]]], axis=1)
    observe, _, covariance = drawn_models(readings, parameters, np.array_split(np.arange(1000), 16))
    assert np.min(covariance[:, 1, 1]) > 1e-4
    assert np.max(np.abs(observe)) < 10 * np.max(np.abs(np.linalg.lstsq(parameters, readings)[0]))
    many = fitted([40] * 16, time="time")  # sixteen blocks, and a class for each
    for promise in many.report.promises.values():
        assert promise.interval is None
        assert "resampling loses it" in promise.unknown


def test_every_block_of_a_sorted_log_has_every_class() -> None:
    """Contiguous blocks serve any other log: only a value that one of them keeps to itself is dealt out."""
    for sizes in ([50, 50], [30, 30, 30, 30]):
        classes = np.repeat(np.arange(len(sizes)), sizes)
        blocks = blocks_of(len(classes), 4, classes)
        assert np.array_equal(np.sort(np.concatenate(blocks)), np.arange(len(classes)))
        assert all(set(classes[block]) == set(range(len(sizes))) for block in blocks)
        for stretch in stretches_of(len(classes), 2, classes):
            distance = np.min(np.abs(stretch.learned[:, None] - stretch.judged[None, :]))
            assert distance > 2
            assert set(classes[stretch.learned]) == set(range(len(sizes)))
    alternating = np.tile([0, 0, 0, 1, 1], 20)
    assert all(np.all(np.diff(block) == 1) for block in blocks_of(100, 4, alternating))
    assert all(np.all(np.diff(block) == 1) for block in blocks_of(100, 4, np.arange(100.0)))
    rare = np.where(np.arange(100) == 50, 2, alternating)  # one block alone has it, and nothing is sorted
    assert all(np.all(np.diff(block) == 1) for block in blocks_of(100, 4, rare))
