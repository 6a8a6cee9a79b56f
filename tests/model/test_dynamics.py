"""How streams are described: every form of dynamics and coloured noise, files, and what is refused in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

import veilnet as vn
from helpers.stream_networks import random_stream


def stream(transition: Any = None, noise: Any = None, **changes: Any) -> vn.Network:
    """Two parameters, temperature and load, seen by two agents."""
    dynamics = vn.Dynamics(
        np.diag([0.9, 0.5]) if transition is None else transition, np.eye(2) if noise is None else noise
    )
    arguments: dict[str, Any] = {
        "observe": {"hall": np.eye(2), "attic": [[1.0, 1.0]]},
        "noise": 1.0,
        "public": {"heat": [1.0, 0.0]},
        "private": {"presence": [0.0, 1.0]},
        "parameters": ["temperature", "load"],
        "dynamics": dynamics,
    }
    return vn.Network(**(arguments | changes))


def test_the_stationary_covariance_solves_its_equation() -> None:
    network = random_stream(0, radius=0.97)
    assert network.dynamics is not None
    expected = solve_discrete_lyapunov(network.dynamics.transition, network.dynamics.noise)
    np.testing.assert_allclose(network.dynamics.stationary, expected, rtol=1e-10)
    assert network.prior is not None
    np.testing.assert_array_equal(network.prior.covariance, network.dynamics.stationary)


def test_one_row_of_a_stream_is_a_network_of_its_own() -> None:
    network = stream(
        resolution=0.5, offset={"hall": [1.0, 2.0]}, units={"heat": "K"},
        limits={"attic": (-5.0, 5.0)}, reading_names={"attic": ["t"]},
    )  # fmt: skip
    row = network.one_row
    assert network.is_stream
    assert not row.is_stream
    assert row.prior is not None
    np.testing.assert_allclose(row.prior.covariance, np.diag([1 / (1 - 0.81), 1 / (1 - 0.25)]), rtol=1e-12)
    for name in ("H", "U", "offset", "steps"):
        np.testing.assert_array_equal(getattr(row, name), getattr(network, name))
    np.testing.assert_array_equal(row.R.matrix(), network.R.matrix())
    assert (row.units, row.reading_names) == (network.units, network.reading_names)
    assert row.one_row is row


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (0.5, [0.5, 0.5, 0.5]),
        ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3]),
        ({"hall": [0.1, 0.2], "attic": 0.3}, [0.1, 0.2, 0.3]),
        ({"attic": [[0.3]]}, [0.0, 0.0, 0.3]),
        (np.diag([0.1, 0.2, 0.3]), [0.1, 0.2, 0.3]),
    ],
)
def test_noise_memory_in_every_form(memory: Any, expected: list[float]) -> None:
    noise = vn.ColouredNoise(memory=memory, innovation={"hall": 1.0, "attic": 2.0}, floor={"attic": 0.5})
    network = vn.Network(
        {"hall": np.eye(2), "attic": [[1.0, 1.0]]}, noise, [[1.0, 0.0]], {"g": [[0.0, 1.0]]},
        dynamics=vn.Dynamics(np.zeros((2, 2)), np.eye(2)),
    )  # fmt: skip
    assert network.colour is not None
    np.testing.assert_array_equal(np.diag(network.colour.memory), expected)
    carried = np.array([1.0, 1.0, 2.0]) / (1 - np.array(expected) ** 2)
    np.testing.assert_allclose(np.diag(network.R.matrix()), carried + np.array([0.0, 0.0, 0.5]), rtol=1e-12)


def test_a_floor_may_be_a_stack_and_zero_for_some() -> None:
    """As the noise of a stack of agents, but for those that have none of it."""
    floor = np.array([[[0.0, 0.0], [0.0, 0.3]], [[0.0, 0.0], [0.0, 0.0]]])
    network = vn.Network(
        np.array([np.eye(2), np.ones((2, 2))]), vn.ColouredNoise(0.5, 1.0, floor), [[1.0, 0.0]],
        {"g": [[0.0, 1.0]]}, dynamics=vn.Dynamics(np.zeros((2, 2)), np.eye(2)),
    )  # fmt: skip
    assert network.colour is not None
    np.testing.assert_array_equal(network.colour.floor, np.diag([0.0, 0.3, 0.0, 0.0]))
    with pytest.raises(
        vn.InvalidNetwork, match="noise floor: expected a matrix for each of 2 agents, found 1"
    ):
        network.replace(noise=vn.ColouredNoise(0.5, 1.0, floor[:1]))


def test_dither_is_part_of_the_white_floor() -> None:
    from veilnet.bounds.streams.state_space import white_floor

    plain = vn.ColouredNoise(memory=0.5, innovation=1.0, floor=0.1)
    network = vn.Network(
        {"hall": np.eye(2)}, plain, [[1.0, 0.0]], {"g": [[0.0, 1.0]]}, resolution=0.6, dither=2,
        dynamics=vn.Dynamics(np.zeros((2, 2)), np.eye(2)),
    )  # fmt: skip
    np.testing.assert_allclose(white_floor(network), (0.1 + 2 * 0.6**2 / 12) * np.eye(2), rtol=1e-12)


@pytest.mark.parametrize("suffix", ["toml", "json", "npz"])
@pytest.mark.parametrize("noise", ["white", "coloured", "coloured without floor"])
@pytest.mark.parametrize("joint", [False, True])
def test_files_hold_a_stream_to_the_last_bit(tmp_path: Path, suffix: str, noise: str, joint: bool) -> None:
    network = random_stream(3, noise=noise, joint=joint, mean=True)
    if joint:
        first = vn.Prior(covariance=2 * np.eye(network.L), mean=np.ones(network.L))
        network = vn.Network(
            network.observe, network.colour or network.sensor_noise, network.public, network.private, first,
            dynamics=network.dynamics, offset=network.offset,
        )  # fmt: skip
    network.save(tmp_path / f"n.{suffix}")
    read = vn.Network.load(tmp_path / f"n.{suffix}")
    assert read.dynamics is not None
    assert network.dynamics is not None
    for name in ("transition", "noise", "mean"):
        np.testing.assert_array_equal(getattr(read.dynamics, name), getattr(network.dynamics, name))
    np.testing.assert_array_equal(read.R.matrix(), network.R.matrix())
    assert read.first is not None
    assert network.first is not None
    np.testing.assert_array_equal(read.first.covariance, network.first.covariance)
    np.testing.assert_array_equal(read.first.mean, network.first.mean)
    assert read.first_given == network.first_given
    if network.colour is None:
        assert read.colour is None
    else:
        assert read.colour is not None
        for name in ("memory", "innovation", "floor"):
            np.testing.assert_array_equal(getattr(read.colour, name), getattr(network.colour, name))


def test_a_stream_can_be_written_by_hand(tmp_path: Path) -> None:
    (tmp_path / "house.toml").write_text(
        """format = "veilnet-network/1"
