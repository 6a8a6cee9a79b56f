"""Streams: what a centre that filters knows, against rows, whole windows, SciPy and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import solve_discrete_are

import veilnet as vn
from helpers.networks import NOISES as ROW_NOISES
from helpers.networks import SANITIZERS, random_network, random_sanitizers
from helpers.stream_networks import NOISES, random_stream, random_transition, window_errors
from veilnet.agent.memory import Memory
from veilnet.bounds.streams.knowledge import raw_stream, stream_knowledge
from veilnet.bounds.streams.riccati import steady_state
from veilnet.bounds.streams.steady import MessageSystem
from veilnet.recheck.stream import StreamRecheck


def as_stream(network: vn.Network) -> vn.Network:
    """The same network as a stream whose rows have nothing to do with one another: A = 0."""
    assert network.prior is not None
    assert network.prior.covariance is not None
    nothing = np.zeros((network.L, network.L))
    return vn.Network(
        network.observe, network.sensor_noise, network.public, network.private, offset=network.offset,
        dynamics=vn.Dynamics(nothing, network.prior.covariance, mean=network.prior.mean),
    )  # fmt: skip


@settings(max_examples=8)
@given(
    seed=st.integers(0, 10**6),
    noise=st.sampled_from(ROW_NOISES),
    kind=st.sampled_from(SANITIZERS),
    rows=st.integers(1, 3),
)
def test_rows_that_have_nothing_to_do_with_one_another_are_section_3(
    seed: int, noise: str, kind: str, rows: int
) -> None:
    """A = 0: every figure is that of the row model, now and with hindsight; the ceiling and the shares too."""
    network = random_network(seed, noise=noise, prior="covariance", public_rows=rows)
    stream = as_stream(network)
    sanitizers = random_sanitizers(network, seed, kind)
    for when in ("now", "hindsight"):
        np.testing.assert_allclose(
            vn.crlb(stream, sanitizers, when=when), vn.crlb(network, sanitizers), rtol=1e-8, atol=1e-10
        )
        assert vn.privacy(stream, sanitizers, when=when) == pytest.approx(
            vn.privacy(network, sanitizers), rel=1e-8, abs=1e-9
        )
        assert vn.privacy(stream, sanitizers, when=when, worst=True) == pytest.approx(
            vn.privacy(network, sanitizers, worst=True), rel=1e-7, abs=1e-8
        )
        assert vn.bits_revealed(stream, sanitizers, when=when) == pytest.approx(
            vn.bits_revealed(network, sanitizers), rel=1e-7, abs=1e-8
        )
    assert vn.utility(stream, sanitizers) == pytest.approx(
        vn.utility(network, sanitizers), rel=1e-8, abs=1e-9
    )
    assert vn.privacy_limit(stream) == pytest.approx(vn.privacy_limit(network), rel=1e-8)
    of_rows, of_stream = vn.check(network), vn.check(stream)
    assert of_stream.ceiling == pytest.approx(of_rows.ceiling, rel=1e-7, abs=1e-8)
    assert of_stream.achievable == of_rows.achievable
    plan = vn.design(stream)
    assert plan.kept == dict.fromkeys(network.agents, 0)
    assert plan.sent == vn.design(network).sent


def noisy_memories(network: vn.Network, seed: int, *, exact: bool) -> dict[str, vn.Sanitizer]:
    """Sanitizers of every kind: with memory that shows readings too, without memory, and one agent raw."""
    rng = np.random.default_rng(seed)
    found = {}
    for place, agent in enumerate(network.agents[:-1]):
        count, order = int(network.blocks.sizes[place]), 2
        memory = Memory(random_transition(rng, order, 0.6), rng.standard_normal((order, count)))
        wide = rng.standard_normal((1 + place % 2, order + count))
        noise = None if exact else np.eye(len(wide))
        if place % 3 == 2:
            found[agent] = vn.Sanitizer(rng.standard_normal((1, count)), 0.3)
        else:
            found[agent] = vn.Sanitizer(wide, noise, memory=memory)
    return found


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_filters_and_smoothers_agree_with_a_whole_window(noise: str, joint: bool, exact: bool) -> None:
    """The brute-force joint Gaussian of 90 rows, and spectra: three routes to one figure."""
    network = random_stream(3, noise=noise, joint=joint, sizes=(2, 3, 2, 1), radius=0.6)
    sanitizers = noisy_memories(network, 5, exact=exact)
    known = stream_knowledge(network, sanitizers)
    recheck = StreamRecheck(network, sanitizers)
    for rows in (network.U, *network.private.values()):
        now, hindsight = window_errors(network, sanitizers, rows, 70, 35)
        np.testing.assert_allclose(known.error(rows, hindsight=True), hindsight, rtol=1e-6)
        np.testing.assert_allclose(known.error(rows, hindsight=False), now, rtol=1e-6)
        told = known.growth(rows, hindsight=True)
        assert recheck.growth(rows, told) == pytest.approx(told, rel=1e-8, abs=1e-9)
        told = known.growth(rows, hindsight=False)
        assert recheck.growth_now(rows, told) == pytest.approx(told, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("radius", [0.5, 0.95, 1.0, 1.3])
def test_raw_streams_agree_with_scipys_riccati_equation(radius: float) -> None:
    """scipy.linalg.solve_discrete_are, a generalised Schur form, for stable and for wandering x."""
    network = random_stream(11, radius=0.5, parameters=5, sizes=(3, 3))
    assert network.dynamics is not None
    dynamics = vn.Dynamics(network.dynamics.transition * (radius / 0.5), network.dynamics.noise)
    network = vn.Network(
        network.observe, network.sensor_noise, network.public, network.private, dynamics=dynamics
    )
    steady = raw_stream(network)
    noise = network.R.matrix()
    expected = solve_discrete_are(dynamics.transition.T, network.H.T, dynamics.noise, noise)
    found = steady.basis @ steady.before @ steady.basis.T
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)
    now = np.linalg.inv(np.linalg.inv(expected) + network.H.T @ np.linalg.solve(noise, network.H))
    np.testing.assert_allclose(vn.crlb(network), now, rtol=1e-9, atol=1e-11)


def test_hindsight_is_the_fixed_point_of_information_from_the_future() -> None:
    """Section 7's own formula: Π = A'((Π + J)^-1 + Q)^-1 A and P_hind = (P_now^-1 + Π)^-1."""
    network = random_stream(2, parameters=4)
    assert network.dynamics is not None
    A, Q = network.dynamics.transition, network.dynamics.noise
    J = network.H.T @ np.linalg.solve(network.R.matrix(), network.H)
    future = np.zeros((4, 4))
    for _ in range(300):
        future = A.T @ np.linalg.solve(np.linalg.inv(future + J) + Q, A)
    expected = np.linalg.inv(np.linalg.inv(vn.crlb(network)) + future)
    np.testing.assert_allclose(vn.crlb(network, when="hindsight"), expected, rtol=1e-9, atol=1e-12)


def test_an_exact_filter_that_cannot_be_run_backwards_hides_now_and_tells_with_hindsight() -> None:
    """z_t = y_t - 2 y_{t-1} exactly: its inverse runs away forwards, and is stable backwards.

    y white of variance 1 + 0.5; closed forms: the news of z has variance 4·Var(y), so given z up to t the reading
    keeps 3/4 of its variance, and given all z none.
    """
    network = vn.Network({"a": [[1.0]]}, 0.5, [[1.0]], {"g": [[1.0]]}, dynamics=vn.Dynamics([[0.0]], [[1.0]]))
    # s = (y_t, y_{t-1})
    memory = Memory([[0.0, 0.0], [1.0, 0.0]], [[1.0], [0.0]])
    sanitizers = {"a": vn.Sanitizer([[1.0, -2.0, 0.0]], memory=memory)}
    raw = 1.0 - 1.0 / 1.5
    assert vn.crlb(network, sanitizers, when="hindsight")[0, 0] == pytest.approx(raw, rel=1e-9)
    # x given z: x = (y's share 1/1.5) plus an independent rest of variance `raw`; y keeps 3/4 of 1.5.
    assert vn.crlb(network, sanitizers, when="now")[0, 0] == pytest.approx(
        raw + 0.75 * 1.5 / 1.5**2, rel=1e-9
    )


def test_numbers_that_repeat_others_change_nothing() -> None:
    network = random_stream(4, sizes=(3, 2), radius=0.7)
    memory = Memory([[0.5]], [[1.0, 0.5, -1.0]])
    once = vn.Sanitizer([[1.0, 0.2, 0.0, 0.1]], memory=memory)
    twice = vn.Sanitizer([[1.0, 0.2, 0.0, 0.1], [-2.0, -0.4, 0.0, -0.2]], memory=memory)
    for when in ("now", "hindsight"):
        np.testing.assert_allclose(
            vn.crlb(network, {"a0": once}, when=when), vn.crlb(network, {"a0": twice}, when=when), rtol=1e-9
        )


def test_more_numbers_than_readings_tell_the_readings() -> None:
    """An agent with one reading that sends three filtered numbers of it tells it exactly: rank decisions at work."""
    network = random_stream(6, sizes=(1, 2), radius=0.7)
    rng = np.random.default_rng(0)
    memory = Memory(random_transition(rng, 3, 0.7), rng.standard_normal((3, 1)))
    sanitizers = {"a0": vn.Sanitizer(rng.standard_normal((3, 4)), memory=memory)}
    for when in ("now", "hindsight"):
        np.testing.assert_allclose(
            vn.crlb(network, sanitizers, when=when), vn.crlb(network, when=when), rtol=1e-6
        )


@pytest.mark.parametrize("seed", range(8))
def test_exact_numbers_that_repeat_each_other_over_time(seed: int) -> None:
    """As many exact filtered numbers as readings, or more: singular everywhere, and still right by both routes."""
    rng = np.random.default_rng(seed)
    sizes = [int(size) for size in rng.integers(1, 3, 3)]
    network = random_stream(seed, noise=NOISES[seed % 3], joint=seed >= 4, sizes=sizes, parameters=3)
    sanitizers = {}
    for agent, count in zip(network.agents, sizes, strict=True):
        order, sent = int(rng.integers(1, 7)), count + int(rng.integers(0, 3))
        memory = Memory(random_transition(rng, order, 0.8), rng.standard_normal((order, count)))
        sanitizers[agent] = vn.Sanitizer(rng.standard_normal((sent, order + count)), memory=memory)
    known, recheck = stream_knowledge(network, sanitizers), StreamRecheck(network, sanitizers)
    rows = network.private["g0"]
    told = known.growth(rows, hindsight=True)
    assert recheck.growth(rows, told) == pytest.approx(told, abs=1e-7)
    told, now = (
        known.growth(rows, hindsight=False),
        recheck.growth_now(rows, known.growth(rows, hindsight=False)),
    )
    assert now == pytest.approx(told, rel=1e-8, abs=1e-8)


def test_units_of_parameters_and_readings_change_nothing() -> None:
    network = random_stream(8, noise="coloured", radius=0.9)
    assert network.dynamics is not None
    assert network.colour is not None
    sizes, units = 10.0 ** np.array([-6, 3, 0, 5]), 10.0 ** np.array([2, -4, 0, 3, -2, 1, 0])
    scaled = vn.Network(
        {name: units[network.blocks.rows(k)][:, None] * network.observe[name] / sizes
         for k, name in enumerate(network.agents)},
        vn.ColouredNoise(
            network.colour.memory, network.colour.innovation * np.outer(units, units),
            network.colour.floor * np.outer(units, units),
        ),
        network.U / sizes, {name: rows / sizes for name, rows in network.private.items()},
        dynamics=vn.Dynamics(
            network.dynamics.transition * sizes[:, None] / sizes, network.dynamics.noise * np.outer(sizes, sizes)
        ),
    )  # fmt: skip
    here, there = vn.design(network), vn.design(scaled)
    assert there.privacy == pytest.approx(here.privacy, rel=1e-6)
    assert there.utility == pytest.approx(0.0, abs=1e-9)


def test_a_hidden_wandering_direction_has_no_bound() -> None:
    steady = steady_state(
        MessageSystem(np.diag([1.0, 0.5]), np.eye(2), np.array([[0.0, 1.0]]), np.array([[1.0]]))
    )
    assert list(steady.bounded(np.eye(2))) == [False, True]
    alone = steady_state(MessageSystem(np.array([[0.5]]), np.eye(1), np.eye(1), np.eye(1)))
    expected = alone.error(np.eye(1), hindsight=True)
    np.testing.assert_allclose(steady.error(np.eye(2)[1:], hindsight=True), expected, rtol=1e-12)


def test_row_questions_are_refused_for_streams() -> None:
    network = random_stream(1)
    with pytest.raises(vn.InvalidRequest, match="when: goes with streams"):
        vn.privacy(network.one_row, {}, when="now")
    with pytest.raises(vn.InvalidRequest, match="'now' or 'hindsight', found 'later'"):
        vn.privacy(network, {}, when="later")
    with pytest.raises(vn.InvalidRequest, match="keeps a memory of earlier rows"):
        vn.privacy(
            network.one_row, {"a0": vn.Sanitizer([[1.0, 0.0, 0.0]], memory=Memory([[0.5]], [[1.0, 2.0]]))}
        )
