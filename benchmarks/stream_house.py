"""A house as large as a real one, as a stream: what every command takes, and what the gate costs on honest rows.

    OMP_NUM_THREADS=1 python benchmarks/stream_house.py [--only commands,filter,gate] [--quick] [--office FOLDER]

Nine rooms read temperature and humidity every ten minutes, 20,000 rows; the temperature outside may be known, the
power of appliances and lights must not. The first 13,800 rows are fitted, the others are later. The log is simulated
by :func:`house_log` from a seed and is not of the model that is fitted: walls store heat, people cook in bursts, the
sun comes out on the sensor behind the house and stays for an hour or two, fronts come through, showers steam, sensors
drift. Processor seconds of this process; the ratios to a bare stationary Kalman filter are of one run. ``--quick``
takes 6,000 rows; FOLDER holds training.csv and test2.csv of the office (``examples/office.py`` says where to get it).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

import veilnet as vn

sys.path.insert(0, str(Path(__file__).resolve().parent))

from streams import timed
from timing import compare
from veilnet.centre.streams.gains import Gains
from veilnet.io.tables import read_columns

ROWS, FITTED, QUICK = 20_000, 13_800, 6_000
ROOMS = 9
AGENTS = {f"room{k}": [f"T{k}", f"RH{k}"] for k in range(1, ROOMS + 1)}
PUBLIC, PRIVATE = ["T_out"], ["appliances", "lights"]
OFFICE = {"climate": ["Temperature", "Humidity"], "desk": ["Light", "CO2"]}
STEP = 600  # seconds
START = np.datetime64("2026-01-11T17:00:00")
GATE = 1e-6

Columns = dict[str, np.ndarray]


def house_log(seed: int = 1, rows: int = ROWS) -> Columns:
    """Columns T_out, appliances, lights, T1, RH1, .. T9, RH9 of a simulated house."""
    rng = np.random.default_rng(seed)
    hours = np.arange(rows) * STEP / 3600
    day = np.sin(2 * np.pi * (hours - 9) / 24)
    evening = np.maximum(np.sin(2 * np.pi * (hours - 14) / 24), 0.0)
    fronts = lfilter([1], [1, -0.99], 3 * rng.normal(size=rows) * (rng.random(rows) < 1 / 150))
    season = 6 * np.sin(2 * np.pi * hours / (24 * 300))
    outside = 5 + season + 3 * day + 3 * _slow(rng, rows, 0.997) + 0.15 * _slow(rng, rows, 0.5) + fronts
    appliances = 60 + 60 * np.exp(0.8 * _slow(rng, rows, 0.8) + 0.9 * evening)
    lights = np.maximum(0.0, 12 * evening + 8 * _slow(rng, rows, 0.9))
    moist = 6 + 0.25 * outside + 1.2 * _slow(rng, rows, 0.995)
    columns = {"T_out": outside, "appliances": appliances, "lights": lights}
    for room in range(1, ROOMS + 1):
        if room == 6:  # behind the house
            warm = outside + _spells(rng, rows, 150, 9, 1.0) * (day > 0) + 0.5 * _slow(rng, rows, 0.95)
        else:
            walls, near, heated, lit = rng.uniform([0.02, 0.1, 0, 0], [0.3, 0.5, 0.016, 0.03])
            warm = 20 + near * _stored(outside - 5, walls) + heated * _stored(appliances - 130, 0.2)
            warm += lit * lights + 0.8 * _slow(rng, rows, 0.995) + rng.uniform(0, 0.3) * np.maximum(day, 0.0)
        damp, cooked = rng.uniform([1.2, 0], [2.5, 0.01])
        humid = 45 + damp * moist - 1.2 * (warm - 20) + cooked * _stored(appliances - 130, 0.5)
        humid += 1.5 * _slow(rng, rows, 0.97) + _spells(rng, rows, 90, 3, 12.0) * (room == 5)
        drift = rng.normal(scale=0.2) * np.linspace(-0.5, 1.5, rows)
        columns[f"T{room}"] = np.round(warm + drift + rng.normal(scale=0.03, size=rows), 2)
        columns[f"RH{room}"] = np.round(humid + rng.normal(scale=0.1, size=rows), 2)
    return columns


def _slow(rng: np.random.Generator, rows: int, memory: float) -> np.ndarray:
    """An autoregression of unit variance."""
    return lfilter([np.sqrt(1 - memory**2)], [1, -memory], rng.standard_normal(rows))


def _stored(driving: np.ndarray, rate: float) -> np.ndarray:
    """What a store of heat makes of what drives it."""
    return lfilter([rate], [1, rate - 1], driving)


def _spells(rng: np.random.Generator, rows: int, apart: float, lasting: float, size: float) -> np.ndarray:
    """What comes suddenly, every so many rows, stays for some and is gone; sizes differ from spell to spell."""
    found, row = np.zeros(rows), 0
    while (row := row + 1 + int(rng.exponential(apart))) < rows:
        end = row + 1 + int(rng.exponential(lasting))
        found[row:end], row = size * rng.gamma(2.0, 0.5), end
    return found


def write_log(path: Path, columns: Columns, rows: slice) -> None:
    """These rows as CSV, a column ``date`` first."""
    times = np.datetime_as_string(START + np.arange(len(columns["T_out"])) * np.timedelta64(STEP, "s"))[rows]
    cells = zip(times.tolist(), *(each[rows].tolist() for each in columns.values()), strict=True)
    with path.open("w", encoding="utf-8") as out:
        out.write(",".join(["date", *columns]) + "\n")
        out.writelines(f"{when.replace('T', ' ')},{','.join(map(repr, row))}\n" for when, *row in cells)


def commands(folder: Path, log: Columns, fitted: int) -> None:
    """Every command from file to file."""
    write_log(folder / "fit.csv", log, slice(fitted))
    write_log(folder / "later.csv", log, slice(fitted, None))
    later = len(log["T_out"]) - fitted
    named = [f"--agent={agent}={','.join(names)}" for agent, names in AGENTS.items()]
    roles = [f"--public={name}" for name in PUBLIC] + [f"--private={name}" for name in PRIVATE]
    network, plan = folder / "house.toml", folder / "plan"
    _say("fit", ["fit", folder / "fit.csv", "--time", "date", *named, *roles, "--out", network])
    _say("design_privacy", ["design", network, "--privacy", "0.46", "--out", folder / "other"])
    _say("design_loss", ["design", network, "--utility-loss", "0.05", "--out", plan])
    _say("report", ["report", plan, "--out", folder / "report.html"])
    rng = np.random.default_rng(3)
    files, gaps = {}, {}
    for agent in AGENTS:
        files[agent], gaps[agent] = folder / f"{agent}.csv", folder / f"{agent}.gaps.csv"
        read = ["--in", folder / "later.csv", "--time", "date", "--out", files[agent], "--seed", 1]
        timed("sanitize", plan / f"{agent}.json", *read)
        header, *lines = files[agent].read_text(encoding="utf-8").splitlines(keepends=True)
        there = rng.random(len(lines)) < 0.9
        gaps[agent].write_text(
            header + "".join(line for line, kept in zip(lines, there, strict=True) if kept), encoding="utf-8"
        )
    for name, sent, more in (
        ("fuse_gated", files, []),
        ("fuse_kept", files, ["--keep"]),
        ("fuse_gaps", gaps, []),
    ):
        of = [f"{agent}={path}" for agent, path in sent.items()]
        spent = _say(name, ["fuse", plan / "center.json", *of, "--out", folder / "estimates.csv", *more])
        print(f"figure {name}_rows: {later / spent:.0f}", flush=True)


def _say(name: str, arguments: list[object]) -> float:
    # On a log that is not of the model fuse leaves messages out, says so, and ends with 1.
    spent = timed(*arguments, codes=(0, 1) if arguments[0] == "fuse" else (0,))[1]
    print(f"figure {name}: {spent:.1f}", flush=True)
    return spent


def bare_filter(log: Columns, fitted: int) -> None:
    """The centre's filter as a ratio to the recursion x = F x + G z with gains known, the same state and messages."""
    fusion, messages, _ = _fused(
        fitted_plan(log, AGENTS, PUBLIC, PRIVATE, fitted), log, AGENTS, PUBLIC, fitted
    )
    gated = vn.Fusion(fusion.model, gate=GATE)
    stacked = fusion.stacked(messages)
    fusion.estimate(stacked)
    steady = Gains(fusion.model).steady(fusion.model.everybody).step
    A, G, U = steady.forward, steady.gain, fusion.model.public

    def bare() -> object:
        x, u = np.zeros(len(A)), np.empty((len(stacked), len(U)))
        for t, z in enumerate(stacked):
            x = A @ x + G @ z
            u[t] = U @ x
        return u

    gaps = stacked.copy()
    lost = np.random.default_rng(2).random((len(gaps), len(AGENTS))) < 0.1
    gaps[np.repeat(lost, fusion.model.blocks.sizes, axis=1)] = np.nan
    print(f"state of {len(A)} numbers, {stacked.shape[1]} sent, {len(stacked)} rows")
    for name, work in (
        ("complete", lambda: fusion.estimate(stacked)),
        ("complete_gated", lambda: gated.estimate(stacked)),
        ("gaps", lambda: fusion.estimate(gaps)),
        ("gaps_gated", lambda: gated.estimate(gaps)),
    ):
        print(f"figure {name}: {compare(work, bare, turns=3).ratio:.2f}", flush=True)


