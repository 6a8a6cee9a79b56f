"""The step of epochs belongs to the plan: in every file of it, held to by agents and centre, and part of consent."""

from __future__ import annotations

import json
import pickle
import warnings
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.live_networks import Wired, house_plan
from helpers.small_network import small_network
from helpers.stream_networks import random_stream
from veilnet._core.durations import RowStep, duration_in_words, nearest_round, origin_of, read_step
from veilnet._core.errors import InvalidNetwork, InvalidPlan, InvalidRequest
from veilnet.cli import run
from veilnet.io._formats import CENTRE, SANITIZER
from veilnet.io._sealed import open_sealed, seal
from veilnet.io.agent_store import AgentStore
from veilnet.io.centre_files import load_centre
from veilnet.io.plan_files import save_plan
from veilnet.io.row_keys import ROW, RowKey
from veilnet.io.template import house
from veilnet.live.epochs import Epochs, epochs_of
from veilnet.live.keys import make_keys
from veilnet.live.seals import make_seals
from veilnet.live.sending import Sender
from veilnet.plans.verification import verify
from veilnet.review.inspection import inspect
from veilnet.review.order import what_more

TIMES = RowKey("time", "zoned")


@pytest.mark.parametrize(
    ("given", "seconds", "words"),
    [
        ("15min", 900.0, "15min"),
        (900, 900.0, "15min"),
        (timedelta(hours=1), 3600.0, "1h"),
        ("90 s", 90.0, "90s"),
        (0.25, 0.25, "250ms"),
        ("0.1s", 0.1, "100ms"),
        ("2d", 172800.0, "2d"),
    ],
)
def test_steps_are_read_in_every_spelling_and_written_in_one(
    given: object, seconds: float, words: str
) -> None:
    assert read_step(given) == seconds
    assert duration_in_words(seconds) == words
    assert read_step(words) == seconds


@pytest.mark.parametrize("given", ["soon", "15 parsecs", True, float("nan"), -900, 0, "1us", "9999d", [900]])
def test_what_is_no_step_is_refused(given: object) -> None:
    with pytest.raises(InvalidNetwork, match="step: expected"):
        small_network().replace(step=given)


@pytest.mark.parametrize(
    ("measured", "step"),
    [(59.998, 60.0), (3599.4, 3600.0), (603.0, 603.0), (86400.0, 86400.0), (0.05, 0.05), (1e-5, None)],
)
def test_a_clock_that_is_a_little_off_still_tells_a_round_step(measured: float, step: float | None) -> None:
    assert nearest_round(measured) == step


@pytest.mark.parametrize("suffix", [".toml", ".json", ".npz"])
def test_network_files_carry_the_step(tmp_path: Path, suffix: str) -> None:
    network = small_network().replace(step="15min")
    network.save(tmp_path / f"network{suffix}")
    assert vn.Network.load(tmp_path / f"network{suffix}").step == 900.0
    small_network().save(tmp_path / f"plain{suffix}")
    assert vn.Network.load(tmp_path / f"plain{suffix}").step is None


@pytest.mark.parametrize("target", ["plan", "plan.npz"])
@pytest.mark.parametrize("step", ["15min", None])
def test_plans_carry_the_step_to_every_party(tmp_path: Path, target: str, step: str | None) -> None:
    plan = vn.design(small_network().replace(step=step))
    plan.save(tmp_path / target)
    loaded = vn.Plan.load(tmp_path / target)
    seconds = None if step is None else 900.0
    assert loaded.network.step == seconds
    assert {each.step for each in loaded.sanitizers.values()} == {seconds}
    assert loaded.messages.step == seconds
    assert all(each.ok for each in verify(tmp_path / target, plan.network))
    if target == "plan":
        texts = [path.read_text() for path in (tmp_path / target).glob("*.json")]
        assert all(
            ('"step":' in text) == (step is not None) for text in texts
        )  # files of old have no such key


