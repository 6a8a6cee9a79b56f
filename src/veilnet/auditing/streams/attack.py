"""Attackers with memory on simulated streams, judged exactly although their rows are correlated.

Many streams of the same length are drawn from the model and run through what is deployed. Errors in the rows of one
stream are jointly normal with a covariance that :class:`Window` knows, streams are independent of each other, so the
mean of the squares strays no farther than :class:`SquareSum` allows. An attacker that has learned is in the same
position: given the messages, what is left of g over all rows is normal with the covariance of the best estimate with
hindsight, and whatever an attacker answers can only add to it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.linalg import solve_discrete_lyapunov

from veilnet._core.types import Array, Integers
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.statistics import SquareSum
from veilnet.auditing.streams.window import When, Window
from veilnet.model.network import Network

_FEWEST, _SHORTEST, _LONGEST = 4, 16, 256
_MOST_NUMBERS = 2400  # readings in a window: one linear solve of this size takes a second or two
_SETTLED = 0.002  # a window is long enough when twice its rows change the error in its middle by less


class TooLarge(Exception):
    """A network of which not even a short window is affordable; the message says so."""


def long_enough(network: Network, sanitizers: Mapping[str, Sanitizer]) -> Window:
    """A window out of the middle of a stream, in whose own middle the errors have settled, as far as affordable.

    As many rows come before it as it has, so that memories are in full swing when it begins.
    """
    rows = min(_SHORTEST, _MOST_NUMBERS // (2 * network.N))
    if rows < _FEWEST:
        raise TooLarge(
            f"a window of {_FEWEST} rows of {network.N} readings is more than can be solved at once "
            f"(up to {_MOST_NUMBERS // (2 * _FEWEST)} readings)"
        )
    window = Window(network, sanitizers, rows, lead=rows)
    while 4 * rows * network.N <= _MOST_NUMBERS and 2 * rows <= _LONGEST:
        longer = Window(network, sanitizers, 2 * rows, lead=2 * rows)
        settled = _change(window, longer) < _SETTLED
        rows, window = 2 * rows, longer
        if settled:
            break
    return window


def _change(short: Window, long: Window) -> float:
    changes = []
    for matrix in (short.network.U, *short.network.private.values()):
        errors = [w.error(matrix, w.rows // 2, "hindsight") for w in (short, long)]
        changes.append(abs(errors[0] - errors[1]) / max(errors[1], np.finfo(float).tiny))
    return max(changes)


def forgotten(window: Window) -> float:
    """How much of what an agent sends is older than the window's lead, as a part of its deviation: the largest.

    Readings count by the deviation of their noise. Σ_j |C_s F^j K|² over j >= lead is tr(K'F^lead'X F^lead K) with
    X = F'X F + C_s'C_s.
    """
    deviations = np.sqrt(np.diag(window.network.R.matrix()))
    parts = [0.0]
    for place, sanitizer in enumerate(window.sanitizers):
        memory = sanitizer.memory
        if memory is None or not sanitizer.sent:
            continue
        kept, direct = np.split(sanitizer.compression, [memory.order], axis=1)
        gain = memory.gain * deviations[window.network.blocks.rows(place)]
        energy = solve_discrete_lyapunov(memory.transition.T, kept.T @ kept)
        at_once = kept @ gain + direct * deviations[window.network.blocks.rows(place)]
        later = memory.transition @ gain
        old = np.linalg.matrix_power(memory.transition, max(1, window.lead)) @ gain
        whole = float(np.sum(at_once**2) + np.trace(later.T @ energy @ later))
        parts.append(float(np.trace(old.T @ energy @ old)) / whole if whole > 0 else 0.0)
    return float(np.sqrt(max(0.0, *parts)))


def middle(window: Window) -> Integers:
    """The rows that are judged: those with a quarter of the window before and after them."""
    return np.arange(window.rows // 4, window.rows - window.rows // 4)


def law_of_errors(window: Window, wanted: Array, when: When, streams: int) -> tuple[SquareSum, float]:
    """The law of the mean square error per row over so many streams, and how many independent rows that is worth.

    The eigenvalues of the joint covariance over all judged rows take the place of rows that were independent. So many
    independent rows as (Σλ)²/Σλ², times the number of streams, would give a mean that strays as little.
    """
    at = middle(window)
    values = np.maximum(np.linalg.eigvalsh(window.error_covariance(wanted, at, when)), 0.0) / len(at)
    total = float(np.sum(values))
    square = float(np.sum(values**2))
    effective = streams * total**2 / square if square > 0 else float(streams * len(at))
    return SquareSum(values, streams), effective


def attack_with_the_model(window: Window, x: Array, messages: Array, wanted: Array, when: When) -> float:
    """The best linear attacker who knows the plan: mean square error on A x in the middle rows of all streams."""
    at = middle(window)
    estimates = window.estimate(messages[:, window.lead :], wanted, at, when)
    errors = estimates - x[:, window.lead + at] @ wanted.T
    return float(np.mean(np.sum(errors**2, axis=2)))
