"""A client of the broker: MQTT 5 over mutual TLS, and nothing less."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from veilnet._core.errors import InvalidRequest
from veilnet._core.extras import missing_extra
from veilnet.live.keys import Credentials

if TYPE_CHECKING:
    from paho.mqtt.client import Client

__all__ = ["KEEPALIVE", "Address", "make_client", "read_address"]

KEEPALIVE = 30  # seconds
_PORT = 8883
_ADDRESS = re.compile(r"mqtts://(?P<host>\[[0-9a-fA-F:.]+\]|[^/:\[\]@\s]+)(?::(?P<port>\d{1,5}))?/?")

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


def make_client(name: str, credentials: Credentials, *, manual_ack: bool = False) -> Client:
    """A client that is not connected yet.

    name:       its identity; the broker takes the one in the certificate.
    manual_ack: whether the caller acknowledges what it receives, when it has committed it.
    """
    try:
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
    except ImportError:
        raise missing_extra("a live network needs its packages", "live") from None
    client = Client(
        CallbackAPIVersion.VERSION2,
        client_id=name,
        protocol=MQTTProtocolVersion.MQTTv5,  # 3.1.1 reports success where access is refused
        manual_ack=manual_ack,
    )
    client.tls_set_context(credentials.client_context())
    client.reconnect_delay_set(1, 30)
    return client
