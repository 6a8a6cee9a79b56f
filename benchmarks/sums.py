"""Sums under masks: what they cost beside plain messages, and 1,000 epochs with dropouts at every point.

python benchmarks/sums.py [--quick] [--only dropouts]
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from helpers.sum_groups import make_terms, plain_sum, random_messages
from veilnet.io.agent_store import AgentStore, Kept, Reserved, begin_agent_store
from veilnet.live.messages import Message, Seal
from veilnet.sums.masks import Ed25519PrivateKey, X25519PrivateKey
from veilnet.sums.opening import SumEpoch, TooFew
from veilnet.sums.party import Party, hello_of
from veilnet.sums.rehearsal import EpochsInMemory, Rehearsal, combinations_known
from veilnet.sums.terms import Roster, Sharing, Terms, written_message
from veilnet.sums.two_centres import HalfCentre, SplittingAgent, merged, second_of

BITS, NUMBERS = 41, 2


def dropouts(epochs: int, members: int = 10) -> None:
    """Each member falls silent before each of the four rounds with a chance of 10 %."""
    terms = make_terms(members, bits=BITS, numbers=NUMBERS)
    group, rng = Rehearsal(terms), np.random.default_rng(0)
    opened = wrong = few = told = 0
    for epoch in range(1, epochs + 1):
        messages = random_messages(terms, rng)
        gone = {stage: [name for name in terms.members if rng.random() < 0.1] for stage in (1, 2, 3, 4)}
        try:
            found = group.run(epoch, messages, gone)
        except TooFew:
            few += 1
            known = combinations_known(terms, group.seen)
            told += len(known)
            continue
        opened += 1
        wrong += found.residues.tolist() != plain_sum(terms, messages, found.survivors)
        known = combinations_known(terms, group.seen)
        told += len(known) != 1 or np.count_nonzero(np.abs(known[0]) > 1e-9) != len(found.survivors)
    print(
        f"dropouts: {epochs} epochs of {members} members, threshold {terms.threshold}, 10 % gone before each round"
    )
    print(f"  {opened} sums opened, {wrong} of them not the plain sum; {few} epochs with too few, and no sum")
    print(f"  epochs in which the centre could compute anything but the one sum: {told}")
    print(f"figure epochs: {epochs:,}\nfigure opened: {opened}\nfigure wrong: {wrong}\nfigure told: {told}")


class _Timed:
    """Seconds of processor time in calls of agents, each by name."""

    def __init__(self) -> None:
        self.spent = 0.0

    def __call__(self, call: Callable[..., Any], *given: Any) -> Any:
        start = time.process_time()
        found = call(*given)
        self.spent += time.process_time() - start
        return found


def plain(terms: Terms, repeats: int) -> tuple[float, int]:
    """(seconds, bytes) of a plain sealed message, an agent and epoch."""
    seal, values = Seal(bytes(32)), np.zeros(terms.numbers)
    clock = _Timed()
    for epoch in range(1, repeats + 1):
        message = Message("0" * 16, "room0", bytes(8), epoch, epoch, values=values.tobytes())
        payload = clock(seal.message, message)
    return clock.spent / repeats, len(payload)


def one_centre(members: int, epochs: int, stack: ExitStack) -> None:
    """Rounds with one centre, with records on the disk: what an agent and the centre spend."""
    terms = make_terms(members, bits=BITS, numbers=NUMBERS)
    group, rng = Rehearsal(terms), np.random.default_rng(0)
    folder = stack.enter_context(TemporaryDirectory())
    stores: dict[str, AgentStore] = {}
    for name, agent in group.agents.items():
        agent._draw = secrets.token_bytes
        path = Path(folder) / f"{name}.sqlite"
        begin_agent_store(path, name)
        stores[name] = stack.enter_context(AgentStore(path, name))
    taken: dict[str, Reserved] = {}

    def begin(name: str, epoch: int) -> Any:
        """Round 1, with the record on the disk before."""
        (taken[name],) = disk(partial(stores[name].reserve, now=time.time()), terms.plan, [epoch])
        return group.agents[name].begin(epoch)

    def mask(name: str, told: Sharing) -> Any:
        """Round 2: what leaves is on the disk before."""
        group.agents[name].accept(told)
        masked = group.agents[name].mask(told.epoch, messages[name])
        disk(
            stores[name].keep,
            terms.plan,
            [Kept(taken[name], written_message(masked), released=True, waits=False)],
        )
        return masked

    agents, disk, centre_time, sent = _Timed(), _Timed(), _Timed(), 0
    for epoch in range(1, epochs + 1):
        messages = random_messages(terms, rng)
        centre = SumEpoch(terms, epoch)

        def say(message: Any, take: Callable[[Any], None]) -> int:
            centre_time(take, message)
            return len(written_message(message))

        for name in terms.members:
            sent += say(agents(begin, name, epoch), centre.take)
        for name, told in centre_time(centre.close_sharing).items():
            sent += say(agents(mask, name, told), centre.take) + len(written_message(told))
        for name, told in centre_time(centre.close_masking).items():
            sent += say(agents(group.agents[name].confirm, told), centre.take) + len(written_message(told))
        for name, told in centre_time(centre.close_confirming).items():
            sent += say(agents(group.agents[name].reveal, told), centre.take) + len(written_message(told))
        found = centre_time(centre.open)
        assert found.residues.tolist() == plain_sum(terms, messages, terms.members)
    each = epochs * members
    seconds, size = plain(terms, 2000)
    print(
        f"  one centre, {members:6,} agents: {1e3 * agents.spent / each:.2f} ms ("
        f"{1e3 * disk.spent / each:.2f} of it for the record on the disk) and {sent / each:,.0f} bytes both ways an "
        f"agent and epoch, centre {1e3 * centre_time.spent / epochs:,.0f} ms; "
        f"plain {1e3 * seconds:.3f} ms, {size} bytes"
    )
    print(f"figure disk_{members}: {1e3 * disk.spent / each:.2f}")
    print(f"figure ms_{members}: {1e3 * agents.spent / each:.2f}\nfigure bytes_{members}: {sent / each:,.0f}")


def two_centres(members: int) -> None:
    """Additive halves: what an agent spends, and each centre."""
    terms = make_terms(members, bits=BITS, numbers=NUMBERS)
    names, second = terms.members, second_of("all")
    identities = {name: Ed25519PrivateKey.generate() for name in (*names, second)}
    keys = {name: X25519PrivateKey.generate() for name in (*names, second)}
    hellos = {name: hello_of(terms, name, identities[name], keys[name]) for name in keys}
    firsts = {name: secrets.token_bytes(32) for name in names}
    publics = {name: identity.public_key() for name, identity in identities.items()}
    agents = {}
    for name in names:
        agents[name] = SplittingAgent(
            terms, name, keys[name], publics[second], firsts[name], EpochsInMemory()
        )
        agents[name].meet(Roster([hellos[second]]))
    party = Party(terms, second, keys[second], publics)
    party.meet(Roster([hellos[name] for name in names]))
    both_keys = (firsts, party.agreed)
    centres = [HalfCentre(terms, k, shared, EpochsInMemory()) for k, shared in enumerate(both_keys)]
    messages = {name: np.full(NUMBERS, k, dtype=np.uint64) for k, name in enumerate(names)}
    mine, theirs, sent = _Timed(), _Timed(), 0
    for name, agent in agents.items():
        mine(agent.begin, 1)
        halved = mine(agent.split, 1, messages[name])
        sent += len(written_message(halved))
        for centre, half in zip(centres, (halved.first, halved.second), strict=True):
            theirs(centre.take, 1, name, half)
    both = centres[0].there(1) & centres[1].there(1)
    found = merged(terms, *(theirs(centre.answer, 1, both) for centre in centres))
    assert found.tolist() == plain_sum(terms, messages, names)
    print(
        f"  two centres, {members:6,} agents: {1e3 * mine.spent / members:.3f} ms and {sent / members:.0f} bytes an "
        f"agent and epoch, each centre {0.5e6 * theirs.spent / members:.0f} µs a message"
    )
    print(f"figure halves_ms: {1e3 * mine.spent / members:.3f}\nfigure halves_bytes: {sent / members:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer epochs and agents")
    parser.add_argument("--only", choices=["dropouts", "cost"])
    asked = parser.parse_args()
    if asked.only in (None, "dropouts"):
        dropouts(50 if asked.quick else 1000)
    if asked.only in (None, "cost"):
        print("cost, in processor time:")
        for members, epochs in ((5, 20), (50, 3)) if asked.quick else ((5, 200), (50, 20), (500, 1)):
            with ExitStack() as stack:
                one_centre(members, epochs, stack)
        two_centres(1000 if asked.quick else 100_000)


if __name__ == "__main__":
    main()
