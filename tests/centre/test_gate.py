"""Messages that contradict the model are found, named and left out, at the false-alarm rate that is stated.

Oracles: Mahalanobis distances from the covariance of the messages, conditional Gaussians, least-squares residuals;
planted faults; the chi-square distribution of scipy and mpmath.
"""

from __future__ import annotations

import csv
import io
import json
import math
import sys

import mpmath
import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.stats import binom, chi2, kstest
from test_fusion import noisy_plan, simulate, with_offsets

import veilnet as vn
from helpers.networks import random_network
from helpers.said import says
from veilnet import cli
from veilnet._core.chi_square import log_tail, threshold
from veilnet.centre.gate import redundancy, residuals
from veilnet.centre.messages import CentreModel
from veilnet.plans.plan import make_plan

RATE = 0.02
ROWS = 20_000


def network_of(prior: str, noise: str = "joint") -> vn.Network:
    return with_offsets(random_network(2, noise=noise, prior=prior, sizes=(4, 3, 4, 3)), 2)


def law_of(plan: vn.Plan) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mixing, noise covariance, expected) of all messages, from the definition."""
    network = plan.network
    compress = block_diag(*(plan.sanitizers[a].compression for a in network.agents))
    added = block_diag(*(plan.sanitizers[a].noise for a in network.agents))
    offset = np.concatenate([plan.sanitizers[a].offset for a in network.agents])
    mean = np.zeros(network.L) if network.prior is None else network.prior.mean
    expected = compress @ (network.H @ mean + network.offset - offset)
    return compress @ network.H, compress @ network.R.matrix() @ compress.T + added, expected


def own(plan: vn.Plan, agent: str) -> slice:
    starts = np.cumsum([0, *plan.sent.values()])
    place = list(plan.sent).index(agent)
    return slice(int(starts[place]), int(starts[place + 1]))


def drawn(plan: vn.Plan, seed: int) -> dict[str, np.ndarray]:
    """Messages of the model; what the prior knows nothing of lies far and wide."""
    network = plan.network
    rng = np.random.default_rng([seed, 4])
    information, mean = np.zeros((network.L, network.L)), np.zeros(network.L)
    if network.prior is not None:
        information, mean = network.prior.information, network.prior.mean
    sizes, directions = np.linalg.eigh(information)
    known = sizes > 1e-9 * max(1e-9, sizes[-1])
    along = np.where(known, rng.standard_normal((ROWS, network.L)), rng.uniform(-20, 20, (ROWS, network.L)))
    x = mean + along / np.sqrt(np.where(known, sizes, 1.0)) @ directions.T
    noise = rng.standard_normal((ROWS, network.N)) @ np.linalg.cholesky(network.R.matrix()).T
    readings = x @ network.H.T + network.offset + noise
    return {
        agent: plan.sanitizers[agent].sanitize(readings[:, network.blocks.rows(place)], rng=rng)
        for place, agent in enumerate(network.agents)
    }


@pytest.mark.parametrize("noise", ["joint", "per agent"])
def test_distances_with_a_prior_are_mahalanobis(noise: str) -> None:
    plan = noisy_plan(network_of("covariance", noise), 2)
    mixing, covariance, expected = law_of(plan)
    total = mixing @ plan.network.prior.covariance @ mixing.T + covariance
    rng = np.random.default_rng(0)
    deviations = rng.standard_normal((50, len(total))) @ np.linalg.cholesky(total).T * 2
    tests = redundancy(plan.messages, np.zeros(4, bool))
    assert np.allclose(plan.messages.expected, expected)
    joint, single = tests.distances(deviations), tests.agent_distances(deviations)
    assert np.allclose(joint, np.einsum("ij,ij->i", deviations, np.linalg.solve(total, deviations.T).T))
    for place, agent in enumerate(plan.sent):
        mine = own(plan, agent)
        others = np.setdiff1d(np.arange(len(total)), np.arange(mine.start, mine.stop))
        slope = np.linalg.solve(total[np.ix_(others, others)], total[others, mine]).T
        residual = deviations[:, mine] - deviations[:, others] @ slope.T
        conditional = total[mine, mine] - slope @ total[others, mine]
        expected_distance = np.einsum("ij,ij->i", residual, np.linalg.solve(conditional, residual.T).T)
        assert np.allclose(single[:, place], expected_distance)
        assert tests.freedom[place] == mine.stop - mine.start


def test_distances_without_a_prior_are_residuals_of_least_squares() -> None:
    plan = noisy_plan(network_of("none"), 2)
    mixing, covariance, _ = law_of(plan)
    rng = np.random.default_rng(0)
    deviations = rng.standard_normal((20, len(mixing))) * 3
    tests = redundancy(plan.messages, np.zeros(4, bool))
    joint, single = tests.distances(deviations), tests.agent_distances(deviations)

    def residual(rows: np.ndarray) -> np.ndarray:
        root = np.linalg.cholesky(covariance[np.ix_(rows, rows)])
        design, data = np.linalg.solve(root, mixing[rows]), np.linalg.solve(root, deviations[:, rows].T)
        fitted = design @ np.linalg.lstsq(design, data, rcond=None)[0]
        return np.sum((data - fitted) ** 2, axis=0)

    every = np.arange(len(mixing))
    assert np.allclose(joint, residual(every))
    assert len(tests.joint) == len(mixing) - np.linalg.matrix_rank(mixing)
    for place, agent in enumerate(plan.sent):
        mine = own(plan, agent)
        left = residual(np.setdiff1d(every, np.arange(mine.start, mine.stop)))
        assert np.allclose(single[:, place], joint - left, atol=1e-9 * joint.max())


@pytest.mark.parametrize("prior", ["covariance", "none", "singular"])
def test_false_alarms_are_as_often_as_stated(prior: str) -> None:
    plan = noisy_plan(network_of(prior), 2)
    messages = drawn(plan, 1)
    stacked = np.concatenate(list(messages.values()), axis=1)
    tests = redundancy(plan.messages, np.zeros(4, bool))
    deviations = stacked - plan.messages.expected
    joint, single = tests.distances(deviations), tests.agent_distances(deviations)
    assert kstest(joint, chi2(len(tests.joint)).cdf).pvalue > 1e-4
    for place, freedom in enumerate(tests.freedom):
        if freedom:
            assert kstest(single[:, place], chi2(int(freedom)).cdf).pvalue > 1e-4
    doubted = {doubt.row for doubt in vn.Fusion(plan, gate=RATE).estimate(messages).contradictions}
    # at most the rate, and at least its half, which the joint test has alone; 1e-6 for either limit
    assert binom.isf(1e-6, ROWS, RATE) > len(doubted) > binom.ppf(1e-6, ROWS, RATE / 2)
    by_joint = int(np.sum(joint > threshold(RATE / 2, len(tests.joint))))
    assert binom.isf(1e-6, ROWS, RATE / 2) > by_joint > binom.ppf(1e-6, ROWS, RATE / 2)


def test_rows_with_gaps_are_tested_at_the_same_rate() -> None:
    plan = noisy_plan(network_of("covariance"), 2)
    _, messages = simulate(plan.network, plan.sanitizers, ROWS, 6)
    rng = np.random.default_rng(2)
    for values in messages.values():
        values[rng.random(ROWS) < 0.3] = np.nan
    doubted = {doubt.row for doubt in vn.Fusion(plan, gate=RATE).estimate(messages).contradictions}
    assert binom.isf(1e-6, ROWS, RATE) > len(doubted) > binom.ppf(1e-6, ROWS, RATE / 2 * 0.95)


@pytest.mark.parametrize("prior", ["covariance", "none"])
def test_a_faulty_agent_is_named_and_left_out(prior: str) -> None:
    plan = noisy_plan(network_of(prior), 2)
    truth, messages = simulate(plan.network, plan.sanitizers, 400, 3)
    clean = {agent: values.copy() for agent, values in messages.items()}
    tests = redundancy(plan.messages, np.zeros(4, bool))
    faulty = np.arange(0, 400, 20)
    rows = own(plan, "a1")
    strength = np.linalg.svd(tests.agents[tests.owner == 1][:, rows], compute_uv=True)
    messages["a1"][faulty] += 60 / strength[1][0] * strength[2][0]
    estimate = vn.Fusion(plan, gate=1e-6).estimate(messages)
    found = {doubt.row: doubt for doubt in estimate.contradictions}
    assert sorted(found) == faulty.tolist()
    assert {doubt.agent for doubt in found.values()} == {"a1"}
    assert all(doubt.chance < 1e-6 and doubt.distance > 10 for doubt in found.values())
    assert estimate.contradicting[20] == ("a1",)
    assert estimate.contradicting[21] == estimate.missing[20] == ()
    clean["a1"][faulty] = np.nan
    without = vn.Fusion(plan).estimate(clean)
    assert np.allclose(estimate.public, without.public, rtol=1e-12, atol=1e-12)
    assert np.allclose(estimate.covariance, without.covariance)
    kept = vn.Fusion(plan, gate=1e-6, keep=True).estimate(messages)
    assert kept.contradicting == estimate.contradicting
    assert np.allclose(kept.public, vn.Fusion(plan).estimate(messages).public, rtol=1e-12, atol=1e-12)
    errors = np.abs(estimate.public - truth) / estimate.deviation
    assert errors.max() < 6 < (np.abs(kept.public - truth) / kept.deviation).max()
    single = vn.Fusion(plan, gate=1e-6).estimate({agent: values[0] for agent, values in messages.items()})
    assert single.contradicting == ("a1",)
    assert "a1 is" in str(single.contradictions[0])


def test_two_faulty_agents_are_both_left_out() -> None:
    plan = noisy_plan(network_of("covariance"), 2)
    _, messages = simulate(plan.network, plan.sanitizers, 50, 4)
    messages["a0"][7] += 1e3
    messages["a2"][7] -= 1e200
    estimate = vn.Fusion(plan, gate=1e-6).estimate(messages)
    assert set(estimate.contradicting[7]) == {"a0", "a2"}
    assert estimate.missing[7] == ()
    assert np.isfinite(estimate.public).all()


def test_what_nothing_else_tells_cannot_be_tested_and_is_said() -> None:
    network = vn.Network(
        observe={
            "a": [[1.0, 0.0, 0.0]],
            "b": [[0.0, 1.0, 1.0]],
            "c": [[0.0, 1.0, 0.9]],
            "d": [[0.0, 1.0, 1.1]],
        },
        noise=1.0,
        public={"u": [1.0, 0.0, 0.0]},
        private={"g": [0.0, 1.0, 0.0]},
    )
    plan = make_plan(network, {a: vn.Sanitizer(np.eye(1)) for a in network.agents}, "by hand")
    fusion = vn.Fusion(plan, gate=1e-6)
    assert fusion.gate is not None
    assert fusion.gate.untested == ("a",)
    wild = {"a": [1e6], "b": [0.0], "c": [0.0], "d": [0.0]}
    assert fusion.estimate(wild).contradicting == ()
    assert len(fusion.estimate({"a": [0.0], "b": [0.0], "c": [1e6], "d": [0.0]}).contradicting) == 1
    assert fusion.estimate({"b": [0.0], "c": [1e6]}).contradicting == ()  # two of two unknowns agree always


@pytest.mark.parametrize(("noise", "tested"), [(1e-9, True), (1e-14, False)])
def test_messages_far_sharper_than_the_prior(noise: float, tested: bool) -> None:
    """At variances of 1e-9 the prior still tells what is absurd; at 1e-14 nobody is tested, and nothing breaks."""
    network = vn.Network(
        observe={"a": [[1.0, 0.3]], "b": [[0.2, 1.0]]},
        noise=noise,
        public={"u": [1.0, 0.0]},
        private={"g": [0.0, 1.0]},
        prior=vn.Prior(covariance=np.eye(2)),
    )
    plan = make_plan(network, {a: vn.Sanitizer(np.eye(1)) for a in network.agents}, "by hand")
    fusion = vn.Fusion(plan, gate=1e-6)
    assert fusion.gate is not None
    assert fusion.gate.untested == (() if tested else ("a", "b"))
    x = np.random.default_rng(0).standard_normal((200, 2))
    messages = {"a": x @ [[1.0], [0.3]], "b": x @ [[0.2], [1.0]]}
    messages["b"][7] = 1e3
    found = {(doubt.row, doubt.agent) for doubt in fusion.estimate(messages).contradictions}
    assert found == ({(7, "b")} if tested else set())


@pytest.mark.parametrize("gate", [0, 1, -1e-6, math.nan, "1e-6", True])
def test_rates_that_are_none(gate) -> None:
    plan = noisy_plan(network_of("covariance"), 2)
    with pytest.raises(vn.InvalidRequest, match="gate"):
        vn.Fusion(plan, gate=gate)
    with pytest.raises(vn.InvalidRequest, match="keep"):
        vn.Fusion(plan, keep=True)


def test_tails_of_the_chi_square() -> None:
    for freedom in (1, 2, 3, 4, 7, 10, 37, 100):
        for x in (1e-3, 0.5, 3.0, 20.0, 49.9, 50.1, 300.0, 5000.0):
            exact = mpmath.log(mpmath.gammainc(mpmath.mpf(freedom) / 2, mpmath.mpf(x) / 2, regularized=True))
            assert log_tail(x, freedom) == pytest.approx(float(exact), rel=1e-12, abs=1e-13)
        for chance in (0.5, 1e-6, 1e-12):
            assert threshold(chance, freedom) == pytest.approx(chi2.isf(chance, freedom), rel=1e-10)
    assert log_tail(math.inf, 3) == -math.inf
    assert threshold(1e-6, 0) == math.inf


# --- the command


def test_fuse_leaves_out_what_contradicts_the_model_and_says_so(tmp_path, monkeypatch, capfd) -> None:
    network = network_of("covariance", "per agent")
    plan = vn.design(network)
    plan.save(tmp_path / "plan")
    _, messages = simulate(network, plan.sanitizers, 60, 5)
    messages["a2"][5::6] += 1e4
    mark = json.loads((tmp_path / "plan/plan.json").read_text())["plan"][:8]
    pairs = []
    for agent, values in messages.items():
        head = ["row", "plan", "agent", *(f"z{k + 1}" for k in range(values.shape[1]))]
        with (tmp_path / f"{agent}.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(
                [head, *([row, mark, agent, *map(repr, z)] for row, z in enumerate(values.tolist(), 1))]
            )
        pairs.append(f"{agent}={tmp_path / agent}.csv")

    def fuse(*options: str) -> tuple[int, list[dict[str, str]], str]:
        written = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="utf-8", write_through=True))
        capfd.readouterr()
        code = cli.run(["fuse", str(tmp_path / "plan/center.json"), *pairs, *options])
        return code, list(csv.DictReader(written.getvalue().decode().splitlines())), capfd.readouterr().err

    code, table, err = fuse()
    assert code == 0
    assert [line["contradicting"] for line in table] == ["a2" if row % 6 == 5 else "" for row in range(60)]
    assert "row 6: a2 is " in err
    assert "model: 10 of a2" in err
    messages["a2"][5::6] = np.nan
    expected = vn.Fusion(plan).estimate(messages).public
    assert np.allclose(
        [float(line[plan.network.public_rows[0]]) for line in table], expected[:, 0], rtol=1e-9
    )
    code, kept, err = fuse("--keep")
    assert code == 0
    assert [line["contradicting"] for line in kept] == [line["contradicting"] for line in table]
    label = plan.network.public_rows[0]
    assert kept[35][label] != table[35][label]
    assert "used all the same" in err
    code, _, err = fuse("--gate", "often")
    assert code == 2
    assert "--gate: expected a number, found 'often'" in err


def test_fuse_names_whom_it_had_to_believe(tmp_path, capfd) -> None:
    """Without a prior, and with nobody who sees the same: no message of either can be tested."""
    network = vn.Network({"a": [[1.0, 0.2]], "b": [[0.1, 1.0]]}, 1.0, {"u": [1.0, 0.0]}, {"g": [0.0, 1.0]})
    plan = make_plan(network, {agent: vn.Sanitizer(np.eye(1)) for agent in network.agents}, "by hand")
    plan.save(tmp_path / "plan")
    mark = json.loads((tmp_path / "plan/plan.json").read_text())["plan"][:8]
    for agent in network.agents:
        (tmp_path / f"{agent}.csv").write_text(f"row,plan,agent,z1\n1,{mark},{agent},0.5\n")
    pairs = [f"{agent}={tmp_path / agent}.csv" for agent in network.agents]
    command = ["fuse", str(tmp_path / "plan/center.json"), *pairs, "--out", str(tmp_path / "e.csv"), "--json"]
    assert cli.run(command) == 0
    said = capfd.readouterr()
    assert json.loads(said.out)["untested"] == ["a", "b"]
    says(said.err, "a and b", "untested")


def unexplained(model: CentreModel, white: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """What least squares on some numbers, whitened, and on the prior's rows leave of each row of messages."""
    mixed = np.eye(model.blocks.total) if model.correlation is None else model.correlation
    root = np.linalg.cholesky(mixed[np.ix_(rows, rows)])
    design = np.concatenate([model.prior, np.linalg.solve(root, model.observe[rows])])
    data = np.concatenate([np.zeros((len(model.prior), white.shape[1])), np.linalg.solve(root, white[rows])])
    return np.asarray(np.sum((data - design @ np.linalg.lstsq(design, data, rcond=None)[0]) ** 2, axis=0))


