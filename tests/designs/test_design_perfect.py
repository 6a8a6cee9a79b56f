"""Designs that keep utility perfect: the closed form, noise alone, limited power."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import null_space

import veilnet as vn
from helpers.known_networks import counterexample, identical_agents
from helpers.networks import NOISES, PRIORS, direct_error, direct_information, random_network
from helpers.paper_networks import as_network, paper_arrays, paper_network
from helpers.sdp_oracle import solve_reduced_form
from veilnet._core.types import Array

pytestmark = pytest.mark.slow

PERFECT = 1e-10  # utility loss that is rounding, for well-conditioned networks


def loss_and_privacy(plan: vn.Plan) -> tuple[float, dict[str, float]]:
    """Straight from the definition, with dense matrices."""
    network = plan.network
    left, raw = direct_information(network, plan.sanitizers), direct_information(network, {})
    loss = direct_error(left, network.U) / direct_error(raw, network.U) - 1
    return loss, {
        name: direct_error(left, rows) / direct_error(raw, rows) - 1 for name, rows in network.private.items()
    }


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("prior", PRIORS)
def test_send_only_your_share(noise: str, prior: str) -> None:
    network = random_network(1, noise=noise, prior=prior, sizes=(3, 1, 4, 2), parameters=5)
    verdict = vn.check(network)
    plan = vn.design(network)
    assert plan.method == "perfect"
    assert abs(plan.utility) < PERFECT
    assert plan.privacy == pytest.approx(dict(verdict.ceiling), rel=1e-9)
    assert list(plan.sent.values()) == verdict.shares.ranks.tolist()
    assert all(not np.any(s.noise) for s in plan.sanitizers.values())
    loss, privacy = loss_and_privacy(plan)
    assert abs(loss) < 1e-9
    assert privacy == pytest.approx(dict(plan.privacy), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    ("agents", "rows", "prior"), [(2, 3, False), (9, 2, True), (12, 3, False), (24, 1, True)]
)
def test_no_linear_mechanism_with_perfect_utility_is_more_private(
    agents: int, rows: int, prior: bool
) -> None:
    """Random noise and random extra compressions inside perfect utility never pass the ceiling."""
    network = paper_network(1, agents, rows, prior)
    verdict = vn.check(network)
    rng = np.random.default_rng(5)
    free, needed = dict(verdict.shares.free()), dict(verdict.shares.needed())
    for _ in range(5):
        sanitizers = {}
        for place, agent in enumerate(network.agents):
            root = free[place] @ rng.normal(size=(free[place].shape[1],) * 2) * 10 ** rng.uniform(-1, 3)
            extra = rng.normal(size=(rng.integers(0, 3), len(free[place])))
            sanitizers[agent] = (
                vn.Sanitizer(noise=root @ root.T) if rng.random() < 0.5
                else vn.Sanitizer(np.concatenate([needed[place], extra]))
            )  # fmt: skip
        assert vn.utility(network, sanitizers) == pytest.approx(0.0, abs=1e-9)
        for name, value in vn.privacy(network, sanitizers).items():
            assert value <= verdict.ceiling[name] * (1 + 1e-9)


def test_targets_below_the_ceiling_are_free_and_above_it_are_refused_by_the_closed_form() -> None:
    network = paper_network(2, 9, 2, prior=True)
    verdict = vn.check(network)
    ceiling, limit = verdict.ceiling["g1"], verdict.limit["g1"]
    for method in ("auto", "perfect", "joint"):
        plan = vn.design(network, privacy=0.9 * ceiling, method=method)
        assert plan.method == "perfect"
        assert "iterations" not in plan.details
        assert plan.privacy["g1"] >= 0.9 * ceiling
        assert abs(plan.utility) < PERFECT
    with pytest.raises(vn.Infeasible, match=r"g1: .* was asked.* at perfect utility no mechanism exceeds"):
        vn.design(network, privacy=1.1 * ceiling, method="perfect")
    with pytest.raises(vn.Infeasible, match=r"even silence gives only .*Nothing hides more than silence"):
        vn.design(network, privacy=1.01 * limit)


@pytest.mark.parametrize(("agents", "rows"), [(1, 1), (2, 3), (3, 3), (11, 1)])
@pytest.mark.parametrize("private", [1, 3])
def test_noise_alone_reaches_any_target_without_prior(agents: int, rows: int, private: int) -> None:
    network = paper_network(3, agents, rows, prior=False, private=private)
    for target in (0.5, 50.0, 1e6):
        plan = vn.design(network, privacy=target, method="noise")
        assert plan.details["construction"] == "Algorithm 1, mended"
        assert abs(plan.utility) < 1e-9
        assert min(plan.privacy.values()) >= target
        assert min(plan.privacy.values()) == pytest.approx(
            target, rel=1e-6
        )  # and with no more noise than needed
        assert all(np.array_equal(s.compression, np.eye(s.readings)) for s in plan.sanitizers.values())
        loss, privacy = loss_and_privacy(plan)
        if target < 1e3:
            assert abs(loss) < 1e-6
            assert min(privacy.values()) == pytest.approx(target, rel=1e-4)


def test_noise_alone_guarantees_what_the_theorem_promises() -> None:
    """p_j >= (λ/S) |G_j z|² / tr(G_j P G_j') for Θ_i = λ H_i z z'H_i' (mathematics, section 3)."""
    network = paper_network(4, 3, 3, prior=False)
    hidden = _hidden_change(network)
    strength = 37.0
    sanitizers = {
        agent: vn.Sanitizer(noise=strength * np.outer(h @ hidden, h @ hidden))
        for agent, h in network.observe.items()
    }
    rows = network.private["g1"]
    promised = (
        strength / network.S * np.sum((rows @ hidden) ** 2) / np.trace(rows @ vn.crlb(network) @ rows.T)
    )
    assert vn.utility(network, sanitizers) == pytest.approx(0.0, abs=1e-8)
    assert vn.privacy(network, sanitizers)["g1"] >= promised * (1 - 1e-9)


def _hidden_change(network: vn.Network) -> Array:
    bound = vn.crlb(network)
    psi = bound @ network.H.T @ np.linalg.inv(network.R.matrix())
    conditions = np.concatenate(
        [network.U @ psi[:, network.blocks.rows(i)] @ h for i, h in enumerate(network.observe.values())]
    )
    return np.asarray(np.linalg.svd(conditions)[2][-1])


@pytest.mark.parametrize("target", [1.0, 15.5, 60.0, 80.0])
def test_noise_alone_reaches_any_target_with_prior_when_asup_holds(target: float) -> None:
    network = identical_agents()
    plan = vn.design(network, privacy=target, method="noise")
    assert plan.details["construction"] == "Algorithm 2, mended"
    assert abs(plan.utility) < PERFECT
    assert plan.privacy["gait"] >= target
    assert plan.privacy["gait"] == pytest.approx(target, rel=1e-6)
    with pytest.raises(vn.Infeasible, match="silence"):
        vn.design(network, privacy=1e4, method="noise")


def test_noise_alone_explains_why_it_falls_short() -> None:
    network = identical_agents(leak=1.0)
    verdict = vn.check(network)
    above = 0.5 * (verdict.ceiling["gait"] + verdict.limit["gait"])
    with pytest.raises(vn.Infeasible, match=r"not free without limit here: room.* must send what reveals it"):
        vn.design(network, privacy=above, method="noise")
    below = vn.design(network, privacy=0.5 * verdict.ceiling["gait"], method="noise")
    assert below.details["construction"] == "noise in every free direction"
    assert below.privacy["gait"] == pytest.approx(0.5 * verdict.ceiling["gait"], rel=1e-6)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
@pytest.mark.parametrize("leak", [0.0, 1.0])
def test_noise_alone_does_not_depend_on_units(unit: float, leak: float) -> None:
    base = identical_agents(leak=leak)
    scaled = vn.Network(
        observe={agent: unit * rows for agent, rows in base.observe.items()},
        noise=unit**2 * base.R.matrix(),
        public=base.public,
        private=dict(base.private),
        prior=base.prior,
    )
    plain, other = (vn.design(network, privacy=5.0, method="noise") for network in (base, scaled))
    assert dict(other.privacy) == pytest.approx(dict(plain.privacy), rel=1e-9)
    for agent, power in plain.details["power"].items():
        assert other.details["power"][agent] == pytest.approx(unit**2 * power, rel=1e-6)


def partly_free() -> vn.Network:
    """The rooms meet Theorem 2's condition; the two corridors, which mix public and private, do not.

    What one corridor adds the other takes away, so that the raw estimate of the temperature makes no use of what
    the rooms see of the gait.
    """
    clean = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]])
    return vn.Network(
        observe={"kitchen": clean, "hall": clean, "north": [[1.0, 1.0, 0.0]], "south": [[1.0, -1.0, 0.0]]},
        noise=0.5,
        public={"temperature": [1, 0, 0]},
        private={"gait": [0, 1, 0.3]},
        prior=vn.Prior(covariance=np.diag([2.0, 8.0, 5.0])),
    )


