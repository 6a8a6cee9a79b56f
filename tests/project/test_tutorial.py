"""The tutorial does what it says: every block is run, in order, and prints what is shown."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_TOLERANCE = 0.05  # of a shown number: noise is drawn afresh, and libraries differ in the last digits


@dataclass
class Block:
    language: str
    code: str
    shown: str | None
    line: int
    section: str


def blocks() -> list[Block]:
    found: list[Block] = []
    text = TUTORIAL.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        language, content = match.groups()
        if language == "text":
            found[-1].shown = content
        else:
            before = text[: match.start()]
            section = before.rpartition("\n## ")[2].partition("\n")[0]
            found.append(Block(language, content, None, before.count("\n") + 1, section))
    return found


def run_python(block: Block, names: dict[str, object]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * block.line + block.code, str(TUTORIAL), "exec"), names)
    return printed.getvalue()


def run_shell(block: Block, folder: Path) -> str:
    tools = folder / ".tools"
    tools.mkdir(exist_ok=True)
    command = tools / "veilnet"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m veilnet "$@"\n')
    command.chmod(0o755)
    source = str(TUTORIAL.parent.parent / "src")
    environment = os.environ | {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")])),
        "LC_ALL": "C.UTF-8",
    }
    ran = subprocess.run(
        ["sh", "-eu", "-c", block.code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"line {block.line}: exit code {ran.returncode}: {ran.stderr}"
    return ran.stdout


def same_line(shown: str, printed: str) -> bool:
    """Equal up to spaces, and numbers nearly equal."""
    if _NUMBER.sub("#", " ".join(shown.split())) != _NUMBER.sub("#", " ".join(printed.split())):
        return False
    pairs = zip(_NUMBER.findall(shown), _NUMBER.findall(printed), strict=True)
    return all(_near(a, b) for a, b in pairs)


def _near(shown: str, printed: str) -> bool:
    last_digit = 10.0 ** -len(shown.partition("e")[0].partition(".")[2])
    return abs(float(shown) - float(printed)) <= _TOLERANCE * abs(float(shown)) + 2 * last_digit * (
        "." in shown
    )


def mismatch(shown: str, printed: str) -> str | None:
    """The first line that differs; a line ``...`` stands for any lines."""
    expected = [line.rstrip() for line in shown.strip().splitlines()]
    found = [line.rstrip() for line in printed.strip().splitlines()]
    place = 0
    skipping = False
    for line in expected:
        if line == "...":
            skipping = True
            continue
        while skipping and place < len(found) and not same_line(line, found[place]):
            place += 1
        if place >= len(found) or not same_line(line, found[place]):
            return f"shown {line!r}, printed {found[place] if place < len(found) else 'nothing more'!r}"
        skipping = False
        place += 1
    return None if skipping or place == len(found) else f"printed besides: {found[place]!r}"


class Reader:
    """Works through the tutorial section by section: a later one needs what the earlier ones left behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, object] = {"__name__": "tutorial"}
        self.done: dict[str, list[str]] = {}

    def complaints(self, section: str) -> list[str]:
        """What is wrong in a section, after working through all up to it."""
        for name in SECTIONS[: SECTIONS.index(section) + 1]:
            if name not in self.done:
                self.done[name] = [
                    complaint for block in BLOCKS if block.section == name for complaint in self._run(block)
                ]
        return self.done[section]

    def _run(self, block: Block) -> Iterator[str]:
        assert block.language in ("python", "sh"), f"line {block.line}: nobody runs {block.language!r}"
        in_python = block.language == "python"
        with contextlib.chdir(self.folder):
            printed = run_python(block, self.names) if in_python else run_shell(block, self.folder)
        if block.shown is not None:
            wrong = mismatch(block.shown, printed)
            if wrong is not None:
                yield f"line {block.line}: {wrong}\n--- printed:\n{printed}"
        elif in_python and printed:
            yield f"line {block.line}: printed, but not shown: {printed}"


BLOCKS = blocks()
SECTIONS = list(dict.fromkeys(block.section for block in BLOCKS))


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    return Reader(tmp_path_factory.mktemp("tutorial"))


@pytest.mark.no_cover
@pytest.mark.slow
@pytest.mark.xdist_group("tutorial")
@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_prints_what_it_shows(section: str, reader: Reader) -> None:
    complaints = reader.complaints(section)
    assert not complaints, "\n".join(complaints)


def test_the_comparison_tells_differences() -> None:
    assert mismatch("a 1.00\n...\nb", "a 1.01\nx\ny\nb") is None
    assert mismatch("a 1.00", "a 1.20") is not None
    assert mismatch("a 7", "a 8") is not None
    assert mismatch("a", "a\nb") is not None
    assert mismatch("a\nb", "a") is not None
    assert mismatch("a\n...\nc", "a\nb") is not None
    assert len(BLOCKS) > 12
    assert len(SECTIONS) > 6
