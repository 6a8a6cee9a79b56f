"""From a table to a network: planted truth, independent estimates, covariances of few rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import veilnet as vn
from helpers.calibration_table import (
    AGENTS,
    OFFSET,
    P0,
    READINGS,
    ROLES,
    H,
    R,
    chi_square_alarm,
    slow,
    table,
)
from veilnet.calibration.checks import held_out, ljung_box, normality, skewness_and_kurtosis
from veilnet.calibration.fitting import fit_report
from veilnet.calibration.shrinkage import likelihood_of_blocks, shrunk_covariance
from veilnet.model.lattice import step_of

pytestmark = pytest.mark.slow


# --- the model


def test_planted_model_is_found_within_its_standard_errors() -> None:
    rows = 20_000
    data = table(rows)
    network = vn.fit(data, **ROLES)
    assert network.agents == tuple(AGENTS)
    assert network.parameters == ("T_out", "people")
    np.testing.assert_array_equal(network.U, [[1.0, 0.0]])
    np.testing.assert_array_equal(network.private["people"], [[0.0, 1.0]])
    x = np.column_stack([np.ones(rows), data["T_out"], data["people"]])
    error = np.column_stack([network.offset - OFFSET, network.H - H])
    # given x, the errors of (offset, H) have covariance R ⊗ (x'x)^-1
    statistic = np.trace(np.linalg.solve(R, error) @ (x.T @ x) @ error.T)
    assert not chi_square_alarm(statistic, 18)
    assert chi_square_alarm(statistic + 60.0, 18)
    assert network.prior is not None
    assert network.prior.mean @ [1, 0] == pytest.approx(np.mean(data["T_out"]), rel=1e-12)
    for found, true in ((network.R.matrix(), R), (network.prior.covariance, P0)):
        whitened = np.linalg.solve(np.linalg.cholesky(true), found)
        whitened = np.linalg.solve(np.linalg.cholesky(true), whitened.T)
        # eigenvalues of a whitened sample covariance lie within about 2 √(N / T) of 1
        assert np.linalg.norm(whitened - np.eye(len(true)), 2) < 4 * np.sqrt(len(true) / rows) + 0.002


def test_least_squares_agrees_with_another_implementation() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    data = table(60)
    network = vn.fit(data, **ROLES, noise="independent", predictive=False)
    x = np.column_stack([data["T_out"], data["people"]])
    y = np.column_stack([data[name] for name in READINGS])
    other = linear_model.LinearRegression().fit(x, y)
    np.testing.assert_allclose(network.H, other.coef_, rtol=1e-9)
    np.testing.assert_allclose(network.offset, other.intercept_, rtol=1e-9)
    left = y - other.predict(x)
    np.testing.assert_allclose(np.diag(network.R.matrix()), np.sum(left**2, axis=0) / 57, rtol=1e-9)
    assert network.R.independent
    assert network.R.matrix()[0, 1] != 0
    assert vn.fit(data, **ROLES, prior=False).prior is None


def test_promises_do_not_depend_on_units() -> None:
    data = table(300)
    plain = vn.fit(data, **ROLES)
    units = dict(zip(data, (1e-9, 1e9, 1e3, 1e-6, 1e9, 1e-9, 7.0, 1e5), strict=True))
    scaled = vn.fit({name: units[name] * column for name, column in data.items()}, **ROLES)
    np.testing.assert_allclose(
        vn.check(scaled).ceiling["people"], vn.check(plain).ceiling["people"], rtol=1e-6
    )
    np.testing.assert_allclose(
        vn.privacy_limit(scaled)["people"], vn.privacy_limit(plain)["people"], rtol=1e-6
    )


def test_groups_of_columns_are_one_parameter() -> None:
    data = table(200) | {"RH_out": np.random.default_rng(1).standard_normal(200)}
    network = vn.fit(
        data, agents={"one": READINGS}, public={"climate": ["T_out", "RH_out"]}, private={"home": "people"}
    )
    assert network.parameters == ("T_out", "RH_out", "people")
    assert list(network.public) == ["climate"]
    assert network.U.shape == (2, 3)
    np.testing.assert_array_equal(network.private["home"], [[0, 0, 1]])


# --- shrinkage


def test_shrinkage_is_the_most_probable_for_blocks_left_out() -> None:
    samples = (
        np.random.default_rng(0).standard_normal((43, 5)) @ np.triu(np.ones((5, 5))) * [1, 1e-6, 3, 1e4, 1]
    )
    samples -= samples.mean(axis=0)
    unit = samples / np.sqrt(np.mean(samples**2, axis=0))
    weights = np.array([0.001, 0.03, 0.3, 0.9])
    expected = np.zeros(4)
    for test in np.array_split(np.arange(43), 5):
        train = np.delete(unit, test, axis=0)
        for place, weight in enumerate(weights):
            shrunk = (1 - weight) * train.T @ train / len(train) + weight * np.eye(5)
            expected[place] += np.sum(stats.multivariate_normal(cov=shrunk).logpdf(unit[test]))
    found = likelihood_of_blocks(samples, weights).sum(axis=0)
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-9)
    covariance, weight = shrunk_covariance(samples, 40)
    assert likelihood_of_blocks(samples, np.array([weight])).sum() >= np.max(found)
    expected = (1 - weight) * samples.T @ samples / 40
    np.fill_diagonal(expected, np.diag(samples.T @ samples / 40))
    np.testing.assert_allclose(covariance, expected, rtol=1e-12)


@pytest.mark.parametrize("shared", [0.0, 0.3, 0.99])
def test_shrinkage_beats_the_sample_covariance_when_rows_are_few_and_vanishes_when_many(shared) -> None:
    rng = np.random.default_rng(0)
    true = shared * np.ones((20, 20)) + (1 - shared) * np.eye(20)
    root = np.linalg.cholesky(true)

    def loss(found: np.ndarray) -> float:
        """Stein's, of the inverse: what bounds are made of."""
        ratio = np.linalg.solve(found, true)
        return float(np.trace(ratio) - np.linalg.slogdet(ratio)[1] - 20)

    shrunk, plain = [], []
    for _ in range(20):
        samples = rng.standard_normal((60, 20)) @ root.T
        samples -= samples.mean(axis=0)
        shrunk.append(loss(shrunk_covariance(samples, 59)[0]))
        plain.append(loss(samples.T @ samples / 59))
    assert np.mean(shrunk) < 0.5 * np.mean(plain)
    many = rng.standard_normal((20_000, 20)) @ root.T
    many -= many.mean(axis=0)
    found, weight = shrunk_covariance(many, 19_999)
    assert loss(found) <= 1.01 * loss(many.T @ many / 19_999) < 0.02
    assert weight < 0.05 or shared == 0.0


