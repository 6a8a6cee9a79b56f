"""The centre on the broker: take what arrives in batches, commit, and acknowledge only then.

Receipts are gathered for a moment, so that an agent that sends much gets one for many messages. Nothing of it is seen
outside unless this centre holds the lease (:mod:`veilnet.live.lease`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from veilnet.io.agent_store import STORE_BYTES
from veilnet.live.centre import Centre, Estimated, Taken
from veilnet.live.connecting import Address
from veilnet.live.connection import Connection
from veilnet.live.keys import Credentials
from veilnet.live.lease import Leading, Lease, LeaseLost, Wording, lease_seconds
from veilnet.live.messages import Receipt, Seal, as_ranges
from veilnet.live.neighbours import Neighbours, Publication
from veilnet.live.publishing import Publisher
from veilnet.live.seals import EstimateSigner
from veilnet.live.topics import OFFLINE, ONLINE, Topics

_GATHER = 0.2  # seconds between two receipts to one agent
_IDLE = 0.5  # seconds between looks at the clock, when nothing arrives
_GOODBYE = 2.0  # seconds that the broker may take to hear the last words


class Receiver(Connection):
    """Runs a centre on a broker.

    centre:      what commits and estimates; ``seals`` those of its agents.
    topics:      of the network; ``credentials`` and ``address`` lead to its broker.
    say:         called with what the centre's owner should know.
    estimated:   called with every committed estimate; what it returns is published, signed, where it is not None
                 and the estimate is current, where it could not be, later.
    idle:        called between batches, once or more often a second.
    neighbours:  what other programs get beside, None for nothing.
    expected:    the lease of another centre that ran out, None for none.

    ``estimates`` has what is to be published, and takes more (:meth:`~veilnet.live.publishing.Publisher.add`).
    """

    def __init__(
        self,
        centre: Centre,
        seals: dict[str, Seal],
        topics: Topics,
        credentials: Credentials,
        address: Address,
        *,
        say: Callable[[str], None],
        estimated: Callable[[Estimated], dict[str, Any] | None] = lambda _: None,
        idle: Callable[[], None] = lambda: None,
        neighbours: Neighbours | None = None,
        expected: Lease | None = None,
    ) -> None:
        super().__init__(credentials, address, say, Publication(topics.status, OFFLINE, retain=True))
        self._centre, self._seals, self._topics = centre, seals, topics
        self._estimated, self._idle = estimated, idle
        self._neighbours = neighbours or Neighbours(topics, "")
        signer = EstimateSigner(credentials, topics)
        self.estimates = Publisher(lambda each: self.publish([each]), signer, topics, self._neighbours)
        self._wording = Wording(signer, topics)
        self._leading = Leading(
            centre.store,
            self.name,
            lease_seconds(centre.epochs.step),
            lambda word: self.publish([self._wording.said(word)]),
            self.tell,
            expected,
        )
        self._heard: bool | None = None  # what was said last of whether any agent is
        self._last_word = 0  # its number, until the broker has it
        self._greeted = False
        self._receipts: dict[tuple[str, bytes], tuple[list[tuple[int, int]], list[tuple[int, str]]]] = {}
        self._last_receipt: dict[str, float] = {}

    def run(self, ended: Callable[[], bool]) -> None:
        """Take messages until asked to end; never ended by what arrives, nor by a broker that goes away.

        LeaseLost where another centre is the one.
        """
        try:
            while not ended():
                self.turn(self._timeout())
                if self._leading.lost:
                    raise LeaseLost(self._leading.lost)
                self._work()
                self._idle()
        finally:
            self._say_goodbye()

    # --- the connection

    def subscriptions(self) -> list[str]:
        """What agents send, and what another centre says."""
        topics = self._topics
        common = [topics.all_messages, topics.all_sums, topics.lease, topics.status]
        return [*common, *self._neighbours.subscriptions]

    def begin(self) -> None:
        """Connected, and soon known who is the centre."""
        self.tell("connected to the broker")
        self._greeted = False
        self._leading.begin()

    def lose(self) -> None:
        """The connection ended."""
        self._leading.end()

    def answer(self, mid: int) -> None:
        """The broker has something, or will never take it."""
        self.estimates.confirm(mid)
        self._last_word = 0 if mid == self._last_word else self._last_word

    def hear(self, topic: str, payload: bytes) -> bool:
        """What another centre says, and other programs; messages of agents wait for the batch."""
        if topic == self._topics.lease:
            word = self._wording.read(payload)
            if word is not None:
                self._leading.hear(word, time.monotonic())
        elif topic == self._topics.status:
            if payload == OFFLINE.encode() and self._greeted:  # another's last words
                self.publish([Publication(topic, ONLINE, retain=True)])
        elif topic in self._neighbours.subscriptions:
            self.publish(self._neighbours.answer(topic, payload))
        else:
            return False
        return True

    def _greet(self) -> None:
        """Say that it is here, and that agents may send again what waits for a receipt."""
        self._greeted = True
        if self.estimates.lost:
            self.tell(
                f"{self.estimates.lost} estimates found no room to wait for the broker; they are in the store alone: "
                "center --backfill publishes them"
            )
            self.estimates.lost = 0
        self.estimates.repeat()
        self.publish([Publication(self._topics.status, ONLINE, retain=True)])
        self._heard = None
        self.publish(self._neighbours.greeting())
        hello = Receipt(bytes(STORE_BYTES), [], [])
        for agent, seal in self._seals.items():
            self.publish([Publication(self._topics.acks(agent), seal.receipt(hello), qos=0)])

    @property
    def leads(self) -> bool:
        """Whether this centre is the one."""
        return self._leading.holds(time.monotonic())

    @property
    def has_said_all(self) -> bool:
        """Whether the broker has everything that was to be published."""
        return self._greeted and not len(self.estimates)

    def _timeout(self) -> float:
        """How long nothing has to be done unless something arrives."""
        if (self.estimates.is_due and self._greeted) or self._centre.is_due(time.monotonic()):
            return 0.0
        deadline = self._centre.next_deadline()
        wait = _IDLE if deadline is None else min(_IDLE, max(0.0, deadline - time.monotonic()))
        wait = min(wait, self._leading.next_tick(time.monotonic()))
        return min(wait, 0.05) if self._receipts else wait

    # --- what arrived

    def _work(self) -> None:
        arrived, self.arrived = self.arrived, []
        before = self._centre.store.last_batch
        taken = self._centre.take(arrived)
        self.acknowledge()
        now = time.monotonic()
        if self._centre.store.last_batch > before:
            self._leading.hold(taken, now)
        if self.connected:
            self._leading.tick(now)
        for each in self._leading.released(now):
            self._act_on(each)
        if not self.connected or not self._leading.holds(now):
            if not self.connected:
                self.estimates.delay()
            return
        if not self._greeted:
            self._greet()
        self._send_receipts()
        self.estimates.flush()
        self._say_who_is_heard()

    def _act_on(self, taken: Taken) -> None:
        for agent, receipt in taken.receipts:
            kept, refused = self._receipts.setdefault((agent, receipt.store), ([], []))
            kept.extend(receipt.kept)
            refused.extend(receipt.refused)
        for agent, payload in taken.rounds:
            self.publish([Publication(self._topics.rounds(agent), payload)])
        for ended in taken.ended:
            for words in ended.in_words():
                self.tell(words)
        for made in taken.estimates:
            shown = self._estimated(made)
            if shown is not None and made.current:
                self.estimates.add(shown)

    def _say_who_is_heard(self) -> None:
        heard = self._centre.is_heard(time.time())
        if heard != self._heard:
            self._heard = heard
            self.publish([Publication(self._topics.heard, ONLINE if heard else OFFLINE, retain=True)])
            if not heard:
                self.tell("no agent was heard for three epochs plus the wait")

    def _send_receipts(self) -> None:
        if not self._receipts:
            return
        now = time.monotonic()
        # all of an agent's at once: one that names a store of its own in every message must not pile them up here
        due = [whose for whose in self._receipts if now >= self._last_receipt.get(whose[0], 0.0) + _GATHER]
        for agent, store in due:
            kept, refused = self._receipts.pop((agent, store))
            self._last_receipt[agent] = now
            ranges = as_ranges(number for first, last in kept for number in range(first, last + 1))
            receipt = Receipt(store, ranges, refused[:1000])
            payload = self._seals[agent].receipt(receipt)
            self.publish([Publication(self._topics.acks(agent), payload, qos=0)])

    def _say_goodbye(self) -> None:
        try:
            until = time.monotonic() + _GOODBYE
            while self.connected and self._leading.is_holding and time.monotonic() < until:
                self.read(0.05)
                self._work()
            if self.connected and self._greeted and self._leading.holds(time.monotonic()):
                self._last_words(until)
        finally:
            self.hang_up()

    def _last_words(self, until: float) -> None:
        self._last_receipt.clear()
        self._send_receipts()
        self.estimates.flush()
        self._greeted = False
        self._last_word = self.publish([Publication(self._topics.status, OFFLINE, retain=True)])
        while self.connected and self._last_word and time.monotonic() < until:
            # a connection that ends with something unread takes along what was said last
            self.read(0.05)
