"""How sure is a fit? Stated errors on unseen rows, intervals that cover, correlations that are not wished away."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import veilnet as vn
from helpers.calibration_truth import random_truth
from helpers.said import says
from veilnet import cli
from veilnet.calibration.intervals import growth_in_doubt
from veilnet.calibration.predictive import uncertain, without_bias
from veilnet.calibration.shrinkage import shrunk_covariance

# Coverage and stated errors on 200 networks each: benchmarks/calibration_study.py. Here, small and certain.


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "memory", "networks"), [(60, 0.0, 40), (400, 0.9, 24)])
def test_stated_errors_hold_on_unseen_rows_where_plain_ones_do_not(rows, memory, networks) -> None:
    true, stated = np.zeros(2), np.zeros(2)
    for seed in range(networks):
        truth = random_truth(seed, x_memory=memory, noise_memory=memory)
        best = np.diag(vn.crlb(truth.network()))
        for which, model in enumerate(truth.plain_and_predictive(rows, seed)):
            errors = truth.errors(model)
            true[which] += np.mean(errors[0] / best)
            stated[which] += np.mean(errors[1] / best)
    plain, predictive = true / stated
    # over so few networks the ratios have standard errors of about 0.025
    assert plain > 1.06
    assert 0.9 < predictive < 1.1
    assert abs(predictive - 1) < 0.5 * abs(plain - 1)


def test_slow_rows_do_not_pass_for_more_rows_than_they_are() -> None:
    rows, memory, networks = 1000, 0.97, 12
    plain, mended = np.zeros(2), np.zeros(2)
    for seed in range(networks):
        truth = random_truth(seed, x_memory=memory, noise_memory=memory)
        model, stream = truth.fitted_stream(rows, seed)
        plain += [np.mean(part) / networks for part in uncertain(model, stream)]
        mended += [np.mean(part) / networks for part in uncertain(model, without_bias(model, stream))]
    # what the mean of so many rows, and a product of two such series, scatter by: sums of m^|k| and of (m b)^|k|
    of_mean, of_product = (1 + memory) / (1 - memory), (1 + memory**2) / (1 - memory**2)
    true = np.array([of_mean + 3 * of_product, of_mean]) / rows
    # one standard error is 0.035
    assert plain[0] < 0.88 * true[0]
    assert np.all(np.abs(mended / true - 1) < 0.12)


@pytest.mark.slow
def test_intervals_cover_the_true_ceiling() -> None:
    covered = 0
    for seed in range(16):
        truth = random_truth(seed, noise_memory=0.5 * (seed % 2))
        promise = truth.fitted(150, seed).report.promises["g"]
        assert promise.interval is not None
        true = vn.check(with_all_public(truth.network())).ceiling["g"]
        covered += promise.interval.low <= true <= promise.interval.high
    # at a coverage of 95 % so few happen once in a million times
    assert covered >= stats.binom.ppf(1e-6, 16, 0.95)


def with_all_public(network: vn.Network) -> vn.Network:
    return vn.Network(
        dict(network.observe), network.R.matrix(), np.eye(network.L)[:-1], dict(network.private),
        network.prior, resolution=0.0,
    )  # fmt: skip


def test_the_quick_ceiling_is_that_of_check() -> None:
    for seed in range(10):
        truth = random_truth(seed, (1, 3, 2), 3)
        network = with_all_public(truth.network())
        model = (truth.observe[None], truth.noise[None], truth.covariance[None])
        quick = growth_in_doubt(*model, truth.sizes, network.U, [np.eye(3)[-1:]])
        assert np.expm1(quick[0, 0]) == pytest.approx(vn.check(network).ceiling["g"], rel=1e-9)


@pytest.mark.long
def test_without_a_prior_intervals_hold_the_truth_too_or_say_why_there_is_none() -> None:
    """Three agents send a number each and x has three entries: what is sent just determines it."""
    covered = 0
    for seed in range(20):
        rng = np.random.default_rng([seed, 5])
        observe, x = rng.standard_normal((6, 3)), rng.standard_normal((300, 3))
        y = x @ observe.T + 0.5 * rng.standard_normal((300, 6))
        columns = {"u": x[:, 0], "v": x[:, 1], "g": x[:, 2], **{f"y{k}": y[:, k] for k in range(6)}}
        agents = {f"agent{k}": [f"y{2 * k}", f"y{2 * k + 1}"] for k in range(3)}
        made = vn.fit_report(columns, agents, "u", {"g": "g", "v": "v"}, prior=False)
        promise = made.report.promises["g"]
        blocks = {name: observe[2 * k : 2 * k + 2] for k, name in enumerate(agents)}
        true = vn.check(
            vn.Network(blocks, 0.25, np.eye(3)[:1], {"g": np.eye(3)[2:]}, resolution=0.0)
        ).ceiling["g"]
        quick = growth_in_doubt(
            observe[None], 0.25 * np.eye(6)[None], None, [2, 2, 2], np.eye(3)[:1], [np.eye(3)[2:]]
        )
        assert np.expm1(quick[0, 0]) == pytest.approx(true, rel=1e-8)
        assert promise.interval is not None
        covered += promise.interval.low <= true <= promise.interval.high
    # at a coverage of 95 % so few happen once in a million times
    assert covered >= stats.binom.ppf(1e-6, 20, 0.95)
    two = {name: agents[name] for name in ("agent0", "agent1")}
    boundless = vn.fit_report(columns, two, "u", {"g": "g", "v": "v"}, prior=False).report.promises["g"]
    assert np.isinf(boundless.ceiling)
    assert "no interval: without a prior it has no bound" in str(boundless)
    few = {name: column[:20] for name, column in columns.items()}
    assert "rows are needed" in str(
        vn.fit_report(few, agents, "u", {"g": "g", "v": "v"}).report.promises["g"]
    )


def test_intervals_grow_when_rows_say_less() -> None:
    truth, slow = random_truth(3), random_truth(3, x_memory=0.9, noise_memory=0.9)

    def width(one, rows: int) -> float:
        interval = one.fitted(rows, 5).report.promises["g"].interval
        return float(np.log((1 + interval.high) / (1 + interval.low)))

    assert width(truth, 100) > 1.5 * width(truth, 1000)
    assert width(slow, 1000) > 1.5 * width(truth, 1000)


def test_intervals_know_that_agents_share_no_noise() -> None:
    """Ten readings and 120 rows: correlations that are known to be zero need not be guessed from so few."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x, observe = rng.standard_normal((120, 2)), rng.standard_normal((10, 2))
        readings = x @ observe.T + rng.standard_normal((120, 10))
        table = dict(zip(["u", "g", *map(str, range(10))], np.column_stack([x, readings]).T, strict=True))
        agents = {f"a{k}": [str(2 * k), str(2 * k + 1)] for k in range(5)}
        joint, independent = (
            vn.fit_report(table, agents, "u", "g", noise=noise).report.promises["g"]
            for noise in ("joint", "independent")
        )
        assert independent.interval.low <= independent.ceiling <= independent.interval.high
        widths = [np.log((1 + one.interval.high) / (1 + one.interval.low)) for one in (independent, joint)]
        assert widths[0] < 0.8 * widths[1]


