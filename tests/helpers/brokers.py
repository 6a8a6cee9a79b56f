"""A broker for tests, and clients that tell what happened to them."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from helpers.machine import skip_or_fail
from veilnet._core.errors import MissingExtra
from veilnet.cli._mosquitto import Broker, find_mosquitto
from veilnet.live.keys import Credentials

PATIENCE = 120.0  # seconds; far more than any machine needs


def require_mosquitto() -> None:
    """Skip a test where there is no broker to test with."""
    try:
        find_mosquitto()
    except MissingExtra as error:
        skip_or_fail(str(error))


def eventually(condition: Callable[[], bool], patience: float = PATIENCE) -> bool:
    """Whether a condition comes true."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


class Client:
    """An MQTT 5 client that remembers reason codes and messages; a context manager."""

    def __init__(
        self, broker: Broker, credentials: Credentials | ssl.SSLContext, name: str = "", protocol: int = 5
    ) -> None:
        self._broker = broker
        self.connected: list[str] = []
        self.published: dict[int, str] = {}
        self.subscribed: dict[int, list[str]] = {}
        self.lost: list[str] = []
        self.received: list[tuple[str, bytes]] = []
        self._client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=name,
            protocol=MQTTProtocolVersion(protocol),
            reconnect_on_failure=False,
        )
        context = credentials if isinstance(credentials, ssl.SSLContext) else credentials.client_context()
        self._client.tls_set_context(context)
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_publish = self._on_publish
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message

    def __enter__(self) -> Client:
        try:
            self._client.connect(self._broker.host, self._broker.port)
        except OSError as error:  # of TLS, among others
            self.lost.append(str(error))
            return self
        self._client.loop_start()
        assert eventually(lambda: bool(self.connected or self.lost)), "no answer from the broker"
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> str:
        """The reason code by which the broker acknowledged a message, or what ended the connection."""
        sent = self._client.publish(topic, payload, qos=1, retain=retain).mid
        assert eventually(lambda: sent in self.published or bool(self.lost)), "no acknowledgement"
        return self.published.get(sent) or f"lost: {self.lost[-1]}"

    def subscribe(self, topic: str) -> list[str]:
        """The reason codes of a subscription."""
        sent = self._client.subscribe(topic, qos=1)[1]
        assert sent is not None
        assert eventually(lambda: sent in self.subscribed or bool(self.lost)), "no acknowledgement"
        return self.subscribed.get(sent) or [f"lost: {self.lost[-1]}"]

    def _on_connect(self, *given: Any) -> None:
        self.connected.append(str(given[3]))

    def _on_disconnect(self, *given: Any) -> None:
        self.lost.append(str(given[3]))

    def _on_publish(self, *given: Any) -> None:
        self.published[given[2]] = str(given[3])

    def _on_subscribe(self, *given: Any) -> None:
        self.subscribed[given[2]] = [str(code) for code in given[3]]

    def _on_message(self, *given: Any) -> None:
        self.received.append((given[2].topic, given[2].payload))
