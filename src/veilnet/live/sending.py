"""The agent's outbox over the broker: the same bytes again and again, until the centre says that it has them.

A broker's acknowledgement means nothing here: one that is killed has forgotten what it acknowledged. A message leaves
the outbox by the centre's own receipt alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from veilnet._core.words import foreign
from veilnet.io.agent_store import AgentStore
from veilnet.live.broker import ON_ITS_WAY
from veilnet.live.connecting import Address, make_client, nonsense
from veilnet.live.keys import Credentials
from veilnet.live.messages import Malformed, Seal
from veilnet.live.topics import Topics, identity

_PATIENCE = (5.0, 60.0)  # seconds until a message is sent again: the first time, and at most
_LOOK = 0.2  # seconds between looks into the outbox, when nothing else happens


@dataclass
class _OnItsWay:
    again: float
    patience: float


class Sender:
    """Sends what the store's outbox holds, in threads of its own, from ``start`` to ``stop``.

    store, seal:  of the agent.
    topics:       of the network; ``credentials`` and ``address`` lead to its broker.
    say:          called with what the agent's owner should know.
    """

    def __init__(
        self,
        store: AgentStore,
        seal: Seal,
        topics: Topics,
        credentials: Credentials,
        address: Address,
        say: Callable[[str], None],
    ) -> None:
        self._store, self._seal, self._say = store, seal, say
        self._messages, self._acks = topics.messages(store.agent), topics.acks(store.agent)
        self._address = address
        self._client = make_client(identity(store.agent), credentials, stumbled=self._on_nonsense)
        self._client.on_connect = self._on_connect
        self._client.on_connect_fail = self._on_connect_fail
        self._client.on_disconnect = self._on_disconnect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_publish = self._on_publish
        self._client.on_message = self._on_message
        self._turn = threading.Lock()
        self._on_its_way: dict[int, _OnItsWay] = {}
        self._wake = threading.Event()
        self._ended = False
        self._listening = False  # connected, and receipts will arrive
        self._said = ""
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Connect, as soon as there is a broker, and begin."""
        self._client.begin(self._address)
        self._thread.start()

    @property
    def is_connected(self) -> bool:
        """Whether the centre's receipts can arrive."""
        return self._listening

    def wake(self) -> None:
        """There is something new in the outbox."""
        self._wake.set()

    def drain(self, patience: float | None = None) -> bool:
        """Wait until the outbox is empty; whether it is, after so many seconds at most."""
        deadline = None if patience is None else time.monotonic() + patience
        self._wake.set()
        while self._store.count_waiting():
            if self.failure is not None:
                raise self.failure
            if deadline is not None and time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def stop(self) -> None:
        """Disconnect; what is in the outbox stays there."""
        self._ended = True
        self._wake.set()
        self._thread.join()
        self._client.finish()

    # --- sending

    def _run(self) -> None:
        try:
            while not self._ended:
                self._wake.wait(_LOOK)
                self._wake.clear()
                if self._listening:
                    self._send_due()
        except BaseException as error:  # for the reader of the readings: nothing more may be sent
            self.failure = error

    def _send_due(self) -> None:
        now = time.monotonic()
        with self._turn:
            waiting = self._store.waiting(0, ON_ITS_WAY)
            there = {sequence for sequence, _ in waiting}
            for sequence in [each for each in self._on_its_way if each not in there]:
                del self._on_its_way[sequence]
            for sequence, payload in waiting:
                known = self._on_its_way.get(sequence)
                if known is not None and now < known.again:
                    continue
                patience = _PATIENCE[0] if known is None else min(2 * known.patience, _PATIENCE[1])
                self._on_its_way[sequence] = _OnItsWay(now + patience, patience)
                self._client.publish(self._messages, payload, qos=1)

    # --- what the broker and the centre say

    def _tell(self, words: str) -> None:
        """Say something, unless it was the last thing that was said."""
        if words != self._said:
            self._said = words
            self._say(words)

    def _on_connect(self, client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            self._tell(f"the broker refuses this agent: {reason}")
        else:
            client.subscribe(self._acks, qos=0)

    def _on_connect_fail(self, *_: Any) -> None:
        host, port = self._address
        self._tell(
            f"no connection to the broker at {host}:{port}; what is not sent is kept, and tried again (it does "
            "not answer, or does not accept this certificate)"
        )

    def _on_subscribe(self, _client: Any, _data: Any, _mid: Any, reasons: Any, _properties: Any) -> None:
        if any(reason.is_failure for reason in reasons):
            self._tell(f"the broker does not let this agent hear the centre's receipts: {reasons[0]}")
            return
        self._tell("connected to the broker")
        with self._turn:
            self._on_its_way.clear()
        self._listening = True
        self._wake.set()

    def _on_disconnect(self, *given: Any) -> None:
        self._listening = False
        if not self._ended:
            self._tell(
                f"the connection to the broker ended ({given[3]}); what is not acknowledged is sent again"
            )

    def _on_nonsense(self, error: Exception) -> None:
        self._listening = False
        self._tell(nonsense(error))

    def _on_publish(self, _client: Any, _data: Any, _mid: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            self._tell(f"the broker does not take a message: {reason}; it is kept, and tried again")

    def _on_message(self, _client: Any, _data: Any, arrived: Any) -> None:
        try:
            receipt = self._seal.open_receipt(arrived.payload)
        except Malformed:
            self._tell("something that is no receipt of the centre's arrived, and is left out")
            return
        try:
            if receipt.store == self._store.id:
                self._store.settle(receipt.kept, [sequence for sequence, _ in receipt.refused])
                for sequence, reason in receipt.refused[:8]:
                    self._tell(f"the centre will not take message {sequence}: {foreign(reason)}")
            elif (
                not receipt.kept and not receipt.refused
            ):  # it is there again, and may have lost what was on its way
                with self._turn:
                    self._on_its_way.clear()
        except BaseException as error:
            self.failure = error
        self._wake.set()
