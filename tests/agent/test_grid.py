"""The release grid: exact rounding, its cost, and the low bits it removes, which would betray readings."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg, stats

from veilnet._core.errors import InvalidNetwork, InvalidReading
from veilnet.agent.grid import (
    CROSSING_LIMIT,
    ROUNDING_COST,
    checked_steps,
    crossing_weights,
    grid_step,
    grid_steps,
    whole_steps,
)
from veilnet.agent.grid import rounded_to_grid as release_in_steps
from veilnet.agent.randomness import NoiseSource, noise_source

FALSE_ALARM = 1e-6


def rounding_cost(covariance: np.ndarray, step: np.ndarray) -> float:
    """The smallest η with diag(step²/6) ⪯ η·covariance, by an eigenvalue of the pencil."""
    return float(linalg.eigh(np.diag(step**2 / 6.0), covariance, eigvals_only=True)[-1])


def round_to_grid(values: object, step: object) -> np.ndarray:
    """The nearest multiple of a step, as an agent rounds."""
    with np.errstate(over="ignore", invalid="ignore"):
        return whole_steps(np.asarray(np.asarray(values, float) / checked_steps(step))) * checked_steps(step)


def rounded_to_grid(values: object, step: object, deviation: object, source: NoiseSource) -> np.ndarray:
    """Numbers with noise of some deviation, as they may leave on a grid."""
    numbers, grid = np.asarray(values, float), checked_steps(step)
    deviations = np.broadcast_to(np.asarray(deviation) / grid, numbers.shape[-1:])
    return release_in_steps(np.asarray(numbers / grid), deviations, source) * grid


def crossing_probability(readings: object, compression: object, step: object) -> np.ndarray:
    """The bound that the weights stand for; not a number, or infinite, where a reading is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.abs(np.asarray(readings, float)) @ crossing_weights(compression, step)


def releasable(readings: object, compression: object, steps: object) -> np.ndarray:
    """Which rows an agent may release: those whose crossing probability is small."""
    return crossing_probability(readings, compression, steps) <= CROSSING_LIMIT


def paper_like_covariance(size: int, seed: int) -> np.ndarray:
    root = np.random.default_rng(seed).uniform(-0.5, 0.5, (size, size))
    return root @ root.T


# ----------------------------------------------------------------------------- rounding


@given(st.integers(-900, 800), st.floats(-(2.0**50), 2.0**50))
def test_the_result_is_the_nearest_multiple_exactly(exponent: int, multiple: float) -> None:
    step = 2.0**exponent
    value = (
        multiple * step
    )  # rounded only where it falls below the smallest float, which the test takes as given
    rounded = float(round_to_grid(value, step))
    assert Fraction(rounded) == round(Fraction(value) / Fraction(step)) * Fraction(step)  # ties to even, too
    assert float(round_to_grid(rounded, step)) == rounded


def test_ties_go_to_the_even_multiple_so_that_none_is_favoured() -> None:
    ties = np.arange(-3.5, 4.0) * 0.25
    assert (round_to_grid(ties, 0.25) == np.array([-4, -2, -2, 0, 0, 2, 2, 4]) * 0.25).all()


def test_a_zero_does_not_tell_on_which_side_the_value_lay() -> None:
    rounded = round_to_grid([-0.1, -0.0, 0.0, 0.1], 1.0)
    assert not np.signbit(rounded).any()
    assert len({value.tobytes() for value in rounded}) == 1


def test_each_column_has_its_own_grid_and_the_input_is_left_alone() -> None:
    values = np.array([[1.3, 1.3], [-2.6, -2.6]])
    kept = values.copy()
    assert (round_to_grid(values, [1.0, 0.5]) == [[1.0, 1.5], [-3.0, -2.5]]).all()
    assert (values == kept).all()
    assert (round_to_grid(np.array([1, 5]), 2.0) == [0.0, 4.0]).all()
    assert round_to_grid(np.empty((0, 2)), [1.0, 0.5]).shape == (0, 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 2.0**51, -(2.0**51), 1e308])
def test_values_the_grid_cannot_hold_exactly_are_refused_by_place_and_not_by_value(bad: float) -> None:
    assert (round_to_grid([2.0**51 - 0.75, 0.0], 1.0) == [2.0**51 - 1, 0.0]).all()
    with pytest.raises(InvalidReading, match=r"index \(1, 0\)") as refusal:
        round_to_grid([[0.0, 1.0], [bad, 2.0]], 1.0)
    assert str(bad) not in str(refusal.value)
    with pytest.raises(InvalidReading):
        round_to_grid(bad, 2.0**-20)


