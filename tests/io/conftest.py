"""A plan of the house in files, its messages, and the command with bytes on its standard input."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.message_streams import mark_of
from helpers.released import forget
from veilnet import cli
from veilnet.auditing.what_if.variants import changed
from veilnet.io.template import house


@pytest.fixture(scope="session")
def plan() -> vn.Plan:
    return vn.design(changed(house(), reading_names=None))  # columns without names, unless a test gives some


@pytest.fixture(scope="session")
def folder(plan, tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("streams") / "plan"
    plan.save(target)
    kitchen = plan.sanitizers["kitchen"]
    kitchen.replace(names=["T", "CO2", "RH", "W"], limits=([-20, 0, 0, 0], [60, 9000, 40, 4000])).save(
        target.parent / "named.json"
    )
    return target


@pytest.fixture
def pipe(monkeypatch, capfd):
    """Runs the command with bytes on standard input; gives the exit code, output and complaints."""

    def run(arguments: list[object], content: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        written = io.BytesIO()
        out = io.TextIOWrapper(written, encoding="utf-8", write_through=True)
        monkeypatch.setattr(sys, "stdout", out)
        capfd.readouterr()
        forget(arguments)
        code = cli.run([str(argument) for argument in arguments])
        return code, written.getvalue().decode(), capfd.readouterr().err

    return run


@pytest.fixture(scope="session")
def messages(plan, folder, tmp_path_factory) -> tuple[Path, dict[str, np.ndarray]]:
    """Message files of 300 rows; the hall lost rows 10 to 19, nobody sent row 40."""
    target = tmp_path_factory.mktemp("messages")
    network = plan.network
    rng = np.random.default_rng(2)
    x = rng.multivariate_normal(network.prior.mean, network.prior.covariance, size=300)
    noise = rng.standard_normal((300, network.N)) @ np.linalg.cholesky(network.R.matrix()).T
    readings = x @ network.H.T + network.offset + noise
    sent = {}
    for place, agent in enumerate(network.agents):
        mine = np.asarray(plan.sanitizers[agent].sanitize(readings[:, network.blocks.rows(place)], rng=rng))
        mine[39] = np.nan
        if agent == "hall":
            mine[9:19] = np.nan
        sent[agent] = mine
        lines = [
            ",".join([str(row), mark_of(folder), agent, *map(repr, values.tolist())])
            for row, values in enumerate(mine, 1)
            if np.isfinite(values).all()
        ]
        head = ",".join(["row", "plan", "agent", *(f"z{k + 1}" for k in range(mine.shape[1]))])
        (target / f"{agent}.csv").write_text("\n".join([head, *lines]) + "\n")
    return target, sent
