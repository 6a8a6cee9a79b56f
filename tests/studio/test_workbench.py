"""The studio without its page: what it shows is what the library computes, what it hands out is what it shows."""

from __future__ import annotations

import io
import re
import shlex
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette")

import veilnet as vn
from helpers.small_network import small_network
from helpers.symbol_table import AGENTS, symbol_table, write_symbol_table
from veilnet import cli
from veilnet.bounds.typical_errors import typical_errors
from veilnet.io.template import house, template_text
from veilnet.studio import tasks
from veilnet.studio.app import network_text, plan_archive, report_page
from veilnet.studio.asking import Ask
from veilnet.studio.choices import known_if
from veilnet.studio.jobs import Job
from veilnet.studio.views import view
from veilnet.studio.workbench import Workbench

pytestmark = pytest.mark.small_search


@pytest.fixture
def bench() -> Iterator[Workbench]:
    made = Workbench()
    yield made
    made.close()


@pytest.fixture
def with_house(bench: Workbench) -> Workbench:
    bench.open_example(stream=False)
    bench.cancel("trace")
    return bench


def test_it_begins_with_what_is_free(with_house: Workbench) -> None:
    now, free = with_house.now, vn.design(house())
    assert now.plan.privacy == pytest.approx(free.privacy)
    assert now.refined
    shown = view(with_house)["loaded"]
    assert shown["public"]["loss"] == pytest.approx(0.0, abs=1e-9)
    for parameter in shown["private"]:
        assert parameter["fold"] == pytest.approx(np.sqrt(1 + free.privacy[parameter["name"]]))
        assert parameter["free"] == pytest.approx(parameter["fold"])


def test_asking_answers_at_once_and_never_below_what_is_free(with_house: Workbench) -> None:
    free = with_house.now.verdict.ceiling
    with_house.ask({"privacy": {"gait": 12.0}})
    now = with_house.now
    assert now.plan.privacy["gait"] >= 12.0
    assert not now.refined
    for name, ceiling in free.items():
        assert now.plan.privacy[name] >= ceiling * (1 - 1e-7)
    shown = view(with_house)["loaded"]
    errors = typical_errors(now.network, now.plan.sanitizers)
    mine = next(each for each in shown["private"] if each["name"] == "gait")
    assert mine["fold"] == pytest.approx(errors["gait"].sent / errors["gait"].raw)
    assert shown["command"] == "veilnet design house.toml --private-error gait=3.60555x --out plan"


def test_a_loss_that_is_accepted_is_kept(with_house: Workbench) -> None:
    with_house.ask({"loss": 0.05})
    now = with_house.now
    assert 0 < -now.plan.utility <= 0.05
    assert min(now.plan.privacy.values()) > min(now.verdict.ceiling.values())
    with_house.ask({})
    assert with_house.now.plan.method == "perfect"


def test_what_is_lost_is_a_percentage_also_where_it_doubles(with_house: Workbench) -> None:
    assert view(with_house)["loaded"]["public"]["grown"] == "nothing is lost"
    limits = with_house.now.verdict.limit
    with_house.ask({"privacy": {name: 0.995 * limit for name, limit in limits.items()}})
    shown = view(with_house)["loaded"]["public"]
    assert shown["fold"] > 2
    percent = re.fullmatch(r"at most (\d{3}) % larger than from raw readings", shown["grown"])
    assert percent is not None
    assert float(percent[1]) == pytest.approx(100 * (shown["fold"] - 1), abs=1)


def test_refining_ends_with_the_plan_of_design(bench: Workbench) -> None:
    bench.load("small.toml", small_network())
    bench.cancel("trace")
    bench.ask({"privacy": {"who": 7.0}})
    assert not bench.now.refined
    bench.refine()
    assert bench.jobs["refine"].wait(900)
    assert bench.jobs["refine"].state == "done", bench.jobs["refine"].error
    assert bench.now.refined
    expected = vn.design(small_network(), privacy={"who": 7.0})
    assert bench.now.plan.utility == pytest.approx(expected.utility, rel=1e-6)


def test_a_job_can_be_cancelled_and_its_result_is_not_wanted_any_more(with_house: Workbench) -> None:
    with_house.audit({})
    job = with_house.jobs["audit"]
    with_house.cancel("audit")
    assert job.wait(120)
    assert job.state == "cancelled"
    assert with_house.now.audit is None


