"""The audit's arithmetic on data, each against another way to compute it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import random_network
from veilnet.auditing.attack.allowed import Promises
from veilnet.auditing.attack.memory import around, reach_of, spans_for
from veilnet.auditing.sections import Section
from veilnet.auditing.statistics import part_of
from veilnet.auditing.what_if.variants import changed
from veilnet.bounds.knowledge import knowledge
from veilnet.calibration.classes import Classes, allowed_measures, classes_of, measured
from veilnet.calibration.dependence import independent_rows, mean_of, ratio_of
from veilnet.calibration.stretches import stretches_of

Array = np.ndarray[Any, np.dtype[np.float64]]


def slow(rows: int, count: int, memory: float, seed: int) -> Array:
    drawn = np.random.default_rng(seed).standard_normal((rows, count))
    drawn[1:] *= np.sqrt(1 - memory**2)
    for row in range(1, rows):
        drawn[row] += memory * drawn[row - 1]
    return drawn


# --- dependence


@pytest.mark.parametrize("memory", [0.0, 0.8, 0.95])
def test_a_log_is_worth_as_many_rows_as_theory_says(memory: float) -> None:
    """T (1 - a) / (1 + a) for a process that keeps a of itself."""
    values = slow(20_000, 8, memory, 0)
    found = np.mean([independent_rows(column) for column in values.T])
    assert found == pytest.approx(20_000 * (1 - memory) / (1 + memory), rel=0.15)


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_p_values_of_means_and_of_ratios_are_what_they_say(memory: float) -> None:
    """1000 logs of 600 rows: at 5 %, between 2.2 % and 8 % err (four deviations of a binomial)."""
    first, second = slow(600, 1000, memory, 1), slow(600, 1000, memory, 2)
    means = [mean_of(column).chance_below(0.0) for column in first.T]
    assert 0.022 < np.mean(np.array(means) < 0.05) < 0.08
    # e = √½ x is independent of what it leaves of g = √½ (x + w): E e² = ½ E g².
    errors, goals = 0.5 * first**2, 0.5 * (first + second) ** 2
    ratios = [ratio_of(e, 0.5 * g).chance_below(1.0) for e, g in zip(errors.T, goals.T, strict=True)]
    assert np.mean(np.array(ratios) < 0.05) < 0.08


def test_never_an_error_is_less_than_any_promise() -> None:
    others = slow(2000, 1, 0.5, 3)[:, 0] ** 2
    perfect = ratio_of(np.zeros(2000), others)
    assert perfect.value == 0.0
    assert perfect.chance_below(1.0) == 0.0
    assert perfect.chance_above(1.0) == 1.0
    assert perfect.effective == independent_rows(others)
    assert perfect.reach(1e-6) == 0.0
    few = slow(2000, 1, 0.999, 3)[:, 0] ** 2
    assert independent_rows(few) < 20
    assert ratio_of(np.zeros(2000), few).chance_below(1.0) == 1.0, "rows that are alike decide nothing"


def test_too_few_independent_rows_decide_nothing() -> None:
    wandering = np.cumsum(np.random.default_rng(0).standard_normal(500)) + 100.0
    assert mean_of(wandering).chance_above(0.0) == 1.0
    assert mean_of(wandering).reach(0.01) == np.inf


# --- what the plan allows at another spread


def test_the_promise_at_another_spread_is_that_of_a_network_with_that_prior() -> None:
    network = random_network(3, noise="per agent", prior="covariance")
    rng = np.random.default_rng(0)
    sanitizers = {
        agent: vn.Sanitizer(rng.standard_normal((1, len(rows))), 0.5)
        for agent, rows in network.observe.items()
    }
    promises = Promises(network, sanitizers)
    assert network.prior is not None
    before = np.asarray(network.prior.covariance)
    for name, rows in network.private.items():
        own = rows @ before @ rows.T
        deviations = rng.standard_normal((400, len(rows))) @ rng.standard_normal((len(rows), len(rows)))
        spread = deviations.T @ deviations / 400
        # g with covariance S, and the rest of x follows it as before.
        follow = before @ rows.T @ np.linalg.inv(own)
        other = before + follow @ (spread - own) @ follow.T
        moved = changed(network, prior=vn.Prior(covariance=other, mean=network.prior.mean))
        expected = np.trace(knowledge(moved, sanitizers).error_covariance(rows))
        assert np.mean(promises.sent(name).squares(deviations)) == pytest.approx(expected, rel=1e-6)
        # Linearised: twice as many of one row moves the promise by as much as the squares say.
        longer = np.concatenate([deviations, deviations[:1]])
        change = np.mean(promises.sent(name).squares(longer)) - expected
        slope = (promises.sent(name).squares(deviations)[0] - expected) / len(longer)
        assert change == pytest.approx(slope, rel=0.05, abs=1e-4 * expected)


# --- classes


def test_the_area_within_stretches_is_that_of_each_stretch() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 900)
    score = 0.3 * truth + rng.random(900) + np.repeat([0.0, 5.0, -5.0], 300)
    stretches = stretches_of(900, 0)
    probabilities = np.column_stack([-score, score])
    found = measured(Classes(np.array([0.0, 1.0]), truth), probabilities, stretches)["AUC"]
    areas, weights = [], []
    for stretch in stretches:
        own = truth[stretch.judged]
        areas.append(metrics.roc_auc_score(own, score[stretch.judged]))
        weights.append(own.sum() * (len(own) - own.sum()) / len(own))
    assert found.value == pytest.approx(np.average(areas, weights=weights), rel=1e-12)


@pytest.mark.parametrize("values", [[0.0, 1.0], [-1.0, 0.0, 2.0]])
def test_the_promise_in_classes_is_that_of_one_normal_number(values: list[float]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(2)
    share = np.array([0.75, 0.25]) if len(values) == 2 else np.array([0.3, 0.5, 0.2])
    rows = rng.choice(len(values), 400_000, p=share)
    classes = Classes(np.array(values), rows)
    g = classes.values[rows]
    part = 0.7
    noise = np.sqrt(np.var(g) * part / (1 - part))
    z = g + noise * rng.standard_normal(len(g))
    assert 1 - np.corrcoef(g, z)[0, 1] ** 2 == pytest.approx(part, abs=0.005)
    likelihood = np.exp(-0.5 * ((z[:, None] - classes.values) / noise) ** 2)
    posterior = likelihood * classes.parts / np.sum(likelihood * classes.parts, axis=1, keepdims=True)
    allowed = allowed_measures(classes, part)
    areas = [metrics.roc_auc_score(rows == k, posterior[:, k]) for k in range(len(values))]
    assert allowed["AUC"] == pytest.approx(np.mean(areas), abs=0.003)
    accuracy = metrics.balanced_accuracy_score(rows, np.argmax(likelihood, axis=1))
    assert allowed["balanced accuracy"] == pytest.approx(accuracy, abs=0.004)
    bits = np.mean(np.log2(posterior[np.arange(len(rows)), rows] / classes.parts[rows]))
    assert allowed["bits"] == pytest.approx(bits, abs=0.004)
    nothing = allowed_measures(classes, 1.0)
    assert nothing == {"AUC": 0.5, "balanced accuracy": 1 / len(values), "bits": 0.0}


def test_which_parameters_have_few_values() -> None:
    rng = np.random.default_rng(0)
    assert classes_of(rng.integers(0, 6, (500, 1)).astype(float)) is not None
    assert classes_of(rng.integers(0, 7, (500, 1)).astype(float)) is None
    assert classes_of(rng.integers(0, 2, (500, 2)).astype(float)) is None
    assert classes_of(np.r_[np.zeros(500), np.ones(5)][:, None]) is None


# --- stretches and memory


def test_rows_that_are_judged_are_apart_from_those_that_were_learned_from() -> None:
    stretches = stretches_of(1000, 30)
    assert np.array_equal(np.concatenate([each.judged for each in stretches]), np.arange(1000))
    for each in stretches:
        assert np.array_equal(each.judged, np.arange(each.judged[0], each.judged[-1] + 1))
        assert np.min(np.abs(each.learned[:, None] - each.judged)) >= 30


def test_what_is_remembered_are_means_of_the_rows_around_that_are_there() -> None:
    places = np.r_[100:110, 115:130]
    values = np.random.default_rng(3).standard_normal((2, len(places), 3))
    spans = spans_for(6, 3)
    found = around(values, places, spans).reshape(2, len(places), 1 + len(spans), 3)
    assert np.array_equal(found[:, :, 0], values)
    for row, place in enumerate(places):
        for number, (first, last) in enumerate(spans, 1):
            there = np.flatnonzero((places >= place + first) & (places <= place + last))
            expected = np.mean(values[:, there], axis=1) if there.size else values[:, row]
            assert np.allclose(found[:, row, number], expected, rtol=0, atol=1e-12)


def test_memories_reach_as_far_as_rows_and_numbers_allow() -> None:
    near = spans_for(2, 1)
    assert set(near) == {(-1, -1), (1, 1), (-2, -2), (2, 2)}
    assert spans_for(0, 4) == ()
    for numbers in (1, 18, 40, 200):
        spans = spans_for(72, numbers)
        rows = sorted(row for first, last in spans for row in range(first, last + 1))
        reach = reach_of(spans)
        assert rows == [row for row in range(-reach, reach + 1) if row], "no row is left out or shown twice"
        assert reach == 72 or numbers >= 40


def test_a_value_is_worth_no_more_rows_than_it_comes_and_goes() -> None:
    """Eleven spells of 2000 rows were worth 26 rows by their autocorrelations, and decided."""
    rows = np.repeat(np.arange(11) % 2, [2, 107, 746, 4, 155, 116, 121, 39, 155, 74, 481])
    assert independent_rows(rows.astype(float)) > 20
    score = np.clip(rows + 0.1, 0.2, 0.8)
    found = measured(
        Classes(np.array([0.0, 1.0]), rows), np.stack([1 - score, score], axis=1), stretches_of(2000, 0)
    )
    assert all(each.effective <= 11 for each in found.values())
    assert all(each.chance_above(0.5) == 1.0 for each in found.values())


# --- the rate of false alarms


def test_the_sections_share_one_rate_of_false_alarms() -> None:
    """Each has a part of it, and the parts of all that decide by chance add up to the whole, never to more."""
    decide = (Section.DEPLOYED, Section.PROMISE, Section.ATTACKERS, Section.LATTICE, Section.SUMS)
    parts = [part_of(section, 1e-6) for section in decide]
    on_data = [part_of(section, 0.01, on_data=True) for section in (Section.ATTACKERS, Section.LATTICE)]
    assert min(parts) > 0
    assert min(on_data) > 0
    assert sum(parts) == pytest.approx(1e-6, rel=1e-12)
    assert sum(on_data) == pytest.approx(0.01, rel=1e-12)
