"""A thousand networks that are hard on floating point, through all four kinds of request.

    python benchmarks/nasty_networks.py [--networks 1000] [--first 0] [--requests perfect,privacy,utility_loss,power]

Noise correlated or not, conditioning from 1 to 1e10 (in the noise, in what the readings see, in the prior, in
units), every kind of prior. For each request: does it end in a plan or in one of veilnet's own errors; is every
promise of the plan right to a millionth, judged with 120 digits from its sanitizers, their doubles taken as exact?
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import mpmath as mp  # noqa: E402
import numpy as np  # noqa: E402
from scipy.linalg import block_diag  # noqa: E402

import veilnet as vn  # noqa: E402

REQUESTS = ("perfect", "privacy", "utility_loss", "power")
PRIORS = ("none", "covariance", "information", "singular")
SPOILS = ("nothing", "noise", "observe", "units", "prior", "near copies")
DIGITS = 120
RIGHT = 1e-6
AT_LEAST = 1e10  # above this a promise may be less than the truth


# --- networks


def covariance(rng: np.random.Generator, size: int, condition: float) -> np.ndarray:
    """A covariance turned at random, with eigenvalues from 1 down to 1 / condition."""
    basis, _ = np.linalg.qr(rng.standard_normal((size, size)))
    matrix = (basis * np.logspace(0, -np.log10(condition), size)) @ basis.T
    return (matrix + matrix.T) / 2


def nasty_network(seed: int) -> vn.Network:
    """One network, of some kind, spoiled in some way by a factor up to 1e10; NotObservable where too much so."""
    rng = np.random.default_rng([seed, 11])
    sizes = rng.integers(1, 4, rng.integers(2, 5)).tolist()
    length = int(rng.integers(2, min(5, sum(sizes)) + 1)) if sum(sizes) > 2 else 2
    total = sum(sizes)
    spoil = SPOILS[int(rng.integers(len(SPOILS)))]
    size = float(10.0 ** rng.uniform(0, 10))
    observe = rng.standard_normal((total, length))
    if rng.random() < 0.3:  # numbers as people write them
        observe = np.round(2 * observe) / 2
    noise_condition = min(size**2, 1e13) if spoil == "noise" else float(10.0 ** rng.uniform(0, 2))
    if spoil == "observe":
        left, _, right = np.linalg.svd(observe, full_matrices=False)
        observe = (left * np.logspace(0, -np.log10(size), len(right))) @ right
    if spoil == "near copies":
        few = observe[: length - 1]  # every reading is a mixture of too few of them, but for a little
        observe = rng.standard_normal((total, length - 1)) @ few + rng.standard_normal((total, length)) / size
    ends = np.cumsum(sizes)
    noise: Any = covariance(rng, total, noise_condition)
    if rng.random() < 0.5:
        noise = {f"a{k}": covariance(rng, n, noise_condition if n > 1 else 1.0) for k, n in enumerate(sizes)}
    kind = PRIORS[int(rng.integers(len(PRIORS)))]
    known = covariance(rng, length, size if spoil == "prior" else 10.0)
    # A prior that says much would mend what is spoiled: in half of the networks it says next to nothing.
    wide = float(10.0 ** rng.uniform(0, 16)) if rng.random() < 0.5 else 1.0
    prior = {
        "none": None,
        "covariance": vn.Prior(covariance=known * wide),
        "information": vn.Prior(information=known / wide),
        "singular": vn.Prior(information=np.diag([1.0] * (length - 1) + [0.0]) / wide),
    }[kind]
    public = rng.standard_normal((int(rng.integers(1, 3)), length))
    private = {
        f"g{j}": rng.standard_normal((int(rng.integers(1, 3)), length))
        for j in range(int(rng.integers(1, 3)))
    }
    if spoil == "units":
        units = np.logspace(0, np.log10(size), length)
        observe, public = observe * units, public * units
        private = {name: rows * units for name, rows in private.items()}
        if prior is not None and kind != "singular":
            scale = np.outer(units, units)
            prior = (
                vn.Prior(covariance=known * wide / scale)
                if kind == "covariance"
                else vn.Prior(information=known / wide * scale)
            )
    return vn.Network(
        {f"a{k}": observe[end - n : end] for k, (n, end) in enumerate(zip(sizes, ends, strict=True))},
        noise, public, private, prior,
    )  # fmt: skip


# --- the truth


def exact(matrix: Any) -> mp.matrix:
    return mp.matrix(np.asarray(matrix).tolist())


def exact_prior(network: vn.Network) -> mp.matrix:
    if network.prior is None:
        return mp.zeros(network.L)
    if network.prior.given == "information":
        return exact(network.prior.information)
    return mp.inverse(exact(network.prior.covariance))


def exact_information(network: vn.Network, sanitizers: Mapping[str, vn.Sanitizer]) -> mp.matrix:
    """J0 + H'C'(C R C' + Θ)^-1 C H, the given doubles taken as exact."""
    compression = exact(block_diag(*[sanitizers[agent].compression for agent in network.agents]))
    theta = exact(block_diag(*[sanitizers[agent].noise for agent in network.agents]))
    if compression.rows == 0:
        return exact_prior(network)
    observed = compression * exact(network.H)
    middle = compression * exact(network.R.matrix()) * compression.T + theta
    return exact_prior(network) + observed.T * mp.inverse(middle) * observed


def trace_error(rows: np.ndarray, information: mp.matrix) -> Any:
    error = exact(rows) * mp.inverse(information) * exact(rows).T
    return mp.fsum(error[k, k] for k in range(len(rows)))


@dataclass
class Truth:
    """Growths of a plan with 120 digits: as they are, and against someone who knew a very little beforehand."""

    network: vn.Network
    sanitizers: Mapping[str, vn.Sanitizer]
    raw: mp.matrix = field(init=False)
    left: mp.matrix = field(init=False)

    def __post_init__(self) -> None:
        raw = {agent: vn.Sanitizer.raw(len(rows)) for agent, rows in self.network.observe.items()}
        self.raw = exact_information(self.network, raw)
        self.left = exact_information(self.network, self.sanitizers)

    def growth(self, rows: np.ndarray, weak: float) -> float:
        before = trace_error(rows, self.raw)
        return float(trace_error(rows, self.left + mp.mpf(weak) * self.raw) / before - 1)


def wrong_promises(plan: vn.Plan) -> list[str]:
    """The promises of a plan that are not right to a millionth.

    Coefficients are doubles: what is meant to be unseen is seen a little, and to the letter an unbiased centre must
    use it. So figures also count as right if they are the truth for someone with the weakest of priors, or a weaker
    one still: the truth falls as a prior grows, so these are the figures from the one to the other. Privacy may not
    exceed what is strictly true in any case.
    """
    wrong = []
    weak = min(1e-10, 1e8 * (np.finfo(float).eps * plan.network.conditioning) ** 2)
    with mp.workdps(DIGITS):
        truth = Truth(plan.network, plan.sanitizers)
        asked = [("utility", plan.network.U, -plan.utility)]
        asked += [(name, plan.network.private[name], value) for name, value in plan.privacy.items()]
        for what, rows, promised in asked:
            if np.isinf(promised):
                found = truth.growth(rows, 1e-60)
                if found < (1e8 if what == "utility" else 1e15):
                    wrong.append(f"{what}: promised inf, true {found:.6g}")
                continue
            strictly, found = truth.growth(rows, 1e-60), truth.growth(rows, weak / (1 + promised))
            rounding = RIGHT * (1 + promised)
            right = found - rounding <= promised <= strictly + rounding or AT_LEAST <= promised <= strictly
            if not right:
                wrong.append(f"{what}: promised {promised:.9g}, true {strictly:.9g} ({found:.9g})")
    return wrong


# --- requests


def asked_of(network: vn.Network, verdict: vn.Verdict) -> dict[str, dict[str, Any]]:
    """Arguments of the four requests; a privacy above the ceiling and below the limit where there is one."""
    targets = {}
    for name, ceiling in verdict.ceiling.items():
        limit = verdict.limit[name]
        if np.isinf(ceiling):
            targets[name] = 10.0
        elif np.isinf(limit):
            targets[name] = 2 * ceiling + 1
        else:
            targets[name] = ceiling + 0.5 * (limit - ceiling)
    power = 100 * float(np.max(np.diag(network.R.matrix())))
    return {
        "perfect": {},
        "privacy": {"privacy": targets},
        "utility_loss": {"utility_loss": 0.05},
        "power": {"power": power},
    }


@dataclass(frozen=True)
class Outcome:
    """How one request ended."""

    seed: int
    request: str
    conditioning: float
    ended: str  # "plan", a veilnet error's name, or "CRASH"
    words: str
    wrong: tuple[str, ...]
    seconds: float


def outcomes(seed: int, requests: tuple[str, ...] = REQUESTS) -> Iterator[Outcome]:
    """Every request on one network."""
    try:
        network = nasty_network(seed)
        verdict = vn.check(network)
    except vn.VeilnetError as error:
        yield Outcome(seed, "network", np.inf, type(error).__name__, str(error), (), 0.0)
        return
    except Exception as error:
        yield Outcome(seed, "check", np.inf, "CRASH", f"{type(error).__name__}: {error}", (), 0.0)
        return
    for request, arguments in asked_of(network, verdict).items():
        if request not in requests:
            continue
        start = time.process_time()
        wrong: list[str] = []
        try:
            plan = vn.design(network, **arguments)
            ended, words = "plan", ""
        except vn.VeilnetError as error:
            ended, words = type(error).__name__, str(error)
        except Exception as error:
            ended, words = "CRASH", f"{type(error).__name__}: {error}"
        seconds = time.process_time() - start
        if ended == "plan":
            wrong = wrong_promises(plan)
        yield Outcome(seed, request, network.conditioning, ended, words, tuple(wrong), seconds)


def main() -> None:
    """Run the study and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--requests", default=",".join(REQUESTS))
    options = parser.parse_args()
    requests = tuple(options.requests.split(","))
    warnings.simplefilter("ignore", RuntimeWarning)
    found: list[Outcome] = []
    for seed in range(options.first, options.first + options.networks):
        for each in outcomes(seed, requests):
            found.append(each)
            if each.ended == "CRASH" or each.wrong or each.ended in ("InvalidPlan", "NotObservable"):
                what = "; ".join(each.wrong) or each.words
                print(
                    f"{each.seed} {each.request} {each.conditioning:.1e} {each.ended}: {what[:300]}",
                    flush=True,
                )
    print_table(found)


def print_table(found: list[Outcome]) -> None:
    """How the requests ended, by conditioning."""
    print("\n| conditioning | requests | plans | refused | crashed | promises wrong | seconds |")
    print("|---|---|---|---|---|---|---|")
    lines = [1.0, 1e2, 1e4, 1e6, 1e8, np.inf]
    for low, high in pairwise(lines):
        some = [o for o in found if low <= o.conditioning < high]
        ends = Counter(o.ended for o in some)
        refused = sum(ends[name] for name in ends if name not in ("plan", "CRASH", "Infeasible"))
        wrong = sum(bool(o.wrong) for o in some)
        seconds = sum(o.seconds for o in some)
        counts = f"{len(some)} | {ends['plan']} | {refused} | {ends['CRASH']} | {wrong} | {seconds:.0f}"
        print(f"| {low:.0e} to {high:.0e} | {counts} |")
    print(f"\nHow they ended: {dict(Counter(o.ended for o in found))}")


if __name__ == "__main__":
    main()
