"""Files, streams and the command line of plans in which agents add up their messages."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from veilnet.cli import run
from veilnet.io.plan_archives import Archive
from veilnet.io.statements import StatedPromise
from veilnet.io.template import house
from veilnet.review.inspection import inspect


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("summed")
    house().save(folder / "house.toml")
    vn.design(house(), summed=[["kitchen", "hall"], ["bedroom", "study", "living room"]]).save(
        folder / "plan"
    )
    return folder


def test_members_have_their_own_files_and_everything_is_confirmed(saved: Path) -> None:
    plan = vn.Plan.load(saved / "plan")
    assert {path.stem for path in (saved / "plan").glob("*.json")} == {*house().agents, "plan", "center"}
    assert all(each.ok for each in vn.verify(saved / "plan", house()))
    for agent, member in plan.members.items():
        kept = vn.Sanitizer.load(saved / "plan" / f"{agent}.json")
        assert kept.same_as(member)
        assert kept.summed is not None
        assert agent in kept.summed.members
        assert kept.names == house().reading_names[agent]
    plan.save(saved / "plan.npz")
    again = vn.Plan.load(saved / "plan.npz")
    assert again.privacy == plan.privacy
    assert (
        json.loads(Archive.read(saved / "plan.npz").agent_file("hall"))["summed"]["group"] == "kitchen+hall"
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda each: each["summed"].update(bits=30), "not the sanitizer of the plan"),
        (lambda each: each.pop("summed"), "not the sanitizer of the plan"),
        (lambda each: each["summed"].update(bits=65), "expected 1 to 64"),
        (lambda each: each["summed"].update(members=["hall", "hall"]), "two different agents"),
    ],
)
def test_a_member_s_file_that_was_changed_is_refused(
    saved: Path, tmp_path: Path, change: Callable[[Any], Any], words: str
) -> None:
    from veilnet.io._sealed import seal

    shutil.copytree(saved / "plan", tmp_path / "plan")
    path = tmp_path / "plan" / "hall.json"
    document = json.loads(path.read_bytes())
    change(document)
    document.pop("checksum", None)
    path.write_bytes(seal(document))
    with pytest.raises(vn.InvalidPlan, match=words):
        vn.Plan.load(tmp_path / "plan")


def test_a_network_of_groups_is_written_and_read_back(tmp_path: Path) -> None:
    network = vn.design(house(), summed=True).network
    for name in ("n.toml", "n.json", "n.npz"):
        network.save(tmp_path / name)
        assert vn.Network.load(tmp_path / name).members == network.members
    text = (tmp_path / "n.json").read_text()
    (tmp_path / "wrong.json").write_text(re.sub(r'("threshold": ?)4', r"\g<1>1", text))
    with pytest.raises(vn.InvalidNetwork, match="threshold: expected 2 to 5"):
        vn.Network.load(tmp_path / "wrong.json")


def test_filters_of_members_add_up_to_the_filter_of_the_group() -> None:
    """Without dither and grid in the way: the sum of members' outputs is the group's own, row after row."""
    network = house(stream=True)
    plan = vn.design(network, summed=True)
    # hindsight, as the theorem's table has it
    assert {name: 1 + each for name, each in plan.privacy.items()} == pytest.approx(
        {"presence": 46.6, "cooking": 17.0, "gait": 15.45}, rel=0.01
    )
    rows = np.random.default_rng(3).normal(size=(50, network.N)) + network.offset_at_mean
    whole = plan.sanitizers["everybody"]

    def plain(sanitizer: vn.Sanitizer, read: np.ndarray) -> np.ndarray:
        memory = sanitizer.memory
        assert memory is not None
        state, sent = np.zeros(memory.order), []
        for row in read - sanitizer.offset:
            state = memory.transition @ state + memory.gain @ row
            sent.append(sanitizer.compression @ np.concatenate([state, row]))
        return np.array(sent)

    parts = sum(
        plain(member, rows[:, network.blocks.rows(place)])
        for place, member in enumerate(plan.members.values())
    )
    assert parts == pytest.approx(plain(whole, rows), rel=1e-9, abs=1e-9)
    starts = [member.memory.start for member in plan.members.values() if member.memory is not None]
    assert whole.memory is not None
    assert sum(starts) == pytest.approx(whole.memory.start, rel=1e-12)
    rng = np.random.default_rng(4)
    sent = {
        agent: np.asarray(member.stream(rng=rng).sanitize(rows[:, network.blocks.rows(place)]))
        for place, (agent, member) in enumerate(plan.members.items())
    }
    fusion = vn.Fusion(plan)
    assert np.all(np.isfinite(fusion.estimate(sent).public))
    sent["hall"][7] = np.inf
    with pytest.raises(vn.InvalidReading, match="begin anew together"):
        fusion.estimate(sent)


def test_the_command_line_simulates_sums_and_says_so(
    saved: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def told(*arguments: object, code: int = 0) -> str:
        assert run([str(each) for each in arguments]) == code
        return " ".join("".join(capfd.readouterr()).split())

    rows = np.random.default_rng(5).normal(size=(6, house().N)) + house().offset
    files = []
    for place, agent in enumerate(house().agents):
        mine = rows[:, house().blocks.rows(place)].copy()
        if agent == "study":
            mine[2] = np.nan
        heads = ",".join(["row", *house().reading_names[agent]])
        lines = [heads, *(f"{k + 1}," + ",".join(map(repr, row)) for k, row in enumerate(mine.tolist()))]
        (tmp_path / f"{agent}.csv").write_text("\n".join(lines) + "\n")
        asked = ("sanitize", saved / "plan" / f"{agent}.json", "--in", tmp_path / f"{agent}.csv")
        out = ("--out", tmp_path / f"z_{agent}.csv")
        assert "Nothing was sent" in told(*asked, *out, code=2)
        missed = 1 if agent == "study" else 0
        seed = (
            () if agent == "kitchen" else ("--seed", 1)
        )  # bare messages are not private without a seed either
        assert "protects nothing" in told(*asked, *out, "--summed", *seed, code=missed)
        assert f"{agent},no," in (tmp_path / f"z_{agent}.csv").read_text()
        files.append(f"{agent}={tmp_path}/z_{agent}.csv")
    center = saved / "plan" / "center.json"
    assert "as a simulation" in told("fuse", center, *files, code=2)
    out_file = tmp_path / "estimates.csv"
    assert "protects nothing" in told("fuse", center, *files, "--summed", "--keep", "--out", out_file)
    lines = out_file.read_text().splitlines()
    assert len(lines) == 7
    missing = lines[0].split(",").index("missing")
    assert [line.split(",")[missing] for line in lines[1:]] == [
        "",
        "",
        "study;bedroom+study+living room",
        "",
        "",
        "",
    ]
    assert "5.35x" in told("check", saved / "house.toml", "--summed", "all")
    assert "5 agents send sums" in told("design", saved / "house.toml", "--summed", "all")


def test_an_owner_reads_that_masks_hide_what_is_bare_and_what_one_helper_undoes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Meters with a reading each: alone a message is its reading, so without the sum the file raises an alarm."""
    names = [f"meter{k}" for k in range(6)]
    eye = np.eye(6)
    network = vn.Network(
        {name: eye[k : k + 1] for k, name in enumerate(names)},
        {name: [0.05] for name in names},
        {"total": np.ones(6)},
        {"first load": eye[0]},
        vn.Prior(mean=np.ones(6), covariance=0.3 * eye),
        resolution=0.01,
    )
    plan = vn.design(network, summed=True)
    member = plan.members["meter1"]
    assert inspect(member.replace(summed=None)).alarms
    found = inspect(member)
    assert not found.alarms
    assert any("EVERY raw reading" in each for each in found.notes)
    assert member.summed is not None
    assert all(name in found.summed for name in names if name != "meter1")
    assert f"{member.summed.threshold} of 6" in found.summed
    promise = StatedPromise.of(plan)
    assert promise.numbers()[3] == pytest.approx(dict(plan.colluding))
    assert StatedPromise.of(vn.design(network)).helped is None
    plan.save(tmp_path / "plan")
    assert run(["inspect", str(tmp_path / "plan" / "meter1.json")]) == 0
    said = capfd.readouterr().out
    assert "sees sums alone" in said
    assert "sees all messages" not in said
    assert "veilnet agent" in said
    assert "veilnet sanitize" not in said


