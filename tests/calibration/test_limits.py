"""Credible limits from data, and outliers by their name: what is refused, what is not, at which rate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import veilnet as vn
from veilnet import cli
from veilnet.calibration.fitting import fit_report
from veilnet.calibration.limits import bulk, credible_limits, proposed_limits
from veilnet.calibration.outliers import stays_at_one_value

ROLES = {"agents": {"room": ["T", "CO2"], "hall": ["T2"]}, "public": ["T_out"], "private": ["people"]}


def log(rows: int = 400, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 2)) * [6.0, 1.0] + [8.0, 2.0]
    noise = rng.standard_normal((rows, 3)) * [0.4, 20.0, 0.4]
    y = x @ np.array([[0.1, 0.0, 0.15], [0.2, 60.0, 0.1]]) + noise + [20.0, 420.0, 19.0]
    return dict(zip(["T_out", "people", "T", "CO2", "T2"], np.column_stack([x, y]).T, strict=True))


LAWS = {
    "normal": (stats.norm(), 1e-6),
    "exponential": (stats.expon(), 1e-5),
    "student 3": (stats.t(3), 1e-4),
    "lognormal": (stats.lognorm(1.0), 1e-4),
    "uniform": (stats.uniform(), 1e-9),
}


@pytest.mark.parametrize("name", LAWS)
def test_good_readings_are_hardly_ever_refused(name: str) -> None:
    """The stated rate at a thousand rows of calibration, from the law itself rather than from more draws."""
    law, rate = LAWS[name]
    rng = np.random.default_rng(0)
    refused = []
    for _ in range(50):
        lowest, highest = credible_limits(law.rvs(1000, random_state=rng))
        refused.append(law.cdf(lowest) + law.sf(highest))
    assert np.mean(refused) < rate


def test_two_states_and_rain_are_credible() -> None:
    rng = np.random.default_rng(0)
    lamp = np.where(rng.random(1000) < 0.08, 400 + 10 * rng.standard_normal(1000), rng.random(1000) * 0.4)
    assert bulk(lamp) == (lamp.min(), lamp.max())
    rain = np.where(rng.random(1000) < 0.03, rng.exponential(2.0, 1000), 0.0)
    lowest, highest = credible_limits(rain)
    assert -3 * rain.max() < lowest < 0
    assert 0.03 * stats.expon(scale=2.0).sf(highest) < 1e-3
    assert credible_limits(np.repeat([0.0, 1.0], 500)) == (-2.0, 3.0)


@given(
    st.integers(0, 10_000),
    st.sampled_from([-9999.0, 65535.0, 1e6, -1e30]),
    st.integers(1, 4),
)
def test_wrong_values_do_not_widen_the_limits(seed, wrong, count) -> None:
    values = 20 + np.random.default_rng(seed).standard_normal(400)
    spoiled = np.concatenate([values, np.full(count, wrong)])
    clean, found = credible_limits(values), credible_limits(spoiled)
    np.testing.assert_allclose(found, clean, atol=0.2 * (clean[1] - clean[0]))
    assert not found[0] <= wrong <= found[1]


def test_a_code_for_no_value_in_many_rows_does_not_widen_them_either() -> None:
    values = 20 + np.random.default_rng(0).standard_normal(400)
    values[::8] = -9999.0
    values[5] = 1e6
    lowest, highest = credible_limits(values)
    assert 0 < lowest < highest < 50


@given(st.integers(0, 1000), st.floats(1e-6, 1e6), st.floats(-1e3, 1e3))
def test_units_do_not_matter(seed, scale, shift) -> None:
    values = np.random.default_rng(seed).standard_normal(100)
    width = np.ptp(values)
    plain, scaled = np.array(credible_limits(values)), np.array(credible_limits(scale * (values + shift)))
    np.testing.assert_allclose(scaled / scale - shift, plain, atol=0.2 * width)


# --- after fit, at the agent


def test_faults_and_fahrenheit_are_beyond_the_limits_and_good_readings_are_not() -> None:
    network = fit_report(log(), **ROLES).network
    sanitizer = vn.design(network).sanitizers["room"]
    rows = [[21.0, 540.0], [-9999.0, 540.0], [21.0 * 1.8 + 32, 540.0], [21.0, -9999.0], [21.0, 65535.0]]
    beyond = sanitizer.recipe.beyond(np.array(rows))
    assert beyond.tolist() == [[False, False], [True, False], [True, False], [False, True], [False, True]]
    assert np.sum(sanitizer.beyond) < 1e-3
    later = log(5000, seed=1)
    for agent, columns in ROLES["agents"].items():
        low, high = network.limits[agent]
        readings = np.column_stack([later[name] for name in columns])
        assert np.all((readings > low) & (readings < high))


def test_limits_are_written_shown_and_can_be_left_out(tmp_path: Path, capsys) -> None:
    data = log()
    path = tmp_path / "log.csv"
    lines = [",".join(data), *(",".join(map(str, row)) for row in zip(*data.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    command = ["fit", str(path), "--agent", "room=T,CO2", "--agent", "hall=T2", "--public", "T_out"]
    command += ["--private", "people", "--out", str(tmp_path / "house.toml")]
    assert cli.run(command) == 0
    shown = capsys.readouterr().out
    saved = vn.Network.load(tmp_path / "house.toml")
    for agent, columns in ROLES["agents"].items():
        for place, name in enumerate(columns):
            low, high = (edge[place] for edge in saved.limits[agent])
            expected = credible_limits(data[name])
            assert (low, high) == (max(expected[0], 0.0) if name == "CO2" else expected[0], expected[1])
            assert f"{low:.4g}..{high:.4g}" in shown
    assert cli.run([*command, "--no-limits", "--force"]) == 0
    assert not vn.Network.load(tmp_path / "house.toml").limits
    assert "any" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "edges"),
    [("RH_kitchen", (0, 100)), ("RH1", (0, 100)), ("HumidityBath", (0, 100)), ("hall_co2", (0, None)),
     ("Light", (0, None)), ("rheostat", (None, None)), ("T1", (None, None)), ("lightning", (None, None))],
)  # fmt: skip
def test_limits_stay_within_what_a_sensor_can_read(name: str, edges: tuple[float | None, ...]) -> None:
    values = np.random.default_rng(2).uniform(38, 62, size=(500, 1))
    wide = credible_limits(values[:, 0])
    assert wide[0] < 0 < 100 < wide[1]
    expected = tuple(wide[k] if edge is None else edge for k, edge in enumerate(edges))
    found = proposed_limits(values, [name], {"room": slice(0, 1)})["room"]
    assert (found[0][0], found[1][0]) == expected
    # a log that goes beyond is believed: it counts in other units
    shifted = proposed_limits(values - 50, [name], {"room": slice(0, 1)})["room"]
    assert (shifted[0][0], shifted[1][0]) == credible_limits(values[:, 0] - 50)


def test_a_sensor_often_at_its_end_gets_limits_that_a_design_takes() -> None:
    """Of light that is 0 at night the normal law of the model has readings below 0: none may be cut off."""
    rng = np.random.default_rng(3)
    day = (rng.random(600) < 0.3).astype(float)
    data = log(600) | {"Light": day * (450 + 60 * rng.standard_normal(600)), "people": day + rng.random(600)}
    roles = ROLES | {"agents": {"room": ["T", "CO2"], "desk": ["Light"]}}
    network = fit_report(data, **roles).network
    low, high = (edge[0] for edge in network.limits["desk"])
    light = data["Light"]
    assert credible_limits(light)[0] < low < 0 < light.max() < high
    assert stats.norm(light.mean(), light.std()).cdf(low) < 1e-6
    assert sum(float(np.sum(each.beyond)) for each in vn.design(network).sanitizers.values()) < 1e-3


# --- outliers are named


@pytest.mark.parametrize("column", ["T", "people"])
def test_a_single_outlier_is_named_as_what_it_is(column: str) -> None:
    clean, data = log(), log()
    data[column][16] = -9999.0
    made = fit_report(data, **ROLES)
    assert len(made.warnings) == 1
    assert f"{column} (1 row)" in made.warnings[0]
    assert f"Outlier in {column}: row 17, " in str(made.report)
    assert "few" not in made.warnings[0].lower()
    (found,) = made.report.outliers
    assert (found.column, found.row, found.kept) == (column, 17, False)
    others = np.delete(clean[column], 16)
    assert found.deviations == pytest.approx((9999 + np.median(others)) / np.std(others), rel=1e-6)
    without = fit_report({name: np.delete(values, 16) for name, values in clean.items()}, **ROLES)
    np.testing.assert_allclose(made.network.H, without.network.H, rtol=1e-12)
    kept = fit_report(data, **ROLES, limits=False)
    assert not np.allclose(kept.network.offset, without.network.offset, rtol=1e-3)


def test_a_credible_reading_far_from_what_parameters_explain_is_named_and_stays() -> None:
    data = log()
    data["T2"][99] = data["T2"][99] + 20 * 0.4
    made = fit_report(data, **ROLES)
    mine = [sentence for sentence in made.warnings if "Outliers" in sentence]
    assert len(mine) == 1
    assert "T2 (1 row)" in mine[0]
    assert not any("few" in sentence for sentence in made.warnings)
    (found,) = made.report.outliers
    assert (found.row, found.kept) == (100, True)
    assert 15 < found.deviations < 25
    assert made.report.rows == 400


def test_many_codes_are_one_sentence() -> None:
    data = log()
    data["T"][::20] = -9999.0
    made = fit_report(data, **ROLES)
    assert "T (20 rows)" in made.warnings[0]
    assert "Outlier in T: 20 rows, worst row 1, " in str(made.report)
    assert made.report.rows == 380
    assert len(made.warnings) == 1


def test_codes_within_the_limits_and_stuck_sensors_are_named() -> None:
    """Planted: 0 for no value among temperatures, a sensor stuck for a day; and honest ones, one coarse."""
    rng = np.random.default_rng(29)
    honest = np.round(20 + 3 * rng.standard_normal(3000), 2)
    coded, stuck, coarse = honest.copy(), honest.copy(), np.round(honest)
    coded[rng.uniform(size=3000) < 0.05] = 0.0
    stuck[1000:1144] = 19.5
    columns = np.column_stack([honest, coded, stuck, coarse])
    said = stays_at_one_value(columns, ["honest", "coded", "stuck", "coarse"], np.zeros(3000, np.intp))
    assert [sentence.split()[0] for sentence in said] == ["coded", "stuck"]
    assert f"is 0 in {np.sum(coded == 0)} rows:" in said[0]
    assert "is 19.5 in 144 rows in a row" in said[1]
