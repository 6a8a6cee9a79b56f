"""``veilnet design``: find what each agent should send."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer


def command(
    network: Annotated[Path, typer.Argument(help="A network file: .toml, .json or .npz.")],
    privacy: Annotated[
        list[str] | None,
        typer.Option(
            "--privacy",
            help="Privacy to reach: 10, or gait=10 (repeat); gait=worst:10 asks it of every direction of gait. "
            "Least utility loss.",
        ),
    ] = None,
    utility_loss: Annotated[
        str | None,
        typer.Option("--utility-loss", metavar="NUMBER", help="Loss allowed, 0.05 is 5 %. Most privacy."),
    ] = None,
    power: Annotated[
        list[str] | None,
        typer.Option("--power", help="Largest noise power: 1e4, or kitchen=1e4 (repeat). Noise only."),
    ] = None,
    method: Annotated[
        str, typer.Option("--method", help="auto, perfect, noise, power, joint or alternating.")
    ] = "auto",
    partial: Annotated[
        bool, typer.Option("--partial", help="With --method noise: take less than asked where not free.")
    ] = False,
    prove: Annotated[
        bool,
        typer.Option("--prove", help="Trade-offs: prove how far from the best possible the plan is, to 1 %."),
    ] = False,
    gap: Annotated[
        float | None,
        typer.Option("--gap", metavar="NUMBER", help="With --prove: the gap to prove, 0.01 is 1 %."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to write the plan to.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Let --out replace the plan of another network.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Find what each agent should send; without a target, the most privacy at perfect utility."""
    import veilnet as vn
    from veilnet.cli._shared import amounts, console, print_json, progress, targets
    from veilnet.cli._views import plan_table, sending_table
    from veilnet.io.plan_reading import check_destination

    loss = _loss(utility_loss)
    model = vn.Network.load(network)
    if out is not None:
        check_destination(out, model, force=force)
    with progress("designing", total=1.0) as steps:
        plan = vn.design(
            model,
            privacy=targets(privacy, "--privacy"),
            utility_loss=loss,
            power=amounts(power, "--power"),
            method=cast(Any, method),  # design() names the methods it knows
            partial=partial,
            prove=prove if gap is None else gap,
            progress=lambda _what, part: steps.update(part),
        )
    if out is not None:
        plan.save(out, force=force)
    if json:
        print_json(
            {
                "method": plan.method,
                "utility": plan.utility,
                "privacy": plan.privacy,
                "gap": plan.gap,
                "worst_direction": plan.worst_direction,
                "sent": plan.sent,
                **({"kept": plan.kept, "privacy_now": plan.privacy_now} if model.is_stream else {}),
                "notes": plan.resolution_notes(),
                "certificate": {"ok": plan.certificate.ok, "findings": plan.certificate.findings},
                "details": plan.details,
                "saved": out,
            }
        )
        return
    console.print(str(plan))
    console.print(plan_table(plan))
    console.print(sending_table(plan))
    console.print("Every promise was recomputed from the network and the sanitizers alone, and confirmed.")
    if out is not None:
        console.print(f"Wrote {out}: one file per agent, center.json for the centre, plan.json for you.")


def _loss(text: str | None) -> float | None:
    """The utility loss as a number; a percentage is not guessed at."""
    from veilnet._core.errors import InvalidRequest

    try:
        return None if text is None else float(text)
    except ValueError:
        raise InvalidRequest(
            f"--utility-loss: expected a number, where 0.05 is 5 %, found {text!r}"
        ) from None
