"""Learned attackers: regressors trained from sanitized messages to each private parameter.

They are given what an attacker could have at best, messages beside the truth, and are judged on rows they
have not seen. On rows drawn from the model no attacker beats the bound: whatever it answers, its error is
g - E[g|z], normal with covariance G P̃ G' and independent of z, plus something that depends on z alone; given
the messages its sum of squares is thus at least as large, in distribution, as that of the first part. The
lower limit of :class:`SquareSum` therefore holds for every attacker there is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from veilnet._core.errors import InvalidRequest, MissingExtra
from veilnet._core.threads import one_thread
from veilnet._core.types import Array
from veilnet.auditing.attack.held_out import Samples
from veilnet.auditing.attack.simulation import LinearCentre
from veilnet.auditing.deployed.deployment import Deployment, Misbehaves
from veilnet.auditing.report import Judgement, Row
from veilnet.auditing.statistics import CONFIDENCE, SquareSum
from veilnet.bounds.knowledge import knowledge, knowledge_of_factor
from veilnet.model.network import Network

SECTION = "learned attackers"
INSTALL = 'pip install "veilnet[sklearn]"'
KINDS = ("ridge", "neighbours", "boosting", "network")
QUICK = ("ridge", "neighbours")
_PLANNED = "best linear"
_MOST_ROWS = 6000  # rows the slow attackers are trained on
_BATCHES = 30  # data from the world may be correlated in time: means of so many stretches are compared


@dataclass(frozen=True, eq=False)
class Learner:
    """A regressor with fit and predict, and the most rows it is trained on (None: all there are)."""

    regressor: Any
    most_rows: int | None = None


def choose_attackers(
    wanted: str | Sequence[str] | Mapping[str, Any] | None, quick: bool
) -> dict[str, Learner]:
    """The attackers by name. "auto" takes all of them, if scikit-learn is installed."""
    if wanted is None:
        return {}
    if isinstance(wanted, Mapping):
        return {name: Learner(regressor) for name, regressor in wanted.items()}
    names = (
        (QUICK if quick else KINDS) if wanted == "auto" else (wanted,) if isinstance(wanted, str) else wanted
    )
    unknown = [name for name in names if name not in KINDS]
    if unknown:
        raise InvalidRequest(f"attackers: unknown {unknown[0]!r}; known are {', '.join(KINDS)}, or 'auto'")
    try:
        return {name: _made(name) for name in names}
    except ImportError:
        raise MissingExtra(f"learned attackers need scikit-learn: {INSTALL}") from None


def _made(name: str) -> Learner:
    if name == "ridge":
        from sklearn.linear_model import RidgeCV

        return Learner(RidgeCV(alphas=np.logspace(-4, 4, 9)))
    if name == "neighbours":
        from sklearn.neighbors import KNeighborsRegressor

        return Learner(KNeighborsRegressor(n_neighbors=30))
    if name == "boosting":
        from sklearn.ensemble import HistGradientBoostingRegressor
        from sklearn.multioutput import MultiOutputRegressor

        boosted = HistGradientBoostingRegressor(
            max_iter=80, max_leaf_nodes=15, early_stopping=True, random_state=0
        )
        return Learner(MultiOutputRegressor(boosted), most_rows=_MOST_ROWS)
    from sklearn.neural_network import MLPRegressor

    perceptron = MLPRegressor(
        hidden_layer_sizes=(32,), early_stopping=True, max_iter=60, batch_size=128, random_state=0
    )
    return Learner(perceptron, most_rows=_MOST_ROWS)


@dataclass(frozen=True, eq=False)
class _Split:
    """Rows to learn from and rows to be judged on."""

    train: slice
    test: slice

    @classmethod
    def of(cls, samples: Samples) -> _Split:
        half = len(samples) // 2
        return cls(slice(0, half), slice(half, len(samples)))


def attacker_rows(
    deployment: Deployment,
    samples: Samples,
    attackers: Mapping[str, Learner],
    chance: float,
    advance: Callable[[float], None],
) -> list[Row]:
    """Errors of every attacker on every private parameter: from messages, from raw readings, by guessing."""
    network = samples.model if samples.model is not None else deployment.network
    try:
        messages = deployment.release_all(samples.readings)
    except Misbehaves as trouble:
        return [Row(SECTION, "messages", None, None, "fail", f"the attack could not be run: {trouble}.")]
    sent = np.concatenate([messages[agent] for agent in network.agents], axis=1)
    split = _Split.of(samples)
    truth = np.concatenate(list(samples.private.values()), axis=1)
    ends = np.cumsum([part.shape[1] for part in samples.private.values()])
    parts = {
        name: slice(int(end) - samples.private[name].shape[1], int(end))
        for name, end in zip(samples.private, ends, strict=True)
    }
    guesses: dict[str, tuple[Array, Array]] = {}
    for done, (label, attacker) in enumerate(attackers.items()):
        from_messages = guesses_of(attacker, sent, truth, split.test.start)
        advance((done + 0.5) / len(attackers))
        guesses[label] = from_messages, guesses_of(attacker, samples.readings, truth, split.test.start)
        advance((done + 1) / len(attackers))
    rows = []
    if samples.model is None:
        centre = LinearCentre(network, deployment.planned)
        guesses = _plan_attacker(centre, messages, samples, split, parts) | guesses
        rows = _public_on_data(centre, messages, samples, chance)
    each = chance / max(1, len(guesses) * len(parts))
    bounds = _Bounds(network, deployment)
    return rows + [
        _row(label, name, samples, split, (a[:, part], b[:, part]), bounds, each)
        for name, part in parts.items()
        for label, (a, b) in guesses.items()
    ]


def guesses_of(attacker: Learner, features: Array, truth: Array, learned: int) -> Array:
    """Guesses on all but the first rows, by an attacker trained on those; everything in units of its spread."""
    train, goal, test = features[:learned], truth[:learned], features[learned:]
    shape = (len(test), truth.shape[1])
    if features.shape[1] == 0:
        return np.broadcast_to(np.mean(goal, axis=0), shape)
    used = slice(0, attacker.most_rows)
    centre, spread = np.mean(train, axis=0), np.std(train, axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    middle, size = np.mean(goal, axis=0), np.std(goal, axis=0)
    size = np.where(size > 0, size, 1.0)
    # scikit-learn brings libraries of its own, loaded after the audit began.
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")  # an attacker that has not converged is a weaker one, no more
        attacker.regressor.fit(((train - centre) / spread)[used], ((goal - middle) / size)[used])
        found = np.asarray(attacker.regressor.predict((test - centre) / spread))
    return np.asarray(middle + size * found.reshape(shape))


def _plan_attacker(
    centre: LinearCentre,
    messages: Mapping[str, Array],
    samples: Samples,
    split: _Split,
    parts: Mapping[str, slice],
) -> dict[str, tuple[Array, Array]]:
    """The plan's own best linear estimate, on data from the world."""
    truth = np.concatenate(list(samples.private.values()), axis=1)
    guesses = np.array(np.broadcast_to(np.mean(truth[split.train], axis=0), truth[split.test].shape))
    tested = {agent: z[split.test] for agent, z in messages.items()}
    for name, part in parts.items():
        rows = centre.network.private[name]
        if np.isfinite(centre.knowledge.growth(rows)):
            guesses[:, part] = centre.estimate(tested, rows)
    return {_PLANNED: (guesses, np.full(guesses.shape, np.nan))}


