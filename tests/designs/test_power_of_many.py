"""Limited noise power with very many agents, against the dense solver, CVXPY, planted answers and its own bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.paper_networks import as_network, paper_arrays
from helpers.sdp_oracle import solve_reduced_form
from helpers.stacked_networks import stacked_network
from veilnet._core.types import Array
from veilnet.agent.mechanisms import Mechanisms, mechanisms
from veilnet.designs.power import answers
from veilnet.designs.power import plan as power_module
from veilnet.designs.power.answers import best_answers
from veilnet.designs.power.dense import maximize_privacy
from veilnet.io.plan_arrays import arrays_id

MIXED = ((14, 1), (10, 2), (9, 3), (8, 5))


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any network has many readings."""
    monkeypatch.setattr(power_module, "MANY_READINGS", 0)


def both(network: vn.Network, power: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[vn.Plan, vn.Plan]:
    """The plan of the dense solver, and that by an estimate that all answer."""
    dense = vn.design(network, power=power)
    assert any(stack.covariance is not None for stack in mechanisms(network, dense).stacks)
    monkeypatch.setattr(power_module, "MANY_READINGS", 0)
    answered = vn.design(network, power=power)
    monkeypatch.undo()
    assert all(stack.covariance is None for stack in mechanisms(network, answered).stacks)
    return dense, answered


def raw_noise(sanitizer: vn.Sanitizer) -> Array:
    """Θ as noise on the raw readings, where every reading is sent in some combination."""
    back = np.linalg.inv(sanitizer.compression)
    return np.asarray(back @ sanitizer.noise @ back.T)


# --- one agent


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("columns", [1, 2, 4])
def test_an_answer_is_the_best_noise_of_one_agent(size: int, columns: int) -> None:
    """Oracles: the largest eigenvalue of the gradient bounds every other noise, and the dense solver agrees."""
    rng = np.random.default_rng([size, columns])
    for scale in (1e-3, 1.0, 1e3):
        stretch = np.sqrt(scale) * rng.standard_normal((40, size, size))
        seen = rng.standard_normal((40, size, columns))
        answer = best_answers(seen, stretch, np.linalg.inv(stretch))
        assert np.trace(answer, axis1=1, axis2=2).max() <= 1 + 1e-14
        assert np.linalg.eigvalsh(answer).min() >= -1e-13
        force, metric = stretch.transpose(0, 2, 1) @ seen, stretch.transpose(0, 2, 1) @ stretch
        slope = np.linalg.solve(np.eye(size) + metric @ answer, force)
        reached = np.sum(force * (answer @ slope), axis=(1, 2))
        most = np.linalg.norm(slope, ord=2, axis=(1, 2)) ** 2
        assert np.max((most - np.sum(slope * (answer @ slope), axis=(1, 2))) / reached) < 1e-9
        for place in range(2):
            dense = maximize_privacy(stretch[place].T, force[place], [size], np.ones(1), wanted_gap=1e-9)
            assert reached[place] == pytest.approx(dense.value, rel=1e-8)


def test_formulas_and_steps_answer_alike() -> None:
    """Where a formula holds, the steps end there too."""
    rng = np.random.default_rng(3)
    for scale in (1e-2, 1e2):  # one direction, and all of them
        stretch = scale * (np.eye(3) + 0.2 * rng.standard_normal((30, 3, 3)))
        seen = rng.standard_normal((30, 3, 4))
        seen /= np.linalg.norm(seen, axis=(1, 2))[:, None, None]
        stepped = answers._by_steps(stretch.transpose(0, 2, 1) @ stretch, stretch.transpose(0, 2, 1) @ seen)
        np.testing.assert_allclose(best_answers(seen, stretch, np.linalg.inv(stretch)), stepped, atol=1e-4)


# --- all agents


@pytest.mark.parametrize("prior", [None, vn.Prior(covariance=2 * np.eye(6))])
@pytest.mark.parametrize("power", [1e-4, 1.0, 30.0, 1e5])
def test_an_estimate_that_all_answer_and_the_dense_problem_agree(
    prior: vn.Prior | None, power: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents of all sizes, among them such with nothing free; the gaps of both are certified."""
    network = stacked_network(4, MIXED, prior=prior)
    dense, answered = both(network, power, monkeypatch)
    total = sum(answered.privacy.values())
    assert total == pytest.approx(sum(dense.privacy.values()), rel=2e-7)
    assert total == pytest.approx(answered.details["total_privacy"], rel=1e-9)
    assert total <= dense.details["upper_bound"] * (1 + 1e-9)
    assert sum(dense.privacy.values()) <= answered.details["upper_bound"] * (1 + 1e-9)
    assert answered.gap == answered.details["relative_gap"] <= 1e-7
    assert answered.utility == pytest.approx(0.0, abs=1e-9)
    for agent, sanitizer in answered.sanitizers.items():
        used = np.trace(raw_noise(sanitizer))
        assert used <= power * (1 + 1e-9)
        assert used == pytest.approx(answered.details["power"][agent], rel=1e-6, abs=1e-9 * power)
    assert dict(answered.details["power_allowed"]) == dict(dense.details["power_allowed"])


@pytest.mark.usefixtures("many")
def test_the_papers_program_agrees() -> None:
    """Oracle: the semidefinite program in CVXPY."""
    arrays = paper_arrays(6, 4, 2, True, 2, readings=24, parameters=6)
    arrays = arrays._replace(noise=_own_blocks(arrays.noise, arrays.sizes))
    for power in (1.0, 100.0):
        plan = vn.design(as_network(arrays), power=power)
        oracle = solve_reduced_form(arrays, np.full(4, power)).objective
        assert isinstance(plan.sanitizers, Mechanisms)
        assert oracle * (1 - 1e-6) <= sum(plan.privacy.values()) <= oracle * (1 + 1e-4)


def _own_blocks(noise: Array, sizes: Any) -> Array:
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return np.where(owner[:, None] == owner, noise, 0.0)


@pytest.mark.usefixtures("many")
def test_a_planted_answer_is_found() -> None:
    """Agent i reads u and g in noises of variances 1 and v_i, turned; all its noise belongs on g:
    p = Σ 1/v_i / Σ 1/(v_i + δ_i) - 1. Some have no power.
    """
    rng = np.random.default_rng(0)
    count = 40
    variances, power = rng.uniform(0.5, 2.0, count), rng.uniform(0.0, 9.0, count)
    power[:5] = 0.0
    turn = np.linalg.qr(rng.standard_normal((count, 2, 2)))[0]
    own = np.zeros((count, 2, 2))
    own[:, 0, 0], own[:, 1, 1] = 1.0, variances
    noise = turn @ own @ turn.transpose(0, 2, 1)
    network = vn.Network(turn, (noise + noise.transpose(0, 2, 1)) / 2, [[1.0, 0.0]], {"g": [[0.0, 1.0]]})
    plan = vn.design(network, power=power)
    expected = np.sum(1 / variances) / np.sum(1 / (variances + power)) - 1
    assert plan.privacy["g"] == pytest.approx(expected, rel=1e-9)
    assert plan.gap <= 1e-9
    np.testing.assert_allclose(list(plan.details["power"].values()), power, rtol=1e-12)
    for place in (0, 7):
        noise_there = raw_noise(plan.sanitizers[network.agents[place]])
        hidden = turn[place][:, 1]
        np.testing.assert_allclose(noise_there, power[place] * np.outer(hidden, hidden), atol=1e-10)


@pytest.mark.usefixtures("many")
def test_two_rows_share_a_power_as_planted() -> None:
    """Alike agents read u, g_1, g_2 in noises of variances 1, a, b: whatever the split, p = δ/(a + b) at most."""
    noise = np.broadcast_to(np.diag([1.0, 0.5, 2.0]), (30, 3, 3))
    network = vn.Network(np.broadcast_to(np.eye(3), (30, 3, 3)), noise, np.eye(3)[:1], {"g": np.eye(3)[1:]})
    plan = vn.design(network, power=7.0)
    assert plan.privacy["g"] == pytest.approx(7.0 / 2.5, rel=1e-7)


def test_common_disturbances_are_no_hindrance(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    given = stacked_network(5, ((12, 3),))
    noise = vn.CommonNoise(
        {agent: given.R.block(k) for k, agent in enumerate(given.agents)},
        {agent: rng.standard_normal((3, 2)) for agent in given.agents},
    )
    network = vn.Network(given.observe, noise, given.public, given.private)
    dense, answered = both(network, 10.0, monkeypatch)
    assert sum(answered.privacy.values()) == pytest.approx(sum(dense.privacy.values()), rel=2e-7)
    assert answered.gap <= 1e-7


def test_powers_are_read_by_name_by_place_or_once(monkeypatch: pytest.MonkeyPatch) -> None:
    network = stacked_network(6, ((20, 3),))
    power = np.zeros(20)
    power[[3, 11]] = 5.0, 2.0
    named = {"agent04": 5.0, "agent12": 2.0}
    dense, answered = both(network, power, monkeypatch)
    by_name, _ = both(network, named, monkeypatch)
    assert dict(dense.privacy) == dict(by_name.privacy)
    assert [agent for agent, used in answered.details["power"].items() if used > 0] == list(named)
    for bad, message in {
        "much": "power: expected a number, found 'much'",
        -1.0: "power: expected a finite number of at least 0, found -1.0",
        (1.0, 2.0): r"or 20 numbers, one for each agent in sending order; found an array of shape \(2,\)",
        (1.0,) * 19 + (-2.0,): "found -2.0 for agent20",
        (1.0,) * 19 + (np.nan,): "power: expected finite numbers, found nan",
    }.items():
        with pytest.raises(vn.InvalidRequest, match=message):
            vn.design(network, power=bad)  # type: ignore[arg-type]
    with pytest.raises(vn.InvalidRequest, match=r"power: unknown 'agent77'.*; known are 'agent01'"):
        vn.design(network, power={"agent77": 1.0})


@pytest.mark.usefixtures("many")
def test_no_power_hides_nothing_and_endless_power_what_shares_hide() -> None:
    network = stacked_network(7, MIXED)
    none = vn.design(network, power=0.0)
    assert none.privacy == pytest.approx({"g": 0.0, "h": 0.0}, abs=1e-12)
    assert none.gap == 0.0
    ceiling = vn.check(network).ceiling
    for power in (1e9, 1e15):
        most = vn.design(network, power=power)
        assert dict(most.privacy) == pytest.approx(ceiling, rel=1e-6)
        assert sum(most.privacy.values()) <= most.details["upper_bound"] * (1 + 1e-9)
        assert most.utility == pytest.approx(0.0, abs=1e-9)


@pytest.mark.usefixtures("many")
def test_where_all_that_is_private_is_public_no_noise_is_added() -> None:
    public = np.random.default_rng(1).standard_normal((2, 6))
    network = stacked_network(8, ((20, 4),), public=public, private={"g": public[0] - 2 * public[1]})
    plan = vn.design(network, power=10.0)
    assert plan.privacy["g"] == pytest.approx(0.0, abs=1e-12)
    assert plan.gap == 0.0
    assert not any(plan.details["power"].values())


@pytest.mark.usefixtures("many")
def test_a_search_that_is_asked_to_stop_gives_its_best_with_a_bound() -> None:
    network = stacked_network(9, ((25, 4),))
    whole = vn.design(network, power=10.0)
    stopped = vn.design(network, power=10.0, progress=lambda _what, _part: False)
    assert (whole.interrupted, stopped.interrupted) == (False, True)
    assert stopped.details["iterations"] < whole.details["iterations"]
    assert sum(stopped.privacy.values()) < sum(whole.privacy.values())
    assert whole.details["total_privacy"] <= stopped.details["upper_bound"] < np.inf


@pytest.mark.usefixtures("many")
def test_ctrl_c_passes_through_a_search_among_all() -> None:
    def interrupt(_what: str, _part: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        vn.design(stacked_network(9, ((25, 4),)), power=10.0, progress=interrupt)


def test_correlated_noise_has_a_limit_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power_module, "_MOST_COUPLED_READINGS", 10)
    rng = np.random.default_rng(1)
    root = rng.standard_normal((12, 12))
    observe = {f"a{k}": rng.standard_normal((3, 4)) for k in range(4)}
    network = vn.Network(observe, root @ root.T + np.eye(12), rng.standard_normal(4), {"g": np.ones(4)})
    with pytest.raises(
        vn.InvalidRequest, match="at most 10 readings, found 12; noise that is correlated between"
    ):
        vn.design(network, power=1.0)


# --- as any other plan of many agents


def test_plans_of_many_agents_make_no_object_for_any_and_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = stacked_network(10, ((180, 3),), parameters=8)
    assert network.N > power_module.MANY_READINGS
    made: list[vn.Sanitizer] = []
    freeze = vn.Sanitizer._freeze
    monkeypatch.setattr(vn.Sanitizer, "_freeze", lambda self: (made.append(self), freeze(self))[1])
    plan = vn.design(network, power=20.0)
    plan.save(tmp_path / "plan.npz")
    again = vn.Plan.load(tmp_path / "plan.npz")
    assert made == []
    assert again.certificate.ok
    assert dict(again.privacy) == dict(plan.privacy)
    assert again.details["power"] == dict(plan.details["power"])
    assert again.gap == plan.gap <= 1e-7
    assert again.sanitizers["agent017"].same_as(plan.sanitizers["agent017"])


@pytest.mark.usefixtures("many")
def test_a_plan_that_was_tampered_with_is_refused(tmp_path: Path) -> None:
    """The noise of one agent was taken away, and the file sealed anew: the promises are not confirmed."""
    network = stacked_network(11, ((15, 4),))
    vn.design(network, power=5.0).save(tmp_path / "plan.npz")
    with np.load(tmp_path / "plan.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    assert arrays["sent0.variances"][3].any()
    arrays["sent0.variances"][3] = 0.0
    content = {name: each for name, each in arrays.items() if name not in ("format", "plan")}
    np.savez(tmp_path / "plan.npz", **(arrays | {"plan": np.array(arrays_id(content))}))
    with pytest.raises(vn.InvalidPlan, match="privacy of g"):
        vn.Plan.load(tmp_path / "plan.npz")


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("power", [1e4, 1e8, 1e12, 1e16])
def test_a_bound_that_rounding_blurs_is_wide_or_none(power: float) -> None:
    """Nothing but noise hides g: p = δ, and h is as much; sums in doubles know it to 1/p of all digits."""
    observe = np.zeros((60, 2, 3))
    observe[:, 0, 0] = observe[:, 1, 1] = observe[::2, 1, 2] = 1.0
    network = vn.Network(
        observe, np.tile(np.eye(2), (60, 1, 1)), np.eye(3)[:1], {"g": np.eye(3)[1], "h": [[0.0, 1.0, 1.0]]}
    )
    plan = vn.design(network, power=power)
    assert dict(plan.privacy) == pytest.approx({"g": power, "h": power}, rel=1e-6)
    assert plan.details["total_privacy"] == pytest.approx(2 * power, rel=1e-6)
    assert plan.details["upper_bound"] >= 2 * power * (1 - 1e-12)
    assert plan.gap <= 1e-13 * power or plan.gap == np.inf
    assert ("lost in rounding" in str(plan)) == (plan.gap == np.inf) == (power == 1e16)
