"""Data frames, series and labelled arrays wherever numbers are taken: names decide, never the order.

Oracle: the same numbers given as plain arrays, with the same seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr

import veilnet as vn
from helpers import calibration_table
from helpers.stream_plans import noisy_stream_plan, stream_network
from veilnet.adapters.frames import estimate_frame, fuse_frames, sanitize_frame
from veilnet.auditing.attack.held_out import read_samples

NAMES = ["T1", "RH1"]
ROWS = np.random.default_rng(4).normal(20.0, 2.0, (6, 2))


@pytest.fixture(scope="module")
def plan() -> vn.Plan:
    return vn.design(
        vn.Network(
            {"kitchen": [[1.0, 0.3, 0.8], [0.0, 1.0, 0.5]], "hall": [[0.9, 0.8, 0.1], [0.2, 0.1, 1.0]]},
            0.25,
            {"temperature": [1, 0, 0]},
            {"gait": [0, 1, 0]},
            vn.Prior(np.diag([4.0, 1.0, 1.0]), mean=[20.0, 0.0, 1.0]),
            reading_names={"kitchen": NAMES},
            offset=[20.0, 20.0, 20.0, 20.0],
        )
    )


def tables(rows: np.ndarray) -> dict[str, Any]:
    """The readings with their columns in another order, and one that is not asked for."""
    swapped = {"RH1": rows[:, 1], "note": np.arange(len(rows)), "T1": rows[:, 0]}
    structured = np.zeros(len(rows), dtype=[("RH1", float), ("T1", float)])
    structured["RH1"], structured["T1"] = rows[:, 1], rows[:, 0]
    return {
        "pandas": pd.DataFrame(swapped, index=pd.date_range("2026-01-01", periods=len(rows))),
        "nullable": pd.DataFrame(swapped).convert_dtypes(),
        "polars": pl.DataFrame(swapped),
        "mapping": swapped,
        "structured": structured,
        "xarray": xr.DataArray(rows[:, ::-1], dims=("time", "reading"), coords={"reading": ["RH1", "T1"]}),
    }


@pytest.mark.parametrize("kind", tables(ROWS))
def test_an_agent_takes_its_readings_by_name(plan: vn.Plan, kind: str) -> None:
    sanitizer = plan.sanitizers["kitchen"]
    sent = sanitizer.sanitize(tables(ROWS)[kind], rng=3)
    assert np.array_equal(np.asarray(sent), np.asarray(sanitizer.sanitize(ROWS, rng=3)))


def test_one_row_by_name(plan: vn.Plan) -> None:
    sanitizer = plan.sanitizers["kitchen"]
    expected = np.asarray(sanitizer.sanitize(ROWS[0], rng=3))
    for row in (pd.DataFrame(tables(ROWS)["mapping"]).iloc[0], {"RH1": ROWS[0, 1], "T1": ROWS[0, 0]}):
        assert np.array_equal(np.asarray(sanitizer.sanitize(row, rng=3)), expected)


def test_a_stream_takes_its_readings_by_name() -> None:
    stream = noisy_stream_plan(stream_network(4, reading_names={"a0": NAMES})).sanitizers["a0"]
    by_name = stream.stream(rng=1).sanitize(tables(ROWS)["polars"])
    assert np.array_equal(np.asarray(by_name), np.asarray(stream.stream(rng=1).sanitize(ROWS)))


def test_wrong_names_send_nothing(plan: vn.Plan) -> None:
    sanitizer = plan.sanitizers["kitchen"]
    for table in (pd.DataFrame(ROWS, columns=["T1", "RH2"]), pl.DataFrame(ROWS, schema=["T1", "RH2"])):
        with pytest.raises(
            vn.InvalidReading, match=r"kitchen: readings \(nothing was sent\): no column 'RH1'"
        ):
            sanitizer.sanitize(table)
    with pytest.raises(vn.InvalidReading, match="two columns 'T1'"):
        sanitizer.sanitize(pd.DataFrame(np.ones((2, 3)), columns=["T1", "T1", "RH1"]))
    with pytest.raises(vn.InvalidReading, match="columns of one length"):
        sanitizer.sanitize({"T1": [1.0, 2.0], "RH1": [1.0]})
    with pytest.raises(vn.InvalidReading, match="knows no names of its readings"):
        plan.sanitizers["hall"].sanitize({"T1": 1.0, "RH1": 2.0})
    gap = pd.DataFrame({"T1": pd.array([1.0, None], dtype="Float64"), "RH1": [1.0, 2.0]})
    with pytest.raises(vn.InvalidReading, match="row 1: reading 'T1' is missing"):
        sanitizer.sanitize(gap)
    with pytest.raises(vn.InvalidReading, match="expected real numbers"):
        sanitizer.sanitize(pd.DataFrame({"T1": ["21,5"], "RH1": ["x"]}))


@pytest.mark.parametrize("dtype", [float, int])
def test_what_a_mask_hides_is_not_sent(plan: vn.Plan, dtype: type) -> None:
    hidden = np.ma.MaskedArray(ROWS[:, 0].astype(dtype), mask=[False, True] + [False] * 4)
    structured = np.ma.zeros(len(ROWS), dtype=[("RH1", float), ("T1", dtype)])
    structured["T1"], structured["RH1"] = hidden, ROWS[:, 1]
    for readings in ({"T1": hidden, "RH1": ROWS[:, 1]}, structured, structured[1]):
        with pytest.raises(vn.InvalidReading, match="nothing was sent"):
            plan.sanitizers["kitchen"].sanitize(readings)


def test_columns_that_are_only_counted_go_by_their_order(plan: vn.Plan) -> None:
    for agent in ("kitchen", "hall"):
        sanitizer = plan.sanitizers[agent]
        sent = sanitizer.sanitize(pd.DataFrame(ROWS), rng=3)
        assert np.array_equal(np.asarray(sent), np.asarray(sanitizer.sanitize(ROWS, rng=3)))


def messages(plan: vn.Plan, kind: str) -> dict[str, Any]:
    table = tables(ROWS)[kind]
    hall = pd.DataFrame(ROWS, index=getattr(table, "index", None)) if kind == "pandas" else pl.DataFrame(ROWS)
    return {
        "kitchen": sanitize_frame(plan.sanitizers["kitchen"], table, rng=1),
        "hall": sanitize_frame(plan.sanitizers["hall"], hall, rng=2),
    }


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_go_in_and_frames_come_out(plan: vn.Plan, kind: str) -> None:
    sent = messages(plan, kind)
    assert type(sent["kitchen"]).__module__.startswith(kind)
    sizes = plan.sent
    assert list(sent["kitchen"].columns) == [*(f"z{k + 1}" for k in range(sizes["kitchen"])), "private"]
    arrays = {
        agent: np.asarray(plan.sanitizers[agent].sanitize(ROWS, rng=rng))
        for agent, rng in (("kitchen", 1), ("hall", 2))
    }
    expected = vn.Fusion(plan).estimate(arrays)
    assert np.array_equal(vn.Fusion(plan).estimate(sent).public, expected.public)
    found = fuse_frames(vn.Fusion(plan), sent)
    assert list(found.columns) == ["temperature", "deviation of temperature", "missing", "contradicting"]
    assert np.array_equal(np.asarray(found["temperature"]), expected.public[:, 0])
    assert np.allclose(np.asarray(found["deviation of temperature"]), expected.deviation[:, 0])
    if kind == "pandas":
        assert found.index.equals(sent["kitchen"].index)


def test_secure_noise_has_no_mark(plan: vn.Plan) -> None:
    sent = sanitize_frame(plan.sanitizers["kitchen"], tables(ROWS)["polars"])
    assert sent.columns == [f"z{k + 1}" for k in range(plan.sent["kitchen"])]


def test_side_by_side_columns_bear_the_agents_names(plan: vn.Plan) -> None:
    fusion = vn.Fusion(plan)
    stacked = np.random.default_rng(2).normal(size=(3, sum(plan.sent.values())))
    names = [f"{agent}_{k + 1}" for agent, size in plan.sent.items() for k in range(size)]
    frame = pd.DataFrame(stacked, columns=names)[names[::-1]]
    assert np.array_equal(fusion.estimate(frame).public, fusion.estimate(stacked).public)
    with pytest.raises(vn.InvalidReading, match="no column 'kitchen_1'"):
        fusion.estimate(frame.rename(columns={"kitchen_1": "kitchen"}))


def test_gaps_and_single_rows_in_frames(plan: vn.Plan) -> None:
    sent = messages(plan, "pandas")
    sent["hall"] = sent["hall"].iloc[:4].reindex(sent["kitchen"].index)
    found = fuse_frames(vn.Fusion(plan), sent)
    assert found["missing"].tolist() == ["", "", "", "", "hall", "hall"]
    one = vn.Fusion(plan).estimate({"kitchen": np.zeros(plan.sent["kitchen"])})
    assert estimate_frame(one, "polars")["missing"].to_list() == ["hall"]


def test_frames_that_do_not_fit_are_refused(plan: vn.Plan) -> None:
    fusion, sent = vn.Fusion(plan), messages(plan, "pandas")
    with pytest.raises(vn.InvalidReading, match="index of 'hall' differs from that of 'kitchen'"):
        fuse_frames(fusion, sent | {"hall": sent["hall"].reset_index(drop=True)})
    with pytest.raises(vn.InvalidRequest, match="found pandas and polars"):
        fuse_frames(fusion, sent | {"hall": messages(plan, "polars")["hall"]})
    with pytest.raises(vn.InvalidReading, match=r"messages\['hall'\]: no column 'z1'"):
        fusion.estimate(sent | {"hall": pd.DataFrame(ROWS, columns=NAMES)})
    with pytest.raises(vn.InvalidRequest, match="expected a pandas or polars frame, found ndarray"):
        sanitize_frame(plan.sanitizers["kitchen"], ROWS)
    with pytest.raises(vn.InvalidRequest, match="expected agent -> frame"):
        fuse_frames(fusion, {})
    with pytest.raises(vn.InvalidRequest, match="expected 'pandas' or 'polars'"):
        estimate_frame(fusion.estimate(sent), "arrow")  # type: ignore[arg-type]


MADE_OF = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "xarray": lambda columns: xr.Dataset({name: ("row", values) for name, values in columns.items()}),
}


@pytest.mark.parametrize("kind", MADE_OF)
def test_fit_and_audit_take_every_table(kind: str) -> None:
    table = calibration_table.table(400)
    network = vn.fit(MADE_OF[kind](table), **calibration_table.ROLES)
    assert np.array_equal(network.H, vn.fit(table, **calibration_table.ROLES).H)
    new = calibration_table.table(120, seed=1)
    agents = calibration_table.AGENTS
    raw = {agent: vn.Sanitizer.raw(len(names), agent=agent) for agent, names in agents.items()}
    named = {agent: sanitizer.for_agent(agent, network) for agent, sanitizer in raw.items()}
    expected = read_samples(network, named, new)
    found = read_samples(network, named, MADE_OF[kind](new))
    assert np.array_equal(found.readings, expected.readings)
    assert np.array_equal(found.private["people"], expected.private["people"])


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_an_audit_takes_a_frame_of_each_agent(plan: vn.Plan, kind: str) -> None:
    rows = np.random.default_rng(1).normal(size=(120, 2))
    hall = MADE_OF[kind](dict(zip("ab", rows.T, strict=True)))
    data: dict[str, Any] = {"kitchen": tables(rows)[kind], "hall": hall, "x": np.zeros((120, 3))}
    found = read_samples(plan.network, {}, data)
    assert np.array_equal(found.readings, np.concatenate([rows, rows], axis=1))
    with pytest.raises(vn.InvalidRequest, match=r"data\['kitchen'\]: no column 'T1'"):
        read_samples(plan.network, {}, data | {"kitchen": hall})