def test_widening_vanishes_with_many_rows_and_can_be_left_out() -> None:
    truth = random_truth(0)
    few, many = truth.fitted(40, 1).report, truth.fitted(20_000, 1).report
    assert all(reading.widened > 1.08 for reading in few.readings)
    assert all(1 <= reading.widened < 1.002 for reading in many.readings)
    plain = truth.fitted(40, 1, predictive=False)
    assert all(reading.widened == 1 for reading in plain.report.readings)
    # one factor on noise and prior scales errors, and leaves privacy as it is
    wide = truth.fitted(40, 1)
    assert wide.report.promises["g"].ceiling == pytest.approx(plain.report.promises["g"].ceiling, rel=0.1)


def test_correlations_of_slow_parameters_are_not_wished_away() -> None:
    """A day in which x wanders: held-out blocks alone would believe public and private independent."""
    believed, reluctant = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        steps = rng.standard_normal((400, 2)) @ np.linalg.cholesky([[1.0, 0.5], [0.5, 1.0]]).T
        walk = np.cumsum(steps, axis=0)
        centred = walk - walk.mean(axis=0)
        believed.append(shrunk_covariance(centred, 399)[1])
        reluctant.append(shrunk_covariance(centred, 399, reluctant=True)[1])
    assert np.mean(np.array(believed) > 0.5) > 0.25
    assert np.mean(np.array(reluctant) > 0.1) < 0.1
    assert np.all(np.array(reluctant) <= believed)


def test_check_shows_the_intervals_of_the_report_beside_the_network(
    tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = random_truth(1, (2, 2), 2).log(300, 1)
    lines = [",".join(data), *(",".join(map(str, row)) for row in zip(*data.values(), strict=True))]
    Path("log.csv").write_text("\n".join(lines) + "\n")
    command = [
        "fit",
        "log.csv",
        "--agent",
        "a=y0,y1",
        "--agent",
        "b=y2,y3",
        "--public",
        "u",
        "--private",
        "g",
    ]
    assert cli.run([*command, "--out", "house.toml"]) == 0
    fitted = capsys.readouterr().out
    interval = json.loads(Path("house.report.json").read_text())["report"]["promises"]["g"]["interval"]
    words = f"{np.sqrt(1 + interval['low']):.3g}x to {np.sqrt(1 + interval['high']):.3g}x"
    assert words in fitted
    assert cli.run(["check", "house.toml"]) == 0
    assert words in capsys.readouterr().out.replace("\n", " ")
    assert cli.run(["check", "house.toml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["intervals"]["g"][:2] == [interval["low"], interval["high"]]

    network = vn.Network.load("house.toml")
    changed = vn.Network(
        dict(network.observe),
        2 * network.R.matrix(),
        dict(network.public),
        dict(network.private),
        network.prior,
    )
    changed.save("house.toml")
    assert cli.run(["check", "house.toml"]) == 0
    assert "about another network" in capsys.readouterr().out
    Path("house.report.json").write_text("{}")
    assert cli.run(["check", "house.toml"]) == 2
    assert "house.report.json: expected a report" in capsys.readouterr().err
    Path("house.report.json").write_text('{"format": "veilnet-fit-report/2"}')
    assert cli.run(["check", "house.toml"]) == 2
    says(capsys.readouterr().err, "house.report.json", "made by a newer veilnet: upgrade this one")
    Path("house.toml").unlink()
    assert cli.run([*command, "--out", "house.toml"]) == 2
    assert "house.report.json: exists already" in capsys.readouterr().err
    assert not Path("house.toml").exists()
