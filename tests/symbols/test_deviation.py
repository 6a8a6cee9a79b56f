"""The theorem of symbols/deviation.py, by simulation with known truth and by a second route."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binom

from veilnet.symbols.deviation import Tally, highest_mean, is_refuted

ALPHA = 0.05


def random_law(rng: np.random.Generator) -> np.ndarray:
    """P(z, g): 2 to 500 cells, 2 to 10 values, from nearly flat to nearly one cell."""
    shape = int(np.exp(rng.uniform(np.log(2), np.log(500)))), int(rng.integers(2, 11))
    law = rng.dirichlet(np.full(shape[0] * shape[1], 10 ** rng.uniform(-1.5, 2)))
    return law.reshape(shape)


def bound_and_truth(rng: np.random.Generator, law: np.ndarray, size: int) -> tuple[float, float, float]:
    """(bound, truth, counted) of a sample in blocks of identical rows, the worst case; size 1: independent rows."""
    blocks = int(rng.integers(60, 900))
    counts = size * rng.multinomial(blocks, law.reshape(-1)).reshape(law.shape)
    total = float(counts.max(axis=1).sum())
    sample = Tally(size * blocks, blocks, size, yes_no=True)
    return highest_mean(total, sample, ALPHA), float(law.max(axis=1).sum()), total / sample.rows


@pytest.mark.parametrize("size", [1, 5])
def test_the_bound_holds_for_random_laws(size: int) -> None:
    rng = np.random.default_rng(size)
    found = np.array([bound_and_truth(rng, random_law(rng), size) for _ in range(200)])
    bound, truth, counted = found.T
    assert np.mean(bound < truth) <= ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / len(found))
    assert np.all(bound >= counted)
    assert np.median(bound - counted) < (0.05 if size == 1 else 0.13), "or it says nothing"


@pytest.mark.parametrize(("size", "least"), [(1, 0.02), (5, 0.002)])
def test_the_bound_is_tight_where_one_rule_is_best_on_every_sample(size: int, least: float) -> None:
    """One cell and a clear favourite: then the count has no bias, and the bound fails nearly as often as it may."""
    rng = np.random.default_rng(3)
    truth, blocks = 0.7, 200
    sample = Tally(size * blocks, blocks, size, yes_no=True)
    totals, many = np.unique(size * rng.binomial(blocks, truth, size=4000), return_counts=True)
    failed = sum(
        n for total, n in zip(totals, many, strict=True) if highest_mean(total, sample, ALPHA) < truth
    )
    assert least <= failed / 4000 <= ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / 4000)


def test_rows_that_differ_are_covered() -> None:
    """Strata with chances of their own, as a dealt log has them: the average is what is bounded."""
    rng = np.random.default_rng(4)
    chances = np.repeat([0.05, 0.3, 0.9], 100)
    sample = Tally(300, 300, 1, yes_no=True)
    totals = (rng.random((3000, 300)) < chances).sum(axis=1)
    failed = np.mean([highest_mean(total, sample, ALPHA) < chances.mean() for total in totals])
    assert failed <= ALPHA + 3 * np.sqrt(ALPHA * (1 - ALPHA) / 3000)


def test_rows_are_bounded_as_clopper_and_pearson_do() -> None:
    sample = Tally(3040, 3040, 1, yes_no=True)
    assert highest_mean(426, sample, ALPHA) == pytest.approx(beta.ppf(0.95, 427, 3040 - 426), rel=1e-12)
    assert binom.cdf(426, 3040, highest_mean(426, sample, ALPHA)) == pytest.approx(ALPHA, rel=1e-9)
    assert highest_mean(426, sample, ALPHA) == pytest.approx(0.151, abs=5e-4)  # McDiarmid: 0.162


@pytest.mark.parametrize(
    "sample",
    [Tally(500, 500, 1, True), Tally(500, 100, 5, True), Tally(500, 500, 1, False)],
)
@pytest.mark.parametrize("total", [0.0, 60.0, 333.0, 499.0, 500.0])
def test_two_routes_agree(sample: Tally, total: float) -> None:
    bound = highest_mean(total, sample, ALPHA)
    assert bound >= total / sample.rows
    assert is_refuted(total, bound * (1 + 1e-9), sample, ALPHA)
    if bound < 1:
        assert not is_refuted(total, bound - 1e-4, sample, ALPHA)


def test_blocks_of_several_rows_tell_less_than_as_many_rows() -> None:
    rows, blocks = Tally(1000, 1000, 1, True), Tally(1000, 200, 5, True)
    assert highest_mean(150, rows, ALPHA) < highest_mean(150, blocks, ALPHA) < 0.22


def test_a_figure_between_no_and_yes_is_bounded_too() -> None:
    rng = np.random.default_rng(5)
    sample = Tally(200, 200, 1, yes_no=False)
    totals = rng.beta(0.3, 1.2, size=(300, 200)).sum(axis=1)  # mean 0.2
    assert np.mean([highest_mean(total, sample, ALPHA) < 0.2 for total in totals]) <= ALPHA
