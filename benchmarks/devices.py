"""Exported agents on devices: how large they are, and whether they send what veilnet's own agents send.

    python benchmarks/devices.py                 100,000 rows of every agent of the house, as rows and as a stream
    python benchmarks/devices.py --rows 2000     fewer

Sizes need Debian's gcc-arm-none-eabi and libnewlib-arm-none-eabi, numbers made by a Cortex-M4 qemu-system-arm too:
what is missing is left out, by name. "With arithmetic" is what the program has beyond an empty one, "own" the agent's
code and tables alone. Stack is the deepest of the agent's functions. Ends with an error where a number differs.
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

from helpers.c_agents import PROGRAM, Taped, compiled, sent_by
from helpers.live_networks import house_plan, house_readings
from timing import markdown
from veilnet.agent.recipe import ROWS_AT_ONCE
from veilnet.agent.stream import Stream

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
double y[VEILNET_READINGS]; volatile int64_t sent;
int draw(void *c, uint8_t *b, size_t n) {{ (void)c; while (n--) b[n] = (uint8_t)sent; return 0; }}
int main(void) {{ {call} sent = o.steps[0]; return s; }}
"""


def text_of(path: Path, tool: str) -> int:
    lines = subprocess.run([tool, path], capture_output=True, text=True, check=True).stdout.splitlines()
    return int(lines[1].split()[0])


def sizes(agent: Any, folder: Path, compiler: str, flags: tuple[str, ...]) -> tuple[int, int, int]:
    """(own text, text with arithmetic, stack) of one agent for one target, in bytes."""
    link = ("--specs=nano.specs", "--specs=nosys.specs") if compiler == ARM else ()
    tool = compiler.replace("gcc", "size") if compiler == ARM else "size"
    (folder / "main.c").write_text(MAIN.format(call=CALLS[agent.memory is not None]), encoding="utf-8")
    (folder / "none.c").write_text("int main(void) { return 0; }\n", encoding="utf-8")

    def made(*arguments: str) -> None:
        subprocess.run([compiler, *flags, *SMALL, *arguments], cwd=folder, check=True, capture_output=True)

    made("-c", "veilnet_agent.c", "-o", "own.o")
    made(*link, "main.c", "veilnet_agent.c", "-lm", "-o", "whole")
    made(*link, "none.c", "-o", "empty")
    own = text_of(folder / "own.o", tool)
    stack = max(
        int(line.split("\t")[1]) for line in (folder / "own.su").read_text(encoding="utf-8").splitlines()
    )
    return own, text_of(folder / "whole", tool) - text_of(folder / "empty", tool), stack


def differing(agent: Any, program: Path, readings: Any, seed: int) -> tuple[int, int]:
    """(numbers that differ, numbers compared), a block of rows after the other."""
    wrong = compared = 0
    for start in range(0, len(readings), ROWS_AT_ONCE):
        rows, source = readings[start : start + ROWS_AT_ONCE], Taped(seed + start)
        missed = np.zeros(len(rows), bool)
        if agent.memory is None:
            expected = agent.recipe.sanitize(agent.recipe.examine(rows)[0], source)
        else:
            expected = Stream(agent.recipe, source).advance(rows)[0]
        status, steps = sent_by(program, rows, source.tape(missed), expected.shape[1])
        wrong += int(np.sum((steps * agent.grid != expected) | (status != 0)[:, None]))
        compared += expected.size
    return wrong, compared


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args().rows
    table, wrong, compared, slow_wrong, slow = [], 0, 0, 0, 0
    with tempfile.TemporaryDirectory() as there:
        for stream in (False, True):
            plan = house_plan(stream=stream)
            _, readings = house_readings(plan, rows, seed=1)
            for name, agent in plan.sanitizers.items():
                folder = Path(there) / f"{stream}" / name.replace(" ", "-")
                program = compiled(agent, folder)
                found = differing(agent, program, readings[name], 1)
                wrong, compared = wrong + found[0], compared + found[1]
                runner = on_arm(folder)
                if runner is not None:
                    found = differing(agent, runner, readings[name][: max(1, rows // 50)], 2)
                    slow_wrong, slow = slow_wrong + found[0], slow + found[1]
                kept = 0 if agent.memory is None else agent.memory.order
                row = [name, "stream" if stream else "rows", f"{agent.readings}, {agent.recipe.sent}, {kept}"]
                for flags in TARGETS.values() if shutil.which(ARM) else ():
                    row.append("{} / {} / {}".format(*sizes(agent, folder, ARM, flags)))
                row.append("{} / {} / {}".format(*sizes(agent, folder, "gcc", ())))
                table.append(row)
    machines = [*(TARGETS if shutil.which(ARM) else ()), "x86-64"]
    heads = [f"{each}: own / with arithmetic / stack" for each in machines]
    print(markdown(["agent", "plan", "readings, numbers, kept", *heads], table))
    print(f"figure compared: {compared}\nfigure different: {wrong}")
    if slow:
        print(f"figure compared_on_arm: {slow}\nfigure different_on_arm: {slow_wrong}")
    else:
        print(f"not run: {ARM} and {EMULATOR} are not both installed")
    return 1 if wrong + slow_wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
