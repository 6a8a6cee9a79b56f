"""Signatures of whoever designs: Ed25519, in DSSE envelopes beside the files of a plan.

``kitchen.json.dsse`` holds the very bytes of ``kitchen.json`` and signatures over them (DSSE, by securesystemslib;
keys by cryptography). A file is signed when its envelope holds the same bytes and a signature by a trusted key.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from veilnet._core.errors import InvalidPlan, InvalidRequest
from veilnet._core.extras import missing_extra
from veilnet.io._atomic import write_bytes

PAYLOAD_TYPE = "application/vnd.veilnet.plan-file+json"
_MOST_BYTES = 2**31


def envelope_of(path: Path) -> Path:
    """Where the signatures of a file are: ``kitchen.json.dsse``."""
    return path.with_name(path.name + ".dsse")


def make_key(path: Path) -> tuple[Path, Path]:
    """A new Ed25519 key: the secret half at ``path``, for its owner alone, the public half beside it (.pub)."""
    serialization, ed25519 = _cryptography()
    public = path.with_suffix(".pub")
    for file in (path, public):
        if file.exists():
            raise InvalidRequest(f"{file}: exists already; a key is never replaced: choose another name")
    key = ed25519.Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file_of_key:
        file_of_key.write(secret)
    write_bytes(
        public,
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ),
    )
    return path, public


def sign_files(paths: Sequence[Path], key: Path) -> list[Path]:
    """Sign each file with a secret key; signatures of other keys over the same bytes are kept."""
    dsse, signer_module = _securesystemslib()
    serialization, ed25519 = _cryptography()
    try:
        secret = serialization.load_pem_private_key(key.read_bytes(), password=None)
    except (ValueError, TypeError):
        raise InvalidRequest(
            f"{key}: expected a secret key in PEM without a passphrase; 'veilnet sign --new-key FILE' makes one"
        ) from None
    if not isinstance(secret, ed25519.Ed25519PrivateKey):
        raise InvalidRequest(f"{key}: expected an Ed25519 key; 'veilnet sign --new-key FILE' makes one")
    signer = signer_module.CryptoSigner(secret)
    written = []
    for path in paths:
        content = path.read_bytes()
        target = envelope_of(path)
        envelope = _read_envelope(target, dsse) if target.exists() else None
        if envelope is None or envelope.payload != content or envelope.payload_type != PAYLOAD_TYPE:
            envelope = dsse.Envelope(content, PAYLOAD_TYPE, {})
        envelope.sign(signer)
        write_bytes(target, (json.dumps(envelope.to_dict(), indent=1) + "\n").encode())
        written.append(target)
    return written


def signature_complaint(path: Path, content: bytes, keys: Sequence[str]) -> str:
    """Why the content of a file does not count as signed by one of the keys (PEM); empty if it does.

    The file is not opened again; ``path`` tells where its envelope is.
    """
    dsse, signer_module = _securesystemslib()
    serialization, _ = _cryptography()
    from securesystemslib.exceptions import VerificationError

    target = envelope_of(path)
    if not target.exists():
        return f"it is not signed: there is no {target.name} beside it"
    try:
        envelope = _read_envelope(target, dsse)
    except InvalidPlan as error:
        return str(error)
    if envelope.payload_type != PAYLOAD_TYPE or envelope.payload != content:
        return f"the signature in {target.name} is that of another file"
    known = []
    for pem in keys:
        try:
            public = serialization.load_pem_public_key(pem.encode())
        except ValueError:
            raise InvalidRequest(
                "--trust: expected a public key in PEM, found one that cannot be read"
            ) from None
        known.append(signer_module.SSlibKey.from_crypto(public))
    try:
        envelope.verify(known, 1)
    except VerificationError:
        return f"{target.name} holds no valid signature by a trusted key"
    return ""


def _read_envelope(path: Path, dsse: Any) -> Any:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError("too large")
        return dsse.Envelope.from_dict(json.loads(path.read_bytes()))
    except Exception as error:  # whatever a hostile envelope makes the library raise
        raise InvalidPlan(f"{path.name}: not readable as a signature ({type(error).__name__})") from None


def _securesystemslib() -> tuple[Any, Any]:
    try:
        from securesystemslib import dsse, signer
    except ImportError:
        raise missing_extra("signatures need their packages", "sign") from None
    return dsse, signer


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise missing_extra("signatures need their packages", "sign") from None
    return serialization, ed25519