def test_partial_case_of_the_paper() -> None:
    network = partly_free()
    verdict = vn.check(network)
    meets = {agent: each["gait"] for agent, each in verdict.printed_theorem.agents.items()}
    assert meets == {"kitchen": True, "hall": True, "north": False, "south": False}
    assert not verdict.achievable
    plan = vn.design(network, privacy=0.99 * verdict.limit["gait"], method="noise", partial=True)
    assert abs(plan.utility) < PERFECT
    assert not plan.details["targets_met"]
    for agent, able in meets.items():
        assert (np.trace(plan.sanitizers[agent].noise) > 0) == able
    # noise without bound along P0 G' is the same as sending everything but that direction
    kept = null_space([[0.0, 8.0, 1.5]]).T
    silent = vn.privacy(network, dict.fromkeys(("kitchen", "hall"), vn.Sanitizer(kept)))["gait"]
    assert 0 < silent < verdict.ceiling["gait"]
    assert plan.privacy["gait"] == pytest.approx(silent, rel=1e-5)


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("private", [1, 2])
def test_limited_power_matches_the_papers_program(prior: bool, private: int) -> None:
    arrays = paper_arrays(6, 4, 2, prior, private, readings=24, parameters=6)
    network = as_network(arrays)
    for power in (1.0, 100.0):
        plan = vn.design(network, power=power)
        oracle = solve_reduced_form(arrays, np.full(4, power))
        total = sum(plan.privacy.values())
        assert plan.method == "power"
        assert total >= oracle.objective * (1 - 1e-6)
        assert total == pytest.approx(plan.details["total_privacy"], rel=1e-6)
        assert plan.details["upper_bound"] >= total * (1 - 1e-9)
        assert plan.details["relative_gap"] <= 1e-6
        assert abs(plan.utility) < 1e-9
        assert all(np.trace(s.noise) <= power * (1 + 1e-9) for s in plan.sanitizers.values())


