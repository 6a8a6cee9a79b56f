"""Wrong models: the plan was made for one model, and another one is true.

Agents keep their sanitizers. Privacy is then what an attacker who knows the truth gets; utility is what a
centre gets that goes on fusing with the plan's model. H is off by a factor per entry, R and the prior by a
factor per deviation (D R D with diagonal D), so that units and zeros stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from veilnet._core.errors import NotObservable
from veilnet._core.linalg import cholesky, solve_lower
from veilnet._core.types import Array
from veilnet._core.words import times
from veilnet.agent.mechanisms import Mechanisms, mechanisms
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.in_units import InUnits, in_units
from veilnet.auditing.measures import growth
from veilnet.auditing.report import Row
from veilnet.auditing.what_if.variants import raw_information, with_stacked_observe
from veilnet.bounds.information import message_covariance, message_factor
from veilnet.bounds.knowledge import knowledge, knowledge_of_factor
from veilnet.model.network import Network, Prior

SECTION = "wrong models"
_DRAWS = 24  # random directions for all assumptions together
_DRAWS_EACH = 6  # and for each single one, both signs of each
_LARGE = 2000  # readings beyond which fewer are drawn, and the centre is taken to notice
_MOST_SINGLE = 60  # agents up to which every agent's H and R is an assumption of its own


@dataclass(frozen=True, eq=False)
class Mistake:
    """Relative errors, entry by entry: H ∘ exp(h), R and prior covariance scaled by exp(r), exp(p)."""

    observe: Array  # (N, L)
    noise: Array  # (N,)
    prior: Array  # (L,)

    def applied(self, network: Network) -> Network:
        """The network that is true when the plan's was mistaken."""
        stretch = np.exp(self.noise)
        noise: object
        if network.R.independent:
            noise = {
                agent: network.R.block(k) * np.outer(*[stretch[network.blocks.rows(k)]] * 2)
                for k, agent in enumerate(network.agents)
            }
        else:
            noise = network.R.matrix() * np.outer(stretch, stretch)
        prior = network.prior
        if prior is not None:
            shrink = np.exp(-self.prior)
            prior = Prior(information=prior.information * np.outer(shrink, shrink), mean=prior.mean)
        return with_stacked_observe(network, network.H * np.exp(self.observe), noise=noise, prior=prior)


@dataclass(frozen=True)
class Outcome:
    """The centre's utility loss, p_j of every private parameter, and the loss of raw readings fused by that model."""

    public_loss: float
    privacy: Mapping[str, float]
    raw_loss: float = 0.0


@dataclass(frozen=True, eq=False)
class WrongModel:
    """Utility and privacy of fixed sanitizers under mistakes.

    network: the plan's own. Where it counts an error of the model as noise, mistakes are made in the model without.
    """

    network: Network
    sanitizers: Mapping[str, Sanitizer]

    def outcome(self, mistake: Mistake) -> Outcome | None:
        """What is lost and kept when this was the mistake; None when the true network determines too little."""
        try:
            truth = mistake.applied(self._as_stated)
        except NotObservable:
            return None
        return self.under(truth)

    @cached_property
    def _as_stated(self) -> Network:
        return self.network if not self.network.model_error else self.network.replace(model_error=0.0)

    def under(self, truth: Network) -> Outcome:
        """What is lost and kept when ``truth`` is the network."""
        known = knowledge(truth, self.sanitizers)
        return Outcome(
            public_loss=self._centre_loss(truth, known.growth(truth.U)),
            privacy={name: growth(known, rows) for name, rows in truth.private.items()},
            raw_loss=self._unsanitized._centre_loss(truth, 0.0),
        )

    @cached_property
    def _unsanitized(self) -> WrongModel:
        """The same centre, given raw readings."""
        return WrongModel(self.network, mechanisms(self.network, None))

    def outcomes(self, mistakes: Iterable[Mistake]) -> list[Outcome]:
        """The outcomes of those mistakes that have one."""
        return [found for mistake in mistakes if (found := self.outcome(mistake)) is not None]

    @cached_property
    def _estimator(self) -> tuple[Array, Array] | None:
        """(A C, A) of the plan's estimate û = U m + A (z - C H m) for a full prior; None without one.

        A = U P̃ H'C'M^-1 with M = C R C' + Θ, all in normal form.
        """
        network = self.network
        if network.prior is None or not network.prior.full or network.N > _LARGE:
            return None
        compression, _ = self._messages
        root = cholesky(message_covariance(network, self._sent))
        factor = solve_lower(root, compression @ network.H)
        information = network.prior.information + factor.T @ factor
        white = np.linalg.solve(information, network.U.T).T @ factor.T
        weights = solve_lower(root, np.ascontiguousarray(white.T), transposed=True).T
        return weights @ compression, weights

    @cached_property
    def _sent(self) -> Mechanisms:
        return mechanisms(self.network, self.sanitizers).normal

    @cached_property
    def _messages(self) -> tuple[Array, Array]:
        """(C, the variances of the noise that is added)."""
        added = np.zeros(self._sent.blocks.total)
        for stack in self._sent.stacks:
            added[self._sent.numbers(stack)] = 0.0 if stack.variances is None else stack.variances
        return self._sent.compressed(np.eye(self.network.N)), added

    def _centre_loss(self, truth: Network, best: float) -> float:
        """Loss of the plan's estimator under the truth; of the best one where the prior is not full.

        Its error is (A C H_t - U)(x - m) + A C (H_t - H) m + A (C n + ξ).
        """
        estimator = self._estimator
        if estimator is None or truth.prior is None or truth.prior.covariance is None:
            return best
        combined, weights = estimator
        _, added = self._messages
        off = combined @ truth.H - truth.U
        bias = combined @ (truth.H - self.network.H) @ truth.prior.mean
        error = np.sum((off @ truth.prior.covariance) * off) + bias @ bias
        error += np.sum((combined @ truth.R.matrix()) * combined) + np.sum(weights**2 * added)
        raw = knowledge(truth).error_covariance(truth.U)
        return float(error / np.trace(raw) - 1.0)


