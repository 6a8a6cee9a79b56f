"""How much of what the centre knows of a parameter comes from which agent.

With F the information factor of the messages, J̃ = J0 + F'F, and w = P̃ a' for a row a of a parameter, the error is

    a P̃ a' = w' J̃ w = w' J0 w + Σ_i w' F_i' F_i w:

one term for what is known beforehand and one for the numbers of each agent, its share. Where noise is correlated
between agents, F mixes their numbers; the share is then the agent's part of w' H̃' M^-1 H̃ w (H̃ = C H, M the covariance
of the messages), which adds up just the same, and is negative where its numbers serve to cancel the noise of others.
Shares of a parameter of several rows are those of the sum over its rows.

A stream has no such sum: there it is shown how far the error grows when one agent keeps silent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from veilnet._core.linalg import solve_lower
from veilnet._core.types import Array
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.streams.knowledge import stream_knowledge
from veilnet.centre.messages import CentreModel, centre_model
from veilnet.model.network import Network


@dataclass(frozen=True, eq=False)
class Origins:
    """Where the knowledge of one parameter comes from; all parts add up to one.

    beforehand: the part known before any message.
    agents:     agent -> its part.
    """

    beforehand: float
    agents: Mapping[str, float]


def shares_of_knowledge(
    network: Network, sanitizers: Mapping[str, Sanitizer]
) -> tuple[dict[str, Origins | None], dict[str, Origins | None]]:
    """Of every public and of every private parameter, by name; None where what is sent does not determine it.

    network:    a network of rows; see :func:`growth_when_silent` for streams.
    sanitizers: agent -> Sanitizer; agents that are not named send their readings raw.
    """
    everything = np.concatenate([network.U, *network.private.values()])
    asked = network.replace(public=everything, units=None, public_scales=None, held_out=None)
    model = centre_model(asked, sanitizers)
    terms, beforehand = _terms(model)
    estimable = model.complete.estimable
    found: list[dict[str, Origins | None]] = []
    start = 0
    for named in (network.public, network.private):
        found.append({})
        for name, rows in named.items():
            mine = slice(start, start + len(rows))
            start += len(rows)
            whole = float(np.sum(terms[mine]) + np.sum(beforehand[mine]))
            if not np.all(estimable[mine]) or whole <= 0:
                found[-1][name] = None
                continue
            by_number = np.sum(terms[mine], axis=0) / whole
            parts = (float(np.sum(by_number[model.blocks.rows(place)])) for place in range(network.S))
            agents = dict(zip(network.agents, parts, strict=True))
            found[-1][name] = Origins(float(np.sum(beforehand[mine])) / whole, agents)
    return found[0], found[1]


def _terms(model: CentreModel) -> tuple[Array, Array]:
    """Of each row wanted (rows, M): the part of each number, and (rows,) what is known beforehand."""
    root, left, sharpness, directions = model.decomposed(np.arange(model.blocks.total))
    pulled = (model.public @ directions.T / sharpness) @ left.T
    first = len(model.prior)
    by_number = pulled[:, first:]
    if root is not None:
        gain = solve_lower(root, np.ascontiguousarray(by_number.T), transposed=True).T
        return np.asarray(gain * (by_number @ root.T)), np.sum(pulled[:, :first] ** 2, axis=1)
    return by_number**2, np.sum(pulled[:, :first] ** 2, axis=1)


def growth_when_silent(
    network: Network, sanitizers: Mapping[str, Sanitizer], agents: Iterable[str]
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    """Of every public (now) and private (with hindsight) parameter of a stream: agent -> how many-fold the error
    (a deviation) is of what it was, were that agent silent; inf where nothing bounds it any more.

    agents: those to be asked about.
    """
    everybody = stream_knowledge(network, sanitizers)
    public: dict[str, dict[str, float]] = {name: {} for name in network.public}
    private: dict[str, dict[str, float]] = {name: {} for name in network.private}
    for agent in agents:
        silent = Sanitizer.silent(sanitizers[agent].readings, agent=agent)
        without = stream_knowledge(network, {**sanitizers, agent: silent})
        for found, named, hindsight in ((public, network.public, False), (private, network.private, True)):
            for name, rows in named.items():
                before = 1.0 + everybody.growth(rows, hindsight=hindsight)
                after = 1.0 + without.growth(rows, hindsight=hindsight)
                found[name][agent] = 1.0 if np.isinf(before) else max(1.0, float(np.sqrt(after / before)))
    return public, private
