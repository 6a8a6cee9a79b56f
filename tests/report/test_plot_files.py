"""Pictures that ``--plot`` writes: well-formed, with the report's marks, and true to the figures."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from tests.helpers.said import says

import veilnet as vn
from veilnet.auditing.row import Row
from veilnet.calibration.classes import Classes, roc
from veilnet.cli import run
from veilnet.io.template import house
from veilnet.report.plots import audit_plot, residuals_plot

SVG = "{http://www.w3.org/2000/svg}"


def drawn(path: Path) -> ET.Element:
    return ET.fromstring(path.read_text(encoding="utf-8"))


@pytest.fixture
def network(tmp_path: Path) -> str:
    house().save(tmp_path / "house.json")
    return str(tmp_path / "house.json")


def test_check_draws_raw_sent_and_prior_of_every_parameter(network: str, tmp_path: Path) -> None:
    picture = tmp_path / "check.svg"
    assert run(["check", network, "--plot", str(picture)]) == 0
    texts = [each.text or "" for each in drawn(picture).iter(f"{SVG}text")]
    for name in (*house().public, *house().private):
        assert any(name in text for text in texts)
    assert len(list(drawn(picture).iter(f"{SVG}polygon"))) == 5, "a diamond for each parameter"


def test_frontier_draws_the_free_plan_and_the_limit(network: str, tmp_path: Path) -> None:
    picture = tmp_path / "curve.svg"
    assert run(["frontier", network, "--points", "2", "--plot", str(picture)]) == 0
    words = [each.text for each in drawn(picture).iter(f"{SVG}text")]
    assert {"free plan", "nothing sent"} <= set(words)


def test_another_ending_is_refused_before_anything_is_computed(
    network: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", network, "--plot", str(tmp_path / "x.bmp")]) == 2
    says(capsys.readouterr().err, "x.bmp", ".svg")


def test_residuals_beyond_the_frame_are_drawn_at_its_edge() -> None:
    root = ET.fromstring(residuals_plot({"T": (np.arange(3.0), np.array([0.0, 99.0, -99.0]))}))
    heights = [float(each.attrib["cy"]) for each in root.iter(f"{SVG}circle")]
    assert heights[1] < heights[0] < heights[2]
    assert heights[1] >= 0


def test_a_roc_curve_is_that_of_the_ranks() -> None:
    """Planted: a perfect detector, one that guesses, and ties that go together."""
    classes = Classes(np.array([0.0, 1.0]), np.array([0, 0, 1, 1]))
    score = np.array([0.1, 0.2, 0.8, 0.9])
    assert [0.0, 1.0] in roc(classes, np.stack([1 - score, score], axis=1))
    assert roc(classes, np.full((4, 2), 0.5)) == [[0.0, 0.0], [1.0, 1.0]]


def test_an_audit_draws_roc_curves_and_errors() -> None:
    curve = [[0.0, 0.0], [0.5, 0.8], [1.0, 1.0]]
    rows = [
        Row(
            "s", "ridge on presence (values)", 0.6, 0.7, "ok", figures={"roc": {"sent": curve, "raw": curve}}
        ),
        Row(
            "s", "ridge on gait", 0.25, 0.36, "ok",
            figures={"parameter": "gait", "guessing": 1.0, "from raw readings": 0.04},
        ),
        Row("s", "nothing to draw", None, None, "info"),
    ]  # fmt: skip
    root = ET.fromstring(audit_plot(rows))
    assert len(list(root.iter(f"{SVG}path"))) == 2
    *_, raw = (float(each.attrib["cx"]) for each in root.iter(f"{SVG}circle"))
    marks = [each for each in root.iter(f"{SVG}rect") if each.get("class") == "mark guess"]
    guessing = float(marks[-1].attrib["x"]) + 2
    corners = [each.attrib["points"].split() for each in root.iter(f"{SVG}polygon")]
    promised, sent = (
        float(points[place].split(",")[0]) for points, place in zip(corners[-2:], (2, 1), strict=True)
    )
    unit = (guessing - raw) / (1 - 0.2)
    assert promised - raw == pytest.approx((0.5 - 0.2) * unit, abs=0.2)
    assert sent - raw == pytest.approx((0.6 - 0.2) * unit, abs=0.2)


def test_the_papers_scale_is_shown_where_it_is_asked_for(
    network: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", network, "--paper"]) == 0
    shown = capsys.readouterr().out
    assert f"cooking {vn.check(house()).ceiling['cooking']:.3g}" in shown
    assert run(["check", network]) == 0
    assert "Paper" not in capsys.readouterr().out
