"""Many agents at once: the same as agent by agent and as dense formulas, and no object for any one of them."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.linalg import block_diag

import veilnet as vn
from helpers.stacked_networks import agent_by_agent, stacked_network, stacks
from veilnet._core import stacks as kernels
from veilnet._core.names import NumberedNames
from veilnet.agent import mechanisms
from veilnet.agent.mechanisms import Mechanisms
from veilnet.centre.models import same_messages
from veilnet.recheck import sums
from veilnet.recheck.route import Recheck

KINDS: dict[str, dict[str, Any]] = {
    "alike": {"counts": [(70, 4)]},
    "mixed": {"counts": [(40, 3), (1, 6), (25, 1), (30, 3)]},
    "with a prior": {"counts": [(50, 4)], "prior": vn.Prior(covariance=np.diag(np.linspace(0.5, 2.0, 6)))},
    "with a resolution": {"counts": [(50, 4)], "resolution": 0.25},
    "free": {"counts": [(2, 2)], "parameters": 4, "public": np.eye(4)[:1]},
}


def kind(name: str) -> vn.Network:
    return stacked_network(3, **KINDS[name])


def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few agents at once, so that small networks go through several parts."""
    monkeypatch.setattr(kernels, "_AT_ONCE", 7 * 4 * 6)
    monkeypatch.setattr(sums, "_AGENTS_AT_ONCE", 9)


