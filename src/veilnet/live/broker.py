"""Who may do what: Mosquitto's configuration for a network, and a broker on the loopback for demo and tests.

The broker asks every client for a certificate of the network's authority, takes the common name in it for user name
and client id, so that nobody can pose as another or end another's session, and lets each do only what the ACL says:

- an agent writes to its own topic of messages and reads its own acknowledgements;
- the centre reads messages and writes acknowledgements, estimates, its status and Home Assistant's discovery;
- a reader reads estimates, status and discovery, and may write Home Assistant's birth message.

Nothing is kept on the broker's disk unless a folder for it is given: agents send again what the centre has not
acknowledged.
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from veilnet._core.errors import InvalidRequest, MissingExtra, VeilnetError
from veilnet.io._atomic import write_text
from veilnet.live.home_assistant import PREFIX, birth_topic
from veilnet.live.keys import Credentials
from veilnet.live.topics import CENTRE, Topics, identity, reader_identity

PORT = 8883
LARGEST_PACKET = 65536 + 1024  # bytes: a message of 65,536, its topic and its head
_INSTALL = "the broker Mosquitto is not installed: sudo apt-get install mosquitto"
_TRIES = 10
_PLACES = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin", "/snap/bin")


@dataclass(frozen=True)
class BrokerPlan:
    """What a broker has to know of a network.

    largest_packet: bytes of the largest message with its topic. queued: messages it keeps for a client
    that is away or slow, each. discovery: the root of Home Assistant's topics.
    """

    agents: Sequence[str]
    topics: Topics = field(default_factory=Topics)
    readers: Sequence[str] = ()
    discovery: str = PREFIX
    largest_packet: int = LARGEST_PACKET
    queued: int = 10_000


def access_list(plan: BrokerPlan) -> str:
    """The ACL file: what is not listed is refused."""
    topics = plan.topics
    lines = ["# Who may do what, by 'veilnet live keys'; what is not listed is refused.", ""]
    lines += [
        f"user {CENTRE}",
        f"topic read {topics.all_messages}",
        f"topic write {topics.root}/acks/+",
        f"topic write {topics.estimates}",
        f"topic write {topics.influx}",
        f"topic write {topics.status}",
        f"topic write {plan.discovery}/device/+/config",
        f"topic read {birth_topic(plan.discovery)}",
        "",
    ]
    for name in plan.readers:
        lines += [
            f"user {reader_identity(name)}",
            f"topic read {topics.estimates}",
            f"topic read {topics.influx}",
            f"topic read {topics.status}",
            f"topic read {plan.discovery}/device/+/config",
            f"topic readwrite {birth_topic(plan.discovery)}",
            "",
        ]
    for agent in plan.agents:
        lines += [
            f"user {identity(agent)}",
            f"topic write {topics.messages(agent)}",
            f"topic read {topics.acks(agent)}",
            "",
        ]
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
        "# Nobody fills the broker's memory.",
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


def find_mosquitto() -> str:
    """The broker's program, or MissingExtra with the line that installs it."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *_PLACES])
    found = shutil.which("mosquitto", path=path)
    if found is None:
        raise MissingExtra(_INSTALL)
    return found


class Broker:
    """A Mosquitto process on a free port of the loopback, from ``start`` to ``stop``; also a context manager.

    It keeps its port over ``kill`` and ``start``, as a broker does that crashes and comes back.
    """

    host = "127.0.0.1"

    def __init__(
        self,
        credentials: Credentials,
        plan: BrokerPlan,
        *,
        port: int | None = None,
        persistence: Path | None = None,
        patience: float = 120.0,
    ) -> None:
        """``patience``: seconds to wait for the broker's first answer, and for its end."""
        self.credentials, self.plan, self.persistence, self.patience = (
            credentials,
            plan,
            persistence,
            patience,
        )
        self._any_port = port is None
        self.port = port or _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._log: Path = credentials.folder / "mosquitto.log"

    @property
    def address(self) -> str:
        """For ``--broker``: mqtts://127.0.0.1:port."""
        return f"mqtts://{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        if self._process is None:
            raise VeilnetError("the broker does not run; start it first")
        return self._process.pid

    def start(self) -> Broker:
        """Start the process, and wait until it answers."""
        if self._process is not None and self._process.poll() is None:
            raise VeilnetError("the broker runs already; stop it first")
        program = find_mosquitto()
        if not self._any_port and not _is_free(self.port):
            raise VeilnetError(
                f"port {self.port} of {self.host} is in use; choose another, or end who uses it"
            )
        for _ in range(_TRIES):
            self._launch(program)
            if self._wait():
                self._any_port = False  # from now on this one: clients know it
                return self
            if not self._any_port:
                break
            self.port = _free_port()  # somebody took it between the asking and the taking
        raise VeilnetError(f"the broker ended at once: {self._last_words()}")

    def _launch(self, program: str) -> None:
        written = write_configuration(
            self.credentials,
            self.plan,
            port=self.port,
            address=self.host,
            persistence=None if self.persistence is None else str(self.persistence.resolve()),
        )
        with written.open("a", encoding="utf-8") as file:
            file.write(
                f"user {_user()}\n"
            )  # as root Mosquitto would become another user, who cannot read the keys
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [program, "-c", str(written)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for whoever started it, who then stops it
            )

    def _wait(self) -> bool:
        """Whether the process answers; False if it ended."""
        deadline = time.monotonic() + self.patience
        while True:
            assert self._process is not None
            if self._process.poll() is not None:
                return False
            if self._answers():
                return True
            if time.monotonic() > deadline:
                self.kill()
                raise VeilnetError(
                    f"the broker does not answer within {self.patience:g} s: {self._last_words()}"
                )
            time.sleep(0.02)

    def _answers(self) -> bool:
        """Whether it is this broker, by its certificate, that listens at the port."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False  # the certificate may be for another machine than the loopback
        context.load_verify_locations(self.credentials.authority)
        with (
            suppress(OSError),
            socket.create_connection((self.host, self.port), timeout=5.0) as plain,
            context.wrap_socket(plain),
        ):
            return True
        return False

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "; ".join(lines[-3:]) or "it said nothing"

    def stop(self) -> None:
        """End the process, which saves what it keeps; nothing happens if it does not run."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(self.patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """End the process as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((Broker.host, 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of a killed broker linger
        try:
            probe.bind((Broker.host, port))
        except OSError:
            return False
        return True


def _user() -> str:
    import getpass

    return getpass.getuser()