@pytest.mark.parametrize("target", ["rows.npz", "stream.npz"])
def test_agents_files_extracted_from_one_file_carry_it(tmp_path: Path, target: str) -> None:
    network = random_stream(1, mean=True) if target == "stream.npz" else small_network()
    plan = vn.design(network.replace(step="15min"))
    plan.save(tmp_path / target)
    plan.save(tmp_path / "plan")
    for name in (*network.agents, "center"):
        out = tmp_path / f"{name}.json"
        assert run(["extract", str(tmp_path / target), name, "--out", str(out)]) == 0
        assert b'"step": "15min"' in out.read_bytes()
        assert out.read_bytes() == (tmp_path / "plan" / f"{name}.json").read_bytes()


def test_a_stream_carries_it_too(tmp_path: Path) -> None:
    plan = house_plan(stream=True)
    stepped = vn.Plan(**{**vars_of(plan), "network": plan.network.replace(step="5min")})
    assert stepped.messages.step == 300.0
    assert plan.messages.step is None
    save_plan(stepped, tmp_path / "plan")
    with pytest.raises(InvalidPlan, match="step"):  # the agents' files say nothing of it
        vn.Plan.load(tmp_path / "plan")


def vars_of(plan: vn.Plan) -> dict[str, object]:
    names = (
        "network",
        "sanitizers",
        "method",
        "utility",
        "privacy",
        "certificate",
        "targets",
        "worst_targets",
    )
    return {name: getattr(plan, name) for name in (*names, "floors", "details", "proof", "privacy_with_gaps")}


def test_a_file_with_another_step_than_the_plan_is_found(tmp_path: Path) -> None:
    network = small_network().replace(step="15min")
    vn.design(network).save(tmp_path / "plan")
    path = tmp_path / "plan" / f"{network.agents[0]}.json"
    document = open_sealed(path, SANITIZER)
    path.write_bytes(
        seal({key: value for key, value in document.items() if key != "checksum"} | {"step": "1s"})
    )
    assert any(
        not each.ok and "not the sanitizer of the plan" in each.note for each in verify(tmp_path / "plan")
    )
    centre = tmp_path / "plan" / "center.json"
    document = open_sealed(centre, CENTRE)
    centre.write_bytes(
        seal({key: value for key, value in document.items() if key not in ("checksum", "step")})
    )
    assert any(not each.ok and "not the centre's part" in each.note for each in verify(tmp_path / "plan"))


def test_inspect_says_how_often_something_is_told() -> None:
    sanitizer = vn.Sanitizer([[1.0, 1.0]], [1.0], step="15min")
    assert any("15min" in note for note in inspect(sanitizer).notes)
    assert not any("at most is told" in note for note in inspect(sanitizer.replace(step=None)).notes)


@pytest.mark.parametrize(
    ("agreed", "new", "words"),
    [
        ("15min", "15min", ""),
        ("15min", "1h", ""),
        ("15min", "5min", "every 5min, where it was every 15min at most"),
        (None, "15min", "one in every 15min would be sent, where it was any number"),
        ("15min", None, "any number of them would be sent, where it was one in every 15min"),
    ],
)
def test_a_shorter_step_and_one_that_comes_or_goes_ask_for_consent(
    agreed: str | None, new: str | None, words: str
) -> None:
    before = vn.Sanitizer([[1.0, 1.0]], [1.0], step=agreed)
    found = what_more(before.replace(step=new), before)
    assert (words in found[0]) if words else found == ()


def test_a_plan_decides_and_the_option_must_agree() -> None:
    assert epochs_of(None, 900.0) == Epochs(RowStep(900.0), planned=True)
    assert epochs_of("15 min", 900.0) == Epochs(RowStep(900.0))
    assert epochs_of("15min", None) == Epochs(RowStep(900.0))
    with pytest.raises(InvalidRequest, match=r"--step: .*15min, found 5min"):
        epochs_of("5min", 900.0)
    epochs_of(None, 900.0).check(ROW)  # rows may be numbered whatever the plan says of times
    with pytest.raises(InvalidRequest, match="carry no times"):
        epochs_of("15min", 900.0).check(ROW)
    with pytest.raises(InvalidRequest, match="the plan does not say"):
        epochs_of(None, None).check(TIMES)


def test_numbered_rows_are_not_taken_for_times_of_1970() -> None:
    planned = epochs_of(None, 900.0)
    assert planned.start(17) is None
    assert planned.start(1_963_000) == 1_962_999 * 900.0
    assert epochs_of("15min", None).start(17) == 16 * 900.0


