"""The audit of a network in parts: honest plans pass, and planted faults are found, by the simulation on its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.grids_of_parts import grid_of
from veilnet import cli, cluster
from veilnet.agent.randomness import SeededNoise
from veilnet.cluster import auditing, calls, searching
from veilnet.cluster import parts as parts_module
from veilnet.designs.many import Effort
from veilnet.plans.certificate import Certificate, Finding, Promise

L, AGENTS, PARTS = 4, 12, 3
ROWS = np.random.default_rng(0).standard_normal((4, L))
RNG = np.random.default_rng(7)
STACKS = [
    {
        "observe": RNG.standard_normal((AGENTS, 2 + number % 2, L)),
        "noise": (0.5 + RNG.random((AGENTS, 1, 1))) * np.eye(2 + number % 2),
        "offset": 20 * RNG.standard_normal((AGENTS, 2 + number % 2)),
        "resolution": 0.5 * RNG.random((AGENTS, 2 + number % 2)),
    }
    for number in range(PARTS)
]
MEAN = np.array([3.0, -2.0, 0.5, 10.0])
COMMON = (ROWS[:1], {"g": ROWS[1], "f": ROWS[2:]})
PRIORS = {
    "full": vn.Prior(np.eye(L), mean=MEAN),
    "none": None,
    "singular": vn.Prior(information=np.diag([1.0, 1.0, 0.0, 0.0])),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(parts_module, "AGENTS_PER_TASK", 20)
    monkeypatch.setattr(searching, "EFFORT", Effort(first=6, steps=0, rounds=0, last=0))
    cluster.save_parts(tmp_path / "network", STACKS, *COMMON, PRIORS["full"])
    return tmp_path / "network"


def verdicts(report: Any) -> dict[str, str]:
    return {row.what: row.verdict for row in report.rows if row.verdict != "info"}


def changed(folder: Path, name: str, **arrays: Any) -> None:
    path = folder / "plan" / name
    with np.load(path) as archive:
        kept = {what: archive[what] for what in archive.files}
    np.savez(path, **(kept | arrays))


@pytest.mark.parametrize("prior", PRIORS)
def test_honest_plans_pass(tmp_path: Path, prior: str) -> None:
    """Errors of the attacker are compared with the law of the same plan in one piece, too."""
    network = cluster.save_parts(tmp_path / "network", STACKS, *COMMON, PRIORS[prior])
    plan = cluster.design(network)
    report = cluster.audit(network, rows=300, seed=1)
    assert report.ok, str(report)
    assert {
        "public estimate",
        "attack on g",
        "attack on f",
        "standard error of g grows",
        "agents in all parts",
    } <= set(verdicts(report))
    (attack,) = [row for row in report.rows if row.what == "attack on g"]
    whole = vn.Network(
        [stack["observe"] for stack in STACKS],
        [stack["noise"] + np.einsum("sn,nm->snm", stack["resolution"] ** 2 / 6, np.eye(stack["noise"].shape[1]))
         for stack in STACKS],
        *COMMON,
        PRIORS[prior],
    )  # fmt: skip
    raw = ROWS[1] @ vn.crlb(whole) @ ROWS[1]
    assert attack.promised == pytest.approx(raw * (1 + plan.privacy["g"]), rel=1e-9)
    assert attack.found == pytest.approx(attack.promised, rel=6 * np.sqrt(2 / 300))
    assert attack.found != pytest.approx(attack.promised, rel=1e-6)  # it was measured
    assert report.false_alarm == 1e-6
    again = cluster.audit(network, rows=300, seed=1)
    assert [row.found for row in again.rows] == [row.found for row in report.rows]
    assert cluster.audit(network, rows=300, seed=2).ok


def test_noise_that_was_left_out_of_some_parts_is_found(folder: Path) -> None:
    cluster.design(folder, utility_loss=0.3, starts=1)
    assert cluster.audit(folder, rows=400).ok
    for name in ("part-00000.npz", "part-00002.npz"):
        with np.load(folder / "plan" / name) as archive:
            variances = archive["variances"]
        assert variances.any()
        changed(folder, name, variances=0 * variances)
    report = cluster.audit(folder, rows=1600)
    assert not report.ok
    assert verdicts(report)["certificate"] == "fail"  # the grid is that of other noise
    assert verdicts(report)["attack on f"] == "fail"


def test_a_part_that_sends_raw_readings_is_found(folder: Path) -> None:
    """Its grid is right for them, so that only figures differ: recomputed ones, and simulated ones."""
    cluster.design(folder, utility_loss=0.3, starts=1)
    count, size, _ = STACKS[1]["observe"].shape
    rows, sent = np.tile(np.eye(size), (count, 1, 1)), np.full(count, size)
    variances = np.zeros((count, size))
    arrays = {"compression": rows, "sent": sent, "variances": variances}
    changed(folder, "part-00001.npz", **arrays, grid=grid_of(folder, "part-00001.npz", arrays))
    found = verdicts(cluster.audit(folder, rows=400))
    assert found["standard error of g grows"] == found["standard error of f grows"] == "fail"
    assert found["attack on g"] == found["attack on f"] == "fail"
    assert found["agents in all parts"] == "ok"


def test_agents_that_draw_no_noise_are_found_though_the_plan_is_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.design(folder, utility_loss=0.3, starts=1)
    monkeypatch.setattr(SeededNoise, "normal", lambda _self, shape: np.zeros(shape))
    found = verdicts(cluster.audit(folder, rows=400))
    assert found["standard error of g grows"] == found["standard error of f grows"] == "ok"
    assert found["noise of all agents"] == "fail"
    assert found["messages of all agents"] == "ok"


def test_one_agent_whose_numbers_are_not_the_plan_s_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of 12 in a part is louder; or everybody is off by a constant; or nobody sends."""
    plan = cluster.design(folder, utility_loss=0.3, starts=1)
    release = auditing.release_of

    def louder(network: Any, alike: Any, readings: Any, source: Any) -> Any:
        sent = release(network, alike, readings, source)
        if network.S < AGENTS or readings.shape[2] != 3:  # the second part, whose agents send alike
            return sent
        exact = (readings[:, 5] - network.offset.reshape(AGENTS, -1)[5]) @ alike.compression[5].T
        sent[:, 5] = exact + 1.5 * (sent[:, 5] - exact)
        return sent

    monkeypatch.setattr(auditing, "release_of", louder)
    (noise,) = [row for row in cluster.audit(folder, rows=400).rows if row.what == "noise of all agents"]
    assert noise.verdict == "fail"
    assert "above all for agent18." in noise.sentence
    assert plan.certificate.ok
    monkeypatch.setattr(auditing, "release_of", lambda *given: release(*given) + 100.0)
    cluster.design(folder)
    assert verdicts(cluster.audit(folder, rows=20))["messages of all agents"] == "fail"
    monkeypatch.setattr(auditing, "release_of", lambda *given: np.nan * release(*given))
    (sent,) = [row for row in cluster.audit(folder, rows=20).rows if row.what == "messages of all agents"]
    assert (sent.verdict, sent.found) == ("fail", 20 * AGENTS * PARTS)


