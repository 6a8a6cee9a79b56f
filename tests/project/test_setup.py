"""The launcher and the set-up of .venv; nothing here needs a network.

The launcher runs in a copy of the repository's few set-up files, with a stand-in for ``python3`` that answers
``-m venv``, ``-m pip`` and ``-m veilnet`` itself and leaves ``-c`` (version check, lock) to the real one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[2]
SET_UP = REPOSITORY / "tools" / "environment.sh"
NO_PIP_SETTINGS = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")} | {
    "PIP_CONFIG_FILE": os.devnull
}
SHELL_FILES = ["veilnet", "test", ".ci/run", "tools/environment.sh", "tools/other_pythons.sh"]
TOOLS = "sh dirname readlink cat cksum mkdir rm cp grep tail cut awk sleep id".split()  # noqa: SIM905

STAND_IN = """#!/bin/sh
# stand-in for python3; FAKE_* variables steer it
case "$1 $2" in
    "-c "*)
        case $2 in
            *'import ensurepip'*) [ ! -e "${{FAKE_NO_VENV:-}}" ] ;;
            *'print('*) printf '%s\\n' "${{FAKE_VERSION:-3.11}}" ;;
            *'version_info <'*) [ -z "${{FAKE_VERSION:-}}" ] ;;
            *'import pip'*) exit 0 ;;
            *) exec {real} "$@" ;;
        esac ;;
    "-m venv")
        echo venv >>"$FAKE_LOG"
        for folder; do :; done
        rm -rf "$folder" && mkdir -p "$folder/bin" && cp "$0" "$folder/bin/python" ;;
    "--version "*) echo "Python ${{FAKE_VERSION:-3.11}}" ;;
    "-m pip")
        echo "pip $*" >>"$FAKE_LOG"
        [ -z "${{FAKE_SLOW:-}}" ] || sleep "$FAKE_SLOW"
        [ -z "${{FAKE_PIP_ERROR:-}}" ] || {{ echo "ERROR: $FAKE_PIP_ERROR" >&2; exit 1; }} ;;
    "-m ruff" | "-m mypy" | "-m pytest") exit 0 ;;
    "-m veilnet")
        shift 2
        printf '<%s>' "$PWD" "$@"; echo ;;
    *) echo "unexpected: $*" >&2; exit 99 ;;
esac
"""


class Sandbox:
    """A repository of set-up files with a space in its path, and a PATH without the real python3."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a repository"
        (self.root / "tools").mkdir(parents=True)
        for name in ["veilnet", "tools/environment.sh", "pyproject.toml", "requirements.txt"]:
            shutil.copy(REPOSITORY / name, self.root / name)
        self.bin = folder / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            if found is None:
                pytest.skip(f"no {tool} on this machine")
            (self.bin / tool).symlink_to(found)
        self.log = folder / "log"
        self.log.touch()
        self.python = self.bin / "python3"
        self.python.write_text(STAND_IN.format(real=shlex.quote(sys.executable)))
        self.python.chmod(0o755)

    def start(self, *command: str | Path, cwd: Path | None = None, **fake: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(word) for word in command] or [str(self.root / "veilnet"), "--version"],
            cwd=cwd,
            env={"PATH": str(self.bin), "FAKE_LOG": str(self.log), **fake},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: str | Path, cwd: Path | None = None, **fake: str) -> tuple[int, str, str]:
        process = self.start(*command, cwd=cwd, **fake)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def installed(self) -> list[str]:
        """The extras of every installation so far."""
        return re.findall(r"--editable \.\[(.*)\]", self.log.read_text())

    def calls(self) -> list[str]:
        """What the stand-in was asked to do since the last look."""
        lines = self.log.read_text().splitlines()
        self.log.write_text("")
        return [line.split()[0] for line in lines]


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path)


@pytest.mark.parametrize("name", SHELL_FILES)
def test_shell_files_are_posix_and_executable(name: str) -> None:
    shell = shutil.which("dash") or "sh"
    subprocess.run([shell, "-n", str(REPOSITORY / name)], check=True)
    if not name.endswith(".sh"):
        assert os.access(REPOSITORY / name, os.X_OK)


