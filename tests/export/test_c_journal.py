"""A journal in flash survives a power cut at any byte: nothing is drawn twice, no kept message changes or is lost."""

from __future__ import annotations

from ctypes import (
    CDLL,
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_int,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
    create_string_buffer,
    string_at,
)  # fmt: skip
from itertools import count
from typing import Any

import numpy as np
import pytest

from helpers.c_agents import library, needs_compiler
from helpers.live_networks import house_plan

pytestmark = needs_compiler
OK, FAULT, DAMAGED, OLD, FULL, NONE = range(6)
PAGE = 1024
_READ = CFUNCTYPE(c_int, c_void_p, c_size_t, POINTER(c_uint8), c_size_t)
_ERASE = CFUNCTYPE(c_int, c_void_p, c_size_t)


class _Callbacks(Structure):
    _fields_ = (
        ("context", c_void_p),
        ("page", c_size_t),
        ("read", _READ),
        ("write", _READ),
        ("erase", _ERASE),
    )


class _State(Structure):
    _fields_ = (
        ("flash", c_void_p), ("store", c_uint8 * 8), ("sequence", c_uint64), ("epoch", c_uint64),
        ("last_kept", c_uint64),
        ("which", c_size_t), ("end", c_size_t), ("generation", c_uint32), ("usable", c_int),
    )  # fmt: skip


class Flash:
    """Two pages; the power fails after so many bytes more were written or pages' bytes erased."""

    def __init__(self, seed: int = 0) -> None:
        self.cells = bytearray(b"\xff" * (2 * PAGE))
        self.left: int | None = None
        self.random = np.random.default_rng(seed)
        self.callbacks = _Callbacks(None, PAGE, _READ(self._read), _READ(self._write), _ERASE(self._erase))
        self.draw = CFUNCTYPE(c_int, c_void_p, POINTER(c_uint8), c_size_t)(self._draw)

    def _spend(self, many: int) -> int:
        if self.left is None:
            return many
        spent = min(many, self.left)
        self.left -= spent
        return spent

    def _read(self, _: Any, place: int, out: Any, many: int) -> int:
        for k in range(many):
            out[k] = self.cells[place + k]
        return 0

    def _write(self, _: Any, place: int, given: Any, many: int) -> int:
        assert place % 8 == many % 8 == 0
        if self.left is not None and place % PAGE == 0 and self.random.random() < 0.3:
            self.left = int(self.random.integers(many))  # heads are few, and cut more often than chance would
        done = self._spend(many)
        for k in range(done):
            assert self.cells[place + k] == 0xFF, "written twice"
            self.cells[place + k] &= given[k]
        if done < many:  # the byte at which the power fails is anything between
            self.cells[place + done] &= given[done] | int(self.random.integers(256))
        return int(done < many)

    def _erase(self, _: Any, which: int) -> int:
        done = self._spend(PAGE)
        first = which * PAGE
        self.cells[first : first + done] = b"\xff" * done
        if done < PAGE:  # cells half erased read as anything that they were or will be
            rest = np.frombuffer(self.cells[first + done : first + PAGE], np.uint8)
            noise = self.random.integers(0, 256, len(rest), dtype=np.uint8)
            self.cells[first + done : first + PAGE] = (rest | noise).tobytes()
        return int(done < PAGE)

    def _draw(self, _: Any, out: Any, many: int) -> int:
        for k in range(many):
            out[k] = int(self.random.integers(256))
        return 0


class Journal:
    """An exported journal, opened."""

    def __init__(self, code: CDLL, flash: Flash) -> None:
        self.code, self.state, self.flash = code, _State(), flash
        self.status = code.veilnet_journal_open(byref(self.state), byref(flash.callbacks), flash.draw, None)

    def reserve(self, epoch: int) -> int:
        return int(self.code.veilnet_journal_reserve(byref(self.state), c_uint64(epoch)))

    def keep(self, message: bytes) -> int:
        return int(self.code.veilnet_journal_keep(byref(self.state), message, c_size_t(len(message))))

    def waiting(self, after: int = 0) -> tuple[int, int, bytes]:
        room, many, sequence = create_string_buffer(4096), c_size_t(), c_uint64(after)
        status = self.code.veilnet_journal_waiting(byref(self.state), room, byref(many), byref(sequence))
        return int(status), sequence.value, string_at(room, many.value)

    def done(self, sequence: int) -> int:
        return int(self.code.veilnet_journal_done(byref(self.state), c_uint64(sequence)))


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> CDLL:
    return library(house_plan().sanitizers["kitchen"], tmp_path_factory.mktemp("c"))


