"""Messages of a network in parts: estimates against one piece and dense formulas, and folders that are wrong."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from veilnet import cli, cluster
from veilnet._core.types import Array
from veilnet.agent.release import NotPrivate
from veilnet.centre.messages import centre_model
from veilnet.cluster import fusing, searching
from veilnet.cluster import parts as parts_module
from veilnet.designs.many import Effort

L, AGENTS, PARTS, T = 4, 20, 3, 12
ROWS = np.random.default_rng(0).standard_normal((4, L))
PUBLIC, PRIVATE = {"u": ROWS[:2]}, {"g": ROWS[2], "f": ROWS[3]}
MEAN = np.array([3.0, -2.0, 0.5, 10.0])
RNG = np.random.default_rng(7)
SIZES = [2 + number % 2 for number in range(PARTS)]
STACKS = [
    {
        "observe": RNG.standard_normal((AGENTS, size, L)),
        "noise": (0.5 + RNG.random((AGENTS, 1, 1))) * np.eye(size),
        "offset": 20 * RNG.standard_normal((AGENTS, size)),
        "resolution": 0.3 * RNG.random((AGENTS, size)),
    }
    for size in SIZES
]
NAMES = [f"agent{k:02d}" for k in range(1, AGENTS * PARTS + 1)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(parts_module, "AGENTS_PER_TASK", 30)
    monkeypatch.setattr(searching, "EFFORT", Effort(first=6, steps=0, rounds=0, last=0))
    cluster.save_parts(tmp_path / "network", STACKS, PUBLIC, PRIVATE, vn.Prior(np.eye(L), mean=MEAN))
    return tmp_path / "network"


def agents() -> dict[str, dict[str, Any]]:
    """What ``vn.Network`` takes, agent by agent."""
    return {
        what: {NAMES[AGENTS * k + i]: stack[what][i] for k, stack in enumerate(STACKS) for i in range(AGENTS)}
        for what in ("observe", "noise", "offset", "resolution")
    }


def in_one_piece(plan: cluster.PartsPlan, prior: vn.Prior | None) -> vn.Fusion:
    """The centre of the same network in one piece, for the very same messages."""
    network = vn.Network(**agents(), public=PUBLIC, private=PRIVATE, prior=prior)
    sanitizers = {
        NAMES[AGENTS * k + i]: plan.sanitizer(f"part-{k:05d}.npz", i)
        for k in range(PARTS)
        for i in range(AGENTS)
    }
    return vn.Fusion(centre_model(network, sanitizers))


def write_readings(folder: Path, x: Array, seed: int = 1) -> list[Array]:
    folder.mkdir()
    made = []
    for number, stack in enumerate(STACKS):
        rng = np.random.default_rng([seed, number])
        noise = (
            rng.standard_normal((len(x), AGENTS, SIZES[number])) * np.sqrt(stack["noise"][:, 0, 0])[:, None]
        )
        made.append(np.einsum("snl,tl->tsn", stack["observe"], x) + stack["offset"] + noise)
        np.savez(folder / f"part-{number:05d}.npz", readings=made[-1])
    return made


def sent_by(messages: Path) -> list[Array]:
    return [np.load(messages / f"part-{number:05d}.npz")["sent"] for number in range(PARTS)]


def by_agent(plan: cluster.PartsPlan, sent: list[Array]) -> dict[str, Array]:
    """The same messages, each agent's by its name."""
    found = {}
    for number, numbers in enumerate(sent):
        start = 0
        for place in range(AGENTS):
            count = plan.sanitizer(f"part-{number:05d}.npz", place).sent
            found[NAMES[AGENTS * number + place]] = numbers[:, start : start + count]
            start += count
        assert start == numbers.shape[1]
        counts = cluster.numbers_sent(plan.parts, f"part-{number:05d}.npz")
        assert counts.sum() == start
        assert len(counts) == AGENTS
    return found


