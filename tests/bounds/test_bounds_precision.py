"""The bounds against 50-digit arithmetic, with noise conditioned up to 1e10."""

from __future__ import annotations

from collections.abc import Mapping

import mpmath as mp
import numpy as np
import pytest

import veilnet as vn
from helpers.networks import message_model, random_sanitizers
from veilnet._core.linalg import refined_root
from veilnet._core.types import Array

AGENTS = (3, 2, 4)
PARAMETERS = 3


@pytest.fixture(autouse=True)
def _fifty_digits() -> object:
    with mp.workdps(50):
        yield


def covariance(rng: np.random.Generator, size: int, condition: float) -> Array:
    """A covariance turned at random, with eigenvalues from 1 down to 1 / condition."""
    basis, _ = np.linalg.qr(rng.standard_normal((size, size)))
    matrix = (basis * np.logspace(0, -np.log10(condition), size)) @ basis.T
    return np.asarray((matrix + matrix.T) / 2)


def ill_conditioned(seed: int, noise: str, prior: str, condition: float = 1e10) -> vn.Network:
    """A network whose noise (joint, or that of every agent) has the given condition number."""
    rng = np.random.default_rng(seed)
    known = covariance(rng, PARAMETERS, 1e4)
    return vn.Network(
        observe={f"a{k}": rng.standard_normal((size, PARAMETERS)) for k, size in enumerate(AGENTS)},
        noise=(
            covariance(rng, sum(AGENTS), condition)
            if noise == "joint"
            else {f"a{k}": covariance(rng, size, condition) for k, size in enumerate(AGENTS)}
        ),
        public=rng.standard_normal((2, PARAMETERS)),
        private={"g": rng.standard_normal((2, PARAMETERS))},
        prior={
            "none": None,
            "full": vn.Prior(covariance=known),
            "singular": vn.Prior(information=np.diag([2.0, 0.5, 0.0])),
        }[prior],
    )


def sanitizers_of(network: vn.Network, seed: int, kind: str) -> dict[str, vn.Sanitizer]:
    """C R C' + Θ stays invertible, so that 50 digits need no rank decision."""
    rng = np.random.default_rng([seed, 5])
    if kind == "invertible":  # the same information as raw readings, by another matrix of the same condition
        return {
            name: vn.Sanitizer(rng.standard_normal((len(rows), len(rows))))
            for name, rows in network.observe.items()
        }
    if kind == "wide":  # noise from 1e-16 to 1e16 within one plan
        return {
            "a0": vn.Sanitizer(rng.standard_normal((2, 3))),
            "a1": vn.Sanitizer(noise=[1e-16, 1e16]),
            "a2": vn.Sanitizer(rng.standard_normal((4, 4)), np.diag([0, 0, 1e-6, 1e6])),
        }
    return random_sanitizers(network, seed, kind)


def exact(matrix: Array) -> mp.matrix:
    return mp.matrix(np.asarray(matrix).tolist())


def exact_prior(network: vn.Network) -> mp.matrix:
    if network.prior is None:
        return mp.zeros(network.L)
    if network.prior.given == "information":
        return exact(network.prior.information)
    return mp.inverse(exact(network.prior.covariance))


def exact_crlb(network: vn.Network, sanitizers: Mapping[str, vn.Sanitizer]) -> mp.matrix:
    """P̃(C, Θ) by the definition, the given doubles taken as exact."""
    compression, theta = (exact(part) for part in message_model(network, sanitizers))
    observed = compression * exact(network.H)
    middle = mp.inverse(compression * exact(network.R.matrix()) * compression.T + exact(theta))
    return mp.inverse(exact_prior(network) + observed.T * middle * observed)


def error_of(rows: Array, bound: mp.matrix) -> mp.matrix:
    return exact(rows) * bound * exact(rows).T


def trace_growth(rows: Array, bound: mp.matrix, raw: mp.matrix) -> float:
    after, before = error_of(rows, bound), error_of(rows, raw)
    return float(sum(after[k, k] for k in range(len(rows))) / sum(before[k, k] for k in range(len(rows))) - 1)


def worst_growth(rows: Array, bound: mp.matrix, raw: mp.matrix) -> float:
    lower = mp.inverse(mp.cholesky(error_of(rows, raw)))
    return float(min(list(mp.eigsy(lower * error_of(rows, bound) * lower.T, eigvals_only=True))) - 1)


