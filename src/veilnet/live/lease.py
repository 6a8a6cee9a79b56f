"""Which centre is the one: a lease in the broker, retained, signed by the key of the network's centres.

A broker hands on what is published to a topic in one order to all. A centre asks on the topic of the lease, and when
it hears itself it has heard every lease before; then it claims the next term. The first claim of a term that the
broker hands on counts. The holder renews its lease four times in the time of one, and does nothing that anybody
outside can see unless it heard its own renewal within three quarters of that time; who is not the holder any more
hears a higher term, stops and says so.

A standby follows the holder: it gets what every batch wrote (:mod:`veilnet.live.standby`) and says up to which batch
it has it on its disk. From when the lease names it, the holder acknowledges and publishes a batch only after that. So
a standby that is named holds everything that anybody was promised, and takes over when the lease ran out. One that
does not answer for the time of a lease is no longer named, before anything goes on without it.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from veilnet._core.errors import VeilnetError
from veilnet.live.centre_store import CentreStore, CopiedRows, EstimateRow, MessageRow
from veilnet.live.messages import Malformed
from veilnet.live.neighbours import Publication
from veilnet.live.topics import Topics

if TYPE_CHECKING:
    from veilnet.live.centre import Taken
    from veilnet.live.seals import EstimateSigner

_SHORTEST, _USUAL, _LONGEST = 2.0, 5.0, 10.0  # seconds of a lease
_SAFE = 0.75  # of a lease, after which its holder does nothing that is seen
RENEWALS = 4  # in the time of a lease
_MOST_BYTES = 50_000  # of one message of copies
_OUTLINE = 200  # bytes of a row beside its numbers


class Lease(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Who is the centre.

    term:     goes up with every holder. holder: its store's id; ``run`` a random number of its process.
    name:     the identity in its certificate.
    follower: the standby's run that holds all that was promised; empty for none.
    since:    the last batch before this term. epoch: the newest that any agent reported. count: of renewals.
    """

    term: int
    holder: bytes
    run: bytes
    name: str
    follower: bytes
    since: int
    epoch: int
    count: int


