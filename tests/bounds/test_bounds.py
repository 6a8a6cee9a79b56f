"""The bounds against their definition with dense matrices, and against planted truth."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.linalg import eigh

import veilnet as vn
from helpers.networks import (
    NOISES,
    PRIORS,
    SANITIZERS,
    direct_crlb,
    direct_error,
    direct_growth,
    direct_information,
    message_model,
    prior_information,
    random_network,
    random_sanitizers,
)
from veilnet.bounds.knowledge import gain, residual_information

# The last agent is raw and sees all of x, so that J̃ is invertible whatever the others do.
SIZES = (3, 2, 3, 6)


@pytest.mark.parametrize("kind", SANITIZERS)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("noise", NOISES)
def test_bounds_agree_with_the_definition(noise: str, prior: str, kind: str) -> None:
    network = random_network(1, noise=noise, prior=prior, sizes=SIZES)
    sanitizers = random_sanitizers(network, 2, kind)
    raw, bound = direct_crlb(network, {}), direct_crlb(network, sanitizers)

    np.testing.assert_allclose(vn.crlb(network), raw, rtol=1e-9, atol=1e-9 * np.max(raw))
    found = vn.crlb(network, sanitizers)
    np.testing.assert_allclose(found, bound, rtol=1e-9, atol=1e-9 * np.max(bound))
    assert np.array_equal(found, found.T)

    def growth(rows: np.ndarray) -> float:
        return float(np.trace(rows @ bound @ rows.T) / np.trace(rows @ raw @ rows.T)) - 1

    assert vn.utility(network, sanitizers) == pytest.approx(-growth(network.U), rel=1e-9)
    trace, worst = vn.privacy(network, sanitizers), vn.privacy(network, sanitizers, worst=True)
    for name, rows in network.private.items():
        assert trace[name] == pytest.approx(growth(rows), rel=1e-9)
        least = eigh(rows @ bound @ rows.T, rows @ raw @ rows.T, eigvals_only=True)[0] - 1
        assert worst[name] == pytest.approx(least, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("seed", range(3))
def test_privacy_limit_is_what_silence_gives(prior: str, seed: int) -> None:
    network = random_network(seed, prior=prior)
    nothing = {name: vn.Sanitizer.silent(len(rows)) for name, rows in network.observe.items()}
    limit = vn.privacy_limit(network)
    for name, rows in network.private.items():
        expected = direct_growth(network, prior_information(network), rows)
        assert np.isinf(expected) == (prior in ("none", "singular"))
        assert limit[name] == pytest.approx(expected, rel=1e-9)
    assert vn.privacy(network, nothing) == pytest.approx(limit, rel=1e-9)


def test_privacy_limit_is_finite_where_a_singular_prior_does_know() -> None:
    known = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]])
    network = vn.Network(
        {"a": np.eye(3)}, 1.0, [[1, 0, 0]], {"in": known[:1] + known[1:], "out": [[0, 0, 1.0]]},
        vn.Prior(information=known.T @ known),
    )  # fmt: skip
    limit = vn.privacy_limit(network)
    expected = direct_growth(network, known.T @ known, network.private["in"])
    assert np.isfinite(expected)
    assert limit["in"] == pytest.approx(expected, rel=1e-9)
    assert limit["out"] == np.inf


@pytest.mark.parametrize("prior", ["covariance", "information"])
@pytest.mark.parametrize("kind", ["noise", "rectangular", "dependent", "mixed"])
def test_bits_agree_with_the_definition(prior: str, kind: str) -> None:
    network = random_network(4, prior=prior, sizes=SIZES)
    sanitizers = random_sanitizers(network, 5, kind)
    before, after = np.linalg.inv(prior_information(network)), direct_crlb(network, sanitizers)
    for name, rows in network.private.items():
        expected = 0.5 * (
            np.linalg.slogdet(rows @ before @ rows.T)[1] - np.linalg.slogdet(rows @ after @ rows.T)[1]
        )
        assert vn.bits_revealed(network, sanitizers)[name] == pytest.approx(expected / np.log(2), rel=1e-9)


def test_bits_count_dependent_rows_once_and_silence_as_none() -> None:
    base = random_network(4, prior="covariance")
    twice = vn.Network(
        base.observe, base.noise, base.public, {"once": base.private["g1"][:1],
        "twice": np.repeat(base.private["g1"][:1], 2, axis=0) * [[1.0], [-3.0]]}, base.prior,
    )  # fmt: skip
    bits = vn.bits_revealed(twice)
    assert bits["once"] > 0.1
    assert bits["twice"] == pytest.approx(bits["once"], rel=1e-9)
    nothing = {name: vn.Sanitizer.silent(len(rows)) for name, rows in base.observe.items()}
    assert vn.bits_revealed(twice, nothing) == {"once": 0.0, "twice": 0.0}


@pytest.mark.parametrize("prior", ["none", "singular"])
def test_bits_need_a_full_prior(prior: str) -> None:
    with pytest.raises(vn.InvalidRequest, match="full prior"):
        vn.bits_revealed(random_network(1, prior=prior))


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("noise", NOISES)
def test_gain_and_residual_information(noise: str, prior: str) -> None:
    """Ψ = P H'R^-1, Φ = R^-1 - R^-1 H P H'R^-1, and P̃ = P + ΨΘ^½(I + Θ^½ΦΘ^½)^-1Θ^½Ψ' with a singular Θ."""
    network = random_network(6, noise=noise, prior=prior)
    inverse = np.linalg.inv(network.R.matrix())
    bound = direct_crlb(network, {})
    psi = bound @ network.H.T @ inverse
    phi = inverse - inverse @ network.H @ bound @ network.H.T @ inverse
    np.testing.assert_allclose(gain(network), psi, rtol=1e-9, atol=1e-9 * np.max(np.abs(psi)))
    found = residual_information(network)
    np.testing.assert_allclose(found, phi, rtol=1e-9, atol=1e-9 * np.max(np.abs(phi)))
    assert np.array_equal(found, found.T)

    rng = np.random.default_rng(3)
    roots = [rng.standard_normal((len(rows), 2)) for rows in network.observe.values()]
    sanitizers = {
        name: vn.Sanitizer(noise=root @ root.T) for name, root in zip(network.agents, roots, strict=True)
    }
    _, theta = message_model(network, sanitizers)
    values, vectors = np.linalg.eigh(theta)
    half = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    middle = np.linalg.inv(np.eye(network.N) + half @ found @ half)
    expected = bound + gain(network) @ half @ middle @ half @ gain(network).T
    np.testing.assert_allclose(
        vn.crlb(network, sanitizers), expected, rtol=1e-9, atol=1e-9 * np.max(np.abs(expected))
    )


