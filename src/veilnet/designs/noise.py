"""Perfect utility by noise alone: the paper's Algorithms 1 and 2, mended.

Algorithm 1 (no prior). A change z of x with U Ψ_i H_i z = 0 at every agent and G_j z ≠ 0 is hidden by noise
Θ_i = λ w_i w_i', w_i = H_i z, at all agents together: U Ψ_i Θ_i = 0, and p_j grows linearly in λ, at least by
(λ/S) |G_j z|² / tr(G_j P G_j'). The printed version looks for one agent that can do it alone (errata 3, 4).

Algorithm 2 (J0 ≻ 0). With Ξ_i = G P0 H_i' and W_i a basis of its row space, Θ_i = W_i'Λ_i W_i with

    Σ_i tr(Ξ_i W_i'Λ_i^-1 W_i Ξ_i') <= min_j (ε_j^max - ε_j) tr(G_j P G_j'):

the printed bound lacks the sum over agents and the factor tr(G_j P G_j') (erratum 5).

Both give a shape of noise that reaches any target below the limit when ASUP holds; its strength is then the least
that does, by a scalar root search on the exact privacy. Otherwise, and for singular priors, which the paper leaves
out, noise goes along all directions that perfect utility leaves free: it reaches any target below the ceiling.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag, null_space

from veilnet._core.errors import Infeasible
from veilnet._core.linalg import orthonormal_rows, solve_upper, triangle
from veilnet._core.types import Array
from veilnet._core.words import join_names
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.knowledge import residual_information, share_of_estimate
from veilnet.designs.questions import ratio_and_p
from veilnet.model.network import Network
from veilnet.plans.asked import Asked
from veilnet.plans.plan import Plan, make_plan
from veilnet.verdict.exact_test import Verdict

# Targets are aimed at with this relative margin, so that rounding never leaves privacy below what was asked.
_MARGIN = 1e-9
# Noise this many times stronger than the least that could do is as good as unbounded.
_STRONGEST = 1e15


@dataclass(frozen=True, eq=False)
class Response:
    """What noise of strength λ gives: p_j(λ) = Σ_k λ c_jk / (1 + λ d_k), rising and concave in λ.

    gains:      c, one row per private parameter.
    resistance: d, the eigenvalues of B'ΦB.
    """

    gains: Array
    resistance: Array

    def __call__(self, strength: float) -> Array:
        return np.asarray(self.gains @ (strength / (1.0 + strength * self.resistance)))

    def unit(self, goal: Array) -> float:
        """A strength in the units of the readings, below which not every goal can be met: p_j(λ) <= λ Σ_k c_jk."""
        slopes = np.sum(self.gains, axis=1)
        some = (goal > 0) & (slopes > 0)
        return float(np.max(goal[some] / slopes[some])) if np.any(some) else 1.0


@dataclass(frozen=True, eq=False)
class NoiseShape:
    """Directions of noise per agent: the columns of B_i, with Θ_i = λ B_i B_i'."""

    directions: list[Array]
    label: str

    def response(self, network: Network) -> Response:
        """The privacies this shape gives at any strength."""
        whole = block_diag(*self.directions)
        resistance, basis = np.linalg.eigh(whole.T @ residual_information(network) @ whole)
        # Null(Φ) = range(H) without a prior: what is zero there up to rounding must be zero.
        resistance = np.where(resistance > 1e-12 * np.max(resistance, initial=0.0), resistance, 0.0)
        gains = []
        for rows in network.private.values():
            raw = network.in_raw_coordinates(rows)
            moved = share_of_estimate(network, raw) @ whole @ basis
            gains.append(np.sum(moved**2, axis=0) / np.sum(raw**2))
        return Response(np.stack(gains), resistance)


