"""Most privacy at perfect utility on a stream: each agent runs its share filter and sends nothing else.

The sum of what they send is the centre's own Kalman estimate; no decentralised causal mechanism that keeps it hides
more, now or with hindsight (docs/streams.md).
"""

from __future__ import annotations

from collections.abc import Mapping

from veilnet.plans.plan import Plan, make_plan
from veilnet.verdict.streams.exact_test import StreamVerdict


def perfect_stream_plan(
    verdict: StreamVerdict, targets: Mapping[str, float], *, remark: str | None = None
) -> Plan:
    """The plan that reaches the ceiling of every private parameter with no loss of utility.

    ``remark`` says why it is the answer where another way was asked for.
    """
    shares = verdict.shares
    return make_plan(
        verdict.network,
        shares.sanitizers,
        "perfect",
        targets=targets,
        most_loss=0.0,
        known=verdict.known,
        details={
            "ceiling": dict(verdict.ceiling),
            "ceiling_now": dict(verdict.ceiling_now),
            "limit": dict(verdict.limit),
            "numbers_sent": int(shares.ranks.sum()),
            "numbers_kept": int(sum(shares.orders.values())),
            "smallest_part_kept": shares.kept,
            "largest_part_dropped": shares.dropped,
        }
        | ({} if remark is None else {"remark": remark}),
    )