@pytest.mark.parametrize("seed", range(4))
def test_worst_direction_by_trying_directions(seed: int) -> None:
    """No direction of g is more exposed than the worst one, and some direction comes as close as the grid."""
    network = random_network(seed, noise="joint", prior="covariance", private_rows=(2,))
    sanitizers = random_sanitizers(network, seed, "mixed")
    rows = network.private["g0"]
    raw, bound = direct_crlb(network, {}), direct_crlb(network, sanitizers)
    angles = np.linspace(0, np.pi, 20_001)
    tried = np.stack([np.cos(angles), np.sin(angles)], axis=1) @ rows
    ratio = np.sum(tried @ bound * tried, axis=1) / np.sum(tried @ raw * tried, axis=1) - 1
    worst = vn.privacy(network, sanitizers, worst=True)["g0"]
    assert worst <= np.min(ratio) * (1 + 1e-9)
    assert worst == pytest.approx(np.min(ratio), rel=1e-5)
    assert np.max(ratio) > 1.1 * worst  # otherwise the grid would prove nothing


# --- J̃ singular: the estimability rule


def one_per_parameter(private: dict[str, list[list[float]]]) -> vn.Network:
    """Four scalar parameters, each seen by one agent of its own."""
    names = ["gait", "age", "room", "door"]
    return vn.Network(
        {f"sees {name}": np.eye(4)[k : k + 1] for k, name in enumerate(names)},
        [1.0, 2.0, 3.0, 4.0], np.eye(4)[:1], private, parameters=names,
    )  # fmt: skip


def test_what_is_not_estimable_is_private_without_bound() -> None:
    network = one_per_parameter(
        {
            "room": [[0, 0, 1, 0]],
            "age": [[0, 1, 0, 0]],
            "both": [[0, 1, 0, 0], [0, 0, 1, 0]],
            "sum": [[0, 1, 1, 0]],
            "age and door": [[0, 1, 0, 0], [0, 0, 0, 1]],
        }
    )
    sanitizers = {"sees room": vn.Sanitizer.silent(1), "sees age": vn.Sanitizer(noise=6.0)}
    assert vn.utility(network, sanitizers) == pytest.approx(0.0, abs=1e-14)
    trace = vn.privacy(network, sanitizers)
    worst = vn.privacy(network, sanitizers, worst=True)
    assert trace == pytest.approx(
        {"room": np.inf, "age": 3.0, "both": np.inf, "sum": np.inf, "age and door": 6.0 / (2.0 + 4.0)},
        rel=1e-12,
    )
    # In "both" the combination without the room, the age alone, stays exposed; in "sum" nothing does.
    assert worst == pytest.approx(
        {"room": np.inf, "age": 3.0, "both": 3.0, "sum": np.inf, "age and door": 0.0}, rel=1e-12, abs=1e-12
    )


