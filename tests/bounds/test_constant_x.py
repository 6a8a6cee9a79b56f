"""Many rows of a constant x: what a plan for single rows does not promise, told beside everything that it does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import random_network
from veilnet import cli
from veilnet.bounds.typical_errors import ROWS_OF_CONSTANT, in_one_row, typical_errors
from veilnet.io.template import house


@pytest.mark.parametrize("prior", ["covariance", "none"])
def test_a_hundred_rows_as_one_estimate(prior: str) -> None:
    """Oracle: all messages of all rows stacked, and solved as one linear Gaussian estimate of x."""
    network = random_network(3, noise="joint", prior=prior)
    sanitizers = vn.design(network).sanitizers
    compress = np.zeros((sum(s.sent for s in sanitizers.values()), network.N))
    added, at = np.zeros((len(compress), len(compress))), 0
    for place, agent in enumerate(network.agents):
        rows = slice(at, at + sanitizers[agent].sent)
        compress[rows, network.blocks.rows(place)] = sanitizers[agent].compression
        added[rows, rows] = sanitizers[agent].noise
        at = rows.stop
    seen = np.tile(compress @ network.H, (ROWS_OF_CONSTANT, 1))
    noise = np.kron(np.eye(ROWS_OF_CONSTANT), compress @ network.noise.matrix() @ compress.T + added)
    known = seen.T @ np.linalg.solve(noise, seen)
    if network.prior is not None:
        known = known + np.linalg.inv(network.prior.covariance)
    for name, error in typical_errors(network, sanitizers).items():
        A = {**network.public, **network.private}[name]
        estimable = np.linalg.matrix_rank(np.vstack([known, A]), 1e-9) == np.linalg.matrix_rank(known, 1e-9)
        if not estimable:
            assert error.constant == np.inf
            continue
        left = A @ np.linalg.pinv(known, rcond=1e-12) @ A.T
        assert error.constant == pytest.approx(np.sqrt(np.trace(left) / len(A)), rel=1e-6)
        assert error.sent is not None
        assert error.constant < error.sent


def test_streams_promise_all_rows_and_say_nothing_of_one() -> None:
    network = house(stream=True)
    errors = typical_errors(network, vn.design(network).sanitizers)
    assert all(error.constant is None for error in errors.values())
    assert in_one_row(errors.values()) == []


def test_an_error_that_many_rows_leave_as_it_is_is_not_said_to_fall() -> None:
    """Where the prior is nearly all that is known 100 rows leave what one row leaves."""
    network = house()
    strict = typical_errors(network, vn.design(network, privacy=vn.Times(3.3)).sanitizers)
    single = typical_errors(network, vn.design(network).sanitizers)
    for errors in (strict, single):
        (said,) = in_one_row(errors.values())
        for name in network.private:
            error = errors[name]
            assert error.constant is not None
            assert error.sent is not None
            assert (f"{name} ±" in said) == (error.constant < 0.95 * error.sent)
    stuck = [replace(error, constant=error.sent) for error in single.values()]
    (said,) = in_one_row(stuck)
    assert "±" not in said
    (said,) = in_one_row([stuck[-1], *list(single.values())[:-1]])
    assert f"on {stuck[-1].name} they" in said
    assert f"{stuck[-1].name} ±" not in said


def test_every_statement_of_a_row_plan_says_in_one_row(tmp_path: Path, monkeypatch, capsys) -> None:
    """An agent's owner read "cannot estimate it better": with x constant the error falls to half of it."""
    monkeypatch.chdir(tmp_path)
    network = house()
    network.save("house.toml")
    plan = vn.design(network)
    plan.save("plan")
    error = typical_errors(network, plan.sanitizers, privacy=plan.privacy)["gait"]
    assert error.constant is not None
    assert error.sent is not None
    assert error.constant < 0.6 * error.sent
    shown = f"{error.constant:.2g}"
    for command in (
        ["check", "house.toml"], ["design", "house.toml", "--out", "again"], ["verify", "plan"],
        ["report", "plan", "--out", "report.html", "--seconds", "1"],
    ):  # fmt: skip
        assert cli.run(command) == 0
        said = " ".join(capsys.readouterr().out.split())
        if command[0] == "report":
            said = Path("report.html").read_text()
        assert "one row" in said, command
        assert f"gait ±{shown}" in said, command
    assert cli.run(["inspect", "plan/kitchen.json"]) in (0, 1)
    told = " ".join(capsys.readouterr().out.split())
    part = f"{100 * error.constant / error.sent:.0f} %"
    assert "in one row the standard error of gait grows" in told
    assert f"100 rows of a constant x leave {part}" in told


def test_without_a_prior_a_plan_speaks_of_unbiased_estimators() -> None:
    plans = {prior: str(vn.design(random_network(3, prior=prior))) for prior in ("none", "covariance")}
    assert "unbiased" in plans["none"]
    assert "unbiased" not in plans["covariance"]
