"""A client of the broker: MQTT 5 over mutual TLS, and nothing less."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress

from veilnet._core.errors import InvalidRequest
from veilnet._core.extras import missing_extra
from veilnet.live.keys import Credentials

try:
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
except ImportError:
    raise missing_extra("a live network needs its packages", "live") from None

KEEPALIVE = 30  # seconds
PAUSE = 1.0  # seconds after a broker sent what is no MQTT
_PORT = 8883
HOST = r"(?P<host>\[[0-9a-fA-F:.]+\]|[^/:\[\]@\s]+)(?::(?P<port>\d{1,5}))?"
_ADDRESS = re.compile(rf"mqtts://{HOST}/?")

Address = tuple[str, int]


def read_address(broker: str) -> Address:
    """(host, port) of ``mqtts://host:8883``."""
    found = _ADDRESS.fullmatch(broker.strip())
    if found is None or not 0 < int(found["port"] or _PORT) < 65536:
        plain = (
            " (mqtt:// would send without encryption and to anybody)" if broker.startswith("mqtt:") else ""
        )
        raise InvalidRequest(f"--broker: expected mqtts://host:8883, found {broker!r}{plain}")
    return found["host"].strip("[]"), int(found["port"] or _PORT)


class SteadyClient(Client):
    """A client whose thread no broker can end: paho raises whatever it stumbles over in a malformed packet."""

    stumbled: Callable[[Exception], None]
    _finished = False

    def begin(self, address: Address) -> None:
        """Connect in a thread of its own, as soon as there is a broker, and stay connected."""
        self.connect_async(*address, keepalive=KEEPALIVE, clean_start=True)
        self.loop_start()

    def finish(self) -> None:
        """Disconnect, and end the thread."""
        self._finished = True
        self.disconnect()
        self.loop_stop()

    def loop_forever(self, timeout: float = 1.0, retry_first_connection: bool = False) -> MQTTErrorCode:
        """As paho's, and connected again where a packet could not be read, until it is finished."""
        while not self._finished:
            try:
                return super().loop_forever(timeout, retry_first_connection)
            except Exception as error:
                self.stumbled(error)
                hang_up(self)
                time.sleep(PAUSE)
                self.connect_async(self.host, self.port, keepalive=self.keepalive, clean_start=True)
        return MQTTErrorCode.MQTT_ERR_SUCCESS


def make_client(
    name: str,
    credentials: Credentials | None,
    *,
    manual_ack: bool = False,
    stumbled: Callable[[Exception], None] = lambda _: None,
) -> SteadyClient:
    """A client that is not connected yet.

    name:        its identity; the broker takes the one in the certificate.
    credentials: None for a broker outside of the network, which nothing of the network's is sent to.
    manual_ack:  whether the caller acknowledges what it receives, when it has committed it.
    stumbled:    called in the client's own thread for a packet that could not be read.
    """
    client = SteadyClient(
        CallbackAPIVersion.VERSION2,
        client_id=name,
        protocol=MQTTProtocolVersion.MQTTv5,  # 3.1.1 reports success where access is refused
        manual_ack=manual_ack,
    )
    client.stumbled = stumbled
    if credentials is not None:
        client.tls_set_context(credentials.client_context())
    client.reconnect_delay_set(1, 30)
    return client


def hang_up(client: Client) -> None:
    """Close the connection of a client, if there is one, without another word."""
    left = client.socket()
    if left is not None:
        with suppress(OSError):
            left.close()


def nonsense(error: Exception) -> str:
    """What to say of a broker whose packets could not be read."""
    return (
        f"the broker sends what is no MQTT 5 ({type(error).__name__}), so it is not what it should be; nothing is "
        "lost, and it is tried again"
    )
