"""``veilnet check``: can privacy be free here, and who stands in the way?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import veilnet as vn
from veilnet.cli._command_line import ACCEPT, JSON, PAPER, PLOT, SUMMED, VERBOSE, argument
from veilnet.cli._shared import check_plot, groups, print_json, show, table, tell, tell_next, write_plot

if TYPE_CHECKING:
    from veilnet.bounds.typical_errors import TypicalError
    from veilnet.model.network import Network
    from veilnet.verdict.exact_test import Verdict


def command(
    network: Path = argument("Network file (.toml, .json, .npz), or a plan of symbols."),
    accept: list[str] | None = ACCEPT,
    summed: list[str] | None = SUMMED,
    paper: bool = PAPER,
    plot: Path | None = PLOT,
    verbose: bool = VERBOSE,
    json: bool = JSON,
) -> None:
    """Report how much privacy is free in this network, and which agents limit it.

    -v adds the paper's theorem and how close the decisions were. --summed compares individual messages with sums,
    with and without one agent that helps the centre. For a plan of symbols: how much of its promise is due to the
    symbols, and how much to sampling error.
    """
    from veilnet.bounds.typical_errors import typical_errors
    from veilnet.cli._symbols import is_symbols
    from veilnet.cli._views import detectability_json, paper_line
    from veilnet.io.fit_reports import report_path

    check_plot(plot)
    if is_symbols(network):
        _check_symbols(network, json=json)
        return
    model = vn.Network.load(network)
    if summed:
        _check_sums(model.accepting(accept) if accept else model, summed, json=json)
        return
    verdict = vn.check(model.accepting(accept) if accept else model)
    intervals = _intervals(verdict, network)
    write_plot(plot, "errors", _errors(verdict))
    if json:
        sent = zip(verdict.network.agents, verdict.shares.ranks.tolist(), strict=True)
        print_json(
            {
                "achievable": verdict.achievable,
                "ceiling": verdict.ceiling,
                "intervals": intervals or {},
                "limit": verdict.limit,
                "errors": typical_errors(verdict.network, privacy=verdict.ceiling),
                "detectability": detectability_json(verdict.detectability),
                "shortfall": verdict.shortfall,
                "blocking": verdict.blocking,
                "numbers_to_send": dict(sent),
                "notes": verdict.notes(),
                "smallest_part_kept": verdict.shares.kept,
                "largest_part_dropped": verdict.shares.dropped,
            }
            | _beside(verdict)
        )
        return
    show(str(verdict))
    if paper:
        show(paper_line(0.0, verdict.ceiling))
        show(f"If nothing is sent, p: {', '.join(f'{k} {v:.4g}' for k, v in verdict.limit.items())}.")
    for name, (low, high, level) in (intervals or {}).items():
        if name in verdict.detectability:
            continue  # of a secret, the growth of an error misleads
        show(
            f"{name}: free growth, {100 * level:.0f} % interval from the calibration rows: "
            f"{(1 + low) ** 0.5:.3g}x to {(1 + high) ** 0.5:.3g}x ({report_path(network).name})."
        )
    if verbose:
        show(verdict.explain())
    if intervals is None:
        show(f"{report_path(network).name} is about another network: no intervals. Fit again for new ones.")
    tell_next("design", network, "--out", "plan/")


def _errors(verdict: Verdict) -> list[TypicalError]:
    """Standard errors of the private parameters under the free plan."""
    from dataclasses import replace

    from veilnet.bounds.typical_errors import typical_errors

    found = typical_errors(verdict.network).values()
    return [
        replace(each, sent=each.raw * (1 + verdict.ceiling[each.name]) ** 0.5 if each.private else each.raw)
        for each in found
    ]


def _check_sums(model: Network, summed: list[str], *, json: bool) -> None:
    """Shares against sums against silence, with and without agents who help the centre."""
    from dataclasses import asdict

    from veilnet.sums.comparing import HEADINGS, MEANING, compared
    from veilnet.sums.merging import read_summed

    found = compared(model, read_summed(groups(summed)))
    if json:
        print_json({each.name: asdict(each) for each in found})
        return
    show(table(list(HEADINGS), [each.row() for each in found]))
    tell(MEANING)


def _check_symbols(folder: Path, *, json: bool) -> None:
    """What can be promised from so many rows: of silence, of what was counted, and from four times as many rows."""
    from dataclasses import replace

    from veilnet.symbols.deviation import highest_mean
    from veilnet.symbols.plan import SymbolPlan

    plan = SymbolPlan.load(folder)
    found: dict[str, dict[str, float]] = {}
    for name, each in plan.certificate.items():
        if each.guessed is None:  # of a number the promise is an error, which "verify" shows
            continue
        sample, level = each.sample, 1 - each.confidence
        more = replace(sample, rows=4 * sample.rows, blocks=4 * sample.blocks)
        found[name] = {
            "guessing": each.chance,
            "silence": each.expected(each.chance),
            "counted": each.counted,
            "promised": each.guessed,
            "with_four_times_the_rows": highest_mean(more.rows * each.counted, more, level),
        }
    if json:
        print_json(found)
        return
    tell(plan)
    heads = ["private", "guessing", "promised of silence", "counted", "promised", "with 4 x the rows"]
    show(table(heads, [[name, *(f"{x:.3f}" for x in row.values())] for name, row in found.items()]))
    tell(
        "How often anybody may be right, at most. No plan can be promised less than silence from so many rows. What "
        "was counted is what agents say; the rest of the promise is doubt, which more rows would lower."
    )


def _intervals(verdict: Verdict, network: Path) -> dict[str, tuple[float, float, float]] | None:
    """What the report beside the network says of its promises; None where it is about another network."""
    from veilnet.io.fit_reports import load_intervals, report_path
    from veilnet.plans.fingerprint import network_fingerprint

    beside = report_path(network)
    return load_intervals(beside, network_fingerprint(verdict.network)) if beside.is_file() else {}


def _beside(verdict: Verdict) -> dict[str, Any]:
    """What only rows have, the paper's theorem, or only streams: memories, and what is hidden now or for ever."""
    from veilnet.verdict.streams.exact_test import StreamVerdict

    if isinstance(verdict, StreamVerdict):
        return {
            "ceiling_now": verdict.ceiling_now,
            "ceiling_with_gaps": verdict.ceiling_with_gaps,
            "numbers_to_keep": verdict.shares.orders,
            "hidden_for_ever": verdict.hidden.T.tolist(),
        }
    names = ("number", "achievable", "agents")
    return {"printed_theorem": {name: getattr(verdict.printed_theorem, name) for name in names}}
