"""Which files an agent may run: pinned by their fingerprint, or signed with a key that is trusted.

The checksum inside a file finds accidents; whoever can write the file can write the checksum. A pin is kept by the
agent and comes by another way: the SHA-256 of the whole file, or the public key of whoever designs. Pins are

- given on the command line (``--trust``): a fingerprint, a public key (``designer.pub``), or a trust file;
- or kept beside the agent's file, ``kitchen.trust`` for ``kitchen.json``, as ``veilnet inspect --pin`` writes it.

A trust file is JSON: ``{"format": "veilnet-trust/1", "fingerprints": [...], "keys": [...]}``, keys in PEM.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet.io._atomic import write_bytes

FORMAT = "veilnet-trust/1"
_FINGERPRINT = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})")
_PEM = "-----BEGIN PUBLIC KEY-----"
_MOST_BYTES = 2**20


class TrustDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The keys of a trust file."""

    format: str
    fingerprints: list[str] = []
    keys: list[str] = []


@dataclass(frozen=True)
class Trust:
    """Fingerprints of files, and public keys (PEM) of whoever may sign them."""

    fingerprints: frozenset[str] = frozenset()
    keys: tuple[str, ...] = ()

    def __or__(self, other: Trust) -> Trust:
        return Trust(self.fingerprints | other.fingerprints, (*self.keys, *other.keys))


def fingerprint(path: Path) -> str:
    """SHA-256 of the whole file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


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
        document = msgspec.json.decode(text, type=TrustDocument)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise InvalidRequest(
            f"{path}: not readable as a public key (PEM) or a trust file ({error})"
        ) from None
    wrong = [each for each in document.fingerprints if not _FINGERPRINT.fullmatch(each)]
    if document.format != FORMAT or wrong or not all(key.lstrip().startswith(_PEM) for key in document.keys):
        raise InvalidRequest(
            f"{path}: expected format {FORMAT!r}, fingerprints of 64 hexadecimal digits, keys in PEM"
        )
    if not document.fingerprints and not document.keys:
        raise InvalidRequest(f"{path}: expected at least one fingerprint or key, found none")
    plain = frozenset(each.removeprefix("sha256:").lower() for each in document.fingerprints)
    return Trust(plain, tuple(document.keys))


def pinned(path: Path, given: Sequence[str] = ()) -> Trust | None:
    """The pins that apply to an agent's file: those given, or those kept beside it, or None."""
    if given:
        trust = Trust()
        for each in given:
            trust |= read_trust(each)
        return trust
    beside = pins_beside(path)
    return read_trust(str(beside)) if beside.exists() else None


def require_trust(path: Path, given: Sequence[str] = ()) -> None:
    """InvalidPlan where pins exist and the file is neither pinned nor signed with a pinned key."""
    trust = pinned(path, given)
    if trust is None or fingerprint(path) in trust.fingerprints:
        return
    reason = "its fingerprint is not one that is pinned"
    if trust.keys:
        from veilnet.io.signing import signature_complaint

        reason = signature_complaint(path, trust.keys)
        if not reason:
            return
    raise InvalidPlan(
        f"{path}: not trusted ({reason}), so nothing is sent; ask whoever designs for the right file, or read it "
        f"with 'veilnet inspect {path}' and pin it with --pin"
    )


def pin(path: Path) -> Path:
    """Pin a file by its fingerprint, in the trust file beside it; earlier pins of it give way, keys stay."""
    beside = pins_beside(path)
    keys = list(read_trust(str(beside)).keys) if beside.exists() else []
    content = {"format": FORMAT, "fingerprints": [fingerprint(path)], "keys": keys}
    write_bytes(beside, (json.dumps(content, indent=2) + "\n").encode())
    return beside
