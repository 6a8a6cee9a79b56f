"""Signatures of the designer: Ed25519, in DSSE envelopes beside the files of a plan.

``kitchen.json.dsse`` holds a statement on ``kitchen.json`` (:mod:`veilnet.io.statements`: its SHA-256, version,
expiry, the plan's promise) and signatures over it (DSSE, by securesystemslib; keys by cryptography). A file is signed
when the statement is of its very bytes, and one of the signatures by a trusted key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.extras import missing_extra
from veilnet.io._atomic import create, write_bytes
from veilnet.io.statements import (
    DAYS,
    StatedPromise,
    Statement,
    make_statement,
    plan_id_in,
    read_statement,
    version_of,
)

try:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import CryptoSigner, SSlibKey  # type: ignore[attr-defined]  # lists its names late
except ImportError:
    raise missing_extra("signatures need their packages", "sign") from None

PAYLOAD_TYPE = "application/vnd.veilnet.plan-statement+json"
_MOST_BYTES = 2**26


def envelope_of(path: Path) -> Path:
    """Where the signatures of a file are: ``kitchen.json.dsse``."""
    return path.with_name(path.name + ".dsse")


def make_key(path: Path) -> tuple[Path, Path]:
    """A new Ed25519 key: the secret half at ``path``, for its owner alone, the public half beside it (.pub)."""
    public = path.with_suffix(".pub")
    for file in (path, public):
        if file.exists():
            raise InvalidRequest(f"{file}: exists already; a key is never replaced: choose another name")
    key = ed25519.Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    shown = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    create(public, shown)  # first: where the secret half is, both are
    create(path, secret, mode=0o600)
    return path, public


def sign_files(
    paths: Sequence[Path],
    key: Path,
    *,
    version: int | None = None,
    days: float | None = None,
    promise: StatedPromise | None = None,
    now: datetime | None = None,
) -> tuple[list[Path], Statement]:
    """Sign each file with a secret key, all as one version; the envelopes, and the statement on the last of them.

    version: of what is signed; the time, as 20261117093000, if None, which goes up by itself.
    days:    how long it may be run; 365 if None.
    promise: of the plan that the files are of.

    Where neither is given, and all files have been signed by others alone, the same statements are signed: then the
    key vouches for the same version, beside theirs.
    """
    signer = CryptoSigner(read_secret_key(key))
    now = now or datetime.now(UTC)
    contents = {path: path.read_bytes() for path in paths}
    there = {path: _there(path) for path in contents}

    def by_others(path: Path) -> bool:
        envelope, stated = there[path] or (None, None)
        if envelope is None or stated is None or signer.public_key.keyid in envelope.signatures:
            return False
        return stated.sha256 == _sha256(contents[path]) and not stated.complaint(now)

    others = version is None and days is None and all(map(by_others, there))
    last = max((found[1].version for found in there.values() if found is not None), default=0)
    if version is not None and 0 < version <= last:
        raise InvalidRequest(
            f"--version: version {last} was signed before, and agents that ran it refuse {version}; "
            f"give {last + 1} or more"
        )
    number = max(version_of(now), last + 1) if version is None else version
    written = []
    for path, content in contents.items():
        found = there[path]
        if others and found is not None:
            envelope, statement = found
        else:
            statement = make_statement(
                path.name, _sha256(content), _plan_id(content), number, days or DAYS, promise, now
            )
            envelope = Envelope(statement.encoded(), PAYLOAD_TYPE, {})
        envelope.sign(signer)
        target = envelope_of(path)
        write_bytes(target, (json.dumps(envelope.to_dict(), indent=1) + "\n").encode())
        written.append(target)
    if not written:
        raise InvalidRequest("plan: expected files to sign, found none")
    return written, statement


def verified_statement(path: Path, content: bytes, keys: Sequence[str]) -> Statement:
    """What one of the keys (PEM) signed of the content of a file; InvalidPlan says why it does not count as signed.

    The file is not opened again; ``path`` tells where its envelope is. Whether it has expired is for
    :meth:`Statement.complaint`.
    """
    target = envelope_of(path)
    if not target.exists():
        raise InvalidPlan(f"it is not signed: there is no {target.name} beside it")
    envelope = _read_envelope(target)
    if envelope.payload_type != PAYLOAD_TYPE:
        raise InvalidPlan(
            f"{target.name} is not the signature of a file of a plan, with a version and an expiry; ask the designer "
            "to sign anew"
        )
    known = []
    for pem in keys:
        try:
            public = serialization.load_pem_public_key(pem.encode())
        except ValueError:
            raise InvalidRequest(
                "--trust: expected a public key in PEM, found one that cannot be read"
            ) from None
        known.append(SSlibKey.from_crypto(public))
    try:
        envelope.verify(known, 1)
    except VerificationError:
        raise InvalidPlan(f"{target.name} holds no valid signature by a trusted key") from None
    statement = read_statement(envelope.payload)
    if statement.sha256 != _sha256(content):
        raise InvalidPlan(f"the signature in {target.name} is that of another file")
    return statement


def read_secret_key(path: Path) -> Any:
    """The secret half of an Ed25519 key, in a file."""
    try:
        secret = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError):
        raise InvalidRequest(
            f"{path}: expected a secret key in PEM without a passphrase; 'veilnet sign --new-key FILE' makes one"
        ) from None
    if not isinstance(secret, ed25519.Ed25519PrivateKey):
        raise InvalidRequest(f"{path}: expected an Ed25519 key; 'veilnet sign --new-key FILE' makes one")
    return secret


def read_public_key(path: Path) -> Any:
    """The public half of an Ed25519 key, in a file."""
    try:
        public = serialization.load_pem_public_key(path.read_bytes())
    except ValueError:
        public = None
    if not isinstance(public, ed25519.Ed25519PublicKey):
        raise InvalidRequest(f"{path}: expected the public half of an Ed25519 key in PEM, found another file")
    return public


def _there(path: Path) -> tuple[Any, Statement] | None:
    """The envelope that is there already and what it states, unverified: only to go on from it."""
    try:
        envelope = _read_envelope(envelope_of(path))
        if envelope.payload_type != PAYLOAD_TYPE:
            return None
        return envelope, read_statement(envelope.payload)
    except InvalidPlan:
        return None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _plan_id(content: bytes) -> str | None:
    try:
        return plan_id_in(json.loads(content))
    except (ValueError, RecursionError):
        return None


def _read_envelope(path: Path) -> Any:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError("too large")
        return Envelope.from_dict(json.loads(path.read_bytes()))
    except Exception as error:  # whatever a hostile envelope makes the library raise
        raise InvalidPlan(f"{path.name}: not readable as a signature ({type(error).__name__})") from None