def test_what_if_tells_what_the_bounds_say(with_house: Workbench) -> None:
    with_house.what_if({"silent": ["kitchen"], "betrayed": ["hall"]})
    shown = view(with_house)["loaded"]["html"]["what_if"]
    now = with_house.now
    size = {agent: sanitizer.readings for agent, sanitizer in now.plan.sanitizers.items()}
    seen = {
        **now.plan.sanitizers,
        "kitchen": vn.Sanitizer(np.zeros((0, size["kitchen"]))),
        "hall": vn.Sanitizer.raw(size["hall"]),
    }
    steps = {agent: step for agent, step in now.network.resolution.items() if agent != "hall"}
    expected = typical_errors(now.network.replace(resolution=steps), seen)["gait"]
    assert f"±{expected.sent:.3g} {expected.unit}" in shown
    with_house.what_if({"silent": [], "betrayed": []})
    assert view(with_house)["loaded"]["html"]["what_if"] == ""


def test_a_silent_agent_tells_less_and_one_that_hands_over_its_readings_more() -> None:
    """Oracle: the bounds of the plan's network with the sanitizers written out; the dither of one room is small."""
    plan = vn.design(house())
    size = plan.sanitizers["kitchen"].readings
    nothing, everything = vn.Sanitizer(np.zeros((0, size))), vn.Sanitizer.raw(size)
    found = {}
    for kind, sanitizer, names in (
        ("silent", nothing, (["kitchen"], [])),
        ("betrayed", everything, ([], ["kitchen"])),
    ):
        expected = typical_errors(plan.network, {**plan.sanitizers, "kitchen": sanitizer})
        found[kind] = {name: each.sent for name, each in known_if(plan, *names)[0].items()}
        assert found[kind] == pytest.approx({name: each.sent for name, each in expected.items()}, rel=2e-3)
    for name in ("presence", "cooking", "gait"):
        assert found["silent"][name] > 1.2 * found["betrayed"][name]


def test_what_is_taken_away_is_what_was_shown(with_house: Workbench, tmp_path: Path, capsys) -> None:
    with_house.ask({"privacy": {"gait": 12.0}})
    now = with_house.now
    with zipfile.ZipFile(io.BytesIO(plan_archive(now.plan))) as archive:
        archive.extractall(tmp_path)
    loaded = vn.Plan.load(tmp_path / "plan")
    assert loaded.privacy == pytest.approx(now.plan.privacy)
    assert cli.run(["verify", str(tmp_path / "plan")]) == 0
    (tmp_path / "network.toml").write_bytes(network_text(now))
    np.testing.assert_array_equal(vn.Network.load(tmp_path / "network.toml").H, now.network.H)
    assert report_page(now).startswith(b"<!doctype html>")
    capsys.readouterr()


BROKEN = {
    "cut.toml": template_text()[:700].encode(),
    "numbers.json": b"[1, 2",
    "other.npz": b"not an archive",
    "unknown.toml": template_text().replace("[public]", "[publick]").encode(),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_gives_the_message_of_the_command_line(
    bench: Workbench, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(BROKEN[name])
    assert cli.run(["check", name]) == 2
    said = " ".join(capsys.readouterr().err.removeprefix("veilnet: error: ").split())
    with pytest.raises(vn.VeilnetError) as caught:
        bench.open_network(name, BROKEN[name])
    assert " ".join(str(caught.value).split()) == said
    assert bench.loaded is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"loss": "much"}, "loss: expected a number"),
        ({"loss": -1}, "not negative"),
        ({"privacy": {"gait": float("nan")}}, "privacy of 'gait'"),
        ({"privacy": {"nobody": 3}}, "'nobody' is no private parameter"),
        ({"privacy": [3]}, "expected a privacy for each"),
        ({"run": "rm"}, "expected privacy or loss"),
        ({"privacy": {"gait": 1e9}}, "even silence"),
    ],
)
def test_questions_that_make_no_sense_change_nothing(with_house: Workbench, given, words: str) -> None:
    before = with_house.now.plan
    with pytest.raises(vn.VeilnetError, match=words):
        with_house.ask(given)
    assert with_house.now.plan is before


