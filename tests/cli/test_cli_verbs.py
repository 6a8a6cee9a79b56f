"""The verbs as a person calls them: what they print, write and return."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import eigh

import veilnet as vn
from helpers.known_networks import counterexample
from helpers.networks import random_network
from helpers.small_network import small_network
from helpers.stream_networks import random_stream
from veilnet.cli import run
from veilnet.cli.story import in_blocks, play
from veilnet.io.template import house

pytestmark = [pytest.mark.slow, pytest.mark.small_search]


@pytest.fixture
def house_file(tmp_path: Path) -> str:
    path = tmp_path / "house.toml"
    house().save(path)
    return str(path)


def test_check_explains_and_answers_in_json(house_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", house_file]) == 0
    text = capsys.readouterr().out
    for word in ("free up to the errors below", "presence", "kitchen"):
        assert word in text
    assert run(["check", house_file, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    verdict = vn.check(house())
    assert answer["achievable"] is False
    assert answer["ceiling"] == pytest.approx(dict(verdict.ceiling))
    assert answer["blocking"]["cooking"] == pytest.approx(dict(verdict.blocking["cooking"]))
    assert answer["printed_theorem"]["number"] == 2


def test_infinities_survive_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counterexample().save(tmp_path / "three.json")
    assert run(["check", str(tmp_path / "three.json"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["achievable"] is True
    assert answer["ceiling"] == {"g": "inf"}
    assert answer["printed_theorem"]["achievable"] is False


@pytest.mark.parametrize(
    ("options", "method"),
    [
        ([], "perfect"),
        (["--privacy", "1"], "perfect"),
        (["--power", "100"], "power"),
        (["--privacy", "gait=2", "--method", "noise"], "noise"),
        (["--privacy", "gait=12", "--privacy", "cooking=3"], "joint"),
        (["--privacy", "5", "--method", "alternating"], "alternating"),
        (["--utility-loss", "0.02"], "joint"),
    ],
)
def test_design_writes_a_plan_that_keeps_its_promise(
    options: list[str], method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # within a loss a search is long, and the house larger than the question needs
    network = small_network() if "--utility-loss" in options else house()
    network.save(tmp_path / "network.json")
    folder = tmp_path / "plan"
    assert run(["design", str(tmp_path / "network.json"), *options, "--out", str(folder), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    plan = vn.Plan.load(folder)
    assert answer["method"] == plan.method == method
    assert answer["certificate"]["ok"] is True
    assert vn.privacy(network, plan.sanitizers) == pytest.approx(answer["privacy"], rel=1e-9)
    assert vn.utility(network, plan.sanitizers) == pytest.approx(answer["utility"], rel=1e-9, abs=1e-12)
    proved = {"proof"} if plan.proof is not None else set()
    assert {path.stem for path in folder.glob("*.json")} == {"plan", "center", *proved, *network.agents}


def test_design_in_words(house_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["design", house_file]) == 0
    text = capsys.readouterr().out
    text = " ".join(text.split())
    assert "gait (private) ±3.9 steps/min ±12.4 steps/min ±15.0 steps/min" in text
    assert "3.19x" in text
    assert "nothing is lost on mean temperature and heat loss." in text
    assert "confirmed" in text


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--privacy", "1e9"], 1, "even silence gives only"),
        (["--privacy", "3", "--method", "perfect"], 1, "at perfect utility no mechanism exceeds"),
        (["--privacy", "gate=3"], 2, "unknown 'gate'"),
        (["--privacy", "lots"], 2, "--privacy: expected a number, found 'lots'"),
        (["--privacy", "gait=1", "--privacy", "3"], 2, "name=number"),
        (["--utility-loss", "much"], 2, "--utility-loss: expected a number, found 'much'"),
        (["--privacy", "2", "--give-up", "gate"], 2, "unknown 'gate'"),
        (["--utility-loss", "nan"], 2, "--utility-loss: expected a finite number"),
        (["--method", "magic"], 2, "expected one of auto"),
    ],
)
def test_design_refuses_in_one_line(
    options: list[str], code: int, message: str, house_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["design", house_file, *options]) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_frontier_draws_and_tabulates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = random_network(
        1, noise="per agent", prior="covariance", sizes=(2, 2), parameters=3, public_rows=1
    )
    network.save(tmp_path / "small.npz")
    verdict = vn.check(network)
    low, high = min(verdict.ceiling.values()), min(verdict.limit.values())
    levels = [0.5 * low, low + 0.3 * (high - low), low + 0.8 * (high - low), 2 * high]
    arguments = [item for level in levels for item in ("--privacy", repr(level))]
    svg, csv = tmp_path / "f.svg", tmp_path / "f.csv"
    path = str(tmp_path / "small.npz")
    assert run(["frontier", path, *arguments, "--plot", str(svg), "--csv", str(csv), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [row["method"] for row in answer["rows"]] == ["perfect", "joint", "joint", "infeasible"]
    losses = [-row["utility"] for row in answer["rows"][:3]]
    assert losses == sorted(losses)
    assert svg.read_text().lstrip().startswith("<svg")
    lines = csv.read_text().splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("privacy_asked,utility,utility_loss")
    assert float(lines[2].split(",")[1]) == answer["rows"][1]["utility"]


def test_demo_tells_the_whole_story(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    for name, most_loss in (("free", 1e-9), ("strict", 0.05)):
        plan = answer["plans"][name]
        assert 0 <= -plan["utility"] + 1e-12 <= most_loss
        for line in plan["errors"]:
            # 4000 draws: the relative deviation of a root mean square error is 1/sqrt(8000); six of them
            assert line["measured"] == pytest.approx(line["promised"], rel=6 / np.sqrt(8000))
            if line["private"]:
                assert line["promised"] > 1.2 * line["raw"]
    for line in answer["stream"]["errors"]:
        # Errors carry over for up to twenty rows, so that 4000 of them are worth 200; six deviations again.
        assert line["measured"] == pytest.approx(line["promised"], rel=6 / np.sqrt(400))
        grows = line["promised"] / line["raw"]
        assert grows > 1.3 if line["private"] else grows == pytest.approx(1.0, rel=1e-9)


def test_demo_says_it_in_words_and_draws_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--private-error", "1.5x"]) == 0
    text = capsys.readouterr().out
    for word in ("raw readings", "Can privacy be free?", "sends its share", "stricter plan", "gait", "°C"):
        assert word in text
    assert "with hindsight" in text
    true, raw, sent = (
        next(line for line in text.splitlines() if line.strip().startswith(label)).split()[-1]
        for label in ("gait, true", "from raw readings", "from what is sent")
    )
    assert len(true) == len(raw) == len(sent) == 96
    off = [sum(abs(ord(a) - ord(b)) for a, b in zip(true, guess, strict=True)) for guess in (raw, sent)]
    assert off[1] > 2 * off[0]


def test_what_is_private_in_a_stream_is_judged_with_hindsight() -> None:
    """On raw readings, where looking back helps most: the error is that of hindsight, not that of the row itself."""
    network = random_stream(0, radius=0.9, private_rows=(1,))
    story = play(vn.design(network), 4000, seed=2)
    true, raw, sent = story.shown.values()
    (line,) = [line for line in story.lines if line.private]
    rows = network.private["g0"]
    assert float(np.sqrt(np.trace(rows @ vn.crlb(network, when="now") @ rows.T))) > 1.4 * line.raw
    assert np.sqrt(np.mean((raw - true) ** 2)) == pytest.approx(line.raw, rel=0.1)
    assert np.sqrt(np.mean((sent - true) ** 2)) == pytest.approx(line.measured)


def test_blocks_stand_for_values() -> None:
    assert in_blocks(np.array([0.0, 0.5, 1.0, 2.0, -1.0]), 0.0, 1.0) == "▁▅██▁"


def test_design_proves_its_gap_and_verify_rechecks_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = random_network(
        1, noise="per agent", prior="covariance", sizes=(2, 1), parameters=2, private_rows=(1,)
    )
    network.save(tmp_path / "n.json")
    target = repr(float(np.mean([vn.check(network).ceiling["g0"], vn.check(network).limit["g0"]])))
    asked = ["design", str(tmp_path / "n.json"), "--privacy", target, "--out", str(tmp_path / "plan")]
    assert run([*asked, "--prove", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert 0 < answer["gap"] <= 0.01
    assert run([*asked, "--gap", "0.02"]) == 0
    assert "(proved)" in capsys.readouterr().out
    assert run(["verify", str(tmp_path / "plan"), str(tmp_path / "n.json"), "-v"]) == 0
    assert "loss that no linear design" in " ".join(capsys.readouterr().out.split())
    (tmp_path / "plan" / "proof.json").unlink()
    assert run(["verify", str(tmp_path / "plan"), str(tmp_path / "n.json")]) == 1


def test_frontier_shows_what_is_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    network = random_network(
        1, noise="per agent", prior="covariance", sizes=(2, 1), parameters=2, private_rows=(1,)
    )
    verdict = vn.check(network)
    levels = np.linspace(verdict.ceiling["g0"], verdict.limit["g0"], 4)[1:3]
    curve = vn.frontier(network, levels, prove=True)
    for point in curve.rows:
        assert point.gap <= 0.01
        assert 0 < point.bound <= -point.utility
    labels = [each.get_label() for each in curve.plot().axes[0].collections]
    assert "the best possible lies in here (proved)" in labels
    network.save(tmp_path / "n.json")
    asked = [option for level in levels for option in ("--privacy", repr(float(level)))]
    assert run(["frontier", str(tmp_path / "n.json"), *asked, "--prove"]) == 0
    assert "no plan does it with less than" in capsys.readouterr().out


def test_prove_without_anything_to_prove_is_refused(
    house_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["design", house_file, "--prove"]) == 2
    assert "prove" in capsys.readouterr().err
    assert run(["design", house_file, "--privacy", "1", "--gap", "7"]) == 2
    assert "between 0 and 1" in " ".join(capsys.readouterr().err.split())


def test_every_direction_can_be_asked_for_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = random_network(
        3, noise="per agent", prior="covariance", sizes=(2, 2), parameters=3, private_rows=(2, 1)
    )
    network.save(tmp_path / "n.json")
    assert network.prior is not None
    information, rows = network.prior.information, network.private["g0"]
    raw = information + network.H.T @ np.linalg.solve(network.R.matrix(), network.H)
    silent = rows @ np.linalg.solve(information, rows.T)
    target = 0.5 * float(eigh(silent, rows @ np.linalg.solve(raw, rows.T), eigvals_only=True)[0] - 1)
    given = ["--privacy", f"g0=worst:{target!r}", "--privacy", "g1=0.1"]
    assert run(["design", str(tmp_path / "n.json"), *given, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["worst_direction"]["g0"] >= target * (1 - 1e-9)
    assert run(["design", str(tmp_path / "n.json"), "--privacy", "worst:0.01", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert min(answer["worst_direction"].values()) >= 0.01 * (1 - 1e-9)


def test_every_direction_is_refused_where_it_has_no_meaning(
    house_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for asked, word in (
        (["design", house_file, "--privacy", "mean:5"], "worst:number"),
        (["design", house_file, "--privacy", "worst:much"], "expected a number"),
        (["design", house_file, "--power", "worst:5"], "expected a number"),
        (["frontier", house_file, "--privacy", "worst:5"], "veilnet design for every direction"),
    ):
        assert run(asked) == 2
        assert word in " ".join(capsys.readouterr().err.split())
    network = vn.Network.load(house_file)
    for ask in (
        lambda: vn.frontier(network, [1.0, vn.Worst(5)]),  # type: ignore[list-item]
        lambda: vn.design(network, utility_loss=vn.Worst(5)),  # type: ignore[arg-type]
    ):
        with pytest.raises(vn.InvalidRequest, match=r"design\(privacy=...\) alone"):
            ask()
