"""A client of the broker: MQTT 5 over mutual TLS, and nothing less."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from veilnet._core.errors import InvalidRequest
from veilnet._core.extras import missing_extra
from veilnet.live.keys import Credentials

if TYPE_CHECKING:
    from paho.mqtt.client import Client

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


def make_client(
    name: str,
    credentials: Credentials | None,
    *,
    manual_ack: bool = False,
    stumbled: Callable[[Exception], None] = lambda _: None,
    ended: Callable[[], bool] = lambda: False,
) -> Client:
    """A client that is not connected yet.

    name:       its identity; the broker takes the one in the certificate.
    credentials: None for a broker outside of the network, which nothing of the network's is sent to.
    manual_ack: whether the caller acknowledges what it receives, when it has committed it.
    stumbled:   called in the client's own thread for a packet that could not be read; it then connects again, until
                ``ended`` says so.
    """
    try:
        from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
    except ImportError:
        raise missing_extra("a live network needs its packages", "live") from None
    client = _steady_client()(
        CallbackAPIVersion.VERSION2,
        client_id=name,
        protocol=MQTTProtocolVersion.MQTTv5,  # 3.1.1 reports success where access is refused
        manual_ack=manual_ack,
        userdata=(stumbled, ended),
    )
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


@cache
def _steady_client() -> type[Client]:
    """A client whose thread no broker can end: paho raises whatever it stumbles over in a malformed packet."""
    from paho.mqtt.client import Client
    from paho.mqtt.enums import MQTTErrorCode

    class SteadyClient(Client):
        """Connects again where a packet could not be read; its user data say whom to tell, and whether to end."""

        def loop_forever(self, timeout: float = 1.0, retry_first_connection: bool = False) -> MQTTErrorCode:
            """As paho's, for as long as it was not ended."""
            stumbled, ended = self.user_data_get()
            while not ended():
                try:
                    return super().loop_forever(timeout, retry_first_connection)
                except Exception as error:
                    stumbled(error)
                    hang_up(self)
                    time.sleep(PAUSE)
                    self.connect_async(self.host, self.port, keepalive=self.keepalive, clean_start=True)
            return MQTTErrorCode.MQTT_ERR_SUCCESS

    return SteadyClient
