"""``veilnet doctor``: what is installed here, what works, and what to do about the rest."""

from __future__ import annotations

from veilnet.cli._command_line import JSON
from veilnet.cli._shared import print_json, tell


def command(json: bool = JSON) -> int:
    """Check this machine: packages, extras, BLAS, entropy, clock, disks, browser, broker.

    Every problem comes with its remedy. Exit code 0: veilnet works here, perhaps without optional parts; 1: it does
    not, or no agent should send from here.
    """
    from dataclasses import asdict

    from veilnet.cli._health import findings

    found = list(findings())
    broken = [each.what for each in found if each.state == "problem"]
    if json:
        print_json({"ok": not broken, "findings": [asdict(each) for each in found]})
    else:
        width = max(len(each.what) for each in found)
        for each in found:
            mark = {"ok": "ok      ", "note": "note    ", "problem": "PROBLEM "}[each.state]
            tell(f"{mark}{each.what:<{width}}  {each.found}")
            if each.advice:
                tell(f"        {'':<{width}}  → {each.advice}")
        tell(f"Not in order: {', '.join(broken)}." if broken else "veilnet works here.")
    return 1 if broken else 0
