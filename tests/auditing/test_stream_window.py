"""A window solved at once against the steady state by doubling, and against simulated streams at a known rate."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from helpers.stream_plans import Kind, noisy_stream_plan, stream_network
from veilnet._core.types import Array
from veilnet.auditing.deployed.deployment import Deployment, deployment
from veilnet.auditing.ledger import Ledger
from veilnet.auditing.measures import privacies
from veilnet.auditing.streams import world as stream_world
from veilnet.auditing.streams.window import Window
from veilnet.auditing.streams.world import StreamTrial, StreamWorld, filtered, forgotten, window_rows
from veilnet.auditing.what_if.repetition import repeated
from veilnet.auditing.world import EstimatedRows, When
from veilnet.bounds.streams.state_space import message_model
from veilnet.plans.plan import make_plan

KINDS: tuple[Kind, ...] = ("white", "joint", "coloured", "dithered", "walk")
WHENS: tuple[When, ...] = ("now", "hindsight")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_long_window_is_the_steady_state(kind: Kind, noise: float) -> None:
    """Two routes with no code in common: one joint normal law of 60 rows, and doubling for ever."""
    network = stream_network(4, kind)
    sanitizers = noisy_stream_plan(network, noise).sanitizers
    known = filtered(network, sanitizers)
    window = Window(network, sanitizers, rows=60, lead=60)
    for rows in (network.U, network.private["g"]):
        for when in WHENS:
            assert window.error(rows, 30, when) == pytest.approx(known.error(rows, when), rel=1e-6)


def test_shorter_windows_tell_less_and_hindsight_tells_more() -> None:
    network = stream_network(7, "coloured")
    sanitizers = noisy_stream_plan(network).sanitizers
    rows = network.private["g"]
    errors = [
        Window(network, sanitizers, size, lead=40).error(rows, size // 2, "hindsight")
        for size in (2, 4, 8, 16)
    ]
    assert errors == sorted(errors, reverse=True)
    window = Window(network, sanitizers, 16, lead=40)
    assert window.error(rows, 8, "hindsight") < window.error(rows, 8, "now")
    assert window.error(rows, 15, "hindsight") == pytest.approx(window.error(rows, 15, "now"), rel=1e-9)


def test_the_weights_of_a_window_are_those_of_its_estimates() -> None:
    network = stream_network(9, "coloured", prior=vn.Prior(covariance=np.eye(3), mean=np.ones(3)))
    sanitizers = noisy_stream_plan(network).sanitizers
    window = Window(network, sanitizers, 10, lead=3)
    messages = window.message_mean + np.random.default_rng(0).standard_normal((4, 10, window.sent))
    for when in WHENS:
        direct = window.estimate(messages, network.U, np.array([6]), when)[:, 0]
        weights = window.filter(network.U, 6, when)
        moved = np.einsum("krs,nrs->nk", weights, messages - window.message_mean)
        assert direct == pytest.approx(moved + window.x_mean[6] @ network.U.T, abs=1e-10)
        assert window.error_of(weights, network.U, 6) == pytest.approx(
            window.error(network.U, 6, when), rel=1e-9
        )


def test_a_memory_longer_than_the_lead_is_no_contradiction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poles at 0.999: hardly anything of what is sent is as young as the window, and the figure says so."""
    network = stream_network(4)
    slow = {
        agent: vn.Sanitizer(np.array([[1.0, 0.0, 0.0]]), [[0.1]], memory=vn.Memory([[0.999]], [[0.3, 0.1]]))
        for agent in network.agents
    }
    assert forgotten(Window(network, slow, 8, lead=8)) > 0.9
    quick = noisy_stream_plan(network).sanitizers
    assert forgotten(Window(network, quick, 40, lead=40)) < 1e-3
    monkeypatch.setattr(stream_world, "long_enough", lambda _, sent: Window(network, sent, 8, lead=8))
    rows = window_rows(StreamWorld(network), slow)
    assert "fail" not in [row.verdict for row in rows]


