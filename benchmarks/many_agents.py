"""From a thousand to a million agents: veilnet against a bare batched NumPy script that does the same sums.

    python benchmarks/many_agents.py [--sizes 1000 1000000] [--tradeoff 1000 100000] [--power 1000 100000]
                                     [--seconds 60] [--out FILE] [--picture FILE]

Agents of 4 readings, 32 parameters, 2 public rows. Both are given the arrays, decide whether privacy is free, find
what each agent sends at perfect utility, recompute every promise by other formulas and save the plan with its
network. Every measurement is a process of its own on one thread. Seconds are processor time, so that others on the
machine change them little; memory is the largest resident set above that before the agents were made, so the given
arrays count, as a multiple of those.

The trade-offs, with a prior, ask for twice the free privacy and for what a loss of 10 % buys, by prices that all
agents answer (also at a thousand agents, where design() would search for one matrix per agent; that search is a row
of its own). The time of a pass is that of asking all agents once; a thousand agents are their own sample.
``--seconds`` stops a search when it next reports after so many, as ``progress=`` lets anybody do: the plan is then
the best so far, certified as always. ``--picture`` draws these two tables.

Limited power lets each agent add noise of total variance 100, five times that of its readings, to what is not its
share; no prior. Passes count the one or two that bound what other noise could reach. The smallest network is solved
as one dense problem too, and both have to agree.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"  # before numpy is loaded: one thread for everyone

import numpy as np  # noqa: E402

READINGS, PARAMETERS, PUBLIC, PRIVATE = 4, 32, 2, 2
POWER = 100.0
STOP_AFTER = float(os.environ.get("MANY_AGENTS_STOP_AFTER", "inf"))
AT_ONCE = 2048  # agents of the bare script, which is quickest when its temporaries stay in cache


def instance(agents: int) -> dict[str, Any]:
    """Random agents; arrays as a user would hand them over."""
    rng = np.random.default_rng(17)
    noise = np.empty((agents, READINGS, READINGS))
    for start in range(0, agents, AT_ONCE):
        part = slice(start, start + AT_ONCE)
        root = rng.standard_normal((len(noise[part]), READINGS, READINGS))
        noise[part] = root @ root.transpose(0, 2, 1) + np.eye(READINGS)
    return {
        "observe": rng.standard_normal((agents, READINGS, PARAMETERS)),
        "noise": noise,
        "public": rng.standard_normal((PUBLIC, PARAMETERS)),
        "private": {"g": rng.standard_normal((PRIVATE, PARAMETERS))},
    }


# --- the bare script


def bare(given: dict[str, Any], path: Path) -> dict[str, float]:
    """The same sums in plain NumPy: no names, no checks of the input, no words, no digest of the file."""
    observe, noise, U, G = given["observe"], given["noise"], given["public"], given["private"]["g"]
    agents = len(observe)
    parts = [slice(start, start + AT_ONCE) for start in range(0, agents, AT_ONCE)]
    raw = np.zeros((PARAMETERS, PARAMETERS))
    for part in parts:
        H = observe[part]
        raw += H.reshape(-1, PARAMETERS).T @ np.linalg.solve(noise[part], H).reshape(-1, PARAMETERS)
    weights = np.linalg.solve(raw, U.T)
    sent = np.zeros_like(raw)
    compression = np.empty((agents, PUBLIC, READINGS))
    grid = np.empty((agents, PUBLIC))
    for part in parts:
        H, R = observe[part], noise[part]
        share = np.linalg.solve(R, H @ weights)
        C = np.linalg.svd(share.transpose(0, 2, 1), full_matrices=False)[2]
        M = C @ R @ C.transpose(0, 2, 1)
        F = C @ H
        sent += F.reshape(-1, PARAMETERS).T @ np.linalg.solve(M, F).reshape(-1, PARAMETERS)
        deviation = np.sqrt(np.diagonal(M, axis1=1, axis2=2))
        least = np.linalg.eigvalsh(M / deviation[:, :, None] / deviation[:, None, :])[:, :1]
        compression[part] = C
        grid[part] = np.ldexp(1.0, np.frexp(deviation * np.sqrt(least) * 1.7e-3)[1] - 1)
    again, sent_again = np.zeros_like(raw), np.zeros_like(raw)
    for part in parts:  # the recheck: J and J̃ once more, by Cholesky roots and eigenvectors
        H, R, C = observe[part], noise[part], compression[part]
        W = np.linalg.solve(np.linalg.cholesky(R), H).reshape(-1, PARAMETERS)
        again += W.T @ W
        values, vectors = np.linalg.eigh(C @ R @ C.transpose(0, 2, 1))
        F = (vectors.transpose(0, 2, 1) @ (C @ H) / np.sqrt(values)[:, :, None]).reshape(-1, PARAMETERS)
        sent_again += F.T @ F
    np.savez(path, observe=observe, noise=noise, compression=compression, grid=grid, public=U, private=G)
    return {
        "loss": _error(sent, U) / _error(raw, U) - 1,
        "privacy": _error(sent, G) / _error(raw, G) - 1,
        "privacy again": _error(sent_again, G) / _error(again, G) - 1,
    }


def _error(information: Any, rows: Any) -> float:
    return float(np.trace(rows @ np.linalg.solve(information, rows.T)))


# --- veilnet


def with_veilnet(given: dict[str, Any], path: Path) -> dict[str, float]:
    import veilnet as vn

    steps = Steps()
    network = vn.Network(**given)
    steps.done("build")
    vn.check(network)
    steps.done("check")
    plan = vn.design(network)
    steps.done("design and certificate")
    plan.save(path)
    steps.done("save")
    return {"loss": -plan.utility, "privacy": plan.privacy["g"], **steps.seconds}


def tradeoff(
    given: dict[str, Any], path: Path, *, loss: float | None = None, prices: bool = True
) -> dict[str, float]:
    """Twice the free privacy, or what a loss buys."""
    import veilnet as vn
    from veilnet.designs.many import FormCrowd, curve

    curve.MANY_ENTRIES = 0 if prices else 2**62
    agents = len(given["observe"])
    passes = Passes(agents)
    with passes.counting(FormCrowd, ("ask", "pull"), lambda crowd: crowd.form.blocks.count):
        network = vn.Network(**given, prior=vn.Prior(covariance=np.eye(PARAMETERS)))
        free = vn.check(network).ceiling["g"]
        asked = {"privacy": 2 * free} if loss is None else {"utility_loss": loss}
        began = time.process_time()
        plan = vn.design(
            network,
            **asked,
            starts=None if prices else 1,
            progress=lambda _what, _part: time.process_time() - began < STOP_AFTER,
        )
        seconds = time.process_time() - began
    plan.save(path)
    return {
        "loss": -plan.utility,
        "privacy": plan.privacy["g"],
        "iterations": float(passes.count) if prices else plan.details["iterations"],
        "passing": passes.seconds if prices else seconds,
        "search": seconds,
        "interrupted": float(plan.interrupted),
        "numbers": float(sum(plan.sent.values())) / agents,
    }


def limited_power(given: dict[str, Any], path: Path) -> dict[str, float]:
    """Noise of limited power alone."""
    import veilnet as vn
    from veilnet.designs.power.ascent import AscentSearch

    passes = Passes(len(given["observe"]))
    network = vn.Network(**given)
    with passes.counting(AscentSearch, ("_reach", "_bound"), lambda _: passes.agents):
        began = time.process_time()
        plan = vn.design(network, power=POWER)
        seconds = time.process_time() - began
    plan.save(path)
    return {
        "privacy": sum(plan.privacy.values()),
        "iterations": float(passes.count),
        "passing": passes.seconds,
        "search": seconds,
        "gap": plan.gap,
    }


def limited_power_dense(given: dict[str, Any], path: Path) -> dict[str, float]:
    """The same as one dense problem, as for few readings."""
    from veilnet.designs.power import plan

    plan.MANY_READINGS = 2**62
    return limited_power(given, path)


class Passes:
    """How often all agents were asked, and the processor seconds that took; samples of them do not count."""

    def __init__(self, agents: int) -> None:
        self.agents, self.count, self.seconds = agents, 0, 0.0

    @contextmanager
    def counting(self, crowd: Any, names: tuple[str, ...], agents_of: Callable[[Any], int]) -> Iterator[None]:
        """Count calls of these names, while the block runs, on crowds of all agents."""
        kept = {name: getattr(crowd, name) for name in names}

        def counted(call: Callable[..., Any]) -> Callable[..., Any]:
            def asking(mine: Any, *arguments: Any) -> Any:
                began = time.process_time()
                answer = call(mine, *arguments)
                if agents_of(mine) == self.agents:
                    self.count += 1
                    self.seconds += time.process_time() - began
                return answer

            return asking

        for name, call in kept.items():
            setattr(crowd, name, counted(call))
        try:
            yield
        finally:
            for name, call in kept.items():
                setattr(crowd, name, call)


class Steps:
    """Processor seconds of one step after another."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.process_time()

    def done(self, step: str) -> None:
        now = time.process_time()
        self.seconds[f"{step} seconds"] = now - self._last
        self._last = now


