"""Dropout: what the public estimate loses when agents are silent.

Shares are made for the full network: without one agent, raw readings of the others could be recombined, while
sanitized messages can only be weighted anew. The difference is the price an operator has to know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from veilnet._core.words import join_names, times
from veilnet.agent.sanitizer import Sanitizer
from veilnet.auditing.row import Judgement, Row
from veilnet.auditing.sections import Section
from veilnet.auditing.what_if.subsets import (
    MOST_SETS,
    MOST_SINGLE,
    SetErrors,
    adds_up,
    agent_terms,
    direct_errors,
    worst_set,
)
from veilnet.auditing.worlds import World, world_of
from veilnet.model.network import Network

SECTION = Section.DROPOUT.heading


def loss_without(world: World, sanitizers: Mapping[str, Sanitizer], silent: Sequence[str]) -> float:
    """Utility loss when these agents are silent, against raw readings of all agents; inf when u is lost."""
    network = world.network
    quiet = {agent: Sanitizer.silent(int(network.blocks.sizes[network.position[agent]])) for agent in silent}
    return world.loss({**sanitizers, **quiet})


def dropout_rows(
    network: Network,
    sanitizers: Mapping[str, Sanitizer],
    silent_at_most: int,
    advance: Callable[[float], None],
) -> list[Row]:
    """The loss for each single silent agent and for the worst set of up to ``silent_at_most``."""
    world = world_of(network)
    everyone = loss_without(world, sanitizers, ())
    rows = []
    errors, most_sets = _errors(world, sanitizers)
    sizes = range(1, min(silent_at_most, network.S) + 1)
    for size in sizes:
        found = worst_set(errors, network.S, size, most_sets, largest=True)
        silent = tuple(network.agents[k] for k in found.agents)
        loss = loss_without(world, sanitizers, silent)
        raw = loss_without(world, {}, silent)
        figures: dict[str, object] = {"exact": found.exact, "who": list(silent), "all sending": everyone}
        if size == 1 and network.S <= MOST_SINGLE:
            figures["single agents"] = {
                agent: {
                    "sanitized": loss_without(world, sanitizers, (agent,)),
                    "raw": loss_without(world, {}, (agent,)),
                }
                for agent in network.agents
            }
        figures["raw readings of the others"] = raw
        shown = {
            "nobody is silent": times(1 + everyone),
            "raw readings of the others": times(1 + raw),
            "what the others send": times(1 + loss),
        }
        verdict: Judgement = "warn" if np.isinf(loss) and np.isfinite(raw) else "info"
        why = "" if found.exact else "Found greedily: another set may cost more."
        what = f"public error without {join_names(silent)}{' for good' if network.is_stream else ''}"
        rows.append(Row(SECTION, what, None, loss, verdict, why, None, figures, shown))
        advance(size / len(sizes))
    return rows


def _errors(world: World, sanitizers: Mapping[str, Sanitizer]) -> tuple[SetErrors, int]:
    """The public error without a set of agents, and how many sets are affordable."""
    network = world.network
    if adds_up(network):
        silent = {
            agent: Sanitizer.silent(int(size))
            for agent, size in zip(network.agents, network.blocks.sizes, strict=True)
        }
        terms = agent_terms(network, sanitizers, silent)
        return terms.errors(network.in_raw_coordinates(network.measured)), MOST_SETS

    def lost(places: tuple[int, ...]) -> float:
        return loss_without(world, sanitizers, [network.agents[k] for k in places])

    return direct_errors(network, lost)
