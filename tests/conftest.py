"""Shared settings: every test draws the same numbers every time, however slow the machine is."""

from __future__ import annotations

import gc
import os

# Small matrices: threads inside BLAS only fight each other, above all with several test processes.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

from collections.abc import Iterator  # noqa: E402
from contextlib import contextmanager, nullcontext  # noqa: E402
from types import SimpleNamespace  # noqa: E402
from typing import Any  # noqa: E402
from zlib import crc32  # noqa: E402

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

from helpers.open_connections import OpenConnections  # noqa: E402
from helpers.small_search import small_search  # noqa: E402
from veilnet.agent import randomness  # noqa: E402

settings.register_profile(
    "veilnet",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("veilnet")

# The files that take longest, in that order: a file is one process's work.
LONGEST = (
    "test_code_in_pages",
    "test_floors",
    "test_workbench",
    "test_studio_browser",
    "test_sums_live",
    "test_standby",
    "test_cli_verbs",
    "test_lower_bound",
    "test_stream_attacks",
    "test_on_a_cluster",
    "test_step",
    "test_reproduce",
    "test_joint_solver",
    "test_structured_tradeoffs",
    "test_c_audit",
    "test_stream_audit",
)


CONNECTIONS = OpenConnections()


@contextmanager
def repeatable_entropy(name: str) -> Iterator[None]:
    """What agents in this process draw from the operating system comes from a generator seeded by ``name``.

    A test whose verdict hangs on fresh noise fails now and then. Tests of the entropy itself, and of processes
    forked from this one, are marked ``system_entropy`` and keep the real one.
    """
    generator = np.random.default_rng(crc32(name.encode()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(randomness, "os", SimpleNamespace(urandom=generator.bytes))
        yield


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Iterator[Any]:
    """A fixture draws the same whichever test asks for it first."""
    CONNECTIONS.lasting = fixturedef.scope != "function"
    with repeatable_entropy(f"{fixturedef.baseid} {fixturedef.argname} {getattr(request, 'param', '')}"):
        try:
            return (yield)
        finally:
            CONNECTIONS.lasting = False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of several processes none is to begin a long file when the others have nothing left to do."""

    def turn(item: pytest.Item) -> tuple[int, bool]:
        name = item.path.stem
        place = LONGEST.index(name) if name in LONGEST else len(LONGEST)
        return place, item.get_closest_marker("slow") is None

    if hasattr(config, "workerinput"):
        items.sort(key=turn)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Modules and tests stay to the end: the garbage collector need not walk over them again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Where a test makes do with a small search, its fixtures have it too; ``--long`` leaves nothing out."""
    mark = item.get_closest_marker("small_search")
    whole = mark is None or mark.args == (False,) or not item.config.option.markexpr
    with nullcontext() if whole else small_search(), CONNECTIONS.counting():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[Any]:
    """A test leaves no connection to a database to the garbage collector, nor do its file's fixtures at the end."""
    ended = yield
    left = CONNECTIONS.left_open(lasting=nextitem is None or nextitem.path != item.path)
    if left:
        pytest.fail(f"{item.nodeid} leaves connections open that were opened at {left}", pytrace=False)
    return ended


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[Any]:
    """Each test draws its own numbers; coverage follows its processes only where other tests do not run the same."""
    with pytest.MonkeyPatch.context() as patch:
        if item.get_closest_marker("no_cover") is not None:
            patch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        if item.get_closest_marker("system_entropy") is not None:
            return (yield)
        with repeatable_entropy(item.nodeid):
            return (yield)
