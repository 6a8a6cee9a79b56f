"""The house whose rooms send only their sum, live and without a broker: threads of this process, and queues."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path

import numpy as np

from helpers.live_networks import TOPICS
from veilnet._core.errors import VeilnetError
from veilnet._core.types import Array
from veilnet.agent.randomness import noise_source
from veilnet.auditing.attack.simulation import draw_readings, draw_x
from veilnet.designs import design
from veilnet.io.agent_store import AgentStore, begin_agent_store
from veilnet.io.outbox import SHORT
from veilnet.io.template import house
from veilnet.live.agent import LiveAgent, ReleaseOutcome
from veilnet.live.centre import Centre, Estimated
from veilnet.live.centre_store import CentreStore
from veilnet.live.fusions import fusion_of, sums_of
from veilnet.live.messages import Malformed, Seal
from veilnet.live.second_centre import SecondCentre
from veilnet.live.sum_desk import terms_of
from veilnet.live.sum_rounds import AnyRounds, HalvesRounds, SumRounds
from veilnet.live.topics import SECOND
from veilnet.plans.plan import Plan
from veilnet.sums.masks import Ed25519PrivateKey
from veilnet.sums.terms import FromAgent, FromCentre, Terms, read_message, written_message

ROOMS = tuple(house().agents)


@cache
def summed_plan(*groups: tuple[str, ...], stream: bool = False) -> Plan:
    """A plan of the house in which the centre sees the sum of all rooms' messages, or of these, and nothing else."""
    return design(house(stream=stream), summed=list(map(list, groups)) or True)


def room_readings(rows: int, seed: int = 0) -> dict[str, Array]:
    """room -> its readings in some rows."""
    network, rng = house(), np.random.default_rng(seed)
    stacked = draw_readings(network, draw_x(network, rng, rows), rng)
    return {room: stacked[:, network.blocks.rows(k)] for k, room in enumerate(network.agents)}


