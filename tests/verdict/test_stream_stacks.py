"""Streams of very many agents, by stacks: the same figures as with all memories in one state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.many_streams import STREAMS, as_stacks
from helpers.stream_networks import random_stream, window_errors
from veilnet._core.errors import InvalidNetwork, InvalidRequest
from veilnet.agent.mechanisms import Mechanisms
from veilnet.bounds.streams import steady_stacks
from veilnet.bounds.streams.steady_stacks import SteadyOfStacks
from veilnet.model import stream_size
from veilnet.verdict.streams.exact_test import StreamVerdict


@pytest.mark.parametrize("name", STREAMS)
def test_stacks_find_what_one_state_of_all_memories_finds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = STREAMS[name]
    joint = vn.check(network)
    planned = vn.design(network)
    limit = vn.privacy_limit(joint.network)
    worst = vn.privacy(network, planned, worst=True)
    as_stacks(monkeypatch)
    stacked = vn.check(network)
    plan = vn.design(network)
    assert isinstance(plan.sanitizers, Mechanisms)
    assert isinstance(stacked, StreamVerdict)
    assert isinstance(stacked.known.steady, SteadyOfStacks)
    assert dict(plan.sent) == dict(planned.sent)
    assert dict(plan.kept) == dict(planned.kept)
    assert plan.utility == planned.utility == 0.0
    for private in network.private:
        assert stacked.ceiling[private] == pytest.approx(joint.ceiling[private], rel=1e-10, abs=1e-12)
        assert plan.privacy[private] == stacked.ceiling[private]
        assert stacked.limit[private] == pytest.approx(limit[private], rel=1e-10)
    # the sanitizers of one state, evaluated by stacks, tell the same
    assert vn.privacy(network, planned) == pytest.approx(dict(planned.privacy), rel=1e-10, abs=1e-12)
    assert vn.privacy(network, plan, worst=True) == pytest.approx(worst, rel=1e-9, abs=1e-12)
    assert vn.utility(network, planned) == 0.0
    assert stacked.hidden.shape == joint.hidden.shape
    assert np.allclose(stacked.hidden @ stacked.hidden.T, joint.hidden @ joint.hidden.T, atol=1e-7)
    assert stacked.shares.kept == pytest.approx(joint.shares.kept, rel=1e-6)


@pytest.mark.parametrize("name", ["mixed sizes", "sending readings", "singular"])
def test_agents_send_the_same_up_to_a_change_of_basis(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = STREAMS[name]
    joint = vn.design(network)
    as_stacks(monkeypatch)
    stacked = vn.design(network)
    rng = np.random.default_rng(1)
    for agent in network.agents:
        one, other = joint.sanitizers[agent], stacked.sanitizers[agent]
        assert np.array_equal(one.offset, other.offset)
        rows = rng.standard_normal((60, one.readings))
        sent, again = (_sent(each, rows) for each in (one, other))
        back = np.linalg.lstsq(again, sent, rcond=None)[0]
        assert np.max(np.abs(again @ back - sent)) < 1e-7 * np.max(np.abs(sent))


def _sent(sanitizer: vn.Sanitizer, rows: np.ndarray) -> np.ndarray:
    """What leaves the agent, without its grid."""
    state, found = np.zeros(sanitizer.order), []
    for row in rows:
        if sanitizer.memory is not None:
            state = sanitizer.memory.transition @ state + sanitizer.memory.gain @ row
        found.append(sanitizer.compression @ np.concatenate([state, row]))
    return np.array(found)


def test_a_window_of_rows_as_one_gaussian_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    network = STREAMS["quickly forgotten"]
    as_stacks(monkeypatch)
    plan = vn.design(network)
    rows = network.private["g0"]
    _, told = window_errors(network, plan.sanitizers, rows, 24, 12)
    _, raw = window_errors(network, {}, rows, 24, 12)
    assert plan.privacy["g0"] == pytest.approx(np.trace(told) / np.trace(raw) - 1, rel=1e-7)


def test_noise_that_agents_add_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    network = STREAMS["mixed sizes"]
    noisy = {
        agent: each.replace(noise=0.3 * np.eye(each.sent))
        for agent, each in vn.design(network).sanitizers.items()
    }
    of_joint = vn.privacy(network, noisy)
    as_stacks(monkeypatch)
    assert vn.privacy(network, noisy) == pytest.approx(of_joint, rel=1e-9)
    with pytest.raises(InvalidRequest, match="send something else"):
        vn.utility(network, noisy)


def test_what_is_not_computed_for_so_many_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    network = STREAMS["one public row"]
    as_stacks(monkeypatch)
    plan, verdict = vn.design(network), vn.check(network)
    assert isinstance(verdict, StreamVerdict)
    assert plan.privacy_now == {}
    assert verdict.ceiling_now == {}
    assert "at least as large as with hindsight" in str(verdict)
    sentence = "Before later rows arrive, every error is at least as large as with hindsight"
    assert sentence in str(plan)
    assert sentence not in str(vn.design(STREAMS["one public row"].one_row))
    with pytest.raises(InvalidRequest, match="at least the error with hindsight"):
        vn.privacy(network, plan, when="now")
    with pytest.raises(InvalidRequest, match="silencing one agent after another"):
        _ = verdict.blocking
    for asked in ({"privacy": 5.0}, {"utility_loss": 0.1}):
        with pytest.raises(InvalidRequest, match="agents times parameters"):
            vn.design(network, **asked)
    with pytest.raises(InvalidRequest, match="agents times parameters"):
        vn.frontier(network, [2.0])


def test_noise_that_couples_too_many_agents_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidNetwork, match="only streams with white noise independent between agents"):
        vn.Network(
            np.random.default_rng(0).standard_normal((3000, 2, 2)),
            vn.ColouredNoise(memory=0.5, innovation=0.1, floor=0.1),
            [[1.0, 0.0]],
            {"g": [[0.0, 1.0]]},
            dynamics=vn.Dynamics(0.9 * np.eye(2), np.eye(2)),
        )
    monkeypatch.setattr(stream_size, "_LARGEST", 6)
    with pytest.raises(InvalidRequest, match="its noise couples agents, and only streams with white noise"):
        vn.check(random_stream(0, joint=True))
    with pytest.raises(InvalidRequest, match="its noise is coloured, and only streams with white noise"):
        vn.check(random_stream(0, noise="coloured"))


def test_a_sample_of_the_agents_says_how_many_frequencies_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    network = STREAMS["mixed sizes"]
    ceiling = vn.check(network).ceiling
    as_stacks(monkeypatch)
    asked: list[int] = []
    summed = steady_stacks.sums_at

    def counted(sanitizers: Mechanisms, *others: Any) -> Any:
        asked.append(sum(stack.count for stack in sanitizers.stacks))
        return summed(sanitizers, *others)

    monkeypatch.setattr(steady_stacks, "sums_at", counted)
    monkeypatch.setattr(steady_stacks, "_SAMPLE", 1)
    assert vn.check(network).ceiling == pytest.approx(ceiling, rel=1e-10)
    assert set(asked) == {network.S, len(set(network.blocks.sizes))}
    assert asked.count(network.S) <= 2


@pytest.mark.parametrize("seed", range(6))
def test_what_nothing_renews_is_refused_by_name(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of few agents, and before anything is computed that has no steady state."""
    rng = np.random.default_rng(seed)
    network = vn.Network(
        {f"a{k}": rng.standard_normal((2, 3)) for k in range(4)},
        1.0,
        rng.standard_normal((1, 3)),
        {"g": rng.standard_normal((1, 3))},
        dynamics=vn.Dynamics(np.diag([1.0, 0.5, 0.2]), np.diag([0.0, 1.0, 1.0])),
    )
    as_stacks(monkeypatch)
    with pytest.raises(vn.NotObservable, match="nothing renews x1"):
        vn.check(network)


