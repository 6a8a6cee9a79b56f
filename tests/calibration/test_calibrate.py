"""From a table to a network: planted truth, independent estimates, every doubt and every refusal."""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import veilnet as vn
from veilnet import cli
from veilnet.calibration.checks import held_out, ljung_box, normality, skewness_and_kurtosis
from veilnet.calibration.fitting import DoubtfulModel, fit_report
from veilnet.calibration.shrinkage import held_out_likelihood, shrunk_covariance
from veilnet.io.tables import column_names, read_columns
from veilnet.model.lattice import step_of

pytestmark = pytest.mark.slow

AGENTS = {"kitchen": ["T1", "RH1"], "hall": ["T2"], "bath": ["T3", "RH3", "CO2"]}
READINGS = [name for named in AGENTS.values() for name in named]
ROLES = {"agents": AGENTS, "public": ["T_out"], "private": ["people"]}
H = np.array([[0.2, 0.5], [-0.5, 3.0], [0.3, 0.1], [0.1, 0.0], [-1.0, 1.0], [0.5, 40.0]])
OFFSET = np.array([20.0, 50.0, 19.0, 21.0, 60.0, 400.0])
DEVIATIONS = np.array([0.4, 2.0, 0.3, 0.5, 3.0, 15.0])
CORRELATION = 0.4 * np.ones((6, 6)) + 0.6 * np.eye(6)
R = CORRELATION * np.outer(DEVIATIONS, DEVIATIONS)
P0 = np.array([[49.0, 2.0], [2.0, 1.0]])
MEAN = np.array([5.0, 2.0])


