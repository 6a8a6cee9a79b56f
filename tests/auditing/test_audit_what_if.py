"""Collusion, repetition, dropout and wrong models against direct evaluation of the modified network."""

from __future__ import annotations

from itertools import combinations
from typing import Any, get_args

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import (
    direct_error,
    direct_growth,
    direct_information,
    message_model,
    prior_information,
    random_network,
)
from veilnet._core.types import Array
from veilnet.auditing.attack.simulation import LinearCentre, draw_readings, draw_x
from veilnet.auditing.measures import growth
from veilnet.auditing.what_if import collusion, subsets, wrong_models
from veilnet.auditing.what_if.collusion import Betrayal, collusion_rows, privacy_left, with_colluders
from veilnet.auditing.what_if.dropout import dropout_rows, loss_without
from veilnet.auditing.what_if.repetition import Again, releases_until, repeated, repetition_rows
from veilnet.auditing.what_if.subsets import worst_set
from veilnet.auditing.what_if.wrong_models import Mistake, WrongModel, attacker_rows, wrong_model_rows
from veilnet.auditing.worlds import world_of

pytestmark = pytest.mark.slow

KINDS = [("joint", "covariance"), ("per agent", "covariance"), ("per agent", "none"), ("joint", "singular")]


def setting(
    seed: int, noise: str, prior: str, sizes: tuple[int, ...] = (3, 2, 4, 3, 2)
) -> tuple[vn.Network, dict[str, vn.Sanitizer]]:
    """Agents that send one number less than they read, with noise on all but the first of them."""
    network = random_network(seed, noise=noise, prior=prior, sizes=sizes, parameters=4)
    rng = np.random.default_rng([seed, 9])
    sanitizers = {}
    for agent in network.agents:
        size = network.observe[agent].shape[0]
        rows = rng.standard_normal((max(1, size - 1), size))
        variances = rng.uniform(0.5, 3.0, len(rows))
        variances[0] = 0.0 if len(rows) > 1 else variances[0]
        sanitizers[agent] = vn.Sanitizer(rows, variances, agent=agent)
    return network, sanitizers


def close(one: float, other: float, tolerance: float = 1e-6) -> bool:
    return bool(one == other or abs(one - other) <= tolerance * (1 + abs(other)))


# --- collusion


@pytest.mark.parametrize(("noise", "prior"), KINDS)
@pytest.mark.parametrize("betrays", get_args(Betrayal))
def test_collusion_is_evaluation_of_the_modified_network(noise: str, prior: str, betrays: Betrayal) -> None:
    network, sanitizers = setting(1, noise, prior)
    for colluders in (("a0",), ("a1", "a3"), network.agents):
        modified: dict[str, vn.Sanitizer] = dict(sanitizers)
        for agent in colluders:
            if betrays == "readings":
                del modified[agent]  # an agent without a sanitizer sends raw readings
            else:
                modified[agent] = vn.Sanitizer(sanitizers[agent].compression)
        left = privacy_left(world_of(network), sanitizers, colluders, betrays)
        information = direct_information(network, modified)
        for name, rows in network.private.items():
            assert close(left[name], direct_growth(network, information, rows))


@pytest.mark.parametrize(("noise", "prior"), KINDS)
@pytest.mark.parametrize("betrays", get_args(Betrayal))
def test_the_worst_set_is_the_worst(noise: str, prior: str, betrays: Betrayal) -> None:
    network, sanitizers = setting(2, noise, prior)
    rows = {r.what: r for r in collusion_rows(network, sanitizers, 3, {}, lambda _: None)}
    for size in (1, 2, 3):
        for name, matrix in network.private.items():
            best = min(
                direct_growth(
                    network,
                    direct_information(network, with_colluders(network, sanitizers, some, betrays)),
                    matrix,
                )
                for some in combinations(network.agents, size)
            )
            found = [
                r
                for what, r in rows.items()
                if what.startswith(f"{name},")
                and what.endswith(f"over {betrays}")
                and len(r.figures["who"]) == size
            ]
            assert len(found) == 1
            assert found[0].figures["exact"] is True
            assert close(float(found[0].found or 0.0), best)