WAYS: dict[str, Callable[[dict[str, Any], Path], dict[str, float]]] = {
    "bare": bare,
    "veilnet": with_veilnet,
    "tradeoff": tradeoff,
    "tradeoff-loss": partial(tradeoff, loss=0.1),
    "tradeoff-each": partial(tradeoff, prices=False),
    "power": limited_power,
    "power-dense": limited_power_dense,
}


# --- measuring


def measure(way: str, agents: int) -> dict[str, float]:
    """One way at one size, in this process: seconds, memory, what was found."""
    with tempfile.TemporaryDirectory() as folder:
        small = instance(40)
        for _ in range(2 if way in ("bare", "veilnet") else 1):  # loads what is loaded when first used
            WAYS[way](small, Path(folder) / "small.npz")
        before = peak(reset=True)
        given = instance(agents)
        bytes_given = given["observe"].nbytes + given["noise"].nbytes
        repeats = max(1, min(5, 20_000 // agents)) if way in ("bare", "veilnet") else 1
        seconds = []
        for _ in range(repeats):
            began = time.process_time()
            found = WAYS[way](given, Path(folder) / "plan.npz")
            seconds.append(time.process_time() - began)
        saved = sum(path.stat().st_size for path in Path(folder).glob("plan.npz"))
    return found | {
        "seconds": min(seconds),
        "given": bytes_given,
        "memory": (peak() - before) / bytes_given,
        "saved": saved / bytes_given,
    }


def peak(*, reset: bool = False) -> float:
    """Bytes of the largest resident set so far, or since it was last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return float(line.split()[1]) * 1024
    raise RuntimeError("no peak of memory in /proc/self/status; this benchmark needs Linux")


def in_process(way: str, agents: int) -> dict[str, float]:
    """The same in a process of its own."""
    arguments = [sys.executable, __file__, "--one", way, str(agents)]
    answer = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(answer))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="*", default=[10**3, 10**4, 10**5, 10**6])
    parser.add_argument("--tradeoff", type=int, nargs="*", default=[10**3, 10**4, 10**5])
    parser.add_argument("--power", type=int, nargs="*", default=[10**3, 10**4, 10**5])
    parser.add_argument("--seconds", type=float, help="stop each search after so much processor time")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--picture", type=Path, help="draw the time per agent as SVG")
    parser.add_argument("--one", nargs=2, metavar=("WAY", "AGENTS"))
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure(chosen.one[0], int(chosen.one[1]))))
        return
    if chosen.seconds is not None:
        os.environ["MANY_AGENTS_STOP_AFTER"] = str(chosen.seconds)
    perfect, curves = perfect_table(chosen.sizes)
    traded, curves["a pass of a trade-off"] = tradeoff_table(chosen.tradeoff)
    lines = [*perfect, "", *traded, "", *power_table(chosen.power)]
    if chosen.picture is not None:
        from curves import drawn

        chosen.picture.write_text(drawn(curves), encoding="utf-8")
    if chosen.out is not None:
        chosen.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def perfect_table(sizes: list[int]) -> tuple[list[str], dict[str, dict[int, float]]]:
    """Perfect utility, row by row as they are measured; the table, and microseconds per agent by way and size."""
    curves: dict[str, dict[int, float]] = {"perfect utility": {}, "bare NumPy script": {}}
    lines = [
        "| agents | build | check | design, certificate | save | veilnet | µs per agent | bare | ratio | memory |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    print("\n".join(lines), flush=True)
    for agents in sizes:
        plain, ours = in_process("bare", agents), in_process("veilnet", agents)
        assert abs(plain["privacy"] - ours["privacy"]) <= 1e-6 * (1 + plain["privacy"]), (plain, ours)
        steps = [ours[f"{step} seconds"] for step in ("build", "check", "design and certificate", "save")]
        row = [
            f"{agents:,}",
            *(f"{each:.3g} s" for each in steps),
            f"{ours['seconds']:.3g} s",
            f"{1e6 * ours['seconds'] / agents:.0f}",
            f"{plain['seconds']:.3g} s",
            f"{ours['seconds'] / plain['seconds']:.2f}",
            f"{ours['memory']:.2f} x",
        ]
        curves["perfect utility"][agents] = 1e6 * ours["seconds"] / agents
        curves["bare NumPy script"][agents] = 1e6 * plain["seconds"] / agents
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], flush=True)
    if sizes:  # of the largest
        for key, cell in (("agents", 0), ("each", 6), ("seconds", 5), ("ratio", 8)):
            print(f"figure {key}: {row[cell]}", flush=True)
    return lines, curves


def tradeoff_table(sizes: list[int]) -> tuple[list[str], dict[int, float]]:
    """Both questions at every size; the table, and microseconds per agent and pass by size."""
    lines = [
        "| agents | asked | search | passes | µs per agent and pass | loss | privacy | numbers per agent | memory |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    print("\n".join(lines), flush=True)
    each: dict[int, float] = {}
    smallest = min(sizes, default=0)
    for agents in sizes:
        ways = {"tradeoff": "2 x what is free", "tradeoff-loss": "loss 10 %"}
        ways |= {"tradeoff-each": "2 x what is free, agent by agent"} if agents == smallest else {}
        for way, words in ways.items():
            found = in_process(way, agents)
            micro = 1e6 * found["passing"] / agents / max(1, found["iterations"])
            if way == "tradeoff":
                each[agents] = micro
            row = [
                f"{agents:,}",
                words,
                f"{found['search']:.3g} s" + (" (stopped)" if found["interrupted"] else ""),
                f"{found['iterations']:.0f}",
                f"{micro:.1f}",
                f"{100 * found['loss']:.4g} %",
                f"{found['privacy']:.5g}",
                f"{found['numbers']:.2f}",
                f"{found['memory']:.2f} x",
            ]
            lines.append(f"| {' | '.join(row)} |")
            print(lines[-1], flush=True)
    return lines, each


def power_table(sizes: list[int]) -> list[str]:
    """Limited noise power at every size, and the smallest as one dense problem too."""
    lines = [
        "| agents | design, certificate | passes | µs per agent and pass | certified gap | privacy | as one dense "
        "problem, gap | memory |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    print("\n".join(lines), flush=True)
    smallest = min(sizes, default=0)
    for agents in sizes:
        found = in_process("power", agents)
        dense = "too large"
        if agents == smallest and agents * READINGS <= 20_000:
            other = in_process("power-dense", agents)
            assert abs(other["privacy"] / found["privacy"] - 1) <= 1e-6 + found["gap"] + other["gap"], (
                found,
                other,
            )
            dense = f"{other['search']:.3g} s, {other['gap']:.0e}"
        row = [
            f"{agents:,}",
            f"{found['search']:.3g} s",
            f"{found['iterations']:.0f}",
            f"{1e6 * found['passing'] / agents / found['iterations']:.1f}",
            f"{found['gap']:.0e}",
            f"{found['privacy']:.7g}",
            dense,
            f"{found['memory']:.2f} x",
        ]
        lines.append(f"| {' | '.join(row)} |")
        print(lines[-1], flush=True)
    return lines


if __name__ == "__main__":
    main()
