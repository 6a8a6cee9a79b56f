"""A Mosquitto process on the loopback, for the demo and for tests."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import ssl
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from veilnet._core.errors import MissingExtra, VeilnetError
from veilnet.live.broker import BrokerPlan, write_configuration
from veilnet.live.keys import Credentials

_INSTALL = "the broker Mosquitto is not installed: sudo apt-get install mosquitto"
_TRIES = 10  # of a free port that somebody else takes between the asking and the taking
_PATIENCE = 120.0  # seconds for its first answer, and for its end
_PLACES = ("/usr/sbin", "/usr/local/sbin", "/snap/bin")


def find_mosquitto() -> str:
    """The broker's program, or MissingExtra with the line that installs it."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *_PLACES])
    found = shutil.which("mosquitto", path=path)
    if found is None:
        raise MissingExtra(_INSTALL)
    return found


def free_port() -> int:
    """A port of the loopback that nobody listens at."""
    with socket.socket() as probe:
        probe.bind((Broker.host, 0))
        return int(probe.getsockname()[1])


class Broker:
    """Mosquitto at a free port of the loopback, from ``start`` to ``stop``; also a context manager.

    It keeps its port over ``kill`` and ``start``, as a broker does that crashes and comes back. persistence: the
    folder where it keeps sessions and queued messages over that; None for nowhere.
    """

    host = "127.0.0.1"

    def __init__(
        self, credentials: Credentials, plan: BrokerPlan, *, persistence: Path | None = None
    ) -> None:
        self._credentials, self._plan, self._persistence = credentials, plan, persistence
        self._process: subprocess.Popen[bytes] | None = None
        self._log = credentials.folder / "mosquitto.log"
        self.port = 0  # none yet

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
        for port in [self.port] if self.port else (free_port() for _ in range(_TRIES)):
            if self._answers_after_start(program, port):
                self.port = port
                return self
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        raise VeilnetError(f"the broker did not start: {'; '.join(lines[-3:]) or 'it said nothing'}")

    def _answers_after_start(self, program: str, port: int) -> bool:
        """Whether the process answers at that port; False where it ended, or kept silent."""
        kept = None if self._persistence is None else str(self._persistence.resolve())
        written = write_configuration(
            self._credentials, self._plan, port=port, address=self.host, persistence=kept
        )
        with written.open("a", encoding="utf-8") as file:
            # as root Mosquitto would become another user, who cannot read the keys
            file.write(f"user {getpass.getuser()}\n")
        with self._log.open("ab") as log:
            # a session of its own: Ctrl-C is for the process that started it, which then stops it
            self._process = subprocess.Popen(
                [program, "-c", str(written)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + _PATIENCE
        while self._process.poll() is None and time.monotonic() < deadline:
            if self._answers(port):
                return True
            time.sleep(0.02)
        self.kill()
        return False

    def _answers(self, port: int) -> bool:
        """Whether it is this broker, by its certificate, that listens at the port."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False  # the certificate may be for another machine than the loopback
        context.load_verify_locations(self._credentials.authority)
        with suppress(OSError), socket.create_connection((self.host, port), timeout=5.0) as plain:
            context.wrap_socket(plain).close()
            return True
        return False

    def stop(self) -> None:
        """End the process, which saves what it keeps; nothing happens if it does not run."""
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE)
        self.kill()

    def kill(self) -> None:
        """End the process as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
