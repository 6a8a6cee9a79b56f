"""Kill the agent, the broker and the centre of a live network at every step of a message's life.

    python benchmarks/live_kills.py [--kills 200] [--seed 0] [--json]

Two agents and a centre run in processes of their own over a real Mosquitto. A rehearsal finds every line of
veilnet's live code that an agent and a centre execute, from start to end; the walk then ends one process by SIGKILL
when it comes to such a line: the agent, the centre, or the broker while the agent or the centre is there. What was
killed is started again as its owner would, and the round goes on to its end. Then it is compared what was read, drawn
for, kept by the agents, acknowledged, kept by the centre and estimated:

    lost      acknowledged by the centre, and not in its store
    changed   in its store with other bytes than the agent kept
    doubled   counted more than once
    redrawn   noise drawn a second time for a reading
    chain     the agent's chain of releases is not whole, as an audit sees it
    silent    an epoch of which the centre never heard, neither numbers nor that it was missed
    estimate  not the bits that Fusion gives in process for the messages of that epoch
    retained  a reader who comes then does not find the newest estimate, or the description of it for Home Assistant
    stuck     something did not come to its end within two minutes
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

import veilnet as vn  # noqa: E402
from live_children import PATIENCE, Child, Line  # noqa: E402
from veilnet.cli._mosquitto import Broker  # noqa: E402
from veilnet.io.agent_ledger import audit_releases  # noqa: E402
from veilnet.live.broker import BrokerPlan  # noqa: E402
from veilnet.live.connecting import make_client  # noqa: E402
from veilnet.live.home_assistant import discovery_topic  # noqa: E402
from veilnet.live.keys import KeyFolder, make_keys  # noqa: E402
from veilnet.live.messages import Message, Seal  # noqa: E402
from veilnet.live.seals import agent_seal, make_seals  # noqa: E402
from veilnet.live.topics import Topics, reader_identity  # noqa: E402

ROWS = 3  # readings of each agent in a round
TOPICS = Topics()


@dataclass
class Score:
    """What one kind of kill did."""

    what: str
    tried: int = 0
    hit: int = 0
    recovered: int = 0
    found: Counter[str] = field(default_factory=Counter)


# --- the network


class Network:
    """A plan, keys and a broker in a folder; rounds of readings that agents are fed with.

    loaded: modules that children have from their start. disturbed: whether the centre or the broker was killed.
    """

    agents: tuple[str, ...] = ("kitchen", "hall")
    wait = "200ms"
    disturbed = False
    readers: tuple[str, ...] = ("screen",)
    loaded: tuple[str, ...] = (
        "live.receiving", "live.sending", "live.plan_watch", "live.showing", "live.metrics", "live.status",
        "io.reading_streams", "io.trust", "io.acceptance", "cli._lines", "cli._command_line", "cli.agent",
        "cli.center", "live.epochs", "live.feeding", "live.neighbours", "live.standby",
    )  # fmt: skip

    def design(self) -> vn.Plan:
        """The plan that is run."""
        network = vn.Network(
            {"kitchen": [[1, 0.5], [0, 1.0]], "hall": [[1, -0.4], [0.2, 1]]},
            {"kitchen": [0.1, 0.2], "hall": [0.2, 0.1]},
            {"temperature": [1, 0]},
            {"gait": [0, 1]},
            vn.Prior(mean=[20, 1], covariance=np.eye(2)),
            resolution=0.1,
        )
        return vn.design(network)

    @classmethod
    def load(cls) -> None:
        """What children have from their start: they are forked."""
        for name in cls.loaded:
            __import__(f"veilnet.{name}")
        import paho.mqtt.client  # noqa: F401
        from scipy.special import ndtri  # noqa: F401

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan = self.design()
        self.plan.save(folder / "plan")
        made = make_keys(folder / "keys", self.agents, readers=self.readers, standby=True)
        groups = [each.agents for each in self.plan.network.members.values()]
        make_seals(made.keys, self.agents, self.readers, groups)
        self.keys: KeyFolder = made.keys
        self.broker = Broker(made.keys.broker, BrokerPlan(self.agents, readers=self.readers)).start()
        self.log = folder / "log.txt"
        self.row = 0
        self.rng = np.random.default_rng(0)
        self.centre: Child | None = None

    def readings(self) -> None:
        """The next rows of every agent, each number read once only."""
        for agent in self.agents:
            rows = self.row + 1 + np.arange(ROWS)
            values = np.round(self.rng.normal([20, 1], 1, (ROWS, 2)), 1)
            values[:, 0] += rows * 1e-6  # tells readings apart in the log of draws
            lines = [
                f"{row},{a!r},{b!r}\n" for row, (a, b) in zip(rows.tolist(), values.tolist(), strict=True)
            ]
            (self.folder / f"{agent}.csv").write_text("row,a,b\n" + "".join(lines))
        self.row += ROWS

    def child(self, arguments: list[str], **how: object) -> Child:
        """A command of veilnet in a process of its own."""
        return Child(arguments, self.log, **how)  # type: ignore[arg-type]

    def start_centre(self, **how: object) -> Child:
        """The centre, from its store."""
        self.centre = self.child(
            ["center", str(self.folder / "plan/center.json"), "--broker", self.broker.address, "--cert",
             str(self.keys.centre.folder), "--out", str(self.folder / "estimates.sqlite"), "--wait", self.wait,
             "--home-assistant"],
            **how,
        )  # fmt: skip
        return self.centre

    def start_agent(self, agent: str, **how: object) -> Child:
        """An agent, which ends when the centre has all it read."""
        store = self.folder / f"{agent}.sqlite"
        begin = [] if store.exists() else ["--begin"]
        return self.child(
            ["agent", str(self.folder / f"plan/{agent}.json"), "--broker", self.broker.address, "--cert",
             str(self.keys.agent(agent).folder), "--store", str(store), "--in", str(self.folder / f"{agent}.csv"),
             *begin],
            draws=self.folder / f"{agent}.draws", **how,
        )  # fmt: skip

    def close(self) -> None:
        """End everything that was started."""
        if self.centre is not None:
            self.centre.end(signal.SIGTERM)
        self.broker.stop()

    # --- what is found after a round

    def in_words(self) -> str:
        """What came of all rounds."""
        return f"{self.row} epochs"

    def troubles(self) -> list[str]:
        """What is wrong with what the stores hold after all agents came to their end."""
        found = []
        told: dict[int, dict[str, bytes | None]] = {}
        with ExitStack() as opened:

            def stored(name: str) -> sqlite3.Connection:
                return opened.enter_context(closing(sqlite3.connect(self.folder / f"{name}.sqlite")))

            centre = stored("estimates")
            for agent in self.agents:
                seal = agent_seal(self.keys.agent(agent), agent)
                rows = centre.execute(
                    'SELECT m.sequence, m.epoch, p.plan, m.store, m.after, m.private, m."values" FROM messages m '
                    "JOIN agents a ON a.number = m.agent JOIN plans p ON p.number = m.plan WHERE a.agent = ? "
                    "ORDER BY m.sequence",
                    (agent,),
                ).fetchall()
                found += self.compare(agent, seal, stored(agent), rows)
                for _, epoch, _, _, _, _, values in rows:
                    told.setdefault(epoch, {})[agent] = values
                drawn = Counter((self.folder / f"{agent}.draws").read_text().split())
                found += ["redrawn"] * any(count > 1 for count in drawn.values())
                found += ["silent"] * (sorted(epoch for _, epoch, *_ in rows) != list(range(1, self.row + 1)))
            found += self.estimates(centre, told)
            found += self.retained(centre)
        return found

    def retained(self, centre: sqlite3.Connection) -> list[str]:
        """What somebody finds who begins to read now, as soon as the centre is there again."""
        heard: dict[str, bytes] = {}
        described = discovery_topic(TOPICS)
        client = make_client(reader_identity(self.readers[0]), self.keys.reader(self.readers[0]))
        client.on_connect = lambda *_: client.subscribe([(TOPICS.estimates, 1), (described, 1)])
        client.on_message = lambda _client, _data, message: heard.update({message.topic: message.payload})
        client.begin((self.broker.host, self.broker.port))
        deadline = time.monotonic() + PATIENCE
        try:
            while time.monotonic() < deadline:
                newest = centre.execute(
                    "SELECT epoch, revision FROM latest ORDER BY epoch DESC LIMIT 1"
                ).fetchone()
                said = json.loads(heard.get(TOPICS.estimates, b"{}"))
                if described in heard and (said.get("epoch"), said.get("revision")) == newest:
                    return []
                time.sleep(0.01)
            return ["retained"]
        finally:
            client.finish()

    def compare(self, agent: str, seal: Seal, store: sqlite3.Connection, rows: list[tuple]) -> list[str]:
        """The chain of hashes that the agent kept, computed again from what the centre has, and audited."""
        kept = store.execute(
            "SELECT sequence, hash FROM releases WHERE hash IS NOT NULL ORDER BY sequence"
        ).fetchall()
        waiting = {row[0] for row in store.execute("SELECT sequence FROM outbox")}
        there = {row[0]: row for row in rows}
        found = ["doubled"] * (len(there) != len(rows))
        found += ["lost"] * any(sequence not in there and sequence not in waiting for sequence, _ in kept)
        found += ["changed"] * (not set(there) <= {sequence for sequence, _ in kept})
        found += ["chain"] * bool(audit_releases(self.folder / f"{agent}.sqlite", agent).problems)
        identity, budget = store.execute("SELECT store, budget FROM about").fetchone()
        head = _hash(["veilnet-releases", agent, identity.hex(), budget])
        for sequence, expected in kept:
            if sequence not in there:
                return found
            _, epoch, plan, number, after, private, values = there[sequence]
            message = Message(plan[:16], agent, number, sequence, epoch, after, bool(private), values)
            told = hashlib.sha256(seal.message(message)).hexdigest()
            head = _hash([sequence, epoch, plan[:16], values is not None, told], head)
            if head != expected:
                return [*found, "changed"]
        return found

    def estimates(self, centre: sqlite3.Connection, told: dict[int, dict[str, bytes | None]]) -> list[str]:
        fusion = vn.Fusion.load(self.folder / "plan/center.json", gate=1e-6)
        for epoch, public in centre.execute("SELECT epoch, public FROM latest ORDER BY epoch"):
            sent = {a: np.frombuffer(v) for a, v in told.get(epoch, {}).items() if v is not None}
            if np.array(json.loads(public)).tobytes() != fusion.estimate(sent).public.tobytes():
                return ["estimate"]
        return []


def _hash(entry: list[object], before: bytes = b"") -> bytes:
    return hashlib.sha256(before + json.dumps(entry, separators=(",", ":")).encode()).digest()


def rehearse(net: Network) -> dict[str, list[Line]]:
    """The lines that an agent and a centre execute in a round, in the order of their files."""
    net.readings()
    files = {who: net.folder / f"{who}.lines" for who in ("agent", "centre")}
    centre = net.start_centre(lines_to=files["centre"])
    children = [net.start_agent(agent, **({} if number else {"lines_to": files["agent"]}))
                for number, agent in enumerate(net.agents)]  # fmt: skip
    for child in children:
        child.wait()
    time.sleep(0.5)
    centre.end(signal.SIGTERM)
    net.centre = None
    return {who: [tuple(line) for line in json.loads(path.read_text())] for who, path in files.items()}


def walk(net: Network, who: str, at: str, line: Line) -> tuple[bool, list[str]]:
    """(whether it was killed, troubles) of one round, in which ``who`` is killed while ``at`` is at a line."""
    net.readings()
    net.disturbed = who != "agent"
    victim = net.broker.pid if who == "broker" else 0
    how: dict[str, object] = {"line": line, "victim": victim}
    before = net.broker.pid
    try:
        if at == "centre" or net.centre is None or net.centre.poll() is not None:
            if net.centre is not None:
                net.centre.end(signal.SIGTERM)
            net.start_centre(**(how if at == "centre" else {}))
        running = {agent: net.start_agent(agent, **(how if at == "agent" and agent == "kitchen" else {}))
                   for agent in net.agents}  # fmt: skip
        hit = False
        deadline = time.monotonic() + PATIENCE
        while running or net.centre is None or net.centre.poll() is not None:
            if time.monotonic() > deadline:
                raise TimeoutError
            for agent, child in list(running.items()):
                code = child.poll()
                if code is None:
                    continue
                del running[agent]
                if code == -signal.SIGKILL:
                    hit = True
                    running[agent] = net.start_agent(agent)  # as its owner would: with the readings it had
            if net.centre is not None and net.centre.poll() is not None:
                hit = hit or net.centre.poll() == -signal.SIGKILL
                net.start_centre()
            if who == "broker" and not _runs(before):
                hit, before = True, -1
                net.broker.kill()
                net.broker.start()
            time.sleep(0.005)
    except TimeoutError:
        for child in running.values():
            child.end(signal.SIGKILL)
        return True, ["stuck"]
    return hit, net.troubles()


def _runs(pid: int) -> bool:
    if pid < 0:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


KINDS = (("agent", "agent"), ("centre", "centre"), ("broker", "agent"), ("broker", "centre"))


def main(kind: type[Network] = Network) -> None:
    """Walk, and say what was found."""
    words = sys.modules[kind.__module__].__doc__
    parser = argparse.ArgumentParser(description=words, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    kind.load()
    rng = random.Random(options.seed)
    scores = []
    with (
        tempfile.TemporaryDirectory(prefix="veilnet-kills-") as folder,
        closing(kind(Path(folder))) as net,
    ):
        lines = rehearse(net)
        for place, (who, at) in enumerate(KINDS):
            score = Score(f"{who} killed" + ("" if who == at else f", with the {at} at a line"))
            wanted = options.kills // len(KINDS) + (place < options.kills % len(KINDS))
            for line in spread(lines[at], wanted, rng):
                if score.hit >= wanted:
                    break
                score.tried += 1
                hit, troubles = walk(net, who, at, line)
                score.hit += hit
                score.recovered += hit and not troubles
                if not options.json and score.tried % 25 == 0:
                    sys.stderr.write(f"{score.what}: {score.hit} of {wanted}\n")
                if troubles:
                    score.found.update(set(troubles))
                    sys.stderr.write(f"{score.what} {line}: {', '.join(sorted(set(troubles)))}\n")
                    sys.stderr.write(net.log.read_text()[-3000:])
            scores.append(score)
        came = net.in_words()
    if options.json:
        print(json.dumps([{**vars(score), "found": dict(score.found)} for score in scores]))
        return
    print(came)
    print(f"{len(lines['agent'])} lines of an agent's life and {len(lines['centre'])} of a centre's")
    print("| killed | kills | recovered whole | found |\n|---|---|---|---|")
    for score in scores:
        found = ", ".join(f"{count} {what}" for what, count in score.found.items()) or "nothing"
        print(f"| {score.what} | {score.hit} | {score.recovered} | {found} |")


def spread(lines: list[Line], wanted: int, rng: random.Random) -> Iterator[Line]:
    """Lines from the first to the last, evenly; then at random, for those that were not reached again."""
    for place in range(min(wanted, len(lines))):
        yield lines[place * len(lines) // min(wanted, len(lines))]
    for _ in range(4 * wanted):
        yield rng.choice(lines)


if __name__ == "__main__":
    main()
