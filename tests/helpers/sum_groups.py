"""Groups that add up their messages: terms, messages, and plain sums of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from veilnet.agent.membership import Membership
from veilnet.sums.masks import Words
from veilnet.sums.terms import Terms


def make_terms(members: int, threshold: int | None = None, bits: int = 64, numbers: int = 3) -> Terms:
    """The terms of a group of so many rooms."""
    names = tuple(f"room{k}" for k in range(members))
    needed = 2 * members // 3 + 1 if threshold is None else threshold
    return Terms("plan", Membership("all", names, needed, bits), numbers)


def plain_sum(terms: Terms, messages: Mapping[str, Words], some: Iterable[str]) -> list[int]:
    """The same sum without any masks, by Python's own whole numbers."""
    chosen = list(some)
    return [sum(int(messages[name][k]) for name in chosen) % 2**terms.bits for k in range(terms.numbers)]


def random_messages(terms: Terms, rng: np.random.Generator) -> dict[str, Words]:
    """Whole numbers of either sign, modulo 2^k, of every member."""
    numbers = rng.integers(-(2**20), 2**20, (len(terms.members), terms.numbers))
    return dict(zip(terms.members, terms.membership.residues(numbers), strict=True))
