"""The code of Markdown pages: found, run from top to bottom as a reader would, and compared with what is shown.

A page is worked through in an empty folder of its own. Blocks of ``python`` share their names; blocks of ``sh`` find
``veilnet``, ``./veilnet``, ``python`` and ``.venv/bin/python`` there, and the repository's ``examples``. A block of
``text`` that follows one of them is what it prints: words exactly, numbers nearly, a line ``...`` for any lines.
Blocks of data must be well-formed. What cannot run here says why, in a comment on the line before it:

    <!-- not run: needs a broker -->

A block inside a comment is run and not shown: it sets up what the page takes for granted.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUN = ("python", "sh")
PLAIN = ("text", "bibtex", "ini", "yaml", "toml", "json", "jsonl", "csv", "html")  # nothing to run in them
_FENCE = re.compile(r"^```([\w-]*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\s*\Z")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
# No page shows the curve in a report, which tests of reports look at: it is cut short.
_SHORT_REPORTS = '[ "${1-}" != report ] || set -- "$@" --seconds 1'
_TOLERANCE = 0.05  # of a shown number: noise is drawn afresh, and libraries differ in the last digits


@dataclass
class Block:
    """One fenced block; ``shown`` is what the page says it prints, ``not_run`` why it cannot run here."""

    language: str
    code: str
    line: int
    shown: str | None = None
    not_run: str | None = None


def pages() -> list[str]:
    """Every Markdown page of the project, by its path in the repository."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def table_under(text: str, heading: str) -> dict[str, list[str]]:
    """First cell, without its backticks, -> the other cells, of the table under a heading."""
    section = re.split(r"^#+ ", text.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    assert rows, heading
    return {first.strip("`"): cells for first, *cells in rows}


def blocks(text: str) -> list[Block]:
    """The blocks of a page in order; those of shown output are with the block that prints it."""
    found: list[Block] = []
    end = 0
    for match in _FENCE.finditer(text):
        language, content = match.groups()
        between = text[end : match.start()]
        follows = bool(found) and not between.strip() and found[-1].language in RUN
        if language == "text" and follows and found[-1].shown is None:
            found[-1].shown = content
        else:
            reason = _NOT_RUN.search(text[: match.start()])
            line = text[: match.start()].count("\n") + 1
            found.append(Block(language, content, line, None, reason.group(1) if reason else None))
        end = match.end()
    return found


class Reader:
    """Works through one page in a folder; ``veilnet`` is the line of shell that its command stands for."""

    def __init__(self, page: str, folder: Path, veilnet: str = f'"{sys.executable}" -m veilnet') -> None:
        self.page, self.folder = page, folder
        self.names: dict[str, object] = {"__name__": "page"}
        tools = folder / ".venv" / "bin"
        tools.mkdir(parents=True)
        _script(tools / "python", f'exec "{sys.executable}" "$@"')
        for place in (tools, folder):
            _script(place / "veilnet", f'{_SHORT_REPORTS}\nexec {veilnet} "$@"')
        (folder / "examples").symlink_to(ROOT / "examples")
        self.environment = os.environ | {
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")])),
            "LC_ALL": "C.UTF-8",
        }

    def complaints(self, found: list[Block]) -> Iterator[str]:
        """What is wrong, block by block; the first that fails ends it, since later ones build on it."""
        for block in found:
            if block.not_run is not None:
                continue
            if block.language not in RUN:
                yield from self._data(block)
                continue
            printed = self._python(block) if block.language == "python" else self._shell(block)
            wrong = None
            if block.shown is not None:
                wrong = mismatch(block.shown, printed)
            elif block.language == "python" and printed:
                wrong = "printed, but not shown"
            if wrong is not None:
                yield f"{self.page}, line {block.line}: {wrong}\n--- printed:\n{printed}"

    def _python(self, block: Block) -> str:
        printed = io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(printed):
            exec(compile("\n" * block.line + block.code, self.page, "exec"), self.names)
        return printed.getvalue()

    def _shell(self, block: Block) -> str:
        ran = subprocess.run(
            ["sh", "-eu", "-c", block.code],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, (
            f"{self.page}, line {block.line}: exit code {ran.returncode}: {ran.stdout}{ran.stderr}"
        )
        return ran.stdout

    def _data(self, block: Block) -> Iterator[str]:
        try:
            if block.language == "toml":
                tomllib.loads(block.code)
            elif block.language == "json":
                json.loads(block.code)
            elif block.language not in PLAIN:
                mark = "mark it '<!-- not run: why -->'"
                yield f"{self.page}, line {block.line}: nobody runs {block.language!r}; {mark}"
        except ValueError as error:
            yield f"{self.page}, line {block.line}: {error}"


def _script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


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
