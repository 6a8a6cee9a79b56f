"""Some 200 networks with the answers they had: a change of the search is accepted if none is worse.

    python benchmarks/frozen.py                        compare with frozen.json, every family
    python benchmarks/frozen.py structured stacks      some families
    python benchmarks/frozen.py --first 20             some of each, spread over it
    python benchmarks/frozen.py --freeze               write frozen.json anew (only when a defect was mended)

A row is one question to one network: its utility loss, the privacies, the gap where there is one, the CPU time, and
a digest of the plan's sanitizers. A row is *worse* where its objective is, by more than 1e-4 of its size: the loss
for `privacy=`, the least growth of an error for the other questions. Times are CPU seconds, compared family by
family with those frozen, after both were divided by the time of a fixed piece of linear algebra in the same run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before numpy is loaded: CPU times of one thread can be compared

import numpy as np  # noqa: E402
from joblib import Parallel, delayed  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import veilnet as vn  # noqa: E402
from designs.test_invariance import WAYS, written  # noqa: E402
from helpers.many_streams import STREAMS  # noqa: E402
from helpers.paper_networks import paper_network  # noqa: E402
from helpers.stacked_networks import agent_by_agent, stacked_network  # noqa: E402
from helpers.stream_networks import random_stream  # noqa: E402
from helpers.structured_networks import levels_between, structured_network  # noqa: E402
from timing import markdown  # noqa: E402
from veilnet.io.template import house  # noqa: E402

FROZEN = Path(__file__).with_name("frozen.json")
WORSE = 1e-4  # relative to the size of the objective
SLOWER = 1.5  # times the CPU time of a family
# Below this loss a difference is one of rounding: the certificate itself allows as much.
SMALLEST_LOSS = 1e-7


class Case(NamedTuple):
    """One question to one network."""

    family: str
    name: str
    network: Callable[[], vn.Network]
    asked: Callable[[vn.Network], dict[str, Any]]


def middle(part: float) -> Callable[[vn.Network], dict[str, Any]]:
    """A privacy for every parameter, this part of the way from the ceiling to the limit."""

    def asked(network: vn.Network) -> dict[str, Any]:
        low, high = levels_between(network)
        return {"privacy": float((1 + low) * ((1 + min(high, 1e4 * (1 + low))) / (1 + low)) ** part - 1)}

    return asked


def given(**asked: Any) -> Callable[[vn.Network], dict[str, Any]]:
    """The same question whatever the network."""
    return lambda _network: asked


def below(network: vn.Network) -> dict[str, Any]:
    """By noise alone, half of what is free."""
    free = [each for each in vn.check(network).ceiling.values() if np.isfinite(each)]
    return {"method": "noise", "privacy": 0.5 * min(free, default=10.0)}


def cases() -> Iterator[Case]:
    """Every row of the table, family by family."""
    for number in range(0, 180, 3):
        network = lambda number=number: structured_network(number)  # noqa: E731
        asked = middle(0.4) if number % 2 else given(utility_loss=0.05)
        yield Case("structured", f"{number}", network, asked)
    for number in range(1, 60, 6):
        network = lambda number=number: structured_network(number)  # noqa: E731
        yield Case("proved", f"{number}", network, lambda n: middle(0.3)(n) | {"prove": True})
    for name, asked in {
        "perfect": given(), "noise": below, "loss": given(utility_loss=0.05),
        "one": given(privacy={"gait": 12.0}), "all": given(privacy=5.5),
        "worst": given(privacy={"gait": vn.Worst(11.0)}), "power": given(power=1e4),
    }.items():  # fmt: skip
        yield Case("house", name, house, asked)
    for seed, agents, rows, prior in [(1, 9, 1, True), (2, 9, 3, True), (3, 18, 1, False), (4, 18, 3, True),
                                      (5, 12, 2, False), (8, 18, 3, False)]:  # fmt: skip
        network = lambda s=seed, a=agents, r=rows, p=prior: paper_network(s, a, r, p)  # noqa: E731
        yield Case("paper", f"{seed} privacy", network, middle(0.3))
        yield Case("paper", f"{seed} loss", network, given(utility_loss=0.05))
    for seed in range(10):
        network = lambda seed=seed: paper_network(  # noqa: E731
            20 + seed, (9, 18)[seed % 2], 1 + seed % 3, seed % 4 < 2, 1 + seed % 2, independent=seed > 6
        )
        yield Case("power", f"{seed}", network, given(power=(1e2, 1e4)[seed % 2], method="power"))
        yield Case("perfect", f"{seed}", network, given())
        yield Case("noise", f"{seed}", network, below)
    for way in ["as drawn", *WAYS]:
        network = lambda way=way: written(way)  # noqa: E731
        yield Case("written", f"{way}: loss", network, given(utility_loss=0.05))
        yield Case("written", f"{way}: privacy", network, given(privacy=8.0))
    for seed in range(8):
        counts = [[(40, 3)], [(30, 2), (20, 4)], [(60, 3), (5, 1)], [(25, 5)]][seed % 4]
        stacked = lambda seed=seed, counts=counts: stacked_network(  # noqa: E731
            seed, counts, prior=vn.Prior(covariance=np.eye(6)) if seed > 3 else None
        )
        single = lambda stacked=stacked: agent_by_agent(stacked())  # noqa: E731
        for kind, network in {"stacked": stacked, "one by one": single}.items():
            yield Case("stacks", f"{seed} {kind}: perfect", network, given())
        yield Case("stacks", f"{seed}: loss", stacked, given(utility_loss=0.05))
        yield Case("stacks", f"{seed}: power", stacked, given(power=100.0))
    for seed in range(3):
        crowd = lambda seed=seed: stacked_network(  # noqa: E731
            50 + seed, [(2000, 3), (500, 2)], prior=vn.Prior(covariance=np.eye(6))
        )
        if seed == 0:
            yield Case("crowds", f"{seed}: loss", crowd, given(utility_loss=0.05))
        yield Case("crowds", f"{seed}: power", crowd, given(power=100.0))
        yield Case("crowds", f"{seed}: perfect", crowd, given())
    for name, network in STREAMS.items():
        yield Case("streams", name, lambda network=network: network, given())
    for seed in range(18):
        kind = ("white", "coloured", "coloured without floor")[seed % 3]
        network = lambda seed=seed, kind=kind: random_stream(  # noqa: E731
            seed, noise=kind, joint=seed % 2 == 1, public_rows=1 + seed % 2
        )
        yield Case("streams", f"{seed}", network, given())
        if seed < 6:
            yield Case("stream trade-offs", f"{seed}", network, given(utility_loss=0.05))
    yield Case("streams", "house", lambda: house(stream=True), given())


def digest(sanitizers: Any) -> str:
    """Of every agent's compression and noise, to the bit."""
    text = hashlib.blake2b(digest_size=8)
    for agent, sanitizer in sanitizers.items():
        text.update(agent.encode())
        for array in (sanitizer.compression, sanitizer.noise):
            text.update(b"|" if array is None else np.ascontiguousarray(array, float).tobytes())
    return text.hexdigest()