def test_what_is_no_plan_fails_the_audit(folder: Path) -> None:
    with pytest.raises(vn.InvalidPlan, match="design first"):
        cluster.audit(folder)
    cluster.design(folder)
    for rows in (1, 2.5):
        with pytest.raises(vn.InvalidRequest, match=r"rows: .* 2"):
            cluster.audit(folder, rows=rows)  # type: ignore[arg-type]
    (folder / "plan" / "part-00001.npz").write_bytes(b"cut off")
    report = cluster.audit(folder, rows=20)
    assert (report.ok, verdicts(report)) == (False, {"certificate": "fail", "simulation": "fail"})
    assert all("part-00001.npz: the part is damaged" in row.sentence for row in report.rows)


def test_the_command_line_audits_a_folder(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["parts", "design", str(folder)]) == 0
    out = tmp_path / "audit.json"
    capsys.readouterr()
    assert (
        cli.run(["parts", "audit", str(folder), "--quick", "--seed", "3", "--out", str(out), "--json"]) == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert told["ok"]
    assert json.loads(out.read_text())["rows"] == told["rows"]
    assert [row["figures"]["rows"] for row in told["rows"] if row["what"] == "attack on g"] == [200]
    changed(folder, "part-00001.npz", grid=np.full((AGENTS, 1), 0.5))
    assert cli.run(["parts", "audit", str(folder), "--quick"]) == 1
    assert "BROKEN" in capsys.readouterr().out
    assert cli.run(["parts", "audit", str(folder), "--releases", "3"]) == 2
    assert "no such option: --releases" in capsys.readouterr().err


def test_agents_are_counted_to_the_last_one() -> None:
    """Not to three digits: one of 1,234,567 that is missing is seen."""
    found = Certificate((Finding(calls.AGENTS, 1234567.0, 1234566.0, ok=False),))
    (row,) = auditing.certified_rows(found, "u")
    assert row.shown == {"promised": "1,234,567", "computed again": "1,234,566"}


@pytest.mark.parametrize(
    ("known", "promised", "place", "verdict"),
    [((1.0, 1.0), np.inf, 1, "fail"), ((1.0, 0.0), 1.0, 1, "ok"), ((0.0, 1.0), 1.0, 0, "fail")],
    ids=["known though promised unknown", "hidden better than promised", "the public estimate is lost"],
)
def test_what_cannot_be_estimated_is_judged_by_whose_it_is(
    known: tuple[float, float], promised: float, place: int, verdict: str
) -> None:
    """``known``: the information of messages on u and on g, as a part of that of raw readings."""
    whole = vn.Network({"all": np.eye(2)}, 1.0, {"u": [1.0, 0.0]}, {"g": [0.0, 1.0]})
    none = np.zeros((50, 2))
    promise = Promise(utility=0.0, privacy={"g": promised})
    rows = auditing._attacked(whole, promise, auditing.Simulated(none, np.diag(known)), none)
    assert rows[place].verdict == verdict


def test_what_is_hidden_without_bound_is_designed_verified_fused_and_audited(tmp_path: Path) -> None:
    """Each agent reads one parameter: what is not public is sent by nobody. Of ``part`` one row of two is public."""
    one = np.tile(np.eye(L)[:, None, :], (3, 1, 1))
    stacks = [(one, np.ones((12, 1, 1)))] * 2
    private = {"g": np.eye(L)[3], "part": np.eye(L)[1:3]}
    parts = cluster.save_parts(tmp_path / "network", stacks, np.eye(L)[:2], private)
    plan = cluster.design(parts, privacy=5.0)
    assert plan.verdict.achievable
    assert plan.verdict.ceiling == {"g": np.inf, "part": np.inf}
    assert plan.verdict.numbers == 12
    # no figure in doubles is without bound: the promise is the largest that the sums tell
    assert all(1e8 < each < np.inf for each in plan.privacy.values())
    assert plan.certificate.ok
    assert cluster.verify(parts).ok
    report = cluster.audit(parts, rows=200)
    assert report.ok, str(report)
    assert verdicts(report)["attack on g"] == verdicts(report)["attack on part"] == "ok"
    # one agent of the last parameter sends its reading after all: g is known then
    arrays = {"compression": np.ones((12, 1, 1)), "sent": np.ones(12, dtype=np.intp)}
    changed(parts.folder, "part-00001.npz", **arrays, grid=grid_of(parts.folder, "part-00001.npz", arrays))
    assert not cluster.verify(parts).ok
    assert verdicts(cluster.audit(parts, rows=200))["attack on g"] == "fail"
