"""What a command loads before it works: the time to start is in benchmarks/start.py, its cause is held here."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from veilnet.cli import run
from veilnet.io.template import house
from veilnet.live.keys import make_keys
from veilnet.live.seals import make_seals


def loaded_by(arguments: list[str]) -> set[str]:
    """The packages a command has loaded when it ends."""
    environment = {**os.environ, "PYTHONPATH": str(Path(vn.__file__).parents[1])}
    command = [sys.executable, "-X", "importtime", "-m", "veilnet", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("start")
    network = house()
    vn.design(network).save(where / "plan")
    row = network.offset[network.blocks.rows(0)].tolist()
    lines = [",".join(network.reading_names[network.agents[0]]), ",".join(map(repr, row))]
    (where / "readings.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return where


def sanitize(folder: Path) -> list[str]:
    agent = str(folder / "plan" / f"{house().agents[0]}.json")
    return [
        "sanitize",
        agent,
        "--in",
        str(folder / "readings.csv"),
        "--out",
        str(folder / "messages.csv"),
        "--again",
    ]


@pytest.mark.parametrize("verb", ["sanitize", "fuse"])
def test_verbs_that_run_in_loops_load_little(verb: str, folder: Path) -> None:
    arguments = sanitize(folder)
    if verb == "fuse":
        assert run(arguments) == 0
        messages = f"{house().agents[0]}={folder / 'messages.csv'}"
        arguments = ["fuse", str(folder / "plan" / "center.json"), messages]
    loaded = loaded_by(arguments)
    assert "numpy" in loaded, "or the names are not read as they should be"
    assert not loaded & {"scipy", "rich", "matplotlib"}
    if verb == "sanitize":  # a reading walks cli -> io -> agent -> io
        assert "veilnet.agent.release" in loaded
        rooms = {name.split(".")[1] for name in loaded if name.startswith("veilnet.")}
        assert not rooms & {"bounds", "recheck", "verdict", "centre", "plans", "designs"}
        assert "veilnet.model.network" not in loaded


@pytest.mark.parametrize("verb", ["", "sanitize", "fuse", "design", "live"])
def test_help_loads_no_mathematics(verb: str) -> None:
    loaded = loaded_by([*verb.split(), "--help"])
    assert "veilnet.cli" in loaded
    assert not loaded & {"numpy", "scipy", "rich", *([] if verb else ["argparse"])}


@pytest.mark.parametrize("verb", ["sanitize", "fuse"])
def test_quick_verbs_explain_themselves(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"usage: veilnet {verb}" in shown
    assert "--out" in shown
    assert "exit code" in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sanitize"], "required: sanitizer"),
        (["sanitize", "x.json", "--nonsense"], "--nonsense"),
        (["sanitize", "x.json", "--see", "1"], "--see"),
        (["sanitize", "x.json", "--seed", "-1"], "expected at least 0, found -1"),
        (["sanitize", "x.json", "--seed", "one"], "expected a whole number, found 'one'"),
        (["sanitize", "x.json", "--in"], "expected one argument"),
        (["fuse", "center.json"], "required: messages"),
    ],
)
def test_quick_verbs_refuse_in_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("veilnet: error: ")
    assert words in shown
    assert f"(see 'veilnet {arguments[0]} --help')" in shown
    assert shown.count("\n") == 1


def test_options_may_stand_anywhere(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(sanitize(folder)) == 0
    agents = house().agents[:2]
    messages = [f"{agent}={folder / 'messages.csv'}" for agent in agents]
    center = str(folder / "plan" / "center.json")
    assert run(["fuse", center, messages[0], "--json"]) == 0
    between = capsys.readouterr().out
    assert run(["fuse", "--json", center, messages[0]]) == 0
    assert capsys.readouterr().out == between


# What is on a device that only sanitizes: this source, NumPy and msgspec.
_AGENT_ALONE = """
import sys
for name in ("scipy", "rich", "matplotlib", "pandas", "sklearn"):
    sys.modules[name] = None
for name in ("cryptography", "securesystemslib", "paho") if sys.argv[1] != "agent" else ():
    sys.modules[name] = None
from veilnet.cli import main
sys.argv[0] = "veilnet"
main()
"""


def alone(arguments: list[str]) -> subprocess.Popen[str]:
    """The command on such a device, with 512 MB of memory; one that is live has what speaks to a broker."""
    environment = {**os.environ, "PYTHONPATH": str(Path(vn.__file__).parents[1]), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", _AGENT_ALONE, *arguments]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=_small)


def _small() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (512 * 2**20, 512 * 2**20))


@pytest.mark.parametrize("store", [False, True])
def test_an_agent_needs_numpy_and_msgspec_alone(store: bool, folder: Path) -> None:
    network = house()
    agent = network.agents[0]
    readings = network.observe[agent].shape[0]
    vn.design(network, power=1e4).save(folder / "noisy")
    arguments = ["sanitize", str(folder / "noisy" / f"{agent}.json"), "--in", str(folder / "readings.csv")]
    arguments += ["--out", str(folder / f"{store}.csv"), "--again"]
    with alone([*arguments, *(["--store", str(folder / "store.sqlite")] if store else [])]) as done:
        said = done.communicate()[1]
    assert done.returncode == 0, said
    sent = np.loadtxt(folder / f"{store}.csv", delimiter=",", skiprows=1, usecols=range(-readings, 0))
    off = sent - network.offset[network.blocks.rows(0)]
    variances = np.diag(vn.Plan.load(folder / "noisy").sanitizers[agent].noise)
    assert np.all(np.abs(off) < 12 * np.sqrt(variances) + 1), "no draw is beyond 11.4 standard deviations"
    assert np.any(off != 0), "noise was added"


def test_a_verb_that_needs_more_names_what_is_missing(folder: Path) -> None:
    with alone(["inspect", str(folder / "plan" / f"{house().agents[0]}.json")]) as done:
        said = done.communicate()[1]
    assert done.returncode == 2
    assert "scipy" in said or "rich" in said
    assert "pip install veilnet" in said


def test_a_live_agent_needs_what_speaks_to_a_broker_and_no_more(folder: Path) -> None:
    """It gets as far as to look for its broker, which is not there."""
    agent, keys = house().agents[0], make_keys(folder / "keys", house().agents).keys
    make_seals(keys, house().agents)
    (folder / "plan" / f"{agent}.released").unlink(missing_ok=True)  # by other tests
    arguments = [
        "agent",
        str(folder / "plan" / f"{agent}.json"),
        "--in",
        str(folder / "readings.csv"),
        "--begin",
    ]
    arguments += ["--broker", "mqtts://localhost:1", "--cert", str(keys.agent(agent).folder)]
    with alone(arguments) as running:
        assert running.stderr is not None
        said = running.stderr.readline()
        running.kill()
    assert "no connection to the broker" in said
