"""A centre that lies, agents that lie, and disks that are set back: refused in each way, and nothing is learned.

After each lie the linear system of all masks, with everything that the centre saw, determines nobody's value: neither
that of the agent it was after, nor any combination but the one sum.
"""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from helpers.sum_groups import make_terms, plain_sum, random_messages
from veilnet._core.errors import InvalidPlan, VeilnetError
from veilnet._core.types import Array
from veilnet.agent.membership import Membership
from veilnet.io.agent_store import AgentStore, begin_agent_store
from veilnet.sums.masks import Words, X25519PrivateKey
from veilnet.sums.opening import SumEpoch, TooFew
from veilnet.sums.party import hello_of
from veilnet.sums.rehearsal import Rehearsal, Seen, combinations_known
from veilnet.sums.rounds import SumAgent
from veilnet.sums.terms import Agreed, Hello, Roster, SumRefused, Survivors, Terms

NAMES = make_terms(6).members


class Attack:
    """A group of 6, threshold 5, whose centre may do as it likes."""

    def __init__(self) -> None:
        self.terms = make_terms(6)
        self.members = Rehearsal(self.terms)
        self.messages: dict[str, Words] = random_messages(self.terms, np.random.default_rng(0))

    def until(self, stage: int, epoch: int = 1) -> SumEpoch:
        """An honest epoch up to a round: 1 shares are in, 2 masked messages, 3 confirmations, 4 all is open."""
        centre = self.members.begin(epoch)
        if stage >= 2:
            self.tell(centre, centre.close_sharing())
        if stage >= 3:
            self.tell(centre, centre.close_masking())
        if stage >= 4:
            self.tell(centre, centre.close_confirming())
        return centre

    def tell(self, centre: SumEpoch, told: object) -> list[str]:
        """Who answered."""
        assert isinstance(told, dict)
        return self.members.tell(centre, told, self.messages)

    def survivors(self, epoch: int, *without: str) -> Survivors:
        """A list of survivors, all but some."""
        numbers = [k for k, name in enumerate(self.terms.members) if name not in without]
        return Survivors(epoch, self.terms.as_bits(numbers))

    def assert_nothing_is_known(self) -> None:
        """No combination of honest values can be computed, with any one colluder either."""
        for colluding in ((), *((k,) for k in range(6))):
            assert not len(combinations_known(self.terms, self.members.seen, colluding))


@pytest.fixture
def attack() -> Attack:
    return Attack()


def test_a_survivor_that_is_called_dropped_stays_masked(attack: Attack) -> None:
    """Its pairwise masks are opened, as if it were gone; its own mask is not, and it says that it is there."""
    centre = attack.until(2)
    centre.survivors = frozenset(range(1, 6))
    lie = attack.survivors(1, "room0")
    answered = attack.tell(centre, dict.fromkeys(NAMES, lie))
    assert answered == list(NAMES[1:])
    assert "did not: survived" in attack.members.said["room0"]
    attack.tell(centre, centre.close_confirming())
    opened = centre.open()
    assert opened.residues.tolist() == plain_sum(attack.terms, attack.messages, NAMES[1:])
    assert attack.members.seen.knows(attack.terms, 0, "lock")
    assert not attack.members.seen.knows(attack.terms, 0, "own")
    known = combinations_known(attack.terms, attack.members.seen)
    assert len(known) == 1
    assert known[0, 0] == 0


@pytest.mark.parametrize("when", ["before it reveals", "after"])
def test_both_kinds_of_one_agent_are_never_revealed(attack: Attack, when: str) -> None:
    centre = attack.until(3 if when == "before it reveals" else 4)
    agreed = centre.close_confirming()
    for name in NAMES[1:]:
        agent = attack.members.agents[name]
        with pytest.raises(SumRefused):
            agent.confirm(attack.survivors(1, "room0"))
        with pytest.raises(SumRefused, match="not going on"):
            agent.reveal(agreed[name])
    kinds = attack.members.seen.shares
    assert bool(kinds) == (when == "after")
    assert not any((number, "own") in kinds and (number, "lock") in kinds for number in range(6))


