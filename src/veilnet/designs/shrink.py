"""From a solver's answer to what agents run.

Solvers speak of one matrix X_i in [0, I] per agent, in readings whose own noise is white: X_i = (I + Θ_i)^-1, so
an eigenvalue of 1 is sent as it is, 0 is withheld, and λ in between carries noise of variance 1/λ - 1.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from veilnet._core.linalg import solve_lower_batch
from veilnet._core.stacks import parts
from veilnet._core.types import Array, Integers
from veilnet.agent.mechanisms import Mechanisms
from veilnet.agent.sanitizer import Sanitizer
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.model.network import Network


def sanitizers_from_shrink(network: Network, shrink: list[Array]) -> Mechanisms:
    """Agent -> Sanitizer in normal form, from X per size group, (count, n, n)."""
    stacks = []
    for group, roots, stack in zip(network.blocks.groups, network.R.own_roots(), shrink, strict=True):
        rows, variances, sent = normal_rows(stack, roots)
        for number in np.unique(sent).tolist():
            chosen = sent == number
            noisy = np.ascontiguousarray(variances[chosen, :number])
            stacks.append(
                SanitizerStack(
                    group.agents[chosen],
                    np.ascontiguousarray(rows[chosen, :number]),
                    noisy if np.any(noisy) else None,
                )
            )
    return Mechanisms(network, stacks)


def normal_rows(shrink: Array, roots: Array) -> tuple[Array, Array, Integers]:
    """(rows, variances of their noise, how many are sent) of a stack: exact rows first, withheld ones last."""
    rows, variances = np.empty(shrink.shape), np.empty(shrink.shape[:2])
    sent = np.empty(len(shrink), dtype=np.intp)
    for part in parts(len(shrink), shrink.shape[1] ** 2):
        values, vectors = np.linalg.eigh(shrink[part])
        # The solver has set exact zeros and ones; what an eigendecomposition blurs of them is rounding.
        sent_some, exact = values > 1e-13, values > 1 - 1e-13
        blurred = sent_some & ~exact
        safe = np.where(blurred, values, 0.5)
        scale = np.where(blurred, np.sqrt(safe / (1.0 - safe)), 1.0)
        columns = solve_lower_batch(roots[part], np.ascontiguousarray(vectors), transposed=True)
        made = np.swapaxes(columns, 1, 2) * scale[:, :, None]
        order = np.argsort(np.where(exact, 0, np.where(sent_some, 1, 2)), axis=1, kind="stable")
        rows[part] = np.take_along_axis(made, order[:, :, None], axis=1)
        variances[part] = np.take_along_axis(blurred.astype(float), order, axis=1)
        sent[part] = np.sum(sent_some, axis=1)
    return rows, variances, sent


def shrink_from_sanitizers(network: Network, sanitizers: Mapping[str, Sanitizer]) -> list[Array]:
    """X per size group, (count, n, n): what of each agent's readings, its own noise made white, is known from it.

    With C and Θ in those readings, X = C'(C C' + Θ)^-1 C; the inverse of :func:`sanitizers_from_shrink`.
    """
    made = []
    for group, roots in zip(network.blocks.groups, network.R.own_roots(), strict=True):
        stack = np.zeros(roots.shape)
        for place, agent in enumerate(group.agents):
            sanitizer = sanitizers[network.agents[int(agent)]]
            sent = sanitizer.compression @ roots[place]
            known = sent.T @ np.linalg.lstsq(sent @ sent.T + sanitizer.noise, sent, rcond=None)[0]
            stack[place] = (known + known.T) / 2
        made.append(stack)
    return made
