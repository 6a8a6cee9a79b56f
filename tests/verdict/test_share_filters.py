"""Share filters: nothing is lost, two evaluations agree, and no other mechanism at perfect utility hides more."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from helpers.stream_networks import NOISES, random_stream, random_transition
from veilnet.agent.memory import Memory
from veilnet.bounds.streams.knowledge import stream_knowledge
from veilnet.recheck.stream import StreamRecheck
from veilnet.verdict.streams.exact_test import StreamVerdict, check_stream
from veilnet.verdict.streams.share_filters import Reduction, share_filters

# The long form, 50 models with up to 12 parameters and 18 agents, is benchmarks/stream_models.py.
CASES = [
    (noise, joint, rows, sizes)
    for noise in NOISES
    for joint, rows, sizes in ((False, 1, (3, 2, 4)), (True, 2, (3, 3, 1, 2)), (True, 3, (4, 2, 5)))
]


@pytest.mark.parametrize(("noise", "joint", "rows", "sizes"), CASES)
def test_nothing_public_is_lost_and_two_routes_agree_on_what_is_hidden(
    noise: str, joint: bool, rows: int, sizes: tuple[int, ...]
) -> None:
    network = random_stream(21, noise=noise, joint=joint, sizes=sizes, public_rows=rows, parameters=5)
    known = stream_knowledge(network, share_filters(network).sanitizers)
    raw = stream_knowledge(network, {})
    ratio = np.trace(known.error(network.U, hindsight=False)) / np.trace(
        raw.error(network.U, hindsight=False)
    )
    assert ratio == pytest.approx(1.0, abs=1e-9)
    recheck = StreamRecheck(network, share_filters(network).sanitizers)
    for name, hidden in known.privacy.items():
        assert recheck.growth(network.private[name], hidden) == pytest.approx(hidden, rel=1e-6, abs=1e-6)
    assert recheck.growth_now(network.U, 0.0) == pytest.approx(0.0, abs=1e-7)


def test_the_sum_of_shares_is_the_centres_own_estimate() -> None:
    """Against a plain time-invariant Kalman filter written here, on arbitrary readings."""
    network = random_stream(5, sizes=(3, 2), public_rows=1, radius=0.7)
    assert network.dynamics is not None
    A, Q, H, R = network.dynamics.transition, network.dynamics.noise, network.H, network.R.matrix()
    P = np.eye(network.L)
    for _ in range(400):
        P = A @ P @ A.T + Q
        K = P @ H.T @ np.linalg.inv(H @ P @ H.T + R)
        P = P - K @ H @ P
    readings = np.random.default_rng(0).standard_normal((60, network.N))
    estimate, mine = np.zeros(network.L), []
    for y in readings:
        estimate = A @ estimate + K @ (y - H @ A @ estimate)
        mine.append(network.U @ estimate)
    shares = np.zeros((60, network.S))
    for place, sanitizer in enumerate(share_filters(network).sanitizers.values()):
        assert sanitizer.memory is not None
        state = np.zeros(sanitizer.order)
        for t, y in enumerate(readings[:, network.blocks.rows(place)]):
            state = sanitizer.memory.transition @ state + sanitizer.memory.gain @ y
            shares[t, place] = (sanitizer.compression @ np.concatenate([state, y]))[0]
    # Each share is sent in the unit of the public error's deviation, up to its sign.
    signs = np.sign(np.linalg.lstsq(shares, np.array(mine), rcond=None)[0])
    deviation = float(np.sqrt(network.U @ P @ network.U.T)[0, 0])
    np.testing.assert_allclose(deviation * shares @ signs, mine, atol=1e-8 * float(np.max(np.abs(mine))))


def perfect_mechanism(network: vn.Network, rng: np.random.Generator) -> dict[str, vn.Sanitizer]:
    """The share filters with something more in every message that keeps perfect utility.

    A further number, filtered at random and with noise: the shares are still there, so nothing public is lost.
    """
    found = {}
    for place, (agent, share) in enumerate(share_filters(network).sanitizers.items()):
        count = int(network.blocks.sizes[place])
        extra = int(rng.integers(0, 3))
        order, old = share.order + extra, share.order
        transition, gain = np.zeros((order, order)), rng.standard_normal((order, count))
        if share.memory is not None:
            transition[:old, :old], gain[:old] = share.memory.transition, share.memory.gain
        if extra:
            transition[old:, old:] = random_transition(rng, extra, 0.8)
        rows = np.zeros((share.sent + 1, order + count))
        rows[:-1, :old], rows[:-1, order:] = share.compression[:, :old], share.compression[:, old:]
        rows[-1] = rng.standard_normal(order + count) * float(rng.choice([0.0, 0.3, 1.0]))
        noise = np.diag([*np.zeros(share.sent), rng.uniform(0.1, 5.0)])
        mixing = rng.standard_normal((share.sent + 1, share.sent + 1))
        memory = Memory(transition, gain) if order else None
        found[agent] = vn.Sanitizer(mixing @ rows, mixing @ noise @ mixing.T, memory=memory)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_no_other_mechanism_at_perfect_utility_hides_more(seed: int) -> None:
    """The theorem, tried: at random mechanisms that keep perfect utility, now, with hindsight, in every direction."""
    network = random_stream(seed, joint=bool(seed % 2), noise=NOISES[seed % 3], sizes=(3, 2, 3), radius=0.7)
    rng = np.random.default_rng(seed)
    best = stream_knowledge(network, share_filters(network).sanitizers)
    for _ in range(6):
        other = stream_knowledge(network, perfect_mechanism(network, rng))
        assert other.growth(network.U, hindsight=False) == pytest.approx(0.0, abs=1e-8)
        for hindsight in (False, True):
            gap = best.error(np.eye(network.L), hindsight=hindsight) - other.error(
                np.eye(network.L), hindsight=hindsight
            )
            assert np.linalg.eigvalsh(gap)[0] > -1e-8 * np.max(np.abs(gap)) - 1e-9


def test_leaving_anything_out_of_a_share_costs_utility() -> None:
    """The other half: a share filter with less memory, or with noise, is no longer perfect."""
    network = random_stream(3, sizes=(3, 2), radius=0.8)
    shares = dict(share_filters(network).sanitizers)
    one = shares["a0"]
    assert one.memory is not None
    noisy = vn.Sanitizer(one.compression, 0.01, memory=one.memory)
    assert vn.utility(network, shares | {"a0": noisy}) < -1e-4
    forgetful = Memory(one.memory.transition * 0.9, one.memory.gain)
    assert vn.utility(network, shares | {"a0": vn.Sanitizer(one.compression, memory=forgetful)}) < -1e-4
    assert vn.utility(network, shares | {"a0": vn.Sanitizer.silent(3)}) < -1e-2


def test_an_agent_that_gives_its_readings_away_sends_them_without_a_memory() -> None:
    """One reading, two public rows, and no zero outside the unit circle: the share tells the reading."""
    network = random_stream(2, sizes=(1, 4), public_rows=2)
    shares = share_filters(network)
    assert shares.orders["a0"] == 0
    np.testing.assert_array_equal(shares.sanitizers["a0"].compression, [[1.0]])
    assert 0 < shares.orders["a1"] <= network.L


def test_memory_is_as_short_as_can_be() -> None:
    """Two subsystems that have nothing to do with one another: no agent keeps anything of the other's."""
    rng = np.random.default_rng(1)
    A = np.zeros((5, 5))
    A[:2, :2], A[2:, 2:] = random_transition(rng, 2, 0.8), random_transition(rng, 3, 0.9)
    network = vn.Network(
        {"a": np.eye(5)[:2], "b": np.eye(5)[2:], "c": np.eye(5)[2:4]},
        0.5,
        public=np.eye(5)[:1],
        private={"g": np.eye(5)[1:2], "h": np.eye(5)[3:4]},
        dynamics=vn.Dynamics(A, np.eye(5)),
    )
    shares = share_filters(network)
    assert shares.orders == {"a": 2, "b": 0, "c": 0}
    assert list(shares.ranks) == [1, 0, 0]
    verdict = check_stream(network)
    assert verdict.ceiling["h"] == pytest.approx(verdict.limit["h"], rel=1e-9)
    assert verdict.ceiling["g"] < 0.9 * verdict.limit["g"]
    assert verdict.blocked == ("g",)
    assert list(verdict.blocking["g"]) == ["a"]
    hidden = verdict.hidden
    assert hidden.shape == (5, 3)
    assert np.max(np.abs(hidden[:2])) < 1e-9
    assert "Never revealed by share filters, without loss: x3, x4 and x5." in str(verdict)


