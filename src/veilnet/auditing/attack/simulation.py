"""Drawing x and readings, and the best linear estimate from messages, written apart from the fusion centre."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet._core.linalg import cholesky, solve_lower
from veilnet._core.types import Array
from veilnet.agent.mechanisms import mechanisms
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.what_if.variants import prior_mean
from veilnet.bounds.knowledge import Knowledge, least_sharpness, message_covariance, own_covariances
from veilnet.model.common import SharedNoise
from veilnet.model.network import Network
from veilnet.model.noise import NoiseModel
from veilnet.model.readings import dither_variance

# Where nothing is known beforehand, x may be anything: it is drawn this many raw deviations wide.
_ANYWHERE = 5.0
# of the rounding's variance stays, so that noise which is nothing else keeps some of its own
_LEAST_LEFT = 1e-6


def draw_x(network: Network, rng: np.random.Generator, rows: int) -> Array:
    """Draws (rows, L) of x from the prior; where it says nothing, from somewhere."""
    return np.asarray(prior_mean(network) + rng.standard_normal((rows, network.L)) @ spread_of_x(network).T)


def spread_of_x(network: Network) -> Array:
    """B, (L, L): x is drawn as the prior mean and B times standard normal draws."""
    if network.prior is not None and network.prior.covariance is not None:
        return cholesky(network.prior.covariance)
    raw = np.linalg.inv(network.raw_triangle)
    if network.prior is None:
        return np.asarray(_ANYWHERE * raw)
    # In raw coordinates J0 = V diag(k²) V': deviations 1/k where something is known.
    _, sharpness, directions = _thin_svd(network.in_raw_coordinates(network.prior.root))
    deviations = np.full(network.L, _ANYWHERE)
    known = sharpness > least_sharpness(network)
    deviations[known] = 1.0 / sharpness[known]
    return np.asarray(raw @ directions.T * deviations)


def draw_readings(network: Network, x: Array, rng: np.random.Generator) -> Array:
    """Readings (rows, N) of given x as the sensors give them, with fresh noise.

    Readings with a resolution are rounded to their lattice; their noise is drawn with so much less variance as
    rounding adds to it, so that the whole has the covariance that the network says.
    """
    return read_in_steps(x @ network.H.T + network.offset, network.undithered_noise, network.steps, rng)


def read_in_steps(exact: Array, noise: NoiseModel, steps: Array, rng: np.random.Generator) -> Array:
    """What sensors of this noise and these steps (N,) give in place of exact readings (rows, N)."""
    readings = np.asarray(exact + _draw_noise(_before_rounding(noise, steps), rng, len(exact)))
    coarse = steps > 0
    if coarse.any():
        readings[:, coarse] = steps[coarse] * np.rint(readings[:, coarse] / steps[coarse])
    return readings


def _before_rounding(noise: NoiseModel, steps: Array) -> NoiseModel:
    """The sensors' noise less step²/12; where correlations leave no room for that, as it is."""
    rounding = dither_variance(steps)
    if not np.any(rounding):
        return noise
    try:
        return noise.plus(-(1 - _LEAST_LEFT) * rounding)
    except InvalidNetwork:
        return noise


def _draw_noise(model: NoiseModel, rng: np.random.Generator, rows: int) -> Array:
    if isinstance(model, SharedNoise):
        common = rng.standard_normal((rows, model.spread.shape[1])) @ model.spread.T
        return np.asarray(_draw_noise(model.own, rng, rows) + common)
    white = rng.standard_normal((rows, model.blocks.total))
    if not model.independent:
        return np.asarray(white @ cholesky(model.matrix()).T)
    noise = np.empty(white.shape)
    for group, roots in zip(model.blocks.groups, model.own_roots(), strict=True):
        drawn = np.einsum("kij,tkj->tki", roots, white[:, group.rows])
        noise[:, group.rows.reshape(-1)] = drawn.reshape(rows, -1)
    return noise


