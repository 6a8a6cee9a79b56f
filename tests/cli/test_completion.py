"""Shells complete verbs, the commands of a group, and options."""

from __future__ import annotations

import subprocess

import pytest

from veilnet.cli import VERBS, run


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ([], sorted(VERBS)),
        (["fro"], ["frontier"]),
        (["design", "--util"], ["--utility-loss"]),
        (["sanitize", "--sto"], ["--store"]),
        (["design", "hou"], []),  # the shell offers files
        (["live", "k"], ["keys"]),
        (["live", "keys", "--broker"], ["--broker-folder"]),
        (["nonsense", "--x"], []),
    ],
)
def test_verbs_and_options_are_offered(
    words: list[str], offered: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--complete", *words]) == 0
    assert capsys.readouterr().out.split() == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_calls_the_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--completion", shell]) == 0
    assert "veilnet --complete " in capsys.readouterr().out
    assert run(["--help"]) == 0
    assert "--completion" in capsys.readouterr().out
    assert run(["--completion", "tcsh"]) == 2


def test_bash_completes_by_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--completion", "bash"]) == 0
    typed = "veilnet() { printf '%s\\n' \"$#:$3\"; }; COMP_WORDS=(veilnet design --ut); COMP_CWORD=2"
    told = subprocess.run(
        [
            "bash",
            "--norc",
            "-c",
            f"{capsys.readouterr().out}\n{typed}; _veilnet_completion; echo ${{COMPREPLY[@]}}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.stdout, told.stderr) == ("3:--ut\n", "")
