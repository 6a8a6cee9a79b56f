"""Trade-off designs: quality against Algorithm 3 and random starts, time, the frontier, many agents.

    python benchmarks/tradeoff.py [--jobs 2] [--networks 100] [--only quality|starts|time|frontier|many]

Everything is drawn in the paper's setting (N = 72, L = 12, G with three rows), S in {9, 12, 18, 24}, U in
{1, 2, 3}, ε in {5, 10, 50, 100}, with and without prior. Losses are utility losses, smaller is better.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

import veilnet as vn
from veilnet._core.types import Array
from veilnet.designs.joint.curve import least_loss
from veilnet.model.standard_form import StandardForm, standard_form
from veilnet.paper.alternating.sweeps import alternate

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from helpers.alternating_oracle import dense_shrink, sweep_with_cvxpy
from helpers.paper_networks import paper_network
from timing import markdown


class Case(NamedTuple):
    """One draw: seed, agents S, rows of U, prior, privacy asked."""

    seed: int
    agents: int
    public_rows: int
    prior: bool
    target: float

    def network(self) -> vn.Network:
        return paper_network(self.seed, self.agents, self.public_rows, self.prior)


class Outcome(NamedTuple):
    """Losses of the joint solver and of Algorithm 3; loss 0 and method "perfect" where privacy is free."""

    case: Case
    method: str
    joint: float
    seconds: float
    sweeps_20: float
    sweeps_200: float


def cases(count: int) -> list[Case]:
    """The whole grid, then further draws of it."""
    grid = list(product((9, 12, 18, 24), (1, 2, 3), (False, True), (5.0, 10.0, 50.0, 100.0)))
    return [Case(1 + k // len(grid), *grid[k % len(grid)]) for k in range(count)]


def _is_costly(case: Case) -> bool:
    verdict = vn.check(case.network())
    return verdict.ceiling["g1"] < case.target < verdict.limit["g1"]


def quality(case: Case) -> Outcome | None:
    """One design and Algorithm 3 on the same network; None where the target is above the limit."""
    network = case.network()
    verdict = vn.check(network)
    if case.target >= verdict.limit["g1"]:
        return None
    start = time.process_time()
    plan = vn.design(network, privacy=case.target)
    seconds = time.process_time() - start
    if plan.method == "perfect":
        return Outcome(case, "perfect", 0.0, seconds, 0.0, 0.0)
    history = alternate(standard_form(network), np.array([case.target]), sweeps=200).sweeps
    return Outcome(case, plan.method, -plan.utility, seconds, history[20].loss, history[-1].loss)


def random_point(form: StandardForm, rng: np.random.Generator) -> list[Array]:
    """Projectors on random subspaces of random dimension for each agent, eigenvalues shaken a little."""
    stacks = []
    for group in form.blocks.groups:
        basis = np.linalg.qr(rng.standard_normal((group.count, group.size, group.size)))[0]
        ranks = rng.integers(0, group.size + 1, group.count)
        values = np.where(np.arange(group.size) < ranks[:, None], 1.0, 0.0)
        values = np.clip(values + 0.1 * rng.standard_normal(values.shape), 0.02, 0.98)
        stacks.append((basis * values[:, None, :]) @ np.swapaxes(basis, 1, 2))
    return stacks


def against_random_starts(case: Case, count: int) -> tuple[Case, float, float]:
    """(case, loss of the design, best loss of so many random starts, each run on its own)."""
    network = case.network()
    form = standard_form(network)
    plan = vn.design(network, privacy=case.target)
    rng = np.random.default_rng([case.seed, case.agents, int(case.target)])
    target = np.array([case.target])
    losses = [least_loss(form, target, starts=0, warm=[random_point(form, rng)]).loss for _ in range(count)]
    return case, -plan.utility, min(losses)


def quality_rows(outcomes: list[Outcome]) -> list[list[str]]:
    costly = [outcome for outcome in outcomes if outcome.method != "perfect"]
    worse = [o for o in costly if o.joint > o.sweeps_200 * (1 + 1e-6)]
    joint = np.array([o.joint for o in costly])
    twenty, many = np.array([o.sweeps_20 for o in costly]), np.array([o.sweeps_200 for o in costly])
    print(f"figure networks: {len(costly)}")
    print(f"figure joint: {100 * np.median(joint):.3g} %")
    print(f"figure sweeps: {100 * np.median(many):.3g} %")
    print(f"figure worse: {len(worse)}")
    return [
        ["networks drawn / privacy not free", f"{len(outcomes)} / {len(costly)}"],
        ["joint loss above Algorithm 3's after 200 sweeps", f"{len(worse)} networks"],
        ["median loss: joint, Algorithm 3 after 20, after 200 sweeps",
         f"{np.median(joint):.4g}, {np.median(twenty):.4g}, {np.median(many):.4g}"],
        ["ratio of medians, joint to 20 sweeps", f"{np.median(joint) / np.median(twenty):.3f}"],
        ["median of ratios, joint to 20 and to 200 sweeps",
         f"{np.median(joint / twenty):.3f}, {np.median(joint / many):.3f}"],
        ["CPU seconds of one design: median, worst",
         f"{np.median([o.seconds for o in costly]):.2f}, {max(o.seconds for o in costly):.2f}"],
    ]  # fmt: skip


def starts_rows(found: list[tuple[Case, float, float]]) -> list[list[str]]:
    ratios = np.array([mine / best for _, mine, best in found])
    return [
        ["networks compared with 50 random starts", str(len(found))],
        ["design within 1 % of the best of them", f"{int(np.sum(ratios <= 1.01))} of {len(found)}"],
        ["loss of the design over the best: median, worst", f"{np.median(ratios):.4f}, {ratios.max():.4f}"],
    ]


def time_rows() -> list[list[str]]:
    """CPU time of a design over that of 20 sweeps, each the best of three."""
    rows = []
    for case in (Case(1, 9, 2, True, 100.0), Case(1, 18, 2, False, 50.0)):
        network = case.network()
        form = standard_form(network)
        target = np.array([case.target])
        begin = dense_shrink(form, alternate(form, target, sweeps=1).shrink)

        def twenty_sweeps(
            form: StandardForm = form, begin: list[Array] = begin, target: Array = target
        ) -> None:
            by_agent = begin
            for _ in range(20):
                by_agent = sweep_with_cvxpy(form, by_agent, target)

        mine = _least_time(partial(vn.design, network, privacy=case.target))
        theirs = _least_time(twenty_sweeps)
        measured = f"{mine:.2f} s / {theirs:.2f} s = {mine / theirs:.2f}"
        rows.append([f"CPU time of a design / 20 sweeps in CVXPY + Clarabel, S = {case.agents}", measured])
    return rows


def _least_time(run: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def frontier_rows() -> list[list[str]]:
    rows = []
    for case in (Case(2, 12, 2, True, 0.0), Case(2, 9, 3, False, 0.0)):
        network = case.network()
        ceiling = vn.check(network).ceiling["g1"]
        levels = np.geomspace(1.05 * ceiling, min(30 * ceiling, 0.9 * vn.privacy_limit(network)["g1"]), 20)
        single = []
        for level in levels[[3, 10, 17]]:
            start = time.process_time()
            vn.design(network, privacy=float(level))
            single.append(time.process_time() - start)
        start = time.process_time()
        curve = vn.frontier(network, levels)
        cost = (time.process_time() - start) / np.mean(single)
        losses = [-point.utility for point in curve.rows]
        monotone = all(b >= a for a, b in pairwise(losses))
        rows.append(
            [f"20-point frontier in single designs, S = {case.agents}", f"{cost:.1f}, monotone: {monotone}"]
        )
    return rows


def many_agents_rows() -> list[list[str]]:
    per_agent, rows = [], []
    for agents in (1_000, 10_000):
        rng = np.random.default_rng(3)
        network = vn.Network(
            observe=rng.standard_normal((agents, 4, 32)),
            noise=np.broadcast_to(np.eye(4), (agents, 4, 4)),
            public=rng.standard_normal((2, 32)),
            private={"g": rng.standard_normal((3, 32))},
            prior=vn.Prior(covariance=np.eye(32)),
        )
        target = 2 * vn.check(network).ceiling["g"] + 1
        start = time.perf_counter()
        plan = vn.design(network, privacy=target)
        seconds = time.perf_counter() - start
        per_agent.append(seconds / agents)
        rows.append(
            [f"{agents:,} agents x 4 readings, L = 32, U = 2, privacy {target:.3g}",
             f"{seconds:.1f} s, loss {-plan.utility:.4g}, {plan.details['starts']} starts"]
        )  # fmt: skip
    return [*rows, ["time per agent, 10,000 to 1,000", f"{per_agent[1] / per_agent[0]:.2f}"]]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--networks", type=int, default=100)
    parser.add_argument("--only", choices=["quality", "starts", "time", "frontier", "many"])
    chosen = parser.parse_args()

    def wanted(part: str) -> bool:
        return chosen.only in (None, part)

    rows: list[list[str]] = []
    if wanted("time"):
        rows += time_rows()
    if wanted("frontier"):
        rows += frontier_rows()
    if wanted("many"):
        rows += many_agents_rows()
    with Parallel(n_jobs=chosen.jobs) as parallel:
        drawn = cases(chosen.networks)
        if wanted("quality"):
            outcomes = parallel(delayed(quality)(case) for case in drawn)
            rows += quality_rows([outcome for outcome in outcomes if outcome is not None])
        if wanted("starts"):
            costly = [case for case in drawn if _is_costly(case)]
            some = costly[:: max(1, len(costly) // 20)][:20]
            rows += starts_rows(parallel(delayed(against_random_starts)(case, 50) for case in some))
    print(markdown(["what", "measured"], rows))


if __name__ == "__main__":
    main()
