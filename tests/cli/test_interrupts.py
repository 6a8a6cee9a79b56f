"""Ctrl-C on the command line: a real SIGINT to a real process in the middle of its work.

One line, exit code 130, no traceback, nothing half-written; what was there before stays as it was.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import veilnet as vn
from helpers.paper_networks import paper_network
from veilnet.cli import run

pytestmark = pytest.mark.slow


def start(arguments: list[str], folder: Path, inside: str, *, call: int = 1) -> subprocess.Popen[str]:
    """The command as a process of its own, which writes "here" when it enters ``module:function``.

    It never gets beyond that ``call`` of the function, which is made over and over: however late the interrupt comes
    on a busy machine, it finds the process at work.
    """
    module, function = inside.split(":")
    script = (
        "import importlib, itertools, sys\n"
        f"home = importlib.import_module({module!r})\n"
        f"original, calls = home.{function}, itertools.count(1)\n"
        "def watched(*arguments, **options):\n"
        f"    if next(calls) < {call}:\n"
        "        return original(*arguments, **options)\n"
        f"    home.{function} = original\n"
        "    sys.stdout.write('here\\n'); sys.stdout.flush()\n"
        "    while True:\n"
        "        original(*arguments, **options)\n"
        f"home.{function} = watched\n"
        "from veilnet.cli import main\n"
        f"sys.argv = ['veilnet', *{arguments!r}]\n"
        "main()\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(vn.__file__).parents[1]),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_hear_interrupts,
    )


def _hear_interrupts() -> None:
    """As from a terminal: process pools of earlier tests may have left SIGINT ignored or blocked in this one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def interrupted(process: subprocess.Popen[str], *, group: bool = False) -> str:
    """Send SIGINT once it is at work; what the process says on standard error when it has ended.

    ``group`` sends it to the worker processes as well, as a terminal does.
    """
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n", process.communicate()[1]
    time.sleep(0.2)  # well into the work
    (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    with suppress(ProcessLookupError):  # a worker may be at the end of what it writes
        for _ in range(600 if group else 0):
            os.killpg(process.pid, 0)
            time.sleep(0.05)
    return errors


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network that a search has to be made for."""
    folder = tmp_path_factory.mktemp("home")
    paper_network(1, 18, 3, True, 2).save(folder / "network.json")
    vn.design(vn.Network.load(folder / "network.json")).save(folder / "plan")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


SEARCH = "veilnet.designs.joint.run:Run.advance"
VERBS: dict[str, tuple[list[str], str]] = {
    "design": (["design", "network.json", "--privacy", "30", "--out", "new"], SEARCH),
    "design in place": (["design", "network.json", "--privacy", "30", "--out", "plan"], SEARCH),
    "design within a loss": (["design", "network.json", "--utility-loss", "0.3", "--out", "new"], SEARCH),
    "frontier": (["frontier", "network.json", "--plot", "curve.svg", "--csv", "curve.csv"], SEARCH),
    "audit": (["audit", "plan", "--out", "audit.json"], "veilnet.auditing.deployed.rows:probe"),
    "audit to json": (
        ["audit", "plan", "--only", "attackers", "--json"],
        "veilnet.auditing.auditor:attacker_rows",
    ),
}


# The long ones go the way of another: a design in place, and an audit.
LONG = {"design", "audit to json"}


@pytest.mark.parametrize(
    "verb", [pytest.param(verb, marks=pytest.mark.long) if verb in LONG else verb for verb in VERBS]
)
def test_ctrl_c_ends_in_one_line_and_leaves_nothing(verb: str, home: Path) -> None:
    arguments, inside = VERBS[verb]
    before = contents(home)
    process = start(arguments, home, inside)
    assert interrupted(process) == "veilnet: interrupted\n"
    assert contents(home) == before


@pytest.mark.parametrize(("jobs", "group"), [pytest.param(1, False, marks=pytest.mark.long), (2, True)])
def test_an_interrupted_reproduction_keeps_its_draws_and_is_resumed(
    jobs: int, group: bool, tmp_path: Path
) -> None:
    """With worker processes, SIGINT goes to all of them, as from a terminal."""
    arguments = ["reproduce", "fig1", "--draws", "4", "--out", "results", "--jobs", str(jobs)]
    # first the settings are written, then one draw after another
    process = start(arguments, tmp_path, "veilnet.paper.runs:write_text", call=3)
    draws = tmp_path / "results" / "draws" / "fig1"
    said = interrupted(process, group=group)
    assert said == (
        "veilnet: interrupted: the draws measured so far are kept in results, and the same command resumes them\n"
    )
    kept = contents(draws)
    assert 1 <= len(kept) < 4
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["draws", "settings.json"]
    times = {path: path.stat().st_mtime_ns for path in draws.iterdir()}
    assert run([*arguments[:-4], "--out", str(tmp_path / "results"), "--jobs", "1"]) == 0
    assert contents(draws).items() >= kept.items()
    assert {path: path.stat().st_mtime_ns for path in times} == times, "draws were measured twice"
    assert len(list(draws.glob("*.csv"))) == 4
    assert (tmp_path / "results" / "README.md").is_file()


WRITER = """
import os, random, signal, sys, time
from veilnet.io._atomic import write_text
random.seed(1)
for place in range(100):  # the next write of a file removes what is left beside it
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(writing, b"x")
            while True:
                write_text(f"{sys.argv[1]}/{place}.csv", "a" * 900)
        except KeyboardInterrupt:
            os._exit(0)
    os.read(reading, 1)
    time.sleep(random.uniform(0.002, 0.02))
    os.kill(child, signal.SIGINT)
    os.waitpid(child, 0)
    os.close(reading), os.close(writing)
"""


def test_a_write_that_is_interrupted_leaves_nothing_beside(tmp_path: Path) -> None:
    """Whenever the interrupt comes: of a hundred, some six came just after a file was made, and left it there."""
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(vn.__file__).parents[1])}
    subprocess.run(command, env=environment, check=True, timeout=120, preexec_fn=_hear_interrupts)
    assert {path.suffix for path in tmp_path.iterdir()} == {".csv"}
