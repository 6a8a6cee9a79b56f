"""What a fusion centre can know: Cramér–Rao bounds before and after sanitization. Pure functions.

One set of formulas serves every prior (mathematics, section 1):

    P = (J0 + H'R^-1 H)^-1,   Ψ = P H'R^-1,   Φ = R^-1 - R^-1 H P H'R^-1,
    P̃(C, Θ) = (J0 + H'C'(C R C' + Θ)^-1 C H)^-1.

Everything is computed in coordinates of x where the raw information is the identity; there J̃ = V diag(k) V'
with k in [0, 1], the fraction of the raw information that is left in each direction. In the linear Gaussian
model the bounds are attained, so they are what the best attacker gets.

Sanitizers become information by F = M^-½ C H with M = C R C' + Λ, in the normal form of each agent (so M is never
singular), J̃ = J0 + F'F. Independent noise is worked on in stacks of agents alike, so that only L x L sums couple
them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from veilnet._core.errors import InvalidRequest, NotObservable
from veilnet._core.linalg import EPS, gram_root, orthonormal_rows, solve_lower, solve_upper, triangle
from veilnet._core.stacks import fits_at_once, joined_triangle, sent_rows, with_own_noise
from veilnet._core.types import Array, Booleans
from veilnet._core.validation import expect
from veilnet._core.words import direction_in_words
from veilnet.agent.dither import counting_dither
from veilnet.agent.mechanisms import Mechanisms, Sanitizers, mechanisms, sends_raw
from veilnet.bounds.streams.knowledge import (
    StreamKnowledge,
    read_when,
    silent_stream,
    stream_bits,
    stream_knowledge,
)
from veilnet.model.common import SharedNoise, without_common
from veilnet.model.network import Network
from veilnet.model.noise import JointNoise
from veilnet.model.stream_size import refuse_stream

# A direction counts as unknown when it is known less sharply than this; more where the model amplifies rounding.
# A privacy of 1e22 is thus "without bound".
_LEAST_SHARPNESS = 1e-11
# A row leaves the estimable space when more than this part of it lies outside; more where the model
# amplifies rounding.
_OUTSIDE = 1e-8


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What some messages tell about x, in coordinates where the raw readings tell the identity.

    sharpness:  square roots of k, descending, in [0, 1]: the deviation that raw readings leave in a direction, as a
                part of what these messages leave. 1 is as sharp as raw, 0 unknown.
    directions: columns are the directions V, in the order of ``sharpness``.
    known:      which directions are determined at all.
    """

    network: Network
    sharpness: Array
    directions: Array
    known: Booleans

    @property
    def complete(self) -> bool:
        """Whether every direction of x is determined."""
        return bool(np.all(self.known))

    @property
    def utility(self) -> float:
        """u <= 0."""
        return 0.0 - self.growth(self.network.measured)

    @property
    def privacy(self) -> dict[str, float]:
        """p_j of each private parameter."""
        return {name: self.growth(rows) for name, rows in self.network.private.items()}

    def growth(self, rows: Array, *, hindsight: bool = True) -> float:  # noqa: ARG002 - as of a stream
        """tr(A P̃ A') / tr(A P A') - 1 for rows A; inf where a row is not estimable.

        hindsight: of a stream alone; a row by itself has no later ones.
        """
        half = self.network.in_raw_coordinates(rows) @ self.directions
        if np.any(self._leaves(half)):
            return np.inf
        weights = np.sum((half / np.max(np.abs(half))) ** 2, axis=0)
        fractions = np.minimum(self.sharpness[self.known] ** 2, 1.0)
        return float(np.sum(weights[self.known] * (1.0 - fractions) / fractions) / np.sum(weights))

    def worst_growth(self, rows: Array, *, hindsight: bool = True) -> float:  # noqa: ARG002
        """The smallest growth over all directions of A x: the part of it that stays most exposed."""
        basis = orthonormal_rows(self.network.in_raw_coordinates(rows)) @ self.directions
        hidden = basis[:, ~self.known]
        if hidden.shape[1]:
            # Only combinations without a part in the unknown directions are estimable.
            left, singular, _ = np.linalg.svd(hidden)
            rank = int(np.sum(singular > _outside(self.network)))
            basis = left[:, rank:].T @ basis
        if basis.shape[0] == 0:
            return np.inf
        upper = _graded_triangle(basis[:, self.known] / self.sharpness[self.known])
        least_error = 1.0 / np.linalg.norm(solve_upper(upper, np.eye(len(upper))), 2) ** 2
        return max(0.0, float(least_error) - 1.0)

    def error_covariance(self, rows: Array) -> Array:
        """A P̃ A' for rows A; raises NotObservable, naming the direction, where it is unbounded."""
        half = self.network.in_raw_coordinates(rows) @ self.directions
        leaves = self._leaves(half)
        if np.any(leaves):
            raise self._not_determined(half[leaves])
        half = half[:, self.known] / self.sharpness[self.known]
        return np.asarray(half @ half.T)

    def _leaves(self, half: Array) -> Booleans:
        """Which rows, each in its own unit, have a part in the unknown directions."""
        if self.complete:
            return np.zeros(len(half), bool)
        hidden = np.linalg.norm(half[:, ~self.known], axis=1)
        return np.asarray(hidden > _outside(self.network) * np.linalg.norm(half, axis=1))

    def _not_determined(self, half: Array) -> NotObservable:
        """The error for rows that leave, naming the direction that is most of one parameter alone."""
        touched = orthonormal_rows(half[:, ~self.known]) @ self.directions[:, ~self.known].T
        upper = self.network.raw_triangle
        sizes = np.linalg.norm(upper, axis=0)  # removes the units of x
        basis, _ = np.linalg.qr(solve_upper(upper, touched.T) * sizes[:, None])
        direction = basis @ basis[np.argmax(np.linalg.norm(basis, axis=1))] / sizes
        return NotObservable(
            "sanitizers: what is sent does not determine "
            f"{direction_in_words(direction, self.network.parameters)}; "
            "utility and privacy are defined all the same, the bound on x is not"
        )


