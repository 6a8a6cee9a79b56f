"""The paper's section VII repeated: draws as printed, runs that resume to the same bytes, claims by code."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pytest
from scipy.linalg import block_diag, null_space

import veilnet as vn
from veilnet._core.errors import MissingExtra, VeilnetError
from veilnet.cli import run
from veilnet.paper import Settings, measure_draw, reproduce
from veilnet.paper import _claims_privacy as privacy_claims
from veilnet.paper import _claims_tradeoff as tradeoff_claims
from veilnet.paper.claims import _CLAIMS, claims_of
from veilnet.paper.figures import FIGURES
from veilnet.paper.settings import draw, network_of
from veilnet.paper.statistics import summarize
from veilnet.paper.tables import Table, csv_lines, read_table

pytestmark = pytest.mark.slow

TINY = Settings(
    draws=4,
    seed=3,
    readings=12,
    parameters=4,
    private_rows=2,
    agents=(1, 2, 3, 4),
    public_rows=(1, 2),
    tradeoff_agents=(2, 3),
    tradeoff_public_rows=2,
    thresholds=(5.0, 20.0),
    tradeoff_sweeps=3,
    sweep_threshold=20.0,
    sweeps=4,
    long_sweeps=8,
    long_draws=1,
)


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
    settings = replace(TINY, starts=1)
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


def test_a_killed_run_resumes_to_the_same_bytes_on_other_processes(whole: Path, tmp_path: Path) -> None:
    """SIGKILL in the middle, then a resumed run with two processes, against one run with one process."""
    script = (
        "import os, signal, sys\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from test_reproduce import TINY\n"
        "from veilnet.paper import reproduce\n"
        "def progress(what, part):\n"
        "    if part >= 0.5: os.kill(os.getpid(), signal.SIGKILL)\n"
        "reproduce(settings=TINY, out=sys.argv[1], jobs=1, progress=progress)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(vn.__file__).parents[1])}
    arguments = [sys.executable, "-c", script, str(tmp_path / "out"), str(Path(__file__).parent)]
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


@pytest.mark.parametrize("jobs", [1, 2])
def test_progress_answering_false_stops_and_the_next_run_resumes(
    jobs: int, whole: Path, tmp_path: Path
) -> None:
    heard: list[float] = []

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
    assert files(tmp_path) == files(whole)


def test_asked_to_stop_after_the_last_draw_a_run_is_whole(whole: Path, tmp_path: Path) -> None:
    done = reproduce(settings=TINY, out=tmp_path, jobs=1, progress=lambda _what, part: part < 1)
    assert not done.interrupted
    assert files(tmp_path) == files(whole)


def test_figures_one_by_one_are_figures_all_at_once(whole: Path, tmp_path: Path) -> None:
    for name in ("fig4", "fig2"):
        reproduce([name], TINY, tmp_path, jobs=1)
        assert (tmp_path / f"{name}.csv").read_bytes() == (whole / f"{name}.csv").read_bytes()
    assert not (tmp_path / "fig1.csv").exists()
    reproduce(["fig1", "fig3"], TINY, tmp_path, jobs=1)
    assert files(tmp_path) == files(whole)
    assert reproduce(settings=TINY, out=tmp_path, jobs=1).measured == 0


def test_the_users_own_backend_is_used(whole: Path, tmp_path: Path) -> None:
    """Threads stand for a cluster here: any backend of joblib, chosen around the call."""
    with joblib.parallel_config("threading", n_jobs=3):
        reproduce(["fig1", "fig4"], TINY, tmp_path)
    for name in ("fig1.csv", "fig4.csv"):
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.parametrize("number", [0, 3])
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


# --- numbers in few words


def test_summary_tells_when_outliers_rule() -> None:
    even = summarize(np.arange(101.0))
    assert (even.mean, even.median, even.outliers_rule, even.count) == (50.0, 50.0, False, 101)
    assert even.mean_band[0] < 50 < even.mean_band[1]
    # the textbook interval: 1.96 deviations of the mean to either side
    assert even.mean_band[1] - even.mean_band[0] == pytest.approx(2 * 1.96 * 29.15 / np.sqrt(101), rel=0.15)
    wild = summarize(np.array([1.0] * 99 + [1e6]))
    assert wild.outliers_rule
    assert wild.median == 1.0
    assert summarize(np.array([np.nan, 2.0])).count == 1
    assert summarize(np.array([np.inf, np.inf, 2.0])).median == np.inf
    assert np.isnan(summarize(np.array([np.nan])).mean)


def test_tables_read_back_to_the_same_numbers() -> None:
    rows = [(0, 1 / 3, np.inf), (1, 1e-300, np.nan)]
    table = read_table("a,b,c\n" + csv_lines(rows), ("a", "b", "c"))
    np.testing.assert_array_equal(table.values, np.array(rows))
    with pytest.raises(VeilnetError, match="expected the columns a,b, found 'b,a'"):
        read_table("b,a\n", ("a", "b"))


# --- the claims, on planted numbers


def most_privacy(
    ceiling: Callable[[int, int, int], float],
    *,
    limit: float = np.inf,
    achievable: Callable[[int, int], int] = lambda s, u: int(s * u < 4),
    printed: Callable[[int, int], int] = lambda s, u: int(s * u < 4),
    free: Callable[[int, int], float] = lambda s, u: 12 - s * u,
    stuck: Callable[[int, int], float] = lambda s, u: s * (12 // s <= u),
) -> Table:
    rows = [
        (
            d,
            s,
            u,
            ceiling(d, s, u),
            limit * (1 + 0.01 * (d - 1.5)) if np.isfinite(limit) else limit,
            achievable(s, u),
            printed(s, u),
            free(s, u),
            stuck(s, u),
        )
        for d in range(4)
        for s in TINY.agents
        for u in TINY.public_rows
    ]
    return Table(FIGURES["fig1"].columns, np.array(rows, dtype=float))


def unbounded(_d: int, s: int, u: int) -> float:
    return np.inf if s * u < 4 else 50.0 / (s * u)


def test_claims_of_figure_1_on_planted_numbers() -> None:
    good = most_privacy(unbounded)
    for claim in privacy_claims.infinite_with_one_agent, privacy_claims.fewer_agents_more_likely:
        assert claim(good, TINY).agrees
    assert "in every draw with S·U < L = 4 and in no other (4 pairs" in (
        privacy_claims.infinite_with_one_agent(good, TINY).measured
    )
    assert privacy_claims.theorem_1_is_exact(good, TINY).agrees
    assert privacy_claims.falls_with_agents(good, TINY).agrees
    assert privacy_claims.falls_with_public_rows(good, TINY).agrees
    assert privacy_claims.less_freedom(good, TINY).agrees

    once = most_privacy(lambda d, s, u: 7.0 if (d, s) == (2, 1) else unbounded(d, s, u))
    assert not privacy_claims.infinite_with_one_agent(once, TINY).agrees
    assert "no other" not in privacy_claims.infinite_with_one_agent(once, TINY).measured
    likelier = most_privacy(unbounded, achievable=lambda s, u: int(s * u > 4))
    assert not privacy_claims.fewer_agents_more_likely(likelier, TINY).agrees
    denied = privacy_claims.theorem_1_is_exact(
        most_privacy(unbounded, printed=lambda s, _u: int(s == 1)), TINY
    )
    assert not denied.agrees
    assert "denies ASUP in 8 of the 16 cases" in denied.measured
    assert "sufficient, but not necessary" in denied.measured
    over = privacy_claims.theorem_1_is_exact(most_privacy(unbounded, printed=lambda _s, _u: 1), TINY)
    assert not over.agrees
    assert "sufficient" not in over.measured
    rising = privacy_claims.falls_with_agents(most_privacy(lambda _d, s, _u: 10.0 * s), TINY)
    assert not rising.agrees
    assert "raised it in 32 of 32 pairs" in rising.measured  # 1 | 2, 1 | 3, 1 | 4, 2 | 4
    longer = privacy_claims.falls_with_public_rows(most_privacy(lambda _d, _s, u: 10.0 * u), TINY)
    assert not longer.agrees
    assert "raised the maximum in 16 of 16 pairs" in longer.measured
    freer = most_privacy(unbounded, free=lambda s, u: s * u)
    assert not privacy_claims.less_freedom(freer, TINY).agrees


def test_truncation_is_for_figure_1_only() -> None:
    """Beyond 100 everything looks alike without a prior; with one it does not."""
    assert privacy_claims.falls_with_agents(most_privacy(lambda _d, s, _u: 100.0 + s), TINY).agrees
    with_prior = most_privacy(lambda _d, s, _u: 100.0 + s, limit=1e4)
    assert not privacy_claims.falls_with_agents(with_prior, TINY).agrees


def test_claims_of_figure_2_on_planted_numbers() -> None:
    far = most_privacy(lambda _d, s, u: 30.0 / (s * u), limit=74.0, achievable=lambda _s, _u: 0)
    assert privacy_claims.not_close_to_limit(far, TINY).agrees
    assert privacy_claims.never_free_with_prior(far, TINY).agrees
    assert privacy_claims.caption_limit(far, TINY).agrees
    close = most_privacy(lambda _d, s, u: 70.0 / (s * u), limit=74.0, achievable=lambda _s, _u: 1)
    assert not privacy_claims.not_close_to_limit(close, TINY).agrees
    assert "S = 1, U = 1" in privacy_claims.not_close_to_limit(close, TINY).measured
    assert not privacy_claims.never_free_with_prior(close, TINY).agrees
    other = privacy_claims.caption_limit(most_privacy(unbounded, limit=2260.0), TINY)
    assert not other.agrees
    assert "does not belong" in other.measured


def nothing(_s: int, _e: float) -> float:
    return np.nan


def tradeoff(
    alternating: Callable[[int, float], float],
    joint: Callable[[int, float], float],
    at_ceiling: float = 0.0,
    *,
    long: Callable[[int, float], float] = nothing,
    long_at_ceiling: float = np.nan,
    long_draws: int = 3,
) -> Table:
    rows = []
    for d in range(5):
        for s in TINY.tradeoff_agents:
            points = [(e, 0, alternating(s, e), joint(s, e), long(s, e)) for e in TINY.thresholds]
            points.append((2.0, 1, at_ceiling, 0.0, long_at_ceiling))
            for e, own, loss, least, later in points:
                rows.append((d, s, e, own, 2.0, 90.0, loss, least, later if d < long_draws else np.nan))
    return Table(FIGURES["fig3"].columns, np.array(rows, dtype=float))


def test_claims_of_figure_3_on_planted_numbers() -> None:
    good = tradeoff(lambda s, e: 0.01 * s * e, lambda s, e: 0.0095 * s * e, 0.04)
    for claim in _CLAIMS["fig3"]:
        assert claim(good, TINY).agrees, claim.__name__
    assert not tradeoff_claims.utility_falls_with_privacy(
        tradeoff(lambda s, e: s / e, lambda s, e: s / e), TINY
    ).agrees
    more_agents = tradeoff_claims.utility_falls_with_agents(
        tradeoff(lambda s, e: e / s if e < 10 else e * s, lambda s, e: s * e), TINY
    )
    assert not more_agents.agrees
    assert "not at ε = 5" in more_agents.measured
    assert "the joint solver at every ε" in more_agents.measured
    far = tradeoff_claims.nearly_perfect_at_ceiling(tradeoff(lambda s, _e: s, lambda s, _e: s, 0.06), TINY)
    assert not far.agrees
    assert "median 6.00 %" in far.measured
    assert far.holds_after is None
    assert far.verdict == "no"
    poor = tradeoff_claims.approximates_optimum(
        tradeoff(lambda s, e: 0.03 * s * e, lambda s, e: 0.01 * s * e if e > 5 else 0.0), TINY
    )
    assert not poor.agrees
    assert "S = 2: free 3×" in poor.measured


def test_figure_3_says_which_claims_hold_with_more_sweeps() -> None:
    """Few sweeps break the claims, many mend them; the draws are counted in the table, not in the settings."""

    def grows(s: int, e: float) -> float:
        return 0.01 * s * e

    def shrinks(s: int, e: float) -> float:
        return e / s

    mended = tradeoff(shrinks, grows, 0.06, long=grows, long_at_ceiling=1e-4)
    agents = tradeoff_claims.utility_falls_with_agents(mended, TINY)
    assert (agents.agrees, agents.holds_after, agents.verdict) == (False, 8, "no; after 8 sweeps yes")
    assert "In the first 3 draws after 8 sweeps: at every ε (after 3: not at ε = 5, 20)." in agents.measured
    ceiling = tradeoff_claims.nearly_perfect_at_ceiling(mended, TINY)
    assert (ceiling.agrees, ceiling.holds_after) == (False, 8)
    assert "after 8 sweeps: S = 2: median 0.01 %" in ceiling.measured
    optimum = tradeoff_claims.approximates_optimum(mended, TINY)
    assert (optimum.agrees, optimum.holds_after) == (False, 8)
    falling = tradeoff(lambda s, e: s / e, grows, long=grows)
    assert tradeoff_claims.utility_falls_with_privacy(falling, TINY).holds_after == 8

    # what already holds needs no more sweeps, and what more sweeps do not mend is still wrong
    assert (
        tradeoff_claims.utility_falls_with_agents(tradeoff(grows, grows, long=grows), TINY).verdict == "yes"
    )
    still = tradeoff(shrinks, grows, 0.06, long=shrinks, long_at_ceiling=0.051, long_draws=1)
    for claim in (tradeoff_claims.utility_falls_with_agents, tradeoff_claims.nearly_perfect_at_ceiling):
        assert claim(still, TINY).verdict == "no"
        assert "In the first draw after 8 sweeps" in claim(still, TINY).measured
    # two losses of nothing are equal, however rounding orders them
    nil = tradeoff(shrinks, grows, long=lambda s, _e: 1e-10 / s, long_at_ceiling=0.0)
    assert tradeoff_claims.utility_falls_with_agents(nil, TINY).holds_after == 8


def test_lucky_draws_are_not_taken_for_more_sweeps() -> None:
    """The draws run for long agreed before as well: more sweeps have shown nothing."""
    table = tradeoff(lambda s, e: 0.01 * s * e, lambda s, e: 0.01 * s * e, 0.01, long_at_ceiling=0.0)
    values = table.values.copy()
    values[(table["draw"] >= 2) & (table["at_ceiling"] == 1), table.columns.index("alternating_loss")] = 0.2
    values[table["draw"] == 2, table.columns.index("long_loss")] = np.nan
    lucky = tradeoff_claims.nearly_perfect_at_ceiling(Table(table.columns, values), TINY)
    assert not lucky.agrees
    assert "In the first 2 draws" in lucky.measured
    assert lucky.holds_after is None


def test_a_draw_run_for_long_may_miss_a_threshold() -> None:
    """Where a draw's limit lies below a threshold there is no loss at all, after however many sweeps."""
    table = tradeoff(
        lambda s, e: e / s, lambda s, e: s * e, 0.06, long=lambda s, e: s * e, long_at_ceiling=0.0
    )
    values = table.values.copy()
    out = (table["draw"] == 1) & (table["threshold"] == 20.0)
    for column in ("alternating_loss", "joint_loss", "long_loss"):
        values[out, table.columns.index(column)] = np.nan
    for claim in _CLAIMS["fig3"]:
        assert "In the first 3 draws" in claim(Table(table.columns, values), TINY).measured


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


