"""What is asked of every direction of a private parameter, as matrices: G P̃ G' >= M, each M (r, r).

``Worst(ε)`` asks M = (1 + ε) G P G'. A secret whose change may be seen with d' <= µ over T rows asks, by the
information I on g with I <= I0 + µ²/(T Δ²), I0 that of the prior,

    M = (I0 + µ²/(T Δ²))^-1           for any change of length Δ,
    M = ΔΔ'/(µ²/T + Δ'I0 Δ)           for one change Δ, and for each of several.

A plan that reaches an M has, for every B, tr(B G P̃ G' B') >= tr(B M B'): so much is asked of the combination B g.
"""

from __future__ import annotations

import numpy as np

from veilnet._core.errors import Infeasible
from veilnet._core.types import Array
from veilnet.bounds.detectability import information_on
from veilnet.bounds.knowledge import knowledge, knowledge_of_factor
from veilnet.model.network import Network


def least_errors(network: Network, name: str, mu: float) -> list[Array]:
    """Each M, (r, r): no change of a secret is seen with d' above µ where G P̃ G' >= M. Rows that are independent."""
    secret = network.secrets[name]
    allowed = mu**2 / secret.rows_it_lasts(network.step)
    before = information_on(knowledge_of_factor(network, np.zeros((0, network.L))), secret.rows)
    change = np.asarray(secret.change)
    if change.ndim == 0:
        return [_bounded(np.eye(len(before)), before + allowed / change**2 * np.eye(len(before)), name)]
    return [
        _bounded(np.outer(each, each), allowed + float(each @ before @ each), name)
        for each in np.atleast_2d(change)
    ]


def growth_asked(network: Network, name: str, mixed: Array, worst: float, mu: float | None) -> float:
    """The growth of tr(B G P G' B') that every plan has which keeps what is asked of every direction of g.

    mixed: B, (any, r).
    worst: what ``Worst`` asks, 0 for nothing.
    mu:    how surely the secret's change may be seen, None where that is not asked.
    """
    if mu is None:
        return worst
    raw = mixed @ knowledge(network).error_covariance(network.private[name]) @ mixed.T
    least = max(float(np.trace(mixed @ each @ mixed.T)) for each in least_errors(network, name, mu))
    return max(worst, least / float(np.trace(raw)) - 1.0)


def _bounded(above: Array, below: Array | float, name: str) -> Array:
    try:
        with np.errstate(divide="raise"):
            return np.asarray(np.linalg.solve(below, above) if np.ndim(below) else above / below)
    except (np.linalg.LinAlgError, FloatingPointError):
        raise Infeasible(
            f"privacy: {name} may be seen no better than by guessing, and without a prior that takes an error "
            "without bound; allow a little more, or give a prior"
        ) from None
