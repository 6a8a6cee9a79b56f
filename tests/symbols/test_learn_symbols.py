"""Symbols from a table to a promise: what was counted, what attackers get, what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import MultinomialNB

import veilnet as vn
from helpers.symbol_table import AGENTS
from helpers.symbol_table import symbol_table as table
from veilnet.agent.randomness import noise_source
from veilnet.symbols.agent import SymbolAgent
from veilnet.symbols.agent_files import AGENT, load_agent
from veilnet.symbols.attackers import attack
from veilnet.symbols.files import read_centre


@pytest.fixture(scope="module")
def plan() -> vn.SymbolPlan:
    return vn.learn_symbols(table(), AGENTS, "activity", ["person"], guessed=0.65)


@pytest.fixture(scope="module")
def numbers() -> vn.SymbolPlan:
    return vn.learn_symbols(table(), AGENTS, "heat", ["weight"], guessed={"weight": 3.0})


def test_a_plan_keeps_the_public_score_and_its_promise(plan: vn.SymbolPlan) -> None:
    promise = plan.certificate["person"]
    assert promise.guessed is not None
    assert promise.guessed <= 0.65
    assert promise.chance == pytest.approx(0.5)
    assert promise.rows == promise.blocks == 300
    assert plan.score > 0.85
    assert plan.raw_score > 0.9
    assert plan.calibration is not None
    assert plan.calibration < 0.08


def test_raw_readings_name_the_person_and_no_attacker_on_symbols_does(plan: vn.SymbolPlan) -> None:
    """Attackers learn from 3,000 rows of the same law, and are tried on as many others."""
    known, fresh = table(3000, seed=2), table(3000, seed=3)
    raw = (
        np.stack([known[name] for name in "abcd"], axis=1),
        np.stack([fresh[name] for name in "abcd"], axis=1),
    )
    sent = [np.stack(list(plan.send(each).values()), axis=1) for each in (known, fresh)]
    hot = [np.concatenate([np.eye(12)[one[:, k] + 1] for k in range(2)], axis=1) for one in sent]
    forest = RandomForestClassifier(30, random_state=0)
    assert forest.fit(raw[0], known["person"]).score(raw[1], fresh["person"]) > 0.95
    promise = plan.certificate["person"]
    assert promise.guessed is not None
    for attacker in (RandomForestClassifier(30, random_state=0), MultinomialNB()):
        right = attacker.fit(hot[0], known["person"]).score(hot[1], fresh["person"])
        assert right <= promise.guessed + 3 * np.sqrt(0.25 / 3000)


def test_six_attackers_stay_under_the_promise(plan: vn.SymbolPlan) -> None:
    found = attack(plan, table(1200, seed=4), windows=(1, 10))
    assert len({each.attacker for each in found if each.rows == 1}) == 6
    assert all(each.ok is (True if each.rows == 1 else None) for each in found)


def test_six_attackers_on_a_number_stay_above_the_promise(numbers: vn.SymbolPlan) -> None:
    rows = table(1200, seed=4)
    found = attack(numbers, rows)
    assert {(each.rows, each.ok) for each in found} == {(1, True)}
    assert len({each.attacker for each in found}) == 6
    promise = numbers.certificate["weight"]
    assert promise.error is not None
    assert all(each.error is not None and each.error > promise.error for each in found)
    rows["weight"] = 5.0 + 2.0 * rows["heat"]  # which agents do send
    assert any(each.ok is False for each in attack(numbers, rows))


def test_an_attack_on_a_false_promise_is_told(plan: vn.SymbolPlan) -> None:
    """Agents that send the person: the plan's counts know nothing of it, and the attackers do; windows tell more."""
    rows = table(1200, seed=4)
    rows["person"] = [("anna", "ben")[int(k == 0)] for k in rows["activity"]]
    found = attack(plan, rows, windows=(1, 10))
    assert any(each.ok is False for each in found)
    best = {many: max(each.right for each in found if each.rows == many) for many in (1, 10)}
    assert best[10] > best[1]


@pytest.mark.parametrize(
    ("rows", "windows", "words"),
    [
        (90, (1, 5), "at least 100 rows"),
        (90, (5,), "at least 100 windows"),
        (600, (0,), "windows"),
        (600, 5, "windows"),
    ],
)
def test_attackers_that_cannot_be_tried_are_refused(
    plan: vn.SymbolPlan, rows: int, windows: Any, words: str
) -> None:
    with pytest.raises(vn.InvalidRequest, match=words):
        attack(plan, table(rows, seed=4), windows=windows)


