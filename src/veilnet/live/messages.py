"""What goes over the wire: messages of agents and receipts of the centre, typed, limited in size, sealed.

Each is MessagePack (by msgspec), a list that begins with its version, followed by a seal: BLAKE2b with a secret that
this agent and the centre share (:mod:`veilnet.live.seals`), over the bytes and what they are for. So a broker, or
anybody who got hold of one, can drop messages and hold them back, but neither change nor invent one.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from hashlib import blake2b
from typing import TypeVar

import msgspec

from veilnet.io.agent_store import STORE_BYTES
from veilnet.io.outbox import SHORT, VERSION, Message

__all__ = ["MOST_BYTES", "SHORT", "Malformed", "Message", "Receipt", "Seal", "as_ranges"]

MOST_BYTES = 65536  # of a message on the wire, as the broker's configuration allows
LARGEST = 2**62  # of epochs and sequence numbers: SQLite's are signed
_TAG = 16  # bytes of a seal
_MOST_RANGES = 4096  # ranges in one receipt


class Malformed(ValueError):
    """Bytes that are no message: a word says why, and nothing of the content."""


class Receipt(msgspec.Struct, frozen=True, array_like=True, tag=VERSION, forbid_unknown_fields=True):
    """What the centre tells an agent: which of its messages are committed, and which it will never take.

    store:   of the messages.
    kept:    (first, last) sequence numbers that are on the centre's disk.
    refused: (sequence number, why).
    """

    store: bytes
    kept: list[tuple[int, int]]
    refused: list[tuple[int, str]]


_Signed = TypeVar("_Signed", Message, Receipt)
_ENCODER = msgspec.msgpack.Encoder()
_MESSAGES = msgspec.msgpack.Decoder(Message)
_RECEIPTS = msgspec.msgpack.Decoder(Receipt)


class Seal:
    """The secret of one agent and the centre, and what it makes of bytes.

    secret: 32 bytes.
    """

    def __init__(self, secret: bytes) -> None:
        if len(secret) != 32:
            raise ValueError("a seal's secret has 32 bytes")
        self._secret = secret

    def message(self, message: Message) -> bytes:
        """A message as it goes over the wire."""
        body = _ENCODER.encode(message)
        return body + self._tag(body, b"veilnet message")

    def receipt(self, receipt: Receipt) -> bytes:
        """A receipt as it goes over the wire."""
        body = _ENCODER.encode(receipt)
        return body + self._tag(body, b"veilnet receipt")

    def round(self, body: bytes, *, by_agent: bool) -> bytes:
        """A message of the rounds of a sum, as it goes over the wire."""
        return body + self._tag(body, b"veilnet sum" if by_agent else b"veilnet rounds")

    def open_round(self, payload: bytes, *, by_agent: bool) -> bytes:
        """What :meth:`round` was given; Malformed where it was not this seal."""
        return self._body(payload, b"veilnet sum" if by_agent else b"veilnet rounds")

    def half_key(self, use: bytes) -> bytes:
        """32 bytes for one use that the agent and the centre have, and nobody else."""
        return blake2b(use, digest_size=32, key=self._secret, person=b"veilnet half").digest()

    def open_message(self, payload: bytes) -> Message:
        """The message in some bytes; Malformed where they are none of this agent's."""
        message = self._opened(payload, b"veilnet message", _MESSAGES)
        if not 0 < message.sequence < LARGEST or len(message.store) != STORE_BYTES:
            raise Malformed("malformed")
        if not 0 < message.epoch < LARGEST or not 0 <= message.after < message.epoch:
            raise Malformed("malformed")
        return message

    def open_receipt(self, payload: bytes) -> Receipt:
        """The receipt in some bytes; Malformed where they are none for this agent."""
        receipt = self._opened(payload, b"veilnet receipt", _RECEIPTS)
        if len(receipt.kept) > _MOST_RANGES or any(not 0 < a <= b < LARGEST for a, b in receipt.kept):
            raise Malformed("malformed")
        if len(receipt.refused) > _MOST_RANGES or any(not 0 < a < LARGEST for a, _ in receipt.refused):
            raise Malformed("malformed")
        return receipt

    def _body(self, payload: bytes, use: bytes) -> bytes:
        if len(payload) > MOST_BYTES:
            raise Malformed("oversized")
        if len(payload) <= _TAG:
            raise Malformed("malformed")
        body, tag = payload[:-_TAG], payload[-_TAG:]
        if not hmac.compare_digest(self._tag(body, use), tag):
            raise Malformed("seal")
        return body

    def _opened(self, payload: bytes, use: bytes, decoder: msgspec.msgpack.Decoder[_Signed]) -> _Signed:
        body = self._body(payload, use)
        try:
            return decoder.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise Malformed("newer" if _is_newer(body) else "malformed") from None

    def _tag(self, body: bytes, use: bytes) -> bytes:
        return blake2b(body, digest_size=_TAG, key=self._secret, person=use).digest()


def _is_newer(body: bytes) -> bool:
    """Whether bytes that are no message begin as one of a later version does."""
    try:
        found = msgspec.msgpack.decode(body, type=list)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return bool(found) and type(found[0]) is int and found[0] > VERSION


def as_ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Whole numbers as (first, last) of those that follow one another."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found
