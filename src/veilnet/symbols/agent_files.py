"""One agent's file of a plan of symbols: what that agent needs, read with NumPy alone (docs/reference/formats.md)."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from veilnet.io import _formats
from veilnet.io._kinds import NUMBER, PACKED, TEXT, VECTOR, WORDS, YES, Table, file_errors
from veilnet.io._sealed import open_sealed, sealed_bytes
from veilnet.symbols.agent import Layer, SymbolAgent

__all__ = ["AGENT", "FIELDS", "agent_from_bytes", "agent_of", "is_symbol_file", "load_agent", "values_of"]

_OF_LAYER: dict[str, Any] = {
    "mean": VECTOR,
    "scale": VECTOR,
    "enter": PACKED,
    "bias": VECTOR,
    "leave": PACKED,
    "level": VECTOR,
    "probabilities": YES,
}
FIELDS: dict[str, Any] = {
    "agent": TEXT,
    "names": WORDS,
    "low": VECTOR,
    "high": VECTOR,
    **_OF_LAYER,
    "code": PACKED,
    "start": VECTOR,
    "keep": NUMBER,
    "meanings": WORDS,
}
AGENT = Table(plan=TEXT, **FIELDS)


def is_symbol_file(content: bytes) -> bool:
    """Whether the bytes of a sealed file begin as one of a plan of symbols."""
    return b'"veilnet-symbol-' in content[:64]


def load_agent(path: str | PathLike[str]) -> SymbolAgent:
    """Read one agent's file; a changed, truncated or foreign one is refused."""
    return agent_from_bytes(sealed_bytes(Path(path)), Path(path))[0]


def agent_from_bytes(content: bytes, path: Path) -> tuple[SymbolAgent, str]:
    """The agent and the plan's id in the bytes of a file; ``path`` only names the file in errors."""
    found = AGENT.values(open_sealed(path, _formats.SYMBOL_AGENT, content), path)
    with file_errors(path):
        return agent_of(found), found["plan"]


def values_of(agent: SymbolAgent) -> dict[str, Any]:
    """What is said of an agent."""
    return {name: getattr(agent.layer if name in _OF_LAYER else agent, name) for name in FIELDS}


def agent_of(found: Mapping[str, Any]) -> SymbolAgent:
    """The agent that values describe; InvalidNetwork where they do not fit together."""
    layer = Layer(**{name: found[name] for name in _OF_LAYER})
    return SymbolAgent(layer=layer, **{name: found[name] for name in FIELDS if name not in _OF_LAYER})
