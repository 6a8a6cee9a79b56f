"""Other protections of a stream beside the plan: privacy with hindsight at equal utility now, and the reverse.

noise on every reading       every agent adds independent Gaussian noise to each reading, the same multiple of its
                             spread, and the centre runs a Kalman filter: differential privacy of every reading, the
                             *input perturbation* of Le Ny and Pappas (2014);
PCA, discriminant            a few combinations of each row, without memory;
secure summation             cryptography shows the centre the sum of all share filters and nothing else;
no protection                raw readings.

Strengths of the first are deviations of the noise in units of what one agent's readings of one stream may differ
by, a deviation of each reading: (ε, δ)-differential privacy follows from them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from veilnet._core.words import number
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.baselines import SECTION, Baseline, Point, Spread, compared, continuous, point_of
from veilnet.auditing.differential_privacy import gaussian_epsilon
from veilnet.auditing.report import Row
from veilnet.auditing.streams.steady import Filtered, Measured, filtered
from veilnet.auditing.what_if.variants import changed
from veilnet.model.coloured import ColouredNoise
from veilnet.model.network import Network
from veilnet.plans.plan import Plan
from veilnet.verdict.streams.share_filters import share_filters

EVERY_READING = "noise on every reading"

_DELTA = 1e-6
_REACH = (1e-8, 1e4)  # deviations of noise among which the one that is looked for may lie


def stream_baselines(plan: Plan) -> list[Baseline]:
    """The plan and every other protection of its stream."""
    network = plan.network
    measured, spread = Measured(network), Spread(network.one_row)

    def told(strength: float, sanitizers: Mapping[str, Sanitizer] | None) -> Point:
        known = measured.raw if sanitizers is None else filtered(network, sanitizers)
        return point(measured, strength, known)

    def noisy(strength: float) -> Point:
        return told(strength, _noise_on_readings(spread, strength))

    return compared(
        plan,
        spread,
        told,
        lambda own: continuous(EVERY_READING, noisy, own, _REACH),
        point(measured, 1.0, secure_sum(network)),
    )


def epsilon_rows(found: list[Baseline]) -> list[Row]:
    """The (ε, δ) of the differentially private one at the plan's utility: what its own promise would be."""
    rows = []
    for baseline in found:
        tuned = baseline.at_equal_utility
        if baseline.name != EVERY_READING or tuned is None:
            continue
        epsilon = gaussian_epsilon(_DELTA, 1.0 / tuned.strength)
        sentence = (
            f"{baseline.name}, at the plan's utility: ({number(epsilon)}, {_DELTA:g})-differential privacy of "
            "streams in which one agent's readings differ by one deviation, all rows together."
        )
        what = f"{baseline.name}: ε at equal utility, δ = {_DELTA:g}"
        figures = {"delta": _DELTA, "noise": tuned.strength}
        shown = {f"ε at δ = {_DELTA:g}, all rows together": number(epsilon)}
        rows.append(Row(SECTION, what, None, epsilon, "info", sentence, figures=figures, shown=shown))
    return rows


def point(measured: Measured, strength: float, known: Filtered) -> Point:
    """What a protection at one strength leaves, and loses."""
    return point_of(strength, measured.loss(known), measured.privacies(known))


def _noise_on_readings(spread: Spread, strength: float) -> dict[str, Sanitizer]:
    return {
        agent: Sanitizer(np.eye(len(deviations)), strength**2 * np.diag(deviations**2))
        for agent in spread.network.agents
        for deviations in [spread.deviations(agent)]
    }


def secure_sum(network: Network) -> Filtered:
    """What the sum of all share filters tells by itself: the share filter of one agent who has all readings."""
    merged = _as_one_agent(network)
    return filtered(merged, share_filters(merged).sanitizers)


def _as_one_agent(network: Network) -> Network:
    """The network in which one agent has all readings, dither already counted in their noise."""
    if network.colour is None:
        noise: object = network.R.matrix()
    else:
        colour = network.colour
        noise = ColouredNoise(colour.memory, colour.innovation, network.R.matrix() - colour.carried)
    return changed(
        network,
        observe={"everyone": network.H},
        noise=noise,
        offset=None,
        reading_names={},
        limits={},
    )
