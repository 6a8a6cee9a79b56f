"""Sums with two centres, at the first of them: whose halves are there, what the second is asked, and what it says.

An epoch of a group begins with the first half that arrives. When all have sent theirs, or half of the wait later, the
second centre gets the halves that are sealed for it, and is asked for the sum of these members. It may name some
whose halves do not open; then it is asked for the sum of the others. Half of the wait after it was asked first the
epoch is over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from veilnet._core.errors import InvalidReading
from veilnet._core.types import Array
from veilnet._core.words import join_names
from veilnet.centre.sum_parts import SumParts
from veilnet.live.sum_desk import KEYS_AT_ONCE, Desk, EndedSum, terms_of, values_of
from veilnet.live.topics import SECOND
from veilnet.sums.masks import NONCE, TAG
from veilnet.sums.terms import (
    WORD,
    Added,
    Ended,
    FromAgent,
    Halved,
    Hello,
    Objected,
    Passed,
    Roster,
    SumRefused,
    Terms,
    Wanted,
)
from veilnet.sums.two_centres import HalfCentre, merged, second_of

_BYTES_AT_ONCE = 50_000  # of halves in a message
_PATIENCE = 5.0  # seconds until a second centre whose key is not known is asked for it once more


@dataclass
class _Going:
    """An epoch of a group; ``asked`` are the members of whom the second centre was asked the sum."""

    deadline: float
    boxes: dict[int, bytes] = field(default_factory=dict)
    asked: frozenset[int] | None = None


class _Group:
    def __init__(self, terms: Terms, grid: Array) -> None:
        self.terms, self.grid = terms, grid
        self.keys: dict[str, bytes] = {}
        self.halves = HalfCentre(terms, 0, self.keys, lambda _: None)  # this centre answers nobody
        self.hellos: dict[str, Hello] = {}
        self.second: Hello | None = None
        self.going: dict[int, _Going] = {}
        self.last = 0  # the newest epoch that is over


class HalvesDesk(Desk):
    """All groups of one plan; as :class:`~veilnet.live.sum_desk.SumDesk`, for members with two centres.

    key_of: terms, member -> what that member and this centre have, and nobody else.
    """

    def __init__(
        self, plan: str, sums: Mapping[str, SumParts], wait: float, key_of: Callable[[Terms, str], bytes]
    ) -> None:
        super().__init__()
        self._wait, self._key_of = wait, key_of
        self._of: dict[str, _Group] = {}
        self._seconds: dict[str, _Group] = {}
        self._again = -math.inf  # when the second centre may be asked for its keys once more
        for name, terms in terms_of(plan, sums).items():
            group = _Group(terms, sums[name].grid)
            self._seconds[second_of(name)] = group
            self._of |= dict.fromkeys(terms.members, group)

    def take(self, agent: str, message: FromAgent, now: float) -> None:
        """Take in what an agent or the second centre says; SumRefused where it does not belong here."""
        if agent == SECOND:
            if message.agent not in self._seconds:
                raise SumRefused("the second centre speaks for a group that is none")
            self._hear(self._seconds[message.agent], message, now)
            return
        group = self._of.get(agent)
        if group is None or message.agent != agent:
            raise SumRefused(f"{agent!r} speaks for another, or is no member")
        if isinstance(message, Hello):
            self._greet(group, message, now)
        elif isinstance(message, Halved):
            self._collect(group, message, now)
        else:
            raise SumRefused(f"{agent!r} takes part in rounds, and these sums have two centres")

    def _greet(self, group: _Group, hello: Hello, now: float) -> None:
        """A member's key goes to the second centre, and that one's to the member."""
        if group.second is None:
            if now >= self._again:  # its hello, of all groups, is answered with the keys of all members
                self._again = now + _PATIENCE
                self._out.append((SECOND, Roster([])))  # who is not in it says hello again
        elif group.hellos.get(hello.agent) != hello:
            self._out.append((SECOND, Roster([hello])))
        group.hellos[hello.agent] = hello
        self._out.append((hello.agent, Roster([hello, *([] if group.second is None else [group.second])])))

    def _collect(self, group: _Group, message: Halved, now: float) -> None:
        agent, epoch = message.agent, message.epoch
        number = group.terms.number(agent)
        if agent not in group.hellos:
            self._out.append((agent, Roster([])))
        if agent not in group.keys:
            group.keys[agent] = self._key_of(group.terms, agent)
        going = group.going.get(epoch)
        if epoch <= group.last if going is None else going.asked is not None:
            self._out.append((agent, Ended(epoch, "its halves came too late")))
            raise SumRefused(f"{agent!r} comes too late for epoch {epoch}")
        if len(message.second) != NONCE + WORD * group.terms.numbers + TAG:
            raise SumRefused(f"what {agent!r} sent for the second centre is no half of a message")
        group.halves.take(epoch, agent, message.first)
        there = group.going.setdefault(epoch, _Going(now + self._wait / 2))
        there.boxes[number] = message.second
        # A member is in one epoch at a time, so that nobody keeps many of them open.
        for other in [each for each, one in group.going.items() if one.asked is None and each != epoch]:
            group.halves.forget(other, number)
            if group.going[other].boxes.pop(number, None) is not None and not group.going[other].boxes:
                del group.going[other]

    def _hear(self, group: _Group, message: FromAgent, now: float) -> None:
        """What the second centre says."""
        if isinstance(message, Hello):
            if group.second != message:
                group.second = message
                self._out += [(member, Roster([own, message])) for member, own in group.hellos.items()]
            known = list(group.hellos.values())
            for start in range(0, len(known), KEYS_AT_ONCE):
                self._out.append((SECOND, Roster(known[start : start + KEYS_AT_ONCE])))
            for epoch, each in group.going.items():
                if each.asked is not None:  # it was away, and may have missed what it was asked
                    self._pass(group, epoch, each, each.asked)
            return
        going = group.going.get(message.epoch)
        if going is None or going.asked is None:
            raise SumRefused(f"the second centre was asked nothing of epoch {message.epoch}")
        if isinstance(message, Objected):
            shut = group.terms.as_set(message.members)
            if not shut & going.asked:
                raise SumRefused("the second centre names nobody of whom it was asked")
            self._ask(group, message.epoch, going, going.asked - shut, now)
        elif isinstance(message, Added) and len(message.residues) == WORD * group.terms.numbers:
            second = np.frombuffer(message.residues, "<u8")
            first = group.halves.answer(message.epoch, going.asked)
            self._open(group, message.epoch, going, merged(group.terms, first, second))
        else:
            raise SumRefused("what the second centre says is no sum of this group")

    def advance(self, now: float) -> None:
        """Ask for the sums of which all halves are there, or whose time is over; end those that got no answer."""
        for group in self._seconds.values():
            for epoch, going in sorted(group.going.items()):
                if going.asked is None and (
                    len(going.boxes) == len(group.terms.members) or now >= going.deadline
                ):
                    self._ask(group, epoch, going, frozenset(going.boxes), now)
                elif going.asked is not None and now >= going.deadline:
                    self._end(group, epoch, going, "the second centre did not answer in time")

    def _ask(self, group: _Group, epoch: int, going: _Going, members: frozenset[int], now: float) -> None:
        """Ask the second centre for the sum of these."""
        if len(members) < group.terms.threshold:
            gone = [group.terms.members[k] for k in range(len(group.terms.members)) if k not in members]
            self._end(
                group, epoch, going,
                f"only {len(members)} of {len(group.terms.members)} sent halves that open, and "
                f"{group.terms.threshold} are needed (not there: {join_names(gone[:8])})",
            )  # fmt: skip
            return
        if going.asked is None:
            going.deadline = now + self._wait / 2
        going.asked = members
        self._pass(group, epoch, going, members)

    def _pass(self, group: _Group, epoch: int, going: _Going, members: frozenset[int]) -> None:
        """Hand the second centre the halves of these, and ask for their sum."""
        name, numbers = group.terms.membership.group, sorted(members)
        at_once = max(1, _BYTES_AT_ONCE // (16 + max(len(each) for each in going.boxes.values())))
        for start in range(0, len(numbers), at_once):
            part = numbers[start : start + at_once]
            self._out.append((SECOND, Passed(epoch, name, part, [going.boxes[k] for k in part])))
        self._out.append((SECOND, Wanted(epoch, name, group.terms.as_bits(members))))

    def _open(self, group: _Group, epoch: int, going: _Going, residues: np.ndarray) -> None:
        assert going.asked is not None
        there = [group.terms.members[k] for k in sorted(going.asked)]
        try:
            values = values_of(group.terms, group.grid, residues, there)
        except InvalidReading as error:  # more than the plan allows: a member, or the second centre, lies
            self._end(group, epoch, going, str(error))
            return
        group.last = max(group.last, epoch)
        self._end(group, epoch, going, "", values)

    def _end(self, group: _Group, epoch: int, going: _Going, why: str, values: Array | None = None) -> None:
        members = group.terms.members
        asked = frozenset(going.boxes) if going.asked is None else going.asked
        apart = tuple(members[k] for k in sorted(going.boxes.keys() - asked))
        ended = EndedSum(group.terms.membership.group, epoch, values, apart=apart)
        self._ended.append(replace(ended, why=f"epoch {epoch}: {why}; there is no sum" if why else ""))
        for number in going.boxes:
            out = "" if number in asked else "its half does not open at the second centre"
            self._out.append((members[number], Ended(epoch, ended.why or self._ended[-1].why or out)))
            group.halves.forget(epoch, number)
        del group.going[epoch]

    def _deadlines(self) -> Iterable[float]:
        return (going.deadline for group in self._seconds.values() for going in group.going.values())
