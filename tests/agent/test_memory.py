"""A sanitizer with a memory: what it is made of, what it refuses, and its file."""

from __future__ import annotations

import pickle
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.memories import random_memory, sent_row_by_row, with_memory
from veilnet.agent.memory import impulses, response


def test_what_is_held_and_passed_on_bounds_the_sums_term_by_term() -> None:
    """Σ_j |F^j K| and Σ_j |C F^j|, also where F grows before it fades; not far above either."""
    rng = np.random.default_rng(0)
    slow = vn.Memory([[0.999, 50.0], [0.0, 0.998]], [[1.0], [1.0]])
    for memory in (slow, *(random_memory(rng, 4, 2, radius) for radius in (0.1, 0.9, 0.99))):
        rows = rng.normal(size=(3, memory.order))
        power = np.eye(memory.order)
        held, passed = np.zeros(memory.gain.shape), np.zeros(rows.shape)
        for _ in range(20_000):
            held += np.abs(power @ memory.gain)
            passed += np.abs(rows @ power)
            power = power @ memory.transition
        for bound, total in ((memory.held, held), (memory.passed_on(rows), passed)):
            assert np.all(bound >= total * (1 - 1e-12))
            assert np.all(bound <= 100 * np.max(total))


def test_impulses_are_what_one_reading_does_and_the_response_their_transform() -> None:
    rng = np.random.default_rng(4)
    sanitizer = with_memory(rng, readings=2, order=3, sent=2).replace(offset=np.zeros(2))
    memory, turns = sanitizer.memory, np.exp(-1j * np.array([0.0, 0.7, 2.9]))
    assert memory is not None
    filtered = (sanitizer.compression, memory.transition, memory.gain)
    shown = np.stack(list(islice(impulses(*filtered), 600)))
    for place in range(2):
        once = np.zeros((8, 2))
        once[0, place] = 1.0
        assert np.allclose(sent_row_by_row(sanitizer, once), shown[:8, :, place])
    summed = np.tensordot(turns[:, None] ** np.arange(600), shown, 1)
    assert np.allclose(response(*filtered, turns), summed)
    assert np.array_equal(response(np.eye(2), None, None, turns), np.eye(2)[None])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"transition": [[1.0]], "gain": [[1.0]]},
            "transition: expected a stable F, found an eigenvalue of size 1",
        ),
        ({"transition": [[0.5, 0.0]], "gain": [[1.0]]}, "transition: expected a square matrix"),
        ({"transition": [[0.5]], "gain": [[1.0], [2.0]]}, "gain: expected 1 rows"),
        ({"transition": [[np.nan]], "gain": [[1.0]]}, "transition: expected finite"),
    ],
)
def test_bad_memories_are_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(vn.InvalidNetwork, match=words):
        vn.Memory(**arguments)


def test_the_compression_has_a_column_per_kept_number_and_reading() -> None:
    memory = vn.Memory(0.5, [[1.0, 2.0]])
    found = vn.Sanitizer([[1.0, 0.0, 3.0]], memory=memory)
    assert (found.readings, found.order, found.sent) == (2, 1, 1)
    with pytest.raises(
        vn.InvalidNetwork, match="compression: expected 3 columns, 1 for the memory and 2 for"
    ):
        vn.Sanitizer([[1.0, 0.0]], memory=memory)
    with pytest.raises(vn.InvalidNetwork, match="compression: expected which numbers are sent"):
        vn.Sanitizer(noise=1.0, memory=memory)
    with pytest.raises(vn.InvalidNetwork, match=r"memory: expected a veilnet\.Memory, found list"):
        vn.Sanitizer([[1.0, 0.0, 3.0]], memory=[0.5])  # type: ignore[arg-type]
    assert "keeps 1 number of the past; sends 1 number" in repr(found)
    assert vn.Sanitizer.raw(2).order == 0
    with pytest.raises(vn.InvalidRequest, match=r"nothing was sent: begin a stream once with stream\(\)"):
        found.sanitize([1.0, 2.0])


def test_the_normal_form_is_over_the_memory_and_the_readings() -> None:
    """Two noisy copies of one number are one; the memory is kept by everything that makes another sanitizer."""
    memory = vn.Memory(0.5, [[1.0, 2.0]])
    twice = vn.Sanitizer([[1.0, 0.0, 1.0], [1.0, 0.0, 1.0]], 2.0, memory=memory)
    normal = twice.normalized()
    np.testing.assert_allclose(np.abs(normal.compression), [[1.0, 0.0, 1.0]], atol=1e-12)
    assert normal.memory is not None
    assert normal.memory.same_as(memory)
    assert twice.with_grid(np.full(2, 2.0**-8)).memory is memory


def test_two_sanitizers_with_other_memories_are_not_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    one = with_memory(rng, readings=3, order=2, sent=2)
    memory = one.memory
    assert memory is not None
    other = one.replace(memory=vn.Memory(memory.transition * (1 - 1e-15), memory.gain))
    assert one.same_as(one.replace())
    assert one.same_as(pickle.loads(pickle.dumps(one)))
    assert not one.same_as(other)
    assert not one.same_as(vn.Sanitizer(one.compression[:, 2:], one.noise, agent=one.agent))
    one.save(tmp_path / "agent.json")
    assert vn.Sanitizer.load(tmp_path / "agent.json").same_as(one)
    text = (tmp_path / "agent.json").read_text().replace('"gain"', '"gian"')
    (tmp_path / "agent.json").write_text(text)
    with pytest.raises(vn.InvalidPlan, match="checksum"):
        vn.Sanitizer.load(tmp_path / "agent.json")


def test_files_of_sanitizers_without_memory_are_as_they_were(tmp_path: Path) -> None:
    vn.Sanitizer.raw(2).save(tmp_path / "agent.json")
    assert "memory" not in (tmp_path / "agent.json").read_text()


@pytest.mark.parametrize("seed", range(5))
def test_no_drawn_memory_ever_reaches_farther_than_is_said(seed: int) -> None:
    rng = np.random.default_rng(seed)
    memory = random_memory(rng, 3, 2, 0.98)
    largest = np.array([1.0, 0.0, 5.0]) if seed else np.ones(3)
    bound = memory.reached(largest)
    signs = np.array(list(product([-1.0, 1.0], repeat=3))).T * largest[:, None]
    reached = [
        np.max(np.abs(np.linalg.matrix_power(memory.transition, j) @ signs), axis=1) for j in range(400)
    ]
    assert np.all(np.max(reached, axis=0) <= bound * (1 + 1e-12))


def test_a_start_is_checked_and_compared() -> None:
    memory = vn.Memory(0.5, [[1.0, 2.0]], [[4.0]])
    assert memory.start_root is not None
    assert memory.start_root @ memory.start_root.T == pytest.approx(4.0)
    assert memory.same_as(vn.Memory(0.5, [[1.0, 2.0]], [[4.0]]))
    assert not memory.same_as(memory.with_start(None))
    assert not memory.same_as(memory.with_start([[4.1]]))
    with pytest.raises(vn.InvalidNetwork, match="start: expected a 1 x 1"):
        memory.with_start(np.eye(2))
    with pytest.raises(vn.InvalidNetwork, match="start"):
        memory.with_start([[-1.0]])
