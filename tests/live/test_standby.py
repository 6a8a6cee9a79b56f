"""Two centres: one certificate (the second stops), a standby that takes over, and what the lease says in between."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

import veilnet as vn
from helpers.brokers import Client, eventually, require_mosquitto
from helpers.live_networks import TOPICS, Wired, house_plan, house_readings
from helpers.said import says
from veilnet.cli._mosquitto import Broker
from veilnet.live.broker import BrokerPlan
from veilnet.live.centre import Taken
from veilnet.live.centre_store import CentreStore, CopiedRows
from veilnet.live.keys import make_keys
from veilnet.live.lease import Copies, Follow, Leading, Lease, LeaseQuestion, Word, Wording
from veilnet.live.seals import EstimateSigner, make_seals
from veilnet.live.standby import Standby

pytestmark = pytest.mark.slow
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(vn.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
LENGTH = 4.0


@pytest.mark.no_cover
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked and killed")
@pytest.mark.parametrize("kills", [3, pytest.param(12, marks=pytest.mark.long)])
def test_a_standby_takes_over_and_nothing_is_lost_or_published_twice(kills: int) -> None:
    require_mosquitto()
    command = [sys.executable, str(BENCHMARKS / "live_standby.py"), "--kills", str(kills), "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(ran.stdout)
    assert sum(found["happened"].values()) == kills
    assert found["slowest_take_over"] > 0


def test_a_second_centre_with_the_same_certificate_stops_and_says_why(tmp_path: Path) -> None:
    require_mosquitto()
    plan = house_plan()
    plan.save(tmp_path / "plan")
    agents = list(plan.sanitizers)
    keys = make_keys(tmp_path / "keys", agents, readers=["screen"]).keys
    make_seals(keys, agents, ["screen"])

    def centre(name: str) -> subprocess.Popen[str]:
        command = [
            sys.executable, "-m", "veilnet", "center", str(tmp_path / "plan/center.json"), "--broker", broker.address,
            "--cert", str(keys.centre.folder), "--out", str(tmp_path / f"{name}.sqlite"),
        ]  # fmt: skip
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)

    with Broker(keys.broker, BrokerPlan(agents, readers=["screen"])) as broker, centre("first") as first:
        with Client(broker, keys.reader("screen")) as screen:
            screen.subscribe(TOPICS.status)
            assert eventually(lambda: (TOPICS.status, b"online") in screen.received)
            with centre("second") as second:
                words = second.communicate(timeout=120)[1]
            assert second.returncode not in (0, None)
            says(words, "another centre", "this certificate", "live keys --standby")
            assert eventually(lambda: screen.received[-1] == (TOPICS.status, b"online"))
        assert first.poll() is None
        first.terminate()
        first.communicate(timeout=120)
        assert first.returncode == 0


class Table:
    """A centre's lease without a broker: what it says comes back to it, and to those whom the test lets hear it."""

    def __init__(self, store: CentreStore, expected: Lease | None = None) -> None:
        self.said: list[Word] = []
        self.told: list[str] = []
        self.leading = Leading(store, "@centre", LENGTH, self._say, self.told.append, expected)

    def _say(self, word: Word) -> int:
        self.said.append(word)
        return len(self.said)

    def back(self, now: float) -> None:
        """The broker hands on what was said, in order."""
        said, self.said = self.said, []
        for word in said:
            self.leading.hear(word, now)

    def begin(self, now: float = 0.0) -> None:
        """Connected, asked, claimed and heard."""
        self.leading.begin()
        self.back(now)
        self.back(now)


@pytest.fixture
def store(tmp_path: Path):
    with CentreStore(tmp_path / "estimates.sqlite") as made:
        yield made


def other_lease(term: int, holder: bytes = b"another.") -> Lease:
    return Lease(term, holder, b"elsewhere"[:8], "@standby", b"", 0, 7, 1)


