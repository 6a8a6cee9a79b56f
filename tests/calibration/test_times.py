"""Rows have a time: every way to write one, and what order, gaps and repeats do to a fit."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.calibration_table import write_csv
from veilnet import cli
from veilnet.calibration.fitting import fit_report
from veilnet.calibration.timeline import timeline
from veilnet.io.row_keys import as_seconds, looks_like_times

START = datetime(2015, 2, 4, 17, 51, tzinfo=UTC)
ROLES = {"agents": {"room": ["T", "RH"], "hall": ["T2"]}, "public": ["T_out"], "private": ["people"]}
OPTIONS = ["--agent", "room=T,RH", "--agent", "hall=T2", "--public", "T_out", "--private", "people"]


def slow_log(rows: int, rho: float, seed: int = 0) -> dict[str, np.ndarray]:
    """A log of a row a minute in which everything carries over from row to row at ``rho``."""
    steps = np.random.default_rng(seed).standard_normal((rows, 5)) * np.sqrt(1 - rho**2)
    states = steps / np.sqrt(1 - rho**2)
    for t in range(1, rows):
        states[t] = rho * states[t - 1] + steps[t]
    x, noise = states[:, :2], states[:, 2:]
    y = x @ np.array([[0.5, 1.0, 0.2], [1.0, -1.0, 0.5]]) + noise + [20.0, 50.0, 19.0]
    times = [f"{START + timedelta(minutes=t):%Y-%m-%d %H:%M:%S}" for t in range(rows)]
    named = dict(zip(["T_out", "people", "T", "RH", "T2"], np.column_stack([x, y]).T, strict=True))
    return {"date": np.array(times), **named}


def shuffled(data: dict[str, np.ndarray], seed: int = 1) -> dict[str, np.ndarray]:
    order = np.random.default_rng(seed).permutation(len(data["date"]))
    return {name: column[order] for name, column in data.items()}


# --- ways to write a time


@pytest.mark.parametrize(
    "written",
    [
        "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S+00:00",
        "%Y/%m/%d %H:%M:%S",
        "%d.%m.%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%d %b %Y %H:%M:%S",
    ],
)  # fmt: skip
def test_common_ways_to_write_a_time(written: str) -> None:
    moments = [START + timedelta(hours=7 * k) for k in range(60)]  # reaches the 13th and beyond
    found = as_seconds([f"{moment:{written}}" for moment in moments], "time")
    np.testing.assert_array_equal(found, [moment.timestamp() for moment in moments])


def test_numbers_dates_and_frames() -> None:
    moments = [START + timedelta(seconds=59 * k) for k in range(5)]
    expected = [moment.timestamp() for moment in moments]
    naive = [moment.replace(tzinfo=None) for moment in moments]
    abroad = [moment.astimezone(timezone(timedelta(hours=9))) for moment in moments]
    for values in (expected, [str(value) for value in expected], naive, abroad, np.array(naive, "M8[ns]")):
        np.testing.assert_array_equal(as_seconds(values, "time"), expected)
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for column in (pandas.Series(naive), pandas.Series(abroad), polars.Series(naive)):
        np.testing.assert_array_equal(as_seconds(column, "time"), expected)
    with_gaps = as_seconds(["2015-02-04 17:51", "", "NA", None], "time")
    np.testing.assert_array_equal(np.isnan(with_gaps), [False, True, True, True])
    assert np.isnan(as_seconds(np.array(["NaT", "2015-02-04"], "M8[s]"), "time")[0])


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["03/04/2015 10:00", "03/05/2015 10:00"], "day or the month first"),
        (["2015-02-04 10:00", "later"], "row 2: expected a time"),
        (["2015-02-04 10:00", "2015-02-04 10:01+01:00"], "some times have a zone"),
        ([1.0, np.inf], "row 2.*infinite"),
        (np.zeros((2, 2)), "one time per row"),
    ],
)
def test_times_that_cannot_be_read_are_refused(cells, words) -> None:
    with pytest.raises(vn.InvalidNetwork, match=words):
        as_seconds(cells, "time")


def test_what_looks_like_a_time() -> None:
    minutes = [f"2015-02-04 17:{k:02d}" for k in range(30)]
    assert looks_like_times("when it was", minutes)
    assert looks_like_times("date", ["03/04/2015", "03/05/2015"])
    assert looks_like_times("timestamp", list(map(str, np.arange(30.0))))
    assert looks_like_times("any", list(map(str, np.arange(30).astype("M8[m]"))))
    assert not looks_like_times("T1", list(map(str, np.arange(30.0))))
    assert not looks_like_times("room", ["hall", "kitchen"])
    assert not looks_like_times("date", ["2015-02-04"] * 30)


# --- order, gaps, repeats


def test_a_shuffled_log_does_not_look_like_independent_rows() -> None:
    """1404 rows that carry over at 0.963 are worth 26; in any other order they look like 1404."""
    data = slow_log(1404, 0.963)
    in_order = fit_report(data, **ROLES, time="date")
    assert 13 < in_order.report.effective_rows < 52
    mixed = shuffled(data)
    assert fit_report(mixed, **ROLES).report.effective_rows > 1000  # what nobody could tell without times
    sorted_again = fit_report(mixed, **ROLES, time="date")
    assert sorted_again.report.effective_rows == pytest.approx(in_order.report.effective_rows, rel=1e-9)
    assert sorted_again.report.readings[0].held_out == pytest.approx(
        in_order.report.readings[0].held_out, rel=1e-9
    )
    np.testing.assert_allclose(sorted_again.network.H, in_order.network.H, rtol=1e-9)
    assert sorted_again.report.time is not None
    assert sorted_again.report.time.out_of_order > 1300
    assert "out of order" in str(sorted_again.report)
    as_rows = fit_report(mixed, **ROLES, time="date", stream=False)
    assert any("autocorrelated" in sentence for sentence in as_rows.warnings)


def test_steps_gaps_and_repeats_are_found() -> None:
    data = slow_log(300, 0.5)
    kept = np.concatenate([np.arange(0, 100), np.arange(110, 200), np.arange(260, 300), [5, 6, 150]])
    data = {name: column[kept] for name, column in data.items()}
    data["T"][-1] += 1.0  # says something else about the same moment
    made = fit_report(shuffled(data), **ROLES, time="date")
    found = made.report.time
    assert found is not None
    assert (found.step, found.gaps, found.missing_rows, found.longest_gap) == (60.0, 2, 70, 61 * 60.0)
    assert (found.duplicates, found.differing) == (3, 1)
    assert made.report.rows == 230
    assert "2 gaps, the longest of 1.02 hours (70 rows missing)" in str(made.report)
    assert "3 repeated times left out, 1 of which differ" in str(made.report)


def test_rows_across_a_gap_are_no_neighbours() -> None:
    """Pairs of like rows, hours apart: neighbours correlate within a pair, and nothing does across."""
    rng = np.random.default_rng(3)
    seconds = np.repeat(np.arange(400) * 36_000.0, 2) + np.tile([0.0, 60.0], 400)
    pairs = np.repeat(rng.standard_normal((400, 3)), 2, axis=0) + 0.1 * rng.standard_normal((800, 3))
    x = rng.standard_normal((800, 2))
    data = {"t": seconds, "T_out": x[:, 0], "people": x[:, 1]}
    data |= dict(zip(["T", "RH", "T2"], (pairs + x @ np.ones((2, 3))).T, strict=True))
    with_time = fit_report(data, **ROLES, time="t").report
    assert with_time.readings[0].persistence > 0.9
    assert 0.3 < fit_report(data, **ROLES).report.readings[0].persistence < 0.7


def test_clocks_that_tremble_do_not_make_gaps() -> None:
    seconds = 60.0 * np.arange(100) + np.tile([0.0, -1.0, 0.0, 0.0], 25)
    found = timeline(seconds, np.zeros((100, 1)), "t").report
    assert (found.step, found.gaps, found.duplicates, found.out_of_order) == (60.0, 0, 0, 0)


# --- refusals and the command


def test_missing_times_and_wrong_columns(tmp_path: Path) -> None:
    data = slow_log(60, 0.5)
    data["date"][7] = ""
    with pytest.raises(vn.InvalidNetwork, match=r"1 of 60 rows have missing values.*'date'"):
        vn.fit(data, **ROLES, time="date")
    write_csv(tmp_path / "log.csv", data)
    with pytest.raises(vn.InvalidNetwork, match=r"log\.csv: 1 of 60 rows have missing values"):
        vn.fit(tmp_path / "log.csv", **ROLES, time="date")
    made = fit_report(data, **ROLES, time="date", missing="drop")
    assert made.report.time is not None
    assert (made.report.rows, made.report.time.gaps) == (59, 1)
    for time, words in (("T", "also a reading"), ("nix", "no column 'nix'"), (3, "name of a column")):
        with pytest.raises(vn.InvalidRequest, match=words):
            vn.fit(data, **ROLES, time=time)
    with pytest.raises(vn.InvalidNetwork, match="the same time"):
        vn.fit({**data, "date": np.array(["2015-02-04"] * 60)}, **ROLES, time="date")


def test_a_time_column_that_was_not_used_is_said_in_one_line() -> None:
    sentence = fit_report(slow_log(200, 0.0), **ROLES).warnings[0]
    assert sentence.startswith("The column 'date' looks like a time")
    assert "--time date" in sentence
    assert "\n" not in sentence
    without = {name: column for name, column in slow_log(200, 0.0).items() if name != "date"}
    assert fit_report(without, **ROLES).warnings == ()


def test_the_command_sorts_by_time(tmp_path: Path, capsys) -> None:
    data = shuffled(slow_log(300, 0.9))
    path = tmp_path / "log.csv"
    lines = [",".join(data), *(",".join(map(str, row)) for row in zip(*data.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    assert cli.run(["fit", str(path), *OPTIONS, "--time", "date"]) == 0
    shown = capsys.readouterr().out
    assert "By 'date': 2015-02-04 17:51 to 2015-02-04 22:50, a row every 1 minute" in shown
    assert cli.run(["fit", str(path), *OPTIONS]) == 0
    assert "looks like a time" in capsys.readouterr().out
    assert cli.run(["fit", str(path), *OPTIONS, "--time", "date", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"]["time"]["step"] == 60.0
