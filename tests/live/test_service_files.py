"""The examples for real machines are well-formed, and call commands and options that exist."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from veilnet.cli import VERBS, _options, live

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
    assert set(services) == {"broker", "centre", "agent-kitchen"}
    assert check(services["centre"]["command"]) == "center"
    assert check(services["agent-kitchen"]["command"]) == "agent"
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
