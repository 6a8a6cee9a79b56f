"""What the centre does not take: refused, counted, never quoted, and the centre goes on.

Ten thousand messages are mutated, replayed and forged, from a fixed seed. Oracle: the store before and after.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from helpers.live_networks import TOPICS, Wired, house_plan, house_readings
from veilnet.live.estimating import StreamEstimator
from veilnet.live.intake import REASONS
from veilnet.live.keys import make_keys
from veilnet.live.messages import MOST_BYTES, Malformed, Message, Receipt, Seal, as_ranges
from veilnet.live.receiving import Receiver
from veilnet.live.seals import make_seals

EPOCHS = 4
FUZZED = 10_000


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wired]:
    made = Wired(tmp_path, house_plan())
    _, readings = house_readings(made.plan, EPOCHS)
    for agent, own in readings.items():
        made.agents[agent].take(range(1, EPOCHS + 1), own)
    yield made
    made.close()


def content(wired: Wired) -> list[list[tuple[object, ...]]]:
    with closing(sqlite3.connect(wired.folder / "estimates.sqlite")) as database:
        return [
            database.execute(f"SELECT * FROM {table}").fetchall()
            for table in ("messages", "estimates", "plans")
        ]


def first(wired: Wired, agent: str = "kitchen") -> Message:
    return wired.seals[agent].open_message(wired.outbox(agent)[0])


def refused(wired: Wired, agent: str, payload: bytes) -> dict[tuple[str, str], int]:
    """The counts after something was handed over that must not change anything else."""
    before = content(wired)
    taken = wired.centre.take([(TOPICS.messages(agent), payload)], wired.clock)
    assert (taken.new, taken.refused) == (0, 1)
    assert content(wired) == before
    return dict(wired.centre.store.counts)


def changed(message: Message, **changes: object) -> Message:
    return msgspec.structs.replace(message, **changes)


def test_strangers_impostors_and_forgers_are_refused(wired: Wired) -> None:
    payload = wired.outbox("kitchen")[0]
    assert refused(wired, "cellar", payload) == {("", "stranger"): 1}
    assert refused(wired, "hall", payload)["hall", "seal"] == 1
    as_hall = wired.seals["hall"].message(first(wired))
    assert refused(wired, "hall", as_hall)["hall", "impostor"] == 1
    assert refused(wired, "kitchen", Seal(bytes(32)).message(first(wired)))["kitchen", "seal"] == 1
    assert refused(wired, "kitchen", b"")["kitchen", "malformed"] == 1
    assert refused(wired, "kitchen", bytes(MOST_BYTES + 1))["kitchen", "oversized"] == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"plan": "0123456789abcdef"}, "plan"),
        ({"values": b"\0" * 8}, "numbers"),
        ({"values": np.array([np.nan, 0.0]).tobytes()}, "numbers"),
        ({"values": np.array([np.inf, 0.0]).tobytes()}, "numbers"),
        ({"values": np.array([0.0, -1e101]).tobytes()}, "numbers"),
        ({"sequence": 0}, "malformed"),
        ({"sequence": -1}, "malformed"),
        ({"epoch": 2**63}, "malformed"),
        ({"after": 5}, "malformed"),
        ({"store": b"short"}, "malformed"),
    ],
)
def test_what_a_dishonest_agent_seals_is_refused(
    wired: Wired, changes: dict[str, object], reason: str
) -> None:
    assert refused(wired, "kitchen", wired.seals["kitchen"].message(changed(first(wired), **changes))) == {
        ("kitchen", reason): 1
    }


def test_an_agent_is_told_what_will_never_be_taken_and_keeps_what_may_be(wired: Wired) -> None:
    seal, message = wired.seals["kitchen"], first(wired)
    taken = wired.centre.take(
        [
            (TOPICS.messages("kitchen"), seal.message(changed(message, values=b"\0" * 8))),
            (TOPICS.messages("kitchen"), seal.message(changed(message, plan="new plan", sequence=2))),
        ]
    )
    assert taken.receipts == [("kitchen", Receipt(message.store, [], [(message.sequence, "numbers")]))]


def test_a_second_message_for_an_epoch_is_a_conflict_and_a_replay_changes_nothing(wired: Wired) -> None:
    assert wired.hand_over(settle=False).new == EPOCHS * len(wired.agents)
    before = content(wired)
    again = wired.hand_over(settle=False)
    assert (again.new, again.duplicates, again.estimates) == (0, EPOCHS * len(wired.agents), [])
    assert content(wired) == before
    assert dict(again.receipts)["hall"].kept == [(1, EPOCHS)]
    message = first(wired)
    assert message.values is not None
    for changes in (
        {"sequence": 99},
        {"values": message.values[::-1]},
        {"store": b"another."},
        {"values": None},
    ):
        payload = wired.seals["kitchen"].message(changed(message, **changes))
        assert refused(wired, "kitchen", payload)["kitchen", "conflict"]


def test_ten_thousand_fuzzed_messages_change_nothing(wired: Wired) -> None:
    rng = np.random.default_rng(20)
    genuine = [(agent, payload) for agent in wired.agents for payload in wired.outbox(agent)]
    wired.hand_over(settle=False)
    before = content(wired)
    refusals = duplicates = 0
    for start in range(0, FUZZED, 500):
        batch = []
        for _ in range(min(500, FUZZED - start)):
            agent, payload = genuine[rng.integers(len(genuine))]
            batch.append((topic_of(agent, wired, rng), mutated(payload, genuine, rng)))
        taken = wired.centre.take(batch, wired.clock)
        assert taken.new == 0
        refusals += taken.refused
        duplicates += taken.duplicates
    assert refusals + duplicates == FUZZED
    assert duplicates < FUZZED / 4  # the others really were changed
    assert content(wired) == before
    counts = wired.centre.store.counts
    assert sum(n for (_, reason), n in counts.items() if reason in REASONS) == refusals
    assert {reason for _, reason in counts} >= {"stranger", "seal", "malformed", "oversized", "duplicate"}


def topic_of(agent: str, wired: Wired, rng: np.random.Generator) -> str:
    kind = rng.integers(10)
    if kind == 0:
        return TOPICS.messages(str(rng.choice(list(wired.agents))))
    if kind == 1:
        return str(
            rng.choice(
                ["", "veilnet/messages/nobody", "veilnet/messages/", "#", "veilnet/acks/hall", "a/b/c"]
            )
        )
    return TOPICS.messages(agent)


def mutated(payload: bytes, genuine: list[tuple[str, bytes]], rng: np.random.Generator) -> bytes:
    kind = rng.integers(8)
    if kind == 0:
        return payload  # a replay
    if kind == 1:
        return payload[: rng.integers(len(payload))]
    if kind == 2:
        return payload + rng.bytes(int(rng.integers(1, 40)))
    if kind == 3:
        return rng.bytes(int(rng.integers(0, 200)))
    if kind == 4:
        other = genuine[rng.integers(len(genuine))][1]
        cut = int(rng.integers(1, min(len(payload), len(other))))
        return payload[:cut] + other[cut:] if other != payload else payload[::-1]
    if kind == 5 and rng.integers(20) == 0:
        return bytes(MOST_BYTES + 1)
    changed = bytearray(payload)
    for _ in range(int(rng.integers(1, 4))):
        changed[rng.integers(len(changed))] ^= 1 << int(rng.integers(8))
    return bytes(changed) if bytes(changed) != payload else payload[:-1]


def test_nonsense_that_is_sealed_never_ends_the_centre(wired: Wired) -> None:
    rng = np.random.default_rng(3)
    seal = wired.seals["kitchen"]
    body = wired.outbox("kitchen")[0][:-16]
    for _ in range(400):
        changed = bytearray(body)
        for _ in range(int(rng.integers(1, 6))):
            changed[rng.integers(len(changed))] = int(rng.integers(256))
        payload = bytes(changed) + seal._tag(bytes(changed), b"veilnet message")
        wired.centre.take([(TOPICS.messages("kitchen"), payload)], wired.clock)
    wired.clock += 1000
    wired.centre.take([], wired.clock)
    with pytest.raises(Malformed):
        seal.open_receipt(wired.outbox("kitchen")[0])


def test_numbers_of_any_size_and_epochs_of_any_distance_end_nothing(tmp_path: Path) -> None:
    for stream in (False, True):
        (tmp_path / str(stream)).mkdir()
        wired = Wired(tmp_path / str(stream), house_plan(stream=stream))
        seal, sent = wired.seals["kitchen"], wired.plan.sanitizers["kitchen"].sent
        told = zip((2**61, 7, 3, 2**40, 8), (1e99, -1e99, 1e50, 5e-324, 1e20), strict=True)
        for sequence, (epoch, size) in enumerate(told, 1):
            values = np.full(sent, size).tobytes()
            message = Message(wired.id[:16], "kitchen", bytes(8), sequence, epoch, 0, True, values)
            taken = wired.centre.take([(TOPICS.messages("kitchen"), seal.message(message))], wired.clock)
            assert taken.new == 1
            wired.clock += 2 * wired.wait
            wired.centre.take([], wired.clock)
        wired.start_centre()
        _, readings = house_readings(wired.plan, 2)
        for agent, own in readings.items():
            if agent != "kitchen":
                wired.agents[agent].take([9, 10], own)
        wired.hand_over()
        wired.clock += 2 * wired.wait
        wired.centre.take([], wired.clock)
        with closing(sqlite3.connect(wired.folder / "estimates.sqlite")) as database:
            estimated = {row[0] for row in database.execute("SELECT epoch FROM estimates")}
        wired.close()
        assert estimated >= {9, 10}


def test_receipts_are_sealed_too() -> None:
    seal = Seal(bytes(range(32)))
    receipt = Receipt(bytes(8), [(1, 3), (7, 7)], [(4, "numbers")])
    payload = seal.receipt(receipt)
    assert seal.open_receipt(payload) == receipt
    for place in range(len(payload)):
        forged = bytearray(payload)
        forged[place] ^= 1
        with pytest.raises(Malformed):
            seal.open_receipt(bytes(forged))
    with pytest.raises(Malformed):
        Seal(bytes(32)).open_receipt(payload)


def test_an_agent_of_many_stores_does_not_fill_the_centre(
    wired: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Receipts are gathered by agent and store; those of one agent leave together."""
    keys = make_keys(wired.folder / "keys", ["kitchen"]).keys
    make_seals(keys, ["kitchen"])
    receiver = Receiver(wired.centre, wired.seals, TOPICS, keys.centre, ("127.0.0.1", 1), say=lambda _: None)
    published: list[str] = []

    def publish(topic: str, *_: object, **__: object) -> SimpleNamespace:
        published.append(topic)
        return SimpleNamespace(mid=0)

    monkeypatch.setattr(receiver._client, "publish", publish)
    receiver.connected = receiver._greeted = True
    receiver._leading._safe_until = math.inf
    message = first(wired)
    for k in range(50):
        payload = wired.seals["kitchen"].message(changed(message, store=k.to_bytes(8, "big")))
        receiver.arrived.append((TOPICS.messages("kitchen"), payload))
    receiver._work()
    assert not receiver._receipts
    assert published.count(TOPICS.acks("kitchen")) == 50


