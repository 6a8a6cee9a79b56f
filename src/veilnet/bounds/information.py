"""From sanitizers to information: F with J̃ = J0 + F'F.

F = M^-½ C H with M = C R C' + Λ, in the normal form of each agent (so M is never singular). Independent
noise is worked on in stacks of agents alike, so that only L x L sums couple them.
"""

from __future__ import annotations

import numpy as np

from veilnet._core.linalg import gram_root, solve_lower, triangle
from veilnet._core.stacks import fits_at_once, joined_triangle, sent_rows, with_own_noise
from veilnet._core.types import Array
from veilnet.agent.mechanisms import Mechanisms, Sanitizers, mechanisms
from veilnet.model.common import SharedNoise, without_common
from veilnet.model.network import Network
from veilnet.model.noise import JointNoise


def message_factor(network: Network, sanitizers: Sanitizers) -> Array:
    """F, one row per number sent, or L rows that tell the same of very many. Agents without a sanitizer send their
    readings raw.
    """
    sent = mechanisms(network, sanitizers)
    return sent.once("message factor", lambda: _factor(network, sent))


def _factor(network: Network, sent: Mechanisms) -> Array:
    if isinstance(network.R, SharedNoise):
        return _shared_factor(network, sent)
    if isinstance(network.R, JointNoise):
        return _joint_factor(network, network.R, sent.normal)
    return _independent_factor(network, sent.normal)


def _independent_factor(network: Network, sent: Mechanisms) -> Array:
    roots = network.R.own_roots()
    factors = (
        sent_rows(each.observe, roots[each.group][each.within], each.stack.compression, each.stack.variances)
        for each in sent.parts()
        if each.stack.sent
    )
    rows = (factor.reshape(-1, network.L) for factor in factors)
    if fits_at_once(network.N * network.L):
        return np.concatenate([np.zeros((0, network.L)), *rows])
    return joined_triangle(map(triangle, rows), network.L)


def _joint_factor(network: Network, noise: JointNoise, sent: Mechanisms) -> Array:
    observed = sent.compressed(network.H)
    if observed.shape[0] == 0:
        return observed
    noisy = np.zeros(len(observed))
    for stack in sent.stacks:
        noisy[sent.numbers(stack)] = 0.0 if stack.variances is None else stack.variances
    covariance = sent.compressed(sent.compressed(noise.matrix()).T)
    covariance[np.diag_indices(len(noisy))] += noisy
    root = gram_root(covariance, lambda: with_own_noise(sent.compressed(noise.root), noisy))
    return solve_lower(root, observed)


def _shared_factor(network: Network, sent: Mechanisms) -> Array:
    """F from blocks and few columns: C R C' + Λ = (C D C' + Λ) + (C W)(C W)', W the common disturbances' spread."""
    apart = network.common_apart
    white = message_factor(apart, mechanisms(apart, sent))
    return without_common(
        np.ascontiguousarray(white[:, : network.L]), np.ascontiguousarray(white[:, network.L :])
    )


def own_covariances(compression: Array, own: Array, added: Array | None) -> Array:
    """C R C' + Θ for one agent or a stack of agents alike."""
    covariance = compression @ own @ np.swapaxes(compression, -1, -2)
    if added is not None:
        covariance = covariance + added
    return np.asarray((covariance + np.swapaxes(covariance, -1, -2)) / 2)


def message_covariance(network: Network, sent: Mechanisms) -> Array:
    """C R C' + Θ of all agents, in sending order."""
    covariance = sent.compressed(sent.compressed(network.R.matrix()).T)
    for stack in sent.stacks:
        if stack.noise is not None:
            numbers = sent.numbers(stack)
            covariance[numbers[:, :, None], numbers[:, None, :]] += stack.noise
    return np.asarray((covariance + covariance.T) / 2)
