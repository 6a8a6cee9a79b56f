"""From sanitizers to information: F with J̃ = J0 + F'F.

F = M^-½ C H with M = C R C' + Λ, in the normal form of each agent (so M is never singular). Independent
noise is worked on in stacks of agents alike, so that only L x L sums couple them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np

from veilnet._core.errors import InvalidRequest
from veilnet._core.linalg import gram_root, solve_lower, solve_lower_batch, triangle
from veilnet._core.stacks import fits_at_once, joined_triangle, sent_rows, with_own_noise
from veilnet._core.types import Array, Booleans
from veilnet._core.validation import unknown
from veilnet.agent.mechanisms import Mechanisms, fitting
from veilnet.agent.sanitizer import Sanitizer
from veilnet.model.common import SharedNoise, without_common
from veilnet.model.network import Network
from veilnet.model.noise import JointNoise

Sanitizers = Mapping[str, Sanitizer]


@runtime_checkable
class Planned(Protocol):
    """Something that has a sanitizer for each agent: a :class:`veilnet.Plan`."""

    @property
    def sanitizers(self) -> Sanitizers:
        """agent -> Sanitizer."""


def sanitizers_of(given: Sanitizers | Planned | None) -> Sanitizers:
    """The sanitizers of a plan, or the ones given; none at all mean that every agent sends its readings raw."""
    if given is None:
        return {}
    return given.sanitizers if isinstance(given, Planned) else given


def message_factor(network: Network, sanitizers: Sanitizers) -> Array:
    """F, one row per number sent, or L rows that tell the same of very many. Agents without a sanitizer send their
    readings raw.
    """
    check_sanitizers(network, sanitizers)
    if isinstance(network.R, JointNoise):
        return _joint_factor(network, network.R, sanitizers)
    if isinstance(network.R, SharedNoise):
        return _shared_factor(network, sanitizers)
    sanitizers = fitting(network, sanitizers)
    if isinstance(sanitizers, Mechanisms):
        return _stacked_factor(network, sanitizers)
    return np.concatenate(list(_independent_factors(network, sanitizers)))


def check_sanitizers(network: Network, sanitizers: Sanitizers) -> None:
    """Refuse names that are no agents and sanitizers made for another number of readings."""
    if not isinstance(sanitizers, Mapping):
        raise InvalidRequest(
            f"sanitizers: expected agent -> Sanitizer, found {type(sanitizers).__name__}; use plan.sanitizers"
        )
    if isinstance(fitting(network, sanitizers), Mechanisms):
        return
    strangers = [str(name) for name in sanitizers if name not in network.position]
    if strangers:
        raise unknown(strangers, network.agents, "sanitizers", error=InvalidRequest)
    for name, sanitizer in sanitizers.items():
        if not isinstance(sanitizer, Sanitizer):
            raise InvalidRequest(
                f"sanitizers[{name!r}]: expected a Sanitizer, found {type(sanitizer).__name__}; "
                "write vn.Sanitizer(compression=C, noise=Theta)"
            )
        if sanitizer.memory is not None and not network.is_stream:
            raise InvalidRequest(
                f"sanitizers[{name!r}]: it keeps a memory of earlier rows, and the network has no dynamics; "
                "give dynamics=, or a sanitizer without memory"
            )
        expected = int(network.blocks.sizes[network.position[name]])
        if sanitizer.readings != expected:
            raise InvalidRequest(
                f"sanitizers[{name!r}]: expected {expected} readings, found {sanitizer.readings}; "
                "it was made for another agent or network"
            )


def _stacked_factor(network: Network, sanitizers: Mechanisms) -> Array:
    roots = network.R.own_roots()
    factors = (
        sent_rows(each.observe, roots[each.group][each.within], each.stack.compression, each.stack.variances)
        for each in sanitizers.parts()
        if each.stack.sent
    )
    rows = (factor.reshape(-1, network.L) for factor in factors)
    if fits_at_once(network.N * network.L):
        return np.concatenate([np.zeros((0, network.L)), *rows])
    return joined_triangle(map(triangle, rows), network.L)


def _independent_factors(network: Network, sanitizers: Sanitizers) -> Iterable[Array]:
    raw = np.ones(network.N, bool)
    alike: dict[tuple[int, int], list[tuple[int, Array, Booleans]]] = defaultdict(list)
    for name, sanitizer in sanitizers.items():
        place = network.position[name]
        raw[network.blocks.rows(place)] = False
        rows, noisy = sanitizer.normal
        alike[rows.shape[1], rows.shape[0]].append((place, rows, noisy))
    yield network.white_observe if raw.all() else network.white_observe[raw]
    for (size, sent), members in alike.items():
        if sent == 0:
            continue
        places = np.array([place for place, _, _ in members], dtype=np.intp)
        compression = np.stack([rows for _, rows, _ in members])
        variances = np.stack([flags for _, _, flags in members]).astype(float)
        stacked = network.blocks.starts[places][:, None] + np.arange(size)
        roots = _own_roots(network, size, places)
        half = compression @ roots
        covariance = half @ np.swapaxes(half, 1, 2)
        covariance[:, np.arange(sent), np.arange(sent)] += variances
        observed = compression @ network.H[stacked]
        root = gram_root(covariance, partial(with_own_noise, half, variances))
        yield solve_lower_batch(root, observed).reshape(-1, network.L)


def _own_roots(network: Network, size: int, places: np.ndarray[tuple[int], np.dtype[np.intp]]) -> Array:
    for group, roots in zip(network.blocks.groups, network.R.own_roots(), strict=True):
        if group.size == size:
            return np.asarray(roots[np.searchsorted(group.agents, places)])
    raise InvalidRequest(f"sanitizers: no agent has {size} readings")


def _joint_factor(network: Network, noise: JointNoise, sanitizers: Sanitizers) -> Array:
    parts, noisy = _message_parts(network, sanitizers)
    observed = _compress(parts, network.H)
    if observed.shape[0] == 0:
        return observed
    covariance = _compress(parts, _compress(parts, noise.matrix()).T)
    covariance[np.diag_indices(len(noisy))] += noisy
    root = gram_root(covariance, lambda: with_own_noise(_compress(parts, noise.root), noisy))
    return solve_lower(root, observed)


def _shared_factor(network: Network, sanitizers: Sanitizers) -> Array:
    """F from blocks and few columns: C R C' + Λ = (C D C' + Λ) + (C W)(C W)', W the common disturbances' spread."""
    white = message_factor(network.common_apart, fitting(network.common_apart, sanitizers))
    return without_common(
        np.ascontiguousarray(white[:, : network.L]), np.ascontiguousarray(white[:, network.L :])
    )


def _message_parts(
    network: Network, sanitizers: Sanitizers
) -> tuple[list[tuple[slice, Array | None]], Array]:
    """Per agent its rows and C_i (None where raw), and the noise variance of every number sent."""
    parts: list[tuple[slice, Array | None]] = []
    variances: list[Array] = []
    for place, name in enumerate(network.agents):
        rows_of_agent = network.blocks.rows(place)
        sanitizer = sanitizers.get(name)
        if sanitizer is None:
            parts.append((rows_of_agent, None))
            variances.append(np.zeros(rows_of_agent.stop - rows_of_agent.start))
        else:
            rows, noisy = sanitizer.normal
            parts.append((rows_of_agent, rows))
            variances.append(noisy.astype(float))
    return parts, np.concatenate(variances)


def _compress(parts: list[tuple[slice, Array | None]], stacked: Array) -> Array:
    """C times stacked rows, block by block: the block diagonal C is never formed whole."""
    return np.concatenate([stacked[s] if c is None else c @ stacked[s] for s, c in parts])
