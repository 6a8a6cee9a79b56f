"""Networks whose readings lie on a lattice, and the lattice attack on plans for them, before and after dither."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import veilnet as vn
from veilnet._core.types import Array
from veilnet.agent.dither import dither_for
from veilnet.auditing.attack.lattice import (
    closest_points,
    eavesdropper,
    knowing_the_dither,
    linear_posterior,
)
from veilnet.auditing.attack.simulation import draw_readings, draw_x
from veilnet.auditing.what_if.variants import changed

SENT = 2


def coarse_network(seed: int, withheld: int, step: float | None, agents: int = 2) -> vn.Network:
    """Agents that send two exact numbers and withhold so many directions; noise of variance one, steps as given."""
    rng = np.random.default_rng([seed, withheld])
    readings = SENT + withheld
    length = readings + 1
    return vn.Network(
        observe={f"a{k}": rng.standard_normal((readings, length)) for k in range(agents)},
        noise=1.0,
        public=rng.standard_normal((SENT, length)),
        private={"g": rng.standard_normal((1, length))},
        prior=vn.Prior(covariance=np.diag(9.0 * rng.uniform(0.5, 2.0, length))),
        resolution=step,
    )


def thermometers(step: float) -> vn.Network:
    """Five agents with one reading each: whatever they send of it exactly, they send whole."""
    rows = np.random.default_rng(3).standard_normal((5, 2))
    return vn.Network(
        {f"t{k}": row[None] for k, row in enumerate(rows)}, 1.0, [[1.0, 0.0]], {"g": [[0.0, 1.0]]},
        vn.Prior(covariance=9.0 * np.eye(2)), resolution=step,
    )  # fmt: skip


def dominated(ratio: float, step: float) -> vn.Network:
    """One agent that sends y1 + ratio y2 exactly, and nothing else."""
    return vn.Network(
        {"a": np.eye(2), "b": [[0.0, 1.0]]}, {"a": 1.0, "b": 4.0}, [[1.0, 0.0]], {"g": [[1.0, 0.0]]},
        vn.Prior(covariance=np.diag([9.0, 9.0])), resolution={"a": step, "b": 0.0},
    ).replace(private={"g": [[1.0, ratio]]})  # fmt: skip


def sending(network: vn.Network, rows: list[list[float]]) -> vn.Plan:
    """A plan in which agent a sends these rows exactly and b nothing, dithered as that calls for."""
    sanitizers = {"a": vn.Sanitizer(rows, grid=2.0**-12), "b": vn.Sanitizer(np.zeros((0, 1)), grid=1.0)}
    counted = network.replace(dither=dither_for(network, sanitizers))
    plan = vn.design(network.replace(private={"g": [[0.0, 1.0]]}))
    return vn.Plan(
        counted, {name: each.for_agent(name, counted) for name, each in sanitizers.items()}, "perfect",
        vn.utility(counted, sanitizers), vn.privacy(counted, sanitizers), plan.certificate,
    )  # fmt: skip


def undithered(network: vn.Network) -> vn.Network:
    """The same sensors, as a network that says nothing of their resolution."""
    return changed(network, noise=network.sensor_noise, resolution=None)


@dataclass(frozen=True)
class Outcome:
    """What the attack got: part of rows named, and mean square errors on g; ``linear`` knows of no lattice."""

    named: float
    linear: float
    closest: float
    weighted: float
    promised: float

    @property
    def best(self) -> float:
        """The best attack's error as a part of the linear attacker's."""
        return min(self.closest, self.weighted) / self.linear


def attack(plan: vn.Plan, network: vn.Network, rows: int, seed: int) -> Outcome:
    """Attack a plan on readings of ``network``, which knows their resolution (the plan's may not)."""
    rng = np.random.default_rng([seed, 5])
    x = draw_x(network, rng, rows)
    readings = draw_readings(network, x, rng)
    messages = np.concatenate(
        [
            np.asarray(plan.sanitizers[agent].sanitize(readings[:, network.blocks.rows(k)], rng=rng))
            for k, agent in enumerate(network.agents)
        ],
        axis=1,
    )
    known = eavesdropper(network, plan.sanitizers, network.steps)
    found = closest_points(known, messages)
    linear, _ = linear_posterior(known, messages)
    weighted = knowing_the_dither(known, messages, seed) if np.any(known.dither) else linear
    close = np.abs(found.nearest - readings) <= 0.1 * network.steps
    named = np.mean([np.mean(np.all(close[:, mine], axis=1)) for mine in known.owners.values()])
    truth = x @ network.private["g"].T

    def error(idea: Array) -> float:
        return float(np.mean((estimate(network, idea) - truth) ** 2))

    promised = float(
        np.trace(network.private["g"] @ vn.crlb(plan.network, plan.sanitizers) @ network.private["g"].T)
    )
    return Outcome(float(named), error(linear), error(found.mean), error(weighted), promised)


def estimate(network: vn.Network, readings: Array) -> Array:
    """E[g|y], straight from its definition."""
    assert network.prior is not None
    assert network.prior.covariance is not None
    together = network.prior.covariance @ network.H.T
    total = network.H @ together + network.sensor_noise.matrix()
    gain = np.linalg.solve(total, together.T).T
    x = network.prior.mean + (readings - network.H @ network.prior.mean - network.offset) @ gain.T
    return np.asarray(x @ network.private["g"].T)
