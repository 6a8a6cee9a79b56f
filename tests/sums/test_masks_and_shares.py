"""What masks and shares are made of: against the vectors of the RFCs, and Shamir's sharing against its definition."""

from __future__ import annotations

import hmac
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.sum_groups import make_terms
from veilnet.sums import masks, shamir
from veilnet.sums.rehearsal import seeded_bytes

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))


def vector(start: str) -> Any:
    (found,) = [entries for name, entries in VECTORS.items() if name.startswith(start)]
    return {name: bytes.fromhex(value) if isinstance(value, str) else value for name, value in found.items()}


def test_keys_are_agreed_on_as_the_rfcs_say() -> None:
    given, hkdf = vector("X25519"), vector("HKDF")
    secret = masks.X25519PrivateKey.from_private_bytes(given["secret"])
    assert secret.public_key().public_bytes_raw() == given["own public"]
    # HKDF of the shared secret, by its definition: extract with a salt of zeros, then expand
    both = b"".join(sorted((given["own public"], given["public"])))
    key = hmac.digest(bytes(32), given["shared"], "sha256")
    expected = hmac.digest(key, b"use" + both + b"\x01", "sha256")
    assert masks.agreed_key(secret, given["public"], b"use") == expected
    assert masks.expanded(hkdf["key"], hkdf["use"], 42) == hkdf["made"]


def test_both_ends_agree_and_nobody_agrees_with_a_key_of_small_order() -> None:
    one, two = (masks.X25519PrivateKey.from_private_bytes(seeded_bytes(name)(32)) for name in "ab")
    publics = [each.public_key().public_bytes_raw() for each in (one, two)]
    assert masks.agreed_key(one, publics[1], b"a") == masks.agreed_key(two, publics[0], b"a")
    assert masks.agreed_key(one, publics[1], b"a") != masks.agreed_key(one, publics[1], b"b")
    with pytest.raises(ValueError, match="shared key"):
        masks.agreed_key(one, bytes(32), b"a")


def test_a_key_stream_is_that_of_the_rfc_and_sums_of_streams_are_sums() -> None:
    given = vector("ChaCha20")
    assert masks.key_stream(given["seed"], 64) == given["stream"]
    seeds = [seeded_bytes(str(k))(32) for k in range(5)]
    streams = [np.frombuffer(masks.key_stream(seed, 24), "<u8").tolist() for seed in seeds]
    total = masks.summed_streams(seeds[:3], seeds[3:], 3) % 2**18
    signs = (1, 1, 1, -1, -1)
    expected = [sum(s * row[k] for s, row in zip(signs, streams, strict=True)) % 2**18 for k in range(3)]
    assert total.tolist() == expected
    assert masks.summed_streams([], [], 2).tolist() == [0, 0]


def test_signatures_are_those_of_the_rfc() -> None:
    given = vector("Ed25519")
    secret = masks.Ed25519PrivateKey.from_private_bytes(given["secret"])
    assert secret.public_key().public_bytes_raw() == given["public"]
    assert masks.verified(secret.public_key(), given["signature"], b"")
    assert not masks.verified(secret.public_key(), given["signature"], b"x")
    assert not masks.verified(secret.public_key(), given["signature"][:-1], b"")


def test_a_box_opens_with_its_key_alone_and_unchanged() -> None:
    box = masks.sealed_box(bytes(32), b"content", seeded_bytes("nonce")(12))
    assert masks.opened_box(bytes(32), box) == b"content"
    assert masks.opened_box(b"\x01" + bytes(31), box) is None
    assert masks.opened_box(bytes(32), box[:-1] + bytes([box[-1] ^ 1])) is None
    assert masks.opened_box(bytes(32), b"") is None


def test_any_threshold_of_shares_gives_the_secret_and_fewer_fit_every_secret() -> None:
    coefficients = shamir.drawn_elements(3, seeded_bytes("coefficients"))
    points = [1, 2, 5, 7, 11]
    shares = dict(zip(points, shamir.shared(coefficients, points), strict=True))
    for point, share in shares.items():  # the definition, by another order of operations
        assert (
            share == sum(c * pow(point, k, shamir.PRIME) for k, c in enumerate(coefficients)) % shamir.PRIME
        )
    for some in combinations(points, 3):
        chosen = {point: shares[point] for point in some}
        assert shamir.rebuilt(chosen, 3, lambda found: found == coefficients[0]) == (coefficients[0], ())
    # two shares: with any secret whatever there is a third share that makes all three lie on one polynomial
    for secret in (0, 1, coefficients[0], shamir.PRIME - 1):
        missing = shamir._value({0: secret, 1: shares[1], 2: shares[2]}, (0, 1, 2), 5)
        again = {1: shares[1], 2: shares[2], 5: missing}
        assert shamir.rebuilt(again, 3, lambda found, secret=secret: found == secret)[0] == secret


def test_the_modulus_is_a_prime() -> None:
    """By Miller's and Rabin's test with the first 40 primes as bases."""
    odd, twos = shamir.PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    bases = [k for k in range(2, 180) if all(k % j for j in range(2, k))]
    for base in bases[:40]:
        powers = [pow(base, odd << k, shamir.PRIME) for k in range(twos)]
        assert powers[0] == 1 or shamir.PRIME - 1 in powers


@pytest.mark.parametrize(
    ("shares", "threshold", "liars"), [(7, 5, (2,)), (50, 34, (1, 30, 49)), (9, 6, (1, 2, 3))]
)
def test_wrong_shares_are_left_out_and_named(shares: int, threshold: int, liars: tuple[int, ...]) -> None:
    coefficients = shamir.drawn_elements(threshold, seeded_bytes("many"))
    points = range(1, shares + 1)
    given = dict(zip(points, shamir.shared(coefficients, points), strict=True))
    given |= {point: given[point] + 1 + point**2 for point in liars}
    assert shamir.rebuilt(given, threshold, lambda found: found == coefficients[0]) == (
        coefficients[0],
        liars,
    )
    too_few = {point: given[point] for point in [*liars, *points][:threshold]}
    assert shamir.rebuilt(too_few, threshold, lambda found: found == coefficients[0]) == (None, ())


@pytest.mark.parametrize("size", [2, 3, 5, 6, 50, 500])
def test_who_may_help_is_what_the_rounds_stand(size: int) -> None:
    for threshold in {size // 2 + 1, 2 * size // 3 + 1, size} - {1}:
        most = make_terms(size, threshold).colluders
        if most:  # 2t > S + c, and two honest ones in a sum
            assert 2 * threshold > size + most
            assert threshold - most >= 2
