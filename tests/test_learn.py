"""scikit-learn estimators: its own checks, pipelines, searches, and errors against what the plan promises."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import veilnet as vn
from helpers.symbol_table import symbol_table
from veilnet.learn import PublicRegressor, SanitizingTransformer, SymbolClassifier, SymbolRegressor

pytestmark = [
    pytest.mark.small_search,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::veilnet.calibration.fitting.DoubtfulModel"),
]

AGENTS = {"kitchen": [0, 1, 2], "hall": [3, 4], "bath": [5, 6, 7]}


@parametrize_with_checks([SanitizingTransformer(common_factor=True), PublicRegressor(common_factor=True)])
def test_scikit_learn_checks(estimator, check) -> None:
    check(estimator)


class _SomethingPrivate:
    """Which scikit-learn's checks do not give."""

    def fit(self, X, y):
        return super().fit(X, y, sensitive=np.arange(0 if y is None else np.asarray(y).size) % 2)


class _Classifier(_SomethingPrivate, SymbolClassifier):
    pass


class _Regressor(_SomethingPrivate, SymbolRegressor):
    pass


FEW = dict.fromkeys(
    [
        "check_n_features_in_after_fitting",
        "check_estimators_nan_inf",
        "check_fit2d_1feature",
        "check_classifier_data_not_an_array",
        "check_regressors_no_decision_function",
    ],
    "it has fewer than 16 rows, from which nothing can be certified",
)


@pytest.mark.long
@parametrize_with_checks([_Classifier(), _Regressor()], expected_failed_checks=lambda _: FEW)
def test_scikit_learn_checks_of_symbols(estimator, check) -> None:
    check(estimator)


def test_symbols_in_scikit_learn_are_those_of_learn_symbols() -> None:
    log = symbol_table(300)
    X, y = np.stack([log[name] for name in "abcd"], axis=1), np.array(log["activity"])
    agents = {"hall": [0, 1], "attic": [2, 3]}
    model = clone(SymbolClassifier(agents, guessed=0.75, random_state=3)).fit(X, y, log["person"])
    assert model.plan_.certificate["sensitive"].guessed <= 0.75
    fresh = symbol_table(900, seed=2)
    later, truth = np.stack([fresh[name] for name in "abcd"], axis=1), np.array(fresh["activity"])
    later[5, :2] = 1e9
    sent = model.transform(later)
    assert sent[5, 0] == -1, "an agent in doubt sends nothing"
    assert sent[5, 1] >= 0
    columns = dict(zip(("x0", "x1", "x2", "x3"), later.T, strict=True))
    assert {name: each.tolist() for name, each in model.plan_.send(columns).items()} == dict(
        zip(model.get_feature_names_out(), sent.T.tolist(), strict=True)
    )
    chances = model.predict_proba(later)
    assert chances.sum(axis=1) == pytest.approx(1)
    assert np.array_equal(model.predict(later), model.classes_[chances.argmax(axis=1)])
    assert model.score(later, truth) > 0.8


def test_a_number_from_symbols_and_what_symbols_refuse() -> None:
    log = symbol_table(300)
    X = np.stack([log[name] for name in "abcd"], axis=1)
    model = SymbolRegressor("each", random_state=3).fit(X, log["heat"], log["person"], groups=log["session"])
    assert model.plan_.certificate["sensitive"].blocks == 50
    fresh = symbol_table(900, seed=2)
    assert model.score(np.stack([fresh[name] for name in "abcd"], axis=1), fresh["heat"]) > 0.6
    with pytest.raises(ValueError, match="sensitive: expected what must not be known"):
        SymbolClassifier().fit(X, log["activity"])
    with pytest.raises(ValueError, match="found one class"):
        SymbolClassifier().fit(X, ["sit"] * 300, log["person"])


