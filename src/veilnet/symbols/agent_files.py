"""One agent's file of a plan of symbols: what that agent needs, read with NumPy alone (docs/reference/formats.md)."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from veilnet.io import _formats
from veilnet.io._kinds import NUMBER, PACKED, TEXT, VECTOR, WHOLE, WORDS, YES, ObjectOf, file_errors
from veilnet.io._sealed import open_sealed, seal, sealed_bytes
from veilnet.symbols.agent import Layer, SymbolAgent

_LAYER = ObjectOf(
    Layer, mean=VECTOR, scale=VECTOR, enter=PACKED, bias=VECTOR, leave=PACKED, level=VECTOR, probabilities=YES
)
AGENT = ObjectOf(
    SymbolAgent,
    agent=TEXT,
    names=WORDS,
    window=WHOLE,
    low=VECTOR,
    high=VECTOR,
    layer=_LAYER,
    code=PACKED,
    start=VECTOR,
    keep=NUMBER,
    meanings=WORDS,
)


def sealed(form: str, record: ObjectOf, value: Any, plan: str) -> bytes:
    """The bytes of a file with one object of a plan of this id."""
    return seal({"format": form, "plan": plan} | record.write(value))


def of_plan(document: Mapping[str, Any], record: ObjectOf, path: Path) -> tuple[Any, str]:
    """The object in a file's document, and the plan's id; InvalidPlan names the file and the place."""
    rest = {name: each for name, each in document.items() if name not in ("format", "plan")}
    with file_errors(path):
        return record.read(rest), TEXT.read(document.get("plan"), "plan")


def is_symbol_file(content: bytes) -> bool:
    """Whether the bytes of a sealed file begin as one of a plan of symbols."""
    return b'"veilnet-symbol-' in content[:64]


def load_agent(path: str | PathLike[str]) -> SymbolAgent:
    """Read one agent's file; a changed, truncated or foreign one is refused."""
    return agent_from_bytes(sealed_bytes(Path(path)), Path(path))[0]


def agent_from_bytes(content: bytes, path: Path) -> tuple[SymbolAgent, str]:
    """The agent and the plan's id in the bytes of a file; ``path`` only names the file in errors."""
    return of_plan(open_sealed(path, _formats.SYMBOL_AGENT, content), AGENT, path)
