"""The noise: its law far into the tails, its independence, and that nothing of it can be repeated.

The secure source cannot be seeded, so each comparison here uses the exact law of its statistic at
``FALSE_ALARM``; some sixty comparisons together raise a false alarm in fewer than one run in a million.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy import special, stats

import veilnet
from veilnet._core.errors import VeilnetError
from veilnet._core.normal import lower_quantile
from veilnet.agent.randomness import (
    SeededNoise,
    SystemNoise,
    noise_source,
    normal_from_bits,
)

pytestmark = [pytest.mark.slow, pytest.mark.system_entropy]

FALSE_ALARM = 1e-8
DRAWS = 4_000_000


@pytest.fixture(scope="module")
def draws() -> np.ndarray:
    return SystemNoise().normal((DRAWS,))


def looks_uniform(values: np.ndarray) -> bool:
    return bool(stats.kstest(values, "uniform", method="asymp").pvalue > FALSE_ALARM)


def count_is_plausible(count: int, trials: int, probability: float) -> bool:
    below = stats.binom.cdf(count, trials, probability)
    above = stats.binom.sf(count - 1, trials, probability)
    return bool(min(below, above) > FALSE_ALARM / 2)


def look_uncorrelated(first: np.ndarray, second: np.ndarray) -> bool:
    """Given ``first``, its product with independent standard normal draws is exactly normal."""
    statistic = first @ second / np.linalg.norm(first)
    return bool(2 * stats.norm.sf(abs(statistic)) > FALSE_ALARM)


def quantile(sign: int, integer: int) -> mpmath.mpf:
    """Sign times the normal quantile magnitude of (integer + 1/2) / 2^96, in 60 digits."""
    with mpmath.workdps(60):
        probability = (mpmath.mpf(integer) + mpmath.mpf(1) / 2) / mpmath.mpf(2) ** 96
        return sign * mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * probability)


def bits_of(sign: int, integer: int) -> tuple[np.ndarray, np.ndarray]:
    leading = (integer >> 32) << 1 | (1 if sign > 0 else 0)
    return np.array([leading], np.uint64), np.array([integer & 0xFFFFFFFF], np.uint32)


# ----------------------------------------------------------------------------- bits to draws


@pytest.mark.parametrize("sign", [-1, 1])
def test_bits_become_the_exact_quantile_from_the_centre_to_the_last_tail(sign: int) -> None:
    rng = np.random.default_rng(5)
    integers = [0, 1, 2, 2**32 - 1, 2**32, 2**53, 2**85 + 1]
    integers += [int.from_bytes(rng.bytes(12)) >> shift for shift in range(2, 96, 3)]
    for integer in integers:
        drawn = float(normal_from_bits(*bits_of(sign, integer))[0])
        assert abs(drawn / quantile(sign, integer) - 1) < 1e-12


def test_all_zero_bits_are_the_farthest_draw_and_all_ones_the_nearest_and_none_is_infinite() -> None:
    farthest = float(normal_from_bits(*bits_of(1, 0))[0])
    assert 11.3 < farthest < 11.5
    assert farthest > -special.ndtri(2.0**-54) > 8.29  # what a 53-bit uniform could at most have given
    assert float(normal_from_bits(*bits_of(-1, 0))[0]) == -farthest
    ones = normal_from_bits(np.array([2**64 - 1], np.uint64), np.array([2**32 - 1], np.uint32))
    assert abs(float(ones[0])) < 2.0**-52


def test_draws_decrease_steadily_as_the_bits_grow_across_every_power_of_two() -> None:
    edges = [max((1 << power) + offset, 0) for power in range(95) for offset in (-1, 0, 1)]
    drawn = [float(normal_from_bits(*bits_of(1, integer))[0]) for integer in sorted(edges)]
    assert (np.diff(drawn) <= 0).all()
    assert drawn[0] > drawn[-1] >= 0


def tail_uniforms(cleared: int, leading: np.ndarray, trailing: np.ndarray) -> np.ndarray:
    """Draws whose first bits are cleared follow the normal law beyond a quantile, here made uniform."""
    inside = leading & np.uint64((1 << (64 - cleared)) - 1)
    magnitudes = np.abs(normal_from_bits(inside, trailing))
    return np.exp(special.log_ndtr(-magnitudes) + (cleared + 1) * np.log(2.0))


def fresh_bits(count: int) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.frombuffer(os.urandom(8 * count), np.uint64),
        np.frombuffer(os.urandom(4 * count), np.uint32),
    )


@pytest.mark.parametrize("cleared", [0, 10, 20, 30, 40, 52, 60])
def test_the_law_beyond_a_far_quantile_is_the_normal_law_beyond_it(cleared: int) -> None:
    assert looks_uniform(tail_uniforms(cleared, *fresh_bits(200_000)))


def test_the_tail_test_would_notice_a_uniform_of_53_bits() -> None:
    leading, trailing = fresh_bits(200_000)
    coarse = leading & ~np.uint64(2**11 - 1)
    assert looks_uniform(tail_uniforms(10, coarse, trailing))
    assert not looks_uniform(tail_uniforms(52, coarse, trailing))


# ----------------------------------------------------------------------------- law of the draws


def test_draws_are_standard_normal(draws: np.ndarray) -> None:
    assert looks_uniform(special.ndtr(draws))
    assert 2 * stats.norm.sf(abs(draws.sum()) / np.sqrt(DRAWS)) > FALSE_ALARM
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], DRAWS)
    assert low < draws @ draws < high


def test_uniform_draws_are_uniform_and_independent_of_each_other() -> None:
    first, second = SystemNoise().uniform((300_000,)), SystemNoise().uniform((300_000,))
    assert looks_uniform(first + 0.5)
    assert looks_uniform((first * 2.0**20) % 1.0)  # the low bits, too
    assert looks_uniform((first - second) % 1.0)
    assert -0.5 <= first.min() < first.max() <= 0.5
    assert SystemNoise().uniform((2, 3)).shape == (2, 3)


@pytest.mark.parametrize("threshold", [1.0, 2.0, 3.0, 3.5, 4.0, 4.5, 5.0])
def test_tails_hold_as_many_draws_as_they_should_on_either_side(draws: np.ndarray, threshold: float) -> None:
    probability = float(stats.norm.sf(threshold))
    assert count_is_plausible(int((draws > threshold).sum()), DRAWS, probability)
    assert count_is_plausible(int((draws < -threshold).sum()), DRAWS, probability)


def test_signs_do_not_depend_on_sizes(draws: np.ndarray) -> None:
    for low, high in [(0.0, 0.1), (1.0, 1.1), (3.0, np.inf)]:
        chosen = draws[(np.abs(draws) > low) & (np.abs(draws) < high)]
        assert count_is_plausible(int((chosen > 0).sum()), chosen.size, 0.5)


def test_columns_of_a_block_have_the_identity_as_covariance() -> None:
    block = SystemNoise().normal((200_000, 5))
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], len(block))
    for column in range(5):
        assert low < block[:, column] @ block[:, column] < high
        for other in range(column):
            assert look_uncorrelated(block[:, column], block[:, other])


@pytest.mark.parametrize("lag", [1, 1 << 13, 1 << 14, 1 << 15])
def test_draws_of_one_call_are_independent_at_every_distance(draws: np.ndarray, lag: int) -> None:
    pairs = draws[: DRAWS // (2 * lag) * 2 * lag].reshape(-1, 2, lag)
    first, second = pairs[:, 0].ravel(), pairs[:, 1].ravel()
    assert look_uncorrelated(first, second)
    both = int(((np.abs(first) > 2) & (np.abs(second) > 2)).sum())
    assert count_is_plausible(both, first.size, float(2 * stats.norm.sf(2)) ** 2)
    assert not (first == second).any()


def test_consecutive_calls_are_independent() -> None:
    first, second = SystemNoise().normal((300_000,)), SystemNoise().normal((300_000,))
    assert look_uncorrelated(first, second)
    assert look_uncorrelated(np.abs(first) - np.sqrt(2 / np.pi), second)
    assert not (first == second).any()


# ----------------------------------------------------------------------------- no state to repeat

FORK = """
import os, sys
from veilnet.agent.randomness import noise_source
source = noise_source(int(sys.argv[1]) if len(sys.argv) > 1 else None)
source.normal((1000,))
reader, writer = os.pipe()
child = os.fork()
drawn = source.normal((100_000,)).tobytes()
if child == 0:
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(drawn)
    os._exit(0)
