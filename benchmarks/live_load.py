"""How many messages a second the centre of a live network takes, beside a bare paho-mqtt subscriber.

    python benchmarks/live_load.py [--messages 50000] [--agents 100] [--json]
    python benchmarks/live_load.py --gaps 0 2 10 --agents 1000 [--epochs 600] [--rate 1]

A hundred agents, each with a connection and a certificate of its own, send sealed messages through a real Mosquitto
over TLS, at the least-once quality of service. First a bare subscriber counts them and does nothing else; then, in
the same run, the centre takes the same traffic: checks every seal, commits every message to its store, acknowledges,
estimates every epoch and publishes the estimates. The sender is held back, so that neither is more than so many
messages behind. Memory is that of the process at a tenth of the way and at the end.

With --gaps there is no broker: for each percentage of messages that are missing at random, a centre in a process of
its own takes so many epochs, as fast as it can, by a simulated clock. Its deadline is two seconds after an epoch's
first message, so that every epoch with a gap waits for it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import select
import ssl
import struct
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

import veilnet as vn  # noqa: E402
from veilnet.cli._mosquitto import Broker  # noqa: E402
from veilnet.live.broker import BrokerPlan  # noqa: E402
from veilnet.live.centre import Centre  # noqa: E402
from veilnet.live.centre_store import CentreStore  # noqa: E402
from veilnet.live.connecting import make_client  # noqa: E402
from veilnet.live.epochs import Epochs  # noqa: E402
from veilnet.live.keys import KeyFolder, make_keys  # noqa: E402
from veilnet.live.messages import Message, Seal  # noqa: E402
from veilnet.live.receiving import Receiver  # noqa: E402
from veilnet.live.seals import centre_seals, make_seals  # noqa: E402
from veilnet.live.showing import as_table  # noqa: E402
from veilnet.live.topics import CENTRE, Topics, identity  # noqa: E402

TOPICS = Topics()
AHEAD = 4000  # messages that the sender may be ahead of the receiver
WINDOW = 16  # messages on their way to the broker, per agent
PATIENCE = 300.0


@dataclass(frozen=True)
class Measured:
    """What one receiver did.

    seconds: from its first message to its last; ``cpu`` of its process meanwhile.
    memory:  resident bytes at a tenth of the way, and at the end.
    """

    what: str
    messages: int
    seconds: float
    cpu: float
    memory: tuple[int, int]


# --- a sender that costs little: packets are made beforehand, and written as they are


def _field(content: bytes) -> bytes:
    return struct.pack(">H", len(content)) + content


def _packet(kind: int, content: bytes) -> bytes:
    length, left = b"", len(content)
    while True:
        left, digit = divmod(left, 128) if left >= 128 else (0, left)
        length += bytes([digit | (128 if left else 0)])
        if not left:
            return bytes([kind]) + length + content


class Sending:
    """One agent's connection."""

    def __init__(self, agent: str, keys: KeyFolder, broker: Broker) -> None:
        import socket

        plain = socket.create_connection((broker.host, broker.port), timeout=PATIENCE)
        self.socket = keys.agent(agent).client_context().wrap_socket(plain, server_hostname=broker.host)
        me = identity(agent).encode()
        self.socket.sendall(_packet(0x10, _field(b"MQTT") + bytes([5, 2, 0, 60, 0]) + _field(me)))
        self.socket.sendall(
            _packet(0x82, struct.pack(">H", 1) + b"\0" + _field(TOPICS.acks(agent).encode()) + b"\0")
        )
        self.topic = _field(TOPICS.messages(agent).encode())
        self.number = self.unanswered = 0
        self.left = b""
        while not self.left.startswith(b"\x20"):
            self.left += self.socket.recv(4096)
        self._count_answers(b"")
        self.unanswered = 0
        self.socket.setblocking(False)

    def publish(self, payload: bytes) -> None:
        self.number = self.number % 60000 + 1
        self.unanswered += 1
        packet = _packet(0x32, self.topic + struct.pack(">H", self.number) + b"\0" + payload)
        while packet:
            try:
                packet = packet[self.socket.send(packet) :]
            except ssl.SSLWantWriteError:
                select.select([], [self.socket], [], 1.0)

    def answers(self) -> None:
        try:
            while True:
                content = self.socket.recv(65536)
                if not content:
                    raise ConnectionError("the broker ended a connection")
                self._count_answers(content)
        except ssl.SSLWantReadError:
            pass

    def _count_answers(self, content: bytes) -> None:
        self.left += content
        while len(self.left) >= 2:
            length, place, shift = 0, 1, 0
            while place < len(self.left):
                length |= (self.left[place] & 127) << shift
                place, shift = place + 1, shift + 7
                if not self.left[place - 1] & 128:
                    break
            if len(self.left) < place + length:
                return
            self.unanswered -= self.left[0] >> 4 == 4
            self.left = self.left[place + length :]


