"""A small TOML writer: tables, text, whole numbers and arrays of floats, exact to the last bit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(document: Mapping[str, Any]) -> Iterator[str]:
    """The text of a document, piece by piece: plain values first, then its tables, in order."""
    return (line + "\n" for line in _table(document, ()))


def key(name: str) -> str:
    """A key, quoted where TOML asks for it."""
    return name if _BARE_KEY.fullmatch(name) else text(name)


def dotted(*names: str) -> str:
    """A path of keys as TOML writes it."""
    return ".".join(key(name) for name in names)


def text(value: str) -> str:
    """A quoted string; JSON's escapes are TOML's, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    inner = {name: value for name, value in table.items() if isinstance(value, Mapping)}
    plain = [(name, value) for name, value in table.items() if name not in inner]
    if path and (plain or not inner):
        yield ""
        yield f"[{dotted(*path)}]"
    for name, value in plain:
        yield f"{key(name)} = {_value(value)}"
    for name, value in inner.items():
        yield from _table(value, (*path, name))


def _value(value: Any) -> str:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    raise TypeError(f"no way to write a {type(value).__name__} as TOML")


def _array(array: np.ndarray[Any, Any]) -> str:
    if array.ndim < 2:
        # repr of a Python float is the shortest text that reads back as the same float
        return repr(array.tolist())
    return "[\n" + "".join(f"  {row.tolist()!r},\n" for row in array) + "]"
