"""Other protections of a stream beside the plan: privacy with hindsight at equal utility now, and the reverse.

noise on every reading       every agent adds independent Gaussian noise to each reading, the same multiple of its
                             spread, and the centre runs a Kalman filter: differential privacy of every reading, the
                             *input perturbation* of Le Ny and Pappas (2014);
aggregate, then perturb      a trusted aggregator combines raw readings and adds noise to the combinations, designed
                             by a semidefinite program (:mod:`veilnet.auditing.streams.aggregate_design`);
PCA, discriminant            a few combinations of each row, without memory;
secure summation             cryptography shows the centre the sum of all share filters and nothing else;
no protection                raw readings.

Strengths of the first two are deviations of the noise in units of what one agent's readings of one stream may differ
by, a deviation of each reading: (ε, δ)-differential privacy follows from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from veilnet._core.errors import MissingExtra
from veilnet._core.types import Array
from veilnet._core.words import number
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.baselines import (
    NO_LOSS,
    SECTION,
    TALKING,
    Baseline,
    Point,
    Spread,
    continuous,
    discrete,
    discriminant_rows,
    point_of,
    principal_rows,
    private_enough,
    strongest,
    weakest,
)
from veilnet.auditing.differential_privacy import gaussian_epsilon
from veilnet.auditing.report import LEFT_OUT, Row
from veilnet.auditing.streams.aggregate_design import NoDesign, Signals, most_private, sensitivity
from veilnet.auditing.streams.steady import Filtered, Measured, filtered, filtered_messages
from veilnet.auditing.streams.variants import as_one_agent
from veilnet.auditing.streams.window import Noises
from veilnet.bounds.streams.riccati import Messages
from veilnet.model.network import Network
from veilnet.plans.plan import Plan
from veilnet.verdict.streams.share_filters import share_filters

EVERY_READING = "noise on every reading"
AGGREGATE = "aggregate, then perturb"
TRUSTED = (
    "a trusted aggregator who sees every raw reading: a centralised mechanism, not one that agents run alone"
)

_DELTA = 1e-6
_DEVIATIONS = np.logspace(-2, 3, 26)  # of noise on every reading, for the plot
_REACH = (1e-8, 1e4)  # deviations of noise among which the one that is looked for may lie
_LEAST_LOSS = 1e-3  # what the semidefinite solver resolves; for less, its noise is made smaller
_LOSSES = (0.01, 0.1, 0.3, 1.0, 4.0)  # at which aggregates are designed, beside the plan's own
_MOST_READINGS = 24  # beyond, one semidefinite program takes more than a few seconds


def stream_baselines(plan: Plan) -> tuple[list[Baseline], list[Row]]:
    """The plan and every other protection of its stream; and rows that say what was left out, and why."""
    network = plan.network
    measured = Measured(network)
    own = _point(measured, 1.0, filtered(network, plan.sanitizers))
    spread = Spread(network.one_row)
    found = [Baseline("this plan", own, own, (own,), is_plan=True)]

    def noisy(strength: float) -> Point:
        return _point(measured, strength, filtered(network, _noise_on_readings(spread, strength)))

    found.append(continuous(EVERY_READING, noisy, own, _DEVIATIONS, _REACH))
    rows: list[Row] = []
    try:
        found.append(_aggregate(measured, spread, own))
    except (MissingExtra, NoDesign, _TooLarge) as reason:
        sentence = f"{AGGREGATE}: left out: {reason}."
        rows.append(Row(SECTION, AGGREGATE, None, LEFT_OUT, "info", sentence, shown={"outcome": LEFT_OUT}))
    largest = int(max(network.blocks.sizes))
    for name, compress in (("PCA", principal_rows), ("discriminant", discriminant_rows)):
        rows_of = {agent: compress(spread, agent) for agent in network.agents}
        curve = [_point(measured, float(k), _first_rows(network, rows_of, k)) for k in range(largest + 1)]
        found.append(discrete(name, curve, own))
    summed = _point(measured, 1.0, secure_sum(network))
    found.append(discrete("secure summation", [summed], own, trusts=TALKING))
    found.append(discrete("no protection", [_point(measured, 1.0, measured.raw)], own))
    return found, rows


def epsilon_rows(found: list[Baseline]) -> list[Row]:
    """The (ε, δ) of the differentially private ones at the plan's utility: what their own promise would be."""
    rows = []
    for baseline in found:
        point = baseline.at_equal_utility
        if baseline.name not in (EVERY_READING, AGGREGATE) or point is None:
            continue
        epsilon = gaussian_epsilon(_DELTA, 1.0 / point.strength)
        sentence = (
            f"{baseline.name}, at the plan's utility: ({number(epsilon)}, {_DELTA:g})-differential privacy of "
            "streams in which one agent's readings differ by one deviation, all rows together."
        )
        what = f"{baseline.name}: ε at equal utility, δ = {_DELTA:g}"
        figures = {"delta": _DELTA, "noise": point.strength}
        shown = {f"ε at δ = {_DELTA:g}, all rows together": number(epsilon)}
        rows.append(Row(SECTION, what, None, epsilon, "info", sentence, figures=figures, shown=shown))
    return rows


