"""What each agent of a stream may combine: the memory of its share filter, and its reading.

The state behind all messages of a row is v_t = (x_t, coloured noise n_t, memories s_{t-1}); agent i then knows
w_i = (y_i, s_i), its reading and its memory brought up to date, s_t = F s_{t-1} + K y_t. Where F and K are its share
filter, its part of the public estimate is O_i s_i, so that the family of messages C_i w_i + noise contains the share
filter, and every memoryless sanitizer too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag

from veilnet._core.blocks import Blocks
from veilnet._core.lyapunov import spectral_radius, stationary_covariance
from veilnet._core.types import Array
from veilnet.bounds.streams.knowledge import raw_stream
from veilnet.bounds.streams.state_space import message_model
from veilnet.model.common import padded
from veilnet.model.network import Network

# A part of the knowledge that adds less variance than this, relative, is none; or not worth its noise, where nobody
# needs it for perfect utility.
_CERTAIN, _HARDLY_NEW = 1e-12, 1e-6
_STABLE = 0.999


@dataclass(frozen=True, eq=False)
class ShareFilter:
    """The memory of one agent, s = F s + K y, and its share O s of the public estimate.

    ``plain`` where the share tells its readings anyway, so that these are sent instead.
    """

    transition: Array
    gain: Array
    share: Array
    plain: bool = False

    @property
    def order(self) -> int:
        return len(self.transition)


@dataclass(frozen=True, eq=False)
class JointState:
    """The joint state v and what agents know of it, each agent's knowledge as white combinations of (y_i, s_i).

    transition, noise: v_{t+1} = transition v_t + N(0, noise).
    view, fresh:       the stacked knowledge is view v_t + N(0, fresh).
    cross:             covariance of the noise of v_{t+1} with that of the knowledge at t.
    blocks:            which part of the knowledge belongs to which agent.
    frames:            per agent, the combinations of (s_i, y_i) that its knowledge consists of, (d_i, k_i + n_i).
    readings:          per agent, how many of them are of the reading alone; these come first.
    shares:            per agent, combinations of its knowledge that tell its share of the estimate of u, (any, d_i).
    private:           G_j on v.
    public:            U on v; with memories, the public estimate at t as rows of v_{t+1}: what is not known of it
                       from the messages up to t is the loss itself, without subtracting two nearly equal errors.
    later:             whether that is so.
    raw_public:        tr of the error of u now from raw streams.
    raw_private:       tr of the error of each g_j from raw streams, with hindsight.
    """

    transition: Array
    noise: Array
    view: Array
    fresh: Array
    cross: Array
    blocks: Blocks
    frames: tuple[Array, ...]
    readings: tuple[int, ...]
    shares: tuple[Array, ...]
    public: Array
    later: bool
    private: tuple[Array, ...]
    raw_public: float
    raw_private: Array


def knowledge_of(network: Network, filters: Sequence[ShareFilter] | None) -> JointState:
    """What the agents of a stream know with these memories, one each; None for agents that remember nothing."""
    stream, raw = message_model(network), raw_stream(network)  # of raw readings: its state is (x, n)
    remember = filters is not None
    filters = [_nothing(int(size)) for size in network.blocks.sizes] if filters is None else filters
    length, count = len(stream.transition), len(stream.observe)
    forget = block_diag(*(each.transition for each in filters))
    gain = block_diag(*(each.gain for each in filters))
    orders = Blocks([each.order for each in filters])
    memory = orders.total
    transition = np.block([[stream.transition, np.zeros((length, memory))], [gain @ stream.observe, forget]])
    enters = np.vstack([np.zeros((length, count)), gain])
    noise = enters @ stream.floor @ enters.T
    noise[:length, :length] += stream.noise
    # Stacked (s, y) of all agents, before they are cut up.
    everything = np.vstack(
        [np.hstack([gain @ stream.observe, forget]), np.hstack([stream.observe, np.zeros((count, memory))])]
    )
    carries = np.vstack([gain, np.eye(count)])
    # Only for scale: of a stream without a stationary covariance that of one drawn into stability.
    drawn = min(1.0, _STABLE / max(spectral_radius(transition), _STABLE))
    typical = stationary_covariance(transition * drawn, noise)
    covariance = everything @ typical @ everything.T + carries @ stream.floor @ carries.T
    cut = np.zeros((0, memory + count))
    frames, readings, shares = [], [], []
    for agent in range(network.S):
        own = np.r_[orders.rows(agent), memory + np.r_[network.blocks.rows(agent)]]
        varies = covariance[np.ix_(own, own)]
        order = filters[agent].order
        frame, of_reading = _white_frame(varies, order, filters[agent].share)
        placed = np.zeros((len(frame), memory + count))
        placed[:, own] = frame
        cut = np.vstack([cut, placed])
        frames.append(frame)
        readings.append(of_reading)
        # Knowledge is white, so the coefficients of a number on it are its covariances with it.
        sends = filters[agent].share @ varies[:order] @ frame.T
        shares.append(np.eye(of_reading, len(frame)) if filters[agent].plain else sends)
    public = padded(network.measured, length + memory)
    if remember:
        public[:, :length], public[:, length:] = 0.0, np.hstack([each.share for each in filters])
    return JointState(
        transition,
        noise,
        cut @ everything,
        cut @ carries @ stream.floor @ carries.T @ cut.T,
        enters @ stream.floor @ carries.T @ cut.T,
        Blocks([len(frame) for frame in frames]),
        tuple(frames),
        tuple(readings),
        tuple(shares),
        public,
        remember,
        tuple(padded(rows, length + memory) for rows in network.private.values()),
        float(np.trace(raw.error(padded(network.measured, length), hindsight=False))),
        np.array(
            [
                float(np.trace(raw.error(padded(rows, length), hindsight=True)))
                for rows in network.private.values()
            ]
        ),
    )


def _nothing(readings: int) -> ShareFilter:
    return ShareFilter(np.zeros((0, 0)), np.zeros((0, readings)), np.zeros((0, 0)), plain=True)


def _white_frame(covariance: Array, order: int, share: Array) -> tuple[Array, int]:
    """Uncorrelated combinations of (s, y) of unit variance: those of y alone, what the share adds, what s adds.

    The share is kept to the last digit, so that it can be sent exactly; what else the memory knows only where it is
    well distinguished from that.
    """
    size = len(covariance)
    frame = np.zeros((0, size))
    of_reading = 0
    stages = (
        (np.eye(size)[order:], _CERTAIN),
        (np.hstack([share, np.zeros((len(share), size - order))]), _CERTAIN),
        (np.eye(size)[:order], _HARDLY_NEW),
    )
    for number, (rows, smallest) in enumerate(stages):
        rest = rows - (rows @ covariance @ frame.T) @ frame
        frame = np.vstack([frame, _whitened(rest, covariance, np.diag(rows @ covariance @ rows.T), smallest)])
        of_reading = len(frame) if number == 0 else of_reading
    return frame, of_reading


def _whitened(rows: Array, covariance: Array, variances: Array, smallest: float) -> Array:
    """Combinations of rows that are white; those that hardly vary, by what the rows' variances were, are dropped."""
    scaled = rows / np.sqrt(np.maximum(variances, np.finfo(float).tiny))[:, None]
    values, vectors = np.linalg.eigh(scaled @ covariance @ scaled.T)
    kept = values > smallest
    combined: Array = (vectors[:, kept] / np.sqrt(values[kept])).T @ scaled
    return combined
