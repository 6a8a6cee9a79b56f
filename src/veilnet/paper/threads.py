"""Linear algebra on one thread while draws are measured, also where threads of one process measure several."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_measuring = 0
_limit: Any = None


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread until the last of those who asked for it has left.

    The limit belongs to the process: were each to restore it on leaving, the first to finish would take it from
    the others (a worker of a Dask cluster measures several draws at a time).
    """
    global _measuring, _limit
    from threadpoolctl import threadpool_limits

    with _lock:
        if _measuring == 0:
            _limit = threadpool_limits(limits=1)
        _measuring += 1
    try:
        yield
    finally:
        with _lock:
            _measuring -= 1
            if _measuring == 0:
                _limit.restore_original_limits()
                _limit = None