@pytest.mark.parametrize("name", ["plan", "plan.npz"])
def test_a_plan_given_a_step_is_verified_on_the_network_that_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    small, plan = tmp_path / "network.json", str(tmp_path / name)
    network = small_network()
    network.save(small)
    assert run(["design", str(small), "--step", "15min", "--out", plan]) == 0
    capsys.readouterr()
    assert run(["verify", plan, str(small)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "of 15min" in told
    assert "NOT confirmed" not in told
    first = next(each for each in verify(plan, network.replace(step="5min")) if not each.ok)
    assert first.what == "network is the given one"
    assert first.note == "the plan has a step of 15min, the network one of 5min"
    moved = network.replace(offset={network.agents[0]: [1.0] * int(network.blocks.sizes[0])})
    first = next(each for each in verify(plan, moved) if not each.ok)
    assert first.what == "network is the given one"
    assert "step" not in first.note
    vn.design(network).save(plan, force=True)
    first = next(each for each in verify(plan, network.replace(step="5min")) if not each.ok)
    assert first.note == "the network has a step of 5min, the plan none"


def agent_arguments(folder: Path, agent: str, *further: str) -> list[str]:
    keys = make_keys(folder / "keys", [agent]).keys if not (folder / "keys").exists() else None
    if keys is not None:
        make_seals(keys, [agent])
    cert = folder / "keys" / "agents" / agent
    return [
        "agent", str(folder / "plan" / f"{agent}.json"), "--broker", "mqtts://127.0.0.1:1", "--cert", str(cert),
        "--in", str(folder / "readings.csv"), "--patience", "0", *further,
    ]  # fmt: skip


def test_an_agent_needs_no_option_and_sends_nothing_where_it_differs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    network = small_network().replace(step="15min")
    agent = network.agents[0]
    vn.design(network).save(tmp_path / "plan")
    names = ",".join(f"r{k}" for k in range(int(network.blocks.sizes[0])))
    values = ",".join(["1.5"] * int(network.blocks.sizes[0]))
    (tmp_path / "readings.csv").write_text(
        f"time,{names}\n2026-03-01 10:01:00Z,{values}\n2026-03-01 10:14:00Z,{values}\n2026-03-01 10:16:00Z,{values}\n"
    )
    store = tmp_path / "plan" / f"{agent}.sqlite"
    assert run(agent_arguments(tmp_path, agent, "--begin", "--step", "5min")) == 2
    assert "15min, found 5min" in capfd.readouterr().err
    assert not store.exists()
    assert run(agent_arguments(tmp_path, agent, "--begin")) == 1  # nobody acknowledges
    kept = AgentStore(store, agent)
    assert kept.ledger().releases == 2
    assert kept.epochs == "steps of 900 s in times with a zone"
    running = epochs_of(None, 900.0)
    with pytest.raises(InvalidPlan, match="900 s"):
        running.goes_on_as(epochs_of(None, 300.0), kept.epochs)
    running.goes_on_as(epochs_of(None, 300.0), "rows")
    kept.close()
    # the next plan with another step cannot go on with this store
    vn.design(network.replace(step="5min")).save(tmp_path / "plan", force=True)
    assert run(agent_arguments(tmp_path, agent)) == 2
    assert "900 s" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("lines", "options", "said"),
    [
        ("time,{names}\n2026-03-01 10:01:00Z,{values}\n", [], "the readings carry times"),
        ("row,{names}\n1,{values}\n", ["--step", "15min"], "the readings carry no times"),
        ("row,{names}\n1,{values}\n", ["--time", "when"], "no column 'when'"),
        ("row\n1\n", [], "expected a header with"),
    ],
)
def test_a_beginning_that_is_refused_leaves_no_store(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], lines: str, options: list[str], said: str
) -> None:
    network = small_network()
    agent, size = network.agents[0], int(network.blocks.sizes[0])
    vn.design(network).save(tmp_path / "plan")
    names, values = ",".join(f"r{k}" for k in range(size)), ",".join(["1.5"] * size)
    (tmp_path / "readings.csv").write_text(lines.format(names=names, values=values))
    assert run(agent_arguments(tmp_path, agent, "--begin", *options)) == 2
    assert said in capfd.readouterr().err
    store = tmp_path / "plan" / f"{agent}.sqlite"
    assert not store.exists()
    (tmp_path / "readings.csv").write_text(f"row,{names}\n1,{values}\n")
    assert run(agent_arguments(tmp_path, agent, "--begin")) == 1  # nobody acknowledges
    kept = AgentStore(store, agent)
    assert kept.ledger().releases == 1
    kept.close()


