"""The examples of the adapters run, and print what they are meant to show."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# What each of them prints, whatever noise was drawn.
SHOWN = {
    "kalman_arrays.py": ["minute 0: 2 numbers", "minute 3: 1 numbers", "minute 4: 2 numbers"],
    "stone_soup_tracker.py": ["00:00  temperature", "01:15  temperature"],
    "frames.py": [
        "what the kitchen sends: z1", "missing in the last row: hall", "four deviations of the truth: 5 of 5",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_the_example_shows_what_it_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    shown = capsys.readouterr().out
    for line in SHOWN[name]:
        assert line in shown
    assert name != "stone_soup_tracker.py" or shown.count("less than 1e-6 deviations") == 6
