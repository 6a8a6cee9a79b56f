"""The office, audited: what attackers learn of occupancy from raw readings and from what three plans send.

    python examples/office_audit.py FOLDER

FOLDER holds ``training.csv`` and ``test2.csv`` as for ``office.py``. The network is fitted to the first log; every
plan is audited on the second. Printed is the table of the audit page, in Markdown, and what each audit concludes.
Needs scikit-learn, and some minutes.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from office import AGENTS, PRIVATE, PUBLIC, load

import veilnet as vn
from veilnet.auditing import Audit


def plans(network: vn.Network) -> dict[str, vn.Plan]:
    """A plan that costs nothing, one that costs half of the public variance again, and one that hides nearly all."""
    limit = vn.privacy_limit(network)[PRIVATE]
    return {
        "free": vn.design(network),
        "utility loss 0.5": vn.design(network, utility_loss=0.5),
        "hides 99.9 %": vn.design(network, privacy={PRIVATE: 0.999 * limit}),
    }


def main(folder: Path) -> None:
    """Print the table and the conclusions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vn.DoubtfulModel)
        network = vn.fit(load(folder / "training.csv"), AGENTS, PUBLIC, PRIVATE)
    reports = {
        name: vn.audit(plan, folder / "test2.csv", only=["attackers"])
        for name, plan in plans(network).items()
    }
    print(table(reports))
    for name, report in reports.items():
        print(f"\n{name}: {report.conclusion()}")


def table(reports: dict[str, Audit]) -> str:
    """One line per attacker: guessing and raw, then promised, sent and the verdict of every plan."""
    first = next(iter(reports.values()))
    heads = [f"{name}: {what}" for name in reports for what in ("promised", "sent", "verdict")]
    lines = [f"| | guessing | raw | {' | '.join(heads)} |", "|---" * (3 + len(heads)) + "|"]
    for place, row in enumerate(first.rows):
        cells = [row.what, row.shown["guessing"], row.shown["raw"]]
        for report in reports.values():
            other = report.rows[place]
            word = {"ok": "holds", "fail": "**broken**"}.get(other.verdict, other.verdict)
            cells += [other.shown.get("promised", ""), other.shown["sent"], word]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