def test_attackers_learn_from_every_part_of_a_log_in_order(plan: vn.SymbolPlan) -> None:
    """In order of the person, a first half has one value alone: that is refused, and stretches in turn are not."""
    log = table(1200, seed=4)
    order = np.argsort(np.array(log["person"]), kind="stable")
    sorted_log = {name: np.asarray(each)[order] for name, each in log.items()}
    found = attack(plan, sorted_log, windows=(1,))
    assert min(each.right for each in found) > 0.4
    assert all(each.ok for each in found)
    with pytest.raises(vn.InvalidRequest, match="one value there"):
        attack(plan, sorted_log, windows=(1,), stretch=600)


def test_what_is_promised_was_counted_on_rows_that_learned_nothing(plan: vn.SymbolPlan) -> None:
    """Half of each kind of row certifies; nobody can tell from the plan which, but the counts add up."""
    promise = plan.certificate["person"]
    assert promise.counts.sum(axis=0).tolist() == [150, 150]
    assert plan.cells.shape == (promise.cells, 2)
    assert promise.counted == pytest.approx(sum(max(row) for row in promise.counts.tolist()) / 300)
    assert promise.counted < promise.guessed
    plan.confirm()


def test_two_values_have_a_detector_and_other_base_rates(plan: vn.SymbolPlan) -> None:
    promise = plan.certificate["person"]
    given = promise.counts / promise.counts.sum(axis=0)
    ratio = given[:, 1] / given.sum(axis=1)
    area = sum(
        given[i, 0] * given[j, 1] * (1.0 if ratio[j] > ratio[i] else 0.5 * (ratio[j] == ratio[i]))
        for i in range(len(given))
        for j in range(len(given))
    )
    deviation = np.sqrt(np.log(1 / (1 - promise.confidence)) * (1 / 150 + 1 / 150) / 2)
    assert promise.auc == pytest.approx(area + deviation)
    assert promise.total_variation == pytest.approx(np.abs(given[:, 0] - given[:, 1]).sum() / 2 + deviation)
    assert promise.at("even") == pytest.approx((1 + promise.total_variation) / 2)
    assert promise.at({"anna": 0.9, "ben": 0.1}) >= 0.9
    with pytest.raises(vn.InvalidRequest, match="base_rates"):
        promise.at({"anna": 0.9, "ben": 0.3})


def test_many_rows_tell_more(plan: vn.SymbolPlan) -> None:
    promise = plan.certificate["person"]
    curve = promise.over_rows((1, 10, 100))
    assert curve[1] == pytest.approx(
        promise.at("even") - np.sqrt(np.log(1 / (1 - promise.confidence)) / 300) / 2, abs=0.03
    )
    assert curve[1] < curve[10] < curve[100]


def test_an_agent_sends_what_its_arrays_say(plan: vn.SymbolPlan) -> None:
    """The formulas of symbols/agent.py, row by row in plain Python."""
    agent = plan.agents["hall"]
    rows = np.stack([table()["a"], table()["b"]], axis=1)[:20]
    for row, sent in zip(rows, agent.send(rows), strict=True):
        layer = agent.layer
        inner = np.maximum(0, layer.enter.T @ ((row - layer.mean) / layer.scale) + layer.bias)
        share = np.exp(layer.leave.T @ inner + layer.level)
        assert sent == np.argmax(agent.code @ (share / share.sum()) + agent.start)
        assert agent.send(row) == sent
    assert set(agent.send(rows).tolist()) <= set(range(agent.symbols))
    assert "activity is most likely" in agent.describe()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e6])
def test_an_agent_in_doubt_sends_nothing(plan: vn.SymbolPlan, value: float) -> None:
    rows = np.array([[0.0, 0.0], [0.0, value]])
    with pytest.raises(vn.InvalidReading, match="hall: row 1: b is ") as refused:
        plan.agents["hall"].send(rows)
    assert "1e+06" not in str(refused.value)
    assert "1000000" not in str(refused.value)
    sent = plan.send({"a": rows[:, 0], "b": [0.0, 9e9], "c": [0.0, 0.0], "d": [0.0, 0.0]})
    assert sent["hall"][1] == -1
    assert sent["hall"][0] >= 0


def test_silence_is_counted() -> None:
    """A reading that only one person lacks: its absence tells the person, and the certificate says so."""
    rows = table()
    missing = [
        np.nan if who == "anna" and k % 2 else x
        for k, (who, x) in enumerate(zip(rows["person"], rows["a"], strict=True))
    ]
    leaky = vn.learn_symbols(rows | {"a": missing}, AGENTS, "activity", "person")
    promise = leaky.certificate["person"]
    assert promise.guessed is not None
    assert promise.guessed > 2 / 3, "a third of anna's rows is silent, all of ben's others are ben's"


