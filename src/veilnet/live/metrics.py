"""Prometheus metrics of a running centre, on the loopback alone, for who asks for the loopback by name.

A page in a browser can have a name of its own point at 127.0.0.1, and would be shown what is answered to that name.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from veilnet._core.errors import InvalidRequest
from veilnet.live.status import Status

__all__ = ["MetricsServer", "as_metrics"]

_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_HOST = re.compile(
    r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE | re.ASCII
)  # any port: tunnels


def as_metrics(status: Status, *, connected: bool) -> str:
    """What a centre counts, in Prometheus' text format."""
    lines: list[str] = []

    def add(name: str, kind: str, words: str, samples: list[tuple[str, float]]) -> None:
        lines.extend([f"# HELP {name} {words}", f"# TYPE {name} {kind}"])
        lines.extend(f"{name}{labels} {value:.17g}" for labels, value in samples)

    agents = status.agents
    add(
        "veilnet_connected",
        "gauge",
        "Whether the centre is connected to its broker.",
        [("", float(connected))],
    )
    add("veilnet_epoch", "gauge", "The newest epoch that any agent told.", [("", status.newest)])
    add("veilnet_estimates_total", "counter", "Estimates made, revisions included.", [("", status.estimates)])
    add("veilnet_epochs_total", "counter", "Epochs that were estimated.", [("", status.epochs)])
    add(
        "veilnet_messages_total", "counter", "Messages kept, each once.",
        [(_labels(agent=each.agent), each.messages) for each in agents],
    )  # fmt: skip
    add(
        "veilnet_missed_total", "counter", "Epochs of which an agent said that it had no reading to release.",
        [(_labels(agent=each.agent), each.missed) for each in agents],
    )  # fmt: skip
    add(
        "veilnet_silent_epochs", "gauge", "Epochs estimated without a word of an agent.",
        [(_labels(agent=each.agent), each.silent) for each in agents],
    )  # fmt: skip
    add(
        "veilnet_lag_epochs", "gauge", "How many epochs an agent is behind the newest one.",
        [(_labels(agent=each.agent), each.lag) for each in agents],
    )  # fmt: skip
    add(
        "veilnet_heard_seconds", "gauge", "When an agent was last heard, in seconds since 1970; 0 for never.",
        [(_labels(agent=each.agent), each.heard) for each in agents],
    )  # fmt: skip
    add(
        "veilnet_refused_total", "counter", "Messages refused or not used, by reason; agent is empty for strangers.",
        [
            (_labels(agent=agent, reason=reason), count)
            for (agent, reason), count in sorted(status.counts.items())
            if reason != "duplicate"
        ],
    )  # fmt: skip
    add(
        "veilnet_duplicates_total", "counter", "Messages that came again, and changed nothing.",
        [
            (_labels(agent=agent), count)
            for (agent, reason), count in sorted(status.counts.items())
            if reason == "duplicate"
        ],
    )  # fmt: skip
    return "\n".join(lines) + "\n"


def _labels(**labels: str) -> str:
    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{quoted(value)}"' for name, value in labels.items()) + "}"


class MetricsServer:
    """Answers ``GET /metrics`` on 127.0.0.1 under the loopback's own names, from ``start`` to ``stop``.

    port: 0 for any that is free. text: what to answer, called in a thread of the server's own.
    """

    def __init__(self, port: int, text: Callable[[], str]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hosts = self.headers.get_all("Host", [])
                if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
                    code, body = 421, b"ask for 127.0.0.1 or localhost\n"
                elif self.path != "/metrics":
                    code, body = 404, b"see /metrics\n"
                else:
                    code, body = 200, text().encode()
                self.send_response(code)
                self.send_header("Content-Type", _TYPE if code == 200 else "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                del format, args  # who asks is nobody's business

        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except OSError as error:
            raise InvalidRequest(f"--metrics {port}: {error.strerror}; choose another port") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._server.server_port}/metrics"

    def start(self) -> MetricsServer:
        """Begin to answer."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
