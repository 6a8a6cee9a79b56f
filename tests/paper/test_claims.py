"""The paper's claims decided by code, on planted numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from helpers.tiny_paper import TINY
from veilnet._core.errors import VeilnetError
from veilnet.paper import _claims_privacy as privacy_claims
from veilnet.paper import _claims_tradeoff as tradeoff_claims
from veilnet.paper.claims import _CLAIMS
from veilnet.paper.figures import FIGURES
from veilnet.paper.tables import Table, csv_lines, read_table, summarize

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