def test_first_start_sets_up_and_the_second_is_silent_from_anywhere(sandbox: Sandbox, tmp_path: Path) -> None:
    code, out, err = sandbox.run(sandbox.root / "veilnet", "check", "two words", "")
    assert (code, err) == (0, "setting up veilnet (once) ...\n")
    assert out.endswith("<check><two words><>\n")
    assert sandbox.calls() == ["venv", "pip", "pip"]
    elsewhere = tmp_path / "else where"
    (elsewhere / "deep").mkdir(parents=True)
    (elsewhere / "near").symlink_to(Path("..") / "a repository" / "veilnet")
    (elsewhere / "deep" / "far").symlink_to(elsewhere / "near")
    for command in ["../near", "./far"]:  # by chains of links
        there = sandbox.run(command, "x", cwd=elsewhere / "deep")
        assert there == (0, f"<{elsewhere / 'deep'}><x>\n", "")
    assert sandbox.calls() == []


@pytest.mark.parametrize("change", ["pyproject.toml", "requirements.txt", "its folder"])
def test_what_changed_is_installed_again_into_the_same_venv(sandbox: Sandbox, change: str) -> None:
    sandbox.run()
    sandbox.calls()
    if change == "its folder":
        sandbox.root = sandbox.root.rename(sandbox.root.with_name("moved"))
    else:
        with (sandbox.root / change).open("a") as file:
            file.write("# changed\n")
    assert sandbox.run(sandbox.root / "veilnet")[0] == 0
    assert sandbox.calls() == ["pip", "pip"]


def test_extras_are_added_once_each_and_never_lost(sandbox: Sandbox) -> None:
    said = []

    def verb(name: str, **fake: str) -> list[str]:
        said.append(sandbox.run(sandbox.root / "veilnet", name, **fake)[2])
        return sandbox.installed()

    assert verb("check") == ["plot"]
    assert verb("audit") == verb("fit") == ["plot", "plot,sklearn"]
    assert said == [
        "setting up veilnet (once) ...\n", "adding to veilnet what this command needs (once) ...\n", "",
    ]  # fmt: skip
    assert verb("reproduce", FAKE_PIP_ERROR="no network")[2:] == []
    assert verb("audit") == verb("check") == ["plot", "plot,sklearn"]  # a failure takes nothing away
    added = verb("bench")
    assert added[2:] == ["paper"]
    assert verb("reproduce") == verb("check") == verb("audit") == added
    mark = sandbox.root / ".venv" / ".ready-plot"
    for each in mark.parent.glob(".ready-*"):
        each.replace(mark.with_name(".ready-dev"))
    assert verb("sign") == verb("live") == added  # the tests' extras are enough for every verb


@pytest.mark.parametrize(
    ("line", "extras"),
    [
        ("sign --help", "plot"),
        ("sign plan", "plot,sign"),
        ("sanitize a.json --trust designer.pub", "plot,sign"),
        ("live keys plan", "live,plot"),
        ("agent a.json", "live,plot"),
        ("center center.json", "live,plot"),
        ("live page estimates.sqlite", "live,plot,studio"),
        ("parts design city --cluster local", "cluster,plot"),
        ("reproduce fig1 --cluster local", "cluster,paper"),
        ("fit log.csv --agent kitchen=T", "plot,sklearn"),
        ("fit log.parquet --agent kitchen=T", "plot,sklearn,tables"),
        ("fit log.xlsx --agent kitchen=T", "plot,sklearn,tables"),
    ],
)
def test_a_verb_installs_what_it_needs(sandbox: Sandbox, line: str, extras: str) -> None:
    sandbox.run(sandbox.root / "veilnet", *line.split())
    assert sandbox.installed() == [extras]
    listed = (sandbox.root / ".venv" / "requirements.txt").read_text()
    names = set(re.findall(r"^([a-z0-9-]+)==", listed, re.MULTILINE))
    assert ("cryptography" in names) == bool({"sign", "live"} & set(extras.split(",")))
    assert {"numpy", "hatchling"} <= names
    assert "pytest" not in names
    assert "--require-hashes" in sandbox.log.read_text()
    sandbox.calls()
    for verb in ("sign", "audit", "reproduce"):  # help takes whatever is there
        code, out, err = sandbox.run(sandbox.root / "veilnet", verb, "-h")
        assert (code, err) == (0, "")
        assert out.endswith(f"<{verb}><-h>\n")
    assert sandbox.calls() == []


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
def test_an_interrupted_set_up_is_done_anew(sandbox: Sandbox, signal_number: int) -> None:
    process = sandbox.start(FAKE_SLOW="300")
    while "pip" not in sandbox.log.read_text():
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal_number)
    process.communicate()
    sandbox.calls()
    code, out, _ = sandbox.run(sandbox.root / "veilnet", "x")
    assert code == 0
    assert out.endswith("<x>\n")
    assert sandbox.calls() == ["venv", "pip", "pip"]