def _point(measured: Measured, strength: float, known: Filtered) -> Point:
    return point_of(strength, measured.loss(known), measured.privacies(known))


def _noise_on_readings(spread: Spread, strength: float) -> dict[str, Sanitizer]:
    return {
        agent: Sanitizer(np.eye(len(deviations)), strength**2 * np.diag(deviations**2))
        for agent in spread.network.agents
        for deviations in [spread.deviations(agent)]
    }


def _first_rows(network: Network, rows_of: dict[str, Array], count: int) -> Filtered:
    kept = {
        agent: Sanitizer.exact(np.ascontiguousarray(rows[:count]), offset=np.zeros(rows.shape[1]))
        for agent, rows in rows_of.items()
    }
    return filtered(network, kept)


def secure_sum(network: Network) -> Filtered:
    """What the sum of all share filters tells by itself: the share filter of one agent who has all readings."""
    merged = as_one_agent(network)
    return filtered(merged, share_filters(merged).sanitizers)


# --- aggregate, then perturb


class _TooLarge(Exception):
    """The network is too large for the semidefinite solver."""


@dataclass(frozen=True, eq=False)
class Aggregates:
    """Mechanisms z_t = D y_t + noise of a trusted aggregator for a stream network, readings in their deviations."""

    network: Network
    deviations: Array

    @cached_property
    def signals(self) -> Signals:
        """The network as Degue and Le Ny write it, with coloured noise as part of x."""
        network, noises = self.network, Noises.of(self.network)
        assert network.dynamics is not None
        transition, process, observe = network.dynamics.transition, network.dynamics.noise, network.H
        wanted = network.U
        if network.colour is not None:
            none = np.zeros((network.L, network.N))
            transition = np.block([[transition, none], [none.T, noises.memory]])
            process = np.block([[process, none], [none.T, noises.innovation]])
            observe = np.concatenate([observe, np.eye(network.N)], axis=1)
            wanted = np.concatenate([wanted, np.zeros((len(wanted), network.N))], axis=1)
        scale = 1.0 / self.deviations
        return Signals(
            transition,
            process,
            scale[:, None] * observe,
            noises.floor * scale[:, None] * scale,
            wanted,
            tuple(int(size) for size in network.blocks.sizes),
            np.ones(network.S),
        )

    def told(self, combine: Array, noise: float) -> Filtered:
        """What combinations D tell whose noise has ``noise`` times their sensitivity as deviation."""
        signals = self.signals
        unit = combine / sensitivity(signals, combine)
        floor = unit @ signals.floor @ unit.T + noise**2 * np.eye(len(unit))
        messages = Messages(signals.transition, signals.process, unit @ signals.observe, floor)
        return filtered_messages(self.network, messages)


def _aggregate(measured: Measured, spread: Spread, own: Point) -> Baseline:
    """Designs at several losses, each with its noise tuned: the best at the plan's utility, and at its privacy."""
    network = measured.network
    if network.N > _MOST_READINGS:
        raise _TooLarge(
            f"its semidefinite program is solved for up to {_MOST_READINGS} readings, found {network.N}"
        )
    deviations = np.concatenate([spread.deviations(agent) for agent in network.agents])
    aggregates = Aggregates(network, deviations)
    raw = measured.raw.error(network.U, "now")
    tuned = max(own.loss, _LEAST_LOSS)
    designs = _designs(aggregates, raw, sorted({tuned, *_LOSSES} - {np.inf}))
    allowed = max(own.loss, NO_LOSS)

    def of(combine: Array) -> Callable[[float], Point]:
        return lambda noise: _point(measured, noise, aggregates.told(combine, noise))

    useful = [strongest(of(each), lambda p: p.loss <= allowed, _REACH) for each in designs.values()]
    private = [weakest(of(each), lambda p: private_enough(p, own), _REACH) for each in designs.values()]
    curve = [of(each)(1.0 / sensitivity(aggregates.signals, each)) for each in designs.values()]
    return Baseline(
        AGGREGATE,
        max((p for p in useful if p is not None), key=lambda p: min(p.privacy.values()), default=None),
        min((p for p in private if p is not None), key=lambda p: p.loss, default=None),
        tuple(curve),
        trusts=TRUSTED,
    )


def _designs(aggregates: Aggregates, raw: float, losses: list[float]) -> dict[float, Array]:
    """Designs by the loss they were made for; those that the solver cannot find are left out, but not all."""
    found: dict[float, Array] = {}
    trouble: NoDesign | None = None
    for loss in losses:
        try:
            found[loss] = most_private(aggregates.signals, raw * (1.0 + loss))
        except NoDesign as error:
            trouble = error
    if not found and trouble is not None:
        raise trouble
    return found
