"""One pass over all parts: a task for each batch, and their sums joined in a tree of fixed shape.

Batches and tree depend on the folder alone. However many workers there are, whichever of them dies, and with no
cluster at all, the same numbers are added in the same order.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

from veilnet._core.errors import InvalidRequest, VeilnetError
from veilnet._core.extras import install_line
from veilnet._core.progress import Progress
from veilnet._core.threads import one_thread
from veilnet.cluster.parts import Parts, loaded
from veilnet.cluster.tasks import joined

_TOGETHER = 16  # sums joined by one task: few enough to hold, many enough for few tasks

Task = Callable[..., Any]
Join = Callable[[Sequence[Any]], Any]


def over_all_parts(
    task: Task, parts: Parts, arguments: tuple[Any, ...], *, join: Join = joined, **how: Any
) -> Any:
    """The sums of all parts.

    task: called with the name of a part, its agents, the folder, then with ``arguments``.

    The others are those of :func:`over_all_batches`.
    """
    given = (task, join, parts.folder, parts.length, arguments)
    return over_all_batches(part_by_part, parts.batches(), given, join=join, **how)


def part_by_part(
    names: Sequence[str], task: Task, join: Join, folder: Path, length: int, arguments: tuple[Any, ...]
) -> Any:
    """A task: the sums of a batch, part after part."""
    with one_thread():
        return join([task(name, part, folder, *arguments) for name, part in loaded(folder, names, length)])


def over_all_batches(
    task: Task,
    batches: Sequence[tuple[str, ...]],
    arguments: tuple[Any, ...],
    *,
    client: Any = None,
    progress: Progress | None = None,
    what: str = "",
    join: Join = joined,
) -> Any:
    """The sums of all batches.

    task:      called with the names of a batch, then with ``arguments``, which every worker gets.
    client:    a ``dask.distributed`` client; None does the same here.
    progress:  called after each batch with (what, the part that is done).
    join:      makes one of several answers, in the order given.
    """
    tell = progress or (lambda _what, _part: None)
    if client is None:
        sums = []
        for done, names in enumerate(batches, 1):
            sums.append(task(names, *arguments))
            tell(what, done / len(batches))
        while len(sums) > 1:
            sums = [
                _joined(join, sums[start : start + _TOGETHER]) for start in range(0, len(sums), _TOGETHER)
            ]
        return sums[0]
    return _on_the_cluster(task, batches, arguments, client, tell, what, join)


def _on_the_cluster(
    task: Task,
    batches: Sequence[tuple[str, ...]],
    arguments: tuple[Any, ...],
    client: Any,
    tell: Progress,
    what: str,
    join: Join,
) -> Any:
    from distributed import KilledWorker, as_completed

    run = secrets.token_hex(4)
    named = (what or task.__name__).replace(" ", "_")
    keys = [f"{named}-{names[0]}-{run}" for names in batches]
    futures: list[Any] = []
    try:
        futures = client.map(
            task, batches, *([each] * len(batches) for each in arguments), key=keys, pure=False
        )
        for done, future in enumerate(as_completed(futures, loop=client.loop), 1):
            if future.status == "error":
                future.result()
            if future.status in ("cancelled", "lost"):
                raise CancelledError
            tell(what, done / len(batches))
        level = futures
        while len(level) > 1:
            level = [
                client.submit(_joined, join, level[start : start + _TOGETHER], pure=False)
                for start in range(0, len(level), _TOGETHER)
            ]
        found = level[0].result()
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
    return found


def _joined(join: Join, several: Sequence[Any]) -> Any:
    with one_thread():
        return join(several)


def _forget(client: Any, futures: list[Any]) -> None:
    """Give up what still waits, after an error; nothing is left to give up otherwise."""
    waiting = [future for future in futures if future.status == "pending"]
    if waiting and client.status == "running":
        client.cancel(waiting)
