"""What agents and centres say of themselves over HTTP: ``/metrics`` for Prometheus, ``/health`` for service managers.

They answer on the loopback, or on an address that is named, and only to who asks by that name: a page in a browser
can have a name of its own point at 127.0.0.1, and would be shown what is answered to that name.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from veilnet._core.errors import InvalidRequest
from veilnet.io.agent_ledger import Ledger
from veilnet.live.status import Status

_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PATIENCE = 10.0  # seconds for somebody who connects to ask
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PLACE = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:]+\]|[^:\[\]/\s]+):)?(?P<port>\d{1,5})")

Families = list[tuple[str, str, dict[str, float]]]  # name, what it is, labels -> value

_OF_AGENTS = (
    ("messages_total", "messages", "Messages kept, each once."),
    ("missed_total", "missed", "Epochs of which an agent said that it had no reading to release."),
    ("duplicates_total", "duplicates", "Messages that came again, and changed nothing."),
    ("silent_epochs", "silent", "Epochs estimated without a word of an agent."),
    ("lag_epochs", "lag", "How many epochs an agent is behind the newest one."),
    ("heard_seconds", "heard", "When an agent was last heard, in seconds since 1970; 0 for never."),
)


def of_service(
    store: Path, connected: bool, certificate: datetime, plan: datetime | None, heard: float
) -> Families:
    """What agents and centres have in common.

    certificate, plan: until when they may be used; None where a plan is not signed.
    heard: when something of use was done last, an estimate or a release, in seconds since 1970; 0 for never.
    """
    size = 0
    for each in (store, store.with_name(store.name + "-wal")):
        with suppress(OSError):
            size += each.stat().st_size
    found: Families = [
        ("connected", "Whether there is a connection to the broker.", {"": connected}),
        ("store_bytes", "The store on the disk, with changes that wait beside it.", {"": size}),
        (
            "certificate_expires_seconds",
            "Until when the certificate is valid.",
            {"": certificate.timestamp()},
        ),
        ("last_seconds", "When the last estimate or release was made; 0 for never.", {"": heard}),
        ("age_seconds", "How long ago that was.", {"": time.time() - heard if heard else 0.0}),
    ]
    if plan is not None:
        found.append(("plan_expires_seconds", "Until when the plan may be run.", {"": plan.timestamp()}))
    return found


def of_centre(status: Status, lag: float | None, leads: bool) -> Families:
    """What a centre counts.

    lag: seconds from the newest epoch to the clock, None where epochs are rows. leads: whether it holds the lease.
    """
    found: Families = [
        ("leads", "Whether this centre is the one; a standby is not.", {"": leads}),
        ("epoch", "The newest epoch that any agent reported.", {"": status.newest}),
        ("estimates_total", "Estimates made, revisions included.", {"": status.estimates}),
        ("epochs_total", "Epochs that were estimated.", {"": status.epochs}),
    ]
    if lag is not None:
        found.append(("lag_seconds", "From the newest epoch to the clock.", {"": lag}))
    for name, field, words in _OF_AGENTS:
        found.append(
            (name, words, {_labels(agent=each.agent): getattr(each, field) for each in status.agents})
        )
    refused: dict[str, float] = {
        _labels(agent=agent, reason=reason): count for (agent, reason), count in status.refusals.items()
    }
    found.append(
        ("refused_total", "Messages refused or not used, by reason; agent is empty for strangers.", refused)
    )
    changed = {_labels(agent=agent): 1.0 for agent in status.drifted}
    return [*found, ("drifted", "Agents whose symbols have another law: the promise is void.", changed)]


def of_agent(ledger: Ledger) -> Families:
    """What an agent counts."""
    found: Families = [
        ("releases_total", "Messages with numbers.", {"": ledger.releases}),
        ("waiting", "Messages that the centre has not acknowledged.", {"": ledger.waiting}),
        ("not_taken_total", "Messages that the centre will not take.", {"": ledger.refused}),
    ]
    if ledger.left is not None:
        found.append(("budget_left", "Releases that the budget still allows.", {"": ledger.left}))
    return found


def as_metrics(families: Families) -> str:
    """Prometheus' text format."""
    lines = []
    for name, words, samples in families:
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# HELP veilnet_{name} {words}", f"# TYPE veilnet_{name} {kind}"]
        lines += [f"veilnet_{name}{labels} {value:.17g}" for labels, value in samples.items()]
    return "\n".join(lines) + "\n"