@pytest.mark.parametrize("step", [0.0, -1.0, 3.0, np.nan, np.inf, 2.0**-1074, [1.0, 0.3]])
def test_only_powers_of_two_are_grids(step: object) -> None:
    with pytest.raises(InvalidNetwork, match="powers of two"):
        round_to_grid([1.0, 2.0], step)  # type: ignore[arg-type]


# ----------------------------------------------------------------------------- choice and cost


@given(st.floats(1e-290, 1e270))
def test_the_step_is_the_largest_power_of_two_within_the_cost(deviation: float) -> None:
    step = float(grid_step(deviation))
    assert np.frexp(step)[0] == 0.5
    relative = (step / deviation) ** 2 / 6
    assert relative <= ROUNDING_COST * (1 + 1e-12)
    assert 4 * relative > ROUNDING_COST * (1 - 1e-12)
    assert step < deviation / 500


@pytest.mark.parametrize("deviation", [0.0, -1.0, np.nan, np.inf, 1e-305, 1e300, [1.0, 0.0]])
def test_deviations_without_a_grid_are_refused(deviation: object) -> None:
    with pytest.raises(InvalidNetwork, match="deviation"):
        grid_step(deviation)  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("seed", range(3))
def test_correlated_numbers_get_grids_whose_joint_cost_is_kept(seed: int, scale: float) -> None:
    covariance = paper_like_covariance(36, seed) * scale**2
    steps = grid_steps(covariance)
    cost = rounding_cost(covariance, steps)
    added = np.diag(steps**2 / 6)
    assert cost <= ROUNDING_COST
    # an independent reading of the cost: the largest eigenvalue of the pencil (added, covariance)
    pencil = np.linalg.eigvals(np.linalg.solve(covariance, added)).real.max()
    assert cost == pytest.approx(pencil, rel=1e-6)
    # grids chosen number by number would have cost far more than allowed
    assert rounding_cost(covariance, grid_step(np.sqrt(np.diag(covariance)))) > 10 * ROUNDING_COST


@pytest.mark.parametrize("prior", [0.0, 1e-2])
def test_the_loss_of_utility_is_within_its_bound(prior: float) -> None:
    rng = np.random.default_rng(11)
    noise = paper_like_covariance(24, 4)
    model, public = rng.uniform(-0.5, 0.5, (24, 6)), rng.uniform(-0.5, 0.5, (3, 6))

    def error(covariance: np.ndarray) -> float:
        information = prior * np.eye(6) + model.T @ np.linalg.solve(covariance, model)
        return float(np.trace(public @ np.linalg.solve(information, public.T)))

    coarse = 2.0**-4 * grid_steps(np.diag(np.diag(noise)), 0.5)  # a visible cost, so that the bound is tested
    for steps in (grid_steps(noise), coarse):
        loss = error(noise + np.diag(steps**2 / 6)) / error(noise) - 1
        assert 0 < loss <= rounding_cost(noise, steps)
    assert error(noise + np.diag(grid_steps(noise) ** 2 / 6)) / error(noise) - 1 < 1e-6


def test_the_rounding_error_is_uniform_and_tells_nothing_of_the_value() -> None:
    rng = np.random.default_rng(2)
    covariance = np.array([[1.0, 0.95], [0.95, 1.0]])
    steps = grid_steps(covariance)
    values = rng.standard_normal((200_000, 2)) @ np.linalg.cholesky(covariance).T + 0.3
    errors = (round_to_grid(values, steps) - values) / steps
    for column in range(2):
        assert stats.kstest(errors[:, column], "uniform", args=(-0.5, 1.0)).pvalue > FALSE_ALARM
        for other in (values[:, 0], values[:, 1], errors[:, 1 - column]):
            assert stats.pearsonr(errors[:, column], other).pvalue > FALSE_ALARM


def test_covariances_without_a_grid_are_refused() -> None:
    for bad in (np.ones((2, 2)), np.zeros((1, 1)), np.ones((2, 3)), np.diag([1.0, np.nan])):
        with pytest.raises(InvalidNetwork, match="covariance"):
            grid_steps(bad)
    assert grid_steps(np.empty((0, 0))).shape == (0,)


# ----------------------------------------------------------------------------- what remains


def exact_sums(readings: np.ndarray, row: np.ndarray) -> list[Fraction]:
    weights = [Fraction(float(c)) for c in row]
    return [
        sum((c * Fraction(float(y)) for c, y in zip(weights, reading, strict=True)), Fraction(0))
        for reading in readings
    ]


