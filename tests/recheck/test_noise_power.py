"""Limited noise power is a promise: it is recomputed from what agents run, and noise beyond it is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.grids_of_parts import grid_of
from helpers.stacked_networks import stacked_network
from veilnet import cli, cluster
from veilnet.agent.mechanisms import Mechanisms, mechanisms
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.auditing.promise import certificate_rows
from veilnet.designs.power import plan as power_module
from veilnet.plans.release_grid import with_release_grid
from veilnet.plans.verification import verify
from veilnet.recheck.sums import noise_power

NETWORK = stacked_network(4, ((3, 1), (5, 2), (6, 3)), prior=None)
LIMITS = {name: 2.0 + place for place, name in enumerate(NETWORK.agents)}


# --- the figure


def test_noise_is_that_which_was_planted() -> None:
    """Θ is turned into numbers of unit noise and back, whatever the units of readings and numbers."""
    rng = np.random.default_rng(0)
    planted = rng.standard_normal((40, 4, 2))
    theta = planted @ planted.transpose(0, 2, 1)
    unit = 10.0 ** rng.uniform(-6, 6, (40, 1, 4))
    values, vectors = np.linalg.eigh(theta)
    sizes = np.where(values > 1e-9, values, 1e-20)  # those without noise are sent in any unit
    rows = vectors.transpose(0, 2, 1) / np.sqrt(sizes)[:, :, None]
    noise = (values > 1e-9)[:, :, None] * np.eye(4)
    expected = np.trace(theta, axis1=1, axis2=2)
    np.testing.assert_allclose(noise_power(rows, noise), expected, rtol=1e-12)
    in_units = np.sum(unit[:, 0] ** 2 * np.diagonal(theta, axis1=1, axis2=2), axis=1)
    np.testing.assert_allclose(noise_power(rows / unit, noise), in_units, rtol=1e-9)
    np.testing.assert_allclose(
        noise_power(np.broadcast_to(np.eye(4), theta.shape), theta), expected, rtol=1e-13
    )


def test_withholding_takes_noise_without_bound() -> None:
    assert noise_power(np.ones((2, 1, 3)), None).tolist() == [np.inf, np.inf]
    twice = np.array([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]]])
    assert noise_power(twice, np.broadcast_to(np.eye(2), twice.shape)).tolist() == [np.inf, 2.0, np.inf]


# --- plans


def _in_normal_form(plan: vn.Plan) -> bool:
    return all(stack.covariance is None for stack in mechanisms(plan.network, plan).stacks)


@pytest.fixture(params=["covariances", "stacks"])
def plan(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> vn.Plan:
    if request.param == "stacks":
        monkeypatch.setattr(power_module, "MANY_READINGS", 0)
    made = vn.design(NETWORK, power=LIMITS)
    assert _in_normal_form(made) == (request.param == "stacks")
    return made


def _with_twice_the_noise(plan: vn.Plan, agent: str) -> vn.Plan:
    """As somebody would save it who is able to: with the grid that the noise calls for."""
    if _in_normal_form(plan):
        stacks = [_half(stack, NETWORK.position[agent]) for stack in mechanisms(NETWORK, plan).stacks]
        louder = with_release_grid(NETWORK, Mechanisms(NETWORK, stacks))
    else:
        each = plan.sanitizers[agent]
        louder = with_release_grid(NETWORK, {**plan.sanitizers, agent: each.replace(noise=2 * each.noise)})
    return replace(plan, sanitizers=louder)


def _half(stack: SanitizerStack, place: int) -> SanitizerStack:
    rows = np.array(stack.compression)
    if stack.variances is not None:
        rows[stack.places == place] /= np.sqrt(1 + stack.variances[stack.places == place])[:, :, None]
    return SanitizerStack(stack.places, rows, stack.variances)


@pytest.mark.parametrize("name", ["plan", "plan.npz"])
def test_a_plan_with_more_noise_than_allowed_is_refused(plan: vn.Plan, name: str, tmp_path: Path) -> None:
    """Twice the noise of one agent loses nothing and hides more: only its power tells."""
    agent = NETWORK.agents[-1]
    (finding,) = [each for each in plan.certificate.findings if each.what.startswith("noise power of ")]
    worst = finding.what.removeprefix("noise power of ")
    assert finding.promised == LIMITS[worst]
    assert finding.found == pytest.approx(plan.details["power"][worst], rel=1e-9)
    assert finding.found <= finding.promised * (1 + 1e-9)
    for folder in ("good", "bad"):
        (tmp_path / folder).mkdir()
    plan.save(tmp_path / "good" / name)
    assert vn.Plan.load(tmp_path / "good" / name).certificate.findings == plan.certificate.findings
    _with_twice_the_noise(plan, agent).save(tmp_path / "bad" / name)
    with pytest.raises(vn.InvalidPlan, match=rf"noise power of {agent}: promised {LIMITS[agent]:.6g}, found"):
        vn.Plan.load(tmp_path / "bad" / name)
    (wrong,) = [each for each in verify(tmp_path / "bad" / name) if not each.ok]
    assert wrong.what == f"noise power of {agent}"
    assert wrong.found == pytest.approx(2 * plan.details["power"][agent], rel=1e-9)


def test_the_audit_and_the_words_say_it(plan: vn.Plan) -> None:
    assert "Noise power: " in str(plan)
    bad = _with_twice_the_noise(plan, NETWORK.agents[-1])
    (row,) = [each for each in certificate_rows(bad) if "nearest its limit" in each.what]
    assert row.verdict == "fail"
    (row,) = [each for each in certificate_rows(plan) if "nearest its limit" in each.what]
    assert row.verdict == "ok"


def test_plans_of_old_without_limits_still_load_and_limits_of_others_do_not(
    plan: vn.Plan, tmp_path: Path
) -> None:
    old = {name: each for name, each in plan.details.items() if name != "power_allowed"}
    replace(plan, details=old).save(tmp_path / "old")
    assert "noise power" not in str(vn.Plan.load(tmp_path / "old").certificate)
    for odd in ({"kitchen": 1.0}, dict.fromkeys(LIMITS, -1.0), dict.fromkeys(LIMITS, np.inf), 3.0, [1.0]):
        replace(plan, details={**old, "power_allowed": odd}).save(tmp_path / "odd")
        with pytest.raises(vn.InvalidPlan, match="power_allowed: expected"):
            vn.Plan.load(tmp_path / "odd")


# --- parts


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((2, 5))
    stacks = [
        (rng.standard_normal((7, size, 5)), np.broadcast_to(np.eye(size), (7, size, size))) for size in (3, 2)
    ]
    cluster.save_parts(tmp_path / "network", stacks, rows[:1], {"g": rows[1]})
    return tmp_path / "network"


@pytest.mark.parametrize("power", [3.0, {"part-00000.npz": 3.0, "part-00001.npz": 50.0}])
def test_parts_with_more_noise_than_allowed_are_refused(
    power: float | dict[str, float], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = cluster.design(folder, power=power)
    assert plan.certificate.findings[-1].what.startswith("noise power of agent")
    assert "Noise power: agent" in str(plan)
    good = cluster.verify(folder)
    assert good.ok
    assert any(each.what.startswith("noise power of agent") for each in good.findings)
    path = folder / "plan" / "part-00000.npz"
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays["compression"][4] /= np.sqrt(1 + arrays["variances"][4])[:, None]
    arrays["grid"] = grid_of(folder, "part-00000.npz", arrays | {"grid": None})
    np.savez(path, **arrays)
    (wrong,) = [each for each in cluster.verify(folder).findings if not each.ok]
    assert (wrong.what, wrong.promised) == ("noise power of agent05", 3.0)
    assert wrong.found == pytest.approx(6.0, rel=1e-6)
    assert cli.run(["parts", "verify", str(folder)]) == 1
    assert "agent05" in " ".join(capsys.readouterr().out.split())


def test_limits_of_parts_without_a_meaning_are_refused(folder: Path) -> None:
    cluster.design(folder, power=3.0)
    path = folder / "plan" / "plan.json"
    document = json.loads(path.read_text())
    assert document["power"] == {"part-00000.npz": 3.0, "part-00001.npz": 3.0}
    each = document["power"]
    for odd in (
        "much",
        3.0,
        {"part-00000.npz": 3.0},
        *(each | {"part-00001.npz": odd} for odd in ("inf", -1.0)),
    ):
        path.write_text(json.dumps(document | {"power": odd}))
        with pytest.raises(vn.InvalidPlan, match=r"plan\.json: .*power.*design once more"):
            cluster.verify(folder)
