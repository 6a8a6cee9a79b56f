"""Streams of a thousand to a hundred thousand agents: designed, certified, saved, loaded, taken apart and fused.

    python benchmarks/many_streams.py [--sizes 1000 100000] [--rows 50]

Agents of 4 readings, 8 parameters, 2 public rows, white noise that grows with the number of agents, so that what all
of them tell stays the same and memories matter. Every size is a process of its own on one thread. Seconds are
processor time, so that others on the machine change them little; memory is the largest resident set above that before
the agents were made, up to the extracting, as a multiple of the arrays that were given. Fusing takes rows of messages
as one array, one of them without a hundredth of the agents; estimates are compared with those of a filter of raw
readings.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from many_agents import Steps, peak  # sets one thread before numpy is loaded

import numpy as np  # isort: skip

READINGS, PARAMETERS, PUBLIC, PRIVATE = 4, 8, 2, 2
STEPS = ("build", "check", "design and certificate", "save", "load", "extract", "fuse")


def instance(agents: int) -> dict[str, Any]:
    """Random agents on one random stream; arrays as a user would hand them over."""
    rng = np.random.default_rng(17)
    moves = rng.standard_normal((PARAMETERS, PARAMETERS))
    noise = np.empty((agents, READINGS, READINGS))
    root = rng.standard_normal((agents, READINGS, READINGS))
    np.matmul(root, root.transpose(0, 2, 1), out=noise)
    noise += np.eye(READINGS)
    noise *= agents
    return {
        "observe": rng.standard_normal((agents, READINGS, PARAMETERS)),
        "noise": noise,
        "public": rng.standard_normal((PUBLIC, PARAMETERS)),
        "private": {"g": rng.standard_normal((PRIVATE, PARAMETERS))},
        "transition": moves * (0.9 / np.max(np.abs(np.linalg.eigvals(moves)))),
    }


def run(given: dict[str, Any], folder: Path, rows: int) -> dict[str, float]:
    """One size, step by step; processor seconds of each."""
    import veilnet as vn
    from veilnet.io.plan_archives import Archive

    given = dict(given)
    dynamics = vn.Dynamics(given.pop("transition"), np.eye(PARAMETERS))
    steps = Steps()
    network = vn.Network(**given, dynamics=dynamics)
    steps.done("build")
    ceiling = vn.check(network).ceiling["g"]
    steps.done("check")
    plan = vn.design(network)
    steps.done("design and certificate")
    plan.save(folder / "plan.npz", force=True)
    steps.done("save")
    plan = vn.Plan.load(folder / "plan.npz")
    steps.done("load")
    name = network.agents[network.S // 2]
    Archive.read(folder / "plan.npz").agent_file(name)
    steps.done("extract")
    largest = peak()
    assert ceiling == plan.privacy["g"]
    sent, best = messages(network, plan, rows)
    steps.done("simulate")
    fusion = vn.Fusion(plan)
    found = fusion.estimate(sent)
    gaps = sent.copy()
    counts = np.cumsum([0, *plan.sent.values()])
    gaps[-1, : counts[network.S // 100]] = np.nan
    partly = fusion.estimate(gaps[:rows])
    steps.done("fuse")
    settled = slice(rows // 2, None)
    return {
        "privacy": plan.privacy["g"],
        "largest": largest,
        "kept": float(sum(plan.kept.values())) / network.S,
        "off": float(np.max(np.abs(found.public[settled] - best[settled])) / np.std(best)),
        "grown": float(np.trace(partly.covariance[-1]) / np.trace(found.covariance[-1])),
        **steps.seconds,
    }


def messages(network: Any, plan: Any, rows: int) -> tuple[Any, Any]:
    """(what all agents send of random readings, before their grids; the estimate of the filter of raw readings)."""
    rng = np.random.default_rng(3)
    stacks, blocks = plan.sanitizers.stacks, network.blocks
    readings = rng.standard_normal((rows, network.N)) * np.sqrt(network.R.variances())
    sent = np.empty((rows, int(plan.sanitizers.sent.sum())))
    starts = np.concatenate([[0], np.cumsum(plan.sanitizers.sent)[:-1]])
    for stack in stacks:
        mine = readings[:, blocks.starts[stack.places][:, None] + np.arange(stack.readings)]
        to = starts[stack.places][:, None] + np.arange(stack.sent)
        memory = np.zeros((stack.count, stack.order, 1))
        for t in range(rows):
            row = mine[t][:, :, None]
            if stack.order:
                memory = stack.transition @ memory + stack.gain @ row
            sent[t, to] = (stack.compression @ np.concatenate([memory, row], axis=1))[:, :, 0]
    information = np.zeros((PARAMETERS, PARAMETERS))
    told = np.zeros((rows, PARAMETERS))
    for group in blocks.groups:
        observe = group.take(network.H)
        weighed = np.linalg.solve(network.R.stack(group), observe)
        information += np.einsum("inl,inm->lm", observe, weighed)
        told += readings[:, group.rows.reshape(-1)] @ weighed.reshape(-1, PARAMETERS)
    moves, error = network.dynamics.transition, network.dynamics.stationary
    for _ in range(500):
        ahead = moves @ error @ moves.T + network.dynamics.noise
        error = np.linalg.inv(np.linalg.inv(ahead) + information)
    x, found = np.zeros(PARAMETERS), []
    for row in told:
        x = moves @ x
        x = x + error @ (row - information @ x)
        found.append(network.U @ x)
    return sent, np.array(found)


def measure(agents: int, rows: int) -> dict[str, float]:
    """One size, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        run(instance(200), Path(folder), rows)  # loads what is loaded when first used
        before = peak(reset=True)
        given = instance(agents)
        bytes_given = given["observe"].nbytes + given["noise"].nbytes
        found = run(given, Path(folder), rows)
        saved = (Path(folder) / "plan.npz").stat().st_size
    return found | {"memory": (found["largest"] - before) / bytes_given, "saved": saved / bytes_given}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="*", default=[10**3, 10**4, 10**5])
    parser.add_argument("--rows", type=int, default=50)
    parser.add_argument("--one", type=int, metavar="AGENTS")
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure(chosen.one, chosen.rows)))
        return
    print(f"| agents | {' | '.join(STEPS)} | µs per agent | kept | off by | with gaps | memory |")
    print(f"|---:|{'---:|' * len(STEPS)}---:|---:|---:|---:|---:|", flush=True)
    for agents in chosen.sizes:
        began = time.monotonic()
        arguments = [sys.executable, __file__, "--one", str(agents), "--rows", str(chosen.rows)]
        answer = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
        found = dict(json.loads(answer))
        seconds = [found[f"{step} seconds"] for step in STEPS]
        row = [
            f"{agents:,}",
            *(f"{each:.3g} s" for each in seconds),
            f"{1e6 * sum(seconds[1:4]) / agents:.0f}",
            f"{found['kept']:.2f}",
            f"{found['off']:.1e}",
            f"{found['grown']:.3f}",
            f"{found['memory']:.2f} x",
        ]
        print(f"| {' | '.join(row)} |", flush=True)
        print(f"{agents:,} agents: {time.monotonic() - began:.0f} s", file=sys.stderr)
    for key, cell in (("agents", 0), ("each", len(STEPS) + 1)):  # of the largest
        print(f"figure {key}: {row[cell]}", flush=True)


if __name__ == "__main__":
    main()
