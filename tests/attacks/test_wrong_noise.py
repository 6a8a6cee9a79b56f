"""Noise of the right covariance and the wrong law: each must be caught, and honest noise must pass.

Every mutant sends C y plus noise with exactly the planned covariance, on the public grid; only the law is wrong.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import random_network
from helpers.wrong_noise import LAWS, failures, mutant, noisy_plan
from veilnet._core.types import Array
from veilnet.auditing.deployed.draws import Span, guessed_seed
from veilnet.auditing.deployed.law import half_precision, law_measurements, low_bits
from veilnet.plans.plan import Plan, make_plan

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def plan() -> Plan:
    return noisy_plan()


@pytest.mark.parametrize(
    ("agent", "law"),
    [("a0", law) for law in LAWS] + [("a1", "Laplace"), ("a2", "uniform"), ("a2", "half precision")],
)
def test_the_wrong_law_is_caught(plan: Plan, agent: str, law: str) -> None:
    rng = np.random.default_rng([7, list(LAWS).index(law)])
    found = failures(plan, agent, mutant(plan.sanitizers[agent], lambda shape: LAWS[law](rng, shape)))
    assert "law of the noise" in found
    assert agent in found["law of the noise"]


@pytest.mark.parametrize("law", ["normal", "Laplace", "cut at 2, stretched"])
def test_the_law_is_told_through_dither(law: str) -> None:
    """Readings with a resolution are dithered first: noise much wider than that is still tested."""
    network = random_network(1, noise="per agent", prior="covariance", sizes=(3, 3))
    dithered = vn.Network(
        dict(network.observe), {"a0": network.R.block(0), "a1": network.R.block(1)}, network.U,
        dict(network.private), network.prior, resolution={"a0": 0.05, "a1": 0.05},
    )  # fmt: skip
    rows = np.random.default_rng(5).standard_normal((2, 3))
    made = {a: vn.Sanitizer(rows, [40.0, 30.0], agent=a, resolution=[0.05] * 3) for a in ("a0", "a1")}
    plan = make_plan(dithered, made, "test")
    rng = np.random.default_rng([9, 2**40])
    draw = rng.standard_normal if law == "normal" else lambda shape: LAWS[law](rng, shape)
    bare = mutant(plan.sanitizers["a0"], draw)
    found = failures(plan, "a0", lambda y: bare(y + rng.uniform(-0.025, 0.025, y.shape)))
    assert list(found) == ([] if law == "normal" else ["law of the noise"])


def test_numbers_on_a_coarser_grid_are_caught(plan: Plan) -> None:
    honest = plan.sanitizers["a0"]
    assert honest.grid is not None
    coarse = 4 * honest.grid

    def shortened(readings: Array) -> Array:
        return np.asarray(np.rint(np.asarray(honest.sanitize(readings)) / coarse) * coarse)

    assert "a0" in failures(plan, "a0", shortened)["law of the noise"]


CLOCKS: dict[str, Callable[[], Any]] = {
    "seconds": lambda: np.random.default_rng(int(time.time())),
    "milliseconds": lambda: np.random.default_rng(int(time.time() * 1e3)),
    "microseconds": lambda: np.random.default_rng(int(time.time() * 1e6)),
    "seconds, old generator": lambda: np.random.RandomState(int(time.time())),
    "small seed, kept": lambda: np.random.default_rng(42),
}


@pytest.mark.parametrize("clock", CLOCKS)
def test_noise_seeded_by_the_clock_is_caught(plan: Plan, clock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    # No two calls show the same time, and none lasts longer for being run on a busy machine.
    step = 0.0021 if clock == "milliseconds" else 0.00025

    def look() -> float:
        nonlocal now
        now += step
        return now

    def draw(shape: tuple[int, ...]) -> Array:
        return np.asarray(CLOCKS[clock]().standard_normal(shape))

    monkeypatch.setattr(time, "time", look)

    found = failures(plan, "a0", mutant(plan.sanitizers["a0"], draw))
    assert "a0" in found["noise used once"]


def test_a_clock_in_seconds_is_caught_even_when_calls_are_seconds_apart(plan: Plan) -> None:
    now = [time.time()]

    def draw(shape: tuple[int, ...]) -> Array:
        now[0] += 1.0  # a clock that has moved on at every call, near the audit's own
        return np.random.default_rng(int(now[0])).standard_normal(shape)

    found = failures(plan, "a0", mutant(plan.sanitizers["a0"], draw))
    assert "numpy.random.default_rng with the seed" in found["noise used once"]


def test_pythons_generator_is_tried_too() -> None:
    generator = random.Random(17)
    drawn = np.array([[generator.gauss(0, 1)] for _ in range(20)])
    (each,) = guessed_seed("a", drawn, np.array([1e-4]), Span(1e9, 1e9))
    assert each.p < 1e-20


@pytest.mark.parametrize("agent", ["a0", "a1", "a2"])
def test_honest_noise_of_another_make_passes(plan: Plan, agent: str) -> None:
    for seed in range(2):
        rng = np.random.default_rng([3, 2**40 + seed])
        assert failures(plan, agent, mutant(plan.sanitizers[agent], rng.standard_normal)) == {}


def test_p_values_of_the_law_are_honest() -> None:
    """Over 400 honest samples no kind of test may fall below a level more often than the level says."""
    rng = np.random.default_rng(11)
    smallest: dict[str, list[float]] = {}
    for _ in range(400):
        draws = rng.standard_normal((512, 1))
        rounded = np.rint(draws * 256) / 256
        for each in law_measurements("a", rounded, np.array([1 / 512])):
            smallest.setdefault(each.words.split(":")[1][:24], []).append(each.p)
        bits = low_bits("a", np.rint(draws * 512), np.array([512.0]))
        smallest.setdefault("bits", []).extend(each.p for each in bits)
        half = half_precision("a", draws + rng.uniform(-1, 1, draws.shape) * 5e-4, np.array([5e-4]))
        smallest.setdefault("half", []).extend(each.p for each in half)
    assert len(smallest) >= 10
    for kind, values in smallest.items():
        found = np.array(values)
        for level in (0.1, 0.01):
            # Five deviations above the level, for as many tests as there were.
            most = level + 5 * np.sqrt(level / found.size) + 5 / found.size
            assert np.mean(found <= level) <= most, kind
