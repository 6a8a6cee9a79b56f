"""The ESPHome component, compiled against declarations of what it uses of ESPHome, on a flash that outlives restarts.

ESPHome itself is no dependency: its interfaces are those of its release 2026.6, with which the component was tried.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

import veilnet as vn
from helpers.c_agents import compiler, needs_compiler
from helpers.code_blocks import ROOT
from helpers.live_networks import TOPICS, Wired, house_readings
from helpers.said import says
from veilnet.export import export_c
from veilnet.io.template import house
from veilnet.live.messages import Seal

COMPONENT = ROOT / "examples/esphome/components/veilnet"
SECRET = b"kitchen".ljust(32, b".")  # as Wired seals
STEP, START = 900, 1_700_000_000 // 900 * 900

ESPHOME = {
    "core/component.h": """#pragma once
namespace esphome {
struct Component {
  virtual void setup() {} virtual void loop() {} virtual void dump_config() {}
  virtual float get_setup_priority() const { return 0; }
  void mark_failed() { failed = true; }
  bool failed = false;
};
namespace setup_priority { const float AFTER_CONNECTION = 100.0f; }
}""",
    "core/preferences.h": """#pragma once
#include <cstdint>
#include <cstdio>
#include <map>
#include <vector>
namespace esphome {
struct Preferences;
struct ESPPreferenceObject {
  Preferences *all = nullptr; uint32_t key = 0;
  template<typename T> bool save(const T *from); template<typename T> bool load(T *to);
};
struct Preferences { /* whole pieces, on the disk after sync() alone */
  std::map<uint32_t, std::vector<uint8_t>> saved;
  template<typename T> ESPPreferenceObject make_preference(uint32_t key, bool) { return {this, key}; }
  bool sync();
};
template<typename T> bool ESPPreferenceObject::save(const T *from) {
  auto *bytes = reinterpret_cast<const uint8_t *>(from);
  all->saved[key].assign(bytes, bytes + sizeof(T));
  return true;
}
template<typename T> bool ESPPreferenceObject::load(T *to) {
  auto found = all->saved.find(key);
  if (found == all->saved.end()) return false;
  for (size_t i = 0; i < sizeof(T); i++) reinterpret_cast<uint8_t *>(to)[i] = found->second[i];
  return true;
}
extern Preferences *global_preferences;
}""",
    "core/defines.h": "#define USE_MQTT",
    "core/hal.h": "#pragma once\n#include <cstdint>\nnamespace esphome { uint32_t millis(); }",
    "core/helpers.h": """#pragma once
#include <cstdint>
#include <string>
namespace esphome {
uint32_t fnv1_hash(const std::string &text);
inline bool parse_hex(const std::string &text, uint8_t *data, size_t count) {
  for (size_t i = 0; i < count; i++) data[i] = (uint8_t)std::stoi(text.substr(2 * i, 2), nullptr, 16);
  return text.size() == 2 * count;
}
}""",
    "core/log.h": """#pragma once
#include <cstdio>
#define ESP_LOGE(tag, ...) (fprintf(stderr, "E "), fprintf(stderr, __VA_ARGS__), fprintf(stderr, "\\n"))
#define ESP_LOGW(tag, ...) (fprintf(stderr, "W "), fprintf(stderr, __VA_ARGS__), fprintf(stderr, "\\n"))
#define ESP_LOGCONFIG(tag, ...) (fprintf(stderr, __VA_ARGS__), fprintf(stderr, "\\n"))""",
    "components/sensor/sensor.h": """#pragma once
#include <functional>
namespace esphome::sensor {
struct Sensor {
  std::function<void(float)> heard;
  template<typename F> void add_on_state_callback(F &&callback) { heard = callback; }
};
}""",
    "components/time/real_time_clock.h": """#pragma once
#include <ctime>
namespace esphome {
struct ESPTime { time_t timestamp; bool is_valid() const { return timestamp > 1546300800; } };
namespace time { struct RealTimeClock { time_t now = 0; ESPTime utcnow() { return {now}; } }; }
}""",
    "components/mqtt/mqtt_client.h": """#pragma once
#include <functional>
#include <string>
#include <cstdint>
#include <cstdio>
namespace esphome::mqtt {
struct MQTTClientComponent {
  bool up = true; std::string heard; std::function<void(const std::string &, const std::string &)> callback;
  bool is_connected() { return up; }
  void subscribe(const std::string &topic, std::function<void(const std::string &, const std::string &)> c, uint8_t) {
    heard = topic; callback = c;
  }
  bool publish(const std::string &topic, const char *payload, size_t count, uint8_t qos, bool retain) {
    printf("%s %d %d ", topic.c_str(), qos, retain);
    for (size_t i = 0; i < count; i++) printf("%02x", (unsigned)(uint8_t)payload[i]);
    printf("\\n");
    return true;
  }
};
extern MQTTClientComponent *global_mqtt_client;
}""",
}

