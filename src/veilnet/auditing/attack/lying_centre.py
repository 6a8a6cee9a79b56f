"""A lying centre against the members of a sum: what it says is played to them, and what it then knows is computed.

Each lie is a way to change what an honest centre would say. It is played after an honest epoch, whose messages it may
repeat, once by itself and once with as many colluders as the terms allow, who confirm whatever is asked for. From
everything that the centre saw, and all that any such set of members has, a linear system of masks says which
combinations of messages follow. Promised is one sum an epoch, of at least t - c honest members.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np
from msgspec.structs import replace

from veilnet._core.words import join_names
from veilnet.sums.masks import X25519PrivateKey
from veilnet.sums.opening import SumEpoch, TooFew
from veilnet.sums.party import hello_of
from veilnet.sums.rehearsal import Rehearsal, Seen, combinations_known
from veilnet.sums.rounds import SumAgent
from veilnet.sums.terms import Agreed, FromCentre, Roster, Sharing, SumRefused, Survivors, Terms

Lie: TypeAlias = Callable[["Game", str, FromCentre], Sequence[FromCentre]]


class Game:
    """Two epochs: an honest one, and one in which the centre lies.

    earlier: what it said to each member in the honest one, by kind.
    seen:    everything that it saw.
    """

    def __init__(self, terms: Terms, kind: type[SumAgent] = SumAgent) -> None:
        self.terms, self.members = terms, Rehearsal(terms, kind=kind)
        self.earlier: dict[tuple[str, type], FromCentre] = {}
        self.seen: list[Seen] = []
        numbers = np.random.default_rng(0).integers(-(2**20), 2**20, (len(terms.members), terms.numbers))
        self.messages = dict(zip(terms.members, terms.membership.residues(numbers), strict=True))

    def play(self, epoch: int, lie: Lie | None = None, colluding: Collection[int] = ()) -> None:
        """One epoch, as far as members go along: of several messages in a round all get the first one first."""
        centre = self.members.begin(epoch)
        self.seen.append(self.members.seen)
        try:
            for close in (centre.close_sharing, centre.close_masking, centre.close_confirming):
                said = {}
                for name, honest in close().items():
                    said[name] = [honest] if lie is None else lie(self, name, honest)
                    if lie is None:
                        self.earlier[name, type(honest)] = honest
                for turn in range(max(map(len, said.values()))):
                    for name, some in said.items():
                        if turn < len(some):
                            self._tell(centre, name, some[turn], colluding)
        except (TooFew, SumRefused):
            pass  # nobody goes on

    def _tell(self, centre: SumEpoch, name: str, said: FromCentre, colluding: Collection[int]) -> None:
        """Tags are those that members made last, and colluders make any, unless the lie is another one."""
        if isinstance(said, Agreed) and not said.tags:
            said = self.members.agreed(name, said.epoch, colluding)
        self.members.tell(centre, {name: said}, self.messages)

    def without(self, message: Survivors, *some: int) -> Survivors:
        """A list of survivors without some."""
        there = self.terms.as_set(message.survivors)
        return replace(message, survivors=self.terms.as_bits(there - set(some)))

    def leaked_more(self, colluding: Collection[int]) -> str:
        """What the centre knows with these members beyond one sum an epoch of enough honest ones, in words."""
        for name, agent in self.members.agents.items():
            true = {hello.agent: hello.public for hello in self.members.roster.hellos}
            if any(true[other] != public for other, public in agent.known.items()):
                return f"a mask of {name}, who took another key"
        return _beyond(self.terms, self.seen, colluding)


def _beyond(terms: Terms, seen: Sequence[Seen], colluding: Collection[int]) -> str:
    twice = [terms.members[k] for each in seen for k in sorted(each.twice)]
    if twice:
        return f"what two messages of {twice[0]} under one mask differ by"
    known = combinations_known(terms, seen, colluding).reshape(-1, len(seen), len(terms.members))
    ranks = [int(np.linalg.matrix_rank(known[:, epoch], tol=1e-6)) for epoch in range(len(seen))]
    if sum(ranks) != len(known):
        return "what messages of two epochs differ by"
    for epoch, rank in enumerate(ranks):
        if rank > 1:
            return f"{rank} sums of one epoch, and what they differ by"
        if rank:
            values = known[np.argmax(np.abs(known[:, epoch]).sum(axis=1)), epoch]
            whose = [terms.members[k] for k in np.flatnonzero(np.abs(values) > 1e-6)]
            if len(whose) < terms.threshold - len(colluding):
                return f"the message of {whose[0]}" if len(whose) == 1 else f"the sum of {join_names(whose)}"
    return ""


# --- the lies


def _true(message: FromCentre) -> FromCentre:
    """The same; what members confirmed is put together when it is shown."""
    return replace(message, tags=[]) if isinstance(message, Agreed) else message


def _calls_dropped(game: Game, _: str, message: FromCentre) -> list[FromCentre]:
    return [game.without(message, 0) if isinstance(message, Survivors) else _true(message)]


def _changes_list(game: Game, _: str, message: FromCentre) -> list[FromCentre]:
    return [message, game.without(message, 0)] if isinstance(message, Survivors) else [_true(message)]


def _asks_for_both(game: Game, name: str, message: FromCentre) -> list[FromCentre]:
    survivors = game.earlier[name, Survivors]
    assert isinstance(survivors, Survivors)
    other = replace(game.without(survivors, 0), epoch=2)
    return [_true(message), other, _true(message)] if isinstance(message, Agreed) else [message]


def _a_list_each(game: Game, name: str, message: FromCentre) -> list[FromCentre]:
    """One more than may be missing are called dropped by many, while each is shown a list that is long enough."""
    if not isinstance(message, Survivors):
        return [_true(message)]
    terms, number = game.terms, game.terms.number(name)
    dropped = range(len(terms.members) - terms.threshold + 1)
    spared = number if number in dropped else number % len(dropped)
    return [game.without(message, *(k for k in dropped if k != spared))]


def _two_presences(game: Game, name: str, message: FromCentre) -> list[FromCentre]:
    last = len(game.terms.members) - 1
    if isinstance(message, Sharing) and 2 * game.terms.number(name) < last:
        there = game.terms.as_set(message.present) - {last}
        return [replace(message, present=game.terms.as_bits(there))]
    return [_true(message)]


def _makes_up(game: Game, name: str, message: FromCentre) -> list[FromCentre]:
    if isinstance(message, Agreed):
        return [replace(message, tags=[bytes(len(tag)) for tag in message.tags])]
    return _a_list_each(game, name, message)


def _repeats_tags(game: Game, name: str, message: FromCentre) -> list[FromCentre]:
    earlier = game.earlier[name, Agreed]
    if isinstance(message, Agreed) and isinstance(earlier, Agreed):
        return [replace(message, tags=earlier.tags)]
    return _a_list_each(game, name, message)


def _short_list(game: Game, name: str, message: FromCentre) -> list[FromCentre]:
    if not isinstance(message, Survivors):
        return [_true(message)]
    dropped = range(len(game.terms.members) - game.terms.threshold + 1)
    return [game.without(message, *(k for k in dropped if k != game.terms.number(name)))]


def _two_messages(game: Game, _: str, message: FromCentre) -> list[FromCentre]:
    if isinstance(message, Sharing):
        fewer = game.terms.as_set(message.present) - {len(game.terms.members) - 1}
        return [message, replace(message, present=game.terms.as_bits(fewer)), message]
    return [message]


def _old_shares(game: Game, name: str, message: FromCentre) -> list[FromCentre]:
    earlier = game.earlier[name, Sharing]
    if isinstance(message, Sharing) and isinstance(earlier, Sharing):
        return [replace(message, sealed=earlier.sealed)]
    return [message]


def _restarts(game: Game, name: str, message: FromCentre) -> list[FromCentre]:
    if isinstance(message, Agreed):
        game.members.start(name)
    return _asks_for_both(game, name, message)


def _own_key(game: Game, name: str, message: FromCentre) -> list[FromCentre]:
    if isinstance(message, Sharing):
        hellos = game.members.roster.hellos
        other = hellos[0 if game.terms.number(name) else 1].agent
        mine = hello_of(game.terms, other, game.members.identities[name], X25519PrivateKey.generate())
        shown = [hello for hello in hellos if hello.agent != other]
        game.members.start(name, meet=False).meet(Roster([mine, *shown]))
    return [message]


LIES: dict[str, tuple[Lie, int]] = {
    "calls a survivor dropped": (_calls_dropped, 2),
    "changes the list of survivors": (_changes_list, 2),
    "asks for both kinds of shares of one member": (_asks_for_both, 2),
    "asks for both after a restart": (_restarts, 2),
    "shows different lists of survivors": (_a_list_each, 2),
    "shows different lists of those present": (_two_presences, 2),
    "makes up what members confirm": (_makes_up, 2),
    "repeats what members confirmed earlier": (_repeats_tags, 2),
    "names fewer survivors than are needed": (_short_list, 2),
    "asks for two messages in one epoch": (_two_messages, 2),
    "repeats shares of an earlier epoch": (_old_shares, 2),
    "runs an epoch again": (_calls_dropped, 1),
    "shows keys of its own": (_own_key, 2),
}
"""What a lying centre does -> (how, in which epoch after epoch 1)."""


def leaked_more(terms: Terms, what: str, kind: type[SumAgent] = SumAgent) -> tuple[str, int]:
    """(what the centre learns by a lie beyond what is promised, empty where nothing; how many members refused)."""
    lie, epoch = LIES[what]
    refused = 0
    for helping in sorted({0, terms.colluders}):
        colluding = range(len(terms.members) - helping, len(terms.members))
        game = Game(terms, kind)
        game.play(1)
        try:
            game.play(epoch, lie, colluding)
        except SumRefused:
            refused = len(terms.members)
        refused = max(refused, len(game.members.said))
        sets = combinations(range(len(terms.members)), terms.colluders) if not helping else [tuple(colluding)]
        for some in ((), *sets):
            found = game.leaked_more(some)
            if found:
                with_whom = f", with {join_names([terms.members[k] for k in some])}" if some else ""
                return found + with_whom, refused
    return "", refused
