"""A run that is cut off when something is called for the so-manieth time."""

from __future__ import annotations

from functools import wraps
from types import ModuleType

import pytest


def cut_off_at(patch: pytest.MonkeyPatch, module: ModuleType, name: str, call: int) -> list[int]:
    """Let a function of a module count its calls, and raise KeyboardInterrupt at one of them; the calls so far."""
    called: list[int] = []
    function = getattr(module, name)

    @wraps(function)
    def counted(*arguments: object) -> object:
        called.append(1)
        if len(called) == call:
            raise KeyboardInterrupt
        return function(*arguments)

    patch.setattr(module, name, counted)
    return called
