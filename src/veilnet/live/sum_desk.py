"""The rounds of sums at the centre: who is waited for, until when, and what an epoch came to.

An epoch of a group begins with the first shares that arrive. Each of its four rounds is over when all who can have
answered, or a quarter of the wait later. Where too few are left there is no sum, and everybody hears so. A sum goes
on as the message of its group (:func:`veilnet.live.fusions.estimated`).

Members of whom one cannot open the other's shares are kept apart for as long as this centre runs: one of the two, who
is named, is in no further sum. So is one whose shares do not give what it committed to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from veilnet._core.errors import InvalidReading
from veilnet._core.types import Array
from veilnet._core.words import join_names
from veilnet.agent.membership import Membership
from veilnet.centre.sum_parts import SumParts
from veilnet.io.outbox import SHORT
from veilnet.sums.masks import Words
from veilnet.sums.opening import SumEpoch, TooFew
from veilnet.sums.terms import (
    Added,
    Ended,
    FromAgent,
    FromCentre,
    Halved,
    Hello,
    Masked,
    Objected,
    Revealed,
    Roster,
    SealedShares,
    SumRefused,
    Terms,
)

_ROUNDS = 4
KEYS_AT_ONCE = 200  # in a message


@dataclass(frozen=True, eq=False)
class EndedSum:
    """What an epoch of a group came to.

    values: the sum of its members' messages; where some are missing, then for each 1 where its own is in it, else 0.
            None where there is no sum, and ``why``.
    since:  from which row on its members' memories have all readings, of a stream; 0 of rows.
    lying:  members who revealed shares that do not fit.
    apart:  members who took part and were left out, since shares between them and others do not open.
    """

    group: str
    epoch: int
    values: Array | None = None
    since: int = 0
    lying: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    why: str = ""

    def in_words(self) -> list[str]:
        """What the centre's owner should know of it; nothing where all went well."""
        found = [self.why] if self.why else []
        if self.lying:
            found.append(
                f"epoch {self.epoch}: {join_names(self.lying)} revealed shares that do not fit; left out"
            )
        if self.apart:
            found.append(
                f"epoch {self.epoch}: {join_names(self.apart)} left out: shares between them and others do not open, "
                "or keys are not known; start the centre anew once that is mended"
            )
        return found


def terms_of(plan: str, sums: Mapping[str, SumParts]) -> dict[str, Terms]:
    """group -> the terms of its sums, by the id of the plan and what its members add."""
    return {
        name: Terms(
            plan[:SHORT], Membership(name, parts.members, parts.threshold, parts.bits), len(parts.grid)
        )
        for name, parts in sums.items()
    }


def values_of(terms: Terms, grid: Array, residues: Words, there: Collection[str]) -> Array:
    """The sum of those who were there, from residues; flags behind it where some are missing.

    InvalidReading where it is more than the plan allows.
    """
    values = terms.membership.opened(residues, grid)
    flags = np.isin(terms.members, list(there))
    return np.concatenate([values, flags[:0] if flags.all() else flags])


@dataclass
class _Going:
    """An epoch of a group: which round it is in, counted from 1, and until when."""

    sum: SumEpoch
    deadline: float
    round: int = 1


@dataclass
class _Group:
    name: str
    terms: Terms
    grid: Array
    hellos: dict[str, Hello] = field(default_factory=dict)
    going: dict[int, _Going] = field(default_factory=dict)
    last: int = 0  # the newest epoch that is over
    apart: set[tuple[int, int]] = field(default_factory=set)


