"""A centre's connection to the broker, in one thread: connected again for as long as it takes.

One thread does it all: it reads what is there, and its owner works on it before it is acknowledged to the broker.
With paho's own thread beside it, as agents and readers have, the centre took a third fewer messages per second of
processor time. Each connection has a client of its own: one that is used again says once more, before anything else,
what the broker did not confirm, and by then another centre may be the one.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from veilnet.live.connecting import KEEPALIVE, Address, SteadyClient, hang_up, make_client, nonsense
from veilnet.live.keys import Credentials
from veilnet.live.neighbours import Publication

MOST_AT_ONCE = 2000  # messages in one transaction
_HEAD = 64  # bytes of a packet beside its topic and content
_PAUSE = (0.2, 5.0)  # seconds between attempts to connect: the first, and at most


class Connection:
    """What a centre hears and says; a class that runs it fills in what to hear, and what to do with it.

    credentials and ``address`` lead to the broker; ``say`` is called with what the centre's owner should know.
    will:       what the broker says when the connection ended without a word; None for nothing.

    ``connected`` is True once the broker lets it hear; ``arrived`` is what it heard, as (topic, payload).
    """

    def __init__(
        self,
        credentials: Credentials,
        address: Address,
        say: Callable[[str], None],
        will: Publication | None = None,
    ) -> None:
        self._credentials, self._address, self._say, self._will = credentials, address, say, will
        self.name = credentials.identity()
        self._client: SteadyClient | None = self._new_client()  # None between two connections
        self.arrived: list[tuple[str, bytes]] = []
        self._mids: list[int] = []
        self._messages = 0  # that ever arrived
        self._said = ""
        self._pause, self._again = _PAUSE[0], 0.0
        self._explained = False  # it was said why there is no connection
        self._largest = 0  # bytes that the broker takes at once; 0 where it does not say
        self.connected = False

    def _new_client(self) -> SteadyClient:
        client = make_client(self.name, self._credentials, manual_ack=True)
        client.on_connect, client.on_subscribe = self._on_connect, self._on_subscribe
        client.on_publish, client.on_message = self._on_publish, self._on_message
        if self._will is not None:
            client.will_set(
                self._will.topic, self._will.payload, qos=self._will.qos, retain=self._will.retain
            )
        return client

    # --- what a centre fills in

    def subscriptions(self) -> list[str]:
        """The topics to hear."""
        raise NotImplementedError

    def begin(self) -> None:
        """Called when it is connected, and hears."""

    def hear(self, topic: str, payload: bytes) -> bool:
        """Called with what arrives at once; whether it is dealt with, and need not wait in ``arrived``."""
        del topic, payload
        return False

    def lose(self) -> None:
        """Called when the connection ended."""

    def answer(self, mid: int) -> None:
        """Called when the broker has what was published by this number, or will never take it."""

    # --- what it does

    def turn(self, timeout: float) -> None:
        """Connect, or read what is there, waiting for so long at most."""
        if self._client is None or self._client.socket() is None:
            self._connect()
        else:
            self.read(timeout)

    def publish(self, publications: Iterable[Publication]) -> int:
        """Say something; the number of the last. 0: without a connection, or too large, it is left unsaid."""
        mid = 0
        if self.connected and self._client is not None:
            for each in publications:
                payload = each.payload if isinstance(each.payload, bytes) else each.payload.encode()
                size = len(each.topic) + len(payload) + _HEAD
                if 0 < self._largest < size:  # it would hang up, and again each time
                    self.tell(
                        f"{each.topic}: left out {size} bytes, the broker takes {self._largest}: run 'veilnet live "
                        "keys' again, and restart the broker"
                    )
                    mid = 0
                    continue
                mid = self._client.publish(each.topic, payload, qos=each.qos, retain=each.retain).mid
        return mid

    def acknowledge(self) -> None:
        """To the broker: what arrived needs not come again."""
        mids, self._mids = self._mids, []
        if self._client is not None and self._client.socket() is not None:
            for mid in mids:
                self._client.ack(mid, 1)

    def has_more(self) -> bool:
        """Whether something is there that was not read."""
        socket = None if self._client is None else self._client.socket()
        if socket is None:
            return False
        return bool(getattr(socket, "pending", lambda: 0)()) or bool(select.select([socket], [], [], 0.0)[0])

    def hang_up(self) -> None:
        """End the connection, in order where there is one."""
        client, self._client = self._client, None
        self.connected = False
        if client is not None:
            with suppress(OSError, ValueError):
                client.loop_write()
                client.disconnect()
                client.loop_write()
            hang_up(client)

    def tell(self, words: str) -> None:
        """Say something to the owner, unless it was the last thing that was said."""
        if words != self._said:
            self._said = words
            self._say(words)

    def _connect(self) -> None:
        if self.connected:
            self._lost()  # it ended while something was said
        now = time.monotonic()
        if now < self._again:
            time.sleep(min(self._again - now, 0.1))
            return
        self._explained = False
        try:
            self._client = self._client or self._new_client()
            self._client.connect(*self._address, keepalive=KEEPALIVE, clean_start=True)
        except (OSError, ValueError) as error:
            host, port = self._address
            self.tell(f"no connection to the broker at {host}:{port} ({error}); trying again")
            self._explained = True
            self._lost()

    def _lost(self) -> None:
        """The connection ended: what was not acknowledged to the broker comes again."""
        if self.connected:
            self.tell("the connection to the broker ended; connecting again")
        elif not self._explained:
            host, port = self._address
            self.tell(f"no connection to the broker at {host}:{port}; trying again (it hangs up)")
        client, self._client = self._client, None
        if client is not None:
            hang_up(client)
        self._mids.clear()
        self.connected = False
        self._again = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _PAUSE[1])
        self.lose()

    def _on_connect(self, client: Any, _data: Any, _flags: Any, reason: Any, properties: Any) -> None:
        self._explained = reason.is_failure
        self._largest = getattr(properties, "MaximumPacketSize", 0)
        if reason.is_failure:
            self.tell(f"the broker refuses the centre: {reason}")
        else:
            client.subscribe([(topic, 1) for topic in self.subscriptions()])

    def _on_subscribe(self, _client: Any, _data: Any, _mid: Any, reasons: Any, _properties: Any) -> None:
        if any(reason.is_failure for reason in reasons):
            self.tell(f"the broker does not let the centre hear its agents: {reasons[0]}")
            return
        self.connected, self._pause = True, _PAUSE[0]
        self.begin()

    def _on_publish(self, _client: Any, _data: Any, mid: int, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            self.tell(
                f"the broker does not take what a centre says ({reason}): run 'veilnet live keys' again, and restart "
                "the broker"
            )
        self.answer(mid)

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = ""
        self._messages += 1
        if not self.hear(topic, message.payload):
            self.arrived.append((topic, message.payload))
        if message.qos:
            self._mids.append(message.mid)

    def read(self, timeout: float) -> None:
        """All that is there to be read, up to a batch."""
        client = self._client
        socket = None if client is None else client.socket()
        if client is None or socket is None:
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
            while (readable or left) and not failed and len(self.arrived) < MOST_AT_ONCE:
                before = self._messages
                failed = bool(client.loop_read())
                if self._messages == before:
                    break
            if writable and not failed:
                failed = bool(client.loop_write())
            failed = failed or bool(client.loop_misc())
        except Exception as error:  # whatever paho stumbles over in a malformed packet
            self.tell(nonsense(error))
            self.connected, self._explained, failed = False, True, True
        if failed:
            self._lost()
