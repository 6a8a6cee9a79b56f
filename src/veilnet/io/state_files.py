"""What an agent with a memory keeps between runs: its memory, and what it was sending when it was last seen.

    format   "veilnet-state/2"
    agent    whose memory it is, and ``key`` what it is (:attr:`veilnet.Sanitizer.memory_key`): another plan goes on
             with it where its memory has the same key
    plan     id of the plan that ``sending`` is of
    row      the last row that entered the memory; 0 at the beginning
    memory   s after that row
    sending  the messages of the last rows up to that one: how many ``rows``, which of them were ``missed``, and the
             ``values`` of the others (float64, little-endian, base64), of ``sent`` numbers each: they may have been
             sent or not
    checksum see :mod:`veilnet.io._sealed`

The file is replaced as a whole, on the disk, *before* what it says is sent. Whenever a run is killed, it therefore
stands for a row up to which everything has entered the memory; of what it was sending, the next run sends what is
missing, the same numbers, and draws nothing twice. It is as private as the readings: only its owner may read it.

One run at a time: a lock on the file excludes others, and goes on to each file that takes its place.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import numpy as np

from veilnet._core.errors import InvalidPlan, InvalidRequest, VeilnetError
from veilnet._core.missed import MISSED
from veilnet._core.types import Array
from veilnet.io._atomic import create, moved_into_place
from veilnet.io._locking import require_lock
from veilnet.io._sealed import convert, open_sealed, seal, sealed_bytes

__all__ = ["AgentState", "StateFile", "begin_state", "open_state", "state_beside"]

FORMAT = "veilnet-state/2"
_PRIVATE = 0o600
_USE = "sanitizes with this memory"


class SendingDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The messages of the last rows."""

    rows: int
    missed: list[int]
    sent: int
    values: str


class StateDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The keys of a state file."""

    format: str
    plan: str
    agent: str
    key: str
    row: int
    memory: list[float]
    sending: SendingDocument


@dataclass(frozen=True, eq=False)
class AgentState:
    """An agent's memory after a row, and the messages (T, M) of the last T rows, infinite where one was missed.

    plan: the one that these messages are of.
    """

    row: int
    memory: Array
    sending: Array
    plan: str

    @property
    def before(self) -> int:
        """The row before those that were being sent."""
        return self.row - len(self.sending)


class StateFile:
    """The state of one agent's memory, nobody else's while it is open."""

    def __init__(self, handle: int, path: Path, agent: str, key: str, state: AgentState) -> None:
        self._handle = handle
        self.path = path
        self._agent = agent
        self._key = key
        self.state = state

    def keep(self, state: AgentState) -> None:
        """Replace the file: on the disk when this returns, or it is as it was and nothing may be sent."""
        content = seal(_document(state, self._agent, self._key))
        try:
            handle = moved_into_place(self.path, content, _PRIVATE)
        except OSError as error:
            raise VeilnetError(
                f"{self.path}: the agent's memory could not be written ({error.strerror}), so nothing may be sent; "
                "it is as it was: make room and try again"
            ) from error
        os.close(self._handle)
        self._handle = handle
        self.state = state

    def close(self) -> None:
        """Let others open it."""
        os.close(self._handle)


def state_beside(path: Path) -> Path:
    """Where the memory of an agent's file is kept: ``kitchen.state`` beside ``kitchen.json``."""
    return path.with_suffix(".state")


def begin_state(path: Path, agent: str, key: str, state: AgentState) -> None:
    """A memory before row 1; InvalidRequest where a stream has begun already.

    key: what the memory is; ``state`` where it begins.
    """
    try:
        create(path, seal(_document(state, agent, key)), mode=_PRIVATE)
    except FileExistsError:
        if _read(path, agent, key, state.memory.size).row > 0:
            raise InvalidRequest(
                f"--begin: {path} is the memory of a stream that has begun; leave --begin out to continue it, or "
                "begin another with another file (--state) for a centre that begins anew too"
            ) from None


@contextmanager
def open_state(path: Path, agent: str, key: str, order: int) -> Iterator[StateFile]:
    """The state of an agent's stream, locked until the block ends.

    key: what its memory is; ``order`` how many numbers it has.
    """
    handle = _locked(path)
    try:
        file = StateFile(handle, path, agent, key, _read(path, agent, key, order))
    except BaseException:
        os.close(handle)
        raise
    try:
        yield file
    finally:
        file.close()


def _locked(path: Path) -> int:
    """A handle on the file that has this name now, locked."""
    while True:
        try:
            handle = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
        except FileNotFoundError:
            raise InvalidPlan(
                f"{path}: there is no memory of this agent's stream; nothing was sent. At its very first start, give "
                "--begin; afterwards the file has to be where it was (--state says where)"
            ) from None
        try:
            require_lock(handle, path, _USE, wait=False)
            with suppress(OSError):
                if os.path.samestat(os.fstat(handle), path.stat()):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # it was replaced meanwhile: what it stood for is gone


def _document(state: AgentState, agent: str, key: str) -> dict[str, Any]:
    missed = (
        np.isposinf(state.sending).all(axis=1)
        if state.sending.shape[1]
        else np.zeros(len(state.sending), bool)
    )
    values = np.ascontiguousarray(state.sending[~missed], dtype="<f8")
    return {
        "format": FORMAT,
        "plan": state.plan,
        "agent": agent,
        "key": key,
        "row": state.row,
        "memory": state.memory.tolist(),
        "sending": {
            "rows": len(state.sending),
            "missed": (np.flatnonzero(missed) + state.before + 1).tolist(),
            "sent": state.sending.shape[1],
            "values": base64.b64encode(values.tobytes()).decode("ascii"),
        },
    }


def _read(path: Path, agent: str, key: str, order: int) -> AgentState:
    try:
        found = convert(open_sealed(path, FORMAT, sealed_bytes(path)), StateDocument, path)
    except InvalidPlan as error:
        raise InvalidPlan(
            f"{error}. It is the agent's memory, which no plan can give back: nothing was sent; begin a new stream, "
            "for a centre that begins anew too"
        ) from None
    if (found.agent, found.key) != (agent, key):
        other = "" if found.key == key else ", of a plan with which this one cannot go on"
        raise InvalidPlan(
            f"{path}: expected the memory of {agent!r}, found that of {found.agent!r}{other}; nothing was sent: give "
            "its own with --state, or --begin a stream there under a new name (and keep the ledger)"
        )
    sending = found.sending
    missed = sorted(sending.missed)
    first = found.row - sending.rows + 1
    if found.row < 0 or not 0 <= sending.rows <= found.row or len(found.memory) != order or sending.sent < 0:
        _changed(path)
    if missed != sorted(set(missed)) or (missed and not first <= missed[0] <= missed[-1] <= found.row):
        _changed(path)
    try:
        numbers = np.frombuffer(base64.b64decode(sending.values, validate=True), dtype="<f8")
        values = np.full((sending.rows, sending.sent), MISSED)
        kept = np.ones(sending.rows, bool)
        kept[np.array(missed, dtype=np.intp) - first] = False
        values[kept] = numbers.reshape(int(kept.sum()), sending.sent)
    except ValueError:
        _changed(path)
    memory = np.array(found.memory, dtype=np.float64)
    if not np.isfinite(memory).all() or not np.isfinite(numbers).all():
        _changed(path)
    return AgentState(found.row, memory, values, found.plan)


def _changed(path: Path) -> NoReturn:
    raise InvalidPlan(
        f"{path}: its parts do not belong together, so the agent's memory was changed; nothing was sent: begin a new "
        "stream, for a centre that begins anew too"
    )
