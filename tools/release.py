"""Build the wheel and the source archive, install each in an empty environment, and run them.

    .venv/bin/python tools/release.py                    build into dist/ and try both, with packages from the index
    .venv/bin/python tools/release.py --office FOLDER    run the examples on the office's log too

Each is installed with the extras that the examples need, at the versions of constraints.txt, and must play the demo,
find itself in order (veilnet doctor) and run every example, from a folder that knows nothing of the repository.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = "plot,tables,sklearn,stonesoup"


def build(target: Path) -> list[Path]:
    """The wheel and the source archive, made by the hatchling of this environment."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(target)],
        cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return sorted(path for path in target.iterdir() if path.suffix in (".whl", ".gz"))


def plain_environment() -> dict[str, str]:
    """The environment without anything that would lead back to the repository."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def try_out(archive: Path, folder: Path, office: Path | None) -> None:
    """Install an archive in an empty environment and run what it brings."""
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / "bin"
    constraints = ["--constraint", str(ROOT / "constraints.txt")]

    def run(*command: str | Path) -> None:
        print("$", *(Path(word).name if isinstance(word, Path) else word for word in command), flush=True)
        ran = subprocess.run(
            [str(word) for word in command],
            cwd=folder, env=plain_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False,
        )  # fmt: skip
        if ran.returncode:
            sys.exit(f"{ran.stdout}\nFAILED with exit code {ran.returncode}: {archive.name}")

    run(programs / "pip", "install", "--quiet", *constraints, f"{archive}[{EXTRAS}]")
    run(programs / "veilnet", "doctor")
    run(programs / "veilnet", "demo")
    examples = folder / "examples"
    shutil.copytree(ROOT / "examples", examples)
    for example in sorted(examples.glob("*.py")):
        needs_data = "FOLDER" in example.read_text(encoding="utf-8")
        if not needs_data:
            run(programs / "python", example)
        elif office is not None:
            run(programs / "python", example, office)


def main() -> None:
    """Build into dist/, then try each archive in a folder of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--office", type=Path, help="folder with training.csv and test2.csv of the office")
    given = parser.parse_args()
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    for archive in build(ROOT / "dist"):
        print(f"{archive.name}, {archive.stat().st_size / 1e6:.2f} MB")
        with tempfile.TemporaryDirectory(prefix="veilnet-release-") as folder:
            try_out(archive, Path(folder), None if given.office is None else given.office.resolve())
    print("both install in an empty environment and run")


if __name__ == "__main__":
    main()
