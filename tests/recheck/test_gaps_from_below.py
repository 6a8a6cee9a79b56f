"""The recheck around gaps: a bound from below at every length, and the error itself at last, wherever x goes."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from helpers.stream_networks import NOISES, least_window_error, random_stream, random_transition
from veilnet.bounds.streams.gaps import gaps_of, with_starts
from veilnet.recheck import stream_gaps
from veilnet.recheck.stream_gaps import _BetweenKnown, least_errors_with_gaps
from veilnet.recheck.stream_system import RowSystem
from veilnet.verdict.streams.share_filters import share_filters


def growing(seed: int, radius: float) -> vn.Network:
    """An x that wanders off, or grows by itself."""
    rng = np.random.default_rng(seed)
    return vn.Network(
        observe={f"a{k}": rng.standard_normal((2, 3)) for k in range(3)},
        noise=1.0,
        public=rng.standard_normal((1, 3)),
        private={"g": rng.standard_normal((1, 3))},
        dynamics=vn.Dynamics(random_transition(rng, 3, radius), np.eye(3)),
    )


def messages_of(network: vn.Network, sanitizers: dict[str, vn.Sanitizer]) -> RowSystem:
    return RowSystem(network, sanitizers)


@pytest.mark.parametrize("noise", NOISES)
def test_no_length_finds_more_than_the_joint_law_of_a_window(
    noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window of which nothing beyond is known errs too much, one with both ends known too little."""
    network = random_stream(3, noise=noise, radius=0.7)
    sanitizers = with_starts(network, share_filters(network).sanitizers)
    everyone = [agent for agent in network.agents if sanitizers[agent].order]
    above = np.array(
        [
            min(
                least_window_error(network, sanitizers, rows, anew={30: pattern}, places=range(26, 36))
                for pattern in ([[agent] for agent in everyone] + [everyone])
            )
            for rows in network.private.values()
        ]
    )
    found = []
    monkeypatch.setattr(stream_gaps, "_SETTLED", 1.0)  # the first length at which nothing is claimed
    for rows in (2, 4, 8, 16, 64):
        monkeypatch.setattr(stream_gaps, "_FIRST", rows)
        found.append(
            least_errors_with_gaps(
                messages_of(network, sanitizers), list(network.private.values()), np.zeros(len(above))
            )
        )
    assert np.all(np.diff(found[1:], axis=0) >= -1e-9 * above)
    assert np.all(found <= above * (1 + 1e-9))
    np.testing.assert_allclose(found[-1], above, rtol=1e-7)


@pytest.mark.parametrize("radius", [1.0, 1.02, 1.5, 3.0])
def test_an_x_that_wanders_off_is_designed_for_and_confirmed_with_gaps(radius: float) -> None:
    """Before: a window of it lost 6e-4 to the size of its first x, or ended in errors of linear algebra."""
    network = growing(0, radius)
    plan = vn.design(network)
    assert plan.privacy_with_gaps["g"] >= 0.99 * (1 + plan.privacy["g"]) - 1
    known = least_errors_with_gaps(
        messages_of(network, dict(plan.sanitizers)), list(network.private.values()), np.array([np.inf])
    )
    np.testing.assert_allclose(
        known, gaps_of(network, plan.sanitizers, list(network.private.values())).least, rtol=1e-5
    )


@pytest.mark.small_search
@pytest.mark.parametrize("radius", [1.2, pytest.param(1.02, marks=pytest.mark.long)])
def test_utility_is_traded_where_x_grows(radius: float) -> None:
    plan = vn.design(growing(1, radius), privacy=3.0, starts=1)
    assert plan.certificate.ok
    assert plan.privacy["g"] >= 3.0


def test_two_draws_of_dither_are_rechecked_as_two_where_noise_carries_over() -> None:
    """Before: the recheck counted one, and no plan for coarse readings with coloured noise was confirmed."""
    plan = vn.design(random_stream(1, noise="coloured").replace(resolution=0.8))
    assert np.all(plan.network.draws == 2)
    assert plan.certificate.ok


def test_many_rows_lose_no_digits_where_numbers_are_exact() -> None:
    """Noise without a floor and shares: what rows tell is beyond what a matrix of informations can hold."""
    network = random_stream(17, noise=NOISES[2], joint=True, public_rows=2)
    sanitizers = with_starts(network, share_filters(network).sanitizers)
    rows = list(network.private.values())
    known = _BetweenKnown(messages_of(network, sanitizers), np.concatenate(rows))
    known.go_on(256)
    for place, agent in enumerate(network.agents):
        if sanitizers[agent].order:
            found = np.min(np.add.reduceat(known.errors([place])[128:384], [0, 1], axis=1), axis=0)
            np.testing.assert_allclose(found, gaps_of(network, sanitizers, rows, [[agent]]).least, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kept", [0.99, *(pytest.param(slow, marks=pytest.mark.long) for slow in (0.998, 0.999))]
)
def test_a_stream_that_forgets_slowly_is_promised_around_gaps_too(kept: float) -> None:
    """Noise that keeps so much of itself a row is forgotten after thousands of rows, and the recheck follows."""
    rng = np.random.default_rng(0)
    network = vn.Network(
        observe={name: rng.normal(size=(2, 2)) for name in ("a", "b")},
        noise=vn.ColouredNoise(memory=kept, innovation=1 - kept**2, floor=0.01),
        public=[[1, 0]],
        private={"g": [[0, 1]]},
        dynamics=vn.Dynamics(np.diag([0.99, 0.97]), np.diag([1 - 0.99**2, 1 - 0.97**2])),
    )
    plan = vn.design(network)
    assert plan.privacy_with_gaps is not None
    assert 0.9 * plan.privacy["g"] < plan.privacy_with_gaps["g"] < plan.privacy["g"]


def test_where_nothing_is_free_a_gap_promises_nothing_and_the_plan_is_confirmed() -> None:
    """The bound alone is below zero there (-0.046); no message knows more than the readings."""
    plan = vn.design(random_stream(3, sizes=(1, 1), parameters=2, private_rows=(1,), radius=0.9))
    assert plan.privacy_with_gaps["g0"] == pytest.approx(0.0, abs=1e-12)
    assert plan.certificate.ok