def test_what_frequencies_do_not_resolve_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two agents tell nothing of one combination of three, which takes 10,000 rows to return."""
    rng = np.random.default_rng(0)
    network = vn.Network(
        {"a": rng.standard_normal((1, 3)), "b": rng.standard_normal((1, 3))},
        1.0,
        rng.standard_normal((1, 3)),
        {"g": rng.standard_normal((1, 3))},
        dynamics=vn.Dynamics(0.9999 * np.eye(3), 1e-4 * np.eye(3)),
    )
    vn.check(network)  # with all memories in one state it is computed
    as_stacks(monkeypatch)
    with pytest.raises(InvalidRequest, match="x changes too slowly from row to row, or rounding"):
        vn.check(network)


@pytest.mark.parametrize("name", ["quickly forgotten", "mixed sizes", "singular"])
@pytest.mark.parametrize("change", [0.5, [[0.5, 0.1], [-0.2, 0.4]]])
def test_changes_are_seen_alike(name: str, change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = STREAMS[name]
    rows = np.eye(drawn.L)[: np.ndim(change) or 1]
    network = drawn.replace(private={"g": vn.Secret(rows, change, lasts="4s")}, step="1s")
    joint = vn.detectability(network, vn.design(network))["g"]
    as_stacks(monkeypatch)
    plan = vn.design(network)
    stacked = plan.detectability["g"]
    assert stacked.mu == pytest.approx(joint.mu, rel=1e-7)
    assert stacked.longest.mu == pytest.approx(joint.longest.mu, rel=1e-7)
    asked = vn.design(network, privacy={"g": vn.Mu(stacked.longest.mu * 1.01)})  # free, and rechecked
    finding = next(each for each in asked.certificate.findings if each.what == "change of g")
    assert finding.found == pytest.approx(stacked.longest.mu, rel=1e-6)


def test_a_change_that_lasts_is_seen_as_well_beside_what_wanders_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of x1, which nobody sends, are counted from spectra as from covariances."""
    secret = vn.Secret(np.array([[1.0, 1.0], [1.0, -1.0]]), np.array([0.4, 0.1]), lasts="5s")
    network = vn.Network(
        observe={"a": np.eye(2), "b": np.eye(2)}, noise=1.0, public={"u": [[0.0, 1.0]]}, private={"g": secret},
        dynamics=vn.Dynamics([[1.0, 0.1], [0.0, 0.5]], [[1.0, 0.7], [0.7, 1.0]]), step="1s",
    )  # fmt: skip
    sends = vn.Sanitizer(np.array([[0.0, 1.0]]), np.array([[0.5]]))
    one_state = vn.detectability(network, {"a": sends, "b": sends})["g"]
    as_stacks(monkeypatch)
    by_sums = vn.detectability(network, {"a": sends, "b": sends})["g"]
    assert one_state.longest.mu > 0.1
    assert by_sums.longest.mu == pytest.approx(one_state.longest.mu, rel=1e-8)
    assert by_sums.mu == pytest.approx(one_state.mu, rel=1e-8)