@pytest.mark.parametrize(("claimed", "verdict"), [(1.0, "ok"), (1.02, "fail"), (0.98, "warn")])
def test_a_steady_state_that_is_off_by_two_percent_is_found(
    claimed: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window that already tells more than a whole stream was said to; one that tells less may be too short."""
    network = stream_network(4)
    found = stream_world.Filtered.error
    monkeypatch.setattr(stream_world.Filtered, "error", lambda *asked: claimed * found(*asked))
    rows = window_rows(StreamWorld(network), noisy_stream_plan(network).sanitizers)
    assert {row.verdict for row in rows} == {verdict}


def test_what_is_known_of_the_beginning_is_forgotten_with_a_lead() -> None:
    """A first x that is known exactly tells nothing of a window that begins later."""
    network = stream_network(4, prior=vn.Prior(covariance=1e-6 * np.eye(3), mean=5 * np.ones(3)))
    free = stream_network(4)
    sanitizers = noisy_stream_plan(free).sanitizers
    rows = network.private["g"]
    late = [Window(each, sanitizers, 6, lead=2).error(rows, 0, "now") for each in (network, free)]
    assert late[0] == pytest.approx(late[1])
    begun = Window(network, sanitizers, 6)
    assert begun.error(rows, 0, "now") < 0.1 * late[0]
    assert begun.x_mean[0] == pytest.approx(5 * np.ones(3))


def test_every_simulated_stream_begins_anew() -> None:
    """Of two equal streams nothing of the first is left in what is sent of the second, whatever the memory."""
    network = stream_network(4)
    slow = {
        agent: vn.Sanitizer([[1.0, 0.0, 0.0]], memory=vn.Memory([[0.99]], [[0.3, 0.1]]), grid=[2.0**-20])
        for agent in network.agents
    }
    readings = np.repeat(np.random.default_rng(0).standard_normal((1, 5, network.N)), 2, axis=0)
    first, second = Deployment(network, slow, slow).release_streams(readings)
    assert first == pytest.approx(second, abs=1e-3)  # numbers are rounded at random
    assert np.ptp(first, axis=0).min() > 1e-2


def scores(kind: Kind, count: int) -> Array:
    """How many deviations mean square errors lie from what is expected, over independent simulations."""
    network = stream_network(2, kind)
    plan = noisy_stream_plan(network)
    running = deployment(plan, None)
    trial = StreamWorld(network).trial(running.planned)
    asked = [
        EstimatedRows("u", "u", network.U, public=True, when="now"),
        EstimatedRows("g", "g", network.private["g"], public=False),
    ]
    found = []
    for seed in range(count):
        drawn = trial.draw(12, np.random.default_rng([seed, 99]))
        sent = running.release_streams(drawn.readings)
        for each in asked:
            error = trial.squares(drawn, sent, each) / len(drawn)
            law = trial.law(each, len(drawn))
            found.append((error - law.mean) / np.sqrt(2 * np.sum(law.eigenvalues**2) / law.count))
    return np.array(found)


@pytest.mark.parametrize("kind", KINDS)
def test_simulated_errors_follow_their_law(kind: Kind) -> None:
    """Standard scores of 24 correlated mean squares: their mean and size stay within limits passed once in 1e5."""
    z = scores(kind, 12)
    assert abs(np.mean(z)) < 4.5 * np.sqrt(2 / 24)  # two figures of one simulation share their draws
    assert np.mean(z**2) < 4.0
    assert np.mean(z**2) > 0.15


def test_correlated_rows_count_for_fewer() -> None:
    """A slow x: errors hardly change from row to row, so that 16 judged rows of a stream are worth a few."""
    slow = vn.Network({"a": [[1.0]]}, 4.0, [[1.0]], {"g": [[1.0]]}, dynamics=vn.Dynamics([[0.99]], [[1e-3]]))
    trial = StreamTrial(Window(slow, {"a": vn.Sanitizer.raw(1)}, 32, lead=32))
    each = EstimatedRows("u", "u", np.eye(1), public=True, when="now")
    law = trial.law(each, 10)
    assert len(law.eigenvalues) == len(trial.at) == 16
    assert law.effective < 0.2 * 10 * 16
    fast = vn.Network({"a": [[1.0]]}, 4.0, [[1.0]], {"g": [[1.0]]}, dynamics=vn.Dynamics([[0.0]], [[1.0]]))
    whole = StreamTrial(Window(fast, {"a": vn.Sanitizer.raw(1)}, 32)).law(each, 10)
    assert whole.effective == pytest.approx(160)


# --- an x that stays


def constant_x(seed: int = 0) -> tuple[vn.Network, vn.Network, dict[str, vn.Sanitizer]]:
    """One x released again and again, as a row network and as a stream that never moves."""
    rng = np.random.default_rng([seed, 8])
    observe = {f"a{k}": rng.standard_normal((2, 3)) for k in range(3)}
    parts = {
        "noise": 0.7,
        "public": rng.standard_normal((1, 3)),
        "private": {"g": rng.standard_normal((1, 3)), "h": rng.standard_normal((2, 3))},
        "prior": vn.Prior(covariance=4 * np.eye(3), mean=np.array([1.0, -2.0, 0.5])),
    }
    row = vn.Network(observe, **parts)
    still = vn.Network(observe, **parts, dynamics=vn.Dynamics(np.eye(3), np.zeros((3, 3))))
    sanitizers = {
        "a0": vn.Sanitizer(rng.standard_normal((1, 2)), [[0.3]]),
        "a1": vn.Sanitizer(rng.standard_normal((2, 2)), 0.2 * np.eye(2)),
        "a2": vn.Sanitizer(rng.standard_normal((1, 2))),
    }
    return row, still, sanitizers


def filtered_row_by_row(network: vn.Network, sanitizers: dict[str, vn.Sanitizer], rows: int) -> Array:
    """The covariance of x after so many rows of messages, by the recursion of Kalman's filter from the first x."""
    model = message_model(network, sanitizers)
    assert model.start is not None
    covariance = model.start
    for row in range(rows):
        if row:
            covariance = model.transition @ covariance @ model.transition.T + model.noise
        news = model.observe @ covariance @ model.observe.T + model.floor
        gain = np.linalg.solve(news, model.observe @ covariance).T
        covariance = covariance - gain @ model.observe @ covariance
    return covariance[: network.L, : network.L]


@pytest.mark.parametrize("releases", [1, 2, 7, 20])
def test_the_ledger_is_a_stream_that_stands_still(tmp_path: object, releases: int) -> None:
    """A = I, Q = 0: what the ledger adds up is the error of the filter, and of a window, after as many rows."""
    row, still, sanitizers = constant_x()
    ledger = Ledger.create(f"{tmp_path}/ledger.jsonl", row, -0.9999)
    plan = make_plan(row, sanitizers, "test")
    left = ledger.record(plan, releases)
    assert left == pytest.approx(privacies(repeated(row, plan.sanitizers, releases)), rel=1e-10)
    window = Window(still, plan.sanitizers, releases)
    last = filtered_row_by_row(still, dict(plan.sanitizers), releases)
    for name, rows in row.private.items():
        once = float(np.trace(rows @ filtered_row_by_row(still, {}, 1) @ rows.T))
        by_window = window.error(rows, releases - 1, "now") / once - 1
        by_filter = float(np.trace(rows @ last @ rows.T)) / once - 1
        assert left[name] == pytest.approx(by_window, rel=1e-8)
        assert left[name] == pytest.approx(by_filter, rel=1e-8)
        # What stays is known as well of the first row as of the last: hindsight and now are one.
        assert window.error(rows, 0, "hindsight") == pytest.approx(
            window.error(rows, releases - 1, "now"), rel=1e-8
        )


def test_an_x_that_stays_has_no_steady_promise() -> None:
    _, still, sanitizers = constant_x()
    with pytest.raises(vn.NotObservable, match="Ledger"):
        vn.privacy(still, sanitizers)