@given(st.integers(0, 10_000), st.integers(4, 12), st.integers(2, 30), st.floats(0, 0.999))
def test_covariances_are_positive_definite_with_fewer_rows_than_readings(
    seed, rows, readings, shared
) -> None:
    rng = np.random.default_rng(seed)
    common = rng.standard_normal(rows)
    y = shared * common[:, None] + np.sqrt(1 - shared**2) * rng.standard_normal((rows, readings))
    data = {f"y{k}": column for k, column in enumerate(y.T)}
    data |= {"u": rng.standard_normal(rows), "g": rng.standard_normal(rows)}
    made = fit_report(data, {"a": [f"y{k}" for k in range(readings)]}, ["u"], ["g"])
    matrix = made.network.R.matrix()
    scale = np.sqrt(np.diag(matrix))
    lowest = np.linalg.eigvalsh(matrix / np.outer(scale, scale))[0]
    if rows - 3 <= readings:
        assert lowest > 0.5 / (rows - 2) ** 2
    assert lowest > 0


def test_persistent_rows_are_shrunk_more() -> None:
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(0.4 * np.ones((10, 10)) + 0.6 * np.eye(10)).T
    independent, persistent = rng.standard_normal((400, 10)), slow(rng, 400, 10, 0.95)
    assert shrunk_covariance(persistent @ root, 399)[1] > 2 * shrunk_covariance(independent @ root, 399)[1]


# --- the report


def test_held_out_rows_are_contiguous_blocks_and_agree_with_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    from sklearn.model_selection import KFold, cross_val_predict

    data = table(203)
    x = np.column_stack([data["T_out"], data["people"]])
    y = np.column_stack([data[name] for name in READINGS])
    found, drift, folds = held_out(y, x)
    blocks = KFold(folds, shuffle=False)
    predicted = cross_val_predict(linear_model.LinearRegression(), x, y, cv=blocks)
    means = np.empty_like(y)
    for train, test in blocks.split(x):
        means[test] = y[train].mean(axis=0)
    expected = 1 - np.sum((y - predicted) ** 2, axis=0) / np.sum((y - means) ** 2, axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.all(np.abs(drift - 1) < 0.2)


def test_normality_and_independence_agree_with_their_textbooks() -> None:
    columns = np.random.default_rng(0).standard_t(8, (500, 3))
    columns -= columns.mean(axis=0)
    skewness, kurtosis = skewness_and_kurtosis(columns)
    np.testing.assert_allclose(skewness, stats.skew(columns), rtol=1e-10)
    np.testing.assert_allclose(kurtosis, stats.kurtosis(columns), rtol=1e-10)
    found = normality(skewness, kurtosis, np.full(3, 500.0))
    np.testing.assert_allclose(found, stats.normaltest(columns, axis=0).pvalue, rtol=1e-8)
    white = np.random.default_rng(1).standard_normal((200, 4000))
    probabilities = ljung_box(white - white.mean(axis=0))
    assert np.mean(probabilities < 0.05) == pytest.approx(0.05, abs=0.02)
    assert np.all(ljung_box(slow(np.random.default_rng(2), 200, 5, 0.8)) < 1e-6)


@given(
    st.sampled_from([1.0, 0.1, 0.05, 0.0625, 0.25, 1 / 3, 0.01, 1e-3, 1e-9, 1e6, 0.0123]),
    st.integers(-1000, 1000),
    st.integers(0, 10_000),
)
def test_the_step_of_a_lattice_is_found(step, start, seed) -> None:
    multiples = np.random.default_rng(seed).integers(0, 500, 200)
    assert step_of((start + multiples) * step) == pytest.approx(step, rel=1e-6)


@given(st.integers(0, 10_000))
def test_a_continuum_has_no_step(seed) -> None:
    assert step_of(np.random.default_rng(seed).standard_normal(200)) == 0.0


def test_report_reads_as_a_table() -> None:
    made = fit_report(table(400), **ROLES)
    text = str(made.report)
    for name in (*READINGS, "T_out", "people", "held out", "private", "cross-validated"):
        assert name in text
    readings = next(k for k, line in enumerate(text.splitlines()) if line.startswith("reading "))
    assert len({len(line.split()) for line in text.splitlines()[readings + 1 : readings + 7]}) == 1
    assert [r.agent for r in made.report.readings] == ["kitchen", "kitchen", "hall", "bath", "bath", "bath"]
    assert made.report.readings[5].noise == pytest.approx(15.0, rel=0.15)
    assert made.report.conditions["noise"] == pytest.approx(3.0 / 0.6, rel=0.3)
