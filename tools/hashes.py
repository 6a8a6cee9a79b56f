"""Write down what ./veilnet and ./test may install: each package's hashes, so that nothing else is installed.

    .venv/bin/python tools/hashes.py constraints.txt requirements.txt
    .venv/bin/python tools/hashes.py constraints-oldest.txt requirements-oldest.txt 3.11

Reads the versions of the first file and writes the second. Of every version it lists all wheels that a supported
Python may choose on Linux or a Mac, by the hashes that pip's package index (PIP_INDEX_URL) tells, and the extras of
pyproject.toml that need it: a set-up takes the packages of its extras alone. A version without a wheel for one of the
supported Pythons (or, for this kind of machine, the Pythons given) on Debian 12 or newer is an error.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from urllib.parse import urldefrag

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename
from pip._internal.models.index import PyPI

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = tuple(sys.argv[3:]) or ("3.11", "3.12", "3.13", "3.14")
OLDEST_MICRO = {"3.11": "3.11.2"}  # Debian 12's own; .0 of the others
MACHINES = (platform.machine(),) if sys.argv[3:] else ("x86_64", "aarch64")
HEAD = """\
# What ./veilnet and ./test install, and the only files they accept. Written by tools/hashes.py from {name}: change
# a version there. "for" names the extras of pyproject.toml that need a package; "base" is what everything needs.
"""


def main() -> None:
    """See above."""
    given, written = (Path(name).resolve() for name in sys.argv[1:3])
    pins = dict(_pins(given))
    needed_by = _needed_by(pins, _requirements_of(given))
    with ThreadPoolExecutor(8) as several:
        hashes = dict(zip(pins, several.map(_hashes, pins, pins.values()), strict=True))
    lines = [HEAD.format(name=given.name)]
    for name in sorted(needed_by):
        lines.append(f"\n# for {' '.join(sorted(needed_by[name]))}\n{name}=={pins[name]}")
        lines += [f" \\\n    --hash=sha256:{each}" for each in sorted(hashes[name])]
    written.write_text("".join([*lines, "\n"]))
    print(f"{written.name}: {len(needed_by)} packages, {sum(map(len, hashes.values()))} files")
    if unused := pins.keys() - needed_by.keys():
        print(f"{given.name} also pins what nothing needs: {', '.join(sorted(unused))}")


def _pins(path: Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            name, _, version = line.partition("==")
            yield canonicalize_name(name), version


def _requirements_of(constraints: Path) -> dict[str, list[Requirement]]:
    """Package -> what it requires, as pip reads it without installing anything."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--dry-run",
        "--ignore-installed",
        "--no-deps",
    ]
    said = subprocess.run(
        [*command, "--report", "-", "--requirement", constraints], check=True, stdout=subprocess.PIPE
    )
    found = [each["metadata"] for each in json.loads(said.stdout)["install"]]
    return {
        canonicalize_name(each["name"]): [Requirement(line) for line in each.get("requires_dist", [])]
        for each in found
    }


def _needed_by(pins: dict[str, str], requirements: dict[str, list[Requirement]]) -> dict[str, set[str]]:
    """Package -> the extras that need it on any supported Python and machine."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = {"base": project["project"]["dependencies"], **project["project"]["optional-dependencies"]}
    extras["base"] = [*extras["base"], *project["build-system"]["requires"]]
    found: dict[str, set[str]] = {}
    wrong: set[str] = set()
    for python, machine in product(PYTHONS, MACHINES):
        environment = {
            "python_version": python,
            "python_full_version": OLDEST_MICRO.get(python, f"{python}.0"),
            "platform_machine": machine,
            "sys_platform": "linux",
            "platform_system": "Linux",
            "os_name": "posix",
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
        }

        def asked(
            lines: list[Requirement], extra: str, given: dict[str, str] = environment
        ) -> list[Requirement]:
            return [
                each
                for each in lines
                if each.marker is None or each.marker.evaluate({**given, "extra": extra})
            ]

        for extra, wanted in extras.items():
            due = [Requirement(each) for each in wanted]
            seen = set()
            while due:
                requirement = due.pop()
                name = canonicalize_name(requirement.name)
                if name == "veilnet":
                    due += [Requirement(each) for own in requirement.extras for each in extras[own]]
                    continue
                if name not in pins or not requirement.specifier.contains(pins[name], prereleases=True):
                    wrong.add(
                        f"{requirement} is needed (by {extra}, on Python {python}), found {pins.get(name)}"
                    )
                    continue
                found.setdefault(name, set()).add(extra)
                for own in ("", *requirement.extras):
                    if (name, own) not in seen:
                        seen.add((name, own))
                        due += asked(requirements[name], own)
    if wrong:
        sys.exit("\n".join(sorted(wrong)))
    return found


class _Links(HTMLParser):
    """The (address, Pythons it is for) of files on a page of the index."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, SpecifierSet]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what a link points to."""
        about = dict(attrs)
        if tag == "a" and (address := about.get("href")):
            try:
                self.found.append((address, SpecifierSet(about.get("data-requires-python") or "")))
            except InvalidSpecifier:  # of old versions; pip takes no notice of them either
                return


def _hashes(name: str, version: str) -> set[str]:
    """The hashes of a version's files that a supported Python may choose."""
    index = os.environ.get("PIP_INDEX_URL", PyPI.simple_url).rstrip("/")
    asked = urllib.request.Request(f"{index}/{name}/", headers={"Accept": "text/html"})
    page = _Links()
    with urllib.request.urlopen(asked, timeout=120) as answer:
        page.feed(answer.read().decode())
    found = set()
    lacking = set(product(PYTHONS, MACHINES))
    for link, pythons in page.found:
        address, kind_and_hash = urldefrag(link)
        kind, _, value = kind_and_hash.partition("=")
        tags = _tags(address.rsplit("/", 1)[-1], version)
        if kind == "sha256" and _may_be_chosen(tags):
            found.add(value)
            lacking -= {each for each in lacking if _fits(tags, pythons, *each)}
    if lacking:
        sys.exit(f"{name}=={version} has no wheel for {sorted(lacking)}: choose another version")
    return found


def _tags(file: str, version: str) -> Collection[Tag]:
    """What a wheel of this version is for; nothing where it is another, or none."""
    try:
        _, found, _, tags = parse_wheel_filename(file)
    except ValueError:  # no wheel: what builds a source archive would be fetched unchecked
        return ()
    return tags if str(found) == version else ()


def _fits(tags: Collection[Tag], pythons: SpecifierSet, python: str, machine: str) -> bool:
    """Whether Debian 12 installs such a wheel."""
    major, minor = map(int, python.split("."))
    platforms = [f"manylinux_2_{k}_{machine}" for k in range(5, 37)]
    platforms += [f"manylinux{year}_{machine}" for year in ("1", "2010", "2014")]
    taken = {
        *cpython_tags((major, minor), platforms=platforms),
        *compatible_tags((major, minor), platforms=platforms),
    }
    return not taken.isdisjoint(tags) and pythons.contains(OLDEST_MICRO.get(python, f"{python}.0"))


def _may_be_chosen(tags: Collection[Tag]) -> bool:
    """Whether a supported Python may install such a wheel; not Windows, not PyPy, not without the global lock."""
    own = {f"cp{each.replace('.', '')}" for each in PYTHONS}
    return any(
        not tag.platform.startswith("win")
        and (
            tag.interpreter.startswith("py3")
            or (tag.abi == "abi3" and tag.interpreter.startswith("cp3"))
            or (tag.interpreter in own and tag.abi in (tag.interpreter, "none"))
        )
        for tag in tags
    )


if __name__ == "__main__":
    main()
