"""Wrong models: the plan was made for one model, and another one is true.

Agents keep their sanitizers. Privacy is then what an attacker who knows the truth gets; utility is what a centre gets
that goes on fusing with the plan's model, of a stream over a window. H, and of a stream A, are off by a factor per
entry; R and the prior, or Q, by a factor per deviation (D R D with diagonal D): units and zeros stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np

from veilnet._core.errors import InvalidRequest, NotObservable, VeilnetError
from veilnet._core.types import Array
from veilnet._core.validation import as_number
from veilnet._core.words import times
from veilnet.agent.mechanisms import mechanisms
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.attack.simulation import LinearCentre
from veilnet.auditing.measures import Compared, growth, in_units
from veilnet.auditing.row import Row
from veilnet.auditing.sections import Section
from veilnet.auditing.streams.world import WindowCentre, long_enough
from veilnet.auditing.what_if.variants import raw_information, with_stacked_observe
from veilnet.auditing.world import EstimatedRows
from veilnet.auditing.worlds import world_of
from veilnet.bounds.knowledge import knowledge_of_factor, message_factor
from veilnet.model.coloured import ColouredNoise
from veilnet.model.dynamics import Dynamics
from veilnet.model.network import Network, Prior
from veilnet.plans.plan import Plan

SECTION = Section.MODELS.heading
_LARGE = 2000  # readings beyond which fewer are drawn, and the centre is taken to notice
_MOST_SINGLE = 60  # agents up to which every agent's H and R is an assumption of its own
_ROUNDING = 1e-9

Kind = Literal["observe", "noise", "spread", "moves"]


@dataclass(frozen=True, eq=False)
class Mistake:
    """Relative errors, entry by entry: exponents of factors.

    observe: (N, L), of H.
    noise:   (N,), of the deviations of R.
    spread:  (L,), of the deviations of the prior, or of what is new in each row of a stream.
    moves:   (L, L), of how a stream moves from row to row.
    """

    observe: Array
    noise: Array
    spread: Array
    moves: Array | float = 0.0

    def __neg__(self) -> Mistake:
        return Mistake(-self.observe, -self.noise, -self.spread, -self.moves)

    def applied(self, network: Network) -> Network:
        """The network that is true when the plan's was mistaken."""
        observe, noise = network.H * np.exp(self.observe), self._noise(network)
        spread = np.exp(self.spread)
        if network.dynamics is None:
            prior = network.prior
            if prior is not None:
                prior = Prior(information=prior.information / np.outer(spread, spread), mean=prior.mean)
            return with_stacked_observe(network, observe, noise=noise, prior=prior)
        known = network.dynamics
        dynamics = Dynamics(
            known.transition * np.exp(self.moves), known.noise * np.outer(spread, spread), known.mean
        )
        if known.stable and not dynamics.stable:
            raise NotObservable("dynamics: the mistake lets x wander off")
        return with_stacked_observe(network, observe, noise=noise, dynamics=dynamics, prior=None)

    def _noise(self, network: Network) -> object:
        stretch = np.exp(self.noise)
        square = np.outer(stretch, stretch)
        if network.colour is not None:
            colour = network.colour
            floor = (network.R.matrix() - colour.carried) * square
            return ColouredNoise(colour.memory, colour.innovation * square, floor)
        if not network.R.independent:
            return network.R.matrix() * square
        return {
            agent: network.R.block(k) * square[network.blocks.rows(k), network.blocks.rows(k)]
            for k, agent in enumerate(network.agents)
        }


@dataclass(frozen=True)
class Outcome:
    """The centre's utility loss, p_j of every private parameter, and the loss of raw readings fused by that model."""

    public_loss: float
    privacy: Mapping[str, float]
    raw_loss: float = 0.0


class RowCentre:
    """The plan's estimate from one row of messages, û = U m + A (z - C H m); only where its prior is full."""

    def __init__(self, network: Network, sanitizers: Mapping[str, Sanitizer]) -> None:
        self.network, self._combined, self._added = network, None, 0.0
        if network.prior is None or not network.prior.full or network.N > _LARGE:
            return
        centre, ends = LinearCentre(network, sanitizers), [0]
        ends += np.cumsum([sanitizers[agent].sent for agent in network.agents]).tolist()
        own = {agent: slice(*each) for agent, each in zip(network.agents, pairwise(ends), strict=True)}
        # The estimate is affine in what is sent: its weights A are those of one number at a time.
        units = np.concatenate([np.zeros((1, ends[-1])), np.eye(ends[-1])])
        found = centre.estimate({agent: units[:, each] for agent, each in own.items()}, network.measured)
        weights = (found[1:] - found[0]).T
        parts = [weights[:, own[agent]] for agent in network.agents]
        sent = [sanitizers[agent] for agent in network.agents]
        self._combined = np.concatenate([w @ s.compression for w, s in zip(parts, sent, strict=True)], axis=1)
        self._added = sum(float(np.sum((w @ s.noise) * w)) for w, s in zip(parts, sent, strict=True))

    def error(self, truth: Network) -> float | None:
        """The mean square error of û, which is (A C H_t - U)(x - m) + A C (H_t - H) m + A (C n + ξ), where another
        network is true; None where the centre is taken to notice.
        """
        if self._combined is None or truth.prior is None or truth.prior.covariance is None:
            return None
        off = self._combined @ truth.H - truth.measured
        bias = self._combined @ (truth.H - self.network.H) @ truth.prior.mean
        error = np.sum((off @ truth.prior.covariance) * off) + bias @ bias
        return float(error + np.sum((self._combined @ truth.R.matrix()) * self._combined) + self._added)