class Desk(ABC):
    """What is to be said of sums, and which are over."""

    def __init__(self) -> None:
        self._ended: list[EndedSum] = []
        self._out: list[tuple[str, FromCentre]] = []

    @abstractmethod
    def take(self, agent: str, message: FromAgent, now: float) -> None:
        """Take in what somebody says; SumRefused where it does not belong here."""

    @abstractmethod
    def advance(self, now: float) -> None:
        """Go on with what is complete, or whose time is over."""

    @abstractmethod
    def _deadlines(self) -> Iterable[float]:
        """Of all epochs that are open."""

    def outgoing(self) -> list[tuple[str, FromCentre]]:
        """What is to be said since the last call: (agent, message)."""
        out, self._out = self._out, []
        return out

    def ended(self) -> list[EndedSum]:
        """What ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def next_deadline(self) -> float | None:
        """When an epoch goes on at the latest."""
        return min(self._deadlines(), default=None)


class SumDesk(Desk):
    """All groups of one plan.

    plan: its id, as messages carry it.
    sums: group -> what its members add.
    wait: seconds from an epoch's first shares to its end, at most.
    """

    def __init__(self, plan: str, sums: Mapping[str, SumParts], wait: float) -> None:
        super().__init__()
        self._wait = wait
        self._groups: list[_Group] = []
        self._of: dict[str, _Group] = {}
        for name, terms in terms_of(plan, sums).items():
            group = _Group(name, terms.in_rounds(), sums[name].grid)
            self._groups.append(group)
            self._of |= dict.fromkeys(terms.members, group)

    def take(self, agent: str, message: FromAgent, now: float) -> None:
        """Take in what an agent says; SumRefused where it does not belong here."""
        group = self._of.get(agent)
        if group is None or message.agent != agent:
            raise SumRefused(f"{agent!r} speaks for another, or is no member")
        if isinstance(message, Hello):
            self._greet(group, message)
            return
        if isinstance(message, Halved | Added):
            raise SumRefused(f"{agent!r} sends halves for two centres, and these sums have rounds with one")
        if agent not in group.hellos:
            self._out.append((agent, Roster([])))  # who is not in it says hello again
        if isinstance(message, SealedShares) and message.epoch not in group.going:
            if message.epoch <= group.last:
                self._out.append((agent, Ended(message.epoch, "it is over")))
                return
            deadline = now + self._wait / _ROUNDS
            found = SumEpoch(group.terms, message.epoch, frozenset(group.apart))
            found.take(message)
            group.going[message.epoch] = _Going(found, deadline)
        going = group.going.get(message.epoch)
        expected = {SealedShares: 1, Masked: 2, Objected: 2, Revealed: 4}.get(type(message), 3)
        if going is None or going.round != expected:
            shares = {} if going is None else going.sum.shares
            if isinstance(message, SealedShares) and group.terms.number(agent) not in shares:
                self._out.append((agent, Ended(message.epoch, "its shares came too late")))
            raise SumRefused(f"{agent!r} comes too late for this round of epoch {message.epoch}")
        going.sum.take(message)
        if isinstance(message, SealedShares):
            self._withdraw(group, group.terms.number(agent), message.epoch)
        if isinstance(message, Objected):
            mine = group.terms.number(agent)
            group.apart |= {(mine, other) for other in group.terms.as_set(message.members) - {mine}}

    def _withdraw(self, group: _Group, member: int, epoch: int) -> None:
        """A member is in one epoch at a time: its shares for others are void, and nobody keeps many of them open."""
        for other in [each for each, going in group.going.items() if going.round == 1 and each != epoch]:
            shares = group.going[other].sum.shares
            shares.pop(member, None)
            if not shares:
                del group.going[other]

    def _greet(self, group: _Group, hello: Hello) -> None:
        """Who says hello gets everybody's keys; one that is new goes to all others, each with its own beside it."""
        if group.hellos.get(hello.agent) != hello:
            group.hellos[hello.agent] = hello
            others = {member: own for member, own in group.hellos.items() if member != hello.agent}
            self._out += [(member, Roster([own, hello])) for member, own in others.items()]
        known = list(group.hellos.values())
        parts = [known[start : start + KEYS_AT_ONCE] for start in range(0, len(known), KEYS_AT_ONCE)]
        self._out += [(hello.agent, Roster([hello, *part])) for part in parts]

    def advance(self, now: float) -> None:
        """Close the rounds that are complete, or whose time is over."""
        for group in self._groups:
            for epoch in sorted(group.going):
                going = group.going[epoch]
                while epoch in group.going and (self._complete(group, going) or now >= going.deadline):
                    self._close(group, epoch, going)
                    going.deadline = now + self._wait / _ROUNDS

    def _complete(self, group: _Group, going: _Going) -> bool:
        found = going.sum
        there, all_of = {
            1: (len(found.shares), len(group.terms.members)),
            2: (len(found.masked) + len(found.objected), len(found.present)),
            3: (len(found.confirmed), len(found.survivors)),
            4: (len(found.revealed), len(found.confirmed)),
        }[going.round]
        return there >= all_of

    def _close(self, group: _Group, epoch: int, going: _Going) -> None:
        found, members = going.sum, group.terms.members
        ended = EndedSum(group.name, epoch)
        try:
            if going.round < _ROUNDS:
                close = (found.close_sharing, found.close_masking, found.close_confirming)[going.round - 1]
                self._out += close().items()
                going.round += 1
                return
            opened = found.open()
            group.last = max(group.last, epoch)  # one that a member alone began, far ahead, ends no other
            values = values_of(group.terms, group.grid, opened.residues, opened.survivors)
            ended = replace(ended, values=values, since=opened.since, lying=opened.lying)
        except TooFew as error:
            ended = replace(ended, why=str(error))
            if error.dealer is not None:
                group.apart |= {
                    (error.dealer, other) for other in range(len(members)) if other != error.dealer
                }
        except InvalidReading as error:  # more than the plan allows: a member lies about its numbers
            ended = replace(ended, why=f"epoch {epoch}: {error}")
        del group.going[epoch]
        left = found.shares.keys() - found.present if going.round > 1 else ()
        self._ended.append(replace(ended, apart=tuple(members[number] for number in sorted(left))))
        self._out += [(members[number], Ended(epoch, ended.why)) for number in found.shares]

    def _deadlines(self) -> Iterable[float]:
        return (going.deadline for group in self._groups for going in group.going.values())
