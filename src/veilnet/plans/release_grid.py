"""The grid of every sanitizer in a plan, from the noise the centre knows each sent number to carry."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from veilnet.agent.grid import grid_steps
from veilnet.agent.sanitizer import Sanitizer
from veilnet.bounds.message_noise import Sent, joint_covariance, own_covariance
from veilnet.model.network import Network


def with_release_grid(network: Network, sanitizers: Mapping[str, Sanitizer]) -> dict[str, Sanitizer]:
    """The sanitizers in sending order, each with the grid its numbers are rounded to.

    Rows that repeat others (a singular C R C' + Θ) leave no grid far below every combination's noise: their
    normal form is sent instead.
    """
    independent = {
        agent: sanitizers[agent] if _independent_rows(sanitizers[agent]) else sanitizers[agent].normalized()
        for agent in network.agents
        if agent in sanitizers
    }
    sent = {agent: Sent(network.position[agent], s.compression, s.noise) for agent, s in independent.items()}
    if network.noise.independent:
        steps = {agent: grid_steps(own_covariance(network, each)) for agent, each in sent.items()}
    else:
        ends = np.cumsum([s.sent for s in independent.values()])
        together = grid_steps(joint_covariance(network, list(sent.values())))
        steps = dict(zip(independent, np.split(together, ends[:-1]), strict=True))
    return {
        agent: sanitizer.with_grid(steps[agent]).for_agent(agent, network)
        for agent, sanitizer in independent.items()
    }


def _independent_rows(sanitizer: Sanitizer) -> bool:
    return bool(sanitizer.normal[0].shape[0] == sanitizer.sent)
