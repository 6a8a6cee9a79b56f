"""The noise of the readings, n ~ N(0, R): joint across agents, or independent and kept per agent.

Independent noise never becomes an N x N matrix: it is one (count, n, n) stack per size of agent.
Both kinds answer the same questions, so that the rest of veilnet need not know which one it has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from veilnet._core.blocks import Blocks, Group
from veilnet._core.errors import InvalidNetwork
from veilnet._core.frozen import Frozen, derived
from veilnet._core.linalg import (
    ILL_CONDITIONED,
    cholesky,
    refined_root,
    root_condition,
    solve_lower,
    solve_lower_batch,
)
from veilnet._core.types import Array
from veilnet._core.validation import (
    are_stacks,
    as_array,
    diagonal_or_whole,
    lowest_relative_eigenvalues,
    refuse_unknown,
    symmetric,
)
from veilnet.model.readings import dither_variance


class NoiseModel(Frozen, ABC):
    """R ≻ 0, with R = root root' and root lower triangular."""

    independent: bool
    blocks: Blocks

    @abstractmethod
    def block(self, agent: int) -> Array:
        """R_ii of one agent, by position."""

    @abstractmethod
    def stack(self, group: Group) -> Array:
        """R_ii of all agents of a size, (count, n, n), for looking at alone."""

    @abstractmethod
    def matrix(self) -> Array:
        """R as one dense N x N matrix; for looking at, not for computing with many agents."""

    @abstractmethod
    def whiten(self, stacked: Array) -> Array:
        """root^-1 applied to stacked (N, k) rows."""

    @abstractmethod
    def whiten_back(self, stacked: Array) -> Array:
        """root^-T applied to stacked (N, k) rows."""

    @abstractmethod
    def own_roots(self) -> tuple[Array, ...]:
        """Cholesky factors of the R_ii, one (count, n, n) stack per size group (common disturbances left aside)."""

    @abstractmethod
    def condition(self) -> float:
        """Cheap estimate of the condition of the root, units removed."""

    @abstractmethod
    def variances(self) -> Array:
        """The diagonal of R, (N,)."""

    def rounding_room(self) -> Array:
        """How much of each reading's variance its rounding can be: what is its own, and no other reading's."""
        return self.variances()

    @abstractmethod
    def plus(self, variances: Array) -> NoiseModel:
        """The noise with something independent added to each reading, of these N variances."""


class IndependentNoise(NoiseModel):
    """Each agent's noise independent of the others': R is block diagonal and kept as its blocks."""

    independent = True

    def __init__(self, blocks: Blocks, stacks: Sequence[Array], names: Sequence[str]) -> None:
        self.blocks = blocks
        self.stacks = tuple(stacks)
        self._names = names
        self._roots = tuple(
            _cholesky_stack(stack, partial(_label, names, group))
            for group, stack in zip(blocks.groups, stacks, strict=True)
        )
        self._freeze()

    def block(self, agent: int) -> Array:
        for group, stack in zip(self.blocks.groups, self.stacks, strict=True):
            place = int(np.searchsorted(group.agents, agent))
            if place < group.count and group.agents[place] == agent:
                return np.asarray(stack[place])
        raise IndexError(agent)

    def stack(self, group: Group) -> Array:
        return next(
            stack
            for each, stack in zip(self.blocks.groups, self.stacks, strict=True)
            if each.size == group.size
        )

    def matrix(self) -> Array:
        dense = np.zeros((self.blocks.total, self.blocks.total))
        for group, stack in zip(self.blocks.groups, self.stacks, strict=True):
            dense[group.rows[:, :, None], group.rows[:, None, :]] = stack
        return dense

    def whiten(self, stacked: Array) -> Array:
        return self._substitute(stacked, transposed=False)

    def whiten_back(self, stacked: Array) -> Array:
        return self._substitute(stacked, transposed=True)

    def own_roots(self) -> tuple[Array, ...]:
        return self._roots

    def condition(self) -> float:
        return max(root_condition(root) for root in self._roots)

    def variances(self) -> Array:
        found = np.empty(self.blocks.total)
        for group, stack in zip(self.blocks.groups, self.stacks, strict=True):
            group.put(found, np.diagonal(stack, axis1=1, axis2=2))
        return found

    def plus(self, variances: Array) -> IndependentNoise:
        stacks = []
        for group, stack in zip(self.blocks.groups, self.stacks, strict=True):
            more = np.array(stack)
            diagonal = np.arange(group.size)
            more[:, diagonal, diagonal] += variances[group.rows]
            stacks.append(more)
        return IndependentNoise(self.blocks, stacks, self._names)

    def _substitute(self, stacked: Array, *, transposed: bool) -> Array:
        if len(self.blocks.groups) == 1:
            taken = self.blocks.groups[0].take(stacked)
            return solve_lower_batch(self._roots[0], taken, transposed=transposed).reshape(stacked.shape)
        white = np.empty(stacked.shape)
        for group, root in zip(self.blocks.groups, self._roots, strict=True):
            group.put(white, solve_lower_batch(root, group.take(stacked), transposed=transposed))
        return white


