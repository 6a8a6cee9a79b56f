"""What fit doubts of a table: nothing of what the model draws, and every planted fault by name."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.calibration_table import (
    READINGS,
    ROLES,
    H,
    slow,
    table,
)
from veilnet.calibration.fitting import DoubtfulModel, fit_report

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("rows", "tables"),
    [
        (100, 20),
        (1000, 2),
        (20_000, 1),
        pytest.param(1000, 20, marks=pytest.mark.long),
        pytest.param(20_000, 3, marks=pytest.mark.long),
    ],
)
def test_data_from_the_model_raise_no_doubt(rows, tables) -> None:
    for seed in range(tables):
        assert fit_report(table(rows, seed), **ROLES).warnings == ()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vn.fit(table(rows), **ROLES)


def _heavy(data, rng):
    data["T2"] = data["T2"] + rng.standard_t(3, 1000)


def _curved(data, _):
    data["T2"] = data["T2"] + 0.01 * (data["T_out"] - 5) ** 2


def _unequal(data, rng):
    data["T2"] = data["T2"] + np.exp(0.1 * data["T_out"]) * rng.standard_normal(1000)


def _persistent(data, rng):
    data["T2"] = data["T2"] + slow(rng, 1000, 1, 0.9)[:, 0]


def _drifting(data, _):
    data["T2"] = data["T2"] + np.linspace(-0.5, 0.5, 1000) * data["T_out"]


def _coarse(data, _):
    data["T1"] = np.round(data["T1"])


def _binary(data, _):
    data["people"] = (data["people"] > 2).astype(float)


def _skewed(data, _):
    data["people"] = np.exp(data["people"])


def _slow_parameter(data, rng):
    changes = 7 * slow(rng, 1000, 1, 0.95)[:, 0] - data["T_out"]
    data["T_out"] = data["T_out"] + changes
    for name, weight in zip(READINGS, H[:, 0], strict=True):
        data[name] = data[name] + weight * changes


def _told(data, rng):
    data["people"] = data["T_out"] + rng.standard_normal(1000)


@pytest.mark.parametrize(
    ("spoil", "words", "named"),
    [
        (_heavy, "not Gaussian", "T2"),
        (_curved, "Not linear", "T2"),
        (_unequal, "noise is larger at some values", "T2"),
        (_persistent, "autocorrelated", "T2"),
        (_drifting, "held-out rows", "T2"),
        (_coarse, "Coarse", "T1"),
        (_binary, "only a few values", "people"),
        (_skewed, "far from Gaussian", "people"),
        (_slow_parameter, "Changes slowly", "T_out"),
        (_told, "public parameters alone", "people"),
    ],
)
def test_each_doubt_is_raised_and_named(spoil, words, named) -> None:
    data = table(1000)
    spoil(data, np.random.default_rng(5))
    made = fit_report(data, **ROLES)
    mine = [sentence for sentence in made.warnings if words in sentence]
    assert len(mine) == 1
    assert named in mine[0]
    assert all(f"- {sentence}" in str(made) for sentence in made.warnings)


def test_what_a_report_doubts_is_what_fit_warns_of() -> None:
    data = table(1000)
    _heavy(data, np.random.default_rng(5))
    made = fit_report(data, **ROLES)
    assert made.warnings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vn.fit(data, **ROLES)
    assert [str(one.message) for one in caught] == list(made.warnings)
    assert {(one.category, Path(one.filename).name) for one in caught} == {
        (DoubtfulModel, Path(__file__).name)
    }


def test_a_single_coarse_reading_withholds_nothing() -> None:
    data = table(1000)
    data["T2"] = np.round(data["T2"], 1)
    assert fit_report(data, **ROLES).warnings == ()


def test_few_rows_are_said_to_be_few() -> None:
    sentences = fit_report(table(12), **ROLES).warnings
    assert any("Few rows: 12" in sentence for sentence in sentences)
    assert any("so many readings" in sentence for sentence in sentences)


def test_a_doubt_about_many_columns_stays_short() -> None:
    """Sixty readings with long names, all of heavy tails: the words stay as short as a network takes them."""
    rng = np.random.default_rng(5)
    names = [f"reading {place:02d} {'x' * 80}" for place in range(60)]
    data = {"u": rng.standard_normal(600), "g": rng.standard_normal(600)}
    data |= {name: data["u"] + data["g"] * k + rng.standard_t(3, 600) for k, name in enumerate(names)}
    made = fit_report(data, agents={"all": names}, public=["u"], private=["g"])
    [law] = [doubt for doubt in made.network.doubts if doubt.name == "noise-law"]
    assert len(law.words) <= 2000
    told = sum(name in law.words for name in names)
    assert told == 6
    assert f" and {60 - told} more. " in law.words


def test_a_time_column_with_an_odd_name_is_doubted_in_printable_words() -> None:
    data = table(200)
    data |= {"date\x1b[2J": [f"2024-01-01 {k // 60:02d}:{k % 60:02d}" for k in range(200)]}
    made = fit_report(data, **ROLES)
    assert all(doubt.words.isprintable() for doubt in made.network.doubts)