def raw_sanitizers(network: Network) -> dict[str, Sanitizer]:
    """Sanitizers that send every reading as it is, less its offset."""
    return {
        agent: Sanitizer(np.eye(int(size)), offset=network.offset[network.blocks.rows(place)])
        for place, (agent, size) in enumerate(zip(network.agents, network.blocks.sizes, strict=True))
    }


class LinearCentre:
    """The best linear estimate of x from the messages of all agents, as the plan describes them.

    Messages z = C(y - offset) + ξ have M = C R C' + Θ = K K'. With F = K^-1 C H, w = K^-1 z and F0'F0 = J0,
    the estimate minimises |F x - w|² + |F0 (x - mean)|²: the posterior mean, or BLUE without a prior.
    """

    def __init__(self, network: Network, sanitizers: Mapping[str, Sanitizer]) -> None:
        self.network = network
        self._sanitizers = sanitizers
        self.agents = [agent for agent in network.agents if sanitizers[agent].sent > 0]
        self._parts = [
            (network.blocks.rows(network.position[agent]), sanitizers[agent]) for agent in self.agents
        ]
        self._roots = self._message_roots()
        observed = [s.compression @ network.H[rows] for rows, s in self._parts]
        self.factor = self._whiten(observed)
        stacked = network.in_raw_coordinates(np.concatenate([network.prior_root, self.factor]))
        left, sharpness, directions = _thin_svd(stacked)
        self.knowledge = Knowledge(network, sharpness, directions.T, sharpness > least_sharpness(network))
        self._left = left[:, self.knowledge.known]

    def _message_roots(self) -> list[Array]:
        network = self.network
        if not self._parts:
            return []
        if network.R.independent:
            own = [network.R.block(network.position[agent]) for agent in self.agents]
            return [
                cholesky(own_covariances(s.compression, noise, s.noise))
                for noise, (_, s) in zip(own, self._parts, strict=True)
            ]
        return [cholesky(message_covariance(network, mechanisms(network, self._sanitizers)))]

    def _whiten(self, parts: list[Array]) -> Array:
        if not parts:
            return np.zeros((0, self.network.L))
        if len(self._roots) == len(parts):
            return np.concatenate(
                [solve_lower(root, part) for root, part in zip(self._roots, parts, strict=True)]
            )
        return solve_lower(self._roots[0], np.concatenate(parts))

    def estimate(self, messages: Mapping[str, Array], rows: Array) -> Array:
        """Estimates (T, k) of A x for rows A that the messages determine."""
        knowledge = self.knowledge
        half = self.network.in_raw_coordinates(rows) @ knowledge.directions[:, knowledge.known]
        back = half / knowledge.sharpness[knowledge.known]
        count = len(next(iter(messages.values()))) if messages else 1
        prior = np.broadcast_to(
            (self.network.prior_root @ prior_mean(self.network))[:, None],
            (self.network.prior_root.shape[0], count),
        )
        sent = [self._centred(agent, messages[agent]) for agent in self.agents]
        right = np.concatenate([prior, self._whiten(sent)]) if sent else prior
        return np.asarray((back @ (self._left.T @ right)).T)

    def _centred(self, agent: str, message: Array) -> Array:
        """A message as it would be without offsets, one column per row received."""
        rows, sanitizer = self._parts[self.agents.index(agent)]
        shift = sanitizer.compression @ (self.network.offset[rows] - sanitizer.offset)
        return np.asarray(message - shift, dtype=np.float64).T


def _thin_svd(rows: Array) -> tuple[Array, Array, Array]:
    """(left, L singular values, L x L directions) of a matrix with L columns and any number of rows."""
    count, size = rows.shape
    padded = np.concatenate([rows, np.zeros((max(0, size - count), size))])
    left, singular, directions = np.linalg.svd(padded, full_matrices=False)
    return left[:count], singular, directions
