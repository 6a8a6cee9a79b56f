"""The studio served by a thread of this process: a fresh workbench in the time that a page needs to load."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue

import pytest
import uvicorn

from veilnet.studio.loopback import serve


@contextmanager
def studio_served() -> Iterator[str]:
    """The address that works once; the studio ends with the block, and its jobs with it."""
    servers: list[uvicorn.Server] = []
    addresses: Queue[str] = Queue()

    class KeptServer(uvicorn.Server):
        def __init__(self, config: uvicorn.Config) -> None:
            super().__init__(config)
            servers.append(self)

    def serving() -> None:
        serve(None, started=addresses.put)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn, "Server", KeptServer)
        thread = threading.Thread(target=serving, daemon=True)
        thread.start()
        address = addresses.get(timeout=120)
    try:
        yield address
    finally:
        servers[0].should_exit = True
        thread.join(timeout=120)
    assert not thread.is_alive(), "the studio does not end"
