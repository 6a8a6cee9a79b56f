"""Errors in the user's units: raw, sent and guessing."""

from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.networks import direct_information, prior_information, random_network

import veilnet as vn
from veilnet._core.words import percent, plain_number, plus_minus, side_by_side, three_digits, times
from veilnet.bounds.typical_errors import typical_errors, unit_of


def test_errors_are_the_standard_deviations_of_the_best_estimators() -> None:
    """By another route: information matrices of raw readings, messages and prior, inverted."""
    network = random_network(3, prior="covariance")
    plan = vn.design(network)
    raw = np.linalg.inv(direct_information(network, {}))
    told = np.linalg.inv(direct_information(network, plan.sanitizers))
    before = np.linalg.inv(prior_information(network))
    errors = typical_errors(network, plan.sanitizers)
    for name, rows in (*network.public.items(), *network.private.items()):
        expected = [np.sqrt(np.trace(rows @ each @ rows.T) / len(rows)) for each in (raw, told, before)]
        found = errors[name]
        assert [found.raw, found.sent, found.guessing] == pytest.approx(expected, rel=1e-6)


def test_a_unit_is_taken_from_the_entry_of_x_where_the_row_names_one() -> None:
    network = vn.Network(
        observe={"a": np.eye(2)}, noise=1.0, public=[[1.0, 1.0]],
        private={"heart rate": [1.0, 0.0], "half": [0.5, 0.0]},
        parameters=["pulse", "other"], units={"pulse": "1/min"},
    )  # fmt: skip
    assert unit_of(network, "heart rate") == "1/min"
    assert unit_of(network, "half") == ""


@pytest.mark.parametrize(
    ("values", "unit", "expected"),
    [
        ({"raw": 7.21, "sent": 7.64, "guessing": 7.93}, "°C", "±7.2 °C raw, ±7.6 °C sent, ±7.9 °C guessing"),
        ({"raw": 7.21, "sent": 7.24, "guessing": 7.93}, "", "±7.21 raw, ±7.24 sent, ±7.93 guessing"),
        ({"raw": 0.031, "guessing": np.inf}, "m", "±0.031 m raw, ±∞ m guessing"),
        ({"raw": 12.0, "sent": 12.0, "guessing": 1234.0}, "", "±12 raw, ±12 sent, ±1234 guessing"),
        # in one notation, whichever it is
        (
            {"raw": 4.8e-5, "sent": 8.1e-5, "guessing": 1.2e-3},
            "",
            "±0.000048 raw, ±0.000081 sent, ±0.001200 guessing",
        ),
        ({"raw": 4.8e-8, "guessing": 1.2e-3}, "m", "±4.8e-08 m raw, ±1.2e-03 m guessing"),
    ],
)
def test_errors_side_by_side(values: dict[str, float], unit: str, expected: str) -> None:
    assert side_by_side(values, unit) == expected


def test_what_rounding_leaves_of_zero_is_zero() -> None:
    assert plain_number(-1.11e-15) == "0"
    assert plain_number(-7e-33) == "0"
    assert plain_number(0.05) == "0.05"
    assert percent(1.11e-15) == "0 %"
    assert percent(0.05) == "5 %"
    assert percent(5.0) == "500 %"
    assert plus_minus(0.1234, "kW") == "±0.12 kW"


def test_percentages_and_ratios_are_written_without_exponents() -> None:
    assert [percent(part) for part in (0.0016, 0.997, 1.0, 12.345)] == ["0.16 %", "100 %", "100 %", "1,230 %"]
    assert [times(ratio**2) for ratio in (1.0, 1.019, 1.19, 10.24, 1234.0, 123_456.0, np.inf)] == [
        "not at all",
        "by 1.9 %",
        "1.19x",
        "10.2x",
        "1,230x",
        "123,000x",
        "without bound",
    ]
    assert [three_digits(value) for value in (4.789e-05, 0.1234, 12.345, 1234.5, 0.0, 3e-9)] == [
        "0.0000479",
        "0.123",
        "12.3",
        "1230",
        "0",
        "3e-09",
    ]
