"""Read-only objects that can still be pickled and copied: processes of a search hand them around."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np


class Picklable:
    """Read-only mappings go out as dicts and come back read-only, as do read-only arrays."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: _Locked(value) if _is_locked(value) else value for name, value in self.__dict__.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(
            {name: value.lock() if isinstance(value, _Locked) else value for name, value in state.items()}
        )


class _Locked:
    """What was read-only, on its way."""

    def __init__(self, value: Any) -> None:
        self.value = value
        if isinstance(value, MappingProxyType):
            self.value = {key: _Locked(item) if _is_locked(item) else item for key, item in value.items()}

    def lock(self) -> Any:
        if isinstance(self.value, dict):
            unlocked = self.value.items()
            return MappingProxyType({key: i.lock() if isinstance(i, _Locked) else i for key, i in unlocked})
        self.value.flags.writeable = False
        return self.value


def _is_locked(value: Any) -> bool:
    return isinstance(value, MappingProxyType) or (
        isinstance(value, np.ndarray) and not value.flags.writeable
    )
