"""The examples run, and show what they say: a notebook, the paper's microphones, the office on a log made here."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.code_blocks import ROOT, blocks, mismatch

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

EXAMPLES = ROOT / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


@pytest.mark.small_search
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_prints_what_it_shows(path: Path, tmp_path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    names: dict[str, object] = {"__name__": "__main__"}
    ran = 0
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        printed = io.StringIO()
        with contextlib.chdir(tmp_path), contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), path.name, "exec"), names)
        shown = "".join(line for each in cell["outputs"] for line in each["text"])
        assert mismatch(shown, printed.getvalue()) is None, mismatch(shown, printed.getvalue())
        ran += 1
    assert ran >= 5


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS


def run(name: str, *arguments: str, cwd: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(cwd)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return printed.getvalue()


@pytest.mark.small_search
def test_the_microphones_hide_who_they_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two oracles: the exact test, and an attacker who regresses on what is sent. The how-to page shows the same."""
    printed = run("microphones.py", cwd=tmp_path, monkeypatch=monkeypatch)
    page = (ROOT / "docs" / "how-to" / "microphones.md").read_text(encoding="utf-8")
    (block,) = [each for each in blocks(page) if "examples/microphones.py" in each.code]
    assert block.shown is not None
    assert mismatch(block.shown, printed) is None, mismatch(block.shown, printed)
    assert "without bound and for nothing: True (the theorem as printed: False)" in printed
    rows = {
        words[0]: [float(each) for each in words[2:]]
        for words in map(str.split, printed.splitlines())
        if len(words) == 5 and words[1] in ("public", "private", "other")
    }
    assert set(rows) == {"Anna", "Ben", "Carla", "Dora", "Emil"}
    assert min(rows["Anna"]) > 0.85
    for name in ("Ben", "Carla"):
        raw, _, paid = rows[name]
        assert raw > 0.9
        assert paid < 0.7


@pytest.mark.small_search
@pytest.mark.filterwarnings("default")
def test_the_office_on_a_log_made_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real log is not in the repository; a made one with the same columns goes the same way."""
    rng = np.random.default_rng(4)
    for name, rows in (("training.csv", 1200), ("test2.csv", 800)):
        here = (rng.random(rows) < 0.4).astype(int)
        water = rng.standard_normal(rows)  # in deviations of the humidity ratio

        def noise(size: float, rows: int = rows) -> np.ndarray:
            return size * rng.standard_normal(rows)

        columns = {
            "date": [f"2015-02-{4 + k // 1440:02d} {k // 60 % 24:02d}:{k % 60:02d}:00" for k in range(rows)],
            "Temperature": (21 + 0.1 * water + noise(0.3)).round(2),
            "Humidity": (27 + 2.0 * water + noise(0.5)).round(2),
            "Light": (60 + 380 * here + noise(20)).round(1),
            "CO2": (500 + 300 * here + 40 * water + noise(30)).round(1),
            "HumidityRatio": (0.0045 + 0.0004 * water).round(7),
            "Occupancy": here,
        }
        with (tmp_path / name).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
    printed = run("office.py", str(tmp_path), cwd=tmp_path, monkeypatch=monkeypatch)
    figures = dict(re.findall(r"^figure (\w+): (.+)$", printed, re.MULTILINE))
    assert float(figures["raw_regression"]) > 0.98
    assert float(figures["sent_best"]) < 0.9
    assert float(figures["r2"]) > 0.5
    assert figures["rows_later"] == "800"
