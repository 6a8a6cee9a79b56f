"""Shared settings: property tests draw the same examples every time, however slow the machine is."""

from __future__ import annotations

import os

# Small matrices: threads inside BLAS only fight each other, above all with several test processes.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

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
