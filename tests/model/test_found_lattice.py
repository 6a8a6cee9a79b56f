"""The lattice of readings, found in readings that were averaged, cut or repeated before they were written down."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from helpers.averaged_readings import minutes
from veilnet.model.lattice import lattice_of, on_lattice, step_of


def wandering(rng: np.random.Generator, rows: int, memory: float) -> np.ndarray:
    """A series of deviation one that keeps so much of itself from row to row."""
    return np.asarray(lfilter([np.sqrt(1 - memory**2)], [1.0, -memory], rng.standard_normal(rows)))


@pytest.mark.parametrize("rows", [1000, 8000])
@pytest.mark.parametrize("step", [0.1, 1.0, 0.0625])
def test_means_of_a_minute_show_the_step_of_the_sensor(step: float, rows: int) -> None:
    """All rows lie on a twelfth of the step, some on the step itself: those are told apart unless it is covered."""
    readings = minutes(np.random.default_rng(1), rows, step)
    on_step = np.abs(readings / step - np.rint(readings / step)) < 1e-6
    assert 0.05 < np.mean(on_step) < 0.7
    assert step_of(readings) == pytest.approx(step, rel=1e-6)


def test_the_step_is_found_however_often_every_mean_was_seen() -> None:
    """Few values and many rows: every twelfth of a step comes, whole steps come more often."""
    readings = minutes(np.random.default_rng(2), 40_000, 1.0, spread=15.0)
    assert len(np.unique(np.rint(readings * 12))) > 0.8 * 12 * np.ptp(readings)
    assert step_of(readings) == pytest.approx(1.0)


def test_digits_that_were_cut_off_do_not_hide_the_step() -> None:
    """A logger that writes 20.79 for 20.8: no lattice holds the values, but they crowd around one."""
    readings = minutes(np.random.default_rng(3), 8000, 0.1)
    tenths = np.rint(readings * 10)
    cut = np.where(
        np.isin(tenths % 10, [3, 4, 8, 9]) & (np.abs(readings * 10 - tenths) < 1e-6),
        readings - 0.01,
        readings,
    )
    assert np.mean(cut != readings) > 0.02
    assert step_of(cut) == pytest.approx(0.1, rel=0.01)


def test_the_last_digit_of_a_third_is_no_step() -> None:
    """721.333333333333 and 721.333333333334 are the same reading, and their difference no lattice."""
    readings = np.random.default_rng(4).integers(1200, 1500, 500) / 3
    readings[::2] += 1e-12
    assert step_of(readings) == pytest.approx(1 / 3, rel=1e-6)


def test_a_few_rows_that_lie_nowhere_do_not_hide_a_lattice() -> None:
    rng = np.random.default_rng(5)
    readings = np.rint(wandering(rng, 4000, 0.9) * 20) * 0.1
    readings[::100] += rng.uniform(0, 0.1, 40)
    steps, phases = lattice_of(readings[:, None] + 0.03)
    assert steps[0] == pytest.approx(0.1, rel=1e-6)
    assert np.mean(on_lattice(readings[:, None] + 0.03, steps, phases)) == pytest.approx(0.99, abs=1e-3)


@pytest.mark.parametrize("memory", [0.0, 0.9, 0.999])
@pytest.mark.parametrize("values", [5, 50, 500])
def test_readings_that_stay_at_a_value_for_long_prefer_no_coarser_lattice(memory: float, values: int) -> None:
    """At most one of a billion such trials finds one by chance."""
    for seed in range(5):
        readings = np.rint(wandering(np.random.default_rng(seed), 4000, memory) * values) * 0.01
        assert step_of(readings) == pytest.approx(0.01, rel=1e-6)


def test_a_continuum_that_rests_at_one_value_has_no_lattice() -> None:
    """Rain: nothing on most days, anything on the others."""
    rng = np.random.default_rng(6)
    assert step_of(np.where(rng.uniform(size=2000) < 0.7, 0.0, rng.exponential(5.0, 2000))) == 0.0


def test_no_values_lie_on_no_lattice() -> None:
    assert step_of(np.array([])) == 0.0
