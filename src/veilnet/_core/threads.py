"""Linear algebra on one thread, also where several threads of one process ask for it at the same time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any

_lock = threading.Lock()
_limits: list[Any] = []
_users = 0
_found: tuple[int, Any] | None = None


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
    with _lock:
        pools = _libraries()
        if pools is not None and any(
            pool["user_api"] == "blas" and pool["num_threads"] != 1 for pool in pools.info()
        ):
            _limits.append(pools.limit(limits=1, user_api="blas"))
        _users += 1
    try:
        with nullcontext() if pools is None else pools.limit(limits=1, user_api="openmp"):
            yield
    finally:
        with _lock:
            _users -= 1
            while _users == 0 and _limits:
                _limits.pop().restore_original_limits()


def _libraries() -> Any:
    """The libraries that have threads, or None without threadpoolctl.

    To find them takes milliseconds, more than many a step on one thread does. A library comes with a module that
    is imported, so they are looked for again when there are more modules than there were.
    """
    global _found
    if _found is None or _found[0] != len(sys.modules):
        try:
            found = import_module("threadpoolctl").ThreadpoolController()
        except ImportError:
            return None
        _found = len(sys.modules), found
    return _found[1]
