"""Exported agents on devices: how large they are, and whether they send what veilnet's own agents send.

    python benchmarks/devices.py                 100,000 rows of every agent of the house, as rows and as a stream
    python benchmarks/devices.py --rows 2000     fewer

Rows and streams are sent by sums of doubles, as veilnet's own agents send them, and by sums of whole numbers, which
Python's integers check.

Sizes need Debian's gcc-arm-none-eabi and libnewlib-arm-none-eabi, numbers made by a Cortex-M4 qemu-system-arm too:
what is missing is left out, by name. "With arithmetic" is what the program has beyond an empty one, "own" the agent's
code and tables alone, "data" what it keeps in memory. Stack is the deepest of the agent's functions. Instructions are
those of one row, counted by the emulator; doubles are done in software. Ends with an error where a number differs.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from helpers.c_agents import PROGRAM, compiled, sent_by
from helpers.c_fixed import WholeNumbers
from helpers.live_networks import house_plan, house_readings
from timing import markdown
from veilnet.agent.recipe import ROWS_AT_ONCE
from veilnet.agent.stream import Stream
from veilnet.export import Arithmetic

ARM, EMULATOR = "arm-none-eabi-gcc", "qemu-system-arm"
# A board with memory from 0 on and from 0x20000000 on, whose files are those of this machine (semihosting).
VECTORS = """extern void _start(void);
__attribute__((section(".vectors"), used)) static void *const vectors[2] = {(void *)0x20400000, (void *)_start};
"""
BOARD = """MEMORY { code (rx) : ORIGIN = 0, LENGTH = 4M data (rwx) : ORIGIN = 0x20000000, LENGTH = 4M }
SECTIONS {
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) KEEP(*(.init)) KEEP(*(.fini)) } > code
  .ARM.exidx : { __exidx_start = .; *(.ARM.exidx*) __exidx_end = .; } > code
  .data : { *(.data*) } > data
  .init_array : { __preinit_array_start = .; __preinit_array_end = .; __init_array_start = .; KEEP(*(.init_array*))
    __init_array_end = .; __fini_array_start = .; KEEP(*(.fini_array*)) __fini_array_end = .; } > data
  .bss : { __bss_start__ = .; *(.bss*) *(COMMON) __bss_end__ = .; } > data
  end = .; __end__ = .;
}
"""
TARGETS = {
    "Cortex-M0+": ("-mcpu=cortex-m0plus", "-mthumb"),
    "Cortex-M4": ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
}
SMALL = ("-std=c99", "-Os", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "-fstack-usage")
CALLS = {
    False: "veilnet_message o; int s = veilnet_sanitize(y, draw, 0, &o);",
    True: "static veilnet_state k; veilnet_message o; int s = veilnet_step(&k, y, draw, 0, &o);",
}
MAIN = """#include "veilnet_agent.h"
veilnet_reading y[VEILNET_READINGS]; volatile int64_t sent;
int draw(void *c, uint8_t *b, size_t n) {{ (void)c; while (n--) b[n] = (uint8_t)sent; return 0; }}
int main(void) {{ {call} sent = o.steps[0]; return s; }}
"""


def text_and_data(path: Path, tool: str) -> tuple[int, int]:
    lines = subprocess.run([tool, path], capture_output=True, text=True, check=True).stdout.splitlines()
    text, data, zeros = map(int, lines[1].split()[:3])
    return text, data + zeros


def sizes(agent: Any, folder: Path, compiler: str, flags: tuple[str, ...]) -> dict[str, int]:
    """Own text, text with arithmetic, own data (a memory) and stack of one agent for one target, in bytes."""
    link = ("--specs=nano.specs", "--specs=nosys.specs") if compiler == ARM else ()
    tool = compiler.replace("gcc", "size") if compiler == ARM else "size"
    (folder / "main.c").write_text(MAIN.format(call=CALLS[agent.memory is not None]), encoding="utf-8")
    (folder / "none.c").write_text("int main(void) { return 0; }\n", encoding="utf-8")

    def made(*arguments: str) -> None:
        subprocess.run([compiler, *flags, *SMALL, *arguments], cwd=folder, check=True, capture_output=True)

    made("-c", "veilnet_agent.c", "-o", "own.o")
    made(*link, "main.c", "veilnet_agent.c", "-lm", "-o", "whole")
    made(*link, "none.c", "-o", "empty")
    stack = max(
        int(line.split("\t")[1]) for line in (folder / "own.su").read_text(encoding="utf-8").splitlines()
    )
    own, data = text_and_data(folder / "own.o", tool)
    whole = text_and_data(folder / "whole", tool)[0] - text_and_data(folder / "empty", tool)[0]
    kept = 0 if agent.memory is None else 8 * agent.memory.order + 8  # a veilnet_state of yours
    return {"own": own, "whole": whole, "data": data + kept, "stack": stack}


def arithmetic_of(kind: str) -> Arithmetic:
    return "fixed" if kind.endswith("fixed") else "double"


def differing(agent: Any, program: Path, readings: Any, kind: str, seed: int) -> tuple[int, int]:
    """(numbers that differ, numbers compared), a block of rows after the other."""
    wrong = compared = 0
    for start in range(0, len(readings), ROWS_AT_ONCE):
        rows, source = readings[start : start + ROWS_AT_ONCE], WholeNumbers(seed + start)
        missed = np.zeros(len(rows), bool)
        if arithmetic_of(kind) == "fixed":
            expected = source.device(agent, rows.astype(np.float32)) * agent.grid
        elif agent.memory is None:
            expected = agent.recipe.sanitize(agent.recipe.examine(rows)[0], source)
        else:
            expected = Stream(agent.recipe, source).advance(rows)[0]
        tape, form = source.tape(missed), "<f4" if arithmetic_of(kind) == "fixed" else "<f8"
        status, steps = sent_by(program, rows, tape, expected.shape[1], form)
        wrong += int(np.sum((steps * agent.grid != expected) | (status != 0)[:, None]))
        compared += expected.size
    return wrong, compared


COUNTED = """#include <stdio.h>
#include "veilnet_agent.h"
#define SYSTICK ((volatile uint32_t *)0xe000e010)
veilnet_reading y[VEILNET_READINGS]; volatile int64_t sent;
int draw(void *c, uint8_t *b, size_t n) {{ (void)c; while (n--) b[n] = (uint8_t)(n * 41 + 7); return 0; }}
int main(void) {{
    SYSTICK[1] = 0xffffff, SYSTICK[2] = 0, SYSTICK[0] = 5;
    uint32_t began = SYSTICK[2];
    for (int row = 0; row < 100; row++) {{ {call} sent = o.steps[0] + s; }}
    printf("%lu\\n", (unsigned long)((began - SYSTICK[2]) & 0xffffff));
    return 0;
}}
"""
TICK = 40  # instructions, where each takes a nanosecond of a clock of 25 MHz (-icount shift=0)


def instructions(agent: Any, folder: Path, target: str) -> int:
    """Instructions of one row, on an emulated machine that runs the code of a target."""
    program = COUNTED.format(call=CALLS[agent.memory is not None])
    (folder / "counted.c").write_text(program, encoding="utf-8")
    flags = (
        *(each for each in TARGETS[target] if "float" not in each and "fpu" not in each),
        "-std=c99",
        "-Os",
    )
    files = ("counted.c", "veilnet_agent.c", "vectors.c", "-lm", "--specs=rdimon.specs", "-Tboard.ld")
    subprocess.run([ARM, *flags, "-o", "counted", *files], cwd=folder, check=True)
    machine = ("-M", "mps2-an386", "-nographic", "-monitor", "none", "-serial", "none", "-icount", "shift=0")
    words = (*machine, "-semihosting-config", "enable=on,target=native", "-kernel", "counted")
    found = subprocess.run([EMULATOR, *words], cwd=folder, check=True, capture_output=True, text=True)
    return TICK * int((found.stdout + found.stderr).split()[0]) // 100


def on_arm(folder: Path) -> Path | None:
    """The same program for a Cortex-M4 and what runs it, emulated; None where that is not installed."""
    if not (shutil.which(ARM) and shutil.which(EMULATOR)):
        return None
    (folder / "program.c").write_text(PROGRAM, encoding="utf-8")
    (folder / "vectors.c").write_text(VECTORS, encoding="utf-8")
    (folder / "board.ld").write_text(BOARD, encoding="utf-8")
    flags = ("-mcpu=cortex-m4", "-mthumb", "-std=c99", "-Os", "--specs=rdimon.specs", "-Tboard.ld")
    sources = ("program.c", "veilnet_agent.c", "vectors.c")
    subprocess.run([ARM, *flags, "-o", "arm", *sources, "-lm"], cwd=folder, check=True)
    runner, machine = folder / "on-arm", "-M mps2-an386 -nographic -monitor none -serial none"
    files = f"-semihosting-config enable=on,target=native,arg=arm,arg=$1 -kernel {folder}/arm"
    runner.write_text(f"#!/bin/sh\nexec {EMULATOR} {machine} {files}\n", encoding="utf-8")
    runner.chmod(0o755)
    return runner


def _key(target: str) -> str:
    return target.removeprefix("Cortex-").replace("+", "").replace("-64", "").lower()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args().rows
    table, wrong, compared, slow_wrong, slow = [], 0, 0, 0, 0
    machines = {**(TARGETS if shutil.which(ARM) else {}), "x86-64": ()}
    shown: list[str] = []
    with tempfile.TemporaryDirectory() as there:
        for kind in ("rows", "fixed", "stream", "stream fixed", "noisy rows", "noisy fixed"):
            plan = house_plan(stream=kind.startswith("stream"))
            _, readings = house_readings(plan, rows, seed=1)
            agents = plan.sanitizers
            if kind.startswith("noisy"):  # as an agent of the house is with noise: one is enough for its size
                free = agents["kitchen"]
                agents = {"kitchen": free.replace(noise=np.diag((300.0 * free.grid) ** 2))}
            for name, agent in agents.items():
                folder = Path(there) / kind.replace(" ", "-") / name.replace(" ", "-")
                program = compiled(agent, folder, arithmetic=arithmetic_of(kind))
                off = differing(agent, program, readings[name], kind, 1)
                wrong, compared = wrong + off[0], compared + off[1]
                runner = on_arm(folder)
                if runner is not None:
                    off = differing(agent, runner, readings[name][: max(1, rows // 50)], kind, 2)
                    slow_wrong, slow = slow_wrong + off[0], slow + off[1]
                kept = 0 if agent.memory is None else agent.memory.order
                row = [name, kind, f"{agent.readings}, {agent.recipe.sent}, {kept}"]
                for target, flags in machines.items():
                    found = sizes(agent, folder, ARM if flags else "gcc", flags)
                    if flags and runner is not None:
                        found["instructions"] = instructions(agent, folder, target)
                    row.append(" / ".join(map(str, found.values())))
                    if name == "kitchen":  # four readings: the agent of the page's table
                        shown += [
                            f"{kind.replace(' ', '_')}_{_key(target)}_{what}: {size}"
                            for what, size in found.items()
                        ]
                table.append(row)
    heads = [f"{each}: own / with arithmetic / data / stack / instructions" for each in machines]
    print(markdown(["agent", "plan", "readings, numbers, kept", *heads], table))
    print(*(f"figure {each}" for each in shown), sep="\n")
    print(f"figure compared: {compared}\nfigure different: {wrong}")
    if slow:
        print(f"figure compared_on_arm: {slow}\nfigure different_on_arm: {slow_wrong}")
    else:
        print(f"not run: {ARM} and {EMULATOR} are not both installed")
    return 1 if wrong + slow_wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