def with_gaps(plan: cluster.PartsPlan, messages: Path) -> None:
    """In row 1 one agent is missing, in rows 2 to 5 many, in row 6 all, in row 7 all but one."""
    missing = np.zeros((T, PARTS, AGENTS), bool)
    missing[1, 1, 3] = True
    missing[2:6] = np.random.default_rng(3).random((4, PARTS, AGENTS)) < 0.3
    missing[6:8] = True
    missing[7, 2, 5] = False
    for number, numbers in enumerate(sent_by(messages)):
        counts = [plan.sanitizer(f"part-{number:05d}.npz", place).sent for place in range(AGENTS)]
        numbers[np.repeat(missing[:, number], counts, axis=1)] = np.nan
        with np.load(messages / f"part-{number:05d}.npz") as archive:
            np.savez(messages / f"part-{number:05d}.npz", sent=numbers, plan=archive["plan"])


def assert_same(mine: vn.Estimate, theirs: vn.Estimate) -> None:
    assert np.array_equal(mine.estimable, theirs.estimable)
    assert np.allclose(mine.public, theirs.public, rtol=1e-10, atol=1e-10, equal_nan=True)
    assert np.allclose(mine.covariance, theirs.covariance, rtol=1e-10, atol=0, equal_nan=True)
    assert [len(each) for each in mine.missing] == [len(each) for each in theirs.missing]
    assert mine.missing == theirs.missing
    assert mine.labels == theirs.labels


@pytest.mark.parametrize("loss", [None, 0.05])
def test_parts_and_one_piece_estimate_alike(folder: Path, tmp_path: Path, loss: float | None) -> None:
    """Also where agents or a whole part are missing; and what was simulated is near the truth."""
    plan = cluster.design(folder, utility_loss=loss, starts=1)
    x = MEAN + np.random.default_rng(2).standard_normal((T, L))
    write_readings(tmp_path / "readings", x)
    made = cluster.sanitize(folder, tmp_path / "readings", tmp_path / "messages", seed=5)
    assert not made.messages.private
    assert made.refused == 0
    oracle = in_one_piece(plan, vn.Prior(np.eye(L), mean=MEAN))
    found = cluster.fuse(folder, tmp_path / "messages")
    assert_same(found, oracle.estimate(by_agent(plan, sent_by(tmp_path / "messages"))))
    errors = (found.public - x @ ROWS[:2].T) / found.deviation
    assert np.sum(errors**2) < 2 * T + 6 * np.sqrt(4 * T)  # chi-square, but for the correlation of the two
    with_gaps(plan, tmp_path / "messages")
    assert_same(
        cluster.fuse(folder, tmp_path / "messages"),
        oracle.estimate(by_agent(plan, sent_by(tmp_path / "messages"))),
    )
    messages = by_agent(plan, sent_by(tmp_path / "messages"))
    (tmp_path / "messages" / "part-00001.npz").unlink()
    part = cluster.fuse(folder, cluster.open_messages(tmp_path / "messages"))
    assert_same(part, oracle.estimate({name: z for name, z in messages.items() if name not in NAMES[20:40]}))


def test_dense_formulas_agree(folder: Path, tmp_path: Path) -> None:
    """The posterior mean of all readings at once, by N x N matrices: at perfect utility nothing else is estimated."""
    cluster.design(folder)
    x = MEAN + np.random.default_rng(2).standard_normal((3, L))
    readings = write_readings(tmp_path / "readings", x)
    sent = {}
    plan = cluster.design(folder)
    for number, array in enumerate(readings):
        rows = [plan.sanitizer(f"part-{number:05d}.npz", i) for i in range(AGENTS)]
        exact = [(array[:, i] - each.offset) @ each.compression.T for i, each in enumerate(rows)]
        sent[f"part-{number:05d}.npz"] = np.concatenate(exact, axis=1)
    cluster.save_messages(tmp_path / "messages", folder, sent)
    information, vector = np.eye(L), np.zeros((3, L))
    for stack, array in zip(STACKS, readings, strict=True):
        for i in range(AGENTS):
            noise = stack["noise"][i] + np.diag(stack["resolution"][i] ** 2 / 6)
            half = np.linalg.solve(noise, stack["observe"][i])
            information = information + stack["observe"][i].T @ half
            vector = vector + (array[:, i] - stack["offset"][i] - stack["observe"][i] @ MEAN) @ half
    expected = (MEAN + np.linalg.solve(information, vector.T).T) @ ROWS[:2].T
    found = cluster.fuse(folder, tmp_path / "messages")
    assert np.allclose(found.public, expected, rtol=1e-10, atol=1e-10)
    assert np.allclose(found.covariance[0], ROWS[:2] @ np.linalg.solve(information, ROWS[:2].T), rtol=1e-10)
    assert found.missing == ((),) * 3