def house(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Readings of eight sensors, the outdoor temperature and how many people there are."""
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(99).uniform(-1, 1, (8, 2))
    mixing = np.random.default_rng(98).uniform(-0.5, 0.5, (8, 8)) + np.eye(8)
    x = rng.standard_normal((rows, 2)) @ np.array([[4.0, 0.5], [0.0, 1.0]]) + [10.0, 2.0]
    readings = x @ weights.T + 20.0 + 0.4 * rng.standard_normal((rows, 8)) @ mixing.T
    return readings, x[:, 0], x[:, 1]


def test_errors_are_those_the_plan_promises() -> None:
    X, y, people = house(6000)
    X_new, y_new, people_new = house(20_000, seed=1)
    regressor = PublicRegressor(AGENTS, privacy=60.0).fit(X, y, sensitive=people)
    network, plan = regressor.network_, regressor.plan_
    assert plan.privacy["sensitive"] >= 60.0 * (1 - 1e-9)
    bound = vn.crlb(network, plan.sanitizers)
    # 6000 rows know variances to about 2 %, 20,000 to 1 %
    assert np.mean((regressor.predict(X_new) - y_new) ** 2) == pytest.approx(bound[0, 0], rel=0.1)

    transformer = SanitizingTransformer(AGENTS, privacy=60.0).fit(X, y, sensitive=people)
    attack = LinearRegression().fit(transformer.transform(X), people)
    left = np.mean((attack.predict(transformer.transform(X_new)) - people_new) ** 2)
    assert left == pytest.approx(bound[1, 1], rel=0.1)
    raw = np.mean((LinearRegression().fit(X, people).predict(X_new) - people_new) ** 2)
    assert left > 50 * raw


def test_one_agent_sends_one_number_that_suffices() -> None:
    X, y, people = house(3000)
    X_new, y_new, _ = house(3000, seed=1)
    transformer = SanitizingTransformer(random_state=0).fit(X, y, sensitive=people)
    messages = transformer.transform(X)
    assert messages.shape == (3000, 1)
    plain = LinearRegression().fit(X, y).score(X_new, y_new)
    kept = LinearRegression().fit(messages, y).score(transformer.transform(X_new), y_new)
    assert 1 - kept == pytest.approx(1 - plain, rel=0.02)


@pytest.mark.long
@pytest.mark.no_cover
def test_pipeline_clone_and_search_over_privacy() -> None:
    X, y, people = house(800)
    pipeline = make_pipeline(SanitizingTransformer(AGENTS, random_state=0), Ridge(1e-6))
    search = GridSearchCV(pipeline, {"sanitizingtransformer__privacy": [0.0, 60.0]}, cv=2, refit=False)
    search.fit(X, y, sanitizingtransformer__sensitive=people)
    free, costly = search.cv_results_["mean_test_score"]
    assert free > costly > 0.5
    assert search.best_params_ == {"sanitizingtransformer__privacy": 0.0}

    search = GridSearchCV(PublicRegressor(AGENTS, random_state=0), {"privacy": [0.0, 10.0]}, cv=2)
    search.fit(X, y, sensitive=people)  # both below the ceiling: free
    np.testing.assert_allclose(1 - search.cv_results_["mean_test_score"], 1 - free, rtol=0.05)
    assert search.predict(X).shape == y.shape

    copy = clone(PublicRegressor(AGENTS, privacy=3.0, random_state=4))
    assert copy.get_params() == {
        "agents": AGENTS, "privacy": 3.0, "utility_loss": None, "common_factor": False, "random_state": 4
    }  # fmt: skip


def test_seeded_noise_repeats_and_secure_noise_does_not() -> None:
    X, y, people = house(300)
    seeded = SanitizingTransformer(AGENTS, privacy=3.0, random_state=0).fit(X, y, sensitive=people)
    np.testing.assert_array_equal(seeded.transform(X), seeded.transform(X))
    np.testing.assert_array_equal(seeded.transform(X), clone(seeded).fit_transform(X, y, sensitive=people))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(seeded)).transform(X), seeded.transform(X))
    secure = SanitizingTransformer(AGENTS, privacy=3.0).fit(X, y, sensitive=people)
    assert not np.array_equal(secure.transform(X), secure.transform(X))
    for source in (np.random.RandomState(3), np.random.default_rng(3)):
        seeded.set_params(random_state=source)
        assert not np.array_equal(seeded.transform(X), seeded.transform(X))


def test_frames_give_names_and_agents_may_use_them() -> None:
    pandas = pytest.importorskip("pandas")
    X, y, people = house(300)
    frame = pandas.DataFrame(X, columns=[f"s{k}" for k in range(8)])
    agents = {"kitchen": ["s0", "s1"], "hall": ["s3"]}
    transformer = SanitizingTransformer(agents, random_state=0).set_output(transform="pandas")
    transformer.fit(frame, pandas.Series(y, name="T_out"), sensitive=pandas.DataFrame({"people": people}))
    assert list(transformer.network_.public) == ["T_out"]
    assert list(transformer.network_.private) == ["people"]
    sent = transformer.transform(frame)
    assert list(sent.columns) == ["kitchen_1", "hall_1"]
    assert list(transformer.get_feature_names_out()) == ["kitchen_1", "hall_1"]
    # what no agent holds is not used
    frame["s7"] = 0.0
    np.testing.assert_array_equal(sent, transformer.transform(frame))
    each = SanitizingTransformer("each").fit(frame, y, sensitive=people)
    assert each.network_.agents == tuple(frame.columns)


def test_without_sensitive_the_common_factor_is_private() -> None:
    rng = np.random.default_rng(0)
    rows = 20_000
    y, factor = rng.standard_normal((2, rows))
    shown, loading = rng.uniform(-1, 1, (2, 8))
    X = np.outer(y, shown) + 1.5 * np.outer(factor, loading) + 0.5 * rng.standard_normal((rows, 8))
    fitted = PublicRegressor(common_factor=True).fit(X, y)
    network = fitted.network_
    assert list(network.private) == ["common factor"]
    found = network.H[:, 1] / np.linalg.norm(network.H[:, 1])
    # noise of unequal size is taken for part of the factor: close, not equal
    assert abs(found @ loading) / np.linalg.norm(loading) > 0.97
    implied = network.H @ network.prior.covariance @ network.H.T + network.R.matrix()
    assert np.linalg.norm(implied - np.cov(X.T), 2) < 0.02 * np.linalg.norm(implied, 2)
    assert fitted.plan_.privacy["common factor"] > 1


def test_awkward_columns_are_borne() -> None:
    X, y, people = house(60)
    X[:, 1] = X[:, 0]  # a copy
    X[:, 3] = 7.0  # constant
    X[:, 4] = y  # without noise
    fitted = PublicRegressor(AGENTS).fit(X, np.column_stack([y, y]), sensitive=people)
    np.testing.assert_allclose(fitted.predict(X), np.column_stack([y, y]), rtol=1e-3)
    constant = PublicRegressor(common_factor=True).fit(house(60)[0], np.full(60, 3.0))
    np.testing.assert_allclose(constant.predict(X), 3.0, rtol=1e-9)


@pytest.mark.parametrize(
    ("agents", "words"),
    [
        ({"kitchen": [0, 9]}, "no column 9"),
        ({"kitchen": ["nix"]}, "no column 'nix'"),
        ({"kitchen": [0], "hall": [0]}, "none used twice"),
        ({"kitchen": []}, "at least one column"),
        ("all of them", "agent -> columns"),
    ],
)
def test_wrong_agents_are_refused(agents, words) -> None:
    X, y, people = house(50)
    with pytest.raises(vn.InvalidRequest, match=words):
        SanitizingTransformer(agents).fit(X, y, sensitive=people)


def test_other_mistakes_are_refused() -> None:
    X, y, people = house(50)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        PublicRegressor().fit(X, y, sensitive=people[:-1])
    with pytest.raises(ValueError, match="NaN"):
        PublicRegressor().fit(X, y, sensitive=np.full(50, np.nan))
    with pytest.raises(vn.Infeasible, match="silence"):
        PublicRegressor(privacy=1e9).fit(X, y, sensitive=people)
    with pytest.raises(vn.InvalidRequest, match="n_samples = 3"):
        PublicRegressor().fit(X[:3], y[:3], sensitive=people[:3])


@pytest.mark.parametrize("kind", [SanitizingTransformer, PublicRegressor])
def test_a_forgotten_sensitive_is_an_error(kind) -> None:
    """It was silently replaced by a factor that nobody asked to protect."""
    X, y, people = house(50)
    with pytest.raises(
        vn.InvalidRequest, match=r"sensitive: expected what must not be known.*common_factor=True"
    ):
        kind().fit(X, y)
    with pytest.raises(vn.InvalidRequest, match="sanitizingtransformer__sensitive"):
        make_pipeline(SanitizingTransformer(), Ridge()).fit(X, y)
    with pytest.raises(vn.InvalidRequest, match="leave one out"):
        kind(common_factor=True).fit(X, y, sensitive=people)


def test_doubts_are_those_of_fit() -> None:
    X, y, people = house(400)
    X[:, 2] = (X[:, 2] - 20) ** 2  # nothing linear about it
    table = {f"s{k}": X[:, k] for k in range(8)} | {"y": y, "people": people}
    agents = {agent: [f"s{k}" for k in mine] for agent, mine in AGENTS.items()}
    expected = vn.fit_report(table, agents, "y", "people").warnings
    assert expected
    with pytest.warns(vn.DoubtfulModel) as caught:
        SanitizingTransformer(AGENTS).fit(X, y, sensitive=people)
    assert len(caught) == len(expected)
    X[:, 1] = X[:, 0]
    with pytest.warns(vn.DoubtfulModel, match="fit would refuse these data.*repeat"):
        SanitizingTransformer(AGENTS).fit(X, y, sensitive=people)


def test_without_scikit_learn_the_error_is_the_line_that_installs_it() -> None:
    code = "import sys; sys.modules['sklearn'] = None; import veilnet.learn"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert (
        ran.stderr.strip()
        .splitlines()[-1]
        .endswith('(in the folder of its source: pip install ".[sklearn]")')
    )
