"""The paper's section VII repeated: draws as printed, runs that resume to the same bytes."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pytest
from scipy.linalg import block_diag, null_space

import veilnet as vn
from helpers.tiny_paper import TINY
from veilnet._core.errors import MissingExtra, VeilnetError
from veilnet.cli import run
from veilnet.paper import Settings, measure_draw, reproduce, runs
from veilnet.paper.claims import _CLAIMS, claims_of
from veilnet.paper.figures import FIGURES
from veilnet.paper.settings import draw, network_of
from veilnet.paper.tables import csv_lines, read_table

pytestmark = pytest.mark.slow


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run on one process."""
    folder = tmp_path_factory.mktemp("whole")
    assert reproduce(settings=TINY, out=folder, jobs=1).measured == TINY.draws
    return folder


# --- the draws


def test_settings_are_the_printed_ones() -> None:
    settings = Settings()
    assert (settings.draws, settings.readings, settings.parameters, settings.private_rows) == (100, 72, 12, 3)
    assert settings.tradeoff_agents == (9, 12, 18)
    assert settings.sweep_threshold == 10.0
    assert all(settings.readings % count == 0 for count in settings.agents)
    drawn = [draw(settings, number) for number in range(20)]
    for pick in ("observe", "public", "private"):
        entries = np.concatenate([getattr(each, pick).ravel() for each in drawn])
        assert np.abs(entries).max() <= 0.5
        assert np.var(entries) == pytest.approx(1 / 12, rel=0.1)  # of the uniform law on ±0.5
    # E[AA'] = n·var·I: 72/12 for the noise, 12·(20²/12) for the prior.
    noise = np.mean([np.trace(each.noise) / 72 for each in drawn])
    prior = np.mean([np.trace(each.prior_covariance) / 12 for each in drawn])
    assert noise == pytest.approx(6.0, rel=0.05)
    assert prior == pytest.approx(400.0, rel=0.1)
    assert drawn[0].private.shape == (3, 12)
    assert all(np.linalg.eigvalsh(each.noise)[0] > 0 for each in drawn)


def test_a_draw_depends_on_its_seed_and_number_alone() -> None:
    one, other = draw(Settings(draws=1), 7), draw(Settings(draws=50, thresholds=(3.0,)), 7)
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    assert not np.array_equal(one.observe, draw(Settings(), 8).observe)
    assert not np.array_equal(one.observe, draw(Settings(seed=1), 7).observe)


def test_one_draw_serves_every_number_of_agents() -> None:
    drawn = draw(Settings(), 0)
    for agents in (1, 9, 24):
        network = network_of(drawn, agents, 2, prior=False)
        assert agents == network.S
        assert network.N == 72
        np.testing.assert_array_equal(network.H, drawn.observe)
        np.testing.assert_array_equal(network.U, drawn.public[:2])


@pytest.mark.parametrize(("name", "prior"), [("fig1", False), ("fig2", True)])
def test_ceilings_are_the_limit_of_growing_noise(name: str, prior: bool) -> None:
    """An independent way: Θ = t·BB' in the definition of P̃, dense, t large."""
    settings = Settings(agents=(6, 18), public_rows=(2, 3))
    table = read_table(
        ",".join(FIGURES[name].columns) + "\n" + csv_lines(FIGURES[name].measure(settings, 5)),
        FIGURES[name].columns,
    )
    drawn = draw(settings, 5)
    known = np.linalg.inv(drawn.prior_covariance) if prior else np.zeros((12, 12))
    for agents in (6, 18):
        for rows in (2, 3):
            raw = np.linalg.inv(known + drawn.observe.T @ np.linalg.solve(drawn.noise, drawn.observe))
            gain = raw @ np.linalg.solve(drawn.noise, drawn.observe).T
            shares = np.split(drawn.public[:rows] @ gain, agents, axis=1)
            free = block_diag(*[null_space(share) @ null_space(share).T for share in shares])
            noisy = drawn.noise + 1e7 * free
            after = np.linalg.inv(known + drawn.observe.T @ np.linalg.solve(noisy, drawn.observe))
            errors = [np.trace(drawn.private @ p @ drawn.private.T) for p in (after, raw)]
            cell = table.where(agents=agents, public_rows=rows)
            assert cell["ceiling"][0] == pytest.approx(errors[0] / errors[1] - 1, rel=1e-3)
            assert cell["free_directions"][0] == 72 - agents * rows
    limit = np.trace(drawn.private @ drawn.prior_covariance @ drawn.private.T)
    raw_error = np.trace(drawn.private @ raw @ drawn.private.T)
    expected = limit / raw_error - 1 if prior else np.inf
    np.testing.assert_allclose(table["limit"], expected, rtol=1e-8)


