"""Most privacy at perfect utility with limited noise power per agent (the paper's section V).

max Σ_j p_j(I, Θ) subject to U Ψ_i Θ_i = 0 and tr Θ_i <= δ_i. With Θ_i = B_i X_i B_i', B_i an orthonormal basis of
Null(U Ψ_i), the constraint is gone and the problem keeps an interior (facial reduction); what is left is concave in
X, and the solver returns a certified upper bound with its value. Few agents are solved for as one dense problem;
where agents are many and meet only in x, an estimate is searched for that all of them answer
(:mod:`veilnet.designs.power.ascent`).

The dense problem, without an SDP solver: maximise f(X) = tr(A' X (I + F X)^-1 A) over X_i ⪰ 0, tr X_i <= δ_i, with
F = B'ΦB and A = B'Ψ'[G_j'/√tr(G_jPG_j')]_j. See mathematics, section 4, and :mod:`veilnet.designs.power.problem` for
the dual pair that every returned gap rests on. Alternating directions (:mod:`veilnet.designs.power.splitting`) go on
until their certificate closes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.linalg import block_diag, solve_triangular

from veilnet._core.blocks import Blocks
from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.linalg import cholesky
from veilnet._core.names import ByAgent
from veilnet._core.progress import Progress, Stopped, asks_to_stop, silent
from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.designs.power.ascent import relative_gap
from veilnet.designs.power.network import noise_of_many
from veilnet.designs.power.problem import Certificate, ScaledProblem, free_noise_problem
from veilnet.designs.power.splitting import CHECK_EVERY, Splitting, noise_root
from veilnet.model.network import Network
from veilnet.plans.asked import Asked
from veilnet.plans.plan import Plan, make_plan
from veilnet.verdict.exact_test import Verdict

_PATIENCE = 500  # rounds within which the gap has to shrink by a tenth


@dataclass(frozen=True, eq=False)
class PowerResult:
    """X_i per agent, the privacy Σ_j p_j they reach, and a bound no other choice can exceed.

    ``interrupted`` says that progress asked to stop: X_i are the best so far, and the bound holds as ever.
    """

    blocks: list[Array]
    value: float
    upper_bound: float
    iterations: int
    interrupted: bool = False

    @property
    def relative_gap(self) -> float:
        """How far, relative to the value, the optimum can still be."""
        return relative_gap(self.value, self.upper_bound)


def maximize_privacy(
    root: Array,
    gain: Array,
    sizes: Sequence[int],
    power: Array,
    *,
    relative_gap: float = 1e-7,
    max_iterations: int = 5000,
    progress: Progress | None = None,
) -> PowerResult:
    """Solve with F = C C' given by any root C.

    root: C, (b, k);  gain: A, (b, r);  sizes: b_i;  power: δ_i >= 0.
    progress is called with (what is being done, fraction done).
    """
    root, gain = np.asarray(root, dtype=np.float64), np.asarray(gain, dtype=np.float64)
    blocks = Blocks(sizes)
    limits = np.broadcast_to(np.asarray(power, dtype=np.float64), (blocks.count,))

    active = (blocks.sizes > 0) & (limits > 0)
    rows = active[blocks.owner]
    amplitude = np.sqrt(limits[blocks.owner][rows])[:, None]
    scaled_gain = amplitude * gain[rows]
    scale = float(np.linalg.norm(scaled_gain))
    zeros = [np.zeros((size, size)) for size in blocks.sizes]
    if scale == 0:
        return PowerResult(zeros, 0.0, 0.0, 0)

    problem = ScaledProblem(
        root=amplitude * root[rows],
        gain=_compress_columns(scaled_gain / scale),
        blocks=Blocks(blocks.sizes[active]),
    )
    certificate = Certificate(problem)

    tell = progress or silent

    def report() -> None:
        what = f"closing the gap, {certificate.gap:.0e} left"
        stop = asks_to_stop(tell(what, _fraction_done(certificate.gap, relative_gap)))
        if stop and certificate.gap > relative_gap:
            raise Stopped

    iterations, interrupted = _run(problem, certificate, relative_gap, max_iterations, report)
    value, unit_blocks = _evaluate(problem, certificate.factor)
    for agent, unit in zip(np.flatnonzero(active), unit_blocks, strict=True):
        zeros[agent] = limits[agent] * unit
    upper = max(certificate.upper, value)
    return PowerResult(zeros, value * scale**2, upper * scale**2, iterations, interrupted)


def _compress_columns(gain: Array) -> Array:
    """Only A A' matters: as many columns as A has rank."""
    left, singular, _ = np.linalg.svd(gain, full_matrices=False)
    rank = int(np.sum(singular > np.finfo(float).eps * singular[0]))
    compressed: Array = left[:, :rank] * singular[:rank]
    return compressed


def _fraction_done(gap: float, wanted: float) -> float:
    """How many of the digits asked for are there."""
    digits = -np.log(max(gap, wanted, np.finfo(float).eps))
    return float(np.clip(digits / -np.log(np.clip(wanted, np.finfo(float).eps, 0.5)), 0, 1))