@pytest.mark.parametrize("noise", ["joint", "variances", "scalar"])
@pytest.mark.parametrize("prior", ["none", "covariance", "information", "singular"])
def test_whoever_is_silent_the_others_are_tested_by_what_x_leaves(prior: str, noise: str) -> None:
    """Oracle: least squares of all that arrived and of the prior's rows, with and without each agent."""
    model = noisy_plan(network_of(prior, noise), 2).messages
    rng = np.random.default_rng(5)
    for who in ([], [1], [0, 3]):
        silent = np.isin(np.arange(4), who)
        absent = np.repeat(silent, model.blocks.sizes)
        deviations = rng.standard_normal((30, model.blocks.total)) * 3
        deviations[:, absent] = 0.0
        white = model.whiten.of(deviations.T)
        joint = unexplained(model, white, np.flatnonzero(~absent))
        lost = np.zeros((30, 4))
        for place in np.flatnonzero(~silent):
            others = np.setdiff1d(
                np.flatnonzero(~absent), np.arange(model.blocks.total)[model.blocks.rows(place)]
            )
            lost[:, place] = joint - unexplained(model, white, others)
        for tests in (redundancy(model, silent), residuals(model, silent)):
            assert np.allclose(tests.distances(deviations), joint, rtol=1e-9)
            found = tests.agent_distances(deviations)
            assert np.allclose(found, lost, rtol=1e-8, atol=1e-9 * joint.max())
            assert np.array_equal(tests.freedom > 0, np.any(lost > 1e-6, axis=0))
            assert tests.numbers <= np.count_nonzero(~absent)
        assert redundancy(model, silent).numbers == residuals(model, silent).numbers