def test_minimal_filters_equal_the_ones_they_came_from() -> None:
    """Impulse responses, of a filter with states that nothing reaches or nothing shows."""
    rng = np.random.default_rng(3)
    F = np.zeros((6, 6))
    F[:3, :3], F[3:, 3:] = random_transition(rng, 3, 0.9), random_transition(rng, 3, 0.8)
    K, rows = np.zeros((6, 2)), np.zeros((1, 6))
    K[:3], rows[0, :3] = rng.standard_normal((3, 2)), rng.standard_normal(3)
    F[3, 0] = 1.0  # reached, never shown
    reduction = Reduction(F, rows, 1e-9)
    for ways in (reduction.minimal, reduction.remembered):
        [small] = ways(K[None])
        assert small.order == 3
        for k in range(30):
            expected = rows @ np.linalg.matrix_power(F, k) @ K
            found = small.from_memory[0] @ np.linalg.matrix_power(small.transition[0], k) @ small.gain[0]
            found = found + (small.from_reading[0] if k == 0 else 0.0)
            np.testing.assert_allclose(found, expected, atol=1e-9)


def test_wandering_streams_can_hide_without_bound() -> None:
    """A random walk nobody needs: its share is nothing, so it stays hidden for ever, at no loss."""
    network = vn.Network(
        {"a": [[1.0, 0.0], [0.0, 1.0]], "b": [[1.0, 0.0]]},
        1.0,
        public=[[1.0, 0.0]],
        private={"q": [[0.0, 1.0]]},
        dynamics=vn.Dynamics(np.eye(2), np.eye(2)),
        parameters=["p", "q"],
    )
    verdict = vn.check(network)
    assert isinstance(verdict, StreamVerdict)
    assert verdict.achievable
    assert verdict.ceiling == {"q": np.inf}
    assert verdict.limit == {"q": np.inf}
    plan = vn.design(network)
    assert plan.privacy == {"q": np.inf}
    assert plan.utility == 0.0
    assert plan.certificate.ok
    with pytest.raises(vn.NotObservable, match="never bounds the error of q"):
        vn.crlb(network, plan)