@pytest.mark.parametrize("parts", ["at once", "in parts"])
@pytest.mark.parametrize("name", KINDS)
def test_stacks_and_agents_by_name_get_the_same_plan(
    name: str, parts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Oracle: the plan rebuilt from one Sanitizer object per agent, in a network given agent by agent."""
    expected = vn.design(alone := agent_by_agent(kind(name)))
    if parts == "in parts":
        in_small_parts(monkeypatch)
    plan = vn.design(network := kind(name))
    assert isinstance(plan.sanitizers, Mechanisms)
    assert plan.utility == pytest.approx(expected.utility, abs=1e-12)
    assert dict(plan.privacy) == pytest.approx(dict(expected.privacy), rel=1e-8)
    as_objects = {agent: plan.sanitizers[agent].replace(grid=None) for agent in network.agents}
    assert vn.privacy(alone, as_objects) == pytest.approx(dict(plan.privacy), rel=1e-8)
    for agent in network.agents:
        one, other = plan.sanitizers[agent], expected.sanitizers[agent]
        assert one.sent == other.sent
        np.testing.assert_allclose(
            one.compression.T @ one.compression,
            other.compression.T @ other.compression,
            rtol=1e-8,
            atol=1e-10,
        )
        assert one.agent == agent
        assert one.grid is not None
        assert other.grid is not None
        assert np.array_equal(one.resolution is None, other.resolution is None)


@pytest.mark.parametrize("name", KINDS)
def test_bounds_of_stacks_are_the_dense_formulas(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """P = (J0 + H'R^-1 H)^-1 and J̃ = J0 + H'C'(C R C')^-1 C H, with one block diagonal R and C for everybody."""
    in_small_parts(monkeypatch)
    network = kind(name)
    plan = vn.design(network)
    network = plan.network
    R, H = network.R.matrix(), network.H
    J0 = np.zeros((network.L, network.L)) if network.prior is None else network.prior.information
    np.testing.assert_allclose(vn.crlb(network), np.linalg.inv(J0 + H.T @ np.linalg.solve(R, H)), rtol=1e-8)
    C = block_diag(*(plan.sanitizers[agent].compression for agent in network.agents))
    left = J0 + (C @ H).T @ np.linalg.solve(C @ R @ C.T, C @ H)
    raw = J0 + H.T @ np.linalg.solve(R, H)
    U = network.U
    errors = [np.trace(U @ np.linalg.pinv(each, rcond=1e-11) @ U.T) for each in (left, raw)]
    assert errors[0] == pytest.approx(errors[1], rel=1e-8)
    for private, rows in network.private.items():
        if np.isfinite(plan.privacy[private]):
            before, after = (np.trace(rows @ np.linalg.inv(each) @ rows.T) for each in (raw, left))
            assert plan.privacy[private] == pytest.approx(after / before - 1, rel=1e-8)
        else:
            hidden = np.linalg.svd(left)[2][np.linalg.matrix_rank(left, tol=1e-9) :]
            assert np.linalg.norm(rows @ hidden.T) > 1e-3


@pytest.mark.parametrize("other", ["another H", "another noise", "another order", "another offset"])
def test_sanitizers_are_judged_by_the_network_they_are_asked_of(other: str) -> None:
    """Stacks go by places, and a network may have other agents there. Oracles: one Sanitizer object per agent, and
    the dense formula.
    """
    made_for = kind("mixed")
    sanitizers = vn.design(made_for).sanitizers
    network = stacked_network(4, **KINDS["mixed"])
    if other == "another noise":
        network = made_for.replace(noise=network.sensor_noise)
    elif other == "another order":
        turned = {agent: made_for.observe[agent] for agent in made_for.agents[::-1]}
        noise = {agent: made_for.R.block(made_for.position[agent]) for agent in turned}
        network = made_for.replace(observe=turned, noise=noise, offset=None)
    elif other == "another offset":
        network = network.replace(offset=np.arange(float(network.N)))
    C = block_diag(*(sanitizers[agent].compression for agent in network.agents))
    left = (C @ network.H).T @ np.linalg.solve(C @ network.R.matrix() @ C.T, C @ network.H)
    raw = network.H.T @ np.linalg.solve(network.R.matrix(), network.H)
    found, by_name = vn.privacy(network, sanitizers), vn.privacy(network, dict(sanitizers))
    recheck = Recheck(network, sanitizers)
    for name, rows in network.private.items():
        before, after = (np.trace(rows @ np.linalg.inv(each) @ rows.T) for each in (raw, left))
        expected = after / before - 1
        assert [found[name], by_name[name]] == pytest.approx([expected, expected], rel=1e-8)
        assert recheck.growth(rows, expected) == pytest.approx(expected, rel=1e-6)


def test_no_sanitizer_is_made_on_the_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    made: list[str] = []
    freeze = vn.Sanitizer._freeze
    monkeypatch.setattr(
        vn.Sanitizer, "_freeze", lambda self: (made.append(self.__dict__.get("agent", "")), freeze(self))[1]
    )
    network = kind("mixed")
    verdict = vn.check(network)
    plan = vn.design(network)
    str(verdict.notes()), str(plan), repr(plan), plan.notes()
    plan.save(tmp_path / "plan.npz")
    again = vn.Plan.load(tmp_path / "plan.npz")
    assert sum(again.sent.values()) == sum(plan.sent.values()) > 0
    assert made == []
    assert plan.sanitizers["agent07"] is plan.sanitizers["agent07"]
    assert set(made) <= {"agent07", ""}
    assert made


def test_names_are_numbers_until_somebody_asks() -> None:
    names = NumberedNames(120)
    assert names == tuple(f"agent{k:03d}" for k in range(1, 121))
    assert (names[0], names[-1], names[3:5]) == ("agent001", "agent120", ("agent004", "agent005"))
    assert "agent120" in names
    assert names.index("agent120") == 119
    for stranger in ("agent121", "agent000", "agent1", "agent0001", "agent٠٠١", "kitchen", "agent-01", 7):
        assert stranger not in names
        with pytest.raises(ValueError, match="is not among"):
            names.index(stranger)
    with pytest.raises(IndexError):
        names[120]
    assert hash(names) == hash(tuple(names))


def test_the_mapping_is_one() -> None:
    network = kind("mixed")
    plan = vn.design(network)
    mapping = plan.sanitizers
    assert list(mapping) == list(network.agents) == list(mapping.keys())
    assert len(mapping) == network.S == 96
    assert "agent96" in mapping
    assert "agent97" not in mapping
    assert "kitchen" not in mapping
    with pytest.raises(
        KeyError, match=r"'kitchen' is no agent of the network; its agents are 'agent01'.*96 in all"
    ):
        mapping["kitchen"]
    assert mapping.get("kitchen") is None
    changed = mapping | {"agent01": vn.Sanitizer.silent(3)}
    assert changed["agent01"].sent == 0
    assert changed["agent02"] is mapping["agent02"]
    assert dict(plan.sent) == {agent: each.sent for agent, each in mapping.items()}
    assert pickle.loads(pickle.dumps((plan.sent, plan.kept))) == (dict(plan.sent), dict(plan.kept))
    with pytest.raises(AttributeError, match="frozen"):
        mapping.network = network  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        mapping.stacks[0].compression[0, 0, 0] = 1.0  # type: ignore[attr-defined]
    again = pickle.loads(pickle.dumps(plan))
    assert all(again.sanitizers[agent].same_as(mapping[agent]) for agent in network.agents)
    with pytest.raises(ValueError, match="read-only"):
        again.sanitizers.stacks[0].compression[0, 0, 0] = 1.0


def test_grids_come_in_sending_order() -> None:
    network = kind("mixed")
    sizes = dict(zip(network.agents, network.blocks.sizes.tolist(), strict=True))
    sanitizers = {
        agent: vn.Sanitizer(np.eye(size)[:2], grid=2.0 ** -np.arange(place, place + min(size, 2)))
        for place, (agent, size) in enumerate(sizes.items())
        if place % 5
    }
    each = [
        sanitizers[agent].grid if agent in sanitizers else np.full(size, np.nan)
        for agent, size in sizes.items()
    ]
    np.testing.assert_array_equal(mechanisms.mechanisms(network, sanitizers).grid, np.concatenate(each))


def test_a_mapping_is_itself_however_few_sanitizers_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mechanisms, "_KEPT", 1)
    mapping, other = (
        vn.design(kind("free").replace(offset=start)).sanitizers for start in (None, np.ones(4))
    )
    same = mapping
    assert mapping == same
    assert mapping != other


def test_what_is_sent_is_what_the_plan_says() -> None:
    network = kind("with a resolution")
    plan = vn.design(network)
    rng = np.random.default_rng(5)
    x = rng.standard_normal(network.L)
    readings = np.round(network.observe["agent03"] @ x / 0.25) * 0.25
    sent = plan.sanitizers["agent03"].sanitize(np.tile(readings, (4000, 1)), rng=1)
    expected = plan.sanitizers["agent03"].compression @ readings
    deviation = np.std(sent, axis=0) / np.sqrt(len(sent))
    assert np.all(np.abs(np.mean(sent, axis=0) - expected) < 7 * deviation)  # 1e-11 for two numbers


def test_the_centre_estimates_the_same_from_stacks() -> None:
    """Oracle: the centre's model made from one Sanitizer object per agent; some agents silent in one row."""
    network = kind("mixed").replace(prior=vn.Prior(covariance=np.eye(6), mean=np.arange(6.0)))
    plan = vn.design(network)
    alone = replace(plan, sanitizers=dict(plan.sanitizers))
    rng = np.random.default_rng(6)
    x = rng.standard_normal(network.L)
    messages = {
        agent: plan.sanitizers[agent].compression @ rows @ x for agent, rows in network.observe.items()
    }
    one, other = vn.Fusion(plan), vn.Fusion(alone)
    for present in (messages, dict(list(messages.items())[::2])):
        found, expected = one.estimate(present), other.estimate(present)
        np.testing.assert_allclose(found.public, expected.public, rtol=1e-9)
        np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-9)
    assert same_messages(plan.messages, alone.messages)


