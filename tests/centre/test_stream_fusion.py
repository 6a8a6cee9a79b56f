"""The centre's filter on streams, against one linear solve over a whole window, the steady state, and simulation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.memories import sent_row_by_row
from helpers.stream_networks import random_stream as many_agents
from helpers.streams import random_sanitizers, random_stream, simulated, window
from veilnet._core.missed import MISSED
from veilnet._core.types import Array, Booleans
from veilnet.bounds.streams.knowledge import stream_knowledge
from veilnet.centre.streams.gains import Gains
from veilnet.centre.streams.model import Pattern, StreamModel, stream_model
from veilnet.centre.streams.steps import Step
from veilnet.centre.streams.tracking import Tracker
from veilnet.verdict.streams.share_filters import share_filters

ROWS = 9


def some_gaps(fusion: vn.Fusion, seed: int, rows: int = ROWS) -> tuple[Booleans, dict[str, Booleans]]:
    """(numbers that arrive (T, M), agent -> rows it missed), a third of everything gone."""
    rng = np.random.default_rng([seed, 5])
    missed = {agent: rng.random(rows) < 0.15 for agent in fusion.agents}
    heard = [
        np.repeat((rng.random(rows) > 0.2) & ~missed[agent], count).reshape(rows, count)
        for agent, count in fusion.sent.items()
    ]
    return np.concatenate(heard, axis=1), missed


def with_gaps(fusion: vn.Fusion, z: Array, heard: Booleans, missed: dict[str, Booleans]) -> dict[str, Array]:
    """Messages per agent, not a number where lost, infinite where missed."""
    gappy = np.where(heard, z, np.nan)
    found, end = {}, 0
    for agent, count in fusion.sent.items():
        start, end = end, end + count
        found[agent] = gappy[:, start:end].copy()
        found[agent][missed[agent]] = MISSED
    return found


@pytest.mark.parametrize("kind", ["white", "coloured", "joint", "first", "coloured joint first"])
@pytest.mark.parametrize("noise", [0.3, 0.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_any_gaps_against_one_linear_solve(kind: str, noise: float, seed: int) -> None:
    network = random_stream(seed, coloured="coloured" in kind, joint="joint" in kind, first="first" in kind)
    sanitizers = random_sanitizers(network, seed, noise=noise)
    fusion = vn.Fusion(stream_model(network, sanitizers))
    heard, missed = some_gaps(fusion, seed)
    whole = window(network, sanitizers, ROWS, missed)
    rng = np.random.default_rng(seed)
    sources = np.linalg.cholesky(whole.covariance + 1e-12 * np.eye(len(whole.covariance)))
    z = whole.z_mean + whole.z @ (sources @ rng.normal(size=len(sources)))
    messages = with_gaps(fusion, z, heard, missed)
    forward = fusion.estimate(messages)
    for lag, found in ((0, forward), (2, fusion.smooth(messages, lag=2)), (ROWS, fusion.smooth(messages))):
        for t in range(ROWS):
            known = heard & (np.arange(ROWS) <= t + lag)[:, None]
            gain, constant, left = whole.told(network.U, [t], known)
            deviation = np.sqrt(left[0, 0])
            expected = constant + gain @ z[known]
            assert abs(found.public[t, 0] - expected[0]) < 1e-6 * deviation
            assert found.covariance[t, 0, 0] == pytest.approx(left[0, 0], rel=1e-6)
    for t, missing in enumerate(forward.missing):
        silent = [a for a, z_a in messages.items() if not np.isfinite(z_a[t]).all()]
        assert list(missing) == silent


@pytest.mark.parametrize("coloured", [False, True])
def test_the_plain_sum_of_shares_when_nothing_is_missing(coloured: bool) -> None:
    """Share filters: once the start is forgotten, the estimate is what the filter on raw readings says.

    To 1e-9 for shares that are not rounded, and within their grid for what agents send.
    """
    network = random_stream(3, coloured=coloured)
    plan = vn.design(network)
    _, y = simulated(network, 600, np.random.default_rng(0))
    summed = plain_sum(network, y)
    exact = {a: s.replace(grid=None) for a, s in plan.sanitizers.items()}
    shares = {a: sent_row_by_row(s, y[a]) for a, s in exact.items()}
    found = vn.Fusion(stream_model(network, exact)).estimate(shares)
    assert np.max(np.abs(found.public[300:] - summed[300:])) < 1e-9 * np.std(summed)
    deviation = np.sqrt(found.covariance[-1, 0, 0])
    sent = vn.Fusion(plan).estimate({a: s.stream().sanitize(y[a]) for a, s in plan.sanitizers.items()})
    assert sent.missing == ((),) * 600
    assert np.max(np.abs(sent.public[300:] - summed[300:])) < 0.01 * deviation


def plain_sum(network: vn.Network, y: dict[str, Array]) -> Array:
    """U x̂ of the stationary Kalman filter on raw readings, by plain iteration: what shares add up to."""
    dynamics, colour = network.dynamics, network.colour
    assert dynamics is not None
    A, H, Q, R = dynamics.transition, network.H, dynamics.noise, network.R.matrix()
    if colour is not None:
        L, N = network.L, network.N
        A = np.block([[A, np.zeros((L, N))], [np.zeros((N, L)), colour.memory]])
        Q = np.block([[Q, np.zeros((L, N))], [np.zeros((N, L)), colour.innovation]])
        H, R = np.concatenate([H, np.eye(N)], axis=1), colour.floor
    P = np.eye(len(A))
    for _ in range(3000):
        P = A @ P @ A.T + Q
        K = np.linalg.solve(H @ P @ H.T + R, H @ P).T
        P = P - K @ H @ P
    stacked = np.concatenate([y[a] for a in network.agents], axis=1)
    x, rows = np.zeros(len(A)), []
    for reading in stacked - network.offset - network.H @ dynamics.mean:
        x = A @ x
        x = x + K @ (reading - H @ x)
        rows.append(network.U @ (dynamics.mean + x[: network.L]))
    return np.array(rows)


def test_row_by_row_block_and_late_messages_agree() -> None:
    network = random_stream(4, coloured=True)
    sanitizers = random_sanitizers(network, 4)
    model = stream_model(network, sanitizers)
    fusion = vn.Fusion(model)
    heard, missed = some_gaps(fusion, 4, rows=30)
    z = np.random.default_rng(4).normal(size=heard.shape) + model.expected
    messages = with_gaps(fusion, z, heard, missed)
    block = fusion.estimate(messages)
    late = vn.Fusion(model, history=12)
    for t in range(30):
        row = {a: m[t] for a, m in messages.items() if np.isfinite(m[t]).all()}
        said = [a for a, m in messages.items() if np.isposinf(m[t]).all()]
        found = fusion.update(row, missed=said)
        np.testing.assert_allclose(found.public, block.public[t], rtol=1e-9)
        np.testing.assert_allclose(found.covariance, block.covariance[t], rtol=1e-9)
        assert found.missing == block.missing[t]
        # the same, the last agent's news always ten rows late
        late.update({a: v for a, v in row.items() if a != "a2"}, missed=[a for a in said if a != "a2"])
        if t >= 10:
            z_late = messages["a2"][t - 10]
            if np.isfinite(z_late).all():
                late.update({"a2": z_late}, row=t - 9)
            elif np.isposinf(z_late).all():
                late.update({}, missed=["a2"], row=t - 9)
    for t in range(20, 30):
        z_late = messages["a2"][t]
        news = {"a2": z_late} if np.isfinite(z_late).all() else {}
        found = late.update(news, missed=["a2"] if np.isposinf(z_late).all() else [], row=t + 1)
    np.testing.assert_allclose(found.public, block.public[-1], rtol=1e-9)
    np.testing.assert_allclose(found.covariance, block.covariance[-1], rtol=1e-9)


def test_passing_rows_in_which_nothing_came() -> None:
    network = random_stream(5)
    model = stream_model(network, random_sanitizers(network, 5))
    total = model.blocks.total
    one, other = vn.Fusion(model), vn.Fusion(model)
    z = {a: np.full(n, 0.3) for a, n in one.sent.items()}
    one.update(z)
    one.update({})
    one.update({})
    expected = one.update(z)
    other.update(z)
    np.testing.assert_array_equal(other.update(z, row=4).public, expected.public)
    block = np.full((4, total), np.nan)
    block[[0, 3]] = 0.3
    np.testing.assert_allclose(one.estimate(block).public[-1], expected.public, rtol=1e-12)


def test_what_update_refuses() -> None:
    network = random_stream(6)
    fusion = vn.Fusion(stream_model(network, random_sanitizers(network, 6)), history=3)
    z = {a: np.zeros(n) for a, n in fusion.sent.items()}
    for _ in range(6):
        fusion.update({"a0": z["a0"]})
    with pytest.raises(
        vn.InvalidReading, match="row: 2 comes 4 rows late, and only the last 3 can still be changed"
    ):
        fusion.update({"a1": z["a1"]}, row=2)
    with pytest.raises(vn.InvalidReading, match="'a0' sent row 5 before"):
        fusion.update({"a0": z["a0"]}, row=5)
    with pytest.raises(vn.InvalidReading, match="'a0' sent a message too"):
        fusion.update({"a0": z["a0"]}, missed=["a0"])
    with pytest.raises(vn.InvalidRequest, match="missed"):
        fusion.update({}, missed=["nobody"])
    with pytest.raises(vn.InvalidRequest, match="row: expected a whole number from 1 on"):
        fusion.update({}, row=0)
    with pytest.raises(vn.InvalidRequest, match="lag: expected a whole number"):
        fusion.smooth(z, lag=-1)
    with pytest.raises(vn.InvalidReading, match="use estimate for a block"):
        fusion.update({"a0": np.zeros((3, fusion.sent["a0"]))})
    rows = vn.Fusion(vn.design(network.one_row))
    with pytest.raises(vn.InvalidRequest, match="update: the plan is for independent rows"):
        rows.update({})
    with pytest.raises(vn.InvalidRequest, match="smooth"):
        rows.smooth({})


@pytest.mark.parametrize("coloured", [False, True])
def test_a_simulated_stream_has_the_errors_that_are_said(coloured: bool) -> None:
    """20,000 rows through agents and centre, and 2,000 of which a tenth is lost and a tenth missed.

    Errors are correlated over rows: deviations of their mean square are judged by blocks (false alarm about 1e-5).
    """
    network = random_stream(7, coloured=coloured)
    plan = vn.design(network)
    rng = np.random.default_rng(7)
    fusion = vn.Fusion(plan)
    for rows, gaps in ((20_000, 0.0), (2000, 0.1)):
        x, y = simulated(network, rows, rng)
        truth = x @ network.U.T
        z = {}
        for agent, sanitizer in plan.sanitizers.items():
            readings = y[agent].copy()
            readings[rng.random(len(readings)) < gaps] = np.nan
            z[agent] = sanitizer.stream().sanitize(readings)
            lost = rng.random(len(readings)) < gaps
            z[agent][lost] = np.nan
        for found in (fusion.estimate(z), fusion.smooth(z, lag=3)):
            ratio = (found.public - truth)[:, 0] ** 2 / found.covariance[:, 0, 0]
            means = ratio.reshape(50, -1).mean(axis=1)
            assert abs(means.mean() - 1) < 5 * means.std() / np.sqrt(50)


def test_the_steady_error_is_the_promised_one() -> None:
    """The filter's own recursion ends where the Riccati route of the bounds does, grid included to 1e-5."""
    for seed in range(5):
        network = random_stream(seed, coloured=seed % 2 == 1)
        plan = vn.design(network)
        fusion = vn.Fusion(plan)
        z = {a: np.zeros((400, n)) for a, n in fusion.sent.items()}
        found = fusion.estimate(z)
        promised = network.U @ vn.crlb(network, plan.sanitizers) @ network.U.T
        np.testing.assert_allclose(found.covariance[-1], promised, rtol=1e-5)
        assert found.set_of_row[-1] == found.set_of_row[-100]  # settled: no more work per row
        hindsight = fusion.smooth(z, lag=60)
        assert hindsight.covariance[200, 0, 0] <= found.covariance[200, 0, 0] * (1 + 1e-9)