def iterations(loss: Callable[[int], float], answer: float, long_draws: int = TINY.long_draws) -> Table:
    rows = []
    for d in range(3):
        for s in TINY.tradeoff_agents:
            last = TINY.long_sweeps if d < long_draws else TINY.sweeps
            for k in range(last + 1):
                joint = (answer * (2 - k), 20.0) if k < 2 else (np.nan, np.nan)
                rows.append((d, s, k, 2.0, loss(k), 20.0, *joint))
    return Table(FIGURES["fig4"].columns, np.array(rows, dtype=float))


def test_claims_of_figure_4_on_planted_numbers() -> None:
    settled = iterations(lambda k: 1.0 if k == 0 else 0.5, 0.49)
    assert tradeoff_claims.converges(settled, TINY).agrees
    assert tradeoff_claims.converges_to_optimum(settled, TINY).agrees
    falling = iterations(lambda k: 1.0 / (1 + k), 0.1)
    assert not tradeoff_claims.converges(falling, TINY).agrees
    poor = tradeoff_claims.converges_to_optimum(falling, TINY)
    assert not poor.agrees
    assert "20.00 % against 10.00 %" in poor.measured
    assert "In the first draw after 8 sweeps: S = 2: 11.11 % against 10.00 %" in poor.measured
    assert poor.verdict == "no"
    mended = tradeoff_claims.converges_to_optimum(iterations(lambda k: 1.0 / (1 + k), 0.102, 2), TINY)
    assert (mended.agrees, mended.verdict) == (False, "no; after 8 sweeps yes")
    assert "In the first 2 draws after 8 sweeps" in mended.measured
    late = tradeoff_claims.converges(iterations(lambda k: 1.0 / (1 + min(k, 5)), 0.1), TINY)
    assert (late.agrees, late.holds_after) == (False, 8)
    to_nothing = tradeoff_claims.converges(iterations(lambda k: 1e-3 * 0.05**k, 1e-9), TINY)
    assert to_nothing.agrees  # 95 % of next to nothing, sweep after sweep
    never = tradeoff_claims.converges(falling, TINY)
    assert (never.agrees, never.holds_after) == (False, None)
    rising = tradeoff_claims.converges(iterations(lambda k: 0.5 + 1e-6 * k, 0.49), TINY)
    assert not rising.agrees


@pytest.mark.parametrize("option", [["--jobs", "2"], ["--out", "elsewhere"]])
def test_options_without_effect_on_one_draw_are_refused(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["reproduce", "fig1", "--draw", "0", *option]) == 2
    assert f"{option[0]}: has no effect with --draw" in capsys.readouterr().err
