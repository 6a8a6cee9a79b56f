"""The numbers of one agent as C, and the files that make a program of them.

Sums are of doubles, as here: the release grid hides their rounding errors (:mod:`veilnet.agent.grid`). Those of
floats are 2²⁹ times as large, those of 32-bit fixed point 2²¹ times.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import numpy as np

from veilnet._core.errors import InvalidPlan
from veilnet._core.types import AnyArray, Array
from veilnet.agent.grid import CROSSING_LIMIT
from veilnet.agent.recipe import reach
from veilnet.agent.sanitizer import Sanitizer
from veilnet.io._atomic import write_bytes
from veilnet.live.topics import identity
from veilnet.symbols.agent import SymbolAgent

_SHARED = (
    "veilnet_agent.h",
    "wire.h",
    "wire.c",
    "journal.h",
    "journal.c",
    "release.h",
    "release.c",
    "entropy.h",
    "entropy.c",
)
_LINEAR, _SYMBOLS = "veilnet_agent.c", "symbols.c"
_PLAN = "veilnet_plan.h"
# readings, numbers or hidden units: a row and its random bytes are on a microcontroller's stack
_LARGEST = 64
# How near to their offset readings stay with other arithmetic, of what doubles allow: 2^-52 of 2^-23, and of 2^-31
_OTHER = {"float": (2.0**-29, "floats"), "fixed": (2.0**-21, "32-bit fixed point")}
_SHORT = 16  # characters of a plan's id in a message


def export_c(
    agent: Sanitizer | SymbolAgent, plan: str, folder: Path, arithmetic: str = "double"
) -> list[Path]:
    """Write the C files of one agent; InvalidPlan where it cannot be one.

    agent:      what is in an agent's file.
    plan:       the id of its plan.
    folder:     is made if it is not there; files of these names are replaced.
    arithmetic: of its sums; anything but doubles is refused, with what it would cost this agent.
    """
    if arithmetic != "double":
        raise InvalidPlan(
            f"--arithmetic: expected double for {agent.agent}, found {arithmetic}: {_cost(agent, arithmetic)}; a "
            "compiler computes doubles in software (docs/how-to/agent-in-c.md says at what cost)"
        )
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


def rounding(agent: Sanitizer | SymbolAgent) -> float:
    """The chance that rounding errors of a row's sums show in what is sent, at most: of readings that are as far from
    their offset as they usually are, where that is known. 0 of symbols, of which certificates count every one.
    """
    if isinstance(agent, SymbolAgent) or agent.grid is None or not agent.sent:
        return 0.0
    if agent.usual is None:
        return CROSSING_LIMIT
    return CROSSING_LIMIT * float(
        np.mean(_distance(agent) / reach(agent.compression, agent.grid, agent.memory))
    )


def _cost(agent: Sanitizer | SymbolAgent, arithmetic: str) -> str:
    """What other arithmetic would do to the promise.

    The rounding errors of a row's sums have to stay below 2⁻¹² of a step of the grid, which limits how far readings
    may be from their offset (:func:`veilnet.agent.recipe.reach`). A sum of doubles is off by at most 2⁻⁵³ of its
    terms with each operation, one of floats by 2⁻²⁴; one of fixed point by 2⁻³² of the largest its words can hold.
    """
    if isinstance(agent, SymbolAgent) or agent.grid is None or not agent.sent:
        return "its messages would differ from those that the plan's certificate is about"
    share, words = _OTHER[arithmetic]
    allowed = share * reach(agent.compression, agent.grid, agent.memory)
    worst = int(np.argmin(allowed / _distance(agent)))
    what = repr(agent.names[worst]) if agent.names else f"reading {worst + 1}"
    usual = ""
    if agent.usual is not None:
        usual = f"; it usually is {agent.usual[0][worst]:.3g} ± {agent.usual[1][worst]:.3g}"
    return (
        f"rounding errors of {words} would show through the grid of what is sent, unless {what} stayed within "
        f"{allowed[worst]:.2g} of {agent.offset[worst]:.3g}{usual}"
    )


def _distance(agent: Sanitizer) -> Array:
    """How far readings usually are from their offset; 1 where that is not known."""
    if agent.usual is None:
        return np.ones(agent.readings)
    return np.asarray(np.hypot(agent.usual[0] - agent.offset, agent.usual[1]))


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
        "WINDOW": 1,
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
