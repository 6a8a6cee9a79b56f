"""Shared settings: property tests draw the same examples every time, however slow the machine is."""

from __future__ import annotations

import os

# Small matrices: threads inside BLAS only fight each other, above all with several test processes.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

from collections.abc import Iterator  # noqa: E402

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

settings.register_profile(
    "veilnet",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("veilnet")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Where coverage is not measured, because other tests run the same code, it is not in processes started there."""
    if item.get_closest_marker("no_cover") is None:
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        return (yield)
