"""The command's frame: loading verbs, exit codes, one-line errors, JSON, tables, progress."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Literal

import pytest

from veilnet import cli
from veilnet._core import errors
from veilnet.cli import _shared
from veilnet.cli._command_line import argument, option


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., object]], None]:
    """Makes a function the verb ``probe``."""

    def install(command: Callable[..., object]) -> None:
        module = ModuleType("veilnet.cli.probe")
        module.command = command  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "veilnet.cli.probe", module)
        monkeypatch.setitem(cli.VERBS, "probe", "Look.")

    return install


DEPTH = option("--depth", "How deep; 5% is little.", at_least=1, at_most=9, default=1)


def test_every_verb_is_listed_and_explains_itself(verb, capsys) -> None:
    def command(depth: int = DEPTH) -> None:
        """Look closely."""

    verb(command)
    assert cli.run([]) == 0
    listing = capsys.readouterr().out
    for name, line in cli.VERBS.items():
        assert name == "probe" or (f"  {name} " in listing and line in listing)
    assert cli.run(["probe", "--help"]) == 0
    shown = capsys.readouterr().out
    for words in ("usage: veilnet probe", "Look closely.", "--depth NUMBER", "5% is little", "default: 1"):
        assert words in shown


def test_a_group_of_commands_has_the_verb_s_line_for_its_help(capsys) -> None:
    assert cli.run(["live"]) == 0
    shown = capsys.readouterr().out
    assert cli.run(["live", "--help"]) == 0
    assert shown == capsys.readouterr().out
    assert cli.VERBS["live"] in shown
    assert "  keys " in shown
    assert cli.run(["live", "kees"]) == 2
    assert "did you mean keys?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a", (Path("a"), [], "all", [], None, 1, 0.5, False, None)),
        ("--depth=3 a -b", None),
        ("a b", None),  # neither all nor few
        (
            "--depth=3 a few --part 1e-3 --tag x --loud c --tag y d --no-header",
            (Path("a"), [Path("c"), Path("d")], "few", ["x", "y"], None, 3, 1e-3, True, False),
        ),
        ("a --out b", (Path("a"), [], "all", [], Path("b"), 1, 0.5, False, None)),
        ("a --part -1", (Path("a"), [], "all", [], None, 1, -1.0, False, None)),
    ],
)
def test_arguments_reach_the_verb(verb, words: str, expected: tuple[object, ...] | None) -> None:
    seen: list[tuple[object, ...]] = []

    def command(
        path: Path = argument("Which."),
        choice: Literal["all", "few"] = argument("How many.", "all"),
        more: list[Path] | None = argument("Others.", None),
        tag: list[str] | None = option("--tag", "May be repeated."),
        out: Path | None = option("--out", "Where to."),
        depth: int = DEPTH,
        part: float = option("--part", "How much.", default=0.5),
        loud: bool = option("--loud", "A flag."),
        header: bool | None = option("--header", "Yes or no.", yes_or_no=True),
    ) -> None:
        seen.append((path, more or [], choice, tag or [], out, depth, part, loud, header))

    verb(command)
    assert cli.run(["probe", *words.split()]) == (0 if expected else 2)
    assert seen == ([expected] if expected else [])


@pytest.mark.parametrize(("words", "expected"), [("", None), ("--stream", True), ("--rows", False)])
def test_what_may_be_yes_no_or_unsaid_is_unsaid_where_nothing_is_said(
    verb, words: str, expected: bool | None
) -> None:
    seen: list[bool | None] = []

    def command(stream: bool | None = option("--stream/--rows", "One, the other, or neither.")) -> None:
        seen.append(stream)

    verb(command)
    assert cli.run(["probe", *words.split()]) == 0
    assert seen == [expected]


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (errors.InvalidNetwork("observe: expected\n  3 columns"), 2, "observe: expected 3 columns"),
        (errors.Infeasible("privacy 10 is above the limit 3"), 1, "privacy 10 is above the limit 3"),
        (FileNotFoundError(2, "No such file or directory", "x.toml"), 2, "x.toml: No such file or directory"),
        (PermissionError(13, "Permission denied", "x"), 2, "x: Permission denied"),
        (IsADirectoryError(21, "Is a directory", "x"), 2, "x: Is a directory"),
    ],
)
def test_user_mistakes_are_one_line(verb, capsys, error: Exception, code: int, line: str) -> None:
    def command() -> None:
        raise error

    verb(command)
    assert cli.run(["probe"]) == code
    shown = capsys.readouterr().err
    assert shown.startswith("veilnet: error: ")
    assert line in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["probe", "--dept", "1"], "did you mean --depth?"),
        (["probe", "--depth", "deep"], "expected a whole number, found 'deep'"),
        (["probe", "--depth", "0"], "expected at least 1, found 0"),
        (["probe", "--depth", "10"], "expected at most 9, found 10"),
        (["probe", "--depth"], "--depth"),
        (["probe", "further"], "unexpected argument 'further' (see"),
        (["probe", "--depth", "5", "%"], "write 5% without a space"),
        (["prob"], "did you mean probe?"),
    ],
)
def test_wrong_words_are_one_line(verb, capsys, words: list[str], told: str) -> None:
    def command(depth: int = DEPTH) -> None: ...

    verb(command)
    assert cli.run(words) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("veilnet: error: ")
    assert told in shown
    assert "--help')" in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("reading 36.6"), ValueError("36.6"), KeyError("36.6"), MemoryError("36.6")]
)
def test_our_own_mistakes_ask_for_a_report_and_show_no_reading(verb, capsys, error: Exception) -> None:
    def command() -> None:
        raise error

    verb(command)
    assert cli.run(["probe"]) == 3
    shown = capsys.readouterr().err
    assert shown.startswith(f"veilnet: internal error ({type(error).__name__}, cli/_command_line.py line ")
    assert "report" in shown
    assert "36.6" not in shown
    assert shown.count("\n") == 1


def test_an_internal_error_and_a_truthful_no_differ(tmp_path: Path, capsys) -> None:
    """As a shell sees it: a network without an answer gives 1, a broken veilnet 3."""
    network = tmp_path / "house.toml"
    assert cli.run(["init", str(network)]) == 0
    asked = ["design", str(network), "--privacy", "1e300", "--method", "perfect"]
    assert cli.run(asked) == 1
    assert capsys.readouterr().err.count("\n") == 1
    script = (
        "import sys, veilnet.cli, veilnet.verdict.exact_test as test\n"
        "test.shares = lambda network: 1 / 0\n"
        "sys.exit(veilnet.cli.run(sys.argv[1:]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    broken = subprocess.run(
        [sys.executable, "-c", script, *asked], env=environment, capture_output=True, text=True
    )
    assert broken.returncode == 3
    assert broken.stderr.count("\n") == 1, broken.stderr


def test_a_full_disk_is_no_fault_of_ours(verb, capsys) -> None:
    def command() -> None:
        raise OSError(28, "No space left on device")

    verb(command)
    assert cli.run(["probe"]) == 2
    assert capsys.readouterr().err == "veilnet: error: No space left on device\n"


@pytest.mark.parametrize(
    ("error", "code"), [(errors.InvalidPlan("no"), 2), (errors.Infeasible("no"), 1), (KeyError("no"), 3)]
)
def test_debugging_shows_the_traceback_and_keeps_the_code(verb, monkeypatch, capsys, error, code) -> None:
    def command() -> None:
        raise error

    verb(command)
    monkeypatch.setenv("VEILNET_DEBUG", "1")
    assert cli.run(["probe"]) == code
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert shown.splitlines()[-1].startswith("veilnet: ")


def test_an_interruption_is_one_line(verb, capsys) -> None:
    def command() -> None:
        raise KeyboardInterrupt("what is done is kept")

    verb(command)
    assert cli.run(["probe"]) == 130
    assert capsys.readouterr().err == "veilnet: interrupted: what is done is kept\n"


@pytest.mark.parametrize(
    ("raised", "code"), [(SystemExit(1), 1), (SystemExit(), 0), (KeyboardInterrupt(), 130)]
)
def test_exit_codes(verb, raised: BaseException, code: int) -> None:
    def command() -> None:
        raise raised

    verb(command)
    assert cli.run(["probe"]) == code


def test_a_reader_that_leaves_is_no_error() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "veilnet", "--help"], stdout=writing, stderr=subprocess.PIPE, env=environment
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")  # as the shell reports it of any program


def test_json_spells_out_infinity(capsys) -> None:
    import numpy as np

    @dataclass
    class Row:
        privacy: float
        path: Path

    value = {
        "a": np.array([1.0, -np.inf]),
        "b": np.float64("inf"),
        3: (None, True, "[x]"),
        "r": Row(np.nan, Path("p")),
    }
    _shared.print_json(value)
    assert json.loads(capsys.readouterr().out) == {
        "a": [1.0, "-inf"],
        "b": "inf",
        "3": [None, True, "[x]"],
        "r": {"privacy": "nan", "path": "p"},
    }
    with pytest.raises(TypeError, match="cannot write a object as JSON"):
        _shared.print_json(object())


def test_sentences_keep_brackets_and_lines_that_a_pipe_can_take(capsys) -> None:
    _shared._console.cache_clear()
    _shared.show("[red]hall" + 60 * " and more")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[red]hall and")
    assert 100 < max(map(len, lines)) <= 120


def test_tables_keep_brackets_and_round_numbers(capsys) -> None:
    _shared.show(_shared.table(["agent", "loss"], [["[red]hall", 1 / 3], ["kitchen", float("inf")]]))
    shown = capsys.readouterr().out
    assert "[red]hall" in shown
    assert "0.3333" in shown
    assert " inf" in shown


def test_progress_is_silent_off_a_terminal(capsys) -> None:
    with _shared.progress("thinking", total=2) as steps:
        steps.reached("", 1.0)
        steps.update(2, 2)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("slow", [True, False])
def test_progress_appears_only_when_it_takes_long(slow: bool, monkeypatch, capsys) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(_shared, "_PATIENCE", 0.0 if slow else 60.0)
    with _shared.progress("[thinking]", total=2) as steps:
        steps.reached("", 1.0)
        shown, end = "", time.monotonic() + 120
        while slow and "[thinking]" not in shown and time.monotonic() < end:
            time.sleep(0.02)
            shown += capsys.readouterr().err
    assert ("[thinking]" in shown + capsys.readouterr().err) is slow