def test_forked_views_reveal_nothing(attack: Attack) -> None:
    """Three members are shown one list, three another; each is long enough."""
    centre = attack.until(2)
    lies = {name: attack.survivors(1, "room0" if k > 2 else "room5") for k, name in enumerate(NAMES)}
    centre.survivors = frozenset(range(6))
    answered = attack.tell(centre, lies)
    assert answered == list(NAMES)
    assert attack.tell(centre, centre.close_confirming()) == []
    assert all("confirm the lists that this agent saw" in attack.members.said[name] for name in NAMES)
    attack.assert_nothing_is_known()


def test_forked_lists_of_those_present_reveal_nothing(attack: Attack) -> None:
    """room0 masks with other members than the others believe."""
    centre = attack.until(1)
    told = centre.close_sharing()
    without = attack.terms.as_bits(range(5))
    told |= {name: replace(told[name], present=without) for name in NAMES[:3]}
    attack.tell(centre, told)
    assert attack.tell(centre, centre.close_masking()) == list(NAMES[3:])
    assert "had sent no shares" in attack.members.said["room0"]
    centre.confirmed |= dict.fromkeys(range(3), centre.confirmed[3])
    assert attack.tell(centre, centre.close_confirming()) == []
    attack.assert_nothing_is_known()


@pytest.mark.parametrize("lie", ["made up", "of an earlier epoch", "of another pair", "too few"])
def test_tags_that_no_neighbour_made_for_this_confirm_nothing(attack: Attack, lie: str) -> None:
    earlier = attack.until(3, epoch=1).close_confirming()["room0"].tags
    centre = attack.until(3, epoch=2)
    right = centre.close_confirming()["room0"].tags
    tags = {
        "made up": [bytes(16)] * 6,
        "of an earlier epoch": earlier,
        "of another pair": [right[0], *centre.close_confirming()["room1"].tags[1:]],
        "too few": [*right[:4], b"", b""],
    }[lie]
    with pytest.raises(SumRefused, match="confirm the lists"):
        attack.members.agents["room0"].reveal(Agreed(2, tags))


def test_an_old_epoch_is_not_answered_again(attack: Attack) -> None:
    centre = attack.until(4, epoch=5)
    sharing, survivors = centre.close_sharing(), attack.survivors(5)
    for name, agent in attack.members.agents.items():
        with pytest.raises(SumRefused, match="begun before"):
            agent.begin(5)
        with pytest.raises(SumRefused, match="not going on"):
            agent.accept(sharing[name])
        with pytest.raises(SumRefused, match="not going on"):
            agent.confirm(survivors)
    later = attack.until(1, epoch=6)
    old = {name: replace(sharing[name], epoch=6) for name in NAMES}
    assert attack.tell(later, old) == []
    assert all("do not open" in attack.members.said[name] for name in NAMES)


def test_swapped_keys_are_refused(attack: Attack) -> None:
    """The centre's own key, one signed for other terms, another member's, one of small order, a later one."""
    members, terms = attack.members, attack.terms
    right = members.roster.hellos[1]
    mine = X25519PrivateKey.generate()
    other = Terms("another plan", terms.membership, terms.numbers)
    identity, secret = members.identities["room1"], members.secrets["room1"]
    lies = [
        replace(right, public=mine.public_key().public_bytes_raw()),
        hello_of(other, "room1", identity, secret),
        hello_of(terms, "room1", members.identities["room2"], mine),
        replace(right, agent="nobody"),
        replace(right, public=bytes(32), signature=identity.sign(b"")),
    ]
    for lie in lies:
        agent = members.start("room0", meet=False)
        agent.meet(Roster([lie, members.roster.hellos[2]]))
        assert set(agent.known) == {"room2"}  # the others go on
        assert set(agent.refused) == {lie.agent}
        agent.meet(Roster([right]))
        assert set(agent.refused) == {lie.agent} - {"room1"}
    agent = members.start("room0")
    assert agent.meet(Roster([hello_of(terms, "room1", identity, mine)])) == {}
    assert "another key than before" in agent.refused["room1"]
    assert agent.known["room1"] == right.public
    with pytest.raises(SumRefused, match="than its own"):
        agent.meet(Roster([hello_of(terms, "room0", members.identities["room0"], mine)]))


