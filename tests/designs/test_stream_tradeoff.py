"""Utility against privacy on streams: gradients, evaluation, designs, the limit, the frontier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.made_once import designed
from helpers.stream_networks import random_stream
from helpers.stream_oracle import best_by_slsqp, loss_and_privacy
from veilnet._core.types import Array
from veilnet.bounds.streams.knowledge import stream_knowledge
from veilnet.cli import run
from veilnet.designs.joint import SearchOptions
from veilnet.designs.joint.problem import LeastLoss
from veilnet.designs.joint.run import Run
from veilnet.designs.streams.arrays import memories_of, sanitizers_from_knowledge
from veilnet.designs.streams.curve import StreamCurve
from veilnet.designs.streams.knowledge import JointState, ShareFilter, knowledge_of
from veilnet.designs.streams.objective import StreamObjective
from veilnet.designs.streams.tradeoff import StreamTradeoff
from veilnet.verdict.streams.exact_test import StreamVerdict, check_stream


def known_by(network: vn.Network) -> tuple[JointState, list[ShareFilter]]:
    filters = memories_of(network, check_stream(network).shares)
    return knowledge_of(network, filters), filters


def random_shrink(objective: StreamObjective, rng: np.random.Generator) -> list[Array]:
    points = []
    for group in objective.groups:
        vectors = np.linalg.qr(rng.standard_normal((group.count, group.size, group.size)))[0]
        values = rng.uniform(0.05, 0.95, (group.count, group.size))
        points.append((vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1))
    return points


MODELS: dict[str, dict[str, Any]] = {
    "independent": {},
    "joint": {"joint": True},
    "coloured": {"noise": "coloured"},
    "coloured without floor": {"noise": "coloured without floor"},
}


def small_stream(seed: int, *, sizes: tuple[int, ...] = (2, 2)) -> vn.Network:
    return random_stream(seed, sizes=sizes, parameters=3, private_rows=(1,))


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("remembering", [True, False])
def test_gradients_are_those_of_differences(kind: str, remembering: bool) -> None:
    network = random_stream(3, **MODELS[kind])
    knowledge, _ = known_by(network)
    if not remembering:
        knowledge = knowledge_of(network, None)
    objective = StreamObjective(knowledge)
    rng = np.random.default_rng(1)
    shrink = random_shrink(objective, rng)
    turn = [each + each.transpose(0, 2, 1) for each in (rng.standard_normal(x.shape) for x in shrink)]
    prices = rng.uniform(0.5, 2.0, objective.targets)

    def value(step: float) -> float:
        at = objective([x + step * d for x, d in zip(shrink, turn, strict=True)])
        return 0.7 * at.loss + float(prices @ at.privacy)

    slope = objective.gradient(objective(shrink), 0.7, prices)
    exact = sum(float((g * d).sum()) for g, d in zip(slope, turn, strict=True))
    step = 2e-4
    differences = (8 * (value(step) - value(-step)) - (value(2 * step) - value(-2 * step))) / (12 * step)
    assert exact == pytest.approx(differences, rel=1e-6)


@pytest.mark.parametrize("kind", MODELS)
def test_the_search_judges_messages_as_the_bounds_and_scipy_do(kind: str) -> None:
    network = random_stream(4, **MODELS[kind])
    knowledge, filters = known_by(network)
    objective = StreamObjective(knowledge)
    shrink = random_shrink(objective, np.random.default_rng(2))
    at = objective(shrink)
    sent = sanitizers_from_knowledge(network, knowledge, filters, shrink)
    known = stream_knowledge(network, sent)
    assert at.loss == pytest.approx(-known.utility, rel=1e-6)
    assert at.privacy == pytest.approx(list(known.privacy.values()), rel=1e-6)
    if kind != "coloured without floor":  # SciPy needs noise in every reading
        loss, privacy = loss_and_privacy(network, sent)
        assert at.loss == pytest.approx(loss, rel=1e-5)
        assert at.privacy == pytest.approx(privacy, rel=1e-5)


def test_share_filters_and_silence_are_points_of_the_family() -> None:
    network = small_stream(2)
    verdict = check_stream(network)
    curve = plain_curve(verdict, np.ones(len(network.private)))
    at = curve.objective(curve.sharing)
    assert at.loss < 1e-7
    assert at.privacy == pytest.approx(list(verdict.ceiling.values()), rel=1e-6, abs=1e-6)
    silence = {agent: vn.Sanitizer.silent(2) for agent in network.agents}
    silent = curve.objective([0 * x for x in curve.sharing])
    assert silent.privacy == pytest.approx(list(verdict.limit.values()), rel=1e-9)
    assert silent.loss == pytest.approx(-vn.utility(network, silence), rel=1e-9)


def plain_curve(verdict: StreamVerdict, weights: Array) -> StreamCurve:
    """The curve that no floor bounds."""
    return StreamTradeoff(verdict, SearchOptions()).curve(weights, {})._plain


def memoryless_loss(curve: StreamCurve, level: float) -> float:
    shrink = curve._memoryless(curve._least_loss(level))
    assert shrink is not None
    return curve.objective(shrink).loss


@pytest.mark.parametrize("seed", [2, 5])
def test_a_design_reaches_its_target_and_memory_pays(seed: int) -> None:
    network = small_stream(seed)
    verdict = check_stream(network)
    targets = {name: 1.5 * each for name, each in verdict.ceiling.items()}
    plan = vn.design(network, privacy=targets, starts=2)
    assert plan.certificate.ok
    assert plan.method == "joint"
    assert plan.gap == np.inf
    assert all(plan.privacy[name] >= target for name, target in targets.items())
    wanted = np.array(list(targets.values()))
    curve = plain_curve(verdict, wanted)
    assert 0 < -plan.utility < memoryless_loss(curve, float(wanted.max()))
    assert "no bound is known for streams" in str(plan)


@pytest.mark.long
def test_the_two_questions_are_inverse() -> None:
    network = small_stream(2)
    verdict = check_stream(network)
    name = next(iter(network.private))
    target = 1.5 * verdict.ceiling[name]
    for_privacy = vn.design(network, privacy={name: target}, starts=2)
    within = vn.design(network, utility_loss=-for_privacy.utility, weights={name: 1.0}, starts=2)
    assert within.privacy[name] == pytest.approx(target, rel=2e-3)
    assert -within.utility <= -for_privacy.utility * (1 + 1e-6)


@pytest.mark.long
@pytest.mark.slow
def test_barely_above_the_ceiling_costs_next_to_nothing() -> None:
    network = small_stream(2)
    verdict = check_stream(network)
    name = next(iter(network.private))
    plan = vn.design(network, privacy={name: 1.001 * verdict.ceiling[name]}, starts=2)
    assert plan.method == "joint"
    assert 0 <= -plan.utility < 1e-5


def test_the_limit_is_silence_and_more_is_refused() -> None:
    network = small_stream(2)
    name = next(iter(network.private))
    limit = vn.privacy_limit(network)[name]
    plan = vn.design(network, privacy={name: limit})
    assert sum(plan.sent.values()) == 0
    assert plan.privacy[name] == pytest.approx(limit, rel=1e-9)
    with pytest.raises(vn.Infeasible, match="even silence gives only"):
        vn.design(network, privacy={name: 1.01 * limit})


def test_the_very_limit_is_refused_in_words_where_a_part_wanders_off() -> None:
    network = vn.Network(
        {"a": np.eye(2), "b": [[1.0, 1.0], [1.0, -1.0], [2.0, 0.3]]},
        0.5,
        public=[[1.0, 0.0]],
        private={"g": [[0.0, 1.0]]},
        dynamics=vn.Dynamics(np.diag([1.0, 0.5]), [[1.0, 0.3], [0.3, 1.0]]),
    )
    limit = vn.privacy_limit(network)["g"]
    assert check_stream(network).ceiling["g"] < 0.9 * limit < np.inf
    with pytest.raises(
        vn.InvalidRequest, match="privacy: g was asked to stay as hidden as silence leaves it"
    ):
        vn.design(network, privacy=limit)


def test_share_filters_answer_where_nothing_that_loses_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    network = small_stream(2)

    def refuse(*_: object) -> None:
        raise vn.InvalidRequest("no steady state")

    monkeypatch.setattr("veilnet.designs.tradeoff.outlook", refuse)
    plan = vn.design(network, utility_loss=0.01, starts=1, progress=lambda _what, _part: False)
    assert plan.privacy == check_stream(network).ceiling
    assert plan.utility == 0.0
    assert "no plan that uses the loss allowed was confirmed" in str(plan)


def test_at_the_limit_agents_still_say_what_has_nothing_to_do_with_it() -> None:
    rng = np.random.default_rng(0)
    network = vn.Network(
        {f"a{i}": np.array([[1.0, 0.5, 0.0], [0.3, -1.0, 0.0], rng.standard_normal(3)]) for i in range(2)},
        noise=0.5,
        public=[[1.0, 0.0, 1.0]],
        private={"secret": [[0.0, 0.0, 1.0]]},
        dynamics=vn.Dynamics(transition=[[0.8, 0.1, 0], [0.0, 0.6, 0], [0, 0, 0.9]], noise=np.eye(3)),
    )
    limit = vn.privacy_limit(network)["secret"]
    plan = vn.design(network, privacy=limit)
    silent = {agent: vn.Sanitizer.silent(3) for agent in network.agents}
    assert plan.privacy["secret"] == pytest.approx(limit, rel=1e-8)
    assert -plan.utility < 0.7 * -vn.utility(network, silent)


@pytest.mark.slow
@pytest.mark.small_search
def test_the_frontier_is_monotone_and_no_worse_than_designs() -> None:
    network = small_stream(2)
    verdict = check_stream(network)
    free = min(verdict.ceiling.values())
    asked = [0.5 * free, 1.2 * free, 2 * min(verdict.limit.values())]
    curve = vn.frontier(network, asked)
    assert [point.method for point in curve.rows] == ["perfect", "joint", "infeasible"]
    losses = [-point.utility for point in curve.rows[:2]]
    assert losses == sorted(losses)
    single = designed(network, privacy=asked[1])
    assert losses[1] <= -single.utility * (1 + 1e-6)
    with pytest.raises(vn.InvalidRequest, match="no bound"):
        vn.frontier(network, asked, prove=True)


def test_stopping_leaves_a_plan_that_keeps_its_promise() -> None:
    network = small_stream(2)
    name = next(iter(network.private))
    target = 1.5 * check_stream(network).ceiling[name]
    calls = 0

    def stop(_what: str, _part: float) -> bool:
        nonlocal calls
        calls += 1
        return calls < 8

    plan = vn.design(network, privacy={name: target}, progress=stop)
    assert plan.interrupted
    assert plan.certificate.ok
    assert plan.privacy[name] >= target


@pytest.mark.slow
def test_the_command_line_designs_streams(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = small_stream(2)
    network.save(tmp_path / "net.toml")
    (name,) = network.private
    free = check_stream(network).ceiling[name]
    target = 1.2 * free
    assert run(["design", str(tmp_path / "net.toml"), "--privacy", f"{name}={target}", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["method"] == "joint"
    assert answer["privacy"][name] >= target
    assert answer["utility"] == pytest.approx(designed(network, privacy=target).utility, rel=1e-6)
    assert run(["frontier", str(tmp_path / "net.toml"), "--privacy", f"{0.5 * free}", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["method"], row["utility"]) == ("perfect", pytest.approx(0.0, abs=1e-9))


def test_a_number_that_carries_nothing_is_not_sent() -> None:
    """A sensor of a stream that sees no parameter: silence loses nothing, and others do as they would without it."""
    stream = vn.Dynamics(transition=[[0.9, 0], [0, 0.5]], noise=np.diag([0.3, 0.4]))
    seeing = {"k": [[1.0, 0.3], [0, 1.0]], "h": [[0.9, 0.8], [0.2, 0.1]]}
    blind = vn.Network({**seeing, "blind": [[0, 0]]}, 0.25, [[1, 0]], {"g": [0, 1]}, dynamics=stream)
    plan = vn.design(blind, utility_loss=0.05)
    assert plan.sent == {"k": 1, "h": 1, "blind": 0}
    alone = vn.design(vn.Network(seeing, 0.25, [[1, 0]], {"g": [0, 1]}, dynamics=stream), utility_loss=0.05)
    assert plan.privacy["g"] == pytest.approx(alone.privacy["g"], rel=1e-2)


@pytest.mark.long
@pytest.mark.slow
def test_another_optimiser_finds_nothing_better() -> None:
    network = small_stream(5)
    verdict = check_stream(network)
    name = next(iter(network.private))
    target = 1.5 * verdict.ceiling[name]
    plan = vn.design(network, privacy={name: target})
    filters = memories_of(network, verdict.shares)
    memories = {a: vn.Memory(f.transition, f.gain) for a, f in zip(network.agents, filters, strict=True)}
    known = {
        a: np.hstack([f.share, np.zeros((len(f.share), f.gain.shape[1]))])
        for a, f in zip(network.agents, filters, strict=True)
    }
    other = best_by_slsqp(network, memories, target, rows=1, starts=3, seed=0, known=known)
    assert -plan.utility <= 1.02 * other


@pytest.mark.parametrize("seed", range(4))
def test_a_search_turns_back_where_messages_leave_no_steady_state(seed: int) -> None:
    """Of an x that wanders off too little told bounds no error: no step of a search may end there."""
    rng = np.random.default_rng(seed)
    network = vn.Network(
        observe={"a": rng.standard_normal((2, 2)), "b": rng.standard_normal((2, 2))},
        noise=rng.uniform(0.5, 2.0, 4),
        public=rng.standard_normal((1, 2)),
        private={"g": rng.standard_normal((1, 2))},
        dynamics=vn.Dynamics(np.eye(2), np.eye(2)),
    )
    objective = StreamObjective(known_by(network)[0])
    silence = [np.zeros((group.count, group.size, group.size)) for group in objective.groups]
    assert np.isinf(objective(silence).loss)
    nearly_silent = [0.1 * x for x in random_shrink(objective, rng)]
    run = Run(objective, LeastLoss(np.array([5.0])), nearly_silent, 0.0)
    for _ in range(6):
        run.advance(30, 1e-6, jump=0.3)
        assert np.isfinite(run.at.loss)
