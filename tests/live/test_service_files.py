"""The examples for real machines are well-formed, and call commands and options that exist."""

from __future__ import annotations

import configparser
import getpass
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import veilnet as vn
from helpers.brokers import PATIENCE, eventually, require_mosquitto
from veilnet.cli import VERBS, _options, live, run
from veilnet.cli._mosquitto import find_mosquitto, free_port
from veilnet.live.status import agent_status, read_status

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "live"
UNITS = sorted(EXAMPLES.glob("*.service"))


def options_of(verb: str, group: str = "") -> set[str]:
    """All options of a command."""
    if not group:
        return set(_options.options_of(verb).values())
    return set(_options.options_of_command(live.commands[verb]).values())


def check(words: list[str]) -> str:
    """The verb of a command line whose options are all known; an assertion otherwise."""
    verb, rest = words[0], words[1:]
    group = ""
    if verb == "live":
        group, verb, rest = "live", rest[0], rest[1:]
    assert (group or verb) in VERBS
    known = options_of(verb, group)
    given = {word.partition("=")[0] for word in rest if word.startswith("--")}
    assert given <= known, f"{verb}: {sorted(given - known)}"
    return verb


def unit(path: Path) -> configparser.ConfigParser:
    found = configparser.ConfigParser(strict=True, interpolation=None, delimiters=("=",))
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(path.read_text())
    return found


def test_there_is_a_unit_for_every_party() -> None:
    assert [path.name for path in UNITS] == [
        "veilnet-agent@.service",
        "veilnet-broker.service",
        "veilnet-center.service",
    ]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_run_what_exists_and_are_confined(path: Path) -> None:
    read = unit(path)
    service = read["Service"]
    assert {service[name] for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "Restart")} == {
        "yes",
        "always",
    }
    assert service["UMask"] == "0077"
    assert service["User"] != "root"
    command = service["ExecStart"]
    if "mosquitto" in command:
        assert command.endswith("mosquitto -c /etc/veilnet/broker/mosquitto.conf")
        return
    line = command.partition("veilnet ")[2].rstrip("'") if command.startswith("/usr/bin/env") else command
    line = line.rpartition("exec veilnet ")[2].rstrip("'") if "exec veilnet " in line else line
    assert check(shlex.split(line)) in ("agent", "center")
    states = re.findall(r"/var/lib/(\S+)", line)
    assert states
    assert all(each.startswith(service["StateDirectory"] + "/") for each in states)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze to ask")
def test_systemd_accepts_the_units() -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, UNITS)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if "veilnet-" in line]
    assert ours == []


def test_containers_run_what_exists() -> None:
    read: dict[str, Any] = yaml.safe_load((EXAMPLES / "docker-compose.yml").read_text())
    services = read["services"]
    assert set(services) == {"broker", "centre", "begin-kitchen", "agent-kitchen"}
    assert services["begin-kitchen"]["profiles"] == ["begin"]  # never started with the others
    assert check(services["centre"]["command"]) == "center"
    assert check(services["agent-kitchen"]["command"]) == "agent"
    assert check(services["begin-kitchen"]["command"]) == "agent"
    for name, service in services.items():
        inside = {each.split(":")[1] for each in service["volumes"]}
        for word in service["command"]:
            path = word.partition("=")[2] or word
            if path.startswith("/"):
                assert any(path == each or path.startswith(each + "/") for each in inside), f"{name}: {path}"
        written = [each for each in service["volumes"] if not each.endswith(":ro")]
        assert [each.split(":")[1] for each in written] == ([] if name == "broker" else ["/state"])
        assert service["read_only"] is True
    build = services["centre"]["build"]
    assert (EXAMPLES / build["context"] / build["dockerfile"]).resolve() == EXAMPLES / "Dockerfile"


@pytest.mark.slow
def test_containers_estimate_what_the_agent_follows_and_end_in_order(tmp_path: Path) -> None:
    """The very command lines of the containers, with their folders put in the place of the volumes."""
    require_mosquitto()
    services = yaml.safe_load((EXAMPLES / "docker-compose.yml").read_text())["services"]
    one = vn.Network(
        {"kitchen": [[1.0, 0.3], [0.0, 1.0]]}, 0.25, {"warmth": [1, 0]}, {"gait": [0, 1]}, vn.Prior(np.eye(2)),
        reading_names={"kitchen": ["T1", "RH1"]},
    )  # fmt: skip
    vn.design(one).save(tmp_path / "plan")
    assert run(["sign", str(tmp_path / "plan"), "--new-key", str(tmp_path / "designer.key")]) == 0
    port = free_port()
    made = ["--out", str(tmp_path / "keys"), "--port", str(port)]
    assert run(["live", "keys", str(tmp_path / "plan"), *made]) == 0
    shutil.copytree(tmp_path / "plan", tmp_path / "agents" / "kitchen")
    for name in ("readings", "state/centre", "state/kitchen"):
        (tmp_path / name).mkdir(parents=True)
    readings = tmp_path / "readings" / "kitchen.csv"
    readings.write_text("row,T1,RH1\n1,0.5,0.25\n")

    def words(name: str) -> list[str]:
        volumes = [each.split(":")[:2] for each in services[name]["volumes"]]
        found = []
        for word in services[name]["command"]:
            option, equals, path = word.rpartition("=")
            for host, inside in volumes:
                if path == inside or path.startswith(inside + "/"):
                    path = str(tmp_path / host) + path.removeprefix(inside)
                    break
            found.append(option + equals + path.replace("broker:8883", f"127.0.0.1:{port}"))
        return [sys.executable, "-m", "veilnet", *found]

    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    conf = tmp_path / "keys" / "broker" / "mosquitto.conf"
    conf.write_text(f"{conf.read_text()}user {getpass.getuser()}\n")
    running = [subprocess.Popen([find_mosquitto(), "-c", str(conf)])]
    try:
        running.append(subprocess.Popen(words("centre"), env=environment))
        begun = subprocess.run(
            words("begin-kitchen"), stdin=subprocess.DEVNULL, env=environment, timeout=PATIENCE
        )
        assert begun.returncode == 0
        running.append(subprocess.Popen(words("agent-kitchen"), stdin=subprocess.DEVNULL, env=environment))
        store = tmp_path / "state" / "centre" / "estimates.sqlite"
        assert eventually(lambda: store.exists() and read_status(store).epochs == 1)
        with readings.open("a") as file:
            file.write("2,0.75,0.5\n")
        assert eventually(lambda: read_status(store).epochs == 2)
        for process in reversed(running):
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
    finally:
        for process in running:
            process.kill()
            process.wait()
    ledger = agent_status(tmp_path / "state" / "kitchen" / "store.sqlite")[1]
    assert (ledger.releases, ledger.waiting, ledger.missed) == (2, 0, 0)


def test_the_image_has_what_it_copies() -> None:
    root = EXAMPLES.parents[1]
    for line in (EXAMPLES / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY "):
            for name in line.split()[1:-1]:
                assert (root / name).exists(), name


def test_commands_in_the_words_exist() -> None:
    text = "\n".join(
        path.read_text() for path in (*UNITS, EXAMPLES / "README.md", EXAMPLES / "docker-compose.yml")
    )
    found = re.findall(r"(?:^|[`#(]) *veilnet ((?:live )?[a-z]+ [^`#\n(]*)", text, flags=re.MULTILINE)
    assert len(found) >= 6
    for each in found:
        check(each.replace("...", "").replace("< /dev/null", "").split())