def test_a_start_of_which_nothing_is_known() -> None:
    """A random walk without a prior: not estimable before anything came, then as least squares has it."""
    network = vn.Network(
        observe={"a": [[1.0]], "b": [[1.0]]},
        noise=[1.0, 4.0],
        public=[[1.0]],
        private={"g": [[1.0]]},
        dynamics=vn.Dynamics(1.0, 0.25),
    )
    raw = {a: vn.Sanitizer([[0.5, 0.0]], memory=vn.Memory(0.5, [[1.0]]), agent=a) for a in "ab"}
    fusion = vn.Fusion(stream_model(network, raw))
    nothing = fusion.update({})
    assert np.isnan(nothing.public).all()
    assert not nothing.estimable.any()
    assert np.isinf(nothing.covariance).all()
    # memories have run for a row that nobody heard of, so that the second row is no reading by itself
    assert fusion.update({"a": [1.0], "b": [2.0]}).estimable.all()
    readings = np.array([[2.0, 4.0], [3.0, 4.0], [1.0, 2.0]])
    state, sent = np.zeros(2), []
    mean, variance = 0.0, np.inf
    for row in readings:
        state = 0.5 * state + row
        sent.append(0.5 * state)
        both = (row[0] + row[1] / 4) / 1.25  # least squares of one row, of variance 0.8
        weight = 1.0 if np.isinf(variance) else (variance + 0.25) / (variance + 0.25 + 0.8)
        mean, variance = mean + weight * (both - mean), 0.8 * weight
        found = fusion.estimate(np.array(sent))
        np.testing.assert_allclose(found.public[-1], mean, rtol=1e-7)
        np.testing.assert_allclose(found.covariance[-1], variance, rtol=1e-7)


