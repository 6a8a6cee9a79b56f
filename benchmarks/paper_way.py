"""The paper's way and ours on one instance, in one run: seconds, objective, status.

Three problems of the paper, each as it would be solved from its text (CVXPY with Clarabel, SCS as second opinion) and
by veilnet:

- most privacy at perfect utility without a power limit (section V as figures 1 and 2 use it): a semidefinite program
  against a closed form;
- the same with limited noise power (section V): a semidefinite program against a first- and second-order solver;
- least utility loss for a privacy threshold (section VI): Algorithm 3, each turn a semidefinite program, against our
  Algorithm 3 and the joint solver.

Objectives are recomputed from the noise a solver returns, projected onto the constraints where it violates them.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from helpers import alternating_oracle
from helpers.paper_networks import PaperArrays, as_network, paper_arrays
from helpers.sdp_oracle import geometry, privacy_sum, solve_paper_form
from power_instances import make_feasible
from veilnet._core.types import Array
from veilnet.designs import design
from veilnet.designs.joint.curve import least_loss
from veilnet.model.standard_form import standard_form
from veilnet.paper.alternating.sweeps import alternate
from veilnet.verdict.exact_test import check

LIMITS = {"CLARABEL": "time_limit", "SCS": "time_limit_secs"}


class Instance(NamedTuple):
    """A draw of the paper's setting: N readings, L parameters, S agents, J private parameters; with prior."""

    readings: int = 36
    parameters: int = 6
    agents: int = 6
    private: int = 1
    public_rows: int = 1
    seed: int = 0

    def arrays(self) -> PaperArrays:
        """Its matrices."""
        return paper_arrays(
            self.seed,
            self.agents,
            self.public_rows,
            True,
            self.private,
            readings=self.readings,
            parameters=self.parameters,
        )


class Measurement(NamedTuple):
    """One way on one instance. ``objective`` is total privacy (more is better) or utility loss (less is)."""

    problem: str
    way: str
    instance: Instance
    seconds: float
    objective: float
    status: str


def no_power_limit(instance: Instance, seconds: float) -> Iterator[Measurement]:
    """Most privacy at perfect utility: the paper's program without trace constraints, and the closed form."""
    arrays = instance.arrays()
    network = as_network(arrays)
    verdict, took = _timed(lambda: check(network))
    yield Measurement(
        "perfect utility", "veilnet (closed form)", instance, took, sum(verdict.ceiling.values()), "exact"
    )
    for solver in LIMITS:
        noise, status, took = _unlimited_program(arrays, solver, seconds)
        reached = privacy_sum(arrays, make_feasible(arrays, noise, np.inf)) if noise else float("nan")
        yield Measurement("perfect utility", f"paper ({_name(solver)})", instance, took, reached, status)


def limited_power(instance: Instance, seconds: float, power: float = 1e2) -> Iterator[Measurement]:
    """Most privacy at perfect utility with tr Θ_i <= power."""
    arrays = instance.arrays()
    network = as_network(arrays)
    plan, took = _timed(lambda: design(network, power=power))
    gap = plan.details["relative_gap"]
    yield Measurement(
        "limited power", "veilnet", instance, took, sum(plan.privacy.values()), f"certified gap {gap:.0e}"
    )
    for solver, option in LIMITS.items():
        result = solve_paper_form(arrays, np.array(power), solver, **{option: seconds})
        reached = privacy_sum(arrays, make_feasible(arrays, result.noise, power))
        if np.isnan(result.objective):
            reached = float("nan")
        yield Measurement(
            "limited power", f"paper ({_name(solver)})", instance, result.seconds, reached, result.status
        )


def trade_off(instance: Instance, _seconds: float, sweeps: int = 2) -> Iterator[Measurement]:
    """Least loss at a threshold of four times the ceiling (or halfway to the limit, where that is less)."""
    network = as_network(instance.arrays())
    verdict = check(network)
    form = standard_form(network)
    highest = max(verdict.ceiling.values())
    level = min(4 * highest, *((highest * limit) ** 0.5 for limit in verdict.limit.values()))
    targets = np.full(instance.private, level)
    ours, took = _timed(lambda: alternate(form, targets, sweeps=sweeps))
    name = f"Algorithm 3, {sweeps} sweeps"
    yield Measurement(name, "veilnet", instance, took, ours.sweeps[-1].loss, "every turn exact")
    try:
        (loss, met), took = _timed(lambda: _algorithm_3(form, targets, sweeps))
        status = "optimal" if met else "misses the threshold"
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as failure:  # Clarabel's Rust panics derive from BaseException
        loss, took, status = float("nan"), float("nan"), f"failed: {type(failure).__name__}"
    yield Measurement(name, "paper (Clarabel)", instance, took, loss, status)
    joint, took = _timed(lambda: least_loss(form, targets))
    yield Measurement(
        "least loss", "veilnet (joint)", instance, took, joint.loss, f"{joint.agreed} of {joint.starts} agree"
    )


PROBLEMS: dict[str, Callable[[Instance, float], Iterator[Measurement]]] = {
    "perfect": no_power_limit,
    "power": limited_power,
    "tradeoff": trade_off,
}


def _algorithm_3(form: Any, targets: Array, sweeps: int) -> tuple[float, bool]:
    """Algorithm 3 from silence by CVXPY: (loss, whether every target is met)."""
    by_agent = [np.zeros((size, size)) for size in form.blocks.sizes]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(sweeps):
            by_agent = alternating_oracle.sweep_with_cvxpy(form, by_agent, targets)
    loss, privacy = alternating_oracle.loss_and_privacy(form, by_agent)
    return loss, bool(np.all(privacy >= targets * (1 - 1e-4)))


def _unlimited_program(arrays: PaperArrays, solver: str, seconds: float) -> tuple[list[Array], str, float]:
    """Section V's program (erratum 6 mended) without the power constraint: noise, status, seconds."""
    shape = geometry(arrays)
    blocks = [cp.Variable((size, size), PSD=True) for size in arrays.sizes]
    zeros = [[np.zeros((p, q)) for q in arrays.sizes] for p in arrays.sizes]
    count = len(blocks)
    noise = cp.bmat([[blocks[i] if i == j else zeros[i][j] for j in range(count)] for i in range(count)])
    z = cp.Variable((arrays.observe.shape[1],) * 2, symmetric=True)
    prior, observe = arrays.prior_covariance, arrays.observe
    spread = arrays.noise + observe @ prior @ observe.T
    inequality = cp.bmat([[prior - z, prior @ observe.T], [observe @ prior, spread + noise]])
    leak = arrays.public @ shape.psi
    goal: Any = 0.0
    for rows in arrays.private:
        goal = goal + cp.trace(rows @ z @ rows.T) / np.trace(rows @ shape.bound @ rows.T)
    problem = cp.Problem(
        cp.Maximize(goal), [cp.trace(leak @ noise @ leak.T) == 0, (inequality + inequality.T) / 2 >> 0]
    )
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "solution may be inaccurate": the status says so
            problem.solve(solver=solver, **{LIMITS[solver]: seconds})
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as failure:  # Clarabel's Rust panics derive from BaseException
        return [], f"failed: {type(failure).__name__}", time.perf_counter() - start
    found = [] if z.value is None else [(b.value + b.value.T) / 2 for b in blocks]
    return found, str(problem.status), time.perf_counter() - start


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def _name(solver: str) -> str:
    return "Clarabel" if solver == "CLARABEL" else solver
