"""One pass over all parts, here or on a cluster: a task for each batch, answers added up in a tree of fixed shape.

Batches and tree depend on the folder alone. However many workers there are, whichever of them dies, and with no
cluster at all, the same numbers are added in the same order.
"""

from __future__ import annotations

import operator
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

from veilnet._core.errors import InvalidRequest, VeilnetError
from veilnet._core.extras import install_line, missing_extra
from veilnet._core.progress import Progress
from veilnet._core.threads import one_thread
from veilnet._core.words import counted
from veilnet.cluster.parts import PartFile, Parts

_TOGETHER = 16  # answers added up by one task: few enough to hold, many enough for few tasks
LOST = " lost, others do their parts"
_ANSWERS = 10  # seconds within which a scheduler has to answer
_PATIENCE = 1.0  # seconds, at least, from one look at which workers there are to the next

Task = Callable[..., Any]


def over_parts(
    task: Task, parts: Parts, *arguments: Any, client: Any = None, progress: Progress | None = None, what: str = ""
) -> Any:  # fmt: skip
    """The answers of all parts, added up.

    task:      called with a :class:`PartFile`, then with ``arguments``, which every worker gets; what it answers has
               a sum.
    client:    a ``dask.distributed`` client; None does the same here.
    progress:  called at once and after each batch with (what, the part that is done).
    """
    tell = progress or (lambda _what, _part: None)
    tell(what, 0.0)
    batches = parts.batches()
    if client is not None:
        return _by_workers(task, batches, (parts.folder, task, arguments), client, tell, what)
    answers = []
    for done, names in enumerate(batches, 1):
        answers.append(part_by_part(names, parts.folder, task, arguments))
        tell(what, done / len(batches))
    while len(answers) > 1:
        answers = [added(answers[k : k + _TOGETHER]) for k in range(0, len(answers), _TOGETHER)]
    return answers[0]


def part_by_part(names: Sequence[str], folder: Path, task: Task, arguments: tuple[Any, ...]) -> Any:
    """The answers of a batch, part after part."""
    with one_thread():
        return reduce(operator.add, (task(PartFile(folder, name), *arguments) for name in names))


def added(answers: Sequence[Any]) -> Any:
    """Their sum, in the order given."""
    with one_thread():
        return reduce(operator.add, answers)


def _by_workers(
    task: Task, batches: Sequence[tuple[str, ...]], given: tuple[Any, ...], client: Any, tell: Progress, what: str
) -> Any:  # fmt: skip
    from distributed import KilledWorker, as_completed

    run = secrets.token_hex(4)
    named = (what or task.__name__).replace(" ", "_")
    keys = [f"{named}-{names[0]}-{run}" for names in batches]
    futures: list[Any] = []
    try:
        there, lost, looked = set(client.nthreads()), 0, time.monotonic()
        copies = ([each] * len(batches) for each in given)
        futures = client.map(part_by_part, batches, *copies, key=keys, pure=False)
        for done, future in enumerate(as_completed(futures, loop=client.loop), 1):
            if future.status == "error":
                future.result()
            if future.status in ("cancelled", "lost"):
                raise CancelledError
            if time.monotonic() > looked + _PATIENCE:
                lost, looked = len(there - set(client.nthreads())), time.monotonic()
            words = f"{what}: {counted(lost, 'worker')}{LOST}" if lost else what
            tell(words, done / len(batches))
        level = futures
        while len(level) > 1:
            level = [
                client.submit(added, level[k : k + _TOGETHER], pure=False)
                for k in range(0, len(level), _TOGETHER)
            ]
        return level[0].result()
    except VeilnetError:
        raise
    except KilledWorker as error:
        raise InvalidRequest(
            f"cluster: workers died again and again at {getattr(error, 'task', 'a part')} (out of memory?); parts "
            "that are finished are kept, and the same call goes on from there"
        ) from error
    except (OSError, CancelledError, TimeoutError) as error:
        raise InvalidRequest(
            f"cluster: the scheduler was lost ({type(error).__name__}); parts that are finished are kept, and the "
            "same call goes on from there once it is back"
        ) from error
    except ImportError as error:
        raise InvalidRequest(
            f"cluster: a worker lacks a package ({error}); there, as here: {install_line('cluster')}"
        ) from error
    finally:
        _forget(client, futures)


def _forget(client: Any, futures: list[Any]) -> None:
    """Give up what still waits, after an error; nothing is left to give up otherwise."""
    waiting = [future for future in futures if future.status == "pending"]
    if waiting and client.status == "running":
        client.cancel(waiting)


@contextmanager
def connect(address: str, *, security: Any = None, timeout: float = _ANSWERS) -> Iterator[Any]:
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