class LeaseQuestion(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Said to hear it oneself: what was said before on the topic has then arrived."""

    run: bytes


class Follow(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A standby has all up to a batch on its disk."""

    run: bytes
    batch: int


class Copies(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """What a standby gets.

    run:   the standby's. term: the holder's. batch: the last they are of; ``whole`` whether this is the last part.
    say:   (plan, epoch, revision) of estimates that will be published once the standby has them.
    """

    run: bytes
    term: int
    batch: int
    whole: bool
    messages: list[MessageRow]
    estimates: list[EstimateRow]
    say: list[tuple[str, int, int]]


Word = Lease | LeaseQuestion | Follow | Copies
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Word] = msgspec.msgpack.Decoder(Word)


class LeaseLost(VeilnetError):
    """Another centre is the one."""


def lease_seconds(step: float | None) -> float:
    """How long a lease counts: as long as an epoch takes, from two seconds to ten; five where epochs are rows."""
    return _USUAL if step is None else min(max(step, _SHORTEST), _LONGEST)


class Wording:
    """What centres say to one another, as it goes over the wire."""

    def __init__(self, signer: EstimateSigner, topics: Topics) -> None:
        self._signer, self._topics = signer, topics

    def said(self, word: Word) -> Publication:
        """A word, on its topic; a lease is retained."""
        topic = self._topics.copies if isinstance(word, Copies) else self._topics.lease
        payload = self._signer.between_centres(_ENCODER.encode(word))
        return Publication(topic, payload, retain=isinstance(word, Lease))

    def read(self, payload: bytes) -> Word | None:
        """The word in some bytes; None where it is none of this network's centres."""
        try:
            return _DECODER.decode(self._signer.from_a_centre(payload))
        except (Malformed, msgspec.MsgspecError, ValueError, RecursionError):
            return None


class Leading:
    """The holder's side: claims, renews, and says what may be seen outside; a machine without a network.

    store:    the centre's. name: the identity in its certificate. length: seconds of a lease.
    say:      publishes a word.
    tell:     called with what the owner should know.
    expected: a lease of another centre that ran out, and may be followed by a term of this one.

    ``lost`` says why this centre has to stop.
    """

    def __init__(
        self,
        store: CentreStore,
        name: str,
        length: float,
        say: Callable[[Word], object],
        tell: Callable[[str], None],
        expected: Lease | None = None,
    ) -> None:
        self._store, self._name, self._length, self._say, self._tell = store, name, length, say, tell
        self._expected = expected
        self._run = secrets.token_bytes(8)
        self._seen: Lease | None = None
        self._term = self._since = self._count = 0
        self._sent: dict[int, float] = {}  # renewal -> when it was said
        self._heard: Lease | None = None  # the last own one
        self._safe_until = self._again = 0.0
        self._offline = True
        self._held: deque[tuple[int, float, Taken]] = deque()
        self._standby, self._named = b"", False
        self._live, self._goal, self._has, self._answered = False, 0, 0, 0.0
        self.lost = ""

    # --- the lease

    def begin(self) -> None:
        """The connection is new: who is the one?"""
        self._forget()
        self._sent.clear()  # what is retained may name a standby that lacks what came since
        self._safe_until, self._seen, self._offline = 0.0, None, False
        self._say(LeaseQuestion(self._run))

    def end(self) -> None:
        """The connection ended: nothing can be seen, so nothing has to wait for a standby."""
        self._forget()
        self._offline = True

    def holds(self, now: float) -> bool:
        """Whether this centre may do what is seen outside."""
        return not self.lost and now < self._safe_until

    def hear(self, word: Word, now: float) -> None:
        """Take in what was said on the topic of leases."""
        if isinstance(word, LeaseQuestion) and word.run == self._run:
            self._settle(now)
        elif isinstance(word, Lease) and word.run == self._run:
            if word.count in self._sent:
                self._heard = word
                self._safe_until = self._sent[word.count] + _SAFE * self._length
                self._sent = {count: when for count, when in self._sent.items() if count > word.count}
        elif isinstance(word, Lease):
            self._hear_other(word, now)
        elif isinstance(word, Follow) and self._term and not self.lost:
            self._hear_standby(word, now)

    def _hear_other(self, word: Lease, now: float) -> None:
        self._seen = word
        if not self._term:
            return
        if word.term > self._term or (word.term == self._term and self._heard is None):
            self._lose_to(word)
        elif word.term == self._term:
            self._renew(now)  # ours came first, and has to be what is retained
        elif self._heard is None and not self._may_follow(word):
            self._say(word)  # it went on without this one before it could hear the claim: it stays the one
            self._lose_to(word)

    def _lose_to(self, word: Lease) -> None:
        self.lost = (
            f"another centre ({word.name}) holds the lease of this network (term {word.term}, epoch {word.epoch}); "
            "this one stops. Agents send again what it did not acknowledge. Run one centre, or a second one by "
            "'veilnet live keys --standby'"
        )

    def _settle(self, now: float) -> None:
        """All that was said before is known."""
        seen = self._seen
        if self._term == 0:
            if seen is not None and not self._may_follow(seen):
                self._lose_to(seen)
                return
            self._term = 1 if seen is None else seen.term + 1
            self._since = self._store.last_batch
        self._renew(now)

    def _may_follow(self, seen: Lease) -> bool:
        """Whether a lease is of this store, or still what it was when it ran out: its holder may go on alone."""

        def marks(lease: Lease) -> tuple[int, bytes, bytes]:
            return lease.term, lease.run, lease.follower

        expected = self._expected
        return seen.holder == self._store.id or (expected is not None and marks(seen) == marks(expected))

    def _renew(self, now: float) -> None:
        self._count += 1
        self._sent[self._count] = now
        self._again = now + self._length / RENEWALS
        epoch = max(self._store.newest.values(), default=0)
        follower = self._standby if self._named else b""
        self._say(
            Lease(
                self._term, self._store.id, self._run, self._name, follower, self._since, epoch, self._count
            )
        )

    def tick(self, now: float) -> None:
        """Renew the lease when it is time; go on without a standby that does not answer."""
        waits = self._held[0][1] if self._held else now
        if self._named and now - min(self._answered, waits) > self._length:
            self._tell("the standby does not answer, and the centre goes on without it")
            self._forget()
            self._renew(now)
        elif self._term and not self.lost and now >= self._again:
            self._renew(now)

    def next_tick(self, now: float) -> float:
        """Seconds until :meth:`tick` has something to do."""
        return max(0.0, self._again - now) if self._term else self._length

    # --- what may be seen

    def hold(self, taken: Taken, now: float) -> None:
        """What came of a batch, until it may be seen; the standby gets what the batch wrote."""
        self._held.append((self._store.last_batch, now, taken))
        if self._live:
            say = [(each.plan, each.epoch, each.revision) for each in taken.estimates if each.current]
            self._send(self._store.wrote, say)

    def released(self, now: float) -> Iterator[Taken]:
        """What may be seen now, or as soon as there is a connection and the lease is heard again."""
        while self._held and (self._offline or self.holds(now)):
            alone = not self._named and self._heard is not None and not self._heard.follower
            if not (self._offline or alone or (self._named and self._has >= self._held[0][0])):
                return
            yield self._held.popleft()[2]

    @property
    def is_holding(self) -> bool:
        """Whether anything waits to be seen."""
        return bool(self._held)

    # --- the standby

    def _forget(self) -> None:
        self._standby, self._named, self._live = b"", False, False

    def _hear_standby(self, word: Follow, now: float) -> None:
        if word.run != self._standby:
            if self._named:
                self._forget()
                self._renew(now)
            self._tell("a standby catches up")
            self._standby, self._live, self._has = word.run, False, -1
        self._answered = now
        if not self._live and word.batch != self._has:
            rows = self._store.since(word.batch)
            self._send(rows, [])
            if rows.batch >= self._store.last_batch:
                self._live, self._goal = True, rows.batch
        self._has = word.batch
        if self._live and not self._named and self._has >= self._goal:
            self._named = True
            self._tell("the standby has everything, and follows")
            self._renew(now)

    def _send(self, rows: CopiedRows, say: list[tuple[str, int, int]]) -> None:
        parts: list[tuple[list[MessageRow], list[EstimateRow]]] = [([], [])]
        size = 0

        def room(row: tuple[Any, ...]) -> None:
            nonlocal size
            more = _OUTLINE + sum(len(each) for each in row if isinstance(each, (bytes, str)))
            if size and size + more > _MOST_BYTES:
                parts.append(([], []))
                size = 0
            size += more

        for message in rows.messages:
            room(message)
            parts[-1][0].append(message)
        for estimate in rows.estimates:
            room(estimate)
            parts[-1][1].append(estimate)
        for place, (messages, estimates) in enumerate(parts):
            last = place == len(parts) - 1
            self._say(
                Copies(self._standby, self._term, rows.batch, last, messages, estimates, say if last else [])
            )