def test_lists_that_are_too_short_or_have_others_are_refused(attack: Attack) -> None:
    centre = attack.until(1)
    told = centre.close_sharing()
    short = attack.terms.as_bits(range(4))
    with pytest.raises(SumRefused, match="only 4 members sent shares"):
        attack.members.agents["room0"].accept(replace(told["room0"], present=short))
    with pytest.raises(SumRefused, match="others than the plan's"):
        attack.members.agents["room1"].accept(replace(told["room1"], present=b"\xff"))
    del told["room0"]
    attack.tell(centre, told)
    with pytest.raises(SumRefused, match="only 4 members survived"):
        attack.members.agents["room1"].confirm(attack.survivors(1, "room0", "room5"))


@pytest.mark.parametrize("threshold", [2, 3])
def test_a_threshold_of_half_the_members_is_none(threshold: int) -> None:
    with pytest.raises(InvalidPlan, match="more than half of its 6 members"):
        Terms("plan", Membership("all", NAMES, threshold, 20), 1)


def test_a_message_is_masked_once(attack: Attack) -> None:
    centre = attack.until(2)
    agent = attack.members.agents["room0"]
    with pytest.raises(SumRefused, match="another list"):
        agent.accept(centre.close_sharing()["room0"])
    with pytest.raises(SumRefused, match="not going on"):
        agent.mask(1, attack.messages["room0"])


def test_shares_that_were_changed_or_are_for_somebody_else_do_not_open(attack: Attack) -> None:
    for epoch, lie in ((1, "changed"), (2, "swapped"), (3, "left out")):
        centre = attack.until(1, epoch)
        told = centre.close_sharing()["room0"]
        sealed = list(told.sealed)
        sealed[1] = {"changed": sealed[1][:-1] + b"\0", "swapped": sealed[2], "left out": b""}[lie]
        with pytest.raises(SumRefused, match="the shares of 'room1' do not open"):
            attack.members.agents["room0"].accept(replace(told, sealed=sealed))


def test_an_agent_that_was_restarted_answers_nothing_of_the_epoch_it_was_in(tmp_path: Path) -> None:
    """Its record is the agent's store, written before anything of an epoch leaves; a clock set back is refused."""
    members = Rehearsal(make_terms(4))
    path, now = tmp_path / "room0.sqlite", time.time()
    begin_agent_store(path, "room0")
    for stage in (1, 2, 3):
        with AgentStore(path, "room0") as store:
            members.epochs["room0"] = lambda epoch, store=store: store.reserve("plan", [epoch], now=now)
            members.start("room0")
            messages = random_messages(members.terms, np.random.default_rng(0))
            centre = members.begin(stage)
            told = centre.close_sharing()
            if stage >= 2:
                members.tell(centre, told, messages)
            if stage >= 3:
                members.tell(centre, centre.close_masking(), messages)
        with AgentStore(path, "room0") as store:  # a kill: all but the store is gone
            members.epochs["room0"] = lambda epoch, store=store: store.reserve("plan", [epoch], now=now)
            again = members.start("room0")
            with pytest.raises(VeilnetError, match="sent before"):
                again.begin(stage)
            with pytest.raises(SumRefused, match="not going on"):
                again.accept(told["room0"])
            with pytest.raises(SumRefused, match="not going on"):
                again.reveal(Agreed(stage, [b""] * 4))
            survivors = Survivors(stage, members.terms.as_bits(range(4)))
            with pytest.raises(SumRefused, match="not going on"):
                again.confirm(survivors)
    with AgentStore(path, "room0") as store:
        members.epochs["room0"] = lambda epoch: store.reserve("plan", [epoch], now=now - 3600)
        with pytest.raises(VeilnetError, match="clock"):
            members.start("room0").begin(9)


def test_a_wrong_share_is_left_out_and_named_and_the_sum_is_right(attack: Attack) -> None:
    centre = attack.until(4)
    liar = centre.revealed[0]
    centre.revealed[0] = replace(liar, shares=[bytes(31) + b"\1"] * 6)
    opened = centre.open()
    assert opened.lying == ("room0",)
    assert opened.residues.tolist() == plain_sum(attack.terms, attack.messages, NAMES)
    centre.revealed[1] = replace(centre.revealed[1], shares=liar.shares)
    with pytest.raises(TooFew, match="do not give what it committed to"):
        centre.open()


