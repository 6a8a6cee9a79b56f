"""Work that takes longer than an answer may: in a process of its own, so that it can be cancelled at any moment.

The process has its own Python, so a long search never slows the answers to someone who drags a target. What it tells
on its way (how far it is, parts of the result) arrives by a pipe; ending the process loses nothing, since it writes
no file.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Literal

from veilnet._core.errors import VeilnetError

Tell = Callable[[Any], None]
Task = Callable[..., Any]
State = Literal["running", "done", "failed", "cancelled"]

_OFTEN = 0.1  # seconds between two words on how far it is


class Job:
    """A task that runs elsewhere.

    name:   what it is, for those who watch.
    task:   a function of a module: called with ``tell``, ``progress`` and the arguments.
    given:  its arguments.
    part:   called, in a thread of this job, with everything the task tells on its way.
    done:   called with its result, likewise.
    """

    def __init__(
        self,
        name: str,
        task: Task,
        given: tuple[Any, ...],
        *,
        part: Tell | None = None,
        done: Tell | None = None,
    ) -> None:
        self.name = name
        self.state: State = "running"
        self.what, self.progress = "", 0.0
        self.error = ""
        self._part, self._done = part, done
        spawn = multiprocessing.get_context("spawn")
        self._here, there = spawn.Pipe()
        self._process = spawn.Process(target=_work, args=(task, given, there), daemon=True)
        self._process.start()
        there.close()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def cancel(self) -> None:
        """End it now. One that has ended already stays as it was."""
        if self._running():
            self.state = "cancelled"
            self._process.terminate()
        self._process.join(timeout=5)

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within so many seconds."""
        self._listener.join(timeout=seconds)
        return not self._listener.is_alive()

    def _running(self) -> bool:
        return self.state == "running"

    def _listen(self) -> None:
        try:
            while self._running():
                kind, *said = self._here.recv()
                if self._running():  # not cancelled meanwhile
                    self._hear(kind, said)
        except EOFError:  # the process is gone
            if self._running():
                self.error = "the computation ended without a result; it may have run out of memory"
                self.state = "failed"
        finally:
            self._here.close()

    def _hear(self, kind: str, said: list[Any]) -> None:
        if kind == "progress":
            self.what, self.progress = said
        elif kind == "part" and self._part is not None:
            self._part(said[0])
        elif kind == "failed":
            self.error, self.state = said[0], "failed"
        elif kind == "done":
            try:
                if self._done is not None:
                    self._done(said[0])
            except VeilnetError as error:  # what was found is refused where it is to be used
                self.error, self.state = str(error), "failed"
            else:
                self.progress, self.state = 1.0, "done"


def _work(task: Task, given: tuple[Any, ...], there: Connection) -> None:
    """What the process does: the task, telling how far it is now and then."""
    from veilnet._core.threads import one_thread

    last = 0.0

    def progress(what: str, part: float) -> None:
        nonlocal last
        if time.monotonic() - last > _OFTEN:
            last = time.monotonic()
            there.send(("progress", what, float(part)))

    try:
        with one_thread():
            found = task(lambda said: there.send(("part", said)), progress, *given)
        there.send(("done", found))
    except VeilnetError as error:
        there.send(("failed", str(error)))
    except BrokenPipeError:  # the client has gone
        pass
    except Exception as error:
        # The kind of fault, never its message, which might hold a reading.
        there.send(("failed", f"an error in veilnet ({type(error).__name__}); please report what you did"))