def test_a_centre_that_makes_memories_begin_anew_again_and_again_learns_little() -> None:
    """It can, by holding back who is there. By the definition: 60 rows at once, draws of every start counted."""
    plan, rows = vn.design(house(stream=True), summed=True), 60
    network, sent = plan.network, plan.sanitizers["everybody"]
    memory, dynamics, step = sent.memory, network.dynamics, sent.grid
    assert memory is not None
    assert memory.start_root is not None
    assert dynamics is not None
    assert step is not None
    order, size, readings = memory.order, network.L, network.N
    spread = np.linalg.inv(network.prior.information)  # type: ignore[union-attr]
    carried = [spread]
    for _ in range(rows):
        carried.append(dynamics.transition @ carried[-1])
    before = np.block(
        [[carried[i - j] if i >= j else carried[j - i].T for j in range(rows)] for i in range(rows)]
    )
    every = np.kron(np.eye(rows), network.H)
    noises = np.kron(np.eye(rows), network.R.matrix())

    def left(shown: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """The least trace of errors of the rows in the middle, per private parameter."""
        seen = before @ shown.T
        after = before - seen @ np.linalg.solve(shown @ seen + noise, seen.T)
        middle = [after[t * size : (t + 1) * size, t * size : (t + 1) * size] for t in range(25, 35)]
        return np.array([min(np.trace(g @ each @ g.T) for each in middle) for g in network.private.values()])

    def messages(every_so_many: int) -> tuple[np.ndarray, np.ndarray]:
        """(what rows of messages have of readings, covariance of what else is in them)."""
        held, drawn = np.zeros((order, rows * readings)), np.zeros((order, rows * order))
        of_readings, of_draws = [], []
        for t in range(rows):
            if t % every_so_many == 0:
                held[:], drawn[:] = 0.0, 0.0
                drawn[:, t * order : (t + 1) * order] = memory.start_root
            held, drawn = memory.transition @ held, memory.transition @ drawn
            held[:, t * readings : (t + 1) * readings] += memory.gain
            now = sent.compression[:, :order] @ held
            now[:, t * readings : (t + 1) * readings] += sent.compression[:, order:]
            of_readings.append(now)
            of_draws.append(sent.compression[:, :order] @ drawn)
        draws = np.concatenate(of_draws)
        return np.concatenate(of_readings), draws @ draws.T + np.kron(np.eye(rows), np.diag(step**2 / 6))

    raw = left(every, noises)
    promised = np.array([1 + each for each in plan.privacy.values()])
    for every_so_many, least in ((rows, 0.99), (1, 0.99), (2, 0.97), (3, 0.97), (10, 0.98)):
        sums, noise = messages(every_so_many)
        found = left(sums @ every, noise + sums @ noises @ sums.T) / raw
        assert np.all(found >= least * promised), every_so_many
        assert every_so_many != rows or found == pytest.approx(promised, rel=1e-2)