@pytest.mark.parametrize("kind", ["noise", "rectangular", "singular noise", "invertible", "wide"])
@pytest.mark.parametrize("prior", ["none", "full", "singular"])
@pytest.mark.parametrize("noise", ["joint", "per agent"])
def test_bounds_to_a_millionth(noise: str, prior: str, kind: str) -> None:
    for seed in range(2):
        network = ill_conditioned(seed, noise, prior)
        assert np.linalg.cond(network.R.block(1) if noise == "per agent" else network.R.matrix()) > 5e9
        sanitizers = sanitizers_of(network, seed, kind)
        raw, bound = exact_crlb(network, {}), exact_crlb(network, sanitizers)
        rows = network.private["g"]

        for found, expected in ((vn.crlb(network), raw), (vn.crlb(network, sanitizers), bound)):
            reference = np.array(expected.tolist(), dtype=float)
            deviation = np.sqrt(np.diag(reference))
            assert np.max(np.abs(found - reference) / np.outer(deviation, deviation)) < 1e-6
        # Ratios to the raw bound are exact to a millionth of the ratio; "invertible" has growth zero.
        loss = trace_growth(network.U, bound, raw)
        assert 1 - vn.utility(network, sanitizers) == pytest.approx(1 + loss, rel=1e-6)
        assert 1 + vn.privacy(network, sanitizers)["g"] == pytest.approx(
            1 + trace_growth(rows, bound, raw), rel=1e-6
        )
        assert 1 + vn.privacy(network, sanitizers, worst=True)["g"] == pytest.approx(
            1 + worst_growth(rows, bound, raw), rel=1e-6
        )
        if prior == "full":
            silent = mp.inverse(exact_prior(network))
            bits = mp.log(mp.det(error_of(rows, silent)) / mp.det(error_of(rows, bound)), 2) / 2
            assert vn.bits_revealed(network, sanitizers)["g"] == pytest.approx(float(bits), rel=1e-6)
            assert vn.privacy_limit(network)["g"] == pytest.approx(trace_growth(rows, silent, raw), rel=1e-6)


@pytest.mark.parametrize("weakness", [1e3, 1e8, 1e14, 1e18])
def test_bits_under_a_weak_prior(weakness: float) -> None:
    rng = np.random.default_rng(1)
    network = vn.Network(
        {"a": rng.standard_normal((4, 4)), "b": rng.standard_normal((3, 4))}, 1.0, np.eye(4)[:1],
        {"g": rng.standard_normal((3, 4))}, vn.Prior(covariance=np.diag([1, 1, 1, weakness])),
    )  # fmt: skip
    sanitizers = {"a": vn.Sanitizer(rng.standard_normal((1, 4))), "b": vn.Sanitizer(noise=[weakness] * 3)}
    rows = network.private["g"]
    before, after = mp.inverse(exact_prior(network)), exact_crlb(network, sanitizers)
    bits = mp.log(mp.det(error_of(rows, before)) / mp.det(error_of(rows, after)), 2) / 2
    assert vn.bits_revealed(network, sanitizers)["g"] == pytest.approx(float(bits), rel=1e-6)


@pytest.mark.parametrize("strength", [1e8, 1e16, 1e20])
def test_worst_direction_beside_one_lost_in_noise(strength: float) -> None:
    rng = np.random.default_rng(3)
    network = vn.Network(
        {"a": rng.standard_normal((3, 4)), "b": rng.standard_normal((2, 4)), "c": rng.standard_normal((3, 4))},
        1.0, np.eye(4)[:1], {"g": rng.standard_normal((3, 4))},
    )  # fmt: skip
    sanitizers = {
        "a": vn.Sanitizer(rng.standard_normal((1, 3))),
        "b": vn.Sanitizer(rng.standard_normal((1, 2))),
        "c": vn.Sanitizer(noise=[strength] * 3),
    }
    expected = worst_growth(network.private["g"], exact_crlb(network, sanitizers), exact_crlb(network, {}))
    assert expected < 100
    assert vn.privacy(network, sanitizers, worst=True)["g"] == pytest.approx(expected, rel=1e-6)


def test_refinement_brings_back_the_digits_cholesky_loses() -> None:
    matrices = np.stack([covariance(np.random.default_rng(seed), 3, 1e10) for seed in range(20)])
    plain = np.linalg.cholesky(matrices)
    lost, kept = [], []
    for matrix, before, after in zip(matrices, plain, refined_root(plain, matrices), strict=True):
        reference = np.array(mp.cholesky(exact(matrix)).tolist(), dtype=float)
        lost.append(abs(before[2, 2] / reference[2, 2] - 1))
        kept.append(abs(after[2, 2] / reference[2, 2] - 1))
    assert max(lost) > 1e-8
    assert max(kept) < 1e-12
