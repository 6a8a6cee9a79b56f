"""The paper's Algorithm 3, for comparison: one agent at a time, each taking what slack it finds."""

from __future__ import annotations

from collections.abc import Mapping

from veilnet._core.progress import Progress
from veilnet.designs.shrink import sanitizers_from_shrink
from veilnet.designs.tradeoff import aimed_at
from veilnet.model.standard_form import standard_form
from veilnet.paper.alternating.sweeps import alternate
from veilnet.plans.asked import Asked
from veilnet.plans.plan import Plan, make_plan
from veilnet.verdict.exact_test import Verdict


def alternating_plan(
    verdict: Verdict, targets: Mapping[str, float], *, sweeps: int = 20, progress: Progress | None = None
) -> Plan:
    """The plan Algorithm 3 reaches after so many sweeps; ``details["sweeps"]`` has utility and privacy after each."""
    network = verdict.network
    result = alternate(standard_form(network), aimed_at(targets), sweeps=sweeps, progress=progress)
    return make_plan(
        network,
        sanitizers_from_shrink(network, result.shrink),
        "alternating",
        Asked(targets),
        details={
            "sweeps": [
                {
                    "utility": 0.0 - sweep.loss,
                    "privacy": dict(zip(network.private, sweep.privacy.tolist(), strict=True)),
                }
                for sweep in result.sweeps
            ],
            "interrupted": result.interrupted,
        },
    )
