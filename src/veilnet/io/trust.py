"""Which files an agent may run: pinned by their fingerprint, or signed with a key that is trusted.

The checksum inside a file finds accidents; who can write the file can write the checksum. A pin is kept by the
agent and comes by another way: the SHA-256 of the whole file, or the designer's public key. Pins are

- given on the command line (``--trust``): a fingerprint, a public key (``designer.pub``), or a trust file;
- or kept beside the agent's file, ``kitchen.trust`` for ``kitchen.json``, as ``veilnet inspect --pin`` writes it.

Where there are both, both must accept the file: a pin beside it binds whatever the command line says. A file is read
once, and what is checked here are the bytes that will be run.

A trust file is JSON: ``{"format": "veilnet-trust/1", "fingerprints": [...], "keys": [...]}``, keys in PEM.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet.io._atomic import write_bytes
from veilnet.io._formats import check_format
from veilnet.io._json import parse
from veilnet.io._kinds import WORDS, Kind, Maybe, Table
from veilnet.io.statements import Statement

FORMAT = "veilnet-trust/1"
_FINGERPRINT = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})")
_PEM = "-----BEGIN PUBLIC KEY-----"
_MOST_BYTES = 2**20


TRUST = Table(fingerprints=Maybe(WORDS), keys=Maybe(WORDS))


@dataclass(frozen=True)
class Trust:
    """Fingerprints of files, and public keys (PEM) of those who may sign them."""

    fingerprints: frozenset[str] = frozenset()
    keys: tuple[str, ...] = ()

    def __or__(self, other: Trust) -> Trust:
        return Trust(self.fingerprints | other.fingerprints, (*self.keys, *other.keys))


def fingerprint(content: bytes) -> str:
    """SHA-256 of the whole file, given its bytes."""
    return hashlib.sha256(content).hexdigest()


def pins_beside(path: Path) -> Path:
    """Where the pins of an agent's file are kept: ``kitchen.trust`` beside ``kitchen.json``."""
    return path.with_suffix(".trust")


def read_trust(given: str) -> Trust:
    """What ``--trust`` stands for: a fingerprint, a file with a public key, or a trust file."""
    match = _FINGERPRINT.fullmatch(given.strip())
    if match:
        return Trust(frozenset({match[1].lower()}))
    path = Path(given)
    try:
        text = path.read_bytes()[: _MOST_BYTES + 1].decode("utf-8")
    except FileNotFoundError:
        raise InvalidRequest(
            "--trust: expected a fingerprint (64 hexadecimal digits, see 'veilnet inspect'), a public key or a "
            f"trust file, found {given!r}"
        ) from None
    except UnicodeDecodeError:
        raise InvalidRequest(f"{path}: expected a public key (PEM) or a trust file (JSON)") from None
    if text.lstrip().startswith(_PEM):
        return Trust(keys=(text.strip(),))
    try:
        document = Kind(dict).read(parse(text), "trust")
        check_format(document.pop("format", None), FORMAT, InvalidRequest)
        found = TRUST.read(document)
    except ValueError as error:
        raise InvalidRequest(
            f"{path}: not readable as a public key (PEM) or a trust file ({error})"
        ) from None
    prints, keys = found["fingerprints"] or [], found["keys"] or []
    if not all(map(_FINGERPRINT.fullmatch, prints)) or not all(key.lstrip().startswith(_PEM) for key in keys):
        raise InvalidRequest(f"{path}: expected fingerprints of 64 hexadecimal digits, keys in PEM")
    if not prints and not keys:
        raise InvalidRequest(f"{path}: expected at least one fingerprint or key, found none")
    return Trust(frozenset(each.removeprefix("sha256:").lower() for each in prints), tuple(keys))


def pinned(path: Path, given: Sequence[str] = ()) -> tuple[Trust, ...]:
    """The sets of pins that apply to an agent's file: those given, and those kept beside it; each must accept it."""
    sets = []
    if given:
        trust = Trust()
        for each in given:
            trust |= read_trust(each)
        sets.append(trust)
    beside = pins_beside(path)
    if beside.exists():
        sets.append(read_trust(str(beside)))
    return tuple(sets)


def require_trust(
    path: Path, content: bytes, pins: Sequence[Trust], now: datetime | None = None
) -> Statement | None:
    """InvalidPlan where some set of pins has neither the fingerprint of the content nor a key that signed it.

    What was signed, where a signature counted: :mod:`veilnet.io.acceptance` decides whether it may follow what ran
    before. An expired signature does not count.
    """
    signed = None
    for trust in pins:
        try:
            signed = _trusted(path, content, trust, now) or signed
        except InvalidPlan as error:
            raise InvalidPlan(
                f"{path}: not trusted ({error}), so nothing is sent; ask the designer for the right file, or "
                f"read it with 'veilnet inspect {path}' and pin it with --pin"
            ) from None
    return signed


def _trusted(path: Path, content: bytes, trust: Trust, now: datetime | None) -> Statement | None:
    if fingerprint(content) in trust.fingerprints:
        return None
    if not trust.keys:
        raise InvalidPlan("its fingerprint is not one that is pinned")
    from veilnet.io.signing import verified_statement

    statement = verified_statement(path, content, trust.keys)
    if statement.complaint(now):
        raise InvalidPlan(statement.complaint(now))
    return statement


def pin(path: Path, content: bytes) -> Path:
    """Pin content by its fingerprint, in the trust file beside ``path``; earlier pins give way, keys stay."""
    beside = pins_beside(path)
    keys = list(read_trust(str(beside)).keys) if beside.exists() else []
    document = TRUST.document(FORMAT, {"fingerprints": [fingerprint(content)], "keys": keys})
    write_bytes(beside, (json.dumps(document, indent=2) + "\n").encode())
    return beside
