"""The audit runs an exported agent as a black box: it passes the honest one, and finds planted faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.c_agents import build, needs_compiler
from helpers.live_networks import house_plan
from veilnet.cli import run

pytestmark = needs_compiler
FILTER = Path(__file__).resolve().parents[2] / "examples" / "device" / "filter.c"
FAULTS = {
    "noise used once": ("row, veilnet_system_entropy", "row, the_same"),
    "combinations sent": ("read_row(line, row);", "read_row(line, row), row[0] *= 1.01;"),
    "on the public grid": ("veilnet_number(&message, j)", "veilnet_number(&message, j) + 1e-7"),
}

THE_SAME = "int the_same(void *c, uint8_t *b, size_t n) { (void)c; memset(b, 7, n); return 0; }\n"


def audited(
    stream: bool, folder: Path, capsys: pytest.CaptureFixture[str], fault: tuple[str, str] | None
) -> set[str]:
    """What failed in an audit of the kitchen's exported program."""
    plan = folder / "plan"
    house_plan(stream=stream).save(plan)
    assert run(["export", str(plan / "kitchen.json"), "--c", str(folder / "c")]) == 0
    code = FILTER.read_text(encoding="utf-8")
    if fault is not None:
        assert fault[0] in code
        code = code.replace(*fault).replace("/* The readings of", f"{THE_SAME}/* The readings of")
    (folder / "c" / "program.c").write_text(code, encoding="utf-8")
    program = build(folder / "c", "veilnet_agent.c", "entropy.c")
    capsys.readouterr()
    options = ("--only", "deployed", "--quick", "--json")
    status = run(["audit", str(plan), "--run", f"kitchen='{program}'", *options])
    rows = json.loads(capsys.readouterr().out)["rows"]
    failed = {row["what"] for row in rows if row["verdict"] == "fail"}
    assert status == int(bool(failed))
    return failed


@pytest.mark.parametrize("stream", [False, True], ids=["rows", "stream"])
def test_the_audit_passes_an_exported_agent(
    stream: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not audited(stream, tmp_path, capsys, None)


@pytest.mark.parametrize("what", FAULTS)
def test_the_audit_finds_a_planted_fault(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert what in audited(False, tmp_path, capsys, FAULTS[what])
