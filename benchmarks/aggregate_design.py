"""Aggregate, then perturb: the differentially private Kalman filter of Le Ny and his co-authors, with an open solver.

A trusted aggregator receives the raw readings y_t = C x_t + v_t of all agents, x_{t+1} = A x_t + w_t with w ~ N(0, W)
and v ~ N(0, V), combines them once more, and publishes z_t = D y_t + ξ_t with ξ ~ N(0, I), from which everybody may
run a Kalman filter. Two streams are *adjacent* when the readings of one agent i differ by at most ρ_i in norm, over
all time together. With Δ = max_i ρ_i |D_i|, D_i the columns of agent i, the mechanism is (ε, δ)-differentially
private when 1/Δ is at least the constant of the Gaussian mechanism (J. Le Ny, G. J. Pappas, Differentially Private
Filtering, IEEE Trans. Automatic Control 59, 2014). The D with the least error of L x_t solves a semidefinite program
(K. H. Degue, J. Le Ny, A Two-Stage Architecture for Differentially Private Kalman Filtering and LQG Control,
arXiv 1707.08919). It is written here in M = D'D and the information Ω = P^-1 after an update:

    [L Ω^-1 L'] <= X:                   [[X, L], [L', Ω]] >= 0
    Ω <= (A Ω^-1 A' + W)^-1 + C' (M^-1 + V)^-1 C, with V = S S':

        [[C'M C - Ω + W^-1,  W^-1 A,           C'M S    ],
         [A'W^-1,            Ω + A'W^-1 A,     0        ],
         [S'M C,             0,                I + S'M S]]  >= 0
    M_ii <= τ / ρ_i²                    of every agent i, so that Δ² <= τ

All is linear in (X, Ω, M, τ): either tr X is least at a given τ, or τ (the least noise) at a given error. No inverse
of V is needed, so that coloured noise without a white floor is allowed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from veilnet._core.errors import VeilnetError
from veilnet._core.extras import missing_extra
from veilnet._core.linalg import cholesky, positive_root, solve_lower
from veilnet._core.types import Array
from veilnet.auditing.baselines import Baseline, Spread, Tuned, tuned
from veilnet.auditing.streams.window import Noises
from veilnet.auditing.streams.world import Filtered, StreamWorld
from veilnet.bounds.streams.riccati import steady_state
from veilnet.bounds.streams.steady import MessageSystem
from veilnet.model.network import Network
from veilnet.plans.plan import Plan

_REACH = (1e-8, 1e4)  # deviations of noise among which the one that is looked for may lie
_LEAST_LOSS = 1e-3  # what the semidefinite solver resolves; for less, its noise is made smaller
_LOSSES = (0.01, 0.1, 0.3, 1.0, 4.0)  # at which aggregates are designed, beside the plan's own
_LEAST_NOISE = 1e-9  # of the process noise's mean variance, where it is singular: for the design alone
_LEAST_SHARE = 1e-7  # combinations that carry less than this of the strongest are left out


class NoDesign(VeilnetError):
    """The solver found no design; the message says how it ended."""


@dataclass(frozen=True, eq=False)
class Signals:
    """The streams of all agents, and what is wanted of them.

    transition, process: A and W.
    observe, floor:      C, the agents' readings one after the other, and V, which may be singular.
    wanted:              L, the rows of x whose error counts.
    sizes:               how many readings each agent has.
    radii:               ρ_i of each agent.
    """

    transition: Array
    process: Array
    observe: Array
    floor: Array
    wanted: Array
    sizes: tuple[int, ...]
    radii: Array

    def columns(self) -> list[slice]:
        """The readings of each agent."""
        ends = np.cumsum(self.sizes)
        return [slice(int(end) - size, int(end)) for end, size in zip(ends, self.sizes, strict=True)]


def gaussian_constant(epsilon: float, delta: float) -> float:
    """κ(ε, δ): so many times its sensitivity is the deviation of the Gaussian mechanism's noise.

    (K + √(K² + 2ε)) / 2ε with K the upper δ quantile of the normal law (Le Ny and Pappas, 2014). It is a
    little more than Balle and Wang's exact constant needs.
    """
    quantile = -float(ndtri(delta))
    return float((quantile + np.sqrt(quantile**2 + 2.0 * epsilon)) / (2.0 * epsilon))


def sensitivity(signals: Signals, combine: Array) -> float:
    """Δ = max_i ρ_i |D_i|: how far adjacent streams move z, in deviations of its noise."""
    norms = [float(np.linalg.norm(combine[:, part], 2)) for part in signals.columns()]
    return max(float(r) * n for r, n in zip(signals.radii, norms, strict=True))


def most_useful(signals: Signals, most_sensitive: float) -> Array:
    """The combinations D with the least steady error of L x_t whose sensitivity is at most this."""
    combine = _solve(signals, most_sensitive=most_sensitive)
    # The solver keeps its limits to some digits only: they are kept exactly here.
    return np.asarray(combine * (most_sensitive / sensitivity(signals, combine)))


def most_private(signals: Signals, most_error: float) -> Array:
    """The combinations D of least sensitivity whose steady error tr(L P L') is at most this to the solver's eyes."""
    return _solve(signals, most_error=most_error)


def _solve(
    signals: Signals, *, most_sensitive: float | None = None, most_error: float | None = None
) -> Array:
    try:
        import cvxpy as cp
    except ImportError:
        raise missing_extra("the aggregate-then-perturb design needs CVXPY", "paper") from None

    a, c, wanted, s = _scaled(signals)
    size, readings = a.shape[0], c.shape[0]
    m = cp.Variable((readings, readings), PSD=True)
    information = cp.Variable((size, size), symmetric=True)
    error = cp.Variable((len(wanted), len(wanted)), symmetric=True)
    square = cp.Variable(nonneg=True)
    seen = [c.T @ m @ c - information + np.eye(size), a]
    later = [a.T, information + a.T @ a]
    blocks = [seen, later]
    if s.shape[1]:
        seen.append(c.T @ m @ s)
        later.append(np.zeros((size, s.shape[1])))
        blocks.append([s.T @ m @ c, np.zeros((s.shape[1], size)), np.eye(s.shape[1]) + s.T @ m @ s])
    stacked = cp.bmat(blocks)
    constraints = [
        cp.bmat([[error, wanted], [wanted.T, information]]) >> 0,
        (stacked + stacked.T) / 2 >> 0,
    ]
    for part, radius in zip(signals.columns(), signals.radii, strict=True):
        own = m[part, part]
        constraints.append(square * np.eye(part.stop - part.start) / float(radius) ** 2 - own >> 0)
    if most_sensitive is not None:
        constraints.append(square <= most_sensitive**2)
        program = cp.Problem(cp.Minimize(cp.trace(error)), constraints)
    else:
        assert most_error is not None
        constraints.append(cp.trace(error) <= most_error)
        program = cp.Problem(cp.Minimize(square), constraints)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # what is not solved to the last digit is evaluated exactly all the same
            program.solve(solver=cp.CLARABEL)
    except BaseException as trouble:  # Clarabel's panics are no Exceptions
        if isinstance(trouble, KeyboardInterrupt | SystemExit):
            raise
        raise NoDesign(f"the semidefinite solver failed: {type(trouble).__name__}: {trouble}") from trouble
    if m.value is None:
        raise NoDesign(f"the semidefinite solver found no design: {program.status}")
    values, vectors = np.linalg.eigh((m.value + m.value.T) / 2)
    some = values > _LEAST_SHARE * values[-1]
    return np.asarray((vectors[:, some] * np.sqrt(values[some])).T)


def _scaled(signals: Signals) -> tuple[Array, Array, Array, Array]:
    """A, C and L for an x whose process noise is white, and S with S S' = V."""
    mean = float(np.trace(signals.process)) / len(signals.process)
    process = signals.process
    if np.linalg.eigvalsh(process)[0] < _LEAST_NOISE * mean:
        process = process + _LEAST_NOISE * mean * np.eye(len(process))
    root = cholesky(process)
    transition = solve_lower(root, signals.transition @ root)
    return transition, signals.observe @ root, signals.wanted @ root, positive_root(signals.floor).T


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
        messages = MessageSystem(signals.transition, signals.process, unit @ signals.observe, floor)
        return Filtered(self.network, steady_state(messages))


def trusted_aggregate(plan: Plan) -> Baseline:
    """Designs at several losses, each with its noise tuned: the best at the plan's utility, and at its privacy."""
    network = plan.network
    world, spread = StreamWorld(network), Spread(network.one_row)
    own = Tuned.at(1.0, network, world.known(plan.sanitizers))
    deviations = np.concatenate([spread.deviations(agent) for agent in network.agents])
    aggregates = Aggregates(network, deviations)
    raw = world.raw.error(network.U, "now")
    designs = _designs(aggregates, raw, sorted({max(own.loss, _LEAST_LOSS), *_LOSSES} - {np.inf}))

    def of(combine: Array) -> Callable[[float], Tuned]:
        return lambda noise: Tuned.at(noise, network, world.growth_of(aggregates.told(combine, noise)))

    useful = [tuned(of(each), lambda p: p.as_useful_as(own), *_REACH) for each in designs.values()]
    private = [tuned(of(each), lambda p: p.as_private_as(own), *_REACH[::-1]) for each in designs.values()]
    return Baseline(
        "aggregate, then perturb",
        max((p for p in useful if p is not None), key=lambda p: min(p.privacy.values()), default=None),
        min((p for p in private if p is not None), key=lambda p: p.loss, default=None),
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
