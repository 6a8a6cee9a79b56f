"""Shells complete verbs and their options, those of verbs that do without typer too."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from veilnet.cli import VERBS, run


def completed(*words: str) -> list[str]:
    """What bash is offered for the last word, by the command in a process of its own, as the shell calls it."""
    environment = os.environ | {
        "_VEILNET_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(("veilnet", *words)),
        "COMP_CWORD": str(len(words)),
    }  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-m", "veilnet"], env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.split()


@pytest.mark.slow
def test_verbs_and_options_are_offered() -> None:
    assert set(completed("")) >= set(VERBS)
    assert completed("fro") == ["frontier"]
    assert completed("design", "--util") == ["--utility-loss"]
    assert completed("sanitize", "--led") == ["--ledger"]
    assert completed("fuse", "--trust") == ["--trust-counts"]


def script_for(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What --show-completion prints in that shell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("_VEILNET_COMPLETE", f"source_{shell}")
        with pytest.raises(SystemExit) as ended:
            run([])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_calls_the_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = script_for(shell, capsys)
    assert f"_VEILNET_COMPLETE=complete_{shell}" in script
    assert "_veilnet_completion" in script or "--command veilnet" in script


def test_the_help_tells_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert "--install-completion" in capsys.readouterr().out


@pytest.mark.slow
def test_the_script_is_one_that_bash_takes(capsys: pytest.CaptureFixture[str]) -> None:
    script = script_for("bash", capsys)
    told = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\ncomplete -p veilnet"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "-F _veilnet_completion veilnet" in told.stdout
