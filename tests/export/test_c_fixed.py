"""Agents exported with sums of whole numbers: exact to the last bit, and as close to doubles as they say."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.c_agents import Taped, build, compiled, needs_compiler, sent_by, symbol_agent
from helpers.c_fixed import WholeNumbers, normal_of_integers, remembered, sums_of, whole_readings
from helpers.live_networks import house_plan, house_readings
from helpers.said import says
from veilnet._core.errors import InvalidPlan
from veilnet.agent import grid
from veilnet.agent.memory import Memory
from veilnet.agent.randomness import normal_from_bits
from veilnet.agent.sanitizer import Sanitizer
from veilnet.agent.stream import Stream
from veilnet.export import export_c, rounding
from veilnet.export.fixed import fixed_of

ROWS = 2000
NO_DOUBLES = ("-Wdouble-promotion",)


def noisy(agent: str, deviations: Any = (0, 0), *, stream: bool = False) -> Sanitizer:
    """An agent of the house with noise of so many steps on its two numbers."""
    planned = house_plan(stream=stream).sanitizers[agent]
    return planned.replace(noise=np.diag((np.array(deviations) * planned.grid) ** 2))


def undrawn(agent: Sanitizer) -> Sanitizer:
    """The same with a memory that begins at zero, and goes on without a missed reading."""
    assert agent.memory is not None
    return agent.replace(memory=Memory(agent.memory.transition, agent.memory.gain))


def floats_of(agent: Sanitizer, rows: int, seed: int) -> Any:
    """Readings of a sensor that gives floats, some of them far away."""
    random = np.random.default_rng(seed)
    scale = np.where(random.random((rows, 1)) < 0.1, 100.0, 1.0) * np.maximum(np.abs(agent.offset), 1.0)
    return (agent.offset + scale * random.standard_normal((rows, agent.readings))).astype(np.float32)


def with_strange_ones(agent: Sanitizer) -> Any:
    """The same with readings too large, too small and missing."""
    rows = floats_of(agent, ROWS, 1)
    rows[5], rows[6], rows[7, 0], rows[8, 1] = 3e38, 1e-42, np.nan, -np.inf
    return rows


def is_exact_and_faults_are_found(
    sanitizer: vn.Sanitizer, folder: Path, faults: Sequence[tuple[str, str]]
) -> None:
    """The device sends what Python's integers do; each of ``faults``, (right, wrong) in its code, is seen."""
    program = compiled(sanitizer, folder, flags=NO_DOUBLES, arithmetic="fixed")
    rows, source = with_strange_ones(sanitizer), WholeNumbers(2)
    sent = np.isfinite(rows).all(axis=1)
    expected = source.device(sanitizer, rows)
    tape = source.tape(~sent)
    status, steps = sent_by(program, rows, tape, 2, "<f4")
    assert np.flatnonzero(status).tolist() == [7, 8]
    assert np.array_equal(steps[sent], expected[sent])
    code = (folder / "veilnet_agent.c").read_text(encoding="utf-8")
    for right, wrong in faults:
        assert right in code
        (folder / "veilnet_agent.c").write_text(code.replace(right, wrong), encoding="utf-8")
        build(folder, "veilnet_agent.c")
        assert np.any(sent_by(program, rows, tape, 2, "<f4")[1][sent] != expected[sent]), right


@needs_compiler
@pytest.mark.parametrize("deviations", [(0, 0), (0.5, 300)], ids=["shares", "noise"])
@pytest.mark.parametrize("agent", ["kitchen", "hall"])
def test_whole_numbers_are_exact(agent: str, deviations: Any, tmp_path: Path) -> None:
    """Oracle: Python's integers, which have no end. No operation is on doubles, and planted faults are found."""
    sanitizer = noisy(agent, deviations)
    is_exact_and_faults_are_found(
        sanitizer,
        tmp_path,
        [
            ("(int64_t)a * d + ", ""),
            ("(low >> DIGITS)", "(low << DIGITS)"),
            ("blur(uniform(&bytes))", "0 * blur(uniform(&bytes))"),
        ],
    )