def test_an_agent_whose_shares_do_not_open_is_named_by_all(attack: Attack) -> None:
    centre = attack.members.begin(1, silent=["room0"])
    liar = attack.members.agents["room0"].begin(1)
    centre.take(replace(liar, sealed=[box and box[:-1] + b"\0" for box in liar.sealed]))
    assert attack.tell(centre, centre.close_sharing()) == ["room0"]
    assert all("the shares of 'room0' do not open" in attack.members.said[name] for name in NAMES[1:])
    with pytest.raises(TooFew):
        centre.close_masking()
    assert isinstance(attack.members.agents["room0"], SumAgent)


@pytest.mark.parametrize("helping", [1, 2, 3, 4])
def test_colluders_sign_whatever_the_centre_asks_for(attack: Attack, helping: int) -> None:
    """The centre calls room0 dropped to all others, not to itself; colluders confirm to each what it saw.

    2t > S + c holds for up to three of six with t = 5. With four the attack works, and the checker finds it.
    """
    terms, agents = attack.terms, [attack.members.agents[name] for name in NAMES]
    centre = attack.until(2)
    centre.survivors = frozenset(range(6))
    colluding = range(6 - helping, 6)
    forked = [attack.survivors(1), *[attack.survivors(1, "room0")] * 5]
    confirmed = [agent.confirm(told) for agent, told in zip(agents, forked, strict=True)]
    for agent in agents[: 6 - helping]:
        now = agent._now
        assert now is not None
        tags = [confirmed[k].tags[agent.number] for k in range(6)]
        for k in colluding:
            tags[k] = agents[k]._tag(now.pairs[k], now.view, k)
        attack.tell(centre, {agent.agent: Agreed(1, tags)})
    known = combinations_known(terms, attack.members.seen, colluding)
    if helping <= terms.colluders:
        expected = np.zeros(6)
        expected[1 : 6 - helping] = 1 / np.sqrt(5 - helping)
        np.testing.assert_allclose(np.abs(known), expected[None], atol=1e-9)
    else:
        assert helping == terms.colluders + 1
        assert len(known) == 2  # each honest value by itself


@pytest.mark.parametrize("forgets", ["nothing", "its epochs", "its epochs and its draws"])
def test_what_all_epochs_say_together(attack: Attack, forgets: str) -> None:
    """Five epochs with dropouts, or one five times, where all disks were set back: no mask comes twice.

    Masks of one epoch have its roots, though. A member that was called dropped in one run had them opened, so that
    its own mask alone hides its messages of the others, until that one is opened too. The checker finds those
    messages, and much more where agents draw the same again.
    """
    members, seen = attack.members, []
    for epoch in range(1, 6):
        gone = {2: [NAMES[epoch]]} if epoch % 2 else {3: [NAMES[0]]}
        members.run(epoch if forgets == "nothing" else 1, attack.messages, gone)
        seen.append(members.seen)
        if forgets != "nothing":
            members.epochs = {name: lambda _: None for name in NAMES}
            if "draws" in forgets:
                members._starts = count(6)
            for name in NAMES:
                members.start(name)
    known = combinations_known(attack.terms, seen)
    if "draws" in forgets:
        assert len(known) > 5
        return
    alone = {1, 3, 5} if forgets == "its epochs" else set[int]()  # each was called dropped in one run
    expected = []
    for k, each in enumerate(seen):
        for some in [*({number} for number in alone & each.masked.keys()), each.masked.keys() - alone]:
            expected.append(np.zeros((5, 6)))
            expected[-1][k, list(some)] = 1.0
    assert len(known) == len(expected) == (17 if alone else 5)
    sums = np.reshape(expected, (-1, 30))
    np.testing.assert_allclose(sums @ known.T @ known, sums, atol=1e-9)