def test_what_nobody_told_of_is_not_estimable_however_large_memories_are() -> None:
    """Two random walks without a prior, and memories of a million times the readings."""
    network = vn.Network(
        {"a": [[1.0, 0.0]], "b": [[0.0, 1.0]]},
        1.0,
        public={"first": [1.0, 0.0], "second": [0.0, 1.0]},
        private={"g": [1.0, 1.0]},
        dynamics=vn.Dynamics(np.eye(2), np.eye(2)),
    )
    large = {a: vn.Sanitizer([[1.0, 0.0]], memory=vn.Memory(0.5, [[1e6]]), agent=a) for a in "ab"}
    fusion = vn.Fusion(stream_model(network, large))
    assert fusion.update({"a": [1e6]}).estimable.tolist() == [True, False]
    assert fusion.update({"a": [1e6], "b": [1e6]}).estimable.tolist() == [True, True]


def test_saved_and_loaded(tmp_path: Path) -> None:
    network = random_stream(8, coloured=True)
    plan = vn.design(network)
    plan.save(tmp_path / "plan")
    loaded = vn.Fusion.load(tmp_path / "plan/center.json")
    z = {a: np.random.default_rng(1).normal(size=(40, n)) for a, n in loaded.sent.items()}
    np.testing.assert_array_equal(loaded.estimate(z).public, vn.Fusion(plan).estimate(z).public)
    assert vn.Plan.load(tmp_path / "plan").network.is_stream
    document = json.loads((tmp_path / "plan/center.json").read_text())
    assert set(document["agents"]["a0"]) == {"observe", "expected", "memory", "start"}
    assert "private" not in document


