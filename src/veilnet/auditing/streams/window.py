"""A window of a stream as one joint normal law: what an attacker with memory can make of it, by one linear solve.

Nothing here shares code with the Riccati recursions that made the promise. The covariances of x_t and of the noise
are written out for every two rows; every number an agent sends is a sum over its past readings, with the impulse
response of its filter as weights; the messages of the window are whitened row by row. An estimate of A x_t from
messages up to t (*now*) or from all of the window (*hindsight*) is then the inner product with what is white, and the
joint covariance of its errors over many rows is known, which makes a test on correlated rows exact. Streams for such
a test are drawn from the same law (:func:`draw_streams`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.linalg import positive_root
from veilnet._core.types import Array, Integers
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.world import Streams, When
from veilnet.model.network import Network
from veilnet.model.readings import dither_variance

_NOTHING_NEW = 1e-11  # variance of a message, against the whole, below which earlier ones tell all of it
_WIDE = 10.0  # deviations within which a first x is drawn of which nothing is known


@dataclass(frozen=True, eq=False)
class Noises:
    """The noise of the readings: n_{t+1} = B n_t + e_t beginning in its steady state, and a white floor."""

    memory: Array
    carried: Array  # covariance of n_t in every row
    innovation: Array
    floor: Array

    @classmethod
    def of(cls, network: Network, *, dither: bool = True) -> Noises:
        """The noise of a network's readings, with or without the dither that sanitizers add."""
        whole = (network.R if dither else network.sensor_noise).matrix()
        if network.colour is None:
            none = np.zeros_like(whole)
            return cls(none, none, none, whole)
        colour = network.colour
        return cls(colour.memory, colour.carried, colour.innovation, whole - colour.carried)


def first_row(network: Network, *, settled: bool) -> tuple[Array, Array]:
    """Mean and covariance of the first x; ``settled`` forgets what is known of the beginning of the stream.

    What is known is then the law of the long run. Where there is none, or nothing is known of the beginning, it is a
    wide one: ten times what the raw readings of the first L rows leave open, were x to move without noise.
    """
    dynamics = network.dynamics
    assert dynamics is not None
    if settled and dynamics.stationary is not None:
        return dynamics.mean, dynamics.stationary
    first = None if settled else network.first
    if first is not None and first.full:
        covariance = first.covariance
        assert covariance is not None
        return first.mean, covariance
    known = np.zeros((network.L, network.L)) if first is None else first.information
    seen = network.H
    for _ in range(network.L):
        known = known + seen.T @ np.linalg.solve(network.R.matrix(), seen) / _WIDE**2
        seen = seen @ dynamics.transition
    mean = dynamics.mean if first is None else first.mean
    return mean, np.asarray(np.linalg.inv((known + known.T) / 2))


