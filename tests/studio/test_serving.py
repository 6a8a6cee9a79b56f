"""How the studio is served."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("starlette")

import scipy.linalg  # noqa: F401  so that its linear algebra is among those counted
import threadpoolctl
import uvicorn

from veilnet.studio.loopback import serve


def threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}


def test_answers_wait_for_no_other_thread_of_linear_algebra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of the house took 0.3 s of CPU time where threads waited for each other, and 0.02 s on one."""
    while_served: list[set[int]] = []

    def run(_server: Any, sockets: list[Any]) -> None:
        assert len(sockets) == 1
        while_served.append(threads())

    monkeypatch.setattr(uvicorn.Server, "run", run)
    with threadpoolctl.threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        serve(None, started=lambda _address: None)
        assert threads() == before
    assert 2 in before  # a library that was built for one thread keeps to it
    assert while_served == [{1}]


def test_no_other_machine_can_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts: list[str] = []
    monkeypatch.setattr(
        uvicorn.Server,
        "run",
        lambda _server, sockets: hosts.extend(each.getsockname()[0] for each in sockets),
    )
    serve(None, started=lambda _address: None)
    assert hosts == ["127.0.0.1"]
