"""Commands of veilnet in forked processes that end themselves, or another process, by SIGKILL at a line.

What :mod:`live_kills` walks with. A child has everything loaded that its parent has, so that it starts at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from veilnet import cli
from veilnet.live import agent as live_agent

PATIENCE = 120.0
WATCHED = (
    "/veilnet/live/",
    "/veilnet/io/agent_store.py",
    "/veilnet/io/_sqlite.py",
    "/veilnet/cli/agent.py",
    "/veilnet/cli/center.py",
    "/veilnet/sums/",
)

Line = tuple[str, int]


class Child:
    """A command of veilnet in a forked process, which ends itself, or another, at a line."""

    def __init__(self, arguments: list[str], log: Path, *, line: Line | None = None, victim: int = 0,
                 lines_to: Path | None = None, draws: Path | None = None,
                 prepare: Callable[[], None] | None = None) -> None:  # fmt: skip
        self.pid = os.fork()
        self._status: int | None = None
        if self.pid:
            return
        try:
            with log.open("a") as words:
                os.dup2(words.fileno(), 1)
                os.dup2(words.fileno(), 2)
            sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
            if draws is not None:
                _log_draws(draws)
            if prepare is not None:
                prepare()
            seen: set[Line] = set()
            if line is not None or lines_to is not None:
                trace = _tracer(seen, line, victim or os.getpid())
                threading.settrace(trace)
                sys.settrace(trace)
            code = cli.run(arguments)
            sys.settrace(None)
            if lines_to is not None:
                lines_to.write_text(json.dumps(sorted(seen)))
            sys.stderr.flush()
            os._exit(code)
        except BaseException as error:
            os.write(2, f"child: {error!r}\n".encode())
        finally:
            os._exit(70)

    def poll(self) -> int | None:
        """The exit code, -9 where it was killed; None while it runs."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def wait(self) -> int:
        """The exit code; TimeoutError where it does not end."""
        deadline = time.monotonic() + PATIENCE
        while self.poll() is None:
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                raise TimeoutError("stuck")
            time.sleep(0.005)
        assert self._status is not None
        return self._status

    def end(self, how: signal.Signals) -> None:
        """End it, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, how)
            self.wait()


def _tracer(seen: set[Line], line: Line | None, victim: int) -> Callable[..., object]:
    def trace(frame: object, event: str, _argument: object) -> object:
        name = frame.f_code.co_filename  # type: ignore[attr-defined]
        if not any(part in name for part in WATCHED):
            return None
        if event == "line":
            here = name.rpartition("/veilnet/")[2], frame.f_lineno  # type: ignore[attr-defined]
            if line is None:
                seen.add(here)
            elif here == line and not seen:
                seen.add(here)  # once
                os.kill(victim, signal.SIGKILL)
        return trace

    return trace


def _log_draws(path: Path) -> None:
    """Write down, before noise is drawn, for which reading it is."""
    original = live_agent.LiveAgent._drawn

    def drawn(self: live_agent.LiveAgent, epochs: Sequence[int], rows: np.ndarray) -> object:
        with path.open("a") as file:
            file.writelines(f"{row[0]!r}\n" for row in rows if np.isfinite(row).all())
        return original(self, epochs, rows)

    live_agent.LiveAgent._drawn = drawn  # type: ignore[assignment,method-assign]