@pytest.mark.long
def test_without_a_prior_what_nobody_tells_is_not_a_number(folder: Path, tmp_path: Path) -> None:
    """And one agent a thousand times sharper than the rest, who falls silent, costs the others no digits."""
    shutil.rmtree(folder)
    sharp = [dict(stack) for stack in STACKS]
    sharp[1]["noise"] = sharp[1]["noise"].copy()
    sharp[1]["noise"][3] *= 1e-6
    sharp[1]["resolution"] = 0.0
    cluster.save_parts(folder, sharp, PUBLIC, PRIVATE)
    plan = cluster.design(folder, privacy=0.0)
    x = np.random.default_rng(2).standard_normal((T, L))
    readings = write_readings(tmp_path / "readings", x)
    cluster.sanitize(folder, tmp_path / "readings", tmp_path / "messages", seed=5)
    for place in range(AGENTS):  # readings without steps or noise: what is sent is rounded, and nothing else
        each = plan.sanitizer("part-00001.npz", place)
        rounded = by_agent(plan, sent_by(tmp_path / "messages"))[NAMES[20 + place]]
        assert each.grid is not None
        assert np.all(
            np.abs(rounded - (readings[1][:, place] - each.offset) @ each.compression.T) <= each.grid
        )
    with_gaps(plan, tmp_path / "messages")
    given = agents()
    given["noise"] = given["noise"] | {NAMES[23]: sharp[1]["noise"][3]}
    given["resolution"] = given["resolution"] | {name: [0.0] * 3 for name in NAMES[20:40]}
    network = vn.Network(**given, public=PUBLIC, private=PRIVATE)
    sanitizers = {
        NAMES[AGENTS * k + i]: plan.sanitizer(f"part-{k:05d}.npz", i)
        for k in range(PARTS)
        for i in range(AGENTS)
    }
    oracle = vn.Fusion(centre_model(network, sanitizers))
    theirs = oracle.estimate(by_agent(plan, sent_by(tmp_path / "messages")))
    mine = cluster.fuse(folder, tmp_path / "messages")
    assert not mine.estimable[6:8].any()  # nobody, or one agent alone
    assert mine.estimable[:6].all()
    assert np.array_equal(mine.estimable, theirs.estimable)
    assert np.allclose(mine.public, theirs.public, rtol=1e-9, atol=1e-9, equal_nan=True)
    assert np.allclose(mine.deviation, theirs.deviation, rtol=1e-9, atol=0)


