"""The ledger: what it adds up, what it refuses, and what an auditor notices."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import direct_error, direct_information, prior_information, random_network
from veilnet.auditing import Ledger
from veilnet.auditing.ledger import verify_ledger
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
    lines = sound.splitlines(keepends=True)
    for head in (None, *heads):
        assert ledger.verify(head, 4) == []

    def problems(content: bytes, head: str | None = None, releases: int | None = None) -> str:
        path.write_bytes(content)
        return "; ".join(verify_ledger(path, plan.network, head, releases))

    changed = sound.replace(b'"releases":1', b'"releases":2', 1)
    assert "line 2" in problems(changed)
    assert "line 3" in problems(b"".join([*lines[:2], *lines[3:]]))
    assert "line 2" in problems(b"".join([lines[0], lines[2], lines[1], *lines[3:]]))
    assert "torn" in problems(sound[:-5])
    assert "empty" in problems(b"")
    assert "line 1" in problems(b"[1]\n")
    # Set back to an earlier state: the chain holds, only the head that was kept tells.
    back = b"".join(lines[:3])
    assert problems(back) == ""
    assert "reset" in problems(back, heads[4])
    assert "4 releases were made, the ledger has 2" in problems(back, heads[2], 4)
    # Begun anew and filled up again, with other entries: as long as before.
    path.unlink()
    again = Ledger.create(path, plan.network, -0.98)
    for _ in range(4):
        again.record(plan)
    assert "rewritten" in problems(path.read_bytes(), heads[4])
    path.unlink()
    assert "no such ledger" in "; ".join(verify_ledger(path, plan.network, heads[4]))


def test_a_rewritten_chain_that_leaves_too_little_privacy(plans: tuple[Plan, Plan], tmp_path: Path) -> None:
    """Hashes are no signatures: a forger can extend the chain, but not leave too little privacy unnoticed."""
    from veilnet.io._chain import _digest

    plan, _ = plans
    path = tmp_path / "l"
    Ledger.create(path, plan.network, 0.5 * plan.privacy["g0"]).record(plan)
    line = json.loads(path.read_text().splitlines()[1])
    entry = {k: v for k, v in line.items() if k not in ("hash", "previous")} | {"releases": 10**6}
    forged = {**entry, "previous": line["previous"], "hash": _digest(entry, line["previous"])}
    path.write_text(path.read_text().splitlines()[0] + "\n" + json.dumps(forged) + "\n")
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
    from veilnet.io._chain import _digest

    plan, _ = plans
    path = tmp_path / "l"
    Ledger.create(path, plan.network, 0.0).record(plan)
    lines, previous = [], ""
    for place, text in enumerate(path.read_text().splitlines()):
        entry = {k: v for k, v in json.loads(text).items() if k not in ("hash", "previous")}
        entry |= change if place == line else {}
        digest = _digest(entry, previous)
        lines.append(json.dumps({**entry, "previous": previous, "hash": digest}))
        previous = digest
    path.write_text("\n".join(lines) + "\n")
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
        with pytest.raises(vn.InvalidRequest, match="head: expected what the last audit showed"):
            ledger.verify(head)
    with pytest.raises(vn.InvalidRequest, match="least_privacy"):
        Ledger.create(tmp_path / "m", plan.network, {})
    with pytest.raises(vn.InvalidRequest, match="unknown"):
        Ledger.create(tmp_path / "m", plan.network, {"nobody": 1.0})