@dataclass(frozen=True, eq=False)
class WrongModel:
    """Utility and privacy of fixed sanitizers under mistakes.

    network: the plan's own. Where it counts an error of the model as noise, mistakes are made in the model without.
    """

    network: Network
    sanitizers: Mapping[str, Sanitizer]

    @cached_property
    def _centres(self) -> tuple[RowCentre | WindowCentre, ...]:
        """The centre that is given messages, and the same one given raw readings."""
        bare = mechanisms(self.network, None)
        if not self.network.is_stream:
            return RowCentre(self.network, self.sanitizers), RowCentre(self.network, bare)
        window = long_enough(self.network, self.sanitizers)
        return WindowCentre.like(window, self.sanitizers), WindowCentre.like(window, bare)

    def outcome(self, mistake: Mistake) -> Outcome | None:
        """What is lost and kept when this was the mistake; None when the true network determines too little."""
        stated = self.network if not self.network.model_error else self.network.replace(model_error=0.0)
        try:
            return self.under(mistake.applied(stated))
        except VeilnetError:
            return None

    def under(self, truth: Network) -> Outcome:
        """What is lost and kept when ``truth`` is the network."""
        world = world_of(truth)
        known = world.known(self.sanitizers)
        best = world.raw_error(EstimatedRows("", "", truth.measured, public=True, when="now"))
        errors = [centre.error(truth) for centre in self._centres]
        lost = [error / best - 1.0 for error in errors if error is not None]
        if len(lost) < 2:
            lost = [known(truth.measured, "now"), 0.0]
        sent, raw = (each if each > _ROUNDING else 0.0 for each in lost)
        return Outcome(sent, {name: known(rows, "hindsight") for name, rows in truth.private.items()}, raw)

    def outcomes(self, mistakes: Iterable[Mistake]) -> list[Outcome]:
        """The outcomes of those mistakes that have one."""
        return [found for mistake in mistakes if (found := self.outcome(mistake)) is not None]


def wrong_model_rows(
    network: Network,
    sanitizers: Mapping[str, Sanitizer],
    error: float,
    seed: int,
    advance: Callable[[float], None],
) -> list[Row]:
    """Range of utility and privacy when every assumption is off, and the assumption that matters most.

    ``error`` is how far they are off, a fraction: 0.05 is 5 %.
    """
    model = WrongModel(network, sanitizers)
    rng = np.random.default_rng([seed, 3])
    sound = model.under(network)
    draws, draws_each = (4, 1) if network.N > _LARGE else (12, 2) if network.is_stream else (24, 6)
    outcomes: list[Outcome] = []
    for turn in range(draws):
        outcomes += model.outcomes([random_mistake(network, rng, error)])
        advance(0.5 * (turn + 1) / draws)
    if not outcomes:
        raise NotObservable("model_error: no model near the plan's determines what is asked")
    singles: dict[str, list[Outcome]] = {}
    assumptions = _assumptions(network)
    for done, (label, only) in enumerate(assumptions.items()):
        drawn = [random_mistake(network, rng, error, only) for _ in range(draws_each)]
        singles[label] = model.outcomes([*drawn, *(-each for each in drawn)])
        advance(0.5 + 0.5 * (done + 1) / len(assumptions))
    rows = [
        *(_privacy_range(name, sound, outcomes, error) for name in sound.privacy),
        _public_range(sound, outcomes, error),
    ]
    for name in sound.privacy:
        left = {
            label: min([each.privacy[name] for each in some], default=sound.privacy[name])
            for label, some in singles.items()
        }
        rows.append(_rests_on(name, min(left, key=lambda label: left[label]), left, error))
    lost = {
        label: max([each.public_loss for each in some], default=sound.public_loss)
        for label, some in singles.items()
    }
    rows.append(_rests_on("public error", max(lost, key=lambda label: lost[label]), lost, error))
    return rows if network.is_stream else rows + attacker_rows(network, sanitizers)


def random_mistake(
    network: Network, rng: np.random.Generator, error: float, only: tuple[Kind, int] | None = None
) -> Mistake:
    """A random mistake of this relative size, ``error``; ``only`` names one assumption and an agent (-1: all)."""

    def part(kind: Kind, *shape: int) -> Array:
        draw = error * rng.standard_normal(shape)
        if only is None or only == (kind, -1):
            return draw
        kept = np.zeros(shape)
        if only[0] == kind:
            rows = network.blocks.rows(only[1])
            kept[rows] = draw[rows]
        return kept

    size = network.L
    found = part("observe", network.N, size), part("noise", network.N), part("spread", size)
    return Mistake(*found, part("moves", size, size) if network.is_stream else 0.0)


