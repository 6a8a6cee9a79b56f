"""Whether a sanitizer tells more than another: planted both ways, and against two independent oracles.

Oracles: K(C, Θ) = C'(C R C' + Θ)^+ C by dense pseudo-inverses for a random R, and the definition itself (a W found by
least squares in closed form where the earlier noise is positive definite).
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import veilnet as vn
from veilnet._core.types import Array
from veilnet.agent.memory import Memory
from veilnet.review.order import what_more

SEEDS = st.integers(0, 2**32 - 1)


def covariance(rng: np.random.Generator, size: int, rank: int | None = None) -> Array:
    root = rng.standard_normal((size, size if rank is None else rank))
    return root @ root.T


def anything(rng: np.random.Generator, readings: int = 4) -> vn.Sanitizer:
    """Some rows, some of them exact, noise correlated."""
    sent = int(rng.integers(0, readings + 1))
    return vn.Sanitizer(
        rng.standard_normal((sent, readings)), covariance(rng, sent, int(rng.integers(0, sent + 1)))
    )


def garbled(rng: np.random.Generator, sanitizer: vn.Sanitizer) -> vn.Sanitizer:
    """What a receiver makes of the messages: combinations of them, and noise of its own."""
    sent = int(rng.integers(0, 6))
    mixed = rng.standard_normal((sent, sanitizer.sent))
    own = covariance(rng, sent, int(rng.integers(0, sent + 1)))
    noise = mixed @ sanitizer.noise @ mixed.T + own
    return vn.Sanitizer(mixed @ sanitizer.compression, (noise + noise.T) / 2)


def information(sanitizer: vn.Sanitizer, spread: Array) -> Array:
    """K by the formula."""
    rows = sanitizer.compression
    return (
        rows.T @ np.linalg.pinv(rows @ spread @ rows.T + sanitizer.noise, rcond=1e-10, hermitian=True) @ rows
    )


def excess(new: vn.Sanitizer, agreed: vn.Sanitizer, spread: Array) -> float:
    """The largest eigenvalue of R^1/2 (K_new - K_agreed) R^1/2."""
    root = np.linalg.cholesky(spread)
    apart = root.T @ (information(new, spread) - information(agreed, spread)) @ root
    return float(np.linalg.eigvalsh((apart + apart.T) / 2)[-1])


@settings(max_examples=80, deadline=None)
@given(SEEDS)
def test_what_a_receiver_could_have_made_tells_no_more(seed: int) -> None:
    rng = np.random.default_rng(seed)
    agreed = anything(rng)
    assert what_more(garbled(rng, agreed), agreed) == ()


@settings(max_examples=80, deadline=None)
@given(SEEDS)
def test_the_answer_is_that_of_the_formula_whatever_r_is(seed: int) -> None:
    """Random pairs, of which most cannot be ordered; near ties, which the two may see differently, are left out."""
    rng = np.random.default_rng(seed)
    agreed = anything(rng)
    new = anything(rng) if rng.random() < 0.5 else garbled(rng, agreed)
    found = [excess(new, agreed, covariance(rng, 4) + 0.1 * np.eye(4)) for _ in range(3)]
    if max(found) > 1e-5:
        assert what_more(new, agreed) != ()
        assert min(found) > 0  # and it is the same order for every R
    elif max(found) < 1e-12:
        assert what_more(new, agreed) == ()


def test_the_definition_by_a_w_where_noise_is_positive_definite() -> None:
    """With Θ > 0 the best W is C' J^+ C' Θ^-1 (J = C' Θ^-1 C): the answer is whether Θ' - W Θ W' is semidefinite."""
    rng = np.random.default_rng(5)
    answers = []
    for _ in range(300):
        agreed = vn.Sanitizer(rng.standard_normal((4, 3)), covariance(rng, 4) + 0.1 * np.eye(4))
        scale = rng.uniform(0.2, 3.0)
        new = vn.Sanitizer(rng.standard_normal((2, 3)), scale * (covariance(rng, 2) + np.eye(2)))
        inverse = np.linalg.inv(agreed.noise)
        combine = (
            new.compression
            @ np.linalg.inv(agreed.compression.T @ inverse @ agreed.compression)
            @ agreed.compression.T
            @ inverse
        )
        np.testing.assert_allclose(combine @ agreed.compression, new.compression, atol=1e-9)
        left = float(np.linalg.eigvalsh(new.noise - combine @ agreed.noise @ combine.T)[0])
        assert abs(left) > 1e-6  # no ties among these
        assert (what_more(new, agreed) == ()) == (left > 0)
        answers.append(left > 0)
    assert 30 < sum(answers) < 270  # both happen


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_silence_is_least_and_raw_readings_are_most(seed: int) -> None:
    rng = np.random.default_rng(seed)
    some = anything(rng)
    assert what_more(some, some) == ()
    assert what_more(vn.Sanitizer.silent(4), some) == ()
    assert what_more(some, vn.Sanitizer.raw(4)) == ()
    if np.any(some.compression):
        assert what_more(some, vn.Sanitizer.silent(4)) != ()


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.integers(-9, 9), st.floats(1e-6, 0.5))
def test_less_noise_is_found_at_every_scale(seed: int, power: int, part: float) -> None:
    """From 1e-9 to 1e9, and by as little as a millionth; the other way about it tells no more."""
    rng = np.random.default_rng(seed)
    units = 10.0 ** rng.integers(-6, 6, 3)
    rows = rng.standard_normal((2, 3)) / units
    noise = (covariance(rng, 2) + 0.1 * np.eye(2)) * 10.0**power
    loud, quiet = vn.Sanitizer(rows, noise), vn.Sanitizer(rows, noise * (1 - part))
    assert what_more(quiet, loud) != ()
    assert what_more(loud, quiet) == ()
    exact = vn.Sanitizer(rows)
    assert what_more(exact, quiet) != ()
    assert what_more(quiet, exact) == ()


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.floats(1e-6, 1.0))
def test_another_exact_combination_is_found(seed: int, angle: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((2, 4))
    agreed = vn.Sanitizer(rows)
    turned = rows[0] + angle * rng.standard_normal(4)
    assert what_more(vn.Sanitizer(turned[None]), agreed) != ()
    assert what_more(vn.Sanitizer((rows[0] - 3 * rows[1])[None]), agreed) == ()
    mixed = vn.Sanitizer(rng.standard_normal((2, 2)) @ rows)
    assert what_more(mixed, agreed) == what_more(agreed, mixed) == ()


def test_it_names_the_reading() -> None:
    names = ("T1", "RH1", "CO2")
    agreed = vn.Sanitizer([[1.0, 1.0, 0.0]], names=names)
    more = vn.Sanitizer([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [0.0, 1.0], names=names)
    assert what_more(more, agreed) == ("more would be revealed of CO2, exactly or with less noise",)
    assert what_more(agreed, more) == ()


def test_readings_are_matched_by_name() -> None:
    agreed = vn.Sanitizer([[1.0, 2.0]], names=("T1", "RH1"))
    assert what_more(vn.Sanitizer([[2.0, 1.0]], names=("RH1", "T1")), agreed) == ()
    assert what_more(vn.Sanitizer([[1.0, 2.0]], names=("RH1", "T1")), agreed) != ()
    grown = what_more(vn.Sanitizer([[1.0, 2.0, 1.0]], names=("T1", "RH1", "CO2")), agreed)
    assert "revealed of CO2" in grown[0]
    assert "cannot be compared" in what_more(vn.Sanitizer([[1.0, 2.0, 0.0]]), agreed)[0]


def test_a_smaller_dither_and_wider_limits_are_more() -> None:
    careful = vn.Sanitizer(
        [[1.0, 1.0]], limits=([0, 0], [40, 100]), resolution=[0.1, 1.0], names=("T1", "RH1")
    )
    assert what_more(careful, careful) == ()
    assert what_more(careful.replace(resolution=[0.1, 0.5]), careful) == (
        "RH1 would be dithered by less than before, or not at all",
    )
    assert what_more(careful.replace(resolution=None), careful)
    assert what_more(careful.replace(limits=([0, 0], [50, 100])), careful) == (
        "more would be revealed where T1 is beyond the limits there were",
    )
    assert what_more(careful.replace(limits=None), careful)
    assert what_more(careful.replace(resolution=[0.2, 2.0]), careful) == ()
    # One draw of a step is as wide as two of half of it, whose variance is half as large.
    once = careful.replace(dither=1)
    assert "dithered by less" in what_more(careful.replace(resolution=[0.05, 0.5], dither=2), once)[0]
    # The dither of a reading that is not sent does not matter; its limits may yet.
    both = careful.replace(compression=[[1.0, 0.0], [0.0, 1.0]], noise=[0.0, 0.0])
    assert what_more(careful.replace(compression=[[0.0, 1.0]], resolution=[0.0, 1.0]), both) == ()
    assert what_more(careful.replace(compression=[[0.0, 1.0]], limits=([-9, 0], [40, 100])), both) != ()
    assert what_more(vn.Sanitizer.silent(2), both) == ()


def test_what_decides_anew_what_readings_count_as_is_more() -> None:
    """By its limits alone it could be asked, bit by bit, where a reading is."""
    agreed = vn.Sanitizer([[1.0, 0.0]], limits=([0, 0], [40, 100]), names=("T1", "RH1"))
    assert what_more(agreed.replace(limits=([0, 50], [40, 100])), agreed) == (
        "RH1 would count as a limit sooner than before, which tells on which side of it",
    )
    for limits in (None, ([0, 0, 0], [40, 100, 1])):
        grown = vn.Sanitizer([[1.0, 0.0, 0.0]], limits=limits, names=("T1", "RH1", "presence"))
        assert "where presence is missing" in what_more(grown, agreed)[-1]
    assert what_more(agreed.replace(compression=np.zeros((0, 2)), noise=None, limits=None), agreed) == ()


def test_a_reach_that_is_smaller_by_anything_is_more() -> None:
    agreed = vn.Sanitizer([[1.0, 1.0]], [1.0], grid=2.0**-10)
    assert what_more(agreed.replace(grid=2.0**-9, noise=[2.0]), agreed) == ()
    for part in ({"grid": 2.0**-11}, {"grid": 2.0**-38}, {"offset": [0.0, 20.0]}):
        (told,) = what_more(agreed.replace(**part), agreed)
        assert "reading 2 would count as a limit sooner than before" in told
    within = agreed.replace(limits=(-50.0, 50.0))  # limits within any reach: the grid decides nothing
    assert what_more(within.replace(grid=2.0**-12, offset=[20.0, -5.0], noise=[2.0]), within) == ()


def test_readings_that_one_plan_alone_names_cannot_be_compared() -> None:
    """Without names columns are taken by their place: another reading could stand there."""
    named, plain = vn.Sanitizer([[1.0, 0.0]], names=("T1", "RH1")), vn.Sanitizer([[1.0, 0.0]])
    assert "cannot be compared" in what_more(plain, named)[0]
    assert "cannot be compared" in what_more(named, plain)[0]


def test_memories_are_compared_only_where_they_are_the_same() -> None:
    memory = Memory([[0.5]], [[1.0, 0.0]])
    agreed = vn.Sanitizer([[1.0, 1.0, 0.0]], [1.0], memory=memory)
    assert what_more(agreed.replace(noise=[2.0]), agreed) == ()
    assert what_more(agreed.replace(noise=[0.5]), agreed) != ()
    assert "cannot be compared" in what_more(agreed.replace(memory=Memory([[0.6]], [[1.0, 0.0]])), agreed)[0]
    assert "cannot be compared" in what_more(vn.Sanitizer([[1.0, 0.0]], [1.0]), agreed)[0]
    # what enters it makes a memory what it is
    for change in ({"offset": [1.0, 0.0]}, {"resolution": [0.1, 0.1]}, {"limits": (-5.0, 5.0)}):
        assert "would begin anew" in what_more(agreed.replace(**change), agreed)[0]


@pytest.mark.parametrize("hidden", [1e-3, 1e-6])
def test_a_direction_hidden_in_a_small_part_of_a_row_is_found(hidden: float) -> None:
    agreed = vn.Sanitizer([[1.0, 0.0]])
    assert what_more(vn.Sanitizer([[1.0, hidden]]), agreed) != ()
