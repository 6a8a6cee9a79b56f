"""The lattice attack: readings of a coarse sensor named by exact combinations of them.

An attacker who knows that agent i's readings lie on a lattice looks, among the lattice points that fit all
messages, for those the model makes likely (:mod:`veilnet.auditing.attack.lattice_points`). In the linear Gaussian
model y given the messages z is N(m, V), V narrow where numbers are sent exactly:

    V^-1 = S^-1 + C' Σ^-1 C,   S = H P0 H' + R,   Σ = Θ + C D C' + rounding of the release grid,

with D the variances m q²/12 of the dither. Agents whose point is nearly certain are taken as read, and the others
looked at again given them. Since x - y - z is Markov and E[x|y] is linear, the estimate of g = G x is the raw
readings' estimate at E[y|z]: nothing but the posterior mean of the readings is needed.

Against dither d that posterior is not the Gaussian's: v = y + d has a density that is constant on the cells around
lattice points where d is one draw, and linear between them where it is two. :func:`knowing_the_dither` draws v from
the Gaussian posterior, y among the points it may have come from, and weighs each draw by the ratio of the true
density to the Gaussian one: the best attack there is, up to the number of draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from veilnet._core.errors import InvalidNetwork
from veilnet._core.types import Array, Booleans
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.attack.lattice_points import expected_points, points_near
from veilnet.model.network import Network
from veilnet.model.readings import dither_variance

_SURE = 0.9  # posterior probability from which a lattice point is taken as read
_WIDTH = 512  # lattice points listed per row
_ROUNDS = 3
_DRAWS = 512  # even: draws come in pairs v, -v
_VALUES_AT_ONCE = 1 << 22
_FLOATING = 1e-20  # of a number's scale, squared: the rounding of a message without a grid


@dataclass(frozen=True, eq=False)
class Eavesdropper:
    """What the attacker knows: the model of all readings (N of them) and of what was sent.

    mean, covariance: of the stacked readings y as the agents get them (prior and noise together).
    compression:      block diagonal C of all agents, (M, N).
    offset:           subtracted from the readings before they are combined.
    added:            covariance of what is added to C(y + d): noise and rounding, (M, M).
    steps, phase:     the lattice: y = phase + steps * whole; a step of 0 is a continuous reading.
    dither:           width of a uniform draw of each reading's dither, 0 where there is none; ``draws`` of them.
    owners:           agent -> its readings.
    quiet:            agent -> the part of its rows that lies on the lattice, where not all do (minutes' means do
                      when nothing moved); all of them where it is not given.
    """

    mean: Array
    covariance: Array
    compression: Array
    offset: Array
    added: Array
    steps: Array
    phase: Array
    dither: Array
    draws: Array
    owners: Mapping[str, slice]
    quiet: Mapping[str, float] = field(default_factory=dict)

    @property
    def spread(self) -> Array:
        """The variance of each reading's dither."""
        return dither_variance(self.dither, self.draws)

    def undithered(self, covariance: Array | None = None) -> Eavesdropper:
        """The same, as if nobody dithered; with another covariance of what is combined, where one is given."""
        none = np.zeros(len(self.dither))
        return replace(
            self, dither=none, draws=none, covariance=self.covariance if covariance is None else covariance
        )


