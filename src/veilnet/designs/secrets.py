"""Targets in the words of a secret: how surely its change may be seen (:mod:`veilnet.bounds.detectability`).

Each of them limits d', the number of deviations by which the best detector tells the change from none. Over T
independent rows that asks G P̃ G' >= M (:mod:`veilnet.plans.every_direction`).

With one row of G that is a target p_j as any other; with more it is asked of every direction, as by
:class:`veilnet.Worst`. In a stream d' of a change that lasts is a function of the whole plan that falls with p_j: the
p_j that just suffices is looked for, a design at each step. Of a secret of several rows that is their mean: the plan
hides the change as asked, and one that asks it of that change alone may lose less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf, log, sqrt
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from veilnet._core.errors import Infeasible, InvalidRequest
from veilnet._core.words import join_names, number
from veilnet.bounds.detectability import FALSE_ALARMS, Detector, detectability
from veilnet.bounds.knowledge import knowledge, privacy_limit
from veilnet.bounds.streams.knowledge import stream_knowledge
from veilnet.model.network import Network
from veilnet.plans.asked import Asked
from veilnet.plans.every_direction import least_errors
from veilnet.plans.plan import Plan

_MOST_DESIGNS = 20
_CLOSE = 1e-4  # a plan whose d' is below the one allowed by no more than this part has nothing to give back
# by which part less is aimed at, so that the rounding of a plan on its way to agents breaks nothing
_AIMED = 1e-7


@dataclass(frozen=True)
class SeenAtMost:
    """How surely a change may be seen at most: a probability that the best detector may reach."""

    most: float
    word: ClassVar[str] = ""  # what is limited, for people

    def __post_init__(self) -> None:
        if not isinstance(self.most, int | float) or isinstance(self.most, bool):
            raise InvalidRequest(f"{self}: expected a number, found {self.most!r}")
        least = self.by_guessing
        if not least <= self.most < 1:
            raise Infeasible(
                f"{self}: expected at least {number(least)} and below 1, found {self.most!r}; {number(least)} is "
                "guessing, and nothing hides more than silence"
            )

    @property
    def by_guessing(self) -> float:
        """What a detector reaches that sees nothing."""
        return self.reached(Detector(0.0))

    @property
    def mu(self) -> float:
        """The d' that it allows."""
        raise NotImplementedError

    def reached(self, detector: Detector) -> float:
        """What a detector reaches, in the measure of this target.

        detector: the best one.
        """
        return float(getattr(detector, type(self).__name__.lower()))

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.most!r})"


@dataclass(frozen=True)
class Auc(SeenAtMost):
    """The AUC of the best detector is at most this: ``privacy={"presence": vn.Auc(0.6)}``. 0.5 is guessing.

    most: from 0.5 to below 1.
    """

    word = "AUC"

    @property
    def mu(self) -> float:
        """√2 Φ^-1(AUC)."""
        return sqrt(2) * NormalDist().inv_cdf(self.most)


@dataclass(frozen=True)
class Accuracy(SeenAtMost):
    """The best detector is right at most this often, with both cases equally likely. 0.5 is guessing.

    most: from 0.5 to below 1.
    """

    word = "accuracy at even odds"

    @property
    def mu(self) -> float:
        """2 Φ^-1(accuracy)."""
        return 2 * NormalDist().inv_cdf(self.most)


@dataclass(frozen=True)
class Power(SeenAtMost):
    """The best detector sees at most this part of the changes, with so many false alarms.

    most:         from the rate of false alarms, which is guessing, to below 1.
    false_alarms: α, above 0 and below 1.
    """

    false_alarms: float = FALSE_ALARMS
    word = "power"

    def __post_init__(self) -> None:
        if not 0 < self.false_alarms < 1:
            raise InvalidRequest(
                f"{self}: false_alarms: expected a rate above 0 and below 1, found {self.false_alarms!r}"
            )
        super().__post_init__()

    @property
    def mu(self) -> float:
        """Φ^-1(power) - Φ^-1(α)."""
        return NormalDist().inv_cdf(self.most) - NormalDist().inv_cdf(self.false_alarms)

    def reached(self, detector: Detector) -> float:
        """The power of a detector with so many false alarms.

        detector: the best one.
        """
        return detector.power_at(self.false_alarms)


@dataclass(frozen=True)
class Mu(SeenAtMost):
    """Messages are µ-Gaussian differentially private for the secret's change.

    most: µ, at least 0.
    """

    word = "µ"

    def __post_init__(self) -> None:
        if not isinstance(self.most, int | float) or not 0 <= self.most < inf:
            raise InvalidRequest(f"Mu: expected a finite number of at least 0, found {self.most!r}")

    @property
    def mu(self) -> float:
        """Itself."""
        return float(self.most)