def test_a_lease_counts_for_three_quarters_of_its_time_and_only_once_it_was_heard(store: CentreStore) -> None:
    table = Table(store)
    table.leading.begin()
    assert isinstance(table.said[0], LeaseQuestion)
    table.back(0.0)
    assert not table.leading.holds(0.0)  # claimed, and not heard yet
    table.back(0.5)
    assert table.leading.holds(0.7 * LENGTH)
    assert not table.leading.holds(0.8 * LENGTH)
    table.leading.tick(0.7 * LENGTH)
    table.back(0.75 * LENGTH)
    assert table.leading.holds(1.4 * LENGTH)  # from when it was said, not from when it was heard
    assert not table.leading.holds(1.5 * LENGTH)


@pytest.mark.parametrize("retained", [True, False])
def test_a_lease_of_a_store_goes_on_and_that_of_another_ends_this_centre(
    store: CentreStore, retained: bool
) -> None:
    table = Table(store)
    if retained:
        table.leading.begin()
        table.leading.hear(other_lease(3, store.id), 0.0)  # of this store, before a restart
        table.back(0.0)
        table.back(0.0)
        assert table.leading.holds(0.1)
        assert table.leading._term == 4
    else:
        table.begin()
    table.leading.hear(
        other_lease(2 if retained else 1), 0.2
    )  # an earlier term, or the second claim of this one
    table.back(0.2)
    assert table.leading.holds(0.3)
    table.leading.hear(other_lease(9), 0.4)
    assert not table.leading.holds(0.4)
    says(table.leading.lost, "@standby", "term 9", "epoch 7", "stops")


def test_of_two_claims_of_a_term_the_first_that_the_broker_hands_on_counts(store: CentreStore) -> None:
    table = Table(store)
    table.leading.begin()
    table.back(0.0)  # asked, and claims now
    claim = table.said[-1]
    assert isinstance(claim, Lease)
    table.leading.hear(other_lease(claim.term), 0.1)
    table.back(0.2)
    assert table.leading.lost


def test_a_batch_is_seen_when_the_standby_that_is_named_has_it(store: CentreStore) -> None:
    table = Table(store)
    table.begin()

    def commit(now: float) -> Taken:
        taken = Taken()
        with store.batch:
            pass
        table.leading.hold(taken, now)
        return taken

    alone = commit(0.1)
    assert list(table.leading.released(0.1)) == [alone]
    table.leading.hear(Follow(b"standby.", 0), 0.2)  # lacks the batch
    copies = [word for word in table.said if isinstance(word, Copies)]
    assert [(each.batch, each.whole) for each in copies] == [(1, True)]
    table.leading.hear(Follow(b"standby.", 1), 0.3)
    assert any(isinstance(word, Lease) and word.follower == b"standby." for word in table.said)
    table.back(0.3)
    waits = commit(0.4)
    assert list(table.leading.released(0.4)) == []
    table.leading.hear(Follow(b"standby.", 2), 0.5)
    assert list(table.leading.released(0.5)) == [waits]
    waits = commit(0.6)
    table.leading.tick(
        0.7 + LENGTH
    )  # it does not answer: first it is named no more, then its word is not needed
    assert list(table.leading.released(0.7 + LENGTH)) == []
    table.back(0.7 + LENGTH)
    assert list(table.leading.released(0.8 + LENGTH)) == [waits]


@pytest.mark.parametrize("still_named", [True, False])
def test_a_standby_takes_over_only_where_the_lease_still_names_it(
    store: CentreStore, still_named: bool
) -> None:
    """A centre that was only paused goes on without its standby, and acknowledges what that one lacks."""
    named = replace(other_lease(3), follower=b"standby.")
    table = Table(store, expected=named)
    table.leading.begin()
    table.leading.hear(replace(named, count=9, follower=named.follower if still_named else b""), 0.0)
    table.back(0.0)
    table.back(0.0)
    assert table.leading.holds(0.1) == still_named
    assert bool(table.leading.lost) == (not still_named)


