"""Exported agents, compiled and run: a program that reads rows and random bytes, and the same bytes for Python."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veilnet.agent.randomness import NoiseSource, normal_from_bits
from veilnet.agent.stream import Stream
from veilnet.export import Arithmetic, export_c
from veilnet.io.outbox import Message
from veilnet.io.sanitizer_files import to_document
from veilnet.live.messages import Seal
from veilnet.symbols.agent import Layer, SymbolAgent

FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Os")
compiler = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(
    compiler is None, reason="no C compiler: 'sudo apt-get install gcc libc6-dev' brings one"
)

# Rows of readings on standard input: a status and the numbers in steps of each, as 64-bit integers, come out.
PROGRAM = r"""
#include <stdio.h>
#include <string.h>
#include "veilnet_agent.h"
static int from_file(void *tape, uint8_t *bytes, size_t count) { return fread(bytes, 1, count, tape) != count; }
int main(int argc, char **argv) {
    veilnet_reading row[VEILNET_READINGS];
    veilnet_message message;
    FILE *tape = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (!tape) return 2;
#if VEILNET_KEPT
    static veilnet_state state;
#endif
    while (fread(row, sizeof row, 1, stdin) == 1) {
#if VEILNET_KEPT
        int64_t status = veilnet_step(&state, row, from_file, tape, &message);
#else
        int64_t status = veilnet_sanitize(row, from_file, tape, &message);
#endif
        fwrite(&status, sizeof status, 1, stdout);
        fwrite(message.steps, sizeof message.steps, 1, stdout);
    }
    return 0;
}
"""


def compiled(
    agent: Any,
    folder: Path,
    program: str = PROGRAM,
    *,
    sources: Sequence[str] = (),
    flags: Sequence[str] = (),
    plan: str = "0123456789abcdef0123",
    arithmetic: Arithmetic = "double",
) -> Path:
    """A program around an exported agent."""
    written = export_c(agent, plan, folder, arithmetic)
    main = next(path.name for path in written if path.name in ("veilnet_agent.c", "symbols.c"))
    (folder / "program.c").write_text(program, encoding="utf-8")
    return build(folder, main, *sources, *flags)


def build(folder: Path, *sources: str) -> Path:
    """The program of program.c and more."""
    assert compiler is not None
    subprocess.run([compiler, *FLAGS, "-o", "program", "program.c", *sources, "-lm"], cwd=folder, check=True)
    return folder / "program"


def sent_by(program: Path, rows: Any, tape: bytes, numbers: int, kind: str = "<f8") -> tuple[Any, Any]:
    """(statuses, steps) of rows, readings of some kind, with a tape of random bytes."""
    bytes_file = program.with_name("tape")
    bytes_file.write_bytes(tape)
    found = subprocess.run(
        [program, bytes_file],
        input=np.ascontiguousarray(rows, kind).tobytes(),
        capture_output=True,
        check=True,
    )
    table = np.frombuffer(found.stdout, "<i8").reshape(len(rows), 1 + numbers)
    return table[:, 0], table[:, 1:]


class Taped(NoiseSource):
    """Draws as from the operating system, of bytes that are kept: those of each call and row, in order."""

    private = True

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.of_rows: list[Any] = []  # (T, bytes) of each draw for T rows
        self.alone: list[bytes] = []  # of draws that belong to no row of a block: those of a memory

    def _bytes(self, shape: tuple[int, ...], each: int) -> Any:
        drawn = self._random.integers(0, 256, (*shape, each), dtype=np.uint8)
        if len(shape) == 1:
            self.alone.append(drawn.tobytes())
        else:
            self.of_rows.append(drawn.reshape(shape[0], -1))
        return drawn.reshape(-1, each)

    def normal(self, shape: tuple[int, ...]) -> Any:
        drawn = self._bytes(shape, 12)
        leading = np.ascontiguousarray(drawn[:, :8]).view("<u8").reshape(-1)
        trailing = np.ascontiguousarray(drawn[:, 8:]).view("<u4").reshape(-1)
        return normal_from_bits(leading, trailing).reshape(shape)

    def uniform(self, shape: tuple[int, ...]) -> Any:
        return (self._bytes(shape, 8).view("<i8").reshape(-1) * 2.0**-64).reshape(shape)

    def tape(self, missed: Any) -> bytes:
        """The bytes as a device takes them: a memory's at the start and in each missed row, a row's in each other."""
        of_rows = (
            np.concatenate(self.of_rows, axis=1) if self.of_rows else np.zeros((len(missed), 0), np.uint8)
        )
        alone = iter(self.alone)
        parts = [next(alone, b"")]
        parts += [next(alone, b"") if gone else of_rows[row].tobytes() for row, gone in enumerate(missed)]
        return b"".join(parts)


def library(agent: Any, folder: Path, **options: Any) -> ctypes.CDLL:
    """An exported agent with its wire and its journal, to be called from here."""
    program = compiled(
        agent,
        folder,
        "",
        sources=("wire.c", "journal.c"),
        flags=("-shared", "-fPIC", "-Wno-pedantic"),
        **options,
    )
    return ctypes.CDLL(str(program))


def vectors(agents: Sequence[Any]) -> list[dict[str, Any]]:
    """Rows, random bytes and numbers of some agents; those of a stream miss a row."""
    found = []
    for sanitizer in agents:
        source, random = Taped(1), np.random.default_rng(2)
        rows = np.round(sanitizer.offset + random.standard_normal((4, sanitizer.readings)), 1)
        missed = np.array([False, False, sanitizer.memory is not None, False])
        if sanitizer.memory is None:
            numbers = sanitizer.recipe.sanitize(sanitizer.recipe.examine(rows)[0], source)
        else:
            rows[2, 0] = np.nan
            numbers = Stream(sanitizer.recipe, source).advance(rows)[0]
        sealed = Seal(bytes(range(32))).message(
            Message(
                "0123456789abcdef",
                sanitizer.agent,
                bytes(8),
                3,
                17,
                0,
                True,
                numbers[3].astype("<f8").tobytes(),
            )
        )
        found.append(
            {
                "agent": to_document(sanitizer, "0123456789abcdef" * 2),
                "rows": [[None if np.isnan(each) else each for each in row] for row in rows.tolist()],
                "random_bytes": source.tape(missed).hex(),
                "numbers": [None if gone else row for gone, row in zip(missed, numbers.tolist(), strict=True)],
                "message_of_last_row": {
                    "secret": bytes(range(32)).hex(), "store": bytes(8).hex(), "sequence": 3, "epoch": 17, "after": 0,
                    "bytes": sealed.hex(),
                },
            }
        )  # fmt: skip
    return found


def symbol_agent(*, keep: float, probabilities: bool = True, window: int = 1) -> SymbolAgent:
    """An agent of symbols with numbers at random."""
    random = np.random.default_rng(4)
    many = 3 if window == 1 else 9
    layer = Layer(
        random.standard_normal(many), random.uniform(0.5, 2, many), random.standard_normal((many, 8)),
        random.standard_normal(8), random.standard_normal((8, 4)), random.standard_normal(4), probabilities,
    )  # fmt: skip
    edge, code, start = np.full(many, 4.0), random.random((5, 4)), 0.1 * random.random(5)
    return SymbolAgent("hall", ["a", "b", "c"], window, -edge, edge, layer, code, start, keep, "12345")
