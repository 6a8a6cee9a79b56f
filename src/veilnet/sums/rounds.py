"""An agent's side of a sum: double masks, fresh in every epoch, so that the centre can open the sum and nothing else.

Agent u sends x_u + own_u + Σ_v ± pair_uv modulo 2^k. Each pair_uv cancels in the sum of u and v. For each agent of an
epoch the others then reveal *either* shares of what its own mask is made of, if its message arrived, *or* shares
of what its pairwise masks are made of, if it did not (Bonawitz et al., 2017). The messages of the rounds are in
:mod:`veilnet.sums.terms`, the centre's side in :mod:`veilnet.sums.opening`.

Two agents agree on a key once per plan (X25519). From it and the epoch HKDF makes a root of their mask, keys to
seal shares to each other, and a key for tags. So an epoch has no public-key operation. Each epoch an agent draws two
secrets and shares them (:mod:`veilnet.sums.shamir`): ``own``, from which its own mask comes, and ``lock``, under
which it leaves the epoch's roots with the centre. Long-lived keys are never revealed. The seed of a pair's mask is
made of their root and of what both drew: a hash of its commitment is the ``mark`` of each, and its boxes' nonce.

What has to hold, and why it does:

- *Never both kinds.* An agent answers one list of survivors in an epoch, and reveals one share of each other by that
  list. Which epochs were begun is on the disk before anything is drawn for one (``begin``); an agent that was
  restarted has forgotten its part, and takes part in no epoch that it had begun. Let c of S members collude. To
  rebuild both secrets of an agent takes 2t shares; honest members give S - c at most, colluders 2c. So it cannot be
  done while 2t > S + c, with t the threshold, whatever is said to whom.
- *At least t - c honest values in a sum.* Survivors are at least t, all among those with whom the agent masked, and
  at least t members confirmed the very same two lists: each tag is by a key that only its two agents have. While
  2t > S + c no two different lists can be confirmed so often.
- *An epoch is masked once.* One message, for one list of those present; a second one is refused, so that no two
  values are ever under the same masks. Nor are they where all disks were set back to an earlier day, and the record
  of epochs with them: each mask has something in it that this agent drew in this run. But a lock that was opened
  gives the roots of its epoch for good: after such a set-back that member's masks of another run are known, but for
  its own. Where it survives that run, its own is opened too, and the centre has its message.
- *Keys are the members' own* (:mod:`veilnet.sums.party`). Terms with half of the members or fewer as threshold are
  no terms.
- *A sum of a stream is of the same rows.* Each agent says, in the boxes that it seals, from which row on its memory
  has all readings. One that finds another row in any of them lets the epoch pass, and its memory begins anew.
- *What cannot be opened is not guessed.* A share that does not open, a list that is too short, an earlier epoch, a
  second answer: each is refused (:class:`~veilnet.sums.terms.SumRefused`), and the epoch is over for this agent.
- *One who lies about its key or its shares is named, and the others go on.* Its key is left out; an agent that cannot
  open its shares says so before it masks anything, and the centre sums without one of the two from then on.

Tags are by symmetric keys, not signatures: each member checks its own, nobody has to convince a third party, and
50 of them cost 0.1 ms instead of 5.

Not promised: that the sum is right when a member lies (it may send any number), nor, after an agent's keys are
stolen, that its own earlier messages stay hidden from somebody who kept what the centre saw.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from veilnet._core.words import join_names
from veilnet.sums.masks import (
    KEY_BYTES,
    NONCE,
    Ed25519PublicKey,
    Words,
    X25519PrivateKey,
    expanded,
    key_stream,
    keyed_hash,
    opened_box,
    sealed_box,
    summed_streams,
)
from veilnet.sums.party import Party
from veilnet.sums.shamir import BYTES, drawn_elements, shared
from veilnet.sums.terms import (
    Agreed,
    Confirmed,
    Masked,
    Revealed,
    SealedShares,
    Sharing,
    SumRefused,
    Survivors,
    Terms,
    Unopened,
)

TAG_BYTES = 16
_SAID = 8  # bytes of a row's number
SEALED_BYTES = 2 * BYTES + _SAID + 16


@dataclass(frozen=True)
class _Pair:
    """What two agents have in an epoch: the root of their mask, keys to seal with (up, down), and one for tags."""

    root: bytes
    up: bytes
    down: bytes
    tags: bytes


@dataclass
class _Epoch:
    """One epoch so far; ``kept`` are its own two shares, ``held`` those of all present, ``seeds`` those of masks."""

    epoch: int
    own_seed: bytes
    since: int
    pairs: dict[int, _Pair]
    kept: tuple[bytes, bytes]
    marks: dict[int, bytes]
    held: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    seeds: dict[int, bytes] = field(default_factory=dict)
    present: frozenset[int] | None = None
    masked: bool = False
    survivors: frozenset[int] | None = None
    view: bytes = b""


def opened_secret(secret: int, use: bytes) -> tuple[bytes, bytes]:
    """(key, commitment) that a shared secret is made into, ``own`` or ``lock``."""
    both = expanded(secret.to_bytes(BYTES, "little"), b"veilnet sum " + use, 2 * KEY_BYTES)
    return both[:KEY_BYTES], both[KEY_BYTES:]


def _said(row: int) -> bytes:
    return row.to_bytes(_SAID, "little", signed=True)


def mark_of(commitment: bytes) -> bytes:
    """What an agent that committed to two secrets puts into the masks of this run."""
    return hashlib.sha256(commitment).digest()[:NONCE]


def mask_seed(root: bytes, lower: bytes, higher: bytes) -> bytes:
    """The seed of a pair's mask: of their root, and the marks of the one with the lower number and of the other."""
    return keyed_hash(root, lower + higher, KEY_BYTES)


