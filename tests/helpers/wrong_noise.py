"""Sanitizers that are right in everything but where their noise comes from, and what the audit says of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import veilnet as vn
from helpers.networks import random_network
from veilnet._core.types import Array
from veilnet.auditing.deployed.deployment import deployment
from veilnet.auditing.deployed.rows import deployed_rows
from veilnet.plans.plan import Plan, make_plan

CHANCE = 5e-7
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]


def noisy_plan() -> Plan:
    """Three agents with noise well above that of their readings, one of them with correlated noise."""
    network = random_network(1, noise="per agent", prior="covariance", sizes=(3, 3, 3))
    rng = np.random.default_rng(5)
    root = rng.standard_normal((2, 2))
    sanitizers = {
        "a0": vn.Sanitizer(rng.standard_normal((1, 3)), [40.0], agent="a0"),
        "a1": vn.Sanitizer(rng.standard_normal((2, 3)), [30.0, 0.0], agent="a1"),
        "a2": vn.Sanitizer(rng.standard_normal((2, 3)), 20 * root @ root.T + 2 * np.eye(2), agent="a2"),
    }
    return make_plan(network, sanitizers, "test")


def mutant(sanitizer: vn.Sanitizer, draw: Callable[[tuple[int, ...]], Array]) -> Callable[[Array], Array]:
    """A sanitizer that is right in everything but where its noise comes from."""
    root, rng = sanitizer.noise_root, np.random.default_rng([20, 2**40])
    assert sanitizer.grid is not None

    def sanitize(readings: Array) -> Array:
        noise = draw((len(readings), len(root))) @ root
        dither = np.where(np.diag(sanitizer.noise) > 0, 0.0, rng.uniform(-0.5, 0.5, noise.shape))
        exact = (readings - sanitizer.offset) @ sanitizer.compression.T + noise
        return np.asarray(np.rint(exact / sanitizer.grid + dither) * sanitizer.grid) + 0.0

    return sanitize


def failures(plan: Plan, agent: str, mechanism: Any) -> dict[str, str]:
    deployed: dict[str, Any] = {
        name: (lambda y, s=s: np.asarray(s.sanitize(y))) for name, s in plan.sanitizers.items()
    }
    deployed[agent] = mechanism
    rows = deployed_rows(deployment(plan, deployed), CHANCE, 0, lambda _: None)
    return {row.what: row.sentence for row in rows if row.verdict == "fail"}


def cut(rng: np.random.Generator, shape: tuple[int, ...], line: float, *, stretched: bool) -> Array:
    draws = rng.standard_normal((*shape, 8))
    inside = np.abs(draws) <= line
    chosen = np.take_along_axis(draws, np.argmax(inside, axis=-1)[..., None], axis=-1)[..., 0]
    chosen = np.clip(chosen, -line, line)
    if not stretched:
        return np.asarray(chosen)
    from scipy.stats import truncnorm

    return np.asarray(chosen / truncnorm(-line, line).std())


LAWS: dict[str, Draw] = {
    "uniform": lambda rng, shape: rng.uniform(-np.sqrt(3), np.sqrt(3), shape),
    "Laplace": lambda rng, shape: rng.laplace(0, np.sqrt(0.5), shape),
    "logistic": lambda rng, shape: rng.logistic(0, np.sqrt(3) / np.pi, shape),
    "Student's, 5 degrees": lambda rng, shape: rng.standard_t(5, shape) * np.sqrt(3 / 5),
    "cut at 2": lambda rng, shape: cut(rng, shape, 2.0, stretched=False),
    "cut at 2, stretched": lambda rng, shape: cut(rng, shape, 2.0, stretched=True),
    "cut at 2.5, stretched": lambda rng, shape: cut(rng, shape, 2.5, stretched=True),
    "two values": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
    "half precision": lambda rng, shape: rng.standard_normal(shape).astype(np.float16).astype(float),
    "mixture of two strengths": lambda rng, shape: (
        rng.standard_normal(shape) * np.where(rng.random(shape) < 0.5, np.sqrt(0.3), np.sqrt(1.7))
    ),
    "skewed": lambda rng, shape: rng.gamma(4.0, 0.5, shape) - 2.0,
    "bursts": lambda rng, shape: (
        rng.standard_normal(shape)
        * np.repeat(np.where(rng.random((shape[0] // 16 + 1, 1)) < 0.5, np.sqrt(0.3), np.sqrt(1.7)), 16, 0)[
            : shape[0]
        ]
    ),
}