def noise_plan(verdict: Verdict, targets: Mapping[str, float], *, partial: bool) -> Plan:
    """Noise only, perfect utility, every target met with the least strength of the construction.

    Where ASUP does not hold, targets may be out of reach: the error says how far noise gets. With
    ``partial=True`` and a full prior, the agents that meet Theorem 2 add noise, the others none (the paper's
    partial case), and the plan reports what is reached.
    """
    network = verdict.network
    wanted = np.array([targets.get(name, 0.0) for name in network.private])
    goal = np.where(wanted > 0, wanted + _MARGIN * (1.0 + wanted), 0.0)
    shape = _shape(verdict, targets)
    strength, met = _least_strength(shape.response(network), goal)
    if not met and not partial:
        shape = _every_free_direction(verdict)
        reached = shape.response(network)
        strength, met = _least_strength(reached, goal)
        if not met:
            raise Infeasible(_explain(verdict, targets, reached(_STRONGEST * reached.unit(goal))))
    sanitizers = {
        agent: Sanitizer(
            np.eye(columns.shape[0]),
            strength * columns @ columns.T,
            offset=network.offset[network.blocks.rows(place)],
            agent=agent,
        )
        for place, (agent, columns) in enumerate(zip(network.agents, shape.directions, strict=True))
    }
    return make_plan(
        network,
        sanitizers,
        "noise",
        Asked(targets if met else {}, most_loss=0.0),
        details={
            "construction": shape.label,
            "power": {agent: float(np.trace(s.noise)) for agent, s in sanitizers.items()},
            "asked": dict(targets),
            "targets_met": met,
        },
    )


def _shape(verdict: Verdict, targets: Mapping[str, float]) -> NoiseShape:
    network = verdict.network
    if network.prior is None:
        return _hidden_changes(verdict, targets)
    if network.prior.full:
        return _prior_directions(verdict, targets)
    return _every_free_direction(verdict)


def _every_free_direction(verdict: Verdict) -> NoiseShape:
    """Noise along everything perfect utility leaves free: reaches any target below the ceiling."""
    by_place = dict(verdict.shares.free())
    return NoiseShape(
        [by_place[place] for place in range(verdict.network.S)], "noise in every free direction"
    )


def _hidden_changes(verdict: Verdict, targets: Mapping[str, float]) -> NoiseShape:
    """Algorithm 1, mended: per private parameter, the change z it is cheapest to hide, scaled to its target."""
    network = verdict.network
    hidden = _hidden_space(network)
    columns: list[list[Array]] = [[] for _ in network.agents]
    for name, rows in network.private.items():
        if targets.get(name, 0.0) <= 0 or hidden.shape[1] == 0:
            continue
        change = _cheapest_change(network, hidden, rows)
        if change is None:
            continue
        seen = network.H @ change
        blocks = [seen[network.blocks.rows(place)] for place in range(network.S)]
        alone = NoiseShape([block[:, None] for block in blocks], "").response(network)
        place = list(network.private).index(name)
        goal = np.zeros(len(network.private))
        goal[place] = targets[name]
        strength, _ = _least_strength(alone, goal)
        for mine, block in zip(columns, blocks, strict=True):
            mine.append(np.sqrt(strength) * block)
    directions = [
        np.stack(mine, axis=1) if mine else np.zeros((int(size), 0))
        for mine, size in zip(columns, network.blocks.sizes, strict=True)
    ]
    return NoiseShape(directions, "Algorithm 1, mended")


def _hidden_space(network: Network) -> Array:
    """Columns z, in coordinates of x, with U Ψ_i H_i z = 0 for every agent."""
    estimate = share_of_estimate(network, orthonormal_rows(network.in_raw_coordinates(network.U)))
    observed = network.in_raw_coordinates(network.H)
    conditions = np.concatenate(
        [estimate[:, rows] @ observed[rows] for rows in map(network.blocks.rows, range(network.S))]
    )
    basis = null_space(conditions, rcond=1e-9)
    return solve_upper(network.raw_triangle, basis)