def test_utility_is_lost_without_bound_when_u_is_not_estimable() -> None:
    network = one_per_parameter({"room": [[0, 0, 1, 0]]})
    assert vn.utility(network, {"sees gait": vn.Sanitizer.silent(1)}) == -np.inf


@pytest.mark.parametrize(
    ("silent", "named", "not_named"),
    [
        (["sees room"], ["room"], ["gait", "age", "door"]),
        (["sees door", "sees room"], [], ["gait", "age"]),
    ],
)
def test_crlb_names_the_direction(silent: list[str], named: list[str], not_named: list[str]) -> None:
    network = one_per_parameter({"room": [[0, 0, 1, 0]]})
    with pytest.raises(vn.NotObservable, match="does not determine") as error:
        vn.crlb(network, {name: vn.Sanitizer.silent(1) for name in silent})
    text = str(error.value)
    assert all(name in text for name in named)
    assert not any(name in text for name in not_named)


def test_crlb_names_a_direction_across_parameters() -> None:
    network = vn.Network(
        {"a": np.eye(3), "b": [[1.0, 0, 0]]}, 1.0, [[1, 0, 0]], {"g": [[0, 1, 0]]}, parameters=["u", "v", "w"]
    )
    with pytest.raises(vn.NotObservable, match=r"0\.71 [vw] - 0\.71 [vw]"):
        vn.crlb(network, {"a": vn.Sanitizer([[1.0, 0, 0], [0, 1.0, 1.0]])})


@pytest.mark.parametrize("noise", ["joint", "per agent"])
@pytest.mark.parametrize("prior", ["none", "singular"])
@pytest.mark.parametrize("seed", range(4))
def test_estimability_agrees_with_the_definition(noise: str, prior: str, seed: int) -> None:
    """Random compressions that leave J̃ singular; private rows planted inside and outside its range."""
    base = random_network(seed, noise=noise, prior=prior, sizes=(3, 3, 3), parameters=6)
    rng = np.random.default_rng(seed)
    sanitizers = {
        "a0": vn.Sanitizer(rng.standard_normal((1, 3))),
        "a1": vn.Sanitizer.silent(3) if prior == "singular" else vn.Sanitizer(rng.standard_normal((1, 3))),
        "a2": vn.Sanitizer(rng.standard_normal((1, 3)), 2.0),
    }
    if prior == "singular":
        sanitizers["a0"] = sanitizers["a2"] = vn.Sanitizer.silent(3)
    information = direct_information(base, sanitizers)
    rank = np.linalg.matrix_rank(information, tol=1e-9)
    assert rank == (5 if prior == "singular" else 3)
    inside = rng.standard_normal((2, 6)) @ information
    outside = rng.standard_normal((1, 6))
    network = vn.Network(
        base.observe, base.noise, inside,
        {"in": inside[:1], "out": outside, "mixed": np.concatenate([inside[:1], outside])}, base.prior,
    )  # fmt: skip
    privacy = vn.privacy(network, sanitizers)
    worst = vn.privacy(network, sanitizers, worst=True)
    expected = direct_growth(network, information, inside[:1])
    assert privacy["in"] == pytest.approx(expected, rel=1e-9)
    assert privacy["out"] == privacy["mixed"] == worst["out"] == np.inf
    assert worst["mixed"] == pytest.approx(expected, rel=1e-9)
    expected_loss = direct_error(information, inside) / direct_error(direct_information(base, {}), inside) - 1
    assert vn.utility(network, sanitizers) == pytest.approx(-expected_loss, rel=1e-9)
    with pytest.raises(vn.NotObservable):
        vn.crlb(network, sanitizers)


# --- what only shows at the edges of double precision


def test_a_small_row_that_leaves_counts_in_its_own_unit() -> None:
    """One row in metres, one in gigametres: the second is not estimable, however little it adds to a trace."""
    network = vn.Network({"a": [[1.0, 0]], "b": [[0, 1.0]]}, 1.0, [[1, 0]], {"g": [[1e9, 0], [0, 1e-9]]})
    assert vn.privacy(network, {"b": vn.Sanitizer.silent(1)})["g"] == np.inf


@pytest.mark.parametrize("strength", [1e6, 1e12, 1e20])
def test_the_exposed_direction_keeps_its_digits_beside_a_hidden_one(strength: float) -> None:
    rng = np.random.default_rng(1)
    turn, _ = np.linalg.qr(rng.standard_normal((4, 4)))
    network = vn.Network(
        {"half": turn[:2], "all": turn}, 1.0, turn[:1], {"three": rng.standard_normal((3, 4)), "x": np.eye(4)}
    )
    worst = vn.privacy(network, {"all": vn.Sanitizer(noise=[strength] * 4)}, worst=True)
    # Two directions are seen twice: with the second look drowned in noise their error doubles.
    assert worst == pytest.approx(
        dict.fromkeys(worst, (1 - 1 / strength) / (1 + 1 / strength) if strength < 1e16 else 1.0), rel=1e-6
    )