def test_figures_3_and_4_agree_with_the_public_design() -> None:
    """Rows of one tiny draw against vn.design, which certifies its plans."""
    settings = TINY
    rows = {
        name: read_table(
            ",".join(FIGURES[name].columns) + "\n" + measure_draw(settings, 1, [name])[1][name],
            FIGURES[name].columns,
        )
        for name in ("fig3", "fig4")
    }
    for agents in settings.tradeoff_agents:
        network = network_of(draw(settings, 1), agents, settings.tradeoff_public_rows, prior=True)
        ceiling = vn.check(network).ceiling["g"]
        for threshold in settings.thresholds:
            cell = rows["fig3"].where(agents=agents, threshold=threshold, at_ceiling=0)
            assert cell["ceiling"][0] == pytest.approx(ceiling, rel=1e-9)
            alternating = vn.design(network, privacy=threshold, method="alternating", sweeps=3)
            assert cell["alternating_loss"][0] == pytest.approx(-alternating.utility, rel=1e-5, abs=1e-9)
            best = -vn.design(network, privacy=threshold).utility
            assert cell["joint_loss"][0] >= best * (1 - 1e-3) - 1e-12
            assert cell["joint_loss"][0] <= cell["alternating_loss"][0] * (1 + 1e-6) + 1e-12
        sweeps = rows["fig4"].where(agents=agents)
        plan = vn.design(network, privacy=settings.sweep_threshold, method="alternating", sweeps=4)
        expected = [-sweep["utility"] for sweep in plan.details["sweeps"]]
        kept = sweeps["alternating_loss"][~np.isnan(sweeps["alternating_loss"])]
        np.testing.assert_allclose(kept, expected, rtol=1e-5, atol=1e-9)


# --- the runs


def test_what_a_run_writes(whole: Path) -> None:
    names = {f"fig{k}.{kind}" for k in range(1, 5) for kind in ("csv", "svg", "png")}
    assert set(files(whole)) == names | {"README.md", "settings.json"}
    with (whole / "fig1.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == TINY.draws * len(TINY.agents) * len(TINY.public_rows)
    assert {row["draw"] for row in rows} == {"0", "1", "2", "3"}
    assert (whole / "fig1.png").read_bytes().startswith(b"\x89PNG")
    text = (whole / "README.md").read_text(encoding="utf-8")
    for figure in _CLAIMS:
        for claim in claims_of(
            figure, read_table((whole / f"{figure}.csv").read_text(), FIGURES[figure].columns), TINY
        ):
            assert claim.says in text
            assert claim.measured in text
            assert f"| {claim.measured} | {claim.verdict.replace('no', '**no**')} |" in text


@pytest.mark.long
@pytest.mark.no_cover
def test_a_killed_run_resumes_to_the_same_bytes_on_other_processes(whole: Path, tmp_path: Path) -> None:
    """SIGKILL in the middle, then a resumed run with two processes, against one run with one process."""
    script = (
        "import os, signal, sys\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from helpers.tiny_paper import TINY\n"
        "from veilnet.paper import reproduce\n"
        "def progress(what, part):\n"
        "    if part >= 0.5: os.kill(os.getpid(), signal.SIGKILL)\n"
        "reproduce(settings=TINY, out=sys.argv[1], jobs=1, progress=progress)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(vn.__file__).parents[1])}
    arguments = [sys.executable, "-c", script, str(tmp_path / "out"), str(Path(__file__).parents[1])]
    killed = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = sorted(path.name for path in (tmp_path / "out" / "draws" / "fig3").iterdir())
    assert done == ["00000.csv", "00001.csv"]
    assert not (tmp_path / "out" / "fig3.csv").exists()
    untouched = (tmp_path / "out" / "draws" / "fig3" / "00000.csv").stat().st_mtime_ns
    (tmp_path / "out" / "draws" / "fig3" / ".00002.csv.abc.tmp").write_text("half a li")
    resumed = reproduce(settings=TINY, out=tmp_path / "out", jobs=2)
    assert resumed.measured == TINY.draws - 2
    assert (tmp_path / "out" / "draws" / "fig3" / "00000.csv").stat().st_mtime_ns == untouched
    assert files(tmp_path / "out") == files(whole)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.long)])
