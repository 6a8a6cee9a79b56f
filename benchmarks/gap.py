"""How much of a trade-off's loss is proved to be needed: small networks, the paper's size, and structured ones.

    python benchmarks/gap.py [--small 60] [--paper 4] [--structured 10] [--streams 5] [--gap 0.01] [--seconds 30]
                             [--no-program] [--digits 100] [--starts 30]

Small: L in 3..5, S in 2..5 agents of 1 to 3 readings, one or two public rows, one private parameter of one or
two rows or two of one, no, singular or full prior, noise independent or correlated between agents. The paper's
size: L = 12, N = 72, drawn as in its section VII with each agent's noise independent of the others', S from 6 to
24, one to three public rows, full, singular and no prior, one private row, three rows or two parameters, privacy a
quarter, a half or three quarters of the way from the ceiling to its limit (p = 3.5, 6 or 8.5 times 1 + ceiling
where there is none). Structured: networks as people write them. A gap of 1 % says that the loss is at most 1 %
above the least possible of linear mechanisms; inf says that nothing was proved. "By default" is what the design
carries; "step" is what proved most: nothing, the closed form, the ascent, so many pieces, or the program with turns,
which --no-program leaves out. Times are CPU seconds of one thread; a proof has --seconds. --digits confirms so many
proofs in 40 digits, and --starts lets another optimiser look below each bound from so many starts.

Streams carry no proof. What their last rows as one network prove is measured: an agent's readings of six rows are one
agent's, the public parameter is that of the last row, and so is what is hidden, as much as the stream hides it with
hindsight. That bounds agents who began six rows before. They may send one number where the stream sends six.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before numpy is loaded: one thread for everyone

import numpy as np  # noqa: E402

import veilnet as vn  # noqa: E402
from veilnet.designs.lower_bound import proving  # noqa: E402
from veilnet.designs.lower_bound.settings import SETTINGS  # noqa: E402
from veilnet.designs.proved import proved_plan  # noqa: E402
from veilnet.plans.lower_bound.rapidity import Rapidities  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from helpers.exact_theorem import exact_surplus  # noqa: E402
from helpers.networks import random_network  # noqa: E402
from helpers.paper_networks import as_network, paper_arrays  # noqa: E402
from helpers.reference_optimiser import best_loss  # noqa: E402
from helpers.stream_networks import random_stream  # noqa: E402
from helpers.structured_networks import levels_between, structured_network  # noqa: E402

LARGEST_AGENT = 3  # readings of an agent that the other optimiser can do
ROWS = 6  # of a stream, as one network: with three rows the bound is hardly higher
LONG = 30  # rows after which a filter and a smoother are in their steady state


class Instance(NamedTuple):
    """A network, what it is, and the privacy asked of it."""

    family: str
    words: str
    network: vn.Network
    target: float


class Outcome(NamedTuple):
    """What was measured on one instance."""

    instance: Instance
    loss: float
    at_once: float
    gap: float
    step: str
    design_seconds: float
    proof_seconds: float
    plan: vn.Plan


def small(count: int) -> Iterator[Instance]:
    """Networks whose privacy is not free, ``count`` with independent noise and half as many with correlated."""
    for noise, wanted in (("per agent", count), ("joint", count // 2)):
        found, seed = 0, 0
        while found < wanted:
            seed += 1
            rng = np.random.default_rng([seed, 12])
            parameters = int(rng.integers(3, 6))
            sizes = [int(size) for size in rng.integers(1, 4, int(rng.integers(2, 6)))]
            prior = ("none", "singular", "covariance")[int(rng.integers(3))]
            private = ((1,), (1,), (2,), (1, 1))[int(rng.integers(4))]
            try:
                network = random_network(
                    seed,
                    noise=noise,
                    prior=prior,
                    sizes=sizes,
                    parameters=parameters,
                    public_rows=int(rng.integers(1, 3)),
                    private_rows=private,
                )
            except vn.NotObservable:
                continue
            target = costly(network, float(rng.uniform(0.1, 0.9)))
            if target is not None:
                found += 1
                words = f"L={parameters} n={sizes} U={len(network.U)} G={list(private)} prior {prior}"
                family = "small, independent" if noise == "per agent" else "small, correlated"
                yield Instance(family, words, network, target)


def paper_size(count: int) -> Iterator[Instance]:
    """The paper's size with independent noise: S, public rows, prior, rows of each private parameter."""
    kinds = [(6, 1, "full", (1,)), (12, 1, "full", (1,)), (12, 3, "full", (1,)), (18, 1, "none", (1,)),
             (18, 3, "none", (1,)), (18, 1, "full", (1,)), (24, 2, "full", (1,)), (12, 1, "singular", (1,)),
             (9, 1, "full", (1, 1)), (9, 1, "full", (3,))]  # fmt: skip
    for seed in range(count):
        for agents, public_rows, prior, rows in kinds:
            arrays = paper_arrays(seed, agents, public_rows, prior != "none", len(rows), independent=True)
            kept = tuple(each[:size] for each, size in zip(arrays.private, rows, strict=True))
            network = as_network(arrays._replace(private=kept))
            if prior == "singular":
                values, vectors = np.linalg.eigh(np.linalg.inv(arrays.prior_covariance))
                information = (vectors * np.where(np.arange(len(values)) < 3, 0.0, values)) @ vectors.T
                network = network.replace(prior=vn.Prior(information=(information + information.T) / 2))
            part = (0.25, 0.5, 0.75)[seed % 3]
            target = costly(network, part)
            if target is not None:
                words = f"S={agents} U={public_rows} G={list(rows)} prior {prior} part {part:g}"
                yield Instance(f"paper's size, prior {prior}", words, network, target)


