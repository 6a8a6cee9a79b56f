"""Questions to all parts whose answers are kept until the plan is there, so that a run that was cut off goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from veilnet._core.types import Array
from veilnet.cluster.answering import added, key_of
from veilnet.cluster.parts import DAMAGED, Parts, arrays_of, written
from veilnet.cluster.running import over_all_batches, over_all_parts
from veilnet.cluster.sending import PLAN

_SEARCH = "search"


class Asking:
    """Passes over all parts of a network.

    parts:  the network.
    client: a ``dask.distributed`` client, or None.
    about:  a digest of what all questions of a search have in common.
    """

    def __init__(self, parts: Parts, client: Any, about: str) -> None:
        self.over: Callable[..., Any] = partial(over_all_parts, parts=parts, client=client)
        self.over_batches: Callable[..., Any] = partial(
            over_all_batches, batches=parts.batches(), client=client
        )
        self._kept = parts.folder / PLAN / _SEARCH
        self._about = about

    def answered(self, task: Any, where: tuple[Any, ...], asked: tuple[Any, ...]) -> tuple[Array, ...]:
        """Arrays that all parts add up to: from an earlier run that asked the same, or from a pass over all parts.

        task:  called with the names of a batch, then with ``where``, then with what is ``asked``.
        """
        path = self._kept / f"{key_of(self._about, task.__name__, *asked)[:32]}.npz"
        known = _read(path)
        if known is None:
            known = self.over_batches(task, arguments=(*where, *asked), join=added).arrays
            written(path, {f"a{place}": array for place, array in enumerate(known)})
        return known

    def forget(self) -> None:
        """Remove what was kept in case the search is cut off."""
        shutil.rmtree(self._kept, ignore_errors=True)


def _read(path: Path) -> tuple[Array, ...] | None:
    try:
        with path.open("rb") as file:
            found = arrays_of(file)
        return tuple(found[f"a{place}"] for place in range(len(found)))
    except DAMAGED:
        return None
