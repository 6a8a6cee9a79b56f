"""Which combination of a parameter's rows to bound, where something is asked of every direction of it.

G P̃ G' >= M says of every B that tr(B G P̃ G' B') >= tr(B M B'), and one B says as much as the whole: Y = B'B is the
multiplier of the constraint. Y = Σ ν_k a_k a_k' over directions a_k that the design leaves as exposed as is allowed,
with the ν_k that come nearest to the first-order conditions (:class:`.rapidities.FirstOrder`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.linalg import eigh

from veilnet._core.types import Array
from veilnet.designs.lower_bound.rapidities import FirstOrder
from veilnet.model.network import Network
from veilnet.plans.lower_bound.lifted_form import LiftedForm

_AT_EDGE = 0.02  # a direction whose error is this much above the least allowed, relative, may bind
_LITTLE = 1e-6  # of the largest part of Y: less is left out


def mixed_rows(
    network: Network,
    form: LiftedForm,
    shrink: Sequence[Array],
    plain: Sequence[int],
    least: Mapping[int, Sequence[Array]],
) -> dict[int, Array]:
    """Position -> B, for the parameters of ``least`` that bind; empty where no such B is found.

    shrink: X_i of the design.
    plain:  positions of the parameters of which a mean is asked.
    least:  position -> each M, (r, r).
    """
    network = network.common_apart
    rows = list(network.private.values())
    information = form.information + sum(h.T @ x @ h for h, x in zip(form.observe, shrink, strict=True))
    owners: list[int] = list(plain)
    directions: list[Array] = [np.zeros(0)] * len(owners)
    seen = [form.private[j] for j in plain]
    for j, each in least.items():
        wide = np.pad(network.in_raw_coordinates(rows[j]), ((0, 0), (0, form.size - network.L)))
        errors = wide @ np.linalg.solve(information, wide.T)
        for one in each:
            for direction in _exposed(one, (errors + errors.T) / 2):
                size = float(np.linalg.norm(direction @ wide))
                owners.append(j)
                directions.append(direction / size)
                seen.append(direction[None] @ wide / size)
    first = FirstOrder(replace(form, private=tuple(seen)), range(len(seen)), shrink)
    found: dict[int, Array] = {}
    for j in least:
        chosen = [place for place in first.asked if place >= len(plain) and owners[place] == j]
        if not chosen:
            continue
        weights = first.weights[[first.asked.index(place) for place in chosen]]
        stacked = np.stack([directions[place] for place in chosen])
        values, vectors = np.linalg.eigh((stacked.T * (weights / weights.max())) @ stacked)
        keep = values > _LITTLE * values[-1]
        found[j] = np.asarray(np.sqrt(values[keep])[:, None] * vectors.T[keep])
    return found


def _exposed(least: Array, errors: Array) -> list[Array]:
    """Directions in which ``errors`` is hardly above ``least``, and those between any two of them."""
    values, vectors = eigh(least, errors)
    axes = list(vectors.T[values > 1 - _AT_EDGE])
    between = [a + sign * b for k, a in enumerate(axes) for b in axes[:k] for sign in (1.0, -1.0)]
    return axes + between
