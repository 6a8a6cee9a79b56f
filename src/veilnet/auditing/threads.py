"""One thread for many small factorisations."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any


def one_thread() -> AbstractContextManager[Any]:
    """Linear algebra on one thread, where threadpoolctl (it comes with scikit-learn) can see to it.

    An audit factors thousands of small matrices: threads that wait for each other make that tenfold slower on
    a busy machine, and the last digits of sums depend on how many there are.
    """
    try:
        limits: AbstractContextManager[Any] = import_module("threadpoolctl").threadpool_limits(1)
    except ImportError:
        return nullcontext()
    return limits