@needs_compiler
@pytest.mark.parametrize("drawn", [True, False], ids=["memory drawn", "memory empty"])
def test_a_memory_of_whole_numbers_is_exact(drawn: bool, tmp_path: Path) -> None:
    """Oracle: Python's integers, row after row; also where a memory begins anew, and with planted faults."""
    sanitizer = noisy("hall", (0, 300), stream=True)
    sanitizer = sanitizer if drawn else undrawn(sanitizer)
    is_exact_and_faults_are_found(
        sanitizer,
        tmp_path,
        [
            ("sum >> VEILNET_REST", "(sum >> VEILNET_REST) / 1073741824 * 1073741824"),
            ("veilnet_next[k]", "veilnet_next[0]"),
        ],
    )


@pytest.mark.parametrize("drawn", [True, False], ids=["memory drawn", "memory empty"])
def test_a_memory_of_whole_numbers_sends_what_one_of_doubles_does(drawn: bool) -> None:
    """The same random bytes: but where the two are on either side of a boundary, and then a step apart."""
    agent = noisy("kitchen", (0.5, 0.5), stream=True)
    agent = agent if drawn else undrawn(agent)
    rows = house_readings(house_plan(stream=True), ROWS, 3)[1]["kitchen"].astype(np.float32)
    device = WholeNumbers(4).device(agent, rows)
    doubles = Stream(agent.recipe, Taped(4)).advance(rows.astype(float))[0] / agent.grid
    apart = np.abs(device - doubles)
    assert apart.max() <= 1
    assert np.mean(apart) < 1e-2


@pytest.mark.parametrize("deviations", [(0, 0), (0.5, 300)], ids=["shares", "noise"])
def test_whole_numbers_send_what_doubles_do(deviations: Any) -> None:
    """The same random bytes: but where the two are on either side of a boundary, and then a step apart."""
    agent = noisy("kitchen", deviations)
    rows = floats_of(agent, 20_000, 3)
    device, source = WholeNumbers(4).device(agent, rows), Taped(4)
    sums = agent.recipe.dithered(agent.recipe.examine(rows.astype(float))[0], source) @ agent.recipe.rows
    if agent.recipe.draw is not None:
        sums = sums + agent.recipe.draw(source, len(rows))
    apart = np.abs(device - grid.whole_steps(sums + source.uniform(sums.shape)).astype(int))
    assert apart.max() <= 1
    assert np.mean(apart) < (1e-3 if any(deviations) else 1e-4)


@needs_compiler
def test_joint_noise_of_whole_numbers_is_that_of_doubles(tmp_path: Path) -> None:
    """And what rounding shows stands in the exported header."""
    agent = vn.Sanitizer(
        [[1.0, 0.5, 0.0], [0.0, 1.0, -2.0]],
        [[2.0, 0.7], [0.7, 1.0]],
        grid=[2.0**-9, 2.0**-9],
        agent="hall",
    )
    program = compiled(agent, tmp_path, arithmetic="fixed")
    rows, source = np.random.default_rng(1).standard_normal((ROWS, 3)).astype(np.float32), Taped(2)
    noise, blur = source.normal((ROWS, 2)), source.uniform((ROWS, 2))
    expected = np.rint(
        rows.astype(float) @ agent.recipe.rows + noise @ (agent.noise_root / agent.grid) + blur
    )
    status, steps = sent_by(program, rows, source.tape(np.zeros(ROWS, bool)), 2, "<f4")
    assert not status.any()
    apart = np.abs(steps - expected)
    assert apart.max() <= 1
    assert apart.mean() < 1e-3
    says((tmp_path / "veilnet_plan.h").read_text(encoding="utf-8"), f"{fixed_of(agent).shows:.1g}")


@pytest.mark.parametrize("agent", ["kitchen", "hall", "study"])
def test_what_shows_of_readings_with_the_same_sums(agent: str) -> None:
    """Two rows whose Cy differ by an amount that Fractions know: t differs by it, but for what is stated."""
    sanitizer = noisy(agent)
    fixed, scale = fixed_of(sanitizer), sanitizer.compression / sanitizer.grid[:, None]
    low, high = fixed.limits
    withheld = np.linalg.svd(scale)[2][2:]
    random, worst = np.random.default_rng(5), 0.0
    for _ in range(300):
        step = random.standard_normal(len(withheld)) @ withheld
        along = np.min(0.9 * high / np.abs(step)) * random.random() ** 4
        pair = np.clip([along * step, -along * step], low, high).astype(np.float32)
        truth = [[sum(Fraction(c) * Fraction(float(y)) for c, y in zip(row, rows, strict=True)) for row in scale]
                 for rows in pair]  # fmt: skip
        here, there = sums_of(fixed, whole_readings(fixed, pair))
        moved = here - there
        off = [
            abs(Fraction(int(m), 2**fixed.fraction) - (a - b)) for m, a, b in zip(moved, *truth, strict=True)
        ]
        worst = max(worst, float(sum(off)))
    assert 0.02 * fixed.shows < worst <= fixed.shows < 2.0**-18
    assert rounding(sanitizer, "fixed") == fixed.shows


