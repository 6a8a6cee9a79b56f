"""One form of sanitizers inside: whatever is given, the stacks say the same as the sanitizers one by one."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.linalg import block_diag

import veilnet as vn
from helpers.networks import direct_information, random_network, random_sanitizers
from veilnet.agent.dither import counting_dither
from veilnet.agent.mechanisms import Mechanisms, mechanisms
from veilnet.agent.memory import Memory
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.bounds.knowledge import message_covariance
from veilnet.plans.release_grid import with_release_grid

KINDS = ["noise", "rectangular", "dependent", "singular noise", "silent", "mixed"]


def whole(network: vn.Network, sanitizers: dict[str, vn.Sanitizer]) -> tuple[np.ndarray, np.ndarray]:
    """C and Θ of all agents, as matrices."""
    each = [
        sanitizers.get(agent) or vn.Sanitizer.raw(int(size))
        for agent, size in zip(network.agents, network.blocks.sizes, strict=True)
    ]
    return block_diag(*(s.compression for s in each)), block_diag(*(s.noise for s in each))


@pytest.mark.parametrize("kind", KINDS)
def test_stacks_are_the_sanitizers_one_by_one(kind: str) -> None:
    network = random_network(3, noise="joint", sizes=(3, 2, 3, 2))
    given = random_sanitizers(network, 3, kind)
    sent = mechanisms(network, dict(reversed(given.items())))
    assert list(sent) == list(network.agents)
    assert all(sent[agent] is each for agent, each in given.items())
    compression, noise = whole(network, given)
    np.testing.assert_array_equal(sent.compressed(np.eye(network.N)), compression)
    expected = compression @ network.R.matrix() @ compression.T + noise
    np.testing.assert_allclose(message_covariance(network, sent), expected, rtol=1e-13, atol=1e-13)
    for stack in sent.stacks:
        if stack.noise_root is not None:
            made = np.swapaxes(stack.noise_root, 1, 2) @ stack.noise_root
            np.testing.assert_allclose(made, stack.noise, rtol=1e-12, atol=1e-13)
    normal = sent.normal
    assert all(stack.covariance is None for stack in normal.stacks)
    found = {
        network.agents[place]: stack.sanitizer(within, np.zeros(stack.readings))
        for stack in normal.stacks
        for within, place in enumerate(stack.places.tolist())
    }
    before, after = (direct_information(network, each) for each in (given, found))
    np.testing.assert_allclose(after, before, rtol=1e-8, atol=1e-8 * np.max(np.abs(before)))


def test_of_another_network_they_keep_what_is_their_own() -> None:
    network = random_network(5, noise="per agent", sizes=(2, 3, 2))
    offset = np.arange(network.N, dtype=float)
    own = vn.design(network.replace(offset=offset)).sanitizers
    there = mechanisms(network, own)
    assert isinstance(there, Mechanisms)
    assert there.network is network
    np.testing.assert_array_equal(there.offset, offset)
    np.testing.assert_array_equal(there["a1"].offset, offset[2:5])
    order = list(reversed(network.agents))
    turned = vn.Network(
        observe={agent: network.observe[agent] for agent in order},
        noise={agent: network.R.block(network.position[agent]) for agent in order},
        public=network.U,
        private=dict(network.private),
        prior=network.prior,
    )
    moved = mechanisms(turned, own)
    assert list(moved) == order
    assert all(np.array_equal(moved[agent].compression, own[agent].compression) for agent in order)
    assert vn.privacy(turned, own) == pytest.approx(vn.privacy(network, own))


def test_what_is_found_is_found_once_and_goes_on_with_a_grid() -> None:
    network = random_network(6)
    sent = Mechanisms(network, mechanisms(network, None).stacks)
    calls: list[int] = []
    for _ in range(2):
        assert sent.once("planted", lambda: calls.append(1) or len(calls)) == 1
    gridded = sent.with_grids([np.full((stack.count, stack.sent), 0.5) for stack in sent.stacks])
    assert gridded.once("planted", lambda: 7) == 1
    louder = SanitizerStack(np.arange(network.S), np.zeros((network.S, 0, 3)))
    assert Mechanisms(network, [louder]).once("planted", lambda: 7) == 7
    back = pickle.loads(pickle.dumps(gridded))
    assert back.once("planted", lambda: 8) == 8
    assert all(back[agent].same_as(gridded[agent]) for agent in network.agents)


def test_memories_are_refused_where_rows_do_not_follow_one_another() -> None:
    rows = vn.Network(
        observe={"a": np.eye(2), "b": np.eye(2)}, noise=1.0, public=[[1.0, 0.0]], private={"g": [[0.0, 1.0]]}
    )
    stream = rows.replace(dynamics=vn.Dynamics(transition=0.5 * np.eye(2), noise=np.eye(2)))
    keeping = vn.Sanitizer(np.eye(1, 3), memory=Memory([[0.5]], [[1.0, 0.0]]))
    sent = mechanisms(stream, {"a": keeping})
    assert dict(sent.numbers_kept) == {"a": 1, "b": 0}
    for given in ({"a": keeping}, sent):
        with pytest.raises(vn.InvalidRequest, match=r"'a'.*keeps a memory.*no dynamics"):
            mechanisms(rows, given)


def test_dither_that_a_sanitizer_states_is_counted_and_the_rest_is_what_is_needed() -> None:
    agents = {"a": np.eye(2), "b": np.eye(2)}
    network = vn.Network(
        observe=agents,
        noise=0.1,
        public=[[1.0, 0.0]],
        private={"g": [[0.0, 1.0]]},
        resolution=dict.fromkeys(agents, 1.0),
    )
    mixed = vn.Sanitizer([[1.0, 1.0]])
    counted = counting_dither(network, {"a": mixed.replace(resolution=1.0, dither=1), "b": mixed})
    assert counted.dither is not None
    assert counted.dither.tolist() == [1, 1, 2, 2]
    assert counting_dither(counted, {"a": mixed, "b": mixed}) is counted


def test_numbers_that_repeat_others_are_sent_once() -> None:
    network = random_network(4, noise="per agent", sizes=(3, 3))
    twice = vn.Sanitizer([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    gridded = with_release_grid(network, {"a0": twice})
    assert gridded["a0"].sent == 2
    assert gridded["a0"].grid is not None
    assert vn.privacy(network, gridded) == pytest.approx(vn.privacy(network, {"a0": twice}), rel=1e-9)