def send(folder: Path, broker: Broker, seals: dict[str, Seal], plan: str, sent: dict[str, int], messages: int,
         first_epoch: int, received: Synchronized[int]) -> None:  # fmt: skip
    """All agents, epoch after epoch, in one process."""
    keys = KeyFolder(folder / "keys")
    rng = np.random.default_rng(first_epoch)
    agents = {agent: Sending(agent, keys, broker) for agent in seals}
    total, epoch = 0, first_epoch
    while total < messages:
        for agent, connection in agents.items():
            values = rng.normal(0, 1, sent[agent]).astype("<f8").tobytes()
            message = Message(plan[:16], agent, agent.encode()[-8:].rjust(8), epoch, epoch, 0, True, values)
            while connection.unanswered >= WINDOW:
                connection.answers()
            connection.publish(seals[agent].message(message))
            total += 1
        while total - received.value > AHEAD:
            time.sleep(0.002)
            for connection in agents.values():
                connection.answers()
        epoch += 1
    deadline = time.monotonic() + PATIENCE
    while received.value < total and time.monotonic() < deadline:
        for connection in agents.values():
            connection.answers()
        time.sleep(0.01)


# --- the two receivers, each in a process of its own


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Clock:
    """Wall and CPU time from the first message on, and memory on the way."""

    def __init__(self, received: Synchronized[int], messages: int) -> None:
        self.received, self.messages = received, messages
        self.count = 0
        self.began = (0.0, 0.0)
        self.early = 0

    def add(self, new: int) -> bool:
        """Whether that was all."""
        if not self.count:
            self.began = time.perf_counter(), time.process_time()
        before = self.count
        self.count += new
        self.received.value = self.count
        if before < self.messages // 10 <= self.count:
            self.early = _memory()
        return self.count >= self.messages

    def done(self) -> tuple[float, float, int, int]:
        """Seconds, CPU seconds, memory early and late."""
        return time.perf_counter() - self.began[0], time.process_time() - self.began[1], self.early, _memory()


def bare(folder: Path, broker: Broker, received: Synchronized[int], messages: int, told: object) -> None:
    """A paho subscriber that counts."""
    client = make_client(CENTRE, KeyFolder(folder / "keys").centre)
    clock = Clock(received, messages)

    def on_message(*_: object) -> None:
        if clock.add(1):
            told.put(clock.done())  # type: ignore[attr-defined]
            client.disconnect()

    client.on_message = on_message
    client.on_connect = lambda *_: client.subscribe(TOPICS.all_messages, qos=1)
    client.on_subscribe = lambda *_: told.put("ready")  # type: ignore[attr-defined]
    client.connect(broker.host, broker.port)
    client.loop_forever()


def centre(folder: Path, broker: Broker, received: Synchronized[int], messages: int, told: object) -> None:
    """The centre, as ``veilnet center`` runs it."""
    credentials = KeyFolder(folder / "keys").centre
    path = folder / "plan" / "center.json"
    model = vn.Fusion.load(path).model
    seals = centre_seals(credentials, model.agents)
    with CentreStore(folder / "estimates.sqlite") as store:
        running = Centre(store, seals, TOPICS)
        running.take_up(path.read_bytes(), path)
        clock = Clock(received, messages)
        ended = [False]
        ready = [False]
        take = running.take

        def counted(arrived: object, now: float | None = None) -> object:
            taken = take(arrived, now)  # type: ignore[arg-type]
            if taken.new and clock.add(taken.new):
                told.put(clock.done())  # type: ignore[attr-defined]
                ended[0] = True
            return taken

        running.take = counted  # type: ignore[assignment,method-assign]

        def idle() -> None:
            if receiver.connected and not ready[0]:
                ready[0] = True
                told.put("ready")  # type: ignore[attr-defined]

        receiver = Receiver(
            running, seals, TOPICS, credentials, (broker.host, broker.port),
            say=lambda _: None, estimated=lambda made: as_table(made, Epochs()), idle=idle,
        )  # fmt: skip
        receiver.run(lambda: ended[0])


def measure(what: str, receive: object, folder: Path, broker: Broker, seals: dict[str, Seal], messages: int,
            first_epoch: int) -> Measured:  # fmt: skip
    """Run a receiver, then the sender, and wait for what the receiver tells."""
    model = vn.Fusion.load(folder / "plan" / "center.json")
    context = multiprocessing.get_context("fork")
    received = context.Value("q", 0)
    told = context.Queue()
    receiving = context.Process(target=receive, args=(folder, broker, received, messages, told))  # type: ignore[arg-type]
    receiving.start()
    assert told.get(timeout=PATIENCE) == "ready"
    sending = context.Process(
        target=send,
        args=(folder, broker, seals, model.model.plan, model.sent, messages, first_epoch, received),
    )
    sending.start()
    seconds, cpu, early, late = told.get(timeout=PATIENCE + messages / 100)
    sending.join()
    receiving.join()
    return Measured(what, messages, seconds, cpu, (early, late))