def test_rows_that_are_too_many_for_one_answer_come_in_several(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = cluster.design(folder)
    write_readings(tmp_path / "readings", np.zeros((T, L)))
    cluster.sanitize(folder, tmp_path / "readings", tmp_path / "messages")
    with_gaps(plan, tmp_path / "messages")
    at_once = cluster.fuse(folder, tmp_path / "messages")
    monkeypatch.setattr(fusing, "_NUMBERS_AT_ONCE", 5 * L * L)
    in_blocks = cluster.fuse(folder, tmp_path / "messages")
    assert np.allclose(at_once.public, in_blocks.public, rtol=1e-13)
    assert np.array_equal(at_once.covariance, in_blocks.covariance)
    assert at_once.missing == in_blocks.missing
    assert at_once.missing[1] == (NAMES[23],)
    assert at_once.missing[6][-2:] == tuple(NAMES[-2:])
    assert at_once.missing[6][7] == NAMES[7]
    assert repr(at_once.missing[6]) == "<60 agents missing>"
    assert at_once.missing[1] != (NAMES[24],)
    shown = at_once._repr_html_()
    assert "agent24" in shown
    assert "agent06 and 54 more" in shown
    nothing = {
        part.name: np.zeros((0, int(cluster.numbers_sent(folder, part.name).sum())))
        for part in plan.parts.parts
    }
    empty = cluster.fuse(folder, cluster.save_messages(tmp_path / "none", folder, nothing))
    assert empty.public.shape == (0, 2)
    assert empty.missing == ()


def test_what_agents_send_is_what_their_files_say(folder: Path, tmp_path: Path) -> None:
    """Noise has the variance that the plan says, numbers are on the grid, and a reading in doubt is not sent."""
    plan = cluster.design(folder, utility_loss=0.05, starts=1)
    rows = 2000
    readings = write_readings(tmp_path / "readings", np.zeros((rows, L)))
    readings[0][4, 2, 1] = np.nan
    far = plan.sanitizer("part-00000.npz", 3).reach[1][0]
    readings[0][5, 3, 0] = 1e6 * far
    np.savez(tmp_path / "readings" / "part-00000.npz", readings=readings[0])
    made = cluster.sanitize(folder, tmp_path / "readings", tmp_path / "messages")
    assert made.messages.private
    assert made.refused == 1
    sent = by_agent(plan, sent_by(tmp_path / "messages"))
    readings[0][5, 3, 0] = far  # what it counts as
    scores = []
    for number in range(PARTS):
        for place in range(AGENTS):
            each = plan.sanitizer(f"part-{number:05d}.npz", place)
            numbers = sent[NAMES[AGENTS * number + place]]
            assert np.array_equal(np.isnan(numbers).any(axis=1), np.isnan(numbers).all(axis=1))
            there = np.isfinite(numbers).all(axis=1)
            assert there.sum() == rows - (number == 0 and place == 2)
            assert each.grid is not None
            assert np.array_equal(numbers[there] % each.grid, np.zeros_like(numbers[there]))
            added = numbers[there] - (readings[number][there, place] - each.offset) @ each.compression.T
            assert each.resolution is not None
            expected = each.compression @ np.diag(each.resolution**2 / 6) @ each.compression.T + each.noise
            scores += (np.mean(added**2, axis=0) / np.diag(expected) - 1).tolist()
    # Means of 2,000 squares stray by sqrt(2/2000) = 3.2 %; at six deviations, one in 1e8 for each of some hundred.
    assert np.max(np.abs(scores)) < 6 * np.sqrt(2 / rows)
    assert len(scores) > 50
    with pytest.raises(vn.InvalidRequest, match="holds messages already"):
        cluster.sanitize(folder, tmp_path / "readings", tmp_path / "messages")


def test_parts_alike_draw_noise_of_their_own_from_one_seed(tmp_path: Path) -> None:
    """The same agents with the same readings in two parts: whoever has one seed for all must not get equal noise."""
    observe = np.random.default_rng(0).standard_normal((3, 2, 2))
    stack = (observe, np.tile(np.eye(2), (3, 1, 1)))
    common = ([[1.0, 0.0]], {"g": [[0.0, 1.0]]}, vn.Prior(np.eye(2)))
    network = cluster.save_parts(tmp_path / "alike", [stack, stack], *common)
    cluster.design(network, power=1.0)
    (tmp_path / "readings").mkdir()
    for part in network.parts:
        np.savez(tmp_path / "readings" / part.name, readings=np.zeros((4, 3, 2)))
    made = cluster.sanitize(network, tmp_path / "readings", tmp_path / "sent", seed=1).messages
    sent = []
    for part in network.parts:
        with np.load(made.folder / part.name) as archive:
            sent.append(archive["sent"])
    noisy = np.ptp(sent[0], axis=0) > 0
    assert np.any(noisy)
    assert not np.any((sent[0] == sent[1])[:, noisy])


def test_a_run_that_was_cut_off_draws_no_noise_twice(folder: Path, tmp_path: Path) -> None:
    cluster.design(folder, utility_loss=0.05, starts=1)
    write_readings(tmp_path / "readings", np.zeros((T, L)))
    cluster.sanitize(folder, tmp_path / "readings", tmp_path / "messages")
    before = sent_by(tmp_path / "messages")
    (tmp_path / "messages" / "header.json").unlink()
    (tmp_path / "messages" / "part-00002.npz").unlink()
    cluster.sanitize(folder, tmp_path / "readings", tmp_path / "messages")
    after = sent_by(tmp_path / "messages")
    assert np.array_equal(before[0], after[0])
    assert not np.array_equal(before[2], after[2])
    (tmp_path / "messages" / "header.json").unlink()
    with pytest.raises(vn.InvalidRequest, match=r"part-00000\.npz: .*other readings"):
        cluster.sanitize(folder, tmp_path / "readings", tmp_path / "messages", seed=1)
    path = tmp_path / "messages" / "part-00000.npz"
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    odd: list[dict[str, Any]] = [{"sent": None}, {"seed": np.arange(2)}, {"seed": "x"}, {"plan": None}]
    for changes in odd:
        np.savez(path, **{name: each for name, each in (arrays | changes).items() if each is not None})
        with pytest.raises(vn.InvalidRequest, match=r"part-00000\.npz: .*other readings"):
            cluster.sanitize(folder, tmp_path / "readings", tmp_path / "messages")
    again = [cluster.sanitize(folder, tmp_path / "readings", tmp_path / f"m{k}", seed=1) for k in range(2)]
    assert np.array_equal(sent_by(tmp_path / "m0")[1], sent_by(tmp_path / "m1")[1])
    assert not again[0].messages.private


def test_messages_that_do_not_fit_are_refused(folder: Path, tmp_path: Path) -> None:
    plan = cluster.design(folder)
    write_readings(tmp_path / "readings", np.zeros((T, L)))
    messages = tmp_path / "messages"
    cluster.sanitize(folder, tmp_path / "readings", messages, seed=1)
    sent = sent_by(messages)
    path, header = messages / "part-00001.npz", messages / "header.json"
    whole, told = path.read_bytes(), header.read_text()
    name = json.loads(told)["plan"]
    for arrays, words in (
        ({"sent": sent[1], "plan": "other"}, "its plan is other"),
        ({"sent": sent[1]}, "its plan is not named"),
        ({"sent": sent[1][1:], "plan": name}, r"expected 12 rows of \d+ numbers"),
        ({"sent": sent[1][:, 1:], "plan": name}, r"expected 12 rows of \d+ numbers"),
        ({"sent": np.array(["1"]), "plan": name}, "expected real numbers in 2 dimensions"),
        ({"plan": name}, "expected real numbers in 2 dimensions"),
    ):
        np.savez(path, **arrays)  # type: ignore[arg-type]
        with pytest.raises(vn.VeilnetError, match=rf"part-00001\.npz.*{words}"):
            cluster.fuse(folder, messages)
    path.write_bytes(whole[:100])
    with pytest.raises(vn.VeilnetError, match=r"part-00001\.npz: .*damaged"):
        cluster.fuse(folder, messages)
    path.write_bytes(whole)
    (messages / "part-00007.npz").write_bytes(whole)
    with pytest.raises(vn.VeilnetError, match=r"part-00007\.npz: "):
        cluster.fuse(folder, messages)
    (messages / "part-00007.npz").unlink()
    for change, words in (
        ({"plan": "0123456789abcdef"}, "messages of the plan 0123456789abcdef"),
        ({"rows": 3.5}, "the header was changed"),
        ({"rows": -1}, "rows: expected at least 0"),
        ({"format": "veilnet-parts/1"}, "format: expected"),
        ({"format": "veilnet-messages/99"}, "made by a newer veilnet"),
    ):
        header.write_text(json.dumps(json.loads(told) | change))
        with pytest.raises(vn.VeilnetError, match=words):
            cluster.fuse(folder, messages)
    header.unlink()
    with pytest.raises(vn.VeilnetError, match="begins with its header"):
        cluster.fuse(folder, messages)
    shutil.rmtree(messages)
    for given, error in (
        ({"part-00001.npz": sent[1][:, 1:]}, "numbers, found shape"),
        ({"part-00000.npz": sent[0], "part-00001.npz": sent[1][1:]}, "expected 12 rows of"),
        ({"part-1.npz": sent[1]}, "part-1.npz"),
        ({}, "found none"),
    ):
        with pytest.raises(vn.VeilnetError, match=error):
            cluster.save_messages(messages, folder, given)
        shutil.rmtree(messages)
    simulated = sent[1].view(NotPrivate)
    assert not cluster.save_messages(messages, folder, [("part-00001.npz", simulated)]).private
    (messages / "header.json").unlink()
    with pytest.raises(vn.InvalidRequest, match="never finished"):
        cluster.save_messages(messages, folder, {"part-00000.npz": sent[0]})
    np.savez(tmp_path / "readings" / "part-00001.npz", readings=np.zeros((T, AGENTS, 7)))
    with pytest.raises(vn.VeilnetError, match=r"expected shape \(T, 20, 3\)"):
        cluster.sanitize(folder, tmp_path / "readings", tmp_path / "new")
    np.savez(tmp_path / "readings" / "part-00001.npz", readings=np.zeros((T + 1, AGENTS, 3)))
    with pytest.raises(vn.VeilnetError, match=r"12 rows.*part-00001\.npz.* 13\b"):
        cluster.sanitize(folder, tmp_path / "readings", tmp_path / "newer")
    with pytest.raises(vn.VeilnetError, match=r"readings: .*folder"):
        cluster.sanitize(folder, tmp_path / "nowhere", tmp_path / "newest")
    promised = folder / "plan" / "plan.json"
    document = json.loads(promised.read_text())
    for place, (triangle, words) in enumerate(
        (
            (None, r"plan\.json: triangle: missing"),
            ({"shape": [1], "data": "AAAAAAAA8D8="}, "triangle: expected 4 rows and columns"),
        )
    ):
        changed = document | {"triangle": triangle}
        promised.write_text(json.dumps({name: each for name, each in changed.items() if each is not None}))
        odd = cluster.save_messages(tmp_path / f"odd{place}", folder, {"part-00000.npz": sent[0]})
        with pytest.raises(vn.InvalidPlan, match=words):
            cluster.fuse(folder, odd)
    twice = 2 * np.frombuffer(base64.b64decode(document["triangle"]["data"]))
    packed = document["triangle"] | {"data": base64.b64encode(twice.tobytes()).decode()}
    promised.write_text(json.dumps(document | {"triangle": packed}))
    with pytest.raises(vn.InvalidPlan, match="triangle"):
        cluster.verify(folder)
    assert plan.utility == 0.0


def test_the_command_line_sanitizes_and_fuses_folders(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["parts", "design", str(folder)]) == 0
    readings = write_readings(tmp_path / "readings", np.zeros((T, L)))
    readings[0][4, 2, 1] = np.nan
    np.savez(tmp_path / "readings" / "part-00000.npz", readings=readings[0])
    sanitize = ["parts", "sanitize", str(folder), str(tmp_path / "readings"), str(tmp_path / "messages")]
    assert cli.run(sanitize) == 1
    assert "1 messages were not sent" in capsys.readouterr().err
    out = tmp_path / "estimates.csv"
    assert cli.run(["parts", "fuse", str(folder), str(tmp_path / "messages"), "--out", str(out)]) == 0
    assert "12 rows, 1 with missing agents, 0 where" in capsys.readouterr().out
    lines = [line.split(",") for line in out.read_text().splitlines()]
    assert lines[0][-2:] == ["missing", "contradicting"]
    assert [line[-2] for line in lines[1:]] == ["0"] * 4 + ["1"] + ["0"] * 7
    found = cluster.fuse(folder, tmp_path / "messages")
    told = np.array([[float(cell) for cell in line[1:5]] for line in lines[1:]])
    assert np.array_equal(told, np.concatenate([found.public, found.deviation], axis=1))
    assert cli.run(["parts", "fuse", str(folder), str(tmp_path / "messages"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[4])["missing"] == 1
    for wrong, words in (
        (["parts", "fuse", str(folder), "kitchen=a.csv"], "a folder of messages begins with its header"),
        (["parts", "fuse", str(folder), "messages", "--gate", "1e-6"], "no such option: --gate"),
        (["parts", "sanitize", str(folder), str(tmp_path / "more")], "required: messages"),
    ):
        assert cli.run(wrong) == 2
        assert words in capsys.readouterr().err
    assert cli.run([*sanitize[:-1], str(tmp_path / "simulated"), "--seed", "3", "--json"]) == 1
    assert not json.loads(capsys.readouterr().out)["private"]
    assert (
        cli.run(["parts", "fuse", str(folder), str(tmp_path / "simulated"), "--out", str(out), "--json"]) == 0
    )
    shown = capsys.readouterr()
    assert json.loads(shown.out)["with_missing_agents"] == 1
    assert "NOT private" in shown.err