class JointNoise(NoiseModel):
    """Noise correlated between agents: R is one N x N matrix."""

    independent = False

    def __init__(self, blocks: Blocks, matrix: Array) -> None:
        self.blocks = blocks
        self._matrix = matrix
        self.root = _cholesky_stack(matrix[None], lambda _: "noise")[0]
        self._freeze()

    def block(self, agent: int) -> Array:
        rows = self.blocks.rows(agent)
        return np.asarray(self._matrix[rows, rows])

    def stack(self, group: Group) -> Array:
        return group.diagonal_blocks(self._matrix)

    def matrix(self) -> Array:
        return self._matrix

    def whiten(self, stacked: Array) -> Array:
        return solve_lower(self.root, stacked)

    def whiten_back(self, stacked: Array) -> Array:
        return solve_lower(self.root, stacked, transposed=True)

    def own_roots(self) -> tuple[Array, ...]:
        return self._own_roots

    @derived
    def _own_roots(self) -> tuple[Array, ...]:
        return tuple(cholesky(group.diagonal_blocks(self._matrix)) for group in self.blocks.groups)

    def condition(self) -> float:
        return root_condition(self.root)

    def variances(self) -> Array:
        return np.array(np.diagonal(self._matrix))

    def plus(self, variances: Array) -> JointNoise:
        return JointNoise(self.blocks, self._matrix + np.diag(variances))


def dithered(noise: NoiseModel, steps: Array, draws: Array | float, agents: Sequence[str]) -> NoiseModel:
    """The noise of readings moved by so many draws of their N steps, R + diag(m q²/12).

    R is the noise of the readings as they come, rounding included: less than rounding alone has is refused.
    """
    rounding = dither_variance(steps)
    if not np.any(rounding):
        return noise
    variances = noise.rounding_room()
    short = np.flatnonzero(variances < rounding * (1 - 1e-9))
    if short.size:
        place = int(short[0])
        agent = agents[int(noise.blocks.owner[place])]
        raise InvalidNetwork(
            f"resolution of {agent!r}: rounding to steps of {steps[place]:g} alone has the variance "
            f"{rounding[place]:.3g} (step²/12), but the noise given has {variances[place]:.3g}; noise includes "
            f"rounding: add it, or correct the step"
        )
    added = dither_variance(steps, draws)
    return noise.plus(added) if np.any(added) else noise


