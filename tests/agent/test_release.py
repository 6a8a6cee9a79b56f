"""Releasing readings: what leaves, what does not, and that simulations say what they are."""

from __future__ import annotations

import os
import pickle
import warnings

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import random_network, random_sanitizers
from helpers.statistics_tests import law_is_off
from veilnet._core.types import Array
from veilnet.agent.grid import CROSSING_LIMIT, crossing_weights, grid_steps
from veilnet.agent.randomness import SeededNoise, noise_source
from veilnet.agent.recipe import Recipe, prepare
from veilnet.agent.release import NotPrivate, release_valid
from veilnet.plans.plan import make_plan
from veilnet.plans.release_grid import with_release_grid


def gridded(compression, noise=None, **options) -> vn.Sanitizer:
    made = vn.Sanitizer(compression, noise, **options)
    covariance = made.compression @ made.compression.T + made.noise
    return made.with_grid(grid_steps(covariance))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


MIXED_NOISE = np.array([0.0, 4.0, 0.25])
ROOT = np.array([[1.0, 0.5, 0.0], [0.0, 2.0, 1.0], [0.3, 0.0, 0.7]])
SINGULAR = np.outer([1.0, -2.0, 0.5], [1.0, -2.0, 0.5])


@pytest.mark.parametrize(
    "noise", [None, 1.0, MIXED_NOISE, ROOT @ ROOT.T, SINGULAR], ids=["none", "one", "mixed", "full", "rank 1"]
)
def test_released_numbers_are_compression_plus_noise_on_the_grid(noise, rng) -> None:
    agent = gridded(rng.standard_normal((3, 5)), noise, offset=rng.uniform(10, 20, 5))
    readings = rng.standard_normal((20_000, 5)) + agent.offset
    sent = agent.sanitize(readings)
    assert type(sent) is np.ndarray
    assert np.array_equal(sent, np.rint(sent / agent.grid) * agent.grid)
    added = sent - (readings - agent.offset) @ agent.compression.T
    # Rounding of dithered numbers has a variance of a sixth of a step², of noisy ones a twelfth.
    dithered = np.sqrt(np.diag(agent.noise)) < agent.grid
    expected = agent.noise + np.diag(agent.grid**2 * np.where(dithered, 1 / 6, 1 / 12))
    assert not law_is_off(added, expected)
    assert law_is_off(added * 1.05, expected), "a test that cannot see 5 %"


def test_one_reading_gives_one_message(rng) -> None:
    agent = gridded(rng.standard_normal((2, 4)), np.array([0.0, 1.0]))
    reading = rng.standard_normal(4)
    one = agent.sanitize(reading, rng=3)
    block = agent.sanitize(reading[None, :], rng=3)
    assert one.shape == (2,)
    assert block.shape == (1, 2)
    assert np.array_equal(one, block[0])
    assert agent.sanitize(np.zeros((0, 4))).shape == (0, 2)
    assert agent.sanitize(list(map(int, range(4)))).shape == (2,)


def test_long_blocks_are_released_row_by_row_alike(rng) -> None:
    agent = gridded(rng.standard_normal((2, 3)), offset=[1.0, 2.0, 3.0])
    readings = rng.standard_normal((5000, 3))
    sent = agent.sanitize(readings)
    exact = (readings - agent.offset) @ agent.compression.T
    assert np.all(np.abs(sent - exact) <= agent.grid * (1 + 1e-9))


