"""Other protections side by side with the plan, at equal utility and at equal privacy.

noise on every reading  every agent adds independent Gaussian noise, the same multiple of each reading's spread: what
                        a library for differential privacy would add, of a stream the *input perturbation* of Le Ny
                        and Pappas (2014);
PCA                     every agent sends its first k principal components of each row;
discriminant            every agent sends the k directions with the most public signal per private one;
secure summation        cryptography shows the centre Σ_i U Ψ_i y_i (of a stream the sum of all share filters) and
                        nothing else: no agent's own share is visible (another game: agents must talk to each other,
                        in every round);
no protection           raw readings.

Utility of a stream is that now, privacy that with hindsight. Strengths of the first are deviations of the noise, in
those of each reading: (ε, δ)-differential privacy follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from veilnet._core.types import Array
from veilnet._core.words import number, times
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.differential_privacy import gaussian_epsilon
from veilnet.auditing.measures import Compared, in_units
from veilnet.auditing.row import Row
from veilnet.auditing.sections import Section
from veilnet.auditing.what_if.variants import changed, noise_of, simulated, with_more_noise
from veilnet.auditing.world import Growth, Sanitizers
from veilnet.auditing.worlds import world_of
from veilnet.bounds.knowledge import share_of_estimate
from veilnet.model.network import Network
from veilnet.plans.plan import Plan
from veilnet.verdict.streams.share_filters import share_filters

SECTION = Section.BASELINES.heading
EVERY_READING = "noise on every reading"
NO_LOSS = 1e-9  # a loss this small is none: baselines are compared with a perfect plan at it
_ROUNDING = 1e-12  # less than this is the rounding of numbers that are exactly zero
_NEVER = "not possible"  # no strength of a protection gets there
_TALKING = "agents that talk to each other in every row, and cryptography among them"
_NAMES_SHOWN = 4  # private parameters side by side in one table
_DELTA = 1e-6


@dataclass(frozen=True)
class Tuned:
    """A protection at one strength: utility loss, and p_j of every private parameter."""

    strength: float
    loss: float
    privacy: Mapping[str, float]

    @classmethod
    def at(cls, strength: float, network: Network, known: Growth) -> Tuned:
        """What it loses and leaves; figures that are rounding are zero."""

        def exact(value: float) -> float:
            return value if value > _ROUNDING else 0.0

        left = {name: exact(known(rows, "hindsight")) for name, rows in network.private.items()}
        return cls(strength, exact(known(network.measured, "now")), left)

    def as_private_as(self, other: Tuned) -> bool:
        """Whether every private parameter is hidden as well."""
        return all(self.privacy[name] >= value * (1 - 1e-9) for name, value in other.privacy.items())

    def as_useful_as(self, other: Tuned) -> bool:
        """Whether no more utility is lost."""
        return self.loss <= max(other.loss, NO_LOSS) * (1 + 1e-9)


@dataclass(frozen=True)
class Baseline:
    """A protection tuned to the plan's utility, and to its privacy; None where no strength gets there.

    ``is_plan`` marks the plan itself, to which the others are tuned. ``trusts`` says whom one has to trust for it,
    where that is more than every agent itself.
    """

    name: str
    at_equal_utility: Tuned | None
    at_equal_privacy: Tuned | None
    is_plan: bool = False
    trusts: str = ""


def baselines(plan: Plan) -> list[Baseline]:
    """The plan and every other protection, each tuned to equal utility and to equal privacy."""
    network, world = plan.network, world_of(plan.network)
    spread = Spread(network.one_row if network.is_stream else network)
    reach = (1e-8, 1e4 if network.is_stream else 1e8)  # where the deviation that is looked for may lie

    def at(strength: float, sanitizers: Sanitizers, within: Network | None = None) -> Tuned:
        return Tuned.at(strength, network, world.known(sanitizers, within))

    variances = np.concatenate([spread.deviations(agent) ** 2 for agent in network.agents])

    def noisy(strength: float) -> Tuned:
        return at(strength, {}, with_more_noise(network, strength**2 * variances))

    own = at(1.0, plan.sanitizers)
    useful = tuned(noisy, lambda each: each.as_useful_as(own), *reach)
    private = tuned(noisy, lambda each: each.as_private_as(own), *reversed(reach))
    found = [Baseline("this plan", own, own, is_plan=True), Baseline(EVERY_READING, useful, private)]
    for name, compress in (("PCA", principal_rows), ("discriminant", discriminant_rows)):
        rows_of = {agent: compress(spread, agent) for agent in network.agents}
        largest = int(max(network.blocks.sizes))
        found.append(_best(name, [at(k, _first_rows(rows_of, k)) for k in range(largest + 1)], own))
    found.append(_best("secure summation", [at(1.0, *secure_sum(network))], own, _TALKING))
    return [*found, _best("no protection", [at(1.0, {})], own)]


def tuned(
    point: Callable[[float], Tuned], holds: Callable[[Tuned], bool], start: float, end: float
) -> Tuned | None:
    """The last point on the way from one strength to another at which something holds; None: not even the first."""
    if not holds(point(start)):
        return None
    if holds(point(end)):
        return point(end)
    for _ in range(45):
        middle = float(np.sqrt(start * end))
        start, end = (middle, end) if holds(point(middle)) else (start, middle)
    return point(start)


def _best(name: str, curve: list[Tuned], own: Tuned, trusts: str = "") -> Baseline:
    """A protection with a few settings: the most private of equal utility, the most useful of equal privacy."""
    useful = [each for each in curve if each.as_useful_as(own)]
    private = [each for each in curve if each.as_private_as(own)]
    return Baseline(
        name,
        max(useful, key=lambda each: min(each.privacy.values()), default=None),
        min(private, key=lambda each: each.loss, default=None),
        trusts=trusts,
    )


# --- rows of a report


def baseline_rows(network: Network, found: list[Baseline]) -> list[Row]:
    """The plan and every other protection: errors on what is private at equal utility, utility at equal privacy."""
    errors = {
        name: _errors(name, error, found)
        for name, error in in_units(network).items()
        if name in network.private
    }
    names = list(errors)
    rows = []
    for start in range(0, len(names), _NAMES_SHOWN):
        some = names[start : start + _NAMES_SHOWN]
        for each in found:
            shown = {f"error on {name}": errors[name][each.name] for name in some}
            point = each.at_equal_utility
            value = _NEVER if point is None else min(point.privacy[name] for name in some)
            rows.append(_row(each, "at equal public error", point, value, shown))
    for each in found:
        point = each.at_equal_privacy
        shown = {"public standard error grows": _NEVER if point is None else times(1 + point.loss)}
        rows.append(_row(each, "at equal privacy", point, _NEVER if point is None else point.loss, shown))
    return rows + [
        _epsilon_row(each.at_equal_utility)
        for each in found
        if each.name == EVERY_READING and each.at_equal_utility is not None
    ]


def _errors(name: str, error: Compared, found: list[Baseline]) -> dict[str, str]:
    """The error on a private parameter that each protection leaves at the plan's utility, by its name."""
    points = {each.name: each.at_equal_utility for each in found}
    left = {which: point.privacy[name] for which, point in points.items() if point is not None}
    return dict.fromkeys(points, _NEVER) | error.cells(left)


