"""Several agents' message files side by side, aligned by row or time, in constant memory.

Rows are never aligned by their place in a file: messages say how their rows are identified. Those that were only
counted are aligned if every file ends at the same count, since a line that is missing from the readings of one
agent shifts all that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet._core.types import Array
from veilnet.io.message_streams import MessageMark, MessageReader
from veilnet.io.row_keys import COUNTED, ROW, RowKey
from veilnet.io.sources import RowSource

_LINES_AT_ONCE = 4096

Report = Callable[[RowSource, int, str], None]
Rows = np.ndarray[tuple[int], np.dtype[np.int64]]
Alignment = Iterator[tuple[Rows, dict[str, Array]]]


class MessageFile(MessageReader):
    """The messages of one agent, read block by block; lines that are none are reported and left out.

    rows, values: what was read and not yet taken.
    count:        how many rows were read.
    crowded:      messages so soon after another of the same agent that one tolerance holds both.
    """

    def __init__(self, source: RowSource, columns: int, *, mark: MessageMark, report: Report) -> None:
        super().__init__(source, columns, mark=mark)
        self._blocks = self.blocks(_LINES_AT_ONCE)
        self._report = report
        self.rows: Rows = np.zeros(0, dtype=np.int64)
        self.values: Array = np.zeros((0, columns))
        self.ended = False
        self.count = 0
        self.crowded = 0
        self.refill()

    def refill(self) -> None:
        """Read on until there is a row to give, or the file ends."""
        while not self.ended and self.rows.size == 0:
            self.read_on()

    def read_on(self) -> None:
        """Read one more block, if there is one."""
        block = next(self._blocks, None)
        if block is None:
            self.ended = True
            return
        for line, _, reason in block.refused:
            self._report(self.source, line, reason)
        self.count += len(block.rows)
        self.rows = np.concatenate([self.rows, np.array(block.rows, dtype=np.int64)])
        self.values = np.concatenate([self.values, block.values(self._columns)])

    def take(self, count: int) -> tuple[Rows, Array]:
        """So many rows, which are then gone from here."""
        taken = self.rows[:count], self.values[:count]
        self.rows, self.values = self.rows[count:], self.values[count:]
        return taken

    def last_in_file(self) -> int | None:
        """The last row that there is, read ahead; None where that cannot be done."""
        if not self.source.is_regular:
            return None
        ahead = MessageReader(replace(self.source, content=None), self._columns, mark=self.mark)
        for _ in ahead.blocks(_LINES_AT_ONCE):
            pass
        return ahead.last_row


def common_key(files: Mapping[str, MessageFile], *, trust_counts: bool = False) -> RowKey:
    """How the rows of all files are identified; an error where they do not agree.

    trust_counts: whether counted rows pass for rows with a number.
    """
    found = {agent: file.key for agent, file in files.items() if file.key is not None}
    if trust_counts:
        found = {agent: ROW if key == COUNTED else key for agent, key in found.items()}
    first = next(iter(found), "")
    for agent, key in found.items():
        if key != found[first]:
            raise InvalidReading(
                f"messages: rows of {first!r} are identified by {_in_words(found[first])}, those of {agent!r} by "
                f"{_in_words(key)}; sanitize all readings with a column 'row' or 'time'"
            )
    return found.get(first, ROW)


def aligned(files: Mapping[str, MessageFile], within: int = 0) -> Alignment:
    """Rows that some agent sent, in order, and each agent's messages in them; nan where it sent none.

    within: rows (microseconds, where they are times) by which messages of one row may differ. A row begins with
            its first message, and holds of each agent the first that follows no later than this. A further one
            of the same agent begins a row of its own.
    """
    common_key(files, trust_counts=True)
    if within and any(file.key is not None and not file.key.is_time for file in files.values()):
        raise InvalidRequest("--within: the messages do not tell their time; sanitize with --time")
    while True:
        for file in files.values():
            file.refill()
        pending = [file for file in files.values() if file.rows.size]
        if not pending:
            return
        reading = [file for file in pending if not file.ended]
        horizon = min((int(file.rows[-1]) for file in reading), default=None)
        first = min(int(file.rows[0]) for file in pending)
        if horizon is not None and first + within > horizon:
            # What belongs to the first row may not have been read yet.
            for file in reading:
                if int(file.rows[-1]) == horizon:
                    file.read_on()
            continue
        yield _next_rows(files, within, horizon)


def require_equal_counts(ends: Mapping[str, int | None]) -> None:
    """Refuse files of counted rows that do not end together; ``ends`` has the last row of each, None if unknown."""
    known = {agent: end for agent, end in ends.items() if end is not None}
    if len(set(known.values())) > 1:
        shown = ", ".join(f"{agent!r} {count}" for agent, count in list(known.items())[:8])
        raise InvalidReading(
            f"messages: rows were only counted, and the files do not end together: {shown}; a line that is missing "
            "in one shifts all its others, and the estimates are then wrong: sanitize with a column 'row' (or "
            "'time', but not for a stream). Where only last rows were not sent, --trust-counts aligns by counts"
        )


def _next_rows(
    files: Mapping[str, MessageFile], within: int, horizon: int | None
) -> tuple[Rows, dict[str, Array]]:
    """The rows that nothing can be added to any more, taken from the files."""
    if within == 0:
        ends = [
            len(file.rows) if horizon is None else int(np.searchsorted(file.rows, horizon, side="right"))
            for file in files.values()
        ]
        parts = [file.rows[:end] for file, end in zip(files.values(), ends, strict=True)]
        rows = np.unique(np.concatenate(parts))
        places = [np.searchsorted(rows, mine) for mine in parts]
    else:
        rows, places = _grouped(files, within, horizon)
    messages = {}
    for (agent, file), place in zip(files.items(), places, strict=True):
        _, values = file.take(len(place))
        whole = np.full((len(rows), values.shape[1]), np.nan)
        whole[place] = values
        messages[agent] = whole
    return rows, messages


def _grouped(files: Mapping[str, MessageFile], within: int, horizon: int | None) -> tuple[Rows, list[Rows]]:
    """Rows begun no later than ``horizon - within``, and for each file the rows that its first messages are in."""
    owners = np.concatenate([np.full(len(file.rows), k) for k, file in enumerate(files.values())])
    times = np.concatenate([file.rows for file in files.values()])
    order = np.argsort(times, kind="stable")
    by_place = list(files.values())
    places: list[list[int]] = [[] for _ in by_place]
    starts: list[int] = []
    present: set[int] = set()
    end = -1
    for time, owner in zip(times[order].tolist(), owners[order].tolist(), strict=True):
        if time > end or owner in present:
            if horizon is not None and time + within > horizon:
                break
            by_place[owner].crowded += time <= end
            starts.append(time)
            present.clear()
            end = time + within
        present.add(owner)
        places[owner].append(len(starts) - 1)
    return np.array(starts, dtype=np.int64), [np.array(mine, dtype=np.int64) for mine in places]


def _in_words(key: RowKey) -> str:
    if key.is_time:
        styles = {"zoned": "times with a zone", "local": "times without a zone", "seconds": "seconds"}
        return styles[key.style]
    return "a count of lines" if key == COUNTED else "their numbers"
