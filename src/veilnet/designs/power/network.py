"""A network in one piece: its agents as a crowd, what is to be hidden, and the noise found for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from veilnet._core.linalg import orthonormal_rows
from veilnet._core.progress import Progress
from veilnet._core.stacks import parts, summed
from veilnet._core.types import Array
from veilnet.agent.mechanisms import Mechanisms
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.designs.power.agents import Agents
from veilnet.designs.power.ascent import Ascent, AscentSearch, PowerCrowd
from veilnet.verdict.exact_test import Verdict

_ROUNDING = 1e-14  # of a unit row: what is left of one that the public rows see


class NetworkCrowd(PowerCrowd):
    """All agents of a network in one piece; common disturbances count as parameters."""

    def __init__(self, verdict: Verdict, power: Array) -> None:
        super().__init__(self._summed)
        apart = verdict.network.common_apart
        shares = verdict.shares
        self._network = verdict.network
        self._change = apart.in_raw_coordinates(np.eye(apart.L))
        self._groups = [
            Agents(
                apart.blocks.take(apart.H, group.agents), roots, rows, shares.ranks[group.agents],
                power[group.agents],
            )
            for group, roots, rows in zip(
                apart.blocks.groups, apart.R.own_roots(), shares.rows, strict=True
            )
        ]  # fmt: skip
        self._free = [stack for group in self._groups for stack in group.free(self._change)]
        self.wanted = wanted_columns(
            apart.in_raw_coordinates(apart.U), map(apart.in_raw_coordinates, apart.private.values())
        )

    @property
    def agents(self) -> int:
        """How many agents there are."""
        return self._network.S

    def _summed(self, answer: Callable[..., Array], *asked: Array) -> tuple[Array, ...]:
        some = (stack.part(part) for stack in self._free for part in parts(*stack.shown.shape))
        return summed(some, answer, *asked)

    def sanitizers(self, estimate: Array) -> tuple[Mechanisms, Array]:
        """What all send whose noise answers an estimate, and the power each of them uses, (S,)."""
        self._free = []  # what the search needed has served
        used = np.zeros(self._network.S)
        stacks = []
        for group, agents in zip(self._network.blocks.groups, self._groups, strict=True):
            rows, variances, used[group.agents] = agents.sending(self._change, estimate)
            stacks.append(SanitizerStack(group.agents, rows, variances if np.any(variances) else None))
        return Mechanisms(self._network, stacks), used


def noise_of_many(
    verdict: Verdict, power: Array, progress: Progress | None
) -> tuple[Mechanisms, Array, Ascent]:
    """The noise within the powers, (S,), that hides most in total: what all send, the power used, how found."""
    crowd = NetworkCrowd(verdict, power)
    found = AscentSearch(crowd, crowd.wanted, progress).run()
    return (*crowd.sanitizers(found.estimate), found)


def wanted_columns(public: Array, private: Iterable[Array]) -> Array:
    """G', (L, r), with Σ_j p_j = tr(G (J̃^-1 - I) G'): every parameter's rows divided by the root of its raw error.

    No noise at perfect utility touches what the public rows see, so that it is left out; none is left where all that
    is private is public too.

    public, private: U and the G_j in coordinates of x in which the raw information is the identity.
    """
    seen = orthonormal_rows(public)
    rows = np.concatenate([each / np.linalg.norm(each) for each in private])
    rows = rows - (rows @ seen.T) @ seen
    left, sizes, _ = np.linalg.svd(rows.T, full_matrices=False)
    kept = sizes > _ROUNDING
    return np.asarray(left[:, kept] * sizes[kept])
