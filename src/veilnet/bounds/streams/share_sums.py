"""What share filters of very many agents add up to: the centre's estimate, and how far from it what they send is.

All agents share F = (I - KH)A and the public rows in which the error of the estimate is white, so that agent i's
share in those units is s_i(ω) = rows (I - F e^{-iω})^-1 K_i applied to its readings, K_i = P H_i'R_i^-1 with P the
error now. What it sends, h_i(ω), gives the share back by weights W_i (constant ones), or, where it sends readings, by
the centre's own filter.

Of agents whose exact numbers tell their readings anyway, sending the readings is the same, and easier to compute. An
agent that sends as many exact numbers a row as it has readings, or more, usually gives them away: its numbers repeat
one another from row to row, parts of its memory become known exactly, and covariances of what is new become singular.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from veilnet._core.linalg import cholesky, solve_lower, solve_lower_batch
from veilnet._core.lyapunov import undetectable_directions
from veilnet._core.types import Array
from veilnet.agent.memory import impulses
from veilnet.agent.sanitizer import Sanitizer
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.bounds.streams.state_space import message_model
from veilnet.bounds.streams.steady import Steady
from veilnet.model.common import padded
from veilnet.model.network import Network
from veilnet.model.stream_size import by_stacks


@dataclass(frozen=True, eq=False)
class ShareSystem:
    """The best filter on raw readings, as far as agents have to know it.

    transition: F, (n, n).
    rows:       the public rows in which the error of the estimate is white, (r, n).
    root:       lower triangular, U = root rows.
    error:      P, the error covariance of x now, (L, L), where agents are very many and the state is x.
    gain:       K of all readings, (n, N), where they are not.
    """

    transition: Array
    rows: Array
    root: Array
    error: Array | None = None
    gain: Array | None = None

    @classmethod
    def of(cls, network: Network, steady: Steady) -> ShareSystem:
        """That of a stream; ``steady`` is the steady state of the best filter on raw readings."""
        assert network.dynamics is not None
        if by_stacks(network):
            moves = network.dynamics.transition
            error = steady.error(np.eye(network.L), hindsight=False)
            upper = network.readings_triangle
            root = cholesky(_regular(network.U @ error @ network.U.T))
            taken = (error @ upper.T) @ upper
            return cls(moves - taken @ moves, solve_lower(root, network.U), root, error=error)
        model = message_model(network)
        gain = steady.basis @ steady.gain
        public = padded(network.U, model.size)
        # Rows in which the error of the public estimate is white: then every number counts alike.
        root = cholesky(_regular(steady.error(public, hindsight=False)))
        closed = model.transition - gain @ (model.observe @ model.transition)
        return cls(closed, solve_lower(root, public), root, gain=gain)

    def gains(self, observe: Array, roots: Array) -> Array:
        """K_i = P H_i'R_i^-1, (count, L, readings), of very many agents; for H_i and the Cholesky roots of R_i."""
        assert self.error is not None
        white = solve_lower_batch(roots, observe)
        return self.error @ np.swapaxes(solve_lower_batch(roots, white, transposed=True), 1, 2)


def _regular(covariance: Array) -> Array:
    """A covariance with repeated rows made regular: repeated public rows count as two of the same."""
    return np.asarray(covariance + 1e-12 * np.diag(np.diag(covariance)))


def sends_all(stack: SanitizerStack) -> bool:
    """Whether agents of a stack send as many combinations of readings as they have, without memory or noise."""
    return stack.order == 0 and stack.sent == stack.readings and stack.variances is None


def share_weights(system: ShareSystem, stack: SanitizerStack, gains: Array, roots: Array) -> Array:
    """W_i, (count, r, k): the combinations of what each agent sends that are nearest to its share, in its noise.

    gains: K_i, (count, L, n).
    roots: Cholesky roots of R_i, (count, n, n).

    Both are filters of the same readings, compared over the rows that tell filters of so many numbers apart.
    """
    lags = 1
    made: Iterator[Array] = iter([stack.compression])
    if stack.transition is not None and stack.gain is not None:
        lags = len(system.transition) + stack.order + 2
        made = impulses(stack.compression, stack.transition, stack.gain)
    shares = impulses(np.pad(system.rows, ((0, 0), (0, gains.shape[2]))), system.transition, gains)
    shown = np.concatenate([each @ roots for each in islice(made, lags)], axis=2)
    wanted = np.concatenate([each @ roots for each in islice(shares, lags)], axis=2)
    sizes = np.linalg.norm(shown, axis=2)
    sizes = np.where(sizes > 0, sizes, 1.0)
    shown = shown / sizes[:, :, None]
    # A little more than rounding on the diagonal: numbers that repeat one another may be weighed as one likes.
    gram = shown @ np.swapaxes(shown, 1, 2) + 1e-13 * np.eye(stack.sent)
    mixed = np.linalg.solve(gram, shown @ np.swapaxes(wanted, 1, 2))
    return np.asarray(np.swapaxes(mixed, 1, 2) / sizes[:, None, :])


# A combination of readings that moves no number sent by more than this part is not shown by the row itself.
LEAST_DETERMINED = 1e-9


def determines_readings(transition: Array, gain: Array, from_memory: Array, from_reading: Array) -> bool:
    """Whether exact numbers C_s s + C_y y, s = F s + K y, up to now tell every reading y.

    With D = C_y + C_s K of full column rank, y_t = D^+ (z_t - C_s F s_{t-1}): one who has s wrong is wrong by
    (F - K D^+ C_s F) times as much a row later, and sees it in what z_t - C_s F s_{t-1} has outside the range of D.
    The readings are determined iff that error dies away or is seen.
    """
    direct = from_reading + from_memory @ gain
    left, singular, _ = np.linalg.svd(direct)
    if len(singular) < gain.shape[1] or singular[-1] <= LEAST_DETERMINED * max(1.0, singular[0]):
        return False
    if len(transition) == 0:
        return True
    carried = from_memory @ transition
    wrong = transition - gain @ (np.linalg.pinv(direct) @ carried)
    seen = left[:, len(singular) :].T @ carried
    return bool(undetectable_directions(wrong, seen).shape[1] == 0)


def raw_where_determined(sanitizers: Mapping[str, Sanitizer]) -> dict[str, Sanitizer]:
    """The same sanitizers, those that tell their readings exactly replaced by ones that send them as they are."""
    return {
        agent: Sanitizer.raw(each.readings) if _tells(each) else each for agent, each in sanitizers.items()
    }


def _tells(sanitizer: Sanitizer) -> bool:
    memory = sanitizer.memory
    if memory is None:
        return False
    rows, noisy = sanitizer.normal
    exact, order = rows[~noisy], memory.order
    if len(exact) < sanitizer.readings:
        return False
    return determines_readings(memory.transition, memory.gain, exact[:, :order], exact[:, order:])