def table(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """A table drawn from exactly the model above."""
    rng = np.random.default_rng(seed)
    x = MEAN + rng.standard_normal((rows, 2)) @ np.linalg.cholesky(P0).T
    y = OFFSET + x @ H.T + rng.standard_normal((rows, 6)) @ np.linalg.cholesky(R).T
    return {"T_out": x[:, 0], "people": x[:, 1], **dict(zip(READINGS, y.T, strict=True))}


def chi_square_alarm(statistic: float, freedom: int) -> bool:
    """True with probability 1e-6 if the statistic has the law it should have."""
    return statistic > stats.chi2.isf(1e-6, freedom)


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
    for found, true in ((network.noise.matrix(), R), (network.prior.covariance, P0)):
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
    np.testing.assert_allclose(np.diag(network.noise.matrix()), np.sum(left**2, axis=0) / 57, rtol=1e-9)
    assert network.noise.independent
    assert network.noise.matrix()[0, 1] != 0
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
    found = held_out_likelihood(samples, weights)
    np.testing.assert_allclose(np.diff(found), np.diff(expected) / 43, rtol=1e-9)
    covariance, weight = shrunk_covariance(samples, 40)
    assert held_out_likelihood(samples, np.array([weight])) >= np.max(found)
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
    matrix = made.network.noise.matrix()
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
    for name in (*READINGS, "T_out", "people", "held out", "private", "Condition numbers"):
        assert name in text
    assert len({len(line.split()) for line in text.splitlines()[3:9]}) == 1
    assert [r.agent for r in made.report.readings] == ["kitchen", "kitchen", "hall", "bath", "bath", "bath"]
    assert made.report.readings[5].noise == pytest.approx(15.0, rel=0.15)
    assert made.report.conditions["noises of the readings"] == pytest.approx(3.0 / 0.6, rel=0.3)


# --- doubts


def slow(rng: np.random.Generator, rows: int, columns: int, rho: float) -> np.ndarray:
    steps = rng.standard_normal((rows, columns))
    for t in range(1, rows):
        steps[t] = rho * steps[t - 1] + np.sqrt(1 - rho**2) * steps[t]
    return steps


@pytest.mark.parametrize("rows", [100, 1000, 20_000])
def test_data_from_the_model_raise_no_doubt(rows) -> None:
    for seed in range(20 if rows < 20_000 else 3):
        assert fit_report(table(rows, seed), **ROLES).warnings == ()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vn.fit(table(rows), **ROLES)


def _heavy(data, rng):
    data["T2"] = data["T2"] + rng.standard_t(3, 1000)


def _curved(data, _):
    data["T2"] = data["T2"] + 0.01 * (data["T_out"] - 5) ** 2


def _unequal(data, rng):
    data["T2"] = data["T2"] + np.exp(0.1 * data["T_out"]) * rng.standard_normal(1000)


def _persistent(data, rng):
    data["T2"] = data["T2"] + slow(rng, 1000, 1, 0.9)[:, 0]


def _drifting(data, _):
    data["T2"] = data["T2"] + np.linspace(-0.5, 0.5, 1000) * data["T_out"]


def _coarse(data, _):
    data["T1"] = np.round(data["T1"])


def _binary(data, _):
    data["people"] = (data["people"] > 2).astype(float)


def _skewed(data, _):
    data["people"] = np.exp(data["people"])


def _slow_parameter(data, rng):
    changes = 7 * slow(rng, 1000, 1, 0.95)[:, 0] - data["T_out"]
    data["T_out"] = data["T_out"] + changes
    for name, weight in zip(READINGS, H[:, 0], strict=True):
        data[name] = data[name] + weight * changes


def _told(data, rng):
    data["people"] = data["T_out"] + rng.standard_normal(1000)


@pytest.mark.parametrize(
    ("spoil", "words", "named"),
    [
        (_heavy, "not Gaussian", "T2"),
        (_curved, "Not linear", "T2"),
        (_unequal, "noise is larger at some values", "T2"),
        (_persistent, "carries over", "T2"),
        (_drifting, "had not seen", "T2"),
        (_coarse, "Coarse", "T1"),
        (_binary, "only a few values", "people"),
        (_skewed, "far from Gaussian", "people"),
        (_slow_parameter, "Changes slowly", "T_out"),
        (_told, "public parameters alone", "people"),
    ],
)
def test_each_doubt_is_raised_and_named(spoil, words, named) -> None:
    data = table(1000)
    spoil(data, np.random.default_rng(5))
    made = fit_report(data, **ROLES)
    mine = [sentence for sentence in made.warnings if words in sentence]
    assert len(mine) == 1
    assert named in mine[0]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vn.fit(data, **ROLES)
    assert [str(one.message) for one in caught] == list(made.warnings)
    assert {(one.category, Path(one.filename).name) for one in caught} == {
        (DoubtfulModel, "test_calibrate.py")
    }
    assert all(f"- {sentence}" in str(made) for sentence in made.warnings)


def test_a_single_coarse_reading_withholds_nothing() -> None:
    data = table(1000)
    data["T2"] = np.round(data["T2"], 1)
    assert fit_report(data, **ROLES).warnings == ()


def test_few_rows_are_said_to_be_few() -> None:
    sentences = fit_report(table(12), **ROLES).warnings
    assert any("Few rows: 12" in sentence for sentence in sentences)
    assert any("so many readings" in sentence for sentence in sentences)


# --- tables


def test_every_kind_of_table_gives_the_same_network(tmp_path: Path) -> None:
    data = table(50)
    expected = vn.fit(data, **ROLES)
    structured = np.rec.fromarrays(list(data.values()), names=list(data))
    path = tmp_path / "data.csv"
    write_csv(path, data)
    tables: list[object] = [structured, np.asarray(structured), str(path), path]
    tables.append({name: column.tolist() for name, column in data.items()})
    for frames in ("pandas", "polars"):
        module = pytest.importorskip(frames)
        tables.append(module.DataFrame(data))
    for one in tables:
        network = vn.fit(one, **ROLES)
        np.testing.assert_array_equal(network.H, expected.H)
        np.testing.assert_array_equal(network.noise.matrix(), expected.noise.matrix())
        assert set(column_names(one)) == set(data)


def write_csv(path: Path, data: dict[str, np.ndarray], delimiter: str = ",") -> None:
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(data)
        writer.writerows(zip(*(column.tolist() for column in data.values()), strict=True))


def test_missing_values_of_every_kind(tmp_path: Path) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    expected = [1.0, np.nan, 3.0]
    nullable = pandas.DataFrame({"a": pandas.array([1, None, 3], dtype="Int64")})
    masked = {"a": np.ma.array([1, 2, 3], mask=[0, 1, 0])}
    tables = [
        {"a": [1, None, 3]}, nullable, masked, polars.DataFrame({"a": [1, None, 3]}),
    ]  # fmt: skip
    for text in ("a,b\n1,x\n,x\n3,x\n", "b;a\nx;1\nx; NA\n\nx;3\n", 'a\tb\n1\t"x\ny"\nnan\tx\n3\tx\n'):
        path = tmp_path / "data.csv"
        path.write_text(text)
        tables.append(path)
    for one in tables:
        np.testing.assert_array_equal(read_columns(one, ["a"])["a"], expected)


def test_rows_with_missing_values_are_refused_or_dropped() -> None:
    data = table(60)
    data["T2"][[3, 7]] = np.nan
    data["people"][7] = np.nan
    with pytest.raises(vn.InvalidNetwork, match=r"2 of 60 rows.*'T2': 2.*missing=\"drop\""):
        vn.fit(data, **ROLES)
    made = fit_report(data, **ROLES, missing="drop")
    keep = np.delete(np.arange(60), [3, 7])
    expected = vn.fit({name: column[keep] for name, column in data.items()}, **ROLES)
    np.testing.assert_array_equal(made.network.H, expected.H)
    assert (made.report.rows, made.report.dropped) == (58, 2)
    assert "2 left out" in str(made.report)


@pytest.mark.parametrize(
    ("change", "roles", "words"),
    [
        ({"T2": np.full(40, 21.5)}, {}, r"'T2' is constant \(21.5"),
        ({"people": np.ones(40)}, {}, "'people' is constant"),
        ({"T2": lambda d: d["T1"]}, {}, "'T1' and 'T2' repeat"),
        ({"T2": lambda d: 32 + 1.8 * d["T1"] + d["people"]}, {}, "'T1' and 'T2' repeat"),
        ({"T2": lambda d: d["T1"] + d["T3"]}, {}, r"'T.' is a linear function of T. and T.|T3 and T"),
        ({"T2": lambda d: 3 * d["T_out"] - 1}, {}, "'T2' is an exact linear function of T_out and people"),
        ({"people": lambda d: 2 * d["T_out"]}, {}, "is a linear function of.*leave one out"),
        ({}, {"public": ["T2"]}, "'T2' is a reading of hall and also public"),
        ({}, {"private": ["T_out"]}, "'T_out' is also public"),
        ({}, {"public": ["nix"]}, "no column 'nix'; its columns are 'T_out'"),
        ({}, {"agents": {"a": ["T1"], "b": ["T1"]}}, "'T1' belongs to a and b"),
        ({}, {"agents": {"a": ["T1", "T1"]}}, "used twice"),
        ({}, {"agents": {"a": []}}, "at least one column"),
        ({}, {"agents": {"plan": ["T1"]}}, "plan"),
        ({}, {"agents": ["T1"]}, "agent -> columns"),
        ({}, {"private": []}, "private: expected at least one"),
        ({}, {"public": {"u": 3}}, "expected column names"),
        ({}, {"missing": "fill"}, "'refuse', 'drop'"),
        ({}, {"noise": "none"}, "'joint', 'independent'"),
        ({"T2": ["warm"] * 40}, {}, "'T2': expected numbers"),
        ({"T2": [1.0, "warm"] * 20}, {}, "'T2'"),
        ({"T2": [None, object()] * 20}, {}, "'T2', row 2: expected a number"),
        ({"T2": np.full(40, np.inf)}, {}, "'T2', row 1: expected a finite number"),
        ({"T2": np.arange(40).astype("M8[D]")}, {}, "'T2': expected numbers"),
        ({"T2": np.zeros((40, 2))}, {}, "'T2': expected one value per row"),
        ({"T2": np.arange(39.0)}, {}, "'T2' has 39 rows"),
    ],
)
def test_refusals_name_the_column(change, roles, words) -> None:
    data = table(40)
    data |= {name: made(data) if callable(made) else made for name, made in change.items()}
    asked = roles and roles.get("agents") != {"plan": ["T1"]}  # a name no network may have
    with pytest.raises(vn.InvalidRequest if asked else vn.InvalidNetwork, match=words):
        vn.fit(data, **(ROLES | roles))


def test_too_few_rows_and_wrong_tables() -> None:
    with pytest.raises(vn.InvalidNetwork, match="at least 4 complete rows for 2 parameters, found 3"):
        vn.fit(table(3), **ROLES)
    assert fit_report(table(4), **ROLES).network.N == 6
    with pytest.raises(vn.InvalidNetwork, match="a plain matrix needs names"):
        vn.fit(np.zeros((4, 4)), **ROLES)
    pandas = pytest.importorskip("pandas")
    with pytest.raises(vn.InvalidNetwork, match="'T1' appears twice"):
        vn.fit(pandas.DataFrame(np.zeros((4, 2)), columns=["T1", "T1"]), **ROLES)


# --- the command

OPTIONS = ["--agent", "kitchen=T1,RH1", "--agent", "hall=T2", "--public", "T_out", "--private", "people"]


def test_the_command_writes_the_network_and_says_how_good_it_is(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = table(300)
    data["T1"] = np.round(data["T1"])
    write_csv(Path("data.csv"), data, delimiter=";")
    assert cli.run(["fit", "data.csv", *OPTIONS, "--out", "house.toml"]) == 0
    shown = capsys.readouterr().out
    assert "held out" in shown
    assert "Doubtful (coarse): Coarse readings: T1" in shown
    assert "veilnet check house.toml" in shown
    roles = {"agents": {"kitchen": ["T1", "RH1"], "hall": ["T2"]}, "public": "T_out", "private": "people"}
    expected = fit_report(data, **roles).network
    loaded = vn.Network.load("house.toml")
    np.testing.assert_array_equal(loaded.H, expected.H)
    np.testing.assert_array_equal(loaded.noise.matrix(), expected.noise.matrix())
    np.testing.assert_array_equal(loaded.offset, expected.offset)
    np.testing.assert_array_equal(loaded.prior.mean, expected.prior.mean)

    assert cli.run(["fit", "data.csv", *OPTIONS[:-2], "--private", "home=people,CO2", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [p["name"] for p in answer["report"]["parameters"]] == ["T_out", "people", "CO2"]
    assert answer["written"] is None
    assert answer["warnings"]


def test_the_command_replaces_a_file_only_when_forced(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(Path("data.csv"), table(40))
    Path("house.toml").write_text("written by hand\n")
    command = ["fit", "data.csv", *OPTIONS, "--out", "house.toml"]
    assert cli.run(command) == 2
    shown = capsys.readouterr()
    assert "house.toml: exists already; choose another name, or --force to replace it" in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
    assert Path("house.toml").read_text() == "written by hand\n"
    assert cli.run([*command, "--force"]) == 0
    assert vn.Network.load("house.toml").N == 3


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (None, OPTIONS, "No such file"),
        ("T1,RH1,T2,T_out,people\n1,2,,4,5\n", OPTIONS, "--missing drop"),
        ("", OPTIONS, "names the columns"),
        ("1,2\n3,4\n", OPTIONS, "put the names above"),
        ("T1,T1\n3,4\n", OPTIONS, "'T1' appears twice"),
        ("T1,T2\n3,4\n", OPTIONS, "no column"),
        ("T1,RH1,T2,T_out,people\n1,2,3\n", OPTIONS, "line 2: expected 5 cells, found 3"),
        ('T1,RH1,T2,T_out,people\n1,2,3,"1,5",0\n', OPTIONS, "decimals with a point"),
        ("T1,RH1,T2,T_out,people\n1,2,3,inf,0\n", OPTIONS, "'T_out', row 2: expected a finite"),
        ("T1,RH1,T2,T_out,people\n1,2,3,4,5\n", OPTIONS, "at least 4 complete rows"),
        ("T1,T_out,people\n", ["--agent", "T1", "--public", "T_out", "--private", "people"], "name=column"),
        ("T1,T_out,people\n", [*OPTIONS, "--agent", "hall=T1"], "'hall' is given twice"),
        ("T1,T_out,people\n", [*OPTIONS, "--public", "T_out"], "'T_out' is given twice"),
        ("T1,T_out,people\n", [*OPTIONS, "--missing", "guess"], "'refuse', 'drop'"),
        ("T1,T_out,people\n", OPTIONS[:-2], "--private"),
    ],
)
def test_mistakes_on_the_command_line_are_one_line(tmp_path, capsys, text, options, words) -> None:
    path = tmp_path / "data.csv"
    if text is not None:
        path.write_text(text)
    assert cli.run(["fit", str(path), *options, "--out", str(tmp_path / "house.toml")]) == 2
    shown = capsys.readouterr().err
    assert words in shown
    assert shown.count("\n") == 1
    assert not (tmp_path / "house.toml").exists()


@settings(max_examples=150)
@given(st.data())
def test_damaged_tables_never_end_in_a_traceback(tmp_path_factory, data) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.csv"
    write_csv(path, {name: np.round(column, 2) for name, column in table(12).items()})
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.integers(0, len(content) - 1))
        length = data.draw(st.integers(0, 40))
        content[place : place + length] = data.draw(
            st.binary(max_size=8) | st.sampled_from([b",", b"\n", b'"', b"1e999"])
        )
        if not content:
            break
    path.write_bytes(bytes(content))
    assert cli.run(["fit", str(path), *OPTIONS]) in (0, 2)
