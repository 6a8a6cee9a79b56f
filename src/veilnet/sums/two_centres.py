"""A sum with two centres that do not collude: no rounds, any number of agents.

An agent splits its message x into two halves that add up to it modulo 2^k: the key stream of a fresh seed, and x less
that stream. The seed is sealed for the first centre, the rest for the second (Prio: Corrigan-Gibbs and Boneh, 2017).
The centres tell each other whose halves they have, each adds up those that both have, and the two sums are merged.

What has to hold, and why it does:

- *One half says nothing.* A fresh seed is independent of x, and x less a uniform vector is uniform.
- *A half is its agent's, for one epoch and one centre.* It is sealed under a key that HKDF makes of the agreed key of
  agent and centre (X25519, once per plan) and the epoch, so nobody else can make, move or replay one.
- *Nobody's value by subtraction.* A centre answers one list in an epoch, of at least ``threshold`` members, all of
  whom sent it a half; which lists it answered is on the disk before it answers (``begin``). Two sums that differ in
  one member would give that member away to the other centre.
- *An agent splits an epoch once*; that is on its disk before, too.

Promised: a centre that lies learns, with c colluding members, the sum of at least threshold - c others, and no more.
Not promised: anything if both centres collude; nor that the sum is right if a centre or an agent lies.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping

import numpy as np

from veilnet.sums.masks import (
    KEY_BYTES,
    Words,
    X25519PrivateKey,
    agreed_key,
    expanded,
    opened_box,
    sealed_box,
    summed_streams,
)
from veilnet.sums.terms import SumRefused, Terms


def _use(terms: Terms, centre: int) -> bytes:
    return b"veilnet sum half %d\n" % centre + terms.digest


def _key(agreed: bytes, epoch: int) -> bytes:
    return expanded(agreed, b"veilnet sum epoch" + epoch.to_bytes(8, "little"), KEY_BYTES)


class SplittingAgent:
    """A member of a sum with two centres.

    secret:  its X25519 key for these terms; ``centres`` the public keys of the two.
    begin:   puts on the disk that an epoch is begun, and raises where it was begun before.
    draw:    random bytes, so many; the operating system's.
    """

    def __init__(
        self,
        terms: Terms,
        secret: X25519PrivateKey,
        centres: tuple[bytes, bytes],
        begin: Callable[[int], object],
        *,
        draw: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        if centres[0] == centres[1]:
            raise SumRefused("centres: expected two different ones, found the same key twice")
        self.terms, self._begin, self._draw = terms, begin, draw
        self._keys = [agreed_key(secret, public, _use(terms, k)) for k, public in enumerate(centres)]

    def split(self, epoch: int, residues: Words) -> tuple[bytes, bytes]:
        """What to send to the first and to the second centre, of a message (m,) modulo 2^k; once in an epoch."""
        if residues.shape != (self.terms.numbers,):
            raise SumRefused(f"expected {self.terms.numbers} numbers")
        self._begin(epoch)
        seed = self._draw(KEY_BYTES)
        rest = self.terms.membership.residues(residues - summed_streams([seed], [], self.terms.numbers))
        first, second = (_key(key, epoch) for key in self._keys)
        return sealed_box(first, seed, self._draw), sealed_box(
            second, rest.astype("<u8").tobytes(), self._draw
        )


class HalfCentre:
    """One of the two centres.

    which:  0 or 1.
    secret: its X25519 key; ``agents`` member -> its public key.
    begin:  puts on the disk that an epoch is answered, and raises where it was answered before.
    """

    def __init__(
        self,
        terms: Terms,
        which: int,
        secret: X25519PrivateKey,
        agents: Mapping[str, bytes],
        begin: Callable[[int], object],
    ) -> None:
        self.terms, self._which, self._begin = terms, which, begin
        self._keys = {
            terms.number(member): agreed_key(secret, public, _use(terms, which))
            for member, public in agents.items()
        }
        self._halves: dict[int, dict[int, bytes]] = {}

    def take(self, epoch: int, agent: str, box: bytes) -> None:
        """Take in an agent's half of an epoch; SumRefused where it is none, or a second one."""
        number = self.terms.number(agent)
        key = self._keys.get(number)
        half = None if key is None else opened_box(_key(key, epoch), box)
        if half is None or len(half) != (8 * self.terms.numbers if self._which else KEY_BYTES):
            raise SumRefused(f"what came from {agent!r} for epoch {epoch} is no half of its message")
        if self._halves.setdefault(epoch, {}).setdefault(number, half) != half:
            raise SumRefused(f"{agent!r} sent two different halves for epoch {epoch}")

    def there(self, epoch: int) -> frozenset[int]:
        """The members whose halves are here."""
        return frozenset(self._halves.get(epoch, {}))

    def answer(self, epoch: int, members: Collection[int]) -> Words:
        """The sum (m,) of the halves of some members, modulo 2^k; once in an epoch, and its halves are forgotten."""
        halves, asked = self._halves.get(epoch, {}), frozenset(members)
        if not asked <= halves.keys():
            raise SumRefused(
                f"epoch {epoch}: the list has members whose halves are not here, or were added up before"
            )
        if len(asked) < self.terms.threshold:
            raise SumRefused(
                f"epoch {epoch}: the list has {len(asked)} members, and {self.terms.threshold} are needed"
            )
        self._begin(epoch)
        del self._halves[epoch]
        count = self.terms.numbers
        chosen = [halves[k] for k in asked]
        if self._which:
            added = np.frombuffer(b"".join(chosen), "<u8").reshape(-1, count).sum(axis=0, dtype=np.uint64)
        else:
            added = summed_streams(chosen, [], count)
        return self.terms.membership.residues(added)


def merged(terms: Terms, first: Words, second: Words) -> Words:
    """The sum of messages modulo 2^k, from what both centres answered for the same list."""
    return terms.membership.residues(first + second)
