"""Most privacy at perfect utility, in closed form: send your share and nothing else.

Agent i sends Q_i'y_i, Q_i a basis of the row space of U Ψ_i: rank(U Ψ_i) numbers, without noise; on a stream it runs
its share filter, and the sum of what all send is the centre's own Kalman estimate. No mechanism that keeps perfect
utility, linear or not, tells less, now or with hindsight (mathematics, sections 3 and 7).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from veilnet.bounds.streams.gaps import GAP_PRIVACY
from veilnet.plans.asked import Asked
from veilnet.plans.plan import Plan, make_plan
from veilnet.verdict.exact_test import Verdict
from veilnet.verdict.streams.exact_test import StreamVerdict


def perfect_plan(
    verdict: Verdict, asked: Asked, *, remark: str | None = None, gap_privacy: float | None = GAP_PRIVACY
) -> Plan:
    """The plan that reaches the ceiling of every private parameter with no loss of utility.

    ``remark`` says why it is the answer where another way was asked for, ``gap_privacy`` is as in :func:`make_plan`.
    """
    shares = verdict.shares
    details: dict[str, Any] = {
        **reachable(verdict),
        "numbers_sent": int(shares.ranks.sum()),
        "smallest_part_kept": shares.kept,
        "largest_part_dropped": shares.dropped,
    }
    if remark is not None:
        details["remark"] = remark
    known = None
    if isinstance(verdict, StreamVerdict):
        details["ceiling_now"] = dict(verdict.ceiling_now)
        details["numbers_kept"] = int(sum(verdict.shares.orders.values()))
        known = verdict.known
    how: dict[str, Any] = {"details": details, "known": known, "gap_privacy": gap_privacy}
    return make_plan(verdict.network, shares.sanitizers, "perfect", replace(asked, most_loss=0.0), **how)


def reachable(verdict: Verdict) -> dict[str, dict[str, float]]:
    """What is free and what silence reaches, for a plan's details."""
    return {"ceiling": dict(verdict.ceiling), "limit": dict(verdict.limit)}
