"""Exported agents send what veilnet's own send, to the last bit, and nothing where they are in doubt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.c_agents import Taped, build, compiled, needs_compiler, sent_by, symbol_agent, vectors
from helpers.live_networks import house_plan
from helpers.said import says
from helpers.stream_networks import random_stream
from veilnet._core.missed import MISSED
from veilnet.agent.membership import Membership
from veilnet.agent.stream import Stream
from veilnet.cli import run
from veilnet.export import export_c
from veilnet.io.sanitizer_files import from_document, save_sanitizer

pytestmark = needs_compiler
OK, IS_MISSED, NO_ENTROPY = 0, 1, 2
VECTORS = Path(__file__).resolve().parents[2] / "examples" / "device" / "vectors.json"
ROWS = 2000  # one block: veilnet's draws of a block are cut into rows afterwards


def readings_of(agent: Any, rows: int, seed: int) -> Any:
    """Readings around the offset, on the sensor's lattice, some of them beyond their limits."""
    random = np.random.default_rng(seed)
    spread = np.maximum(np.abs(agent.offset), 1.0)
    rows_of = agent.offset + spread * random.standard_normal((rows, agent.readings))
    steps = np.where(agent.steps > 0, agent.steps, 1e-3)
    return np.round(rows_of / steps) * steps


@pytest.mark.parametrize("deviation", [0.0, 0.5, 300.0], ids=["shares", "little noise", "noise"])
@pytest.mark.parametrize("agent", ["kitchen", "living room"])
def test_rows_are_the_same_to_the_last_bit(agent: str, deviation: float, tmp_path: Path) -> None:
    """Without noise, with noise below a step of the grid, which is dithered too, and on the last number alone."""
    planned = house_plan().sanitizers[agent]
    assert np.any(planned.dither)
    deviations = np.append(np.full(planned.recipe.sent - 1, min(deviation, 0.5)), deviation)
    sanitizer = planned.replace(noise=np.diag((deviations * planned.grid) ** 2))
    program = compiled(sanitizer, tmp_path)
    for seed in range(3):
        rows, source = readings_of(sanitizer, ROWS, seed), Taped(seed)
        rows[7, 0], rows[11, -1], rows[12] = np.nan, np.inf, 1e308
        centred, valid = sanitizer.recipe.examine(rows)
        expected = sanitizer.recipe.sanitize(np.where(valid[:, None], centred, 0.0), source)
        status, steps = sent_by(program, rows, source.tape(~valid), expected.shape[1])
        assert np.array_equal(status, np.where(valid, OK, IS_MISSED))
        assert np.array_equal(steps[valid] * sanitizer.grid, expected[valid])
        assert not steps[~valid].any()


@pytest.mark.parametrize("drawn", [True, False], ids=["memory drawn", "memory empty"])
def test_streams_are_the_same_to_the_last_bit(drawn: bool, tmp_path: Path) -> None:
    plan = vn.design(random_stream(24, radius=0.8))
    for name, each in plan.sanitizers.items():
        sanitizer = each if drawn else each.replace(memory=each.memory.with_start(None))
        program = compiled(sanitizer, tmp_path / name)
        rows, source = readings_of(sanitizer, ROWS, 5), Taped(6)
        rows[np.random.default_rng(7).random(ROWS) < 0.1, 0] = np.nan
        missed = np.isnan(rows).any(axis=1)
        stream = Stream(sanitizer.recipe, source)
        expected, _ = stream.advance(rows)
        status, steps = sent_by(program, rows, source.tape(missed), expected.shape[1])
        assert np.array_equal(status, np.where(missed, IS_MISSED, OK))
        assert np.array_equal(steps[~missed] * sanitizer.grid, expected[~missed])
        assert np.all(expected[missed] == MISSED)


def test_joint_noise_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    sanitizer = vn.Sanitizer(
        [[1.0, 0.5, 0.0], [0.0, 1.0, -2.0]],
        [[2.0, 0.7], [0.7, 1.0]],
        grid=[2.0**-9, 2.0**-9],
        agent='of "joint"\\ noise ü?',
    )
    rows, source = np.random.default_rng(1).standard_normal((ROWS, 3)), Taped(2)
    expected = sanitizer.recipe.sanitize(rows, source)
    status, steps = sent_by(compiled(sanitizer, tmp_path), rows, source.tape(np.zeros(ROWS, bool)), 2)
    assert not status.any()
    assert np.array_equal(steps * sanitizer.grid, expected)


def test_without_entropy_nothing_is_sent_and_a_memory_begins_anew(tmp_path: Path) -> None:
    """The tape ends in the middle of a row: from there on no row is sent, and no number of it shows."""
    plan = vn.design(random_stream(24, radius=0.8))
    sanitizer = next(iter(plan.sanitizers.values()))
    rows, source = readings_of(sanitizer, 50, 1), Taped(2)
    stream = Stream(sanitizer.recipe, source)
    stream.advance(rows)
    tape = source.tape(np.zeros(50, bool))
    each = (len(tape) - 12 * sanitizer.memory.order) // 50
    status, steps = sent_by(
        compiled(sanitizer, tmp_path), rows, tape[: -20 * each - 5], sanitizer.recipe.sent
    )
    assert status.tolist() == [OK] * 29 + [NO_ENTROPY] * 21
    assert not steps[29:].any()