# Lines: "t SECONDS" sets the clock, "y PLACE VALUE" is a reading, "r HEX" a receipt, "c 0" ends the connection.
PROGRAM = r"""
#include <iostream>
#include "esphome/components/veilnet/veilnet.h"
#include "esphome/components/mqtt/mqtt_client.h"
#include "esphome/core/hal.h"
#include "esphome/core/helpers.h"
using namespace esphome;
static Preferences preferences;
static mqtt::MQTTClientComponent broker;
static const char *kept;
Preferences *esphome::global_preferences = &preferences;
mqtt::MQTTClientComponent *esphome::mqtt::global_mqtt_client = &broker;
static time::RealTimeClock wall;
uint32_t esphome::millis() { return (uint32_t)(wall.now * 1000); }
uint32_t esphome::fnv1_hash(const std::string &text) { uint32_t h = 1; for (char c : text) h = h * 31 + c; return h; }
bool Preferences::sync() {
  FILE *file = fopen(kept, "wb");
  for (auto &each : saved) {
    uint32_t head[2] = {each.first, (uint32_t)each.second.size()};
    fwrite(head, sizeof head, 1, file);
    fwrite(each.second.data(), each.second.size(), 1, file);
  }
  return fclose(file) == 0;
}
int main(int, char **argv) {
  uint32_t head[2];
  kept = argv[1];
  if (FILE *file = fopen(kept, "rb")) {
    while (fread(head, sizeof head, 1, file) == 1) {
      auto &bytes = preferences.saved[head[0]];
      bytes.resize(head[1]);
      if (fread(bytes.data(), head[1], 1, file) != 1) return 2;
    }
    fclose(file);
  }
  veilnet::Veilnet agent;
  sensor::Sensor sensors[VEILNET_READINGS];
  agent.set_clock(&wall); agent.set_root("veilnet"); agent.set_seal(argv[2]);
  for (size_t k = 0; k < VEILNET_READINGS; k++) agent.set_reading(k, &sensors[k]);
  agent.setup(); agent.dump_config();
  std::string what, rest;
  while (std::cin >> what >> rest) {
    if (what == "t") wall.now = std::stoll(rest);
    if (what == "c") broker.up = rest == "1";
    if (what == "y") { double value; std::cin >> value; sensors[std::stoi(rest)].heard((float)value); }
    if (what == "r") {
      std::string bytes(rest.size() / 2, '\0');
      parse_hex(rest, (uint8_t *)&bytes[0], bytes.size());
      broker.callback(broker.heard, bytes);
    }
    agent.loop();
    printf(agent.failed ? "failed\n" : ".\n");
    fflush(stdout);
  }
}
"""
pytestmark = [
    needs_compiler,
    pytest.mark.skipif(
        shutil.which("g++") is None, reason="no C++ compiler: 'apt-get install g++' brings one"
    ),
]


@pytest.fixture(scope="module")
def wired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wired]:
    made = Wired(tmp_path_factory.mktemp("house"), vn.design(house(), step="15min"), quorum=1)
    yield made
    made.close()


