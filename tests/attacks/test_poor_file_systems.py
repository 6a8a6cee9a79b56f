"""File systems without locks or hard links: nothing is written that a second run could spoil, or that is torn."""

from __future__ import annotations

import errno
import os
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import veilnet as vn
from helpers.networks import random_network
from veilnet.auditing import Ledger
from veilnet.io import _atomic, _locking
from veilnet.io.agent_store import AgentStore, begin_agent_store
from veilnet.io.message_streams import MessageMark
from veilnet.io.outbox import Sink, added_to
from veilnet.plans.plan import Plan

FAILURES = [
    (errno.ENOLCK, "could not be locked.*local disk"),
    (errno.EOPNOTSUPP, "could not be locked.*local disk"),
    (errno.EAGAIN, "another run"),
    (errno.EACCES, "another run"),
]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return vn.design(random_network(0, noise="joint", prior="covariance"))


def without_locks(monkeypatch, code: int) -> None:
    def take(handle: int, *, wait: bool, shared: bool = False) -> None:
        del handle, wait, shared
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(_locking, "_take", take)


def without_links(monkeypatch, code: int = errno.EPERM) -> None:
    def link(source: object, target: object) -> None:
        raise OSError(code, os.strerror(code), str(source), None, str(target))

    monkeypatch.setattr(_atomic.os, "link", link)


# --- no locks


@pytest.mark.parametrize(("code", "says"), FAILURES)
def test_messages_are_not_added_without_a_lock(code, says, tmp_path: Path, monkeypatch) -> None:
    out, mark = tmp_path / "m.csv", MessageMark("cf6785d0", "kitchen")
    with AgentStore(None, "kitchen") as store, added(out, store, mark):
        pass
    before = out.read_bytes()
    with AgentStore(None, "kitchen") as store:
        without_locks(monkeypatch, code)
        with pytest.raises(vn.VeilnetError, match=says), added(out, store, mark):
            pytest.fail("the file was opened to be written")
    assert out.read_bytes() == before


def added(out: Path, store: AgentStore, mark: MessageMark) -> AbstractContextManager[Sink]:
    return added_to(out, store, "csv", 1, mark, says_missed=False, first=b"")


def test_a_second_run_is_told_of_the_first(tmp_path: Path) -> None:
    """With the system's own locks: what they answer is understood as a file in use."""
    out, mark = tmp_path / "m.csv", MessageMark("cf6785d0", "kitchen")
    with (
        AgentStore(None, "kitchen") as store,
        added(out, store, mark),
        pytest.raises(vn.VeilnetError, match="another run is adding to this file"),
        added(out, store, mark),
    ):
        pytest.fail("two runs add to one file")


@pytest.mark.parametrize(("code", "says"), FAILURES)
def test_no_store_is_used_without_a_lock(code, says, tmp_path: Path, monkeypatch) -> None:
    begin_agent_store(tmp_path / "store", "kitchen")
    without_locks(monkeypatch, code)
    with pytest.raises(vn.VeilnetError, match=says):
        AgentStore(tmp_path / "store", "kitchen")
    with pytest.raises(vn.VeilnetError, match=says):
        begin_agent_store(tmp_path / "other", "kitchen")


# --- no hard links


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES])
def test_a_ledger_begins_where_there_are_no_hard_links(code: int, plan: Plan, tmp_path, monkeypatch) -> None:
    """On a memory card it could not."""
    without_links(monkeypatch, code)
    ledger = Ledger.create(tmp_path / "l", plan.network, -0.99)
    ledger.record(plan)
    assert ledger.verify(releases=1) == []
    before = (tmp_path / "l").read_bytes()
    with pytest.raises(vn.InvalidRequest, match="a ledger is there already"):
        Ledger.create(tmp_path / "l", plan.network, -0.99)
    assert (tmp_path / "l").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["l"]


def test_a_store_begins_there_too(tmp_path: Path, monkeypatch) -> None:
    without_links(monkeypatch)
    begin_agent_store(tmp_path / "store", "kitchen", budget=5)
    with AgentStore(tmp_path / "store", "kitchen") as store:
        assert (store.budget, store.last_epoch) == (5, 0)


def test_what_cannot_be_written_there_is_removed(tmp_path: Path, monkeypatch) -> None:
    without_links(monkeypatch)
    real, calls = os.fsync, []

    def fsync(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 2:  # the first is of the file beside
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    monkeypatch.setattr(_atomic.os, "fsync", fsync)
    with pytest.raises(OSError, match="No space left") as caught:
        _atomic.create(tmp_path / "l", b"content\n")
    assert caught.value.filename == str(tmp_path / "l")
    assert list(tmp_path.iterdir()) == []
    _atomic.create(tmp_path / "l", b"content\n")
    assert (tmp_path / "l").read_bytes() == b"content\n"
