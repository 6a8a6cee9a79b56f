"""Errors around memories that begin anew: a whole window as one Gaussian beside them, and what the theorem says."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from helpers.stream_networks import NOISES, least_window_error, random_stream
from veilnet._core.lyapunov import stationary_covariance
from veilnet._core.types import Array
from veilnet.bounds.streams.gaps import gaps_of, with_starts
from veilnet.bounds.streams.knowledge import stream_knowledge
from veilnet.bounds.streams.state_space import message_model
from veilnet.io.template import house
from veilnet.verdict.streams.share_filters import share_filters


def _shares(network: vn.Network, size: float) -> dict[str, vn.Sanitizer]:
    return with_starts(network, share_filters(network).sanitizers, size)


def _usual(network: vn.Network, sanitizers: dict[str, vn.Sanitizer]) -> Array:
    known = stream_knowledge(network, sanitizers)
    return np.array([np.trace(known.error(rows, hindsight=True)) for rows in network.private.values()])


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("joint", [False, True])
def test_the_least_error_is_that_of_the_window_as_one_gaussian(noise: str, joint: bool) -> None:
    network = random_stream(3, noise=noise, joint=joint, radius=0.7)
    sanitizers = _shares(network, 1.0)
    agents = [agent for agent in network.agents if sanitizers[agent].order]
    for pattern in ([agents[0]], agents):
        found = gaps_of(network, sanitizers, list(network.private.values()), [pattern])
        for rows, least in zip(network.private.values(), found.least, strict=True):
            oracle = least_window_error(network, sanitizers, rows, anew={30: pattern})
            assert least == pytest.approx(oracle, rel=1e-6)


def test_a_missed_row_costs_what_the_window_says() -> None:
    network = random_stream(4, radius=0.7)
    sanitizers = _shares(network, 4.0)
    everyone = list(network.agents)
    found = gaps_of(network, sanitizers, list(network.private.values()))
    from helpers.stream_networks import window_errors

    usual = float(np.trace(stream_knowledge(network, sanitizers).error(network.U, hindsight=False)))
    most = max(
        float(np.trace(window_errors(network, sanitizers, network.U, 50, row, {40: everyone})[0]))
        for row in range(40, 44)
    )
    assert found.public[1] == pytest.approx(most / usual - 1.0, rel=1e-6)
    assert 0.0 < found.public[0] <= found.public[1]


@pytest.mark.parametrize("seed", range(6))
def test_a_larger_draw_hides_no_less_and_at_last_all_that_was_promised(seed: int) -> None:
    """The theorem of :mod:`veilnet.bounds.streams.gaps`."""
    noise = NOISES[seed % 3]
    network = random_stream(500 + seed, noise=noise, sizes=(2, 3, 2, 4), parameters=5, radius=0.9)
    rows = list(network.private.values())
    parts = []
    for size in (0.0, 1.0, 16.0, 1e3, 1e6):
        sanitizers = _shares(network, size)
        parts.append(np.array(gaps_of(network, sanitizers, rows).least) / _usual(network, sanitizers))
    assert np.all(np.diff(parts, axis=0) >= -1e-7)
    assert np.min(parts[-1]) > 1 - 1e-3
    assert np.max(parts) <= 1 + 1e-7


def test_some_memories_that_begin_empty_hide_much_less() -> None:
    """What the draw is for: without it, the row after a start shows what the memory would have masked."""
    least = []
    for seed in range(12):
        network = random_stream(seed, radius=0.8)
        sanitizers = _shares(network, 0.0)
        least.append(
            np.array(gaps_of(network, sanitizers, list(network.private.values())).least)
            / _usual(network, sanitizers)
        )
    assert np.min(least) < 0.9


def test_nothing_happens_to_those_without_a_memory() -> None:
    network = random_stream(2)
    raw = {
        agent: vn.Sanitizer.raw(int(n)) for agent, n in zip(network.agents, network.blocks.sizes, strict=True)
    }
    found = gaps_of(network, raw, list(network.private.values()))
    np.testing.assert_allclose(found.least, _usual(network, raw), rtol=1e-9)


@pytest.mark.parametrize("root", [1.0, 1.05, 1.3])
def test_an_x_that_wanders_off_has_draws_that_fit_the_grid(root: float) -> None:
    """Draws need only reach every direction that a memory holds, not the size that x has after many rows."""
    rng = np.random.default_rng(103)
    network = vn.Network(
        observe={f"a{k}": rng.standard_normal((size, 3)) for k, size in enumerate((2, 3, 2))},
        noise=rng.uniform(0.5, 2.0, 7),
        public=rng.standard_normal((1, 3)),
        private={"g": rng.standard_normal((1, 3))},
        dynamics=vn.Dynamics(np.diag([root, 0.8, 0.5]), np.eye(3)),
    )
    plan = vn.design(network)
    assert plan.privacy_with_gaps["g"] >= 0.99 * (1 + plan.privacy["g"]) - 1


@pytest.mark.parametrize("size", [0.25, 1.0, 9.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_draw_leaves_at_least_the_part_that_its_size_says(seed: int, size: float) -> None:
    """c/(c + 1) for one agent; for several their memories' joint covariance counts."""
    network = random_stream(70 + seed, noise=NOISES[seed % 3], radius=0.9)
    sanitizers = _shares(network, size)
    model = message_model(network, sanitizers)
    agents, rows = list(model.memories), list(network.private.values())
    spread = stationary_covariance(model.transition, model.noise)
    for pattern in [[agent] for agent in agents] + [agents]:
        mine = np.concatenate([np.arange(model.size)[model.memories[agent]] for agent in pattern])
        own = np.zeros((model.size, model.size))
        for agent in pattern:
            own[model.memories[agent], model.memories[agent]] = spread[
                model.memories[agent], model.memories[agent]
            ]
        root = np.linalg.pinv(np.linalg.cholesky(own[np.ix_(mine, mine)] + 1e-12 * np.eye(len(mine))))
        most = float(np.linalg.eigvalsh(root @ spread[np.ix_(mine, mine)] @ root.T)[-1])
        assert most == pytest.approx(1.0, abs=1e-3) if len(pattern) == 1 else most > 1.0
        left = np.array(gaps_of(network, sanitizers, rows, [pattern]).least) / _usual(network, sanitizers)
        assert np.all(left >= size / (size + most) - 1e-6)


def test_rows_long_before_a_gap_count_too() -> None:
    """Before: the search ended after eight rows without a change, and the least was sixty-six rows before the gap."""
    whole = house(stream=True)
    network = vn.Network(
        {agent: whole.observe[agent] for agent in ("kitchen", "bedroom")}, 0.25, whole.public, whole.private,
        prior=whole.prior, dynamics=whole.dynamics,
    )  # fmt: skip
    plan = vn.design(network)
    assert plan.certificate.ok  # which looks at every row