@pytest.mark.parametrize("agent", ["kitchen", "study"])
def test_what_shows_of_histories_with_the_same_sums(agent: str) -> None:
    """Of two histories to a memory that began alike: t differs as Fractions say, but for what is stated."""
    sanitizer = noisy(agent, stream=True)
    memory, fixed = sanitizer.memory, fixed_of(sanitizer)
    assert memory is not None
    exact = np.vectorize(Fraction, otypes=[object])
    forward, through = exact(np.hstack([memory.transition, memory.gain])), exact(sanitizer.recipe.rows.T)
    (low, high), random, worst = fixed.limits, np.random.default_rng(5), 0.0
    middle = np.ldexp(fixed.offset.astype(float), -fixed.scale)
    for size in (1.0, 0.3, 1e-3):
        kept, ideal = np.zeros((2, memory.order), dtype=object), np.zeros((2, memory.order), dtype=object)
        for _ in range(60):
            way = random.choice([-1.0, 1.0], size=(2, sanitizer.readings)) * size
            pair = np.clip(middle + way * (high - middle), low, high).astype(np.float32)
            v = whole_readings(fixed, pair)
            kept = np.array([remembered(fixed, *each) for each in zip(kept, v, strict=True)])
            centred = exact(pair.astype(float)) - exact(middle)
            # an ideal memory to 2^-200: Fractions of it would grow without end
            ideal = np.hstack([ideal, centred]) @ forward.T
            ideal = np.vectorize(lambda each: Fraction(int(each * 2**200), 2**200), otypes=[object])(ideal)
            t = sums_of(fixed, np.hstack([kept, v]))
            z = np.hstack([ideal, centred]) @ through.T
            off = [Fraction(int(m), 2**fixed.fraction) for m in t[0] - t[1]] - (z[0] - z[1])
            worst = max(worst, float(np.sum(np.abs(off))))
    assert 0.01 * fixed.shows < worst <= fixed.shows < 2.0**-14
    assert rounding(sanitizer, "fixed") == fixed.shows


def test_noise_of_whole_numbers_is_that_of_doubles() -> None:
    """Of random bits, and of those far out in the tails: to 2^-96."""
    random = np.random.default_rng(6)
    even = random.integers(0, 2**64, 30_000, dtype=np.uint64)
    trailing = random.integers(0, 2**32, 30_000, dtype=np.uint32)
    leading = even >> random.integers(0, 64, 30_000).astype(np.uint64)
    leading[:3], trailing[:3] = (0, 2**64 - 1, 1), (0, 2**32 - 1, 0)
    exactly = normal_from_bits(leading, trailing)
    drawn = np.ldexp(normal_of_integers(leading, trailing).astype(float), -27)
    assert np.abs(exactly).max() > 11
    assert np.abs(drawn - exactly).max() < 3e-7
    others = np.ldexp(normal_of_integers(even, trailing).astype(float), -27)
    assert abs(np.mean(others**2) / np.mean(normal_from_bits(even, trailing) ** 2) - 1) < 1e-7


@pytest.mark.parametrize("what", ["slow", "unknown", "symbols", "far"])
def test_what_whole_numbers_cannot_hold_is_refused(what: str, tmp_path: Path) -> None:
    slow = vn.Sanitizer(
        [[1.0, 0.0]], grid=[2.0**-9], agent="hall", memory=Memory([[1 - 1e-8]], [[1.0]]), usual=([0.0], [1.0])
    )
    agents = {
        "slow": slow,
        "unknown": slow.replace(usual=None, memory=Memory([[0.5]], [[1.0]])),
        "symbols": symbol_agent(keep=1.0),
        "far": vn.Sanitizer([[1.0]], grid=[2.0**-9], agent="hall", offset=[1e25]),
    }
    with pytest.raises(InvalidPlan) as error:
        export_c(agents[what], "plan", tmp_path / "none", "fixed")
    says(str(error.value), "--arithmetic", agents[what].agent, "double", "fixed")
    assert not (tmp_path / "none").exists()
