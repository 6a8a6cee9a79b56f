"""Work in a forked process that is ended by SIGKILL when it comes to a line."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

Line = tuple[str, int]


def lines_of(work: Callable[[], object], *files: str) -> list[Line]:
    """The lines of some files, told by the ends of their names, that some work comes to; the work is done here."""
    seen: dict[Line, None] = {}
    sys.settrace(_tracer(files, lambda here: seen.setdefault(here)))
    try:
        work()
    finally:
        sys.settrace(None)
    return list(seen)


def killed_at(work: Callable[[], object], line: Line) -> bool:
    """Whether the work, in a process of its own, was killed at a line; False where it never came there."""
    child = os.fork()
    if child == 0:
        code = 70
        try:

            def end(here: Line) -> None:
                if here == line:
                    os.kill(os.getpid(), signal.SIGKILL)

            sys.settrace(_tracer((line[0],), end))
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.waitstatus_to_exitcode(status) == 0, f"the work failed on the way to {line}"
    return False


def _tracer(files: tuple[str, ...], tell: Callable[[Line], object]) -> Any:
    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        name = next((each for each in files if frame.f_code.co_filename.endswith(each)), None)
        if name is None:
            return None
        if event == "line":
            tell((name, frame.f_lineno))
        return trace

    return trace
