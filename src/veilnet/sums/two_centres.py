"""A sum with two centres that do not collude: no rounds, and up to hundreds of thousands of agents.

An agent splits its message x into two halves that add up to it modulo 2^k: the key stream of a fresh seed, and x less
that stream. The seed is sealed for the first centre, the rest for the second (Prio: Corrigan-Gibbs and Boneh, 2017).
The first says whose halves it has, each adds up those that both have, and the two sums are merged.

What has to hold, and why it does:

- *One half says nothing.* A fresh seed is independent of x, and x less a uniform vector is uniform.
- *A half is its agent's, for one epoch and one centre.* It is sealed under a key that only agent and centre have
  (:mod:`veilnet.sums.party`), for the epoch. Nobody else can make, move or replay one: not the other centre, which
  would set one agent's half among its own, nor an agent that shows another's public key.
- *Nobody's value by subtraction.* A centre answers one list in an epoch, of at least ``threshold`` members, all of
  whom sent it a half; which epochs it answered is on the disk before it answers (``begin``). Two sums that differ in
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
    NONCE,
    Ed25519PublicKey,
    Words,
    X25519PrivateKey,
    expanded,
    opened_box,
    sealed_box,
    summed_streams,
)
from veilnet.sums.party import Party
from veilnet.sums.terms import WORD, Halved, SumRefused, Terms


def second_of(group: str) -> str:
    """The name by which the second centre of a group makes its keys."""
    return f"second centre of {group}"


def _check_epoch(epoch: int) -> None:
    if not 0 < epoch < 2**62:
        raise SumRefused(f"epoch: expected a positive whole number, found {epoch}")


def _key(agreed: bytes, which: int, epoch: int) -> bytes:
    return expanded(agreed, b"veilnet sum half %d" % which + epoch.to_bytes(8, "little"), KEY_BYTES)


class SplittingAgent(Party):
    """A member of a sum with two centres.

    identity: of the second centre, which says its key by the name :func:`second_of` its group.
    first:    32 bytes that the member and the first centre have for these terms, and nobody else.
    begin:    puts on the disk that an epoch is begun, and raises where it was begun before.
    draw:     random bytes, so many; the operating system's.
    """

    def __init__(
        self,
        terms: Terms,
        agent: str,
        secret: X25519PrivateKey,
        identity: Ed25519PublicKey,
        first: bytes,
        begin: Callable[[int], object],
        *,
        draw: Callable[[int], bytes] = secrets.token_bytes,
        known: Mapping[str, bytes] | None = None,
    ) -> None:
        self._second = second_of(terms.membership.group)
        self._first, self._begin, self._draw = first, begin, draw
        self._now = 0
        super().__init__(terms, agent, secret, {self._second: identity}, known)

    def begin(self, epoch: int) -> None:
        """Begin an epoch, for good."""
        if not self.ready:
            raise SumRefused("the key of the second centre is not known")
        _check_epoch(epoch)
        self._now = 0
        self._begin(epoch)
        self._now = epoch

    def split(self, epoch: int, residues: Words) -> Halved:
        """What to send of a message (m,) modulo 2^k; once in an epoch that was begun."""
        if epoch != self._now:
            raise SumRefused(f"epoch {epoch} is not going on here, so nothing is sent of it")
        if residues.shape != (self.terms.numbers,):
            raise SumRefused(f"expected {self.terms.numbers} numbers")
        self._now = 0
        seed = self._draw(KEY_BYTES)
        rest = self.terms.membership.residues(residues - summed_streams([seed], [], self.terms.numbers))
        halves = seed, rest.astype("<u8").tobytes()
        keys = (_key(key, k, epoch) for k, key in enumerate((self._first, self.agreed[self._second])))
        boxes = [sealed_box(key, half, self._draw(NONCE)) for key, half in zip(keys, halves, strict=True)]
        return Halved(epoch, self.agent, *boxes)


class HalfCentre:
    """One of the two centres.

    which: 0 or 1.
    keys:  member -> what it and this centre have.
    begin: puts on the disk that an epoch is answered, and raises where it was answered before.
    """

    def __init__(
        self, terms: Terms, which: int, keys: Mapping[str, bytes], begin: Callable[[int], object]
    ) -> None:
        self.terms, self._which, self._keys, self._begin = terms, which, keys, begin
        self._halves: dict[int, dict[int, bytes]] = {}

    def take(self, epoch: int, agent: str, box: bytes) -> None:
        """Take in an agent's half of an epoch; SumRefused where it is none, or a second one."""
        _check_epoch(epoch)
        number = self.terms.number(agent)
        key = self._keys.get(agent)
        half = None if key is None else opened_box(_key(key, self._which, epoch), box)
        if half is None or len(half) != (WORD * self.terms.numbers if self._which else KEY_BYTES):
            raise SumRefused(f"what came from {agent!r} for epoch {epoch} is no half of its message")
        if self._halves.setdefault(epoch, {}).setdefault(number, half) != half:
            raise SumRefused(f"{agent!r} sent two different halves for epoch {epoch}")

    def there(self, epoch: int) -> frozenset[int]:
        """The members whose halves are here."""
        return frozenset(self._halves.get(epoch, {}))

    def forget(self, epoch: int, member: int) -> None:
        """Forget a member's half of an epoch."""
        self._halves.get(epoch, {}).pop(member, None)

    def keep_to(self, epoch: int) -> None:
        """Forget all halves of other epochs."""
        self._halves = {each: halves for each, halves in self._halves.items() if each == epoch}

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