def answer(case: Case) -> dict[str, Any]:
    """One row: what `design` answers, or what it says instead."""
    network = case.network()
    asked = case.asked(network)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            plan = vn.design(network, **asked)
        except vn.VeilnetError as error:
            return {"refused": type(error).__name__, "seconds": time.process_time() - begin}
    seconds = time.process_time() - begin
    loss, least = -float(plan.utility), min(map(float, plan.privacy.values()))
    return {
        "asked": sorted(asked),
        "method": plan.method,
        "loss": loss,
        "privacy": {name: float(value) for name, value in plan.privacy.items()},
        "objective": loss if "privacy" in asked else -float(np.log1p(least)),
        "gap": None if plan.gap is None else float(plan.gap),
        "digest": digest(plan.sanitizers),
        "seconds": seconds,
    }


def worse(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Why this row is not accepted, or nothing."""
    if "refused" in old or "refused" in new:
        same = old.get("refused") == new.get("refused") or "refused" in old
        return "" if same else f"refused ({new['refused']})"
    by = new["objective"] - old["objective"]
    size = max(abs(old["objective"]), SMALLEST_LOSS / WORSE) if "privacy" in old["asked"] else 1.0
    if not by <= WORSE * size and not (np.isinf(old["objective"]) and np.isinf(new["objective"])):
        return f"objective {old['objective']:.8g} -> {new['objective']:.8g}"
    if old["gap"] is not None and (
        new["gap"] is None or new["gap"] > old["gap"] + max(WORSE, 0.01 * old["gap"])
    ):
        return f"gap {old['gap']:.3g} -> {new['gap']}"
    return ""


def reference_seconds() -> float:
    """CPU seconds of a fixed piece of small linear algebra, the kind that designs are made of."""
    matrices = np.random.default_rng(0).standard_normal((2000, 12, 12)) + 12 * np.eye(12)
    times = []
    for _ in range(5):
        begin = time.process_time()
        for matrix in matrices:
            np.linalg.solve(matrix, np.linalg.eigh(matrix + matrix.T)[1])
        times.append(time.process_time() - begin)
    return min(times)


def table(
    frozen: dict[str, Any], rows: dict[str, dict[str, Any]], unit: float
) -> tuple[list[list[str]], bool]:
    """One line a family, and whether everything is accepted."""
    lines, accepted = [], True
    for family in dict.fromkeys(key.split(":")[0] for key in rows):
        keys = [key for key in rows if key.split(":")[0] == family and key in frozen["rows"]]
        old, new = [frozen["rows"][key] for key in keys], [rows[key] for key in keys]
        reasons = {key: worse(a, b) for key, a, b in zip(keys, old, new, strict=True)}
        ratio = sum(b["seconds"] for b in new) / sum(a["seconds"] for a in old) * frozen["unit"] / unit
        bad = [key for key, reason in reasons.items() if reason]
        better = sum(bool(worse(b, a)) for a, b in zip(old, new, strict=True))
        same = sum(a.get("digest") == b.get("digest") for a, b in zip(old, new, strict=True))
        lines.append([family, *map(str, (len(keys), same, better, len(bad))), f"{ratio:.2f}"])
        accepted &= not bad and ratio <= SLOWER
        for key in bad:
            print(f"worse: {key}: {reasons[key]}")
    return lines, accepted


def main() -> None:
    """Ask every question again; compare, or freeze."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*")
    parser.add_argument("--first", type=int, help="so many rows of each family, spread over it")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--freeze", action="store_true", help="write what is found instead of comparing")
    chosen = parser.parse_args()
    by_family: dict[str, list[Case]] = {}
    for case in cases():
        by_family.setdefault(case.family, []).append(case)
    unknown = set(chosen.families) - set(by_family)
    if unknown:
        parser.error(f"no family {sorted(unknown)}; there are {', '.join(by_family)}")
    asked = [
        case
        for family in chosen.families or by_family
        for case in by_family[family][:: -(-len(by_family[family]) // chosen.first) if chosen.first else 1]
    ]
    unit = reference_seconds()
    rows: dict[str, dict[str, Any]] = {}
    # joblib's own pickling would not carry the closures of a case, so a case is asked by its place in the list
    answers = Parallel(n_jobs=chosen.jobs, return_as="generator")(
        delayed(answer_at)(f"{case.family}:{case.name}") for case in asked
    )
    for case, row in zip(asked, answers, strict=True):
        rows[f"{case.family}:{case.name}"] = row
        print(f"\r{len(rows)} of {len(asked)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if chosen.freeze:
        frozen = json.loads(FROZEN.read_text()) if FROZEN.exists() and chosen.families else {"rows": {}}
        frozen = {"unit": unit, "rows": frozen["rows"] | rows}
        FROZEN.write_text(json.dumps(frozen, indent=1) + "\n")
        return
    lines, accepted = table(json.loads(FROZEN.read_text()), rows, unit)
    print(markdown(["family", "rows", "same bits", "better", "worse", "CPU time, times the frozen"], lines))
    sys.exit(not accepted)


def answer_at(key: str) -> dict[str, Any]:
    """The answer to the case of this name."""
    return answer(next(case for case in cases() if f"{case.family}:{case.name}" == key))


if __name__ == "__main__":
    main()
