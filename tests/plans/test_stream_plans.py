"""Plans for streams as files: everything comes back, promises are recomputed, another stream is another network."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.stream_networks import random_stream
from veilnet.cli import run
from veilnet.plans.certificate import Promise, certify
from veilnet.plans.fingerprint import network_fingerprint, plan_fingerprint

NETWORK = random_stream(1, noise="coloured", joint=True, mean=True)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stream") / "plan"
    vn.design(NETWORK).save(folder)
    return folder


def test_a_saved_plan_comes_back_and_is_confirmed(saved: Path) -> None:
    plan, again = vn.design(NETWORK), vn.Plan.load(saved)
    assert again.privacy == plan.privacy
    assert again.kept == plan.kept
    assert again.network.is_stream
    assert all(again.sanitizers[agent].same_as(plan.sanitizers[agent]) for agent in plan.sanitizers)
    assert all(check.ok for check in vn.verify(saved, NETWORK))


def test_another_stream_is_another_network(saved: Path) -> None:
    """The same rows with other dynamics, other memory of the noise, or none."""
    assert NETWORK.dynamics is not None
    assert NETWORK.colour is not None
    slower = vn.Dynamics(0.5 * NETWORK.dynamics.transition, NETWORK.dynamics.noise, NETWORK.dynamics.mean)
    others = [
        vn.Network(
            NETWORK.observe, NETWORK.colour, NETWORK.public, NETWORK.private, dynamics=slower, offset=NETWORK.offset
        ),
        vn.Network(
            NETWORK.observe, NETWORK.sensor_noise, NETWORK.public, NETWORK.private, offset=NETWORK.offset,
            dynamics=NETWORK.dynamics,
        ),
        NETWORK.one_row,
    ]  # fmt: skip
    prints = {network_fingerprint(each) for each in (NETWORK, *others)}
    assert len(prints) == 4
    for other in others[:2]:
        checks = {check.what: check for check in vn.verify(saved, other)}
        assert not checks["network is the given one"].ok
        assert not checks["privacy of g0"].ok or not checks["utility"].ok
    with pytest.raises(vn.InvalidPlan, match="holds the plan of another network"):
        vn.design(NETWORK.one_row).save(saved)


def test_a_plan_is_known_by_its_memories() -> None:
    plan = vn.design(NETWORK)
    one = plan.sanitizers["a0"]
    assert one.memory is not None
    other = one.replace(memory=vn.Memory(0.99 * one.memory.transition, one.memory.gain))
    assert plan_fingerprint(NETWORK, plan.sanitizers) != plan_fingerprint(
        NETWORK, {**plan.sanitizers, "a0": other}
    )


def test_the_command_line_checks_designs_and_verifies_a_stream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(*words: str, code: int = 0) -> str:
        assert run(list(words)) == code
        return capsys.readouterr().out

    file, folder = str(tmp_path / "net.toml"), str(tmp_path / "plan")
    answer("init", "--stream", str(tmp_path / "house.toml"))
    assert vn.Network.load(tmp_path / "house.toml").is_stream
    NETWORK.save(file)
    checked = json.loads(answer("check", file, "--json"))
    verdict, plan = vn.check(NETWORK), vn.design(NETWORK)
    assert checked["ceiling"] == pytest.approx(dict(verdict.ceiling))
    assert checked["numbers_to_keep"] == verdict.shares.orders
    assert set(checked["ceiling_now"]) == set(NETWORK.private)
    assert "kept in memory" in answer("check", file)
    designed = json.loads(answer("design", file, "--out", folder, "--json"))
    assert designed["utility"] == 0.0
    assert designed["kept"] == plan.kept
    assert designed["privacy_now"] == pytest.approx(checked["ceiling_now"])
    assert f"keeping {sum(plan.kept.values())} in memory" in answer("design", file)
    answer("verify", folder, file)
    answer("design", file, "--power", "1", code=2)
    assert "combinations only" in answer("inspect", f"{folder}/a0.json")


def test_a_certificate_of_a_stream_is_not_that_of_a_row() -> None:
    """What a row-by-row plan promises does not hold on the stream, and is not confirmed there."""
    from veilnet.plans.certificate import Promise, certify

    network = random_stream(8, radius=0.95)
    of_row = vn.design(network.one_row)
    assert np.any([vn.privacy(network, of_row)[n] < 0.9 * p for n, p in of_row.privacy.items()])
    promise = Promise(utility=of_row.utility, privacy=of_row.privacy)
    assert not certify(network, of_row.sanitizers, promise).ok


def remembers_what_wanders() -> vn.Network:
    """x1 wanders off; since its steps have to do with x2, the agent's filter for x2 holds it and sends none of it."""
    together = [[1.0, 0.7], [0.7, 1.0]]
    return vn.Network(
        observe={"a": np.eye(2)}, noise=[1.0, 1.0], public={"u": [[0.0, 1.0]]}, private={"g": [[1.0, 0.0]]},
        dynamics=vn.Dynamics([[1.0, 0.0], [0.0, 0.5]], together),
    )  # fmt: skip


def test_a_filter_that_lets_nothing_pass_of_what_lasts_is_designed() -> None:
    """What rounding leaves of x1 in a message is not seen; a memory that begins anew would show it."""
    plan = vn.design(remembers_what_wanders())
    assert plan.utility == 0
    assert plan.privacy["g"] == np.inf
    assert plan.privacy_with_gaps["g"] == 0
    assert plan.sanitizers["a"].memory is not None
    boast = Promise(utility=0.0, privacy={"g": np.inf}, with_gaps={"g": np.inf})
    wrong = [each.what for each in certify(plan.network, plan.sanitizers, boast).findings if not each.ok]
    assert wrong == ["privacy of g with gaps"]
