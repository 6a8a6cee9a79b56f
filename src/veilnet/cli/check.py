"""``veilnet check``: can privacy be free here, and who stands in the way?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilnet.cli._command_line import JSON, SUMMED, argument, option

if TYPE_CHECKING:
    from veilnet.model.network import Network
    from veilnet.verdict.exact_test import Verdict


def command(
    network: Path = argument("A network file, .toml, .json or .npz; or a plan of symbols."),
    explain: bool = option(
        "--explain", "Say what the paper's theorem says, and how close the decisions were."
    ),
    accept: list[str] | None = option(
        "--accept", "A doubt of the fit that need not be repeated, by its name (repeat)."
    ),
    summed: list[str] | None = SUMMED,
    json: bool = JSON,
) -> None:
    """Say how much privacy is free in this network, and which agents stand in the way of more.

    With --summed: what it buys that the centre sees only sums of messages, and what one agent on its side undoes.
    Of a plan of symbols: how much of what it promises is due to what agents say, and how much to few rows.
    """
    import veilnet as vn
    from veilnet.bounds.typical_errors import typical_errors
    from veilnet.cli._shared import console, print_json
    from veilnet.cli._symbols import is_symbols
    from veilnet.cli._views import detectability_json
    from veilnet.io.fit_reports import report_path

    if is_symbols(network):
        _check_symbols(network, json=json)
        return
    model = vn.Network.load(network)
    if summed:
        _check_sums(model.accepting(accept) if accept else model, summed, json=json)
        return
    verdict = vn.check(model.accepting(accept) if accept else model)
    intervals = _intervals(verdict, network)
    if json:
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
                "numbers_to_send": dict(
                    zip(verdict.network.agents, verdict.shares.ranks.tolist(), strict=True)
                ),
                "notes": verdict.notes(),
                "smallest_part_kept": verdict.shares.kept,
                "largest_part_dropped": verdict.shares.dropped,
            }
            | _beside(verdict)
        )
        return
    console.print(str(verdict))
    for name, (low, high, level) in (intervals or {}).items():
        if name in verdict.detectability:
            continue  # of a secret, the growth of an error misleads
        console.print(
            f"{name}: the rows of the fit leave open how much is free, {100 * level:.0f} % interval "
            f"{(1 + low) ** 0.5:.3g}x to {(1 + high) ** 0.5:.3g}x ({report_path(network).name})."
        )
    if explain:
        console.print(verdict.explain())
    if intervals is None:
        console.print(
            f"{report_path(network).name} is about another network: no intervals. Fit again for new ones."
        )


def _check_sums(model: Network, summed: list[str], *, json: bool) -> None:
    """Shares against sums against silence, with and without agents who help the centre."""
    from dataclasses import asdict

    from veilnet.cli._shared import console, groups, print_json, table, tell
    from veilnet.sums.comparing import HEADINGS, MEANING, compared
    from veilnet.sums.merging import read_summed

    found = compared(model, read_summed(groups(summed)))
    if json:
        print_json({each.name: asdict(each) for each in found})
        return
    console.print(table(list(HEADINGS), [each.row() for each in found]))
    tell(MEANING)


def _check_symbols(folder: Path, *, json: bool) -> None:
    """What can be promised from so many rows: of silence, of what was counted, and from four times as many rows."""
    from dataclasses import replace

    from veilnet.cli._shared import console, print_json, table, tell
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
    console.print(table(heads, [[name, *(f"{x:.3f}" for x in row.values())] for name, row in found.items()]))
    tell(
        "How often anybody may be right, at most. No plan can be promised less than silence from so many rows. What "
        "was counted is what agents say; the rest of the promise is doubt, which more rows would lower."
    )


def _intervals(verdict: Verdict, network: Path) -> dict[str, tuple[float, float, float]] | None:
    """What the report beside the network says of its promises; None where it is about another network."""
    from veilnet.auditing.fingerprint import network_fingerprint
    from veilnet.io.fit_reports import load_intervals, report_path

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
    theorem = verdict.printed_theorem
    return {
        "printed_theorem": {
            "number": theorem.number,
            "achievable": theorem.achievable,
            "agents": theorem.agents,
        }
    }
