"""Questions to all agents in a search: prices or estimates go to all parts, L x L sums come back.

What a task answers is a function of files and questions alone, so that it may be done again by anybody. Workers
remember what they made of a file from pass to pass, as long as there is room. Answers of all parts are kept in
``plan/search`` until the plan is there, so that a run that was cut off goes on where it was.
"""

from __future__ import annotations

import shutil
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from veilnet._core.stacks import summed
from veilnet._core.types import Array
from veilnet.cluster.files import kept_arrays, write_arrays
from veilnet.cluster.parts import PartFile, Parts
from veilnet.cluster.plans import PLAN
from veilnet.cluster.running import over_parts
from veilnet.cluster.sums import key_of

_REMEMBERED = 2**28  # bytes that a process keeps from pass to pass
_memory: OrderedDict[tuple[object, ...], Sequence[Any]] = OrderedDict()


class Prepared(Protocol):
    """What agents are asked about, made of a part once: a dataclass of all that it depends on beside the part."""

    def stacks(self, part: PartFile) -> Sequence[Any]:
        """Stacks of the agents of a part, arrays or dataclasses of them, few enough to be worked on at once."""


@dataclass(frozen=True, eq=False)
class AnswerSums:
    """Arrays that are added up, each by itself; none where there was nobody to ask."""

    arrays: tuple[Array, ...]

    def __add__(self, other: AnswerSums) -> AnswerSums:
        return AnswerSums(summed((each for each in (self, other) if each.arrays), lambda each: each.arrays))


def answer_sums(
    part: PartFile, prepared: Prepared, answer: Callable[..., Any], asked: tuple[Any, ...]
) -> AnswerSums:
    """A task: what the agents of a part answer, added up stack by stack.

    answer: called with a stack, then with what is ``asked``; an array, or several.
    """
    return AnswerSums(summed(remembered(part, prepared), answer, *asked))


def remembered(part: PartFile, prepared: Prepared) -> Sequence[Any]:
    """What is made of a part, made anew when its file changed."""
    status = part.path.stat() if part.path.exists() else None
    key = (part.path, key_of(prepared), None if status is None else (status.st_mtime_ns, status.st_size))
    if key not in _memory:
        _memory[key] = prepared.stacks(part)
        while (
            len(_memory) > 1 and sum(_bytes(one) for each in _memory.values() for one in each) > _REMEMBERED
        ):
            _memory.popitem(last=False)
    _memory.move_to_end(key)
    return _memory[key]


def _bytes(stack: Any) -> int:
    return stack.nbytes if hasattr(stack, "nbytes") else sum(each.nbytes for each in vars(stack).values())


class Asking:
    """Passes over all parts of a network, in a search.

    parts:    the network.
    prepared: what its agents are asked about.
    client:   a ``dask.distributed`` client, or None.
    about:    what else all questions of the search have in common.
    """

    def __init__(self, parts: Parts, prepared: Prepared, client: Any, *about: Any) -> None:
        self._parts, self._prepared, self._client = parts, prepared, client
        self._kept = parts.folder / PLAN / "search"
        self._about = key_of(prepared, *about)

    def answered(self, answer: Callable[..., Any], *asked: Any) -> tuple[Array, ...]:
        """What all agents answer: from an earlier run that asked the same, or from a pass over all parts.

        answer: called with a stack of agents, then with what is ``asked``.
        """
        path = self._kept / f"{key_of(self._about, answer.__name__, *asked)[:32]}.npz"
        known = kept_arrays(path)
        if known is not None:
            return tuple(known[f"a{place}"] for place in range(len(known)))
        found: AnswerSums = over_parts(
            answer_sums, self._parts, self._prepared, answer, asked, client=self._client
        )
        write_arrays(path, {f"a{place}": array for place, array in enumerate(found.arrays)})
        return found.arrays

    def forget(self) -> None:
        """Remove what was kept in case the search is cut off."""
        shutil.rmtree(self._kept, ignore_errors=True)
