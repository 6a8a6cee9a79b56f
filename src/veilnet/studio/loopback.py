"""A server on this machine alone: a socket on the loopback, the guard before it, and an end without leftovers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from veilnet._core.errors import InvalidRequest
from veilnet._core.extras import missing_extra

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["serve_guarded"]


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
        listening.listen()  # whoever opens the address at once waits for the server instead of being refused
    except OSError as error:
        listening.close()
        raise InvalidRequest(f"--port {port}: {error.strerror}; choose another, or leave it out") from error
    return listening