def test_a_plan_replaced_before_anything_was_told_is_kept_to_with_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = small_network().replace(step="15min")
    agent = network.agents[0]
    vn.design(network).save(tmp_path / "plan")
    size = int(network.blocks.sizes[0])
    rows = "".join(f"2026-03-01 10:{minute}:00Z{',1.5' * size}\n" for minute in ("01", "16", "31"))
    (tmp_path / "readings.csv").write_text("time" + "".join(f",r{k}" for k in range(size)) + "\n" + rows)
    start = Sender.start

    def replaced_meanwhile(sender: Sender) -> None:
        vn.design(network.replace(step="1h")).save(tmp_path / "plan", force=True)
        start(sender)

    monkeypatch.setattr(Sender, "start", replaced_meanwhile)
    assert run(agent_arguments(tmp_path, agent, "--begin")) == 1  # nobody acknowledges
    kept = AgentStore(tmp_path / "plan" / f"{agent}.sqlite", agent)
    assert (kept.epochs, kept.ledger().releases) == ("steps of 3600 s in times with a zone", 1)
    kept.close()


def test_a_time_belongs_to_the_nearest_row_where_the_plan_says_when_rows_are_read() -> None:
    """Three clocks that are up to 40 s off, reading at 7 min past: a row for each quarter of an hour."""
    rng = np.random.default_rng(3)
    read = 900 * np.arange(1_960_000, 1_960_050) + 420.0
    for _ in range(3):
        off = read + rng.uniform(-40, 40, read.size)
        step = RowStep(900.0, origin_of(off.tolist(), 900.0))
        assert duration_in_words(step) == "15min from 7min"
        rows = step.row_at((off * 1e6).astype(np.int64))
        assert np.all(np.diff(rows) == 1)
        assert [step.time_of(int(row)) / 1e6 for row in rows] == read.tolist()
    assert origin_of(rng.uniform(0, 900 * 400, 400).tolist(), 900.0) is None
    for origin in (0.0, 449.0, 450.0, 451.0, 899.0):  # a clock that begins at zero has no row below 1
        step = RowStep(900.0, origin)
        assert step.row_at(0) in (1, 2)
        assert (step.row_at(int(origin * 1e6)) - step.row_at(int(origin * 1e6) - 449_999_999)) == 0


def test_when_rows_are_read_goes_where_the_step_goes(tmp_path: Path) -> None:
    plan = vn.design(house().replace(step="15min from 7min"))
    plan.save(tmp_path / "plan")
    loaded = vn.Plan.load(tmp_path / "plan")
    steps = [loaded.network.step, vn.Sanitizer.load(tmp_path / "plan" / "hall.json").step]
    steps += [
        vn.Fusion.load(tmp_path / "plan" / "center.json").model.step,
        pickle.loads(pickle.dumps(steps[0])),
    ]
    assert [duration_in_words(step) for step in steps if step] == ["15min from 7min"] * 4
    assert epochs_of("15min", steps[0]).in_words(TIMES) == "steps of 900 s from 7min in times with a zone"
    other = vn.Sanitizer([[1.0, 1.0]], [1.0], step="15min")
    assert not other.same_as(other.replace(step="15min from 7min"))  # else readings would be told twice
    with pytest.raises(InvalidPlan, match="sent twice"):
        epochs_of(None, 900.0).goes_on_as(epochs_of(None, steps[0]), "steps of 900 s in times with a zone")


