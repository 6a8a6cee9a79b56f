"""Limited noise power in parts against the same network as one, and ways to cut it off or change it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.cutting_off import cut_off_at
from helpers.grids_of_parts import grid_of
from veilnet import cli, cluster
from veilnet.cluster import parts as parts_module
from veilnet.cluster import searching

L = 5
ROWS = np.random.default_rng(0).standard_normal((4, L))
COMMON = (ROWS[:1], {"g": ROWS[1:3], "f": ROWS[3]})
RNG = np.random.default_rng(1)


def _stack(count: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    root = RNG.standard_normal((count, size, size))
    noise = root @ root.transpose(0, 2, 1) + np.eye(size)
    return RNG.standard_normal((count, size, L)), (noise + noise.transpose(0, 2, 1)) / 2


STACKS = [_stack(12, size) for size in (3, 1, 4, 3)]
WHOLE = vn.Network([h for h, _ in STACKS], [r for _, r in STACKS], *COMMON)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(parts_module, "AGENTS_PER_TASK", 20)
    cluster.save_parts(tmp_path / "network", STACKS, *COMMON)
    return tmp_path / "network"


@pytest.mark.parametrize("power", [0.0, 3.0, 1e4])
def test_parts_and_one_network_hide_alike(folder: Path, power: float) -> None:
    """Oracles: the dense solver in one piece, and J̃ from what is on disk, by dense formulas."""
    plan = cluster.design(folder, power=power)
    one = vn.design(WHOLE, power=power)
    assert plan.certificate.ok
    assert plan.utility == pytest.approx(0.0, abs=1e-9)
    assert sum(plan.privacy.values()) == pytest.approx(sum(one.privacy.values()), rel=2e-7, abs=1e-12)
    assert sum(one.privacy.values()) <= plan.details["upper_bound"] * (1 + 1e-9) + 1e-12
    assert plan.details["relative_gap"] <= 1e-7
    assert plan.details["power_allowed"] == power
    assert dict(plan.verdict.ceiling) == pytest.approx(dict(vn.check(WHOLE).ceiling), rel=1e-8)
    raw, left = np.zeros((L, L)), np.zeros((L, L))
    for k, (observe, noise) in enumerate(STACKS):
        for place in range(len(observe)):
            each = plan.sanitizer(f"part-{k:05d}.npz", place)
            back = np.linalg.inv(each.compression)
            added = back @ each.noise @ back.T
            assert np.trace(added) <= power * (1 + 1e-9)
            raw += observe[place].T @ np.linalg.solve(noise[place], observe[place])
            left += observe[place].T @ np.linalg.solve(noise[place] + added, observe[place])
    for name, rows in (("g", ROWS[1:3]), ("f", ROWS[3:])):
        before, after = (np.trace(rows @ np.linalg.solve(each, rows.T)) for each in (raw, left))
        assert plan.privacy[name] == pytest.approx(after / before - 1, rel=1e-8, abs=1e-10)
    assert cluster.verify(folder).ok
    assert not (folder / "plan" / "search").exists()


def test_parts_and_one_network_take_the_same_steps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same search in one piece, with a power of its own for each part."""
    powers = {"part-00000.npz": 4.0, "part-00003.npz": 1.0}
    plan = cluster.design(folder, power=powers)
    monkeypatch.setattr("veilnet.designs.power.plan.MANY_READINGS", 0)
    one = vn.design(WHOLE, power=np.repeat([4.0, 0.0, 0.0, 1.0], 12))
    assert dict(plan.privacy) == pytest.approx(dict(one.privacy), rel=1e-8)
    assert plan.details["upper_bound"] == pytest.approx(one.details["upper_bound"], rel=1e-8)
    assert plan.details["power_allowed"]["part-00003.npz"] == 1.0
    assert not plan.sanitizer("part-00002.npz", 3).noise.any()