def _run(
    problem: ScaledProblem,
    certificate: Certificate,
    relative_gap: float,
    max_iterations: int,
    report: Callable[[], None],
) -> tuple[int, bool]:
    """Improve the certificate until its gap is closed or the iterations are spent.

    Returns the number of iterations, and whether ``report`` asked to stop.
    """
    values, vectors = problem.spectrum
    splitting = Splitting(values[None], vectors[None], problem.gain[None], problem.shrunk)
    gap_before = float("inf")
    try:
        while splitting.iterations < max_iterations and certificate.gap > relative_gap:
            splitting.step()
            if splitting.iterations % CHECK_EVERY == 0:
                # T is taken in the eigenbasis, where it loses no digits.
                image = values[:, None] * splitting.coefficients[0]
                energy = float(np.sum(image * splitting.coefficients[0]))
                certificate.offer_primal(splitting.smooth[0], energy)
                certificate.offer_dual(problem.gain - vectors @ image, energy)
                certificate.offer(splitting.low_rank[0])
                report()
            if splitting.iterations % _PATIENCE == 0:
                if certificate.gap > 0.9 * gap_before:
                    break  # rounding leaves no more digits
                gap_before = certificate.gap
    except Stopped:
        return splitting.iterations, True
    return splitting.iterations, False


def _evaluate(problem: ScaledProblem, factor: Array) -> tuple[float, list[Array]]:
    """f(X) and X_i = (Y_i Y_i')^½ / |Y_i|_* by orthogonal factorisation, not from the solver's own value."""
    rows = [problem.blocks.rows(agent) for agent in range(problem.blocks.count)]
    roots = [noise_root(factor[None, mine])[0] for mine in rows]
    spread = block_diag(*roots)
    # f = |L^-1 V'A|² with L L' = I + V'F V, L from a QR factorisation of the stacked roots.
    triangle = np.linalg.qr(np.vstack([problem.root.T @ spread, np.eye(spread.shape[1])]), mode="r")
    half = solve_triangular(triangle, spread.T @ problem.gain, trans="T")
    return float(np.sum(half**2)), [root @ root.T for root in roots]


MANY_READINGS = 500
"""With more readings than this, agents that meet only in x are not solved for as one dense problem."""
# Φ is N x N: beyond this many readings it no longer fits the memory of an ordinary machine.
_MOST_COUPLED_READINGS = 20_000
# Rounding of Θ_i is a part of its power: where some noise of the readings is as small as that, less power is used.
PARTS_OF_POWER = (1.0, 1e-2, 1e-4, 1e-6)


def power_plan(verdict: Verdict, power: Array, *, progress: Progress | None = None) -> Plan:
    """The plan of most total privacy Σ_j p_j at perfect utility, with tr Θ_i <= power[i], (S,), in sending order."""
    network = verdict.network
    many = network.N > MANY_READINGS and network.common_apart.R.independent
    if not many and network.N > _MOST_COUPLED_READINGS:
        raise InvalidRequest(
            f"power: expected at most {_MOST_COUPLED_READINGS} readings, found {network.N}; noise that is correlated "
            "between agents couples all readings in one matrix. Give it as CommonNoise if few disturbances are "
            "behind it, for which there is no limit, or use design(network) or method='noise' instead"
        )
    allowed = by_agent(network, power)
    refusal: InvalidPlan | None = None
    upper_bound = np.inf
    for part in PARTS_OF_POWER:
        sanitizers, used, found = (noise_of_many if many else _noise_of_few)(verdict, part * power, progress)
        upper_bound = min(upper_bound, found.upper_bound) if part == 1.0 else upper_bound
        try:
            plan = make_plan(network, sanitizers, "power", Asked(most_loss=0.0, power=allowed))
        except InvalidPlan as error:
            refusal = refusal or error
            continue
        total = sum(plan.privacy.values()) if many else found.value
        details: dict[str, Any] = {
            "total_privacy": total,
            "upper_bound": upper_bound,
            "relative_gap": relative_gap(total, upper_bound),
            "iterations": found.iterations,
            "interrupted": found.interrupted,
            "power": by_agent(network, used),
            "power_allowed": allowed,
        }
        return replace(plan, details=MappingProxyType(details))
    assert refusal is not None
    raise refusal


def by_agent(network: Network, values: Array) -> Mapping[str, float]:
    """agent -> its value, looked up by name where agents are many."""
    if network.N > MANY_READINGS:
        return ByAgent(network.agents, network.position, lambda place: float(values[place]))
    return dict(zip(network.agents, values.tolist(), strict=True))


def _noise_of_few(
    verdict: Verdict, power: Array, progress: Progress | None
) -> tuple[Mapping[str, Sanitizer], Array, PowerResult]:
    """As :func:`veilnet.designs.power.network.noise_of_many`, of all readings as one dense problem."""
    network = verdict.network
    apart = network.common_apart
    by_place = dict(verdict.shares.free())
    free = [by_place[place] for place in range(network.S)]
    root, gain = free_noise_problem(
        apart.H, cholesky(apart.R.matrix()), apart.prior_root, list(apart.private.values()), free
    )
    sizes = [columns.shape[1] for columns in free]
    result = maximize_privacy(root, gain, sizes, power, progress=progress)
    sanitizers = {}
    for place, (agent, columns, block) in enumerate(zip(network.agents, free, result.blocks, strict=True)):
        noise = columns @ block @ columns.T
        sanitizers[agent] = Sanitizer(
            np.eye(columns.shape[0]),
            (noise + noise.T) / 2,
            offset=network.offset[network.blocks.rows(place)],
            agent=agent,
        )
    used = np.array([float(np.trace(sanitizer.noise)) for sanitizer in sanitizers.values()])
    return sanitizers, used, result