def test_a_centre_that_went_on_alone_before_the_claim_stays_the_one(store: CentreStore) -> None:
    """Between question and claim it no longer named the standby, and may have acknowledged what that one lacks."""
    named = replace(other_lease(3), follower=b"standby.")
    alone = replace(named, count=9, follower=b"")
    table = Table(store, expected=named)
    table.leading.begin()
    table.leading.hear(named, 0.0)
    table.back(0.0)
    claim = table.said.pop()
    table.leading.hear(alone, 0.1)
    table.leading.hear(claim, 0.1)
    assert not table.leading.holds(0.2)
    says(table.leading.lost, "another centre", "term 3")
    assert table.said == [alone]  # what is retained


def test_a_renewal_of_the_connection_before_says_nothing_of_this_one(store: CentreStore) -> None:
    """It is retained, and may name a standby that lacks what was committed since."""
    table = Table(store)
    table.begin()
    table.leading.tick(0.3 * LENGTH)
    renewal = table.said[-1]  # the connection ends before it comes back
    assert isinstance(renewal, Lease)
    table.said.clear()
    table.leading.end()
    table.leading.begin()
    table.leading.hear(renewal, 0.4 * LENGTH)
    assert not table.leading.holds(0.4 * LENGTH)
    table.back(0.4 * LENGTH)
    table.back(0.4 * LENGTH)
    assert table.leading.holds(0.5 * LENGTH)


def test_words_of_centres_are_signed_for_this_network(tmp_path: Path) -> None:
    keys = make_keys(tmp_path / "keys", ["a"]).keys
    make_seals(keys, ["a"])
    wording = Wording(EstimateSigner(keys.centre, TOPICS), TOPICS)
    payload = wording.said(other_lease(1)).payload
    assert isinstance(payload, bytes)
    assert wording.read(payload) == other_lease(1)
    for place in range(len(payload)):
        forged = bytearray(payload)
        forged[place] ^= 1
        assert wording.read(bytes(forged)) is None
    elsewhere = type(TOPICS)("elsewhere")
    assert Wording(EstimateSigner(keys.centre, elsewhere), elsewhere).read(payload) is None


def test_a_copy_of_a_store_has_its_rows_and_estimates_by_the_same_bits(tmp_path: Path) -> None:
    wired = Wired(tmp_path, house_plan(), wait=1.0)
    _, readings = house_readings(wired.plan, 5)
    for epoch in range(1, 6):
        for agent, own in readings.items():
            wired.agents[agent].take([epoch], own[epoch - 1 : epoch])
        wired.hand_over(*list(readings)[: 1 + epoch % 5])
        wired.clock += 2.0
        wired.hand_over()
    store = wired.centre.store
    with CentreStore(tmp_path / "copy.sqlite") as copy:
        rows = store.since(0)
        assert copy.copy_in(rows, whole=True) == wired.id  # a plan that is not there, and nothing is written
        copy.take_up(wired.id, list(readings), wired.document)
        copy.follow(0)
        nobody = [("nobody", *row[1:]) for row in rows.messages[:1]]
        with pytest.raises(KeyError):
            copy.copy_in(type(rows)(rows.batch, nobody, []), whole=True)
        assert copy.last_batch == 0  # nor is anything promised that was not written
        half = type(rows)(rows.batch, rows.messages[:7], [])
        assert copy.copy_in(half, whole=False) == ""
        assert copy.last_batch == 0
        assert copy.copy_in(rows, whole=True) == ""
        assert copy.last_batch == store.last_batch
        assert copy.newest == store.newest
    wired.close()
    tables = []
    for name in ("estimates", "copy"):
        with closing(sqlite3.connect(tmp_path / f"{name}.sqlite")) as database:
            tables.append(
                [
                    database.execute(f"SELECT {columns} FROM {table} ORDER BY 1, 2, 3").fetchall()
                    for table, columns in (
                        ("messages", 'epoch, agent, sequence, store, plan, after, private, early, "values"'),
                        ("estimates", "epoch, plan, revision, made, told, public, covariance, missing"),
                    )
                ]
            )
    assert tables[0] == tables[1]
    assert len(tables[0][0]) == 5 * len(readings)


