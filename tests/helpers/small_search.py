"""Trade-offs of small networks searched from fewer starts, for tests of something else than how good they are.

Every promise is made and rechecked as ever; only the looking around is cut short: a third of the levels of privacy
are scouted, from a quarter of the starts, fewer of the plans found there are followed, and the level that a loss buys
is bracketed less closely before the last search for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from veilnet.designs.joint.settings import SETTINGS

SMALL: dict[str, Any] = {
    "scouts": 6,
    "scouted_levels": (0.12, 0.5, 0.87),
    "kept_per_level": 2,
    "polished": 1,
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
    return bool(SETTINGS.scouts == SMALL["scouts"])


def _set(values: dict[str, Any]) -> None:
    for name, value in values.items():
        object.__setattr__(SETTINGS, name, value)