@pytest.mark.parametrize("key", ["state", "start", "floor", "public", "agents"])
def test_a_changed_centre_file_is_refused(tmp_path: Path, key: str) -> None:
    from veilnet.io._sealed import seal

    vn.design(random_stream(9)).save(tmp_path / "plan")
    path = tmp_path / "plan/center.json"
    document = json.loads(path.read_text())
    path.write_text(path.read_text().replace("0", "1", 1))
    with pytest.raises(vn.InvalidPlan):
        vn.Fusion.load(path)
    del document["checksum"]
    broken = {
        "state": {"transition": [[1.0]], "noise": [[1.0]], "drive": [1.0]},
        "agents": {},
        "floor": [[-1.0]],
    }
    document[key] = broken.get(key, [])
    path.write_bytes(seal(document))
    with pytest.raises(vn.InvalidPlan):
        vn.Fusion.load(path)


@pytest.mark.parametrize("spans", [[(0, 1), (0, 1)], [(1, 3), (2, 4)], [(2, 2)], [(0, 10**6)], [(-2, 1)]])
def test_memories_that_share_the_state_are_refused(tmp_path: Path, spans: list[tuple[int, int]]) -> None:
    from veilnet.io._sealed import seal

    vn.design(random_stream(9)).save(tmp_path / "plan")
    path = tmp_path / "plan/center.json"
    document = json.loads(path.read_text())
    del document["checksum"]
    agents = list(document["agents"].values())
    assert len(agents) >= 2
    for agent in agents:
        agent.pop("memory", None)
        agent.pop("start", None)
    for agent, span in zip(agents, spans, strict=False):
        agent["memory"] = span
    path.write_bytes(seal(document))
    with pytest.raises(vn.InvalidPlan, match="a part of the state of its own"):
        vn.Fusion.load(path)


