"""Errata of the paper's sections IV and V: each test fails on the printed version."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import null_space

import veilnet as vn
from helpers.known_networks import counterexample, identical_agents
from helpers.paper_networks import paper_network
from veilnet._core.types import Array


def printed_algorithm_1_vectors(network: vn.Network, agent: int) -> Array:
    """Null(Ξ_i) of the printed Algorithm 1: what agent i may fill with noise on its own."""
    psi = vn.crlb(network) @ network.H.T @ np.linalg.inv(network.noise.matrix())
    phi = np.linalg.inv(network.noise.matrix()) @ (np.eye(network.N) - network.H @ psi)
    rows = network.blocks.rows(agent)
    return np.asarray(
        null_space(np.concatenate([network.public @ psi[:, rows], phi[rows, rows]]), rcond=1e-9)
    )


def test_erratum_3_theorem_1_is_not_necessary() -> None:
    for network in (
        counterexample(),
        paper_network(1, 2, 3, prior=False),
        paper_network(2, 3, 3, prior=False),
    ):
        assert all(printed_algorithm_1_vectors(network, i).shape[1] == 0 for i in range(network.S))
        for target in (1e1, 1e3, 1e5):
            plan = vn.design(network, privacy=target, method="noise")
            assert min(plan.privacy.values()) >= target
            assert abs(plan.utility) < 1e-8


def test_erratum_4_another_agent_may_protect_a_parameter() -> None:
    """Agent 'far' alone sees g; agent 'near', whose parameter it is, cannot do anything for it."""
    network = vn.Network(
        observe={"near": [[1.0, 0.0, 0.0]], "far": np.eye(3)},
        noise=1.0,
        public={"u": [1, 0, 0]},
        private={"g of near": [0, 1, 0]},
    )
    assert printed_algorithm_1_vectors(network, 0).shape[1] == 0  # Algorithm 1 looks at agent j for g_j
    alone = printed_algorithm_1_vectors(network, 1)
    assert alone.shape[1] == 2
    plan = vn.design(network, privacy=100.0, method="noise")
    assert plan.privacy["g of near"] >= 100
    assert np.trace(plan.sanitizers["near"].noise) == pytest.approx(0.0, abs=1e-12)
    assert np.trace(plan.sanitizers["far"].noise) > 0


def printed_algorithm_2(network: vn.Network, target: float) -> dict[str, vn.Sanitizer]:
    """Λ_i = λI with tr(Ξ_i W_i'Λ_i^-1 W_i Ξ_i') = ε^max - ε at each agent: no sum, no tr(G P G')."""
    (name,) = network.private
    slack = vn.privacy_limit(network)[name] - target
    covariance = network.prior.covariance  # type: ignore[union-attr]
    sanitizers = {}
    for agent, observe in network.observe.items():
        xi = network.private[name] @ covariance @ observe.T
        basis = np.linalg.svd(xi, full_matrices=False)[2]
        strength = np.sum((xi @ basis.T) ** 2) / slack
        sanitizers[agent] = vn.Sanitizer(noise=strength * basis.T @ basis)
    return sanitizers


def test_erratum_5_algorithm_2_as_printed_misses_its_target() -> None:
    network = identical_agents(8)
    target = 0.2 * vn.privacy_limit(network)["gait"]
    printed = printed_algorithm_2(network, target)
    assert vn.utility(network, printed) == pytest.approx(0.0, abs=1e-12)
    assert vn.privacy(network, printed)["gait"] < 0.9 * target
    mended = vn.design(network, privacy=target, method="noise")
    assert mended.privacy["gait"] >= target


def test_erratum_5_the_mended_bound_is_a_bound() -> None:
    """Σ_i tr(Ξ_i W_i'Λ_i^-1 W_i Ξ_i') <= (ε^max - ε) tr(G P G') implies p >= ε."""
    network = identical_agents(8)
    rows, covariance = network.private["gait"], network.prior.covariance  # type: ignore[union-attr]
    limit = vn.privacy_limit(network)["gait"]
    scale = np.trace(rows @ vn.crlb(network) @ rows.T)
    for target in (1.0, 0.5 * limit, 0.95 * limit):
        xis = {agent: rows @ covariance @ h.T for agent, h in network.observe.items()}
        strength = sum(np.sum(xi**2) for xi in xis.values()) / ((limit - target) * scale)
        bases = {agent: np.linalg.svd(xi, full_matrices=False)[2] for agent, xi in xis.items()}
        noisy = {agent: vn.Sanitizer(noise=strength * basis.T @ basis) for agent, basis in bases.items()}
        assert vn.privacy(network, noisy)["gait"] >= target


def test_erratum_6_the_objective_needs_its_weights() -> None:
    """Without 1/tr(G_j P G_j') the program serves the parameter in the largest units only."""
    base = paper_network(5, 6, 2, prior=True, private=2)
    scaled = vn.Network(
        observe=dict(base.observe),
        noise=base.noise.matrix(),
        public=base.public,
        private={"g1": base.private["g1"], "g2": 1e-4 * base.private["g2"]},
        prior=base.prior,
    )
    plain, in_other_units = vn.design(base, power=10.0), vn.design(scaled, power=10.0)
    assert dict(in_other_units.privacy) == pytest.approx(dict(plain.privacy), rel=1e-5)
    # the printed objective Σ tr(G_j Z G_j') would give all its power to g1
    only_first = vn.Network(
        observe=dict(base.observe), noise=base.noise.matrix(), public=base.public,
        private={"g1": base.private["g1"]}, prior=base.prior,
    )  # fmt: skip
    printed = vn.design(only_first, power=10.0)
    reached = vn.privacy(base, printed.sanitizers)
    assert sum(reached.values()) < sum(plain.privacy.values()) * (1 - 1e-3)
