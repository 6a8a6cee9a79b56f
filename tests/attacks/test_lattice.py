"""Readings on a lattice: exact numbers name them without dither, and give nothing away with it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import veilnet as vn
from helpers.averaged_readings import averaged
from helpers.coarse_networks import attack, coarse_network, undithered
from helpers.networks import random_network, random_sanitizers
from veilnet.auditing.attack.lattice import eavesdropper, linear_posterior
from veilnet.auditing.attack.lattice_points import points_near, reduced
from veilnet.auditing.attack.simulation import draw_readings, draw_x
from veilnet.auditing.what_if.collusion import privacy_left
from veilnet.auditing.what_if.repetition import repeated
from veilnet.auditing.what_if.variants import changed
from veilnet.auditing.worlds import world_of
from veilnet.io.template import house
from veilnet.plans.certificate import DITHERED, Promise, certify
from veilnet.verdict.notes import dither_cost

pytestmark = pytest.mark.slow

ROWS = 400


def house_data(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Readings of the house's sensors beside the truth."""
    network, rng = house(), np.random.default_rng([seed, 3])
    x = draw_x(network, rng, rows)
    readings = draw_readings(network, x, rng)
    return {agent: readings[:, network.blocks.rows(k)] for k, agent in enumerate(network.agents)} | {"x": x}


# --- the attack itself


@given(st.integers(0, 10_000))
def test_reduction_only_changes_the_basis(seed) -> None:
    """LLL's T is whole and unimodular, and no column of the reduced basis is longer than the longest was."""
    rng = np.random.default_rng(seed)
    basis = rng.standard_normal((4, 4)) * 10.0 ** rng.uniform(-2, 2, 4)
    change = reduced(basis)
    assert np.array_equal(change, np.rint(change))
    assert abs(np.linalg.det(change)) == pytest.approx(1.0, abs=1e-6)
    assert np.max(np.linalg.norm(basis @ change, axis=0)) <= np.max(np.linalg.norm(basis, axis=0)) * (
        1 + 1e-9
    )


