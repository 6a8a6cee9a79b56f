"""Figures in pages are those that were measured: none stale, none typed by hand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import veilnet as vn
from helpers.code_blocks import ROOT
from veilnet.io.template import house

sys.path.insert(0, str(ROOT / "tools"))

import figures
from bench import BENCHMARKS
from overview import overview

PAGES = [str(path.relative_to(ROOT)) for path in figures.pages()]
# what reads like a measurement: 0.996, 10-fold, 5 %, 20 s, 1,765 times
_MEASUREMENT = re.compile(
    r"(?<![\w.§])(\d+\.\d+|\d[\d,.]*(?=-fold| ?%|×| ?(?:times|seconds|minutes|hours|ms|µs|s)\b))"
)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_was_measured(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert figures.render(text) == text, "run 'python tools/figures.py render'"


def test_marks_do_not_end_a_paragraph() -> None:
    """A line that begins with a comment would be taken for HTML, and end the paragraph it stands in."""
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert not re.search(r"^<!-- figure", text, re.MULTILINE), page


def test_the_picture_shows_what_was_measured() -> None:
    assert figures.PICTURE.read_text(encoding="utf-8") == overview(figures.load("house")["figures"])


def measurements(text: str) -> list[str]:
    """What reads like a measurement outside of marks, code and comments."""
    for pattern in (r"<!-- figure .*?<!-- -->", r"^```.*?^```$", r"<!--.*?-->", r"`[^`]*`", r"\]\([^)]*\)"):
        text = re.sub(pattern, "", text, flags=re.DOTALL | re.MULTILINE)
    allowed = ("Python 3.11", "CC BY 4.0", "Apache-2.0", "0.5 is guessing")
    for words in allowed:
        text = text.replace(words, "")
    return _MEASUREMENT.findall(text)


def test_the_readme_has_no_figure_typed_by_hand() -> None:
    assert not measurements((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("AUC 0.996.", ["0.996"]),
        ("grows 10-fold, for 5 % and 20 s", ["10", "5", "20"]),
        ("1,765 times slower", ["1,765"]),
        ("<!-- figure a.b -->0.47<!-- --> and `0.05` and Python 3.11", []),
        ("five rooms, 200 sweeps, section 8", []),
    ],
)
def test_figures_typed_by_hand_are_noticed(text: str, found: list[str]) -> None:
    assert measurements(text) == found


def test_every_kept_figure_says_when_where_and_how() -> None:
    kept = sorted(figures.KEPT.glob("*.json"))
    assert {path.stem for path in kept} <= set(BENCHMARKS)
    assert len(kept) >= 6
    for path in kept:
        each = figures.load(path.stem)
        assert each["name"] == path.stem
        assert each["command"].startswith(f"./veilnet bench {path.stem}")
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", each["date"])
        assert "cores" in each["machine"]
        assert "numpy" in each["machine"]
        assert each["output"]


def test_the_house_is_still_what_was_kept() -> None:
    """What can be computed at once is: the kept figures are those of today's code."""
    network = house()
    plan = vn.design(network)
    kept = figures.load("house")["figures"]
    assert kept["gait_times"] == f"{(1 + plan.privacy['gait']) ** 0.5:.1f}x"
    assert kept["sent"] == str(sum(plan.sent.values()))
    assert f"±{kept['gait_sent']}" in str(plan)
    assert f"±{kept['temperature_raw']}" in str(plan)


def test_a_stale_page_and_a_missing_figure_are_noticed() -> None:
    page = "<!-- figure house.rooms -->7<!-- -->"
    assert figures.render(page) == "<!-- figure house.rooms -->5<!-- -->"
    with pytest.raises(figures.Stale, match="has no figure 'cellars'"):
        figures.render("<!-- figure house.cellars -->7<!-- -->")
    with pytest.raises(figures.Stale, match="bench palace --update-docs"):
        figures.render("<!-- figure palace.rooms -->7<!-- -->")


def run(arguments: list[str], kept: Path) -> subprocess.CompletedProcess[str]:
    """The tool with another folder to keep figures in."""
    code = f"import figures, pathlib, sys; figures.KEPT = pathlib.Path({str(kept)!r}); "
    code += "sys.exit(figures.main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT / "tools",
        capture_output=True,
        text=True,
        check=False,
    )


def test_measuring_keeps_figures_and_what_was_printed(tmp_path: Path) -> None:
    program = "print('| a |'); print('figure speed: 12 ms'); print('done')"
    ran = run(["measure", "toy", "./veilnet bench toy", "120", "--", sys.executable, "-c", program], tmp_path)
    assert ran.returncode == 0, ran.stderr
    text = (tmp_path / "toy.json").read_text(encoding="utf-8")
    assert '"speed": "12 ms"' in text
    assert '"./veilnet bench toy"' in text
    assert "figure speed" not in text


def test_a_benchmark_that_fails_or_takes_too_long_keeps_nothing(tmp_path: Path) -> None:
    ran = run(["measure", "toy", "x", "120", "--", sys.executable, "-c", "raise SystemExit(3)"], tmp_path)
    assert ran.returncode == 1
    assert "toy: failed" in ran.stderr
    slow = ["measure", "toy", "x", "0.2", "--", sys.executable, "-c", "import time; time.sleep(600)"]
    ran = run(slow, tmp_path)
    assert ran.returncode == 1
    assert "took more than 0.2 s" in ran.stderr
    assert not list(tmp_path.iterdir())