def _row(
    baseline: Baseline, equal: str, point: Tuned | None, value: float | str, shown: dict[str, str]
) -> Row:
    figures: dict[str, object] = {"needs": baseline.trusts} if baseline.trusts else {}
    if point is not None:
        figures |= {"strength": point.strength, "loss": point.loss, "privacy": dict(point.privacy)}
    promised = value if baseline.is_plan else None
    why = f"It needs {baseline.trusts}." if baseline.trusts else ""
    return Row(SECTION, f"{baseline.name}, {equal}", promised, value, "info", why, None, figures, shown)


def _epsilon_row(tuned: Tuned) -> Row:
    """The (ε, δ) of the differentially private one at the plan's utility: what its own promise would be."""
    epsilon = gaussian_epsilon(_DELTA, 1.0 / tuned.strength)
    why = "For readings of one agent that differ by one deviation, all rows together."
    what = f"{EVERY_READING}: ε at equal utility, δ = {_DELTA:g}"
    figures = {"delta": _DELTA, "noise": tuned.strength}
    return Row(
        SECTION, what, None, epsilon, "info", why, None, figures, {f"ε at δ = {_DELTA:g}": number(epsilon)}
    )


# --- mechanisms


class Spread:
    """How readings vary, for an observer who knows the prior (a wide one where there is none)."""

    def __init__(self, network: Network) -> None:
        self.network = network
        wide = simulated(network)
        covariance = wide.prior.covariance if wide.prior is not None else None
        self.prior: Array = np.eye(network.L) if covariance is None else covariance

    def signal(self, agent: str, rows: Array | None = None) -> Array:
        """Covariance of what the readings show of x, or of the part of it that follows rows A x."""
        observe = self.network.observe[agent]
        if rows is None:
            return np.asarray(observe @ self.prior @ observe.T)
        cross = observe @ self.prior @ rows.T
        values, vectors = np.linalg.eigh(rows @ self.prior @ rows.T)
        some = values > 1e-12 * values[-1]
        half = cross @ vectors[:, some] / np.sqrt(values[some])
        return np.asarray(half @ half.T)

    def noise(self, agent: str) -> Array:
        """Covariance of the noise of the readings."""
        return self.network.R.block(self.network.position[agent])

    def deviations(self, agent: str) -> Array:
        """Standard deviation of each reading."""
        return np.asarray(np.sqrt(np.diag(self.signal(agent) + self.noise(agent))))


def principal_rows(spread: Spread, agent: str) -> Array:
    """Principal components of the standardised readings, the largest first."""
    scale = spread.deviations(agent)
    total = (spread.signal(agent) + spread.noise(agent)) / scale[:, None] / scale
    return np.linalg.eigh(total)[1].T[::-1] / scale


def discriminant_rows(spread: Spread, agent: str) -> Array:
    """Directions in order of public signal against private signal and noise."""
    scale = spread.deviations(agent)
    network = spread.network
    private = np.concatenate(list(network.private.values()))
    wanted = spread.signal(agent, network.U) / scale[:, None] / scale
    unwanted = (spread.signal(agent, private) + spread.noise(agent)) / scale[:, None] / scale
    return np.asarray(eigh(wanted, unwanted)[1].T[::-1] / scale)


def _first_rows(rows_of: Mapping[str, Array], count: int) -> dict[str, Sanitizer]:
    return {
        agent: Sanitizer.exact(np.ascontiguousarray(rows[:count]), offset=np.zeros(rows.shape[1]))
        for agent, rows in rows_of.items()
    }


def secure_sum(network: Network) -> tuple[Sanitizers, Network]:
    """What the sum of all shares tells by itself: the share of one agent who has all readings, and its network.

    Of one row that is A y with A = U Ψ; of a stream it is a filter.
    """
    noise = network.R.matrix() if network.colour is None else noise_of(network)
    everyone = {"observe": {"everyone": network.H}, "noise": noise}
    merged = changed(network, **everyone, offset=None, reading_names={}, limits={}, members={})
    if network.is_stream:
        return share_filters(merged).sanitizers, merged
    joint = share_of_estimate(network, network.in_raw_coordinates(network.U))
    return {"everyone": Sanitizer.exact(joint, offset=np.zeros(network.N))}, merged
