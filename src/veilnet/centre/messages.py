"""What the fusion centre has to know of a plan: the model of the messages, and nothing of the readings.

Agent i's message is z_i = C_i (y_i - offset_i) + ξ_i. The centre keeps it whitened and around what the prior
expects:

    w_i = whiten_i (z_i - expected_i) = observe_i x + e_i,   e_i of unit covariance,

with correlations between the e_i of different agents where the readings' noise had them (common disturbances are
parameters that are estimated along with x, :mod:`veilnet.model.common`). x is counted from
the prior mean, in coordinates where the raw readings and the prior together have the identity as information:
singular values of the observed rows then say how sharply each direction is known, and what is too small to be
distinguished from rounding is decided as in :mod:`veilnet.bounds.knowledge`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import overload

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.errors import InvalidPlan
from veilnet._core.linalg import cholesky, solve_lower
from veilnet._core.types import Array, Booleans, Integers
from veilnet.agent.dither import counting_dither
from veilnet.agent.mechanisms import Mechanisms, Sanitizers, mechanisms
from veilnet.bounds.knowledge import least_sharpness
from veilnet.centre.sum_parts import SumParts, sum_parts
from veilnet.model.fitted import HeldOut
from veilnet.model.network import Network

_SAME = 1e-6  # two computations of one model, perhaps on different machines, differ by less
_OUTSIDE = 1e-8  # the part of a row that may lie outside what is known; as in veilnet.bounds.knowledge


@dataclass(frozen=True, eq=False)
class View:
    """What one set of messages tells about the public parameters.

    gain:       (rows, numbers): the estimate is expected + gain (z - expected messages).
    covariance: of its error; inf on the diagonal and not a number beside it where nothing is known.
    estimable:  which public parameters are determined.
    """

    gain: Array
    covariance: Array
    estimable: Booleans

    @classmethod
    def through(
        cls, public: Array, directions: Array, sharpness: Array, least: float, back: Callable[[Array], Array]
    ) -> View:
        """What is known of public rows where some directions of x are known.

        directions: orthonormal rows, (known, L), each known as sharply as ``sharpness`` says, (known,).
        least:      the sharpness below which directions count as unknown.
        back:       the gain from rows (rows, known), in which the error has unit covariance.
        """
        half = public @ directions.T
        # What lies outside the known directions, without forming the unknown ones.
        outside = np.linalg.norm(public - half @ directions, axis=1)
        estimable = np.asarray(outside <= max(_OUTSIDE, least) * np.linalg.norm(public, axis=1))
        half = half / sharpness
        gain, covariance = back(half), half @ half.T
        gain[~estimable] = np.nan
        covariance[~estimable] = np.nan
        covariance[:, ~estimable] = np.nan
        covariance[~estimable, ~estimable] = np.inf
        return cls(gain, covariance, estimable)


@dataclass(frozen=True, eq=False)
class CentreModel:
    """The messages of all agents, stacked in sending order.

    agents:      names in sending order.
    blocks:      how the M stacked numbers fall to the agents.
    whiten:      per agent, M_i x M_i.
    observe:     (M, L).
    expected:    (M,), messages at the prior mean.
    correlation: (M, M) of the whitened messages' noise, None where agents are independent.
    prior:       (r, L) with information prior'prior.
    public:      (rows, L); ``public_expected`` its value at the prior mean.
    labels:      one per public row, with ``units``, empty where none was given.
    least_sharpness: directions known less sharply than this count as unknown.
    step:        seconds of a row, None where nobody said.
    held_out:    label -> what rows held out of the fit add to stated errors.
    basis:       a digest of the coordinates of x, the same for all plans of one network; empty where nobody said.
    sums:        of agents that are groups, what their members add (:mod:`veilnet.centre.summing`).
    """

    agents: Sequence[str]
    blocks: Blocks
    whiten: WhiteningStacks
    observe: Array
    expected: Array
    correlation: Array | None
    prior: Array
    public: Array
    public_expected: Array
    labels: tuple[str, ...]
    units: tuple[str, ...]
    least_sharpness: float
    plan: str = ""
    step: float | None = None
    basis: str = ""
    sums: Mapping[str, SumParts] = field(default_factory=dict)
    held_out: Mapping[str, HeldOut] = field(default_factory=dict)

    @cached_property
    def complete(self) -> View:
        """What all messages together tell."""
        return self.view(np.ones(len(self.agents), bool))

    @cached_property
    def unmixing(self) -> Array:
        """(M, M), lower triangular: makes the noise of all whitened messages independent, where it is correlated."""
        assert self.correlation is not None
        return solve_lower(cholesky(self.correlation), np.eye(self.blocks.total))

    def view(self, present: Booleans) -> View:
        """What the messages of the agents present tell; gain has a column for each of their numbers."""
        rows = np.flatnonzero(np.repeat(present, self.blocks.sizes))
        root, left, sharpness, directions = self.decomposed(rows)

        def back(half: Array) -> Array:
            gain = half @ left[len(self.prior) :].T
            if root is not None:
                gain = solve_lower(root, np.ascontiguousarray(gain.T), transposed=True).T
            return self.whiten.applied(gain, rows)

        return View.through(self.public, directions, sharpness, self.least_sharpness, back)

    def decomposed(self, rows: Integers) -> tuple[Array | None, Array, Array, Array]:
        """(root of the noise's correlation or None, left, sharpness, directions) of what is known from the prior
        and, below its rows, the numbers chosen, made white.
        """
        factor = self.observe[rows]
        root = None if self.correlation is None else cholesky(self.correlation[np.ix_(rows, rows)])
        if root is not None:
            factor = solve_lower(root, factor)
        left, sharpness, directions = np.linalg.svd(np.concatenate([self.prior, factor]), full_matrices=False)
        known = sharpness > self.least_sharpness
        return root, left[:, known], sharpness[known], directions[known]

    def words(self) -> tuple[object, ...]:
        """What another model of the same messages has to share to the letter."""
        return (
            self.agents,
            self.labels,
            self.units,
            *((name, each.words()) for name, each in self.sums.items()),
        )

    def numbers(self) -> list[Array]:
        """Everything else in it; roots that are not unique by what is."""
        parts = [*self.whiten, self.observe, self.public, self.prior.T @ self.prior]
        parts += [self.public_expected[:, None], np.array([[self.least_sharpness]])]
        for place, white in enumerate(self.whiten):
            parts.append((white @ self.expected[self.blocks.rows(place)])[:, None])
        parts += [each for group in self.sums.values() for each in group.numbers()]
        return parts if self.correlation is None else [*parts, self.correlation]


def centre_model(network: Network, sanitizers: Sanitizers, plan: str = "") -> CentreModel:
    """The messages of these sanitizers; agents without one send their readings raw."""
    sent, held_out = mechanisms(network, sanitizers), network.held_out
    network = counting_dither(network, sent)
    sums = sum_parts(network, sent)
    network = network.common_apart
    sent = mechanisms(network, sent)
    mean = np.zeros(network.L) if network.prior is None else network.prior.mean
    whiten, observe, expected = whitened_messages(sent, mean, network)
    return CentreModel(
        agents=network.agents,
        blocks=sent.blocks,
        whiten=whiten,
        observe=observe,
        expected=expected,
        correlation=None if network.R.independent else _correlation(network, sent, whiten),
        prior=network.in_raw_coordinates(network.prior_root),
        public=network.in_raw_coordinates(network.U),
        public_expected=network.U @ mean,
        labels=network.public_rows,
        units=network.public_units,
        least_sharpness=least_sharpness(network),
        plan=plan,
        step=network.step,
        basis=_basis(network, mean),
        sums=sums,
        held_out=held_out,
    )


def _basis(network: Network, mean: Array) -> str:
    """What x is counted from, in which coordinates, and what is public of it."""
    found = hashlib.sha256("\0".join(network.parameters).encode())
    for array in (network.raw_triangle, mean, network.prior_root, network.U):
        found.update(f"{array.shape}".encode() + np.ascontiguousarray(array + 0.0, dtype="<f8").tobytes())
    return found.hexdigest()[:32]


def whitened_messages(
    sent: Mechanisms, mean: Array, coordinates: Network
) -> tuple[WhiteningStacks, Array, Array]:
    """(W, W C H in raw coordinates, the messages at the prior mean), W_i (C_i R_ii C_i' + Θ_i) W_i' = I.

    coordinates: whose raw coordinates: the network itself; where that is a part of another, the other.
    """
    network = sent.network
    roots = network.R.own_roots()
    shift = network.offset - sent.offset
    observe, expected = np.empty((sent.blocks.total, network.L)), np.empty(sent.blocks.total)
    whiten = [np.empty((stack.count, stack.sent, stack.sent)) for stack in sent.stacks]
    for each in sent.parts():
        stack = each.stack
        white, differ = whitening(stack.compression, roots[each.group][each.within], stack.noise_root)
        if not differ.all():
            agent = network.agents[int(stack.places[np.argmin(differ)])]
            raise InvalidPlan(
                f"sanitizer of {agent!r}: some numbers it sends repeat others; use its normalized() form"
            )
        whiten[each.number][each.part] = white
        shown = stack.compression @ each.observe
        numbers = sent.numbers(stack)
        flat = coordinates.in_raw_coordinates((white @ shown).reshape(-1, network.L))
        observe[numbers] = flat.reshape(shown.shape)
        expected[numbers] = shown @ mean
        if np.any(shift):
            moved = network.blocks.take(shift[:, None], stack.places)
            expected[numbers] += (stack.compression @ moved)[:, :, 0]
    places = [stack.places for stack in sent.stacks]
    return WhiteningStacks(sent.blocks, list(zip(places, whiten, strict=True))), observe, expected


def _correlation(network: Network, sent: Mechanisms, whiten: WhiteningStacks) -> Array:
    """Of the whitened messages' noise: between agents that of their readings, none within one."""
    half = whiten.of(sent.compressed(network.R.matrix()))
    full = whiten.of(sent.compressed(np.ascontiguousarray(half.T)))
    full = np.asarray((full + full.T) / 2)
    for place in range(sent.blocks.count):
        mine = sent.blocks.rows(place)
        full[mine, mine] = np.eye(int(sent.blocks.sizes[place]))
    return full


def rows_agree(mine: Array, theirs: Array) -> bool:
    """Whether rows agree, each relative to its own scale."""
    if mine.shape != theirs.shape:
        return False
    scale = np.max(np.abs(mine), axis=1, initial=0.0, keepdims=True)
    floor = np.max(scale, initial=0.0) * _SAME
    return bool(np.all(np.abs(mine - theirs) <= _SAME * scale + _SAME * floor))


_REPEATS = 1e-13  # a number that keeps less than this part of its deviation repeats others


def whitening(compression: Array, roots: Array, added_roots: Array | None = None) -> tuple[Array, Array]:
    """(W_i, whether all numbers of agent i differ) with W_i (C_i R_i C_i' + Θ_i) W_i' = I, lower triangular.

    From square roots: noise many orders above the readings' costs no digits.

    compression: C_i, (S, k, n).
    roots:       L_i with L_i L_i' = R_i, (S, n, n).
    added_roots: B_i with B_i'B_i = Θ_i, (S, rows, k); no noise is added when left out.
    """
    count, sent, _ = compression.shape
    if sent == 0:
        return np.zeros((count, 0, 0)), np.ones(count, bool)
    factor = np.swapaxes(compression @ roots, 1, 2)
    if added_roots is not None:
        factor = np.concatenate([factor, added_roots], axis=1)
    if factor.shape[1] < sent:  # more numbers than readings: some of them repeat others
        return np.zeros((count, sent, sent)), np.zeros(count, bool)
    upper = np.asarray(np.linalg.qr(factor, mode="r"))
    diagonal = np.diagonal(upper, axis1=1, axis2=2)
    upper = np.asarray(upper * np.where(diagonal < 0, -1.0, 1.0)[:, :, None])
    differ = np.all(np.abs(diagonal) > _REPEATS * np.linalg.norm(upper, axis=1), axis=1)
    lower = np.swapaxes(np.where(differ[:, None, None], upper, np.eye(sent)), 1, 2)
    return np.asarray(np.linalg.solve(lower, np.broadcast_to(np.eye(sent), lower.shape))), differ


class WhiteningStacks(Sequence[Array]):
    """What makes each agent's message white, by its place in sending order, kept as stacks of agents alike.

    stacks: (places, W), ascending places and (count, k, k).
    """

    def __init__(self, blocks: Blocks, stacks: Sequence[tuple[Integers, Array]]) -> None:
        self._blocks, self._stacks = blocks, tuple(stacks)

    @classmethod
    def of_agents(cls, blocks: Blocks, matrices: Sequence[Array]) -> WhiteningStacks:
        """The same from the matrix of each agent, in sending order."""
        alike = [np.flatnonzero(blocks.sizes == size) for size in np.unique(blocks.sizes)]
        return cls(blocks, [(places, np.stack([matrices[k] for k in places.tolist()])) for places in alike])

    def __len__(self) -> int:
        return self._blocks.count

    @overload
    def __getitem__(self, place: int) -> Array: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Array, ...]: ...
    def __getitem__(self, place: int | slice) -> Array | tuple[Array, ...]:
        if isinstance(place, slice):
            return tuple(self[k] for k in range(*place.indices(len(self))))
        wanted = range(len(self))[place]
        for places, white in self._stacks:
            within = int(np.searchsorted(places, wanted))
            if within < len(places) and places[within] == wanted:
                return np.asarray(white[within])
        raise IndexError(place)

    def of(self, stacked: Array) -> Array:
        """W times stacked rows (M, ...)."""
        made = np.empty(stacked.shape)
        for places, white in self._stacks:
            if white.shape[1]:
                mine = white @ self._blocks.take(stacked, places)
                rows = self._blocks.starts[places][:, None] + np.arange(white.shape[1], dtype=np.intp)
                made[rows.reshape(-1)] = mine.reshape(rows.size, *stacked.shape[1:])
        return made

    def applied(self, gain: Array, numbers: Integers | None = None) -> Array:
        """gain W, gain (rows, M) with a column for each number sent, or for some ``numbers`` of whole agents."""
        if numbers is not None and len(numbers) < self._blocks.total:
            whole = np.zeros((len(gain), self._blocks.total))
            whole[:, numbers] = gain
            return np.ascontiguousarray(self.applied(whole)[:, numbers])
        made = np.empty(gain.shape)
        for places, white in self._stacks:
            count, sent, _ = white.shape
            columns = (self._blocks.starts[places][:, None] + np.arange(sent, dtype=np.intp)).reshape(-1)
            mine = gain[:, columns].reshape(len(gain), count, 1, sent)
            made[:, columns] = (mine @ white).reshape(len(gain), len(columns))
        return made
