"""What ``veilnet doctor`` looks at: each look gives findings, and says what to do where something is amiss."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import Literal

import veilnet
from veilnet._core.extras import EXTRAS, install_line

State = Literal["ok", "note", "problem"]

_NEEDED = ("numpy", "scipy", "rich", "msgspec")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "firefox")
_BROKERS = ("mosquitto", "nanomq", "emqx")
_LITTLE, _SOME = 100 * 2**20, 2**30  # bytes free on a disk
_DAY = 86400.0


@dataclass(frozen=True)
class Symptom:
    """One thing that was looked at.

    what:   its name.
    state:  "ok"; "note" where something optional is missing or worth knowing; "problem" where veilnet cannot work.
    found:  in words.
    advice: what to do, empty where there is nothing to do.
    """

    what: str
    state: State
    found: str
    advice: str = ""


def findings() -> Iterator[Symptom]:
    """Everything that is looked at, one after another."""
    yield _python()
    yield from _packages()
    yield _at_work()
    yield _algebra()
    yield _entropy()
    yield _clock()
    yield from _disks()
    for extra in EXTRAS:
        yield _extra(extra)
    yield _program(
        "browser", _BROWSERS, "the studio and reports open in any browser; the tests of pages need chromium"
    )
    yield _program("broker", _BROKERS, "only agents that send over MQTT need one: apt-get install mosquitto")


def _python() -> Symptom:
    where = Path(veilnet.__file__).parent
    found = f"veilnet {veilnet.__version__} in {where}, Python {platform.python_version()}"
    return Symptom("veilnet", "ok", found)


def _packages() -> Iterator[Symptom]:
    for name in _NEEDED:
        fault = _fault(name)
        if fault:
            yield Symptom(
                name, "problem", fault, f"pip install --force-reinstall {name}, or pip install veilnet anew"
            )
        else:
            yield Symptom(name, "ok", _version(name))


def _extra(extra: str) -> Symptom:
    wanted = EXTRAS[extra]
    faults = [fault for fault in map(_fault, wanted.modules) if fault]
    if faults:
        return Symptom(f"extra {extra}", "note", f"for {wanted.purpose}: {faults[0]}", install_line(extra))
    versions = ", ".join(_version(name) for name in wanted.modules)
    return Symptom(f"extra {extra}", "ok", f"for {wanted.purpose}: {versions}")


def _fault(module: str) -> str:
    """Why a module cannot be imported, empty if it can; installed is not enough."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import_module(module)
    except ModuleNotFoundError as error:
        return f"{error.name or module} is not installed"
    except Exception as error:  # a broken package fails in any way
        return f"{module} is installed and does not start ({type(error).__name__})"
    return ""


def _version(module: str) -> str:
    distribution = _distributions().get(module, [module])[0]
    try:
        return f"{distribution} {version(distribution)}"
    except PackageNotFoundError:
        return module


@cache
def _distributions() -> Mapping[str, list[str]]:
    """Module -> the packages that bring it; looking takes a while."""
    return packages_distributions()


def _at_work() -> Symptom:
    """A plan designed and confirmed: whatever else is said, this is what has to work."""
    try:
        import veilnet as vn

        network = vn.Network(
            {"a": [[1.0, 0.5]], "b": [[0.5, 1.0]]},
            1.0,
            {"u": [1, 0]},
            {"g": [0, 1]},
            vn.Prior([[1, 0], [0, 1]]),
        )
        confirmed = vn.design(network).certificate.ok
    except Exception as error:  # whatever goes wrong is the finding
        return Symptom(
            "a plan", "problem", f"could not be designed ({type(error).__name__})", "install veilnet anew"
        )
    if not confirmed:
        return Symptom("a plan", "problem", "was designed and not confirmed", "NumPy's BLAS computes wrongly")
    return Symptom("a plan", "ok", "designed, and every promise confirmed")


