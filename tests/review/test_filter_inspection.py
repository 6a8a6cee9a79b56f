"""What a sanitizer with memory tells of each reading once all rows have arrived."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from veilnet.agent.memory import Memory
from veilnet.review.inspection import inspect


def kinds(sanitizer: vn.Sanitizer) -> list[str]:
    return [exposure.kind for exposure in inspect(sanitizer).exposures]


def test_a_filtered_reading_can_be_recovered_by_who_waits() -> None:
    """z_t = y_t - 2 y_{t-1}: not from the rows up to now, but from all of them."""
    memory = Memory([[0.0, 0.0], [1.0, 0.0]], [[1.0], [0.0]])
    sanitizer = vn.Sanitizer([[1.0, -2.0, 0.0]], memory=memory)
    assert kinds(sanitizer) == ["exactly"]
    assert "EVERY raw reading can be recovered exactly: 1 independent numbers" in inspect(sanitizer).alarms[0]
    assert "number 1 = 1 reading 1 + memory of earlier rows, exactly" in str(inspect(sanitizer))


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


def test_exact_numbers_are_used_as_far_as_they_help_against_noise() -> None:
    """y1 + y2 exactly, y1 a row later and y2 now with unit noise: two looks at y1, half the variance."""
    memory = Memory([[0.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]])
    rows = [[0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    found = inspect(vn.Sanitizer(rows, np.diag([0.0, 1.0, 1.0]), memory=memory)).exposures
    assert [exposure.kind for exposure in found] == ["with noise", "with noise"]
    assert [exposure.error for exposure in found] == pytest.approx([np.sqrt(0.5)] * 2, rel=1e-9)


def test_how_long_a_reading_shows_is_judged_beside_its_own_row() -> None:
    """Sent at once with weight 100 and from the memory with 0.5, 0.25, ...: nothing noticeable after its own row."""
    direct = vn.Sanitizer([[1.0, 100.0]], memory=Memory([[0.5]], [[1.0]]), grid=2.0**-10)
    assert "affects what is sent in its row alone" in inspect(direct).notes[0]
    # Another unit of one reading does not hide how long the other shows.
    memory = Memory(np.diag([0.5, 0.5]), np.diag([1.0, 1e6]))
    other = vn.Sanitizer([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1e6]], memory=memory, grid=2.0**-10)
    assert "for 6 more rows" in inspect(other).notes[0]