@pytest.mark.parametrize("prior", [False, True])
def test_limited_power_tends_to_the_ceiling(prior: bool) -> None:
    network = paper_network(8, 12, 2, prior)
    ceiling = vn.check(network).ceiling["g1"]
    reached = [vn.design(network, power=power).privacy["g1"] for power in (1.0, 1e2, 1e4, 1e8)]
    assert reached == sorted(reached)
    assert reached[-1] <= ceiling * (1 + 1e-9)
    assert reached[-1] == pytest.approx(ceiling, rel=1e-3)


def test_power_per_agent() -> None:
    network = random_network(3, prior="covariance", public_rows=1)
    plan = vn.design(network, power={"a0": 5.0, "a2": 1.0})
    assert np.trace(plan.sanitizers["a0"].noise) <= 5.0 * (1 + 1e-9)
    assert not np.any(plan.sanitizers["a1"].noise)
    assert plan.privacy["g0"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"privacy": -1}, "privacy: expected a finite number of at least 0, found -1.0"),
        ({"privacy": float("nan")}, "privacy: expected a finite number"),
        ({"privacy": "much"}, "privacy: expected a number, found 'much'"),
        ({"privacy": {"gate": 3}}, "privacy: unknown 'gate'; known are 'g'"),
        ({"power": {"kitchen": 3}}, "power: unknown 'kitchen'; known are 'a', 'b', 'c'"),
        ({"privacy": 1, "power": 1}, "expected one target, found 2"),
        ({"utility_loss": -0.1}, "utility_loss: expected a finite number"),
        ({"method": "magic"}, "method: expected one of auto, perfect"),
        ({"method": "noise"}, "needs a target"),
        ({"method": "alternating"}, "needs a target"),
        ({"method": "power"}, "needs the largest noise power"),
        ({"utility_loss": 0.1, "method": "noise"}, "utility_loss= goes with"),
        ({"power": 1.0, "method": "joint"}, "power= goes with"),
        ({"weights": {"g": 1}}, "weights: they divide privacy"),
        ({"partial": True}, "partial: goes with method='noise'"),
        ({"privacy": 1, "starts": 0}, "starts: expected a whole number of at least 1, found 0"),
        ({"privacy": 1, "starts": 1.5}, "starts: expected a whole number of at least 1, found 1.5"),
        ({"privacy": 1, "seed": -1}, "seed: expected a whole number of at least 0, found -1"),
        (
            {"privacy": 1, "sweeps": 0, "method": "alternating"},
            "sweeps: expected a whole number of at least 1, found 0",
        ),
        (
            {"privacy": 1, "sweeps": 5},
            "sweeps: goes with method='alternating', and has no effect with method='auto'",
        ),
        (
            {"privacy": 1, "sweeps": 20, "method": "joint"},
            "has no effect with method='joint' and privacy=; leave it out",
        ),
        ({"starts": 3}, "starts: goes with the joint search"),
        ({"seed": 0}, "seed: goes with the joint search"),
        ({"seed": 0, "method": "joint"}, "has no effect with method='joint' without a target"),
        ({"privacy": 1, "seed": 0, "method": "noise"}, "has no effect with method='noise' and privacy="),
        ({"privacy": 1, "starts": 2, "method": "alternating"}, "has no effect with method='alternating'"),
        ({"privacy": 1, "starts": 2, "method": "perfect"}, "has no effect with method='perfect'"),
        ({"power": 1.0, "seed": 3}, "seed: goes with the joint search"),
        ({"power": 1.0, "seed": 3, "method": "power"}, "has no effect with method='power' and power="),
    ],
)
def test_wrong_requests_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(vn.InvalidRequest) as caught:
        vn.design(counterexample(), **arguments)  # type: ignore[arg-type]
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"privacy": 0.5, "method": "joint"}, "free: the closed form already reaches the target"),
        ({"privacy": 0.5, "starts": 2}, "free: the closed form already reaches the target"),
        ({"privacy": 0.5, "seed": 0}, "free: the closed form already reaches the target"),
        ({"method": "joint"}, "free: the closed form already gives the most privacy at perfect utility"),
        ({"utility_loss": 0.0, "method": "joint"}, "free: at no loss the closed form gives the most privacy"),
    ],
)
def test_a_search_answered_by_the_closed_form_says_so(arguments: dict[str, object], words: str) -> None:
    network = random_network(3, prior="covariance")
    arguments = {key: 0.5 * min(vn.check(network).ceiling.values()) if key == "privacy" else value
                 for key, value in arguments.items()}  # fmt: skip
    plan = vn.design(network, **arguments)  # type: ignore[arg-type]
    assert plan.method == "perfect"
    assert plan.details["remark"] == words
    assert words in str(plan)


def test_the_closed_form_by_choice_needs_no_remark() -> None:
    network = random_network(3, prior="covariance")
    for arguments in ({}, {"method": "perfect"}, {"privacy": 0.5 * min(vn.check(network).ceiling.values())}):
        assert "remark" not in vn.design(network, **arguments).details  # type: ignore[arg-type]
