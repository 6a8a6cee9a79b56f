"""Who masks with whom: all with all, or in a large group each with some, and what that is worth.

Masks with all S - 1 others cost S - 1 key streams and sealed shares an agent and epoch. In a large group each member
has ``degree`` neighbours instead: the nearest, half on each side, on a ring of all members in the order of hashes of
the plan's id and their names (a Harary graph; Bell et al., 2020). Who makes the plan may try ids until the ring suits
colluders whose names are fixed. There are 2^64 ids, so the chance for harm at one of them is kept below 2^-104: that
some id suits is then less likely than 2^-40.

The bound. Let C of the S members collude with the centre, and D more drop out, all at random places of the ring, and
let t be the local threshold among the n = degree + 1 of a neighbourhood. Something goes wrong

- where 2t <= n + c for the c colluders of some neighbourhood: a centre that forks views could collect both kinds of
  shares of its agent (:mod:`veilnet.sums.rounds`);
- where honest survivors fall apart: that takes two runs of degree/2 neighbours on the ring who all collude or are
  gone, and the centre would learn the sum of each part;
- where fewer than t of some neighbourhood survive: no sum is opened (nobody learns anything, so 2^-40 is enough).

:func:`chance_of_harm` adds up the chances of the first two over all places (hypergeometric tails and a union bound),
:func:`chance_of_no_sum` those of the third.
Colluders who choose their places *after* they saw the order need as many as one neighbourhood's bound allows, not the
group's: so a complete graph is used wherever it is affordable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from math import comb

from veilnet.agent.membership import COMPLETE

# the degree of a larger group is such that these hold at a tenth colluding, a tenth dropping out
_SILENT = 2.0**-40
_HARMED = _SILENT / 2.0**64  # of all ids that a plan may have


def local_threshold(members: int, threshold: int, closed: int) -> int:
    """How many of a neighbourhood of ``closed`` members, its agent among them, rebuild a secret: as large a part."""
    return -(-threshold * closed // members)


def _more_than(most: int, members: int, marked: int, drawn: int) -> float:
    """The chance that more than ``most`` of so many drawn are marked, counted: everybody finds the same."""
    found = range(max(most + 1, 0), min(marked, drawn) + 1)
    return sum(comb(marked, k) * comb(members - marked, drawn - k) for k in found) / comb(members, drawn)


def chance_of_harm(members: int, threshold: int, degree: int, colluding: int, dropping: int) -> float:
    """The chance that colluders can do harm; of a complete graph 0 where so many can do none, else 1."""
    closed = degree + 1
    # colluders that a neighbourhood stands
    most = 2 * local_threshold(members, threshold, closed) - closed - 1
    if closed >= members:
        return float(colluding > most)
    run, lost = 1.0, colluding + dropping
    for k in range(degree // 2):
        run *= max(0, lost - k) / (members - k)
    return float(min(1.0, members * (_more_than(most, members, colluding, closed) + run)))


def chance_of_no_sum(members: int, threshold: int, degree: int, dropping: int) -> float:
    """The chance that so many who drop out leave some neighbourhood, and so everybody, without a sum."""
    closed = degree + 1
    spare = closed - local_threshold(members, threshold, closed)
    if closed >= members:
        return float(dropping > spare)
    return float(min(1.0, members * _more_than(spare, members, dropping, closed)))


@lru_cache(maxsize=64)
def degree_for(members: int, threshold: int) -> int:
    """How many neighbours each has: all, or the fewest from COMPLETE on that keep to both bounds."""
    tenth = -(-members // 10)
    for degree in range(COMPLETE, members - 1, 2):
        harmed, silent = (
            chance_of_harm(members, threshold, degree, tenth, tenth),
            chance_of_no_sum(members, threshold, degree, tenth),
        )
        if harmed <= _HARMED and silent <= _SILENT:
            return degree
    return members - 1


def neighbourhoods(members: Sequence[str], degree: int, plan: str) -> tuple[tuple[int, ...], ...]:
    """For each member its neighbours and itself, in order."""
    count = len(members)
    if degree >= count - 1:
        return (tuple(range(count)),) * count
    start = f"veilnet ring\n{plan}\n"
    ring = sorted(range(count), key=lambda who: hashlib.sha256(f"{start}{members[who]}".encode()).digest())
    place = {member: k for k, member in enumerate(ring)}
    near = range(-(degree // 2), degree // 2 + 1)
    return tuple(tuple(sorted(ring[(place[who] + k) % count] for k in near)) for who in range(count))
