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

_OF_AGENTS = (
    ("messages_total", "messages", "Messages kept, each once."),
    ("missed_total", "missed", "Epochs of which an agent said that it had no reading to release."),
    ("duplicates_total", "duplicates", "Messages that came again, and changed nothing."),
    ("silent_epochs", "silent", "Epochs estimated without a word of an agent."),
    ("lag_epochs", "lag", "How many epochs an agent is behind the newest one."),
    ("heard_seconds", "heard", "When an agent was last heard, in seconds since 1970; 0 for never."),
)


def as_metrics(status: Status, *, connected: bool) -> str:
    """What a centre counts, in Prometheus' text format."""
    families: list[tuple[str, str, dict[str, float]]] = [
        ("connected", "Whether the centre is connected to its broker.", {"": connected}),
        ("epoch", "The newest epoch that any agent told.", {"": status.newest}),
        ("estimates_total", "Estimates made, revisions included.", {"": status.estimates}),
        ("epochs_total", "Epochs that were estimated.", {"": status.epochs}),
    ]
    for name, field, words in _OF_AGENTS:
        families.append(
            (name, words, {_labels(agent=each.agent): getattr(each, field) for each in status.agents})
        )
    refused: dict[str, float] = {
        _labels(agent=agent, reason=reason): count for (agent, reason), count in status.refusals.items()
    }
    families.append(
        ("refused_total", "Messages refused or not used, by reason; agent is empty for strangers.", refused)
    )
    changed = {_labels(agent=agent): 1.0 for agent in status.drifted}
    families.append(("drifted", "Agents whose symbols have another law: the promise is void.", changed))
    lines = []
    for name, words, samples in families:
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# HELP veilnet_{name} {words}", f"# TYPE veilnet_{name} {kind}"]
        lines += [f"veilnet_{name}{labels} {value:.17g}" for labels, value in samples.items()]
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