def structured(count: int) -> Iterator[Instance]:
    """Networks as people write them, spread over all kinds."""
    for number in range(1, 180, max(1, 179 // max(count, 1)))[:count]:
        network = structured_network(number)
        low, high = levels_between(network)
        target = float((1 + low) * ((1 + high) / (1 + low)) ** 0.3 - 1)
        yield Instance("structured", f"number {number}", network, target)


def costly(network: vn.Network, part: float) -> float | None:
    """A privacy that is not free: between ceiling and limit, or above the ceiling; None where all privacy is free."""
    verdict = vn.check(network)
    ceiling, limit = max(verdict.ceiling.values()), min(verdict.limit.values())
    if not np.isfinite(ceiling) or limit < ceiling * (1 + 1e-6):
        return None
    return float(
        ceiling + part * (limit - ceiling) if np.isfinite(limit) else (1 + ceiling) * (1 + 10 * part)
    )


def measure(instance: Instance, gap: float) -> Outcome:
    """Design, then prove."""
    begun = time.process_time()
    plan = vn.design(instance.network, privacy=instance.target)
    designed = time.process_time()
    proved = proved_plan(plan, gap) if plan.gap > gap else plan
    best = min(plan, proved, key=lambda each: (each.gap, -each.utility))
    step = "program"
    if best.proof is None:
        step = "nothing"
    elif isinstance(best.proof.multipliers, Rapidities):
        pieces, _, policies, _ = best.proof.multipliers.half.shape
        closed = policies == np.linalg.matrix_rank(instance.network.U)
        step = f"{pieces} pieces" if pieces > 1 else "closed form or one policy" if closed else "policies"
    seconds = time.process_time() - designed
    return Outcome(instance, -best.utility, plan.gap, best.gap, step, designed - begun, seconds, best)


def window(stream: vn.Network, rows: int, hidden: int) -> vn.Network:
    """So many rows as one network: public is the last row, private one row."""
    dynamics, length = stream.dynamics, stream.L
    assert dynamics is not None
    assert dynamics.stationary is not None
    covariance = np.zeros((rows, length, rows, length))
    for first in range(rows):
        carried = dynamics.stationary
        for later in range(first, rows):
            covariance[later, :, first], covariance[first, :, later] = carried, carried.T
            carried = dynamics.transition @ carried

    def placed(given: np.ndarray, row: int) -> np.ndarray:
        return np.kron(np.eye(rows)[row], given)

    return vn.Network(
        observe={agent: np.kron(np.eye(rows), given) for agent, given in stream.observe.items()},
        noise={agent: np.kron(np.eye(rows), stream.R.block(k)) for k, agent in enumerate(stream.agents)},
        public=placed(stream.U, rows - 1),
        private={name: placed(given, hidden) for name, given in stream.private.items()},
        prior=vn.Prior(covariance=covariance.reshape(rows * length, rows * length)),
    )


def error(network: vn.Network, rows: np.ndarray) -> float:
    """tr(A P A')."""
    return float(np.trace(rows @ vn.crlb(network) @ rows.T))


def streams(count: int) -> Iterator[str]:
    """Trade-offs on streams, a third and two thirds of the way to the limit, and what six rows prove."""
    for seed in range(count):
        stream = random_stream(seed, sizes=(2, 2, 1), parameters=3, private_rows=(1,), radius=0.7)
        verdict = vn.check(stream)
        steady, middle, last = (
            window(stream, LONG, LONG - 1),
            window(stream, LONG, LONG // 2),
            window(stream, ROWS, ROWS - 1),
        )
        for part in (1 / 3, 2 / 3):
            target = verdict.ceiling["g0"] + part * (verdict.limit["g0"] - verdict.ceiling["g0"])
            begun = time.process_time()
            plan = vn.design(stream, privacy=target)
            designed = time.process_time()
            kept = (1 + target) * error(middle, middle.private["g0"]) / error(last, last.private["g0"]) - 1
            other = vn.design(last, privacy=max(kept, 0.0))
            least = -other.utility / (1 + other.gap)
            bound = (1 + least) * error(last, last.U) / error(steady, steady.U) - 1
            yield (
                f"| stream | radius 0.7, number {seed}, part {part:.2g} | {-plan.utility:.4g} | inf "
                f"| {100 * (-plan.utility / bound - 1) if bound > 0 else np.inf:.3g} | {ROWS} rows "
                f"| {designed - begun:.2g} | {time.process_time() - designed:.2g} |"
            )


def summary(outcomes: list[Outcome], gap: float) -> list[str]:
    """One line per family: how much was proved, and in what time."""
    lines = [
        "",
        f"| family | networks | by default <= {100 * gap:g} % | gap <= {100 * gap:g} % | <= 5 % | <= 25 % | nothing "
        "proved | median by default | median gap | median CPU s to design | to prove | most |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for family in dict.fromkeys(each.instance.family for each in outcomes):
        mine = [each for each in outcomes if each.instance.family == family]
        gaps, at_once = np.array([each.gap for each in mine]), np.array([each.at_once for each in mine])
        within = gap * (1 + 1e-9)
        shares = [
            f"{100 * np.mean(found <= level):.0f} %"
            for found, level in ((at_once, within), (gaps, within), (gaps, 0.05), (gaps, 0.25))
        ]
        nothing = f"{100 * np.mean(np.isinf(gaps)):.0f} %"
        proving = [each.proof_seconds for each in mine]
        lines.append(
            f"| {family} | {len(mine)} | {' | '.join(shares)} | {nothing} | {100 * np.median(at_once):.2g} % "
            f"| {100 * np.median(gaps):.2g} % | {np.median([each.design_seconds for each in mine]):.2g} "
            f"| {np.median(proving):.2g} | {max(proving):.2g} |"
        )
    return lines


def confirmed(outcomes: list[Outcome], count: int) -> str:
    """How many proofs hold in 40 digits, of small networks first: at the paper's size each takes minutes."""
    proofs = [
        (each.plan.network, each.plan.proof)
        for each in sorted(outcomes, key=lambda each: each.plan.network.N)
        if each.plan.proof is not None and _independent_rows(each.plan.network)
    ]
    proofs = proofs[:count]
    held = sum(float(exact_surplus(network, proof)) > 0 for network, proof in proofs)
    return f"{held} of {len(proofs)} proofs hold in 40 digits"


def _independent_rows(network: vn.Network) -> bool:
    """Whether the oracle of 40 digits, which does not compress dependent rows, can do this network."""
    return all(np.linalg.matrix_rank(rows) == len(rows) for rows in (network.U, *network.private.values()))


def looked_below(outcomes: list[Outcome], starts: int) -> str:
    """The least loss that another optimiser finds, over what is proved: never below one."""
    ratios = []
    for each in outcomes:
        network = each.plan.network
        if each.plan.proof is not None and max(network.blocks.sizes) <= LARGEST_AGENT:
            ratios.append(best_loss(network, each.instance.target, starts=starts) / each.plan.proof.loss)
    return (
        f"another optimiser, {starts} starts, {len(ratios)} networks: least loss over bound {min(ratios):.6f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--small", type=int, default=60, help="small networks with independent noise")
    parser.add_argument("--paper", type=int, default=4, help="draws of the paper's size")
    parser.add_argument("--structured", type=int, default=10, help="structured networks")
    parser.add_argument("--streams", type=int, default=5, help="streams")
    parser.add_argument("--seconds", type=float, default=SETTINGS.patience, help="of a proof")
    parser.add_argument("--no-program", action="store_true", help="leave out the program with turns")
    parser.add_argument("--digits", type=int, default=0, help="confirm so many proofs in 40 digits")
    parser.add_argument(
        "--starts", type=int, default=0, help="of another optimiser that looks below each bound"
    )
    parser.add_argument("--gap", type=float, default=0.01, help="the gap to prove")
    options = parser.parse_args()
    if options.no_program:
        proving._by_program = lambda *_given: None  # a step is left out, not replaced
    proving.SETTINGS = replace(SETTINGS, patience=options.seconds)
    outcomes = []
    print(
        "| family | network | loss | by default (%) | gap (%) | step | design (CPU s) | proof (CPU s) |\n"
        "|---|---|---|---|---|---|---|---|",
        flush=True,
    )
    for instance in chain(paper_size(options.paper), small(options.small), structured(options.structured)):
        each = measure(instance, options.gap)
        outcomes.append(each)
        print(
            f"| {instance.family} | {instance.words} | {each.loss:.4g} | {100 * each.at_once:.3g} "
            f"| {100 * each.gap:.3g} | {each.step} | {each.design_seconds:.2g} | {each.proof_seconds:.2g} |",
            flush=True,
        )
    for line in streams(options.streams):
        print(line, flush=True)
    print("\n".join(summary(outcomes, options.gap)))
    if options.digits:
        print(confirmed(outcomes, options.digits), flush=True)
    if options.starts:
        print(looked_below(outcomes, options.starts))


if __name__ == "__main__":
    main()
