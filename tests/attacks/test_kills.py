"""Runs ended by SIGKILL at any moment, in small numbers; the long form is ``./veilnet bench attacks``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import veilnet as vn

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.no_cover
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked and killed")
@pytest.mark.parametrize(
    ("script", "kills", "attacks"),
    [
        ("attacks_kills.py", "16", 7),
        pytest.param("attacks_kills.py", "50", 7, marks=pytest.mark.long),
        ("attacks_memory.py", "16", 4),
    ],
)
def test_nothing_is_torn_lost_doubled_or_mixed(script: str, kills: str, attacks: int) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(vn.__file__).parents[1])}
    command = [
        sys.executable,
        str(BENCHMARKS / script),
        "--kills",
        kills,
        "--full",
        "8",
        "--seed",
        "1",
        "--json",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stderr
    scores = json.loads(ran.stdout)
    assert len(scores) == attacks
    for score in scores:
        assert score["found"] == {}, score["what"]
        assert score["recovered"] == score["hit"] > 0