os.close(writer)
with os.fdopen(reader, "rb") as pipe:
    received = pipe.read()
os.waitpid(child, 0)
sys.stdout.buffer.write(drawn + received)
"""


def parent_and_child(*seed: str) -> np.ndarray:
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(veilnet.__path__[0]).parent),
        "OPENBLAS_NUM_THREADS": "1",
    }
    run = subprocess.run(
        [sys.executable, "-c", FORK, *seed], capture_output=True, check=True, env=environment, timeout=120
    )
    return np.frombuffer(run.stdout).reshape(2, 100_000)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_draws_independently_of_its_parent() -> None:
    parent, child = parent_and_child()
    assert look_uncorrelated(parent, child)
    assert not (parent == child).any()
    repeated_parent, repeated_child = parent_and_child("7")  # what a generator with state does
    assert (repeated_parent == repeated_child).all()


def test_a_pickled_copy_draws_independently_and_carries_nothing_along() -> None:
    source = noise_source()
    before = pickle.dumps(source)
    first = source.normal((200_000,))
    assert pickle.dumps(source) == before
    second = pickle.loads(before).normal((200_000,))
    assert look_uncorrelated(first, second)
    assert not (first == second).any()

    seeded = noise_source(7)
    copy = pickle.loads(pickle.dumps(seeded))
    assert (seeded.normal((10,)) == copy.normal((10,))).all()


# ----------------------------------------------------------------------------- the sources


def test_nothing_given_is_secure_and_private() -> None:
    source = noise_source()
    assert isinstance(source, SystemNoise)
    assert source.private


def test_a_generator_or_a_seed_is_a_simulation_and_says_so() -> None:
    expected = np.random.default_rng(3).standard_normal((4, 2))
    for rng in (3, np.int64(3), np.random.default_rng(3)):
        source = noise_source(rng)
        assert isinstance(source, SeededNoise)
        assert not source.private
        assert (source.normal((4, 2)) == expected).all()
        assert (np.abs(source.uniform((1000,))) <= 0.5).all()


@pytest.mark.parametrize("rng", [True, -1, "secure", 1.5, np.random.RandomState(0)])
def test_any_other_source_is_refused(rng: object) -> None:
    with pytest.raises(VeilnetError, match="rng: expected None"):
        noise_source(rng)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (3, 4), (2, 3, 4)])
def test_draws_have_the_shape_asked_for(shape: tuple[int, ...]) -> None:
    drawn = SystemNoise().normal(shape)
    assert drawn.shape == shape
    assert drawn.dtype == np.float64


def test_temporaries_stay_small_whatever_is_asked_for() -> None:
    tracemalloc.start()
    try:
        drawn = SystemNoise().normal((1_000_000,))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - drawn.nbytes < 2_000_000


def test_the_quantile_has_all_its_digits_from_the_last_draw_to_the_middle() -> None:
    """Oracle: Newton steps on mpmath's normal distribution function in 40 digits."""
    rng = np.random.default_rng(0)
    edges = [2.0**-97, np.exp(-25.0), np.nextafter(0.075, 0), 0.075, np.nextafter(0.5, 0)]
    probabilities = np.concatenate([2.0 ** -rng.uniform(1, 97, 200), edges])
    with mpmath.workdps(40):
        for p, z in zip(probabilities.tolist(), lower_quantile(probabilities).tolist(), strict=True):
            exact = mpmath.mpf(z)
            for _ in range(3):
                exact -= (mpmath.ncdf(exact) - mpmath.mpf(p)) / mpmath.npdf(exact)
            assert abs(mpmath.mpf(z) - exact) < 8e-16 * abs(exact)  # 5.4e-16 at worst of 2,500
    assert lower_quantile(np.array([0.5]))[0] == 0.0
