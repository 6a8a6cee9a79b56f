"""A live network without a broker: agents and a centre, and a wire that the test is."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from veilnet._core.types import Array
from veilnet.auditing.attack.simulation import draw_readings, draw_x
from veilnet.auditing.streams.window import draw_streams
from veilnet.designs import design
from veilnet.io.agent_store import AgentStore, begin_agent_store
from veilnet.io.reading_streams import ReadingReader
from veilnet.io.row_keys import COUNTED
from veilnet.io.sources import RowSource
from veilnet.io.template import house
from veilnet.live.agent import LiveAgent
from veilnet.live.centre import Centre, Taken
from veilnet.live.centre_store import CentreStore
from veilnet.live.epochs import epochs_of
from veilnet.live.feeding import feed
from veilnet.live.fusions import fusion_of
from veilnet.live.messages import Seal
from veilnet.live.topics import Topics
from veilnet.plans.plan import Plan
from veilnet.symbols.plan import SymbolPlan

TOPICS = Topics()


@cache
def house_plan(*, stream: bool = False, privacy: float | None = None) -> Plan:
    """A plan of the bundled house."""
    return design(house(stream=stream)) if privacy is None else design(house(stream=stream), privacy=privacy)


def house_readings(plan: Plan, rows: int, seed: int = 0) -> tuple[Array, dict[str, Array]]:
    """(the public truth, agent -> readings) of some rows."""
    network = plan.network
    rng = np.random.default_rng(seed)
    if network.is_stream:
        drawn = draw_streams(network, 1, rows, rng)
        x, stacked = drawn.x[0], drawn.readings[0]
    else:
        x = draw_x(network, rng, rows)
        stacked = draw_readings(network, x, rng)
    readings = {
        agent: np.ascontiguousarray(stacked[:, network.blocks.rows(place)])
        for place, agent in enumerate(network.agents)
    }
    return x @ network.U.T, readings


class Wired:
    """Agents and a centre of a plan, in a folder; what agents send is handed to the centre by the test."""

    def __init__(
        self,
        folder: Path,
        plan: Plan | SymbolPlan,
        *,
        wait: float = 30.0,
        gate: float | None = 1e-6,
        quorum: int | None = None,
        step: str | None = None,
    ) -> None:
        self.folder, self.plan, self.wait, self.gate = folder, plan, wait, gate
        self.quorum, self.step = quorum, step
        plan.save(folder / "plan")
        self.sanitizers = plan.agents if isinstance(plan, SymbolPlan) else plan.sanitizers
        self.seals = {agent: Seal(agent.encode().ljust(32, b".")) for agent in self.sanitizers}
        self.document = (folder / "plan" / "center.json").read_bytes()
        self.id = fusion_of(self.document, folder / "plan" / "center.json").model.plan
        self.clock = 0.0
        self.agents: dict[str, LiveAgent] = {}
        for agent in self.sanitizers:
            begin_agent_store(self.store_of(agent), agent)
            self.start_agent(agent)
        self.centre = self._new_centre()

    def store_of(self, agent: str) -> Path:
        """The file of an agent's store."""
        return self.folder / f"{agent}.sqlite"

    def start_agent(self, agent: str) -> LiveAgent:
        """An agent from its store, as after a kill."""
        if agent in self.agents:
            self.agents[agent].store.close()
        store = AgentStore(self.store_of(agent), agent)
        self.agents[agent] = LiveAgent(store, self.seals[agent], self.sanitizers[agent], self.id)
        return self.agents[agent]

    def start_centre(self) -> Centre:
        """The centre from its store, as after a kill."""
        self.centre.store.close()
        self.centre = self._new_centre()
        return self.centre

    def _new_centre(self, store_name: str = "estimates.sqlite") -> Centre:
        store = CentreStore(self.folder / store_name)
        centre = Centre(
            store, self.seals, TOPICS, wait=self.wait, gate=self.gate, quorum=self.quorum, step=self.step
        )
        centre.take_up(self.document, self.folder / "plan" / "center.json")
        return centre

    def outbox(self, agent: str) -> list[bytes]:
        """What an agent wants to send."""
        return [payload for _, payload in self.agents[agent].store.waiting(0, 10**6)]

    def hand_over(self, *agents: str, settle: bool = True) -> Taken:
        """All that agents have, to the centre, and its receipts back."""
        arrived = [
            (TOPICS.messages(agent), payload)
            for agent in agents or self.agents
            for payload in self.outbox(agent)
        ]
        taken = self.centre.take(arrived, self.clock)
        # A batch has a second for estimates; what a slow machine leaves is due at once.
        while self.centre.is_due(self.clock) and (left := self.centre.take([], self.clock).estimates):
            taken.estimates += left
        if settle:
            for agent, receipt in taken.receipts:
                self.agents[agent].store.settle(receipt.kept, [sequence for sequence, _ in receipt.refused])
        return taken

    def close(self) -> None:
        """End all."""
        for agent in self.agents.values():
            agent.store.close()
        self.centre.store.close()


def fed(
    agent: LiveAgent, text: str, step: str | None = None
) -> tuple[list[tuple[int, bool]], list[str], int]:
    """((epoch, whether it has numbers) of what was kept, what was said, how many were missed)."""
    said: list[str] = []
    epochs = epochs_of(step)
    names = agent.sanitizer.names
    reader = ReadingReader(RowSource("readings", text.encode()), len(names), names=names)
    missed = 0
    for block in reader.blocks(100):
        key = reader.key or COUNTED
        epochs.check(key)
        missed += feed(agent, block, key, epochs, said.append)
    seal = agent._seal
    kept = [seal.open_message(payload) for _, payload in agent.store.waiting(0, 1000)]
    return [(each.epoch, each.values is not None) for each in kept], said, missed