def test_a_stream_of_which_a_part_wanders_off_is_told_in_words() -> None:
    """A random walk that everybody may know, beside parameters that return to their mean: one told of, one not."""
    network = vn.Network(
        {"a": np.eye(3), "b": [[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]]},
        0.5,
        public=[[1.0, 0.0, 0.0]],
        private={"near": [[0.0, 1.0, 0.0]], "far": [[0.0, 0.0, 1.0]]},
        dynamics=vn.Dynamics(np.diag([1.0, 0.5, 0.8]), [[1.0, 0.3, 0.0], [0.3, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        parameters=["walk", "near", "far"],
    )
    verdict = vn.check(network)
    assert isinstance(verdict, StreamVerdict)
    assert verdict.blocked == ("near",)
    np.testing.assert_allclose(np.abs(verdict.hidden), np.eye(3)[:, 2:], atol=1e-9)
    assert "Never revealed by share filters, without loss: far." in str(verdict)
    apart = network.replace(public=[[0.0, 0.0, 1.0]], private={"walk": [[1.0, 0.0, 0.0]]})
    verdict = vn.check(apart)
    assert verdict.ceiling == {"walk": np.inf}
    assert "Never revealed by share filters, without loss: walk and near." in str(verdict)


def test_short_filters_that_cannot_be_turned_back_keep_the_longer_memory() -> None:
    """h_k = 0.9^k + w (3e-6)^k + w 0^k: past readings need two numbers, which forget 3e5 apart; all need three."""
    F, K = np.diag([0.9, 3e-6, 0.0]), np.array([[[1.0], [1e4], [1e4]], [[1.0], [0.0], [1.0]]])
    found = {
        int(member): filters.order
        for filters in Reduction(F, np.ones((1, 3)), 1e-9).minimal(K)
        for member in filters.members
    }
    assert found == {0: 3, 1: 1}


def test_a_share_that_rather_tells_of_yesterday_keeps_its_readings_to_itself() -> None:
    """What a reads counts little today and much tomorrow: its numbers up to now cannot be solved for its readings."""
    network = vn.Network(
        {"a": [[0.0, 1.0]], "b": [[1.0, 0.0]]},
        [0.2, 0.5],
        public=[[1.0, 0.0]],
        private={"g": [[0.0, 1.0]]},
        dynamics=vn.Dynamics([[0.5, 1.0], [0.0, 0.3]], [[1.0, 0.1], [0.1, 1.0]]),
    )
    shares = share_filters(network)
    assert shares.orders["a"] > 0
    hidden = stream_knowledge(network, shares.sanitizers)
    shown = stream_knowledge(network, {**shares.sanitizers, "a": vn.Sanitizer.raw(1)})
    rows = network.private["g"]
    assert hidden.growth(rows, hindsight=False) > shown.growth(rows, hindsight=False) + 0.01
    assert hidden.privacy == pytest.approx(shown.privacy, abs=1e-9)  # later numbers tell them after all
