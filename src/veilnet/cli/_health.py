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
    yield from map(_package, _NEEDED)
    yield _at_work()
    yield _algebra()
    yield _entropy()
    yield _clock()
    yield _disk("this folder", Path.cwd)
    yield _disk("temporary files", lambda: Path(tempfile.gettempdir()))
    yield from map(_extra, EXTRAS)
    yield _program(
        "browser", _BROWSERS, "the studio and reports open in any browser; the tests of pages need chromium"
    )
    yield _program("broker", _BROKERS, "only agents that send over MQTT need one: apt-get install mosquitto")


def _python() -> Symptom:
    where = Path(veilnet.__file__).parent
    found = f"veilnet {veilnet.__version__} in {where}, Python {platform.python_version()}"
    return Symptom("veilnet", "ok", found)


def _package(name: str) -> Symptom:
    advice = f"pip install --force-reinstall {name}, or pip install veilnet anew"
    fault = _fault(name)
    return Symptom(name, "problem", fault, advice) if fault else Symptom(name, "ok", _version(name))


def _extra(extra: str) -> Symptom:
    what, wanted = f"extra {extra}", EXTRAS[extra]
    fault = next(filter(None, map(_fault, wanted.modules)), "")
    if fault:
        return Symptom(what, "note", f"for {wanted.purpose}: {fault}", install_line(extra))
    return Symptom(what, "ok", f"for {wanted.purpose}: {', '.join(map(_version, wanted.modules))}")


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

        observe = {"a": [[1.0, 0.5]], "b": [[0.5, 1.0]]}
        network = vn.Network(observe, 1.0, {"u": [1, 0]}, {"g": [0, 1]}, vn.Prior([[1, 0], [0, 1]]))
        confirmed = vn.design(network).certificate.ok
    except Exception as error:  # whatever goes wrong is the finding
        found = f"could not be designed ({type(error).__name__})"
        return Symptom("a plan", "problem", found, "install veilnet anew")
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
    # an old threadpoolctl knows none of them
    blas = [pool for pool in pools if pool.get("user_api") == "blas"]
    built = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    found = ", ".join(sorted({f"{each['internal_api']} {each.get('version')}" for each in blas})) or (
        f"{built.get('name', 'unknown')} {built.get('version', '')}".strip()
    )
    threads = max((int(each["num_threads"]) for each in blas), default=0)
    counted = (
        f"{threads} thread{'s' * (threads > 1)}" if threads else "threads unknown (threadpoolctl is too old)"
    )
    words = f"{found}, {counted} on {cores} cores{f' ({set_})' if set_ else ''}"
    advice = "where several processes run at once, OMP_NUM_THREADS=1 keeps them out of each other's way"
    return Symptom("BLAS", "ok", words, advice if threads > 1 and not set_ else "")


def _entropy() -> Symptom:
    """The agents' noise is only as good as this."""
    advice = "no agent should send from this machine"
    try:
        os.getrandom(32, os.GRND_NONBLOCK)
        fault = "" if os.urandom(32) != os.urandom(32) else "the operating system repeats itself"
    except BlockingIOError:
        fault, advice = "the operating system has not gathered enough yet", "wait, or install haveged"
    except (OSError, NotImplementedError) as error:
        fault = f"the operating system gives none ({type(error).__name__})"
    if fault:
        return Symptom("entropy", "problem", fault, advice)
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


def _disk(what: str, place: Callable[[], Path]) -> Symptom:
    try:
        folder = place()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Symptom(what, "problem", error.strerror or "not there", "choose another folder")
    words = f"{folder}, {free / 2**30:.1f} GB free"
    if not os.access(folder, os.W_OK):
        return Symptom(what, "note", f"{words}, may not be written to", "write to another with --out")
    if free < _LITTLE:
        return Symptom(what, "problem", words, "free some space: plans and ledgers are written whole or not")
    if free < _SOME:
        return Symptom(what, "note", words, "ledgers of agents grow with every row")
    return Symptom(what, "ok", words)


def _program(what: str, names: tuple[str, ...], advice: str) -> Symptom:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])
    for name in names:
        found = shutil.which(name, path=path)
        if found:
            return Symptom(what, "ok", found)
    return Symptom(what, "note", f"none found ({', '.join(names)})", advice)