def test_verify_refuses_another_centre(tmp_path: Path) -> None:
    """A well-formed and sealed file that is not what the plan implies: of other noise, or of single rows."""
    from veilnet.io._sealed import seal

    network = random_stream(10)
    vn.design(network).save(tmp_path / "plan")
    path = tmp_path / "plan/center.json"
    document = json.loads(path.read_text())
    del document["checksum"]
    vn.design(network.one_row).save(tmp_path / "rows")
    of_rows = json.loads((tmp_path / "rows/center.json").read_text()) | {"plan": document["plan"]}
    del of_rows["checksum"]
    changed = json.loads(json.dumps(document))
    changed["floor"][0][0] += 0.01
    for other in (changed, of_rows):
        path.write_bytes(seal(other))
        with pytest.raises(vn.InvalidPlan, match="is not the centre's part of the plan"):
            vn.Plan.load(tmp_path / "plan")
    path.write_bytes(seal(document))
    assert vn.Plan.load(tmp_path / "plan").network.is_stream


@pytest.mark.parametrize(("agents", "noise", "rows"), [(12, 1.0, 40), (2, 300.0, 2000)])
def test_gains_settle_at_the_steady_error(agents: int, noise: float, rows: int) -> None:
    """Rounding of 102 numbers, some far better known than others, changes errors for ever; and where readings are
    poor, each row changes them little for long. Oracle: the bounds.
    """
    network = many_agents(1, sizes=(3,) * agents, parameters=8, public_rows=2, radius=0.97)
    network = network.replace(noise=noise * network.R.matrix())
    sanitizers = share_filters(network).sanitizers
    gains = Gains(stream_model(network, sanitizers))
    everybody = Pattern.of(*np.zeros((2, network.S), bool))
    step = gains.first(everybody)
    for _ in range(rows):
        step = gains.after(step, everybody)
    assert step.settled
    steady = stream_knowledge(network, sanitizers).error(network.U, hindsight=False)
    np.testing.assert_allclose(step.public, steady, rtol=1e-8, atol=1e-8 * np.max(steady))


