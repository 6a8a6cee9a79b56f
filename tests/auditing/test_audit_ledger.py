"""The ledger: what it adds up, what it refuses, and what an auditor notices."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import direct_error, direct_information, prior_information, random_network
from veilnet.auditing import Ledger
from veilnet.auditing.ledger import _FORMAT as FORMAT
from veilnet.auditing.ledger import ledger_rows, verify_ledger
from veilnet.io._chain import open_chain
from veilnet.plans.plan import Plan, make_plan


@pytest.fixture(scope="module")
def plans() -> tuple[Plan, Plan]:
    """Two plans about the same x: one compresses, one adds noise."""
    network = random_network(0, noise="joint", prior="covariance")
    rng = np.random.default_rng(0)
    noisy = {
        agent: vn.Sanitizer(noise=rng.uniform(5.0, 50.0, len(rows)), agent=agent)
        for agent, rows in network.observe.items()
    }
    return vn.design(network), make_plan(network, noisy, "test")


def test_information_adds_up_over_plans(plans: tuple[Plan, Plan], tmp_path: Path) -> None:
    one, other = plans
    network = one.network
    ledger = Ledger.create(tmp_path / "l", network, -0.99)
    ledger.record(one)
    ledger.record(other, 3)
    left = ledger.record(one)
    prior = prior_information(network)
    total = 2 * direct_information(network, one.sanitizers) + 3 * direct_information(
        network, other.sanitizers
    )
    total = total - 4 * prior
    raw = direct_information(network, {})
    again = Ledger(tmp_path / "l", network)
    assert again.count == 5
    assert again.head == ledger.head
    for name, rows in network.private.items():
        truth = direct_error(total, rows) / direct_error(raw, rows) - 1
        assert left[name] == pytest.approx(truth, rel=1e-9)
        assert again.privacy()[name] == pytest.approx(truth, rel=1e-9)


def test_the_release_that_would_cross_is_refused(plans: tuple[Plan, Plan], tmp_path: Path) -> None:
    _, noisy = plans
    limit = {"g0": 0.4 * noisy.privacy["g0"]}
    ledger = Ledger.create(tmp_path / "l", noisy.network, limit)
    allowed = int(ledger.remaining(noisy))
    assert allowed >= 2
    for done in range(allowed):
        assert ledger.remaining(noisy) == allowed - done
        assert ledger.record(noisy)["g0"] >= limit["g0"]
    head = ledger.head
    with pytest.raises(vn.Infeasible, match="g0"):
        ledger.record(noisy)
    assert Ledger(tmp_path / "l", noisy.network).head == head  # nothing was recorded
    fresh = Ledger.create(tmp_path / "m", noisy.network, limit)
    with pytest.raises(vn.Infeasible):
        fresh.record(noisy, allowed + 1)
    assert fresh.count == 0


def test_two_writers_see_each_other(plans: tuple[Plan, Plan], tmp_path: Path) -> None:
    plan, _ = plans
    one = Ledger.create(tmp_path / "l", plan.network, -0.99)
    other = Ledger(tmp_path / "l", plan.network)
    one.record(plan)
    other.record(plan)
    one.record(plan)
    assert one.count == 3
    assert verify_ledger(tmp_path / "l", plan.network, one.head, 3) == []


def test_every_change_is_noticed(plans: tuple[Plan, Plan], tmp_path: Path) -> None:
    plan, _ = plans
    path = tmp_path / "l"
    ledger = Ledger.create(path, plan.network, -0.99)
    heads = [ledger.head]
    for _ in range(4):
        ledger.record(plan)
        heads.append(ledger.head)
    sound = path.read_bytes()
    for head in (None, *heads):
        assert ledger.verify(head, 4) == []

    def problems(change: str = "", head: str | None = None, releases: int | None = None) -> str:
        path.write_bytes(sound)
        with closing(sqlite3.connect(path)) as database:
            database.executescript(change)
        return "; ".join(verify_ledger(path, plan.network, head, releases))

    altered = """UPDATE entries SET entry = replace(entry, '"releases":1', '"releases":2') WHERE place = 1"""
    removed = "DELETE FROM entries WHERE place = 2; UPDATE entries SET place = place - 1 WHERE place > 2"
    swapped = "UPDATE entries SET place = -place WHERE place < 3;"
    swapped += "UPDATE entries SET place = 3 + place WHERE place < 0"
    for change, place in (
        (altered, 1), (removed, 2), (swapped, 1), ("DELETE FROM entries WHERE place = 2", 2),
        ("DELETE FROM entries", 0), ("UPDATE entries SET entry = '[1]'", 0), ("UPDATE entries SET entry = x'00'", 0),
        ("UPDATE entries SET hash = 7 WHERE place = 4", 4), ("UPDATE entries SET place = 9 WHERE place = 4", 4),
    ):  # fmt: skip
        assert f"entry {place} " in problems(change), change
    assert "damaged" in problems("DROP TABLE entries")
    for content in (b"", sound[:-5], sound[:100], b"[1]\n"):
        path.write_bytes(content)
        assert len(verify_ledger(path, plan.network)) == 1
    # Set back to an earlier state: the chain holds, only the head that was kept tells.
    back = "DELETE FROM entries WHERE place > 2"
    assert problems(back) == ""
    for head in heads[3:]:
        assert "set back" in problems(back, head)
    assert "4 releases were made, the ledger has 2" in problems(back, heads[2], 4)
    # Begun anew and filled up again, with other entries: as long as before.
    path.unlink()
    again = Ledger.create(path, plan.network, -0.98)
    for _ in range(4):
        again.record(plan)
    assert "rewritten" in "; ".join(verify_ledger(path, plan.network, heads[4]))
    path.unlink()
    assert "no such file" in "; ".join(verify_ledger(path, plan.network, heads[4]))


def forge(path: Path, place: int, change: dict[str, object]) -> None:
    """Change one entry, and chain all anew."""
    with open_chain(path, FORMAT) as chain:
        entries = list(chain.read())
        chain._database.execute("DELETE FROM entries")
        chain.hashes.clear()
        entries[place] |= change
        for entry in entries:
            chain.append(entry)


def test_a_rewritten_chain_that_leaves_too_little_privacy(plans: tuple[Plan, Plan], tmp_path: Path) -> None:
    """Hashes are no signatures: a forger can extend the chain, but not leave too little privacy unnoticed."""
    plan, _ = plans
    path = tmp_path / "l"
    Ledger.create(path, plan.network, 0.5 * plan.privacy["g0"]).record(plan)
    forge(path, 1, {"releases": 10**6})
    assert "that has to remain" in "; ".join(verify_ledger(path, plan.network))


@pytest.mark.parametrize(
    ("line", "change"),
    [(0, {"least_privacy": None}), (0, {"least_privacy": {"nobody": 1.0}}), (0, {"network": None}),
     (1, {"releases": -5}), (1, {"releases": None}), (1, {"sent": [[1.0]]}), (1, {"sent": "none"}),
     (1, {"epoch": -1}), (1, {"epoch": None})],
)  # fmt: skip
def test_a_rewritten_chain_of_nonsense(
    plans: tuple[Plan, Plan], tmp_path: Path, line: int, change: dict[str, object]
) -> None:
    plan, _ = plans
    path = tmp_path / "l"
    Ledger.create(path, plan.network, 0.0).record(plan)
    forge(path, line, change)
    assert len(verify_ledger(path, plan.network)) == 1


def test_mistakes_are_refused(plans: tuple[Plan, Plan], tmp_path: Path) -> None:
    plan, _ = plans
    path = tmp_path / "l"
    ledger = Ledger.create(path, plan.network, {"g0": 0.0})
    with pytest.raises(vn.InvalidRequest, match="already"):
        Ledger.create(path, plan.network, 0.0)
    with pytest.raises(vn.InvalidPlan, match="another network"):
        Ledger(path, random_network(1, noise="joint", prior="covariance"))
    with pytest.raises(vn.InvalidRequest, match="parameters"):
        ledger.record(vn.design(random_network(1, parameters=3)))
    with pytest.raises(vn.InvalidRequest, match="releases"):
        ledger.record(plan, 0)
    for head in ("nonsense", "²-00", "7" * 5000 + "-00", "3-"):
        with pytest.raises(vn.InvalidRequest, match="head: "):
            ledger.verify(head)
    with pytest.raises(vn.InvalidRequest, match="least_privacy"):
        Ledger.create(tmp_path / "m", plan.network, {})
    with pytest.raises(vn.InvalidRequest, match="unknown"):
        Ledger.create(tmp_path / "m", plan.network, {"nobody": 1.0})


def test_an_audit_says_whether_it_is_whole_and_what_is_left(plans: tuple[Plan, Plan], tmp_path: Path) -> None:
    plan, _ = plans
    ledger = Ledger.create(tmp_path / "l", plan.network, -0.99)
    ledger.record(plan)
    whole, left = ledger_rows(plan, vn.LedgerCheck(ledger.path, ledger.head, 1))
    assert (whole.verdict, whole.figures["releases"], whole.figures["head"]) == ("ok", 1, ledger.head)
    assert left.found == ledger.remaining(plan)
    assert ledger_rows(plan, vn.LedgerCheck(ledger.path))[0].verdict == "warn", "a reset would go unnoticed"
    for head, releases in ((f"1-{64 * '0'}", 1), (ledger.head, 2)):
        (broken,) = ledger_rows(plan, vn.LedgerCheck(ledger.path, head, releases))
        assert (broken.verdict, broken.found) == ("fail", "not whole")