def test_the_centre_does_with_what_arrived(plan: vn.SymbolPlan) -> None:
    rows = table(900, seed=5)
    sent = plan.send(rows)
    both, one = plan.estimate(sent), plan.estimate({"hall": sent["hall"]})
    truth = np.array(rows["activity"])
    assert np.mean(both.public == truth) > np.mean(one.public == truth) - 0.02 > 0.5
    assert both.probabilities is not None
    assert np.allclose(both.probabilities.sum(axis=1), 1)
    assert one.missing[0] == ("attic",)
    gap = plan.estimate({"hall": sent["hall"][:2], "attic": np.array([-1, sent["attic"][1]])})
    assert gap.missing == (("attic",), ())
    assert one.probabilities is not None
    assert gap.probabilities is not None
    assert np.allclose(gap.probabilities[0], one.probabilities[0])
    single = plan.estimate({"hall": int(sent["hall"][0])})
    assert single.public == one.public[0]
    with pytest.raises(vn.InvalidRequest, match="hall"):
        plan.estimate({"hall": np.array([99])})


def test_what_two_agents_share_is_not_counted_twice() -> None:
    """Two agents with the same readings: together they know no more than one, and the centre does not claim to."""
    rows = table()
    rows |= {"c": rows["a"] + 1e-6, "d": rows["b"] + 1e-6}
    twins = vn.learn_symbols(rows, AGENTS, "activity", "person")
    fresh = table(3000, seed=7)
    told = twins.estimate(twins.send(fresh | {"c": fresh["a"], "d": fresh["b"]}))
    assert told.probabilities is not None
    stated = told.probabilities.max(axis=1)
    right = float(np.mean(told.public == np.array(fresh["activity"])))
    assert right - 0.08 < np.mean(stated) < right + 0.02


