"""From a solver's answer to what agents run.

Solvers speak of one matrix X_i in [0, I] per agent, in readings whose own noise is white: X_i = (I + Θ_i)^-1, so
an eigenvalue of 1 is sent as it is, 0 is withheld, and λ in between carries noise of variance 1/λ - 1.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from veilnet._core.linalg import solve_lower
from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.network import Network


def sanitizers_from_shrink(network: Network, shrink: list[Array]) -> dict[str, Sanitizer]:
    """Agent -> Sanitizer in normal form, from X per size group, (count, n, n)."""
    made: dict[int, Sanitizer] = {}
    for group, roots, stack in zip(network.blocks.groups, network.noise.own_roots(), shrink, strict=True):
        values, vectors = np.linalg.eigh(stack)
        values = np.clip(values, 0.0, 1.0)
        for place, agent in enumerate(group.agents):
            made[int(agent)] = _sanitizer(network, int(agent), roots[place], values[place], vectors[place])
    return {agent: made[place] for place, agent in enumerate(network.agents)}


def _sanitizer(network: Network, place: int, root: Array, values: Array, vectors: Array) -> Sanitizer:
    # The solver has set exact zeros and ones; what an eigendecomposition blurs of them is rounding.
    sent = values > 1e-13
    exact = values[sent] > 1 - 1e-13
    variance = np.where(exact, 0.0, 1.0 / values[sent] - 1.0)
    rows = solve_lower(root, np.ascontiguousarray(vectors[:, sent]), transposed=True).T
    rows = rows / np.sqrt(np.where(exact, 1.0, variance))[:, None]
    order = np.argsort(~exact, kind="stable")
    return Sanitizer(
        rows[order],
        np.diag((~exact[order]).astype(float)),
        offset=network.offset[network.blocks.rows(place)],
        agent=network.agents[place],
    )


def shrink_from_sanitizers(network: Network, sanitizers: Mapping[str, Sanitizer]) -> list[Array]:
    """X per size group, (count, n, n): what of each agent's readings, its own noise made white, is known from it.

    With C and Θ in those readings, X = C'(C C' + Θ)^-1 C; the inverse of :func:`sanitizers_from_shrink`.
    """
    made = []
    for group, roots in zip(network.blocks.groups, network.noise.own_roots(), strict=True):
        stack = np.zeros(roots.shape)
        for place, agent in enumerate(group.agents):
            sanitizer = sanitizers[network.agents[int(agent)]]
            sent = sanitizer.compression @ roots[place]
            known = sent.T @ np.linalg.lstsq(sent @ sent.T + sanitizer.noise, sent, rcond=None)[0]
            stack[place] = (known + known.T) / 2
        made.append(stack)
    return made
