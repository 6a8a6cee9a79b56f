"""The centre of very many agents: it adds up shares, and says truly how far off the sum is."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

import veilnet as vn
from helpers.many_streams import STREAMS, as_stacks
from helpers.stream_networks import random_stream
from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet._core.missed import MISSED
from veilnet._core.types import Array
from veilnet.centre.models import same_messages
from veilnet.centre.streams.sum_model import SumModel
from veilnet.cli import run
from veilnet.io._sealed import seal
from veilnet.io.centre_files import centre_document, centre_from_bytes

FALSE_ALARM = 1e-6


def _sent(plan: vn.Plan, readings: Array, missed: Array | None = None) -> Array:
    """What all agents send of a stream of readings (T, N), side by side, without grids; (T, S) who missed a row."""
    blocks, found = plan.network.blocks, []
    for place, agent in enumerate(plan.network.agents):
        each = plan.sanitizers[agent]
        rows = readings[:, blocks.rows(place)] - each.offset
        state, numbers = np.zeros(each.order), np.empty((len(rows), each.sent))
        for t, row in enumerate(rows):
            absent = missed is not None and missed[t, place]
            if each.memory is not None:
                state = each.memory.transition @ state + (0.0 if absent else each.memory.gain @ row)
            numbers[t] = MISSED if absent else each.compression @ np.concatenate([state, row])
        found.append(numbers)
    return np.concatenate(found, axis=1)


def _streams(network: vn.Network, count: int, rows: int, seed: int) -> tuple[Array, Array]:
    """(public, readings) of many streams from their first rows on, (count, rows, ...)."""
    rng = np.random.default_rng(seed)
    dynamics = network.dynamics
    assert dynamics is not None
    assert dynamics.stationary is not None
    root, new, noise = (
        np.linalg.cholesky(each) for each in (dynamics.stationary, dynamics.noise, network.R.matrix())
    )
    x = np.empty((count, rows, network.L))
    x[:, 0] = rng.standard_normal((count, network.L)) @ root.T
    for t in range(1, rows):
        x[:, t] = x[:, t - 1] @ dynamics.transition.T + rng.standard_normal((count, network.L)) @ new.T
    x += dynamics.mean
    seen = x @ network.H.T + network.offset + rng.standard_normal((count, rows, network.N)) @ noise.T
    return x @ network.U.T, seen


@pytest.mark.parametrize("name", STREAMS)
def test_without_gaps_it_is_the_filter_with_all_memories(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = STREAMS[name]
    rng = np.random.default_rng(3)
    readings = rng.standard_normal((150, network.N)).cumsum(axis=0)
    joint_plan = vn.design(network)
    empty = {  # sums are of memories that begin at zero
        agent: each.replace(memory=None if each.memory is None else each.memory.with_start(None))
        for agent, each in joint_plan.sanitizers.items()
    }
    joint_plan = replace(joint_plan, sanitizers=empty)
    joint = vn.Fusion(joint_plan).estimate(_sent(joint_plan, readings))
    as_stacks(monkeypatch)
    plan = vn.design(network)
    fusion = vn.Fusion(plan)
    assert isinstance(fusion.model, SumModel)
    found = fusion.estimate(_sent(plan, readings))
    scale = np.max(np.abs(joint.public))
    assert np.max(np.abs(found.public[100:] - joint.public[100:])) < 1e-5 * scale
    assert np.allclose(found.covariance[-1], joint.covariance[-1], rtol=1e-5)
    # at the start the filter with all memories knows more than sums do, never less
    assert np.all(
        np.diagonal(found.covariance, axis1=1, axis2=2)
        >= np.diagonal(joint.covariance, axis1=1, axis2=2) * (1 - 1e-5)
    )


def test_stated_errors_are_true_with_gaps_and_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    network = random_stream(7, sizes=(1, 2, 3, 3, 4, 4, 3), public_rows=2, radius=0.9, mean=True)
    as_stacks(monkeypatch)
    plan = vn.design(network)
    assert any(plan.sanitizers[agent].order == 0 for agent in network.agents), "nobody sends readings"
    rows, count = 24, 150
    public, readings = _streams(network, count, rows, seed=11)
    rng = np.random.default_rng(5)
    missed = rng.random((rows, network.S)) < 0.06
    missed[10:14] = False
    lost = rng.random((rows, network.S)) < 0.06
    lost[10:14] = False
    missed[:, 4] = np.arange(rows) >= 16  # an agent that stops for good
    numbers = np.repeat(lost, list(plan.sent.values()), axis=1)
    fusion = vn.Fusion(plan)
    off = np.empty((count, rows, 2))
    for k in range(count):
        sent = _sent(plan, readings[k], missed)
        sent[numbers & np.isfinite(sent)] = np.nan
        found = fusion.estimate(sent)
        off[k] = found.public - public[k]
    assert len({names for names in found.missing if names}) > 5
    complete = [t for t in range(rows) if not found.missing[t]]
    assert complete
    assert np.trace(found.covariance[complete[-1]]) < np.trace(found.covariance[-1])
    for t in range(rows):
        whitened = np.linalg.solve(np.linalg.cholesky(found.covariance[t]), off[:, t].T)
        statistic = float(np.sum(whitened**2))
        p = 2 * min(chi2.cdf(statistic, 2 * count), chi2.sf(statistic, 2 * count))
        assert p > FALSE_ALARM / rows, (t, found.missing[t], statistic / (2 * count), p)


def test_a_row_with_gaps_uses_those_that_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    network = random_stream(8, sizes=(3,) * 30, public_rows=1, radius=0.9)
    as_stacks(monkeypatch)
    plan = vn.design(network)
    readings = np.random.default_rng(0).standard_normal((60, network.N))
    sent = _sent(plan, readings)
    whole = vn.Fusion(plan).estimate(sent)
    sent[-1, 0] = np.nan
    found = vn.Fusion(plan).estimate(sent)
    assert found.missing[-1] == (network.agents[0],)
    grown = found.covariance[-1, 0, 0] / whole.covariance[-1, 0, 0]
    assert 1.0 < grown < 1.4, "one of thirty agents"
    predicted = vn.Fusion(plan).estimate(np.where(np.arange(60)[:, None] == 59, np.nan, sent))
    assert predicted.covariance[-1, 0, 0] > 1.1 * found.covariance[-1, 0, 0]


def test_nothing_of_it_is_tested_against_the_model_and_it_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_stacks(monkeypatch)
    plan = vn.design(STREAMS["mixed sizes"])
    for option in ({"gate": 1e-6}, {"keep": True}, {"gate": 1e-6, "keep": True}):
        with pytest.raises(InvalidRequest, match=f"{next(iter(option))}: messages of a stream of so many"):
            vn.Fusion(plan, **option)  # type: ignore[arg-type]
    plan.save(tmp_path / "plan")
    centre = ["center", str(tmp_path / "plan" / "center.json"), "--broker", "mqtts://127.0.0.1:1"]
    for asked in (["--gate", "1e-3"], ["--keep"]):
        assert run([*centre, "--cert", str(tmp_path), "--out", str(tmp_path / "out.sqlite"), *asked]) == 2
        error = capsys.readouterr().err
        assert f"{asked[0]}:" in error
        assert "very many agents" in error
    assert not (tmp_path / "out.sqlite").exists()


def test_row_by_row_and_from_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    network = STREAMS["mixed sizes"]
    as_stacks(monkeypatch)
    plan = vn.design(network)
    sent = _sent(plan, np.random.default_rng(1).standard_normal((12, network.N)))
    sent[4, 1:3] = np.nan
    sent[6] = np.nan
    fusion = vn.Fusion(plan)
    whole = fusion.estimate(sent)
    content = seal(centre_document(plan.messages))
    read = centre_from_bytes(content, Path("center.json"))
    assert isinstance(read, SumModel)
    assert same_messages(plan.messages, read, exactly=True)
    nearly = replace(read, noise=read.noise * (1 + 1e-9))
    assert same_messages(plan.messages, nearly)
    assert not same_messages(plan.messages, nearly, exactly=True)
    assert not same_messages(plan.messages, replace(read, noise=read.noise * 1.1))
    assert not same_messages(replace(read, step=60.0), replace(read, step=61.0))
    assert not same_messages(plan.messages, replace(read, labels=(*read.labels[1:], "other")))
    again = vn.Fusion(read)
    assert np.array_equal(again.estimate(sent).public, whole.public)
    follower = again.follow()
    blocks = np.concatenate([follower.add(sent[:5]).public, follower.add(sent[5:]).public])
    assert np.allclose(blocks, whole.public, rtol=1e-13)
    names, starts = network.agents, fusion.model.blocks
    for t in (0, 1, 2, 3, 4, 5, 7):
        messages = {
            name: sent[t, starts.rows(place)]
            for place, name in enumerate(names)
            if np.all(np.isfinite(sent[t, starts.rows(place)]))
        }
        one = again.update(messages, row=t + 1)
        assert np.allclose(one.public, whole.public[t], rtol=1e-12)
    with pytest.raises(InvalidReading, match="not taken apart"):
        again.update(messages, row=3)
    with pytest.raises(InvalidRequest, match="looking back"):
        again.smooth(sent, lag=2)
    damaged = content.replace(b'"follow": {"shape": [4, 4]', b'"follow": {"shape": [2, 8]')
    assert damaged != content
    with pytest.raises(vn.InvalidPlan, match="checksum"):
        centre_from_bytes(damaged, Path("center.json"))


def test_forged_centre_files_are_refused_or_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    as_stacks(monkeypatch)
    plan = vn.design(STREAMS["mixed sizes"])
    document = centre_document(plan.messages)
    path, nothing = Path("center.json"), np.zeros((3, sum(plan.sent.values())))
    flat = "AAAAAAAA8D8="  # 1.0
    for key, value, complaint in (
        ("agents", 10**9, "number of agents"),
        ("agents", [*document["agents"], "more"], "one for each of"),
        ("public", [], "public rows"),
        ("numbers", {"shape": [1], "data": flat}, "one for each of"),
        ("stacks", document["stacks"][:-1], "every agent once"),
        ("sums", document["sums"] | {"follow": {"shape": [1], "data": "!"}}, "base64"),
        ("sums", document["sums"] | {"start_mean": {"shape": [], "data": flat}}, "expected shape"),
        ("sums", document["sums"] | {"rows": {"shape": [-1, 4], "data": flat}}, "bytes"),
        ("sums", document["sums"] | {"follow": packed(2 * np.eye(4))}, "shares that forget"),
        ("sums", document["sums"] | {"floor": packed(-np.eye(2))}, "floor: expected"),
        ("sums", document["sums"] | {"noise": packed(-np.eye(4))}, "noise: expected"),
        ("sums", document["sums"] | {"start": packed(-np.eye(4))}, "start: expected"),
        ("sums", document["sums"] | {"entering": packed(np.triu(np.ones((4, 4))))}, "a symmetric matrix"),
        ("sums", document["sums"] | {"observe": packed(np.full((4, 4), np.nan))}, "finite"),
    ):
        with pytest.raises(vn.InvalidPlan, match=complaint):
            centre_from_bytes(seal(document | {key: value}), path)
    rng = np.random.default_rng(2)
    content = seal(document)
    for _ in range(60):
        changed = bytearray(content)
        changed[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        with pytest.raises(vn.InvalidPlan):
            centre_from_bytes(bytes(changed), path)
    assert np.all(np.isfinite(vn.Fusion(centre_from_bytes(content, path)).estimate(nothing).public))


def packed(array: Array) -> dict[str, object]:
    """An array as the file keeps it."""
    content = base64.b64encode(np.asarray(array, "<f8").tobytes()).decode()
    return {"shape": list(array.shape), "data": content}
