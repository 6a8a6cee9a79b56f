"""Figures of the documentation: measured into docs/figures/*.json, shown between marks in Markdown pages.

    python tools/figures.py measure NAME SHOWN SECONDS -- COMMAND...    run a benchmark and keep what it found
    python tools/figures.py render                                      write what is kept into the pages
                                                                        and the README's picture

A run that takes more than so many SECONDS is ended, with whatever it started, and nothing of it is kept.

A benchmark prints what it likes, and a line ``figure KEY: VALUE`` for each value that a page quotes. What is kept of
a run: the command as a user types it, day, machine, seconds, these values and all other lines. In a page,

    <!-- figure office.auc_raw -->0.996<!-- -->

shows one value, ``office.measured`` says when, where and by which command, and

    <!-- output office -->
    <!-- end of output -->

encloses everything that was printed. Nobody types between the marks: ``render`` does, and a test compares.
"""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from overview import overview

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "figures"
PICTURE = ROOT / "docs" / "overview.svg"
_LINE = re.compile(r"figure (\w+): (.+)")
_FIGURE = re.compile(r"<!-- figure (\w[\w-]*)\.(\w+) -->(.*?)<!-- -->", re.DOTALL)
_OUTPUT = re.compile(r"<!-- output ([\w-]+) -->\n(.*?)<!-- end of output -->", re.DOTALL)
_PACKAGES = ("numpy", "scipy", "cvxpy", "clarabel", "scikit-learn")


class Stale(ValueError):
    """A page asks for a figure that nothing kept."""


def pages() -> Iterator[Path]:
    """Every page that may show figures."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def load(name: str) -> dict[str, Any]:
    """What is kept of a benchmark."""
    path = KEPT / f"{name}.json"
    if not path.is_file():
        raise Stale(f"no {path.relative_to(ROOT)}: run './veilnet bench {name} --update-docs'")
    return dict(json.loads(path.read_text(encoding="utf-8")))


def value(name: str, key: str) -> str:
    """One value as it is shown."""
    kept = load(name)
    if key == "measured":
        return measured(kept)
    if key not in kept["figures"]:
        raise Stale(f"docs/figures/{name}.json has no figure {key!r}: it has {', '.join(kept['figures'])}")
    return str(kept["figures"][key])


def measured(kept: dict[str, Any]) -> str:
    """When, by which command, where."""
    return f"measured {kept['date']} by `{kept['command']}` on {kept['machine']}"


def render(text: str) -> str:
    """A page with what is kept between its marks."""

    def one(found: re.Match[str]) -> str:
        name, key, _ = found.groups()
        return f"<!-- figure {name}.{key} -->{value(name, key)}<!-- -->"

    def whole(found: re.Match[str]) -> str:
        name = found.group(1)
        kept = (KEPT / f"{name}.json").is_file()
        shown = _as_markdown(load(name)) if kept else "\nNot measured yet.\n\n"
        return f"<!-- output {name} -->\n{shown}<!-- end of output -->"

    return _OUTPUT.sub(whole, _FIGURE.sub(one, text))


def _as_markdown(kept: dict[str, Any]) -> str:
    """Tables as tables, all else as it was printed."""
    said = measured(kept)
    parts = [f"{said[0].upper()}{said[1:]}; it took {kept['seconds']:,.0f} s.\n"]
    run: list[str] = []
    in_table = False
    for line in [*kept["output"], None]:
        is_table = line is not None and line.startswith("|")
        if run and (line is None or is_table != in_table):
            while run and not run[-1].strip():
                run.pop()
            while run and not run[0].strip():
                run.pop(0)
            if run:
                parts.append("\n".join(run if in_table else ["```text", *run, "```"]) + "\n")
            run = []
        if line is not None:
            in_table = is_table
            run.append(line)
    return "\n" + "\n".join(parts) + "\n"


def machine() -> str:
    """Processor, cores, how busy it is, and the versions that matter."""
    cores = os.cpu_count() or 1
    name = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        found = re.search(r"^model name\s*: (.+)$", cpuinfo.read_text(encoding="utf-8"), re.MULTILINE)
        name = found.group(1).strip() if found else name
    busy = f", load {os.getloadavg()[0]:.1f} when it began" if hasattr(os, "getloadavg") else ""
    return f"{cores} cores of {name}{busy}; Python {platform.python_version()}, {', '.join(_versions())}"


def _versions() -> Iterator[str]:
    for package in _PACKAGES:
        try:
            yield f"{package} {version(package)}"
        except PackageNotFoundError:
            continue


def measure(name: str, shown: str, limit: float, command: list[str]) -> int:
    """Run a benchmark, pass on what it prints, keep it if it succeeds in time."""
    where, began = machine(), time.monotonic()
    lines: list[str] = []
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        assert process.stdout is not None
        clock = threading.Timer(limit, os.killpg, (process.pid, signal.SIGKILL))
        clock.start()
        try:
            for line in process.stdout:
                sys.stdout.write(line)
                sys.stdout.flush()
                lines.append(line.rstrip())
            process.wait()
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            clock.cancel()
    if process.returncode:
        why = f"took more than {limit:g} s" if process.returncode == -signal.SIGKILL else "failed"
        sys.stderr.write(f"{name}: {why}; what was kept of an earlier run stays\n")
        return 1
    figures = dict(found.groups() for line in lines if (found := _LINE.fullmatch(line)))
    kept = {
        "name": name,
        "command": shown,
        "date": datetime.now(tz=UTC).date().isoformat(),
        "machine": where,
        "seconds": round(time.monotonic() - began),
        "figures": figures,
        "output": [line for line in lines if not _LINE.fullmatch(line)],
    }
    KEPT.mkdir(exist_ok=True)
    text = json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
    (KEPT / f"{name}.json").write_text(text, encoding="utf-8")
    return 0


def main(arguments: list[str]) -> int:
    """Measure or render."""
    if len(arguments) > 5 and arguments[0] == "measure" and arguments[4] == "--":
        return measure(arguments[1], arguments[2], float(arguments[3]), arguments[5:])
    if arguments == ["render"]:
        for page in pages():
            before = page.read_text(encoding="utf-8")
            after = render(before)
            if after != before:
                page.write_text(after, encoding="utf-8")
                sys.stdout.write(f"updated {page.relative_to(ROOT)}\n")
        PICTURE.write_text(overview(load("house")["figures"]), encoding="utf-8")
        return 0
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
