"""What the members of groups add to a sum: the law of each term, as the centre has to know it.

The sum of a group is Σ_i z_i with z_i = expected_i + observe_i x + noise_i of member i. The centre knows each term's
law, never its value; of a sum that lacks some members it knows the law thereby (:mod:`veilnet.centre.summing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.frozen import Frozen, make_read_only
from veilnet._core.types import Array, Booleans
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.members import Members
from veilnet.model.network import Network
from veilnet.sums.handing_out import parts_of
from veilnet.sums.merging import useful_in_part


@dataclass(frozen=True, eq=False)
class SumParts(Frozen):
    """What the members of a group add to its sum.

    members:   their names; ``threshold`` of them must be there, and sums are taken modulo 2^``bits``.
    grid:      the step of each of the m numbers.
    expected:  (S, m), what each adds at the prior mean; None, with the next two, where all must be there
               (:func:`veilnet.sums.merging.useful_in_part`).
    observe:   (S, m, L), in the model's coordinates.
    noise:     (S, m, m), the covariance of each one's noise.
    """

    members: tuple[str, ...]
    threshold: int
    bits: int
    grid: Array
    expected: Array | None = None
    observe: Array | None = None
    noise: Array | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(self.members))
        make_read_only([self.grid, self.expected, self.observe, self.noise])

    def usable(self, there: Booleans) -> bool:
        """Whether the sum of those who are there, (S,), is opened and used."""
        return bool(np.all(there)) or (self.observe is not None and int(np.sum(there)) >= self.threshold)

    def words(self) -> tuple[object, ...]:
        """What another one of the same group has to share to the letter."""
        return self.members, self.threshold, self.bits

    def numbers(self) -> list[Array]:
        """Everything else in it, as rows."""
        given = (self.grid, self.expected, self.observe, self.noise)
        return [each.reshape(-1, each.shape[-1]) for each in given if each is not None]


def sum_parts(network: Network, sanitizers: Mapping[str, Sanitizer]) -> dict[str, SumParts]:
    """group -> what its members add; empty where nobody adds up."""
    found = {}
    for name, group in network.members.items():
        if sanitizers[name].grid is None:  # nobody can hand it out, or add it up
            continue
        parts = parts_of(sanitizers[name], name, group)
        first = next(iter(parts.values()))
        assert first.summed is not None
        assert first.grid is not None
        laws = _laws(network, name, group, parts) if useful_in_part(network, name, group) else ()
        found[name] = SumParts(group.agents, group.threshold, first.summed.bits, first.grid, *laws)
    return found


def _laws(network: Network, name: str, group: Members, parts: Mapping[str, Sanitizer]) -> tuple[Array, ...]:
    """(expected, observe, noise) of each member's term, common disturbances counted as parameters."""
    place = network.position[name]
    rows, noise = network.blocks.rows(place), network.common_apart.R.block(place)
    shown, offset = network.common_apart.H[rows], network.offset[rows]
    mean = np.zeros(shown.shape[1])
    if network.prior is not None:
        mean[: network.L] = network.prior.mean
    cut = [group.blocks.rows(k) for k in range(len(parts))]
    each = list(zip((part.compression for part in parts.values()), parts.values(), cut, strict=True))
    return (
        np.stack([c @ (shown[own] @ mean + offset[own] - part.offset) for c, part, own in each]),
        np.stack([network.common_apart.in_raw_coordinates(c @ shown[own]) for c, _, own in each]),
        np.stack([c @ noise[own, own] @ c.T + part.noise for c, part, own in each]),
    )
