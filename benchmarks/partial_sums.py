"""Estimates from the same messages by the live centre, by sums of parts in a plain loop, and on Bytewax.

    pip install bytewax==0.21.1
    python benchmarks/partial_sums.py [--agents 200] [--epochs 200]

Messages a CPU second of each, one process and one thread. The centre checks a seal and commits each message to its
store; the others trust a file of JSON lines. All have to give the same estimates. Without Bytewax it is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

import veilnet as vn  # noqa: E402
from live_load import TOPICS, prepare  # noqa: E402
from veilnet.adapters.partial_sums import estimate_from, partial_sum  # noqa: E402
from veilnet.live.centre import Centre  # noqa: E402
from veilnet.live.centre_store import CentreStore  # noqa: E402
from veilnet.live.keys import KeyFolder  # noqa: E402
from veilnet.live.messages import Message  # noqa: E402
from veilnet.live.seals import centre_seals  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

Messages = list[tuple[int, str, np.ndarray]]  # epoch, agent, numbers
Estimates = dict[int, float]


def by_centre(folder: Path, fusion: vn.Fusion, messages: Messages) -> Callable[[], Estimates]:
    """As ``veilnet center`` does, epoch after epoch, without a broker."""
    seals = centre_seals(KeyFolder(folder / "keys").centre, fusion.model.agents)
    arrived: dict[int, list[tuple[str, bytes]]] = {}
    for epoch, agent, values in messages:
        message = Message(fusion.model.plan[:16], agent, bytes(8), epoch, epoch, values=values.tobytes())
        arrived.setdefault(epoch, []).append((TOPICS.messages(agent), seals[agent].message(message)))
    path = folder / "plan" / "center.json"

    def run() -> Estimates:
        with CentreStore(folder / "estimates.sqlite") as store:
            centre = Centre(store, seals, TOPICS, gate=None)
            centre.take_up(path.read_bytes(), path)
            taken = [each for batch in arrived.values() for each in centre.take(batch).estimates]
            return {each.epoch: float(each.estimate.public[0]) for each in taken}

    return run


def by_loop(folder: Path, fusion: vn.Fusion) -> Callable[[], Estimates]:
    """A dictionary of sums."""

    def run() -> Estimates:
        sums = {}
        for line in (folder / "sent.jsonl").open():
            message = json.loads(line)
            part = partial_sum(fusion, {message["agent"]: np.array(message["sent"])})
            before = sums.get(message["epoch"])
            sums[message["epoch"]] = part if before is None else before + part
        return {epoch: float(estimate_from(fusion, total)[0][0]) for epoch, total in sums.items()}

    return run


def by_bytewax(folder: Path) -> Callable[[], Estimates]:
    """The example, with its lines in a list."""
    from bytewax.testing import TestingSink, run_main
    from bytewax_estimates import flow

    def run() -> Estimates:
        shown: list[str] = []
        run_main(flow(str(folder / "plan/center.json"), str(folder / "sent.jsonl"), TestingSink(shown)))
        found = [re.fullmatch(r"epoch (\d+): (\{.*\})", line) for line in shown]
        return {int(each[1]): next(iter(json.loads(each[2])["estimates"].values())) for each in found if each}

    return run


def main() -> None:
    """Measure, and compare the estimates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=200)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="veilnet-sums-") as name:
        folder = Path(name)
        prepare(folder, options.agents)
        fusion = vn.Fusion.load(folder / "plan" / "center.json")
        messages: Messages = [
            (epoch, agent, rng.normal(0, 1, size))
            for epoch in range(1, options.epochs + 1)
            for agent, size in fusion.sent.items()
        ]
        with (folder / "sent.jsonl").open("w") as file:
            for epoch, agent, values in messages:
                file.write(json.dumps({"epoch": epoch, "agent": agent, "sent": values.tolist()}) + "\n")
        ways = {
            "live centre": by_centre(folder, fusion, messages),
            "sums in a loop": by_loop(folder, fusion),
        }
        try:
            ways["sums on Bytewax"] = by_bytewax(folder)
        except ModuleNotFoundError as error:
            print(f"Without Bytewax: {error}; pip install bytewax==0.21.1")
        print(
            "| way | messages per CPU second | farthest from the centre's, in its own size |\n|---|---|---|"
        )
        expected: Estimates = {}
        for way, run in ways.items():
            began = time.process_time()
            found = run()
            took = time.process_time() - began
            expected = expected or found
            off = max(abs(found[epoch] / each - 1) for epoch, each in expected.items())
            print(f"| {way} | {len(messages) / took:.0f} | {off:.1e} |", flush=True)
            if found.keys() != expected.keys() or off > 1e-9:
                sys.exit(f"{way}: other estimates than the centre's")


if __name__ == "__main__":
    main()
