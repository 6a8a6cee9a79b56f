"""The running agent: what it sends against the definition row by row, and what it does with readings it missed."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import veilnet as vn
from helpers.memories import random_memory, sent_row_by_row, with_memory
from veilnet.agent.grid import CROSSING_LIMIT
from veilnet.agent.stream import Filter


@pytest.mark.parametrize(("order", "readings", "sent"), [(1, 1, 1), (2, 3, 2), (7, 4, 3)])
def test_blocks_of_any_length_are_the_loop(order: int, readings: int, sent: int) -> None:
    """Up to the rounding to the grid, however the rows fall into blocks, with gaps in them."""
    rng = np.random.default_rng(order)
    sanitizer = with_memory(rng, readings=readings, order=order, sent=sent)
    y = rng.normal(size=(5000, readings))
    y[rng.random(5000) < 0.05, rng.integers(readings)] = np.nan
    expected = sent_row_by_row(sanitizer, y)
    for lengths in ([5000], [1] * 50 + [3, 8, 9, 2048, 17, 2500], [2047, 2953]):
        stream = sanitizer.stream()
        pieces = [stream.sanitize(block) for block in np.split(y, np.cumsum(lengths))]
        sent_rows = np.concatenate(pieces)[: len(y)]
        missed = np.isinf(sent_rows).all(axis=1)
        assert np.array_equal(missed, np.isnan(y).any(axis=1)[: len(sent_rows)])
        # dithered rounding moves a number by less than one step
        assert np.max(np.abs(sent_rows[~missed] - expected[: np.sum(~missed)])) < 2.0**-14


def test_the_filter_is_exact_to_rounding() -> None:
    rng = np.random.default_rng(3)
    for order, radius in ((1, 0.5), (5, 0.99), (9, 0.999)):
        memory = random_memory(rng, order, 2, radius)
        inputs = rng.normal(size=(2000, 2))
        state = start = rng.normal(size=order)
        loop = []
        for row in inputs:
            state = memory.transition @ state + memory.gain @ row
            loop.append(state)
        found = Filter(memory.transition, memory.gain).run(start, inputs)
        scale = np.max(np.abs(loop), axis=0)
        assert np.max(np.abs(found - loop) / scale) < 1e-12


def test_a_single_row_and_skipping() -> None:
    """A skipped row and one that is not a number do the same to the memory."""
    sanitizer = with_memory(np.random.default_rng(4), readings=2, order=2, sent=1)
    one, other = sanitizer.stream(), sanitizer.stream()
    first = one.sanitize([0.1, 0.2])
    assert first.shape == (1,)
    other.sanitize([0.1, 0.2])
    one.skip(3)
    assert np.isposinf(other.sanitize(np.full((3, 2), np.nan))).all()
    np.testing.assert_allclose(one.state, other.state, rtol=1e-14)
    assert one.rows == other.rows == 4
    with pytest.raises(vn.InvalidRequest, match="rows: expected a whole number"):
        one.skip(-1)


def test_a_reading_beyond_its_limits_enters_the_memory_as_the_limit() -> None:
    sanitizer = with_memory(np.random.default_rng(5), readings=2, order=2, sent=1).replace(limits=(-5.0, 5.0))
    within, outside = sanitizer.stream(), sanitizer.stream()
    within.sanitize([[1.0, 2.0], [1.0, 5.0]])
    assert np.isfinite(outside.sanitize([[1.0, 2.0], [1.0, 700.0]])).all()
    np.testing.assert_array_equal(within.state, outside.state)
    _, reasons = sanitizer.stream().advance(np.array([[0.0, 0.0], [0.0, 9.0], [np.nan, 0.0]]))
    assert reasons == {2: "reading 1 is missing"}


def test_bad_shapes_leave_the_stream_where_it_was() -> None:
    stream = with_memory(np.random.default_rng(6), readings=2, order=2, sent=1).stream()
    stream.sanitize([1.0, 2.0])
    before = stream.state
    with pytest.raises(vn.InvalidReading, match="expected shape"):
        stream.sanitize([1.0, 2.0, 3.0])
    with pytest.raises(vn.InvalidReading, match="expected real numbers"):
        stream.sanitize(["1", "2"])
    np.testing.assert_array_equal(stream.state, before)
    assert stream.rows == 1


def test_the_reach_of_a_memory_is_short_though_the_memory_alone_is_sent() -> None:
    """The bound counts what a reading does in all later rows: nothing is sent of it directly here."""
    memory = vn.Memory(0.999, [[1.0]])
    sanitizer = vn.Sanitizer([[1.0, 0.0]], memory=memory, grid=2.0**-30)
    limit = CROSSING_LIMIT * 2.0**52 * 2.0**-30
    assert limit * 1e-9 < sanitizer.reach[1][0] < limit * 1e-3
    far, end = sanitizer.stream(), sanitizer.stream()
    far.sanitize([limit])
    end.sanitize(sanitizer.reach[1])
    np.testing.assert_array_equal(far.state, end.state)


def test_noise_and_dither_have_their_variance_and_do_not_enter_the_memory() -> None:
    """Constant readings: the noise of each number is fresh (false alarm about 1e-6), the state repeats."""
    sanitizer = with_memory(np.random.default_rng(7), readings=2, order=2, sent=2, noise=4.0)
    y = np.tile(sanitizer.offset, (40_000, 1))
    stream = sanitizer.stream(rng=1)
    noise = stream.sanitize(y)
    np.testing.assert_array_equal(stream.state, 0.0)
    assert np.all(np.abs(np.var(noise, axis=0) / 4.0 - 1) < 5 * np.sqrt(2 / 40_000))
    lagged = np.mean(noise[1:] * noise[:-1], axis=0) / 4.0
    assert np.all(np.abs(lagged) < 5 / np.sqrt(40_000))
    # With a resolution the dither enters, as it is part of the reading: s_0 = K d, of variance K K' m q²/12.
    dithered = sanitizer.replace(resolution=0.3, dither=1, noise=0.0)
    memory = dithered.memory
    assert memory is not None
    states = []
    for seed in range(3000):
        stream = dithered.stream(rng=seed)
        stream.sanitize(dithered.offset)
        states.append(stream.state)
    expected = np.diag(memory.gain @ memory.gain.T) * 0.3**2 / 12
    assert np.all(np.abs(np.var(states, axis=0) / expected - 1) < 5 * np.sqrt(2 / 3000))


def test_a_stream_without_memory_is_the_sanitizer() -> None:
    sanitizer = vn.Sanitizer([[1.0, 2.0]], 1.0, grid=2.0**-10)
    y = np.random.default_rng(8).normal(size=(100, 2))
    np.testing.assert_array_equal(sanitizer.stream(rng=3).sanitize(y), sanitizer.sanitize(y, rng=3))


def test_streams_are_not_copied_and_need_a_grid() -> None:
    sanitizer = with_memory(np.random.default_rng(9), readings=2, order=1, sent=1)
    with pytest.raises(vn.InvalidRequest, match="cannot be copied"):
        copy.copy(sanitizer.stream())
    with pytest.raises(vn.InvalidRequest, match="cannot be copied"):
        pickle.dumps(sanitizer.stream())
    with pytest.raises(vn.InvalidNetwork, match="no grid is set"):
        sanitizer.replace(grid=None).stream()


def test_an_interrupted_stream_goes_on_from_its_state() -> None:
    rng = np.random.default_rng(8)
    sanitizer = with_memory(rng, readings=2, order=3, sent=2)
    readings = rng.standard_normal((40, 2))
    whole, first = sanitizer.stream(), sanitizer.stream()
    expected = whole.sanitize(readings)
    before = first.sanitize(readings[:17])
    second = sanitizer.stream(state=first.state)
    found = np.concatenate([before, second.sanitize(readings[17:])])
    np.testing.assert_allclose(second.state, whole.state, rtol=1e-12)
    assert sanitizer.grid is not None
    assert np.all(
        np.abs(found - expected) <= 2 * sanitizer.grid
    )  # each rounded to its grid with a dither of its own
    forgetful = sanitizer.stream().sanitize(readings[17:])
    assert np.any(np.abs(forgetful - expected[17:]) > 4 * sanitizer.grid)
    with pytest.raises(vn.InvalidNetwork, match="state: expected 3 numbers"):
        sanitizer.stream(state=[0.0])
