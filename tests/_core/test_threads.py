"""Linear algebra stays on one thread until the last of those who asked for it has left."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from veilnet._core import threads
from veilnet._core.threads import one_thread


def blas_threads() -> int:
    np.ones((2, 2)) @ np.ones((2, 2))  # BLAS is loaded
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


def test_one_thread_until_the_last_has_left() -> None:
    with threadpool_limits(limits=2):
        assert blas_threads() == 2, "without a second thread this test could not fail"
        first, second = one_thread(), one_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == 1
        second.__exit__(None, None, None)
        assert blas_threads() == 2


def test_threads_of_one_process_share_the_limit() -> None:
    entered, may_leave = threading.Event(), threading.Event()

    def brief() -> None:
        with one_thread():
            entered.set()
            may_leave.wait(120)

    with threadpool_limits(limits=2):
        other = threading.Thread(target=brief)
        other.start()
        assert entered.wait(120)
        with one_thread():
            may_leave.set()
            other.join()
            assert blas_threads() == 1
        assert blas_threads() == 2


def test_a_limit_raised_inside_is_lowered_by_the_next_to_enter_and_all_is_restored() -> None:
    with threadpool_limits(limits=2):
        with one_thread():
            raised = threadpool_limits(limits=2)  # as a library does that is loaded meanwhile
            with one_thread():
                assert blas_threads() == 1
            raised.unregister()
        assert blas_threads() == 2


def test_an_error_gives_the_threads_back() -> None:
    with threadpool_limits(limits=2):
        with pytest.raises(KeyboardInterrupt), one_thread():
            raise KeyboardInterrupt
        assert blas_threads() == 2


def test_without_threadpoolctl_nothing_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    with threadpool_limits(limits=2):
        monkeypatch.setitem(sys.modules, "threadpoolctl", None)
        monkeypatch.setattr(threads, "_found", None)
        with one_thread():
            assert blas_threads() == 2


def test_libraries_are_looked_for_again_when_modules_were_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    with one_thread():
        before = threads._found
    with one_thread():
        assert threads._found is before
    monkeypatch.setitem(sys.modules, "a_module_of_this_test", sys)
    with one_thread():
        assert threads._found is not before
