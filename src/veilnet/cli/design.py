"""``veilnet design``: find what each agent should send."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import veilnet as vn
from veilnet.cli._command_line import (
    JSON,
    PAPER,
    PRIVACY,
    PRIVATE_ERROR,
    PUBLIC_ERROR,
    SUMMED,
    UTILITY_LOSS,
    VERBOSE,
    argument,
    option,
)
from veilnet.cli._options import in_options
from veilnet.cli._shared import (
    amounts,
    asked_for,
    fraction,
    groups,
    print_json,
    progress,
    show,
    table,
    tell_next,
)

if TYPE_CHECKING:
    from rich.table import Table

    from veilnet.auditing.what_if.wrong_models import Robustness
    from veilnet.model.network import Network
    from veilnet.plans.plan import Plan

_GIVE_UP = option(
    "--give-up", "Private parameter that may be protected less than it is for free (repeat).", metavar="NAME"
)
_MODEL_ERROR = option(
    "--model-error",
    "Relative error of the model's entries, 5% or 0.05; the plan is best on average over it.",
    metavar="FRACTION",
)
_GAP_PRIVACY = option(
    "--gap-privacy",
    "Streams: fraction of every private error kept around a missed row and at a start, 99% or 0.99.",
    metavar="FRACTION",
)


def command(
    network: Path = argument("Network file (.toml, .json, .npz)."),
    private_error: list[str] | None = PRIVATE_ERROR,
    public_error: str | None = PUBLIC_ERROR,
    privacy: list[str] | None = PRIVACY,
    utility_loss: str | None = UTILITY_LOSS,
    give_up: list[str] | None = _GIVE_UP,
    power: list[str] | None = option(
        "--power", "Noise only: largest noise power, 1e4, or kitchen=1e4 (repeat)."
    ),
    summed: list[str] | None = SUMMED,
    method: str = option("--method", "auto, perfect, noise, power, joint or alternating.", default="auto"),
    partial: bool = option("--partial", "With --method noise: accept less than asked where it is not free."),
    prove: bool = option(
        "--prove", "Trade-offs: prove how far the plan is from the best linear one, to 1 % if possible."
    ),
    gap: float | None = option("--gap", "With --prove: the gap to prove, 0.01 for 1 %.", metavar="NUMBER"),
    model_error: str | None = _MODEL_ERROR,
    step: str | None = option(
        "--step",
        "Time between rows, such as 15min: agents send at most one reading per step.",
        metavar="DURATION",
    ),
    gap_privacy: str | None = _GAP_PRIVACY,
    bits: str | None = option(
        "--bits",
        "Fewest bits per row: how much rounding may raise the public error, 0.1% or 0.001.",
        metavar="FRACTION",
    ),
    accept: list[str] | None = option(
        "--accept", "Doubt of the fit to accept, by name (repeat); the plan records it."
    ),
    out: Path | None = option("--out", "Folder for the plan, or plan.npz for a single file."),
    force: bool = option("--force", "Replace a plan of another network."),
    paper: bool = PAPER,
    verbose: bool = VERBOSE,
    json: bool = JSON,
) -> None:
    """Find what each agent should send. Without a target: the most privacy at no public loss.

    No parameter is protected less than it would be for free, unless --give-up names it.
    """
    from veilnet.io.plan_reading import check_destination

    request: dict[str, Any] = {
        **asked_for(privacy, private_error, utility_loss, public_error),
        "give_up": tuple(give_up or ()),
        "power": amounts(power, "--power"),
    }
    error = fraction(model_error, "--model-error")
    model = _loaded(network, accept, step, groups(summed))
    if error is not None:
        stated, model = model, model.replace(model_error=error)
    if out is not None:
        check_destination(out, model, force=force)
    request |= {
        "method": method,  # design() names the methods it knows
        "partial": partial,
        "gap_privacy": fraction(gap_privacy, "--gap-privacy"),
        "bits": fraction(bits, "--bits"),
    }
    with progress("designing", total=1.0) as steps:
        plan = vn.design(model, **request, prove=prove if gap is None else gap, progress=steps.reached)
    tried = None if error is None else _tried(stated, plan, error, request)
    replaced = out is not None and _save(plan, out, force=force)
    if json:
        print_json(_as_document(plan, tried) | {"saved": out, "replaced": replaced})
    else:
        met = _met_already(request["privacy"], plan)
        _tell(plan, tried, out, met, replaced=replaced, paper=paper, verbose=verbose)


def _met_already(privacy: Any, plan: Plan) -> list[str]:
    """The private parameters of which an error in units was asked that raw readings have anyway."""
    from veilnet.designs.questions import AtLeast

    asked = privacy if isinstance(privacy, dict) else dict.fromkeys(plan.targets, privacy)
    return [name for name, each in asked.items() if isinstance(each, AtLeast) and plan.targets[name] == 0]


def _loaded(path: Path, accept: list[str] | None, step: str | None, summed: Any) -> Network:
    """The network of a file, with the doubts that were accepted, the step and the groups that were given."""
    from veilnet.model.stream_size import with_step
    from veilnet.sums.merging import merged, read_summed

    model = vn.Network.load(path)
    if accept:
        model = model.accepting(accept)
    if summed is not None:
        model = merged(model, read_summed(summed))
    return model if step is None else with_step(model, step, "--step")


def _save(plan: Plan, out: Path, *, force: bool) -> bool:
    """Whether another plan was there, which this one replaces."""
    before = _in_service(out)
    plan.save(out, force=force)
    return before not in (b"", _in_service(out))


def _tell(
    plan: Plan,
    tried: dict[str, Robustness] | None,
    out: Path | None,
    met: list[str],
    *,
    replaced: bool,
    paper: bool,
    verbose: bool,
) -> None:
    """What was found, for people."""
    from veilnet._core.words import join_names
    from veilnet.cli._views import how_found, paper_line, sending_table

    show(in_options(str(plan), "design"))
    if met:
        show(
            f"The error asked for {join_names(met)} is below that of raw readings, so it asks for nothing; "
            "write 2x for twice the raw error."
        )
    if paper:
        show(paper_line(plan.utility, plan.privacy))
    if verbose:
        show(sending_table(plan))
        show(how_found(plan))
    if tried is not None:
        show(_robustness_table(tried))
    show("Every promise was recomputed from the network and the sanitizers, and confirmed.")
    if out is not None:
        show(_written(out))
    if replaced:
        show(
            "It replaces an earlier plan: agents and the centre need the new files. Stream agents with the same "
            "memory continue; others restart."
        )
    if out is not None:
        tell_next("audit" if out.is_dir() else "verify", out)


_OF_STREAMS = ("kept", "privacy_now", "privacy_with_gaps")


def _as_document(plan: Plan, tried: dict[str, Robustness] | None) -> dict[str, Any]:
    from veilnet.bounds.typical_errors import typical_errors
    from veilnet.cli._views import detectability_json

    return {
        "method": plan.method,
        "utility": plan.utility,
        "privacy": plan.privacy,
        "errors": typical_errors(plan.network, plan.sanitizers, privacy=plan.privacy),
        "floors": plan.floors,
        "gap": plan.gap,
        "worst_direction": plan.worst_direction,
        "detectability": detectability_json(plan.detectability),
        "sent": plan.sent,
        **{name: getattr(plan, name) for name in _OF_STREAMS if plan.network.is_stream},
        **({} if plan.rounding is None else {"rounding": plan.rounding}),
        "notes": plan.notes(),
        "doubts": plan.network.doubts,
        "certificate": {"ok": plan.certificate.ok, "findings": plan.certificate.findings},
        "details": plan.details,
        **({} if tried is None else {"model_error": tried}),
    }


def _in_service(out: Path) -> bytes:
    """What says which plan is there: the centre's file, or the whole plan; nothing where there is none."""
    from veilnet.io.plan_archives import is_archive

    path = out if is_archive(out) else out / "center.json"
    return path.read_bytes() if path.is_file() else b""


