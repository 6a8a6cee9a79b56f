"""A centre that is not the one: it looks who is, follows it, and says when it may take over.

Every centre begins here. Where nobody else holds the lease it goes on at once. A centre under the certificate that
the holder has too stops; one of the other certificate (``keys/standby``, ``keys/centre``) gets a copy of what is
committed, and has no part in anything else. A standby takes over when the lease, which named it, ran out while the
connection held; one that is not named may lack what was promised, and waits.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable

from veilnet.live.centre_store import CentreStore, CopiedRows
from veilnet.live.connecting import Address
from veilnet.live.connection import Connection
from veilnet.live.keys import Credentials
from veilnet.live.lease import RENEWALS, Copies, Follow, Lease, LeaseLost, LeaseQuestion, Word, Wording
from veilnet.live.seals import EstimateSigner
from veilnet.live.topics import CENTRE, Topics

_IDLE = 0.1  # seconds between looks at the clock
_MOST_HEARD = 100_000  # estimates that were heard before their copies came

Said = tuple[str, int, int]  # plan, epoch and revision of an estimate


class Standby(Connection):
    """Waits until this centre is the one.

    store:  the centre's, which takes the copy.
    topics: of the network; ``credentials`` and ``address`` lead to its broker.
    length: seconds of a lease.
    say:    called with what the owner should know; ``idle`` once or more often a second.
    forced: take over although what was promised may not all be here.

    ``followed`` says whether the store took a copy; ``unsaid`` are the estimates in it that the holder was going to
    publish, and did not. ``published`` is the newest estimate that readers have, None where they have none.
    """

    def __init__(
        self,
        store: CentreStore,
        topics: Topics,
        credentials: Credentials,
        address: Address,
        length: float,
        *,
        say: Callable[[str], None],
        idle: Callable[[], None] = lambda: None,
        forced: bool = False,
    ) -> None:
        super().__init__(credentials, address, say)
        self._store, self._topics, self._length, self._idle = store, topics, length, idle
        self._forced = forced
        self._wording = Wording(EstimateSigner(credentials, topics), topics)
        self._run = b""
        self._settled = 0.0
        self._seen: Lease | None = None
        self._last: Lease | None = None  # over all connections: who has the same certificate ends them
        self._renewed = False  # whether somebody did since this one looks
        self._heard_at = self._again = 0.0
        self._followed = 0  # the term whose copies the store takes
        self._heard: dict[Said, None] = {}
        self._whole: dict[Said, None] = {}
        self._words: list[Word] = []
        self.unsaid: list[Said] = []
        self.published: Said | None = None
        self.followed = False

    def run(self, ended: Callable[[], bool]) -> tuple[bool, Lease | None]:
        """(whether this centre is to lead, the lease of another that ran out); LeaseLost where it has to stop."""
        try:
            while not ended():
                self.turn(_IDLE)
                self._take()
                self.arrived.clear()
                self.acknowledge()
                if self.has_more():  # silence counts where all that was said is read
                    continue
                if self.connected and self._decide(time.monotonic()):
                    self._store.lead()
                    self.unsaid = list(self._whole)
                    return True, self._seen
                self._idle()
            return False, None
        finally:
            self.hang_up()

    # --- the connection

    def subscriptions(self) -> list[str]:
        """What the centres say to one another, and what the holder publishes."""
        topics = self._topics
        return [topics.lease, topics.copies, topics.estimates, topics.history]

    def begin(self) -> None:
        """A new connection: what was missed in between is not known, so this is another run."""
        self._run = secrets.token_bytes(8)
        self._seen, self._settled, self._followed = None, 0.0, 0
        self._heard_at = time.monotonic()
        self._whole.clear()
        self._heard.clear()
        self._speak(LeaseQuestion(self._run))

    def lose(self) -> None:
        """What the lease said of this run is over."""
        self._settled, self._seen = 0.0, None

    def hear(self, topic: str, payload: bytes) -> bool:
        """Words of centres, in their order, and estimates that are published."""
        if topic in (self._topics.lease, self._topics.copies):
            word = self._wording.read(payload)
            if word is not None:
                self._words.append(word)
        else:
            self._hear_estimate(payload, newest=topic == self._topics.estimates)
        return True

    def _speak(self, word: Word) -> None:
        self.publish([self._wording.said(word)])

    def _hear_estimate(self, payload: bytes, *, newest: bool) -> None:
        try:
            table = json.loads(payload)
            said: Said = str(table["plan"]), int(table["epoch"]), int(table["revision"])
        except (ValueError, TypeError, KeyError, RecursionError):
            return
        self.published = said if newest else self.published
        if self._whole.pop(said, said) is not None:
            self._heard[said] = None
            while len(self._heard) > _MOST_HEARD:
                del self._heard[next(iter(self._heard))]

    # --- what was said

    def _take(self) -> None:
        words, self._words = self._words, []
        now = time.monotonic()
        for word in words:
            if isinstance(word, LeaseQuestion) and word.run == self._run:
                self._settled = now
            elif isinstance(word, Lease):
                last, self._last = self._last, word
                self._renewed = last is not None and last.run == word.run and last.count < word.count
                self._heard_at = now
                if self._seen is None or word.term >= self._seen.term:
                    self._seen = word
            elif isinstance(word, Copies) and word.run == self._run:
                self._copy(word)

    def _copy(self, word: Copies) -> None:
        if self._seen is None or word.term != self._seen.term or word.term != self._followed:
            return
        for said in word.say:
            if self._heard.pop(said, said) is not None:
                self._whole[said] = None
        rows = CopiedRows(word.batch, word.messages, word.estimates)
        plan = self._store.copy_in(rows, whole=word.whole)
        if plan:
            self.tell(
                f"the centre uses a plan that is not here ({plan[:16]}), so it cannot be followed: replace "
                "center.json here too"
            )
            self._run = secrets.token_bytes(
                8
            )  # another run, which gets all since: what comes next is not all
        elif word.whole:
            self._answer(time.monotonic())

    def _answer(self, now: float) -> None:
        self._again = now + self._length / RENEWALS
        self._speak(Follow(self._run, self._store.last_batch))

    # --- what to do

    def _decide(self, now: float) -> bool:
        """Whether this centre is to lead from now on."""
        if not self._settled:
            return False
        lease = self._seen
        silent = now - self._heard_at
        if lease is None:
            return self._decide_alone(silent)
        if lease.holder == self._store.id:
            if self._renewed:
                raise LeaseLost(self._stop("another centre runs from a copy of this store"))
            return not lease.follower or silent > 2 * self._length  # the standby that is named goes first
        if lease.name == self.name:
            if self._renewed:
                raise LeaseLost(
                    self._stop("another centre runs with this certificate and a store of its own")
                )
            return silent > self._length
        if silent <= self._length:
            self._follow(lease, now)
            return False
        if lease.follower == self._run or self._forced:
            self.tell(f"the centre ({lease.name}) is gone, and this one takes over after epoch {lease.epoch}")
            return True
        self._wait_for(lease.name)
        return False

    def _decide_alone(self, silent: float) -> bool:
        first = self.name == CENTRE and not self._store.followed
        if not first and not self._forced and silent > 2 * self._length:
            self._wait_for("that it followed" if self._store.followed else CENTRE)
            return False
        return first or self._forced

    def _wait_for(self, name: str) -> None:
        self.tell(
            f"waits for the centre ({name}): what that one acknowledged may not all be here. If it never comes back, "
            "end this one and start it with --take-over"
        )

    def _follow(self, lease: Lease, now: float) -> None:
        if self._followed != lease.term:
            self._followed, self.followed = lease.term, True
            self._store.follow(lease.since)
            self.tell(f"follows the centre ({lease.name}, term {lease.term})")
            self._answer(now)
        elif now >= self._again:
            self._answer(now)

    def _stop(self, why: str) -> str:
        return f"{why}; this one stops. Run one centre, or a second one by 'veilnet live keys --standby'"