@pytest.mark.parametrize("noise", ["joint", "per agent"])
def test_greedy_sets_come_with_a_bound(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collusion, "MOST_SETS", 1)
    monkeypatch.setattr(subsets, "MOST_SETS_JOINT", 1)
    for seed in range(2):
        network, sanitizers = setting(seed, noise, "covariance", sizes=(2, 3, 2, 3, 2, 3, 2))
        for row in collusion_rows(network, sanitizers, 3, {}, lambda _: None):
            colluders = row.figures["who"]
            if len(colluders) == 1:
                assert row.figures["exact"] is True
                continue
            name, betrays = row.what.split(",")[0], row.what.rsplit(" ", 1)[1]
            truth = min(
                privacy_left(world_of(network), sanitizers, some, betrays)[name]  # type: ignore[arg-type]
                for some in combinations(network.agents, len(colluders))
            )
            least = row.figures["no set of this size leaves less than"]
            assert row.figures["exact"] is False
            assert least <= truth * (1 + 1e-9)
            assert float(row.found or 0.0) >= truth * (1 - 1e-9)
            if noise == "per agent":
                assert 1 + least >= 0.5 * (1 + truth)  # the relaxation is tight enough to be of use
        # Between the bound and what was found nothing is sure: that is no promise that holds.
        between = (float(row.found or 0.0) + least) / 2
        judged = collusion_rows(network, sanitizers, 3, {name: between}, lambda _: None)
        (same,) = [each for each in judged if each.what == row.what]
        assert least < between < float(row.found or 0.0)
        assert same.verdict == "warn"


def test_a_greedy_search_goes_on_from_those_it_chose() -> None:
    """Agent 0 is worst alone and 1 next, but beside 0 it is 2 that adds most."""
    errors = {(0,): 1.0, (1,): 2.0, (2,): 3.0, (0, 1): 0.9, (0, 2): 0.1, (1, 2): 1.5}
    found = worst_set(
        lambda masks: np.array([errors[tuple(np.flatnonzero(mask).tolist())] for mask in masks]), 3, 2, 0
    )
    assert (found.agents, found.exact) == ((0, 2), False)


def test_least_privacy_under_collusion_decide() -> None:
    network, sanitizers = setting(1, "per agent", "covariance")
    left = min(
        r.found for r in collusion_rows(network, sanitizers, 1, {}, lambda _: None) if r.what.startswith("g0")
    )
    for limit, verdict in ((left * 0.9, "ok"), (left * 1.1, "fail")):
        rows = collusion_rows(network, sanitizers, 1, {"g0": limit}, lambda _: None)
        worst = min((r for r in rows if r.what.startswith("g0")), key=lambda r: float(r.found or 0.0))
        assert worst.verdict == verdict
        assert all(r.verdict == "info" for r in rows if r.what.startswith("g1"))


# --- repetition


def repeated_information(
    network: vn.Network, sanitizers: dict[str, vn.Sanitizer], count: int, again: Again
) -> Array:
    """J̃ of all messages of all releases, stacked, by the definition."""
    compression, theta = message_model(network, sanitizers)
    observed = compression @ network.H
    own = compression @ network.R.matrix() @ compression.T
    fresh, common = np.eye(count), np.ones((count, count))
    covariance = np.kron(common if again == "same reading" else fresh, own)
    covariance = covariance + np.kron(common if again == "one-time" else fresh, theta)
    stacked = np.kron(np.ones((count, 1)), observed)
    weights = np.linalg.pinv(covariance, rcond=1e-11, hermitian=True)
    return np.asarray(prior_information(network) + stacked.T @ weights @ stacked)


@pytest.mark.parametrize(("noise", "prior"), KINDS)
@pytest.mark.parametrize("again", get_args(Again))
def test_repetition_is_evaluation_of_all_messages(noise: str, prior: str, again: Again) -> None:
    network, sanitizers = setting(3, noise, prior)
    raw = direct_information(network, {})
    for count in (1, 2, 5):
        known = repeated(network, sanitizers, count, again)
        information = repeated_information(network, sanitizers, count, again)
        for rows in network.private.values():
            truth = direct_error(information, rows) / direct_error(raw, rows) - 1
            assert close(growth(known, rows), truth)


