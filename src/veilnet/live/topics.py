"""Where messages go on the broker. Access to it is granted by topic, so every agent has its own.

    veilnet/up/<agent>        an agent's messages: it alone may write, the centre alone may read
    veilnet/ack/<agent>       the centre's acknowledgements: the centre alone may write, that agent alone may read
    veilnet/estimates         the centre's estimates, for whoever shows them; the newest one is retained
    veilnet/centre            whether the centre is there: "online" or "offline", retained

``veilnet`` may be another root, where several networks share a broker. An agent's name is written with letters,
digits, points and hyphens; anything else is ``=`` and two hexadecimal digits per byte.
"""

from __future__ import annotations

import re

__all__ = ["ROOT", "Topics", "topic_name"]

ROOT = "veilnet"
_PLAIN = re.compile(rb"[A-Za-z0-9.-]")


def topic_name(agent: str) -> str:
    """An agent's name as one level of a topic, and as its user name at the broker."""
    return "".join(chr(byte) if _PLAIN.match(bytes([byte])) else f"={byte:02X}" for byte in agent.encode())


class Topics:
    """The topics of one network.

    root: what they all begin with.
    """

    def __init__(self, root: str = ROOT) -> None:
        self.root = root
        self.estimates = f"{root}/estimates"
        self.centre = f"{root}/centre"
        self.all_messages = f"{root}/up/+"

    def messages(self, agent: str) -> str:
        """Where an agent sends its messages."""
        return f"{self.root}/up/{topic_name(agent)}"

    def acknowledgements(self, agent: str) -> str:
        """Where an agent hears what the centre has kept."""
        return f"{self.root}/ack/{topic_name(agent)}"
