"""Other protections side by side with the plan, at equal utility and at equal privacy.

isotropic noise   every agent adds independent Gaussian noise, the same multiple of each reading's spread:
                  what a library for differential privacy would add;
PCA               every agent sends its first k principal components;
discriminant      every agent sends the k directions with the most public signal per private one;
secure summation  cryptography shows the centre Σ_i U Ψ_i y_i and nothing else: no agent's own share is
                  visible (another game: agents must talk to each other, in every round);
no protection     raw readings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import eigh

from veilnet._core.blocks import Group
from veilnet._core.linalg import cholesky, solve_lower, solve_lower_batch
from veilnet._core.types import Array
from veilnet._core.words import times
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.in_units import InUnits, in_units
from veilnet.auditing.measures import growth, privacies
from veilnet.auditing.report import Row
from veilnet.auditing.what_if.variants import simulated
from veilnet.bounds.knowledge import Knowledge, knowledge, knowledge_of_factor, share_of_estimate
from veilnet.model.network import Network
from veilnet.plans.plan import Plan

SECTION = "baselines"
NO_LOSS = 1e-9  # a loss this small is none: baselines are compared with a perfect plan at it
_ROUNDING = 1e-12  # less than this is the rounding of numbers that are exactly zero
_NEVER = "not possible"  # no strength of a protection gets there
_TALKING = "agents that talk to each other in every row, and cryptography among them"
_NAMES_SHOWN = 4  # private parameters side by side in one table
ANY_STRENGTH = (1e-16, 1e16)  # where the strength that is looked for may lie


@dataclass(frozen=True)
class Point:
    """A protection at one strength: utility loss, and p_j of every private parameter."""

    strength: float
    loss: float
    privacy: Mapping[str, float]


@dataclass(frozen=True)
class Baseline:
    """A protection tuned to the plan's utility, and to its privacy; None where no strength gets there.

    ``is_plan`` marks the plan itself, to which the others are tuned. ``trusts`` says whom one has to trust for it,
    where that is more than every agent itself.
    """

    name: str
    at_equal_utility: Point | None
    at_equal_privacy: Point | None
    is_plan: bool = False
    trusts: str = ""


def baselines(plan: Plan) -> list[Baseline]:
    """The plan and every other protection, each tuned to equal utility and to equal privacy."""
    network = plan.network
    spread = Spread(network)

    def noisy(strength: float) -> Point:
        return _point(strength, _isotropic(spread, strength))

    return compared(
        plan,
        spread,
        lambda strength, sanitizers: _point(strength, knowledge(network, sanitizers)),
        lambda own: continuous("isotropic noise", noisy, own),
        _point(1.0, secure_sum(network)),
    )


def compared(
    plan: Plan,
    spread: Spread,
    point: Callable[[float, Mapping[str, Sanitizer] | None], Point],
    noise: Callable[[Point], Baseline],
    summed: Point,
) -> list[Baseline]:
    """The plan, then noise, fewer combinations, secure summation and no protection.

    spread: of one row of readings.
    point:  what sanitizers leave and lose, with the strength to call them by; None sends raw readings.
    noise:  noise on readings, tuned to the plan's point.
    summed: what the sum of all shares tells.
    """
    own = point(1.0, plan.sanitizers)
    found = [Baseline("this plan", own, own, is_plan=True), noise(own)]
    largest = int(max(plan.network.blocks.sizes))
    for name, compress in (("PCA", principal_rows), ("discriminant", discriminant_rows)):
        rows_of = {agent: compress(spread, agent) for agent in plan.network.agents}
        curve = [point(float(k), _first_rows(rows_of, k)) for k in range(largest + 1)]
        found.append(discrete(name, curve, own))
    found.append(discrete("secure summation", [summed], own, trusts=_TALKING))
    found.append(discrete("no protection", [point(1.0, None)], own))
    return found


def baseline_rows(network: Network, found: list[Baseline]) -> list[Row]:
    """The plan and every other protection: errors on what is private at equal utility, utility at equal privacy."""
    errors = {
        name: _errors(error, found) for name, error in in_units(network).items() if name in network.private
    }
    names = list(errors)
    rows = []
    for start in range(0, len(names), _NAMES_SHOWN):
        some = {name: errors[name] for name in names[start : start + _NAMES_SHOWN]}
        rows += [_at_equal_utility(baseline, some, found[0]) for baseline in found]
    return rows + [_at_equal_privacy(baseline, found[0]) for baseline in found]


def _errors(error: InUnits, found: list[Baseline]) -> dict[str, str]:
    """The error on a private parameter that each protection leaves at the plan's utility, by its name."""
    points = {baseline.name: baseline.at_equal_utility for baseline in found}
    left = {name: point.privacy[error.typical.name] for name, point in points.items() if point is not None}
    return dict.fromkeys(points, _NEVER) | error.cells(left)


