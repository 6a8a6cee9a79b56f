"""The centre's side of a sum: gathers the rounds of an epoch, and opens the sum of those who stayed to the end.

:class:`SumEpoch` takes what agents send in any order, each once, and closes one round after the other: when all have
answered or their time is over. It opens exactly the sum modulo 2^k of the survivors' messages, or says why it cannot
(:class:`TooFew`). Shares that do not fit what their dealer committed to are left out, and whose they were is named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from veilnet._core.errors import VeilnetError
from veilnet._core.words import join_names
from veilnet.sums.masks import KEY_BYTES, Words, summed_streams
from veilnet.sums.rounds import SEALED_BYTES, TAG_BYTES, mark_of, mask_seed, opened_secret, seeds_under
from veilnet.sums.shamir import BYTES, PRIME, rebuilt
from veilnet.sums.terms import (
    NO_READING,
    WORD,
    Agreed,
    Confirmed,
    Masked,
    Objected,
    Revealed,
    SealedShares,
    Sharing,
    SumRefused,
    Survivors,
    Terms,
)

_Sent = TypeVar("_Sent", SealedShares, Masked, Objected, Confirmed, Revealed)


class TooFew(VeilnetError):
    """No sum can be opened of this epoch: nobody learns anything. ``dealer``: whose shares are to blame, or None.

    The dealer is to blame where more shares than needed came and none of their choices fits: then it dealt wrong
    ones, or as many of the others lie as there were shares to spare.
    """

    def __init__(self, why: str, dealer: int | None = None) -> None:
        super().__init__(why)
        self.dealer = dealer


@dataclass(frozen=True, eq=False)
class OpenedSum:
    """The sum of an epoch.

    residues:  (m,) modulo 2^k, of the messages of ``survivors``.
    survivors: names of the members whose messages are in it, in order.
    lying:     members who revealed what does not fit: their shares were left out.
    since:     from which row on the survivors' memories have all readings, of a stream; 0 of rows.
    """

    residues: Words
    survivors: tuple[str, ...]
    lying: tuple[str, ...]
    since: int


class SumEpoch:
    """One epoch of one sum, as its centre sees it.

    apart: pairs of members of whom one could not open the other's shares before; one of each pair is left out.
    """

    def __init__(self, terms: Terms, epoch: int, apart: Collection[tuple[int, int]] = ()) -> None:
        self.terms, self.epoch, self._apart = terms, epoch, apart
        self.shares: dict[int, SealedShares] = {}
        self.objected: dict[int, Objected] = {}
        self.masked: dict[int, Masked] = {}
        self.confirmed: dict[int, Confirmed] = {}
        self.revealed: dict[int, Revealed] = {}
        self.present: frozenset[int] = frozenset()
        self.survivors: frozenset[int] = frozenset()

    def take(self, message: SealedShares | Masked | Objected | Confirmed | Revealed) -> None:
        """Take in what an agent sent; SumRefused where it is not of this epoch, malformed, or another than before.

        Members who are no longer there have no part in a round.
        """
        number = self.terms.number(message.agent)
        size = len(self.terms.members)
        if message.epoch != self.epoch:
            raise SumRefused(f"a message of epoch {message.epoch} in epoch {self.epoch}")
        if isinstance(message, Objected):
            self._keep(self.objected, number, message, number in self.present)
        elif isinstance(message, Masked):
            good = number in self.present and len(message.residues) == WORD * self.terms.numbers
            self._keep(self.masked, number, message, good)
        elif isinstance(message, SealedShares):
            good = len(message.sealed) == size and len(message.wrapped) == size * KEY_BYTES
            good = good and len(message.commitment) == 2 * KEY_BYTES
            # a longer one would keep what it is put into from the member that it is for
            good = good and all(len(box) in (0, SEALED_BYTES) for box in message.sealed)
            # of a stream all have to be there
            good = good and (
                message.since == 0 or (self.terms.threshold == size and message.since <= self.epoch)
            )
            self._keep(self.shares, number, message, good)
        elif isinstance(message, Confirmed):
            good = number in self.survivors and len(message.tags) == size
            good = good and all(len(tag) in (0, TAG_BYTES) for tag in message.tags)
            self._keep(self.confirmed, number, message, good)
        else:
            good = number in self.survivors and len(message.shares) == len(self.present)
            good = good and all(len(share) == BYTES for share in message.shares)
            self._keep(self.revealed, number, message, good)

    def _keep(self, there: dict[int, _Sent], number: int, message: _Sent, good: bool) -> None:
        who = self.terms.members[number]
        if not good:
            raise SumRefused(f"{who!r} sent a malformed message in epoch {self.epoch}, or is no longer there")
        if there.setdefault(number, message) != message:
            raise SumRefused(f"{who!r} sent two different messages in one round of epoch {self.epoch}")

    # --- closing rounds

    def close_sharing(self) -> dict[str, Sharing]:
        """Who is present, and for each its shares: those whose keys reached each other."""
        present = self._mutual()
        self._enough(present, "sent shares")
        since = {number: self.shares[number].since for number in present}
        earliest = min((row for row in since.values() if row != NO_READING), default=0)
        behind = self._names(number for number, row in since.items() if row != earliest)
        if behind:
            raise TooFew(
                f"epoch {self.epoch}: {join_names(behind[:8])} had no reading of it, or missed one that others have; "
                "there is no sum, and all memories begin anew"
            )
        self.present = frozenset(present)
        bits = self.terms.as_bits(present)
        marks = {number: mark_of(self.shares[number].commitment) for number in present}
        found = {}
        for number in sorted(present):
            sealed = [
                marks[other] + self.shares[other].sealed[number] if other in present else b""
                for other in range(len(self.terms.members))
            ]
            found[self.terms.members[number]] = Sharing(self.epoch, bits, sealed)
        return found

    def _mutual(self) -> set[int]:
        """Members with shares for each other: one whose key came late waits for the next epoch.

        Of two that are apart the one is left out that is so from more; c members who lie keep out about as many.
        """
        without: dict[int, set[int]] = {number: set() for number in self.shares}
        for one, other in self._apart:
            if one in without and other in without:
                without[one].add(other)
                without[other].add(one)
        for number, message in self.shares.items():
            for other, box in enumerate(message.sealed):
                if not box and other != number and other in without:
                    without[number].add(other)
                    without[other].add(number)
        while without:
            worst = max(without, key=lambda number: (len(without[number]), number))
            if not without[worst]:
                break
            for other in without.pop(worst):
                without[other].discard(worst)
        return set(without)

    def close_masking(self) -> dict[str, Survivors]:
        """Who survived, for each of them."""
        survivors = self.present & set(self.masked)
        self._enough(survivors, "sent their messages")
        self.survivors = survivors
        answer = Survivors(self.epoch, self.terms.as_bits(survivors))
        return {self.terms.members[number]: answer for number in sorted(survivors)}

    def close_confirming(self) -> dict[str, Agreed]:
        """What the others saw, for each who confirmed."""
        there = self.survivors & set(self.confirmed)
        self._enough(there, "confirmed the survivors")
        found = {}
        for number in sorted(there):
            tags = [
                self.confirmed[other].tags[number] if other in there else b""
                for other in range(len(self.terms.members))
            ]
            found[self.terms.members[number]] = Agreed(self.epoch, tags)
        return found

    def open(self) -> OpenedSum:
        """The sum of the survivors' messages; TooFew where shares do not suffice."""
        self._enough(self.revealed, "revealed shares")
        held: dict[int, dict[int, int]] = {number: {} for number in self.present}
        for by, message in self.revealed.items():
            for other, share in zip(sorted(self.present), message.shares, strict=True):
                held[other][by + 1] = int.from_bytes(share, "little") % PRIME
        plus: list[bytes] = []
        minus: list[bytes] = []
        lying: set[int] = set()
        marks = {number: mark_of(self.shares[number].commitment) for number in self.present}
        for number in sorted(self.present):
            key, wrong = self._key(number, held[number])
            lying |= {point - 1 for point in wrong}
            if number in self.survivors:
                plus.append(key)
                continue
            roots = seeds_under(key, self.shares[number].wrapped)
            for other in self.survivors:  # whose messages have the mask with this one, who sent none
                root = roots[other * KEY_BYTES : (other + 1) * KEY_BYTES]
                seed = mask_seed(root, *(marks[each] for each in sorted((number, other))))
                (plus if number > other else minus).append(seed)
        count = self.terms.numbers
        sent = np.sum([self.masked[number].words for number in self.survivors], axis=0, dtype=np.uint64)
        residues = self.terms.membership.residues(sent - summed_streams(plus, minus, count))
        since = self.shares[min(self.survivors)].since
        return OpenedSum(residues, self._names(self.survivors), self._names(lying), since)

    def _key(self, number: int, held: dict[int, int]) -> tuple[bytes, tuple[int, ...]]:
        """What a member's own mask, or the lock of its pairwise ones, is made of, and whose shares do not fit."""
        survived = number in self.survivors
        use = b"own" if survived else b"lock"
        commitment = self.shares[number].commitment
        expected = commitment[:KEY_BYTES] if survived else commitment[KEY_BYTES:]
        secret, wrong = rebuilt(
            held, self.terms.threshold, lambda found: opened_secret(found, use)[1] == expected
        )
        if secret is None:
            raise TooFew(
                f"epoch {self.epoch}: the {len(held)} shares of {self.terms.members[number]!r} that came do not give "
                "what it committed to; there is no sum",
                number if len(held) > self.terms.threshold else None,
            )
        return opened_secret(secret, use)[0], wrong

    def _enough(self, there: Iterable[int], did: str) -> None:
        found = set(there)
        if len(found) < self.terms.threshold:
            gone = self._names(set(range(len(self.terms.members))) - found)
            raise TooFew(
                f"epoch {self.epoch}: only {len(found)} of {len(self.terms.members)} {did}, and "
                f"{self.terms.threshold} are needed; there is no sum (not there: {join_names(gone[:8])})"
            )

    def _names(self, some: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.terms.members[number] for number in sorted(some))
