"""The claims of section VII-B: alternating optimisation (figures 3 and 4)."""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array
from veilnet._core.words import number
from veilnet.paper._claim import Claim, listed, never_rises, percent, shown
from veilnet.paper.settings import Settings
from veilnet.paper.statistics import summarize
from veilnet.paper.tables import Table

# "Close to perfect utility": a loss of 5 %.
_CLOSE = 0.05
# "Approximates the optimal solution well": loses at most a tenth more than the best known.
_WELL = 1.1
# "Converges": the last quarter of the sweeps gains at most 1 % of the loss.
_SETTLED = 0.01


def utility_falls_with_privacy(table: Table, _settings: Settings) -> Claim:
    """Section VII-B: more privacy, less utility, by Algorithm 3."""
    rising, dips, pairs, parts = True, 0, 0, []
    for agents in table.levels("agents"):
        curves = _curves(table, agents, "alternating_loss")
        medians = [summarize(column).median for column in curves.T]
        rising &= never_rises([-median for median in medians])
        parts.append(f"S = {int(agents)}: {' '.join(shown(median) for median in medians)}")
        steps = np.diff(curves, axis=1)
        dips += int(np.sum(steps < -1e-6))
        pairs += int(np.sum(~np.isnan(steps)))
    levels = table.where(at_ceiling=0).levels("threshold")
    return Claim(
        "fig3",
        "The utility decreases as the privacy increases (Algorithm 3).",
        f"Median loss at ε = {listed(levels)}: {'; '.join(parts)}. In single draws asking for more privacy gave "
        f"more utility in {dips} of {pairs} steps.",
        rising,
    )


def utility_falls_with_agents(table: Table, _settings: Settings) -> Claim:
    """Section VII-B: more agents, less utility at the same threshold."""
    agents, fixed = table.levels("agents"), table.where(at_ceiling=0)
    broken: dict[str, list[str]] = {}
    for column in ("alternating_loss", "joint_loss"):
        broken[column] = [
            number(level)
            for level in fixed.levels("threshold")
            if not never_rises(
                [-summarize(fixed.where(threshold=level, agents=count)[column]).median for count in agents]
            )
        ]
    texts = {key: f"not at ε = {', '.join(each)}" if each else "at every ε" for key, each in broken.items()}
    return Claim(
        "fig3",
        "Under the same setting, a larger number of agents deteriorates the utility (Algorithm 3).",
        f"Median loss grows with S = {listed(agents)}: for Algorithm 3 {texts['alternating_loss']}, for the joint "
        f"solver {texts['joint_loss']}.",
        not broken["alternating_loss"],
    )


def nearly_perfect_at_ceiling(table: Table, settings: Settings) -> Claim:
    """Section VII-B: at the ceiling Algorithm 3 comes close to perfect utility."""
    parts, close = [], True
    for agents in table.levels("agents"):
        losses = summarize(table.where(at_ceiling=1, agents=agents)["alternating_loss"])
        close &= losses.median <= _CLOSE
        parts.append(f"S = {int(agents)}: median {percent(losses.median, 2)}, mean {percent(losses.mean, 2)}")
    return Claim(
        "fig3",
        "The utility obtained by Algorithm 3 is close to perfect when ε equals the maximum privacy under "
        "perfect utility.",
        f"Loss after {settings.tradeoff_sweeps} sweeps at each draw's own ceiling, where none is needed: "
        f"{'; '.join(parts)}. Close means at most {percent(_CLOSE)}.",
        close,
    )


def approximates_optimum(table: Table, settings: Settings) -> Claim:
    """Section VII-B: Algorithm 3 approximates the optimal solution well."""
    fixed, parts, well = table.where(at_ceiling=0), [], True
    for agents in fixed.levels("agents"):
        ratios = []
        for level in fixed.levels("threshold"):
            rows = fixed.where(agents=agents, threshold=level)
            costly = rows["joint_loss"] > 0
            alternating = summarize(rows["alternating_loss"][costly]).median
            ratios.append(alternating / summarize(rows["joint_loss"][costly]).median)
        well &= all(np.isnan(ratio) or ratio <= _WELL for ratio in ratios)
        parts.append(
            f"S = {int(agents)}: {' '.join('free' if np.isnan(r) else number(r) + '×' for r in ratios)}"
        )
    free = fixed["joint_loss"] == 0
    lost = summarize(fixed["alternating_loss"][free]).median
    beaten = int(np.sum(fixed["alternating_loss"] < fixed["joint_loss"] * (1 - 1e-3)))
    return Claim(
        "fig3",
        "The algorithm approximates the optimal solution well.",
        f"Median loss of Algorithm 3 ({settings.tradeoff_sweeps} sweeps) over that of the joint solver, at ε = "
        f"{listed(fixed.levels('threshold'))}: {'; '.join(parts)}. Where privacy is free it still loses "
        f"{percent(lost, 2)} (median). It was better than the joint solver in {beaten} of {len(fixed.values)} cases.",
        well,
    )


def converges(table: Table, settings: Settings) -> Claim:
    """Figure 4: the algorithm converges."""
    parts, settled, rises = [], True, 0
    for agents in table.levels("agents"):
        losses = _sweeps(table, agents, settings.sweeps)
        rises += int(np.sum(np.diff(losses, axis=1) > 1e-9))
        three_quarters = losses[:, settings.sweeps * 3 // 4]
        gained = np.where(three_quarters > 1e-9, 1 - losses[:, -1] / np.maximum(three_quarters, 1e-300), 0.0)
        typical = float(np.median(gained))
        settled &= typical <= _SETTLED
        parts.append(f"S = {int(agents)}: {percent(typical, 2)}")
    return Claim(
        "fig4",
        "The figure shows the convergence of Algorithm 3.",
        f"Rises of the loss seen: {rises}. Gained by the last quarter of {settings.sweeps} sweeps, median: "
        f"{'; '.join(parts)}. Settled means at most {percent(_SETTLED)}.",
        settled and rises == 0,
    )


def converges_to_optimum(table: Table, settings: Settings) -> Claim:
    """Figure 4 with section VII-B: what it converges to is the optimum."""
    parts, well = [], True
    for agents in table.levels("agents"):
        losses = _sweeps(table, agents, settings.sweeps)[:, -1]
        best = np.array([_answer(table, agents, draw) for draw in table.levels("draw")])
        reached, least = summarize(losses).median, summarize(best).median
        well &= reached <= _WELL * least + 1e-9
        parts.append(f"S = {int(agents)}: {percent(reached, 2)} against {percent(least, 2)}")
    return Claim(
        "fig4",
        f"The algorithm approximates the optimal solution well (ε = {number(settings.sweep_threshold)}).",
        f"Median loss after {settings.sweeps} sweeps against the joint solver: {'; '.join(parts)}. "
        + _long_run(table, settings),
        well,
    )


def _long_run(table: Table, settings: Settings) -> str:
    parts = []
    for agents in table.levels("agents"):
        rows = table.where(agents=agents, iteration=settings.long_sweeps)
        if rows.values.size:
            before = table.where(agents=agents, iteration=settings.sweeps)
            same = before["alternating_loss"][np.isin(before["draw"], rows["draw"])]
            parts.append(
                f"S = {int(agents)}: from {percent(float(np.median(same)), 2)} to "
                f"{percent(float(np.median(rows['alternating_loss'])), 2)}"
            )
    if not parts:
        return ""
    return f"{settings.long_sweeps} sweeps (first {settings.long_draws} draws): {'; '.join(parts)}."


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
