"""Objects that nobody can change after they were checked: not by assignment, not in an array, not after pickling.

A network, a sanitizer or a plan is validated once and then believed by everyone it is handed to, also by another
process. A copy that could be written to would make its certificate a lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self, TypeVar, overload

import numpy as np

T = TypeVar("T")


class Frozen:
    """Base of what is read-only. A subclass ends its constructor with :meth:`_freeze`.

    ``_left_behind`` names attributes that are not pickled or copied (they are made anew when asked for).
    """

    _left_behind: frozenset[str] = frozenset()

    def _freeze(self) -> None:
        """From now on no attribute can be set, and no array in one can be written to."""
        for value in self.__dict__.values():
            make_read_only(value)
        self.__dict__["_frozen"] = True

    def __setattr__(self, name: str, value: Any) -> None:
        if "_frozen" in self.__dict__:
            raise AttributeError(
                f"a {type(self).__name__} is frozen: build a new one instead of changing {name!r}"
            )
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(
            f"a {type(self).__name__} is frozen: build a new one instead of removing {name!r}"
        )

    @classmethod
    def _unchecked(cls, **attributes: Any) -> Self:
        """An object of these attributes, for callers that made them and need no constructor to check them."""
        made = object.__new__(cls)
        made.__dict__.update(attributes)
        made._freeze()
        return made

    def _changed(self, **changes: Any) -> Self:
        """The same object with some attributes changed; what was derived from them must be among the changes."""
        return self._unchecked(**(self._kept() | changes))

    def _kept(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self._left_behind}

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: _Proxied(dict(value)) if isinstance(value, MappingProxyType) else value
            for name, value in self._kept().items()
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            self.__dict__[name] = MappingProxyType(value.items) if isinstance(value, _Proxied) else value
        for value in self.__dict__.values():
            make_read_only(value)


class derived(cached_property[T]):
    """A property computed once, whose arrays nobody can write to either."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        value = super().__get__(instance, owner)
        if instance is not None:
            make_read_only(value)
        return value


class _Proxied:
    """A read-only mapping on its way: the proxy itself cannot be pickled."""

    def __init__(self, items: dict[Any, Any]) -> None:
        self.items = items


class MadeOnDemand:
    """Base of mappings that make what they hold when asked for it, from arrays that are read-only already."""


def make_read_only(value: Any) -> None:
    """Make every array in a value read-only: the array itself, or those in tuples, lists and mappings."""
    if isinstance(value, MadeOnDemand):
        return
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    elif isinstance(value, Mapping):
        for item in value.values():
            make_read_only(item)
    elif isinstance(value, tuple | list):
        for item in value:
            make_read_only(item)