def problems_of(families: Families, quiet: float | None) -> list[str]:
    """Why a service is not well; nothing where it is.

    quiet: seconds after which the last estimate or release is too long ago; None where nobody knows the pace.
    """
    values = {name: next(iter(samples.values()), 0.0) for name, _, samples in families}
    found = [] if values["connected"] else ["no connection to the broker"]
    if quiet is not None and values["last_seconds"] and values["age_seconds"] > quiet:
        found.append(f"nothing was made for {values['age_seconds']:.0f} s")
    for what in ("certificate", "plan"):
        if values.get(f"{what}_expires_seconds", time.time() + 1) <= time.time():
            found.append(f"the {what} has expired")
    return found


def _labels(**labels: str) -> str:
    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{quoted(value)}"' for name, value in labels.items()) + "}"


class MetricsServer:
    """Answers ``GET /metrics`` and ``GET /health`` under one name, from ``start`` to ``stop``.

    place:    a port of the loopback, 0 for any that is free, or ``name:port``: the address, or the name, by which it
              is asked for, and no other.
    families: what to say, called in a thread of the server's own. quiet: as :func:`problems_of` has it.
    """

    def __init__(
        self,
        place: int | str,
        families: Callable[[], Families],
        quiet: Callable[[], float | None] = lambda: None,
    ) -> None:
        host, port = _read_place(str(place))
        names = _LOOPBACK if host in _LOOPBACK else (host.lower(),)

        class Handler(BaseHTTPRequestHandler):
            timeout = _PATIENCE

            def handle(self) -> None:
                with suppress(ConnectionError):  # who asked went away
                    super().handle()

            def do_GET(self) -> None:
                hosts = self.headers.get_all("Host", [])
                kind = "text/plain"
                if len(hosts) != 1 or _name_in(hosts[0]) not in names:
                    code, body = 421, f"ask for {' or '.join(names[:2])}\n"
                elif self.path == "/metrics":
                    code, body, kind = 200, as_metrics(families()), _TYPE
                elif self.path == "/health":
                    problems = problems_of(families(), quiet())
                    code, kind = 503 if problems else 200, "application/json"
                    body = json.dumps({"healthy": not problems, "problems": problems}) + "\n"
                else:
                    code, body = 404, "see /metrics and /health\n"
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, format: str, *args: object) -> None:
                del format, args  # who asks is nobody's business

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        try:
            self._server = Server((host, port), Handler)
        except OSError as error:
            raise InvalidRequest(
                f"--metrics {place}: {error.strerror}; choose another port or address"
            ) from error
        self._host = f"[{host}]" if ":" in host else host
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"http://{self._host}:{self._server.server_port}/metrics"

    def start(self) -> MetricsServer:
        """Begin to answer."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _read_place(place: str) -> tuple[str, int]:
    found = _PLACE.fullmatch(place)
    host = "" if found is None else (found["host"] or _LOOPBACK[0]).strip("[]")
    if found is None or int(found["port"]) > 65535 or _is_everywhere(host):
        raise InvalidRequest(
            f"--metrics: expected a port of this machine, or name:port by which Prometheus asks, found {place!r}"
        )
    return host, int(found["port"])


def _is_everywhere(host: str) -> bool:
    """Whether this is every address of the machine, in whatever digits."""
    try:
        return not any(socket.inet_pton(socket.AF_INET6, host) if ":" in host else socket.inet_aton(host))
    except OSError:
        return False  # a name


def _name_in(host: str) -> str:
    """The name in a Host header, without its port; tunnels have any."""
    found = re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[^:\[\]]+)(?::\d{1,5})?", host, re.ASCII)
    return "" if found is None else found[1].strip("[]").lower()