def test_a_search_that_was_cut_off_goes_on_where_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cluster.design(folder, power=3.0)
    assert "No other noise within it hides more than" in str(whole)
    asked = cut_off_at(monkeypatch, searching, "answer_sums", 14)
    with pytest.raises(KeyboardInterrupt):
        cluster.design(folder, power=3.0)
    kept = list((folder / "plan" / "search").glob("*.npz"))
    assert len(kept) >= 3
    kept[0].write_bytes(b"cut off")
    again = cluster.design(folder, power=3.0)
    assert again.privacy == whole.privacy  # to the last bit
    assert again.computed == ()  # all parts of the plan were there
    in_all, asked[:] = len(asked) - 14, [1] * 14
    assert cluster.design(folder, power=3.0).privacy == whole.privacy
    assert len(asked) - 14 >= in_all + 2 * 3  # nothing was kept once the plan was there


def test_a_search_that_is_asked_to_stop_writes_its_best(folder: Path) -> None:
    whole = cluster.design(folder, power=3.0)
    stopped = cluster.design(folder, power=3.0, progress=lambda what, _part: not what.startswith("closing"))
    assert stopped.details["interrupted"] is True
    assert stopped.certificate.ok
    assert sum(stopped.privacy.values()) < sum(whole.privacy.values()) <= stopped.details["upper_bound"]
    assert cluster.verify(folder).ok


def test_noise_that_was_taken_away_is_found(folder: Path) -> None:
    cluster.design(folder, power=3.0)
    path = folder / "plan" / "part-00002.npz"
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    assert arrays["variances"].any()
    arrays["variances"][5:] = 0.0
    arrays["grid"] = grid_of(folder, "part-00002.npz", arrays | {"grid": None})
    np.savez(path, **arrays)
    found = cluster.verify(folder)
    assert [each.what for each in found.findings if not each.ok] == ["privacy of g", "privacy of f"]


@pytest.mark.parametrize(
    "what",
    ["grid", *(pytest.param(slow, marks=pytest.mark.long) for slow in ("compression", "sent", "variances"))],
)
def test_a_finished_part_that_was_changed_is_made_anew(folder: Path, what: str) -> None:
    """Not taken for finished, however little was changed: not even in what no certificate looks at, the grid."""
    whole = cluster.design(folder, power=3.0)
    path = folder / "plan" / "part-00002.npz"
    before = path.read_bytes()
    for change in (
        lambda array: array * 0.5,
        lambda array: np.where(np.arange(array.size).reshape(array.shape) == 0, np.nan, array),
        lambda array: array.astype(str),
    ):
        with np.load(path) as archive:
            arrays = {name: archive[name] for name in archive.files}
        np.savez(path, **{**arrays, what: change(arrays[what])})
        again = cluster.design(folder, power=3.0)
        assert again.computed == ("part-00002.npz",)
        assert again.privacy == whole.privacy
        assert path.read_bytes() == before
        assert cluster.verify(folder).ok


def test_powers_without_a_meaning_are_refused_before_any_pass(folder: Path) -> None:
    for power, message in {
        "much": "power: expected a number, found 'much'",
        -1.0: "power: expected a finite number of at least 0",
        (1.0, 2.0): "agents of different powers go to different parts",
    }.items():
        with pytest.raises(vn.InvalidRequest, match=message):
            cluster.design(folder, power=power)  # type: ignore[arg-type]
    with pytest.raises(vn.InvalidRequest, match=r"power: .*'kitchen'.*'part-00000\.npz'"):
        cluster.design(folder, power={"kitchen": 1.0})
    with pytest.raises(vn.InvalidRequest, match=r"privacy and power: .* 2"):
        cluster.design(folder, privacy=1.0, power=1.0)
    assert not (folder / "plan").exists()


def test_on_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["parts", "design", str(folder), "--power", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["details"]["relative_gap"] <= 1e-7
    assert told["utility"] == pytest.approx(0.0, abs=1e-9)
    assert cli.run(["parts", "verify", str(folder)]) == 0
    assert cli.run(["parts", "design", str(folder), "--power", "part-00000.npz=3"]) == 0
    assert "Noise within the power" in capsys.readouterr().out
