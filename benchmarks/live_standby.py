"""Kill the centre, its standby and the broker of a live network, one after the other, while readings come.

    python benchmarks/live_standby.py [--kills 50] [--seed 0] [--json]
    python benchmarks/live_standby.py --soak 60

Two agents, two centres and a Mosquitto run in processes of their own; an epoch takes two seconds, and readings come
as time goes by. When the standby holds everything, one of the three is ended by SIGKILL at a random moment, and
started again as its owner would. --soak goes on for so many minutes: agents are killed and restarted too, plans are
replaced, and one reading of ten is left out. Where a centre is killed before its standby has the plan that was just
replaced, the standby waits until it is back ("waited"). Then it is compared what was read, what the agents kept, what
both centres hold, and what a reader heard:

    lost       acknowledged to an agent, and not in the store of the centre that leads at the end
    changed    there with other bytes than the agent kept; doubled: counted more than once
    silent     a reading of which the centre never heard, neither numbers nor that it was missed
    unlike     the standby's store holds other messages or estimates than the centre's
    twice      a reader heard the same estimate with two signatures (the same bytes may come again with a broker)
    unheard    an estimate in the store that was never published (not counted within 12 s of a killed broker, when the
               reader had no connection either)
    estimate   not the bits that Fusion gives in process for the messages of that epoch
    late       a killed centre was not replaced within two epochs: no lease of another when they were over
    stuck      something did not come to its end within two minutes
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

import live_kills
import veilnet as vn
from live_children import PATIENCE, Child
from veilnet.centre.models import mixed
from veilnet.io.agent_ledger import audit_releases
from veilnet.io.centre_files import centre_from_bytes
from veilnet.live.connecting import make_client
from veilnet.live.seals import agent_seal
from veilnet.live.topics import Topics

STEP = 2.0  # seconds
_TOPICS = Topics()


class Network(live_kills.Network):
    """Epochs are steps of time, and somebody reads estimates."""

    versions = 0

    def design(self) -> vn.Plan:
        """The plan that is run, each time another one for the same network."""
        self.versions += 1
        network = super().design().network.replace(resolution=0.1 + 0.001 * self.versions)
        return vn.design(network, step=f"{STEP:.0f}s")

    def roll_over(self, rng: random.Random) -> None:
        """Another version of the plan, whose files come in any order."""
        self.design().save(self.folder / "new", force=True)
        files = [f"{each}.json" for each in ("center", *self.agents)]
        for name in rng.sample(files, len(files)):
            (self.folder / "new" / name).replace(self.folder / "plan" / name)
            time.sleep(rng.uniform(0, STEP))

    def estimates(self, centre: sqlite3.Connection, told: dict[int, dict[str, Any]]) -> list[str]:
        """As with one plan: each agent's rows are those of the plan that it went by."""
        documents = centre.execute("SELECT number, document FROM plans").fetchall()
        path = self.folder / "plan/center.json"
        models = {number: centre_from_bytes(document, path) for number, document in documents}
        for epoch, public in centre.execute("SELECT epoch, public FROM latest ORDER BY epoch"):
            went = {agent: plan for agent, (plan, _) in told[epoch].items()}
            newest = max(went.values())
            chosen = [models[went.get(agent, newest)] for agent in models[newest].agents]
            one = all(each is chosen[0] for each in chosen)
            fusion = vn.Fusion(chosen[0] if one else mixed(chosen), gate=1e-6)
            sent = {agent: np.frombuffer(v) for agent, (_, v) in told[epoch].items() if v is not None}
            if np.array(json.loads(public)).tobytes() != fusion.estimate(sent).public.tobytes():
                return ["estimate"]
        return []