def test_progress_answering_false_stops_and_the_next_run_resumes(
    jobs: int, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[float] = []
    monkeypatch.setattr(
        runs, "draw_figure", lambda *_: None
    )  # those of a run that was killed are compared above

    def stop_after_two(_what: str, part: float) -> bool:
        heard.append(part)
        return part < 2 / TINY.draws

    stopped = reproduce(settings=TINY, out=tmp_path, jobs=jobs, progress=stop_after_two)
    assert (stopped.interrupted, stopped.measured, stopped.claims, stopped.tables) == (True, 2, (), {})
    assert heard == [0.0, 0.25, 0.5]
    assert list(files(tmp_path)) == ["settings.json"], "no table, plot or README.md of half a run"
    kept = sorted((tmp_path / "draws" / "fig3").iterdir())
    assert len(kept) == 2
    times = [path.stat().st_mtime_ns for path in kept]
    resumed = reproduce(settings=TINY, out=tmp_path, jobs=jobs)
    assert (resumed.interrupted, resumed.measured) == (False, TINY.draws - 2)
    assert [path.stat().st_mtime_ns for path in kept] == times
    drawn = {name: content for name, content in files(whole).items() if not name.endswith((".svg", ".png"))}
    assert files(tmp_path) == drawn


@pytest.mark.long
def test_asked_to_stop_after_the_last_draw_a_run_is_whole(whole: Path, tmp_path: Path) -> None:
    done = reproduce(settings=TINY, out=tmp_path, jobs=1, progress=lambda _what, part: part < 1)
    assert not done.interrupted
    assert files(tmp_path) == files(whole)


@pytest.mark.long
def test_figures_one_by_one_are_figures_all_at_once(whole: Path, tmp_path: Path) -> None:
    for name in ("fig4", "fig2"):
        reproduce([name], TINY, tmp_path, jobs=1)
        assert (tmp_path / f"{name}.csv").read_bytes() == (whole / f"{name}.csv").read_bytes()
    assert not (tmp_path / "fig1.csv").exists()
    reproduce(["fig1", "fig3"], TINY, tmp_path, jobs=1)
    assert files(tmp_path) == files(whole)
    assert reproduce(settings=TINY, out=tmp_path, jobs=1).measured == 0


@pytest.mark.long
def test_the_users_own_backend_is_used(whole: Path, tmp_path: Path) -> None:
    """Threads stand for a cluster here: any backend of joblib, chosen around the call."""
    with joblib.parallel_config("threading", n_jobs=3):
        reproduce(["fig1", "fig4"], TINY, tmp_path)
    for name in ("fig1.csv", "fig4.csv"):
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.parametrize("number", [pytest.param(0, marks=pytest.mark.long), 3])
def test_a_single_draw_can_be_repeated(whole: Path, number: int) -> None:
    again = measure_draw(replace(TINY, draws=1), number, list(FIGURES) if number else ["fig4"])[1]
    if number == 0:  # figure 4 alone, without what figure 3 leaves in memory
        assert again["fig4"] in (whole / "fig4.csv").read_text()
        return
    for name, lines in again.items():
        assert (whole / f"{name}.csv").read_text().endswith(lines)


@pytest.mark.parametrize(
    ("change", "key"), [({"draws": 5}, "draws"), ({"seed": 4}, "seed"), ({"sweeps": 3}, "sweeps")]
)
def test_other_settings_are_refused_in_the_same_folder(whole: Path, change: dict[str, int], key: str) -> None:
    before = files(whole)
    with pytest.raises(VeilnetError, match=rf"{key} = .*choose another folder with --out"):
        reproduce(settings=replace(TINY, **change), out=whole, jobs=1)
    assert files(whole) == before


def test_damaged_settings_are_refused(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(VeilnetError, match="is not JSON"):
        reproduce(["fig1"], TINY, tmp_path, jobs=1)
    (tmp_path / "settings.json").unlink()
    (tmp_path / "draws").mkdir()
    with pytest.raises(VeilnetError, match=r"no settings\.json"):
        reproduce(["fig1"], TINY, tmp_path, jobs=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"draws": 0}, "draws: expected at least 1"),
        ({"seed": -1}, "seed: expected"),
        ({"agents": (5,)}, "agents: expected divisors of 72"),
    ],
)
def test_settings_that_make_no_sense(change: dict[str, int], message: str) -> None:
    with pytest.raises(VeilnetError, match=message):
        Settings(**change)