def eavesdropper(
    network: Network,
    sanitizers: Mapping[str, Sanitizer],
    steps: Array,
    phase: Array | None = None,
    quiet: Mapping[str, float] | None = None,
) -> Eavesdropper:
    """What an attacker knows who sees all messages of a network with a full prior, and the readings' lattice."""
    if network.prior is None or network.prior.covariance is None:
        raise InvalidNetwork("prior: the lattice attack weighs lattice points and needs a full prior")
    owners = {agent: network.blocks.rows(place) for place, agent in enumerate(network.agents)}
    sent = [sanitizers[agent].sent for agent in owners]
    ends = np.cumsum(sent)
    compression, added = np.zeros((int(ends[-1]), network.N)), np.zeros((int(ends[-1]), int(ends[-1])))
    dither, draws = np.zeros(network.N), np.zeros(network.N)
    for (agent, mine), end, count in zip(owners.items(), ends, sent, strict=True):
        sanitizer, rows = sanitizers[agent], slice(int(end) - count, int(end))
        compression[rows, mine] = sanitizer.compression
        added[rows, rows] = sanitizer.noise + np.diag(_rounding(sanitizer))
        if sanitizer.resolution is not None:
            dither[mine], draws[mine] = sanitizer.resolution, sanitizer.dither
    return Eavesdropper(
        mean=network.H @ network.prior.mean + network.offset,
        covariance=network.H @ network.prior.covariance @ network.H.T + network.undithered_noise.matrix(),
        compression=compression,
        offset=np.concatenate([sanitizers[agent].offset for agent in owners]),
        added=added,
        steps=steps,
        phase=np.zeros(network.N) if phase is None else phase,
        dither=dither,
        draws=draws,
        owners=owners,
        quiet={} if quiet is None else quiet,
    )


def _rounding(sanitizer: Sanitizer) -> Array:
    """Variance of the rounding to the release grid; numbers sent without noise are rounded at random."""
    if sanitizer.grid is None:
        return np.full(sanitizer.sent, _FLOATING * np.mean(sanitizer.compression**2))
    return np.asarray(sanitizer.grid**2 / np.where(np.diag(sanitizer.noise) > 0, 12.0, 6.0))


@dataclass(frozen=True, eq=False)
class Readings:
    """The attacker's idea of the readings: the posterior mean, the nearest points, and which of them are sure."""

    mean: Array
    nearest: Array
    sure: dict[str, Booleans]


def linear_posterior(known: Eavesdropper, messages: Array) -> tuple[Array, Array]:
    """(m, V): mean (T, N) and covariance of the readings given the messages (T, M), by the linear attacker."""
    sigma = known.added + (known.compression * known.spread) @ known.compression.T
    information = inverse(known.covariance) + known.compression.T @ np.linalg.solve(sigma, known.compression)
    posterior = inverse(information)
    expected = (known.mean - known.offset) @ known.compression.T
    gain = posterior @ np.linalg.solve(sigma, known.compression).T
    return known.mean + (messages - expected) @ gain.T, posterior


def closest_points(known: Eavesdropper, messages: Array) -> Readings:
    """The lattice points behind the messages, agent by agent, given all messages and the agents read already."""
    mean, covariance = linear_posterior(known, messages)
    rows = len(messages)
    sure = {agent: np.zeros(rows, bool) for agent in known.owners}
    nearest, best = np.array(mean), np.array(mean)
    for _ in range(_ROUNDS):
        pattern = np.stack(list(sure.values()), axis=1)
        progress = False
        for taken in np.unique(pattern, axis=0):
            where = np.flatnonzero((pattern == taken).all(axis=1))
            read = [agent for agent, is_read in zip(known.owners, taken, strict=True) if is_read]
            centre, spread = _given(known, mean[where], covariance, nearest[where], read)
            best[where] = centre
            for agent, mine in known.owners.items():
                if agent in read:
                    best[where, mine] = nearest[where, mine]
                    continue
                found = _listed(known, centre[:, mine], spread[mine, mine], agent)
                if found is None:
                    nearest[where, mine] = _rounded(known, centre[:, mine], mine)
                    continue
                nearest[where, mine], best[where, mine], certainty = found
                certain = where[certainty > _SURE]
                sure[agent][certain] = True
                progress = progress or bool(certain.size)
        if not progress:
            break
    return Readings(best, nearest, sure)


