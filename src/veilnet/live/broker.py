"""Who may do what: Mosquitto's configuration for a network.

The broker asks every client for a certificate of the network's authority, takes the common name in it for user name
and client id, so that nobody can pose as another or end another's session, and lets each do only what the ACL says:

- an agent writes to its own topics of messages and sums and reads its own acknowledgements and rounds;
- the centre and its standby read messages and sums and write acknowledgements, rounds, estimates and their history,
  status, whether agents are heard, and Home Assistant's discovery; on two topics they speak to one another;
- a reader reads what the centre says of estimates, status and discovery, and may write Home Assistant's birth
  message.

Nothing is kept on the broker's disk unless a folder for it is given: agents send again what the centre has not
acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from veilnet._core.errors import InvalidRequest
from veilnet.io._atomic import write_text
from veilnet.live.home_assistant import PREFIX, birth_topic
from veilnet.live.keys import Credentials
from veilnet.live.topics import CENTRE, STANDBY, Topics, identity, reader_identity

PORT = 8883
ON_ITS_WAY = 256  # messages that an agent sends before any is acknowledged
LARGEST_PACKET = 65536 + 1024  # bytes: a message of 65,536, its topic and its head


def largest_packet(agents: Sequence[str], labels: Sequence[str]) -> int:
    """Bytes of the largest message: of an agent, or of an estimate (or its description) that names all of them.

    labels: of the public parameters.
    """
    names = sum(len(each.encode()) + 4 for each in agents)
    described = sum(6 * len(each.encode()) + 1200 for each in labels)
    return max(LARGEST_PACKET, 2 * names + described + 26 * len(labels) ** 2 + 4096)


@dataclass(frozen=True)
class BrokerPlan:
    """What a broker has to know of a network.

    largest_packet: bytes of the largest message with its topic. discovery: the root of Home Assistant's topics.
    """

    agents: Sequence[str]
    topics: Topics = field(default_factory=Topics)
    readers: Sequence[str] = ()
    discovery: str = PREFIX
    largest_packet: int = LARGEST_PACKET

    @property
    def queued(self) -> int:
        """Messages that the broker keeps for a client that is away or slow: for the centre all that is on its way.

        What finds no room is sent again, seconds later; ten thousand are what a reader may miss of estimates.
        """
        return max(10_000, ON_ITS_WAY * len(self.agents))


def access_list(plan: BrokerPlan) -> str:
    """The ACL file: what is not listed is refused."""
    topics, birth = plan.topics, birth_topic(plan.discovery)
    discovery = f"{plan.discovery}/device/+/config"
    centre = [
        *(("read", each) for each in (topics.all_messages, topics.all_sums, birth)),
        *(("write", f"{topics.root}/{each}/+") for each in ("acks", "rounds")),
        *(("write", each) for each in (topics.heard, topics.influx, discovery)),
        *(("readwrite", each) for each in (topics.estimates, topics.history, topics.status)),
        *(("readwrite", each) for each in (topics.lease, topics.copies)),
    ]
    said = (topics.estimates, topics.history, topics.heard, topics.influx, topics.status, discovery)
    reader = [*(("read", each) for each in said), ("readwrite", birth)]
    rights = {CENTRE: centre, STANDBY: centre, **{reader_identity(name): reader for name in plan.readers}}
    for agent in plan.agents:
        rights[identity(agent)] = [
            *(("write", each) for each in (topics.messages(agent), topics.sums(agent))),
            *(("read", each) for each in (topics.acks(agent), topics.rounds(agent))),
        ]
    lines = ["# Who may do what, by 'veilnet live keys'; what is not listed is refused.", ""]
    for user, allowed in rights.items():
        lines += [f"user {user}", *(f"topic {right} {topic}" for right, topic in allowed), ""]
    return "\n".join(lines)


def configuration(
    plan: BrokerPlan,
    folder: str,
    *,
    port: int = PORT,
    address: str | None = None,
    persistence: str | None = None,
) -> str:
    """mosquitto.conf, for a broker whose keys and ACL file are in ``folder`` on its machine.

    address: the one to listen at; all of them if None. persistence: a folder where the broker keeps sessions and
    queued messages over a restart; None keeps them in memory alone.
    """
    if "\n" in folder or "\n" in (persistence or ""):
        raise InvalidRequest("folder: expected a path in one line")
    lines = [
        "# A broker for a network of veilnet, by 'veilnet live keys': Mosquitto 2, mutual TLS.",
        "per_listener_settings false",
        f"listener {port}" + (f" {address}" if address else ""),
        "protocol mqtt",
        "",
        "# Nobody without a certificate of the network's own authority; the name in it is who they are.",
        f"cafile {folder}/ca.crt",
        f"certfile {folder}/party.crt",
        f"keyfile {folder}/party.key",
        "tls_version tlsv1.3",
        "require_certificate true",
        "use_identity_as_username true",
        "use_username_as_clientid true",
        "allow_anonymous false",
        f"acl_file {folder}/acl",
        "",
        "# Nobody fills the broker's memory; what every agent may have on its way to the centre has room.",
        f"max_packet_size {plan.largest_packet}",
        f"max_queued_messages {plan.queued}",
        f"max_queued_bytes {plan.queued * 1024}",
        "max_inflight_messages 1000",
        "max_keepalive 300",
        "persistent_client_expiration 7d",
        "",
        "# Agents send again what the centre has not acknowledged, so the broker need not keep anything.",
    ]
    if persistence is None:
        lines += ["persistence false"]
    else:
        lines += ["persistence true", f"persistence_location {persistence}/", "autosave_interval 60"]
    lines += ["", "log_dest stderr", "log_type error", "log_type warning", "log_type notice", ""]
    return "\n".join(lines)


def write_configuration(
    credentials: Credentials,
    plan: BrokerPlan,
    *,
    folder: str | None = None,
    port: int = PORT,
    address: str | None = None,
    persistence: str | None = None,
) -> Path:
    """Write mosquitto.conf and acl into the broker's folder; where mosquitto.conf is.

    folder: where that folder will be on the broker's machine, if it is not where it is now.
    """
    where = credentials.folder
    write_text(where / "acl", access_list(plan), mode=0o600)
    written = where / "mosquitto.conf"
    there = folder or str(where.resolve())
    write_text(written, configuration(plan, there, port=port, address=address, persistence=persistence))
    return written
