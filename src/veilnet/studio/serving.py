"""Starting the studio: its workbench, and an address that works once. What it is given it keeps in memory alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from veilnet._core.extras import missing_extra
from veilnet._core.threads import one_thread
from veilnet.studio.loopback import serve_guarded
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