def test_rounding_errors_cross_a_boundary_no_more_often_than_promised() -> None:
    rng = np.random.default_rng(8)
    row = rng.standard_normal(4)
    row /= np.linalg.norm(row)
    hidden = rng.standard_normal(4)
    hidden -= row * (row @ hidden)
    readings = rng.standard_normal((10_000, 4)) + rng.uniform(-1e11, 1e11, (10_000, 1)) * hidden
    step = float(grid_step(1.0))
    released = round_to_grid(readings @ row, step)
    ideal = [round(exact / Fraction(step)) for exact in exact_sums(readings, row)]
    crossed = np.mean(
        [Fraction(float(z)) != k * Fraction(step) for z, k in zip(released, ideal, strict=True)]
    )
    promised = crossing_probability(readings, row[np.newaxis], step).mean()
    assert 0 < crossed < promised < 0.2


def test_readings_too_large_for_the_grid_to_hide_their_errors_are_not_released() -> None:
    compression = np.array([[0.6, -0.8, 0.0], [0.1, 0.2, 0.0]])
    steps = np.array([2.0**-9, 2.0**-10])
    per_unit = crossing_probability(np.array([1.0, 0.0, 0.0]), compression, steps)
    assert float(per_unit) == pytest.approx(4 * 2.0**-52 * (0.6 / steps[0] + 0.1 / steps[1]), rel=1e-12)
    largest = CROSSING_LIMIT / float(per_unit)
    rows = np.zeros((6, 3))
    rows[1:, 0] = [0.99 * largest, 1.01 * largest, np.nan, 1.0, 1.0]
    rows[4:, 2] = [np.nan, -np.inf]  # not used, and still a sign that something is wrong
    assert releasable(rows, compression, steps).tolist() == [True, True, False, False, False, False]
    assert [bool(releasable(row, compression, steps)) for row in rows] == [True, True] + [False] * 4


# ----------------------------------------------------------------------------- the low bits