def test_concurrent_first_starts_set_up_once(sandbox: Sandbox) -> None:
    starts = [sandbox.start(sandbox.root / "veilnet", str(n), FAKE_SLOW="0.3") for n in range(4)]
    for number, process in enumerate(starts):
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        assert out.endswith(f"<{number}>\n")
    assert sandbox.calls() == ["venv", "pip", "pip"]


@pytest.mark.parametrize(("given", "kept"), [("C", "C.UTF-8"), ("C.UTF-8", "C.UTF-8"), ("POSIX", "C.UTF-8")])
def test_python_finds_folders_with_umlauts_in_every_locale(given: str, kept: str, tmp_path: Path) -> None:
    folder = tmp_path / "Häuser"
    folder.mkdir()
    (folder / "found.py").write_text("")
    (tmp_path / "here.pth").write_text(f"{folder}\n", encoding="utf-8")
    finds = f"import site; site.addsitedir({str(tmp_path)!r}); import found"
    line = '. "$1"; echo "$LC_ALL"; exec "$2" -c "$3"'
    done = subprocess.run(
        ["sh", "-c", f"root=$PWD program=test; {line}", "sh", SET_UP, sys.executable, finds],
        env={**os.environ, "LC_ALL": given},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{kept}\n", "")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ("none", "Python 3.11 or newer is needed: install it"),
        ("old", "Python 3.11 or newer is needed, found only 3.9: "),
        ("no venv", "run 'sudo apt-get install python3.11-venv' and try again"),  # no apt-get on this PATH
    ],
)
def test_a_python_that_does_not_do_is_one_line(sandbox: Sandbox, found: str, words: str) -> None:
    if found == "none":
        sandbox.python.unlink()
    fake = {"old": {"FAKE_VERSION": "3.9"}, "no venv": {"FAKE_NO_VENV": "/"}}.get(found, {})
    code, out, err = sandbox.run(**fake)
    assert (code, out) == (1, "")
    assert words in err.splitlines()[-1]
    assert sandbox.calls() == []


def as_root(sandbox: Sandbox, folder: Path) -> str:
    """Root's machine with apt-get and without Python's venv, which is missing while the file returned is there."""
    missing = folder / "missing"
    missing.touch()
    (sandbox.bin / "id").unlink()
    apt_get = 'echo "apt $*" >>"$FAKE_LOG"; rm -f "$FAKE_NO_VENV"'
    for name, body in {"id": "echo 0", "dpkg": "exit 1", "apt-get": apt_get}.items():
        (sandbox.bin / name).write_text(f"#!/bin/sh\n{body}\n")
        (sandbox.bin / name).chmod(0o755)
    return str(missing)


@pytest.mark.parametrize(
    ("line", "installs"),
    [
        ("check", True),
        ("--no-system check house.toml", False),
        ("agent a.json", False),
        ("sanitize a.json", False),
    ],
)
def test_nothing_of_the_system_is_installed_at_an_agent_nor_against_one_s_will(
    sandbox: Sandbox, tmp_path: Path, line: str, installs: bool
) -> None:
    missing = as_root(sandbox, tmp_path)
    code, out, err = sandbox.run(sandbox.root / "veilnet", *line.split(), FAKE_NO_VENV=missing)
    if installs:
        assert re.search(r"installing python3\.11-venv by apt-get.* --no-system ", err)
        assert "apt -y -q install python3.11-venv" in sandbox.log.read_text()
        assert sandbox.calls() == ["apt", "venv", "pip", "pip"]
        return
    assert code == 1
    assert "sudo apt-get install python3.11-venv" in err
    assert sandbox.calls() == []
    Path(missing).unlink()
    code, out, _ = sandbox.run(sandbox.root / "veilnet", *line.split())
    assert code == 0
    assert "--no-system" not in out  # it is the launcher's, not the verb's