def read_seen(network: Network, wanted: Mapping[str, SeenAtMost]) -> dict[str, float]:
    """name -> the d' allowed."""
    plain = [name for name in wanted if name not in network.secrets]
    if plain:
        raise InvalidRequest(
            f"privacy: {wanted[plain[0]]} asks how surely a change is seen, and no change belongs to "
            f"{join_names(plain)}; write [private.{plain[0]}] with rows = ... and change = 1 in the network's file "
            f"(private={{{plain[0]!r}: vn.Secret(rows, change=1)}} in Python), or ask for a number"
        )
    return {name: each.mu for name, each in wanted.items()}


def secrets_in_numbers(network: Network, asked: Asked) -> Asked:
    """The same with p_j for secrets of one row, whose M is a number."""
    numbers = {}
    for name, mu in asked.seen.items():
        rows = network.private[name]
        if len(rows) == 1:
            raw = float(knowledge(network).error_covariance(rows)[0, 0])
            needed = max(float(least[0, 0]) for least in least_errors(network, name, mu)) / raw - 1
            numbers[name] = min(max(0.0, needed), privacy_limit(network)[name])
    return replace(asked, targets={**asked.targets, **numbers})


def stream_plan_for_secrets(network: Network, asked: Asked, designed: Callable[[Asked], Plan]) -> Plan:
    """The plan of least loss found that hides every change as asked, over the rows that it lasts.

    designed: the plan for targets that are numbers.
    """
    plan = designed(replace(asked, seen={}))
    found = detectability(network, plan)
    if all(found[name].longest.mu <= mu for name, mu in asked.seen.items()):
        return plan.hiding_changes(asked.seen)
    limits = privacy_limit(network)
    trials = {name: _Trial(mu * (1 - _AIMED), limits[name]) for name, mu in asked.seen.items()}
    best: Plan | None = None
    for _ in range(_MOST_DESIGNS):
        wanted = {
            name: trial.next(_first_guess(network, name, trial.allowed)) for name, trial in trials.items()
        }
        plan = designed(replace(asked, targets={**asked.targets, **wanted}, seen={}))
        for name, each in detectability(network, plan).items():
            if name in trials:
                trials[name].measured(each.longest.mu)
        if all(trial.met for trial in trials.values()):
            best = plan if best is None or plan.utility > best.utility else best
            if plan.utility == 0 or all(trial.close for trial in trials.values()):
                break
        if plan.interrupted:
            break
    if best is None:
        raise Infeasible(
            f"privacy: no plan was found that hides the change of {join_names([*asked.seen])} as well as asked; ask "
            "for less"
        )
    return best.hiding_changes(asked.seen)


class _Trial:
    """The search for the privacy of one secret at which d' is what is allowed: secants between bounds.

    log d' falls with log(1 + p), about half as fast where little is known beforehand.
    """

    def __init__(self, allowed: float, limit: float) -> None:
        self.allowed, self._limit = allowed, limit
        self._growth = 0.0
        self._tried: list[tuple[float, float]] = []  # (log(1 + p), log d' - log allowed)

    @property
    def met(self) -> bool:
        """Whether the last d' was allowed."""
        return self._tried[-1][1] <= _AIMED

    @property
    def close(self) -> bool:
        """Whether it was below the allowed one by next to nothing, or nothing is left to give back."""
        return self._tried[-1][1] >= -_CLOSE or self._growth == 0

    def measured(self, mu: float) -> None:
        """What the plan for the last growth left."""
        over = -inf if mu == 0 else log(mu / self.allowed) if self.allowed > 0 else inf
        self._tried.append((float(np.log1p(self._growth)), over))

    def next(self, guess: float) -> float:
        """The privacy to try next, up to what silence gives; ``guess`` where nothing was tried."""
        self._growth = min(max(0.0, self._chosen() if self._tried else guess), self._limit)
        return self._growth

    def _chosen(self) -> float:
        (at, over), slope = self._tried[-1], -0.5
        if len(self._tried) > 1 and self._tried[-2][0] != at and np.isfinite(self._tried[-2][1]):
            slope = min(-1e-3, (over - self._tried[-2][1]) / (at - self._tried[-2][0]))
        low = max((each for each, value in self._tried if value > 0), default=0.0)
        high = min((each for each, value in self._tried if value <= 0), default=inf)
        chosen = at - over / slope if np.isfinite(over) else inf
        if not low < chosen < high:
            chosen = (low + high) / 2 if np.isfinite(high) else 2 * low + 1
        return float(np.expm1(chosen))


def _first_guess(network: Network, name: str, mu: float) -> float:
    """p_j by the formula for independent rows."""
    secret = network.secrets[name]
    raw = float(np.mean(np.diag(stream_knowledge(network, None).error(secret.rows, hindsight=True))))
    limit = privacy_limit(network)[name]
    largest = float(np.max(np.sum(np.square(np.atleast_2d(secret.change)), axis=1)))
    allowed = mu**2 / (secret.rows_it_lasts(network.step) * largest)
    allowed += 1 / ((1 + limit) * raw)
    return inf if allowed == 0 else 1 / (allowed * raw) - 1
