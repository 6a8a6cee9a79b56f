"""Plans to be shown, of every kind, small enough to be designed at once."""

from __future__ import annotations

from functools import cache

import numpy as np

import veilnet as vn
from helpers.streams import random_stream
from veilnet.designs.frontiers import Frontier, Point
from veilnet.plans.asked import Asked
from veilnet.plans.plan import make_plan

# By hand, so that nothing has to be searched for: one number exactly, one with noise, the rest withheld.
NOISY = {
    "kitchen": vn.Sanitizer([[1.0, -0.2, -0.3], [0.2, 0.5, -1.0]], noise=[0.0, 2.0]),
    "hall": vn.Sanitizer([[1.0, -0.2]], noise=0.3),
}
KINDS = (
    "perfect",
    "power",
    "trade-off",
    "loss",
    "worst",
    "stream",
    "wandering",
    "silent",
    "nothing sent",
    "nothing known",
    "no prior",
    "hidden",
    "correlated",
)


def house(**changes: object) -> vn.Network:
    arguments: dict[str, object] = {
        "observe": {
            "kitchen": [[1.0, 0.3, 0.8], [0.0, 1.0, 0.5], [0.5, 0.0, 1.0]],
            "hall": [[0.9, 0.8, 0.1], [0.2, 0.1, 1.0]],
        },
        "noise": 0.25,
        "public": {"temperature": [1, 0, 0]},
        "private": {"gait": [0, 1, 0], "presence": [[0, 0, 1], [0, 1, 1]]},
        "prior": vn.Prior(covariance=np.diag([4.0, 1.0, 1.0]), mean=[20.0, 0.0, 1.0]),
        "units": {"temperature": "°C", "gait": "steps/min"},
        "reading_names": {"kitchen": ["T1", "CO2", "plug"], "hall": ["T2", "vibration"]},
    }
    return vn.Network(**(arguments | changes))  # type: ignore[arg-type]


@cache
def plan_of(kind: str) -> vn.Plan:
    """One plan of a kind."""
    if kind == "power":
        return vn.design(house(), power=10.0)
    if kind == "trade-off":
        return make_plan(house(), NOISY, "joint", Asked({"gait": 1.5, "presence": 1.0}))
    if kind == "loss":
        return make_plan(house(), NOISY, "joint", Asked(most_loss=0.9))
    if kind == "worst":
        return make_plan(house(), NOISY, "joint", Asked(worst={"presence": 0.5}))
    if kind == "stream":
        return vn.design(random_stream(4))
    if kind == "wandering":
        walk = vn.Dynamics(transition=np.diag([0.9, 1.0, 0.5]), noise=np.diag([1.0, 0.1, 1.0]))
        return vn.design(house(prior=None, dynamics=walk))
    if kind == "silent":
        return make_plan(house(), NOISY | {"hall": vn.Sanitizer.silent(2)}, "joint")
    if kind in ("nothing sent", "nothing known"):
        quiet = {"kitchen": vn.Sanitizer.silent(3), "hall": vn.Sanitizer.silent(2)}
        return make_plan(house() if kind == "nothing sent" else house(prior=None), quiet, "joint")
    if kind == "no prior":
        return vn.design(house(prior=None))
    if kind == "hidden":
        apart = {"kitchen": np.eye(3), "hall": [[1.0, 0.0, 0.0]]}
        return vn.design(house(prior=None, observe=apart, reading_names=None))
    if kind == "correlated":
        mix = np.eye(5) + 0.3 * np.random.default_rng(3).normal(size=(5, 5))
        return vn.design(house(noise=mix @ mix.T))
    return vn.design(house())


HOSTILE = (
    "<script>alert(1)<script>",
    "\"'><img src=x onerror=alert(1)>",
    "</style></title></svg><script>alert(2)</script>&amp;",
    "x" * 100,
)


@cache
def hostile_plan() -> vn.Plan:
    """A plan whose every name would be markup, if it were not escaped: agent, public, private, another agent."""
    agent, public, private, other = HOSTILE
    return vn.design(
        house(
            observe={agent: [[1.0, 0.3, 0.8], [0.0, 1.0, 0.5]], other: [[0.9, 0.8, 0.1], [0.2, 0.1, 1.0]]},
            public={public: [1, 0, 0]},
            private={private: [0, 1, 0], agent: [0, 0, 1]},
            units={public: "</td><b>", private: other, agent: "&lt;"},
            reading_names={agent: [private, "'\"&<>"]},
        )
    )


def curve_for(plan: vn.Plan) -> Frontier:
    """A curve of known points, all of one plan: what is drawn must be where it says."""
    rows = tuple(
        Point(asked, -loss, {}, "joint", plan)
        for asked, loss in ((0.0, 0.0), (1.0, 0.0), (3.0, 0.2), (5.0, 1.25))
    )
    return Frontier(plan.network, rows, ceiling=1.0, limit=8.0)