def wrong_model_rows(
    network: Network,
    sanitizers: Mapping[str, Sanitizer],
    error: float,
    seed: int,
    advance: Callable[[float], None],
) -> list[Row]:
    """Range of utility and privacy when H, R and the prior are off, and the assumption that matters most.

    ``error`` is how far they are off, a fraction: 0.05 is 5 %.
    """
    model = WrongModel(network, sanitizers)
    rng = np.random.default_rng([seed, 3])
    sound = model.under(network)
    outcomes: list[Outcome] = []
    draws = _DRAWS if network.N <= _LARGE else 4
    for turn in range(draws):
        outcomes += model.outcomes([random_mistake(network, rng, error)])
        advance(0.5 * (turn + 1) / draws)
    singles = _single(model, rng, error, lambda done: advance(0.5 + 0.5 * done))
    return [*outcome_rows(sound, outcomes, singles, error), *attacker_rows(network, sanitizers)]


def outcome_rows(
    sound: Outcome,
    outcomes: list[Outcome],
    singles: Mapping[str, list[Outcome]],
    error: float,
    late: str = "",
) -> list[Row]:
    """The range of what is private and of the public error, then which assumption each rests on most.

    sound:    the plan's model is true.
    outcomes: all assumptions are off.
    singles:  one assumption alone is off, by its name in words.
    late:     when the attacker estimates, in words.
    """
    return [
        *(_privacy_range(name, sound, outcomes, error, late) for name in sound.privacy),
        _public_range(sound, outcomes, error),
        *(_privacy_rests_on(name, sound, singles, error) for name in sound.privacy),
        _public_rests_on(sound, singles, error),
    ]


def random_mistake(
    network: Network, rng: np.random.Generator, error: float, only: tuple[str, int] | None = None
) -> Mistake:
    """A random mistake of this relative size, ``error``; ``only`` names one assumption and an agent (-1: all)."""

    def part(kind: str, shape: tuple[int, ...]) -> Array:
        draw = error * rng.standard_normal(shape)
        if only is None:
            return draw
        if only[0] != kind:
            return np.zeros(shape)
        if kind != "prior" and only[1] >= 0:
            kept = np.zeros(shape)
            rows = network.blocks.rows(only[1])
            kept[rows] = draw[rows]
            return kept
        return draw

    return Mistake(
        part("observe", (network.N, network.L)), part("noise", (network.N,)), part("prior", (network.L,))
    )


def _single(
    model: WrongModel, rng: np.random.Generator, error: float, advance: Callable[[float], None]
) -> dict[str, list[Outcome]]:
    """Outcomes when one assumption alone is off: each agent's H and R, and the prior."""
    network = model.network
    each = network.S <= _MOST_SINGLE
    assumptions: dict[str, tuple[str, int]] = {}
    for place, agent in enumerate(network.agents if each else ("all agents",)):
        assumptions[f"what {agent} observes"] = ("observe", place if each else -1)
        assumptions[f"the noise of {agent}"] = ("noise", place if each else -1)
    if network.prior is not None:
        assumptions["the prior"] = ("prior", -1)
    found: dict[str, list[Outcome]] = {}
    for done, (label, only) in enumerate(assumptions.items()):
        found[label] = []
        for _ in range(_DRAWS_EACH if network.N <= _LARGE else 1):
            drawn = random_mistake(network, rng, error, only)
            other = Mistake(-drawn.observe, -drawn.noise, -drawn.prior)
            found[label] += model.outcomes([drawn, other])
        advance((done + 1) / len(assumptions))
    return found


def _range(values: list[float]) -> tuple[float, float]:
    return (min(values), max(values)) if values else (np.nan, np.nan)


def _privacy_range(name: str, right: Outcome, outcomes: list[Outcome], error: float, late: str) -> Row:
    """How an attacker's error on one parameter grows: under the plan's model, and at worst and best under others."""
    sound, count = right.privacy[name], len(outcomes)
    low, high = _range([outcome.privacy[name] for outcome in outcomes])
    sentence = (
        f"with the model off by {100 * error:g} %, the variance of the error on {name}{late} grows {times(1 + low)} "
        f"in the worst of {count} random cases and {times(1 + high)} in the best, over raw readings of the same case."
    )
    shown = {
        "error variance grows: model right": times(1 + sound),
        f"worst of {count} wrong ones": times(1 + low),
        f"best of {count} wrong ones": times(1 + high),
    }
    what = f"{name}, model off by {100 * error:g} %"
    return Row(SECTION, what, sound, low, "info", sentence, (low, high), shown=shown)


