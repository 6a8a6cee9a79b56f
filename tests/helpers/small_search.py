"""Trade-offs of small networks searched from fewer starts, for tests of something else than how good they are.

Every promise is made and rechecked as ever; only the looking around is cut short: starts are raced at fewer levels,
no agent is turned about, and the level that a loss buys is bracketed less closely before the last search for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from veilnet.designs.joint.settings import SETTINGS

SMALL: dict[str, Any] = {
    "rung": 20.0,
    "small_entries": 0,
    "root_tolerance": 0.05,
}


@contextmanager
def small_search() -> Iterator[None]:
    """The settings of every search in this process, for a while."""
    before = {name: getattr(SETTINGS, name) for name in SMALL}
    _set(SMALL)
    try:
        yield
    finally:
        _set(before)


def searches_are_small() -> bool:
    """Whether they are, now and in this process."""
    return bool(SETTINGS.rung == SMALL["rung"])


def _set(values: dict[str, Any]) -> None:
    for name, value in values.items():
        object.__setattr__(SETTINGS, name, value)
