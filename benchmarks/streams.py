"""How fast readings are sanitized and messages fused, as ratios to the bare NumPy line in the same run.

    OMP_NUM_THREADS=1 python benchmarks/streams.py

A ratio of 1 is the speed of the bare line, 0.5 half of it. The bare line for noisy rows draws from the same
secure source: ``y @ C.T + secure_normal(...)``. Rows without noise are dithered before rounding, so their line
is ``y @ C.T + step * secure_uniform(...)``; beside it, for the record, the product alone, which protects nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import veilnet as vn
from veilnet.agent.grid import grid_steps
from veilnet.agent.randomness import secure_normal, secure_uniform
from veilnet.io.template import house

ROWS = 200_000
REPEATS = 9


def ratio(bare: Callable[[], object], ours: Callable[[], object]) -> float:
    """Best CPU time of the bare line over ours, taken in turns so that a busy machine hurts both."""
    best = [np.inf, np.inf]
    for _ in range(REPEATS):
        for place, work in enumerate((bare, ours)):
            start = time.process_time()
            work()
            best[place] = min(best[place], time.process_time() - start)
    return float(best[0] / best[1])


def sanitizing(sent: int, readings: int, noisy: bool) -> None:
    """One agent's block of readings."""
    rng = np.random.default_rng(0)
    compression = rng.standard_normal((sent, readings))
    noise = np.ones(sent) if noisy else np.zeros(sent)
    step = grid_steps(compression @ compression.T + np.diag(noise))
    agent = vn.Sanitizer(compression, noise, grid=step, offset=rng.standard_normal(readings))
    block = rng.standard_normal((ROWS, readings))
    size = (ROWS, sent)

    def ours() -> object:
        return agent.sanitize(block)

    what = f"sanitize {readings:2d} readings -> {sent} {'noisy' if noisy else 'exact'} numbers"
    if noisy:
        print(f"{what}: {ratio(lambda: block @ compression.T + secure_normal(size), ours):5.2f}")
        return
    dithered = ratio(lambda: block @ compression.T + step * secure_uniform(size), ours)
    print(f"{what}: {dithered:5.2f}   (product alone: {ratio(lambda: block @ compression.T, ours):.3f})")


def fusing(name: str, network: vn.Network) -> None:
    """All agents' messages, complete."""
    fusion = vn.Fusion(vn.design(network))
    rng = np.random.default_rng(0)
    stacked = rng.standard_normal((ROWS, fusion.model.blocks.total))
    gain = np.ascontiguousarray(fusion.model.complete.gain.T)
    cuts = np.cumsum(list(fusion.sent.values()))[:-1]
    parts = {
        a: np.ascontiguousarray(z) for a, z in zip(fusion.agents, np.split(stacked, cuts, 1), strict=True)
    }
    gains = dict(zip(fusion.agents, np.split(gain, cuts), strict=True))
    side_by_side = ratio(lambda: stacked @ gain, lambda: fusion.estimate(stacked))
    by_agent = ratio(lambda: sum(parts[a] @ gains[a] for a in parts), lambda: fusion.estimate(parts))
    gappy = {agent: values.copy() for agent, values in parts.items()}
    gappy[fusion.agents[0]][::10] = np.nan
    gaps = ratio(lambda: stacked @ gain, lambda: fusion.estimate(gappy))
    print(
        f"fuse {name}: {side_by_side:5.2f} from one array, {by_agent:5.2f} from one per agent, "
        f"{gaps:5.2f} with an agent missing in every tenth row"
    )


def paper_network(agents: int) -> vn.Network:
    """A random network of the paper's size: 72 readings, 12 parameters, correlated noise."""
    rng = np.random.default_rng(1)
    root = rng.uniform(-0.5, 0.5, (72, 72))
    known = rng.uniform(-10, 10, (12, 12))
    rows = rng.uniform(-0.5, 0.5, (agents, 72 // agents, 12))
    return vn.Network(
        observe={f"a{k}": one for k, one in enumerate(rows)},
        noise=root @ root.T,
        public=rng.uniform(-0.5, 0.5, (3, 12)),
        private={"g": rng.uniform(-0.5, 0.5, (3, 12))},
        prior=vn.Prior(covariance=known @ known.T),
    )


def main() -> None:
    """Print every ratio."""
    for noisy in (True, False):
        for sent, readings in ((2, 4), (3, 6), (6, 12)):
            sanitizing(sent, readings, noisy)
    fusing("a house, 10 numbers -> 2", house())
    fusing("72 readings, 36 numbers -> 3", paper_network(12))


if __name__ == "__main__":
    main()