def read_covariance(noise: Any, agents: Sequence[str], blocks: Blocks) -> NoiseModel:
    """Every form of the ``noise`` argument: joint matrix, per agent, variances, stacked, or a scalar."""
    if isinstance(noise, NoiseModel):
        if not np.array_equal(noise.blocks.sizes, blocks.sizes):
            raise InvalidNetwork(
                "noise: expected the noise of agents of the same sizes, found that of another network"
            )
        return noise
    if isinstance(noise, Mapping):
        return _noise_per_agent(noise, agents, blocks)
    if are_stacks(noise):
        return _noise_of_stacks(noise, agents, blocks)
    array = as_array(noise, "noise")
    total = blocks.total
    if array.ndim == 0 or array.shape == (total,):
        return _variances(np.broadcast_to(array, (total,)), agents, blocks)
    if array.shape == (total, total):
        matrix = symmetric(array, "noise")
        # Independence is worth recognising: it takes N x N work down to L x L sums over agents.
        if np.any(matrix[blocks.owner[:, None] != blocks.owner[None, :]]):
            return JointNoise(blocks, matrix)
        return IndependentNoise(blocks, [group.diagonal_blocks(matrix) for group in blocks.groups], agents)
    if array.ndim == 3 and len(blocks.groups) == 1:
        size = blocks.groups[0].size
        if array.shape == (blocks.count, size, size):
            return IndependentNoise(blocks, [symmetric(array, "noise")], agents)
    raise InvalidNetwork(
        f"noise: expected a variance, {total} variances, a {total} x {total} covariance, one covariance per "
        f"agent in a mapping, or a stack of them; found shape {array.shape}"
    )


def _noise_of_stacks(noise: Sequence[Any], agents: Sequence[str], blocks: Blocks) -> IndependentNoise:
    """Independent noise given as one stack after another, in the order of the agents."""
    stacks = [as_array(each, f"noise[{place}]") for place, each in enumerate(noise)]
    shapes = [stack.shape for stack in stacks]
    fits = all(len(shape) == 3 and shape[1] == shape[2] for shape in shapes)
    if not fits or not np.array_equal(
        np.repeat([shape[1] for shape in shapes], [shape[0] for shape in shapes]), blocks.sizes
    ):
        raise InvalidNetwork(
            f"noise: expected stacks (S, n, n) for the agents of observe in their order, found shapes {shapes}"
        )
    by_size: dict[int, list[Array]] = {}
    for place, stack in enumerate(stacks):
        by_size.setdefault(stack.shape[1], []).append(symmetric(stack, f"noise[{place}]"))
    together = [by_size[group.size] for group in blocks.groups]
    return IndependentNoise(
        blocks, [each[0] if len(each) == 1 else np.concatenate(each) for each in together], agents
    )


def _noise_per_agent(noise: Mapping[Any, Any], agents: Sequence[str], blocks: Blocks) -> IndependentNoise:
    refuse_unknown(noise, agents, "noise")
    missing = [name for name in agents if name not in noise]
    if missing:
        raise InvalidNetwork(
            f"noise: nothing given for agent {missing[0]!r}; give its covariance, variances or a scalar"
        )
    stacks = []
    for group in blocks.groups:
        stack = np.empty((group.count, group.size, group.size))
        for place, agent in enumerate(group.agents):
            name = agents[int(agent)]
            label = f"noise of {name!r}"
            stack[place] = symmetric(diagonal_or_whole(noise[name], label, group.size), label)
        stacks.append(stack)
    return IndependentNoise(blocks, stacks, agents)


def _variances(variances: Array, agents: Sequence[str], blocks: Blocks) -> IndependentNoise:
    stacks = []
    for group in blocks.groups:
        stack = np.zeros((group.count, group.size, group.size))
        diagonal = np.arange(group.size)
        stack[:, diagonal, diagonal] = variances[group.rows]
        stacks.append(stack)
    return IndependentNoise(blocks, stacks, agents)


def _label(names: Sequence[str], group: Group, place: int) -> str:
    return f"noise of {names[int(group.agents[place])]!r}"


def _cholesky_stack(stack: Array, label: Callable[[int], str]) -> Array:
    try:
        roots: Array | None = cholesky(stack)
    except np.linalg.LinAlgError:
        roots = None
    if roots is not None and root_condition(roots) < ILL_CONDITIONED:
        return roots
    # Slow path: to decide, to say who is at fault, and to keep the digits of what is ill-conditioned.
    lowest = lowest_relative_eigenvalues(stack)
    place = int(np.argmin(lowest))
    if lowest[place] <= 4 * np.finfo(float).eps * stack.shape[1]:
        raise InvalidNetwork(
            f"{label(place)}: expected a positive definite covariance, found the relative eigenvalue "
            f"{lowest[place]:.3g}; every reading needs noise of its own (drop duplicated readings, or add it)"
        )
    return refined_root(cholesky(stack), stack)
