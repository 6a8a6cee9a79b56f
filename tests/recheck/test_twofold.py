"""Arithmetic with 32 digits against exact fractions, and the precise recheck against the definition."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import PRIORS, direct_growth, direct_information, random_network, random_sanitizers
from veilnet._core.twofold import Twofold
from veilnet.agent.mechanisms import mechanisms
from veilnet.recheck.route import WITHOUT_BOUND, Recheck
from veilnet.recheck.sums import DoubleRecheck, information_sums
from veilnet.recheck.twofold import TwofoldRecheck


def fractions(values: Twofold) -> list[Fraction]:
    flat = zip(values.high.ravel().tolist(), values.low.ravel().tolist(), strict=True)
    return [Fraction(high) + Fraction(low) for high, low in flat]


def wide(rng: np.random.Generator, count: int) -> Twofold:
    """Numbers of every size, with digits in both halves."""
    high = rng.standard_normal(count) * 10.0 ** rng.integers(-20, 20, count)
    return Twofold.of(high) + Twofold.of(high * rng.uniform(-1, 1, count) * 2.0**-54)


@pytest.mark.parametrize("name", ["__add__", "__sub__", "__mul__", "__truediv__"])
def test_every_operation_is_right_to_thirty_digits(name: str) -> None:
    rng = np.random.default_rng(1)
    one, other = wide(rng, 500), wide(rng, 500)
    found = fractions(getattr(one, name)(other))
    exactly: list[Any] = [getattr(a, name)(b) for a, b in zip(fractions(one), fractions(other), strict=True)]
    assert all(abs(f - e) <= abs(e) * Fraction(1, 10**30) for f, e in zip(found, exactly, strict=True))


def test_sums_that_cancel_keep_the_digits_doubles_lose() -> None:
    tiny = Twofold.of([1.0]) + Twofold.of([1e-25])
    assert fractions(tiny - Twofold.of([1.0])) == [Fraction(1e-25)]


def test_products_and_totals_against_fractions() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((3, 5)), rng.standard_normal((5, 2))
    exactly = [
        sum(Fraction(a[i, k]) * Fraction(b[k, j]) for k in range(5)) for i in range(3) for j in range(2)
    ]
    found = fractions(Twofold.of(a) @ Twofold.of(b))
    assert all(abs(f - e) < Fraction(1, 10**30) for f, e in zip(found, exactly, strict=True))
    total = fractions(Twofold.of(a.reshape(-1)).total())
    assert abs(total[0] - sum(map(Fraction, a.ravel().tolist()))) < Fraction(1, 10**30)


@pytest.mark.parametrize("kind", ["noise", "rectangular", "dependent", "singular noise", "silent", "mixed"])
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("noise", ["joint", "per agent"])
def test_the_precise_recheck_agrees_with_the_definition(noise: str, prior: str, kind: str) -> None:
    network = random_network(5, noise=noise, prior=prior)
    sanitizers = random_sanitizers(network, 5, kind)
    information = direct_information(network, sanitizers)
    recheck = TwofoldRecheck(network, mechanisms(network, sanitizers))
    for rows in (network.U, *network.private.values()):
        expected = direct_growth(network, information, rows)
        if np.isinf(expected):
            assert recheck.growth(rows, 1e-22) > WITHOUT_BOUND
        else:
            assert recheck.growth(rows, 1e-22) == pytest.approx(expected, rel=1e-7)


def test_what_is_found_never_exceeds_the_truth_and_is_tight_where_the_claim_is_true() -> None:
    # One agent hides g behind noise of known strength: p is known in closed form.
    for strength in (1.0, 1e6, 1e10, 1e14):
        network = vn.Network({"a": np.eye(2)}, 1.0, [[1, 0]], {"g": [0, 1]})
        recheck = Recheck(network, {"a": vn.Sanitizer(noise=[0.0, strength])})
        rows = network.private["g"]
        assert recheck.growth(rows, strength) == pytest.approx(strength, rel=1e-9)
        for claimed in (0.0, strength / 7, strength * 3, 1e300, np.inf):
            assert recheck.growth(rows, claimed) <= strength * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["noise", "rectangular", "dependent", "mixed"])
@pytest.mark.parametrize("noise", ["joint", "per agent"])
def test_the_quick_recheck_agrees_with_the_definition(noise: str, kind: str) -> None:
    network = random_network(7, noise=noise, prior="covariance")
    sanitizers = random_sanitizers(network, 7, kind)
    information = direct_information(network, sanitizers)
    assert network.prior is not None
    sums = information_sums(network, mechanisms(network, sanitizers))
    recheck = DoubleRecheck(*(network.prior.information + each for each in sums))
    for rows in (network.U, *network.private.values()):
        expected = direct_growth(network, information, rows)
        assert recheck.growth(rows, 1e-14) == pytest.approx(expected, rel=1e-7, abs=1e-9)