def _public_range(sound: Outcome, outcomes: list[Outcome], error: float) -> Row:
    """The public error of a centre that keeps the plan's model: from messages, and from raw readings of that case."""
    low, _ = _range([outcome.public_loss for outcome in outcomes])
    worst = max(outcomes, key=lambda outcome: outcome.public_loss, default=sound)
    count = len(outcomes)
    sentence = (
        f"with the model off by {100 * error:g} %, a centre that keeps the plan's model has a public error whose "
        f"variance grows {times(1 + worst.public_loss)} in the worst of {count} random cases; from raw readings it "
        f"would grow {times(1 + worst.raw_loss)} in the same case."
    )
    shown = {
        "variance grows: model right, sent": times(1 + sound.public_loss),
        f"worst of {count} wrong ones, sent": times(1 + worst.public_loss),
        "the same case, raw readings": times(1 + worst.raw_loss),
    }
    what = f"public error, model off by {100 * error:g} %"
    figures = {"raw readings, same case": worst.raw_loss}
    high = worst.public_loss
    return Row(SECTION, what, sound.public_loss, high, "info", sentence, (low, high), figures, shown)


def _privacy_rests_on(name: str, sound: Outcome, singles: Mapping[str, list[Outcome]], error: float) -> Row:
    """The single assumption whose being off takes most privacy away."""
    left = {
        label: min((outcome.privacy[name] for outcome in outcomes), default=sound.privacy[name])
        for label, outcomes in singles.items()
    }
    worst = min(left, key=lambda label: left[label])
    return _rests_on(name, f"the privacy of {name}", worst, left, error)


def _public_rests_on(sound: Outcome, singles: Mapping[str, list[Outcome]], error: float) -> Row:
    """The single assumption whose being off costs the public estimate most."""
    lost = {
        label: max((outcome.public_loss for outcome in outcomes), default=sound.public_loss)
        for label, outcomes in singles.items()
    }
    worst = max(lost, key=lambda label: lost[label])
    return _rests_on("public error", "the public estimate", worst, lost, error)


def _rests_on(what: str, subject: str, assumption: str, growths: Mapping[str, float], error: float) -> Row:
    """The assumption that something rests most on, and how the error grows when that one alone is off."""
    grows = times(1 + growths[assumption])
    sentence = (
        f"{subject} rests most on {assumption}: with that alone off by {100 * error:g} %, the error variance grows "
        f"{grows}."
    )
    shown = {
        "rests most on": assumption,
        f"error variance grows with that alone off by {100 * error:g} %": grows,
    }
    figures = {"growth with one assumption off": dict(growths)}
    return Row(SECTION, what, None, assumption, "info", sentence, figures=figures, shown=shown)


def attacker_rows(network: Network, sanitizers: Mapping[str, Sanitizer]) -> list[Row]:
    """An attacker who knew more beforehand than was assumed, beside one who knew as much and has raw readings."""
    cases = {"has seen a tenth of a raw release": 0.1 * raw_information(network)}
    if network.prior is not None:
        cases = {"has a prior of half the deviation": 3.0 * network.prior.information} | cases
    sent, raw = message_factor(network, sanitizers), message_factor(network, {})
    promised = knowledge_of_factor(network, sent)
    units = in_units(network)
    rows = []
    for label, more in cases.items():
        values, vectors = np.linalg.eigh((more + more.T) / 2)
        extra = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        known = {
            heading: knowledge_of_factor(network, np.concatenate([factor, extra]))
            for heading, factor in (
                ("guessing", np.zeros((0, network.L))),
                ("raw readings", raw),
                ("what is sent", sent),
            )
        }
        for name, matrix in network.private.items():
            growths = {heading: growth(each, matrix) for heading, each in known.items()}
            rows.append(_knew_more(units[name], label, growths, growth(promised, matrix)))
    return rows


def _knew_more(error: InUnits, label: str, growths: Mapping[str, float], promised: float) -> Row:
    """One row; ``growths`` are of guessing, raw readings and what is sent, each with the same head start."""
    name = error.typical.name
    left = (1.0 + growths["what is sent"]) / (1.0 + growths["raw readings"]) - 1.0
    cells = error.cells(growths)
    sentence = (
        f"an attacker who {label} errs on {name} by {cells['what is sent']} with what is sent, by "
        f"{cells['raw readings']} with raw readings and by {cells['guessing']} with neither. Sanitizing makes the "
        f"variance of his error grow {times(1 + left)}; for one who knows no more than the plan assumes it grows "
        f"{times(1 + promised)}."
    )
    shown = cells | {"error variance grows, raw to sent": times(1 + left)}
    figures = error.figures(growths)
    what = f"{name}, attacker {label}"
    return Row(SECTION, what, None, left, "info", sentence, figures=figures, shown=shown)
