"""``veilnet check``: can privacy be free here, and who stands in the way?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from veilnet.verdict.exact_test import Verdict


def command(
    network: Annotated[Path, typer.Argument(help="A network file: .toml, .json or .npz.")],
    json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Say how much privacy is free in this network, and which agents stand in the way of more."""
    import veilnet as vn
    from veilnet.cli._shared import console, print_json
    from veilnet.cli._views import verdict_table

    verdict = vn.check(vn.Network.load(network))
    if json:
        print_json(
            {
                "achievable": verdict.achievable,
                "ceiling": verdict.ceiling,
                "limit": verdict.limit,
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
    console.print(verdict_table(verdict))


def _beside(verdict: Verdict) -> dict[str, Any]:
    """What only rows have, the paper's theorem, or only streams: memories, and what is hidden now or for ever."""
    from veilnet.verdict.streams.exact_test import StreamVerdict

    if isinstance(verdict, StreamVerdict):
        return {
            "ceiling_now": verdict.ceiling_now,
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
