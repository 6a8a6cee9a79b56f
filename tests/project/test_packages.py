"""What is released: the wheel holds what it must and nothing else, and runs where the repository is not.

``tools/release.py`` does the same with packages from an index, in environments that are empty; here those of this
environment are lent to one that has nothing but the wheel.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

import veilnet as vn
from veilnet._core.extras import EXTRAS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    return {path.suffix: path for path in folder.iterdir()}


def sources() -> set[str]:
    """Every file of the package, as it lies in the repository."""
    package = ROOT / "src" / "veilnet"
    return {
        f"veilnet/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_the_package_and_nothing_else(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built[".whl"]) as wheel:
        held = {
            name for name in wheel.namelist() if not name.startswith(f"veilnet-{vn.__version__}.dist-info/")
        }
        licences = [name for name in wheel.namelist() if name.endswith("/licenses/LICENSE")]
    assert held == sources()
    assert licences
    assert held >= {
        "veilnet/py.typed", "veilnet/data/house.toml", "veilnet/data/house_stream.toml", "veilnet/report/page.js",
        "veilnet/report/page.css", "veilnet/studio/page/index.html",
    }  # fmt: skip


def test_the_metadata_say_what_is_needed(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built[".whl"]) as wheel:
        text = wheel.read(f"veilnet-{vn.__version__}.dist-info/METADATA").decode()
        scripts = wheel.read(f"veilnet-{vn.__version__}.dist-info/entry_points.txt").decode()
    metadata = message_from_string(text)
    assert metadata["Version"] == vn.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert set(metadata.get_all("Provides-Extra", [])) - {"dev", "docs"} == set(EXTRAS)
    assert "veilnet = veilnet.cli:main" in scripts
    addresses = metadata.get_all("Project-URL", [])
    assert not addresses, "no address is given until there is one that leads somewhere"


def test_the_source_archive_can_be_worked_on(built: dict[str, Path]) -> None:
    with tarfile.open(built[".gz"]) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "test",
        "veilnet",
        "tools/environment.sh",
        "constraints.txt",
        "requirements.txt",
        "README.md",
        "CITATION.cff",
        "SECURITY.md",
    }
    wanted |= {"examples/frames.py", "docs/how-to/adapters.md", "benchmarks/run.py", "tests/conftest.py"}
    assert wanted <= held
    assert {f"src/{name}" for name in sources()} <= held
    assert not any(name.startswith((".venv", "dist/")) or "__pycache__" in name for name in held)


@pytest.fixture(scope="module")
def elsewhere(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, which borrows every other package from this one; no index is asked."""
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    python = folder / "venv" / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index",
         "--no-compile", str(built[".whl"])],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    paths = sysconfig.get_paths("venv", {"base": str(folder / "venv"), "platbase": str(folder / "venv")})
    # A path in such a file is only searched: the editable veilnet of this environment stays unknown.
    Path(paths["purelib"], "borrowed.pth").write_text(
        f"{sysconfig.get_paths()['purelib']}\n", encoding="utf-8"
    )
    return folder


def ran(folder: Path, *command: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(folder / "venv" / "bin" / command[0]), *command[1:]],
        cwd=folder, env=kept, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_runs_where_the_repository_is_not(elsewhere: Path) -> None:
    where = ran(elsewhere, "python", "-c", "import veilnet; print(veilnet.__file__)").strip()
    assert Path(where).is_relative_to(elsewhere)
    assert ran(elsewhere, "veilnet", "--version") == f"veilnet {vn.__version__}\n"
    ran(elsewhere, "veilnet", "init", "house.toml")
    ran(elsewhere, "veilnet", "design", "house.toml", "--out", "plan")
    assert (elsewhere / "plan" / "center.json").exists()


@pytest.mark.long
def test_the_wheel_plays_the_demo_and_the_examples(elsewhere: Path) -> None:
    assert "Your own network" in ran(elsewhere, "veilnet", "demo")
    for example in sorted((ROOT / "examples").glob("*.py")):
        if "FOLDER" not in example.read_text(encoding="utf-8"):
            assert ran(elsewhere, "python", str(example))


def test_the_version_is_the_same_everywhere() -> None:
    assert f"\nversion: {vn.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {vn.__version__}" in changes
    supported = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    tested = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    versions = [each.rsplit(" ", 1)[1] for each in supported["classifiers"] if ":: Python :: 3." in each]
    assert versions
    assert all(f'"{each}"' in tested for each in versions), "a version is promised that is not tested"


def test_actions_are_pinned_by_commit_and_say_their_version() -> None:
    workflows = [path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")]
    used = [line for text in workflows for line in text.splitlines() if "uses:" in line]
    assert len(workflows) == 2
    assert used
    for line in used:
        assert re.fullmatch(r" *- uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_continuous_integration_installs_what_tests_are_skipped_without() -> None:
    there = {
        "gcc",
        "libc6-dev",
        "g++",
        "chromium",
        "libatomic1",
    }  # of GitHub's machine, whose browser is Chrome
    named = re.compile(r"no [\w+ -]+: '(?:sudo )?apt-get install ([a-z0-9 +-]+)' brings")
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    needed = {package for text in texts for names in named.findall(text) for package in names.split()} - there
    assert needed > {"libmosquitto-dev"}
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        assert {"mosquitto", *needed} <= set(path.read_text(encoding="utf-8").split()), path.name


def test_the_paper_is_cited_with_its_authors() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert "Arbitrarily Strong Utility-Privacy Tradeoff in Multi-Agent Systems" in citation
    for name in ("Wang", "Song", "Tay"):
        assert f"family-names: {name}" in citation
