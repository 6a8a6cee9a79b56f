"""The centre on the broker: take what arrives in batches, commit, and acknowledge only then.

One thread does it all: reads what is there, commits it in one transaction, acknowledges to the broker, and gathers
receipts for a moment, so that an agent that sends much gets one for many messages. With paho's own thread beside it,
as agents and readers have, the centre took a third fewer messages per second of processor time.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from veilnet.io.agent_store import STORE_BYTES
from veilnet.live.centre import Centre, Estimated
from veilnet.live.connecting import KEEPALIVE, Address, hang_up, make_client, nonsense
from veilnet.live.keys import Credentials
from veilnet.live.messages import Receipt, Seal, as_ranges
from veilnet.live.neighbours import Neighbours, Publication
from veilnet.live.seals import EstimateSigner
from veilnet.live.topics import CENTRE, OFFLINE, ONLINE, Topics

__all__ = ["Receiver"]

_MOST_AT_ONCE = 2000  # messages in one transaction
_GATHER = 0.2  # seconds between two receipts to one agent
_IDLE = 0.5  # seconds between looks at the clock, when nothing arrives
_PAUSE = (0.2, 5.0)  # seconds between attempts to connect: the first, and at most


class Receiver:
    """Runs a centre on a broker.

    centre:      what commits and estimates; ``seals`` those of its agents.
    topics:      of the network; ``credentials`` and ``address`` lead to its broker.
    say:         told what the centre's owner should know.
    estimated:   told of every estimate that is committed; what it returns is published, signed, where it is not None
                 and the estimate is current; the newest one is retained.
    idle:        called between batches, once or more often a second.
    neighbours:  what other programs are told beside, None for nothing.
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
    ) -> None:
        self._centre, self._seals, self._topics, self._address = centre, seals, topics, address
        self._say, self._estimated, self._idle = say, estimated, idle
        self._neighbours = neighbours
        self._signer = EstimateSigner(credentials, topics)
        self._client = make_client(CENTRE, credentials, manual_ack=True)
        self._client.will_set(topics.status, OFFLINE, qos=1, retain=True)
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message
        self._arrived: list[tuple[str, bytes]] = []
        self._mids: list[int] = []
        self._receipts: dict[tuple[str, bytes], tuple[list[tuple[int, int]], list[tuple[int, str]]]] = {}
        self._last_receipt: dict[str, float] = {}
        self._said = ""
        self._pause, self._again = _PAUSE[0], 0.0
        self._refused = False  # it was said why there is no connection
        self._broken = False  # a packet could not be read, and nothing after it can be
        self.connected = False

    def run(self, ended: Callable[[], bool]) -> None:
        """Take messages until told to end; never ended by what arrives, nor by a broker that goes away."""
        try:
            while not ended():
                if self._client.socket() is None or self._broken:
                    self._connect()
                else:
                    self._read(self._timeout())
                self._work()
                self._idle()
        finally:
            self._say_goodbye()

    # --- the connection

    def _connect(self) -> None:
        self.connected = False
        now = time.monotonic()
        if now < self._again:
            time.sleep(min(self._again - now, 0.1))
            return
        try:
            self._client.connect(*self._address, keepalive=KEEPALIVE, clean_start=True)
            self._broken = self._refused = False
        except (OSError, ValueError) as error:
            host, port = self._address
            self._tell(f"no connection to the broker at {host}:{port} ({error}); trying again")
            self._refused = True
            self._lost()

    def _lost(self) -> None:
        """The connection ended: what was not acknowledged to the broker comes again."""
        if self.connected:
            self._tell("the connection to the broker ended; connecting again")
        elif not self._broken and not self._refused:
            host, port = self._address
            self._tell(f"no connection to the broker at {host}:{port}; trying again (it hangs up)")
        self.connected = False
        with suppress(OSError, ValueError):
            self._client.disconnect()
        self._again = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _PAUSE[1])

    def _on_connect(self, client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        self._refused = reason.is_failure
        if reason.is_failure:
            self._tell(f"the broker refuses the centre: {reason}")
        else:
            beside = [] if self._neighbours is None else self._neighbours.subscriptions
            client.subscribe(
                [(topic, 1) for topic in (self._topics.all_messages, self._topics.all_sums, *beside)]
            )

    def _on_subscribe(self, client: Any, _data: Any, _mid: Any, reasons: Any, _properties: Any) -> None:
        if any(reason.is_failure for reason in reasons):
            self._tell(f"the broker does not let the centre hear its agents: {reasons[0]}")
            return
        self.connected, self._pause = True, _PAUSE[0]
        self._tell("connected to the broker")
        client.publish(self._topics.status, ONLINE, qos=1, retain=True)
        if self._neighbours is not None:
            self.publish(self._neighbours.greeting())
        hello = Receipt(bytes(STORE_BYTES), [], [])  # whoever waits for a receipt sends again at once
        for agent, seal in self._seals.items():
            client.publish(self._topics.acks(agent), seal.receipt(hello), qos=0)

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = ""
        if self._neighbours is not None and self._neighbours.hears(topic):
            self.publish(self._neighbours.answer(topic, message.payload))
        else:
            self._arrived.append((topic, message.payload))
        if message.qos:
            self._mids.append(message.mid)

    def publish(self, publications: Iterable[Publication]) -> None:
        """Say something beside what a centre says; without a connection it is left unsaid."""
        for each in publications if self.connected else ():
            self._client.publish(each.topic, each.payload, qos=1, retain=each.retain)

    def _timeout(self) -> float:
        """How long nothing has to be done unless something arrives."""
        if self._centre.is_due(time.monotonic()):
            return 0.0
        deadline = self._centre.next_deadline()
        wait = _IDLE if deadline is None else min(_IDLE, max(0.0, deadline - time.monotonic()))
        return min(wait, 0.05) if self._receipts else wait

    def _read(self, timeout: float) -> None:
        """All that is there to be read, up to a batch."""
        client = self._client
        socket = client.socket()
        if socket is None:
            return
        left = bool(getattr(socket, "pending", lambda: 0)())
        try:
            readable, writable, _ = select.select(
                [socket], [socket] if client.want_write() else [], [], 0.0 if left else timeout
            )
        except (OSError, ValueError):
            self._lost()
            return
        failed = False
        try:
            while (readable or left) and not failed and len(self._arrived) < _MOST_AT_ONCE:
                before = len(self._arrived)
                failed = bool(client.loop_read())
                if len(self._arrived) == before:
                    break
            if writable and not failed:
                failed = bool(client.loop_write())
            failed = failed or bool(client.loop_misc())
        except Exception as error:  # whatever paho stumbles over in a malformed packet
            self._tell(nonsense(error))
            self.connected, self._broken, failed = False, True, True
            hang_up(client)
        if failed:
            self._lost()

    # --- what arrived

    def _work(self) -> None:
        arrived, mids = self._arrived, self._mids
        self._arrived, self._mids = [], []
        taken = self._centre.take(arrived)
        if self._client.socket() is not None:
            for mid in mids:
                self._client.ack(mid, 1)
        for agent, receipt in taken.receipts:
            kept, refused = self._receipts.setdefault((agent, receipt.store), ([], []))
            kept.extend(receipt.kept)
            refused.extend(receipt.refused)
        self._send_receipts()
        for agent, payload in taken.rounds if self.connected else ():
            self._client.publish(self._topics.rounds(agent), payload, qos=1)
        for ended in taken.ended:
            for words in ended.in_words():
                self._tell(words)
        for made in taken.estimates:
            shown = self._estimated(made)
            if shown is not None and made.current and self.connected:
                payload = self._signer.payload(shown)
                self._client.publish(self._topics.estimates, payload, qos=0, retain=made.newest)
                if self._neighbours is not None:
                    self.publish(self._neighbours.tell(shown))

    def _send_receipts(self) -> None:
        if not self._receipts or not self.connected:
            return
        now = time.monotonic()
        # all of an agent's at once: one that names a store of its own in every message must not pile them up here
        due = [whose for whose in self._receipts if now >= self._last_receipt.get(whose[0], 0.0) + _GATHER]
        for agent, store in due:
            kept, refused = self._receipts.pop((agent, store))
            self._last_receipt[agent] = now
            ranges = as_ranges(number for first, last in kept for number in range(first, last + 1))
            receipt = Receipt(store, ranges, refused[:1000])
            self._client.publish(self._topics.acks(agent), self._seals[agent].receipt(receipt), qos=0)

    def _say_goodbye(self) -> None:
        if self.connected:
            self._last_receipt.clear()
            self._send_receipts()
            self._client.publish(self._topics.status, OFFLINE, qos=1, retain=True)
            with suppress(OSError, ValueError):
                self._client.loop_write()
                self._client.disconnect()
                self._client.loop_write()
        hang_up(self._client)

    def _tell(self, words: str) -> None:
        if words != self._said:
            self._said = words
            self._say(words)
