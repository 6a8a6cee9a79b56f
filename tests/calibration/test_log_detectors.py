"""What learned detectors see of a secret in the log of a fit, and that every plan of that log says it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.said import says
from veilnet._core.types import Array
from veilnet.calibration import log_detectors
from veilnet.calibration.stretches import windowed
from veilnet.cli import run
from veilnet.io.network_schema import network_difference
from veilnet.io.statements import StatedPromise
from veilnet.model.fitted import LogAuc

pytest.importorskip("sklearn")

AGENTS = {"a": ["y0", "y1"], "b": ["y2", "y3"]}


def log(*, by_spread: bool, spell: int = 6, rows: int = 1200, seed: int = 5) -> dict[str, Array]:
    """Presence comes and goes; it moves the readings, or (``by_spread``) only makes them noisier."""
    rng = np.random.default_rng(seed)
    present = np.repeat(rng.integers(0, 2, rows // spell), spell).astype(float)
    u, noise = rng.normal(size=rows), rng.normal(size=(4, rows))
    if by_spread:
        readings = 0.8 * u + 0.05 * present + noise * (0.3 + 1.2 * present)
    else:
        readings = 0.8 * u + np.array([0.3, 0.6, -0.4, 0.5])[:, None] * present + noise
    return {f"y{k}": each for k, each in enumerate(readings)} | {"u": u, "present": present}


def fitted(table: dict[str, Array], **options: Any) -> vn.Network:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return vn.fit(table, AGENTS, ["u"], ["present"], **options)


@pytest.fixture(scope="module")
def planted() -> vn.Network:
    return fitted(log(by_spread=True))


def test_what_the_model_cannot_see_is_measured(planted: vn.Network) -> None:
    raw, free = planted.log_aucs["present"]["raw"], planted.log_aucs["present"]["free"]
    assert raw.model < 0.6
    assert raw.auc > 0.9
    assert raw.sees_more
    assert free.auc > free.model + 0.1
    assert free.sees_more
    assert raw.rows == 1200


def test_every_plan_of_that_log_says_it_first(planted: vn.Network) -> None:
    """The free plan, one with a target, and the verdict: above the figures, with the AUC in the model."""
    free = planted.log_aucs["present"]["free"]
    for plan in (vn.design(planted), vn.design(planted, privacy={"present": vn.Auc(0.502)})):
        line = str(plan).splitlines()[1]
        assert "does not hide" in line
        assert f"AUC {free.auc:.2f}" in line
        assert f"AUC {plan.detectability['present'].auc:.2f}" in line
    assert "does not hide" in str(vn.check(planted)).splitlines()[1]
    # Accepting the doubt does not take it from the headline.
    accepted = planted.accepting("learned-detectors")
    assert "does not hide" in str(vn.design(accepted)).splitlines()[1]


def test_verify_and_report_say_it_where_they_begin(
    planted: vn.Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    free = f"AUC {planted.log_aucs['present']['free'].auc:.2f}"
    vn.design(planted).save(tmp_path / "plan")
    assert run(["verify", str(tmp_path / "plan")]) == 0
    shown = capsys.readouterr().out
    assert free in shown.splitlines()[0]
    assert "does not hide" in shown.splitlines()[0]
    assert run(["report", str(tmp_path / "plan"), "--out", str(tmp_path / "report.html")]) == 0
    title = (tmp_path / "report.html").read_text(encoding="utf-8").partition("<h1")[2].partition("</h1>")[0]
    assert free in title
    assert "does not hide" in title


def test_where_the_model_is_right_nothing_more_is_seen() -> None:
    network = fitted(log(by_spread=False, spell=1))
    for shown in network.log_aucs["present"].values():
        assert not shown.sees_more
        assert shown.auc > 0.5
    assert "learned-detectors" not in {doubt.name for doubt in network.doubts}
    assert "does not hide" not in str(vn.design(network))


def test_a_state_that_stays_is_seen_by_who_remembers() -> None:
    """Single rows follow the model; who sees the rows before knows more than a promise for single rows says."""
    raw = fitted(log(by_spread=False)).log_aucs["present"]["raw"]
    assert raw.sees_more
    assert "with memory" in raw.learner


def test_a_secret_that_is_seen_is_not_called_hidden() -> None:
    table = log(by_spread=False)
    for reading in ("y0", "y1", "y2", "y3"):
        table[reading] = table[reading] + 5 * table["present"]
    table["u"] = (
        table["u"] + 2 * table["present"]
    )  # the public parameter tells of it, so nothing free hides it
    network = fitted(table)
    plan = vn.design(network)
    assert plan.detectability["present"].auc > 0.9
    assert "present is not hidden" in str(plan)


@pytest.mark.parametrize("name", ["n.toml", "n.json", "n.npz"])
def test_it_travels_with_the_network_and_its_plan(planted: vn.Network, tmp_path: Path, name: str) -> None:
    planted.save(tmp_path / name)
    again = vn.Network.load(tmp_path / name)
    assert again.log_aucs == planted.log_aucs
    vn.design(again).save(tmp_path / "plan")
    loaded = vn.Plan.load(tmp_path / "plan")
    assert loaded.network.log_aucs == planted.log_aucs
    # What an agent's owner is shown by inspect, and what is signed, says so, too.
    said = StatedPromise.of(loaded).changes
    assert said is not None
    says(
        said["present"],
        f"AUC {loaded.detectability['present'].auc:.3f}",
        "does not hide",
        f"AUC {planted.log_aucs['present']['free'].auc:.2f}",
    )
    assert network_difference(again, planted.replace(log_aucs=None)) == ""


def test_without_scikit_learn_the_fit_says_that_nobody_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_detectors, "_can_learn", lambda: False)
    network = fitted(log(by_spread=True))
    assert network.log_aucs == {}
    words = {doubt.name: doubt.words for doubt in network.doubts}["no-learned-detectors"]
    assert "present" in words
    assert "scikit-learn" in words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"auc": 1.2}, "auc: expected a number from 0 to 1"),
        ({"low": float("nan")}, "low: expected a number"),
        ({"low": 0.97}, "expected low <= auc <= high"),
        ({"rows": 0}, "rows: expected a number of rows"),
        ({"learner": "a\nb"}, "learner: expected a name"),
    ],
)
def test_nonsense_is_refused(planted: vn.Network, changes: dict[str, Any], words: str) -> None:
    wrong = replace(planted.log_aucs["present"]["raw"], auc=0.95, low=0.9, high=0.99)
    wrong = replace(wrong, **changes)
    with pytest.raises(vn.InvalidNetwork, match=words):
        planted.replace(log_aucs={"present": {"raw": wrong}})
    good = LogAuc("boosting", 0.7, 0.6, 0.8, 0.6, 10)
    with pytest.raises(vn.InvalidNetwork, match="log_aucs: expected some of present"):
        planted.replace(log_aucs={"somebody": {"raw": good}})


def test_windows_are_means_slopes_and_spreads_of_the_rows_before() -> None:
    """Against NumPy's own, row by row; a window never reaches across a gap."""
    rng = np.random.default_rng(3)
    values, segments = rng.normal(size=(40, 2)) + 5.0, np.repeat([0, 1, 2], [13, 1, 26])
    found = windowed(values, segments, (5, 15))
    assert found.shape == (40, 2 * (1 + 3 * 2))
    for row in (0, 3, 12, 13, 14, 30, 39):
        for place, length in enumerate((5, 15)):
            mine = [k for k in range(max(0, row + 1 - length), row + 1) if segments[k] == segments[row]]
            part = values[mine]
            slope = np.polyfit(np.arange(len(part)), part, 1)[0] if len(part) > 1 else np.zeros(2)
            expected = np.concatenate([part.mean(axis=0) - values.mean(axis=0), slope, part.std(axis=0)])
            assert found[row, 2 + 6 * place : 8 + 6 * place] == pytest.approx(expected, abs=1e-7)
