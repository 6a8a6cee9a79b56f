"""Rows of one group resemble each other: only whole groups count as independent, however rows are shuffled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from veilnet.calibration.fitting import fit_report
from veilnet.calibration.shrinkage import worth_of_groups
from veilnet.calibration.stretches import blocks_of
from veilnet.cli import run

pytestmark = pytest.mark.filterwarnings("ignore::veilnet.calibration.fitting.DoubtfulModel")

Array = np.ndarray[Any, np.dtype[np.float64]]
AGENTS = {"wrist": ["a", "b"], "chest": ["c", "d"]}
ROWS = 2639


def log(seed: int = 29, people: int = 6, own: float = 1.0) -> dict[str, Array]:
    """Six people; readings of each are off by something of their own, as large as ``own`` times the noise."""
    rng = np.random.default_rng(seed)
    person = np.arange(ROWS) * people // ROWS
    x = rng.standard_normal((ROWS, 2))
    shows = np.array([[1.0, 0.3], [0.2, 1.0], [0.7, -0.4], [-0.3, 0.8]])
    offsets = own * rng.standard_normal((people, 4))
    readings = x @ shows.T + rng.standard_normal((ROWS, 4)) + offsets[person]
    names = [name for named in AGENTS.values() for name in named]
    return {"u": x[:, 0], "g": x[:, 1], "person": person.astype(float)} | dict(
        zip(names, readings.T, strict=True)
    )


def shuffled(table: dict[str, Array], seed: int = 1) -> dict[str, Array]:
    order = np.random.default_rng(seed).permutation(ROWS)
    return {name: each[order] for name, each in table.items()}


def test_interleaving_by_hand_does_not_make_rows_independent() -> None:
    blind = fit_report(shuffled(log()), AGENTS, ["u"], ["g"])
    assert blind.report.effective_rows > ROWS / 2  # nothing in shuffled rows tells
    for table in (log(), shuffled(log())):
        report = fit_report(table, AGENTS, ["u"], ["g"], group="person").report
        assert report.groups == 6
        assert report.effective_rows < 20
        assert report.folds == 5
        of_groups, of_rows = (each.promises["g"].interval for each in (report, blind.report))
        assert of_groups is not None
        assert of_rows is not None
        assert np.log1p(of_groups.high) - np.log1p(of_groups.low) > np.log1p(of_rows.high) - np.log1p(
            of_rows.low
        )


def test_the_order_of_rows_does_not_count() -> None:
    one, other = (fit_report(each, AGENTS, ["u"], ["g"], group="person") for each in (log(), shuffled(log())))
    assert np.allclose(one.network.H, other.network.H)
    assert one.report.effective_rows == pytest.approx(other.report.effective_rows)
    assert one.network.held_out["u"].beyond == pytest.approx(other.network.held_out["u"].beyond)


def test_what_is_stated_covers_people_who_were_not_calibrated() -> None:
    """Forty people to fit, forty others later; the oracle is their truth."""
    fit, later = log(3, people=40), log(4, people=40)
    network = vn.fit(fit, AGENTS, ["u"], ["g"], group="person")
    plan = vn.design(network)
    sent = {
        agent: plan.sanitizers[agent].sanitize(np.column_stack([later[name] for name in names]))
        for agent, names in AGENTS.items()
    }
    found = vn.Fusion(plan).estimate(sent)
    errors = found.public[:, 0] - later["u"]
    assert np.mean(np.abs(errors) < 1.96 * found.deviation[:, 0]) > 0.93
    assert found.deviation[0, 0] < 3 * np.sqrt(
        np.mean(errors**2)
    )  # normal offsets of people are covered generously


def test_rows_are_worth_what_the_analysis_of_variance_says() -> None:
    """Oracles: the variance of a mean of groups, planted; groups of one row each; rows that share nothing."""
    rng = np.random.default_rng(5)
    groups = np.repeat(np.arange(200), 25)
    shared = rng.standard_normal((200, 1))[groups] + rng.standard_normal((5000, 1))
    assert worth_of_groups(shared, groups)[0] == pytest.approx(5000 / (1 + 24 * 0.5), rel=0.15)
    assert worth_of_groups(rng.standard_normal((5000, 1)), groups)[0] > 3000
    assert worth_of_groups(shared, np.arange(5000))[0] == 5000


def test_no_group_is_cut_and_blocks_are_even() -> None:
    groups = np.random.default_rng(6).integers(0, 30, 1000)
    blocks = blocks_of(1000, 5, groups=groups)
    assert sorted(np.concatenate(blocks).tolist()) == list(range(1000))
    assert all(
        len({k for k, block in enumerate(blocks) if np.any(groups[block] == each)}) == 1 for each in range(30)
    )
    assert max(map(len, blocks)) < 1.3 * min(map(len, blocks))
    assert len(blocks_of(1000, 50, groups=groups)) == 30


def test_nothing_carries_over_from_group_to_group() -> None:
    """Two people whose clocks read the same times, each with a stream of its own: no time is a repetition."""
    rng = np.random.default_rng(7)
    table: dict[str, list[Any]] = {name: [] for name in ("u", "g", "a", "b", "c", "d", "person", "date")}
    for person in range(2):
        part = log(8 + person, people=1)
        for name in ("u", "g", "a", "b", "c", "d"):
            table[name] += np.cumsum(part[name][:600] - 0.02 * np.cumsum(part[name][:600]) / 50).tolist()
        table["person"] += [f"p{person}"] * 600
        table["date"] += (60.0 * np.arange(600)).tolist()
    order = rng.permutation(1200)
    mixed = {name: [each[k] for k in order] for name, each in table.items()}
    report = fit_report(mixed, AGENTS, ["u"], ["g"], time="date", group="person", limits=False).report
    assert report.time is not None
    assert (report.time.duplicates, report.time.gaps, report.time.step) == (0, 0, 60.0)
    assert fit_report(mixed, AGENTS, ["u"], ["g"], time="date", limits=False).report.time.duplicates == 600  # type: ignore[union-attr]


def test_a_promise_is_stated_for_a_row_and_for_a_whole_group() -> None:
    report = fit_report(log(), AGENTS, ["u"], ["g"], group="person").report
    once, often = report.over_groups["g"]
    assert often < once / 5  # some 440 rows of a constant x
    assert "6 groups" in str(report)
    assert f"±{once:.2g}" in str(report)


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ("nobody", "group: .*nobody"),
        ("a", "group: .*also a reading"),
        ("u", "group: .*a parameter"),
        ("g", "group: .*a parameter"),
    ],
)
def test_a_column_that_is_no_group_is_refused(group: str, words: str) -> None:
    with pytest.raises(vn.VeilnetError, match=words):
        fit_report(log(), AGENTS, ["u"], ["g"], group=group)


def test_the_command_takes_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = shuffled(log())
    names = list(table)
    lines = [",".join(names), *(",".join(f"{table[n][k]:.4f}" for n in names) for k in range(ROWS))]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    agents = ["--agent", "wrist=a,b", "--agent", "chest=c,d"]
    done = run(
        ["fit", str(tmp_path / "log.csv"), *agents, "--public", "u", "--private", "g", "--group", "person"]
    )
    assert done == 0
    assert "6 groups" in capsys.readouterr().out
