"""The precise recheck: plain elimination with 32 digits, in coordinates of x where the raw information is about one.

Everything is a Schur complement. Eliminating M = C R C' + Θ from [[M, C H], [H'C', 0]] leaves -H'C'M^-1 C H;
eliminating J̃ from [[J̃, A'], [A, 0]] leaves -A J̃^-1 A'. No rank is decided in J̃: the weak prior of
:mod:`veilnet.recheck.route` keeps it invertible.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from veilnet._core.errors import NotObservable
from veilnet._core.twofold import Twofold, stack_blocks
from veilnet._core.types import Array
from veilnet.agent.mechanisms import Mechanisms, mechanisms
from veilnet.model.network import Network

# A number whose variance, given the numbers before it, is below this part of its own repeats them.
_REPEATED = 1e-27
# Directions of a prior with less than this part of its information (units removed) are rounding of a singular one.
_NO_INFORMATION = 64 * float(np.finfo(float).eps)
# Entries of agents worked on at once: temporaries stay below some ten megabytes.
_ENTRIES_AT_ONCE = 1 << 18


class TwofoldRecheck:
    """J and J̃ with 32 digits, in coordinates x = T^-1 x' with T'T about J: T^-1 is ``change``, taken as exact."""

    def __init__(self, network: Network, sent: Mechanisms) -> None:
        self._network = network
        self._sent = sent
        # Only a choice of coordinates: any invertible matrix gives the same errors, a good one keeps their digits.
        self.change = np.linalg.inv(network.raw_triangle)
        self.raw_information = self.prior() + self._sent_information(mechanisms(network, {}))
        if not np.max(np.abs(self.raw_information.high - np.eye(network.L))) < 0.5:
            raise NotObservable(
                "observe: the readings and the prior determine some combination of x so poorly that rounding hides "
                "it; add an agent that sees it, give a prior, or remove it from x"
            )

    @cached_property
    def _left_information(self) -> Twofold:
        return self.prior() + self._sent_information(self._sent)

    def growth(self, rows: Array, weak: float) -> float:
        """tr(A (J̃ + weak·J)^-1 A') / tr(A J^-1 A') - 1 for rows A."""
        asked = Twofold.of(rows / np.max(np.abs(rows))) @ Twofold.of(self.change)
        before = error_of(self.raw_information, asked)
        left = self._left_information + self.raw_information * Twofold.of(np.full((1, 1), weak))
        grown = (error_of(left, asked) - before) / before
        return float(grown.high[0])

    def prior(self) -> Twofold:
        """J0."""
        prior = self._network.prior
        if prior is None:
            return Twofold.zeros((self._network.L, self._network.L))
        if prior.given == "covariance":
            covariance = prior.covariance
            assert covariance is not None
            return -bordered_complement(Twofold.of(covariance), Twofold.of(self.change))
        scale = _power_of_two(1.0 / np.sqrt(np.maximum(np.diag(prior.information), np.finfo(float).tiny)))
        unit = prior.information * scale[:, None] * scale
        values, vectors = np.linalg.eigh(unit)
        known = vectors[:, values > _NO_INFORMATION * len(values) * max(float(values[-1]), 1.0)]
        if known.shape[1] == len(values):
            known = np.eye(len(values))
        half = Twofold.of(known.T / scale) @ Twofold.of(self.change)
        kept = Twofold.of(known.T) @ Twofold.of(unit) @ Twofold.of(known)
        return half.T @ (kept @ half)

    def informations(self) -> Twofold:
        """H_i'R_i^-1 H_i of every agent, (agents, L, L), noises independent."""
        network = self._network
        found = Twofold.zeros((network.S, network.L, network.L))
        for group in network.blocks.groups:
            observed = Twofold.of(group.take(network.H)) @ Twofold.of(self.change)
            found[group.agents] = -bordered_complement(Twofold.of(network.R.stack(group)), observed)
        return found

    def _sent_information(self, sent: Mechanisms) -> Twofold:
        """Σ H'C'(C R C' + Θ)^-1 C H."""
        network = self._network
        parts = _independent if network.R.independent else _joint
        total = Twofold.zeros((network.L, network.L))
        for covariance, observed in parts(network, sent, Twofold.of(self.change)):
            if observed.shape[-2]:
                complement = bordered_complement(covariance, observed)
                total = total - (complement if complement.high.ndim == 2 else complement.total())
        return total


