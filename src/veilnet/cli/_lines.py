"""Between an agent's lines: where readings come from, where messages go, and what is said beside."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from veilnet.io.message_streams import MessageMark
    from veilnet.io.reading_streams import ReadingReader
    from veilnet.io.streams import Block, Format

LINES_AT_ONCE = 2048


def say(sentence: str) -> None:
    """Something for whoever runs the agent, on standard error."""
    if sentence:
        sys.stderr.write(f"veilnet sanitize: {sentence}\n")


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
        say(
            f"the column {reader.unused_times!r} looks like a time and was not used: lines are counted; "
            + advice.format(reader.unused_times)
        )


@contextmanager
def outlet(
    out: Path | None, format: Format, columns: int, mark: MessageMark, *, append: bool, flush: bool
) -> Iterator[tuple[Callable[[bytes], None], int | None]]:
    """How to send lines, and the last row that the file has already (None where messages do not go to one)."""
    from veilnet.io._atomic import replacing
    from veilnet.io.appending import appending
    from veilnet.io.message_streams import message_header

    if out is not None and append:
        with appending(out, format, columns, mark) as file:
            if file.cut:
                say(f"{out}: its last line was cut off, and is left out")
            yield file.write, file.last_row
        return
    with ExitStack() as stack:
        messages = sys.stdout.buffer if out is None else stack.enter_context(replacing(out))

        def send(lines: bytes) -> None:
            messages.write(lines)
            if flush:
                messages.flush()

        send(message_header(format, columns, mark))
        yield send, None
        messages.flush()


def after(block: Block, last: int, *, told: bool) -> Block:
    """What of a block was not sent before."""
    from veilnet._core.errors import InvalidReading

    if not told:
        raise InvalidReading(
            f"standard input: rows up to {last} were sent before, but nothing tells which readings those are; "
            "give each its number in a column 'row', or its time in one called 'time'"
        )
    return block.without_rows_up_to(last)