class LowBitAttack:
    """Sees z = c(y₁ + y₂) and wants w, where y = (s₁ + w, s₂ - w): the exact value does not contain it.

    The attacker knows c and that readings are multiples of 2⁻²⁰, finds y₁ + y₂ from z, computes what z would
    be without rounding errors and looks at the difference: its size is that of the errors of the terms.
    """

    weight = 1.0 / 3.0
    resolution = 2.0**-20
    hidden = 40.0

    def readings(self, rng: np.random.Generator, present: np.ndarray) -> np.ndarray:
        signal = np.rint(rng.standard_normal((present.size, 2)) / self.resolution) * self.resolution
        return signal + np.outer(self.hidden * present, [1.0, -1.0])

    def numbers(self, readings: np.ndarray) -> np.ndarray:
        return readings @ np.array([self.weight, self.weight])

    def residuals(self, numbers: np.ndarray) -> np.ndarray:
        total = np.rint(numbers / self.weight / self.resolution) * self.resolution
        return np.abs(numbers - self.weight * total)

    def guess(self, train: np.ndarray, present: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Threshold and direction that were best on numbers whose secret the attacker knows."""
        known = self.residuals(train)
        thresholds = np.quantile(known, np.linspace(0, 1, 101))
        accuracy = np.array([np.mean((known > threshold) == present) for threshold in thresholds])
        best = int(np.argmax(np.abs(accuracy - 0.5)))
        above = self.residuals(numbers) > thresholds[best]
        return above if accuracy[best] > 0.5 else ~above


def without_hidden(attack: LowBitAttack, readings: np.ndarray, present: np.ndarray) -> np.ndarray:
    absent = readings - np.outer(attack.hidden * present, [1.0, -1.0])
    # sums of these readings are exact: in exact arithmetic z is the same whatever was withheld
    assert (readings.sum(axis=1) == absent.sum(axis=1)).all()
    return absent


def test_low_bits_of_ungridded_numbers_betray_what_was_withheld_and_gridded_ones_do_not() -> None:
    rng = np.random.default_rng(20)
    attack = LowBitAttack()
    count = 20_000
    present = rng.random(2 * count) < 0.5
    readings = attack.readings(rng, present)
    step = grid_step(attack.weight * np.sqrt(2.0))
    assert releasable(readings, [[attack.weight, attack.weight]], step).all()

    def successes(numbers: np.ndarray) -> int:
        guesses = attack.guess(numbers[:count], present[:count], numbers[count:])
        return int((guesses == present[count:]).sum())

    bare = attack.numbers(readings)
    bare_absent = attack.numbers(without_hidden(attack, readings, present))
    released = rounded_to_grid(bare[:, np.newaxis], step, 0.0, noise_source(1))[:, 0]
    assert successes(bare) > 0.9 * count
    low, high = stats.binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], count, 0.5)
    assert low <= successes(released) <= high
    # and no attack whatever: the numbers are those that would have been released had nothing been hidden
    assert (bare != bare_absent)[present].mean() > 0.9
    assert (released == rounded_to_grid(bare_absent[:, np.newaxis], step, 0.0, noise_source(1))[:, 0]).all()


def test_numbers_on_a_boundary_would_betray_without_dither_and_do_not_with_it() -> None:
    rng = np.random.default_rng(22)
    attack = LowBitAttack()
    step = float(grid_step(attack.weight * np.sqrt(2.0)))
    present = rng.random(20_000) < 0.5
    # thirds of these totals are odd multiples of half a step, but for the rounding of 1/3
    totals = 3 * (2 * rng.integers(-200, 200, present.size) + 1) * step / 2
    first = np.rint(rng.standard_normal(present.size) / attack.resolution) * attack.resolution
    absent = np.column_stack([first, totals - first])
    readings = absent + np.outer(attack.hidden * present, [1.0, -1.0])
    assert (without_hidden(attack, readings, present) == absent).all()
    hiding, nothing = attack.numbers(readings)[:, np.newaxis], attack.numbers(absent)[:, np.newaxis]
    assert (round_to_grid(hiding, step) != round_to_grid(nothing, step))[present].mean() > 0.2
    dithered = rounded_to_grid(hiding, step, 0.0, noise_source(4))
    assert (dithered == rounded_to_grid(nothing, step, 0.0, noise_source(4))).all()
    # with draws nobody can repeat: up or down is a fair coin, for either secret
    upward = (rounded_to_grid(hiding, step, 0.0, noise_source()) > hiding)[:, 0]
    for secret in (True, False):
        chosen = upward[present == secret]
        low, high = stats.binom.ppf([FALSE_ALARM / 100, 1 - FALSE_ALARM / 100], chosen.size, 0.5)
        assert low <= chosen.sum() <= high


def test_only_numbers_whose_noise_does_not_blur_the_grid_are_dithered() -> None:
    steps = np.array([1.0, 0.5, 2.0])
    values = np.tile([0.3, 0.3, 0.3], (50_000, 1))
    released = rounded_to_grid(values, steps, [0.0, 0.7, 1.9], noise_source(9))
    assert (released[:, 1] == 0.5).all()
    assert (released == round_to_grid(released, steps)).all()
    for column, expected in ((0, 0.3), (2, 0.15)):  # the chance of going up is what makes it unbiased
        ups = int((released[:, column] == steps[column]).sum())
        low, high = stats.binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], len(values), expected)
        assert low <= ups <= high
        assert set(np.unique(released[:, column])) == {0.0, steps[column]}
    single = rounded_to_grid(np.array([0.25, 0.3]), [1.0, 0.5], 0.0, noise_source())
    assert single.shape == (2,)
    with pytest.raises(InvalidReading):
        rounded_to_grid([[0.0, np.nan]], 1.0, 0.0, noise_source())


def test_dither_costs_no_more_than_promised() -> None:
    rng = np.random.default_rng(23)
    values = rng.standard_normal((400_000, 1))
    step = float(grid_step(1.0, cost=1e-2))  # coarse, so that its cost shows
    errors = (rounded_to_grid(values, step, 0.0, noise_source(5)) - values)[:, 0]
    # errors are triangular on (-step, step): variance step²/6, fourth moment step⁴/15
    deviation = step**2 * np.sqrt((1 / 15 - 1 / 36) / errors.size)
    assert abs(np.mean(errors**2) - step**2 / 6) < stats.norm.isf(FALSE_ALARM / 2) * deviation
    assert stats.pearsonr(errors, values[:, 0]).pvalue > FALSE_ALARM
    assert step**2 / 6 <= 1e-2


def test_last_bits_kept_by_the_grid_are_even_handed() -> None:
    rng = np.random.default_rng(21)
    attack = LowBitAttack()
    present = np.arange(40_000) % 2 == 0
    step = float(grid_step(attack.weight * np.sqrt(2.0)))
    numbers = attack.numbers(attack.readings(rng, present))
    multiples = (
        (rounded_to_grid(numbers[:, np.newaxis], step, 0.0, noise_source(6)) / step).astype(np.int64).ravel()
    )
    table = np.array(
        [np.bincount(multiples[present == secret] % 32, minlength=32) for secret in (True, False)]
    )
    assert stats.chi2_contingency(table).pvalue > FALSE_ALARM
