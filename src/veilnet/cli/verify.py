"""``veilnet verify``: recompute what a saved plan promises."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from veilnet.cli._command_line import ACCEPT, JSON, PAPER, VERBOSE, argument
from veilnet.cli._shared import print_json, show, table, tell, tell_next
from veilnet.model.doubts import Doubt, accepted, doubt_notes

if TYPE_CHECKING:
    from veilnet.bounds.detectability import Detectability
    from veilnet.model.network import Network
    from veilnet.plans.verification import SavedPlan


def command(
    plan: Path = argument("Plan folder, or plan.npz."),
    network: Path | None = argument("Network file you trust; by default the plan's own.", default=None),
    accept: list[str] | None = ACCEPT,
    paper: bool = PAPER,
    verbose: bool = VERBOSE,
    json: bool = JSON,
) -> int:
    """Recompute every promise of a saved plan from scratch, on a network you trust.

    Checks that the plan was made for exactly this network, that all agent files and the centre's match it, that the
    release grids fit the noise, and that all standard errors are as promised. For a plan of symbols, certificates
    are recomputed from their counts. Exit code 0: confirmed; 1: not confirmed; 2: unreadable.
    """
    from veilnet._core.words import join_names
    from veilnet.bounds.detectability import detectability, secrets_headlines
    from veilnet.cli._symbols import is_symbols, refuse_other, verify_symbols
    from veilnet.cli._views import check_rows, detectability_json, paper_line
    from veilnet.io.plan_reading import read_plan_folder
    from veilnet.model.network import Network
    from veilnet.plans.verification import verify
    from veilnet.verdict.notes import notes_on_readings

    if is_symbols(plan):
        refuse_other({"network": network, "--accept": accept})
        return verify_symbols(plan, json=json)
    trusted = None if network is None else Network.load(network)
    saved = read_plan_folder(plan)
    doubts = accepted(_doubts(saved.network, trusted), accept or [])
    checks = verify(plan, trusted)
    notes = notes_on_readings(saved.network, saved.sanitizers)
    ok = all(check.ok for check in checks)
    if json:
        found = detectability_json(detectability(saved.network, saved.sanitizers)) if ok else {}
        print_json(
            {"ok": ok, "trusted_network": network, "checks": checks, "notes": notes, "doubts": doubts}
            | {"detectability": found}
        )
    else:
        secrets = detectability(saved.network, saved.sanitizers) if ok else {}
        for sentence in (warned := secrets_headlines(saved.network, secrets)):
            tell(sentence)
        confirmed = f"Every promise is confirmed{', in the model' if warned else ''} ({len(checks)} checks)."
        show(confirmed if ok else "NOT confirmed: do not use this plan.")
        for name, seen in secrets.items():
            tell(f"{name}: {seen.in_words(saved.network.unit(name))}.")
        shown = [check for check in checks if verbose or not check.ok]
        if shown:
            rows = check_rows(shown, join_names(list(saved.network.public)))
            show(table(["what", "promised", "found", "confirmed"], rows))
        for check in checks:
            if check.note and check.note not in notes:
                show(f"- {check.what}: {check.note}")
        if ok:
            show(_errors(saved, secrets))
        if paper:
            show(paper_line(saved.promise.utility, saved.promise.privacy))
        if network is None:
            show(
                f"The plan's own network was trusted; 'veilnet verify {plan} NETWORK' checks it against yours."
            )
        for note in (*notes, *doubt_notes(doubts)):
            tell(note)
        if ok and plan.is_dir():
            tell_next("audit", plan)
    return 0 if ok else 1


def _doubts(planned: Network, trusted: Network | None) -> tuple[Doubt, ...]:
    """Those of the trusted network, or else of the plan's own; what was accepted for the plan stays so."""
    if trusted is None:
        return planned.doubts
    known = {doubt.name for doubt in trusted.doubts}
    return accepted(trusted.doubts, [d.name for d in planned.doubts if d.accepted and d.name in known])


def _errors(saved: SavedPlan, secrets: Mapping[str, Detectability]) -> str:
    """What the centre is off by under the plan."""
    from veilnet.bounds.typical_errors import beside_errors, error_lines, typical_errors

    errors = typical_errors(saved.network, saved.sanitizers, privacy=saved.promise.privacy)
    seen = {name: f"AUC {each.auc:.3f}" for name, each in secrets.items()}
    lines = error_lines(error.cells(seen.get(error.name, "")) for error in errors.values())
    return "\n".join([*lines, *beside_errors(errors.values())])
