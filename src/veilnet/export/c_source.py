"""The numbers of one agent as C, and the files that make a program of them.

Sums are of doubles, as here: the release grid hides their rounding errors (:mod:`veilnet.agent.grid`). Or they are
of whole numbers (:mod:`veilnet.export.fixed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Literal

import numpy as np

from veilnet._core.errors import InvalidPlan
from veilnet._core.types import AnyArray
from veilnet.agent.grid import CROSSING_LIMIT
from veilnet.agent.recipe import reach
from veilnet.agent.sanitizer import Sanitizer
from veilnet.export.fixed import fixed_of, quantile, rows_of_noise
from veilnet.io._atomic import write_bytes
from veilnet.live.topics import identity
from veilnet.symbols.agent import SymbolAgent

Arithmetic = Literal["double", "fixed"]

_LINEAR, _SYMBOLS = "veilnet_agent.c", "symbols.c"
_PLAN = "veilnet_plan.h"
# readings, numbers or hidden units: a row and its random bytes are on a microcontroller's stack
_LARGEST = 64
_SHORT = 16  # characters of a plan's id in a message
_TYPES = {
    "float64": "double",
    "float32": "float",
    "int64": "int64_t",
    "int32": "int32_t",
    "uint8": "uint8_t",
    "int8": "int8_t",
}


def export_c(
    agent: Sanitizer | SymbolAgent, plan: str, folder: Path, arithmetic: Arithmetic = "double"
) -> list[Path]:
    """Write the C files of one agent; InvalidPlan where it cannot be one.

    agent:      what is in an agent's file.
    plan:       the id of its plan.
    folder:     is made if it is not there; files of these names are replaced.
    arithmetic: of its sums.
    """
    if isinstance(agent, SymbolAgent):
        main, sizes, tables = _SYMBOLS, *_of_symbols(agent)
    else:
        main, sizes, tables = _LINEAR, *_of_sanitizer(agent)
    if arithmetic == "fixed":
        sizes, tables = _in_whole_numbers(agent, sizes, tables)
    largest = max((size for table in tables.values() for size in table.shape), default=0)
    if largest > _LARGEST:
        raise InvalidPlan(
            f"{agent.agent}: expected at most {_LARGEST} readings, numbers sent and numbers kept, found {largest}: "
            "too many for the stack of a microcontroller; run 'veilnet agent' there, or make two agents of it"
        )
    other = _LINEAR if main == _SYMBOLS else _SYMBOLS
    sources = sorted((files("veilnet.export") / "c").iterdir(), key=lambda file: file.name)
    contents = {file.name: file.read_bytes() for file in sources if file.name != other}
    shows = rounding(agent, arithmetic)
    said = (
        f"/* Rounding shows in a row that is sent with a chance of {shows:.1g} at most. */\n" if shows else ""
    )
    contents[_PLAN] = (said + _plan_header(agent.agent, plan, sizes, tables)).encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / other).unlink(missing_ok=True)  # of another agent, before
    for name, content in contents.items():
        write_bytes(folder / name, content)
    return [folder / name for name in contents]


def rounding(agent: Sanitizer | SymbolAgent, arithmetic: Arithmetic = "double") -> float:
    """The chance that rounding errors of a row's sums show in what is sent, at most. Doubles: of readings that are
    as far from their offset as they usually are, where that is known. 0 of symbols: certificates count every one.
    """
    if isinstance(agent, SymbolAgent) or agent.grid is None or not agent.sent:
        return 0.0
    if arithmetic == "fixed":
        return fixed_of(agent).shows
    if agent.usual is None:
        return CROSSING_LIMIT
    distance = np.hypot(agent.usual[0] - agent.offset, agent.usual[1])
    return CROSSING_LIMIT * float(np.mean(distance / reach(agent.compression, agent.grid, agent.memory)))


def _of_sanitizer(agent: Sanitizer) -> tuple[dict[str, int], dict[str, AnyArray]]:
    recipe, memory = agent.recipe, agent.memory
    if recipe.step is None:
        raise InvalidPlan(f"{agent.agent}: expected a grid, found none; export an agent's file out of a plan")
    if agent.summed is not None:
        raise InvalidPlan(
            f"{agent.agent}: its messages are only added up with those of {agent.summed.group!r}; a bare one tells "
            "more; run 'veilnet agent' there, or design without summed="
        )
    if not recipe.sent:
        raise InvalidPlan(f"{agent.agent}: this agent sends nothing in its plan: it needs no program")
    noise = rows_of_noise(agent)
    blurred = np.flatnonzero(recipe.deviation < 1.0).astype(np.uint8)
    low, high = (edge.vector for edge in recipe.limits)
    tables: dict[str, AnyArray] = {
        "low": low,
        "high": high,
        "offset": np.zeros(agent.readings) if recipe.offset is None else recipe.offset.vector,
        "dither": np.array([widths.vector for widths in recipe.dither]),
        "rows": recipe.rows.T,
        "noise": noise,
        "blurred": blurred,
        "grid": recipe.step,
    }
    start = None if memory is None else memory.start_root
    if memory is not None:
        tables |= {"next": np.hstack([memory.transition, memory.gain])}
        tables |= {} if start is None else {"start": start}
    kept = 0 if memory is None else memory.order
    sizes = {
        "READINGS": agent.readings,
        "WINDOW": 1,
        "NAMED": int(bool(agent.names)),
        "NUMBERS": recipe.sent,
        "KEPT": kept,
        "DRAWN": 0 if start is None else kept,
        "DITHERS": len(recipe.dither),
        "NOISES": len(noise),
        "BLURRED": len(blurred),
        "FRACTION": 0,
        "STEP": 0 if agent.step is None else round(agent.step * 1e6),
        "BEGINS": 0 if agent.step is None else agent.step.begins,
    }
    return sizes, tables


def _of_symbols(agent: SymbolAgent) -> tuple[dict[str, int], dict[str, AnyArray]]:
    layer = agent.layer
    sizes = {
        "READINGS": agent.readings,
        "WINDOW": agent.window,
        "FEATURES": len(agent.low),
        "NAMED": 1,
        "NUMBERS": 1,
        "KEPT": 0,
        "HIDDEN": len(layer.bias),
        "SHARES": len(layer.level),
        "SYMBOLS": agent.symbols,
        "PROBABILITIES": int(layer.probabilities),
        "COIN": int(agent.keep < 1),
        "FRACTION": 0,
        "STEP": 0,
        "BEGINS": 0,
    }
    tables: dict[str, AnyArray] = {
        "low": agent.low,
        "high": agent.high,
        **{name: getattr(layer, name) for name in ("mean", "scale", "enter", "bias", "leave", "level")},
        "code": agent.code,
        "first": agent.start,
    }
    return sizes, tables | ({"keep": np.array([agent.keep])} if agent.keep < 1 else {})


def _in_whole_numbers(
    agent: Sanitizer | SymbolAgent, sizes: dict[str, int], tables: dict[str, AnyArray]
) -> tuple[dict[str, int], dict[str, AnyArray]]:
    """The sizes and tables of sums of whole numbers in place of those of doubles."""
    if isinstance(agent, SymbolAgent):
        raise InvalidPlan(
            f"--arithmetic: expected double for {agent.agent}, found fixed: its certificate counts symbols of "
            "doubles; a compiler computes them in software (docs/how-to/agent-in-c.md)"
        )
    fixed = fixed_of(agent)
    sizes |= {"FRACTION": fixed.fraction, "REST": fixed.rest, "BLURRED": agent.recipe.sent}
    tables |= {
        "low": fixed.limits[0],
        "high": fixed.limits[1],
        "scale": fixed.scale,
        "offset": fixed.offset,
        "dither": fixed.dither,
        "rows": fixed.rows,
        "next": fixed.next,
        "start": fixed.start,
        "noise": fixed.noise,
        **({"quantile": quantile()} if fixed.noise.size + fixed.start.size else {}),
        "blurred": np.arange(agent.recipe.sent, dtype=np.uint8),
    }
    return sizes, tables


def _plan_header(agent: str, plan: str, sizes: Mapping[str, int], tables: Mapping[str, AnyArray]) -> str:
    """Numbers of one agent: sizes for everybody, tables for the file that defines VEILNET_TABLES."""
    lines = [
        f"/* One agent of plan {plan[:_SHORT]}, written by 'veilnet export': export again rather than edit. */",
        "#ifndef VEILNET_PLAN_H\n#define VEILNET_PLAN_H\n",
        f"#define VEILNET_AGENT {_text(agent)}",
        f"#define VEILNET_IDENTITY {_text(identity(agent))}",
        f"#define VEILNET_PLAN {_text(plan[:_SHORT])}",
        *(
            f"#define VEILNET_{name} {size}{'LL' if abs(size) > 32767 else ''}"
            for name, size in sizes.items()
        ),
        "\n#ifdef VEILNET_TABLES",
    ]
    for name, table in tables.items():
        if table.size:
            kind = _TYPES[table.dtype.name]
            shape = "".join(f"[{size}]" for size in table.shape)
            lines.append(f"static const {kind} veilnet_{name}{shape} = {_braced(table)};")
    return "\n".join([*lines, "#endif\n#endif\n"])


def _braced(table: AnyArray) -> str:
    """Numbers to the last bit, in the hexadecimal form that C99 reads."""
    if table.ndim:
        return "{" + ", ".join(_braced(each) for each in table) + "}"
    return float(table).hex() if table.dtype.kind == "f" else f"{int(table)}"


def _text(text: str) -> str:
    """A C string of any name; other bytes as octal digits, three each, so that none runs into the next."""
    plain = (
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in text.encode()
    )
    return '"' + "".join(plain) + '"'