@pytest.mark.parametrize("again", get_args(Again))
def test_the_release_that_crosses(again: Again) -> None:
    network, sanitizers = setting(4, "per agent", "covariance")
    rows = network.private["g0"]
    once = growth(repeated(network, sanitizers, 1), rows)
    for limit in (0.9 * once, 0.3 * once, -0.5):
        count = releases_until(network, sanitizers, "g0", limit, again)
        if np.isinf(count):
            assert growth(repeated(network, sanitizers, 1e9, again), rows) >= limit
            continue
        assert growth(repeated(network, sanitizers, count, again), rows) < limit
        assert count == 1 or growth(repeated(network, sanitizers, count - 1, again), rows) >= limit


def test_a_parameter_nobody_tells_stays_untold() -> None:
    network = vn.Network({"a": np.eye(2)}, 1.0, public=[[1.0, 0.0]], private={"g": [[0.0, 1.0]]}, prior=None)
    plan = vn.design(network)
    assert plan.privacy["g"] == np.inf
    assert releases_until(network, plan.sanitizers, "g", 5.0) == np.inf
    rows = repetition_rows(network, plan.sanitizers, (10,), {"g": 5.0})
    assert [row.verdict for row in rows] == ["ok", "info"]


# --- dropout


@pytest.mark.parametrize(("noise", "prior"), KINDS)
def test_dropout_is_evaluation_without_the_agents(noise: str, prior: str) -> None:
    network, sanitizers = setting(5, noise, prior)
    for silent in (("a0",), ("a1", "a4")):
        quiet = {a: vn.Sanitizer.silent(network.observe[a].shape[0]) for a in silent}
        for kept in (sanitizers, {}):
            truth = direct_growth(network, direct_information(network, {**kept, **quiet}), network.U)
            assert close(loss_without(world_of(network), kept, silent), truth)
    for size, row in enumerate(dropout_rows(network, sanitizers, 3, lambda _: None), start=1):
        worst = max(
            loss_without(world_of(network), sanitizers, some) for some in combinations(network.agents, size)
        )
        assert close(float(row.found or 0.0), worst)


def test_a_lost_public_parameter_is_infinite() -> None:
    network = vn.Network(
        {"a": [[1.0, 0.0], [0.0, 1.0]], "b": [[0.0, 1.0], [1.0, 1.0]], "c": [[1.0, 0.0]]},
        1.0, public=[[1.0, 0.0]], private={"g": [[0.0, 1.0]]},
    )  # fmt: skip
    sanitizers = {
        "a": vn.Sanitizer([[1.0, 0.0]]), "b": vn.Sanitizer.silent(2), "c": vn.Sanitizer.silent(1),
    }  # fmt: skip
    (row,) = dropout_rows(network, sanitizers, 1, lambda _: None)
    assert row.found == np.inf
    assert np.isfinite(row.figures["raw readings of the others"])
    assert row.verdict == "warn"


def test_many_agents_are_searched_greedily() -> None:
    rng = np.random.default_rng(0)
    network = vn.Network(
        rng.standard_normal((300, 2, 4)), 1.0, rng.standard_normal((1, 4)), {"g": rng.standard_normal((1, 4))}
    )
    plan = vn.design(network)
    (row,) = [
        r
        for r in collusion_rows(network, plan.sanitizers, 2, {}, lambda _: None)
        if len(r.figures["who"]) == 2
    ]
    assert row.figures["exact"] is False
    colluders = tuple(row.figures["who"])
    assert row.found == privacy_left(world_of(network), plan.sanitizers, colluders, "readings")["g"]
    assert row.figures["no set of this size leaves less than"] <= float(row.found or 0.0)
    assert subsets.MOST_SETS < 300 * 299 / 2


# --- wrong models


def test_no_mistake_changes_nothing() -> None:
    for noise, prior in KINDS:
        network, sanitizers = setting(6, noise, prior)
        none = Mistake(np.zeros((network.N, network.L)), np.zeros(network.N), np.zeros(network.L))
        outcome = WrongModel(network, sanitizers).outcome(none)
        for name, value in vn.privacy(network, sanitizers).items():
            assert close(outcome.privacy[name], value)
        assert close(outcome.public_loss, -vn.utility(network, sanitizers))


