"""Most privacy at perfect utility, in closed form: send your share and nothing else.

Agent i sends Q_i'y_i, Q_i a basis of the row space of U Ψ_i: rank(U Ψ_i) numbers, without noise. No mechanism
that keeps perfect utility, linear or not, tells less (mathematics, section 3).
"""

from __future__ import annotations

from collections.abc import Mapping

from veilnet.plans.plan import Plan, make_plan
from veilnet.verdict.exact_test import Verdict
from veilnet.verdict.shares import share_sanitizers


def perfect_plan(
    verdict: Verdict,
    targets: Mapping[str, float],
    *,
    worst_targets: Mapping[str, float] | None = None,
    remark: str | None = None,
) -> Plan:
    """The plan that reaches the ceiling of every private parameter with no loss of utility.

    ``remark`` says why it is the answer where another way was asked for.
    """
    return make_plan(
        verdict.network,
        share_sanitizers(verdict.shares),
        "perfect",
        targets=targets,
        worst_targets=worst_targets,
        most_loss=0.0,
        details={
            "ceiling": dict(verdict.ceiling),
            "limit": dict(verdict.limit),
            "numbers_sent": int(verdict.shares.ranks.sum()),
            "smallest_part_kept": verdict.shares.kept,
            "largest_part_dropped": verdict.shares.dropped,
        }
        | ({} if remark is None else {"remark": remark}),
    )
