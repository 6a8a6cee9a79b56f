"""JSON files that notice when they were cut off or changed.

A sealed file is a JSON table with its ``format`` and a ``checksum``: SHA-256 over the rest without spaces, keys
in the order of the file. That finds accidents and naive edits. It is no signature: who can rewrite the
file can rewrite the checksum too, which is why ``veilnet verify`` re-derives every promise from a network the
user trusts. Floats are written with the fewest digits that read back to the same bits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from veilnet._core.errors import InvalidNetwork, InvalidPlan
from veilnet.io import _json, _reading
from veilnet.io._formats import check_format

_LIMIT = 2**30  # bytes
_AGAIN = "copy it again, or save the plan again"


def digest(document: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical form."""
    return hashlib.sha256(_canonical(document)).hexdigest()


def seal(document: dict[str, Any]) -> bytes:
    """The bytes of a sealed file: one line per key, and per entry of a table of tables."""
    return "".join(laid_out(document | {"checksum": digest(document)})).encode()


def laid_out(document: Mapping[str, Any]) -> Iterator[str]:
    """The JSON of a document, piece by piece: one line per key, and per entry of a table of tables."""
    yield "{"
    for place, (name, value) in enumerate(document.items()):
        yield f"{',' if place else ''}\n{_text(name)}: "
        if isinstance(value, dict) and value and all(isinstance(item, dict) for item in value.values()):
            for within, (key, item) in enumerate(value.items()):
                yield f"{',' if within else '{'}\n {_text(key)}: {_text(item)}"
            yield "\n}"
        else:
            yield _text(value)
    yield "\n}\n"


def open_sealed(path: Path, expected: str, content: bytes | None = None) -> dict[str, Any]:
    """The table of a sealed file, without its checksum, which was found right; ``content`` as for read_sealed."""
    document, intact = read_sealed(path, expected, content)
    if not intact:
        raise InvalidPlan(
            f"{path}: the checksum does not match, so the file was changed or damaged; {_AGAIN}"
        )
    return document


def sealed_bytes(path: Path) -> bytes:
    """All bytes of a file that may be sealed, within the limit."""
    try:
        return _reading.read_bytes(path, _LIMIT)
    except InvalidNetwork as error:
        raise InvalidPlan(str(error)) from error


def read_sealed(path: Path, expected: str, content: bytes | None = None) -> tuple[dict[str, Any], bool]:
    """The table of a file of the expected format, and whether its checksum is right.

    content: the bytes of the file, where they were read before; the file is not opened again.
    """
    content = sealed_bytes(path) if content is None else content
    try:
        document = _json.parse(content.decode("utf-8"))
    except ValueError as error:
        raise InvalidPlan(
            f"{path}: not readable as JSON ({_short(error)}); it was cut off or damaged: {_AGAIN}"
        ) from error
    if not isinstance(document, dict):
        raise InvalidPlan(f"{path}: expected a JSON table, found another value; is it the right file?")
    try:
        check_format(document.get("format"), expected)
    except InvalidPlan as error:
        raise InvalidPlan(f"{path}: {error}") from None
    checksum = document.pop("checksum", None)
    if not isinstance(checksum, str):
        raise InvalidPlan(f"{path}: the checksum is missing; the file was cut off or changed: {_AGAIN}")
    try:
        return document, digest(document) == checksum
    except (ValueError, RecursionError) as error:
        raise InvalidPlan(f"{path}: holds what JSON cannot ({_short(error)}); {_AGAIN}") from error


def format_of(path: Path) -> tuple[str, str | None]:
    """(format, plan id) of a sealed file with a right checksum; ("", None) for anything else."""
    try:
        text = _reading.read_bytes(path, _LIMIT).decode("utf-8")
        found = _json.parse(text).get("format")
        document = open_sealed(path, found) if isinstance(found, str) else {}
    except (ValueError, AttributeError):
        return "", None
    plan = document.get("plan")
    return str(document.get("format", "")), plan if isinstance(plan, str) else None


def _canonical(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_json.plain)


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
