"""Utility now by the error of a given filter: against SciPy's Riccati solver, and where filters forget slowly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are

import veilnet as vn
from helpers.many_streams import STREAMS
from veilnet.agent.mechanisms import mechanisms
from veilnet.io.template import house
from veilnet.recheck import stream_witness
from veilnet.recheck.stream import StreamRecheck, growth_of_sum
from veilnet.recheck.stream_system import RowSystem
from veilnet.recheck.stream_witness import error_of_raw_filter, error_of_witness


def slow_stream(floor: float = 1e-9) -> vn.Network:
    """x and the noise of its readings carry over for long; hardly any of that noise is new in every row."""
    return vn.Network(
        {"climate": [[1.0, 0.4], [0.5, -0.3]], "desk": [[0.2, 1.0], [0.1, 0.8]]},
        vn.ColouredNoise(memory=0.955, innovation=1.0, floor=floor),
        public={"humidity": [1, 0]},
        private={"presence": [0, 1]},
        dynamics=vn.Dynamics(transition=[[0.9995, 0.0], [0.1, 0.96]], noise=np.diag([0.002, 0.01])),
    )


def filtered(network: vn.Network, sanitizers: dict[str, vn.Sanitizer]) -> RowSystem:
    return RowSystem(network, sanitizers)


def riccati_error(network: vn.Network, sanitizer: vn.Sanitizer) -> float:
    """tr(U P U') now where one agent sends noisy combinations of its readings, white noise: SciPy's solver."""
    assert network.dynamics is not None
    seen = sanitizer.compression @ network.H
    noise = sanitizer.compression @ network.R.matrix() @ sanitizer.compression.T + sanitizer.noise
    before = solve_discrete_are(network.dynamics.transition.T, seen.T, network.dynamics.noise, noise)
    after = before - before @ seen.T @ np.linalg.solve(seen @ before @ seen.T + noise, seen @ before)
    return float(np.trace(network.U @ after @ network.U.T))


@pytest.mark.parametrize("root", [0.5, 0.99, 0.9999])
def test_the_witness_has_the_least_error_there_is(root: float) -> None:
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    network = vn.Network(
        {"a": rng.standard_normal((4, 3))},
        0.5,
        public=np.eye(3)[:2],
        private={"g": np.eye(3)[2]},
        dynamics=vn.Dynamics(transition=root * turn, noise=(1 - root**2) * np.eye(3)),
    )
    sanitizer = vn.Sanitizer(rng.standard_normal((2, 4)), 0.1, agent="a")
    found = error_of_witness(filtered(network, {"a": sanitizer}), network.U)
    assert found == pytest.approx(riccati_error(network, sanitizer), rel=1e-8)


def test_any_gain_errs_at_least_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    network = slow_stream(floor=0.1)
    system = filtered(network, {})
    best = error_of_witness(system, network.U)
    right = stream_witness.gain_of
    rng = np.random.default_rng(2)

    def wrong(w: RowSystem, before: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        gain, white = right(w, before)
        return gain * (1 + 0.05 * rng.standard_normal((w.size, w.sent))), white

    monkeypatch.setattr(stream_witness, "gain_of", wrong)
    assert all(error_of_witness(system, network.U) > best * (1 + 1e-6) for _ in range(5))


@pytest.mark.long
def test_readings_without_news_are_judged_by_enough_rows() -> None:
    """A filter that began with too much known is judged by its own error, which takes enough rows to settle."""
    network = slow_stream()
    system = filtered(network, {})
    assert error_of_raw_filter(network, network.U) == pytest.approx(
        error_of_witness(system, network.U), rel=1e-7
    )
    plan = vn.design(network)
    assert plan.certificate.ok
    assert plan.utility == pytest.approx(0.0, abs=1e-9)


def test_a_utility_that_is_not_reached_is_not_confirmed() -> None:
    plan = vn.design(house(stream=True))
    network = plan.network
    noisy = {agent: s.replace(noise=1e-3 * np.eye(s.sent)) for agent, s in plan.sanitizers.items()}
    loss = StreamRecheck(plan.network, noisy).growth_now(network.U, 0.0)
    assert loss == pytest.approx(-vn.utility(network, noisy), rel=1e-5)
    assert loss > 1e-4


@pytest.mark.parametrize("claimed", [0.0, 1.05, np.nan])
def test_a_wrong_claim_does_not_end_the_search_for_frequencies_or_for_a_filter(claimed: float) -> None:
    """Oracle: the Riccati equation of the bounds. At the fewest frequencies this slow stream is off by far more."""
    network = slow_stream(floor=0.1)
    sanitizers = {"desk": vn.Sanitizer([[1.0, 0.5]], 0.3)}
    true = vn.privacy(network, sanitizers)["presence"]
    claim = true * claimed if claimed else 0.0
    found = StreamRecheck(network, sanitizers).growth(network.private["presence"], claim)
    assert found == pytest.approx(true, rel=1e-6)
    lost = -vn.utility(network, sanitizers)
    claim = lost * claimed if claimed else 0.0
    assert StreamRecheck(network, sanitizers).growth_now(network.U, claim) == pytest.approx(lost, rel=1e-6)


def test_what_nobody_is_told_of_may_wander_off() -> None:
    """Oracle: the stream without it. Its error grows for ever, that of the public parameter does not."""
    whole = vn.Network(
        {"a": [[1.0, 0.0], [0.0, 1.0]]},
        0.5,
        public=[1.0, 0.0],
        private={"walk": [0.0, 1.0]},
        dynamics=vn.Dynamics(transition=np.diag([0.9, 1.0]), noise=np.diag([1.0, 0.3])),
    )
    alone = vn.Network(
        {"a": [[1.0]]},
        0.5,
        public=[1.0],
        private={"g": [1.0]},
        dynamics=vn.Dynamics(transition=0.9, noise=1.0),
    )
    part = error_of_witness(filtered(whole, {"a": vn.Sanitizer([[1.0, 0.0]], 0.2)}), whole.U)
    assert part == pytest.approx(
        error_of_witness(filtered(alone, {"a": vn.Sanitizer([[1.0]], 0.2)}), alone.U)
    )
    assert np.isinf(error_of_witness(filtered(whole, {"a": vn.Sanitizer([[1.0, 0.0]], 0.2)}), np.eye(2)))


def test_the_noise_that_is_added_counts_in_the_sum() -> None:
    """Very many agents are judged by the centre that adds up, which errs at least as much as the best filter."""
    network = STREAMS["mixed sizes"]
    plan = vn.design(network)
    noisy = mechanisms(
        plan.network,
        {
            name: s if not place else s.replace(noise=0.5 * np.eye(s.sent), grid=None)
            for place, (name, s) in enumerate(plan.sanitizers.items())
        },
    )
    best = StreamRecheck(plan.network, noisy).growth_now(network.U, 0.0)
    assert best > 1e-3
    assert growth_of_sum(plan.network, noisy, network.U, best) >= best * (1 - 1e-6)
    free = mechanisms(plan.network, plan.sanitizers)
    assert growth_of_sum(plan.network, free, network.U, 0.0) == pytest.approx(-plan.utility, abs=1e-6)
