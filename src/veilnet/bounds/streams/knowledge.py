"""What the centre knows of a stream in the steady state: u now, g with hindsight (docs/explanation/streams.md).

Utility is judged *now*: the error of u_t given the messages up to t. Privacy is judged *with hindsight*: the error of
g_t given all messages, later ones too. Both are ratios to raw streams judged by the same rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidRequest, NotObservable
from veilnet._core.linalg import orthonormal_rows
from veilnet._core.types import Array, Booleans
from veilnet._core.words import direction_in_words
from veilnet.agent.dither import counting_dither
from veilnet.agent.mechanisms import Sanitizers, mechanisms, sends_raw
from veilnet.bounds.streams.riccati import steady_state
from veilnet.bounds.streams.share_sums import raw_where_determined
from veilnet.bounds.streams.state_space import message_model
from veilnet.bounds.streams.steady import ErrorsApart, MessageSystem, Steady
from veilnet.bounds.streams.steady_stacks import SteadyOfStacks
from veilnet.model.common import padded
from veilnet.model.dynamics import refuse_without_steady_state
from veilnet.model.network import Network
from veilnet.model.stream_size import by_stacks

# Growth below this is rounding of two steady states, each computed to about a thousandth of it.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class StreamKnowledge:
    """The steady errors of x from some messages beside those from raw readings.

    steady: of the messages, in the state of :func:`veilnet.bounds.streams.state_space.message_model`, or of x alone
            where agents are very many.
    raw:    of the raw readings.
    """

    network: Network
    steady: Steady | SteadyOfStacks
    raw: Steady

    @property
    def utility(self) -> float:
        """u <= 0, now."""
        return 0.0 - self.growth(self.network.measured, hindsight=False)

    @property
    def privacy(self) -> dict[str, float]:
        """p_j of each private parameter, with hindsight."""
        return {name: self.growth(rows, hindsight=True) for name, rows in self.network.private.items()}

    def growth(self, rows: Array, *, hindsight: bool) -> float:
        """tr(A P̃ A') / tr(A P A') - 1 for rows A of x; inf where the messages never bound a row."""
        if not np.all(self.steady.bounded(padded(rows, len(self.steady.basis)))):
            return np.inf
        sent_error = self.error(rows, hindsight=hindsight)
        best = _positive_error(self.network, self.raw, rows, hindsight=hindsight)
        # A ratio of sums over the rows, as in the model of one row.
        ratio = float(np.trace(sent_error) / np.trace(best)) - 1.0
        return 0.0 if ratio < _ROUNDING else ratio

    def worst_growth(self, rows: Array, *, hindsight: bool) -> float:
        """The smallest growth over all directions of A x: the part of it that stays most exposed."""
        basis = orthonormal_rows(rows)
        basis = self.bounded_combinations(basis) @ basis
        if len(basis) == 0:
            return np.inf
        sent_error = self.error(basis, hindsight=hindsight)
        best = _positive_error(self.network, self.raw, basis, hindsight=hindsight)
        root = np.linalg.cholesky(best)
        half = np.linalg.solve(root, np.linalg.solve(root, sent_error).T)
        least = float(np.linalg.eigvalsh((half + half.T) / 2)[0]) - 1.0
        return 0.0 if least < _ROUNDING else least

    def bounded(self, rows: Array) -> Booleans:
        """Which rows of x have a finite error."""
        return self.steady.bounded(padded(rows, len(self.steady.basis)))

    def bounded_combinations(self, rows: Array) -> Array:
        """T, (k, r): T A spans, orthonormally, what of the rows A, of full rank, has a finite error."""
        turned, upper = np.linalg.qr(rows.T)
        hidden = padded(turned.T, len(self.steady.basis)) @ self.steady.unbounded
        left, singular, _ = np.linalg.svd(hidden)
        return np.asarray(np.linalg.solve(upper, left[:, int(np.sum(singular > 1e-8)) :]).T)

    def errors_apart(self, rows: Array, count: int) -> ErrorsApart:
        """The errors with hindsight of rows A of x, and how they go together up to ``count`` rows apart."""
        return self.steady.errors_apart(padded(rows, len(self.steady.basis)), count)

    def error(self, rows: Array, *, hindsight: bool) -> Array:
        """A P̃ A' for rows A of x; NotObservable, naming the direction, where it is unbounded."""
        wide = padded(rows, len(self.steady.basis))
        bounded = self.steady.bounded(wide)
        if not np.all(bounded):
            unseen = self.steady.unbounded[: self.network.L]
            direction = unseen @ (unseen.T @ rows[~bounded][0])
            raise NotObservable(
                "sanitizers: what is sent never bounds the error of "
                f"{direction_in_words(direction, self.network.parameters)}, which does not return to its "
                "mean; utility and privacy are defined all the same, the bound on x is not"
            )
        return self.steady.error(wide, hindsight=hindsight)


