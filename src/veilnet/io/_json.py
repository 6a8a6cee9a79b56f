"""JSON as veilnet reads and writes it: strictly, and with infinities spelled out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import Any, NoReturn

_NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def parse(text: str | bytes) -> Any:
    """The value of a JSON text; a ValueError for what is no JSON, or JSON that readers could take differently.

    A key given twice, of which each reader keeps another one; NaN and Infinity, which JSON does not know; nesting
    deeper than Python's stack.
    """
    try:
        return json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("lists or tables are nested too deeply") from None


def plain(value: Any) -> Any:
    """A value as JSON can hold it; numbers that are not finite become "inf", "-inf" and "nan"."""
    if hasattr(value, "tolist"):  # arrays and numbers of NumPy, without loading it
        listed = value.tolist()
        return listed if _all_finite(value) else plain(listed)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [plain(item) for item in value]
    raise TypeError(f"cannot write a {type(value).__name__} as JSON")


def _all_finite(value: Any) -> bool:
    """Whether an array holds nothing but finite numbers, so that it needs no look at each."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return kind in ("b", "i", "u", "f") and bool((abs(value) < math.inf).all())


def with_infinities(value: Any) -> Any:
    """The inverse of :func:`plain` for numbers that are not finite."""
    if isinstance(value, str):
        return _NOT_FINITE.get(value, value)
    if isinstance(value, dict):
        return {name: with_infinities(item) for name, item in value.items()}
    if isinstance(value, list):
        return [with_infinities(item) for item in value]
    return value


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in table if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is given twice in one table; remove one of them")
    return table


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
