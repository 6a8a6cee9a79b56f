"""What ``inspect`` says of sanitizers with a memory, against recovering readings from a simulated stream."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from helpers.memories import sent_row_by_row
from veilnet.review.inspection import inspect


def recovered(sanitizer: vn.Sanitizer, rows: int = 12) -> np.ndarray:
    """Which readings of the first row the numbers of some rows determine, by changing one at a time.

    Column by column the messages' response to every reading; a reading is determined where no combination of the
    others has the same response.
    """
    count = sanitizer.readings
    base = sent_row_by_row(sanitizer, np.zeros((rows, count)))
    columns = []
    for place in range(rows * count):
        y = np.zeros(rows * count)
        y[place] = 1.0
        columns.append((sent_row_by_row(sanitizer, y.reshape(rows, count)) - base).reshape(-1))
    response = np.array(columns).T
    found = []
    for reading in range(count):
        others = np.delete(response, reading, axis=1)
        rest = response[:, reading] - others @ np.linalg.lstsq(others, response[:, reading], rcond=None)[0]
        found.append(np.linalg.norm(rest) > 1e-7 * np.linalg.norm(response[:, reading]))
    return np.array(found)


def test_one_reading_and_one_exact_number_is_raw_through_any_memory() -> None:
    sanitizer = vn.Sanitizer([[1.0, 0.0]], memory=vn.Memory(0.5, [[1.0]]), grid=2.0**-10, names=("T1",))
    found = inspect(sanitizer)
    assert "EVERY raw reading can be recovered exactly" in found.alarms[0]
    assert recovered(sanitizer).all()
    assert "keeps a memory of 1 number" in found.notes[0]
    assert "for 6 more rows" in found.notes[0]  # 0.5^7 < 0.01 < 0.5^6
    assert found.numbers == ("number 1 = 1 T1 + memory of earlier rows, exactly",)


def test_a_reading_that_only_the_memory_shows_is_not_withheld() -> None:
    """The compression has a zero for the reading itself; a look at it alone would call it withheld."""
    memory = vn.Memory([[0.5, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]])
    sanitizer = vn.Sanitizer([[0.0, 1.0, 1.0, 0.0]], memory=memory, grid=2.0**-10, names=("now", "later"))
    found = inspect(sanitizer)
    kinds = {exposure.reading: exposure.kind for exposure in found.exposures}
    assert kinds == {"now": "mixed with others", "later": "mixed with others"}
    assert recovered(sanitizer).tolist() == [
        True,
        False,
    ]  # of the first row, to which the memory adds nothing
    assert (
        found.notes[0]
        == "in the very first row, before the memory holds anything, now can be recovered exactly"
    )


@pytest.mark.parametrize("seed", range(6))
def test_exactly_what_can_be_recovered(seed: int) -> None:
    rng = np.random.default_rng(seed)
    readings, order, sent = 2 + seed % 2, 1 + seed % 3, 1 + seed // 2 % 2
    transition = 0.6 * rng.normal(size=(order, order)) / np.sqrt(order)
    gain = rng.normal(size=(order, readings)) * (rng.random(readings) < 0.7)
    transition *= 0.7 / max(0.7, np.max(np.abs(np.linalg.eigvals(transition))))
    compression = rng.normal(size=(sent, order + readings))
    compression[:, order:] *= rng.random(readings) < 0.4
    sanitizer = vn.Sanitizer(compression, memory=vn.Memory(transition, gain), grid=2.0**-10)
    exact = [exposure.kind == "exactly" for exposure in inspect(sanitizer).exposures]
    assert exact == recovered(sanitizer).tolist()


def test_noise_is_told_as_what_all_rows_leave_of_a_reading() -> None:
    """Sent as it is with noise, and again in the next row: two looks, half the variance."""
    memory = vn.Memory([[0.0, 0.0], [1.0, 0.0]], [[1.0], [0.0]])
    both = vn.Sanitizer([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], 2.0, memory=memory, grid=2.0**-10)
    exposure = inspect(both).exposures[0]
    assert exposure.kind == "with noise"
    assert exposure.error == pytest.approx(1.0, rel=1e-9)