@pytest.mark.parametrize("noise", ["joint", "per agent"])
def test_a_mistaken_centre_against_simulation(noise: str) -> None:
    network, sanitizers = setting(7, noise, "covariance")
    rng = np.random.default_rng(3)
    mistake = Mistake(
        0.2 * rng.standard_normal((network.N, network.L)),
        0.2 * rng.standard_normal(network.N),
        0.2 * rng.standard_normal(network.L),
    )
    truth = mistake.applied(network)
    assert truth.prior is not None
    assert network.prior is not None
    scale = np.exp(mistake.spread)
    covariance = np.linalg.inv(network.prior.information) * np.outer(scale, scale)
    assert np.allclose(truth.prior.covariance, covariance, rtol=1e-9)
    x = draw_x(truth, rng, 60_000)
    y = draw_readings(truth, x, rng)
    messages = {}
    for place, (agent, s) in enumerate(sanitizers.items()):
        own = y[:, network.blocks.rows(place)]
        messages[agent] = own @ s.compression.T + rng.standard_normal((len(y), s.sent)) * np.sqrt(
            np.diag(s.noise)
        )
    errors = LinearCentre(network, sanitizers).estimate(messages, network.U) - x @ network.U.T
    raw = np.trace(network.U @ np.linalg.inv(direct_information(truth, {})) @ network.U.T)
    simulated = np.mean(np.sum(errors**2, axis=1)) / raw - 1
    computed = WrongModel(network, sanitizers).outcome(mistake)
    assert computed.public_loss == pytest.approx(simulated, rel=0.03)
    information = direct_information(truth, sanitizers)
    for name, rows in truth.private.items():
        assert close(computed.privacy[name], direct_growth(truth, information, rows))


def test_the_assumption_that_matters_most() -> None:
    """One agent alone sees what is public, and what is private is seen by another: each rests on its own."""
    network = vn.Network(
        {"sees u": [[1.0, 0.0]], "sees g": [[0.0, 1.0]]}, [0.01, 0.01],
        public=[[1.0, 0.0]], private={"g": [[0.0, 1.0]]}, prior=vn.Prior(covariance=np.eye(2), mean=[3.0, 0.0]),
    )  # fmt: skip
    sanitizers = {"sees u": vn.Sanitizer([[1.0]]), "sees g": vn.Sanitizer(noise=[0.5])}
    rows = {r.what: r for r in wrong_model_rows(network, sanitizers, 0.05, 0, lambda _: None)}
    assert rows["public error"].found == "what sees u observes"
    assert "sees g" in str(rows["g"].found)
    low, high = rows["g, model off by 5 %"].interval or (0.0, 0.0)
    assert low < float(rows["g, model off by 5 %"].promised or 0.0) < high


@pytest.mark.parametrize(("noise", "prior"), KINDS)
def test_an_attacker_who_knew_more_is_compared_with_one_who_knew_as_much(noise: str, prior: str) -> None:
    """Messages, raw readings and neither, each beside the same knowledge: sanitizing never helps an attacker."""
    network, sanitizers = setting(8, noise, prior)
    raw = direct_information(network, {})
    sent = direct_information(network, sanitizers)
    more = {"half the deviation": 3.0 * prior_information(network), "tenth of a raw release": 0.1 * raw}
    rows = attacker_rows(network, sanitizers)
    assert len(rows) == (4 if network.prior is not None else 2)
    for row in rows:
        name = row.what.split(",")[0]
        extra = next(value for label, value in more.items() if label in row.what)
        matrix = network.private[name]
        told = {
            "guessing": prior_information(network) + extra,
            "raw readings": raw + extra,
            "what is sent": sent + extra,
        }
        truth = {heading: direct_error(each, matrix) for heading, each in told.items()}
        assert row.promised is None
        assert close(float(row.found or 0.0), truth["what is sent"] / truth["raw readings"] - 1)
        assert float(row.found or 0.0) >= -1e-9
        for heading, error in row.figures["errors"].items():
            assert close(error**2 * len(matrix), truth[heading]), heading


def test_an_unobservable_truth_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    network, sanitizers = setting(1, "per agent", "covariance")

    def refuse(*_: Any) -> Any:
        raise vn.NotObservable("nothing is seen")

    monkeypatch.setattr(wrong_models.Mistake, "applied", refuse)
    none = Mistake(np.zeros((network.N, network.L)), np.zeros(network.N), np.zeros(network.L))
    assert WrongModel(network, sanitizers).outcome(none) is None