def test_the_nearest_lattice_point_is_the_nearest() -> None:
    """Against every point of a box: nearest, posterior mean and certainty, in an ill-conditioned metric."""
    rng = np.random.default_rng(4)
    steps, phase = np.array([0.1, 0.5, 2.0]), np.array([0.03, -0.1, 0.7])
    root = rng.standard_normal((3, 3)) * steps[:, None]
    covariance = root @ np.diag([1.5, 0.4, 0.02]) @ root.T
    mean = rng.uniform(-1, 1, (20, 3)) * steps * 3
    near = points_near(mean, covariance, steps, phase)
    box = np.stack(np.meshgrid(*[np.arange(-14, 15)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    points = phase + steps * box
    off = points[None] - mean[:, None]
    cost = np.sum((off @ np.linalg.inv(covariance)) * off, axis=2)
    weights = np.exp(-0.5 * (cost - cost.min(axis=1, keepdims=True)))
    weights /= weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(near.nearest, points[np.argmin(cost, axis=1)], atol=1e-12)
    np.testing.assert_allclose(near.mean, weights @ points, atol=1e-4)
    np.testing.assert_allclose(near.certainty, weights.max(axis=1), atol=1e-4)


def test_the_attack_is_as_sure_as_it_is_right() -> None:
    """A posterior that is right names as many rows as it says it does: no attack on this agent names more.

    600 rows, each named or not with its stated probability: the mean strays by 0.12 once in 10^6 (Hoeffding).
    """
    network = coarse_network(2, 1, 1 / 20)
    plan = vn.design(undithered(network))
    rng = np.random.default_rng(6)
    readings = draw_readings(network, draw_x(network, rng, 600), rng)
    messages = np.concatenate(
        [
            np.asarray(plan.sanitizers[a].sanitize(readings[:, network.blocks.rows(k)], rng=rng))
            for k, a in enumerate(network.agents)
        ],
        axis=1,
    )
    known = eavesdropper(network, plan.sanitizers, network.steps)
    mean, covariance = linear_posterior(known, messages)
    sure = []
    for mine in known.owners.values():
        near = points_near(mean[:, mine], covariance[mine, mine], known.steps[mine], known.phase[mine], 1024)
        right = np.all(np.abs(near.nearest - readings[:, mine]) < 0.1 * known.steps[mine], axis=1)
        assert np.mean(near.certainty) == pytest.approx(np.mean(right), abs=0.12)
        sure.append(np.mean(near.certainty))
    assert min(sure) < 0.95  # at this step some rows stay in doubt, or the test would be empty


# --- before and after


@pytest.mark.parametrize(("withheld", "step"), [(1, 0.1), (1, 0.5), (1, 1.0), (2, 0.5), (2, 1.0), (3, 1.0)])
def test_dither_leaves_the_lattice_attack_nothing(withheld, step) -> None:
    """Without it nearly all rows are named; with it the best attack errs as the linear one does."""
    network = coarse_network(0, withheld, step)
    before = attack(vn.design(undithered(network)), network, ROWS, 0)
    assert before.named > 0.9
    assert before.best < 0.3
    after = attack(vn.design(network), network, ROWS, 0)
    assert after.named < 0.3  # a coarse step is guessed now and then, by the linear attacker as well
    assert after.closest / after.linear == pytest.approx(1.0, abs=0.01)
    assert after.weighted / after.linear == pytest.approx(1.0, abs=0.02)
    # and the linear attacker errs as promised: a mean of 400 squares strays by 35 % once in 10^6
    assert after.linear == pytest.approx(after.promised, rel=0.35)


def test_the_halls_readings_are_named_from_an_undithered_plan() -> None:
    """The finding: every row of the hall, and gait with the error of raw readings."""
    old = vn.design(undithered(house()))
    report = vn.audit(old, house_data(1000, 1), only=["lattice"])
    gait = next(row for row in report.rows if row.what.startswith("gait"))
    assert not report.ok
    assert gait.verdict == "fail"
    assert gait.figures["readings named, hall"] > 0.99
    raw = float(vn.crlb(undithered(house()))[-1, -1])
    assert gait.found < 1.3 * raw
    assert gait.promised > 9 * raw
    assert [row.verdict for row in report.rows if row.what == "steps in the readings"] == ["warn"]


def test_a_dithered_plan_passes_on_the_same_readings() -> None:
    report = vn.audit(vn.design(house()), house_data(1000, 1), only=["lattice"])
    assert report.ok
    assert all(row.verdict == "ok" for row in report.rows)
    assert max(row.figures.get("readings named, hall", 0.0) for row in report.rows) < 0.1


def averaged_log(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Minutes' means of two sensors in steps of 0.1, and a reading of another agent, beside what they are about."""
    rng = np.random.default_rng([seed, 4])
    x = rng.standard_normal((rows, 2))
    readings = averaged(rng, x @ [[1.0, 0.3], [0.4, 1.2]] + rng.standard_normal((rows, 2)), 0.1, 0.1)
    other = x @ [1.0, 0.2] + rng.standard_normal(rows)
    return {"T": readings[:, 0], "H": readings[:, 1], "V": other, "u": x[:, 0], "g": x[:, 1]}


def test_quiet_rows_of_averaged_readings_are_named_unless_the_sensors_step_is_covered() -> None:
    """The finding: a public log of an office, where dither of a step that all means share covered nothing."""
    roles = {"agents": {"a": ["T", "H"], "b": ["V"]}, "public": "u", "private": "g"}
    fitted = vn.fit(averaged_log(4000, 1), **roles)
    assert fitted.resolution["a"] == pytest.approx([0.1, 0.1])
    log = averaged_log(2000, 2)
    data = {"a": np.column_stack([log["T"], log["H"]]), "b": log["V"], "u": log["u"], "g": log["g"]}
    quiet = float(np.mean(np.all(np.abs(data["a"] * 10 - np.rint(data["a"] * 10)) < 1e-6, axis=1)))
    assert quiet > 0.2
    named = {}
    for step in (0.1 / 1200, 0.1):
        plan = vn.design(fitted.replace(resolution={"a": step, "b": 0.0}))
        report = vn.audit(plan, data, only=["lattice"])
        named[step] = max(row.figures.get("readings named, a", 0.0) for row in report.rows)
        assert not any(
            "readings named, b" in row.figures for row in report.rows
        )  # it has no steps to be named by
        covered = next(row.verdict for row in report.rows if row.what == "steps in the readings")
        assert covered == ("ok" if step == 0.1 else "warn")
    assert named[0.1 / 1200] > 0.7 * quiet
    assert named[0.1] < 0.05 * quiet


def test_simulated_readings_suffice_where_the_resolution_is_stated() -> None:
    """No data: the network's own lattice is attacked. What is deployed without its dither fails."""
    plan = vn.design(house())
    assert vn.audit(plan, only=["lattice"], trials=vn.Trials(rows=1000)).ok
    bare = {agent: s.replace(resolution=None) for agent, s in plan.sanitizers.items()}
    report = vn.audit(plan, sanitizers=bare, only=["lattice", "deployed"], trials=vn.Trials(rows=1000))
    failed = {row.what for row in report.rows if row.verdict == "fail"}
    assert "gait, from the readings' lattice" in failed
    assert {"sanitizers against the plan", "strength of the noise"} <= failed
    as_boxes = {agent: (lambda y, s=s: np.asarray(s.sanitize(y))) for agent, s in bare.items()}
    report = vn.audit(plan, sanitizers=as_boxes, only=["lattice"], trials=vn.Trials(rows=1000))
    assert not report.ok


def test_without_a_resolution_the_audit_says_what_it_left_out() -> None:
    report = vn.audit(vn.design(undithered(house())), only=["lattice"], trials=vn.Trials(rows=1000))
    assert report.ok
    assert "protect only continuous readings" in report.remarks()[0]
    continuous = vn.design(coarse_network(0, 1, 0.0))
    assert [
        row.verdict for row in vn.audit(continuous, only=["lattice"], trials=vn.Trials(rows=1000)).rows
    ] == ["ok"]


@pytest.mark.parametrize("step", [0.05, 0.3, 1.0, 2.0])
def test_a_dithered_reading_is_as_close_to_a_continuous_one_as_was_proved(step) -> None:
    """Mathematics, section 7, item 4: total variation at most step / (2 √(2π) σ); by summing over a fine mesh."""
    bound = step / (2 * np.sqrt(2 * np.pi))
    mesh = np.linspace(-12, 12, 480_001)
    width = mesh[1] - mesh[0]
    density = norm.pdf(mesh)
    for phase in (0.0, 0.25, 0.5):
        cell = np.rint(mesh / step - phase)
        low, high = (cell + phase - 0.5) * step, (cell + phase + 0.5) * step
        even = (norm.cdf(high) - norm.cdf(low)) / step
        assert 0.5 * np.sum(np.abs(even - density)) * width <= bound
        # and not by chance: the bound is attained to within a factor of two
        assert 0.5 * np.sum(np.abs(even - density)) * width > 0.4 * bound


# --- the promise counts the dither


@pytest.mark.parametrize("prior", ["none", "covariance", "singular"])
@pytest.mark.parametrize("noise", ["joint", "per agent", "variances"])
def test_every_bound_is_that_of_noise_with_the_dither_in_it(noise, prior) -> None:
    """Oracle: the network whose stated noise is R + diag(m q²/12), m draws of dither."""
    network = random_network(3, noise=noise, prior=prior)
    rng = np.random.default_rng(8)
    resolution = {
        a: rng.uniform(0.0, 1.0, int(n)) for a, n in zip(network.agents, network.blocks.sizes, strict=True)
    }
    steps = np.concatenate(list(resolution.values()))
    coarse = changed(network, resolution=resolution, dither=rng.integers(0, 3, network.N))
    oracle = changed(network, noise=network.R.matrix() + np.diag(coarse.dither * steps**2 / 12))
    sanitizers = random_sanitizers(network, 5, "mixed")
    np.testing.assert_allclose(vn.crlb(coarse), vn.crlb(oracle), rtol=1e-10)
    assert vn.utility(coarse, sanitizers) == pytest.approx(vn.utility(oracle, sanitizers), rel=1e-9)
    assert vn.privacy(coarse, sanitizers) == pytest.approx(vn.privacy(oracle, sanitizers), rel=1e-9)
    settled = vn.check(coarse.replace(dither=None))
    oracle = changed(network, noise=network.R.matrix() + np.diag(settled.network.draws * steps**2 / 12))
    assert settled.ceiling == pytest.approx(vn.check(oracle).ceiling, rel=1e-6)
    np.testing.assert_array_equal(coarse.sensor_noise.matrix(), network.R.matrix())


def test_dither_is_uniform_over_one_step_and_fresh() -> None:
    """What is sent less C y is C d: within half a step, with the variance q²/12, never twice the same."""
    agent = vn.Sanitizer([[1.0, 0.0], [0.0, 1.0]], resolution=[0.5, 0.0], dither=1, grid=2.0**-30)
    reading = np.tile([3.5, 2.25], (4000, 1))
    moved = agent.sanitize(reading) - reading
    assert np.max(np.abs(moved[:, 0])) <= 0.25 + 2.0**-30
    assert np.max(np.abs(moved[:, 1])) <= 2.0**-30
    # Dvoretzky, Kiefer and Wolfowitz: the largest deviation passes this once in 10^9
    places = np.sort(moved[:, 0]) / 0.5 + 0.5
    assert np.max(np.abs(places - np.arange(1, 4001) / 4000)) < np.sqrt(np.log(2e9) / 8000) + 1 / 4000
    assert len(np.unique(moved[:, 0])) > 3900


def test_the_certificate_wants_the_dither() -> None:
    """A plan whose agents do not dither does not keep a promise that counts on it."""
    plan = vn.design(house())
    bare = {agent: s.replace(resolution=None) for agent, s in plan.sanitizers.items()}
    promise = Promise(utility=plan.utility, privacy=plan.privacy)
    assert certify(plan.network, plan.sanitizers, promise).ok
    complaint = certify(plan.network, bare, promise).complaint()
    assert complaint == f"{DITHERED}: promised 0, found 5"


def test_averaging_one_reading_takes_its_dither_away() -> None:
    """Released again and again, a reading shows C y with the noise of the sensor alone."""
    network = house()
    plan = vn.design(network)
    rows = network.private["gait"]
    bare = undithered(network)
    errors = [
        float(np.trace(repeated(plan.network, plan.sanitizers, n, "same reading").error_covariance(rows)))
        for n in (1, 100, 1e12)
    ]
    alone = float((rows @ vn.crlb(bare, plan.sanitizers) @ rows.T)[0, 0])
    with_dither = float((rows @ vn.crlb(plan.network, plan.sanitizers) @ rows.T)[0, 0])
    assert errors[0] == pytest.approx(with_dither, rel=1e-9)
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] == pytest.approx(alone, rel=1e-6)


def test_a_colluder_hands_over_readings_without_dither() -> None:
    network = house()
    plan = vn.design(network)
    left = privacy_left(world_of(plan.network), plan.sanitizers, network.agents, "readings")
    raw, dithered = vn.crlb(undithered(network)), vn.crlb(plan.network)
    for name, rows in network.private.items():
        expected = np.trace(rows @ raw @ rows.T) / np.trace(rows @ dithered @ rows.T) - 1
        assert left[name] == pytest.approx(expected, rel=1e-6, abs=1e-12)
        assert left[name] < 0


def test_what_dither_costs_is_said_in_words() -> None:
    network = vn.check(house()).network
    rows = network.U
    before, after = vn.crlb(undithered(network)), vn.crlb(network)
    expected = np.trace(rows @ after @ rows.T) / np.trace(rows @ before @ rows.T) - 1
    assert dither_cost(network) == pytest.approx(expected, rel=1e-9)
    sentence = f"costs {100 * (np.sqrt(1 + expected) - 1):.2g} % of the public standard error"
    assert sentence in str(vn.check(network))
    assert sentence in str(vn.design(network))
    unstated = "exact numbers protect only continuous readings"
    for text in (str(vn.check(undithered(network))), str(vn.design(undithered(network)))):
        assert len([line for line in text.splitlines() if unstated in line]) == 1
    assert unstated not in str(vn.design(network))
    assert unstated not in str(vn.check(coarse_network(0, 1, 0.0)))