def knowledge(network: Network, sanitizers: Sanitizers = None) -> Knowledge:
    """What the centre learns of one row from the messages of all agents (raw without sanitizers)."""
    expect(network, Network, "network")
    refuse_stream(network)
    if sends_raw(sanitizers):
        size = network.L
        return Knowledge(network, np.ones(size), np.eye(size), np.ones(size, bool))
    sent = mechanisms(network, sanitizers)

    def find() -> Knowledge:
        counting = counting_dither(network, sent)
        return knowledge_of_factor(counting, message_factor(counting, sent))

    return sent.once("knowledge", find)


def knowledge_of_factor(network: Network, factor: Array) -> Knowledge:
    """Knowledge from any information factor F: J̃ = J0 + F'F."""
    stacked = np.concatenate([network.prior_root, factor])
    if stacked.shape[0] > 2 * network.L:
        stacked = triangle(stacked)
    _, sharpness, directions = np.linalg.svd(network.in_raw_coordinates(stacked), full_matrices=True)
    full = np.zeros(network.L)
    full[: sharpness.size] = sharpness[: network.L]
    return Knowledge(network, full, directions.T, full > least_sharpness(network))


Outlook = Knowledge | StreamKnowledge
"""What a centre knows of a row, or of a stream."""


def outlook(network: Network, sanitizers: Sanitizers = None) -> Outlook:
    """What the centre learns from the messages of all agents, of a row or of a stream (raw without sanitizers)."""
    expect(network, Network, "network")
    return (stream_knowledge if network.is_stream else knowledge)(network, sanitizers)


def silence(network: Network) -> Outlook:
    """What is known where nothing is sent."""
    expect(network, Network, "network")
    if network.is_stream:
        return silent_stream(network)
    return knowledge_of_factor(network, np.zeros((0, network.L)))


def least_sharpness(network: Network) -> float:
    """Below this sharpness a direction counts as unknown: rounding of this network."""
    return max(_LEAST_SHARPNESS, 64 * EPS * network.conditioning * float(np.sqrt(network.L)))


def _outside(network: Network) -> float:
    return max(_OUTSIDE, least_sharpness(network))


def crlb(network: Network, sanitizers: Sanitizers = None, *, when: str | None = None) -> Array:
    """P̃(C, Θ), the L x L bound on the error covariance of x; P, from raw readings, without sanitizers.

    network:    the model.
    sanitizers: agent -> Sanitizer, or a Plan; agents that are not named send their readings raw.
    when:       for streams, in the steady state: "now" (messages up to the row; the default) or "hindsight" (later
                ones too).

    Raises NotObservable, naming the direction, where what is sent does not determine x.
    """
    expect(network, Network, "network")
    hindsight = read_when(network, when, otherwise="now")
    if network.is_stream:
        return stream_knowledge(network, sanitizers).error(np.eye(network.L), hindsight=hindsight)
    if sends_raw(sanitizers):
        inverse = solve_upper(network.raw_triangle, np.eye(network.L))
        return np.asarray(inverse @ inverse.T)
    known = knowledge(network, sanitizers)
    if not known.complete:
        raise known._not_determined(np.eye(network.L)[~known.known])
    return known.error_covariance(np.eye(network.L))


def utility(network: Network, sanitizers: Sanitizers) -> float:
    """u = 1 - tr(U P̃ U') / tr(U P U') <= 0; 0 is perfect, -inf where u is no longer estimable.

    network:    the model. For a stream u is judged now: from the messages up to the row, in the steady state.
    sanitizers: agent -> Sanitizer, or a Plan; agents that are not named send their readings raw.
    """
    return outlook(network, sanitizers).utility


