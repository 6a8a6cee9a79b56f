"""Privacy and utility measured in the network that was promised, whatever is known about x."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.types import Array
from veilnet._core.validation import as_number, refuse_unknown
from veilnet.bounds.knowledge import Knowledge
from veilnet.model.network import Network


def growth(known: Knowledge, rows: Array) -> float:
    """tr(A P̃ A') / tr(A P A') - 1, below zero where more is known than one raw release tells.

    :meth:`Knowledge.growth` ends at zero, since sanitized messages never tell more than raw readings;
    repeated releases and better priors do.
    """
    if np.isinf(known.growth(rows)):
        return np.inf
    half = known.network.in_raw_coordinates(rows) @ known.directions
    weights = np.sum((half / np.max(np.abs(half))) ** 2, axis=0)
    seen = known.known
    left = known.sharpness[seen] ** 2
    return float(np.sum(weights[seen] * (1.0 - left) / left) / np.sum(weights))


def privacies(known: Knowledge) -> dict[str, float]:
    """p_j of every private parameter."""
    return {name: growth(known, rows) for name, rows in known.network.private.items()}


def read_least_privacy(network: Network, least: float | Mapping[str, float] | None) -> dict[str, float]:
    """The least privacy that has to remain: one number for all, or name -> number."""
    if least is None:
        return {}
    if isinstance(least, Mapping):
        refuse_unknown(least, tuple(network.private), "least_privacy", error=InvalidRequest)
        found = {
            str(name): as_number(value, f"least_privacy of {name!r}", error=InvalidRequest)
            for name, value in least.items()
        }
    else:
        found = dict.fromkeys(network.private, as_number(least, "least_privacy", error=InvalidRequest))
    for name, value in found.items():
        if value <= -1:
            raise InvalidRequest(
                f"least_privacy of {name!r}: expected a privacy above -1, found {value:g}; "
                "0 means: never better than one raw reading"
            )
    return found