def _algebra() -> Symptom:
    import numpy as np

    set_ = next((f"{name}={os.environ[name]}" for name in _THREADS if name in os.environ), "")
    cores = len(os.sched_getaffinity(0))
    try:
        pools = import_module("threadpoolctl").threadpool_info()
    except ImportError:
        pools = []
    blas = [
        pool for pool in pools if pool.get("user_api") == "blas"
    ]  # an old threadpoolctl knows none of them
    built = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    found = ", ".join(sorted({f"{each['internal_api']} {each.get('version')}" for each in blas})) or (
        f"{built.get('name', 'unknown')} {built.get('version', '')}".strip()
    )
    threads = max((int(each["num_threads"]) for each in blas), default=0)
    counted = f"{threads} threads" if threads else "threads not counted (a newer threadpoolctl would)"
    words = f"{found}, {counted} on {cores} cores{f' ({set_})' if set_ else ''}"
    if threads > 1 and not set_:
        return Symptom(
            "BLAS",
            "ok",
            words,
            "where several processes run at once, OMP_NUM_THREADS=1 keeps them out of each other's way",
        )
    return Symptom("BLAS", "ok", words)


def _entropy() -> Symptom:
    """The agents' noise is only as good as this."""
    try:
        if hasattr(os, "getrandom"):
            os.getrandom(32, os.GRND_NONBLOCK)
        first, second = os.urandom(32), os.urandom(32)
    except BlockingIOError:
        return Symptom(
            "entropy",
            "problem",
            "the operating system has not gathered enough yet",
            "wait, or install haveged",
        )
    except (OSError, NotImplementedError) as error:
        return Symptom(
            "entropy", "problem", f"the operating system gives none ({type(error).__name__})",
            "no agent may send from this machine",
        )  # fmt: skip
    if first == second:
        return Symptom(
            "entropy", "problem", "the operating system repeats itself", "no agent may send from here"
        )
    return Symptom("entropy", "ok", "getrandom of the operating system")


def _clock() -> Symptom:
    installed = Path(__file__).stat().st_mtime
    now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    advice = "set the clock: rows of several agents are aligned by it"
    if time.time() < installed - _DAY:
        return Symptom("clock", "problem", f"{now}, before veilnet was installed", advice)
    step = time.get_clock_info("time").resolution
    synchronises = _answer_of("timedatectl", "show", "--property=NTPSynchronized", "--value")
    if synchronises == "no":
        return Symptom("clock", "note", f"{now}, not synchronised", advice)
    synchronised = ", synchronised" if synchronises == "yes" else ""
    return Symptom("clock", "ok", f"{now}, steps of {step:.0e} s{synchronised}")


def _answer_of(*command: str) -> str:
    """What a program of the system says, empty where it is not there or says nothing soon."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=3, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""


def _disks() -> Iterator[Symptom]:
    looks: tuple[tuple[str, Callable[[], Path]], ...] = (
        ("this folder", Path.cwd),
        ("temporary files", lambda: Path(tempfile.gettempdir())),
    )
    for what, place in looks:
        try:
            folder = place()
            free = shutil.disk_usage(folder).free
        except OSError as error:
            yield Symptom(what, "problem", error.strerror or "not there", "choose another folder")
            continue
        words = f"{folder}, {free / 2**30:.1f} GB free"
        if not os.access(folder, os.W_OK):
            yield Symptom(what, "note", f"{words}, may not be written to", "write to another with --out")
        elif free < _LITTLE:
            yield Symptom(
                what, "problem", words, "free some space: plans and ledgers are written whole or not"
            )
        else:
            advice = "ledgers of agents grow with every row" if free < _SOME else ""
            yield Symptom(what, "note" if free < _SOME else "ok", words, advice)


def _program(what: str, names: tuple[str, ...], advice: str) -> Symptom:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])
    for name in names:
        found = shutil.which(name, path=path)
        if found:
            return Symptom(what, "ok", found)
    return Symptom(what, "note", f"none found ({', '.join(names)})", advice)
