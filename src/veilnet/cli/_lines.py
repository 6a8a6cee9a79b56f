"""Between an agent's lines: where readings come from, and what is said beside."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from veilnet.io.reading_streams import ReadingReader
    from veilnet.io.streams import Block

LINES_AT_ONCE = 2048


def speaker(verb: str) -> Callable[[str], None]:
    """Says what whoever runs a verb should know, on standard error; nothing where there is nothing to say."""

    def say(sentence: str) -> None:
        if sentence:
            sys.stderr.write(f"veilnet {verb}: {sentence}\n")
            sys.stderr.flush()

    return say


def when_told_to_end() -> threading.Event:
    """Set by the signals that end a service: SIGTERM, and Ctrl-C."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    return ended


def with_first(blocks: Iterator[Block], reader: ReadingReader) -> Iterator[Block]:
    """The same blocks, read on already until it is known how rows are told apart."""
    first: list[Block] = []
    for block in blocks:
        first.append(block)
        if reader.key is not None:
            break
    return chain(first, blocks)


def say_unused_times(reader: ReadingReader, advice: str) -> None:
    """Warn where lines are counted beside what looks like their times: a line that is missing shifts all others.

    advice: what to do instead; ``{}`` stands for the column.
    """
    if reader.unused_times:
        speaker("sanitize")(
            f"the column {reader.unused_times!r} looks like a time and was not used: lines are counted; "
            + advice.format(reader.unused_times)
        )
