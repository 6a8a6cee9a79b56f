"""crlb and privacy against the bare NumPy/SciPy lines a user would write.

    python benchmarks/foundation.py

Both sides get the same per-agent matrices C_i and Θ_i and the same network; sizes N = 72 (the paper's) and 2000 with
correlated noise, and 100,000 agents with four readings each and independent noise.
"""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path

import numpy as np
from scipy.linalg import block_diag

import veilnet as vn
from veilnet._core.types import Array

sys.path.insert(0, str(Path(__file__).resolve().parent))

from timing import Comparison, compare, markdown


def correlated(
    readings: int, agents: int, length: int = 12
) -> tuple[vn.Network, dict[str, Array], dict[str, Array]]:
    rng = np.random.default_rng(readings)
    root = rng.uniform(-0.5, 0.5, (readings, readings))
    size = readings // agents
    prior = rng.uniform(-10, 10, (length, length))
    network = vn.Network(
        observe={f"a{k}": rng.uniform(-0.5, 0.5, (size, length)) for k in range(agents)},
        noise=root @ root.T + 0.01 * np.eye(readings),
        public=rng.uniform(-0.5, 0.5, (2, length)),
        private={"g": rng.uniform(-0.5, 0.5, (3, length))},
        prior=vn.Prior(covariance=prior @ prior.T),
    )
    compressions = {agent: rng.standard_normal((size, size)) for agent in network.agents}
    roots = {agent: rng.standard_normal((size, size)) for agent in network.agents}
    return network, compressions, {agent: each @ each.T for agent, each in roots.items()}


def joint_rows(readings: int, agents: int) -> list[list[str]]:
    network, compressions, noises = correlated(readings, agents)
    sanitizers = {a: vn.Sanitizer(compressions[a], noises[a]) for a in network.agents}
    noise, observe, rows = network.R.matrix(), network.H, network.private["g"]
    prior = network.prior.information  # type: ignore[union-attr]
    raw_error = np.trace(rows @ vn.crlb(network) @ rows.T)

    def bare_crlb() -> Array:
        compression = block_diag(*compressions.values())
        covariance = compression @ noise @ compression.T + block_diag(*noises.values())
        seen = compression @ observe
        return np.asarray(np.linalg.inv(prior + seen.T @ np.linalg.solve(covariance, seen)))

    def bare_privacy() -> float:
        return float(np.trace(rows @ bare_crlb() @ rows.T) / raw_error - 1)

    assert np.allclose(bare_crlb(), vn.crlb(network, sanitizers), rtol=1e-6)
    table = []
    for name, ours, bare in (
        ("crlb", lambda: vn.crlb(network, sanitizers), bare_crlb),
        ("privacy", lambda: vn.privacy(network, sanitizers), bare_privacy),
    ):
        for sanitizer in sanitizers.values():
            _ = sanitizer.normal  # computed once per sanitizer, as in a plan
        result = compare(ours, bare, turns=15 if readings < 500 else 5)
        table.append(_row(f"{name}, N = {readings}, S = {agents}", result))
    return table


def many_agents(agents: int = 100_000, size: int = 4, length: int = 32) -> list[list[str]]:
    rng = np.random.default_rng(1)
    observe = rng.standard_normal((agents, size, length))
    roots = 0.3 * rng.standard_normal((agents, size, size)) + np.eye(size)
    noise = roots @ np.swapaxes(roots, 1, 2)
    public, private = rng.standard_normal((2, length)), rng.standard_normal((3, length))

    def bare() -> Array:
        weighted = np.linalg.solve(noise, observe)
        information = observe.reshape(-1, length).T @ weighted.reshape(-1, length)
        return np.asarray(np.linalg.inv(information))

    def ours() -> Array:
        # A new network each time: its bounds are remembered, and remembering is not computing.
        network = vn.Network(observe, noise, public, {"g": private}, agents=names)
        return vn.crlb(network)

    names = [f"m{k}" for k in range(agents)]
    assert np.allclose(bare(), ours(), rtol=1e-8)
    tracemalloc.start()
    ours()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    built = compare(ours, bare, turns=3)
    network = vn.Network(observe, noise, public, {"g": private}, agents=names)

    def bounds_only() -> Array:
        for name in ("white_observe", "raw_triangle"):
            network.__dict__.pop(name, None)
        return vn.crlb(network)

    bound = compare(bounds_only, bare, turns=5)
    inputs = (observe.nbytes + noise.nbytes) / 1e6
    return [
        _row(f"crlb, {agents:,} agents x {size}, L = {length}", bound),
        _row("... with building and checking the network", built),
        [
            "... peak memory over inputs",
            f"{peak / 1e6:.0f} MB",
            f"{inputs:.0f} MB",
            f"{peak / 1e6 / inputs:.2f}",
        ],
    ]


def _row(what: str, result: Comparison) -> list[str]:
    return [what, f"{1e3 * result.subject:.3g} ms", f"{1e3 * result.reference:.3g} ms", f"{result.ratio:.2f}"]


def table() -> str:
    """The whole table."""
    rows = joint_rows(72, 9) + joint_rows(72, 24) + joint_rows(2000, 50) + many_agents()
    return markdown(["what", "veilnet", "bare lines", "ratio"], rows)


if __name__ == "__main__":
    print(table())