class SummedHouse:
    """Rooms and a centre. ``spoils`` may change or hold back (None) what the centre says to a room, ``lies`` make
    something else of what a room says.
    """

    def __init__(
        self,
        folder: Path,
        wait: float = 6.0,
        groups: tuple[tuple[str, ...], ...] = (),
        *,
        stream: bool = False,
        second: bool = False,
    ) -> None:
        self.folder, self.plan = folder, summed_plan(*groups, stream=stream)
        self.plan.save(folder / "plan")
        self.sanitizers = self.plan.members
        parties = (*ROOMS, SECOND) if second else ROOMS
        self.seals = {room: Seal(room.encode().ljust(32, b".")) for room in parties}
        self.wait, self.said, self.estimates = wait, list[str](), list[Estimated]()
        self.spoils: Callable[[str, FromCentre], FromCentre | None] = lambda _, message: message
        self.lies: Callable[[str, FromAgent], list[FromAgent]] = lambda _, message: [message]
        self._identities = {room: Ed25519PrivateKey.generate() for room in parties}
        self._arrived: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self.rounds: dict[str, AnyRounds] = {}
        self.agents: dict[str, LiveAgent] = {}
        for room in ROOMS:
            begin_agent_store(folder / f"{room}.sqlite", room)
            self.start(room)
        document = folder / "plan" / "center.json"
        self.centre = Centre(CentreStore(folder / "estimates.sqlite"), self.seals, TOPICS, wait=wait)
        self.centre.take_up(document.read_bytes(), document)
        self.second: SecondCentre | None = None
        if second:
            begin_agent_store(folder / "second.sqlite", SECOND)
            self.start_second()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def start_second(self) -> None:
        """The second centre's process, as after a kill."""
        if self.second is not None:
            self.second._store.close()
        store = AgentStore(self.folder / "second.sqlite", SECOND)
        publics = {room: key.public_key() for room, key in self._identities.items()}
        terms = terms_of(self.plan_id, sums_of(self.centre.fusion)).values()
        self.second = SecondCentre(terms, self._identities[SECOND], publics, store)
        for hello in self.second.hellos():
            self._publish(SECOND, hello)

    def start(self, room: str) -> None:
        """A room's process, as after a kill; its noise is seeded, so that a test knows what it adds."""
        if room in self.agents:
            self.agents[room].store.close()
        sanitizer, noise = self.sanitizers[room], noise_source(ROOMS.index(room))
        if sanitizer.summed is None:
            store = AgentStore(self.folder / f"{room}.sqlite", room)
            self.agents[room] = LiveAgent(store, self.seals[room], sanitizer, self.plan_id, noise)
            return
        terms = Terms(self.plan_id, sanitizer.summed, sanitizer.sent)
        publics = {name: key.public_key() for name, key in self._identities.items()}
        store = AgentStore(self.folder / f"{room}.sqlite", room)
        identity = self._identities[room]
        common = (lambda m: self._publish(room, m)), self.wait, self.said.append, store
        if SECOND in self.seals:
            first = self.seals[room].half_key(terms.digest)
            self.rounds[room] = HalvesRounds(terms, room, identity, publics[SECOND], first, *common)
        else:
            self.rounds[room] = SumRounds(terms, room, identity, publics, *common)
        self.agents[room] = LiveAgent(
            store, self.seals[room], sanitizer, self.plan_id, noise, rounds=self.rounds[room]
        )

    @property
    def plan_id(self) -> str:
        """As messages carry it."""
        path = self.folder / "plan" / "center.json"
        return str(fusion_of(path.read_bytes(), path).model.plan)[:SHORT]

    def _publish(self, room: str, message: FromAgent) -> None:
        for each in self.lies(room, message):
            payload = self.seals[room].round(written_message(each), by_agent=True)
            self._arrived.put((TOPICS.sums(room), payload))

    def _serve(self) -> None:
        while not self._ended.is_set():
            try:
                arrived = [self._arrived.get(timeout=0.02)]
            except queue.Empty:
                arrived = []
            taken = self.centre.take(arrived, time.monotonic())
            self.estimates += taken.estimates
            self.said += [words for each in taken.ended for words in each.in_words()]
            for room, payload in taken.rounds:
                found = read_message(self.seals[room].open_round(payload, by_agent=False))
                assert isinstance(found, FromCentre)
                told = self.spoils(room, found)
                if told is None:
                    continue
                if room != SECOND:
                    self.rounds[room].hear(told)
                    continue
                assert self.second is not None
                try:
                    answers = self.second.hear(told)
                except (Malformed, VeilnetError) as refusal:  # as SecondLink
                    self.said.append(str(refusal))
                    continue
                for answer in answers:
                    self._publish(SECOND, answer)

    def epoch(
        self, epoch: int, readings: dict[str, Array], without: Collection[str] = ()
    ) -> dict[str, ReleaseOutcome]:
        """All rooms but some read and take part, each in a thread of its own; what came of it."""
        found: dict[str, ReleaseOutcome] = {}

        def run(room: str) -> None:
            found[room] = self.agents[room].take([epoch], readings[room])
            for _, payload in self.agents[room].store.waiting(0, 10):  # of a room that is in no sum
                self._arrived.put((TOPICS.messages(room), payload))

        threads = [threading.Thread(target=run, args=(room,)) for room in ROOMS if room not in without]
        for each in threads:
            each.start()
        for each in threads:
            each.join(3 * self.wait)
        return found

    def until_estimated(self, epoch: int) -> None:
        """Wait for the estimate of an epoch."""
        until = time.monotonic() + 10 * self.wait
        while all(each.epoch < epoch for each in self.estimates):
            assert time.monotonic() < until, f"no estimate of epoch {epoch}"
            time.sleep(0.02)

    def close(self) -> None:
        """End all."""
        self._ended.set()
        self._thread.join(60)
        self.centre.store.close()
        if self.second is not None:
            self.second._store.close()
        for agent in self.agents.values():
            agent.store.close()
