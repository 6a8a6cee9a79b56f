"""Wrong models of a stream: the plan was made for one, and another one is true.

Agents keep their sanitizers. Privacy is what an attacker who knows the truth gets with hindsight; utility is what a
centre gets now that goes on filtering by the plan's model, over a window. Entries of H and A are off by a factor
each, the covariances of reading noise and of Q by a factor per deviation, so that units and zeros stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from veilnet._core.errors import VeilnetError
from veilnet._core.types import Array
from veilnet.agent.mechanisms import mechanisms
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.report import Row
from veilnet.auditing.streams.attack import long_enough
from veilnet.auditing.streams.steady import Measured, filtered
from veilnet.auditing.streams.window import Window
from veilnet.auditing.what_if.variants import with_stacked_observe
from veilnet.auditing.what_if.wrong_models import SECTION, Outcome, outcome_rows
from veilnet.model.coloured import ColouredNoise
from veilnet.model.dynamics import Dynamics
from veilnet.model.network import Network

_DRAWS = 12  # of all assumptions together
_DRAWS_EACH = 3  # of each by itself
_ROUNDING = 1e-9
_KINDS = {
    "observe": "what agents observe",
    "noise": "the noise of the readings",
    "moves": "how x moves from row to row",
    "renewal": "how much is new in each row",
}


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
    alone: dict[str, list[Outcome]] = {}
    for done, (kind, in_words) in enumerate(_KINDS.items()):
        drawn = [study.under(_mistaken(network, rng, error, (kind,))) for _ in range(_DRAWS_EACH)]
        alone[in_words] = [outcome for outcome in drawn if outcome is not None]
        advance(0.5 + 0.5 * (done + 1) / len(_KINDS))
    sound = study.under(network)
    outcomes = [outcome for outcome in every if outcome is not None]
    if sound is None or not outcomes:
        sentence = "no model near the plan's has a steady state: nothing can be said of wrong models."
        return [Row(SECTION, "wrong models", None, None, "warn", sentence)]
    return outcome_rows(sound, outcomes, alone, error, late=" with hindsight")


class _Study:
    def __init__(self, network: Network, sanitizers: Mapping[str, Sanitizer]) -> None:
        self.sanitizers = sanitizers
        window = long_enough(network, sanitizers)
        self.rows, self.lead = window.rows, window.lead
        self.weights = window.filter(network.U, window.rows // 2, "now")
        self.bare = mechanisms(network, None)
        self.raw_weights = Window(network, self.bare, self.rows, self.lead).filter(
            network.U, self.rows // 2, "now"
        )

    def under(self, truth: Network | None) -> Outcome | None:
        """What happens when another model is true; None where that one has no steady state."""
        if truth is None:
            return None
        try:
            measured = Measured(truth)
            privacy = measured.privacies(filtered(truth, self.sanitizers))
            best = measured.raw.error(truth.U, "now")
        except VeilnetError:
            return None
        lost = [
            Window(truth, sanitizers, self.rows, self.lead).error_of(weights, truth.U, self.rows // 2) / best
            - 1.0
            for sanitizers, weights in ((self.sanitizers, self.weights), (self.bare, self.raw_weights))
        ]
        sent, raw = (each if each > _ROUNDING else 0.0 for each in lost)
        return Outcome(sent, privacy, raw)


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
    whole = network.R.matrix() * np.outer(stretch, stretch)
    noise: object = whole
    if network.colour is not None:
        colour = network.colour
        scaled = colour.innovation * np.outer(stretch, stretch)
        floor = (network.R.matrix() - colour.carried) * np.outer(stretch, stretch)
        noise = ColouredNoise(colour.memory, scaled, floor)
    try:
        dynamics = Dynamics(transition, process, network.dynamics.mean)
        if network.dynamics.stable and not dynamics.stable:
            return None
        return with_stacked_observe(network, observe, noise=noise, dynamics=dynamics, prior=None)
    except VeilnetError:
        return None