@pytest.mark.parametrize("keep", [1.0, 0.7])
@pytest.mark.parametrize(("probabilities", "window"), [(True, 1), (False, 1), (True, 2), (False, 25)])
def test_symbols_are_the_same(keep: float, probabilities: bool, window: int, tmp_path: Path) -> None:
    agent = symbol_agent(keep=keep, probabilities=probabilities, window=window)
    rows, source = 2 * np.random.default_rng(1).standard_normal((ROWS, agent.readings)), Taped(3)
    rows[5, 0], rows[6, -1] = np.nan, np.inf
    released = agent.release(rows, source)
    assert 0.5 < np.mean(released.valid) < 1
    assert len(np.unique(released.values)) > 1
    tossed = [np.frombuffer(each, np.uint8).reshape(-1, 8) for each in source.alone]  # a coin, then a symbol
    tape = np.concatenate(tossed, axis=1).tobytes() if tossed else b""
    status, steps = sent_by(compiled(agent, tmp_path), rows, tape, 1)
    assert np.array_equal(status, np.where(released.valid, OK, IS_MISSED))
    assert np.array_equal(steps[released.valid, 0], released.values)


def test_what_cannot_be_a_program_is_refused_in_words(tmp_path: Path) -> None:
    silent = vn.Sanitizer(np.zeros((0, 2)), np.zeros((0, 0)), grid=[], agent="hall")
    wide = vn.Sanitizer(np.ones((1, 65)), [1.0], grid=[2.0**-9], agent="hall")
    bare = vn.Sanitizer([[1.0]], [1.0], agent="hall")
    summed = vn.Sanitizer(
        [[1.0]], grid=[2.0**-9], agent="hall", summed=Membership("all", ("hall", "bath"), 2, 20)
    )
    refused = (
        (silent, "sends nothing"),
        (wide, "found 65"),
        (bare, "expected a grid"),
        (summed, "added up"),
    )
    for sanitizer, fact in refused:
        with pytest.raises(vn.VeilnetError, match=f"hall: .*{fact}"):
            export_c(sanitizer, "plan", tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_three_planted_faults_change_what_is_sent(tmp_path: Path) -> None:
    """The comparison can fail: no dither, no grid dither, a sign wrong."""
    sanitizer = house_plan().sanitizers["kitchen"]
    rows, source = readings_of(sanitizer, ROWS, 1), Taped(2)
    expected = sanitizer.recipe.sanitize(sanitizer.recipe.examine(rows)[0], source)
    compiled(sanitizer, tmp_path)
    code = (tmp_path / "veilnet_agent.c").read_text(encoding="utf-8")
    for right, wrong in (
        ("moved(veilnet_dither[pass][k], uniform(bytes))", "0 * moved(1, uniform(bytes))"),
        ("blur(uniform(&bytes))", "0 * blur(uniform(&bytes))"),
        ("return y - veilnet_offset[k]", "return y + veilnet_offset[k]"),
    ):
        assert right in code
        (tmp_path / "veilnet_agent.c").write_text(code.replace(right, wrong), encoding="utf-8")
        build(tmp_path, "veilnet_agent.c")
        _, steps = sent_by(tmp_path / "program", rows, source.tape(np.zeros(ROWS, bool)), expected.shape[1])
        assert np.mean(steps * sanitizer.grid != expected) > 0.1


def test_published_vectors_are_what_agents_send(tmp_path: Path) -> None:
    """By veilnet's own agent, which the file is made with anew, and by the compiled one."""
    kept = json.loads(VECTORS.read_text(encoding="utf-8"))
    made = vectors([from_document(each["agent"], VECTORS) for each in kept])
    assert kept == json.loads(json.dumps(made)), f"write {json.dumps(made, indent=1)} to {VECTORS.name}"
    for place, each in enumerate(kept):
        agent = from_document(each["agent"], VECTORS)
        rows = np.array(each["rows"], dtype=float)
        program = compiled(agent, tmp_path / str(place))
        status, steps = sent_by(program, rows, bytes.fromhex(each["random_bytes"]), agent.recipe.sent)
        for row, (code, numbers) in enumerate(zip(status, each["numbers"], strict=True)):
            assert code == (IS_MISSED if numbers is None else OK)
            assert numbers is None or (steps[row] * agent.grid).tolist() == numbers


def test_a_member_of_a_sum_is_not_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its draws cancel in the sum alone: a bare message, with masks that are common to others, tells more."""
    agent = vn.Sanitizer(
        [[1.0]], grid=[2.0**-9], agent="hall", summed=Membership("all", ("hall", "bath"), 2, 20)
    )
    save_sanitizer(agent, tmp_path / "hall.json", "0123456789abcdef" * 2)
    assert run(["export", str(tmp_path / "hall.json"), "--c", str(tmp_path / "c")]) == 2
    says(capsys.readouterr().err, "hall", "'all'", "summed=")
    assert not (tmp_path / "c").exists()