def test_steps_that_differ_by_a_microsecond_are_counted_in_different_words() -> None:
    for step in ("15min", "500ms", "1000000s", "1d"):
        seconds = read_step(step) or 0.0
        assert Epochs(RowStep(seconds)).in_words(TIMES) == f"steps of {seconds:g} s in times with a zone"
        others = {Epochs(RowStep(seconds + more * 1e-6)).in_words(TIMES) for more in (-1, 0, 1)}
        assert len(others) == 3


def test_a_centre_does_not_mix_steps_in_one_store(tmp_path: Path) -> None:
    network = house().replace(step="15min")
    wired = Wired(tmp_path, vn.design(network))
    try:
        assert wired.centre.fusion.model.step == 900.0
        for step, fits in (("5min", False), (None, True)):
            vn.design(network.replace(step=step)).save(tmp_path / f"other {step}")
            path = tmp_path / f"other {step}" / "center.json"
            if fits:
                assert wired.centre.take_up(path.read_bytes(), path)
            else:
                with pytest.raises(InvalidPlan, match=r"its epochs take 5min, those in .* 15min"):
                    wired.centre.take_up(path.read_bytes(), path)
    finally:
        wired.close()


def test_design_takes_the_step_and_keeps_that_of_a_stream(tmp_path: Path, capsys) -> None:
    small_network().save(tmp_path / "net.toml")
    assert (
        run(["design", str(tmp_path / "net.toml"), "--step", "15min", "--out", str(tmp_path / "plan")]) == 0
    )
    assert load_centre(tmp_path / "plan" / "center.json").step == 900.0
    assert json.loads((tmp_path / "plan" / "plan.json").read_text())["network"]["step"] == "15min"
    house(stream=True).replace(step="5min").save(tmp_path / "stream.toml")
    assert run(["design", str(tmp_path / "stream.toml"), "--step", "15min"]) == 2
    assert "5min" in capsys.readouterr().err
    assert vn.design(small_network(), step=300).network.step == 300.0
    assert run(["design", str(tmp_path / "net.toml"), "--step", "often"]) == 2
    assert "--step:" in capsys.readouterr().err


def test_a_fit_with_times_knows_the_step_of_its_rows() -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((400, 2))
    table = {
        "time": 1.5e9 + 600.0 * np.arange(400) + rng.uniform(-1, 1, 400),
        "a": x[:, 0] + 0.3 * rng.standard_normal(400),
        "b": x[:, 1] + x[:, 0] + 0.3 * rng.standard_normal(400),
        "u": x[:, 0],
        "g": x[:, 1],
    }
    given = {"agents": {"one": ["a"], "two": ["b"]}, "public": ["u"], "private": ["g"]}
    with warnings.catch_warnings(action="ignore"):
        fitted = vn.fit(table, time="time", stream=False, **given)
        untimed = vn.fit({k: v for k, v in table.items() if k != "time"}, **given)
    assert duration_in_words(fitted.step) == "10min from 0s"
    assert untimed.step is None


@pytest.mark.parametrize(
    ("kind", "step"),
    [("rows lost", 600.0), ("every night a break", 600.0), ("whenever", None), ("in bursts", None)],
)
def test_only_rows_that_keep_to_a_step_have_one(kind: str, step: float | None) -> None:
    rng = np.random.default_rng(6)
    times = {
        "rows lost": 600.0 * np.flatnonzero(rng.random(800) < 0.6)[:400],
        "every night a break": 600.0 * np.arange(400) + 40000.0 * (np.arange(400) // 60),
        "whenever": np.cumsum(rng.exponential(600.0, 400)),
        "in bursts": 3600.0 * (np.arange(400) // 4) + 0.5 * (np.arange(400) % 4),
    }[kind]
    x = rng.standard_normal((len(times), 2))
    read = x @ [[1.0, 1.0], [0.0, 1.0]] + 0.3 * rng.standard_normal(x.shape)
    table = {"time": 1.5e9 + times, "a": read[:, 0], "b": read[:, 1], "u": x[:, 0], "g": x[:, 1]}
    with warnings.catch_warnings(action="ignore"):
        found = vn.fit_report(
            table, time="time", stream=False, agents={"one": ["a"], "two": ["b"]}, public=["u"], private=["g"]
        )
    assert found.network.step == step
    assert ("they have no step" in str(found.report.time)) == (step is None)