class Reader:
    """Notes what is published, and with which signatures."""

    def __init__(self, net: Network) -> None:
        self.heard: defaultdict[tuple[str, int, int], set[str]] = defaultdict(set)
        self._client = make_client("@screen", net.keys.reader("screen"))
        self._client.on_connect = lambda client, *_: client.subscribe(
            [(_TOPICS.estimates, 1), (_TOPICS.history, 1)]
        )
        self._client.on_message = self._hear
        self._client.reconnect_delay_set(1, 1)
        self._client.connect_async(net.broker.host, net.broker.port)
        self._client.loop_start()

    def _hear(self, _client: Any, _data: Any, message: Any) -> None:
        table = json.loads(message.payload)
        self.heard[table["plan"], table["epoch"], table["revision"]].add(table["signature"])

    def stop(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class Feeder:
    """Writes a reading of every agent in every epoch, but for gaps, for agents that follow their files."""

    def __init__(self, net: Network, gaps: float) -> None:
        self._net, self._ended, self._gaps = net, threading.Event(), gaps
        self.fed: Counter[str] = Counter()
        for agent in net.agents:
            (net.folder / f"{agent}.csv").write_text("time,a,b\n")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(STEP - time.time() % STEP + 0.01):
            for agent in self._net.agents:
                if self._net.rng.random() < self._gaps:
                    continue
                self.fed[agent] += 1
                a, b = self._net.rng.normal([20, 1], 1)
                with (self._net.folder / f"{agent}.csv").open("a") as file:
                    file.write(f"{time.time():.3f},{a:.6f},{b:.1f}\n")

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()


class Pair:
    """The two centres."""

    NAMES = ("centre", "standby")

    def __init__(self, net: Network) -> None:
        self._net = net
        self.running: dict[str, Child] = {}
        self._led = self.NAMES[0]
        for name in self.NAMES:
            self.start(name)
            self.until(lambda name=name: bool(self.log(name).strip()))  # type: ignore[misc]

    def start(self, name: str) -> None:
        folder = self._net.folder
        self.running[name] = Child(
            ["center", str(folder / "plan/center.json"), "--broker", self._net.broker.address, "--cert",
             str(folder / "keys" / name), "--out", str(self.store(name)), "--wait", "1s", "--quiet"],
            folder / f"{name}.log",
        )  # fmt: skip

    def store(self, name: str) -> Path:
        return self._net.folder / f"{name}.sqlite"

    def log(self, name: str) -> str:
        path = self._net.folder / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def leader(self) -> str:
        """Who leads, by the stores of those that run; who led before where they do not say."""
        leading = []
        for name in self.running:
            with closing(sqlite3.connect(self.store(name))) as store:
                if not store.execute("SELECT followed FROM about").fetchone()[0]:
                    leading.append(name)
        self._led = leading[0] if len(leading) == 1 else self._led
        return self._led

    def words(self) -> int:
        """How often a standby was named."""
        return sum(self.log(name).count("has everything, and follows") for name in self.NAMES)

    def waits(self, name: str) -> int:
        """How often a standby said that it waits for the centre, since it may lack something."""
        return self.log(name).count("waits for the centre")

    def until(self, condition: Callable[[], bool], patience: float = PATIENCE) -> float:
        """Seconds until a condition came true; centres that stopped in order are started again meanwhile."""
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > patience:
                raise TimeoutError("stuck")
            for name, child in list(self.running.items()):
                if child.poll() is not None:
                    self.start(name)
            time.sleep(0.02)
        return time.monotonic() - began

    def end(self) -> None:
        for child in self.running.values():
            child.end(signal.SIGTERM)


def main() -> None:
    """Kill, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--soak", type=float, metavar="MINUTES")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    Network.load()
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="veilnet-standby-") as folder:
        net = Network(Path(folder))
        said = play(net, options.kills, options.soak, random.Random(options.seed), found)
        if found:
            for name in Pair.NAMES:
                sys.stderr.write(f"--- {name}\n{(net.folder / f'{name}.log').read_text()[-3000:]}")
            sys.stderr.write((net.folder / "log.txt").read_text()[-1000:])
    score = {**said, "found": dict(found)}
    print(json.dumps(score) if options.json else score)
    sys.exit(1 if found else 0)


KILLS = ("leader", "follower", "broker")
SOAK = (*KILLS, "agent killed", *KILLS, "agent restarted", "plan replaced")


def play(
    net: Network, kills: int, minutes: float | None, rng: random.Random, found: Counter[str]
) -> dict[str, Any]:
    """All that happens, and what is compared after it."""
    reader, feeder, pair = Reader(net), Feeder(net, 0.1 if minutes else 0.0), Pair(net)
    agents = {agent: start_agent(net, agent) for agent in net.agents}
    done: Counter[str] = Counter()
    took: list[float] = []
    deaf: list[tuple[float, float]] = []  # when the broker was killed
    named, waited, began = 0, 0, time.monotonic()
    try:
        while time.monotonic() < began + 60 * minutes if minutes else sum(done.values()) < kills:
            pair.until(lambda: pair.words() > named)  # noqa: B023
            time.sleep(rng.uniform(0, 2 * STEP))
            kinds = SOAK if minutes else KILLS
            what = kinds[sum(done.values()) % len(kinds)]
            done[what] += 1
            if what == "plan replaced":
                net.roll_over(rng)
            elif what.startswith("agent"):
                agent = rng.choice(net.agents)
                agents[agent].end(signal.SIGKILL if what == "agent killed" else signal.SIGTERM)
                time.sleep(rng.uniform(0, 2 * STEP))
                agents[agent] = start_agent(net, agent)
            elif what == "broker":
                named = pair.words()
                net.broker.kill()
                net.broker.start()
                deaf.append((time.time() - 12, time.time() + 12))
            else:
                named, leads = pair.words(), pair.leader()
                other = "standby" if leads == "centre" else "centre"
                victim = leads if what == "leader" else other
                pair.running[victim].end(signal.SIGKILL)
                if what == "leader":
                    del pair.running[victim]
                    waits = pair.waits(other)
                    seconds = pair.until(lambda: pair.leader() == other or pair.waits(other) > waits)  # noqa: B023
                    if pair.leader() == other:
                        took.append(seconds)
                        found["late"] += seconds > 2 * STEP + 1.0
                    else:
                        waited += 1
                pair.start(victim)
        pair.until(lambda: pair.words() > named)
        feeder.stop()
        time.sleep(3 * STEP)
    except TimeoutError:
        found["stuck"] += 1
    finally:
        feeder.stop()
        for child in agents.values():
            child.end(signal.SIGTERM)
        leads = pair.leader()
        pair.end()
        time.sleep(0.5)
        reader.stop()
        net.broker.stop()
    check(net, pair, leads, feeder.fed, reader.heard, deaf, found)
    for kind in [kind for kind, count in found.items() if not count]:
        del found[kind]
    epochs = len({epoch for _, epoch, _ in reader.heard})
    return {
        "happened": dict(done), "waited": waited, "minutes": round((time.monotonic() - began) / 60, 1),
        "readings": dict(feeder.fed), "epochs": epochs, "slowest_take_over": round(max(took, default=0.0), 2),
    }  # fmt: skip


def start_agent(net: Network, agent: str) -> Child:
    """An agent that follows its file."""
    store = net.folder / f"{agent}.sqlite"
    return Child(
        ["agent", str(net.folder / f"plan/{agent}.json"), "--broker", net.broker.address, "--cert",
         str(net.keys.agent(agent).folder), "--store", str(store), "--in", str(net.folder / f"{agent}.csv"),
         "--follow", *([] if store.exists() else ["--begin"])],
        net.log,
    )  # fmt: skip


def check(
    net: Network, pair: Pair, leads: str, fed: Counter[str], heard: dict[tuple[str, int, int], set[str]],
    deaf: list[tuple[float, float]], found: Counter[str],
) -> None:  # fmt: skip
    """Compare agents, centres and the reader."""
    held: list[list[Any]] = []
    for name in (leads, "standby" if leads == "centre" else "centre"):
        with closing(sqlite3.connect(pair.store(name))) as centre:
            rows = centre.execute(
                'SELECT a.agent, m.sequence, m.epoch, p.plan, m.store, m.after, m.private, m."values" FROM messages '
                "m JOIN agents a ON a.number = m.agent JOIN plans p ON p.number = m.plan ORDER BY 1, 2"
            ).fetchall()
            made = centre.execute(
                "SELECT p.plan, e.epoch, e.revision, e.public FROM estimates e JOIN plans p ON p.number = e.plan "
                "ORDER BY 1, 2, 3"
            ).fetchall()
            held += [rows, made]
            if name == leads:
                told: dict[int, dict[str, Any]] = {}
                numbers = dict(centre.execute("SELECT plan, number FROM plans"))
                for agent, _, epoch, plan, *_, values in rows:
                    told.setdefault(epoch, {})[agent] = numbers[plan], values
                found.update(net.estimates(centre, told))
    rows, made, copied_rows, copied_made = held
    found["unlike"] += rows != copied_rows or made != copied_made
    for agent in net.agents:
        with closing(sqlite3.connect(net.folder / f"{agent}.sqlite")) as store:
            mine = [row[1:] for row in rows if row[0] == agent]
            found["silent"] += len({row[1] for row in mine}) != fed[agent]
            found.update(net.compare(agent, agent_seal(net.keys.agent(agent), agent), store, mine))
        found["chain"] += bool(audit_releases(net.folder / f"{agent}.sqlite", agent).problems)
    found["twice"] += sum(len(signatures) > 1 for signatures in heard.values())
    for plan, epoch, revision, _ in made:
        start = epoch * STEP
        near = any(first - 2 * STEP <= start <= last for first, last in deaf)
        found["unheard"] += not near and not heard.get((plan, epoch, revision))


if __name__ == "__main__":
    main()