def test_who_shows_the_public_key_of_another_has_nothing_that_is_that_ones(attack: Attack) -> None:
    """No secret is needed for it. Were only keys to count, room0 would have one mask with both, plus and minus."""
    members, terms = attack.members, attack.terms
    stolen = members.roster.hellos[0].public
    identity = members.identities["room5"]
    signed = identity.sign(b"veilnet sum key\n" + terms.digest + stolen + b"room5")
    agent = members.start("room2", meet=False)
    agent.meet(Roster([*members.roster.hellos[:5], Hello("room5", stolen, signed)]))
    assert agent.known["room5"] == agent.known["room0"]
    assert agent.agreed["room5"] != agent.agreed["room0"]
    told = attack.until(1).close_sharing()["room2"]
    sealed = [*told.sealed[:5], told.sealed[0]]
    with pytest.raises(SumRefused, match="the shares of 'room5' do not open"):
        agent.accept(replace(told, sealed=sealed))


def test_whatever_a_centre_says_it_learns_one_sum_of_enough_honest_members() -> None:
    """Two epochs of 40 groups; members are told lists at random, and colluders confirm each list that is seen."""
    opened = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        terms = make_terms(int(rng.integers(4, 8)))
        game = RandomCentre(terms, rng, terms.colluders)
        for epoch in (1, 2):
            game.play(epoch)
        assert game.leaks() == []
        opened += bool(len(game.known()))
    assert opened > 10


def test_the_same_game_finds_single_values_where_too_many_collude() -> None:
    leaks = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        terms = make_terms(6, threshold=4)
        game = RandomCentre(terms, rng, terms.colluders + 2)
        game.play(1)
        leaks += game.leaks()
    assert leaks


class RandomCentre:
    """A centre that tells each member lists at random, mostly of two kinds, with colluders who confirm any."""

    def __init__(self, terms: Terms, rng: np.random.Generator, helping: int) -> None:
        self.terms, self.rng, self.members = terms, rng, Rehearsal(terms)
        self.colluding = tuple(range(len(terms.members) - helping, len(terms.members)))
        self.seen: list[Seen] = []

    def lists(self, below: frozenset[int]) -> list[frozenset[int]]:
        """Two lists, each of enough members, colluders among them."""
        needed = self.terms.threshold
        found = []
        for _ in range(2):
            rest = list(below - set(self.colluding))
            most = min(len(rest), len(below) - needed)
            out = self.rng.choice(rest, self.rng.integers(0, most + 1), replace=False) if rest else []
            found.append(below - {int(k) for k in out})
        return found

    def play(self, epoch: int) -> None:
        """One epoch, to its end for each member as far as that one goes along."""
        terms, members = self.terms, self.members
        messages = random_messages(terms, self.rng)
        centre = members.begin(epoch)
        self.seen.append(members.seen)
        honest = centre.close_sharing()
        everybody = frozenset(range(len(terms.members)))
        present = self.lists(everybody)
        for name, told in honest.items():
            chosen = present[self.rng.integers(2)] if terms.number(name) not in self.colluding else everybody
            shown = replace(told, present=terms.as_bits(chosen))
            members.tell(centre, {name: shown}, messages)
        centre.survivors = everybody
        survivors = [each for some in present for each in self.lists(some) if len(some) >= terms.threshold]
        for name in terms.members:
            agent = members.agents[name]
            now = agent._now
            fitting = [some for some in survivors if now is not None and now.present and some <= now.present]
            mine = [some for some in fitting if terms.number(name) in some]
            if mine:
                some = mine[self.rng.integers(len(mine))]
                members.tell(centre, {name: Survivors(epoch, terms.as_bits(some))}, messages)
        for name in terms.members:
            if terms.number(name) not in self.colluding:
                told = members.agreed(name, epoch, self.colluding)
                members.tell(centre, {name: told}, messages)

    def known(self) -> Array:
        """Combinations that it can compute, (r, epochs, members)."""
        known = combinations_known(self.terms, self.seen, self.colluding)
        return known.reshape(-1, len(self.seen), len(self.terms.members))

    def leaks(self) -> list[int]:
        """How many honest values are in what it knows of an epoch, where these are too few; 1 for a second sum."""
        known, found = self.known(), []
        for epoch in range(len(self.seen)):
            rank = int(np.linalg.matrix_rank(known[:, epoch], tol=1e-6)) if len(known) else 0
            if rank > 1:
                found.append(1)
            elif rank:
                values = known[np.argmax(np.abs(known[:, epoch]).sum(axis=1)), epoch]
                size = int(np.count_nonzero(np.abs(values) > 1e-6))
                found += [size] if size < self.terms.threshold - len(self.colluding) else []
        return found