def test_numbers(numbers: vn.SymbolPlan) -> None:
    promise = numbers.certificate["weight"]
    assert 3.0 <= promise.error < promise.chance < 6
    assert numbers.score > 0.6
    fresh = table(3000, seed=8)
    sent = numbers.send(fresh)
    told = numbers.estimate(sent).public
    assert 1 - np.var(told - fresh["heat"]) / np.var(fresh["heat"]) > numbers.score - 0.06
    cells = np.unique(np.stack(list(sent.values()), axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    weight = np.array(fresh["weight"])
    best = (np.bincount(cells, weight) / np.bincount(cells))[cells]
    assert np.sqrt(np.mean((weight - best) ** 2)) >= promise.error


def test_blocks_of_like_rows_are_certified_as_blocks() -> None:
    rows = table()
    made = vn.learn_symbols(rows, AGENTS, "activity", "person", guessed=0.75, blocks="session")
    promise = made.certificate["person"]
    assert (promise.rows, promise.blocks) == (300, 100)


def test_least_leak_for_a_loss() -> None:
    made = vn.learn_symbols(table(), AGENTS, "activity", ["person"], public_loss=0.08)
    assert made.score > made.raw_score - 0.13
    assert made.certificate["person"].guessed < 0.75


def test_chance_gives_differential_privacy(plan: vn.SymbolPlan) -> None:
    agent = plan.agents["hall"]
    coin = SymbolAgent(**{name: getattr(agent, name) for name in AGENT.kinds} | {"keep": 0.6})
    rows = np.tile([[0.1, 0.2]], (20_000, 1))
    law = np.bincount(coin.send(rows, rng=1), minlength=coin.symbols) / len(rows)
    assert law.max() / law.min() == pytest.approx(np.exp(coin.epsilon), rel=0.1)
    assert agent.epsilon == np.inf


def test_chance_is_used_where_nothing_else_hides_enough() -> None:
    """One agent reads u, two classes, which names g in 0.8 of rows: joined symbols say nothing, a coin says less."""
    rng = np.random.default_rng(5)
    u = rng.integers(2, size=2000)
    g = np.where(rng.random(2000) < 0.8, u, 1 - u)
    log = {"x": u + 0.05 * rng.normal(size=2000), "u": u, "g": g}
    made = vn.learn_symbols(log, {"one": ["x"]}, "u", "g", guessed=0.7)
    agent = made.agents["one"]
    assert agent.symbols == 2
    assert 0 < agent.keep < 0.8
    assert agent.epsilon < np.log1p(2 * 0.8 / 0.2)
    assert f"ε = {agent.epsilon:.3g}" in str(made)
    assert 0.6 < made.score < 0.9, "the coin costs score, silence would leave 0.5"
    assert made.certificate["g"].guessed <= 0.7


def test_the_curve_is_what_the_rows_that_learned_let_expect(plan: vn.SymbolPlan) -> None:
    score, promised = plan.curve.T
    assert np.all(np.diff(promised) < 0), "less and less to guess"
    assert np.all(np.diff(score) < 0), "and each costs some"
    assert np.all(promised > plan.certificate["person"].chance)
    fresh = table(3000, seed=6)
    for guessed in promised[[0, -1]]:
        made = vn.learn_symbols(table(), AGENTS, "activity", ["person"], guessed=guessed + 0.02)
        right = np.mean(made.estimate(made.send(fresh)).public == np.array(fresh["activity"]))
        assert right > np.interp(guessed, promised[::-1], score[::-1]) - 0.05


def test_a_plan_comes_back_as_it_was_saved(
    plan: vn.SymbolPlan, numbers: vn.SymbolPlan, tmp_path: Path
) -> None:
    rows = table(50, seed=9)
    for each, folder in ((plan, tmp_path / "one"), (numbers, tmp_path / "two")):
        each.save(folder)
        again = vn.SymbolPlan.load(folder)
        assert str(again) == str(each)
        sent = each.send(rows)
        for name, agent in each.agents.items():
            mine = np.stack([rows[column] for column in agent.names], axis=1)
            alike = [one.send_or_not(mine, noise_source(3)) for one in (agent, again.agents[name])]
            assert np.array_equal(*alike)
        assert np.array_equal(again.estimate(sent).public, each.estimate(sent).public)
        assert np.array_equal(
            read_centre(folder / "center.json")[0].estimate(sent).public, each.estimate(sent).public
        )
        assert load_agent(folder / "hall.json").describe() == each.agents["hall"].describe()
        assert (folder / "hall.json").stat().st_size < 64_000
    plan.save(tmp_path / "two")
    assert vn.SymbolPlan.load(tmp_path / "two").score == plan.score


@pytest.mark.parametrize("lie", ["guessed", "counts", "confidence"])
def test_a_better_promise_than_the_counts_support_is_refused(
    plan: vn.SymbolPlan, tmp_path: Path, lie: str
) -> None:
    """Whoever changes a figure can seal the file anew; the counts tell."""
    from veilnet.io._kinds import PACKED
    from veilnet.io._sealed import seal

    plan.save(tmp_path)
    document = json.loads((tmp_path / "plan.json").read_text())
    del document["checksum"]
    if lie == "confidence":
        document["confidence"] = 0.999
    elif lie == "guessed":
        document["certificate"][0]["leak"] -= 0.005
    else:
        counts = PACKED.read(document["certificate"][0]["counts"], "")
        document["certificate"][0]["counts"] = PACKED.write(counts[:, ::-1] + np.eye(*counts.shape))
    (tmp_path / "plan.json").write_bytes(seal(document))
    with pytest.raises(vn.InvalidPlan):
        vn.SymbolPlan.load(tmp_path)


def test_blocks_are_those_that_the_centre_knows(numbers: vn.SymbolPlan) -> None:
    """Rows counted as 150 blocks of two: it adds up, and the centre knows better."""
    promise = numbers.certificate["weight"]
    paired = replace(promise, blocks_of=np.array([[2]]), many=np.array([150]), leak=1.0)
    paired.confirm()
    attributes = {name: each for name, each in vars(numbers).items() if name != "_frozen"}
    attributes["certificate"] = {"weight": paired}
    with pytest.raises(vn.InvalidPlan, match="other blocks"):
        vn.SymbolPlan(**attributes).confirm()


def test_an_agent_needs_numpy_alone(plan: vn.SymbolPlan, tmp_path: Path) -> None:
    plan.save(tmp_path)
    code = (
        "import sys; from veilnet.symbols.agent_files import load_agent\n"
        f"print(load_agent({str(tmp_path / 'hall.json')!r}).send([0.1, 0.2]))\n"
        "assert not {'sklearn', 'scipy', 'pandas'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(plan.agents["hall"].send([0.1, 0.2]))


def test_another_law_in_service_is_noticed(plan: vn.SymbolPlan) -> None:
    """200 times 300 rows of the same law: at most 1 in 100 alarms, and three standard errors."""
    alarms = [
        bool(plan.drift(plan.send(table(300, seed=100 + k)), false_alarm=0.01).changed) for k in range(200)
    ]
    assert np.mean(alarms) <= 0.01 + 3 * np.sqrt(0.01 / 200)
    moved = table(300, seed=9)
    moved["a"] = np.array(moved["a"]) + 1.0
    assert plan.drift(plan.send(moved)).changed == ("hall",)


@pytest.mark.parametrize(
    ("symbols", "false_alarm", "words"),
    [
        ({"cellar": [0, 1]}, 0.01, "cellar"),
        ({"hall": [0, 99]}, 0.01, "hall"),
        ({"hall": [0.5, 0.5]}, 0.01, "hall"),
        ([0, 1], 0.01, "symbols"),
        ({"hall": [0, 1]}, 7, "false_alarm"),
        ({"hall": [0, 1]}, np.nan, "false_alarm"),
    ],
)
def test_drift_of_what_is_no_symbol_is_refused(
    plan: vn.SymbolPlan, symbols: Any, false_alarm: float, words: str
) -> None:
    assert plan.drift({"hall": [0, -1]}).changed == ()
    with pytest.raises(vn.InvalidRequest, match=words):
        plan.drift(symbols, false_alarm=false_alarm)


def test_progress_can_stop_the_search() -> None:
    seen: list[str] = []

    def stop(what: str, _part: float) -> bool:
        seen.append(what)
        return what != "choosing symbols"

    assert vn.learn_symbols(table(200), AGENTS, "activity", "person", progress=stop).score > 0.5
    assert seen[-1] == "choosing symbols"


@pytest.mark.parametrize(
    ("changes", "arguments", "error", "words"),
    [
        ({"activity": [1] * 600}, {}, vn.InvalidRequest, "activity: every row has the same value"),
        ({"person": ["anna"] * 600}, {}, vn.InvalidRequest, "person: every row has the same value"),
        ({"person": [f"p{k}" for k in range(600)]}, {}, vn.InvalidRequest, "more cells than can be counted"),
        ({}, {"blocks": np.arange(600)}, vn.InvalidRequest, "every block has one row"),
        ({}, {"blocks": np.arange(600) // 100}, vn.InvalidRequest, "at least 16 independent blocks, found 6"),
        ({}, {"blocks": np.arange(5)}, vn.InvalidRequest, "600 labels"),
        ({}, {"private": ["activity"]}, vn.InvalidRequest, "'activity' is also public"),
        ({}, {"private": ["a"]}, vn.InvalidRequest, "'a' is a reading of hall and also private"),
        ({}, {"guessed": 0.5}, vn.Infeasible, "no share below 0.55"),
        ({}, {"guessed": 1.5}, vn.InvalidRequest, "a share of rows"),
        ({}, {"guessed": 0.6, "public_loss": 0.1}, vn.InvalidRequest, "one of the two"),
        ({}, {"private": ["weight"], "guessed": 0.6}, vn.InvalidRequest, "weight is a number"),
        ({}, {"private": ["weight"], "guessed": {"weight": 50.0}}, vn.Infeasible, "no error above 4"),
        ({}, {"confidence": 1.0}, vn.InvalidRequest, "confidence"),
        ({"activity": [0] * 599 + [1]}, {}, vn.InvalidRequest, "the class 1 is in 1 rows"),
        ({"person": [None] + ["anna", "ben"] * 299 + ["ben"]}, {}, vn.InvalidRequest, "1 of 600 rows have no value"),
        ({"a": [1.0] * 600}, {}, vn.InvalidRequest, "'a' never changes"),
    ],
)  # fmt: skip
def test_wrong_input_is_told_in_words(
    changes: dict[str, Any], arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    asked = {"public": "activity", "private": ["person"]} | arguments
    with pytest.raises(error, match=words):
        vn.learn_symbols(table() | changes, AGENTS, **asked)


def test_a_plan_is_not_saved_over_one_of_another_kind(plan: vn.SymbolPlan, tmp_path: Path) -> None:
    vn.design(vn.Network({"a": np.eye(2)}, 1.0, [1.0, 0.0], {"g": [0.0, 1.0]})).save(tmp_path / "plan")
    before = {path.name: path.read_bytes() for path in (tmp_path / "plan").iterdir()}
    with pytest.raises(vn.InvalidPlan, match="another plan"):
        plan.save(tmp_path / "plan")
    assert {path.name: path.read_bytes() for path in (tmp_path / "plan").iterdir()} == before
