"""Between an agent's lines: where readings come from, and what is said beside."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

from veilnet._core.errors import InvalidReading

if TYPE_CHECKING:
    from veilnet.io.reading_streams import ReadingReader
    from veilnet.io.sources import RowSource
    from veilnet.io.streams import Block
    from veilnet.live.metrics import Families

LINES_AT_ONCE = 2048
USED_UP = "the budget is used up: nothing more is sent until x changes and a new store is begun"


_form = "plain"  # how lines of a service are written; one process is one service
_WARNINGS = (
    "no connection", "the connection to the broker ended", "the broker refuses", "the broker does not", "refused",
    "kept and did not use", "no agent has been heard", "the store could not be written",
    "the standby does not answer",
    "waits for the centre", "was replaced, and is not taken up", "promise", "has no seal here",
)  # fmt: skip


def log_as(form: str | None) -> None:
    """How what is said by a service is written from now on: plain, or with time and level, as text or JSON lines."""
    global _form
    _form = form or "plain"


def speaker(verb: str) -> Callable[[str], None]:
    """Says what the user of a verb should know, on standard error; nothing where there is nothing to say."""

    def say(sentence: str) -> None:
        if not sentence:
            return
        now = time.time()
        moment = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03d}Z"
        level = "warning" if any(words in sentence for words in _WARNINGS) else "info"
        if _form == "json":
            line = json.dumps(
                {"time": moment, "level": level, "from": verb, "message": sentence}, ensure_ascii=False
            )
        else:
            line = f"veilnet {verb}: {sentence}"
            line = f"{moment} {level} {line}" if _form == "text" else line
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    return say


@contextmanager
def answering(
    place: str | None,
    families: Callable[[], Families],
    quiet: Callable[[], float | None],
    say: Callable[[str], None],
) -> Iterator[None]:
    """Answer for metrics and health, where that was asked for."""
    if place is None:
        yield
        return
    from veilnet.live.metrics import MetricsServer

    server = MetricsServer(place, families, quiet).start()
    say(f"metrics at {server.address}")
    try:
        yield
    finally:
        server.stop()


def stop_signal() -> threading.Event:
    """Set by the signals that end a service: SIGTERM, and Ctrl-C."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    return ended


class Ending:
    """SIGTERM and Ctrl-C, within ``with``: waiting for readings ends at once, what is being done when it is done."""

    def __init__(self) -> None:
        self.asked = self._waits = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Ending:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, *_: object) -> None:
        self.asked = True
        if self._waits:
            self._waits = False  # asked again, it does not end what is being done
            raise _EndedWaiting

    def until(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """The same blocks, until one is asked to end."""
        coming = iter(blocks)
        while True:
            try:
                self._waits = True
                block = None if self.asked else next(coming, None)
                self._waits = False
            except _EndedWaiting:
                return
            if block is None:
                return
            yield block


class _EndedWaiting(BaseException):
    """Nothing is read any more."""


def with_first(blocks: Iterator[Block], reader: ReadingReader) -> Iterator[Block]:
    """The same blocks, read on already until it is known how rows are identified."""
    first: list[Block] = []
    for block in blocks:
        first.append(block)
        if reader.key is not None:
            break
    return chain(first, blocks)


def refuse_unnumbered(source: RowSource) -> None:
    """An error for readings of which nothing tells which they are, where they come by a pipe."""
    if not source.is_regular:
        raise InvalidReading(
            f"{source}: nothing tells which readings these are, so a restart could send some twice; give each its "
            "number in a column 'row', or its time in one called 'time'"
        )


def say_unused_times(reader: ReadingReader, advice: str) -> None:
    """Warn where lines are counted beside what looks like their times: a line that is missing shifts all others.

    advice: what to do instead; ``{}`` stands for the column.
    """
    if reader.unused_times:
        speaker("sanitize")(
            f"the column {reader.unused_times!r} looks like a time and was not used: lines are counted; "
            + advice.format(reader.unused_times)
        )
