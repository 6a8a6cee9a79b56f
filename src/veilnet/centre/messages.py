"""What the fusion centre has to know of a plan: the model of the messages, and nothing of the readings.

Agent i's message is z_i = C_i (y_i - offset_i) + ξ_i. The centre keeps it whitened and around what the prior
expects:

    w_i = whiten_i (z_i - expected_i) = observe_i x + e_i,   e_i of unit covariance,

with correlations between the e_i of different agents where the readings' noise had them (common disturbances are
parameters that are estimated along with x, :mod:`veilnet.model.apart`). x is counted from
the prior mean, in coordinates where the raw readings and the prior together have the identity as information:
singular values of the observed rows then say how sharply each direction is known, and what is too small to be
told from rounding is decided as in :mod:`veilnet.bounds.knowledge`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from veilnet._core.blocks import Blocks
from veilnet._core.durations import same_step
from veilnet._core.errors import InvalidPlan
from veilnet._core.linalg import cholesky, solve_lower, solve_upper, triangle
from veilnet._core.types import Array, Booleans
from veilnet.agent.dither import counting_dither
from veilnet.agent.mechanisms import Mechanisms, fitting
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.knowledge import least_sharpness
from veilnet.bounds.message_noise import Sent, joint_covariance
from veilnet.centre.whitening import WhiteningStacks, whitening
from veilnet.model.network import Network

__all__ = ["CentreModel", "View", "centre_model", "rows_agree"]

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
    basis:       a digest of the coordinates of x, the same for all plans of one network; empty where nobody said.
    """

    agents: Sequence[str]
    blocks: Blocks
    whiten: Sequence[Array]
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

    @cached_property
    def complete(self) -> View:
        """What all messages together tell."""
        return self.view(np.ones(len(self.agents), bool))

    def view(self, present: Booleans) -> View:
        """What the messages of the agents present tell; gain has a column for each of their numbers."""
        places = np.flatnonzero(present)
        rows = np.flatnonzero(np.repeat(present, self.blocks.sizes))
        factor = self.observe[rows]
        root = None if self.correlation is None else cholesky(self.correlation[np.ix_(rows, rows)])
        if root is not None:
            factor = solve_lower(root, factor)
        stacked = np.concatenate([self.prior, factor])
        left, sharpness, directions = np.linalg.svd(stacked, full_matrices=False)
        known = sharpness > self.least_sharpness
        half = self.public @ directions[known].T
        # What lies outside the known directions, without forming the unknown ones.
        outside = np.linalg.norm(self.public - half @ directions[known], axis=1)
        limit = max(_OUTSIDE, self.least_sharpness)
        estimable = outside <= limit * np.linalg.norm(self.public, axis=1)
        half = half / sharpness[known]
        gain = half @ left[len(self.prior) :, known].T
        if root is not None:
            gain = solve_lower(root, np.ascontiguousarray(gain.T), transposed=True).T
        gain = self._unwhitened(gain, places)
        covariance = half @ half.T
        gain[~estimable] = np.nan
        covariance[~estimable] = np.nan
        covariance[:, ~estimable] = np.nan
        covariance[~estimable, ~estimable] = np.inf
        return View(gain, covariance, np.asarray(estimable))

    def resembles(self, other: CentreModel) -> bool:
        """Whether another model says the same, up to rounding on another machine."""
        mine, theirs = self._comparable(), other._comparable()
        return (
            (self.agents, self.labels, self.units) == (other.agents, other.labels, other.units)
            and same_step(self.step, other.step)
            and len(mine) == len(theirs)
            and all(rows_agree(one, another) for one, another in zip(mine, theirs, strict=True))
        )

    def _comparable(self) -> list[Array]:
        """Everything in it; roots that are not unique by what is."""
        parts = [*self.whiten, self.observe, self.public, self.prior.T @ self.prior]
        parts += [self.public_expected[:, None], np.array([[self.least_sharpness]])]
        for place, white in enumerate(self.whiten):
            parts.append((white @ self.expected[self.blocks.rows(place)])[:, None])
        return parts if self.correlation is None else [*parts, self.correlation]

    def _unwhitened(self, gain: Array, places: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Array:
        if isinstance(self.whiten, WhiteningStacks) and len(places) == len(self.whiten):
            return self.whiten.applied(gain)
        result = np.empty(gain.shape)
        start = 0
        for place in places:
            stop = start + int(self.blocks.sizes[place])
            result[:, start:stop] = gain[:, start:stop] @ self.whiten[int(place)]
            start = stop
        return result


def centre_model(network: Network, sanitizers: Mapping[str, Sanitizer], plan: str = "") -> CentreModel:
    """The messages of these sanitizers; agents without one send their readings raw."""
    network = counting_dither(network, sanitizers)
    apart = network.common_apart
    if apart is not network:
        network, sanitizers = apart, fitting(apart, sanitizers)
    if isinstance(sanitizers, Mechanisms) and sanitizers.belong_to(network) and network.R.independent:
        return _model_of(network, plan, _stacked_parts(network, sanitizers), None)
    mechanisms = [
        sanitizers[agent] if agent in sanitizers else Sanitizer.raw(int(size), agent=agent)
        for agent, size in zip(network.agents, network.blocks.sizes, strict=True)
    ]
    blocks = Blocks([mechanism.sent for mechanism in mechanisms])
    mean = np.zeros(network.L) if network.prior is None else network.prior.mean
    roots = _own_roots(network)
    whiten, observed, expected = [], [], []
    for place, mechanism in enumerate(mechanisms):
        rows = network.blocks.rows(place)
        white = _whitening(mechanism, roots[place])
        sent = mechanism.compression @ network.H[rows]
        whiten.append(white)
        observed.append(white @ sent)
        expected.append(mechanism.compression @ (network.offset[rows] - mechanism.offset) + sent @ mean)
    together = _Parts(
        blocks, tuple(whiten), network.in_raw_coordinates(np.concatenate(observed)), np.concatenate(expected)
    )
    independent = network.R.independent
    correlation = None if independent else _correlation(network, mechanisms, whiten, blocks)
    return _model_of(network, plan, together, correlation)


class _Parts(NamedTuple):
    """What the messages of all agents say, stacked: see :class:`CentreModel`."""

    blocks: Blocks
    whiten: Sequence[Array]
    observe: Array
    expected: Array


def _stacked_parts(network: Network, sanitizers: Mechanisms) -> _Parts:
    blocks = Blocks(sanitizers.sent)
    mean = np.zeros(network.L) if network.prior is None else network.prior.mean
    roots = network.R.own_roots()
    observe, expected = np.empty((blocks.total, network.L)), np.empty(blocks.total)
    whiten = [np.empty((stack.count, stack.sent, stack.sent)) for stack in sanitizers.stacks]
    for each in sanitizers.parts():
        white, differ = whitening(each.stack.compression, roots[each.group][each.within], each.stack.noise)
        if not differ.all():
            place = int(each.stack.places[np.argmin(differ)])
            raise _repeats(network.agents[place])
        whiten[each.number][each.part] = white
        sent = each.stack.compression @ each.observe
        rows = (blocks.starts[each.stack.places][:, None] + np.arange(each.stack.sent)).reshape(-1)
        observe[rows] = network.in_raw_coordinates((white @ sent).reshape(-1, network.L))
        expected[rows] = (sent @ mean).reshape(-1)
    places = [stack.places for stack in sanitizers.stacks]
    return _Parts(blocks, WhiteningStacks(blocks, list(zip(places, whiten, strict=True))), observe, expected)


def _model_of(network: Network, plan: str, parts: _Parts, correlation: Array | None) -> CentreModel:
    mean = np.zeros(network.L) if network.prior is None else network.prior.mean
    return CentreModel(
        agents=network.agents,
        blocks=parts.blocks,
        whiten=parts.whiten,
        observe=parts.observe,
        expected=parts.expected,
        correlation=correlation,
        prior=network.in_raw_coordinates(network.prior_root),
        public=network.in_raw_coordinates(network.U),
        public_expected=network.U @ mean,
        labels=network.public_rows,
        units=_units(network),
        least_sharpness=least_sharpness(network),
        plan=plan,
        step=network.step,
        basis=_basis(network, mean),
    )


def _basis(network: Network, mean: Array) -> str:
    """What x is counted from, in which coordinates, and what is public of it."""
    found = hashlib.sha256("\0".join(network.parameters).encode())
    for array in (network.raw_triangle, mean, network.prior_root, network.U):
        found.update(f"{array.shape}".encode() + np.ascontiguousarray(array + 0.0, dtype="<f8").tobytes())
    return found.hexdigest()[:32]


def _own_roots(network: Network) -> list[Array]:
    """Per agent L_i with L_i L_i' = R_ii."""
    roots: list[Array] = [np.zeros((0, 0))] * network.S
    for group, stack in zip(network.blocks.groups, network.R.own_roots(), strict=True):
        for place, root in zip(group.agents, stack, strict=True):
            roots[int(place)] = root
    return roots


def _whitening(mechanism: Sanitizer, root: Array) -> Array:
    """W with W (C R C' + Θ) W' = I, from square roots: noise many orders above the readings' costs no digits."""
    if mechanism.sent == 0:
        return np.zeros((0, 0))
    upper = triangle(np.concatenate([(mechanism.compression @ root).T, mechanism.noise_root]))
    sizes = np.linalg.norm(upper, axis=0)
    if not np.all(np.abs(np.diag(upper)) > 1e-13 * sizes):
        raise _repeats(mechanism.agent)
    return solve_upper(upper, np.eye(mechanism.sent), transposed=True)


def _repeats(agent: str) -> InvalidPlan:
    return InvalidPlan(
        f"sanitizer of {agent!r}: some numbers it sends repeat others; use its normalized() form"
    )


def _correlation(network: Network, mechanisms: list[Sanitizer], whiten: list[Array], blocks: Blocks) -> Array:
    white_rows = [white @ s.compression for white, s in zip(whiten, mechanisms, strict=True)]
    full = joint_covariance(
        network, [Sent(k, rows, np.zeros((len(rows),) * 2)) for k, rows in enumerate(white_rows)]
    )
    for place in range(blocks.count):
        mine = blocks.rows(place)
        full[mine, mine] = np.eye(int(blocks.sizes[place]))
    return np.asarray(full)


def rows_agree(mine: Array, theirs: Array) -> bool:
    """Whether rows agree, each relative to its own scale."""
    if mine.shape != theirs.shape:
        return False
    scale = np.max(np.abs(mine), axis=1, initial=0.0, keepdims=True)
    floor = np.max(scale, initial=0.0) * _SAME
    return bool(np.all(np.abs(mine - theirs) <= _SAME * scale + _SAME * floor))


def _units(network: Network) -> tuple[str, ...]:
    return tuple(network.unit(name) for name, rows in network.public.items() for _ in range(len(rows)))
