"""Several agents' message files side by side, aligned by row, in constant memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from veilnet._core.types import Array
from veilnet.io.message_streams import MessageMark, MessageReader
from veilnet.io.streams import Block, Format

__all__ = ["MessageFile", "aligned"]

_LINES_AT_ONCE = 4096

Report = Callable[[Path, int, str], None]


class MessageFile:
    """The messages of one agent, read block by block; lines that are none are reported and left out."""

    def __init__(self, reader: MessageReader, path: Path, columns: int, report: Report) -> None:
        self._reader = reader
        self._blocks = reader.blocks(_LINES_AT_ONCE)
        self._path = path
        self._columns = columns
        self._report = report
        self.rows = np.zeros(0, dtype=np.int64)
        self.values: Array = np.zeros((0, columns))
        self.ended = False
        self.count = 0
        self.refill()

    @property
    def simulated(self) -> int:
        """How many of the messages read so far say that their noise can be repeated."""
        return self._reader.simulated

    def refill(self) -> None:
        """Read on until there is a row to give, or the file ends."""
        while not self.ended and self.rows.size == 0:
            block = next(self._blocks, None)
            if block is None:
                self.ended = True
                return
            self._keep(block)

    def take(self, horizon: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Array]:
        """The rows up to a number, which are then gone from here."""
        count = int(np.searchsorted(self.rows, horizon, side="right"))
        taken = self.rows[:count], self.values[:count]
        self.rows, self.values = self.rows[count:], self.values[count:]
        return taken

    def _keep(self, block: Block) -> None:
        for line, _, reason in block.refused:
            self._report(self._path, line, reason)
        self.count += len(block.rows)
        self.rows = np.array(block.rows, dtype=np.int64)
        self.values = block.values(self._columns)


def aligned(
    files: dict[str, MessageFile],
) -> Iterator[tuple[np.ndarray[tuple[int], np.dtype[np.int64]], dict[str, Array]]]:
    """Rows that some agent sent, in order, and each agent's messages in them; nan where it sent none."""
    while True:
        for file in files.values():
            file.refill()
        waiting = [int(file.rows[-1]) for file in files.values() if file.rows.size]
        if not waiting:
            return
        # Up to the first block's end nothing can still come from any file.
        horizon = min(waiting)
        taken = {agent: file.take(horizon) for agent, file in files.items()}
        rows = np.unique(np.concatenate([numbers for numbers, _ in taken.values()]))
        messages = {}
        for agent, (numbers, values) in taken.items():
            whole = np.full((len(rows), values.shape[1]), np.nan)
            whole[np.searchsorted(rows, numbers)] = values
            messages[agent] = whole
        yield rows, messages


def open_messages(
    file: IO[bytes], path: Path, columns: int, format: Format, report: Report, mark: MessageMark
) -> MessageFile:
    """The message file of an agent of a plan (``mark``) that sends so many numbers."""
    reader = MessageReader(file, format, columns, mark=mark, label=str(path))
    return MessageFile(reader, path, columns, report)
