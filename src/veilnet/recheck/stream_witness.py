"""The error of u now by a witness: a filter that a centre can run on what is sent, and the error that it has.

Whatever the gain K of a filter, its error

    e_t = (I - K C)(A e_{t-1} + w_t) - K ξ_t

has a covariance that solves a linear equation (Lyapunov's), and no centre has to err more than that. So the gain need
not be believed: it comes from running the plain recursion for some rows, and only the error of the frozen filter
counts. It is too large rather than too small, by the square of what the gain is off.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from veilnet._core.types import Array
from veilnet.agent.mechanisms import Sanitizers, mechanisms
from veilnet.model.network import Network

SETTLED = 1e-9  # of an error: a thousandth of what a certificate allows
_FEWEST_ROWS, _MOST_ROWS = 128, 2048
_REPEATS = 1e-13  # combinations of messages with less than this part of the largest variance repeat others
# Exact messages that repeat one another leave a gain that never forgets its rounding: it is found again as if each,
# of unit size, had this much noise of its own. Only the gain is: the error counted is the true one of that filter.
_DISTRUST = (0.0, 1e-12, 1e-10, 1e-8, 1e-6)
_MOST_DOUBLINGS = 60  # 2^60 rows: what has not settled by then never does
_AGREES = 1e-8  # of what was claimed: a hundredth of what a certificate allows
UNSEEN = 1e-9  # of unit directions: what doubles leave of one that nobody sees, with room
_CANCELLED = 1e-12  # of a message: what doubles leave where a filter lets nothing pass of what lasts
_WITHOUT_END = 1e12  # an error squared, in units of what the state reaches in some rows
_ROWS = 16  # after which the sizes of a state tell what units to count it in


class MessageRows:
    """Rows of messages as one linear system: s' = moves s + N(0, news), z = observe s + N(0, noise).

    The state is (x, n, s, y): readings are part of it, so that what is sent is exact but for the noise that is added.
    ``memories`` says where those of the agents (by their place) are, with the law that they are drawn from anew.
    """

    def __init__(self, network: Network, sanitizers: Sanitizers) -> None:
        dynamics = network.dynamics
        assert dynamics is not None
        sent = mechanisms(network, sanitizers)
        self.sent = sent.blocks.total
        L, N = network.L, network.N
        coloured = 0 if network.colour is None else N
        order = int(sum(sent.kept))
        base = L + coloured
        size = base + order + N
        moves, enters = np.zeros((size, size)), np.zeros((size, base + N))
        moves[:L, :L] = dynamics.transition
        enters[:base, :base] = np.eye(base)
        news = np.zeros((base + N, base + N))
        news[:L, :L] = dynamics.noise
        if network.colour is not None:
            moves[L:base, L:base] = network.colour.memory
            news[L:base, L:base] = network.colour.innovation
        news[base:, base:] = white_noise(network)
        read = np.concatenate([network.H, np.eye(N)[:, :coloured]], axis=1)
        moves[base + order :, :base] = read @ moves[:base, :base]
        enters[base + order :] = np.concatenate([read, np.eye(N)], axis=1)
        self.observe, end, row = np.zeros((self.sent, size)), base, 0
        self.noise = np.zeros((self.sent, self.sent))
        self.memories: dict[int, tuple[slice, Array]] = {}
        for place, each in enumerate(sent.values()):
            mine = slice(end, end + each.order)
            own = network.blocks.rows(place)
            readings = slice(base + order + own.start, base + order + own.stop)
            if each.memory is not None:
                moves[mine] = each.memory.gain @ moves[readings]
                moves[mine, mine] += each.memory.transition
                enters[mine] = each.memory.gain @ enters[readings]
                empty = np.zeros((each.order, each.order))
                self.memories[place] = mine, empty if each.memory.start is None else each.memory.start
            rows = slice(row, row + each.sent)
            self.observe[rows, mine] = each.compression[:, : each.order]
            self.observe[rows, readings] = each.compression[:, each.order :]
            self.noise[rows, rows] = each.noise
            end, row = mine.stop, rows.stop
        self.units = unit_sizes(moves, enters @ news @ enters.T)
        self.moves = moves / self.units[:, None] * self.units
        self.news = (enters @ news @ enters.T) / np.outer(self.units, self.units)
        self.observe = self.observe * self.units
        sizes = np.sqrt(np.sum(self.observe**2, axis=1) + np.diag(self.noise))
        sizes = np.where(sizes > 0, sizes, 1.0)
        self.observe, self.noise = self.observe / sizes[:, None], self.noise / np.outer(sizes, sizes)
        self.size, self.L = size, L

    def part(self, basis: Array) -> MessageRows:
        """The system of what the state has beside directions that stay among themselves, in an orthonormal basis."""
        part = copy(self)
        part.moves, part.news = basis.T @ self.moves @ basis, basis.T @ self.news @ basis
        part.observe, part.size = self.observe @ basis, basis.shape[1]
        return part

    def wide(self, rows: Array) -> Array:
        """Rows of x as rows of the state."""
        wide = np.zeros((len(rows), self.size))
        wide[:, : self.L] = rows * self.units[: self.L]
        return wide


def error_of_witness(system: MessageRows, rows: Array, claimed: float | None = None) -> float:
    """tr(A P A') now of a filter with constant gain; inf where none was found that settles.

    system:  whose messages are filtered.
    rows:    A.
    claimed: an error that ends the search where the filter has it.
    """
    wide, hidden = system.wide(rows), hidden_for_good(system)
    if hidden.shape[1]:  # what nothing bounds is left out, if u has none of it
        if np.linalg.norm(wide @ hidden) > UNSEEN * np.linalg.norm(wide):
            return np.inf
        basis = np.linalg.svd(hidden)[0][:, hidden.shape[1] :]
        wide, system = wide @ basis, system.part(basis)
    tried = (_witness(system, wide, claimed, distrust) for distrust in _DISTRUST)
    return next((found for found in tried if np.isfinite(found)), np.inf)


def _witness(system: MessageRows, wide: Array, claimed: float | None, distrust: float) -> float:
    """tr(A P A') of the filter whose gain takes every message for noisier than it is, by ``distrust``."""
    before, done, found = system.news, 0, np.inf
    run = _FEWEST_ROWS
    while run <= _MOST_ROWS:
        for _ in range(run - done):
            gain, _ = gain_of(system, before, distrust)
            after = corrected(system, gain, before)
            grown = system.moves @ after @ system.moves.T + system.news
            before = np.asarray((grown + grown.T) / 2)
            if np.max(np.diag(before)) > _WITHOUT_END:
                return np.inf
        done, previous = run, found
        found = _error_of(system, gain, wide)
        agrees = claimed is not None and abs(found - claimed) <= _AGREES * claimed
        if agrees or abs(previous - found) <= SETTLED * found:
            break
        run *= 2
    return found


def hidden_for_good(system: MessageRows) -> Array:
    """Orthonormal columns: directions of the state that do not die away and that no message ever shows."""
    from scipy.linalg import schur

    lasts = lambda real, imaginary: np.hypot(real, imaginary) >= 1 - UNSEEN  # noqa: E731
    _, basis, count = schur(system.moves, sort=lasts)
    lasting = basis[:, :count]
    moves, rows = lasting.T @ system.moves @ lasting, system.observe @ lasting
    rows[np.linalg.norm(rows, axis=1) <= _CANCELLED] = 0.0  # messages have unit size
    seen = np.zeros((0, count))
    for _ in range(count):
        seen = np.concatenate([seen, rows / max(np.linalg.norm(rows), np.finfo(float).tiny)])
        rows = rows @ moves
    _, sizes, directions = np.linalg.svd(seen)
    return np.asarray(lasting @ directions[np.sum(sizes > UNSEEN) :].T)


def gain_of(system: MessageRows, before: Array, distrust: float = 0.0) -> tuple[Array, Array]:
    """(K, W) of a row, from the error of the state before it: W'W = S^+, the covariance of what it tells anew."""
    seen = system.observe @ before
    white = whitening_rows(seen @ system.observe.T + system.noise + distrust * np.eye(len(seen)))
    return np.asarray(seen.T @ white.T @ white), white


def whitening_rows(covariance: Array) -> Array:
    """W, W'W the inverse of a covariance, without combinations that repeat others."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    kept = values > _REPEATS * np.max(values, initial=0.0)
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T)


def corrected(system: MessageRows, gain: Array, before: Array) -> Array:
    """The error of the state after a row, with this gain."""
    kept = np.eye(system.size) - gain @ system.observe
    return np.asarray(kept @ before @ kept.T + gain @ system.noise @ gain.T)


def _error_of(system: MessageRows, gain: Array, wide: Array) -> float:
    """The stationary error of the filter with this gain, by doubling; inf where it does not settle."""
    step = (np.eye(system.size) - gain @ system.observe) @ system.moves
    total = corrected(system, gain, system.news)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(_MOST_DOUBLINGS):
            more = step @ total @ step.T
            total = total + more
            step = step @ step
            if not np.all(np.isfinite(total)):
                return np.inf
            if np.max(np.abs(more)) <= np.finfo(float).eps * np.max(np.abs(total)):
                return float(np.trace(wide @ total @ wide.T))
    return np.inf


def error_of_raw_filter(network: Network, rows: Array) -> float:
    """tr(A P A') now, from raw readings: by a generalised Schur form where every reading has white noise."""
    from scipy.linalg import solve_discrete_are

    dynamics = network.dynamics
    assert dynamics is not None
    raw = MessageRows(network, None)
    base = network.L + (0 if network.colour is None else network.N)
    white = white_noise(network)
    scale = np.sqrt(np.diag(network.R.matrix()))
    white = white / np.outer(scale, scale)
    if np.linalg.eigvalsh(white)[0] < 1e-9:
        return error_of_witness(raw, rows)
    read = np.concatenate([network.H, np.eye(network.N)[:, : base - network.L]], axis=1)
    read = read * raw.units[:base] / scale[:, None]
    rows = rows * raw.units[: network.L]
    before = solve_discrete_are(raw.moves[:base, :base].T, read.T, raw.news[:base, :base], white)
    half = read @ before[:, : network.L] @ rows.T
    best = rows @ before[: network.L, : network.L] @ rows.T
    return float(np.trace(best - half.T @ np.linalg.solve(read @ before @ read.T + white, half)))


def white_noise(network: Network) -> Array:
    """The white part of the readings' noise, dither included."""
    if network.colour is None:
        return network.R.matrix()
    return np.asarray(network.colour.floor + np.diag(network.draws * network.steps**2 / 12))


def unit_sizes(moves: Array, news: Array) -> Array:
    """Deviations that the state reaches within some rows: units in which its entries are of one size."""
    sizes = np.sqrt(np.maximum(np.diag(reached(moves, news)), 0.0))
    return np.asarray(np.where(sizes > 0, sizes, 1.0))


def reached(moves: Array, news: Array) -> Array:
    """The covariance of the state some rows after it was zero; as if it did not grow by itself where it does."""
    reached, moves = news, moves / max(1.0, np.max(np.abs(np.linalg.eigvals(moves))))
    for _ in range(_ROWS):
        reached = moves @ reached @ moves.T + news
    return reached
