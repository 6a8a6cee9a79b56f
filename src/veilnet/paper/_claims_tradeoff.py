"""The claims of section VII-B: alternating optimisation (figures 3 and 4).

The paper does not say how often Algorithm 3 visits all agents. Each claim is therefore looked at twice: in all draws
after the sweeps that every draw runs, and in the first draws after many more. Where a claim fails with the fewer
sweeps and holds with the more, in draws where it failed before, it says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from veilnet._core.types import Array, Booleans
from veilnet._core.words import number
from veilnet.paper._claim import ROUNDING, Claim, first_draws, listed, never_rises, percent, shown
from veilnet.paper.settings import Settings
from veilnet.paper.tables import Table, summarize

# "Close to perfect utility": a loss of 5 %.
_CLOSE = 0.05
# "Approximates the optimal solution well": loses at most a tenth more than the best known.
_WELL = 1.1
# "Converges": the last quarter of the sweeps gains at most 1 % of the loss, or less than anyone would notice (a
# loss that halves from 1e-8 to 5e-9 has arrived at nothing).
_SETTLED = 0.01
_NOT_NOTICED = 1e-4


Where = TypeVar("Where", str, int)


class _Finding(NamedTuple):
    """What some rows show, in words, and whether the claim holds in them."""

    text: str
    holds: bool


class _Comparison(NamedTuple):
    """All draws after few sweeps, and the draws that were run for long before and after that."""

    whole: _Finding
    more: str
    holds_after: int | None

    def claim(self, figure: str, says: str, measured: str) -> Claim:
        return Claim(figure, says, measured + self.more, self.whole.holds, self.holds_after)


def utility_falls_with_privacy(table: Table, settings: Settings) -> Claim:
    """Section VII-B: more privacy, less utility, by Algorithm 3."""
    found = _by_column(table, settings, _falls_with_privacy)
    steps = np.concatenate(
        [
            np.diff(_curves(table, agents, "alternating_loss"), axis=1).ravel()
            for agents in table.levels("agents")
        ]
    )
    levels = table.where(at_ceiling=0).levels("threshold")
    return found.claim(
        "fig3",
        "The utility decreases as the privacy increases (Algorithm 3).",
        f"Median loss at ε = {listed(levels)}: {found.whole.text}. In single draws asking for more privacy gave "
        f"more utility in {int(np.sum(steps < -1e-6))} of {int(np.sum(~np.isnan(steps)))} steps.",
    )


def _falls_with_privacy(rows: Table, column: str) -> _Finding:
    parts, rising = [], True
    for agents in rows.levels("agents"):
        medians = [_typical(losses) for losses in _curves(rows, agents, column).T]
        rising &= never_rises([-median for median in medians])
        parts.append(f"S = {int(agents)}: {' '.join(shown(median) for median in medians)}")
    return _Finding("; ".join(parts), rising)


def utility_falls_with_agents(table: Table, settings: Settings) -> Claim:
    """Section VII-B: more agents, less utility at the same threshold."""
    found = _by_column(table, settings, _falls_with_agents)
    return found.claim(
        "fig3",
        "Under the same setting, a larger number of agents deteriorates the utility (Algorithm 3).",
        f"Median loss grows with S = {listed(table.levels('agents'))}: for Algorithm 3 {found.whole.text}, for the "
        f"joint solver {_falls_with_agents(table, 'joint_loss').text}.",
    )


def _falls_with_agents(rows: Table, column: str) -> _Finding:
    agents, fixed = rows.levels("agents"), rows.where(at_ceiling=0)
    broken = [
        number(level)
        for level in fixed.levels("threshold")
        if not never_rises(
            [-_typical(fixed.where(threshold=level, agents=count)[column]) for count in agents]
        )
    ]
    return _Finding(f"not at ε = {', '.join(broken)}" if broken else "at every ε", not broken)


def nearly_perfect_at_ceiling(table: Table, settings: Settings) -> Claim:
    """Section VII-B: at the ceiling Algorithm 3 comes close to perfect utility."""
    found = _by_column(table, settings, _nearly_perfect)
    return found.claim(
        "fig3",
        "The utility obtained by Algorithm 3 is close to perfect when ε equals the maximum privacy under "
        "perfect utility.",
        f"Loss after {settings.tradeoff_sweeps} sweeps at each draw's own ceiling, where none is needed: "
        f"{found.whole.text}. Close means at most {percent(_CLOSE)}.",
    )


def _nearly_perfect(rows: Table, column: str) -> _Finding:
    parts, close = [], True
    for agents in rows.levels("agents"):
        losses = summarize(rows.where(at_ceiling=1, agents=agents)[column])
        close &= losses.median <= _CLOSE
        parts.append(f"S = {int(agents)}: median {percent(losses.median, 2)}, mean {percent(losses.mean, 2)}")
    return _Finding("; ".join(parts), close)


def approximates_optimum(table: Table, settings: Settings) -> Claim:
    """Section VII-B: Algorithm 3 approximates the optimal solution well."""
    found = _by_column(table, settings, _near_optimum)
    fixed = table.where(at_ceiling=0)
    free = fixed["joint_loss"] == 0
    lost = summarize(fixed["alternating_loss"][free]).median
    beaten = int(np.sum(fixed["alternating_loss"] < fixed["joint_loss"] * (1 - 1e-3)))
    return found.claim(
        "fig3",
        "The algorithm approximates the optimal solution well.",
        f"Median loss of Algorithm 3 ({settings.tradeoff_sweeps} sweeps) over that of the joint solver, at ε = "
        f"{listed(fixed.levels('threshold'))}: {found.whole.text}. Where privacy is free it still loses "
        f"{percent(lost, 2)} (median). It was better than the joint solver in {beaten} of {len(fixed.values)} cases.",
    )


def _near_optimum(rows: Table, column: str) -> _Finding:
    fixed, parts, well = rows.where(at_ceiling=0), [], True
    for agents in fixed.levels("agents"):
        ratios = []
        for level in fixed.levels("threshold"):
            cell = fixed.where(agents=agents, threshold=level)
            costly = cell["joint_loss"] > 0
            least = summarize(cell["joint_loss"][costly]).median
            ratios.append(summarize(cell[column][costly]).median / least)
        well &= all(np.isnan(ratio) or ratio <= _WELL for ratio in ratios)
        words = " ".join("free" if np.isnan(ratio) else number(ratio) + "×" for ratio in ratios)
        parts.append(f"S = {int(agents)}: {words}")
    return _Finding("; ".join(parts), well)


def converges(table: Table, settings: Settings) -> Claim:
    """Figure 4: the algorithm converges."""
    found = _by_sweeps(table, settings, _settles)
    return found.claim(
        "fig4",
        "The figure shows the convergence of Algorithm 3.",
        f"Gained by the last quarter of {settings.sweeps} sweeps, median: {found.whole.text}. Settled means at most "
        f"{percent(_SETTLED)} of the loss, or {percent(_NOT_NOTICED, 2)} of the utility.",
    )


def _settles(rows: Table, sweeps: int) -> _Finding:
    parts, settled, rises = [], True, 0
    for agents in rows.levels("agents"):
        losses = _sweeps(rows, agents, sweeps)
        rises += int(np.sum(np.diff(losses, axis=1) > 1e-9))
        three_quarters = losses[:, sweeps * 3 // 4]
        gains = three_quarters - losses[:, -1]
        gained = np.where(gains > _NOT_NOTICED, gains / np.maximum(three_quarters, _NOT_NOTICED), 0.0)
        typical = float(np.median(gained))
        settled &= typical <= _SETTLED
        parts.append(f"S = {int(agents)}: {percent(typical, 2)}")
    return _Finding(f"{'; '.join(parts)}; the loss rose {rises} times", settled and rises == 0)


def converges_to_optimum(table: Table, settings: Settings) -> Claim:
    """Figure 4 with section VII-B: what it converges to is the optimum."""
    found = _by_sweeps(table, settings, _ends_near_optimum)
    return found.claim(
        "fig4",
        f"The algorithm approximates the optimal solution well (ε = {number(settings.sweep_threshold)}).",
        f"Median loss after {settings.sweeps} sweeps against the joint solver: {found.whole.text}.",
    )


def _ends_near_optimum(rows: Table, sweeps: int) -> _Finding:
    parts, well = [], True
    for agents in rows.levels("agents"):
        losses = _sweeps(rows, agents, sweeps)[:, -1]
        best = np.array([_answer(rows, agents, draw) for draw in rows.levels("draw")])
        reached, least = summarize(losses).median, summarize(best).median
        well &= reached <= _WELL * least + 1e-9
        parts.append(f"S = {int(agents)}: {percent(reached, 2)} against {percent(least, 2)}")
    return _Finding("; ".join(parts), well)


def _by_column(table: Table, settings: Settings, look: Callable[[Table, str], _Finding]) -> _Comparison:
    """Figure 3: the losses after few and after many sweeps are columns."""
    long, sweeps = ~np.isnan(table["long_loss"]), (settings.tradeoff_sweeps, settings.long_sweeps)
    return _compared(table, long, look, ("alternating_loss", "long_loss"), sweeps)


def _by_sweeps(table: Table, settings: Settings, look: Callable[[Table, int], _Finding]) -> _Comparison:
    """Figure 4: the losses after few and after many sweeps are rows."""
    sweeps = settings.sweeps, settings.long_sweeps
    long = (table["iteration"] == settings.long_sweeps) & ~np.isnan(table["alternating_loss"])
    return _compared(table, long, look, sweeps, sweeps)


def _compared(
    table: Table,
    long: Booleans,
    look: Callable[[Table, Where], _Finding],
    where: tuple[Where, Where],
    sweeps: tuple[int, int],
) -> _Comparison:
    """What is found after few sweeps in all draws, and after few and many in those with a row that is ``long``.

    Holding after more sweeps counts where the same draws did not do so before: else it is the draws' doing.
    """
    whole, (few, many) = look(table, where[0]), sweeps
    longer = Table(table.columns, table.values[np.isin(table["draw"], table["draw"][long])])
    if many <= few or not longer.draws:
        return _Comparison(whole, "", None)
    before, after = (look(longer, each) for each in where)
    more = f" In {first_draws(longer.draws)} after {many} sweeps: {after.text} (after {few}: {before.text})."
    gained = after.holds and not before.holds and not whole.holds
    return _Comparison(whole, more, many if gained else None)


def _typical(losses: Array) -> float:
    """The median; rounding is nothing, so that two losses of nothing are equal."""
    median = summarize(losses).median
    return 0.0 if abs(median) < ROUNDING else median


def _curves(table: Table, agents: float, column: str) -> Array:
    """(draws, thresholds)"""
    fixed = table.where(at_ceiling=0, agents=agents)
    return np.stack([fixed.where(threshold=level)[column] for level in fixed.levels("threshold")], axis=1)


def _sweeps(table: Table, agents: float, sweeps: int) -> Array:
    """(draws, sweeps + 1) losses of Algorithm 3."""
    rows = table.where(agents=agents)
    return np.stack([rows.where(iteration=k)["alternating_loss"] for k in range(sweeps + 1)], axis=1)


def _answer(table: Table, agents: float, draw: float) -> float:
    """What the joint solver ended with: its last row."""
    losses = table.where(agents=agents, draw=draw)["joint_loss"]
    done = losses[~np.isnan(losses)]
    return float(done[-1]) if done.size else float("nan")
