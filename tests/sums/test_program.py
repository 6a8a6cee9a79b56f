"""One sum of all with a full prior: trade-offs are exact. Oracles: CVXPY, and the bound of the multipliers."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import NOISES, random_network
from veilnet.io.template import house
from veilnet.model.standard_form import standard_form
from veilnet.sums.merging import merged
from veilnet.sums.program import SumProgram, proved_gap


def between(network: vn.Network, part: float) -> np.ndarray:
    """Targets that lie so far between what is free and the limit."""
    verdict = vn.check(network)
    free, most = (np.array(list(each.values())) for each in (verdict.ceiling, verdict.limit))
    return np.asarray(free + (most - free) * part)


def least_loss_by_cvxpy(network: vn.Network, targets: np.ndarray) -> float:
    """min tr(U P̃ U')/tr(U P U') - 1 over P ⪯ P̃ ⪯ P0 with tr(G_j P̃ G_j') as asked, in the network's own units."""
    cp = pytest.importorskip("cvxpy")
    assert network.prior is not None
    raw, before = vn.crlb(network), np.linalg.inv(network.prior.information)
    # in coordinates where P = I, which solvers like better
    root = np.linalg.cholesky(raw)
    size = network.L
    most = np.linalg.solve(root, np.linalg.solve(root, before).T)
    left = cp.Variable((size, size), symmetric=True)
    rows = {name: each @ root for name, each in network.private.items()}
    asked = [
        cp.trace(each.T @ each @ left) >= (1 + target) * np.sum(each**2)
        for each, target in zip(rows.values(), targets, strict=True)
    ]
    public = network.U @ root
    loss = cp.trace(public.T @ public @ left) / np.sum(public**2) - 1
    problem = cp.Problem(cp.Minimize(loss), [left >> np.eye(size), (most + most.T) / 2 >> left, *asked])
    problem.solve(solver="CLARABEL", tol_gap_rel=1e-10, tol_gap_abs=1e-10, tol_feas=1e-10)
    return float(problem.value)


@pytest.mark.parametrize("seed", range(20))
def test_the_program_agrees_with_cvxpy(seed: int) -> None:
    rows = ((1,), (1, 2), (2, 1, 1))[seed % 3]
    network = merged(
        random_network(
            seed,
            noise=NOISES[seed % 4],
            prior="covariance",
            parameters=5,
            public_rows=1 + seed % 3,
            private_rows=rows,
        )
    )
    targets = between(network, (0.2, 0.6, 0.9)[seed % 3])
    program = SumProgram(standard_form(network))
    found = program.least_loss(targets)
    loss = float(np.trace(program.gain) - np.sum(program.gain * found.known))
    reached = program.limits - np.einsum("jab,ab->j", program.leaks, found.known)
    assert np.all(reached >= targets * (1 - 1e-9))
    assert loss == pytest.approx(program.least_loss_above(found.multipliers, targets), rel=1e-7, abs=1e-10)
    assert loss == pytest.approx(least_loss_by_cvxpy(network, targets), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_plans_of_one_sum_are_optimal_and_say_so(seed: int) -> None:
    network = random_network(seed, noise=NOISES[seed % 4], prior="covariance", private_rows=(1, 2))
    targets = dict(zip(network.private, between(merged(network), 0.5).tolist(), strict=True))
    plan = vn.design(network, privacy=targets, summed=True)
    assert plan.gap == 0.0
    assert all(plan.privacy[name] >= target for name, target in targets.items())
    within = vn.design(network, utility_loss=f"{-100 * plan.utility!r}%", weights=targets, summed=True)
    assert within.gap == 0.0
    # the two questions are inverse to each other; a parameter that does not bind may be hidden better
    reached = [min(each.privacy[name] / targets[name] for name in targets) for each in (plan, within)]
    assert reached[1] == pytest.approx(reached[0], rel=1e-5)


def test_any_multipliers_bound_from_below_and_poor_ones_say_how_far() -> None:
    network = merged(house())
    plan = vn.design(network, privacy={"cooking": 11.5})
    poor = {name: 0.5 * each for name, each in plan.details["multipliers"].items()}
    assert plan.gap == 0.0
    gap = proved_gap(plan.network, poor, -plan.utility, plan.privacy, {"cooking": 11.5})
    assert 0 < gap < np.inf
    nothing = dict.fromkeys(poor, 0.0)
    assert proved_gap(plan.network, nothing, -plan.utility, plan.privacy, {"cooking": 11.5}) > 1e9
    assert (
        proved_gap(plan.network, {"cooking": -1.0}, -plan.utility, plan.privacy, {"cooking": 11.5}) == np.inf
    )


def test_one_sum_beats_every_design_of_agents_alone_and_the_frontier_is_exact() -> None:
    network = house()
    curve = vn.frontier(network, privacy=[11.4, 11.6], summed=True)
    alone = vn.design(network, privacy={"cooking": 11.4}, give_up=["presence", "gait"])
    assert [point.gap for point in curve.rows] == [0.0, 0.0]
    assert -curve.rows[0].utility < -alone.utility / 5
    assert curve.rows[0].utility > curve.rows[1].utility
