"""What readings and an uncertain model mean for a network's figures, in words.

How often readings are beyond their limits, and the refusal of what is too often; what dither costs, and which
readings have no stated resolution; what an error of the model does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from veilnet._core.errors import InvalidNetwork
from veilnet._core.linalg import solve_upper, triangle
from veilnet._core.names import RowsByAgent
from veilnet._core.types import Array, Booleans
from veilnet._core.words import join_names
from veilnet.agent.mechanisms import Mechanisms, Sanitizers, mechanisms
from veilnet.bounds.knowledge import crlb
from veilnet.model.doubts import doubt_notes
from veilnet.model.network import Network
from veilnet.model.readings import MOST_BEYOND, chance_in_words, chances_beyond
from veilnet.model.stream_size import GAPS_ARE_NOT_COMPUTED, by_stacks


def chances_beyond_limits(network: Network) -> Array | None:
    """The probability, at most, that a row of each agent has a reading beyond its limits; None without a prior."""
    if network.usual is None:
        return None
    each = chances_beyond(network.usual, network.stacked_limits)
    return np.minimum(np.bincount(network.blocks.owner, weights=each, minlength=network.S), 1.0)


def limit_notes(network: Network) -> list[str]:
    """One line where limits were stated: how often a reading is beyond them."""
    if not network.limits:
        return []
    said = "Readings outside their limits are clipped: "
    chances = chances_beyond_limits(network)
    if chances is None:
        return [said + "without a prior, how often cannot be computed."]
    return [f"{said}{_worst(network, chances)} under the model{_too_often(chances)}."]


def refuse_narrow_limits(network: Network) -> None:
    """Refuse limits that readings are beyond too often: what is promised is promised of readings as they are."""
    chances = chances_beyond_limits(network)
    if chances is not None and _too_often(chances):
        raise InvalidNetwork(
            f"limits: too narrow: under the model, {_worst(network, chances)}{_too_often(chances)} is outside them; "
            "state limits that only a fault exceeds, or none"
        )


def _worst(network: Network, chances: Array) -> str:
    place = int(np.argmax(chances))
    return f"{chance_in_words(float(chances[place]))} at {network.agents[place]}"


def _too_often(chances: Array) -> str:
    if not np.max(chances, initial=0.0) > MOST_BEYOND:
        return ""
    return f", more than 1 in {1 / MOST_BEYOND:,.0f} (no promise covers such rows; 'design' refuses)"


def model_error_notes(network: Network) -> list[str]:
    """One line where the network counts an error of its model as noise, else none."""
    if not network.model_error:
        return []
    return [
        f"The model may be off by {100 * network.model_error:g} %: figures are averages over such errors. An "
        f"attacker who knows the true model may learn more; the audit computes how much."
    ]


# Steps, in deviations of the noise, up to which the best attack left the linear one's error to a part in a thousand
# (mathematics, "Readings on a lattice"); at twice that it gains up to a percent.
_COARSE = 1.0


def dither_cost(network: Network) -> float:
    """By which part the dither alone makes the centre's public error variance grow, from raw readings (0.01: 1 %)."""
    if not np.any(network.draws):
        return 0.0
    if network.is_stream:
        bare = network.replace(dither=0.0)
        return float(np.trace(_public_error(network)) / np.trace(_public_error(bare)) - 1.0)
    undithered = triangle(np.concatenate([network.prior_root, network.undithered_noise.whiten(network.H)]))
    with_dither = float(np.sum(network.in_raw_coordinates(network.measured) ** 2))
    return with_dither / _squares(undithered, network.measured) - 1.0


def notes_on_readings(network: Network, sanitizers: Sanitizers) -> list[str]:
    """What the resolution of the readings costs, for whom exact numbers may name them, what limits do; and that what
    is learned around gaps is not known, for streams of very many agents.
    """
    exposed = unstated(network, exposing(mechanisms(network, sanitizers).normal))
    gaps = [GAPS_ARE_NOT_COMPUTED] if by_stacks(network) else []
    return [*resolution_notes(network, exposed), *limit_notes(network), *gaps]


def notes_on(network: Network, sanitizers: Sanitizers) -> list[str]:
    """The same, what an uncertain model does to the figures, and what was doubtful about the fit."""
    readings = notes_on_readings(network, sanitizers)
    return [*readings, *model_error_notes(network), *doubt_notes(network.doubts)]


def exposing(sent: Mechanisms) -> Booleans:
    """Which agents (S,), in normal form, send something exactly and yet not everything so."""
    found = np.zeros(sent.network.S, bool)
    for stack in sent.stacks:
        noisy = 0.0 if stack.variances is None else np.sum(stack.variances, axis=1)
        found[stack.places] = (noisy < stack.sent) & (stack.sent - noisy < stack.readings)
    return found


def resolution_notes(network: Network, exposed: Sequence[str]) -> list[str]:
    """At most three lines: the cost of the dither, readings too coarse for it, and ``exposed`` agents of which no
    resolution is known.
    """
    notes = []
    if np.any(network.draws):
        cost = float(np.sqrt(1 + dither_cost(network))) - 1
        notes.append(
            "Combined readings are dithered by one or two steps (included; costs "
            f"{f'{100 * cost:.2g} %' if cost >= 1e-4 else 'less than 0.01 %'} of the public standard error)."
        )
    coarse = np.flatnonzero(
        network.steps > _COARSE * np.sqrt(network.undithered_noise.variances()) * (1 + 1e-9)
    )
    if coarse.size:
        owners = list(dict.fromkeys(network.agents[int(k)] for k in network.blocks.owner[coarse]))
        notes.append(
            f"The steps of {join_names(owners)} are larger than the sensor noise: knowing them may reveal a percent "
            "more than stated."
        )
    if exposed:
        notes.append(
            f"No resolution was stated for {join_names(exposed)}: exact numbers protect only continuous readings "
            "(state the steps of the readings, or 0 if they are continuous)."
        )
    return notes


def unstated(network: Network, chosen: Booleans) -> Sequence[str]:
    """The names of chosen agents of whose readings no resolution was stated, in sending order."""
    if isinstance(network.resolution, RowsByAgent):
        return ()
    stated = np.zeros(network.S, bool)
    for agent in network.resolution:
        stated[network.position[agent]] = True
    places = np.flatnonzero(chosen & ~stated)
    if len(places) == network.S:
        return network.agents
    return [network.agents[place] for place in places.tolist()]


def _public_error(network: Network) -> Array:
    """The error of u now, from raw readings of a stream."""
    return network.measured @ crlb(network) @ network.measured.T


def _squares(upper: Array, rows: Array) -> float:
    return float(np.sum(solve_upper(upper, rows.T, transposed=True) ** 2))