[noise]
memory = { hall = 0.9, attic = [0.5] }
innovation = { hall = 0.1, attic = 0.2 }
floor = 0.01
[public]
heat = [1.0, 0.0]
[private]
presence = [0.0, 1.0]
[dynamics]
transition = [[0.9, 0.0], [0.0, 0.5]]
noise = [[1.0, 0.0], [0.0, 1.0]]
[agents.hall]
observe = [[1.0, 0.0], [0.0, 1.0]]
[agents.attic]
observe = [[1.0, 1.0]]
""",
        encoding="utf-8",
    )
    network = vn.Network.load(tmp_path / "house.toml")
    assert network.colour is not None
    np.testing.assert_array_equal(np.diag(network.colour.memory), [0.9, 0.9, 0.5])
    np.testing.assert_array_equal(np.diag(network.colour.innovation), [0.1, 0.1, 0.2])


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: stream(np.eye(3), np.eye(3)), vn.InvalidNetwork, "expected 2 parameters .columns of H., found 3"),
        (lambda: stream(np.ones((2, 3))), vn.InvalidNetwork, "transition: expected an L x L matrix, found shape"),
        (lambda: stream(dynamics=0.9), vn.InvalidNetwork, "expected None or a Dynamics, found float"),
        (lambda: vn.Dynamics(np.eye(2), [1.0, 1.0]), vn.InvalidNetwork, "use np.diag for variances"),
        (lambda: vn.Dynamics(np.eye(2), -np.eye(2)), vn.InvalidNetwork, "dynamics noise: expected a positive semi"),
        (
            lambda: stream(np.diag([0.9, 0.5]), np.diag([1.0, 0.0])),
            vn.InvalidNetwork,
            "nothing moves load: A lets it decay and Q does not drive it",
        ),
        (
            lambda: stream(np.diag([1.0, 0.5]), observe={"hall": [[0.0, 1.0]]}),
            vn.NotObservable,
            "the readings never see temperature, which does not return to its mean",
        ),
        (
            lambda: stream([[1.0, 1.0], [0.0, 1.0]], observe={"hall": [[0.0, 1.0]]}),
            vn.NotObservable,
            "the readings never see temperature",
        ),
        (
            lambda: vn.Network(
                {"a": np.eye(2)}, vn.ColouredNoise(0.5, 1.0), [[1.0, 0.0]], {"g": [[0.0, 1.0]]}
            ),
            vn.InvalidNetwork,
            "coloured noise carries over from row to row, so it needs dynamics=",
        ),
        (
            lambda: vn.Network(
                {"a": np.eye(2)}, vn.ColouredNoise({"a": 1.0}, 1.0), [[1.0, 0.0]], {"g": [[0.0, 1.0]]},
                dynamics=vn.Dynamics(np.zeros((2, 2)), np.eye(2)),
            ),
            vn.InvalidNetwork,
            "noise memory of 'a': expected stable noise",
        ),
        (
            lambda: vn.Network(
                {"a": [[1.0, 0.0]], "b": [[0.0, 1.0]]}, vn.ColouredNoise([[0.5, 0.1], [0.0, 0.5]], 1.0),
                [[1.0, 0.0]], {"g": [[0.0, 1.0]]}, dynamics=vn.Dynamics(np.zeros((2, 2)), np.eye(2)),
            ),
            vn.InvalidNetwork,
            "the noise of one agent may not drive another's",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_a_stream_is_refused_in_words(make: Any, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize("ask", [vn.crlb, vn.check, vn.design, vn.privacy_limit])
def test_a_constant_has_no_steady_state_and_is_named(ask: Any) -> None:
    """A = 1, Q = 0 for the temperature: every row tells more of it. The network itself is fine (see the ledger)."""
    network = stream(np.diag([1.0, 0.5]), np.diag([0.0, 1.0]))
    with pytest.raises(vn.NotObservable, match="nothing renews temperature"):
        ask(network)


def test_what_grows_by_itself_is_not_taken_for_a_constant() -> None:
    """A root of 1.2 that nothing renews has a steady error, P = 1.44 P / (1 + P) before a row: 0.44."""
    network = stream(np.diag([1.2, 1.0]), np.zeros((2, 2)))
    with pytest.raises(vn.NotObservable, match="nothing renews load"):
        vn.crlb(network)
    growing = stream(np.diag([1.2, 0.5]), np.diag([0.0, 1.0]), observe={"hall": np.eye(2)})
    assert vn.crlb(growing)[0, 0] == pytest.approx(0.44 / 1.44, rel=1e-9)


def test_position_is_found_through_velocity() -> None:
    """A wandering pair of which one is seen: detectable, though one row alone does not determine it."""
    network = stream([[1.0, 1.0], [0.0, 1.0]], observe={"hall": [[1.0, 0.0]]})
    assert np.all(np.isfinite(vn.crlb(network)))
    with pytest.raises(vn.NotObservable, match="nothing depends on load"):
        _ = network.one_row