def test_a_silent_agent_sends_empty_messages() -> None:
    agent = vn.Sanitizer.silent(3).with_grid(np.zeros(0))
    assert agent.sanitize(np.ones((4, 3))).shape == (4, 0)
    with pytest.raises(vn.InvalidReading, match="row 1"):
        agent.sanitize([[1.0, 2, 3], [1, np.nan, 3]])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.nan, "reading 2 is missing"),
        (np.inf, "reading 2 is infinite"),
        (-np.inf, "reading 2 is infinite"),
    ],
)
def test_a_bad_reading_stops_the_block_and_is_not_quoted(value, reason, rng) -> None:
    agent = gridded(rng.standard_normal((2, 3)), 1.0, limits=(-50, 50), agent="hall")
    block = rng.standard_normal((3000, 3))
    block[2500] = 987.125, value, 987.125
    with pytest.raises(vn.InvalidReading, match=f"hall: row 2500: {reason}") as caught:
        agent.sanitize(block)
    assert "987" not in str(caught.value)
    with pytest.raises(vn.InvalidReading, match=f"hall: {reason}"):
        agent.sanitize(block[2500])
    released = release_valid(agent.recipe, block, noise_source(1))
    assert released.reasons == {2500: reason}
    assert released.values.shape == (2999, 2)
    assert not released.valid[2500]
    assert np.array_equal(np.flatnonzero(~released.valid), [2500])


def test_a_bad_reading_is_refused_even_where_it_is_not_used() -> None:
    agent = gridded([[1.0, 0.0]])
    with pytest.raises(vn.InvalidReading, match="reading 2"):
        agent.sanitize([1.0, np.nan])


def test_a_reading_beyond_its_limits_counts_as_the_limit() -> None:
    """To the last bit: nothing of where it was is in what is sent, and no row is missing."""
    agent = gridded(np.eye(2), 1.0, limits=([0.0, -np.inf], [1.0, 5.0]), names=["a", "b"])
    given = np.array([[0.0, -1e3], [1.0, 5.0], [0.5, 5.0000001], [-1e-300, 0.0], [700.0, 1e9]])
    meant = np.array([[0.0, -1e3], [1.0, 5.0], [0.5, 5.0], [0.0, 0.0], [1.0, 5.0]])
    np.testing.assert_array_equal(agent.sanitize(given, rng=3), agent.sanitize(meant, rng=3))
    beyond = [[False] * 2] * 2 + [[False, True], [True, False], [True, True]]
    assert agent.recipe.beyond(given).tolist() == beyond


def test_a_reading_beyond_the_reach_of_the_grid_counts_as_its_end() -> None:
    agent = gridded([[1.0, -1.0]], offset=[1e15, 0.0])
    low, high = agent.reach
    ends = np.array([[low[0], high[1]], [high[0], low[1]]])
    np.testing.assert_array_equal(
        agent.sanitize([[-1.7e300, 1.7e300], [1e20, -1e20]], rng=2), agent.sanitize(ends, rng=2)
    )
    centred = ends - agent.offset
    assert agent.grid is not None
    crossing = np.abs(centred) @ crossing_weights(agent.compression, agent.grid)
    assert np.max(crossing) <= CROSSING_LIMIT * (1 + 1e-9)
    assert np.min(crossing) > CROSSING_LIMIT / 2


@pytest.mark.parametrize(
    "readings",
    [
        [1.0, 2.0],
        [[1.0, 2.0, 3.0, 4.0]],
        np.ones((2, 2, 3)),
        3.0,
        ["1", "2", "3"],
        np.array(["1", "2", "3"], dtype=object),
        [1j, 2, 3],
        [[1.0, 2.0, 3.0], [1.0]],
        np.array(["2020-01-01"] * 3, dtype="M8[D]"),
        [None, 1.0, 2.0],
        {"a": 1.0},
        None,
        np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]),
        np.ma.masked_array([1.0, 2, 3], mask=[0, 1, 0]),
        [10**400, 1, 2],
    ],
)
def test_anything_but_rows_of_numbers_is_refused(readings) -> None:
    with pytest.raises(vn.InvalidReading):
        gridded(np.eye(3)).sanitize(readings)


def test_a_refusal_does_not_carry_the_readings_along() -> None:
    with pytest.raises(vn.InvalidReading) as caught:
        gridded(np.eye(3)).sanitize(["secret 42.125", 1.0, 2.0])
    error: BaseException | None = caught.value
    while error is not None:
        assert "42.125" not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_seeded_noise_repeats_and_says_that_it_is_not_private(rng) -> None:
    agent = gridded(rng.standard_normal((2, 3)), 1.0)
    readings = rng.standard_normal((4, 3))
    first, second = (agent.sanitize(readings, rng=np.random.default_rng(9)) for _ in range(2))
    assert isinstance(first, NotPrivate)
    assert np.array_equal(first, second)
    assert "not private" in repr(first)
    for derived in (first + 1, first @ np.ones((2, 2)), first[1:], first.copy(), np.concatenate([first] * 2)):
        assert isinstance(derived, NotPrivate)
    assert isinstance(1.0 - first, NotPrivate)
    assert isinstance(pickle.loads(pickle.dumps(first)), NotPrivate)
    assert float(first.sum()) == float(np.asarray(first).sum())
    assert not isinstance(agent.sanitize(readings), NotPrivate)


