"""``veilnet check``: can privacy be free here, and who stands in the way?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilnet.cli._command_line import JSON, argument, option

if TYPE_CHECKING:
    from veilnet.verdict.exact_test import Verdict


def command(
    network: Path = argument("A network file, .toml, .json or .npz."),
    explain: bool = option(
        "--explain", "Say what the paper's theorem says, and how close the decisions were."
    ),
    accept: list[str] | None = option(
        "--accept", "A doubt of the fit that need not be repeated, by its name (repeat)."
    ),
    json: bool = JSON,
) -> None:
    """Say how much privacy is free in this network, and which agents stand in the way of more."""
    import veilnet as vn
    from veilnet.bounds.typical_errors import typical_errors
    from veilnet.cli._shared import console, print_json
    from veilnet.cli._views import detectability_json
    from veilnet.io.fit_reports import report_path

    model = vn.Network.load(network)
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
            f"The rows the network was fitted to leave open how much of {name} is free: its error variance grows "
            f"{1 + low:.3g} to {1 + high:.3g}-fold ({100 * level:.0f} % sure, from {report_path(network).name})."
        )
    if explain:
        console.print(verdict.explain())
    if intervals is None:
        console.print(
            f"{report_path(network).name} is about another network: no intervals. Fit again for new ones."
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
