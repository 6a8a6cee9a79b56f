"""A real scheduler and real worker processes: the same bits as here, also when a worker is killed in the middle."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

import veilnet as vn
from helpers.tiny_paper import TINY
from veilnet import cli, cluster
from veilnet.cli import parts as parts_commands
from veilnet.cli import reproduce
from veilnet.cluster import parts as parts_module
from veilnet.cluster import running, searching
from veilnet.designs.many import Effort
from veilnet.paper import runs

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore")

PARTS = 12


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    settings = {
        # A worker may be killed as often as the tests like without a task being blamed for it.
        "distributed.scheduler.allowed-failures": 50,
        # One that takes its place may start slowly on a busy machine: after 15 s it would be given up for good.
        "distributed.deploy.lost-worker-timeout": "600s",
        "distributed.comm.timeouts.connect": "120s",
        "distributed.comm.timeouts.tcp": "120s",
    }
    with (
        pytest.MonkeyPatch.context() as patch,
        dask.config.set(settings),
        cluster.local_cluster(2) as client,
    ):
        patch.setattr(parts_module, "AGENTS_PER_TASK", 20)
        yield client


@pytest.fixture(scope="module")
def network(client: Any, tmp_path_factory: pytest.TempPathFactory) -> cluster.Parts:
    assert client.status == "running"
    return in_parts(tmp_path_factory.mktemp("cluster") / "network", PARTS)


def in_parts(folder: Path, parts: int) -> cluster.Parts:
    rng = np.random.default_rng(5)
    stacks = [
        (rng.standard_normal((20, 3, 4)), (0.5 + rng.random((20, 1, 1))) * np.eye(3)) for _ in range(parts)
    ]
    rows = rng.standard_normal((2, 4))
    return cluster.save_parts(folder, stacks, rows[:1], {"g": rows[1]}, vn.Prior(np.eye(4)))


@pytest.fixture(scope="module")
def here(network: cluster.Parts) -> dict[str, bytes]:
    """What a design without any cluster finds, to the last bit."""
    return fingerprint(network, cluster.design(network))


def fingerprint(network: cluster.Parts, plan: cluster.PartsPlan) -> dict[str, bytes]:
    """Every array of every part of the plan, and the figures."""
    found = {"privacy": np.array([plan.utility, *plan.privacy.values()]).tobytes()}
    for part in network.parts:
        with np.load(network.folder / "plan" / part.name) as archive:
            found |= {f"{part.name}/{name}": archive[name].tobytes() for name in archive.files}
    return found


def anew(network: cluster.Parts) -> None:
    """No plan, and nobody who still writes one: a task that was given up runs to its end."""
    quiet = 0
    while quiet < 4:
        quiet = 0 if (network.folder / "plan").exists() else quiet + 1
        shutil.rmtree(network.folder / "plan", ignore_errors=True)
        time.sleep(0.1)


def processes(client: Any) -> dict[str, int]:
    return dict(client.run(os.getpid))


def wait_for_workers(client: Any, count: int = 2, patience: float = 600.0) -> dict[str, int]:
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            found = processes(client)
        except (OSError, KeyError, ValueError):
            found = {}
        if len(found) == count:
            return found
        time.sleep(0.1)
    raise AssertionError("workers did not come back")


def test_the_cluster_finds_what_is_found_here(
    client: Any, network: cluster.Parts, here: dict[str, bytes]
) -> None:
    anew(network)
    told: list[tuple[str, float]] = []
    plan = cluster.design(network, client=client, progress=lambda what, part: told.append((what, part)))
    assert fingerprint(network, plan) == here
    assert plan.computed == tuple(part.name for part in network.parts)
    assert told[-1] == ("designing", 1.0)
    assert len(told) == 2 * (PARTS + 1)  # at once, and after each batch
    there, alone = cluster.verify(network, client=client), cluster.verify(network)
    assert there == alone
    assert there.ok


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.2 is no address of this machine")
def test_a_cluster_started_here_shows_its_dashboard_to_this_machine_only(client: Any) -> None:
    """Who listens to everybody answers at every address of the machine, and so at 127.0.0.2 as well."""
    port = urlsplit(client.dashboard_link).port
    with socket.create_connection(("127.0.0.1", port), timeout=10):
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=10)


def test_a_worker_killed_in_the_middle_changes_no_bit_and_is_said(
    client: Any, network: cluster.Parts, here: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_PATIENCE", 0.0)
    for when in ("adding up", "designing"):
        anew(network)
        told: list[str] = []
        victim = min(wait_for_workers(client).values())
        killed: list[int] = []

        def kill(
            what: str, part: float, *, when: str = when, victim: int = victim, killed: list[int] = killed,
            told: list[str] = told,
        ) -> None:  # fmt: skip
            told.append(what)
            if what == when and part < 0.5 and not killed:
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)

        plan = cluster.design(network, client=client, progress=kill)
        assert killed == [victim]
        assert f"{when}: 1 worker{running.LOST}" in told
        assert fingerprint(network, plan) == here
        assert victim not in wait_for_workers(client).values()


@pytest.mark.parametrize(
    ("asked", "passing"),
    [
        pytest.param({"utility_loss": 0.03, "starts": 1}, "passes over all agents", marks=pytest.mark.long),
        ({"power": 2.0}, "closing the gap"),
    ],
)
def test_a_worker_killed_in_a_search_changes_no_bit(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], passing: str
) -> None:
    """A trade-off and limited noise: with no worker, with two, and with one killed while all agents are asked."""
    network = in_parts(tmp_path / "network", 4)  # every pass goes over all of them, and there are many passes
    monkeypatch.setattr(searching, "EFFORT", Effort(first=6, steps=2, rounds=1, last=4))
    found = []
    for place in ("here", "two", "one killed"):
        anew(network)
        killed: list[int] = []
        victim = min(wait_for_workers(client).values())

        def kill(
            what: str, _: float, *, place: str = place, victim: int = victim, killed: list[int] = killed
        ) -> None:
            if place == "one killed" and what.startswith(passing) and not killed:
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)

        plan = cluster.design(network, **asked, client=None if place == "here" else client, progress=kill)
        assert bool(killed) == (place == "one killed")
        assert -0.03 <= plan.utility <= 0
        assert plan.privacy["g"] > 0.01
        found.append(fingerprint(network, plan))
    assert found[0] == found[1] == found[2]
    assert cluster.verify(network, client=client).ok


@pytest.mark.long
def test_a_worker_killed_while_messages_are_fused_changes_no_bit(
    client: Any, network: cluster.Parts, tmp_path: Path
) -> None:
    """Sanitized and fused with no worker, with two, and with one of them killed; agents and a part are missing."""
    cluster.design(network)
    (tmp_path / "readings").mkdir()
    for number, part in enumerate(network.parts[1:]):
        readings = np.random.default_rng([6, number]).standard_normal((5, part.agents, 3))
        readings[2, number] = np.nan
        np.savez(tmp_path / "readings" / part.name, readings=readings)
    found = []
    for place in ("here", "two", "one killed"):
        killed: list[int] = []
        victim = min(wait_for_workers(client).values())

        def kill(
            what: str, part: float, *, place: str = place, victim: int = victim, killed: list[int] = killed
        ) -> None:
            if place == "one killed" and what == "fusing" and part < 0.5 and not killed:
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)

        there = None if place == "here" else client
        messages = tmp_path / place
        cluster.sanitize(network, tmp_path / "readings", messages, seed=1, client=there)
        estimate = cluster.fuse(network, messages, client=there, progress=kill)
        assert bool(killed) == (place == "one killed")
        assert [len(each) for each in estimate.missing] == [20, 20, 31, 20, 20]
        sent = [np.load(messages / part.name)["sent"].tobytes() for part in network.parts[1:]]
        found.append((estimate.public.tobytes(), estimate.covariance.tobytes(), sent))
    assert found[0] == found[1] == found[2]
    damaged = tmp_path / "two" / "part-00004.npz"
    damaged.write_bytes(damaged.read_bytes()[:500])
    with pytest.raises(vn.VeilnetError, match=r"part-00004\.npz: .*damaged"):
        cluster.fuse(network, tmp_path / "two", client=client)
    (tmp_path / "full").write_text("in the way")
    with pytest.raises(vn.InvalidRequest, match="full cannot be made"):
        cluster.sanitize(network, tmp_path / "readings", tmp_path / "full", client=client)


def test_the_cluster_audits_as_is_done_here(client: Any, network: cluster.Parts) -> None:
    wait_for_workers(client)
    cluster.design(network)
    alone, there = (cluster.audit(network, rows=50, seed=4, client=each) for each in (None, client))
    assert alone.ok
    assert alone.rows == there.rows  # every figure, to the last bit


def test_a_damaged_part_stops_the_run_and_keeps_the_rest(
    client: Any, network: cluster.Parts, here: dict[str, bytes]
) -> None:
    wait_for_workers(client)
    anew(network)
    damaged = network.folder / "part-00004.npz"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[: len(whole) // 2])
    try:
        with pytest.raises(vn.InvalidNetwork, match=r"part-00004\.npz: .*damaged"):
            cluster.design(network, client=client)
    finally:
        damaged.write_bytes(whole)
    plan = cluster.design(network, client=client)
    assert fingerprint(network, plan) == here
    for name in ("part-00002.npz", "part-00007.npz"):
        (network.folder / "plan" / name).unlink()
    again = cluster.design(network, client=client)
    assert again.computed == ("part-00002.npz", "part-00007.npz")
    assert fingerprint(network, again) == here


def test_a_disk_that_takes_nothing_is_told(client: Any, network: cluster.Parts) -> None:
    wait_for_workers(client)
    anew(network)
    (network.folder / "plan").write_text("in the way")
    try:
        with pytest.raises(vn.InvalidRequest, match=r"plan/begun/part-000\d\d\.npz: cannot be written"):
            cluster.design(network, client=client)
    finally:
        (network.folder / "plan").unlink()


def test_the_command_line_goes_to_the_scheduler(
    client: Any, network: cluster.Parts, capsys: pytest.CaptureFixture[str]
) -> None:
    wait_for_workers(client)
    anew(network)
    address = client.scheduler.address
    assert cli.run(["parts", "design", str(network.folder), "--cluster", address, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parts_worked_on"] == PARTS
    assert cli.run(["parts", "verify", str(network.folder), "--cluster", address]) == 0


def test_the_demo_plays_on_a_cluster(
    client: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wait_for_workers(client)
    for name, value in (("_DEMO_PARTS", 3), ("_DEMO_AGENTS", 50)):
        monkeypatch.setattr(parts_commands, name, value)
    assert cli.run(["parts", "demo", "--cluster", client.scheduler.address, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["agents"], told["parts"], told["verified"]) == (150, 3, True)
    assert told["dashboard"].startswith("http://")
    assert cli.run(["parts", "demo", "--cluster", client.scheduler.address]) == 0
    shown = capsys.readouterr().out
    assert "2 worker processes" in shown
    assert "every promise confirmed" in shown


def test_the_paper_s_draws_are_the_same_on_a_cluster(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_for_workers(client)
    joblib = pytest.importorskip("joblib")
    one = replace(TINY, draws=2)
    monkeypatch.setattr(runs, "draw_figure", lambda *_: None)  # pictures are tested elsewhere
    runs.reproduce(["fig1"], one, tmp_path / "here", jobs=1)
    with joblib.parallel_config("dask", client=client):
        runs.reproduce(["fig1"], one, tmp_path / "there")
    found = [(tmp_path / place / "fig1.csv").read_bytes() for place in ("here", "there")]
    assert found[0] == found[1]
    with pytest.raises(vn.InvalidRequest, match="the cluster decides"):
        reproduce.command(jobs=2, cluster="local")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense://x"])
def test_a_scheduler_that_does_not_answer_is_told(address: str) -> None:
    with (
        pytest.raises(vn.InvalidRequest, match=rf"no scheduler answers at {address} within 0\.5 s"),
        cluster.connect(address, timeout=0.5),
    ):
        raise AssertionError("connected to nothing")


def dying(_part: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.long
@pytest.mark.slow
def test_workers_that_die_again_and_again_are_said(network: cluster.Parts) -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        with (
            dask.config.set({"distributed.scheduler.allowed-failures": 0}),
            cluster.local_cluster(1) as client,
            pytest.raises(
                vn.InvalidRequest, match=r"workers died again and again at dying-part-000\d\d\.npz"
            ),
        ):
            running.over_parts(dying, network, client=client)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.mark.long
def test_workers_that_die_at_random_change_no_bit(
    client: Any, network: cluster.Parts, here: dict[str, bytes]
) -> None:
    async def curse(dask_worker: Any) -> None:  # the workers there are, and not those that take their places
        from distributed.chaos import KillWorker

        await dask_worker.plugin_add(KillWorker(delay="500 ms", mode="segfault"), name="chaos")

    before = set(wait_for_workers(client).values())
    client.run(curse)
    end = time.monotonic() + 600
    while before & set(wait_for_workers(client).values()) and time.monotonic() < end:
        anew(network)
        assert fingerprint(network, cluster.design(network, client=client)) == here
    assert not before & set(wait_for_workers(client).values())  # every one of them died
    anew(network)
    assert fingerprint(network, cluster.design(network, client=client)) == here