def privacy(
    network: Network, sanitizers: Sanitizers, *, worst: bool = False, when: str | None = None
) -> dict[str, float]:
    """p_j = tr(G_j P̃ G_j') / tr(G_j P G_j') - 1 per private parameter, inf where it is not estimable.

    network:    the model.
    sanitizers: agent -> Sanitizer, or a Plan; agents that are not named send their readings raw.
    worst:      give the direction of g_j that stays most exposed instead of the trace: the smallest generalised
                eigenvalue of (G_j P̃ G_j', G_j P G_j') minus one.
    when:       for streams, in the steady state: "hindsight" (given all messages, later ones too; the default) or
                "now" (given those up to the row).
    """
    expect(network, Network, "network")
    hindsight = read_when(network, when, otherwise="hindsight")
    known = outlook(network, sanitizers)
    measure = known.worst_growth if worst else known.growth
    return {name: measure(rows, hindsight=hindsight) for name, rows in network.private.items()}


def privacy_limit(network: Network, *, when: str | None = None) -> dict[str, float]:
    """ε_j^max: privacy if nothing were sent, tr(G_j J0^+ G_j') / tr(G_j P G_j') - 1; inf without a prior.

    network: the model. For a stream, what is known beforehand is x in the long run; inf where x wanders off.
    when:    for streams, as in :func:`privacy`.
    """
    expect(network, Network, "network")
    hindsight = read_when(network, when, otherwise="hindsight")
    silent = silence(network)
    return {name: silent.growth(rows, hindsight=hindsight) for name, rows in network.private.items()}


def bits_revealed(
    network: Network, sanitizers: Sanitizers = None, *, when: str | None = None
) -> dict[str, float]:
    """I(g_j; messages) in bits, ½ log2 det(G P0 G') - ½ log2 det(G P̃ G'); needs a full prior.

    network:    the model.
    sanitizers: agent -> Sanitizer, or a Plan; readings are raw without them.
    when:       for streams, as in :func:`privacy`: bits on g_j of one row, from all messages or those up to it.

    Dependent rows of G_j are counted once.
    """
    expect(network, Network, "network")
    hindsight = read_when(network, when, otherwise="hindsight")
    if network.is_stream:
        return stream_bits(network, sanitizers, hindsight=hindsight)
    if network.prior is None or not network.prior.full:
        raise InvalidRequest(
            "prior: bits revealed compare with what was known before, so they need a full prior; "
            "give Prior(covariance=...)"
        )
    after = knowledge(network, sanitizers)
    network = after.network
    before = knowledge_of_factor(network, np.zeros((0, network.L)))
    bits = {}
    for name, rows in network.private.items():
        basis = orthonormal_rows(network.in_raw_coordinates(rows))
        bits[name] = max(0.0, 0.5 * (_log2_det(basis, before) - _log2_det(basis, after)))
    return bits


def gain(network: Network) -> Array:
    """Ψ = P H'R^-1, L x N: the best unbiased (or posterior mean) estimate of x is Ψ y."""
    return solve_upper(network.raw_triangle, share_of_estimate(network, np.eye(network.L)))


def residual_information(network: Network) -> Array:
    """Φ = R^-1 - R^-1 H P H'R^-1 ⪰ 0, N x N: what the readings say about themselves beyond x."""
    raw = network.in_raw_coordinates(network.white_observe)
    inner = np.eye(network.N) - raw @ raw.T
    half = network.R.whiten_back(inner)
    full = network.R.whiten_back(np.ascontiguousarray(half.T))
    return np.asarray((full + full.T) / 2)


def _log2_det(basis: Array, known: Knowledge) -> float:
    upper = _graded_triangle(basis @ known.directions / known.sharpness)
    return float(2 * np.sum(np.log2(np.abs(np.diag(upper)))))


def _graded_triangle(half: Array) -> Array:
    """Upper triangular T with T'T = B B' up to a permutation, for B whose columns grow from left to right.

    Errors may differ 1e20-fold between directions. With the largest columns first and pivoting, the small
    ones keep their digits, which an eigenvalue decomposition of B B' would lose.
    """
    from scipy.linalg import qr  # takes longer to load than the centre's other work

    return np.asarray(qr(half.T[::-1], mode="r", pivoting=True)[0][: half.shape[0]])


def share_of_estimate(network: Network, raw_rows: Array) -> Array:
    """A Ψ, (rows, N), for rows A T^-1: coordinates of x where the raw information is the identity."""
    half = network.in_raw_coordinates(network.white_observe) @ raw_rows.T
    return np.ascontiguousarray(network.R.whiten_back(half).T)


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
