"""Names of very many agents, and what belongs to each of them, made when somebody asks for one by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, overload

from veilnet._core.blocks import Blocks
from veilnet._core.frozen import MadeOnDemand, make_read_only
from veilnet._core.types import Array

T_co = TypeVar("T_co", covariant=True)


class NumberedNames(Sequence[str]):
    """agent01, agent02, ...: as many names as agents, all of one length, none of them kept.

    first: how many agents come before them, of ``total`` in all; they are all there are when left out.
    """

    def __init__(self, count: int, first: int = 0, total: int | None = None) -> None:
        self._count, self._first = count, first
        self._width = len(str(count if total is None else total))

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...
    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        if isinstance(place, slice):
            return tuple(self._name(k) for k in range(*place.indices(self._count)))
        return self._name(range(self._count)[place])

    def __iter__(self) -> Iterator[str]:
        return map(self._name, range(self._count))

    def __contains__(self, name: object) -> bool:
        return self._place(name) is not None

    def index(self, name: Any, start: int = 0, stop: int | None = None) -> int:
        """The place of a name; a ValueError where it is none of them."""
        place = self._place(name)
        if place is None or place not in range(*slice(start, stop).indices(self._count)):
            raise ValueError(f"{name!r} is not among {self!r}")
        return place

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NumberedNames):
            return vars(self) == vars(other)
        return isinstance(other, tuple) and len(other) == self._count and tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{self._count} names, {self._name(0)} to {self._name(self._count - 1)}>"

    def _name(self, place: int) -> str:
        return f"agent{self._first + place + 1:0{self._width}d}"

    def _place(self, name: object) -> int | None:
        if not isinstance(name, str):
            return None
        digits = name.removeprefix("agent")
        if len(digits) != self._width or not (digits.isascii() and digits.isdigit()):
            return None
        place = int(digits) - 1 - self._first
        return place if 0 <= place < self._count and name == self._name(place) else None


class PlacesByName(MadeOnDemand, Mapping[str, int]):
    """name -> place among numbered names, found by reading the number."""

    def __init__(self, names: NumberedNames) -> None:
        self._names = names

    def __getitem__(self, name: str) -> int:
        try:
            return self._names.index(name)
        except ValueError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def places_of(names: Sequence[str]) -> Mapping[str, int]:
    """name -> place in order."""
    if isinstance(names, NumberedNames):
        return PlacesByName(names)
    return {name: place for place, name in enumerate(names)}


class ByAgent(MadeOnDemand, Mapping[str, T_co]):
    """agent -> what ``made`` gives for its place; nothing is kept, so that a million agents cost nothing."""

    def __init__(self, names: Sequence[str], places: Mapping[str, int], made: Callable[[int], T_co]) -> None:
        self._names, self._places, self._made = names, places, made

    def __getitem__(self, name: str) -> T_co:
        return self._made(self._places[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)  # what makes the values stays here

    def __repr__(self) -> str:
        return repr(dict(self)) if len(self) <= _SHOWN else f"<{len(self)} agents, looked up by name>"


_SHOWN = 100


class RowsByAgent(ByAgent[Array]):
    """agent -> its rows of something stacked, views made on demand."""

    def __init__(
        self, names: Sequence[str], places: Mapping[str, int], blocks: Blocks, stacked: Array
    ) -> None:
        super().__init__(names, places, lambda place: stacked[blocks.rows(place)])
        self.names, self.blocks, self.stacked = names, blocks, stacked
        make_read_only(stacked)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowsByAgent, (self._names, self._places, self.blocks, self.stacked)