def _assumptions(network: Network) -> dict[str, tuple[Kind, int]]:
    """What may be off by itself, in words: each agent's H and R and the prior; of a stream how x moves, too."""
    if network.is_stream:
        return {
            "what agents observe": ("observe", -1),
            "the noise of the readings": ("noise", -1),
            "how x moves from row to row": ("moves", -1),
            "how much is new in each row": ("spread", -1),
        }
    each = network.S <= _MOST_SINGLE
    found: dict[str, tuple[Kind, int]] = {}
    for place, agent in enumerate(network.agents if each else ("all agents",)):
        found[f"what {agent} observes"] = ("observe", place if each else -1)
        found[f"the noise of {agent}"] = ("noise", place if each else -1)
    return found if network.prior is None else found | {"the prior": ("spread", -1)}


def _privacy_range(name: str, right: Outcome, outcomes: list[Outcome], error: float) -> Row:
    """How an attacker's error on one parameter grows: under the plan's model, and at worst and best under others."""
    sound, count = right.privacy[name], len(outcomes)
    left = [outcome.privacy[name] for outcome in outcomes]
    shown = {
        "standard error grows: model right": times(1 + sound),
        f"worst of {count} wrong ones": times(1 + min(left)),
        f"best of {count} wrong ones": times(1 + max(left)),
    }
    what = f"{name}, model off by {100 * error:g} %"
    return Row(SECTION, what, sound, min(left), "info", interval=(min(left), max(left)), shown=shown)


def _public_range(sound: Outcome, outcomes: list[Outcome], error: float) -> Row:
    """The public error of a centre that keeps the plan's model: from messages, and from raw readings of that case."""
    worst = max(outcomes, key=lambda outcome: outcome.public_loss)
    interval = min(outcome.public_loss for outcome in outcomes), worst.public_loss
    shown = {
        "standard error grows: model right, sent": times(1 + sound.public_loss),
        f"worst of {len(outcomes)} wrong ones, sent": times(1 + worst.public_loss),
        "the same case, raw readings": times(1 + worst.raw_loss),
    }
    what = f"public error, model off by {100 * error:g} %"
    figures = {"raw readings, same case": worst.raw_loss}
    return Row(SECTION, what, sound.public_loss, worst.public_loss, "info", "", interval, figures, shown)


def _rests_on(what: str, assumption: str, growths: Mapping[str, float], error: float) -> Row:
    """The assumption that something rests most on, and how the error grows when that one alone is off."""
    shown = {
        "rests most on": assumption,
        f"standard error grows with that alone off by {100 * error:g} %": times(1 + growths[assumption]),
    }
    figures = {"growth with one assumption off": dict(growths)}
    return Row(SECTION, what, None, assumption, "info", figures=figures, shown=shown)


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
            rows.append(_knew_more(name, units[name], label, growths, growth(promised, matrix)))
    return rows


def _knew_more(name: str, error: Compared, label: str, growths: Mapping[str, float], promised: float) -> Row:
    """One row; ``growths`` are of guessing, raw readings and what is sent, each with the same head start."""
    left = (1.0 + growths["what is sent"]) / (1.0 + growths["raw readings"]) - 1.0
    cells = error.cells(growths)
    shown = cells | {"standard error grows, raw to sent": times(1 + left)}
    figures = error.figures(growths)
    why = f"For one who knows no more than the plan assumes it grows {times(1 + promised)}."
    return Row(SECTION, f"{name}, attacker {label}", None, left, "info", why, None, figures, shown)


# --- of a plan as a whole


@dataclass(frozen=True)
class Robustness:
    """Outcomes over random true models.

    error:          by which fraction the model was off.
    draws:          how many true models were tried.
    public_average: the centre's public error variance, as a multiple of what raw readings allow who knows the truth:
                    the average over the draws.
    public_worst:   the same, the worst draw.
    privacy_worst:  p_j per private parameter, the worst draw, against an attacker who knows the true model.
    """

    error: float
    draws: int
    public_average: float
    public_worst: float
    privacy_worst: Mapping[str, float]


def robustness(plan: Plan, error: float, *, draws: int = 200, seed: int = 0) -> Robustness:
    """Try a plan on random true models that differ from its own by this fraction.

    plan:  the plan; if it was made for an error of the model, draws are around the model as it was stated.
    error: deviation of the relative errors, 0.05 for 5 %.
    draws: how many true models.
    seed:  of the draws: the same seed tries two plans for one network on the same true models.
    """
    size = as_number(error, "error", error=InvalidRequest)
    rng = np.random.default_rng([seed, 4])
    model = WrongModel(plan.network, plan.sanitizers)
    outcomes = model.outcomes(random_mistake(plan.network, rng, size) for _ in range(draws))
    public = [1.0 + outcome.public_loss for outcome in outcomes]
    return Robustness(
        error=size,
        draws=len(outcomes),
        public_average=float(np.mean(public)),
        public_worst=max(public),
        privacy_worst={
            name: min(outcome.privacy[name] for outcome in outcomes) for name in plan.network.private
        },
    )