def knowing_the_dither(known: Eavesdropper, messages: Array, seed: int) -> Array:
    """E[y|z] (T, N) where each reading is dithered by one or two uniform draws of ``dither`` width: weighted draws.

    v = y + d is drawn from the Gaussian posterior, y from the lattice points it may be dithered from: one, or the two
    around it, the nearer the likelier. Readings without dither keep the Gaussian's.
    """
    more = known.covariance + np.diag(known.spread)
    blurred = known.undithered(more)
    mean, posterior = linear_posterior(blurred, messages)
    root = np.linalg.cholesky(posterior)
    rng = np.random.default_rng([seed, 9])
    half = rng.standard_normal((_DRAWS // 2, len(mean[0]))) @ root.T
    draws = np.concatenate([half, -half])
    smooth, coarse = inverse(more), inverse(known.covariance)
    found = np.empty(mean.shape)
    at_once = max(1, _VALUES_AT_ONCE // draws.size)
    for start in range(0, len(mean), at_once):
        some = slice(start, start + at_once)
        v = mean[some, None, :] + draws
        y = _on_lattice(v, known, rng)
        a, b = v - known.mean, y - known.mean
        logs = 0.5 * (np.sum((a @ smooth) * a, axis=-1) - np.sum((b @ coarse) * b, axis=-1))
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        found[some] = np.einsum("tk,tkn->tn", weights, y)
    return found


def _on_lattice(values: Array, known: Eavesdropper, rng: np.random.Generator) -> Array:
    """Each value at a lattice point it may be dithered from; continuous or undithered readings as they are."""
    step = np.where(known.draws > 0, known.steps, 0.0)
    unit = np.where(step > 0, step, 1.0)
    places = (values - known.phase) / unit
    chosen = np.where(known.draws == 1, np.rint(places), np.floor(places + rng.random(values.shape)))
    return np.asarray(np.where(step > 0, known.phase + unit * chosen, values))


def _listed(
    known: Eavesdropper, centre: Array, spread: Array, agent: str
) -> tuple[Array, Array, Array] | None:
    """(nearest, posterior mean, certainty), None where the lattice is too fine to tell."""
    mine = known.owners[agent]
    steps = known.steps[mine]
    coarse = np.flatnonzero(steps > 0)
    if not coarse.size:
        return None
    own = spread[np.ix_(coarse, coarse)]
    if expected_points(own, steps[coarse]) > _WIDTH:
        return None
    near = points_near(centre[:, coarse], own, steps[coarse], known.phase[mine][coarse], _WIDTH)
    quiet = known.quiet.get(agent, 1.0)
    for_it = np.maximum(quiet * near.evidence, np.finfo(float).tiny)
    believed = for_it / (for_it + (1 - quiet))  # that a row is one of the lattice
    if coarse.size == steps.size:
        mean = centre + believed[:, None] * (near.mean - centre)
        return near.nearest, mean, believed * near.certainty
    # Continuous readings follow the others as the Gaussian says, and are never certain.
    along = np.linalg.solve(own, spread[coarse])
    nearest = centre + (near.nearest - centre[:, coarse]) @ along
    mean = centre + believed[:, None] * (near.mean - centre[:, coarse]) @ along
    return nearest, mean, np.zeros(len(centre))


def _rounded(known: Eavesdropper, centre: Array, mine: slice) -> Array:
    unit = np.where(known.steps[mine] > 0, known.steps[mine], 1.0)
    rounded = known.phase[mine] + unit * np.rint((centre - known.phase[mine]) / unit)
    return np.asarray(np.where(known.steps[mine] > 0, rounded, centre))


def _given(
    known: Eavesdropper, mean: Array, covariance: Array, nearest: Array, read: list[str]
) -> tuple[Array, Array]:
    """Mean and covariance of all readings once some agents' are known."""
    if not read:
        return mean, covariance
    places = np.concatenate([np.arange(len(known.mean))[known.owners[agent]] for agent in read])
    rest = np.setdiff1d(np.arange(len(known.mean)), places)
    information = inverse(covariance)
    conditional, centre = np.zeros(covariance.shape), np.array(nearest)
    if rest.size:
        own = inverse(information[np.ix_(rest, rest)])
        conditional[np.ix_(rest, rest)] = own
        shift = (nearest - mean)[:, places] @ information[np.ix_(places, rest)] @ own
        centre[:, rest] = mean[:, rest] - shift
    return centre, conditional


def inverse(matrix: Array) -> Array:
    """Inverse of a positive definite matrix, its rows scaled to one first."""
    scale = np.sqrt(np.diag(matrix))
    inverse = cho_solve(cho_factor(matrix / np.outer(scale, scale)), np.eye(len(scale)))
    return np.asarray((inverse + inverse.T) / 2 / np.outer(scale, scale))
