"""The claims of section VII-A: most privacy at perfect utility (figures 1 and 2)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from veilnet._core.types import Array
from veilnet._core.words import number
from veilnet.paper._claim import Claim, listed, never_rises, percent, share, shown
from veilnet.paper.settings import Settings
from veilnet.paper.tables import Table, summarize

# The paper draws no privacy above this.
TRUNCATED_AT = 100.0
# "Close to ε^max": three quarters of it.
_CLOSE = 0.75
# The limit in the caption of the paper's figure 2.
CAPTION_LIMIT = 74.1


def infinite_with_one_agent(table: Table, settings: Settings) -> Claim:
    """Section VII-A: without a prior, privacy is unbounded when S = 1."""
    infinite = _means(table, np.isinf(table["ceiling"]))
    always = {key for key, part in infinite.items() if part == 1.0}
    few = {(agents, rows) for agents, rows in infinite if agents * rows < settings.parameters}
    never_else = all(part == 0.0 for key, part in infinite.items() if key not in few)
    one_agent = share(np.isinf(table.where(agents=1)["ceiling"]))
    # Σ_i min(N_i, U) < L in general; with equal agents N_i < U would mean S·N_i = N >= L, so that S·U decides.
    rule = f"S·U < L = {settings.parameters}"
    return Claim(
        "fig1",
        "The maximum privacy under perfect utility goes to infinity (ASUP is achieved) when S = 1.",
        f"Infinite in {percent(one_agent)} of draws at S = 1. "
        + (
            f"Not only there: infinite in every draw with {rule} and in no other ({len(always)} pairs S, U)."
            if always == few and never_else
            else f"Infinite in every draw for {len(always)} pairs of S and U; {rule} holds for {len(few)}."
        ),
        one_agent == 1.0,
    )


def fewer_agents_more_likely(table: Table, _settings: Settings) -> Claim:
    """Section VII-A: fewer agents are more likely to meet the conditions for ASUP."""
    shares = table.series("public_rows", "agents", lambda cell: share(cell["achievable"] == 1))
    parts = [f"U = {int(rows)}: {' '.join(map(percent, each))}" for rows, each in shares.items()]
    return Claim(
        "fig1",
        "A system with a smaller number of agents is more likely to fulfil the ASUP conditions.",
        f"Share of draws where ASUP is achievable, for S = {listed(table.levels('agents'))}: "
        f"{'; '.join(parts)}.",
        all(never_rises(each) and each[-1] < each[0] for each in shares.values()),
    )


def theorem_1_is_exact(table: Table, _settings: Settings) -> Claim:
    """Theorem 1, which section VII examines: necessary and sufficient for ASUP."""
    exact, printed = table["achievable"] == 1, table["printed_theorem"] == 1
    denied = int(np.sum(exact & ~printed))
    claimed = int(np.sum(~exact & printed))
    return Claim(
        "fig1",
        "Theorem 1 is necessary and sufficient for ASUP without prior information.",
        f"It denies ASUP in {denied} of the {int(exact.sum())} cases where privacy is unbounded at perfect "
        f"utility, and affirms it in {claimed} of the {int((~exact).sum())} where it is not: "
        + ("sufficient, but not necessary." if denied and not claimed else "as measured."),
        denied == 0 and claimed == 0,
    )


def falls_with_agents(table: Table, _settings: Settings) -> Claim:
    """Section VII-A: more agents, less privacy at perfect utility."""
    levels, means = table.levels("agents"), table.series("public_rows", "agents", _typical)
    parts = [f"U = {int(rows)}: {' '.join(map(shown, each))}" for rows, each in means.items()]
    cut = ((few, many) for few in levels for many in levels if many > few and many % few == 0)
    return Claim(
        _name(table),
        "The maximum privacy achievable descends as the number of agents S increases.",
        f"Means over draws{_truncation(table)} for S = {listed(levels)}: {'; '.join(parts)}. "
        f"Cutting agents into smaller ones raised it in {_raised(table, 'agents', cut)} pairs.",
        all(map(never_rises, means.values())),
    )


def falls_with_public_rows(table: Table, _settings: Settings) -> Claim:
    """Section VII-A: a longer public vector, less privacy at perfect utility."""
    falling = all(map(never_rises, table.series("agents", "public_rows", _typical).values()))
    raised = _raised(table, "public_rows", itertools.pairwise(table.levels("public_rows")))
    return Claim(
        _name(table),
        "The maximum privacy achievable descends as the length of the public vector U increases.",
        f"The mean{_truncation(table)} {'never rises' if falling else 'rises somewhere'} with U at any S; in single "
        f"draws one more public row raised the maximum in {raised} pairs.",
        falling,
    )


def less_freedom(table: Table, settings: Settings) -> Claim:
    """Section VII-A: larger S or U forces more agents to add no noise at all, and leaves less freedom."""
    stuck, free = (_means(table, table[each]) for each in ("agents_without_freedom", "free_directions"))
    readings = settings.readings
    expected = all(value == readings - min(s * u, readings) for (s, u), value in free.items())
    forced = [f"S = {int(s)}, U = {int(u)}" for (s, u), count in stuck.items() if count > 0]
    ordered = _falls_in_both(free) and _falls_in_both({key: -value for key, value in stuck.items()})
    return Claim(
        _name(table),
        "A larger S or U is likely to force more agents to have Θ_i = 0, and leaves less freedom for noise.",
        ("Free directions are N - S·U in every draw" if expected else "Free directions fall")
        + f" ({int(max(free.values()))} down to {int(min(free.values()))}). Agents without any freedom exist only at "
        f"{'; '.join(forced) or 'none of these sizes'}, where N_i <= U.",
        ordered,
    )


def not_close_to_limit(table: Table, _settings: Settings) -> Claim:
    """Section VII-A: with a prior, no maximum is close to ε^max."""
    means = _means(table, table["ceiling"] / table["limit"])
    close = [
        f"S = {int(s)}, U = {int(u)}: {percent(mean)}" for (s, u), mean in means.items() if mean >= _CLOSE
    ]
    top = max(means, key=lambda key: means[key])
    rest = max((mean for key, mean in means.items() if key[0] > 1), default=float("nan"))
    return Claim(
        "fig2",
        "None of the maximum privacy obtained under perfect utility is close to ε^max.",
        f"Mean of ceiling/ε^max: at most {percent(means[top])} (S = {int(top[0])}, U = {int(top[1])}), with more "
        f"than one agent at most {percent(rest)}. At least three quarters of ε^max: {'; '.join(close) or 'nowhere'}.",
        not close,
    )


def never_free_with_prior(table: Table, _settings: Settings) -> Claim:
    """Section VII-A: a random system with a prior does not achieve ASUP."""
    exact, printed = table["achievable"], table["printed_theorem"]
    return Claim(
        "fig2",
        "With prior information it is unlikely that a random system model achieves ASUP (Theorem 2).",
        f"Achievable in {int(exact.sum())} of {exact.size} cases by the exact test, in {int(printed.sum())} by "
        f"Theorem 2 as printed; they differ in {int(np.sum(exact != printed))}.",
        float(np.mean(exact)) < 0.05,
    )


def caption_limit(table: Table, _settings: Settings) -> Claim:
    """Caption of figure 2: ε^max is 74.1."""
    sample = table.where(agents=table.levels("agents")[0], public_rows=table.levels("public_rows")[0])
    limits = summarize(sample["limit"])
    low, high = limits.mean_band
    agrees = low <= CAPTION_LIMIT <= high
    least = f", least {number(float(sample['limit'].min()))}: the caption does not belong to the settings as printed"
    return Claim(
        "fig2",
        f"The maximum privacy threshold ε^max is {CAPTION_LIMIT}.",
        f"Mean {number(limits.mean)} (95 %: {number(low)} to {number(high)}), median {number(limits.median)}"
        f"{'' if agrees else least}.",
        agrees,
    )


def _name(table: Table) -> str:
    return "fig2" if np.all(np.isfinite(table["limit"])) else "fig1"


def _means(table: Table, values: Array) -> dict[tuple[float, float], float]:
    """(S, U) -> the mean over draws of what each row of the table has."""
    wide = Table((*table.columns, "value"), np.column_stack([table.values, values]))
    found = wide.series("agents", "public_rows", lambda cell: float(np.mean(cell["value"])))
    rows = table.levels("public_rows")
    return {(s, u): mean for s, means in found.items() for u, mean in zip(rows, means, strict=True)}


def _typical(cell: Table) -> float:
    """The mean of what the paper plots."""
    return float(np.mean(np.minimum(cell["ceiling"], TRUNCATED_AT if _name(cell) == "fig1" else np.inf)))


def _truncation(table: Table) -> str:
    return f" (truncated at {TRUNCATED_AT:g})" if _name(table) == "fig1" else ""


def _raised(table: Table, column: str, pairs: Iterator[tuple[float, float]]) -> str:
    """In how many draws the ceiling is higher at the second of two levels of a column than at the first."""
    raised = []
    for first, second in pairs:
        before, after = (table.where(**{column: level})["ceiling"] for level in (first, second))
        raised.append(after > before * (1 + 1e-9))
    return f"{int(np.sum(raised))} of {sum(each.size for each in raised)}"


def _falls_in_both(values: dict[tuple[float, float], float]) -> bool:
    agents, rows = sorted({key[0] for key in values}), sorted({key[1] for key in values})
    return all(never_rises([values[s, u] for s in agents]) for u in rows) and all(
        never_rises([values[s, u] for u in rows]) for s in agents
    )
