"""A server on this machine alone: a socket on the loopback, the guard before it, and an end without leftovers.

The studio is one: its address works once, and what it is given it keeps in memory alone.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from veilnet._core.errors import InvalidRequest
from veilnet._core.extras import missing_extra
from veilnet._core.threads import one_thread
from veilnet.studio.uploads import MOST_BYTES
from veilnet.studio.workbench import Workbench

if TYPE_CHECKING:
    from starlette.types import ASGIApp


def serve(given: Path | None, *, port: int = 0, started: Callable[[str], None]) -> None:
    """Serve until interrupted.

    given:   a network or a table to open first; None for the first page.
    port:    0 for any that is free.
    started: called with the one-time address once requests are answered.
    """
    try:
        import scipy.linalg  # noqa: F401  brings a linear algebra of its own, which is limited with the rest below

        from veilnet.studio.app import PAGE, application
    except ImportError as error:
        raise missing_extra("the studio needs its extra", "studio") from error
    # Answers are many small factorisations: threads that wait for each other took ten times as long over them.
    with one_thread():
        bench = Workbench()
        if given is not None:
            _open(bench, given)
        try:
            serve_guarded(application(bench), page=PAGE, port=port, most_bytes=MOST_BYTES, started=started)
        finally:
            bench.close()


def _open(bench: Workbench, given: Path) -> None:
    content = given.read_bytes()
    if given.suffix.lower() in (".toml", ".json", ".npz"):
        bench.open_network(given.name, content)
    else:
        bench.open_table(given.name, content)


def serve_guarded(
    app: ASGIApp, *, page: Collection[str], port: int, most_bytes: int, started: Callable[[str], None]
) -> None:
    """Serve an application until interrupted.

    page:       addresses of files that anybody may have, since they hold nothing.
    port:       0 for any that is free.
    most_bytes: of the body of a request.
    started:    called with the one-time address once requests are answered.
    """
    try:
        import uvicorn

        from veilnet.studio.guard import Guard
    except ImportError as error:
        raise missing_extra("the studio needs its extra", "studio") from error
    listening = _socket(port)
    guard = Guard(app, page=page, port=listening.getsockname()[1], most_bytes=most_bytes)
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
        listening.close()


def _socket(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen()  # a browser that opens the address at once waits for the server instead of being refused
    except OSError as error:
        listening.close()
        raise InvalidRequest(f"--port {port}: {error.strerror}; choose another, or leave it out") from error
    return listening
