"""Trade-offs of networks in parts against the same network as one, and ways to cut them off or change them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.cutting_off import cut_off_at
from veilnet import cli, cluster
from veilnet.cluster import parts as parts_module
from veilnet.cluster import searching
from veilnet.designs.many import Effort
from veilnet.plans.certificate import Certificate, Finding

L = 4
ROWS = np.random.default_rng(0).standard_normal((3, L))
COMMON = (ROWS[:1], {"g": ROWS[1], "f": ROWS[2]}, vn.Prior(np.eye(L)))
RNG = np.random.default_rng(1)
STACKS = [
    (RNG.standard_normal((12, 2 + k % 2, L)), (0.5 + RNG.random((12, 1, 1))) * np.eye(2 + k % 2))
    for k in range(4)
]
WHOLE = vn.Network([h for h, _ in STACKS], [r for _, r in STACKS], *COMMON)
FREE = vn.check(WHOLE).ceiling
TARGET = {"g": 2 * FREE["g"]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(parts_module, "AGENTS_PER_TASK", 20)
    monkeypatch.setattr(searching, "EFFORT", Effort(first=12, steps=0, rounds=0, last=0))
    cluster.save_parts(tmp_path / "network", STACKS, *COMMON)
    return tmp_path / "network"


def test_parts_and_one_network_trade_alike(folder: Path) -> None:
    """Oracles: the search for one matrix per agent, and privacies by J̃ from what is on disk, by dense formulas."""
    plan = cluster.design(folder, privacy=TARGET, starts=1)
    assert plan.certificate.ok
    assert -plan.utility <= -1.01 * vn.design(WHOLE, privacy=TARGET, starts=1).utility
    assert plan.privacy["g"] >= TARGET["g"]
    assert plan.privacy["f"] >= FREE["f"] * (1 - 1e-6)
    raw = left = np.eye(L)
    for k, (observe, noise) in enumerate(STACKS):
        for place in range(len(observe)):
            each = plan.sanitizer(f"part-{k:05d}.npz", place)
            raw = raw + observe[place].T @ np.linalg.solve(noise[place], observe[place])
            seen = each.compression @ observe[place]
            covariance = each.compression @ noise[place] @ each.compression.T + each.noise
            left = left + seen.T @ np.linalg.solve(covariance, seen)
    for name, rows in (("g", ROWS[1]), ("f", ROWS[2])):
        grown = rows @ np.linalg.solve(left, rows) / (rows @ np.linalg.solve(raw, rows)) - 1
        assert plan.privacy[name] == pytest.approx(grown, rel=1e-8)
    assert cluster.verify(folder).ok
    assert not (folder / "plan" / "search").exists()
    # and what was paid for it buys it
    again = cluster.design(folder, utility_loss=-plan.utility, starts=1)
    assert plan.utility <= again.utility < 0.999 * plan.utility
    assert min(again.privacy.values()) >= min(plan.privacy.values()) / 1.01
    # what is free needs no search
    assert cluster.design(folder, privacy=0.5 * min(FREE.values())).utility == 0.0
    assert not (folder / "plan" / "search").exists()


@pytest.mark.long
def test_what_is_given_up_may_be_hidden_less_and_nothing_is_spent_on_it(folder: Path, tmp_path: Path) -> None:
    """The planted case of tests/designs/test_floors.py, four agents of each kind: paying for "mixed" tells much of
    "aside" unless that is kept. Oracle: the same question to the same network in one piece.
    """
    kinds = [[[1.0, 1, 0], [0, 0, 1]], [[1.0, 0.5, 0]], [[1.0, 0, 0], [0, 1, 0.5]]]
    stacks = [(np.tile(each, (4, 1, 1)), np.tile(np.eye(len(each)), (4, 1, 1))) for each in kinds]
    common = ([[1.0, 0, 0]], {"mixed": [0, 1.0, 0], "aside": [0, 0, 1.0]}, vn.Prior(4 * np.eye(3)))
    whole = vn.Network([h for h, _ in stacks], [r for _, r in stacks], *common)
    planted = cluster.save_parts(tmp_path / "planted", stacks, *common)
    free = vn.check(whole).ceiling
    for asked in ({"privacy": {"mixed": 2 * free["mixed"]}}, {"utility_loss": 0.1}):
        kept = cluster.design(planted, **asked, starts=1)  # type: ignore[arg-type]
        given_up = cluster.design(planted, **asked, give_up="aside", starts=1)  # type: ignore[arg-type]
        oracle = vn.design(whole, **asked, give_up="aside", starts=1)  # type: ignore[arg-type]
        assert given_up.certificate.ok
        assert cluster.verify(planted).ok
        assert given_up.details["given_up"] == ["aside"]
        assert kept.privacy["aside"] >= free["aside"] * (1 - 2e-7)
        assert given_up.privacy["aside"] < 0.95 * free["aside"]
        if "privacy" in asked:
            assert oracle.utility * 1.02 <= given_up.utility
            assert kept.utility < given_up.utility
        else:
            assert given_up.privacy["mixed"] >= oracle.privacy["mixed"] / 1.02
            assert given_up.privacy["mixed"] > kept.privacy["mixed"]
    for request, words in (
        ({"give_up": "f"}, "give_up: goes with privacy= or utility_loss="),
        ({"privacy": 1.0, "give_up": "h"}, "give_up"),
        ({"privacy": {"g": 2 * FREE["g"]}, "give_up": "g"}, "g is asked for in numbers"),
    ):
        with pytest.raises(vn.InvalidRequest, match=words):
            cluster.design(folder, **request)  # type: ignore[arg-type]


@pytest.mark.long
def test_a_search_that_was_cut_off_goes_on_where_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cluster.design(folder, privacy=TARGET, starts=1)
    asked = cut_off_at(monkeypatch, searching, "answer_sums", 30)
    with pytest.raises(KeyboardInterrupt):
        cluster.design(folder, privacy=TARGET, starts=1)
    kept = list((folder / "plan" / "search").glob("*.npz"))
    assert len(kept) > 3
    kept[0].write_bytes(b"cut off")
    again = cluster.design(folder, privacy=TARGET, starts=1)
    assert again.privacy == whole.privacy  # to the last bit
    assert again.computed == ()  # all parts of the plan were there
    in_all, asked[:] = len(asked) - 30, [1] * 30
    anew = cluster.design(folder, privacy=TARGET, starts=1)
    assert anew.privacy == whole.privacy
    assert len(asked) - 30 > in_all + 3 * 2  # nothing was kept once the plan was there


def test_noise_that_was_taken_away_is_found(folder: Path) -> None:
    cluster.design(folder, utility_loss=0.2, starts=1)
    for path in sorted((folder / "plan").glob("part-*.npz")):
        with np.load(path) as archive:
            arrays = {name: archive[name] for name in archive.files}
        arrays["compression"] = arrays["compression"] * 1.5
        arrays["variances"] = 0 * arrays["variances"] + 0.5
        np.savez(path, **arrays)
    with pytest.raises(vn.InvalidPlan, match="variance 0 or 1"):
        cluster.verify(folder)


def test_no_agent_gets_a_file_of_a_plan_that_was_not_confirmed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Certificate((Finding("privacy of g", 2.0, 1.0, ok=False),))
    monkeypatch.setattr("veilnet.plans.certificate.certify", lambda *_, **__: refused)
    with pytest.raises(vn.InvalidPlan, match="not confirmed"):
        cluster.design(folder, privacy=TARGET, starts=1)
    with pytest.raises(vn.InvalidPlan, match="design first"):
        cluster.agent_file(folder, "agent17")
    with pytest.raises(vn.InvalidPlan, match="design first"):
        cluster.verify(folder)


def test_questions_without_an_answer_are_refused(folder: Path) -> None:
    limit = vn.privacy_limit(WHOLE)["g"]
    with pytest.raises(vn.Infeasible, match=r"\bg\b"):
        cluster.design(folder, privacy={"g": 2 * limit}, starts=1)
    with pytest.raises(vn.InvalidRequest, match="at its very limit"):
        cluster.design(folder, privacy={"g": limit}, starts=1)
    with pytest.raises(vn.InvalidRequest, match="choose one"):
        cluster.design(folder, privacy=1.0, utility_loss=0.1)
    with pytest.raises(vn.InvalidRequest, match="Worst"):
        cluster.design(folder, privacy={"g": vn.Worst(2)})  # type: ignore[dict-item]


def test_agents_files_are_extracted(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["parts", "design", str(folder), "--utility-loss", "0.05", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["details"]["starts"] == 2
    assert -0.05 <= told["utility"] < 0
    target = tmp_path / "mine.json"
    assert cli.run(["parts", "extract", str(folder), "agent17", "--out", str(target)]) == 0
    mine = vn.Sanitizer.load(target)
    expected = cluster.design(folder, utility_loss=0.05).sanitizer("part-00001.npz", 4)
    assert mine.agent == "agent17"
    assert mine.same_as(expected)
    for stranger in ("agent49", "kitchen", "center"):
        assert cli.run(["parts", "extract", str(folder), stranger]) == 2
    capsys.readouterr()