def test_a_copy_that_names_an_unknown_plan_leaves_no_hole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes after it must not stand for all: the standby would say that it has everything."""
    wired = Wired(tmp_path, house_plan())
    _, readings = house_readings(wired.plan, 2)
    agents = list(readings)
    batches = []
    for epoch in (1, 2):
        for agent, own in readings.items():
            wired.agents[agent].take([epoch], own[epoch - 1 : epoch])
        wired.hand_over()
        batches.append(wired.centre.store.wrote)
    keys = make_keys(tmp_path / "keys", agents, standby=True).keys
    make_seals(keys, agents)
    wording, told = Wording(EstimateSigner(keys.centre, TOPICS), TOPICS), list[str]()
    with CentreStore(tmp_path / "copy.sqlite") as copy:
        copy.take_up(wired.id, agents, wired.document)
        standby = Standby(copy, TOPICS, keys.standby, ("127.0.0.1", 1), LENGTH, say=told.append)
        said = list[Word | None]()
        monkeypatch.setattr(
            standby, "publish", lambda each: said.extend(wording.read(one.payload) for one in each)
        )

        def hear(*words: Word) -> None:
            for word in words:
                standby.hear(TOPICS.lease, bytes(wording.said(word).payload))
            standby._take()
            assert not standby._decide(time.monotonic())

        def copies(rows: CopiedRows, run: bytes) -> Copies:
            return Copies(run, 3, rows.batch, True, rows.messages, rows.estimates, [])

        standby.begin()
        hear(LeaseQuestion(standby._run), replace(other_lease(3), name="@centre"))
        first = said[-1]
        assert first == Follow(standby._run, 0)
        unknown = [(row[0], "f" * 64, *row[2:]) for row in batches[0].messages]
        stranger = CopiedRows(batches[0].batch, unknown, [])
        hear(copies(stranger, first.run), copies(batches[1], first.run))
        assert copy.last_batch == 0
        says(told[-1], "plan that is not here", "center.json")
        assert first == said[-1]
        standby._again = 0.0
        hear()
        again = said[-1]
        assert isinstance(again, Follow)
        assert (again.run != first.run, again.batch) == (True, 0)
        hear(copies(wired.centre.store.since(0), again.run))
        assert copy.last_batch == wired.centre.store.last_batch == 2
        assert sorted(copy.since(0).messages) == sorted(wired.centre.store.since(0).messages)
    wired.close()


def test_what_was_taken_and_never_acknowledged_reaches_the_other_before_it_is(tmp_path: Path) -> None:
    """Taken, then ended; the standby led, and ended; the agent sends it again, and is told that it is there."""
    wired = Wired(tmp_path, house_plan(), wait=1.0)
    _, readings = house_readings(wired.plan, 1)
    first, second, *_ = agents = list(readings)
    sent = {}
    for agent in agents:
        wired.agents[agent].take([1], readings[agent])
        sent[agent] = (TOPICS.messages(agent), wired.outbox(agent)[0])
    store = wired.centre.store
    wired.centre.take([sent[first]], wired.clock)
    with CentreStore(tmp_path / "other.sqlite") as other:
        other.take_up(wired.id, agents, wired.document)
        other.follow(0)
        other.copy_in(store.since(0), whole=True)
        wired.centre.take([sent[second]], wired.clock)  # and ends, before anybody hears of it
        other.lead()
        for _ in range(2):
            with other.batch:
                pass
        store.follow(1)
        store.copy_in(other.since(1), whole=True)
        assert store.since(0).batch == store.last_batch == 3
        store.lead()
        assert [row[0] for row in store.since(3).messages] == [second]
        taken = wired.centre.take([sent[second]], wired.clock)
        assert (taken.new, taken.duplicates, len(taken.receipts)) == (0, 1, 1)
        assert [row[0] for row in store.wrote.messages] == [second]
        other.follow(3)
        other.copy_in(store.since(3), whole=True)
        assert other.last_batch == store.last_batch
        assert set(other.reports([1], 1)) == {first, second}
        assert store.since(0).messages == other.since(0).messages
    wired.close()