def test_messages_wait_in_order_until_a_receipt(code: CDLL) -> None:
    journal = Journal(code, Flash())
    assert journal.status == OK
    assert journal.waiting()[0] == NONE
    for epoch in (5, 6, 9):
        assert journal.reserve(epoch) == OK
        assert journal.keep(b"of %d" % epoch) == OK
    assert journal.reserve(9) == OLD
    assert journal.waiting() == (OK, 1, b"of 5")
    assert journal.done(1) == OK
    again = Journal(code, journal.flash)
    assert (again.status, bytes(again.state.store)) == (OK, bytes(journal.state.store))
    assert again.waiting() == (OK, 2, b"of 6")
    assert [again.waiting(after)[1] for after in (1, 2, 3, 9)] == [2, 3, 2, 2]
    assert again.reserve(8) == OLD
    assert (again.reserve(10), again.state.sequence) == (OK, 4)


def test_a_full_journal_takes_no_more_until_receipts_come(code: CDLL) -> None:
    journal = Journal(code, Flash())
    taken = 0
    for epoch in count(1):
        status = journal.reserve(epoch)
        if status != OK:
            break
        assert journal.keep(bytes([epoch]) * 80) == OK
        taken = epoch
    assert status == FULL
    assert taken >= 5
    for sequence in range(1, taken + 1):
        assert journal.waiting() == (OK, sequence, bytes([sequence]) * 80)
        assert journal.done(sequence) == OK
    assert journal.waiting()[0] == NONE
    assert journal.reserve(taken + 1) == OK


def test_a_journal_that_cannot_be_read_does_not_begin_anew(code: CDLL) -> None:
    flash = Flash()
    journal = Journal(code, flash)
    assert journal.reserve(1) == OK
    flash.cells[3] ^= 1  # of the head
    assert Journal(code, flash).status == DAMAGED
    assert Journal(code, flash).reserve(2) == FAULT


def test_power_cuts_draw_nothing_twice_and_lose_nothing(code: CDLL) -> None:
    """1,000 cuts, each after a random number of bytes, at the first start, in page changes and in erasures too."""
    for run in range(20):
        random, flash = np.random.default_rng(run), Flash(run)
        drawn: dict[int, bytes] = {}  # epoch -> its one message
        kept: dict[int, bytes] = {}  # sequence -> what may have left
        received: set[int] = set()
        taken: dict[int, int] = {}  # sequence -> epoch
        stores: set[bytes] = set()
        epoch, cuts, last_kept = 0, 0, 0
        while cuts < 50:
            flash.left = int(random.integers(1, 3000))
            journal = Journal(code, flash)
            if taken and journal.status == OK:
                assert journal.reserve(max(taken.values())) == OLD
                assert journal.state.last_kept in (
                    last_kept,
                    taken[max(taken)],
                )  # the last may be there, not confirmed
            while journal.status == OK:
                epoch += 1
                status = journal.reserve(epoch)
                if status == OK:
                    sequence = journal.state.sequence
                    assert sequence not in taken
                    taken[sequence] = epoch
                    stores.add(bytes(journal.state.store))
                    drawn[epoch] = random.bytes(int(random.integers(1, 100)))
                    if journal.keep(drawn[epoch]) != OK:
                        break
                    kept[sequence], last_kept = drawn[epoch], epoch
                elif status != FULL:
                    break
                if status == FULL or random.random() < 0.5:
                    state, sequence, message = journal.waiting()
                    if state == OK:
                        assert message == kept.setdefault(sequence, message)
                        received.add(sequence)
                        if journal.done(sequence) != OK:
                            break
            assert flash.left == 0, "an error without a cut"
            cuts += 1
        flash.left = None
        journal = Journal(code, flash)
        assert journal.status == OK
        while (found := journal.waiting())[0] == OK:
            assert found[2] == kept.setdefault(found[1], found[2])
            received.add(found[1])
            assert journal.done(found[1]) == OK
        assert received >= kept.keys()
        assert len(stores) == 1
        assert journal.reserve(max(drawn)) == OLD