def _at_equal_utility(baseline: Baseline, errors: Mapping[str, Mapping[str, str]], own: Baseline) -> Row:
    """What is left private when a protection costs the public estimate no more than the plan does."""
    point = baseline.at_equal_utility
    value: float | str = _NEVER
    sentence = f"{baseline.name}: no strength of it costs the public estimate as little as the plan does."
    if point is not None:
        value = min(point.privacy[name] for name in errors)
        beside = "; ".join(
            f"{each[baseline.name]} on {name} (the plan: {each[own.name]})" for name, each in errors.items()
        )
        sentence = f"{baseline.name}, at no more public error than the plan's, leaves an error of {beside}."
    shown = {f"error on {name}": each[baseline.name] for name, each in errors.items()}
    what = f"{baseline.name}, at equal public error"
    figures = _figures(baseline, point)
    promised = value if baseline.is_plan else None
    return Row(
        SECTION, what, promised, value, "info", sentence + _needs(baseline), figures=figures, shown=shown
    )


def _at_equal_privacy(baseline: Baseline, plan: Baseline) -> Row:
    """What the public estimate loses when a protection hides every private parameter as well as the plan does."""
    point, own = baseline.at_equal_privacy, plan.at_equal_privacy
    assert own is not None  # the plan is as private as itself
    grows = _NEVER if point is None else times(1 + point.loss)
    sentence = f"{baseline.name}: " + (
        "no strength of it hides every private parameter as well as the plan does."
        if point is None
        else f"where it hides every private parameter as well as the plan, the variance of the public error grows "
        f"{grows}; the plan's grows {times(1 + own.loss)}."
    )
    what = f"{baseline.name}, at equal privacy"
    value: float | str = _NEVER if point is None else point.loss
    promised = own.loss if baseline.is_plan else None
    shown = {"variance of the public error grows": grows}
    figures = _figures(baseline, point)
    return Row(
        SECTION, what, promised, value, "info", sentence + _needs(baseline), figures=figures, shown=shown
    )


def _needs(baseline: Baseline) -> str:
    return f" It needs {baseline.trusts}." if baseline.trusts else ""


def _figures(baseline: Baseline, point: Point | None) -> dict[str, object]:
    trust: dict[str, object] = {"needs": baseline.trusts} if baseline.trusts else {}
    if point is None:
        return trust
    return trust | {"strength": point.strength, "loss": point.loss, "privacy": dict(point.privacy)}


# --- tuning


def continuous(
    name: str,
    point: Callable[[float], Point],
    own: Point,
    reach: tuple[float, float] = ANY_STRENGTH,
) -> Baseline:
    """A protection with a strength: privacy and loss both grow with it."""
    allowed = max(own.loss, NO_LOSS)
    equal_utility = strongest(point, lambda p: p.loss <= allowed, reach)
    equal_privacy = weakest(point, lambda p: private_enough(p, own), reach)
    return Baseline(name, equal_utility, equal_privacy)


def strongest(
    point: Callable[[float], Point],
    holds: Callable[[Point], bool],
    reach: tuple[float, float] = ANY_STRENGTH,
) -> Point | None:
    """The strongest point at which something that strength takes away still holds."""
    return _last(point, holds, *reach)


def weakest(
    point: Callable[[float], Point],
    holds: Callable[[Point], bool],
    reach: tuple[float, float] = ANY_STRENGTH,
) -> Point | None:
    """The weakest point at which something that strength brings holds."""
    return _last(point, holds, *reversed(reach))