def stream_knowledge(network: Network, sanitizers: Sanitizers) -> StreamKnowledge:
    """What the centre learns of a stream from the messages of all agents (raw where an agent has no sanitizer)."""
    if sends_raw(sanitizers):
        raw = raw_stream(network)
        return StreamKnowledge(network, raw, raw)
    network = counting_dither(network, mechanisms(network, sanitizers))
    sent, raw = mechanisms(network, sanitizers), raw_stream(network)
    if by_stacks(network):
        return StreamKnowledge(network, SteadyOfStacks(sent.normal, raw), raw)
    return StreamKnowledge(network, steady_state(message_model(network, raw_where_determined(sent))), raw)


@lru_cache(maxsize=8)
def raw_stream(network: Network) -> Steady:
    """The steady state of the best filter on raw readings."""
    assert network.dynamics is not None
    refuse_without_steady_state(network.dynamics, network.parameters)
    if not by_stacks(network):
        return steady_state(message_model(network))
    # With white noise independent between agents only the L x L information of a row counts, however many they are.
    moves, noise = network.dynamics.transition, network.dynamics.noise
    return steady_state(MessageSystem(moves, noise, network.readings_triangle, np.eye(network.L)))


def silent_stream(network: Network) -> StreamKnowledge:
    """What is known of a stream when nothing is sent: x in the long run."""
    assert network.dynamics is not None
    size = network.L
    nothing = MessageSystem(
        network.dynamics.transition, network.dynamics.noise, np.zeros((0, size)), np.zeros((0, 0))
    )
    return StreamKnowledge(network, steady_state(nothing), raw_stream(network))


def read_when(network: Network, when: Any, *, otherwise: str) -> bool:
    """Whether a figure is asked with hindsight; ``otherwise`` says which where nothing was asked."""
    if when is not None and not network.is_stream:
        raise InvalidRequest(
            "when: goes with streams and has no effect on a network without dynamics; leave it out, or give dynamics="
        )
    chosen = otherwise if when is None else when
    if chosen not in ("now", "hindsight"):
        raise InvalidRequest(f"when: expected 'now' or 'hindsight', found {when!r}")
    return bool(chosen == "hindsight")


def stream_bits(network: Network, sanitizers: Sanitizers, *, hindsight: bool) -> dict[str, float]:
    """I(g_t; messages) in bits per row of the stream, against what is known of x in the long run."""
    assert network.dynamics is not None
    if not network.dynamics.stable:
        raise InvalidRequest(
            "dynamics: bits revealed compare with what is known when nothing is sent, so they need an x that returns "
            "to its mean (a stable transition); ask for the privacy instead"
        )
    before, after = silent_stream(network), stream_knowledge(network, sanitizers)
    bits = {}
    for name, rows in network.private.items():
        basis = orthonormal_rows(rows)
        sizes = [np.linalg.slogdet(k.error(basis, hindsight=hindsight))[1] for k in (before, after)]
        bits[name] = max(0.0, float(sizes[0] - sizes[1]) / 2 / np.log(2.0))
    return bits


def _positive_error(network: Network, steady: Steady, rows: Array, *, hindsight: bool) -> Array:
    """The error from raw readings; refused where they already tell a row exactly, as no ratio exists then."""
    best = steady.error(padded(rows, len(steady.basis)), hindsight=hindsight)
    assert network.dynamics is not None
    scale = (
        np.diag(rows @ np.abs(network.dynamics.noise) @ rows.T)
        if not network.dynamics.stable
        else np.diag(
            rows @ network.dynamics.stationary @ rows.T  # type: ignore[operator]
        )
    )
    known = np.diag(best) <= 1e-13 * scale
    if np.any(known):
        raise NotObservable(
            f"dynamics: raw readings tell {direction_in_words(rows[known][0], network.parameters)} exactly in the "
            "long run, so that no error grows from there; give the readings noise, or x"
        )
    return best