def _independent(network: Network, sent: Mechanisms, change: Twofold) -> Iterator[tuple[Twofold, Twofold]]:
    """(C R C' + Θ, C H T^-1) for stacks of agents that send and read as many numbers."""
    noises = [network.R.stack(group) for group in network.blocks.groups]
    for each in sent.parts():
        step = max(1, _ENTRIES_AT_ONCE // (max(each.stack.sent, each.stack.readings) + network.L) ** 2)
        for start in range(0, each.stack.count, step):
            some = slice(start, start + step)
            stack = each.stack.take(some)
            compression = Twofold.of(stack.compression)
            own = Twofold.of(noises[each.group][each.within][some])
            covariance = compression @ own @ compression.T
            if stack.noise is not None:
                covariance = covariance + Twofold.of(stack.noise)
            yield covariance, compression @ (Twofold.of(each.observe[some]) @ change)


def _joint(network: Network, sent: Mechanisms, change: Twofold) -> Iterator[tuple[Twofold, Twofold]]:
    """(C R C' + Θ, C H T^-1) of all agents at once, where their noises are correlated."""
    own = Twofold.of(network.R.matrix())
    observed = Twofold.of(network.H) @ change
    places = [network.blocks.rows(place) for place in range(network.S)]
    pairs = [(Twofold.of(each.compression), rows) for each, rows in zip(sent.values(), places, strict=True)]
    half = stack_blocks([[c @ own[rows]] for c, rows in pairs])
    covariance = stack_blocks([[half[:, rows] @ c.T for c, rows in pairs]])
    seen = stack_blocks([[c @ observed[rows]] for c, rows in pairs])
    for place, each in enumerate(sent.values()):
        mine = sent.blocks.rows(place)
        covariance[mine, mine] = covariance[mine, mine] + Twofold.of(each.noise)
    yield covariance, seen


def bordered_complement(matrix: Twofold, border: Twofold) -> Twofold:
    """-B'M^-1 B for a positive semidefinite M, or a stack of them; repeated rows are dropped."""
    diagonal = np.diagonal(matrix.high, axis1=-2, axis2=-1)
    scale = _power_of_two(1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)))[..., None]
    unit = matrix.scaled(scale * np.swapaxes(scale, -1, -2))
    bordered = border.scaled(scale)
    corner = Twofold.zeros((*matrix.shape[:-2], border.shape[-1], border.shape[-1]))
    rest = stack_blocks([[unit, bordered], [bordered.T, corner]])
    for _ in range(matrix.shape[-1]):
        pivot = rest[..., :1, :1]
        some = pivot.high > _REPEATED * matrix.shape[-1]
        safe = Twofold(np.where(some, pivot.high, 1.0), np.where(some, pivot.low, 0.0))
        column = rest[..., 1:, :1]
        factor = column / safe
        factor = factor.scaled(np.where(some, 1.0, 0.0))
        rest = rest[..., 1:, 1:] - factor * column.T
    return rest


def error_of(information: Twofold, rows: Twofold) -> Twofold:
    """tr(A J^-1 A'), by elimination with the largest pivot first."""
    size = information.shape[0]
    rest = stack_blocks([[information, rows.T], [rows, Twofold.zeros((rows.shape[0], rows.shape[0]))]])
    for left in range(size, 0, -1):
        first = int(np.argmax(np.diag(rest.high)[:left]))
        order = np.arange(rest.shape[0])
        order[[0, first]] = order[[first, 0]]
        rest = rest[order][:, order]
        column = rest[1:, :1]
        rest = rest[1:, 1:] - column / rest[:1, :1] * column.T
    diagonal = np.arange(rows.shape[0])
    return -Twofold(rest.high[diagonal, diagonal], rest.low[diagonal, diagonal]).total().reshaped(1)


def _power_of_two(sizes: Array) -> Array:
    """The power of two next to each size: scaling by it rounds nothing."""
    return np.asarray(np.exp2(np.round(np.log2(sizes))))
