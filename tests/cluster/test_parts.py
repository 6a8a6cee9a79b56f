"""Networks in parts against two oracles, the same network as one and plain dense formulas; and ways to break one."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.said import says
from veilnet import cli, cluster
from veilnet._core.types import Array
from veilnet._core.words import times
from veilnet.cli import parts as parts_commands
from veilnet.cluster import files, sums
from veilnet.cluster import parts as parts_module
from veilnet.cluster.parts import PartFile
from veilnet.cluster.running import LOST

L = 5
ROWS = np.random.default_rng(0).standard_normal((4, L))
PUBLIC, PRIVATE = ROWS[:1], {"g": ROWS[1:2], "f": ROWS[2:]}
PRIOR = vn.Prior(2.0 * np.eye(L))


def stacks(count: int = 6, agents: int = 7) -> Iterator[tuple[Array, Array]]:
    for number in range(count):
        rng = np.random.default_rng([3, number])
        size = 2 + number % 2  # parts of agents of two and of three readings
        root = 0.4 * rng.standard_normal((agents, size, size))
        yield rng.standard_normal((agents, size, L)), root @ root.transpose(0, 2, 1) + np.eye(size)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(parts_module, "AGENTS_PER_TASK", 10)  # two parts of seven agents to a batch
    cluster.save_parts(tmp_path / "network", stacks(), PUBLIC, PRIVATE, PRIOR)
    return tmp_path / "network"


def dense_ceiling() -> dict[str, float]:
    """p* by the formulas of the mathematics, section 3, with N x N matrices: nothing of veilnet is used."""
    blocks = [(h, r) for hs, rs in stacks() for h, r in zip(hs, rs, strict=True)]
    observe = np.concatenate([h for h, _ in blocks])
    noise = np.zeros((len(observe), len(observe)))
    places, end = [], 0
    for h, r in blocks:
        places.append(slice(end, end + len(h)))
        noise[places[-1], places[-1]] = r
        end += len(h)
    prior = np.eye(L) / 2.0
    inverse = np.linalg.inv(noise)
    raw = np.linalg.inv(prior + observe.T @ inverse @ observe)
    shares = PUBLIC @ raw @ observe.T @ inverse
    sending = np.zeros((len(blocks), len(observe)))  # one public row: one number each
    for row, mine in enumerate(places):
        sending[row, mine] = shares[0, mine]
    seen = sending @ observe
    left = np.linalg.inv(prior + seen.T @ np.linalg.inv(sending @ noise @ sending.T) @ seen)
    return {n: float(np.trace(g @ left @ g.T) / np.trace(g @ raw @ g.T) - 1) for n, g in PRIVATE.items()}


def test_grids_of_parts_reach_eight_deviations_or_are_refused(folder: Path, tmp_path: Path) -> None:
    """Before: only networks in one piece were looked at, and rows beyond would have counted as the end of a grid."""
    cluster.design(folder)
    for agent in ("agent01", "agent41"):
        sanitizer = vn.Sanitizer.load(_extracted(folder, agent, tmp_path))
        mean, deviation = sanitizer.usual
        assert np.all(sanitizer.reach[0] <= mean - 8 * deviation)
        assert np.all(sanitizer.reach[1] >= mean + 8 * deviation)
    wide = cluster.save_parts(tmp_path / "wide", stacks(), PUBLIC, PRIVATE, vn.Prior(1e24 * np.eye(L)))
    with pytest.raises(vn.InvalidNetwork, match=r"prior: by the model, readings of .* times as far"):
        cluster.design(wide)


def _extracted(folder: Path, agent: str, target: Path) -> Path:
    path = target / f"{agent}.json"
    path.write_bytes(cluster.agent_file(folder, agent)[1])
    return path


def test_parts_one_network_and_dense_formulas_agree(folder: Path) -> None:
    plan = cluster.design(folder)
    network = vn.Network([h for h, _ in stacks()], [r for _, r in stacks()], PUBLIC, PRIVATE, PRIOR)
    whole = vn.design(network)
    for name, expected in dense_ceiling().items():
        assert plan.privacy[name] == pytest.approx(expected, rel=1e-8)
        assert whole.privacy[name] == pytest.approx(expected, rel=1e-8)
        assert plan.verdict.limit[name] == pytest.approx(vn.privacy_limit(network)[name], rel=1e-8)
    assert plan.utility == 0.0
    assert plan.certificate.ok
    assert not plan.verdict.achievable
    says(str(plan), "42 agents", "42 numbers")
    # what an agent runs is what it would run in the network as a whole
    mine, theirs = plan.sanitizer("part-00002.npz", 4), whole.sanitizers[network.agents[18]]
    assert mine.agent == network.agents[18]
    turned = np.sign(mine.compression[0] @ theirs.compression[0])
    assert np.allclose(turned * mine.compression, theirs.compression, rtol=1e-8)
    assert np.array_equal(mine.grid, theirs.grid)  # type: ignore[arg-type]
    with pytest.raises(vn.InvalidRequest, match="0 to 6"):
        plan.sanitizer("part-00002.npz", 7)
    for ask in (
        lambda: plan.sanitizer("part-00077.npz", 0),
        lambda: cluster.numbers_sent(folder, "part-00077.npz"),
    ):
        with pytest.raises(vn.InvalidRequest) as refused:
            ask()
        for fact in ("part", "'part-00077.npz'", "'part-00000.npz'"):
            assert fact in str(refused.value)


def test_a_part_of_a_plan_holds_nothing_that_is_not_sent(tmp_path: Path) -> None:
    """Of two agents the second has nothing to do with what is public."""
    observe = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    common = ([[1.0, 0.0]], {"g": [[0.0, 1.0]]}, vn.Prior(np.eye(2)))
    cluster.design(cluster.save_parts(tmp_path / "two", [(observe, np.ones((2, 1, 1)))], *common))
    with np.load(tmp_path / "two" / "plan" / "part-00000.npz") as archive:
        assert archive["sent"].tolist() == [1, 0]
        assert np.any(archive["compression"][0])
        assert not np.any(archive["compression"][1])
        assert not np.any(archive["grid"][1])


@pytest.mark.parametrize(
    ("free", "limit", "achievable"),
    [(3.0, 3.0, True), (2.9, 3.0, False), (np.inf, np.inf, True), (1e15, np.inf, False)],
)
def test_all_that_can_be_hidden_may_be_free(free: float, limit: float, achievable: bool) -> None:
    found = cluster.PartsVerdict({"g": free}, {"g": limit}, agents=1, numbers=1)
    assert found.achievable is achievable


def test_a_saved_plan_is_verified_by_other_formulas_and_a_changed_one_is_not(folder: Path) -> None:
    cluster.design(folder)
    assert cluster.verify(folder).ok
    path = folder / "plan" / "part-00003.npz"
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    told = dict(arrays)
    told["compression"] = arrays["compression"] + 0.05
    np.savez(path, **told)
    assert not cluster.verify(folder).ok
    arrays["digest"] = np.array("another")
    np.savez(path, **arrays)
    with pytest.raises(vn.InvalidPlan, match=r"part-00003\.npz: made for another"):
        cluster.verify(folder)
    path.unlink()
    with pytest.raises(vn.InvalidPlan, match=r"part-00003\.npz: .*missing"):
        cluster.verify(folder)
    promised = folder / "plan" / "plan.json"
    document = json.loads(promised.read_text())
    document["privacy"]["g"] = 1e9
    cluster.design(folder)
    promised.write_text(json.dumps(document))
    assert not cluster.verify(folder).ok


def one_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def packed_and_damaged(path: Path) -> None:
    with np.load(path) as archive:
        np.savez_compressed(path, **{name: archive[name] for name in archive.files})
    content = bytearray(path.read_bytes())
    content[100:160] = bytes(each ^ 0xFF for each in content[100:160])
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [one_array, packed_and_damaged])
def test_what_is_no_archive_is_told_by_name(folder: Path, damage: Callable[[Path], None]) -> None:
    first = cluster.design(folder)
    damage(folder / "plan" / "part-00003.npz")
    with pytest.raises(vn.InvalidPlan, match=r"part-00003\.npz: .*damaged"):
        cluster.verify(folder)
    again = cluster.design(folder)
    assert (again.computed, again.privacy) == (("part-00003.npz",), first.privacy)
    damage(folder / "part-00003.npz")
    with pytest.raises(vn.InvalidNetwork, match=r"part-00003\.npz: .*damaged"):
        cluster.design(folder)


def test_finished_parts_that_were_changed_are_made_again_and_wrong_grids_found(folder: Path) -> None:
    first = cluster.design(folder)
    path = folder / "plan" / "part-00003.npz"
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    for name, smaller in (
        ("sent", None),
        ("compression", 2 * arrays["compression"] + 1),
    ):
        np.savez(path, **{key: each for key, each in (arrays | {name: smaller}).items() if each is not None})
        again = cluster.design(folder)
        assert (again.computed, again.privacy) == (("part-00003.npz",), first.privacy)
    for wrong in (arrays["grid"] * 2.0**20, arrays["grid"] / 2.0**20, arrays["grid"] * np.nan):
        np.savez(path, **(arrays | {"grid": wrong}))
        with pytest.raises(vn.InvalidPlan, match=r"part-00003\.npz: .*grid"):
            cluster.verify(folder)


def test_a_rerun_goes_on_from_what_is_finished(folder: Path) -> None:
    first = cluster.design(folder)
    assert first.computed == tuple(f"part-{k:05d}.npz" for k in range(6))
    again = cluster.design(folder)
    assert again.computed == ()
    (folder / "plan" / "part-00004.npz").unlink()
    (folder / "plan" / "part-00001.npz").write_bytes(b"cut off")
    mended = cluster.design(folder)
    assert mended.computed == ("part-00001.npz", "part-00004.npz")
    assert again.privacy == first.privacy == mended.privacy  # to the last bit
    # a damaged input stops the run; with it mended, only what is missing is worked on
    damaged = folder / "part-00005.npz"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-30])
    for name in folder.joinpath("plan").rglob("part-*.npz"):
        name.unlink()
    with pytest.raises(vn.InvalidNetwork, match=r"part-00005\.npz: .*damaged"):
        cluster.design(folder)
    damaged.write_bytes(whole)
    rest = cluster.design(folder)
    assert rest.privacy == first.privacy


def test_a_changed_input_is_worked_on_again(folder: Path) -> None:
    before = cluster.design(folder)
    with np.load(folder / "part-00002.npz") as archive:
        arrays = {name: archive[name] for name in archive.files}
    np.savez(folder / "part-00002.npz", observe=2 * arrays["observe"], noise=arrays["noise"])
    after = cluster.design(folder)
    assert after.privacy != before.privacy
    assert len(after.computed) == 6  # all shares depend on all agents


def test_a_full_disk_is_told_with_the_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = files.write_bytes

    def full(path: Path, content: bytes) -> None:
        if path.name == "part-00003.npz":
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, content)

    monkeypatch.setattr(files, "write_bytes", full)
    with pytest.raises(vn.InvalidRequest, match=r"part-00003\.npz: .*No space left"):
        cluster.design(folder)
    monkeypatch.undo()
    monkeypatch.setattr(parts_module, "AGENTS_PER_TASK", 10)
    assert cluster.design(folder).certificate.ok
    assert not list(folder.rglob("*.tmp*"))


def broken(folder: Path, **arrays: object) -> None:
    np.savez(folder / "part-00001.npz", **arrays)  # type: ignore[arg-type]


H, R = np.ones((2, 2, L)), np.stack([np.eye(2)] * 2)
BAD_PARTS = {
    "expected the arrays observe and noise": {"observe": H},
    r"observe: expected shape \(s, n, 5\)": {"observe": H[:, :, :3], "noise": R},
    r"noise: expected .*found shape \(1, 2, 2\)": {"observe": H, "noise": R[:1]},
    "finite": {"observe": H * np.nan, "noise": R},
    "positive definite": {"observe": H, "noise": 0 * R},
    "agents: expected 2 names": {"observe": H, "noise": R, "names": np.array(["a"])},
    "damaged": {"observe": np.array([object()]), "noise": R},
}


@pytest.mark.parametrize("words", BAD_PARTS)
def test_a_part_that_is_no_network_is_named(folder: Path, words: str) -> None:
    broken(folder, **BAD_PARTS[words])
    with pytest.raises(vn.InvalidNetwork, match=rf"part-00001\.npz.*{words}"):
        cluster.design(folder)


def test_headers_and_folders_are_checked(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(vn.InvalidRequest, match="holds a network already"):
        cluster.save_parts(folder, stacks(), PUBLIC, PRIVATE)
    with pytest.raises(vn.InvalidNetwork, match="begins with its header"):
        cluster.open_parts(tmp_path)
    with pytest.raises(vn.InvalidNetwork, match="at least one stack"):
        cluster.save_parts(tmp_path / "none", [], PUBLIC, PRIVATE)
    with pytest.raises(vn.InvalidRequest, match=r"\(observe, noise\)"):
        cluster.save_parts(tmp_path / "odd", [(H,)], PUBLIC, PRIVATE)
    (folder / "part-00000.npz").unlink()
    with pytest.raises(vn.InvalidNetwork, match=r"part-00000\.npz: .*missing"):
        cluster.design(folder)
    header = folder / "header.json"
    document = json.loads(header.read_text())
    for change, words in (
        ({"format": "other"}, "format: expected"),
        ({"format": "veilnet-parts/99"}, "header.json: format: made by a newer veilnet"),
        ({"parts": [{"name": "../x", "agents": 1}]}, "names such as part-00000"),
        ({"parts": [{"name": "part-00000.npz\0", "agents": 1}]}, "names such as part-00000"),
        ({"parts": [{"name": "x"}]}, "the header was changed"),
        ({"parts": [*document["parts"], document["parts"][0]]}, "named twice, and its agents would count"),
        (
            {"parts": [{"name": "part-00000.npz", "agents": 6.5}]},
            r"parts\[0\]\.agents: expected a whole number",
        ),
        ({"parts": [{"name": "part-00000.npz", "agents": np.inf}]}, "Infinity is not JSON"),
        ({"prior": {"information": np.eye(3).tolist()}}, "prior: expected 5 parameters"),
    ):
        header.write_text(json.dumps(document | change))
        with pytest.raises(vn.InvalidNetwork, match=words):
            cluster.open_parts(folder)
    header.write_text("{")
    with pytest.raises(vn.InvalidNetwork, match="not a JSON object"):
        cluster.open_parts(folder)
    with pytest.raises(vn.InvalidPlan, match="design first"):
        cluster.verify(cluster.save_parts(tmp_path / "new", stacks(), PUBLIC, PRIVATE))


def test_what_all_agents_have_in_common_is_refused_before_parts_are_written(tmp_path: Path) -> None:
    for common in (
        (np.ones((1, L + 1)), PRIVATE, PRIOR),
        (PUBLIC, {}, PRIOR),
        (PUBLIC, PRIVATE, vn.Prior(np.eye(3))),
    ):
        with pytest.raises(vn.InvalidNetwork, match=r"public|private|prior"):
            cluster.save_parts(tmp_path / "new", stacks(), *common)
        assert not list((tmp_path / "new").iterdir())


def test_a_header_that_counts_otherwise_is_refused(folder: Path) -> None:
    header = folder / "header.json"
    document = json.loads(header.read_text())
    document["parts"][2]["agents"] = 8
    header.write_text(json.dumps(document))
    with pytest.raises(vn.InvalidRequest, match=r"\b43 agents.* 42\b"):
        cluster.design(folder)


def test_names_are_kept(tmp_path: Path) -> None:
    named = [(h, r, [f"room {k} {i}" for i in range(len(h))]) for k, (h, r) in enumerate(stacks())]
    plan = cluster.design(cluster.save_parts(tmp_path / "named", named, PUBLIC, PRIVATE, PRIOR))
    assert plan.sanitizer("part-00001.npz", 3).agent == "room 1 3"


def test_parts_add_up_each_field_by_its_own_rule(folder: Path) -> None:
    """Information and counts are added, names follow one another, and the worst condition of a noise counts."""
    one, two = (sums.raw_sums(PartFile(folder, f"part-{k:05d}.npz")) for k in (0, 1))
    one = replace(one, condition=9.0, computed=("a",), raw=np.eye(L))
    both, turned = one + two, two + one
    assert (both.agents, both.readings, both.computed) == (14, 7 * 2 + 7 * 3, ("a",))
    assert two.condition < 9.0 == both.condition == turned.condition
    expected = one.triangle.T @ one.triangle + two.triangle.T @ two.triangle
    assert np.allclose(both.triangle.T @ both.triangle, expected, rtol=1e-12)
    assert np.array_equal(both.raw, np.eye(L) + two.raw)


def test_what_is_under_way_is_told_before_any_part_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[tuple[str, float]] = []
    read: list[int] = []
    monkeypatch.setattr(parts_module, "read_arrays", lambda *_: read.append(len(told)))
    with pytest.raises(vn.InvalidNetwork, match="the part is missing"):
        cluster.design(folder, progress=lambda what, part: told.append((what, part)))
    assert told == [("adding up", 0.0)]
    assert read == [1]
    with parts_commands._telling("working") as tell:
        for part in (0.1, 0.2):
            tell(f"designing: 1 worker{LOST}", part)
    assert capsys.readouterr().err == f"veilnet parts designing: 1 worker{LOST}\n"


def test_the_command_line_takes_a_folder_of_parts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["parts", "design", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["agents"] == 42
    assert told["parts_worked_on"] == 6
    assert told["privacy"]["g"] == pytest.approx(dense_ceiling()["g"], rel=1e-8)
    assert cli.run(["parts", "check", str(folder)]) == 0
    capsys.readouterr()
    assert cli.run(["parts", "verify", str(folder)]) == 0
    told = capsys.readouterr().out
    grown = times(1 + dense_ceiling()["g"])
    assert re.search(rf"standard error of g grows +{grown} +{grown} +yes", told)
    assert re.search(r"agents in all parts +42 +42 +yes", told)
    assert "NOT confirmed" not in told
    assert cli.run(["parts", "design", str(folder), "--prove"]) == 2
    assert "no such option: --prove" in capsys.readouterr().err
    assert cli.run(["parts", "design", str(folder.parent), "--cluster", "nowhere://x:1"]) == 2
    capsys.readouterr()
    for verb in ("check", "design", "frontier", "verify", "audit", "report", "sanitize", "inspect"):
        assert cli.run([verb, str(folder)]) == 2
        says(capsys.readouterr().err, "in parts", "'veilnet parts'")
    assert cli.run(["fuse", str(folder), "a=b.csv"]) == 2
    says(capsys.readouterr().err, "in parts", "'veilnet parts'")
    promised = folder / "plan" / "plan.json"
    promised.write_text(promised.read_text().replace('"utility": 0.0', '"utility": -0.5'))
    assert cli.run(["parts", "verify", str(folder), "--json"]) == 1
