"""What a plan for a stream promises with gaps: the least privacy over a start and over missed rows.

The memory that an agent draws where it begins anew is as large as it takes: 1, 4, 16, ... times what it holds in the
long run, until the error of every private parameter is at least the part asked for of that without gaps. A larger
draw only hides more (:mod:`veilnet.bounds.streams.gaps`), and costs the public estimate a little for a few rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.errors import InvalidNetwork, InvalidRequest
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.streams.gaps import Gaps, gaps_of, with_starts
from veilnet.bounds.streams.knowledge import StreamKnowledge
from veilnet.model.network import Network

__all__ = ["GAP_PRIVACY", "GapPromise", "promise_with_gaps", "read_gap_privacy"]

GAP_PRIVACY = 0.99  # the part of the error without gaps that is left around one, unless another is asked for
_SIZES = tuple(4.0**k for k in range(8))


@dataclass(frozen=True, eq=False)
class GapPromise:
    """Sanitizers whose memories begin anew by themselves, and what is promised of them.

    sanitizers: with the starts of their memories.
    privacy:    the least p_j over memories that begin anew, per private parameter.
    size:       of the drawn memories, as a multiple of what they hold in the long run.
    public:     (one, all): by how much the public error variance grows at most after a missed row.
    """

    sanitizers: Mapping[str, Sanitizer]
    privacy: Mapping[str, float]
    size: float
    public: tuple[float, float]


def read_gap_privacy(part: float) -> float:
    """The part of the error without gaps that has to be left around one, checked."""
    if isinstance(part, bool) or not isinstance(part, int | float) or not 0 <= part < 1:
        raise InvalidRequest(
            f"gap_privacy: expected a part of the error without gaps, from 0 to below 1, found {part!r}; the default "
            f"is {GAP_PRIVACY}"
        )
    return float(part)


def promise_with_gaps(
    network: Network, sanitizers: Mapping[str, Sanitizer], known: StreamKnowledge, part: float = GAP_PRIVACY
) -> GapPromise:
    """Give every memory its start, as large as it takes for ``part`` of each error without gaps."""
    privacy = known.privacy
    names = [name for name, each in privacy.items() if np.isfinite(each)]
    rows = [network.private[name] for name in names]
    usual = np.array([float(np.trace(known.error(each, hindsight=True))) for each in rows])
    chosen: tuple[dict[str, Sanitizer], Gaps, float] | None = None
    for size in _SIZES:
        made = with_starts(network, sanitizers, size)
        try:
            for each in made.values():
                _ = each.recipe  # refuses a draw too large for the grid
        except InvalidNetwork:
            if chosen is None:
                raise
            break
        chosen = made, gaps_of(network, made, rows), size
        if np.all(np.array(chosen[1].least) >= part * usual):
            break
    assert chosen is not None
    made, gaps, size = chosen
    left = np.minimum(np.array(gaps.least) / usual, 1.0)
    parts = dict(zip(names, left.tolist(), strict=True))
    with_gaps = {
        name: max(0.0, (1.0 + each) * parts[name] - 1.0) if name in parts else np.inf
        for name, each in privacy.items()
    }
    return GapPromise(made, with_gaps, size, gaps.public)