def test_trade_offs_are_stacks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Oracles: bounds from one Sanitizer object per agent, and J̃ by dense matrices with every noise in its place."""
    in_small_parts(monkeypatch)
    network = stacked_network(2, [(4, 3), (3, 2)], parameters=4)
    ceiling = vn.check(network).ceiling
    made: list[object] = []
    freeze = vn.Sanitizer._freeze
    monkeypatch.setattr(vn.Sanitizer, "_freeze", lambda self: (made.append(self), freeze(self))[1])
    plan = vn.design(network, privacy={"g": 1.5 * ceiling["g"]}, starts=1)
    assert isinstance(plan.sanitizers, Mechanisms)
    assert made == []
    assert plan.utility < 0
    objects = dict(plan.sanitizers)
    assert vn.privacy(network, objects) == pytest.approx(dict(plan.privacy), rel=1e-8)
    C = block_diag(*(each.compression for each in objects.values()))
    noise = block_diag(*(each.noise for each in objects.values()))
    left = (C @ network.H).T @ np.linalg.solve(C @ network.R.matrix() @ C.T + noise, C @ network.H)
    raw = network.H.T @ np.linalg.solve(network.R.matrix(), network.H)
    for name, rows in network.private.items():
        before, after = (np.trace(rows @ np.linalg.inv(each) @ rows.T) for each in (raw, left))
        assert plan.privacy[name] == pytest.approx(after / before - 1, rel=1e-8)


def test_stacks_that_do_not_fit_are_refused() -> None:
    observe, noise = stacks(1, [(5, 3), (4, 2)], 4)
    more = {"public": np.ones(4), "private": {"g": np.arange(4.0)}}
    with pytest.raises(vn.InvalidNetwork, match=r"noise: expected stacks .* in their order"):
        vn.Network(observe=observe, noise=noise[::-1], **more)
    with pytest.raises(vn.InvalidNetwork, match=r"observe\[1\]: expected agent -> matrix, or a stack"):
        vn.Network(observe=[observe[0], observe[1][0]], noise=noise, **more)
    with pytest.raises(vn.InvalidNetwork, match="as many columns"):
        vn.Network(observe=[observe[0], observe[1][:, :, :3]], noise=noise, **more)
    noise[1][1] = np.ones((2, 2))
    with pytest.raises(vn.InvalidNetwork, match=r"noise of 'agent7': expected a positive definite"):
        vn.Network(observe=observe, noise=noise, **more)


def test_kernels_add_up_over_parts() -> None:
    """What lets a part of a network be worked on anywhere: the sums of parts are the sum of the whole."""
    (observe,), (noise,) = stacks(8, [(60, 4)], 5)
    roots = np.linalg.cholesky(noise)
    whole = kernels.raw_triangle(observe, roots)
    parts = kernels.joined_triangle(
        (kernels.raw_triangle(observe[k : k + 7], roots[k : k + 7]) for k in range(0, 60, 7)), 5
    )
    dense = sum(h.T @ np.linalg.solve(r, h) for h, r in zip(observe, noise, strict=True))
    for each in (whole.T @ whole, parts.T @ parts, sums.raw_sum(observe, noise)):
        np.testing.assert_allclose(each, dense, rtol=1e-10)
    compression = np.random.default_rng(2).standard_normal((60, 2, 4))
    flags = np.tile([0.0, 1.0], (60, 1))
    told = kernels.sent_triangle(observe, roots, compression, flags)
    again = sums.sent_information(observe, noise, compression, flags[:, :, None] * np.eye(2))
    dense = sum(
        (c @ h).T @ np.linalg.solve(c @ r @ c.T + np.diag([0.0, 1.0]), c @ h)
        for h, r, c in zip(observe, noise, compression, strict=True)
    )
    np.testing.assert_allclose(told.T @ told, dense, rtol=1e-9)
    np.testing.assert_allclose(again, dense, rtol=1e-9)
