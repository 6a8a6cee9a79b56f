"""Shamir's sharing of a secret: any ``threshold`` shares give it back, fewer say nothing of it.

A secret is an element of GF(p), p = 2^255 - 19, uniform. The dealer draws a polynomial of degree threshold - 1 with
the secret as its value at 0 and all other coefficients uniform; the share at the point x is its value there. For any
threshold - 1 points and any secret exactly one polynomial has given values there: fewer shares than the threshold
are independent of the secret (Shamir, 1979).

A share that somebody changed gives another secret. :func:`rebuilt` asks what the dealer committed to, tries other
shares, and then names whose were changed: those off the polynomial. A changed share
that was not needed goes unnamed, and liars who agree on their shares can have others named.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from math import comb
from random import Random

PRIME = 2**255 - 19
BYTES = 32  # of an element
_WIDE = 48  # random bytes for an element: modulo p they are uniform up to 2^-129
_AT_ONCE = 16  # coefficients
_MOST_TRIES = 2000  # sets of shares, before a secret is given up: one liar among 50 shares takes about three


def drawn_elements(count: int, draw: Callable[[int], bytes] = secrets.token_bytes) -> list[int]:
    """Uniform elements of the field, from random bytes."""
    drawn = draw(_WIDE * count)
    return [int.from_bytes(drawn[k : k + _WIDE], "little") % PRIME for k in range(0, len(drawn), _WIDE)]


def shared(coefficients: Sequence[int], points: Sequence[int]) -> list[int]:
    """The shares at some points; the first coefficient is the secret, the others are drawn for it alone."""
    high_to_low = coefficients[::-1]
    parts = [high_to_low[start : start + _AT_ONCE] for start in range(0, len(high_to_low), _AT_ONCE)]
    shares = []
    for point in points:
        value = 0
        for part in parts:  # reduced after each: twice as fast as in every step
            for coefficient in part:
                value = value * point + coefficient
            value %= PRIME
        shares.append(value)
    return shares


@lru_cache(maxsize=4096)
def _weights(points: tuple[int, ...], at: int) -> tuple[int, ...]:
    """Lagrange's weights: a polynomial of degree below len(points) has the value Σ w_k f(points_k) ``at``."""
    weights = []
    for point in points:
        over = under = 1
        for other in points:
            if other != point:
                over = over * (at - other) % PRIME
                under = under * (point - other) % PRIME
        weights.append(over * pow(under, -1, PRIME) % PRIME)
    return tuple(weights)


def _value(shares: Mapping[int, int], points: tuple[int, ...], at: int = 0) -> int:
    return (
        sum(weight * shares[point] for weight, point in zip(_weights(points, at), points, strict=True))
        % PRIME
    )


def rebuilt(
    shares: Mapping[int, int], threshold: int, fits: Callable[[int], bool]
) -> tuple[int | None, tuple[int, ...]]:
    """(the secret, the points whose shares are wrong) from point -> share.

    fits: whether an element is the secret that was committed to. None where no ``threshold`` shares give one that is.
    """
    ordered = tuple(sorted(shares))
    for place, points in enumerate(_choices(ordered, threshold)):
        secret = _value(shares, points)
        if fits(secret):
            # where the first set fits, nobody's share did harm, and to look at the others would cost most of the time
            others = [point for point in ordered if place and point not in points]
            return secret, tuple(point for point in others if _value(shares, points, point) != shares[point])
    return None, ()


def _choices(points: tuple[int, ...], threshold: int) -> Iterator[tuple[int, ...]]:
    """Sets of shares to try: all of them, or the first and then some at random, which no liar foresees."""
    if comb(len(points), threshold) <= _MOST_TRIES:
        yield from combinations(points, threshold)
        return
    yield points[:threshold]
    chance = Random(secrets.randbits(64))
    for _ in range(_MOST_TRIES):
        yield tuple(sorted(chance.sample(points, threshold)))
