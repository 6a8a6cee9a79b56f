"""What a sanitizer with memory tells of each reading once all rows have arrived."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from veilnet.agent.inspection import inspect
from veilnet.agent.memory import Memory


def kinds(sanitizer: vn.Sanitizer) -> list[str]:
    return [exposure.kind for exposure in inspect(sanitizer).exposures]


def test_a_filtered_reading_can_be_recovered_by_who_waits() -> None:
    """z_t = y_t - 2 y_{t-1}: not from the rows up to now, but from all of them."""
    memory = Memory([[0.0, 0.0], [1.0, 0.0]], [[1.0], [0.0]])
    sanitizer = vn.Sanitizer([[1.0, -2.0, 0.0]], memory=memory)
    assert kinds(sanitizer) == ["exactly"]
    assert "EVERY raw reading can be recovered exactly: 1 independent numbers" in inspect(sanitizer).alarms[0]
    assert "number 1 = 1 reading 1 of this row, and what the memory keeps of earlier ones, exactly" in str(
        inspect(sanitizer)
    )


def test_one_filtered_number_of_two_readings_mixes_them() -> None:
    sanitizer = vn.Sanitizer([[1.0, 0.5, 0.0]], memory=Memory([[0.5]], [[1.0, 2.0]]))
    assert kinds(sanitizer) == ["mixed with others", "mixed with others"]
    assert inspect(sanitizer).ok


def test_two_filtered_numbers_of_two_readings_tell_both() -> None:
    sanitizer = vn.Sanitizer([[1.0, 0.5, 0.0], [0.3, 0.0, 1.0]], memory=Memory([[0.5]], [[1.0, 2.0]]))
    assert kinds(sanitizer) == ["exactly", "exactly"]


def test_a_reading_that_no_memory_and_no_number_takes_in_is_withheld() -> None:
    sanitizer = vn.Sanitizer([[1.0, 0.0, 0.0]], memory=Memory([[0.5]], [[1.0, 0.0]]))
    assert kinds(sanitizer) == ["exactly", "withheld"]


def test_noise_on_a_filtered_reading_is_what_remains_of_it() -> None:
    """z = s + noise, s = 0.8 s + y: undoing it, y = s_t - 0.8 s_{t-1}, leaves noise of variance 1 + 0.64."""
    sanitizer = vn.Sanitizer([[1.0, 0.0]], 4.0, memory=Memory([[0.8]], [[1.0]]))
    (exposure,) = inspect(sanitizer).exposures
    assert exposure.kind == "with noise"
    assert exposure.error == pytest.approx(2.0 * np.sqrt(1 + 0.64), rel=1e-9)
