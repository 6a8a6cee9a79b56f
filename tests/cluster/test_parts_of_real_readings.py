"""Offsets and resolutions in parts: the same network in one piece is the oracle, and plain formulas are another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from veilnet import cluster
from veilnet.cluster import parts as parts_module
from veilnet.cluster import searching
from veilnet.designs.many import Effort

L = 4
ROWS = np.random.default_rng(0).standard_normal((3, L))
COMMON = (ROWS[:1], {"g": ROWS[1], "f": ROWS[2]}, vn.Prior(np.eye(L), mean=np.arange(L)))


def stacks() -> list[dict[str, Any]]:
    """Agents of two and of three readings with offsets, in steps, of which a part says nothing in the third stack."""
    found: list[dict[str, Any]] = []
    for number in range(3):
        rng = np.random.default_rng([4, number])
        size = 2 + number % 2
        found.append(
            {
                "observe": rng.standard_normal((9, size, L)),
                "noise": (0.5 + rng.random((9, 1, 1))) * np.eye(size),
                "offset": 20 * rng.standard_normal((9, size)),
                "resolution": 0.1 + rng.random((9, size)),
            }
        )
    del found[2]["resolution"]
    return found


def whole() -> vn.Network:
    names: Iterator[str] = iter(f"agent{k:02d}" for k in range(1, 28))
    given: dict[str, dict[str, Any]] = {"observe": {}, "noise": {}, "offset": {}, "resolution": {}}
    for stack in stacks():
        for place in range(9):
            name = next(names)
            for what, array in stack.items():
                given[what][name] = array[place]
    public, private, prior = COMMON
    return vn.Network(
        **given, public=public, private=private, prior=prior, dither=2
    )  # as parts do, whatever is sent


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(parts_module, "AGENTS_PER_TASK", 10)
    monkeypatch.setattr(searching, "EFFORT", Effort(first=12, steps=0, rounds=0, last=0))
    cluster.save_parts(tmp_path / "network", stacks(), *COMMON)
    return tmp_path / "network"


def test_dither_counts_as_in_one_piece_and_agents_are_told_to_do_it(folder: Path) -> None:
    plan = cluster.design(folder)
    expected = vn.design(whole())
    for name, promised in expected.privacy.items():
        assert plan.privacy[name] == pytest.approx(promised, rel=1e-10)
        assert plan.verdict.limit[name] == pytest.approx(vn.privacy_limit(whole())[name], rel=1e-10)
    assert cluster.verify(folder).ok
    for number, place in ((0, 3), (1, 8), (2, 5)):
        mine = plan.sanitizer(f"part-{number:05d}.npz", place)
        theirs = expected.sanitizers[f"agent{9 * number + place + 1:02d}"]
        turned = np.sign(mine.compression[0] @ theirs.compression[0])
        assert np.allclose(turned * mine.compression, theirs.compression, rtol=1e-10)
        assert np.array_equal(mine.offset, theirs.offset)
        assert np.array_equal(mine.grid, theirs.grid)  # type: ignore[arg-type]
        assert mine.dithers == theirs.dithers == (number < 2)
        assert mine.same_readings_as(theirs)
    # and without dither the figures would be others: by J* of the mathematics, section 3
    raw = left = np.eye(L)
    for number, stack in enumerate(stacks()):
        for place in range(9):
            steps = stack.get("resolution", np.zeros((9, stack["observe"].shape[1])))[place]
            observe, noise = stack["observe"][place], stack["noise"][place] + np.diag(steps**2 / 6)
            sent = plan.sanitizer(f"part-{number:05d}.npz", place).compression
            raw = raw + observe.T @ np.linalg.solve(noise, observe)
            left = left + (sent @ observe).T @ np.linalg.solve(sent @ noise @ sent.T, sent @ observe)
    g = ROWS[1]
    grown = g @ np.linalg.solve(left, g) / (g @ np.linalg.solve(raw, g)) - 1
    assert plan.privacy["g"] == pytest.approx(grown, rel=1e-9)


def test_readings_of_which_nothing_was_said_are_counted(folder: Path) -> None:
    plan = cluster.design(folder)
    assert plan.verdict.exposed == 9
    assert "No resolution was stated for 9 agents" in str(plan)
    assert any("No resolution was stated for" in note for note in vn.design(whole()).notes())
    traded = cluster.design(folder, utility_loss=0.05, starts=1)
    naming = [traded.sanitizer("part-00002.npz", place).normal for place in range(9)]
    exact = [int(np.sum(~noisy)) for _, noisy in naming]
    assert traded.verdict.exposed == sum(
        0 < count < 2 for count in exact
    )  # noise on everything names no lattice


def test_noise_of_limited_power_is_added_to_dithered_readings(folder: Path) -> None:
    plan = cluster.design(folder, power=3.0)
    expected = vn.design(whole(), power=3.0)
    assert sum(plan.privacy.values()) == pytest.approx(sum(expected.privacy.values()), rel=1e-6)
    mine, theirs = plan.sanitizer("part-00000.npz", 3), expected.sanitizers["agent04"]
    assert mine.dithers
    assert mine.same_readings_as(theirs)
    assert np.array_equal(mine.offset, theirs.offset)


def test_one_offset_and_one_step_may_stand_for_many(tmp_path: Path) -> None:
    observe, noise = (
        np.ones((4, 2, L)) + np.arange(8).reshape(4, 2, 1) * np.eye(L)[:2],
        np.tile(np.eye(2), (4, 1, 1)),
    )
    stack = {
        "observe": observe,
        "noise": noise,
        "offset": [1.0, 2.0],
        "resolution": 0.5,
        "names": list("abcd"),
    }
    cluster.save_parts(tmp_path / "network", [stack], *COMMON)
    mine = cluster.design(tmp_path / "network").sanitizer("part-00000.npz", 2)
    assert mine.agent == "c"
    assert mine.offset.tolist() == [1.0, 2.0]
    assert mine.resolution is not None
    assert mine.resolution.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"offset": np.ones((9, 3))}, r"offset: expected .*found shape \(9, 3\)"),
        ({"resolution": -0.1}, r"resolution of .*expected steps of at least 0"),
        ({"resolution": 10.0}, "rounding to steps of 10 alone has the variance"),
        ({"resolutions": 0.1}, "names, offset, resolution if there are any; found .*resolutions"),
    ],
)
def test_what_is_no_offset_or_step_is_refused_before_it_is_written(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(vn.InvalidNetwork, match=words):
        cluster.save_parts(tmp_path / "network", [stacks()[0] | change], *COMMON)
    assert not list((tmp_path / "network").glob("part-*"))
    with pytest.raises(vn.InvalidRequest, match=r"observe and noise.*offset"):
        cluster.save_parts(tmp_path / "other", [{"offset": 1.0}], *COMMON)