@pytest.mark.parametrize("coloured", [False, pytest.param(True, marks=pytest.mark.long)])
def test_gaps_far_from_the_start_are_small_changes_and_exact(coloured: bool) -> None:
    """Seldom gaps, missed readings and an agent that falls silent for long, once the filter has settled.

    Oracles: one linear solve over the whole window, and a textbook filter that carries the whole covariance.
    """
    rows, network = 40, random_stream(4, parameters=2, agents=4, coloured=coloured, first=True)
    sanitizers = random_sanitizers(network, 4)
    model = stream_model(network, sanitizers)
    fusion = vn.Fusion(model)
    rng = np.random.default_rng(7)
    missed = {agent: np.zeros(rows, bool) for agent in fusion.agents}
    missed["a3"][[33, 36]] = missed["a2"][36] = missed["a0"][38] = True  # of a0 the memory is not drawn
    there = rng.random((rows, 4)) > 0.06
    there[:30] = True
    there[2:34, 1] = False  # long enough for a steady state of its own; then it is heard again
    there &= ~np.array([missed[agent] for agent in fusion.agents]).T
    heard = np.repeat(there, model.blocks.sizes, axis=1)
    whole = window(network, sanitizers, rows, missed)
    root = np.linalg.cholesky(whole.covariance + 1e-12 * np.eye(len(whole.covariance)))
    z = whole.z_mean + whole.z @ (root @ rng.normal(size=len(root)))
    messages = with_gaps(fusion, z, heard, missed)
    found, back = fusion.estimate(messages), fusion.smooth(messages, lag=3)
    for t in (31, 34, 36, 38):
        for lag, each in ((0, found), (3, back)):
            known = heard & (np.arange(rows) <= t + lag)[:, None]
            gain, constant, left = whole.told(network.U, [t], known)
            expected = constant + gain @ z[known]
            assert abs(each.public[t, 0] - expected[0]) < 1e-6 * np.sqrt(left[0, 0])
            assert each.covariance[t, 0, 0] == pytest.approx(left[0, 0], rel=1e-6)
    tracked = Tracker(model, Gains(model)).advance(fusion.stacked(messages), pulls=True)
    steps = [step for step in tracked.steps if isinstance(step, Step)]
    small = [step for step in steps if step.near is not None]
    assert len(small) > 15
    assert any(step.near.row.pattern != model.everybody for step in small if step.near)
    for t, (step, error) in enumerate(zip(steps, _textbook(model, steps), strict=True)):
        scale = np.sqrt(np.diag(error)) + 1e-9
        assert np.max(np.abs(step.error - error) / np.outer(scale, scale)) < 1e-6, t


def _textbook(model: StreamModel, steps: list[Step]) -> list[Array]:
    """Error covariances by P - P C'(C P C' + R)^-1 C P, row after row."""
    found: list[Array] = []
    for step in steps:
        row = model.row(step.pattern)
        move, new = row.transition, row.noise
        before = move @ found[-1] @ move.T + new if found else model.first(step.pattern)[1]
        half = before @ row.observe.T
        found.append(before - half @ np.linalg.solve(row.observe @ half + row.floor, half.T))
    return found


@pytest.mark.parametrize("gate", [None, 1e-4])
def test_rows_taken_together_are_those_row_by_row(gate: float | None) -> None:
    """After a start, a gap, a fault that is left out and a change that is believed, and where a tenth of all is lost.

    Oracle: one row at a time.
    """
    network = random_stream(4, parameters=3, agents=4, coloured=True, joint=True)
    sanitizers = random_sanitizers(network, 4)
    model = stream_model(network.replace(public={"u": network.U, "v": np.eye(1, 3)}), sanitizers)
    _, readings = simulated(network, 400, np.random.default_rng(4))
    messages = {
        agent: np.array(each.stream(rng=np.random.default_rng([4, place])).sanitize(readings[agent]))
        for place, (agent, each) in enumerate(sanitizers.items())
    }
    for row, agent in ((90, "a1"), (91, "a2"), (200, "a1")):
        messages[agent][row] = np.nan
    messages["a0"][150:153] += 40 * np.std(messages["a0"], axis=0)
    for place, each in enumerate(messages.values()):
        each[240:][np.random.default_rng([5, place]).random(160) < 0.1] = np.nan
    messages["a3"][300] = MISSED
    block, single = vn.Fusion(model, gate=gate), vn.Fusion(model, gate=gate)
    whole = block.estimate(messages)
    for t in range(400):
        row = {a: m[t] for a, m in messages.items() if np.isfinite(m[t]).all()}
        found = single.update(row, missed=["a3"] if t == 300 else [])
        np.testing.assert_allclose(found.public, whole.public[t], atol=1e-8 * whole.deviation[t].max())
        np.testing.assert_allclose(found.covariance, whole.covariance[t], rtol=1e-8)
        assert found.contradicting == whole.contradicting[t]
    assert any(whole.contradicting) == (gate is not None)
    tracker = Tracker(model, Gains(model))
    steps = tracker.advance(block.stacked(messages)).steps
    together = [not isinstance(step, Step) for step in steps]
    assert sum(together[:240]) > 30  # they did go that way, while errors fade
    assert sum(together[240:]) > 100  # and where anybody may be missing