def seeds_under(lock: bytes, seeds: bytes) -> bytes:
    """Seeds, one after the other, under the key of a lock: its key stream is added, or taken off again."""
    stream = int.from_bytes(key_stream(lock, len(seeds)), "little")
    return (int.from_bytes(seeds, "little") ^ stream).to_bytes(len(seeds), "little")


class SumAgent(Party):
    """One member of one sum.

    begin: puts on the disk that an epoch is begun, and raises where it was begun before.
    draw:  random bytes, so many; the operating system's.

    The other arguments are those of a :class:`~veilnet.sums.party.Party`.
    """

    def __init__(
        self,
        terms: Terms,
        agent: str,
        secret: X25519PrivateKey,
        identities: Mapping[str, Ed25519PublicKey],
        begin: Callable[[int], object],
        *,
        draw: Callable[[int], bytes] = secrets.token_bytes,
        known: Mapping[str, bytes] | None = None,
    ) -> None:
        self.number = terms.in_rounds().number(agent)
        self._begin, self._draw = begin, draw
        self._now: _Epoch | None = None
        super().__init__(terms, agent, secret, identities, known)

    @property
    def ready(self) -> bool:
        """Whether the keys of enough others are known to begin an epoch."""
        return len(self.agreed) + 1 >= self.terms.threshold

    @property
    def complete(self) -> bool:
        """Whether the keys of all others are known."""
        return len(self.agreed) + 1 == len(self.terms.members)

    # --- the rounds of an epoch, in order

    def begin(self, epoch: int, since: int = 0) -> SealedShares:
        """Round 1: begin an epoch, for good; two fresh secrets, shared among those whose keys are known.

        since: see :class:`~veilnet.sums.terms.SealedShares`.
        """
        if not self.ready:
            raise SumRefused(f"the keys of too few of the {len(self.terms.members) - 1} others are known")
        if not 0 < epoch < 2**62:
            raise SumRefused(f"epoch: expected a positive whole number, found {epoch}")
        self._now = None
        self._begin(epoch)
        needed = self.terms.threshold
        drawn = drawn_elements(2 * needed, self._draw)
        own, lock = drawn[:needed], drawn[needed:]
        own_key, own_commitment = opened_secret(own[0], b"own")
        lock_key, lock_commitment = opened_secret(lock[0], b"lock")
        points = range(1, len(self.terms.members) + 1)
        shares = [
            (a.to_bytes(BYTES, "little"), b.to_bytes(BYTES, "little"))
            for a, b in zip(shared(own, points), shared(lock, points), strict=True)
        ]
        commitment = own_commitment + lock_commitment
        mark = mark_of(commitment)
        pairs = {self.terms.number(name): self._pair(key, epoch) for name, key in self.agreed.items()}
        sealed, roots = [], []
        for number, both in enumerate(shares):
            pair = pairs.get(number)
            key = b"" if pair is None else pair.up if number > self.number else pair.down
            sealed.append(sealed_box(key, b"".join(both) + _said(since), mark)[NONCE:] if key else b"")
            roots.append(bytes(KEY_BYTES) if pair is None else pair.root)
        self._now = _Epoch(epoch, own_key, since, pairs, shares[self.number], {self.number: mark})
        wrapped = seeds_under(lock_key, b"".join(roots))
        return SealedShares(epoch, self.agent, since, sealed, wrapped, commitment)

    def _pair(self, key: bytes, epoch: int) -> _Pair:
        made = expanded(key, b"veilnet sum epoch" + epoch.to_bytes(8, "little"), 4 * KEY_BYTES)
        return _Pair(*(made[k : k + KEY_BYTES] for k in range(0, len(made), KEY_BYTES)))

    def accept(self, sharing: Sharing) -> None:
        """Round 2: take the shares of those present, with whom this agent masks from now on; once in an epoch."""
        now = self._at(sharing.epoch)
        present = self._members(sharing.present, "sent shares")
        if now.present is not None:
            self._end("another list of those present came, after one was taken")
        if len(sharing.sealed) != len(self.terms.members):
            self._end("the shares are not for this group")
        shut, elsewhere = set[int](), set[int]()
        for number in present - {self.number}:
            pair = now.pairs.get(number)
            key = None if pair is None else pair.down if number > self.number else pair.up
            shares = None if key is None else opened_box(key, sharing.sealed[number])
            if shares is None or len(shares) != 2 * BYTES + _SAID:
                shut.add(number)
                continue
            # of rows it is a lie, and no reason to wait for it
            if shares[2 * BYTES :] != _said(now.since):
                (elsewhere if now.since else shut).add(number)
            now.held[number] = shares[:BYTES], shares[BYTES : 2 * BYTES]
            now.marks[number] = sharing.sealed[number][:NONCE]
        if shut:
            self._now = None
            raise Unopened(
                f"epoch {sharing.epoch}: the shares of {self._named(shut)} do not open", frozenset(shut)
            )
        if elsewhere:
            self._end(f"{self._named(elsewhere)} and this agent remember other rows, so that all begin anew")
        now.held[self.number] = now.kept
        now.seeds = {
            number: mask_seed(now.pairs[number].root, *(now.marks[k] for k in sorted((number, self.number))))
            for number in present - {self.number}
        }
        now.present = present

    def _named(self, some: Collection[int]) -> str:
        return join_names([repr(self.terms.members[number]) for number in sorted(some)])

    def mask(self, epoch: int, residues: Words) -> Masked:
        """A message (m,), whole numbers modulo 2^k, under this agent's masks; once in an epoch."""
        now = self._at(epoch)
        if now.present is None or now.masked:
            self._end("a message is masked once, after those present are known")
        if residues.shape != (self.terms.numbers,):
            self._end(f"expected {self.terms.numbers} numbers")
        now.masked = True
        plus = [now.own_seed, *(seed for number, seed in now.seeds.items() if number > self.number)]
        minus = [seed for number, seed in now.seeds.items() if number < self.number]
        words = self.terms.membership.residues(residues + summed_streams(plus, minus, self.terms.numbers))
        return Masked(epoch, self.agent, words.astype("<u8").tobytes())

    def confirm(self, seen: Survivors) -> Confirmed:
        """Round 3: say to every other member which lists this agent saw; it answers no other ones in this epoch."""
        now = self._at(seen.epoch)
        survivors = self._members(seen.survivors, "survived")
        if now.survivors is not None and survivors != now.survivors:
            self._end("the centre shows another list of survivors than before")
        if now.present is None or not survivors <= now.present:
            self._end("the list of survivors has members that had sent no shares")
        if not now.masked:
            self._end("this agent has sent no message, and is called a survivor")
        now.survivors = survivors
        lists = self.terms.as_bits(now.present) + self.terms.as_bits(survivors)
        marks = b"".join(now.marks[number] for number in sorted(now.present))
        seen_of = self.terms.digest + seen.epoch.to_bytes(8, "little") + lists + marks
        now.view = hashlib.sha256(seen_of).digest()
        tags = [
            self._tag(now.pairs[number], now.view, self.number) if number in now.pairs else b""
            for number in range(len(self.terms.members))
        ]
        return Confirmed(seen.epoch, self.agent, tags)

    def reveal(self, agreed: Agreed) -> Revealed:
        """Round 4: one share of each present, once enough of them saw the very same lists; the epoch is over."""
        now = self._at(agreed.epoch)
        if now.survivors is None:
            self._end("shares are revealed once, after the survivors are known")
        if len(agreed.tags) != len(self.terms.members):
            self._end("the tags are not for this group")
        same, others = 1, []
        for number in sorted(now.survivors - {self.number}):
            tag = agreed.tags[number]
            if not tag:
                continue
            if hmac.compare_digest(tag, self._tag(now.pairs[number], now.view, number)):
                same += 1
            else:
                others.append(self.terms.members[number])
        if same < self.terms.threshold:
            saw = f"; {join_names(others)} saw others, or a tag was changed" if others else ""
            self._end(f"only {same} members confirm the lists that this agent saw{saw}")
        shares = [
            own if number in now.survivors else lock for number, (own, lock) in sorted(now.held.items())
        ]
        self._now = None
        return Revealed(agreed.epoch, self.agent, shares)

    def _tag(self, pair: _Pair, view: bytes, by: int) -> bytes:
        return keyed_hash(pair.tags, view + by.to_bytes(4, "little"), TAG_BYTES)

    def _members(self, some: bytes, did: str) -> frozenset[int]:
        found = self.terms.as_set(some)
        if len(found) < self.terms.threshold:
            self._end(f"only {len(found)} members {did}, and {self.terms.threshold} are needed")
        if self.number not in found:
            self._end(f"the centre says that this agent did not: {did}")
        return found

    def _at(self, epoch: int) -> _Epoch:
        """The epoch that is going on; SumRefused where it is another one."""
        if self._now is None or epoch != self._now.epoch:
            raise SumRefused(f"epoch {epoch} is not going on here, so nothing is answered of it")
        return self._now

    def _end(self, why: str) -> NoReturn:
        epoch = 0 if self._now is None else self._now.epoch
        self._now = None
        raise SumRefused(f"epoch {epoch}: {why}; nothing more is answered of it")