class Window:
    """Rows of a stream: x_t, and what every agent sends.

    rows: how many rows of messages there are.
    lead: so many rows came before them, in which memories filled up and whose messages nobody kept; x had settled
          before. Without them the window is the beginning of the stream, where memories begin anew.

    Arrays over rows and numbers are (rows, numbers); messages of all agents lie side by side, in the agents' order.
    """

    def __init__(
        self, network: Network, sanitizers: Mapping[str, Sanitizer], rows: int, lead: int = 0
    ) -> None:
        assert network.dynamics is not None
        self.network = network
        self.rows, self.lead = rows, lead
        total = lead + rows
        self.sanitizers = [sanitizers[agent] for agent in network.agents]
        self.sent = sum(s.sent for s in self.sanitizers)
        noises = Noises.of(network)
        mean, covariance = first_row(network, settled=lead > 0)
        dynamics = network.dynamics
        of_x = covariances_over_rows(dynamics.transition, covariance, dynamics.noise, total)
        of_noise = covariances_over_rows(noises.memory, noises.carried, noises.innovation, total)
        of_noise[np.arange(total), :, np.arange(total), :] += noises.floor
        response = self._response()
        flat = response.reshape(rows * self.sent, -1)
        seen = (response @ network.H).reshape(rows * self.sent, -1)
        x_flat = _flat(of_x)
        sent = seen @ x_flat @ seen.T + flat @ _flat(of_noise) @ flat.T
        self._add_noise(sent)
        self.message_covariance = sent
        self.white, self.ends = _whiten(sent, rows, self.sent)
        self.x_covariance = of_x[lead:, :, lead:]
        shared = (x_flat @ seen.T).reshape(total, network.L, -1)[lead:]
        self.with_messages: Array = shared
        """(rows, L, rows * sent): covariance of x_t with all messages."""
        self.cross: Array = shared @ self.white.T
        """(rows, L, k): covariance of x_t with the white form of all messages."""
        means = means_over_rows(dynamics.transition, dynamics.mean, mean, total)
        self.x_mean = means[lead:]
        readings = means @ network.H.T + network.offset - self._own_offsets()
        self.message_mean = (flat @ readings.reshape(-1)).reshape(rows, self.sent)

    def _response(self) -> Array:
        """(rows, sent, lead + rows, N): by how much a reading of one row moves a number sent in another."""
        network, rows, total = self.network, self.rows, self.lead + self.rows
        found = np.zeros((rows, self.sent, total, network.blocks.total))
        start = 0
        for place, sanitizer in enumerate(self.sanitizers):
            numbers, readings = slice(start, start + sanitizer.sent), network.blocks.rows(place)
            start += sanitizer.sent
            for lag, weights in enumerate(impulse_response(sanitizer, total)):
                for row in range(max(0, lag - self.lead), rows):
                    found[row, numbers, self.lead + row - lag, readings] = weights
        return found

    def _own_offsets(self) -> Array:
        return np.concatenate([s.offset for s in self.sanitizers])

    def _add_noise(self, covariance: Array) -> None:
        """Add what the agents draw: noise, the same in every row, and what is left of the memory they began with."""
        whole = covariance.reshape(self.rows, self.sent, self.rows, self.sent)
        start = 0
        for sanitizer in self.sanitizers:
            own = slice(start, start + sanitizer.sent)
            for row in range(self.rows):
                whole[row, own, row, own] += sanitizer.noise
            begun = self._begun_with(sanitizer)
            whole[:, own, :, own] += np.einsum("tmk,snk->tmsn", begun, begun)
            start += sanitizer.sent

    def _begun_with(self, sanitizer: Sanitizer) -> Array:
        """(rows, sent, k): the numbers of each row by k independent draws of the memory they began with."""
        memory = sanitizer.memory
        if memory is None or memory.start_root is None:
            return np.zeros((self.rows, sanitizer.sent, 0))
        kept = np.linalg.matrix_power(memory.transition, self.lead + 1) @ memory.start_root
        found = []
        for _ in range(self.rows):
            found.append(sanitizer.compression[:, : memory.order] @ kept)
            kept = memory.transition @ kept
        return np.stack(found)

    # --- estimates

    def estimate(self, messages: Array, wanted: Array, at: Integers, when: When) -> Array:
        """Estimates (streams, len(at), k) of A x_t in the rows ``at``, from messages (streams, rows, sent)."""
        moved = (messages - self.message_mean).reshape(len(messages), -1) @ self.white.T
        weights = self._weights(wanted, at, when)
        found = np.einsum("tkj,nj->ntk", weights, moved, optimize=True)
        return np.asarray(found + self.x_mean[at] @ wanted.T)

    def error_covariance(self, wanted: Array, at: Integers, when: When) -> Array:
        """Covariance (len(at) k, len(at) k) of the errors of A x_t in the rows ``at``, all of them together."""
        count = len(at) * len(wanted)
        rows = self.x_covariance[at][:, :, at]
        own = np.einsum("ka,tasb,lb->tksl", wanted, rows, wanted, optimize=True).reshape(count, count)
        shared = (wanted @ self.cross[at]).reshape(count, -1)
        used = self._weights(wanted, at, when).reshape(count, -1)
        both = shared @ used.T
        found = own - both - both.T + used @ used.T
        return np.asarray((found + found.T) / 2)

    def filter(self, wanted: Array, row: int, when: When) -> Array:
        """(k, rows, sent): the weights of every message of the window in the estimate of A x_t in one row."""
        weights = self._weights(wanted, np.array([row]), when)[0] @ self.white
        return np.asarray(weights.reshape(len(wanted), self.rows, self.sent))

    def error_of(self, weights: Array, wanted: Array, row: int) -> float:
        """The mean square error of A x_t when somebody weights the messages otherwise, (k, rows, sent)."""
        flat = weights.reshape(len(wanted), -1)
        own = wanted @ self.x_covariance[row, :, row] @ wanted.T
        both = flat @ (wanted @ self.with_messages[row]).T
        return float(np.trace(own) - 2 * np.trace(both) + np.trace(flat @ self.message_covariance @ flat.T))

    def error(self, wanted: Array, row: int, when: When) -> float:
        """tr of the error covariance of A x_t in one row."""
        return float(np.trace(self.error_covariance(wanted, np.array([row]), when)))

    def _weights(self, wanted: Array, at: Integers, when: When) -> Array:
        weights = np.array(wanted @ self.cross[at])
        if when == "now":
            for place, row in enumerate(at):
                weights[place, :, self.ends[row] :] = 0.0
        return weights


