"""Designs for streams at perfect utility: plan, certificate, the promise on simulated rows, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

import veilnet as vn
from helpers.stream_networks import random_stream, simulated_stream
from veilnet._core.types import Array
from veilnet.bounds.streams.knowledge import stream_knowledge
from veilnet.bounds.streams.state_space import message_model
from veilnet.plans.certificate import Promise, certify

FALSE_ALARM = 1e-6
ROWS = 20_000
BATCHES = 100


def sent_rows(plan: vn.Plan, readings: Array) -> Array:
    """What all agents send of a stream of readings, by the definition of a sanitizer with memory."""
    network, found = plan.network, []
    for place, agent in enumerate(network.agents):
        sanitizer = plan.sanitizers[agent]
        mine = readings[:, network.blocks.rows(place)] - sanitizer.offset
        states = np.zeros((len(mine), sanitizer.order))
        if sanitizer.memory is not None:
            state = np.zeros(sanitizer.order)
            for t, y in enumerate(mine):
                state = states[t] = sanitizer.memory.transition @ state + sanitizer.memory.gain @ y
        found.append(np.concatenate([states, mine], axis=1) @ sanitizer.compression.T)
    return np.concatenate(found, axis=1)


def estimates(plan: vn.Plan, messages: Array) -> tuple[Array, Array]:
    """(now, with hindsight): the stationary filter's and smoother's estimates of x, counted from its mean."""
    steady = stream_knowledge(plan.network, plan.sanitizers).steady
    model = message_model(plan.network, plan.sanitizers)
    C = model.observe @ steady.basis
    A = np.linalg.lstsq(steady.basis, model.transition @ steady.basis, rcond=None)[0]
    news = np.linalg.pinv(steady.news, rcond=1e-12, hermitian=True)
    count, size = len(messages), steady.basis.shape[1]
    expected, surprise = np.zeros((count, size)), np.zeros((count, len(C)))
    now = np.zeros(size)
    updated = np.zeros((count, size))
    for t, z in enumerate(messages):
        expected[t] = A @ now
        surprise[t] = z - C @ expected[t]
        now = updated[t] = expected[t] + steady.gain @ surprise[t]
    later, smoothed = np.zeros(size), np.zeros((count, size))
    for t in range(count - 1, -1, -1):
        # Before t's own row is undone, `later` says what rows from t on change of the expectation at t.
        later = steady.closed.T @ later + C.T @ (news @ surprise[t])
        smoothed[t] = expected[t] + steady.before @ later
    x = steady.basis[: plan.network.L]
    return updated @ x.T, smoothed @ x.T


def stray(errors: Array, promised: float) -> float:
    """How unlikely the mean square of correlated errors is, by the means of batches: Student's two-sided tail."""
    squares = np.sum(errors**2, axis=1)
    batches = squares[: len(squares) // BATCHES * BATCHES].reshape(BATCHES, -1).mean(axis=1)
    score = (np.mean(batches) - promised) / (np.std(batches, ddof=1) / np.sqrt(BATCHES))
    return float(2 * student.sf(abs(score), BATCHES - 1))


@pytest.mark.parametrize(("noise", "joint"), [("white", True), ("coloured", False)])
def test_simulated_streams_keep_the_promise(noise: str, joint: bool) -> None:
    """20,000 rows: the errors of u now, g now and g with hindsight have the variances promised."""
    network = random_stream(14, noise=noise, joint=joint, sizes=(3, 2), parameters=3, radius=0.8, mean=True)
    assert network.dynamics is not None
    plan = vn.design(network)
    x, readings = simulated_stream(network, ROWS, np.random.default_rng(4))
    now, smoothed = estimates(plan, sent_rows(plan, readings))
    x, middle = x - network.dynamics.mean, slice(200, ROWS - 200)
    known = stream_knowledge(network, plan.sanitizers)
    cases = [(network.U, now, False)]
    cases += [(rows, now, False) for rows in network.private.values()]
    cases += [(rows, smoothed, True) for rows in network.private.values()]
    for rows, estimated, hindsight in cases:
        promised = float(np.trace(known.error(rows, hindsight=hindsight)))
        assert stray(((x - estimated) @ rows.T)[middle], promised) > FALSE_ALARM
    # The same errors are far from a promise that is off by a tenth: the test can fail.
    rows = network.private["g0"]
    off = 1.1 * float(np.trace(known.error(rows, hindsight=True)))
    assert stray(((x - smoothed) @ rows.T)[middle], off) < FALSE_ALARM


def test_a_plan_says_what_is_sent_and_kept() -> None:
    plan = vn.design(random_stream(1, sizes=(2, 3)))
    assert plan.method == "perfect"
    assert plan.gap == 0.0
    assert plan.sent == {"a0": 1, "a1": 1}
    assert plan.kept == {"a0": 4, "a1": 4}
    assert "send 2 numbers for 5 readings per row, keeping 8 in memory (at most 4" in str(plan)
    assert "with hindsight" in str(plan)
    assert plan.privacy == vn.privacy(plan.network, plan)
    assert plan.privacy_now == vn.privacy(plan.network, plan, when="now")
    assert plan.worst_direction == vn.privacy(plan.network, plan, worst=True)
    assert all(sanitizer.grid is not None for sanitizer in plan.sanitizers.values())


def test_the_grid_costs_next_to_nothing() -> None:
    """Rounding to the grid, as white noise of step²/12 on every number, costs less than a millionth of utility."""
    network = random_stream(9, noise="coloured", sizes=(2, 3, 2))
    plan = vn.design(network)
    rounded = {}
    for agent, sanitizer in plan.sanitizers.items():
        assert sanitizer.grid is not None
        rounded[agent] = sanitizer.replace(noise=np.diag(sanitizer.grid**2 / 6))
    assert -1e-6 < vn.utility(network, rounded) <= 0.0


def test_a_certificate_can_fail() -> None:
    network = random_stream(2)
    plan = vn.design(network)
    for wrong in (
        Promise(
            most_loss=0.0,
            utility=0.0,
            privacy={name: 1.001 * each + 1e-3 for name, each in plan.privacy.items()},
        ),
        Promise(utility=-0.001, privacy=plan.privacy),
    ):
        assert not certify(network, plan.sanitizers, wrong).ok
    noisy = {name: s.replace(noise=0.1) for name, s in plan.sanitizers.items()}
    assert not certify(network, noisy, Promise(most_loss=0.0, utility=0.0, privacy=plan.privacy)).ok


@pytest.mark.parametrize(
    ("question", "error", "words"),
    [
        ({"power": 1.0}, vn.InvalidRequest, "power: noise of limited power is made for rows"),
        ({"method": "power", "power": 1.0}, vn.InvalidRequest, "made for rows that have nothing to do"),
        (
            {"method": "noise", "privacy": 0.1},
            vn.InvalidRequest,
            "Algorithms 1 and 2 of the paper are made for rows",
        ),
        (
            {"method": "alternating", "privacy": 0.1},
            vn.InvalidRequest,
            "Algorithm 3 of the paper is made for rows",
        ),
        (
            {"privacy": 0.1, "prove": True},
            vn.InvalidRequest,
            "prove: no bound on what a design can reach is known",
        ),
        ({"privacy": vn.Worst(0.1)}, vn.InvalidRequest, "Worst. are not built for streams"),
        ({"method": "perfect", "privacy": 5.0}, vn.Infeasible, "no mechanism exceeds with hindsight"),
        ({"privacy": 1e9}, vn.Infeasible, "even silence gives only"),
    ],
)
def test_what_is_not_built_for_streams_is_refused(
    question: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        vn.design(random_stream(1), **question)


def test_a_target_at_or_below_the_ceiling_is_free() -> None:
    network = random_stream(1)
    ceiling = vn.check(network).ceiling
    plan = vn.design(network, privacy={"g0": 0.9 * ceiling["g0"]})
    assert plan.method == "perfect"
    assert plan.utility == 0.0
    assert plan.targets["g0"] == 0.9 * ceiling["g0"]
    assert vn.design(network, utility_loss=0.0).privacy == plan.privacy
