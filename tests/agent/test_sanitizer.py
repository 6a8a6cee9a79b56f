"""The sanitizer: its normal form, noise and compression into each other, and what it says of itself."""

from __future__ import annotations

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import direct_crlb, random_network, random_sanitizer
from veilnet._core.types import Array
from veilnet.agent.normal_form import normal_form

KINDS = ("noise", "rectangular", "dependent", "singular noise")


def told(sanitizer: vn.Sanitizer, noise: Array | None = None) -> Array:
    """C'(C R C' + Θ)^+ C: all that a sanitizer tells about readings with noise R (identity when left out)."""
    compression = sanitizer.compression
    own = np.eye(sanitizer.readings) if noise is None else noise
    covariance = compression @ own @ compression.T + sanitizer.noise
    deviation = np.sqrt(np.where(np.diag(covariance) > 0, np.diag(covariance), 1.0))
    weights = np.linalg.pinv(covariance / np.outer(deviation, deviation), rcond=1e-10, hermitian=True)
    unit = compression / deviation[:, None]
    return np.asarray(unit.T @ weights @ unit)


# --- the normal form


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_normal_form_tells_the_same(kind: str, size: int) -> None:
    for seed in range(5):
        sanitizer = random_sanitizer(np.random.default_rng([seed, size]), kind, size)
        normal = sanitizer.normalized()
        np.testing.assert_allclose(told(normal), told(sanitizer), rtol=1e-9, atol=1e-9)
        variances = np.diag(normal.noise)
        assert np.array_equal(normal.noise, np.diag(variances))
        assert set(variances.tolist()) <= {0.0, 1.0}
        assert np.linalg.matrix_rank(normal.compression) == normal.sent == normal.normal[0].shape[0]
        assert normal.is_normal


def test_normal_form_of_planted_mechanisms() -> None:
    """Zero rows, copies and drowned rows vanish; noise is scaled to one; exact rows come first."""
    rows, noisy = normal_form(np.array([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]]), np.diag([4.0, 0.0, 5.0]))
    assert noisy.tolist() == [False, True]
    np.testing.assert_allclose(np.abs(rows), [[1.0, 0.0], [0.0, 1.0]], atol=1e-15)
    rows, noisy = normal_form(np.array([[1.0, 1.0], [2.0, 2.0], [1.0, 1.0]]), np.zeros((3, 3)))
    assert rows.shape == (1, 2)
    assert rows[0, 0] == pytest.approx(rows[0, 1], rel=1e-12)
    # Two noisy looks at one reading are one look with half the variance.
    rows, noisy = normal_form(np.array([[1.0], [1.0]]), np.diag([2.0, 2.0]))
    assert noisy.tolist() == [True]
    assert abs(rows[0, 0]) == pytest.approx(1.0, rel=1e-12)
    # An exact reading makes its noisy copy worthless.
    rows, noisy = normal_form(np.array([[1.0, 0.0], [1.0, 1.0]]), np.diag([0.0, 1.0]))
    assert noisy.tolist() == [False, True]
    np.testing.assert_allclose(np.abs(rows[1]), [0.0, 1.0], atol=1e-15)
    assert rows[0, 1] == 0  # without noise only the direction of a row counts
    # The same noise on two numbers: their difference is sent without any.
    rows, noisy = normal_form(np.eye(2), np.ones((2, 2)))
    assert noisy.tolist() == [False, True]
    assert rows[0, 0] == pytest.approx(-rows[0, 1], rel=1e-12)


def test_nothing_sent_stays_nothing() -> None:
    for sanitizer in (
        vn.Sanitizer.silent(3),
        vn.Sanitizer(np.zeros((2, 3))),
        vn.Sanitizer(np.zeros((2, 3)), [1, 2]),
    ):
        assert sanitizer.normalized().sent == 0
        assert sanitizer.normalized().readings == 3