def test_what_is_given_leaves_no_file(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    bench.open_table("../../../evil.csv", b"a,b\n1,2\n3,4\n")
    assert bench.table is not None
    assert bench.table.columns == ("a", "b")
    assert bench.table.first == (("1", "2"), ("3", "4"))
    with pytest.raises(vn.VeilnetError, match="ends in"):
        bench.open_table("run.sh", b"#!/bin/sh")
    with pytest.raises(vn.VeilnetError, match=r"n\.toml"):
        bench.open_network("n.toml", b'[agents]\na = { observe = { file = "/etc/passwd" } }')
    assert not list(tmp_path.iterdir())


def test_a_table_becomes_the_network_that_fit_makes(bench: Workbench) -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((400, 2)) * [5.0, 2.0]
    readings = x @ rng.standard_normal((2, 3)) + 0.3 * rng.standard_normal((400, 3))
    lines = [
        "T_out,people,k1,k2,h1",
        *(",".join(f"{v:.6f}" for v in row) for row in np.hstack([x, readings])),
    ]
    bench.open_table("log.csv", "\n".join(lines).encode() + b"\n")
    assert bench.table is not None
    roles = {"agents": {"kitchen": ["k1", "k2"], "hall": ["h1"]}, "public": ["T_out"], "private": ["people"]}
    expected = vn.fit(bench.table.file, **roles)
    bench.fit(roles)
    assert bench.jobs["fit"].wait(300)
    assert bench.jobs["fit"].state == "done", bench.jobs["fit"].error
    bench.cancel("trace")
    assert bench.now.name == "log.toml"
    np.testing.assert_allclose(bench.now.network.H, expected.H)
    bench.fit({**roles, "public": ["nothing"]})
    assert bench.jobs["fit"].wait(300)
    assert bench.jobs["fit"].state == "failed"
    assert "nothing" in bench.jobs["fit"].error


def test_a_result_that_is_refused_where_it_is_used_fails_its_job() -> None:
    def refuse(_result: object) -> None:
        raise vn.InvalidNetwork("not on this table")

    job = Job("copy", _handed_back, ("something",), done=refuse)
    assert job.wait(300)
    assert (job.state, job.error) == ("failed", "not on this table")


def _handed_back(_tell: object, _progress: object, given: str) -> str:
    return given


HOSTILE = ["<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>"]


def renamed(agent: str, parameter: str) -> vn.Network:
    network = house()
    private = {parameter if each == "gait" else each: rows for each, rows in network.private.items()}
    observe = {agent if each == "hall" else each: rows for each, rows in network.observe.items()}
    noise = {name: network.R.block(place) for place, name in enumerate(observe)}
    return vn.Network(observe, noise, network.public, private, network.prior)


@pytest.mark.parametrize("name", HOSTILE, ids=["script", "quotes"])
def test_hostile_names_are_shown_as_text(bench: Workbench, name: str, tmp_path: Path) -> None:
    agent = name.replace("/", "|")  # no agent's name has a slash: it names a file
    renamed(agent, name).save(tmp_path / "n.json")
    bench.open_network("n.json", (tmp_path / "n.json").read_bytes())
    bench.cancel("trace")
    bench.what_if({"silent": [agent], "betrayed": []})
    shown = view(bench)["loaded"]
    for part in shown["html"].values():
        assert "<script" not in part
        assert "<img" not in part
    assert shlex.split(Ask(privacy={name: 3.0}).command("n.json"))[4] == f"{name}=2x"


def test_a_name_of_ten_thousand_characters_is_refused(bench: Workbench) -> None:
    text = template_text().replace("gait", "a" * 10_000)
    with pytest.raises(vn.VeilnetError, match="at most 100 printable characters") as caught:
        bench.open_network("n.toml", text.encode())
    assert len(str(caught.value)) < 500


def test_symbols_are_certified_by_blocks_and_each_plan_can_be_chosen(
    bench: Workbench, tmp_path: Path
) -> None:
    write_symbol_table(tmp_path / "log.csv", symbol_table(240))
    bench.open_table("log.csv", (tmp_path / "log.csv").read_bytes())
    roles = {"agents": AGENTS, "public": ["activity"], "private": ["person"], "blocks": "session"}
    with pytest.raises(vn.InvalidRequest, match="blocks: "):
        bench.fit(roles)
    with pytest.raises(vn.InvalidRequest, match="none is a reading yet"):
        bench.learn(roles | {"agents": {}})
    bench.learn(roles)
    assert bench.jobs["symbols"].wait(300)
    for place, plan in enumerate(bench.learned.plans):
        bench.choose({"plan": place})
        assert bench.learned.plan is plan
        assert plan.certificate["person"].blocks == 40, "half of the sessions"
        assert "--blocks session" in view(bench)["symbols"]["command"]
    with pytest.raises(vn.InvalidRequest, match="plan: "):
        bench.choose({"plan": len(bench.learned.plans)})


@pytest.mark.slow
def test_the_curve_of_the_bundled_house_is_traced_whatever_dither_its_points_call_for() -> None:
    """What is free needs less dither than what is paid for; the last point is what ``design`` answers."""
    shown: list[vn.Frontier] = []
    found = tasks.trace(shown.append, lambda *_: None, vn.design(house()))
    assert found is not None
    levels = [point.asked for point in found.rows]
    assert shown[-1].rows[-1].asked == levels[-1]
    losses = [-point.utility for point in found.rows]
    assert losses == sorted(losses)
    assert losses[0] == 0 < losses[-1]
    last = vn.design(house(), privacy=levels[-1])
    assert losses[-1] == pytest.approx(-last.utility, rel=0.01)