def impulse_response(sanitizer: Sanitizer, rows: int) -> list[Array]:
    """What a reading of so many rows ago adds to a number sent: C_y + C_s K, C_s F K, C_s F² K, ..."""
    if sanitizer.memory is None:
        return [sanitizer.compression]
    order = sanitizer.order
    kept, direct = sanitizer.compression[:, :order], sanitizer.compression[:, order:]
    moved = sanitizer.memory.gain
    weights = [direct + kept @ moved]
    for _ in range(1, rows):
        moved = sanitizer.memory.transition @ moved
        weights.append(kept @ moved)
    return weights


def covariances_over_rows(transition: Array, first: Array, new: Array, rows: int) -> Array:
    """(rows, n, rows, n): covariances of v_{t+1} = A v_t + w_t between every two rows."""
    size = len(transition)
    found = np.zeros((rows, size, rows, size))
    own = first
    for row in range(rows):
        found[row, :, row, :] = own
        later = own
        for other in range(row + 1, rows):
            later = transition @ later
            found[other, :, row, :] = later
            found[row, :, other, :] = later.T
        own = transition @ own @ transition.T + new
    return found


def means_over_rows(transition: Array, returns_to: Array, first: Array, rows: int) -> Array:
    """(rows, n): the mean of v_t, which returns from the first one to another."""
    means = np.empty((rows, len(first)))
    away = first - returns_to
    for row in range(rows):
        means[row] = returns_to + away
        away = transition @ away
    return means


def _flat(covariance: Array) -> Array:
    size = covariance.shape[0] * covariance.shape[1]
    return covariance.reshape(size, size)


def _whiten(covariance: Array, rows: int, sent: int) -> tuple[Array, list[int]]:
    """Combinations W of messages that are white, those of every row after those before it; how many up to each row.

    What a message adds to the earlier ones is kept only where it is more than rounding.
    """
    deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scale = np.where(deviations > 0, deviations, 1.0)
    unit = covariance / scale[:, None] / scale
    white = np.zeros((0, rows * sent))
    ends = []
    for row in range(rows):
        own = slice(row * sent, (row + 1) * sent)
        before = slice(0, row * sent)
        foreseen = unit[own, before] @ white[:, before].T
        values, vectors = np.linalg.eigh(unit[own, own] - foreseen @ foreseen.T)
        some = values > _NOTHING_NEW
        new = np.zeros((sent, rows * sent))
        new[:, own] = np.eye(sent)
        new -= foreseen @ white
        white = np.concatenate([white, (vectors[:, some] / np.sqrt(values[some])).T @ new])
        ends.append(len(white))
    return white / scale, ends


# --- draws


def draw_streams(network: Network, count: int, rows: int, rng: np.random.Generator) -> Streams:
    """Streams of the model; x has settled when they begin.

    Readings with a resolution are rounded to their lattice where the white part of their noise has room for what
    rounding adds (step²/12); elsewhere they are left as they are, so that the covariance stays the network's.
    """
    dynamics = network.dynamics
    assert dynamics is not None
    mean, covariance = first_row(network, settled=True)
    away = _walk(dynamics.transition, covariance, dynamics.noise, (count, rows), rng)
    x = means_over_rows(dynamics.transition, dynamics.mean, mean, rows) + away
    noises = Noises.of(network, dither=False)
    readings = x @ network.H.T + network.offset
    if network.colour is not None:
        readings = readings + _walk(noises.memory, noises.carried, noises.innovation, (count, rows), rng)
    before_rounding = noises.floor - np.diag(dither_variance(network.steps))
    if np.linalg.eigvalsh(before_rounding)[0] < 0:
        return Streams(x, readings + _draw(noises.floor, (count, rows), rng))
    readings = readings + _draw(before_rounding, (count, rows), rng)
    coarse = network.steps > 0
    steps = np.where(coarse, network.steps, 1.0)
    return Streams(x, np.where(coarse, steps * np.rint(readings / steps), readings))


def _walk(
    transition: Array, first: Array, new: Array, shape: tuple[int, int], rng: np.random.Generator
) -> Array:
    """Draws (streams, rows, n) of v_{t+1} = A v_t + w_t, v_0 ~ N(0, first)."""
    count, rows = shape
    found = np.empty((count, rows, len(transition)))
    fresh = _draw(new, shape, rng)
    current = _draw(first, (count, 1), rng)[:, 0]
    for row in range(rows):
        found[:, row] = current
        current = current @ transition.T + fresh[:, row]
    return found


def _draw(covariance: Array, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    root = positive_root(covariance)
    return np.asarray(rng.standard_normal((*shape, len(root))) @ root)