@pytest.mark.parametrize(
    ("options", "installs"), [((), ["chromium libatomic1", "mosquitto"]), (("--no-system",), [])]
)
def test_the_tests_say_what_they_install_and_what_was_skipped_without_it(
    sandbox: Sandbox, tmp_path: Path, options: tuple[str, ...], installs: list[str]
) -> None:
    if Path("/usr/sbin/mosquitto").exists():
        installs = [name for name in installs if name != "mosquitto"]
    missing = as_root(sandbox, tmp_path)
    Path(missing).unlink()
    shutil.copy(REPOSITORY / "test", sandbox.root / "test")
    code, out, err = sandbox.run(sandbox.root / "test", *options, FAKE_NO_VENV=missing)
    assert code == 0
    assert re.findall(r": installing ([\w ]+) by apt-get.*--no-system", err) == installs
    assert ("chromium" in out.splitlines()[-1]) == (not installs)
    assert "gcc libc6-dev libmosquitto-dev" in out.splitlines()[-1]  # no compiler on this PATH
    asked = [line.split(" install ")[-1] for line in sandbox.log.read_text().splitlines() if "apt" in line]
    assert asked == installs


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("NewConnectionError: Temporary failure in name resolution", "connect to the network"),
        ("No space left on device", "free some space"),
        ("Permission denied", "make it writable"),
        ("no matching distribution: Requires-Python >=3.11.5", "take another Python"),
        ("THESE PACKAGES DO NOT MATCH THE HASHES", "not the one that was tested"),
        ("something else", "see the log"),
    ],
)
def test_failing_pip_is_told_in_its_own_words_with_advice_and_a_log(
    sandbox: Sandbox, error: str, advice: str
) -> None:
    code, out, err = sandbox.run(FAKE_PIP_ERROR=error)
    assert (code, out) == (1, "")
    announcement, said, line = err.splitlines()
    assert announcement == "setting up veilnet (once) ..."
    assert said == f"ERROR: {error}"
    assert line.startswith("veilnet: ")
    assert advice in line
    log = sandbox.root / ".venv" / "setup.log"
    assert line.endswith(f"details in {log}")
    assert error in log.read_text()
    sandbox.calls()
    assert sandbox.run()[0] == 0  # the next start tries again
    assert sandbox.calls() == ["pip", "pip"]


@pytest.mark.parametrize("which", ["", "-oldest"])
def test_what_is_installed_is_the_versions_tested_by_hashes_and_nothing_else(which: str) -> None:
    pins = set()
    for line in (REPOSITORY / f"constraints{which}.txt").read_text().splitlines():
        if not line.startswith("#"):
            name, version = re.fullmatch(r"([A-Za-z0-9_.-]+)==([A-Za-z0-9_.+!-]+)", line).groups()
            pins.add(f"{re.sub('[-_.]+', '-', name).lower()}=={version}")
    _, *packages = (REPOSITORY / f"requirements{which}.txt").read_text().split("\n# for ")
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    hashed = set()
    for package in packages:
        needed_by, requirement, *hashes = package.splitlines()
        assert set(needed_by.split()) <= {"base", *extras}
        hashed.add(requirement.removesuffix(" \\"))
        assert hashes
        assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in hashes)
    assert hashed == pins


def test_a_package_with_another_hash_is_refused(tmp_path: Path) -> None:
    """pip itself, on a wheel whose hash is listed and on the same wheel with one byte more."""
    wheel = tmp_path / "known-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("known-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: known\nVersion: 1.0\n")
        archive.writestr(
            "known-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("known-1.0.dist-info/RECORD", "")
    listed = tmp_path / "requirements.txt"
    listed.write_text(f"known==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    options = (
        re.search(r"pip_install (--require-hashes .*) --requirement", SET_UP.read_text()).group(1).split()
    )
    command = [sys.executable, "-m", "pip", "install", "--no-deps", *options, "--requirement", listed]
    command += ["--no-index", "--find-links", tmp_path, "--target", tmp_path / "there"]

    def install() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, check=False, env=NO_PIP_SETTINGS)

    assert install().returncode == 0
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    shutil.rmtree(tmp_path / "there")
    refused = install()
    assert refused.returncode == 1
    assert "DO NOT MATCH THE HASHES" in refused.stderr
