"""The exact test against planted truth, noise of growing power, and the paper's theorems."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.linalg import block_diag, null_space, orth

import veilnet as vn
from helpers.known_networks import counterexample, identical_agents
from helpers.networks import direct_error, direct_information, prior_information, random_network
from helpers.paper_networks import PaperArrays, as_network, paper_arrays
from veilnet._core.blocks import Blocks
from veilnet._core.types import Array

SIZES = [
    (agents, rows, prior)
    for prior in (False, True)
    for agents, rows in (
        (1, 1),
        (2, 3),
        (3, 3),
        (4, 3),
        (5, 2),
        (6, 2),
        (9, 1),
        (11, 1),
        (12, 1),
        (12, 2),
        (18, 3),
        (24, 3),
    )
]


def privacy_by_noise(arrays: PaperArrays, strength: float) -> float:
    """p(I, t BB') from the definition of P̃, B by a null space: no veilnet code.

    t counts in mean variances of the readings. In coordinates (Q, B) of each agent's readings only R_BB
    grows, so that a Schur complement keeps all digits however large t is.
    """
    noise, observe, rows = arrays.noise, arrays.observe, arrays.private[0]
    prior = 0.0 if arrays.prior_covariance is None else np.linalg.inv(arrays.prior_covariance)
    bound = np.linalg.inv(prior + observe.T @ np.linalg.solve(noise, observe))
    psi = np.linalg.solve(noise, observe @ bound).T
    blocks = Blocks(arrays.sizes)
    shares = [arrays.public @ psi[:, blocks.rows(i)] for i in range(blocks.count)]
    free, kept = block_diag(*map(null_space, shares)), block_diag(*[orth(share.T) for share in shares])
    inner = kept.T @ noise @ kept
    cross = np.linalg.solve(inner, np.concatenate([kept.T @ observe, kept.T @ noise @ free], axis=1))
    seen, tied = cross[:, : observe.shape[1]], cross[:, observe.shape[1] :]
    rest = free.T @ noise @ free - tied.T @ inner @ tied
    hidden = free.T @ observe - tied.T @ (kept.T @ observe)
    louder = rest + strength * np.trace(noise) / len(noise) * np.eye(len(rest))
    left = prior + (kept.T @ observe).T @ seen + hidden.T @ np.linalg.solve(louder, hidden)
    return float(np.trace(rows @ np.linalg.solve(left, rows.T)) / np.trace(rows @ bound @ rows.T) - 1)


def test_counterexample_is_achievable_although_theorem_1_denies_it() -> None:
    verdict = vn.check(counterexample())
    assert verdict.achievable
    assert verdict.ceiling == {"g": np.inf}
    assert verdict.printed_theorem.number == 1
    assert verdict.printed_theorem.achievable is False
    assert not any(each["g"] for each in verdict.printed_theorem.agents.values())
    # the noise of the erratum, by hand: P_u stays 1 while P_g = (1 + n) / 2 grows without bound
    for strength in (1.0, 1e3, 1e6):
        noisy = {name: vn.Sanitizer(noise=[[strength]]) for name in ("a", "b")}
        bound = vn.crlb(counterexample(), noisy)
        np.testing.assert_allclose(np.diag(bound), [(1 + strength) / 2, 1.0], rtol=1e-12)


@pytest.mark.parametrize(("agents", "rows", "prior"), SIZES)
def test_ceiling_is_the_limit_of_noise_of_growing_power(agents: int, rows: int, prior: bool) -> None:
    arrays = paper_arrays(agents, agents, rows, prior)
    verdict = vn.check(as_network(arrays))
    ceiling = verdict.ceiling["g1"]
    weak, strong = privacy_by_noise(arrays, 1e8), privacy_by_noise(arrays, 1e9)
    if np.isinf(ceiling):
        assert not prior
        assert strong / weak == pytest.approx(10.0, rel=1e-3)
    else:
        assert strong < ceiling * (1 + 1e-6) + 1e-9
        # p(t) = p* - c/t + O(1/t²): two strengths extrapolate to the limit
        assert (10 * strong - weak) / 9 == pytest.approx(ceiling, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("agents", "rows"), [(s, u) for s in (1, 2, 3, 4, 6, 12) for u in (1, 2, 3)])
def test_generic_networks_without_prior_are_free_iff_few_numbers_are_needed(agents: int, rows: int) -> None:
    verdict = vn.check(as_network(paper_arrays(7, agents, rows, prior=False)))
    assert verdict.achievable == (agents * rows < 12)
    if verdict.printed_theorem.achievable:
        assert verdict.achievable
    if agents >= 2:
        # erratum 3: at the paper's sizes the printed theorem denies what several agents achieve together
        assert verdict.printed_theorem.achievable is False


@pytest.mark.parametrize(
    ("sizes", "rows", "free"),
    [
        # an agent of one reading sends one number, however many public rows there are
        ((1, 4), 3, True),
        ((1, 1, 4), 2, True),
        ((1, 1, 1, 5), 2, False),
        ((2, 2, 5), 3, False),
        ((1, 2, 5), 3, False),
        ((1, 1, 1, 1, 1), 3, False),
        ((5,), 3, True),
    ],
)
@pytest.mark.parametrize("noise", ["joint", "per agent"])
def test_small_agents_count_with_their_readings_only(
    sizes: tuple[int, ...], rows: int, free: bool, noise: str
) -> None:
    """Generic networks without prior: free iff Σ_i min(N_i, rank U) < L, here with L = 5."""
    assert free == (sum(min(size, rows) for size in sizes) < 5)
    if free and len(sizes) > 1:
        assert len(sizes) * rows >= 5  # rank(U) numbers from every agent would be too many
    for seed in range(3):
        network = random_network(seed, noise=noise, sizes=sizes, parameters=5, public_rows=rows)
        verdict = vn.check(network)
        assert verdict.shares.ranks.tolist() == [min(size, rows) for size in sizes]
        # by hand: U Ψ_i H_i z = 0 at every agent has a solution z ≠ 0
        shares = oracle_shares(network)
        blocks = [network.blocks.rows(i) for i in range(network.S)]
        conditions = np.concatenate([shares[:, part] @ network.H[part] for part in blocks])
        assert (null_space(conditions, rcond=1e-9).shape[1] > 0) == free
        assert verdict.achievable == free
        if free:
            plan = vn.design(network, privacy=1e4, method="noise")
            assert abs(plan.utility) < 1e-8
            assert min(plan.privacy.values()) >= 1e4


@pytest.mark.parametrize("noise", ["joint", "per agent"])
@pytest.mark.parametrize("prior", ["none", "covariance", "singular"])
def test_ceiling_is_what_the_definition_gives_for_the_shares(noise: str, prior: str) -> None:
    for seed in range(5):
        network = random_network(seed, noise=noise, prior=prior, parameters=6, public_rows=1, sizes=(3, 2, 4))
        verdict = vn.check(network)
        left = direct_information(network, verdict.shares.sanitizers)
        raw = direct_information(network, {})
        for name, rows in network.private.items():
            expected = direct_error(left, rows) / direct_error(raw, rows) - 1
            assert verdict.ceiling[name] == pytest.approx(expected, rel=1e-7, abs=1e-12)
            silent = direct_error(prior_information(network), rows) / direct_error(raw, rows) - 1
            assert verdict.limit[name] == pytest.approx(silent, rel=1e-7)


def test_with_prior_the_verdict_is_theorem_2() -> None:
    free = vn.check(identical_agents())
    assert free.achievable
    assert free.printed_theorem.number == 2
    assert free.printed_theorem.achievable
    assert free.ceiling["gait"] == pytest.approx(free.limit["gait"], rel=1e-12)
    tied = vn.check(identical_agents(leak=1e-3))
    assert not tied.achievable
    assert tied.printed_theorem.achievable is False
    assert 0 < tied.shortfall["gait"] < 1e-3
    for seed in range(6):
        verdict = vn.check(random_network(seed, prior="covariance"))
        assert verdict.achievable == verdict.printed_theorem.achievable


def test_singular_prior_has_no_printed_theorem() -> None:
    verdict = vn.check(random_network(3, prior="singular"))
    assert verdict.printed_theorem.number is None
    assert verdict.printed_theorem.achievable is None
    assert "no theorem" in verdict.explain()


@pytest.mark.parametrize("noise", ["joint", "per agent"])
def test_blocking_agents_and_their_silence(noise: str) -> None:
    network = random_network(5, noise=noise, prior="covariance")
    verdict = vn.check(network)
    messages = verdict.shares.sanitizers
    assert verdict.blocked == ("g0", "g1")
    for name, agents in verdict.blocking.items():
        assert list(agents.values()) == sorted(agents.values(), reverse=True)
        for agent in network.agents:
            silenced = messages | {agent: vn.Sanitizer.silent(messages[agent].readings)}
            raised = vn.privacy(network, silenced)[name]
            assert raised >= verdict.ceiling[name] * (1 - 1e-12)
            if raised > verdict.ceiling[name] * (1 + 1e-6):
                assert agents[agent] == pytest.approx(raised, rel=1e-9)
            else:
                assert agent not in agents


def test_an_agent_that_has_nothing_to_do_with_it_is_not_in_the_way() -> None:
    network = vn.Network(
        observe={"stove": [[1.0, 0.5, 0.0]], "door": [[0.0, 1.0, 0.0]], "garden": [[0.0, 0.0, 1.0]]},
        noise=1.0,
        public={"temperature": [1, 0, 0]},
        private={"cooking": [0, 1, 0]},
        prior=vn.Prior(covariance=np.diag([4.0, 4.0, 4.0])),
    )
    verdict = vn.check(network)
    assert "garden" not in verdict.blocking["cooking"]
    assert verdict.shares.ranks.tolist() == [1, 1, 0]


def test_rank_decisions_report_how_close_they_were() -> None:
    for part, rank in ((1e-5, 2), (1e-13, 1)):
        # the second public row differs from the first by ``part`` only: is it a second number to send?
        network = vn.Network(
            observe={"a": np.eye(3)},
            noise=1.0,
            public=[[1.0, 0.0, 0.0], [1.0, part, 0.0]],
            private={"g": [0, 1.0, 0]},
            prior=vn.Prior(covariance=np.eye(3)),
        )
        assert vn.check(network).shares.ranks.tolist() == [rank]
    # agent a sees the second public parameter ``part`` times as well as b does: that is the size of its part
    for part, rank in ((1e-4, 2), (1e-12, 1)):
        network = vn.Network(
            observe={"a": [[1.0, 0.0], [0.0, part]], "b": [[0.0, 1.0]]},
            noise=1.0,
            public=[[1.0, 0.0], [0.0, 1.0]],
            private={"g": [1.0, 1.0]},
        )
        shares = vn.check(network).shares
        assert shares.ranks.tolist() == [rank, 1]
        assert shares.dropped < shares.tolerance < shares.kept
        assert (shares.kept if rank == 2 else shares.dropped) == pytest.approx(part, rel=1e-6)


def test_verdict_speaks_the_users_words() -> None:
    network = identical_agents(leak=0.5)
    text = str(vn.check(network))
    for word in ("temperature", "gait", "room0", "free up to the errors"):
        assert word in text
    assert "Theorem" not in text
    assert "Theorem 2" in vn.check(network).explain()
    assert "Privacy is free" in str(vn.check(counterexample()))
    assert "it is wrong here" in vn.check(counterexample()).explain()
    everything = vn.Network({"a": np.eye(2)}, 1.0, np.eye(2), {"g": [0, 1]})
    nothing = str(vn.check(everything))
    assert "Privacy is not free here" in nothing
    assert re.search(r"g \(private\) .* ±∞ +not at all +a \(±∞ without it\)", nothing)


def test_theorem_2_is_never_called_wrong() -> None:
    """A tie of 1e-6 between public and private costs privacy its square: below what the exact test can see."""
    verdict = vn.check(identical_agents(leak=1e-6))
    assert verdict.achievable
    assert verdict.printed_theorem.achievable is False
    text = verdict.explain()
    assert "too close to the edge" in text
    assert "wrong" not in text


@pytest.mark.parametrize(("readings", "parameters"), [(1e-9, 1e9), (1e9, 1e-9), (1e9, 1e9)])
def test_scale_of_units_changes_nothing(readings: float, parameters: float) -> None:
    for sizes in ((3, 3), (4, 2, 4)):
        network = random_network(2, noise="per agent", parameters=6, public_rows=2, sizes=sizes)
        scaled = vn.Network(
            observe={name: readings * h / parameters for name, h in network.observe.items()},
            noise={name: readings**2 * network.R.block(k) for k, name in enumerate(network.agents)},
            public=network.U / parameters,
            private={name: rows / parameters for name, rows in network.private.items()},
        )
        expected, found = vn.check(network), vn.check(scaled)
        assert found.achievable == expected.achievable
        assert found.ceiling == pytest.approx(dict(expected.ceiling), rel=1e-8)


def oracle_shares(network: vn.Network) -> Array:
    """U Ψ straight from the definition."""
    raw = direct_information(network, {})
    return np.asarray(network.U @ np.linalg.solve(raw, network.H.T) @ np.linalg.inv(network.R.matrix()))


@pytest.mark.parametrize("noise", ["joint", "per agent"])
def test_free_directions_leave_the_public_estimate_alone(noise: str) -> None:
    network = random_network(4, noise=noise, prior="covariance", public_rows=1)
    shares = oracle_shares(network)
    mine = vn.check(network).shares
    for place, columns in mine.free():
        rows = network.blocks.rows(place)
        np.testing.assert_allclose(columns.T @ columns, np.eye(columns.shape[1]), atol=1e-12)
        assert np.max(np.abs(shares[:, rows] @ columns), initial=0.0) < 1e-12 * np.max(np.abs(shares))
        assert columns.shape[1] + mine.ranks[place] == network.blocks.sizes[place]
    for place, needed in mine.needed():
        share = shares[:, network.blocks.rows(place)]
        residual = share - share @ np.linalg.pinv(needed) @ needed
        assert np.max(np.abs(residual)) < 1e-12 * np.max(np.abs(share))