def _public_on_data(
    centre: LinearCentre, messages: Mapping[str, Array], samples: Samples, chance: float
) -> list[Row]:
    """The public estimate on data from the world, where the truth is known and it can be estimated."""
    rows = centre.network.U
    if samples.public is None or np.isinf(centre.knowledge.growth(rows)):
        return []
    squares = np.sum((centre.estimate(messages, rows) - samples.public) ** 2, axis=1)
    promised = float(np.trace(centre.knowledge.error_covariance(rows)))
    found = float(np.mean(squares))
    worse = batch_interval(squares, chance)[0] > promised
    verdict: Judgement = "warn" if worse else "ok"
    sentence = (
        f"on these data the public estimate errs by {found:.4g} (mean square); {promised:.4g} was promised."
    )
    if worse:
        sentence += " The model does not describe them well."
    what = "public estimate on data"
    return [Row(SECTION, what, promised, found, verdict, sentence, batch_interval(squares, 1 - CONFIDENCE))]


class _Bounds:
    """tr(G P̃ G') and its spectrum, from messages; raw and before anything was sent."""

    def __init__(self, network: Network, deployment: Deployment) -> None:
        self.network = network
        self.full_prior = network.prior is not None and network.prior.full
        self._sent = knowledge(network, deployment.planned)
        self._raw = knowledge(network)
        self._before = knowledge_of_factor(network, np.zeros((0, network.L)))

    def spectrum(self, name: str) -> Array:
        """Eigenvalues of G P̃ G'; infinite where it is unbounded."""
        rows = self.network.private[name]
        if np.isinf(self._sent.growth(rows)):
            return np.array([np.inf])
        values = np.linalg.eigvalsh(self._sent.error_covariance(rows))
        return np.asarray(np.maximum(values, 0.0))

    def raw(self, name: str) -> float:
        """tr(G P G')."""
        return float(np.trace(self._raw.error_covariance(self.network.private[name])))

    def before(self, name: str) -> float:
        """tr(G P0 G'), inf without a prior."""
        rows = self.network.private[name]
        if np.isinf(self._before.growth(rows)):
            return np.inf
        return float(np.trace(self._before.error_covariance(rows)))


