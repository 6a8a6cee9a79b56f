"""Starting the studio: a socket on the loopback, the one-time address, and an end without leftovers."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

from veilnet._core.errors import InvalidRequest, MissingExtra
from veilnet._core.threads import one_thread
from veilnet.studio.uploads import MOST_BYTES
from veilnet.studio.workbench import Workbench

__all__ = ["serve"]


def serve(given: Path | None, *, port: int = 0, started: Callable[[str], None]) -> None:
    """Serve until interrupted.

    given:   a network or a table to open first; None for the first page.
    port:    0 for any that is free.
    started: called with the one-time address once requests are answered.
    """
    try:
        import scipy.linalg  # noqa: F401  brings a linear algebra of its own, which is limited with the rest below
        import uvicorn

        from veilnet.studio.app import application
        from veilnet.studio.guard import Guard
    except ImportError as error:
        raise MissingExtra('the studio needs its extra: pip install "veilnet[studio]"') from error
    # Answers are many small factorisations: threads that wait for each other took ten times as long over them.
    with one_thread(), tempfile.TemporaryDirectory(prefix="veilnet-studio-") as folder:
        bench = Workbench(Path(folder))
        if given is not None:
            _open(bench, given)
        listening = _socket(port)
        guard = Guard(application(bench), port=listening.getsockname()[1], most_bytes=MOST_BYTES)
        settings = uvicorn.Config(
            guard,
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(settings)
        started(guard.address)
        try:
            server.run(sockets=[listening])
        finally:
            bench.close()
            listening.close()


def _open(bench: Workbench, given: Path) -> None:
    content = given.read_bytes()
    if given.suffix.lower() in (".toml", ".json", ".npz"):
        bench.open_network(given.name, content)
    else:
        bench.open_table(given.name, content)


def _socket(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen()  # whoever opens the address at once waits for the server instead of being refused
    except OSError as error:
        listening.close()
        raise InvalidRequest(f"--port {port}: {error.strerror}; choose another, or leave it out") from error
    return listening
