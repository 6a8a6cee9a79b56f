"""``results/README.md``: claim by claim, what the paper says, what was measured, agree or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from veilnet._core.words import number
from veilnet.paper._claim import Claim, first_draws, shown
from veilnet.paper._claims_privacy import TRUNCATED_AT
from veilnet.paper.settings import Settings
from veilnet.paper.tables import Summary, Table, summarize

_TITLES = {
    "fig1": "Figure 1: most privacy at perfect utility, no prior",
    "fig2": "Figure 2: most privacy at perfect utility, with prior",
    "fig3": "Figure 3: utility against privacy",
    "fig4": "Figure 4: iterations",
}


def readme(settings: Settings, tables: Mapping[str, Table], claims: Sequence[Claim]) -> str:
    """The whole text."""
    lines = [
        "# The paper's numerical section, repeated",
        "",
        f"Written by `veilnet reproduce` ({settings.draws} draws, seed {settings.seed}). Do not edit: the next "
        "run writes it anew.",
        "",
        *_what_was_drawn(settings),
        "",
        "## Claim by claim",
        "",
        "| | the paper says | measured | agree |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {claim.figure} | {claim.says} | {claim.measured} | {claim.verdict.replace('no', '**no**')} |"
        for claim in claims
    ]
    for name, table in tables.items():
        lines += ["", f"## {_TITLES[name]}", "", f"![{_TITLES[name]}]({name}.svg)", ""]
        lines += [f"Every draw: [{name}.csv]({name}.csv).", "", *_TABLES[name](table, settings)]
    return "\n".join(lines) + "\n"


def _what_was_drawn(settings: Settings) -> Iterator[str]:
    long = min(settings.long_draws, settings.draws)
    yield (
        f"As printed in section VII: N = {settings.readings}, N_i = N/S, L = {settings.parameters}; R = AA' with A, "
        f"H, U and G uniform on ±0.5; G with {settings.private_rows} rows shared by all agents, P0 = AA' with A "
        "uniform on ±10."
    )
    yield ""
    yield "Where the paper does not say, this was chosen:"
    yield ""
    yield (
        "- one draw serves every S (its readings cut into more pieces) and every U (its first rows); "
        "points of one curve then differ by what they are about and not by chance;"
    )
    yield (
        f"- figures 3 and 4: U = {settings.tradeoff_public_rows}, with prior (without one the start of Algorithm 3 "
        f"does not exist), figure 4 for S = {', '.join(str(s) for s in settings.tradeoff_agents)} as figure 3;"
    )
    yield (
        f"- Algorithm 3 runs {settings.tradeoff_sweeps} sweeps in figure 3 and {settings.sweeps} in figure 4"
        + (
            f", and {settings.long_sweeps} in both for {first_draws(long)}: a claim that fails with the fewer and "
            "holds with the more says so;"
            if long
            else ";"
        )
    )
    yield (
        f"- the joint solver runs from {settings.starts} of its own starts (every agent sends only its share) in "
        "figure 4; in figure 3 also from Algorithm 3's answer and from the next point of the curve; these are fewer "
        "starts than `veilnet design` takes, so its losses here are upper bounds;"
    )
    yield (
        "- bands are 95 % bootstrap intervals; where the mean lies outside the middle half of the draws a few of "
        "them rule it (marked *), and the median is what to read."
    )


def _privacy_table(table: Table, _settings: Settings) -> Iterator[str]:
    """Most privacy by S and U."""
    rows, bounded = table.levels("public_rows"), bool(np.all(np.isfinite(table["limit"])))

    def cell(draws: Table) -> str:
        ceilings = draws["ceiling"]
        text = _cell(summarize(ceilings if bounded else np.minimum(ceilings, TRUNCATED_AT)))
        return text if bounded else f"{text}; infinite: {100 * np.mean(np.isinf(ceilings)):.0f} %"

    yield "| S | " + " | ".join(f"U = {int(u)}" for u in rows) + " |"
    yield "|---|" + "---|" * len(rows)
    for agents, cells in table.series("agents", "public_rows", cell).items():
        yield f"| {int(agents)} | " + " | ".join(cells) + " |"
    yield ""
    yield "Mean (95 % band), median" + ("." if bounded else f", both truncated at {TRUNCATED_AT:g}.")
    if bounded:
        one = table.where(agents=table.levels("agents")[0], public_rows=rows[0])
        yield f"ε^max: {_cell(summarize(one['limit']))}."


def _tradeoff_table(table: Table, settings: Settings) -> Iterator[str]:
    """Losses by S and threshold."""
    few, many = settings.tradeoff_sweeps, settings.long_sweeps
    yield (
        f"| S | ε | loss of Algorithm 3, {few} sweeps (%) | loss of the joint solver (%) | draws "
        f"| Algorithm 3, {many} sweeps (%) | draws |"
    )
    yield "|---|---|---|---|---|---|---|"
    for agents in table.levels("agents"):
        own = table.where(agents=agents, at_ceiling=1)
        fixed = table.where(agents=agents, at_ceiling=0)
        cells = [(number(level), fixed.where(threshold=level)) for level in fixed.levels("threshold")]
        for label, rows in [*cells, (f"own ceiling ({number(summarize(own['ceiling']).median)})", own)]:
            alternating = summarize(100 * rows["alternating_loss"])
            joint = summarize(100 * rows["joint_loss"])
            longer = summarize(100 * rows["long_loss"])
            yield (
                f"| {int(agents)} | {label} | {_cell(alternating)} | {_cell(joint)} | {joint.count} "
                f"| {_cell(longer) if longer.count else ''} | {longer.count} |"
            )
    yield ""
    yield "Mean (95 % band), median. Draws whose ε^max lies below a threshold are left out of it."


def _iteration_table(table: Table, settings: Settings) -> Iterator[str]:
    """Losses of Algorithm 3 after some sweeps, and of the joint solver."""
    marks = [k for k in (1, 5, 10, 20, settings.sweeps) if k <= settings.sweeps]
    yield "| S | " + " | ".join(f"{k} sweep{'s' * (k > 1)} (%)" for k in marks) + " | joint solver (%) |"
    yield "|---|" + "---|" * (len(marks) + 1)
    for agents in table.levels("agents"):
        rows = table.where(agents=agents)
        cells = [_cell(summarize(100 * rows.where(iteration=k)["alternating_loss"])) for k in marks]
        ends = [rows.where(draw=draw)["joint_loss"] for draw in rows.levels("draw")]
        last = np.array([end[~np.isnan(end)][-1] for end in ends if not np.all(np.isnan(end))])
        yield f"| {int(agents)} | " + " | ".join([*cells, _cell(summarize(100 * last))]) + " |"
    yield ""
    yield (
        "Mean (95 % band), median of the utility loss. Every sweep of Algorithm 3 keeps the threshold; the joint "
        "solver's iterations may approach it from below, its answer keeps it."
    )


def _cell(summary: Summary) -> str:
    low, high = summary.mean_band
    star = "*" if summary.outliers_rule else ""
    return f"{shown(summary.mean)}{star} ({shown(low)} to {shown(high)}), {shown(summary.median)}"


_TABLES = {"fig1": _privacy_table, "fig2": _privacy_table, "fig3": _tradeoff_table, "fig4": _iteration_table}