def _row(
    label: str,
    name: str,
    samples: Samples,
    split: _Split,
    guesses: tuple[Array, Array],
    bounds: _Bounds,
    chance: float,
) -> Row:
    truth = samples.private[name][split.test]
    squares = np.sum((guesses[0] - truth) ** 2, axis=1)
    found = float(np.mean(squares))
    raw = float(np.mean(np.sum((guesses[1] - truth) ** 2, axis=1)))
    middle = np.mean(samples.private[name][split.train], axis=0)
    guessing = float(np.mean(np.sum((truth - middle) ** 2, axis=1)))
    spectrum = bounds.spectrum(name)
    bound = float(np.sum(spectrum))
    bound_holds = True
    if samples.model is not None:
        law = SquareSum(spectrum, len(truth))
        interval = law.interval(found)
        beaten = found < law.lowest(chance)
    else:
        interval = batch_interval(squares, 1.0 - CONFIDENCE)
        # Whoever learns from data learns how x is spread. Where the plan counts on nobody knowing that, its
        # bound is one for the unbiased estimate alone.
        bound_holds = bounds.full_prior or (label == _PLANNED and bool(np.isfinite(bound)))
        beaten = bound_holds and batch_interval(squares, chance)[1] < bound
    figures = {"from raw readings": raw, "guessing": guessing, "raw bound": bounds.raw(name)}
    figures |= {"prior bound": bounds.before(name), "tested rows": float(len(truth)), "bound": bound}
    verdict: Judgement = "fail" if beaten else "ok" if bound_holds else "info"
    if beaten:
        sentence = (
            f"{label} learns {name} from the messages better than the bound allows: mean square error "
            f"{found:.4g}, bound {bound:.4g}."
        )
        if samples.model is None:
            sentence += " The model does not describe these data."
    else:
        aside = "" if bound_holds else ", for a centre that does not know how x is spread; these data tell"
        sentence = (
            f"{label} errs on {name} by {found:.4g} (mean square) from the messages, {raw:.4g} from raw "
            f"readings, {guessing:.4g} by guessing; the bound is {bound:.4g}{aside}."
        )
    return Row(SECTION, f"{label} on {name}", bound, found, verdict, sentence, interval, figures)


def batch_interval(squares: Array, chance: float) -> tuple[float, float]:
    """Confidence interval of a mean of values that may be correlated in time, by means of stretches."""
    means = np.array([np.mean(part) for part in np.array_split(squares, _BATCHES)])
    width = -float(stdtrit(_BATCHES - 1, chance / 2)) * float(np.std(means, ddof=1)) / np.sqrt(_BATCHES)
    return float(np.mean(means)) - width, float(np.mean(means)) + width
