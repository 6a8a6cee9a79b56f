"""Wrong models of a stream: the plan was made for one, and another one is true.

Agents keep their sanitizers. Privacy is what an attacker who knows the truth gets with hindsight; utility is what a
centre gets now that goes on filtering by the plan's model, over a window. Entries of H and A are off by a factor
each, the covariances of reading noise and of Q by a factor per deviation, so that units and zeros stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.errors import VeilnetError
from veilnet._core.types import Array
from veilnet._core.words import number, times
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.report import Row
from veilnet.auditing.streams.attack import long_enough
from veilnet.auditing.streams.steady import Measured, filtered
from veilnet.auditing.streams.window import Window
from veilnet.auditing.what_if.variants import with_stacked_observe
from veilnet.auditing.what_if.wrong_models import SECTION
from veilnet.model.coloured import ColouredNoise
from veilnet.model.dynamics import Dynamics
from veilnet.model.network import Network

_DRAWS = 12  # of all assumptions together
_DRAWS_EACH = 3  # of each by itself, both signs
_ROUNDING = 1e-9
_KINDS = {"observe": "H", "noise": "the noise of the readings", "moves": "A", "renewal": "Q"}


@dataclass(frozen=True)
class _Outcome:
    """Privacy of every parameter, and the public loss of a centre that keeps the plan's model."""

    privacy: Mapping[str, float]
    loss: float


def wrong_model_rows(
    network: Network,
    sanitizers: Mapping[str, Sanitizer],
    error: float,
    seed: int,
    advance: Callable[[float], None],
) -> list[Row]:
    """The range of privacy, and the worst public error, with every assumption off; and which of them costs most."""
    study = _Study(network, sanitizers)
    rng = np.random.default_rng([seed, 6])
    every = [study.under(_mistaken(network, rng, error, tuple(_KINDS))) for _ in range(_DRAWS)]
    advance(0.5)
    alone: dict[str, list[_Outcome]] = {}
    for done, kind in enumerate(_KINDS):
        drawn = [study.under(_mistaken(network, rng, error, (kind,))) for _ in range(_DRAWS_EACH)]
        alone[kind] = [outcome for outcome in drawn if outcome is not None]
        advance(0.5 + 0.5 * (done + 1) / len(_KINDS))
    sound = study.under(network)
    outcomes = [outcome for outcome in every if outcome is not None]
    if sound is None or not outcomes:
        sentence = "no model near the plan's has a steady state: nothing can be said of wrong models."
        return [Row(SECTION, "wrong models", None, None, "warn", sentence)]
    return [row for name in network.private for row in _privacy_rows(name, sound, outcomes, alone, error)] + [
        _public_row(sound, outcomes, alone, error)
    ]


class _Study:
    def __init__(self, network: Network, sanitizers: Mapping[str, Sanitizer]) -> None:
        self.sanitizers = sanitizers
        window = long_enough(network, sanitizers)
        self.rows, self.lead = window.rows, window.lead
        self.weights = window.filter(network.U, window.rows // 2, "now")

    def under(self, truth: Network | None) -> _Outcome | None:
        """What happens when another model is true; None where that one has no steady state."""
        if truth is None:
            return None
        try:
            measured = Measured(truth)
            privacy = measured.privacies(filtered(truth, self.sanitizers))
            best = measured.raw.error(truth.U, "now")
        except VeilnetError:
            return None
        window = Window(truth, self.sanitizers, self.rows, self.lead)
        found = window.error_of(self.weights, truth.U, self.rows // 2)
        lost = found / best - 1.0
        return _Outcome(privacy, lost if lost > _ROUNDING else 0.0)


def _mistaken(
    network: Network, rng: np.random.Generator, error: float, kinds: tuple[str, ...]
) -> Network | None:
    """The network that is true when some assumptions of the plan's are off at random by so much."""
    assert network.dynamics is not None

    def factors(kind: str, shape: tuple[int, ...]) -> Array:
        drawn = np.exp(np.log1p(error) * rng.standard_normal(shape))
        return drawn if kind in kinds else np.ones(shape)

    observe = network.H * factors("observe", network.H.shape)
    stretch = factors("noise", (network.N,))
    renewed = factors("renewal", (network.L,))
    transition = network.dynamics.transition * factors("moves", (network.L, network.L))
    process = network.dynamics.noise * np.outer(renewed, renewed)
    whole = network.noise.matrix() * np.outer(stretch, stretch)
    noise: object = whole
    if network.colour is not None:
        colour = network.colour
        scaled = colour.innovation * np.outer(stretch, stretch)
        floor = (network.noise.matrix() - colour.carried) * np.outer(stretch, stretch)
        noise = ColouredNoise(colour.memory, scaled, floor)
    try:
        dynamics = Dynamics(transition, process, network.dynamics.mean)
        if network.dynamics.stable and not dynamics.stable:
            return None
        return with_stacked_observe(network, observe, noise=noise, dynamics=dynamics, prior=None)
    except VeilnetError:
        return None


def _privacy_rows(
    name: str,
    sound: _Outcome,
    outcomes: list[_Outcome],
    alone: Mapping[str, list[_Outcome]],
    error: float,
) -> list[Row]:
    values = [outcome.privacy[name] for outcome in outcomes]
    low, high = min(values), max(values)
    least = {
        kind: min((outcome.privacy[name] for outcome in found), default=np.inf)
        for kind, found in alone.items()
    }
    kind = min(least, key=lambda each: least[each])
    sentence = (
        f"with the model off by {100 * error:g} %, the error on {name} with hindsight grows between "
        f"{times(1 + low)} and {times(1 + high)}; it rests most on {_KINDS[kind]}."
    )
    figures = {"lowest": low, "highest": high, "alone": least, "rests most on": _KINDS[kind]}
    what = f"{name}, model off by {100 * error:g} %"
    return [Row(SECTION, what, sound.privacy[name], low, "info", sentence, (low, high), figures)]


def _public_row(
    sound: _Outcome, outcomes: list[_Outcome], alone: Mapping[str, list[_Outcome]], error: float
) -> Row:
    worst = max(outcome.loss for outcome in outcomes)
    costs = {kind: max((outcome.loss for outcome in found), default=0.0) for kind, found in alone.items()}
    kind = max(costs, key=lambda each: costs[each])
    sentence = (
        f"with the model off by {100 * error:g} %, a centre that keeps the plan's model loses {number(worst)} of "
        f"utility where {number(sound.loss)} was promised; it rests most on {_KINDS[kind]}."
    )
    figures = {"alone": costs, "rests most on": _KINDS[kind]}
    what = f"public error, model off by {100 * error:g} %"
    return Row(SECTION, what, sound.loss, worst, "info", sentence, figures=figures)