@pytest.fixture(scope="module")
def program(wired: Wired, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("esphome")
    for name, text in ESPHOME.items():
        file = folder / "esphome" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", encoding="utf-8")
    ours = folder / "esphome/components/veilnet"
    shutil.copytree(COMPONENT, ours)
    export_c(wired.plan.sanitizers["kitchen"], wired.id, ours, "fixed")  # as the page does
    (folder / "main.cpp").write_text(PROGRAM, encoding="utf-8")
    warned = ("-Wall", "-Wextra", "-Werror", "-Os")
    sources = sorted(map(str, ours.glob("*.c")))
    subprocess.run([str(compiler), *warned, "-c", *sources], cwd=folder, check=True)
    files = ("main.cpp", str(ours / "veilnet.cpp"), *(f"{Path(each).stem}.o" for each in sources))
    subprocess.run(
        ["g++", "-std=gnu++20", *warned, "-fno-exceptions", "-I.", "-o", "program", *files, "-lm"],
        cwd=folder,
        check=True,
    )
    return folder / "program"


class Device:
    """The component, running on a flash."""

    def __init__(self, program: Path, flash: Path) -> None:
        words = [program, flash, SECRET.hex()]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def given(self, *lines: str) -> list[bytes]:
        """What was published meanwhile; every line ends in one that says that nothing failed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        published = []
        for line in lines:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            while (said := self._process.stdout.readline().strip()) != ".":
                topic, service, retained, digits = said.split()
                assert (topic, service, retained) == (TOPICS.messages("kitchen"), "1", "0")
                published.append(bytes.fromhex(digits))
        return published

    def epoch(self, number: int, row: list[float]) -> list[bytes]:
        """Readings in one epoch, and the first second of the next."""
        began = START + number * STEP
        readings = [f"y {place} {value!r}" for place, value in enumerate(row)]
        return self.given(f"t {began + 1}", *readings, f"t {began + STEP}")

    def cut(self) -> None:
        """The power fails."""
        self._process.kill()
        self._process.communicate()
        self._process.wait()


@pytest.fixture
def device(program: Path, tmp_path: Path) -> Iterator[Device]:
    running = Device(program, tmp_path / "flash")
    yield running
    running.cut()


def receipts(wired: Wired, payloads: list[bytes]) -> list[str]:
    """What the centre says to them."""
    taken = wired.centre.take([(TOPICS.messages("kitchen"), each) for each in payloads], 0.0)
    assert taken.refused == 0
    return [f"r {Seal(SECRET).receipt(receipt).hex()}" for _, receipt in taken.receipts]


def test_a_device_sends_each_epoch_until_its_receipt_also_over_a_power_cut(
    program: Path, wired: Wired, tmp_path: Path, device: Device
) -> None:
    _, readings = house_readings(wired.plan, 4)
    rows = readings["kitchen"].tolist()
    assert not device.given("t 12", "y 0 1.5", "t 2000")  # before the clock is set nothing has an epoch
    (first,) = device.epoch(0, rows[0])
    message = Seal(SECRET).open_message(first)
    assert (message.plan, message.sequence) == (wired.id[:16], 1)
    assert message.epoch == wired.plan.sanitizers["kitchen"].step.row_at(START * 10**6)
    assert message.numbers() is not None
    (second,) = device.epoch(1, rows[1])  # what has no receipt does not hold up what comes after
    assert Seal(SECRET).open_message(second).epoch == message.epoch + 1
    assert device.given(f"t {START + 2 * STEP + 6}", f"t {START + 2 * STEP + 12}") == [first, second]
    device.cut()
    again = Device(program, tmp_path / "flash")
    assert set(again.given(f"t {START + 2 * STEP + 2}")) == {first}
    assert again.given(*receipts(wired, [first])) == [second]
    assert not again.given(*receipts(wired, [second]))
    assert not again.given("r 00", f"r {first.hex()}")
    again.cut()
    last = Device(program, tmp_path / "flash")
    assert not last.epoch(0, rows[2])  # an epoch is never drawn again
    last.cut()


def test_a_reading_that_does_not_come_is_told_as_missed(wired: Wired, device: Device) -> None:
    _, readings = house_readings(wired.plan, 1)
    row = readings["kitchen"][0].tolist()
    (whole,) = device.epoch(10, row)
    device.given(*receipts(wired, [whole]))
    (missed,) = device.epoch(11, row[:-1])  # a value of the epoch before is not used again
    assert Seal(SECRET).open_message(missed).numbers() is None
    device.given(*receipts(wired, [missed]), "c 0")
    assert not device.epoch(12, row)
    (late,) = device.given("c 1")
    assert Seal(SECRET).open_message(late).sequence == 3


class Invalid(Exception):
    """As ESPHome has it: a configuration that is refused."""


def component(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The component's Python, beside exported files, with stand-ins for ESPHome's modules."""
    names = ("", ".codegen", ".config_validation", ".final_validate", ".components", ".const", ".core")
    modules = {f"esphome{name}": MagicMock() for name in names}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    checks = modules["esphome.config_validation"]
    checks.Invalid, checks.string_strict = Invalid, str
    modules["esphome"].config_validation, modules["esphome"].final_validate = (
        checks,
        modules["esphome.final_validate"],
    )
    modules["esphome.const"].CONF_INTERNAL, modules["esphome.const"].CONF_LEVEL = "internal", "level"
    modules["esphome.core"].CORE.is_host = False
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = spec_from_file_location("veilnet_component", shutil.copy(COMPONENT / "__init__.py", folder))
    assert spec is not None
    assert spec.loader is not None
    found = module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_a_configuration_that_would_tell_more_is_refused(
    wired: Wired, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = component(tmp_path, monkeypatch)
    config = {"readings": ["temperature", "co2", "humidity", "power"]}
    with pytest.raises(Invalid) as none:
        found._as_planned(config)
    says(none.value, "veilnet_plan.h", "veilnet export")
    kitchen = wired.plan.sanitizers["kitchen"]
    export_c(kitchen, wired.id, tmp_path)
    assert found._as_planned(config) is config
    with pytest.raises(Invalid) as few:
        found._as_planned({"readings": ["temperature"]})
    says(few.value, "readings", 4, 1)
    export_c(kitchen.replace(step=None), wired.id, tmp_path)
    with pytest.raises(Invalid) as timeless:
        found._as_planned(config)
    says(timeless.value, "--step")
    assert found._seal(SECRET.hex()) == SECRET.hex()
    with pytest.raises(Invalid) as short:
        found._seal("00")
    says(short.value, "seal", 64, "seal.key")


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({}, []),
        ({"logger": {"level": "DEBUG"}}, ["logger", "DEBUG", "level: INFO"]),
        ({"logger": {"level": "VERBOSE"}}, ["logger", "VERBOSE"]),
        ({"internal": False}, ["readings", "co2", "internal: true"]),
        ({"mqtt": None}, ["mqtt:"]),
    ],
)
def test_raw_readings_leave_by_no_other_door(
    change: dict[str, Any], facts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = component(tmp_path, monkeypatch)
    whole = {"logger": {"level": "INFO"}, "mqtt": {}, "internal": True} | change
    own = {"internal": whole.pop("internal")}
    if whole["mqtt"] is None:
        del whole["mqtt"]

    class Whole(dict[str, Any]):
        def get_path_for_id(self, _: str) -> list[str]:
            return ["sensor", "id"]

        def get_config_for_path(self, _: list[str]) -> dict[str, Any]:
            return own

    found.fv.full_config.get.return_value = Whole(whole)
    config = {"readings": ["co2"]}
    if not facts:
        assert found._stays_on_the_device(config) is config
        return
    with pytest.raises(Invalid) as refused:
        found._stays_on_the_device(config)
    says(refused.value, *facts)