def _last(
    point: Callable[[float], Point], holds: Callable[[Point], bool], start: float, end: float
) -> Point | None:
    """The last point on the way from one strength to another at which something holds; None: not even the first."""
    if not holds(point(start)):
        return None
    if holds(point(end)):
        return point(end)
    for _ in range(60):
        middle = float(np.sqrt(start * end))
        start, end = (middle, end) if holds(point(middle)) else (start, middle)
    return point(start)


def discrete(name: str, curve: list[Point], own: Point, trusts: str = "") -> Baseline:
    """A protection with a few settings: the most private of equal utility, the most useful of equal privacy."""
    allowed = max(own.loss, NO_LOSS)
    useful = [p for p in curve if p.loss <= allowed * (1 + 1e-9)]
    private = [p for p in curve if private_enough(p, own)]
    return Baseline(
        name,
        max(useful, key=lambda p: min(p.privacy.values()), default=None),
        min(private, key=lambda p: p.loss, default=None),
        trusts=trusts,
    )


def private_enough(point: Point, own: Point) -> bool:
    return all(point.privacy[name] >= value * (1 - 1e-9) for name, value in own.privacy.items())


def _point(strength: float, known: Knowledge) -> Point:
    return point_of(strength, growth(known, known.network.U), privacies(known))


def point_of(strength: float, loss: float, privacy: Mapping[str, float]) -> Point:
    """A point whose figures are zero where they are rounding."""
    return Point(strength, _without_rounding(loss), {n: _without_rounding(p) for n, p in privacy.items()})


def _without_rounding(value: float) -> float:
    return value if value > _ROUNDING else 0.0


# --- mechanisms


class Spread:
    """How readings vary, for an observer who knows the prior (a wide one where there is none)."""

    def __init__(self, network: Network) -> None:
        self.network = network
        wide = simulated(network)
        covariance = wide.prior.covariance if wide.prior is not None else None
        self.prior: Array = np.eye(network.L) if covariance is None else covariance

    @cached_property
    def stacks(self) -> list[tuple[Group, Array, Array]]:
        """Agents of one size together: their noise covariances, and the variances of their readings."""
        found = []
        for group in self.network.blocks.groups:
            agents = [self.network.agents[int(k)] for k in group.agents]
            stack = np.stack([self.noise(agent) for agent in agents])
            found.append((group, stack, np.stack([self.deviations(agent) ** 2 for agent in agents])))
        return found

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


def _isotropic(spread: Spread, strength: float) -> Knowledge:
    """Raw readings with noise: R grows by strength times the variance of each reading."""
    network = spread.network
    if network.R.independent:
        parts = []
        for group, stack, variances in spread.stacks:
            noisy = stack.copy()
            diagonal = np.arange(group.size)
            noisy[:, diagonal, diagonal] += strength * variances
            parts.append(solve_lower_batch(cholesky(noisy), group.take(network.H)).reshape(-1, network.L))
        return knowledge_of_factor(network, np.concatenate(parts))
    variances = np.concatenate([spread.deviations(agent) ** 2 for agent in network.agents])
    root = cholesky(network.R.matrix() + strength * np.diag(variances))
    return knowledge_of_factor(network, solve_lower(root, network.H))


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


def secure_sum(network: Network) -> Knowledge:
    """What Σ_i U Ψ_i y_i alone tells: one joint message whose rows are A = U Ψ, with noise A R A'."""
    joint = share_of_estimate(network, network.in_raw_coordinates(network.U))
    if network.R.independent:
        half = np.concatenate(
            [joint[:, network.blocks.rows(k)] @ cholesky(network.R.block(k)) for k in range(network.S)],
            axis=1,
        )
    else:
        half = joint @ cholesky(network.R.matrix())
    left, singular, _ = np.linalg.svd(half, full_matrices=False)
    some = singular > 1e-12 * singular[0]
    # Rows of U that repeat others bring no second look at the same sum.
    factor = (left[:, some] / singular[some]).T @ (joint @ network.H)
    return knowledge_of_factor(network, np.asarray(factor))
