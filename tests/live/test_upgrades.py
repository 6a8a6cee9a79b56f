"""A network is upgraded party by party while it runs, in either order, from what the version before made.

The version before is what its wheel holds, from the history of the repository.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.brokers import PATIENCE, eventually, require_mosquitto
from helpers.machine import skip_or_fail
from helpers.small_network import small_network
from veilnet.cli._mosquitto import Broker
from veilnet.live.broker import BrokerPlan
from veilnet.live.centre_store import CentreStore
from veilnet.live.keys import KeyFolder
from veilnet.live.status import read_status

ROOT = Path(__file__).resolve().parents[2]
BEFORE = "14f273f0"  # until there is a release: networks ran by it
NOW = Path(vn.__file__).parents[1]


def version_before(folder: Path) -> Path:
    """The folder of its packages."""
    packed = subprocess.run(["git", "archive", BEFORE, "src"], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode != 0:
        skip_or_fail("the history of the repository is not here (git fetch --unshallow)")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


class Party:
    """A command of veilnet, run by one version after another."""

    def __init__(self, log: Path, *arguments: object) -> None:
        self._log, self._arguments = log, arguments
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, version: Path, *more: str) -> Party:
        self.end(signal=True)
        with self._log.open("ab") as words:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "veilnet", *map(str, self._arguments), *more],
                stdin=subprocess.DEVNULL, stdout=words, stderr=words,
                env=os.environ | {"PYTHONPATH": str(version), "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        return self

    def end(self, *, signal: bool) -> None:
        if self._process is not None:
            if signal:
                self._process.terminate()
            assert self._process.wait(PATIENCE) == 0, self._log.read_text()[-2000:]
            self._process = None


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("first", ["centre", "agents"])
def test_parties_of_two_versions_lose_double_and_change_nothing(tmp_path: Path, first: str) -> None:
    require_mosquitto()
    before, log = version_before(tmp_path / "before"), tmp_path / "log.txt"
    network, out = small_network(), tmp_path / "estimates.sqlite"
    network.save(tmp_path / "network.toml")
    formats = (before / "veilnet/io/_formats.py").read_text(encoding="utf-8")
    (known,) = re.findall('^NETWORK = "(.+)"', formats, flags=re.MULTILINE)
    _, _, fields = (tmp_path / "network.toml").read_text(encoding="utf-8").partition("\n")
    (tmp_path / "network.toml").write_text(f'format = "{known}"\n{fields}', encoding="utf-8")
    plan, keys = tmp_path / "plan", KeyFolder(tmp_path / "keys")
    Party(log, "design", tmp_path / "network.toml", "--out", plan).start(before).end(signal=False)
    Party(log, "live", "keys", plan, "--out", keys.folder).start(before).end(signal=False)
    files = {agent: tmp_path / f"{agent}.csv" for agent in network.agents}
    for path in files.values():
        path.write_text("row,a,b\n")
    rng = np.random.default_rng(0)
    with Broker(keys.broker, BrokerPlan(network.agents)) as broker:
        address = ("--broker", broker.address)
        certificate = ("--cert", keys.centre.folder)
        centre = Party(log, "center", plan / "center.json", *address, *certificate, "--out", out)
        agents = [
            Party(
                log, "agent", plan / f"{agent}.json", *address, "--cert", keys.agent(agent).folder, "--in", path,
                "--follow",
            )
            for agent, path in files.items()
        ]  # fmt: skip
        by_turns = [[], [centre], agents] if first == "centre" else [[], agents, [centre]]
        try:
            centre.start(before)
            for agent in agents:
                agent.start(before, "--begin")
            for turn, upgraded in enumerate(by_turns):
                for party in upgraded:
                    party.start(NOW)
                for row in range(3 * turn + 1, 3 * turn + 4):
                    for path in files.values():
                        with path.open("a") as file:
                            file.write(f"{row},{rng.normal():.3f},{rng.normal():.3f}\n")
                assert eventually(lambda: out.exists() and read_status(out).epochs == row), log.read_text()  # noqa: B023
        finally:
            for party in (*agents, centre):
                party.end(signal=True)
    counted = [(each.messages, each.missed, each.refused) for each in read_status(out).agents]
    assert counted == [(9, 0, 0)] * len(agents), log.read_text()
    fusion = vn.Fusion.load(plan / "center.json")
    with CentreStore(out) as store:
        found = store.latest(1, 9)
        assert [(epoch, revision) for epoch, _, revision, *_ in found] == [
            (epoch, 0) for epoch in range(1, 10)
        ]
        for epoch, _, _, public, *_ in found:
            sent = {
                agent: values
                for agent, (_, values) in store.reports([1], epoch).items()
                if values is not None
            }
            assert public.tobytes() == fusion.estimate(sent).public.tobytes()
