"""Power at few false alarms, and attackers who stop when they know enough: by closed forms and by simulation."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.special import expit

from veilnet._core.types import Array, Booleans
from veilnet.auditing.attack.class_rows import Attempt, two_verdicts
from veilnet.auditing.attack.detection import capital, knows_after, pairs_of, power_at
from veilnet.auditing.row import Judgement, Row
from veilnet.calibration.classes import Classes, measured
from veilnet.calibration.stretches import stretches_of


def scores(auc: float, count: int, seed: int) -> tuple[Booleans, Array]:
    """Normal scores with this AUC, and which rows have the value."""
    rng = np.random.default_rng(seed)
    present = rng.random(count) < 0.4
    apart = np.sqrt(2) * NormalDist().inv_cdf(auc)
    return present, rng.normal(size=count) + apart * present


@pytest.mark.parametrize("auc", [0.6, 0.8, 0.95])
def test_power_is_that_of_the_closed_form(auc: float) -> None:
    """Φ(d' + Φ^-1(α)), within the interval (95 %, fixed seed) and a few of its widths."""
    present, score = scores(auc, 40_000, 1)
    apart = np.sqrt(2) * NormalDist().inv_cdf(auc)
    for rate in (0.01, 0.001):
        expected = NormalDist().cdf(apart + NormalDist().inv_cdf(rate))
        found = power_at(rate, present, score, len(score))
        assert found is not None
        width = found.high - found.low
        assert 0 < width < 0.1
        assert abs(found.value - expected) < 2 * width


def test_intervals_of_power_hold_the_truth() -> None:
    """60 logs of 2000 independent rows: of intervals at 95 %, 46 or more hold it but in one case of 10^5."""
    expected = NormalDist().cdf(np.sqrt(2) * NormalDist().inv_cdf(0.8) + NormalDist().inv_cdf(0.01))
    held = 0
    for seed in range(60):
        found = power_at(0.01, *scores(0.8, 2000, seed), 2000)
        assert found is not None
        held += found.low <= expected <= found.high
    assert held >= 46


def test_power_needs_rows_for_one_false_alarm() -> None:
    present, score = scores(0.8, 500, 2)
    assert power_at(0.01, present, score, 500) is not None
    assert power_at(0.001, present, score, 500) is None
    assert power_at(0.01, np.zeros(500, bool), score, 500) is None


def test_equal_scores_see_nothing() -> None:
    """A detector that gives one score cannot raise an alarm on some rows and not on others."""
    present, _ = scores(0.8, 500, 2)
    found = power_at(0.01, present, np.ones(500), 500)
    assert found is not None
    assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("promised", [0.5, 0.6, 0.9])
def test_while_the_promise_holds_few_ever_stop(promised: float) -> None:
    """Ville: at most α ever, however long they look. 2000 attackers, 300 pairs each, α = 0.05, b with mean a."""
    rng = np.random.default_rng(7)
    stopped = sum(
        bool(np.max(capital((rng.random(300) < promised) * 1.0, promised)) >= 1 / 0.05) for _ in range(2000)
    )
    # 0.05 of 2000 is 100; more than 135 would be beyond four deviations
    assert stopped <= 135
    assert stopped > 10  # and the bets are not idle


def test_the_expected_capital_is_at_most_one() -> None:
    """Exactly, over all outcomes of twelve pairs: the mean of K_12 is 1 where pairs are won with chance a."""
    outcomes = np.array(np.meshgrid(*[[0.0, 1.0]] * 12)).reshape(12, -1).T
    for promised in (0.5, 0.6, 0.85):
        chances = np.prod(np.where(outcomes == 1, promised, 1 - promised), axis=1)
        mean = sum(p * capital(each, promised)[-1] for p, each in zip(chances, outcomes, strict=True))
        assert mean == pytest.approx(1.0, abs=1e-9)


def test_who_knows_more_stops_soon_and_who_does_not_never() -> None:
    present, score = scores(0.85, 4000, 3)
    pairs = pairs_of(present, stretches_of(4000, 0), 4000)
    assert sum(map(len, pairs)) > 1000
    for each in pairs:
        assert np.all(present[each[:, 0]])
        assert not np.any(present[each[:, 1]])
    known = knows_after([score], pairs, 0.6, 1e-3)
    assert known is not None
    assert known < 100
    noise = np.random.default_rng(4).normal(size=4000)
    together = knows_after([score, noise], pairs, 0.6, 1e-3)
    assert together is not None
    assert together >= known  # an idle attacker halves the capital, and no more
    assert knows_after([score], pairs, 0.85, 1e-3) is None


def slow_log(memory: float, leak: float, seed: int, rows: int = 2000) -> list[Attempt]:
    """An attacker of AUC 0.6 + ``leak`` where 0.6 is promised, with a nuisance like the one before in his scores.

    His own row is judged by the mean over all rows, at 0.001.
    """
    rng = np.random.default_rng(seed)
    present, nuisance = rng.random(rows) < 0.5, rng.normal(size=rows)
    nuisance = lfilter([np.sqrt(1 - memory**2)], [1.0, -memory], nuisance)
    score = expit(nuisance + np.sqrt(2) * NormalDist().inv_cdf(0.6 + leak) * present)
    classes, stretches = Classes(np.array([0.0, 1.0]), present.astype(np.intp)), stretches_of(rows, 0)
    told = np.column_stack([1 - score, score])
    area = measured(classes, told, stretches)["AUC"]
    verdict: Judgement = "fail" if area.chance_above(0.6) < 1e-3 else "ok"
    row = Row(
        "s", "a on g (values)", 0.6, area.value, verdict, "", None, {"past rows": 0.0}, {"raw": "AUC 1.00"}
    )
    return [Attempt(row, classes, told, stretches)]


@pytest.mark.parametrize("memory", [0.0, 0.9, 0.98])
def test_a_slow_nuisance_breaks_no_promise(memory: float) -> None:
    """20 logs that keep it, at 0.001 each way: more than one broken comes in one case of 1000."""
    verdicts = [
        two_verdicts("s", "g", slow_log(memory, 0.0, seed), None, 2e-3)[1].verdict for seed in range(20)
    ]
    assert verdicts.count("fail") <= 1
    assert verdicts.count("ok") >= 15


def test_a_stop_on_dependent_rows_alone_is_no_proof() -> None:
    """A leak is broken on rows by themselves; a stop that no test of all rows confirms is so on these alone."""
    assert two_verdicts("s", "g", slow_log(0.0, 0.15, 1), None, 2e-3)[1].verdict == "fail"
    for memory, expected in ((0.0, "fail"), (0.9, "cannot tell")):
        told = slow_log(memory, 0.15, 1)
        quiet = [replace(each, row=replace(each.row, verdict="ok")) for each in told]
        row = two_verdicts("s", "g", quiet, None, 0.5)[1]
        assert "pairs until known" in row.figures
        assert row.verdict == expected


def test_rows_that_are_alike_make_few_pairs() -> None:
    present = np.repeat(np.tile([True, False], 10), 100)
    pairs = pairs_of(present, stretches_of(2000, 0), 20.0)
    assert sum(map(len, pairs)) <= 10
    assert all(len(np.unique(each)) == each.size for each in pairs)
    assert [len(each) for each in pairs_of(np.ones(40, bool), stretches_of(40, 0), 40.0)] == [0, 0, 0, 0]
    assert (
        knows_after([np.ones(40)], pairs_of(np.ones(40, bool), stretches_of(40, 0), 40.0), 0.6, 0.01) is None
    )
