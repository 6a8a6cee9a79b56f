"""Linear algebra on one thread, also where several threads of one process ask for it at the same time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

_lock = threading.Lock()
_limits: list[Any] = []
_users = 0


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit linear algebra to one thread until the last of those who asked for it has left.

    Small factorisations by the thousand are up to tenfold slower when threads wait for each other, and the last
    digits of sums depend on how many there are. The limit of BLAS belongs to the process: were each user to
    restore what it found, the first to leave would take it from the others (a worker of a Dask cluster measures
    several draws at a time). Who enters later limits libraries loaded since; all is restored at the end. The
    limit of OpenMP belongs to the thread that asks.

    threadpoolctl sees to it (it comes with scikit-learn and the extra ``paper``); without it nothing is limited.
    """
    global _users
    try:
        pools = import_module("threadpoolctl")
    except ImportError:
        yield
        return
    with _lock:
        if any(pool["user_api"] == "blas" and pool["num_threads"] != 1 for pool in pools.threadpool_info()):
            _limits.append(pools.threadpool_limits(limits=1, user_api="blas"))
        _users += 1
    try:
        with pools.threadpool_limits(limits=1, user_api="openmp"):
            yield
    finally:
        with _lock:
            _users -= 1
            while _users == 0 and _limits:
                _limits.pop().restore_original_limits()
