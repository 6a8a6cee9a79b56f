"""The errors of a stream once more, by a route that shares nothing with :mod:`veilnet.bounds`.

With hindsight, by spectra (:mod:`veilnet.recheck.stream_spectra`).

Now, by a window: the covariances of the last W rows of messages with one another and with u, and one linear solve. It
leaves out older rows, so it finds a little too large an error, less so as W is doubled. Where no window is long
enough, or x wanders off, by a witness: a filter and its own error (:mod:`veilnet.recheck.stream_witness`). Where
agents are very many the witness is the centre that adds up what they send (:mod:`veilnet.recheck.stream_sum`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial

import numpy as np
from scipy.linalg import solve_toeplitz

from veilnet._core.types import Array
from veilnet.agent.mechanisms import Sanitizers, mechanisms
from veilnet.model.network import Network
from veilnet.model.stream_size import by_stacks
from veilnet.recheck.route import deviations
from veilnet.recheck.stream_gaps import least_errors_with_gaps
from veilnet.recheck.stream_spectra import Hindsight, information, raw_spectra
from veilnet.recheck.stream_sum import growth_of_sum
from veilnet.recheck.stream_window import RowWindow
from veilnet.recheck.stream_witness import UNSEEN, error_now, error_of_raw_filter, hidden_for_good


class StreamRecheck:
    """Errors of rows of x from raw readings and from what is sent, from (network, sanitizers) alone."""

    def __init__(self, network: Network, sanitizers: Sanitizers) -> None:
        self.network, self._mechanisms = network, mechanisms(network, sanitizers)
        self._sent = Hindsight(network, partial(information, network, self._mechanisms))
        self._raw = Hindsight(network, partial(raw_spectra, network))
        self._silent = Hindsight(network, lambda turns: np.zeros((len(turns), network.L, network.L), complex))

    @cached_property
    def _window(self) -> RowWindow:
        return RowWindow(self.network, self._mechanisms)

    def growth(self, rows: Array, claimed: float) -> float:
        """The growth of tr(A P̃ A') over tr(A P A') with hindsight; inf where it is without bound."""
        best = float(np.trace(self._raw.error(rows)))
        endless = bool(np.isinf(claimed))
        expected = None if endless else best * (1.0 + claimed)
        return float(np.trace(self._sent.error(rows, expected, without_bound=endless)) / best - 1.0)

    def least_growth(self, rows: Array, claimed: float) -> float:
        """The least growth with hindsight over all directions of A x, for independent rows."""
        sent_error = self._sent.error(rows, without_bound=bool(np.isinf(claimed)))
        if not np.all(np.isfinite(sent_error)):
            return np.inf
        root = np.linalg.cholesky(self._raw.error(rows))
        half = np.linalg.solve(root, np.linalg.solve(root, sent_error).T)
        return float(np.linalg.eigvalsh((half + half.T) / 2)[0] - 1.0)

    def growths_with_gaps(self, claimed: Mapping[str, float]) -> dict[str, float]:
        """The least growth with hindsight over memories that begin anew, of private parameters with bounded errors:
        as claimed or more if that can be shown, and otherwise too small rather than too large.
        """
        groups = [self.network.private[name] for name in claimed]
        usual = np.array([self.growth(rows, 0.0) for rows in groups])
        if self._window.memories and groups:
            best = np.array([float(np.trace(self._raw.error(rows))) for rows in groups])
            asked = best * (1.0 - 1e-7) * (1.0 + np.array(list(claimed.values())))
            usual = np.minimum(usual, least_errors_with_gaps(self._window, groups, asked) / best - 1.0)
        # Messages are functions of readings and of draws that nobody knows: no error is below that of raw streams.
        # The bound from below may be, where a window is too short for what it gives away at its ends.
        return dict(zip(claimed, np.maximum(usual, 0.0).tolist(), strict=True))

    def shown_anew(self, rows: Array) -> bool:
        """Whether a memory holds what no message ever bounds of A x: one that begins anew shows it."""
        hidden = hidden_for_good(self._window)
        held = [
            np.max(np.abs(hidden[mine]), initial=0.0) > UNSEEN for mine, _ in self._window.memories.values()
        ]
        return any(held) and bool(np.max(np.abs(self._window.wide(rows) @ hidden), initial=0.0) > UNSEEN)

    def deviations(self, rows: Array, change: float | Array, lasts: int) -> float:
        """d' of the best detector of a change of A x that stays for ``lasts`` rows of the stream."""
        dynamics = self.network.dynamics
        assert dynamics is not None
        gained = _on_what_stays(self._sent.errors_apart(rows, lasts))
        # On the unit circle a stream that grows by itself is another, which comes back: no prior is counted of it.
        if np.max(np.abs(np.linalg.eigvals(dynamics.transition))) < 1 + 1e-12:
            gained = gained - _on_what_stays(self._silent.errors_apart(rows, lasts))
        return deviations(gained, change)

    def growth_now(self, rows: Array, claimed: float) -> float:
        """The growth now; a little too large rather than too small where ``claimed`` is not reached."""
        if by_stacks(self.network):
            return growth_of_sum(self.network, self._mechanisms, rows, claimed)
        best = error_of_raw_filter(self.network, rows)
        return error_now(self._window, rows, best * (1.0 + claimed)) / best - 1.0


def _on_what_stays(errors: list[Array]) -> Array:
    """The information on g that stays the same, (r, r), from errors at ever fewer frequencies.

    Errors without bound grow like the number f of frequencies: the parabola in 1/f, taken at 0.
    """
    found, *coarser = map(_of_the_sum, errors)
    return (8 * found - 6 * coarser[0] + coarser[1]) / 3 if len(coarser) == 2 else found


def _of_the_sum(apart: Array) -> Array:
    """The information on g that stays the same, (r, r), from covariances of errors 0, 1, ... rows apart."""
    count, size, _ = apart.shape
    if size == 1:
        return np.atleast_2d(np.sum(solve_toeplitz(apart[:, 0, 0], np.ones(count))))
    joint = np.block(
        [[apart[j - i] if j >= i else apart[i - j].T for j in range(count)] for i in range(count)]
    )
    ones = np.tile(np.eye(size), (count, 1))
    return np.asarray(ones.T @ np.linalg.solve(joint, ones))
