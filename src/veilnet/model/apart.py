"""The same network with its common disturbances taken out of the noise and put into x.

y = H x + B c + own noise, c ~ N(0, Φ): whether c is called noise or a parameter with a prior that nobody asks for is
a matter of words. With W = B Φ^½ and c of unit covariance, x' = (x, c), H' = (H, W), J0' = blockdiag(J0, I), and
a row a of U or G_j becomes (a, 0): eliminating c from any sanitized information J̃' leaves J̃, so that errors, shares
U Ψ_i, limits tr(G J0^+ G') and observability are the same, while the noise is independent between agents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from veilnet._core.names import RowsByAgent
from veilnet._core.types import Array
from veilnet.model.common import SharedNoise
from veilnet.model.prior import Prior


def apart_arguments(
    noise: SharedNoise,
    agents: Sequence[str],
    places: Mapping[str, int],
    observe: Array,
    public: Mapping[str, Array],
    private: Mapping[str, Array],
    prior: Prior | None,
    parameters: tuple[str, ...],
) -> dict[str, Any]:
    """Arguments of the Network whose common disturbances are further parameters; ``observe`` is the stacked H."""
    length, count = observe.shape[1], noise.spread.shape[1]
    rows, blocks = np.concatenate([observe, noise.spread], axis=1), noise.blocks
    return {
        "observe": RowsByAgent(agents, places, blocks, rows),
        "noise": noise.own,
        "public": {name: padded(each, length + count) for name, each in public.items()},
        "private": {name: padded(each, length + count) for name, each in private.items()},
        "prior": _prior(prior, length, count),
        "parameters": (*parameters, *_names(parameters, count)),
    }


def padded(rows: Array, length: int) -> Array:
    """Rows that read nothing of the parameters added behind theirs."""
    wide = np.zeros((rows.shape[0], length))
    wide[:, : rows.shape[1]] = rows
    return wide


def _prior(prior: Prior | None, length: int, count: int) -> Prior:
    matrix = np.eye(length + count)
    if prior is None:
        matrix[:length, :length] = 0.0
        return Prior(information=matrix)
    mean = np.concatenate([prior.mean, np.zeros(count)])
    matrix[:length, :length] = getattr(prior, prior.given)
    if prior.given == "covariance":
        return Prior(covariance=matrix, mean=mean)
    return Prior(information=matrix, mean=mean)


def _names(taken: tuple[str, ...], count: int) -> tuple[str, ...]:
    what = "common disturbance"
    while any(name.startswith(what) for name in taken):
        what = f"another {what}"
    return tuple(f"{what} {place + 1}" for place in range(count))