def test_unknown_figures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(VeilnetError, match="expected fig1, fig2, fig3, fig4 or all, found fig5"):
        reproduce(["fig5"], TINY, tmp_path)


@pytest.mark.parametrize("package", ["joblib", "threadpoolctl", "matplotlib"])
def test_missing_packages_are_named_by_the_line_that_installs_them(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=r'pip install "veilnet\[paper\]"'):
        reproduce(["fig1"], TINY, tmp_path)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "r")
    assert run(["reproduce", "fig1", "--draws", "2", "--jobs", "1", "--out", out]) == 0
    shown = capsys.readouterr().out
    assert "Theorem 1 is necessary and sufficient" in shown
    assert "Measured 2 of 2 draws" in shown
    assert run(["reproduce", "fig1", "--draws", "2", "--jobs", "1", "--out", out, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["measured"] == 0
    assert {claim["agrees"] for claim in answer["claims"]} == {True, False}
    assert run(["reproduce", "fig1", "--draw", "1"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header == "figure," + ",".join(FIGURES["fig1"].columns)
    written = (tmp_path / "r" / "fig1.csv").read_text().splitlines()
    assert [line.removeprefix("fig1,") for line in lines] == written[-len(lines) :]
    assert run(["reproduce", "fig1", "--draw", "1", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["fig1"]
    assert [[float(cell) for cell in row.values()] for row in rows] == [
        [float(cell) for cell in line.split(",")[1:]] for line in lines
    ]
    assert run(["reproduce", "fig1", "--draws", "3", "--out", out]) == 2
    assert "draws = 2" in capsys.readouterr().err
    assert run(["reproduce", "fig9"]) == 2
    assert run(["reproduce", "--jobs", "0"]) == 2


def test_the_long_run_is_the_same_algorithm_run_for_longer(whole: Path) -> None:
    """Column long_loss of figure 3 against vn.design, and against the same sweep of figure 4."""
    tables = {
        name: read_table((whole / f"{name}.csv").read_text(), FIGURES[name].columns)
        for name in ("fig3", "fig4")
    }
    long = tables["fig3"]["long_loss"]
    np.testing.assert_array_equal(np.isnan(long), tables["fig3"]["draw"] >= TINY.long_draws)
    assert np.all(long[~np.isnan(long)] <= tables["fig3"]["alternating_loss"][~np.isnan(long)] + 1e-12)
    for agents in TINY.tradeoff_agents:
        network = network_of(draw(TINY, 0), agents, TINY.tradeoff_public_rows, prior=True)
        for row in tables["fig3"].where(draw=0, agents=agents).values:
            cell = dict(zip(tables["fig3"].columns, row, strict=True))
            plan = vn.design(
                network, privacy=cell["threshold"] * (1 - 1e-9), method="alternating", sweeps=TINY.long_sweeps
            )
            assert cell["long_loss"] == pytest.approx(-plan.utility, rel=1e-5, abs=1e-8)
        last = tables["fig4"].where(draw=0, agents=agents, iteration=TINY.long_sweeps)["alternating_loss"]
        point = tables["fig3"].where(draw=0, agents=agents, threshold=TINY.sweep_threshold)["long_loss"]
        np.testing.assert_allclose(point, last, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("option", [["--jobs", "2"], ["--out", "elsewhere"]])
def test_options_without_effect_on_one_draw_are_refused(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["reproduce", "fig1", "--draw", "0", *option]) == 2
    assert f"{option[0]}: has no effect with --draw" in capsys.readouterr().err