@pytest.mark.parametrize("variance", [1e-8, 1e-16, 1e-18, 1e-20])
def test_a_precise_agent_beside_a_coarse_one_keeps_its_row_estimable(variance: float) -> None:
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    network = vn.Network(
        {"fine": np.array([[1.0, 1.0]]) @ turn, "coarse": np.array([[1.0, -1.0]]) @ turn},
        [variance, 1.0], np.array([[1.0, 1.0]]) @ turn, {"g": np.array([[1.0, -1.0]]) @ turn},
    )  # fmt: skip
    sanitizers = {"coarse": vn.Sanitizer.silent(1)}
    assert vn.utility(network, sanitizers) == pytest.approx(0.0, abs=1e-9)
    assert vn.privacy(network, sanitizers) == {"g": np.inf}


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_private_rows_of_any_size(size: float) -> None:
    network = vn.Network({"a": np.eye(2), "b": [[1.0, 0]]}, 1.0, [[0, 1]], {"g": [[size, 0]]})
    assert vn.privacy(network, {"b": vn.Sanitizer.silent(1)})["g"] == pytest.approx(1.0, rel=1e-12)


# --- many agents


def test_many_agents_without_a_square_matrix() -> None:
    """5000 agents with 4 readings: R as one matrix would take 3.2 GB, all the bounds stay under 100 MB."""
    count, size, length = 5000, 4, 6
    rng = np.random.default_rng(8)
    observe = rng.standard_normal((count, size, length))
    roots = np.tril(rng.standard_normal((count, size, size)), -1) + 2 * np.eye(size)
    noise = roots @ np.swapaxes(roots, 1, 2)
    rows = rng.standard_normal((3, length))
    tracemalloc.start()
    network = vn.Network(observe, noise, rows[:1], {"g": rows[1:]}, vn.Prior(covariance=np.eye(length)))
    sanitizers = dict.fromkeys(network.agents[:3000], vn.Sanitizer(rows[:2, :size], noise=[0.0, 1.0]))
    bound = vn.crlb(network, sanitizers)
    vn.privacy(network, sanitizers)
    vn.privacy_limit(network)
    vn.bits_revealed(network, sanitizers)
    vn.utility(network, sanitizers)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6

    information = np.eye(length)
    for k in range(count):
        compression = rows[:2, :size] if k < 3000 else np.eye(size)
        theta = np.diag([0.0, 1.0]) if k < 3000 else np.zeros((size, size))
        seen = compression @ observe[k]
        information += seen.T @ np.linalg.solve(compression @ noise[k] @ compression.T + theta, seen)
    expected = np.linalg.inv(information)
    np.testing.assert_allclose(bound, expected, rtol=1e-9, atol=1e-9 * np.max(expected))


def test_many_agents_take_three_kilobytes_each() -> None:
    count, size, length = 20_000, 3, 4
    rng = np.random.default_rng(9)
    observe = rng.standard_normal((count, size, length))
    variances = rng.uniform(0.5, 2.0, count * size)
    tracemalloc.start()
    network = vn.Network(observe, variances, np.eye(length)[:1], {"g": np.eye(length)[1:2]})
    sanitizers = {name: vn.Sanitizer.silent(size) for name in network.agents[:100]}
    bound = vn.crlb(network)
    privacy = vn.privacy(network, sanitizers)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3000 * count
    white = observe.reshape(-1, length) / np.sqrt(variances)[:, None]
    np.testing.assert_allclose(bound, np.linalg.inv(white.T @ white), rtol=1e-9, atol=1e-16)
    kept = white[100 * size :]
    after = np.linalg.inv(kept.T @ kept)[1, 1] / bound[1, 1] - 1
    assert privacy["g"] == pytest.approx(after, rel=1e-9)


def test_a_plan_is_taken_where_sanitizers_are() -> None:
    network = random_network(seed=11, sizes=(3, 2, 2), noise="joint", prior="covariance")
    plan = vn.design(network)
    for bound in (vn.crlb, vn.utility, vn.privacy, vn.bits_revealed):
        np.testing.assert_equal(bound(network, plan), bound(network, plan.sanitizers))
    assert vn.privacy(network, plan, worst=True) == vn.privacy(network, plan.sanitizers, worst=True)
    assert vn.privacy(network, plan) != vn.privacy(network, {})
