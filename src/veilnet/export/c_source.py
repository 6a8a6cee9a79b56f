"""The numbers of one agent as C, and the files that make a program of them.

Sums are of doubles, as here: the release grid is as fine as their rounding errors allow
(:mod:`veilnet.agent.grid`). With floats those errors would be 2²⁹ times as large, and would show through it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import numpy as np

from veilnet._core.errors import InvalidPlan
from veilnet._core.types import AnyArray
from veilnet.agent.sanitizer import Sanitizer
from veilnet.io._atomic import write_bytes
from veilnet.live.topics import identity
from veilnet.symbols.agent import SymbolAgent

_SHARED = ("veilnet_agent.h", "wire.h", "wire.c", "journal.h", "journal.c", "entropy.h", "entropy.c")
_LINEAR, _SYMBOLS = "veilnet_agent.c", "symbols.c"
_PLAN = "veilnet_plan.h"
_LARGEST = (
    64  # readings, numbers or hidden units: a row and its random bytes are on a microcontroller's stack
)
_SHORT = 16  # characters of a plan's id in a message


def export_c(agent: Sanitizer | SymbolAgent, plan: str, folder: Path) -> list[Path]:
    """Write the C files of one agent; InvalidPlan where it cannot be one.

    agent:  what is in an agent's file.
    plan:   the id of its plan.
    folder: is made if it is not there; files of these names are replaced.
    """
    if isinstance(agent, SymbolAgent):
        main, sizes, tables = _SYMBOLS, *_of_symbols(agent)
    else:
        main, sizes, tables = _LINEAR, *_of_sanitizer(agent)
    largest = max((size for table in tables.values() for size in table.shape), default=0)
    if largest > _LARGEST:
        raise InvalidPlan(
            f"{agent.agent}: expected at most {_LARGEST} readings, numbers sent and numbers kept, found {largest}: "
            "too many for the stack of a microcontroller; run 'veilnet agent' there, or make two agents of it"
        )
    shared = files("veilnet.export") / "c"
    contents = {name: (shared / name).read_bytes() for name in (main, *_SHARED)}
    contents[_PLAN] = _plan_header(agent.agent, plan, sizes, tables).encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / (_LINEAR if main == _SYMBOLS else _SYMBOLS)).unlink(missing_ok=True)  # of another agent, before
    for name, content in contents.items():
        write_bytes(folder / name, content)
    return [folder / name for name in contents]


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
    noise = np.diag(recipe.deviation)[recipe.deviation > 0]
    if np.any(agent.noise - np.diag(np.diag(agent.noise))):
        noise = agent.noise_root / recipe.step
    blurred = np.flatnonzero(recipe.deviation < 1.0)
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
        tables |= {"transition": memory.transition, "gain": memory.gain}
        tables |= {} if start is None else {"start": start}
    kept = 0 if memory is None else memory.order
    sizes = {
        "READINGS": agent.readings,
        "NAMED": int(bool(agent.names)),
        "NUMBERS": recipe.sent,
        "KEPT": kept,
        "DRAWN": 0 if start is None else kept,
        "DITHERS": len(recipe.dither),
        "NOISES": len(noise),
        "BLURRED": len(blurred),
        "STEP": 0 if agent.step is None else round(agent.step * 1e6),
        "BEGINS": 0 if agent.step is None else agent.step.begins,
    }
    return sizes, tables


def _of_symbols(agent: SymbolAgent) -> tuple[dict[str, int], dict[str, AnyArray]]:
    if agent.window > 1:
        raise InvalidPlan(
            f"{agent.agent}: expected a symbol for each row, found windows of {agent.window} rows, which are not "
            "exported; learn a plan without window=, or run 'veilnet agent' there"
        )
    layer = agent.layer
    sizes = {
        "READINGS": agent.readings,
        "NAMED": 1,
        "NUMBERS": 1,
        "KEPT": 0,
        "HIDDEN": len(layer.bias),
        "SHARES": len(layer.level),
        "SYMBOLS": agent.symbols,
        "PROBABILITIES": int(layer.probabilities),
        "COIN": int(agent.keep < 1),
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
            kind = "unsigned char" if table.dtype.kind == "i" else "double"
            shape = "".join(f"[{size}]" for size in table.shape)
            lines.append(f"static const {kind} veilnet_{name}{shape} = {_braced(table)};")
    return "\n".join([*lines, "#endif\n#endif\n"])


def _braced(table: AnyArray) -> str:
    """Numbers to the last bit, in the hexadecimal form that C99 reads."""
    if table.ndim:
        return "{" + ", ".join(_braced(each) for each in table) + "}"
    return str(int(table)) if table.dtype.kind == "i" else float(table).hex()


def _text(text: str) -> str:
    """A C string of any name; other bytes as octal digits, three each, so that none runs into the next."""
    plain = (
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in text.encode()
    )
    return '"' + "".join(plain) + '"'
