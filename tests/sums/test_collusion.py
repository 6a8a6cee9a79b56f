"""Agents who help the centre. Oracle: the definition, colluders' readings beside the sum of the rest."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import NOISES, random_network
from veilnet.io.template import house
from veilnet.sums.collusion import privacy_with
from veilnet.sums.comparing import compared
from veilnet.sums.merging import merged


def by_definition(network: vn.Network, plan: vn.Plan, colluding: set[str]) -> dict[str, float]:
    """p_j from (y_K, the others' sum): of a network of one group of all, with joint covariances of everything."""
    own = {agent: network.blocks.rows(place) for place, agent in enumerate(network.agents)}
    rest = np.zeros((plan.sanitizers["everybody"].sent, network.N))
    added = np.zeros((len(rest), len(rest)))
    for agent, member in plan.members.items():
        if agent not in colluding:
            rest[:, own[agent]] = member.compression
            added = added + member.noise
    raw = np.concatenate([np.eye(network.N)[own[agent]] for agent in network.agents if agent in colluding])
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
