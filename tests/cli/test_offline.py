"""After set-up nothing needs a network: a process that looks for one is ended at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import veilnet as vn

_NO_ROUTE = """
import json, os, sys
def refuse(event, found):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        os.write(2, f"{event}: {found}".encode())
        os._exit(99)
sys.addaudithook(refuse)
from veilnet.cli import run
for command in json.loads(sys.argv[1]):
    if run(command):
        sys.exit(1)
"""


def offline(folder: Path, commands: Sequence[Sequence[str]], **more: str) -> subprocess.CompletedProcess[str]:
    """Commands on a machine without a route, with the locale C and an odd time zone."""
    settings = {"PYTHONPATH": str(Path(vn.__file__).parents[1]), "TZ": "<+1345>-13:45", "LC_ALL": "C", **more}
    command = [sys.executable, "-c", _NO_ROUTE, json.dumps(commands)]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **settings}, capture_output=True, text=True, encoding="utf-8"
    )


@pytest.mark.slow
@pytest.mark.parametrize("streams", ["utf-8", "iso-8859-1"])
def test_from_a_network_file_to_estimates_without_a_network(streams: str, tmp_path: Path) -> None:
    folder = tmp_path / "größe 1"
    folder.mkdir()
    row = "temperature,CO2,humidity,plug power\n21.3,600,9.1,250\n"
    (folder / "lesung ä.csv").write_text(row, encoding="utf-8")
    commands = (
        ("init", "häuser.toml"),
        ("check", "häuser.toml"),
        ("design", "häuser.toml", "--out", "plan ü"),
        ("verify", "plan ü"),
        ("inspect", "plan ü/kitchen.json"),
        ("report", "plan ü", "--out", "bericht.html", "--no-frontier"),
        ("sanitize", "plan ü/kitchen.json", "--in", "lesung ä.csv", "--out", "küche.csv"),
        ("fuse", "plan ü/center.json", "kitchen=küche.csv", "--out", "schätzung.csv"),
    )
    done = offline(folder, commands, PYTHONIOENCODING=streams)
    assert done.returncode == 0, done.stderr
    assert "±" in done.stdout
    found = (folder / "schätzung.csv").read_text(encoding="utf-8").splitlines()
    assert len(found) == 2
    assert "mean temperature" in found[0]


def test_a_process_that_looks_for_a_network_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check can fail."""
    looks = "import socket\nrun = lambda command: socket.getaddrinfo(*command)"
    monkeypatch.setitem(globals(), "_NO_ROUTE", _NO_ROUTE.replace("from veilnet.cli import run", looks))
    assert offline(tmp_path, [["localhost", "1"]]).returncode == 99
