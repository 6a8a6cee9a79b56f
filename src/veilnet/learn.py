"""Sanitization as scikit-learn estimators: ``pip install "veilnet[sklearn]"``, ``pip install ".[sklearn]"`` in the
folder of its source.

The columns of X are readings, y is what may be known, ``sensitive`` (an argument of ``fit``, as long as y) is
what must not. Both estimators fit the linear Gaussian model of :mod:`veilnet.calibration.fitting` and design a
plan for it; the transformer then gives what the agents send, the regressor what the centre makes of it::

    model = make_pipeline(SanitizingTransformer(privacy=10.0), Ridge())
    model.fit(X, y, sanitizingtransformer__sensitive=lights)

Where the data contradict the model, fitting warns as :func:`veilnet.fit` does (:class:`veilnet.DoubtfulModel`).
Rows of a log resemble their neighbours: validate on blocks of time (``TimeSeriesSplit``), never on rows drawn at
random.

Where y is a class, or the data are curved, :class:`SymbolClassifier` and :class:`SymbolRegressor` learn a plan of
symbols instead (:func:`veilnet.learn_symbols`).

Unlike :func:`veilnet.fit`, which refuses them, fitting here bears columns that are constant, repeat
each other or show y without noise (all of which happen in the folds of a cross-validation): every reading
is taken to have noise of at least 1e-4 of its deviation.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest, VeilnetError
from veilnet._core.extras import missing_extra
from veilnet._core.types import Array
from veilnet.agent.randomness import noise_source
from veilnet.calibration.coarseness import found_resolution, with_rounding
from veilnet.calibration.fitting import DoubtfulModel, fit_report
from veilnet.calibration.linear_model import LinearModel, fit_linear
from veilnet.centre.fusion import Fusion
from veilnet.designs import design
from veilnet.io.cells import is_number
from veilnet.model.network import Network, Prior
from veilnet.plans.plan import Plan
from veilnet.symbols.learning import learn_symbols
from veilnet.symbols.plan import SymbolPlan

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, validate_data
except ImportError as error:  # pragma: no cover - tested in a process of its own
    raise missing_extra("veilnet.learn needs scikit-learn", "sklearn") from error

__all__ = ["PublicRegressor", "SanitizingTransformer", "SymbolClassifier", "SymbolRegressor"]

_LEAST_NOISE = 1e-4  # of a reading's deviation, and of correlations
_ALL = "all"
_COMMON = "common factor"

_Names = tuple[list[str], list[str]]  # of public columns, and of private ones
_Columns = Mapping[str, np.ndarray[Any, Any]]  # agent -> places of its columns in X


class _Sanitizing(BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """What both estimators share: from (X, y, sensitive) to a plan."""

    def __init__(
        self,
        agents: Mapping[str, Sequence[Any]] | str | None = None,
        *,
        privacy: float | Mapping[str, float] | None = None,
        utility_loss: float | str | None = None,
        common_factor: bool = False,
        random_state: Any = None,
    ) -> None:
        self.agents = agents
        self.common_factor = common_factor
        self.privacy = privacy
        self.utility_loss = utility_loss
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sensitive: Any = None) -> Any:
        """Fit the model to readings X (T, N), public y (T,) or (T, k) and private ``sensitive``, likewise."""
        given = y
        _check_private(sensitive, self.common_factor)
        X, y = validate_data(
            self, X, y, multi_output=True, y_numeric=True, dtype=np.float64, ensure_min_samples=2
        )
        public = np.asarray(y, np.float64).reshape(len(X), -1)
        names = _names(given, public.shape[1], "y")
        self._single_target = np.ndim(y) == 1
        self._columns = _columns_of(self.agents, getattr(self, "feature_names_in_", None), X.shape[1])
        readings = X[:, np.concatenate(list(self._columns.values()))]
        if sensitive is None:
            self.network_ = _network_with_common_factor(readings, public, names, self._columns)
        else:
            private = check_array(sensitive, dtype=np.float64, ensure_2d=False, input_name="sensitive")
            check_consistent_length(X, private)
            private = private.reshape(len(X), -1)
            both = (names, _names(sensitive, private.shape[1], "sensitive"))
            self.network_ = _network(readings, public, private, both, self._columns)
            _warn_of_doubts(readings, public, private, both, self._columns)
        self.plan_: Plan = design(self.network_, privacy=self.privacy, utility_loss=self.utility_loss)
        return self

    def _messages(self, X: Any) -> dict[str, Array]:
        check_is_fitted(self, "plan_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        rng = _generator(self.random_state)
        return {
            agent: np.asarray(self.plan_.sanitizers[agent].sanitize(X[:, columns], rng=rng))
            for agent, columns in self._columns.items()
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        tags.non_deterministic = True  # noise is the point
        return tags


class SanitizingTransformer(TransformerMixin, _Sanitizing):  # type: ignore[misc]
    """Turns readings into what the agents send.

    agents:       agent -> columns of X, by name or place; columns of no agent are not used. None: one agent
                  holds them all. "each": every column is an agent of its own.
    privacy, utility_loss: as in :func:`veilnet.design`; neither: the most privacy at perfect utility.
    common_factor: protect what the readings have in common besides y, the strongest thing they show together, in
                  place of a ``sensitive`` that is known. Without it, ``fit`` needs ``sensitive``.
    random_state: None draws secure noise, afresh in every call. A number (or generator) is for
                  simulations: the same rows then give the same numbers, and these are not private.

    After ``fit``: ``plan_``, ``network_``. ``transform`` gives (T, numbers sent), agent after agent.
    """

    def transform(self, X: Any) -> Array:
        """The sanitized messages of all agents, side by side."""
        messages = self._messages(X)
        return np.concatenate(list(messages.values()), axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray[Any, Any]:
        """``agent_1``, ``agent_2``... for every number sent."""
        check_is_fitted(self, "plan_")
        if input_features is not None and len(input_features) != self.n_features_in_:
            raise ValueError(
                f"input_features should have length equal to number of features ({self.n_features_in_}), "
                f"got {len(input_features)}"
            )
        sent = self.plan_.sent
        names = [f"{agent}_{k + 1}" for agent in self._columns for k in range(sent[agent])]
        return np.asarray(names, dtype=object)


class PublicRegressor(RegressorMixin, _Sanitizing):  # type: ignore[misc]
    """Estimates y from readings as the fusion centre would: sanitized first, then fused.

    The arguments are those of :class:`SanitizingTransformer`. ``score`` therefore tells what the chosen
    privacy leaves of the public parameter: search over ``privacy`` to see the trade.
    """

    def predict(self, X: Any) -> Array:
        """Estimates of y, in its shape."""
        messages = self._messages(X)
        estimates = Fusion(self.plan_).estimate(messages).public
        return estimates[:, 0] if self._single_target else estimates


class _OfSymbols(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What estimators of symbols share: from (X, y, sensitive) to a plan of symbols."""

    def __init__(
        self,
        agents: Mapping[str, Sequence[Any]] | str | None = None,
        *,
        guessed: float | Mapping[str, float] | None = None,
        public_loss: float | None = None,
        confidence: float = 0.95,
        random_state: Any = None,
    ) -> None:
        self.agents = agents
        self.guessed = guessed
        self.public_loss = public_loss
        self.confidence = confidence
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sensitive: Any = None, groups: Any = None) -> Any:
        """Learn from readings X (T, N), public y (T,), private ``sensitive`` (T,) or (T, k), groups of rows."""
        _check_private(sensitive, False)
        given, (X, y) = y, validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_consistent_length(X, sensitive, groups)
        public, cells = _names(given, 1, "y")[0], self._cells(y)
        private = np.asarray(sensitive).reshape(len(X), -1)
        hidden = _names(sensitive, private.shape[1], "sensitive")
        self._columns = _columns_of(self.agents, getattr(self, "feature_names_in_", None), X.shape[1])
        labels = getattr(self, "feature_names_in_", [f"x{k}" for k in range(X.shape[1])])
        readings = {agent: [labels[k] for k in mine] for agent, mine in self._columns.items()}
        table = dict(zip(labels, X.T, strict=True)) | dict(zip(hidden, private.T.tolist(), strict=True))
        table[public] = cells
        rng = _generator(self.random_state)
        seed = int((np.random.default_rng() if rng is None else rng).integers(2**31))
        self.plan_: SymbolPlan = learn_symbols(
            table, readings, public, hidden, guessed=self.guessed, public_loss=self.public_loss,
            blocks=None if groups is None else np.asarray(groups), confidence=self.confidence, seed=seed,
        )  # fmt: skip
        return self

    def transform(self, X: Any) -> np.ndarray[Any, Any]:
        """(T, agents) the symbols that agents send, -1 where one sends nothing."""
        check_is_fitted(self, "plan_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        source = noise_source(_generator(self.random_state))
        sent = [
            self.plan_.agents[agent].send_or_not(X[:, mine], source) for agent, mine in self._columns.items()
        ]
        return np.stack(sent, axis=1)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray[Any, Any]:  # noqa: ARG002
        """The agents, each of which sends one symbol."""
        check_is_fitted(self, "plan_")
        return np.asarray(list(self._columns), dtype=object)

    def _estimated(self, X: Any) -> Any:
        sent = self.transform(X)
        return self.plan_.estimate(dict(zip(self._columns, sent.T, strict=True)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.non_deterministic = True  # where symbols are sent by chance
        tags.transformer_tags.preserves_dtype = []
        return tags


class SymbolClassifier(ClassifierMixin, _OfSymbols):  # type: ignore[misc]
    """Names the class y from symbols, as the centre of a plan of symbols would.

    agents: as for :class:`SanitizingTransformer`.
    guessed, public_loss, confidence: as for :func:`veilnet.learn_symbols`.
    random_state: None draws seeds and coins afresh. A number (or generator) is for simulations.

    ``fit(X, y, sensitive, groups)`` takes what must not be known, and which rows belong together (``blocks``). After
    it: ``plan_``, with its certificates. ``transform`` gives what agents send, ``predict`` and ``predict_proba`` what
    the centre makes of that, from the other agents where one sends nothing.
    """

    def predict_proba(self, X: Any) -> Array:
        """(T, K) probabilities of ``classes_``."""
        probabilities = self._estimated(X).probabilities
        return np.asarray(
            probabilities[:, [self.plan_.centre.classes.index(_as_text(each)) for each in self.classes_]]
        )

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """The most likely classes."""
        chances = self.predict_proba(X)
        return np.asarray(self.classes_[np.argmax(chances, axis=1)])

    def _cells(self, y: Any) -> list[str]:
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise InvalidRequest(f"y: expected two classes or more, found one class, {self.classes_[0]!r}")
        return [_as_text(each) for each in y]


class SymbolRegressor(RegressorMixin, _OfSymbols):  # type: ignore[misc]
    """Estimates a number y from symbols; otherwise as :class:`SymbolClassifier`."""

    def predict(self, X: Any) -> Array:
        """Estimates of y."""
        return np.asarray(self._estimated(X).public)

    def _cells(self, y: Any) -> list[float]:
        return np.asarray(y, float).tolist()  # type: ignore[no-any-return]


def _as_text(value: Any) -> str:
    """A class as text that is not read as a number."""
    return f"class {value}" if is_number(str(value)) else str(value)


def _check_private(sensitive: Any, common_factor: bool) -> None:
    if sensitive is None and not common_factor:
        raise InvalidRequest(
            "sensitive: expected what must not be known, as long as y, found nothing; give fit(X, y, sensitive=...) "
            "(in a pipeline sanitizingtransformer__sensitive=...), or common_factor=True to protect what the "
            "readings have in common"
        )
    if sensitive is not None and common_factor:
        raise InvalidRequest("sensitive: with common_factor=True nothing else is protected; leave one out")


def _warn_of_doubts(readings: Array, public: Array, private: Array, names: _Names, columns: _Columns) -> None:
    """What ``fit`` would say of these data, be it only why it would refuse them."""
    agents = {agent: [f"{agent} {k + 1}" for k in range(mine.size)] for agent, mine in columns.items()}
    known = [f"public {name}" for name in names[0]]
    hidden = [f"private {name}" for name in names[1]]
    labels = [*(name for mine in agents.values() for name in mine), *known, *hidden]
    table = dict(zip(labels, np.concatenate([readings, public, private], axis=1).T, strict=True))
    try:
        sentences: Sequence[str] = fit_report(table, agents, known, hidden).warnings
    except VeilnetError as error:
        sentences = [f"fit would refuse these data: {error}"]
    for sentence in sentences:
        warnings.warn(sentence, DoubtfulModel, stacklevel=3)


def _columns_of(agents: Any, names: Any, count: int) -> dict[str, np.ndarray[Any, Any]]:
    """agent -> places of its columns in X."""
    labels = [f"x{k}" for k in range(count)] if names is None else [str(name) for name in names]
    if agents is None:
        return {_ALL: np.arange(count)}
    if isinstance(agents, str) and agents == "each":
        return {label: np.array([k]) for k, label in enumerate(labels)}
    if not isinstance(agents, Mapping) or not agents:
        raise InvalidRequest(f'agents: expected None, "each" or agent -> columns of X, found {agents!r}')
    places = {
        agent: np.array(
            [_place(one, labels, count, agent) for one in ([given] if isinstance(given, str) else given)]
        )
        for agent, given in agents.items()
    }
    used = [int(place) for mine in places.values() for place in mine]
    if len(set(used)) != len(used) or any(mine.size == 0 for mine in places.values()):
        raise InvalidRequest("agents: expected at least one column of X per agent, and none used twice")
    return places


def _place(column: Any, labels: Sequence[str], count: int, agent: str) -> int:
    if isinstance(column, str) and column in labels:
        return labels.index(column)
    if isinstance(column, int | np.integer) and not isinstance(column, bool) and 0 <= column < count:
        return int(column)
    raise InvalidRequest(f"agents[{agent!r}]: X has no column {column!r}; it has {count} columns")


def _names(given: Any, count: int, stem: str) -> list[str]:
    """Names for the columns of a frame, a series or something without names."""
    if hasattr(given, "columns"):
        return [str(name) for name in given.columns]
    name = getattr(given, "name", None)
    if count == 1:
        return [name if isinstance(name, str) and name else stem]
    return [f"{stem}{k + 1}" for k in range(count)]


def _network(readings: Array, public: Array, private: Array, names: _Names, columns: _Columns) -> Network:
    parameters = np.concatenate([public, private], axis=1)
    _refuse_few(parameters)
    return _assembled(fit_linear(readings, parameters, least=_LEAST_NOISE), readings, names, columns)


def _network_with_common_factor(
    readings: Array, public: Array, names: list[str], columns: _Columns
) -> Network:
    """The model with one more parameter, of variance one, that explains what the noises share most.

    In units of the readings' own noise, the largest eigenvalue λ of the noise correlation is lowered to the
    mean σ² of the others, and √(λ - σ²) times its eigenvector becomes a column of H: the covariance of the
    readings stays what it was (probabilistic principal components, one factor).
    """
    if readings.shape[1] < 2:
        raise InvalidRequest(
            "X: what readings have in common cannot be seen from one alone (n_features = 1); give "
            "sensitive= to fit, or more columns"
        )
    _refuse_few(public)
    model = fit_linear(readings, public, least=_LEAST_NOISE)
    deviation = np.sqrt(np.diag(model.noise))
    values, vectors = np.linalg.eigh(model.noise / np.outer(deviation, deviation))
    excess = float(values[-1] - np.mean(values[:-1]))
    loading = deviation * vectors[:, -1] * np.sqrt(max(excess, _LEAST_NOISE * values[-1]))
    noise = model.noise - np.outer(loading, loading)
    covariance = np.eye(public.shape[1] + 1)
    covariance[:-1, :-1] = model.covariance
    observe, mean = np.concatenate([model.observe, loading[:, None]], axis=1), np.append(model.mean, 0.0)
    extended = replace(model, observe=observe, noise=noise, mean=mean, covariance=covariance)
    return _assembled(extended, readings, (names, [_COMMON]), columns)


def _assembled(model: LinearModel, readings: Array, names: _Names, columns: _Columns) -> Network:
    ends = np.cumsum([mine.size for mine in columns.values()])
    rows, public_count = np.eye(model.mean.size), len(names[0])
    owners = {
        agent: slice(int(end) - columns[agent].size, int(end))
        for agent, end in zip(columns, ends, strict=True)
    }
    resolution = found_resolution(readings, owners)
    return Network(
        observe=dict(zip(columns, np.split(model.observe, ends[:-1]), strict=True)),
        noise=with_rounding(model.noise, resolution, owners),
        public={name: rows[k] for k, name in enumerate(names[0])},
        private={name: rows[public_count + k] for k, name in enumerate(names[1])},
        prior=Prior(covariance=model.covariance, mean=model.mean),
        offset=model.offset,
        parameters=[*names[0], *names[1]],
        resolution=resolution,
    )


def _refuse_few(parameters: Array) -> None:
    rows, length = parameters.shape
    if rows < length + 2:
        raise InvalidRequest(
            f"X: expected at least {length + 2} samples for {length} parameters, found n_samples = {rows}"
        )


def _generator(random_state: Any) -> np.random.Generator | None:
    """None for secure noise; otherwise a generator that repeats itself for a seed."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(2**31 - 1)))
    return np.random.default_rng(random_state)