@pytest.mark.parametrize("stray", [1, 10**9])
def test_one_agent_with_a_wrong_clock_does_not_end_a_stream(tmp_path: Path, stray: int) -> None:
    """Whether it comes before all others or in between, and over a restart: the rows are where most agents are."""
    wired = Wired(tmp_path, house_plan(stream=True))
    sent = wired.plan.sanitizers["kitchen"].sent
    _, readings = house_readings(wired.plan, 4)
    base, told = 2_000_000, Message(wired.id[:16], "kitchen", bytes(8), 1, stray)
    for sequence, epoch in enumerate((stray, stray + 7), start=1):
        values = np.zeros(sent).tobytes()
        payload = wired.seals["kitchen"].message(
            changed(told, sequence=sequence, epoch=epoch, values=values, after=epoch - 1)
        )
        wired.centre.take([(TOPICS.messages("kitchen"), payload)], wired.clock)
        wired.clock += 2 * wired.wait
        wired.centre.take([], wired.clock)
        for step in (1, 2):
            place = 2 * (sequence - 1) + step
            for agent, own in readings.items():
                if agent != "kitchen":
                    wired.agents[agent].take([base + place], own[place - 1 : place])
            wired.hand_over()
            wired.clock += 2 * wired.wait
            wired.centre.take([], wired.clock)
            wired.start_centre()
    with closing(sqlite3.connect(wired.folder / "estimates.sqlite")) as database:
        found = {row[0] for row in database.execute("SELECT epoch FROM estimates")}
    wired.close()
    assert found >= set(range(base + 1, base + 5))


def test_what_an_agent_says_of_long_ago_takes_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message may say that every row before was missed: only those that can still be changed are looked at."""
    wired = Wired(tmp_path, house_plan(stream=True), quorum=1)
    sent = wired.plan.sanitizers["kitchen"].sent
    told = Message(wired.id[:16], "kitchen", bytes(8), 1, 1, 0, True, np.zeros(sent).tobytes())
    looked = []
    original = StreamEstimator._note
    monkeypatch.setattr(
        StreamEstimator, "_note", lambda self, *given: (looked.append(1), original(self, *given))[1]
    )
    for sequence, (epoch, after) in enumerate([(1, 0), (400, 399), (401, 0)], start=1):
        looked.clear()
        payload = wired.seals["kitchen"].message(changed(told, sequence=sequence, epoch=epoch, after=after))
        wired.centre.take([(TOPICS.messages("kitchen"), payload)], wired.clock)
        wired.clock += 2 * wired.wait
        wired.centre.take([], wired.clock)
    wired.close()
    assert len(looked) < 100


def test_ranges() -> None:
    assert as_ranges([]) == []
    assert as_ranges([5, 1, 2, 3, 2, 9]) == [(1, 3), (5, 5), (9, 9)]