@pytest.mark.parametrize("units", [[1e-9, 1.0, 1e9], [1e9, 1e9, 1e-9]])
@pytest.mark.parametrize("kind", KINDS)
def test_normal_form_in_mixed_units(kind: str, units: list[float]) -> None:
    """Readings in other units: the same rows in those units, none lost, none invented."""
    scale = np.array(units)
    for seed in range(5):
        sanitizer = random_sanitizer(np.random.default_rng(seed), kind, 3)
        scaled = sanitizer.replace(compression=sanitizer.compression / scale).normalized()
        expected = sanitizer.normalized()
        assert (scaled.sent, np.trace(scaled.noise)) == (expected.sent, np.trace(expected.noise))
        np.testing.assert_allclose(
            told(scaled.replace(compression=scaled.compression * scale)),
            told(sanitizer),
            rtol=1e-8,
            atol=1e-8,
        )


@pytest.mark.parametrize("seed", range(20))
def test_a_copy_with_its_noise_is_no_reading(seed: int) -> None:
    """Copies cancel, noise included, up to rounding: what is left must not pass for an exact reading."""
    rng = np.random.default_rng(seed)
    size = 1 + seed % 4
    root = rng.standard_normal((size, size))
    root[:, 0] *= 1e-3  # ill-conditioned noise amplifies the rounding
    copies = np.concatenate([np.eye(size), rng.standard_normal((2, size))])
    once, twice = vn.Sanitizer(noise=root @ root.T), vn.Sanitizer(copies, copies @ root @ root.T @ copies.T)
    assert np.array_equal(twice.normal[1], once.normal[1])
    np.testing.assert_allclose(told(twice.normalized()), told(once.normalized()), rtol=1e-6, atol=1e-8)


# --- compression as noise, and back


@pytest.mark.parametrize("kind", KINDS)
def test_compression_is_the_limit_of_noise(kind: str) -> None:
    """Proposition 1(i), mended: the bound by noise alone converges like 1 / power."""
    network = random_network(3, noise="joint", sizes=(4, 3, 6))
    sanitizer = random_sanitizer(np.random.default_rng(4), kind, 4)
    exact = direct_crlb(network, {"a0": sanitizer})
    gaps = []
    for power in (1e4, 1e6, 1e8):
        noise = sanitizer.as_noise(power)
        assert np.array_equal(noise.compression, np.eye(4))
        bound = vn.crlb(network, {"a0": noise})
        assert np.linalg.eigvalsh(exact - bound)[0] > -1e-9  # at finite power noise tells a little more
        gaps.append(np.linalg.norm(bound - exact) / np.linalg.norm(exact))
        if sanitizer.normalized().sent < 4:
            assert np.trace(noise.noise) == pytest.approx(power, rel=1e-9)
        else:
            assert gaps[-1] < 1e-9  # nothing withheld: the same at every power
    if sanitizer.normalized().sent < 4:
        assert gaps[0] > 1e-7
        assert gaps[1] == pytest.approx(gaps[0] / 100, rel=0.05)
        assert gaps[2] == pytest.approx(gaps[1] / 100, rel=0.05)


def test_as_noise_with_very_different_noises() -> None:
    """Noise from 1e-20 to 1e20 survives: no row is taken for withheld because it is small."""
    sanitizer = vn.Sanitizer([[1, 0, 0], [0, 1, 0]], [1e-20, 1e12])
    theta = sanitizer.as_noise(1e15).noise
    assert np.diag(theta) == pytest.approx([1e-20, 1e12, 1e15 - 1e12], rel=1e-12)
    sanitizer = vn.Sanitizer(noise=[1e-20, 1.0, 1e20])
    assert np.diag(sanitizer.as_noise(2e20).noise) == pytest.approx([1e-20, 1.0, 1e20], rel=1e-12)


def test_as_noise_takes_a_mix_apart() -> None:
    """A invertible: (A, Λ) is noise A^-1 Λ A^-T, whatever the units of the readings."""
    mix = np.array([[1.0, 1.0], [1.0, -1.0]])
    for units in ([1.0, 1.0], [1e9, 1e-9]):
        theta = vn.Sanitizer(mix / units, [2.0, 2.0]).as_noise(1e30).noise
        np.testing.assert_allclose(theta / np.outer(units, units), np.eye(2), rtol=1e-9, atol=1e-9)


