"""Groups as larger agents: the merged network says the same of x, and members' parts add up to the group's message.

Oracles: dense matrices by the definition; the closed formula of the ceiling against the definition of what the centre
learns, U x̂ and nothing else; what arrives against the sum of what was sent, on the grid, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import NOISES, direct_crlb, random_network
from veilnet.io.network_schema import network_difference
from veilnet.io.template import house
from veilnet.sums.merging import apart, merged


def ceiling_by_formula(network: vn.Network) -> dict[str, float]:
    """tr(G(Σ - ΣU'(UΣU')^+UΣ)G')/tr(GPG') with Σ = P0 - P, from dense inverses."""
    error = direct_crlb(network, {})
    assert network.prior is not None
    before = np.linalg.inv(network.prior.information)
    spread, public = before - error, network.U
    told = spread @ public.T @ np.linalg.pinv(public @ spread @ public.T) @ public @ spread
    return {
        name: float(np.trace(rows @ (spread - told) @ rows.T) / np.trace(rows @ error @ rows.T))
        for name, rows in network.private.items()
    }


@pytest.mark.parametrize("seed", range(100))
def test_the_ceiling_is_that_of_the_formula_and_of_the_definition(seed: int) -> None:
    network = random_network(seed, noise=NOISES[seed % 4], prior="covariance")
    verdict = vn.check(merged(network))
    for name, expected in ceiling_by_formula(network).items():
        assert verdict.ceiling[name] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    # by the definition: what is known from U x̂ alone, x̂ = P H'R^-1 y
    error = direct_crlb(network, {})
    rows = network.U @ error @ network.H.T @ np.linalg.inv(network.R.matrix())
    kept = np.linalg.svd(rows, full_matrices=False)[2][: np.linalg.matrix_rank(rows)]
    seen, noise = kept @ network.H, kept @ network.R.matrix() @ kept.T
    assert network.prior is not None
    left = np.linalg.inv(network.prior.information + seen.T @ np.linalg.solve(noise, seen))
    for name, own in network.private.items():
        by_definition = np.trace(own @ left @ own.T) / np.trace(own @ error @ own.T) - 1
        assert verdict.ceiling[name] == pytest.approx(by_definition, rel=1e-9, abs=1e-9)


def test_without_a_prior_privacy_is_unbounded_where_the_public_rows_do_not_determine_it() -> None:
    network = random_network(3, noise="per agent", prior="none")
    own = network.replace(
        private={"told": 2.0 * network.U[:1], "other": network.private[next(iter(network.private))]}
    )
    ceiling = vn.check(merged(own)).ceiling
    assert ceiling["told"] == pytest.approx(0.0, abs=1e-9)
    assert np.isinf(ceiling["other"])


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("summed", [None, [["a0", "a2"]], {"both": ["a2", "a1"]}])
def test_merging_changes_nothing_of_x_and_has_a_way_back(noise: str, summed: Any) -> None:
    network = random_network(5, noise=noise, prior="covariance")
    names = {agent: [f"level {k}" for k in range(len(network.observe[agent]))] for agent in ("a0", "a1")}
    network = network.replace(reading_names=names, limits={"a1": (-9.0, 9.0)}, resolution={"a0": 0.01})
    together = merged(network, vn.SumGroups(summed))
    assert np.allclose(vn.crlb(together), vn.crlb(network), rtol=1e-12)
    back = apart(together)
    assert sorted(back.agents) == sorted(network.agents)
    if list(back.agents) == list(network.agents):
        said = {"a0": 0.01, "a1": 0.0, "a2": 0.0} if summed is None else {"a0": 0.01, "a2": 0.0}
        expected = network if summed and "both" in summed else network.replace(resolution=said)
        assert not network_difference(expected.replace(resolution=None), back.replace(resolution=None))
        assert np.array_equal(back.steps, network.steps)


def test_the_house_has_the_figures_of_the_theorem() -> None:
    """Growth of error variances: shares, the sum of all, and its limit (docs/explanation/sums.md)."""
    shares, sums, limit = vn.design(house()), vn.design(house(), summed=True), vn.privacy_limit(house())
    found = {name: (shares.privacy[name], sums.privacy[name], limit[name]) for name in limit}
    expected = {"presence": (8.5, 28.6, 29.7), "cooking": (2.5, 12.3, 12.7), "gait": (10.2, 14.9, 14.9)}
    for name, figures in expected.items():
        assert 1 + np.array(found[name]) == pytest.approx(figures, rel=0.011)
    assert sums.utility == 0.0
    assert sums.gap == 0.0
    assert sums.sent == {"everybody": 2}
    worst = sums.collusion(1)
    assert worst["cooking"].agents == ("kitchen",)
    assert 1 + worst["cooking"].privacy == pytest.approx(1.34, abs=0.005)


def simulated(network: vn.Network, rows: int, rng: np.random.Generator) -> tuple[Any, dict[str, Any]]:
    """x and readings of each agent."""
    assert network.prior is not None
    x = rng.multivariate_normal(network.prior.mean, np.linalg.inv(network.prior.information), rows)
    noise = rng.multivariate_normal(np.zeros(network.N), network.sensor_noise.matrix(), rows)
    read = x @ network.H.T + network.offset + noise
    return x, {agent: read[:, network.blocks.rows(place)] for place, agent in enumerate(network.agents)}


@pytest.mark.parametrize("summed", [True, [["kitchen", "hall"], ["bedroom", "study"]]])
def test_what_members_send_adds_up_to_an_estimate_as_good_as_promised(summed: Any) -> None:
    rng = np.random.default_rng(7)
    plan = vn.design(house(), summed=summed)
    x, read = simulated(house(), 20_000, rng)
    sent = {agent: each.sanitize(read[agent], rng=rng) for agent, each in plan.members.items()}
    for agent, member in plan.members.items():
        if member.summed is not None:
            whole = member.summed.whole(sent[agent], member.grid)  # refuses what is not on the grid
            assert np.abs(whole).max() < 2 ** (member.summed.bits - 1) / len(member.summed.members)
    fusion = vn.Fusion(plan)
    for missing in ((), ("hall",)):
        there = {agent: each for agent, each in sent.items() if agent not in missing}
        found = fusion.estimate(there)
        errors = found.public - x @ house().U.T
        # a mean square of 20,000 errors is off by 1 % (one deviation); five of them
        assert np.mean(errors**2, axis=0) == pytest.approx(found.deviation[0] ** 2, rel=0.05)
        assert set(missing) <= set(found.missing[0])
    direct = {"everybody": sum(np.asarray(each) for each in sent.values())}
    if summed is True:
        assert np.allclose(fusion.estimate(direct).public, fusion.estimate(sent).public, rtol=1e-12)
        less = {"everybody": sum(np.asarray(each) for agent, each in sent.items() if agent != "hall")}
        assert np.allclose(
            fusion.estimate(less, missing=["hall"]).public,
            fusion.estimate({a: z for a, z in sent.items() if a != "hall"}).public,
            rtol=1e-12,
        )


def test_too_few_members_leave_nothing_but_the_prior() -> None:
    plan = vn.design(house(), summed=True)
    fusion = vn.Fusion(plan)
    none = fusion.estimate({"kitchen": np.zeros(2), "hall": np.zeros(2), "study": np.zeros(2)})
    assert "everybody" in none.missing
    assert none.deviation == pytest.approx(fusion.estimate({}).deviation)


def test_noise_is_handed_out_so_that_it_is_enough_without_those_who_may_be_spared() -> None:
    network = random_network(2, noise="per agent", prior="none")
    asked: dict[str, Any] = {"privacy": 4.0, "method": "noise"}
    plain = vn.design(network, **asked, summed=True)
    spared = vn.design(network, **asked, summed=vn.SumGroups(spare=2))
    wanted = plain.sanitizers["everybody"].noise
    noises = [each.noise for each in spared.members.values()]
    assert np.trace(wanted) > 0
    assert sum(noises[2:]) == pytest.approx(wanted, rel=1e-9)
    assert sum(noises) == pytest.approx(wanted * 2, rel=1e-9)
    assert all(spared.privacy[name] >= least for name, least in plain.privacy.items())


@pytest.mark.parametrize(
    ("summed", "words"),
    [
        ([["kitchen"]], "at least two agents"),
        ([["kitchen", "hall"], ["hall", "study"]], "'hall' is in two groups"),
        ([["kitchen", "garage"]], "garage"),
        ({"study": ["kitchen", "hall"]}, "'study' is an agent"),
        ("kitchen", "expected True, lists of agents"),
    ],
)
def test_groups_that_cannot_be_are_refused(summed: Any, words: str) -> None:
    with pytest.raises(vn.InvalidRequest, match=words):
        vn.design(house(), summed=summed)


def test_a_member_sends_no_bare_message() -> None:
    member = vn.design(house(), summed=True).members["hall"]
    with pytest.raises(vn.InvalidRequest, match="nothing was sent"):
        member.sanitize(np.zeros(3))
