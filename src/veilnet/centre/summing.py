"""Sums of groups at the centre: what is in them when members are missing.

The sum of those who are there has fewer terms: it shows other rows of x, with another noise, and the centre's
estimate uses the weights and the error that go with these. A group that lacks more than its threshold allows says
nothing, and so does one of a stream that lacks anybody, since its members keep memories.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from veilnet._core.errors import InvalidReading, InvalidRequest
from veilnet._core.linalg import whitener
from veilnet._core.missed import MISSED
from veilnet._core.types import Array, Booleans
from veilnet._core.validation import refuse_unknown
from veilnet.centre.messages import CentreModel, WhiteningStacks
from veilnet.centre.sum_parts import SumParts

_REPEATS = 1e-13  # of a number's deviation: with less left, it repeats others and is left out


def without(model: CentreModel, missing: Collection[str]) -> CentreModel:
    """The model of sums that lack some members; a group that lacks too many says nothing."""
    observe, expected = np.array(model.observe), np.array(model.expected)
    whiten = [np.array(each) for each in model.whiten]
    for place, name in enumerate(model.agents):
        parts = model.sums.get(name)
        if parts is None or not set(parts.members) & set(missing):
            continue
        rows = model.blocks.rows(place)
        there = np.array([agent not in missing for agent in parts.members])
        if not parts.usable(there) or parts.observe is None or parts.noise is None or parts.expected is None:
            observe[rows], whiten[place] = 0.0, np.zeros(whiten[place].shape)
            continue
        white = whitener(np.sum(parts.noise[there], axis=0), least=_REPEATS)
        whiten[place] = white
        observe[rows] = white @ np.sum(parts.observe[there], axis=0)
        expected[rows] = np.sum(parts.expected[there], axis=0)
    return replace(
        model, observe=observe, expected=expected, whiten=WhiteningStacks.of_agents(model.blocks, whiten)
    )


def added_up(
    sums: Mapping[str, SumParts], messages: Mapping[str, Any], missing: Collection[str], *, follows: bool
) -> tuple[dict[str, Any], tuple[str, ...], Booleans]:
    """(messages by group, all members, (members, T) who is missing in which row) of what arrived.

    messages: agent or group -> numbers. Of a group either its sum or messages of its members, which are added up: a
              simulation, since nobody sees those where sums are masked.
    missing:  members that are not in the sums.
    follows:  whether rows are those of a stream.
    """
    members = tuple(agent for parts in sums.values() for agent in parts.members)
    refuse_unknown(missing, members, "missing", error=InvalidRequest)
    found = {name: each for name, each in messages.items() if name not in members}
    shapes = {np.shape(each)[:-1] for each in messages.values() if np.ndim(each)}
    rows = int(np.prod(next(iter(shapes), ()), dtype=int)) if shapes else 1
    absent = np.zeros((len(members), rows), bool)
    for group, parts in sums.items():
        own = [messages.get(agent) for agent in parts.members]
        if all(each is None for each in own):
            there = np.array([agent not in missing for agent in parts.members])
            absent[[members.index(agent) for agent in parts.members if agent in missing]] = True
            if group in found and not parts.usable(there):
                found[group] = np.full(np.shape(found[group]), np.nan)
            continue
        if group in found:
            raise InvalidReading(f"messages: both the sum of {group!r} and messages of its members; give one")
        total, there = _sum(group, parts, own, missing, follows=follows)
        absent[[members.index(agent) for agent in parts.members]] = ~there
        found[group] = total
    return found, members, absent


def _sum(
    group: str, parts: SumParts, own: list[Any], missing: Collection[str], *, follows: bool
) -> tuple[Array, Booleans]:
    """(the sum of those who are there, not a number where it is not used; (S, T) who is there)."""
    shape = next(np.shape(each) for each in own if each is not None)
    size = len(parts.grid)
    stacked = np.full((len(own), int(np.prod(shape[:-1], dtype=int)), size), np.nan)
    for place, (agent, each) in enumerate(zip(parts.members, own, strict=True)):
        if each is None or agent in missing:
            continue
        if np.shape(each) != shape or shape[-1] != size:
            raise InvalidReading(
                f"messages[{agent!r}]: expected shape {(*shape[:-1], size)}, found {np.shape(each)}"
            )
        stacked[place] = np.asarray(each, dtype=np.float64).reshape(-1, size)
    there = np.all(np.isfinite(stacked), axis=2)
    missed = np.all(np.isinf(stacked), axis=2)
    if follows and np.any(np.any(missed, axis=0) & ~np.all(missed, axis=0)):
        raise InvalidReading(
            f"messages of {group!r}: in some row one member had no reading and others had; memories that are added "
            "up begin anew together: leave that row's readings out for all members"
        )
    total = np.sum(np.where(there[:, :, None], stacked, 0.0), axis=0)
    total[~np.array([parts.usable(column) for column in there.T], bool)] = np.nan
    total[np.all(missed, axis=0)] = MISSED
    return np.asarray(total.reshape(shape)), there
