"""Who masks with whom: all with all, or in a large group each with some, and what that is worth.

Masks with all S - 1 others cost S - 1 key streams and sealed shares an agent and epoch. In a large group each member
has ``degree`` neighbours instead: the nearest, half on each side, on a ring of all members in an order that the
plan's id shuffles (a Harary graph; Bell et al., 2020). Whoever colludes has no say in that order, as long as they are
the same whatever it is.

The bound. Let C of the S members collude with the centre, and D more drop out, all at random places of the ring, and
let t be the local threshold among the n = degree + 1 of a neighbourhood. Something goes wrong

- where 2t <= n + c for the c colluders of some neighbourhood: a centre that forks views could collect both kinds of
  shares of its agent (:mod:`veilnet.sums.rounds`);
- where honest survivors fall apart: that takes two runs of degree/2 neighbours on the ring who all collude or are
  gone, and the centre would learn the sum of each part;
- where fewer than t of some neighbourhood survive: no sum is opened (nobody learns anything).

:func:`failure` adds up the chances of the three over all places (hypergeometric tails and a union bound).
Colluders who choose their places *after* they saw the order need as many as one neighbourhood's bound allows, not the
group's: so a complete graph is used wherever it is affordable.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from scipy.stats import hypergeom

__all__ = ["COMPLETE", "degree_for", "failure", "local_threshold", "neighbourhoods"]

COMPLETE = 128
"""So many neighbours, or more; a group of no more members is a complete graph."""

FAILURE = 2.0**-40
"""The bound that the degree of a larger group is chosen for, at a tenth colluding and a tenth dropping out."""


def local_threshold(members: int, threshold: int, closed: int) -> int:
    """How many of a neighbourhood of ``closed`` members, its agent among them, rebuild a secret: as large a part."""
    return -(-threshold * closed // members)


def failure(members: int, threshold: int, degree: int, colluding: int, dropping: int) -> float:
    """The bound above; of a complete graph 0 where so many can do no harm, and 1 where they can."""
    closed = degree + 1
    needed = local_threshold(members, threshold, closed)
    most = 2 * needed - closed - 1  # colluders that a neighbourhood stands
    if closed >= members:
        return float(colluding > most or members - dropping < needed)
    forks = hypergeom.sf(most, members, colluding, closed)
    gaps = hypergeom.sf(closed - needed, members, dropping, closed)
    run, lost = 1.0, colluding + dropping
    for k in range(degree // 2):
        run *= max(0, lost - k) / (members - k)
    return float(min(1.0, members * (forks + gaps + run)))


@lru_cache(maxsize=64)
def degree_for(members: int, threshold: int) -> int:
    """How many neighbours each has: all, or the fewest from COMPLETE on for which :func:`failure` is below 2^-40."""
    tenth = -(-members // 10)
    for degree in range(COMPLETE, members - 1, 2):
        if failure(members, threshold, degree, tenth, tenth) <= FAILURE:
            return degree
    return members - 1


@lru_cache(maxsize=64)
def neighbourhoods(members: int, degree: int, plan: str) -> tuple[tuple[int, ...], ...]:
    """For each member its neighbours and itself, in order."""
    if degree >= members - 1:
        return (tuple(range(members)),) * members
    start = f"veilnet ring\n{plan}\n"
    ring = sorted(range(members), key=lambda who: hashlib.sha256(f"{start}{who}".encode()).digest())
    place = {member: k for k, member in enumerate(ring)}
    half = degree // 2
    near = range(-half, half + 1)
    return tuple(tuple(sorted(ring[(place[who] + k) % members] for k in near)) for who in range(members))
