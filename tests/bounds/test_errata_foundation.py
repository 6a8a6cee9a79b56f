"""Errata of the paper that concern the model and its bounds: the printed formula fails, the mended one holds.

Errata 3 to 8, 12 and 13 are tested beside the designs they concern.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import block_diag

import veilnet as vn
from helpers.networks import direct_crlb, direct_information, prior_information, random_network
from helpers.paper_networks import paper_arrays
from veilnet._core.types import Array
from veilnet.bounds.knowledge import gain, residual_information


def distance(found: Array, expected: Array) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def per_agent(network: vn.Network, *parts: Array) -> list[list[Array]]:
    """Diagonal blocks of N x N matrices, by agent."""
    rows = [network.blocks.rows(k) for k in range(network.S)]
    return [[part[r, r] for r in rows] for part in parts]


def information(network: vn.Network, compression: Array, noise: Array) -> Array:
    """J̃(C, Θ) by the definition, for block diagonal C and Θ."""
    blocks = zip(network.agents, *per_agent(network, compression, noise), strict=True)
    return direct_information(network, {name: vn.Sanitizer(c, theta) for name, c, theta in blocks})


def information_by_veilnet(network: vn.Network, compression: Array, noise: Array) -> Array:
    blocks = zip(network.agents, *per_agent(network, compression, noise), strict=True)
    return np.linalg.inv(vn.crlb(network, {name: vn.Sanitizer(c, theta) for name, c, theta in blocks}))


def random_blocks(network: vn.Network, seed: int) -> tuple[Array, Array, Array]:
    """Block diagonal C, invertible A and Θ."""
    rng = np.random.default_rng(seed)
    sizes = network.blocks.sizes
    compression = block_diag(*[rng.standard_normal((n, n)) for n in sizes])
    change = block_diag(*[rng.standard_normal((n, n)) + 2 * np.eye(n) for n in sizes])
    roots = block_diag(*[rng.standard_normal((n, n)) for n in sizes])
    return compression, change, roots @ roots.T


@pytest.mark.parametrize("prior", ["none", "covariance"])
def test_erratum_1_lemma_1_needs_the_inverse(prior: str) -> None:
    """J̃(AC, Θ) = J̃(C, A^-1 Θ A^-T); as printed, J̃(C, A'ΘA), only for unitary A."""
    network = random_network(1, prior=prior)
    compression, change, noise = random_blocks(network, 2)
    left = information_by_veilnet(network, change @ compression, noise)
    back = np.linalg.inv(change)
    assert distance(information(network, compression, back @ noise @ back.T), left) < 1e-9
    assert distance(information(network, compression, change.T @ noise @ change), left) > 1e-2

    unitary = block_diag(*[np.linalg.qr(block)[0] for block in per_agent(network, change)[0]])
    left = information_by_veilnet(network, unitary @ compression, noise)
    assert distance(information(network, compression, unitary.T @ noise @ unitary), left) < 1e-9


def test_erratum_1_proposition_1_inherits_it() -> None:
    """For invertible C, J̃(C, Θ) = J̃(I, C^-1 Θ C^-T), not J̃(I, C'ΘC)."""
    network = random_network(3)
    _, change, noise = random_blocks(network, 4)
    left = information_by_veilnet(network, change, noise)
    back = np.linalg.inv(change)
    assert distance(information(network, np.eye(network.N), back @ noise @ back.T), left) < 1e-9
    assert distance(information(network, np.eye(network.N), change.T @ noise @ change), left) > 1e-2
    for name, block, theta in zip(network.agents, *per_agent(network, change, noise), strict=True):
        one = vn.Sanitizer(block, theta)
        expected = np.linalg.solve(block, np.linalg.solve(block, theta).T)
        assert distance(one.as_noise(1e9).noise, expected) < 1e-9, name


def test_erratum_1_a_compression_that_cannot_be_diagonalised() -> None:
    """Proposition 1's proof writes C = QΛQ^-1. A nilpotent C has no such form; an SVD per block serves.

    Even "C is singular because of its zero eigenvalues" goes wrong: all three eigenvalues of this C are zero,
    so the printed Λ' is empty and its limit is silence, yet C sends two readings as they are.
    """
    shift = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    values, vectors = np.linalg.eig(shift)
    assert not np.any(values)
    assert np.linalg.matrix_rank(vectors, tol=1e-8) == 1  # no basis of eigenvectors

    network = random_network(5, sizes=(3, 6))
    sanitizer = vn.Sanitizer(shift)
    exact = direct_crlb(network, {"a0": sanitizer})
    silent = vn.crlb(network, {"a0": vn.Sanitizer.silent(3)})
    assert distance(vn.crlb(network, {"a0": sanitizer}), exact) < 1e-9
    assert distance(silent, exact) > 1e-2
    # By noise alone, the limit the proposition promises is reached all the same.
    assert distance(vn.crlb(network, {"a0": sanitizer.as_noise(1e8)}), exact) < 1e-6


def test_erratum_2_table_1_swaps_the_two_gains() -> None:
    """Table I: Ψ = P0 H'Φ without a prior, P H'R^-1 "otherwise". It is the other way round, and P H'R^-1 always."""
    with_prior = random_network(6, prior="covariance")
    start = np.linalg.inv(prior_information(with_prior))
    inverse = np.linalg.inv(with_prior.R.matrix())
    phi = np.linalg.inv(with_prior.H @ start @ with_prior.H.T + with_prior.R.matrix())
    assert distance(residual_information(with_prior), phi) < 1e-9
    assert (
        distance(gain(with_prior), start @ with_prior.H.T @ phi) < 1e-9
    )  # what the table has for "no prior"
    assert distance(gain(with_prior), direct_crlb(with_prior, {}) @ with_prior.H.T @ inverse) < 1e-9

    # Without a prior the table's P0 H'Φ cannot be: Φ H = 0, so that it vanishes for every P0.
    without = random_network(6, prior="none")
    printed = np.eye(without.L) @ without.H.T @ residual_information(without)
    assert np.linalg.norm(printed) < 1e-9 * np.linalg.norm(without.H) * np.linalg.norm(
        residual_information(without)
    )
    inverse = np.linalg.inv(without.R.matrix())
    assert distance(gain(without), direct_crlb(without, {}) @ without.H.T @ inverse) < 1e-9
    np.testing.assert_allclose(gain(without) @ without.H, np.eye(without.L), atol=1e-9)


def test_erratum_9_sign_in_bsb() -> None:
    """tr(B (nS + I/n)^-1 B') = Σ |B v_i|² / (n λ_i + 1/n); printed with a minus, which turns λ = 0 negative."""
    rng = np.random.default_rng(7)
    basis, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    values = np.array([0.0, 0.0, 0.5, 1.0, 3.0])
    rows = rng.standard_normal((2, 5))
    weights = np.sum((rows @ basis) ** 2, axis=0)
    for n in (3.0, 10.0, 1e3):
        direct = np.trace(rows @ np.linalg.inv(n * (basis * values) @ basis.T + np.eye(5) / n) @ rows.T)
        assert np.sum(weights / (n * values + 1 / n)) == pytest.approx(direct, rel=1e-9)
        printed = np.sum(weights / (n * values - 1 / n))
        assert abs(printed / direct - 1) > 0.1
    assert printed < 0 < direct  # at large n the directions that S leaves out decide


def test_erratum_9_a_transpose_in_appendix_a() -> None:
    """P = P0 - P0 H'Φ H P0; printed P0 H'Φ H' P0, which has no meaning unless N = L and is wrong then."""
    network = random_network(8, prior="covariance", sizes=(2, 2), parameters=4)
    start = np.linalg.inv(prior_information(network))
    phi = residual_information(network)
    mended = start - start @ network.H.T @ phi @ network.H @ start
    printed = start - start @ network.H.T @ phi @ network.H.T @ start
    assert distance(mended, vn.crlb(network)) < 1e-9
    assert distance(printed, vn.crlb(network)) > 1e-2

    wide = random_network(8, prior="covariance")
    with pytest.raises(ValueError, match="mismatch"):
        wide.H.T @ residual_information(wide) @ wide.H.T


def test_erratum_10_the_largest_privacy_in_the_printed_setting() -> None:
    """With the settings as printed ε^max averages about 2260 over 200 draws; the caption says 74.1."""
    limits = []
    for seed in range(200):
        arrays = paper_arrays(seed, 12, 3, True)
        cuts = np.cumsum(arrays.sizes)[:-1]
        network = vn.Network(
            observe={f"a{k}": rows for k, rows in enumerate(np.split(arrays.observe, cuts))},
            noise=arrays.noise,
            public=arrays.public,
            private={"g": arrays.private[0]},
            prior=vn.Prior(covariance=arrays.prior_covariance),
        )
        limits.append(vn.privacy_limit(network)["g"])
    assert 2000 < np.mean(limits) < 2600
    assert min(limits) > 5 * 74.1  # not one draw comes near the caption
    rows = network.private["g"]
    start, raw = arrays.prior_covariance, direct_crlb(network, {})
    expected = np.trace(rows @ start @ rows.T) / np.trace(rows @ raw @ rows.T) - 1
    assert limits[-1] == pytest.approx(expected, rel=1e-9)


def one_reading() -> vn.Network:
    """y = x + n with noise of variance 1 and prior variance 4: J0 = 1/4, raw information 5/4."""
    return vn.Network({"a": [[1.0]]}, 1.0, [[1.0]], {"g": [1.0]}, prior=vn.Prior(covariance=[[4.0]]))


def scalar_bound(network: vn.Network, compression: float, noise: float) -> float:
    return vn.crlb(network, {"a": vn.Sanitizer([[compression]], [[noise]])}).item()


def test_erratum_11_the_information_is_not_continuous_where_rows_vanish() -> None:
    """Lemma 1 (i) says that it is. Without noise any C ≠ 0 tells the reading, and C = 0 tells nothing."""
    network = one_reading()
    for compression in (1.0, 1e-6, 1e-100):
        assert scalar_bound(network, compression, 0.0) == pytest.approx(0.8, rel=1e-12)
    assert scalar_bound(network, 0.0, 0.0) == pytest.approx(4.0, rel=1e-12)
    # With noise CRC' + Θ stays invertible, and it is continuous there.
    for compression in (1e-3, 1e-6, 0.0):
        expected = 1 / (0.25 + compression**2 / (compression**2 + 1))
        assert scalar_bound(network, compression, 1.0) == pytest.approx(expected, rel=1e-12)
    assert scalar_bound(network, 1e-6, 1.0) == pytest.approx(scalar_bound(network, 0.0, 1.0), rel=1e-11)


def test_erratum_11_the_printed_sequence_does_not_approach_silence() -> None:
    """Proposition 1 (i) approaches a singular C by C_λ, λ → 0, at the same Θ. Growing noise does approach it."""
    network = one_reading()
    printed = [scalar_bound(network, size, 0.0) for size in (1e-2, 1e-4, 1e-8)]
    np.testing.assert_allclose(printed, 0.8, rtol=1e-12)  # for every λ, while silence has 4
    silent = vn.Sanitizer.silent(1)
    errors = [4.0 - vn.crlb(network, {"a": silent.as_noise(size)}).item() for size in (1e2, 1e4, 1e6)]
    assert all(
        4.0 * 0.9 < error * size / 4.0 < 4.0 * 1.1
        for error, size in zip(errors, (1e2, 1e4, 1e6), strict=True)
    )

    # More dimensions: C drops one combination of agent a1's readings without noise.
    network = random_network(12, sizes=(3, 4), prior="covariance")
    kept = np.linalg.qr(np.random.default_rng(12).standard_normal((4, 3)))[0].T
    exact = direct_crlb(network, {"a1": vn.Sanitizer(kept)})
    left, singular, right = np.linalg.svd(np.concatenate([kept, np.zeros((1, 4))]))
    for size in (1e-2, 1e-5):
        nearly = (left * np.append(singular[:3], size)) @ right
        bound = vn.crlb(network, {"a1": vn.Sanitizer(nearly)})
        assert distance(bound, vn.crlb(network)) < 1e-9  # as if raw readings were sent
        assert distance(bound, exact) > 1e-2
    assert distance(vn.crlb(network, {"a1": vn.Sanitizer(kept).as_noise(1e9)}), exact) < 1e-7


def test_erratum_11_compressions_are_the_closure_of_noise() -> None:
    """Proposition 1 (i) should read B = closure of A; it says that B without A is the boundary of A.

    The raw information belongs to A (Θ = 0) and to its boundary: no sanitization has any more.
    """
    network = one_reading()
    informations = [1 / scalar_bound(network, 1.0, noise) for noise in (0.0, 1.0, 1e3, 1e9)]
    assert informations[0] == pytest.approx(1.25, rel=1e-12)  # A = (1/4, 5/4]: its boundary is 1/4 and 5/4
    assert informations == sorted(informations, reverse=True)
    assert informations[-1] > 0.25  # for every finite noise, so that silence is in B and not in A
    assert 1 / scalar_bound(network, 0.0, 0.0) == pytest.approx(0.25, rel=1e-12)

    # Limits of A are in B: noise n·vv' + W tends to "send Q'y with noise Q'WQ", Q the complement of v.
    network = random_network(13, sizes=(3, 4), prior="none")
    rng = np.random.default_rng(13)
    basis = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    loud, quiet = basis[:, :1], basis[:, 1:]
    root = rng.standard_normal((4, 4))
    limit = vn.crlb(network, {"a1": vn.Sanitizer(quiet.T, quiet.T @ root @ root.T @ quiet)})
    gaps = [
        distance(vn.crlb(network, {"a1": vn.Sanitizer(noise=size * loud @ loud.T + root @ root.T)}), limit)
        for size in (1e3, 1e6, 1e9)
    ]
    assert gaps[0] > 1e-5
    assert gaps[1] < 2e-3 * gaps[0]
    assert gaps[2] < 1e-8


@pytest.mark.parametrize("prior", ["none", "covariance", "singular"])
def test_erratum_14_sanitization_need_not_enlarge_every_error(prior: str) -> None:
    """Section II: "P̃ ≻ P". It is P̃ ⪰ P: raw readings have P̃ = P, and perfect utility keeps U(P̃ - P)U' = 0."""
    network = random_network(14, prior=prior, sizes=(3, 4, 2), public_rows=1)
    raw = vn.crlb(network)
    sent = {name: vn.Sanitizer.raw(network.observe[name].shape[0]) for name in network.agents}
    assert distance(vn.crlb(network, sent), raw) < 1e-12

    shares = network.U @ gain(network)
    free = {}
    for place, name in enumerate(network.agents):
        share = shares[:, network.blocks.rows(place)]
        off = np.eye(share.shape[1]) - np.linalg.pinv(share) @ share
        free[name] = vn.Sanitizer(noise=3.0 * off)
    grown = vn.crlb(network, free) - raw
    scale = float(np.linalg.norm(raw))
    values = np.linalg.eigvalsh(grown)
    assert values[-1] > 1e-2 * scale  # something is hidden,
    assert values[0] > -1e-10 * scale  # nothing is known better,
    np.testing.assert_allclose(grown @ network.U.T, 0, atol=1e-10 * scale)  # and u is known as well as before
