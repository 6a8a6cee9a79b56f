"""What looks, is refused or is cut off leaves the plan of a folder of parts as it was, and messages by it fuse."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.cutting_off import cut_off_at
from veilnet import cli, cluster
from veilnet.cluster import parts as parts_module
from veilnet.cluster import searching, sums
from veilnet.designs.many import Effort
from veilnet.plans.certificate import Certificate, Finding

L, T = 4, 6
ROWS = np.random.default_rng(0).standard_normal((3, L))
COMMON = (ROWS[:1], {"g": ROWS[1], "f": ROWS[2]}, vn.Prior(np.eye(L)))
RNG = np.random.default_rng(1)
STACKS = [(RNG.standard_normal((6, 2, L)), (0.5 + RNG.random((6, 1, 1))) * np.eye(2)) for _ in range(4)]
FREE = vn.check(vn.Network([h for h, _ in STACKS], [r for _, r in STACKS], *COMMON)).ceiling
TRADED = {"privacy": {"g": 2 * FREE["g"]}, "starts": 1}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(parts_module, "AGENTS_PER_TASK", 12)
    monkeypatch.setattr(searching, "EFFORT", Effort(first=12, steps=0, rounds=0, last=0))
    cluster.save_parts(tmp_path / "network", STACKS, *COMMON)
    return tmp_path / "network"


class InService:
    """A plan of limited power, all files of its folder, and what its messages tell."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.messages = folder, folder.parent / "messages"
        cluster.design(folder, power=3.0)
        readings = folder.parent / "readings"
        readings.mkdir()
        for number, (observe, _) in enumerate(STACKS):
            drawn = np.random.default_rng([2, number]).standard_normal((T, *observe.shape[:2]))
            np.savez(readings / f"part-{number:05d}.npz", readings=drawn)
        cluster.sanitize(folder, readings, self.messages, seed=0)
        self.files, self.told = files(folder), cluster.fuse(folder, self.messages).public

    def still_is(self) -> None:
        now = files(self.folder)
        assert {path: now.get(path) for path in self.files} == self.files
        assert np.array_equal(cluster.fuse(self.folder, self.messages).public, self.told)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_check_only_looks(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(folder)
    verdict = cluster.check(folder)
    assert files(folder) == before  # where there is no plan, none is begun
    designed = cluster.design(shutil.copytree(folder, tmp_path / "copy")).verdict
    assert (verdict.ceiling, verdict.limit) == (designed.ceiling, designed.limit)
    assert verdict.ceiling == pytest.approx(dict(FREE), rel=1e-8)
    assert (verdict.numbers, verdict.exposed) == (designed.numbers, designed.exposed)
    plan = InService(folder)
    assert cluster.check(folder).ceiling == verdict.ceiling
    assert cli.run(["parts", "check", str(folder)]) == 0
    assert files(folder) == plan.files
    plan.still_is()

    def made(*_: object) -> None:
        raise AssertionError("finished parts tell what is free")

    monkeypatch.setattr(sums, "_made", made)
    assert cluster.check(tmp_path / "copy").ceiling == verdict.ceiling


def test_requests_that_are_refused_leave_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = InService(folder)
    with pytest.raises(vn.Infeasible, match=r"\bg\b"):
        cluster.design(folder, privacy={"g": 1e9})
    assert cli.run(["parts", "design", str(folder), "--privacy", "g=1000000000"]) != 0
    with pytest.raises(vn.InvalidRequest, match="unknown 'h'"):
        cluster.design(folder, privacy={"h": 1.0})
    assert files(folder) == plan.files
    damaged = folder / "part-00003.npz"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-30])
    for request in ({}, {"power": 2.0}, TRADED):
        with pytest.raises(vn.InvalidNetwork, match="damaged"):
            cluster.design(folder, **request)  # type: ignore[arg-type]
    damaged.write_bytes(whole)
    assert files(folder) == plan.files
    refused = Certificate((Finding("privacy of g", 2.0, 1.0, ok=False),))
    with monkeypatch.context() as patch:
        patch.setattr("veilnet.plans.certificate.certify", lambda *_, **__: refused)
        for request in ({}, {"power": 2.0}, TRADED):
            with pytest.raises(vn.InvalidPlan, match="not confirmed"):
                cluster.design(folder, **request)  # type: ignore[arg-type]
            assert not (folder / "plan" / "begun").exists()
    plan.still_is()
    assert cluster.verify(folder).ok


@pytest.mark.parametrize(
    ("request_", "module", "name", "call"),
    [
        (TRADED, searching, "answer_sums", 10),
        pytest.param({"power": 2.0}, searching, "answer_sums", 6, marks=pytest.mark.long),
        pytest.param(TRADED, sums, "_made", 3, marks=pytest.mark.long),
        pytest.param({"power": 2.0}, sums, "_made", 7, marks=pytest.mark.long),
        ({}, sums, "_made", 3),
    ],
    ids=["search", "search of noise", "writing", "writing noise", "writing shares"],
)
def test_runs_that_are_cut_off_leave_it_and_go_on(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request_: dict[str, object],
    module: object,
    name: str,
    call: int,
) -> None:
    plan = InService(folder)
    with monkeypatch.context() as patch:
        cut_off_at(patch, module, name, call)  # type: ignore[arg-type]
        with pytest.raises(KeyboardInterrupt):
            cluster.design(folder, **request_)  # type: ignore[arg-type]
    plan.still_is()
    writing = name != "answer_sums"
    begun = {path.name for path in (folder / "plan" / "begun").glob("*")}
    assert begun == ({"part-00000.npz", "part-00001.npz"} if writing else set())
    # what was begun is not mixed into another plan
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "plan" / "part-00003.npz").unlink()
    assert not cluster.design(copy, power=3.0).replaced
    assert files(copy) == plan.files
    # the same call goes on from there
    again = cluster.design(folder, **request_)  # type: ignore[arg-type]
    assert not begun & set(again.computed)
    assert again.replaced
    anew = cluster.save_parts(tmp_path / "anew", STACKS, *COMMON)
    cluster.design(anew, **request_)  # type: ignore[arg-type]
    assert files(folder) == files(anew.folder)
    assert cluster.verify(folder).ok
    with pytest.raises(vn.InvalidReading, match="messages of the plan"):
        cluster.fuse(folder, plan.messages)


def cutting(real: Callable[..., Path], error: BaseException) -> Callable[[Path, Path], Path]:
    def replace(self: Path, target: Path) -> Path:
        if self.parent.name == "begun" and self.name == "part-00002.npz" and target.parent.name == "plan":
            raise error
        return real(self, target)

    return replace


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(5, os.strerror(5))], ids=["Ctrl-C", "disk"])
def test_parts_of_two_plans_never_pass_for_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    plan = InService(folder)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", cutting(Path.replace, error))
        with pytest.raises((KeyboardInterrupt, vn.InvalidRequest)):
            cluster.design(folder)
    for use in (cluster.verify, lambda each: cluster.agent_file(each, "agent17")):
        with pytest.raises(vn.InvalidPlan, match="design first"):
            use(folder)
    assert cluster.design(folder).computed == ()  # the same call goes on
    assert cluster.verify(folder).ok
    cluster.design(folder, power=3.0)
    plan.still_is()


def test_the_command_line_says_that_a_plan_is_replaced(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "messages made by it can no longer be fused"
    for options, replaced in (([], False), ([], False), (["--power", "3"], True), (["--power", "3"], False)):
        assert cli.run(["parts", "design", str(folder), *options]) == 0
        assert (told in " ".join(capsys.readouterr().out.split())) is replaced
    assert cli.run(["parts", "design", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["replaced"] is True
