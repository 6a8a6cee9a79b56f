"""The differential-privacy reading of a plan: what (ε, δ) its noise implies, given bounds on readings.

An agent's message z = C y + ξ, ξ ~ N(0, Θ), is a Gaussian mechanism. With y and y' any two readings within
bounds, their sensitivity is Δ = max |Θ^-½ C (y - y')|, and (ε, δ)-differential privacy holds iff

    Φ(Δ/2 - ε/Δ) - e^ε Φ(-Δ/2 - ε/Δ) <= δ

(Balle and Wang, ICML 2018, Theorem 8). This is local differential privacy of everything one agent read at one
time; where it keeps a memory, of two streams of readings that differ in one row, by all that is ever sent of them.
Noise of the sensors is not counted, and rounding to the grid is post-processing. A direction that is
sent without noise tells readings apart with certainty: there is then no (ε, δ) at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.linalg import solve_discrete_lyapunov
from scipy.special import log_ndtr, ndtr

from veilnet._core.errors import InvalidRequest
from veilnet._core.linalg import positive_root
from veilnet._core.types import Array
from veilnet._core.validation import refuse_unknown
from veilnet._core.words import join_names, number
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.row import Row
from veilnet.auditing.sections import Section
from veilnet.model.network import Network

SECTION = Section.DIFFERENTIAL_PRIVACY.heading
_MOST_CORNERS = 16  # readings up to which every corner of the box is visited


def gaussian_delta(epsilon: float, sensitivity: float) -> float:
    """The smallest δ for a given ε, at noise of deviation one."""
    if sensitivity == 0:
        return 0.0
    first = float(ndtr(sensitivity / 2 - epsilon / sensitivity))
    second = float(np.exp(epsilon + log_ndtr(-sensitivity / 2 - epsilon / sensitivity)))
    return max(0.0, first - second)


def gaussian_epsilon(delta: float, sensitivity: float) -> float:
    """The smallest ε for a given δ, at noise of deviation one; by bisection, rounded up."""
    if sensitivity == 0 or gaussian_delta(0.0, sensitivity) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while gaussian_delta(high, sensitivity) > delta:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if gaussian_delta(middle, sensitivity) > delta else (low, middle)
    return high


def sensitivity(sanitizer: Sanitizer, widths: Array) -> float:
    """max |Θ^-½ C d| over |d_k| <= widths_k; inf where a direction is sent without noise.

    A convex function is largest at a corner of the box: all are visited for up to 16 readings. Beyond, the
    triangle inequality gives a bound from above.
    """
    rows, noisy = sanitizer.normal
    if np.any(_moves(sanitizer, rows[~noisy], widths)):
        return np.inf
    moves = _moves(sanitizer, rows[noisy], widths)
    if not moves.size:
        return 0.0
    moves = moves[:, np.any(moves != 0, axis=0)]
    count = moves.shape[1]
    if count == 0:
        return 0.0
    if count > _MOST_CORNERS:
        return float(np.sum(np.linalg.norm(moves, axis=0)))
    # One corner of each opposite pair.
    signs = 1.0 - 2.0 * ((np.arange(2 ** (count - 1))[:, None] >> np.arange(count)) & 1)
    return float(np.max(np.linalg.norm(signs @ moves.T, axis=1)))


def _moves(sanitizer: Sanitizer, rows: Array, widths: Array) -> Array:
    """M with |M d| the norm of how far numbers with these rows of C move, all later rows included, by d ∘ widths.

    With a memory a reading of one row moves the numbers of all later ones: h_0 = C_s K + C_y, then h_j = C_s F^j K.
    Σ_j h_j'h_j = h_0'h_0 + K'F'X F K with X = F'X F + C_s'C_s.
    """
    memory = sanitizer.memory
    if memory is None or not rows.size:
        return rows[:, sanitizer.order :] * widths
    kept, direct = np.split(rows, [memory.order], axis=1)
    at_once = kept @ memory.gain + direct
    later = memory.transition @ memory.gain
    energy = solve_discrete_lyapunov(memory.transition.T, kept.T @ kept)
    gram = at_once.T @ at_once + later.T @ ((energy + energy.T) / 2) @ later
    return positive_root(gram * widths[:, None] * widths)


def widths_of_readings(
    network: Network, sanitizers: Mapping[str, Sanitizer], bounds: Mapping[str, Any] | None
) -> dict[str, Array]:
    """agent -> how far its readings may differ, of the agents whose readings are bounded.

    bounds: agent -> (lowest, highest); the limits of its sanitizer where an agent is left out.
    """
    refuse_unknown(bounds or {}, network.agents, "reading_bounds", error=InvalidRequest)
    found = {}
    for agent, size in zip(network.agents, network.blocks.sizes, strict=True):
        given = (bounds or {}).get(agent)
        limits = sanitizers[agent].limits
        if given is not None:
            limits = Sanitizer.raw(int(size)).replace(limits=given).limits
        if limits is not None and np.all(np.isfinite(limits[1] - limits[0])):
            found[agent] = np.asarray(limits[1] - limits[0])
    return found


def differential_privacy_rows(
    network: Network, sanitizers: Mapping[str, Sanitizer], widths: Mapping[str, Array], delta: float
) -> list[Row]:
    """(ε, δ) of every agent whose readings are bounded."""
    exact = [agent for agent, s in sanitizers.items() if np.any(~s.normal[1])]
    if not widths:
        found = "none" if exact else "no bounds"
        why = f"{join_names(exact)}: numbers without noise" if exact else "readings have no stated bounds"
        todo = "Give reading_bounds= or set limits in the sanitizers to see the (ε, δ) the noise implies."
        shown = {"smallest ε": found, "why": why}
        return [Row(SECTION, "each agent's message", None, found, "info", todo, shown=shown)]
    which = "streams of readings that differ in one row" if network.is_stream else "readings"
    return [_row(agent, sanitizers[agent], width, delta, which) for agent, width in widths.items()]


def _row(agent: str, sanitizer: Sanitizer, widths: Array, delta: float, which: str) -> Row:
    moved = sensitivity(sanitizer, widths)
    figures: dict[str, Any] = {"sensitivity": moved, "delta": delta}
    epsilon: float | str = "none"
    shown, why = "none", "it sends a number without noise"
    if np.isfinite(moved):
        figures["epsilon"] = epsilon = gaussian_epsilon(delta, moved)
        shown, why = number(epsilon), f"noise on all it sends, any two {which} within bounds"
    cells = {f"smallest ε at δ = {delta:g}": shown, "why": why}
    return Row(SECTION, f"{agent}, ε at δ = {delta:g}", None, epsilon, "info", figures=figures, shown=cells)
