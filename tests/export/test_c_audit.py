"""The audit runs an exported agent as a black box: it passes the honest one, and finds planted faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.c_agents import build, needs_compiler, symbol_agent
from helpers.live_networks import house_plan
from veilnet.auditing.deployed.commands import CommandMechanism
from veilnet.auditing.deployed.symbols import program_rows
from veilnet.cli import run
from veilnet.export import export_c

pytestmark = needs_compiler
FILTER = Path(__file__).resolve().parents[2] / "examples" / "device" / "filter.c"
FAULTS = {
    "noise used once": ("row, veilnet_system_entropy", "row, the_same"),
    "combinations sent": ("if (++number % VEILNET_WINDOW) continue;", "row[0] *= 1.01, number++;"),
    "on the public grid": ("veilnet_number(&message, j)", "veilnet_number(&message, j) + 1e-7"),
}

THE_SAME = "int the_same(void *c, uint8_t *b, size_t n) { (void)c; memset(b, 7, n); return 0; }\n"


def audited(
    kind: str, folder: Path, capsys: pytest.CaptureFixture[str], fault: tuple[str, str] | None
) -> set[str]:
    """What failed in an audit of the kitchen's exported program."""
    plan = folder / "plan"
    house_plan(stream="stream" in kind).save(plan)
    arithmetic = "fixed" if "fixed" in kind else "double"
    export = ["export", str(plan / "kitchen.json"), "--c", str(folder / "c"), "--arithmetic", arithmetic]
    assert run(export) == 0
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


@pytest.mark.parametrize("kind", ["rows", "stream", "fixed", "stream fixed"])
def test_the_audit_passes_an_exported_agent(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not audited(kind, tmp_path, capsys, None)


@pytest.mark.parametrize("kind", ["rows", "stream", "fixed", "stream fixed"])
@pytest.mark.parametrize("what", FAULTS)
def test_the_audit_finds_a_planted_fault(
    what: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A generator that is constant, a coefficient 1 % off, numbers off the grid."""
    assert what in audited(kind, tmp_path, capsys, FAULTS[what])


SYMBOL_FAULTS = {
    "none": ("", ""),
    "constant": ("row, veilnet_system_entropy", "row, the_same"),
    "no coin": ("uniform(bytes) >= veilnet_keep[0]", "uniform(bytes) > 2"),
    "kept too often": ("uniform(bytes) >= veilnet_keep[0]", "uniform(bytes) >= veilnet_keep[0] + 0.05"),
    "another code": ("score += veilnet_first[m]", "score += veilnet_first[m] + 0.1 * (double)m"),
    "no range": ("return 0;\n    for (size_t h", "(void)0;\n    for (size_t h"),
}
FOUND = {
    "none": set(),
    "constant": {"combinations sent"},
    "no coin": {"combinations sent"},
    "kept too often": {"combinations sent"},
    "another code": {"combinations sent"},
    "no range": {"answers to readings"},
}


@pytest.mark.parametrize("fault", SYMBOL_FAULTS)
@pytest.mark.parametrize(("keep", "window"), [(1.0, 1), (0.7, 1), (0.7, 2), (1.0, 25)])
def test_programs_of_symbols_are_audited(fault: str, keep: float, window: int, tmp_path: Path) -> None:
    """The honest one passes; a constant generator, a false coin, another code and a lost range are found."""
    if keep == 1 and ("coin" in fault or fault in ("constant", "kept too often")):
        return  # nothing is drawn
    agent = symbol_agent(keep=keep, window=window)
    export_c(agent, "0123456789abcdef", tmp_path)
    right, wrong = SYMBOL_FAULTS[fault]
    for path, source in ((tmp_path / "program.c", FILTER), (tmp_path / "symbols.c", tmp_path / "symbols.c")):
        code = (
            source.read_text(encoding="utf-8").replace(right, wrong) if right else source.read_text("utf-8")
        )
        path.write_text(code.replace("/* The readings of", f"{THE_SAME}/* The readings of"), encoding="utf-8")
    program = build(tmp_path, "symbols.c", "entropy.c")
    rows = program_rows(agent, CommandMechanism([str(program)], agent.names), seed=3)
    assert FOUND[fault] <= {row.what for row in rows if row.verdict == "fail"}
    assert (fault == "none") == all(row.verdict == "ok" for row in rows)


def test_coins_that_repeat_from_call_to_call_are_found() -> None:
    """Each call alone is honest: only two of them together show that they begin alike."""
    agent = symbol_agent(keep=0.7)
    for repeats in (False, True):
        seeds = iter([5, 5, 6] if repeats else [5, 7, 6])
        rows = program_rows(agent, lambda y: agent.send(y, rng=next(seeds))[:, None].astype(float), seed=3)  # noqa: B023
        failed = {row.what for row in rows if row.verdict == "fail"}
        assert failed == ({"noise used once"} if repeats else set())
