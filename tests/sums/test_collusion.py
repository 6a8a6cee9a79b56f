"""Agents who help the centre. Oracle: the definition, colluders' readings beside the sum of the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import NOISES, random_network
from veilnet.io.template import house
from veilnet.sums import collusion
from veilnet.sums.collusion import left_by_turns, privacy_with, worst_left_out
from veilnet.sums.comparing import compared
from veilnet.sums.merging import merged


def by_definition(
    network: vn.Network, plan: vn.Plan, colluding: set[str], dropped: Collection[str] = ()
) -> dict[str, float]:
    """p_j from (y_K, the others' sum): of a network of one group of all, with joint covariances of everything."""
    own = {agent: network.blocks.rows(place) for place, agent in enumerate(network.agents)}
    rest = np.zeros((plan.sanitizers["everybody"].sent, network.N))
    added = np.zeros((len(rest), len(rest)))
    for agent, member in plan.members.items():
        if agent not in colluding and agent not in dropped:
            rest[:, own[agent]] = member.compression
            added = added + member.noise
    raw = np.concatenate([np.zeros((0, network.N)), *(np.eye(network.N)[own[agent]] for agent in colluding)])
    rows = np.concatenate([raw, rest])
    noise = rows @ network.R.matrix() @ rows.T
    noise[len(raw) :, len(raw) :] += added
    before = np.zeros((network.L, network.L)) if network.prior is None else network.prior.information
    seen = rows @ network.H
    left = np.linalg.pinv(before + seen.T @ np.linalg.pinv(noise, hermitian=True) @ seen, hermitian=True)
    error = vn.crlb(network)
    return {
        name: float(np.trace(own_rows @ left @ own_rows.T) / np.trace(own_rows @ error @ own_rows.T) - 1)
        for name, own_rows in network.private.items()
    }


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("colluding", [{"a0"}, {"a1", "a3"}, {"a0", "a1", "a2"}])
def test_what_is_left_is_what_the_definition_says(noise: str, colluding: set[str]) -> None:
    network = random_network(11, noise=noise, prior="covariance")
    verdict = vn.check(merged(network))
    halfway = {name: (each + verdict.limit[name]) / 2 for name, each in verdict.ceiling.items()}
    plan = vn.design(network, privacy=halfway, summed=True)
    found = privacy_with(plan.network, plan.sanitizers, sorted(colluding))
    assert found == pytest.approx(by_definition(network, plan, colluding), rel=1e-7, abs=1e-9)


def test_more_help_never_hides_more_and_the_worst_is_named() -> None:
    plan = vn.design(house(), summed=[["kitchen", "hall"], ["bedroom", "study", "living room"]])
    one, two = plan.collusion(1), plan.collusion(2)
    for name, most in plan.privacy.items():
        assert two[name].privacy <= one[name].privacy <= most
        assert privacy_with(plan.network, plan.sanitizers, two[name].agents)[name] == two[name].privacy
        singles = [privacy_with(plan.network, plan.sanitizers, [agent])[name] for agent in house().agents]
        assert one[name].privacy == min(singles) == plan.colluding[name]
    with pytest.raises(vn.InvalidRequest, match="expected 1 to 4 agents"):
        plan.collusion(5)


def test_the_comparison_has_shares_and_sums_and_limits_in_order() -> None:
    for each in compared(house()):
        assert each.helped is not None
        assert each.one is not None
        assert each.helped.privacy <= each.one.privacy * (
            1 + 1e-9
        )  # the same readings and less of the others
        assert each.one is not None
        assert each.two is not None
        assert each.shares <= each.sums <= each.limit
        assert each.two.privacy <= each.one.privacy <= each.sums


def test_an_audit_of_a_summed_plan_names_members_who_help() -> None:
    plan = vn.design(house(), summed=True)
    found = vn.audit(plan, only=["collusion", "baselines", "promise"])
    assert found.ok
    helpers = {tuple(row.figures["who"]) for row in found.rows if "one agent hands over" in row.what}
    assert helpers == {("living room",), ("kitchen",), ("hall",)}


def test_members_that_a_centre_leaves_out_are_by_definition_not_there() -> None:
    """Every set that it may leave out, alone and with every helper; the worst is named."""
    network = random_network(3, noise="per agent", prior="covariance", sizes=(2, 2, 2, 3, 2))
    plan = vn.design(network, summed=True)
    for helping in (0, 1):
        found = worst_left_out(plan.network, plan.sanitizers, helping)
        sets = [
            by_definition(network, plan, set(who), dropped)
            for dropped in [(), *((agent,) for agent in network.agents)]
            for who in combinations([agent for agent in network.agents if agent not in dropped], helping)
        ]
        for name, each in found.items():
            assert each.exact
            assert each.privacy == pytest.approx(min(some[name] for some in sets), rel=1e-8)
            named = by_definition(network, plan, set(each.agents), each.dropped)
            assert named[name] == pytest.approx(each.privacy, rel=1e-8)


def test_sets_that_are_too_many_to_look_at_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number is what doubles with every other member: of 40 with the usual threshold there are 2e10."""
    listed = []

    def few(some: Sequence[str], count: int) -> Iterator[tuple[str, ...]]:
        for each in combinations(some, count):
            listed.append(each)
            assert len(listed) <= collusion._MOST_SETS
            yield each

    monkeypatch.setattr(collusion, "combinations", few)
    plan = vn.design(random_network(5, noise="per agent", prior="covariance", sizes=(1,) * 12), summed=True)
    group = plan.network.members["everybody"]
    network = plan.network.replace(members={"everybody": replace(group, threshold=7)})
    monkeypatch.setattr(collusion, "privacy_with", lambda _, __, who, ___: {"g0": -len(who), "g1": -len(who)})
    found = worst_left_out(network, plan.sanitizers)
    assert {(len(each.agents), each.exact) for each in found.values()} == {(5, False)}


@pytest.mark.parametrize("noise", NOISES[:2])
def test_sums_of_an_x_that_stays_tell_more_where_members_are_missing_by_turns(noise: str) -> None:
    """By the definition: all rows stacked, P0 - P0 A'(A P0 A' + N)^-1 A P0, each row's sum with its own readings.

    Where members' noises go together, a sum that lacks one is of no use, and none may be missing.
    """
    network = random_network(4, noise=noise, prior="covariance", sizes=(2, 2, 2, 3, 2))
    plan = vn.design(network, summed=True)
    parts = [plan.members[agent].compression for agent in network.agents]
    assert network.prior is not None
    before, noises = np.linalg.inv(network.prior.information), network.R.matrix()
    raw = np.linalg.inv(network.prior.information + network.H.T @ np.linalg.solve(noises, network.H))
    for whole in (True, False):
        kinds = [None] if whole or noise == "joint" else [None, *range(network.S)]
        sums = [
            np.concatenate([part * (k != gone) for k, part in enumerate(parts)], axis=1) for gone in kinds
        ] * 3
        seen = np.concatenate([each @ network.H for each in sums])
        size = len(parts[0])
        spread = seen @ before @ seen.T
        for k, each in enumerate(sums):
            here = slice(k * size, (k + 1) * size)
            spread[here, here] += each @ noises @ each.T
        left = before - before @ seen.T @ np.linalg.solve(spread, seen @ before)
        found = left_by_turns(plan.network, plan.sanitizers, len(sums), whole=whole)
        for name, own in network.private.items():
            expected = np.trace(own @ left @ own.T) / np.trace(own @ raw @ own.T) - 1
            assert found[name] == pytest.approx(expected, rel=1e-7)
    whole, by_turns = (
        left_by_turns(plan.network, plan.sanitizers, 100, whole=each) for each in (True, False)
    )
    if noise == "joint":
        assert plan.network.members["everybody"].threshold == network.S
        assert by_turns == whole
    else:
        assert all(by_turns[name] < whole[name] for name in whole)
    assert not left_by_turns(network.replace(prior=None), plan.sanitizers, 100)
