"""A reader on the broker: estimates that the centre signed, and nothing that anybody else made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from veilnet.live.connecting import Address, make_client, nonsense
from veilnet.live.keys import Credentials
from veilnet.live.messages import Malformed
from veilnet.live.seals import EstimateReader
from veilnet.live.topics import Topics

_WHY = {
    "malformed": "it is no estimate",
    "signature": "the centre did not sign it",
    "again": "the centre published it before one that came already",
}


class Reader:
    """Listens to estimates in a thread of its own, from ``start`` to ``stop``.

    topics:      of the network; ``credentials`` (of a reader) and ``address`` lead to its broker.
    say:         called with what the reader's owner should know.
    estimated:   called with every estimate that the centre signed.
    history:     listen to what is not the newest, and not to what is; None for both.

    ``refused`` counts what the broker handed on and the centre did not sign.
    """

    def __init__(
        self,
        topics: Topics,
        credentials: Credentials,
        address: Address,
        *,
        say: Callable[[str], None],
        estimated: Callable[[dict[str, Any]], None],
        history: bool | None = False,
    ) -> None:
        heard = {topics.estimates: True, topics.history: False}  # whether the newest is there
        self._heard = {topic: newest for topic, newest in heard.items() if newest is not history}
        self._address, self._say, self._estimated = address, say, estimated
        self._opening = EstimateReader(credentials, topics)
        self.refused = 0
        self._client = make_client(
            credentials.identity(), credentials, stumbled=lambda error: say(nonsense(error))
        )
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_connect_fail = lambda *_: say("no connection to the broker; trying again")
        self._client.on_message = self._on_message

    def start(self) -> Reader:
        """Connect, as soon as there is a broker, and listen."""
        self._client.begin(self._address)
        return self

    def stop(self) -> None:
        """Disconnect."""
        self._client.finish()

    def _on_connect(self, client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            self._say(f"the broker refuses this reader: {reason}")
        else:
            client.subscribe([(topic, 1) for topic in self._heard])

    def _on_subscribe(self, _client: Any, _data: Any, _mid: Any, reasons: Any, _properties: Any) -> None:
        refused = [reason for reason in reasons if reason.is_failure]
        self._say(
            f"the broker refuses the subscription: {refused[0]}" if refused else "connected to the broker"
        )

    def _on_message(self, _client: Any, _data: Any, arrived: Any) -> None:
        try:
            table = self._opening.open(arrived.payload)
        except Malformed as error:
            if str(error) == "repeated" or (str(error) == "again" and arrived.retain):
                return  # after a connection was lost, the centre's or this one
            self.refused += 1
            self._say(f"left out what the broker handed on: {_WHY[str(error)]}")
            return
        if table["newest"] is not self._heard.get(arrived.topic):
            self.refused += 1
            self._say("left out what the broker handed on: the centre signed it for another topic")
            return
        self._estimated(table)
