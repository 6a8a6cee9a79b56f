"""What an exported agent packs is what veilnet's own seals, and it reads the centre's receipts."""

from __future__ import annotations

from ctypes import CDLL, c_int64, c_size_t, c_uint64, create_string_buffer
from typing import Any

import numpy as np
import pytest

from helpers.c_agents import library, needs_compiler
from helpers.live_networks import house_plan
from veilnet._core.durations import RowStep
from veilnet.io.outbox import Message
from veilnet.live.messages import Receipt, Seal

pytestmark = needs_compiler
PLAN = "0123456789abcdef0123"
SECRET, STORE = bytes(range(32)), bytes(range(8))
STEP = RowStep(900.0, 420.0)


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> CDLL:
    agent = house_plan().sanitizers["living room"].replace(step=STEP)
    found = library(agent, tmp_path_factory.mktemp("c"), plan=PLAN)
    found.veilnet_pack.restype, found.veilnet_epoch.restype = c_size_t, c_int64
    return found


def packed(wire: CDLL, sequence: int, epoch: int, after: int, steps: Any) -> bytes:
    out = create_string_buffer(4096)
    message = None if steps is None else (c_int64 * len(steps))(*steps)
    whole = [c_uint64(each) for each in (sequence, epoch, after)]
    size = wire.veilnet_pack(out, SECRET, STORE, *whole, message)
    return out.raw[:size]


NUMBERS = (1, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**62 - 1)


@pytest.mark.parametrize("missed", [False, True])
def test_messages_are_the_same_bytes(wire: CDLL, missed: bool) -> None:
    agent = house_plan().sanitizers["living room"]
    steps = [2**51 - 1, -(2**51) + 1, 0, -7, 3][: agent.recipe.sent]
    values = None if missed else (np.array(steps) * agent.grid).astype("<f8").tobytes()
    for sequence, epoch in zip(NUMBERS, reversed(NUMBERS), strict=True):
        after = epoch - 1
        message = Message(PLAN[:16], "living room", STORE, sequence, epoch, after, True, values)
        found = packed(wire, sequence, epoch, after, None if missed else steps)
        assert found == Seal(SECRET).message(message)
        assert Seal(SECRET).open_message(found) == message


def test_receipts_are_read_and_false_ones_refused(wire: CDLL) -> None:
    receipt = Receipt(STORE, [(1, 3), (70_000, 70_000), (2**40, 2**40 + 5)], [(9, "late"), (300, "x" * 300)])
    sealed = Seal(SECRET).receipt(receipt)

    def says(payload: bytes, sequence: int, secret: bytes = SECRET, store: bytes = STORE) -> int:
        return int(wire.veilnet_receipt(payload, c_size_t(len(payload)), secret, store, c_uint64(sequence)))

    assert [says(sealed, each) for each in (1, 2, 3, 4, 9, 300, 70_000, 2**40 + 5)] == [
        1,
        1,
        1,
        0,
        2,
        2,
        1,
        1,
    ]
    assert says(sealed, 1, secret=bytes(32)) == -1
    assert says(sealed, 1, store=bytes(8)) == -1
    assert says(Seal(SECRET).message(Message(PLAN, "a", STORE, 1, 1, 0, True, None)), 1) == -1
    for cut in range(len(sealed)):
        assert says(sealed[:cut], 1) == -1
    for place in range(len(sealed)):
        assert says(sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :], 1) == -1


def test_sealed_nonsense_is_no_receipt(wire: CDLL) -> None:
    """Bytes that the centre sealed and that are no receipt: read to no byte beyond their end."""
    random = np.random.default_rng(1)
    honest = Seal(SECRET).receipt(Receipt(STORE, [(1, 3)], [(9, "late")]))[:-16]
    for _ in range(2000):
        body = bytearray(honest)
        for place in random.integers(0, len(body), 2):
            body[place] = random.integers(256)
        body = body[: random.integers(1, len(body) + 1)]
        sealed = bytes(body) + Seal(SECRET)._tag(bytes(body), b"veilnet receipt")
        try:
            expected = Seal(SECRET).open_receipt(sealed)
        except ValueError:
            continue
        found = wire.veilnet_receipt(sealed, c_size_t(len(sealed)), SECRET, STORE, c_uint64(2))
        kept = any(first <= 2 <= last for first, last in expected.kept)
        refused = any(number == 2 for number, _ in expected.refused)
        assert found == (-1 if expected.store != STORE else 2 if refused else int(kept))


def test_epochs_are_those_of_the_plan(wire: CDLL) -> None:
    for time in (0, 1, 869_999_999, 870_000_000, 1_700_000_000_123_456):
        assert wire.veilnet_epoch(c_int64(time)) == STEP.row_at(time)