def fitted_plan(
    log: Columns, agents: Mapping[str, list[str]], public: list[str], private: list[str], rows: int
) -> vn.Plan:
    """The free plan of the first rows of a log."""
    table = {name: each[:rows] for name, each in log.items()}
    table.setdefault("date", np.arange(rows) * float(STEP))
    return vn.design(vn.fit(table, agents, public, private, time="date", stream=True))


def _fused(
    plan: vn.Plan, log: Columns, agents: Mapping[str, list[str]], public: list[str], since: int
) -> tuple[vn.Fusion, dict[str, np.ndarray], np.ndarray]:
    """A centre without a gate, the messages of the rows since then, and the truth."""
    messages = {}
    for place, (agent, names) in enumerate(agents.items()):
        filtering = plan.sanitizers[agent].stream(rng=np.random.default_rng([3, place]))
        messages[agent] = np.asarray(
            filtering.sanitize(np.column_stack([log[name][since:] for name in names]))
        )
    return vn.Fusion(plan), messages, np.column_stack([log[name][since:] for name in public])


def gate(
    name: str, plan: vn.Plan, log: Columns, agents: Mapping[str, list[str]], public: list[str], since: int
) -> None:
    """What gating costs on honest rows."""
    plain, messages, truth = _fused(plan, log, agents, public, since)
    gated = vn.Fusion(plan, gate=GATE).estimate(messages)
    kept = vn.Fusion(plan, gate=GATE, keep=True).estimate(messages)
    error = [
        float(np.sqrt(np.mean((each.public - truth) ** 2))) for each in (plain.estimate(messages), gated)
    ]
    left_out = Counter(doubt.agent for doubt in gated.contradictions if not getattr(doubt, "sudden", False))
    sudden = len(gated.contradictions) - left_out.total()
    print(
        f"gate, {name}: RMSE {error[0]:.4g} without, {error[1]:.4g} with it "
        f"({100 * (error[1] / error[0] - 1):+.1f} %); "
        f"left out {dict(left_out)}, used after a sudden change {sudden}, contradicting if all are kept "
        f"{len(kept.contradictions)}",
        flush=True,
    )


