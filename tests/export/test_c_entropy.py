"""Random bytes on an ESP32, compiled against the declarations it uses: none while nothing feeds the generator."""

from __future__ import annotations

import shutil
import subprocess
from ctypes import CDLL, byref, c_int, c_size_t, create_string_buffer
from pathlib import Path
from typing import Any

import pytest

from helpers.c_agents import FLAGS, compiled, compiler, needs_compiler, sent_by
from helpers.live_networks import house_plan
from veilnet.export import export_c

pytestmark = needs_compiler
NO_ENTROPY = 2
RISC_V = shutil.which("riscv64-unknown-elf-gcc") if Path("/usr/lib/picolibc").is_dir() else None

# As ESP-IDF declares them; errors of a radio that was not initialized (1) or not started (2) are its own.
HEADERS = {
    "esp_random.h": "#include <stddef.h>\nvoid esp_fill_random(void *bytes, size_t count);\n",
    "esp_wifi.h": "#include <stdint.h>\ntypedef int esp_err_t;\n#define ESP_OK 0\n"
    "esp_err_t esp_wifi_get_max_tx_power(int8_t *power);\n",
}
CHIP = """#include "esp_random.h"
#include "esp_wifi.h"
int radio = 0x3001; /* ESP_ERR_WIFI_NOT_INIT */
int filled;
void esp_fill_random(void *bytes, size_t count) {
    filled++;
    for (size_t i = 0; i < count; i++) ((uint8_t *)bytes)[i] = (uint8_t)(7 * i + 1);
}
esp_err_t esp_wifi_get_max_tx_power(int8_t *power) { return *power = 80, radio; }
"""


@pytest.fixture(scope="module")
def chip(tmp_path_factory: pytest.TempPathFactory) -> CDLL:
    folder = tmp_path_factory.mktemp("esp32")
    export_c(house_plan().sanitizers["kitchen"], "0123456789abcdef", folder)
    for name, text in {**HEADERS, "program.c": CHIP}.items():
        (folder / name).write_text(text, encoding="utf-8")
    flags = (*FLAGS, "-DESP_PLATFORM", "-I.", "-shared", "-fPIC", "-o", "chip.so")
    subprocess.run([str(compiler), *flags, "program.c", "entropy.c"], cwd=folder, check=True)
    return CDLL(str(folder / "chip.so"))


def drawn(chip: CDLL, context: Any = None) -> tuple[int, bytes, int]:
    """(status, bytes, how often the generator was asked) of one draw."""
    room, asked = create_string_buffer(16), c_int.in_dll(chip, "filled")
    asked.value = 0
    status = chip.veilnet_system_entropy(context, room, c_size_t(16))
    return status, room.raw, asked.value


@pytest.mark.parametrize("radio", [0x3001, 0x3002], ids=["not initialized", "not started"])
def test_an_esp32_gives_nothing_while_its_radio_is_off(chip: CDLL, radio: int) -> None:
    c_int.in_dll(chip, "radio").value = radio
    assert drawn(chip) == (1, bytes(16), 0)
    for fed in (0, 2, -1):
        assert drawn(chip, byref(c_int(fed))) == (1, bytes(16), 0)
    assert drawn(chip, byref(c_int(1)))[::2] == (0, 1)  # the SAR ADC feeds it


def test_an_esp32_gives_bytes_once_its_radio_was_started(chip: CDLL) -> None:
    c_int.in_dll(chip, "radio").value = 0
    status, found, asked = drawn(chip)
    assert (status, asked) == (0, 1)
    assert found == bytes((7 * i + 1) % 256 for i in range(16))
    assert drawn(chip, byref(c_int(0))) == (1, bytes(16), 0)  # who says that nothing feeds it is believed


@pytest.mark.skipif(
    RISC_V is None,
    reason="no RISC-V: 'sudo apt-get install gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf' brings it",
)
def test_an_esp32_c3_has_code_for_it(chip: CDLL) -> None:
    """All files of an agent, for the processor of that chip, with the declarations of ESP-IDF that they use."""
    folder = Path(chip._name).parent
    files = [path.name for path in folder.glob("*.c") if path.name != "program.c"]
    assert {"entropy.c", "journal.c", "release.c", "veilnet_agent.c", "wire.c"} == set(files)
    flags = (*FLAGS, "-march=rv32imc", "-mabi=ilp32", "--specs=picolibc.specs", "-DESP_PLATFORM", "-I.", "-c")
    subprocess.run([str(RISC_V), *flags, *files], cwd=folder, check=True)
    assert b"esp_fill_random" in (folder / "entropy.o").read_bytes()


@pytest.mark.parametrize("stream", [False, True], ids=["rows", "stream"])
def test_a_source_that_fails_in_the_middle_sends_nothing_of_the_row(stream: bool, tmp_path: Path) -> None:
    """Bytes end within a row: neither that row nor a later one shows a number."""
    sanitizer = house_plan(stream=stream).sanitizers["kitchen"]
    program = compiled(sanitizer, tmp_path)
    rows = sanitizer.offset + 1.0 + 0.0 * sanitizer.steps[None].repeat(5, axis=0)
    for length in range(40, 2000, 8):
        status, steps = sent_by(program, rows, bytes([3]) * length, sanitizer.recipe.sent)
        sent = status == 0
        assert set(status.tolist()) <= {0, NO_ENTROPY}
        assert not steps[~sent].any()
        if sent.all():
            break
        assert not sent[int(sent.sum()) :].any()
    assert sent.all()