@pytest.mark.system_entropy
def test_secure_noise_differs_between_calls_copies_and_forks(rng) -> None:
    agent = gridded(np.eye(3), 1.0)
    reading = rng.standard_normal(3)
    copy = pickle.loads(pickle.dumps(agent))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        os.write(write, agent.sanitize(reading).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    forked = np.frombuffer(os.read(read, 24))
    os.close(read)
    os.close(write)
    sent = [agent.sanitize(reading), agent.sanitize(reading), copy.sanitize(reading), forked]
    for place, one in enumerate(sent):
        for other in sent[:place]:
            assert not np.any(one == other)


def test_without_a_grid_it_warns_and_streams_refuse() -> None:
    agent = vn.Sanitizer(np.eye(2), 1.0, agent="hall")
    with pytest.warns(RuntimeWarning, match="hall: no grid is set") as caught:
        agent.sanitize([1.0, 2.0])
    assert caught[0].filename == __file__
    with pytest.raises(vn.InvalidNetwork, match="no grid"):
        release_valid(agent.recipe, np.ones((1, 2)), noise_source())


def test_plans_set_a_grid_so_nothing_warns() -> None:
    network = random_network(1, noise="joint", prior="covariance")
    plan = vn.design(network)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for agent, sanitizer in plan.sanitizers.items():
            sanitizer.sanitize(np.ones(len(network.observe[agent])))


def test_a_grid_out_of_proportion_is_refused() -> None:
    with pytest.raises(vn.InvalidNetwork, match="too fine"):
        vn.Sanitizer(np.eye(1), 1e40, grid=2.0**-40).sanitize([1.0])
    with pytest.raises(vn.InvalidNetwork, match="out of proportion"):
        vn.Sanitizer(np.full((1, 1), 1e-200), grid=2.0**800).sanitize([1.0])
    with pytest.raises(vn.InvalidNetwork, match="powers of two"):
        vn.Sanitizer(np.eye(1), grid=2.0**-1020).sanitize([1.0])


@pytest.mark.parametrize("kind", ["joint", "per agent"])
def test_every_kind_of_sanitizer_in_a_network_can_be_run(kind, rng) -> None:
    network = random_network(3, noise=kind)
    sanitizers = with_release_grid(network, random_sanitizers(network, 1, "mixed"))
    for agent, sanitizer in sanitizers.items():
        readings = rng.standard_normal((400, len(network.observe[agent])))
        added = sanitizer.sanitize(readings, rng=rng) - readings @ sanitizer.compression.T
        noisy = np.diag(sanitizer.noise) > 0
        assert np.all(np.abs(np.asarray(added)[:, ~noisy]) <= sanitizer.grid[~noisy] * (1 + 1e-9))
        if noisy.any():
            # along its own noise the released numbers are neither exact nor off by more than a factor
            ratio = np.var(np.asarray(added)[:, noisy], axis=0) / np.diag(sanitizer.noise)[noisy]
            assert np.all((ratio > 0.6) & (ratio < 1.6))


def test_low_bits_do_not_tell_what_is_withheld() -> None:
    """Two readings with the same c'y: without a grid the message names which of them it was, with one not."""
    weights = np.array([[0.1, 0.2, -0.3]])
    covariance = weights @ weights.T
    low, high = (
        np.array([1.0, 1.0, 1.0]),
        np.array([1.0e3 + 1, 1.0e3 + 1, 1.0e3 + 1]),
    )  # differ by the withheld part
    open_agent = vn.Sanitizer(weights)
    safe_agent = open_agent.with_grid(grid_steps(covariance))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert open_agent.sanitize(low) != open_agent.sanitize(high), "rounding errors would betray it"
    draws = [np.random.default_rng(seed) for seed in range(500) for _ in range(2)]
    told = [
        safe_agent.sanitize(low, rng=draws[2 * k]) != safe_agent.sanitize(high, rng=draws[2 * k + 1])
        for k in range(500)
    ]
    assert not np.any(told)


def test_make_plan_accepts_limits_and_names() -> None:
    network = random_network(4)
    sanitizers = {
        agent: vn.Sanitizer(np.eye(len(rows)), 1.0, limits=(-5, 5), names=[f"r{k}" for k in range(len(rows))])
        for agent, rows in network.observe.items()
    }
    plan = make_plan(network, sanitizers, "by hand")
    assert plan.sanitizers["a0"].names == ("r0", "r1", "r2")
    np.testing.assert_array_equal(plan.sanitizers["a0"].reach, np.outer([-5.0, 5.0], np.ones(3)))


def test_a_stack_of_agents_sends_what_each_would_alone() -> None:
    """To the last bit, from the same draws: with noise on some numbers, dither, offsets, far readings and none."""
    rng = np.random.default_rng(5)
    C, offset = rng.normal(size=(3, 2, 4)), rng.normal(size=(3, 4))
    noise, steps = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.full((3, 4), 0.25)
    readings = rng.normal(size=(50, 3, 4))
    readings[7, 1, 2], readings[9, 2, 0] = np.nan, 1e30
    for k in range(3):
        some = [k]
        alone = vn.Sanitizer(
            C[k], noise[k], offset=offset[k], grid=2.0**-9, resolution=0.25, dither=2, agent="a"
        )
        recipe = stack_recipe(C[some], noise[some], offset[some], steps[some])
        stacked = release_valid(recipe, readings[:, k], SeededNoise(np.random.default_rng(6))).values
        valid = np.isfinite(readings[:, k]).all(axis=1)
        np.testing.assert_array_equal(np.isfinite(stacked).all(axis=1), valid)
        if valid.all():
            np.testing.assert_array_equal(stacked, np.asarray(alone.sanitize(readings[:, k], rng=6)))


def test_agents_of_a_stack_send_their_own_numbers() -> None:
    """Four agents at once: each sends its own C (y - offset) on its grid, and is silent alone where it reads none."""
    rng = np.random.default_rng(8)
    C, offset, readings = rng.normal(size=(4, 2, 3)), rng.normal(size=(4, 3)), rng.normal(size=(20, 4, 3))
    readings[7, 1, 2], readings[9, 0, 0], readings[11, 3] = np.nan, np.inf, 1e308
    recipe = stack_recipe(C, np.zeros((4, 2)), offset, np.zeros((4, 3)))
    released = release_valid(recipe, readings.reshape(20, -1), SeededNoise(np.random.default_rng(9)))
    sent = np.asarray(released.values).reshape(20, 4, 2)
    for silent in (np.isnan(sent).any(axis=2), np.isnan(sent).all(axis=2)):
        assert np.argwhere(silent).tolist() == [[7, 1], [9, 0], [11, 3]]
    exact = np.einsum("skn,tsn->tsk", C, np.where(silent[:, :, None], 0.0, readings) - offset)
    assert np.nanmax(np.abs(sent - exact)) <= 2.0**-9 * (1 + 1e-9)
    np.testing.assert_array_equal(np.nan_to_num(sent) % 2.0**-9, 0.0)


def stack_recipe(C: Array, variances: Array, offset: Array, steps: Array) -> Recipe:
    noise = variances[:, :, None] * np.eye(C.shape[1])
    return prepare(
        agent="", compression=C, noise=noise, noise_root=noise, offset=offset, names=(), memory=None,
        limits=(np.full(offset.shape, -np.inf), np.full(offset.shape, np.inf)),
        grid_step=np.full(C.shape[:2], 2.0**-9), steps=steps, draws=np.where(steps > 0, 2.0, 0.0),
    )  # fmt: skip