def gates(rows: int, fitted: int, seeds: int, office: Path | None) -> None:
    """Houses of several seeds, and the office."""
    for seed in range(1, 1 + seeds):
        log = house_log(seed, rows)
        plan = fitted_plan(log, AGENTS, PUBLIC, PRIVATE, fitted)
        gate(f"house {seed}", plan, log, AGENTS, PUBLIC, fitted)
    if office is not None:
        names = [*(name for each in OFFICE.values() for name in each), "HumidityRatio", "Occupancy"]
        first, later = (
            read_columns(office / f"{part}.csv", names, time="date") for part in ("training", "test2")
        )
        plan = fitted_plan(first, OFFICE, ["HumidityRatio"], ["Occupancy"], len(first["date"]))
        gate("office", plan, later, OFFICE, ["HumidityRatio"], 0)


def main() -> int:
    """Print every figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="commands,filter,gate")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--office", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", vn.DoubtfulModel)
    rows, fitted = (QUICK, 2 * QUICK // 3) if asked.quick else (ROWS, FITTED)
    parts: dict[str, Callable[[], None]] = {
        "filter": lambda: bare_filter(house_log(1, rows), fitted),
        "gate": lambda: gates(rows, fitted, 2 if asked.quick else 4, asked.office),
    }
    with tempfile.TemporaryDirectory() as name:
        parts["commands"] = lambda: commands(Path(name), house_log(1, rows), fitted)
        for part in asked.only.split(","):
            parts[part]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