def _written(out: Path) -> str:
    from veilnet.io.plan_archives import is_archive

    if is_archive(out):
        what = f"the whole plan; 'veilnet extract {out} AGENT' takes an agent's own file from it"
    else:
        what = "one file per agent, center.json for the centre, plan.json for you"
    return f"Wrote {out}: {what}."


def _tried(stated: Network, plan: Plan, error: float, request: dict[str, Any]) -> dict[str, Robustness]:
    """The plan and the one for the model as it was stated, on the same random true models."""
    from veilnet.auditing.what_if.wrong_models import robustness

    trusting = vn.design(stated, **request)
    return {
        "model trusted": robustness(trusting, error),
        f"model off by {100 * error:g} %": robustness(plan, error),
    }


def _robustness_table(tried: dict[str, Robustness]) -> Table:
    from veilnet._core.words import times

    first, rows = next(iter(tried.values())), []
    for label, found in tried.items():
        worst = (1 + found.privacy_worst[name] for name in first.privacy_worst)
        rows.append([label, *map(times, (found.public_average, found.public_worst, *worst))])
    private = [f"{name}, least" for name in first.privacy_worst]
    return table(
        ["plan made for", "public error, average", "worst", *private],
        rows,
        title=f"On {first.draws} random true models, off by {100 * first.error:g} %: standard errors grow",
    )
