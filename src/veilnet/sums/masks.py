"""Masks: secrets that two agents agree on, and vectors of whole numbers modulo 2^k that are drawn from them.

Everything cryptographic is ``cryptography``'s: X25519 (RFC 7748), HKDF with SHA-256 (RFC 5869), ChaCha20 and
ChaCha20-Poly1305 (RFC 8439), Ed25519 (RFC 8032); Python's is BLAKE2b with a key (RFC 7693).

What has to hold, and why it does:

- *Two agents agree, nobody else knows.* :func:`agreed_key` is HKDF of X25519 of one secret and the other public key.
  What it is for (the terms of the sum) enters, so that a key of one plan says nothing of one of another.
- *A mask is as good as uniform, and used once.* :func:`key_stream` is ChaCha20's key stream under a seed of 32 bytes
  that no other use has, whole 64-bit words; modulo 2^k of a uniform word is uniform, k <= 64.
- *What is sealed for one agent is for no other.* :func:`sealed_box` is authenticated encryption under a key of the
  pair, the epoch and the direction. Its nonce is new in each run all the same, so that an agent whose disk was
  set back to an earlier day does not use one twice.
- *Adding is exact.* NumPy's unsigned 64-bit words wrap modulo 2^64, and 2^k divides 2^64: sums may wrap as often as
  they like before the last reduction modulo 2^k.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from veilnet._core.extras import missing_extra

try:
    from cryptography.exceptions import InvalidSignature, InvalidTag
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
except ImportError:
    raise missing_extra("secure sums need their packages", "live") from None

__all__ = [
    "KEY_BYTES", "NONCE", "TAG", "Ed25519PrivateKey", "Ed25519PublicKey", "Words", "X25519PrivateKey", "agreed_key",
    "expanded", "key_stream", "keyed_hash", "opened_box", "sealed_box", "summed_streams", "verified",
]  # fmt: skip

Words: TypeAlias = npt.NDArray[np.uint64]
KEY_BYTES = 32
_HASH = SHA256()
NONCE, TAG = 12, 16  # bytes before and behind what is sealed
_START = bytes(16)  # counter and nonce of a key stream: zero, since no seed is used twice


def agreed_key(secret: X25519PrivateKey, public: bytes, use: bytes) -> bytes:
    """32 bytes that the owners of two X25519 keys both come to, for one use.

    ValueError where the public key is of small order, which anybody could agree with.
    """
    shared = secret.exchange(X25519PublicKey.from_public_bytes(public))
    mine = secret.public_key().public_bytes_raw()
    both = b"".join(sorted((mine, public)))
    return HKDF(_HASH, KEY_BYTES, None, use + both).derive(shared)


def expanded(key: bytes, use: bytes, length: int) -> bytes:
    """So many bytes of a uniform key for a use: HKDF's second half."""
    return HKDFExpand(_HASH, length, use).derive(key)


def keyed_hash(key: bytes, content: bytes, length: int) -> bytes:
    """So many bytes that nobody without the key tells from random ones: BLAKE2b, a third of what HMAC costs."""
    return blake2b(content, digest_size=length, key=key).digest()


def key_stream(seed: bytes, count: int) -> bytes:
    """Bytes of ChaCha20's key stream from its beginning."""
    return Cipher(ChaCha20(seed, _START), None).encryptor().update(bytes(count))


def summed_streams(plus: Sequence[bytes], minus: Sequence[bytes], count: int) -> Words:
    """The sum of the vectors (count,) of some seeds less that of others, modulo 2^64."""

    def total(seeds: Sequence[bytes]) -> Words:
        streams = b"".join(key_stream(seed, 8 * count) for seed in seeds)
        return np.asarray(np.frombuffer(streams, "<u8").reshape(-1, count).sum(axis=0, dtype=np.uint64))

    return np.asarray(total(plus) - total(minus))


def sealed_box(key: bytes, content: bytes, nonce: bytes) -> bytes:
    """Bytes that only the key opens; nobody else can make or change one. The nonce, new for this key, comes first."""
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, content, None)


def opened_box(key: bytes, box: bytes) -> bytes | None:
    """What was sealed; None where the key does not open it."""
    try:
        return ChaCha20Poly1305(key).decrypt(box[:NONCE], box[NONCE:], None)
    except (InvalidTag, ValueError):
        return None


def verified(identity: Ed25519PublicKey, signature: bytes, content: bytes) -> bool:
    """Whether an identity signed some bytes."""
    try:
        identity.verify(signature, content)
    except InvalidSignature:
        return False
    return True
