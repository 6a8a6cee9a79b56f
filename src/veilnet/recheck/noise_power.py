"""How much noise agents add to their readings, from what they run: tr Θ_i with Θ_i = C_i^-1 V_i C_i^-T.

Whoever receives C_i y_i + ξ_i with C_i invertible and ξ_i ~ N(0, V_i) can take C_i^-1 of it, y_i + C_i^-1 ξ_i: that
is noise of covariance C_i^-1 V_i C_i^-T on the readings. Where C_i is not invertible something is withheld, which no
noise of finite power does.
"""

from __future__ import annotations

import numpy as np

from veilnet._core.types import Array
from veilnet.agent.mechanisms import Mechanisms
from veilnet.recheck.sums import some_at_a_time

__all__ = ["noise_power", "powers_of"]

# Rows, without units, that are more nearly dependent than this are taken for dependent: something is withheld.
_DEPENDENT = 1e13


def powers_of(sent: Mechanisms) -> Array:
    """tr Θ_i of every agent, (S,), in sending order; 0 of those that send raw readings."""
    found = np.zeros(sent.network.S)
    for stack in sent.stacks:
        found[stack.places] = noise_power(stack.compression, stack.noise)
    return found


def noise_power(compression: Array, noise: Array | None) -> Array:
    """tr(C^-1 V C^-T) of a stack of agents, (s,); inf for those that withhold something.

    compression: C_i, (s, k, n).
    noise:       V_i, (s, k, k); None where nothing is added.
    """
    count, sent, size = compression.shape
    found = np.full(count, np.inf)
    if sent != size:
        return found
    for some in some_at_a_time(count):
        found[some] = _power(compression[some], None if noise is None else noise[some])
    return found


def _power(compression: Array, noise: Array | None) -> Array:
    columns = np.max(np.abs(compression), axis=1)
    columns = np.where(columns > 0, columns, 1.0)
    unit = compression / columns[:, None, :]
    rows = np.linalg.norm(unit, axis=2)
    rows = np.where(rows > 0, rows, 1.0)
    unit = unit / rows[:, :, None]
    invertible = np.linalg.cond(unit) < _DEPENDENT
    found = np.where(invertible, 0.0, np.inf)
    if noise is not None:
        back = (
            np.linalg.inv(unit[invertible]) / columns[invertible][:, :, None] / rows[invertible][:, None, :]
        )
        found[invertible] = np.sum((back @ noise[invertible]) * back, axis=(1, 2))
    return found