def prepare(folder: Path, count: int) -> list[str]:
    """A plan of so many agents, and keys for them."""
    rng = np.random.default_rng(0)
    agents = [f"agent{k:03d}" for k in range(count)]
    network = vn.Network(
        {agent: rng.normal(0, 1, (3, 4)) for agent in agents},
        0.5,
        {"level": [[1.0, 0, 0, 0]]},
        {"secret": [[0, 0, 0, 1.0]]},
        vn.Prior(mean=np.zeros(4), covariance=np.eye(4)),
        resolution=0.01,
    )
    vn.design(network).save(folder / "plan")
    made = make_keys(folder / "keys", agents)
    make_seals(made.keys, agents)
    return agents


def gaps(folder: Path, percent: float, epochs: int, rate: float, told: object) -> None:
    """The centre without a broker, with so many messages missing at random."""
    path = folder / "plan" / "center.json"
    model = vn.Fusion.load(path)
    seals = centre_seals(KeyFolder(folder / "keys").centre, model.agents)
    rng, made, early = np.random.default_rng(0), 0, 0
    cpu = 0.0
    with CentreStore(folder / f"gaps{percent:g}.sqlite") as store:
        running = Centre(store, seals, TOPICS, wait=2.0)
        running.take_up(path.read_bytes(), path)
        for epoch in range(1, epochs + 1):
            there = rng.random(len(seals)) >= percent / 100
            arrived = []
            for (agent, seal), sends in zip(seals.items(), there, strict=True):
                if sends:
                    values = rng.normal(0, 1, model.sent[agent]).astype("<f8").tobytes()
                    message = Message(
                        model.model.plan[:16],
                        agent,
                        agent.encode()[-8:].rjust(8),
                        epoch,
                        epoch,
                        0,
                        True,
                        values,
                    )
                    arrived.append((TOPICS.messages(agent), seal.message(message)))
            began = time.process_time()
            made += len(running.take(arrived, epoch / rate).estimates)
            cpu += time.process_time() - began
            early = _memory() if epoch == max(1, epochs // 10) else early
        began = time.process_time()
        while running.next_deadline() is not None:
            made += len(running.take([], epochs / rate + 3.0).estimates)
        cpu += time.process_time() - began
    told.put((made, cpu, early, _memory()))  # type: ignore[attr-defined]


def measure_gaps(folder: Path, percents: list[float], epochs: int, rate: float) -> None:
    """Each in a process of its own, as a table."""
    print(
        "| missing | epochs estimated | CPU ms an epoch | memory at a tenth, at the end |\n|---|---|---|---|"
    )
    for percent in percents:
        context = multiprocessing.get_context("spawn")
        told = context.Queue()
        process = context.Process(target=gaps, args=(folder, percent, epochs, rate, told))
        process.start()
        made, cpu, early, late = told.get()
        process.join()
        memory = f"{early / 2**20:.1f} MB, {late / 2**20:.1f} MB"
        print(f"| {percent:g} % | {made} of {epochs} | {1000 * cpu / epochs:.1f} | {memory} |", flush=True)


def main() -> None:
    """Measure both, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--gaps", type=float, nargs="+", metavar="PERCENT")
    parser.add_argument("--epochs", type=int, default=600)
    parser.add_argument("--rate", type=float, default=1.0, help="epochs a second of the simulated clock")
    options = parser.parse_args()
    count = options.messages // options.agents * options.agents
    with tempfile.TemporaryDirectory(prefix="veilnet-load-") as name:
        folder = Path(name)
        agents = prepare(folder, options.agents)
        if options.gaps is not None:
            measure_gaps(folder, options.gaps, options.epochs, options.rate)
            return
        seals = centre_seals(KeyFolder(folder / "keys").centre, agents)
        with Broker(KeyFolder(folder / "keys").broker, BrokerPlan(agents)) as broker:
            fewer = min(count, 100_000 // options.agents * options.agents)  # a speed shows in less
            found = [
                measure("bare paho subscriber", bare, folder, broker, seals, fewer, 1),
                measure("centre", centre, folder, broker, seals, count, 10**6),
            ]
            stored = (folder / "estimates.sqlite").stat().st_size
    if options.json:
        print(json.dumps([vars(each) for each in found]))
        return
    print(
        "| receiver | messages | per second | per CPU second | memory at a tenth, at the end |\n|---|---|---|---|---|"
    )
    for each in found:
        early, late = (size / 2**20 for size in each.memory)
        print(
            f"| {each.what} | {each.messages} | {each.messages / each.seconds:.0f} | "
            f"{each.messages / each.cpu:.0f} | {early:.1f} MB, {late:.1f} MB |"
        )
    speeds = [each.messages / each.seconds for each in found]
    costs = [each.messages / each.cpu for each in found]
    print(f"The centre takes {speeds[1] / speeds[0]:.2f} of the bare subscriber's messages a second,")
    print(f"{costs[1] / costs[0]:.2f} of its messages per CPU second; store of {stored / 2**20:.1f} MB.")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