def _cheapest_change(network: Network, hidden: Array, rows: Array) -> Array | None:
    """The hidden z that moves g_j most for the power |H z|² its noise takes."""
    power_root = triangle(network.H @ hidden)
    moved = solve_upper(power_root, np.ascontiguousarray((rows @ hidden).T), transposed=True)
    left, singular, _ = np.linalg.svd(moved, full_matrices=False)
    scale = np.linalg.norm(rows) * np.linalg.norm(
        solve_upper(power_root, np.ascontiguousarray(hidden.T), transposed=True)
    )
    if singular[0] <= 1e-9 * scale:
        return None
    return np.asarray(hidden @ solve_upper(power_root, left[:, :1])[:, 0])


def _prior_directions(verdict: Verdict, targets: Mapping[str, float]) -> NoiseShape:
    """Algorithm 2, mended: noise along the row space of G P0 H_i' at each agent that meets Theorem 2.

    Minimising Σ tr Λ_i under the bound gives λ ∝ √a with a the squared singular values of Ξ_i.
    """
    network = verdict.network
    covariance = None if network.prior is None else network.prior.covariance
    if covariance is None:
        raise Infeasible("prior: Algorithm 2 needs a full prior")
    asked = [name for name in network.private if targets.get(name, 0.0) > 0] or list(network.private)
    stacked = np.concatenate(
        [
            network.private[name] / np.linalg.norm(network.in_raw_coordinates(network.private[name]))
            for name in asked
        ]
    )
    meets = verdict.printed_theorem.agents
    directions = []
    for place, agent in enumerate(network.agents):
        rows = network.blocks.rows(place)
        size = int(network.blocks.sizes[place])
        if not all(meets[agent][name] for name in asked):
            directions.append(np.zeros((size, 0)))
            continue
        _, singular, basis = np.linalg.svd(stacked @ covariance @ network.H[rows].T, full_matrices=False)
        some = singular > 1e-10 * max(float(singular[0]), np.finfo(float).tiny)
        directions.append((basis[some] * np.sqrt(singular[some])[:, None]).T)
    return NoiseShape(directions, "Algorithm 2, mended")


def _least_strength(reached: Response, goal: Array) -> tuple[float, bool]:
    """The least λ with p_j(λ) >= goal_j for all j; p_j rises with λ. False when no λ does."""

    def short(strength: float) -> bool:
        return bool(np.any(reached(strength) < goal))

    if not short(0.0):
        return 0.0, True
    unit = high = reached.unit(goal)
    while short(high):
        high *= 16.0
        if high > _STRONGEST * unit:
            return _strong_enough(reached, unit), False
    low = high / 16.0
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if short(middle) else (low, middle)
    return high, True


def _strong_enough(reached: Response, unit: float) -> float:
    """A finite strength that comes within a millionth of what unbounded noise would reach."""
    most = reached(_STRONGEST * unit)
    strength = unit
    while np.any(reached(strength) < most * (1 - 1e-6)) and strength < _STRONGEST * unit:
        strength *= 4.0
    return strength


def _explain(verdict: Verdict, targets: Mapping[str, float], most: Array) -> str:
    far = {
        name: float(value)
        for name, value in zip(verdict.network.private, most, strict=True)
        if value < targets.get(name, 0.0)
    }
    name, value = next(iter(far.items()))
    reason = ""
    if not verdict.achievable:
        agents = list(verdict.blocking[name]) if name in verdict.blocked else []
        blocked = f": {join_names(agents)} must send what reveals it" if agents else ""
        reason = f" Privacy is not free without limit here{blocked}."
    return (
        f"privacy: {name}: {ratio_and_p(targets[name])} was asked, and noise alone at no loss reaches at most "
        f"{ratio_and_p(value)}; any mechanism, {ratio_and_p(verdict.ceiling[name])}.{reason}"
        " Ask for less, or use method='auto' to trade utility for privacy"
    )
