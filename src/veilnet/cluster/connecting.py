"""The way to a cluster: a scheduler that runs somewhere, or one started here with worker processes of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from veilnet._core.errors import InvalidRequest
from veilnet._core.extras import missing_extra

_PATIENCE = 10  # seconds within which a scheduler has to answer


@contextmanager
def connect(address: str, *, security: Any = None, timeout: float = _PATIENCE) -> Iterator[Any]:
    """A client of the scheduler at an address, or of a cluster started here for the time of the block.

    address:  ``tcp://host:8786`` or ``tls://host:8786``; ``local`` starts a scheduler and a worker per core here.
    security: a ``distributed.Security`` with certificates; left out, it comes from Dask's own configuration.
    timeout:  seconds to wait for an answer.
    """
    distributed = _distributed()
    if address == "local":
        with local_cluster() as client:
            yield client
        return
    try:
        client = distributed.Client(address, security=security, timeout=timeout, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError) as error:
        raise InvalidRequest(
            f"cluster: no scheduler answers at {address} within {timeout:g} s ({type(error).__name__}); start one "
            "with 'dask scheduler', mend the address (tcp://host:8786), or its certificates"
        ) from error
    try:
        yield client
    finally:
        client.close()


@contextmanager
def local_cluster(workers: int | None = None) -> Iterator[Any]:
    """A client of a scheduler and worker processes here, which no other machine can reach; ended with the block.

    workers: how many; one for each core when left out.
    """
    distributed = _distributed()
    count = workers or os.cpu_count() or 1
    with (
        distributed.LocalCluster(
            n_workers=count, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise missing_extra("working on a cluster needs more packages", "cluster") from error
    return distributed