def test_silence_and_rawness_as_noise() -> None:
    assert vn.Sanitizer.silent(2).as_noise(10.0).noise == pytest.approx(5 * np.eye(2))
    assert not np.any(vn.Sanitizer.raw(2).as_noise(10.0).noise)


def test_not_enough_power() -> None:
    with pytest.raises(vn.InvalidNetwork, match=r"power: expected over 4, needed by the noisy rows, found 3"):
        vn.Sanitizer([[1.0, 0.0]], 4.0).as_noise(3.0)


# --- what it is


@pytest.mark.parametrize(
    ("sanitizer", "text"),
    [
        (vn.Sanitizer.silent(3, agent="hall"), "Sanitizer(hall: 3 readings, sends nothing)"),
        (
            vn.Sanitizer([[1, 0, 0]]),
            "Sanitizer(3 readings, sends 1 number; 1 exact, 0 with noise; 2 directions withheld)",
        ),
        (
            vn.Sanitizer([[1, 0, 0], [0, 1, 0]], [0, 7.0]),
            "Sanitizer(3 readings, sends 2 numbers; 1 exact, 1 with noise; 1 direction withheld)",
        ),
        (
            vn.Sanitizer([[1, 0], [1, 0], [0, 0]]),
            "Sanitizer(2 readings, sends 1 number; 1 exact, 0 with noise; 1 direction withheld)",
        ),
    ],
)
def test_repr_says_what_is_sent(sanitizer: vn.Sanitizer, text: str) -> None:
    assert repr(sanitizer) == text


def test_forms_of_noise() -> None:
    full = vn.Sanitizer(noise=[[2.0, 1.0], [1.0, 3.0]])
    assert np.array_equal(full.compression, np.eye(2))
    assert np.array_equal(vn.Sanitizer(noise=[2.0, 3.0]).noise, np.diag([2.0, 3.0]))
    assert np.array_equal(vn.Sanitizer(np.ones((2, 3)), 4.0).noise, 4 * np.eye(2))
    assert vn.Sanitizer(noise=4.0).readings == 1
    assert not np.any(vn.Sanitizer(np.ones((2, 3))).noise)


def test_frozen_inside_and_out() -> None:
    compression = np.eye(2)
    sanitizer = vn.Sanitizer(compression, [1.0, 2.0], limits=(0, 1), grid=0.5)
    made = vn.Sanitizer.exact(np.eye(2), offset=np.zeros(2)).with_grid(np.array([0.5, 0.25]))
    with pytest.raises(AttributeError, match="frozen"):
        sanitizer.noise = np.zeros((2, 2))
    arrays = [
        part for one in (sanitizer, made) for part in (one.compression, one.noise, one.offset, one.grid)
    ]
    for array in (*arrays, *sanitizer.limits):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5.0
    compression[0, 0] = 9.0
    assert sanitizer.compression[0, 0] == 1.0


def test_neither_compression_nor_noise_is_refused_with_a_way_out() -> None:
    with pytest.raises(vn.InvalidNetwork, match=r"found neither; use Sanitizer\.raw\(n\) .*silent\(n\)"):
        vn.Sanitizer()


def test_replace_changes_one_thing() -> None:
    sanitizer = vn.Sanitizer([[1, 0]], 2.0, offset=[3, 4], grid=0.5, limits=(-1, 1), agent="hall")
    other = sanitizer.replace(noise=5.0)
    assert other.noise[0, 0] == 5.0
    assert other.agent == "hall"
    assert other.offset.tolist() == [3, 4]
    assert other.grid is not None
    assert other.grid.tolist() == [0.5]
    assert [edge.tolist() for edge in other.limits or ()] == [[-1, -1], [1, 1]]


def test_normalized_keeps_offset_limits_and_agent() -> None:
    sanitizer = vn.Sanitizer([[1, 0]], 2.0, offset=[3, 4], limits=(-1, 1), agent="hall").normalized()
    assert sanitizer.agent == "hall"
    assert sanitizer.offset.tolist() == [3, 4]
    assert sanitizer.limits is not None
