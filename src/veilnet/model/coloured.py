"""Reading noise that remembers: n_{t+1} = B n_t + e_t, e ~ N(0, E), plus a white floor (docs, streams)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.errors import InvalidNetwork
from veilnet._core.frozen import Frozen
from veilnet._core.lyapunov import NOT_DYING, spectral_radius, stationary_covariance
from veilnet._core.types import Array
from veilnet._core.validation import as_array, as_covariance, diagonal_or_whole, refuse_unknown
from veilnet.model.common import read_noise

# Dense matrices of so many readings already take minutes to factor.
_MOST_READINGS = 5000


class ColouredNoise(Frozen):
    """Noise of the readings that carries over from row to row; needs a network with dynamics.

    memory:     B: one number for all readings, one per reading, or agent -> number, one per reading, or matrix.
                It never mixes agents, and every eigenvalue lies inside the unit circle.
    innovation: covariance of what is new in a row, in every form that ``noise`` of a network takes.
    floor:      covariance of a white part beside it, in the same forms; zeros are allowed, and none when left out.
    """

    def __init__(self, memory: Any, innovation: Any, floor: Any = None) -> None:
        self.memory = memory
        self.innovation = innovation
        self.floor = floor
        self._freeze()


class Colour(ColouredNoise):
    """Coloured noise of a network's N readings, checked: ``memory``, ``innovation`` and ``floor`` are N x N."""

    memory: Array
    innovation: Array
    floor: Array

    def __init__(self, memory: Array, innovation: Array, floor: Array) -> None:
        self.carried: Array = stationary_covariance(memory, innovation)
        super().__init__(memory, innovation, floor)

    @property
    def marginal(self) -> Array:
        """The covariance of the noise in one row: what carries over, and the white floor."""
        return self.carried + self.floor

    def __repr__(self) -> str:
        return f"Colour({len(self.memory)} readings, largest root {spectral_radius(self.memory):.4g})"


def read_colour(noise: Any, agents: Sequence[str], blocks: Blocks) -> Colour | None:
    """The coloured noise of a network, None where its noise is white."""
    if not isinstance(noise, ColouredNoise):
        return None
    if blocks.total > _MOST_READINGS:
        raise InvalidNetwork(
            f"noise: coloured noise is kept as one matrix of all readings, up to {_MOST_READINGS}, found "
            f"{blocks.total}; only streams with white noise independent between agents scale further"
        )
    return Colour(
        _read_memory(noise.memory, agents, blocks),
        read_noise(noise.innovation, agents, blocks).matrix(),
        _read_floor(noise.floor, agents, blocks),
    )


def _read_memory(memory: Any, agents: Sequence[str], blocks: Blocks) -> Array:
    if isinstance(memory, Mapping):
        dense = _by_agent(memory, agents, blocks, "noise memory", diagonal_or_whole)
    else:
        dense = diagonal_or_whole(memory, "noise memory", blocks.total)
        if np.any(dense[blocks.owner[:, None] != blocks.owner[None, :]]):
            raise InvalidNetwork(
                "noise memory: the noise of one agent may not drive another's; give a matrix per agent"
            )
    for place, agent in enumerate(agents):
        rows = blocks.rows(place)
        radius = spectral_radius(dense[rows, rows])
        if radius >= NOT_DYING:
            raise InvalidNetwork(
                f"noise memory of {agent!r}: expected stable noise (roots below 1), found {radius:.6g}; "
                "a random walk belongs in x"
            )
    return dense


def _read_floor(floor: Any, agents: Sequence[str], blocks: Blocks) -> Array:
    if floor is None:
        return np.zeros((blocks.total, blocks.total))
    if isinstance(floor, Mapping):
        return _by_agent(floor, agents, blocks, "noise floor", as_covariance)
    array = as_array(floor, "noise floor")
    if array.ndim != 3:
        return as_covariance(array, "noise floor", blocks.total)
    if len(array) != len(agents):
        raise InvalidNetwork(
            f"noise floor: expected a matrix for each of {len(agents)} agents, found {len(array)}"
        )
    return _by_agent(dict(zip(agents, array, strict=True)), agents, blocks, "noise floor", as_covariance)


def _by_agent(
    given: Mapping[str, Any],
    agents: Sequence[str],
    blocks: Blocks,
    what: str,
    own: Callable[[Any, str, int], Array],
) -> Array:
    """What is said of some agents, each its block on the diagonal; zero for the others."""
    refuse_unknown(given, agents, what)
    dense = np.zeros((blocks.total, blocks.total))
    for place, agent in enumerate(agents):
        if agent in given:
            rows = blocks.rows(place)
            dense[rows, rows] = own(given[agent], f"{what} of {agent!r}", int(blocks.sizes[place]))
    return dense
