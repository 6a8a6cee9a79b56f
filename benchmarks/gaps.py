"""What gaps and starts leave of the promise of a stream plan, before and after memories began anew by a draw.

    python benchmarks/gaps.py              60 models and the house (some minutes)
    python benchmarks/gaps.py --models 6   a few of them

Models: a third are streams of one agent whose readings differ much in size, the others have two to four agents, with
white and coloured noise. Each is designed at perfect utility. The errors of g are those of the whole window as one
Gaussian, by definition and one linear solve (tests/helpers/stream_networks.py): gaps of 1, 3 and 10 rows of one agent
and of all, two gaps in a row, and memories that begin anew without a missed row. Ends with an error where less than
99 % of what is stated is left.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import veilnet as vn

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from helpers.stream_networks import NOISES, leaky_stream, least_window_error, random_stream
from timing import markdown
from veilnet._core.types import Array
from veilnet.bounds.streams.knowledge import stream_knowledge
from veilnet.io.template import house

LEFT = 0.99
WINDOW, GAP = 80, 40
NEAR = range(GAP - 4, GAP + 16)
QUANTILES = (0.0, 0.1, 0.25, 0.5)


def models(count: int) -> list[vn.Network]:
    """A third with one agent, the others with two to four."""
    found = []
    for seed in range(count):
        rng = np.random.default_rng([7, seed])
        if seed % 3 == 0:
            found.append(leaky_stream(160 + seed // 3))
            continue
        agents = int(rng.integers(2, 5))
        found.append(
            random_stream(
                seed,
                noise=NOISES[seed % 2],
                joint=seed % 4 == 1,
                sizes=[int(size) for size in rng.integers(2, 4, agents)],
                parameters=int(rng.integers(2, 5)),
                radius=float(rng.uniform(0.5, 0.9)),
            )
        )
    return found


def patterns(agents: list[str]) -> dict[str, dict[str, dict[int, list[str]]]]:
    """Which agents miss which rows, or begin anew after which."""
    found = {}
    for who, names in (("one agent", agents[:1]), ("all agents", agents)):
        for length in (1, 3, 10):
            found[f"{length} rows, {who}"] = {"missed": {GAP + k: names for k in range(length)}}
        found[f"two gaps, {who}"] = {"missed": {GAP: names, GAP + 2: names}}
        found[f"begun anew, {who}"] = {"anew": {GAP: names}}
    return found


def parts_left(plan: vn.Plan) -> dict[str, tuple[float, float]]:
    """For each pattern the least error of any g: (before, as a part of the steady one; now, of what is stated)."""
    network = plan.network
    agents = [agent for agent, each in plan.sanitizers.items() if each.order]
    went_on = {
        agent: each.replace(memory=None if each.memory is None else each.memory.with_start(None))
        for agent, each in plan.sanitizers.items()
    }
    known = stream_knowledge(network, plan.sanitizers)
    found: dict[str, tuple[float, float]] = {}
    for what, gaps in patterns(agents).items() if agents else ():
        pair = []
        for sanitizers, stated in ((went_on, plan.privacy), (plan.sanitizers, plan.privacy_with_gaps)):
            left = []
            for name, rows in network.private.items():
                usual = float(np.trace(known.error(rows, hindsight=True)))
                part = (1 + stated[name]) / (1 + plan.privacy[name])
                error = least_window_error(network, sanitizers, rows, window=WINDOW, places=NEAR, **gaps)  # type: ignore[arg-type]
                left.append(error / (usual * part))
            pair.append(min(left))
        found[what] = pair[0], pair[1]
    return found


def quantiles(values: Array) -> str:
    """The least, and some quantiles."""
    return ", ".join(f"{min(value, 9.99):.3f}" for value in np.quantile(values, QUANTILES))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=60)
    count = parser.parse_args().models
    found: dict[str, list[tuple[float, float]]] = {}
    sizes, costs, promised = [], [], []
    for place, network in enumerate(models(count)):
        plan = vn.design(network)
        sizes.append(plan.details["start_size"])
        costs.append(plan.details["public_after_missed_row"])
        promised.append(min((1 + plan.privacy_with_gaps[n]) / (1 + p) for n, p in plan.privacy.items()))
        for what, pair in parts_left(plan).items():
            found.setdefault(what, []).append(pair)
        print(f"{place + 1} of {count}", end="\r", file=sys.stderr)
    rows = [
        [what, quantiles(np.array(pairs)[:, 0]), quantiles(np.array(pairs)[:, 1])]
        for what, pairs in found.items()
    ]
    print(
        f"Least error of g, quantiles {', '.join(f'{100 * each:g}' for each in QUANTILES)} % over {count} models:"
    )
    print(
        markdown(
            ["gap", "memory went on, part of the steady error", "begun anew, part of what is stated"], rows
        )
    )
    home = vn.design(house(stream=True))
    least = min(pair[1] for pairs in found.values() for pair in pairs)
    before = min(pair[0] for pairs in found.values() for pair in pairs)
    print(f"figure models: {count}")
    print(f"figure before: {before:.3f}")
    print(f"figure least: {least:.3f}")
    print(f"figure stated: {min(promised):.3f}")
    print(f"figure size: {max(sizes):g}")
    print(f"figure cost_one: {np.median([1 + one for one, _ in costs]):.2f}")
    print(f"figure cost_all: {np.median([1 + both for _, both in costs]):.2f}")
    for name, steady in home.privacy.items():
        part = (1 + home.privacy_with_gaps[name]) / (1 + steady)
        print(f"figure house_{name}: {part:.3f}")
    return 0 if least >= LEFT else 1


if __name__ == "__main__":
    sys.exit(main())
