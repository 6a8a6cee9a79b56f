"""The network: every way to give it, what it keeps, and that it cannot be changed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import block_diag

import veilnet as vn
from helpers.networks import NOISES, random_noise, well_conditioned
from veilnet.model.complex import circular_prior, join_complex, stack_complex

SIZES = (3, 2, 4)
AGENTS = ("a0", "a1", "a2")


def observations() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {name: rng.standard_normal((size, 3)) for name, size in zip(AGENTS, SIZES, strict=True)}


def network_with(**changes: object) -> vn.Network:
    arguments = {
        "observe": observations(),
        "noise": 1.0,
        "public": [[1.0, 0, 0]],
        "private": {"gait": [[0, 1.0, 0]]},
    }
    return vn.Network(**(arguments | changes))


@pytest.mark.parametrize("kind", NOISES)
def test_every_form_of_noise_is_the_matrix_it_means(kind: str) -> None:
    noise = random_noise(np.random.default_rng(2), kind, SIZES)
    expected = {
        "joint": lambda: noise,
        "per agent": lambda: block_diag(*[noise[name] for name in AGENTS]),
        "variances": lambda: np.diag(noise),
        "scalar": lambda: noise * np.eye(sum(SIZES)),
    }[kind]()
    network = network_with(noise=noise)
    assert np.array_equal(network.R.matrix(), expected)
    assert network.R.independent == (kind != "joint")
    for place in range(3):
        rows = network.blocks.rows(place)
        assert np.array_equal(network.R.block(place), expected[rows, rows])
    stacked = np.random.default_rng(3).standard_normal((network.N, 2))
    white = network.R.whiten(stacked)
    np.testing.assert_allclose(white.T @ white, stacked.T @ np.linalg.solve(expected, stacked), rtol=1e-10)
    np.testing.assert_allclose(network.R.whiten_back(white), np.linalg.solve(expected, stacked), rtol=1e-9)


def test_noise_per_agent_in_three_forms() -> None:
    network = network_with(noise={"a2": 4.0, "a0": [1.0, 2.0, 3.0], "a1": [[2.0, 1.0], [1.0, 2.0]]})
    expected = block_diag(np.diag([1.0, 2.0, 3.0]), [[2.0, 1.0], [1.0, 2.0]], 4 * np.eye(4))
    assert np.array_equal(network.R.matrix(), expected)


def test_a_joint_matrix_without_coupling_is_recognised_as_independent() -> None:
    rng = np.random.default_rng(4)
    joint = block_diag(*[well_conditioned(rng, size) for size in SIZES])
    assert network_with(noise=joint).R.independent
    joint[0, 5] = joint[5, 0] = 1e-3
    assert not network_with(noise=joint).R.independent


def test_a_stack_is_the_same_as_names() -> None:
    rng = np.random.default_rng(5)
    observe, root = rng.standard_normal((4, 2, 3)), rng.standard_normal((4, 2, 2))
    noise = root @ np.swapaxes(root, 1, 2) + np.eye(2)
    stacked = network_with(observe=observe, noise=noise)
    assert stacked.agents == ("agent1", "agent2", "agent3", "agent4")
    named = network_with(
        observe=dict(zip("pqrs", observe, strict=True)), noise=dict(zip("pqrs", noise, strict=True))
    )
    assert np.array_equal(vn.crlb(stacked), vn.crlb(named))
    assert network_with(observe=observe, noise=noise, agents=list("pqrs")).agents == tuple("pqrs")
    assert np.array_equal(stacked.observe["agent3"], observe[2])


def test_generated_names_sort_in_sending_order() -> None:
    network = network_with(observe=np.random.default_rng(6).standard_normal((120, 1, 3)))
    assert list(network.agents) == sorted(network.agents)
    assert len(set(network.agents)) == 120


def test_priors_of_every_kind() -> None:
    rng = np.random.default_rng(7)
    covariance = well_conditioned(rng, 3)
    by_covariance = vn.Prior(covariance=covariance, mean=[1, 2, 3])
    by_information = vn.Prior(information=np.linalg.inv(covariance))
    for prior in (by_covariance, by_information):
        assert prior.full
        np.testing.assert_allclose(prior.information, np.linalg.inv(covariance), rtol=1e-10)
        np.testing.assert_allclose(prior.covariance, covariance, rtol=1e-10)
        np.testing.assert_allclose(prior.root.T @ prior.root, prior.information, rtol=1e-10)
    assert by_covariance.mean.tolist() == [1, 2, 3]
    assert by_information.mean.tolist() == [0, 0, 0]
    np.testing.assert_allclose(
        vn.crlb(network_with(prior=by_covariance)), vn.crlb(network_with(prior=by_information)), rtol=1e-9
    )
    row = rng.standard_normal((1, 3))
    singular = vn.Prior(information=row.T @ row)
    assert not singular.full
    assert singular.covariance is None
    assert singular.root.shape == (1, 3)
    assert "rank 1" in repr(singular)
    nothing = vn.Prior(information=np.zeros((3, 3)))
    assert nothing.root.shape == (0, 3)
    np.testing.assert_allclose(vn.crlb(network_with(prior=nothing)), vn.crlb(network_with()), rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_prior_rank_does_not_depend_on_units(scale: float) -> None:
    units = np.diag([scale, 1.0, 1 / scale])
    assert vn.Prior(information=units @ (np.eye(3) + 0.5) @ units).full
    rows = np.array([[1.0, 1.0, 0], [0, 1.0, 1.0]]) @ units
    assert vn.Prior(information=rows.T @ rows).root.shape == (2, 3)


def test_names_units_offsets_and_labels() -> None:
    network = network_with(
        public={"warmth": np.eye(3)[:2], "light": [0, 0, 1.0]},
        parameters=["t", "h", "l"],
        units={"warmth": "°C", "gait": "m/s", "h": "%"},
        offset={"a1": [5.0, 6.0]},
    )
    assert network.public_rows == ("warmth[1]", "warmth[2]", "light")
    assert np.array_equal(network.U, np.eye(3))
    assert (network.unit("warmth"), network.unit("light"), network.unit("h")) == ("°C", "", "%")
    assert network.offset.tolist() == [0, 0, 0, 5, 6, 0, 0, 0, 0]
    assert network_with(offset=np.arange(9)).offset.tolist() == list(range(9))
    assert (network.S, network.N, network.L) == (3, 9, 3)
    assert list(network.observe) == list(AGENTS)
    text = repr(network)
    assert all(
        word in text for word in ("3 agents", "9 readings", "independent", "warmth", "gait", "no prior")
    )


def test_unobservable_parameters_are_named() -> None:
    names = ["gait", "age", "room"]
    with pytest.raises(vn.NotObservable, match=r"nothing depends on age; add an agent"):
        network_with(observe={"a": [[1.0, 0, 0], [0, 0, 1.0]]}, parameters=names)
    with pytest.raises(vn.NotObservable, match=r"nothing depends on 0\.71 \w+ - 0\.71 \w+") as error:
        network_with(observe={"a": [[1.0, 0, 0], [0, 1.0, 1.0]]}, parameters=names)
    assert "gait" not in str(error.value)
    with pytest.raises(vn.NotObservable, match="and the prior"):
        network_with(observe={"a": [[1.0, 0, 0]]}, prior=vn.Prior(information=np.diag([1.0, 1.0, 0])))
    network_with(observe={"a": [[1.0, 0, 0]]}, prior=vn.Prior(information=np.diag([0.0, 1.0, 1.0])))


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_observability_does_not_depend_on_units(scale: float) -> None:
    observe = {name: rows * [1.0, scale, 1.0] for name, rows in observations().items()}
    assert network_with(observe=observe).L == 3
    assert network_with(noise=scale**2).L == 3
    with pytest.raises(vn.NotObservable):
        network_with(observe={"a": np.array([[1.0, scale, 0], [2.0, 2 * scale, 0], [0, 0, 1.0]])})


def test_a_network_cannot_be_changed() -> None:
    observe, joint = observations(), well_conditioned(np.random.default_rng(8), 9)
    before = joint.copy()
    network = network_with(observe=observe, noise=joint, prior=vn.Prior(covariance=np.eye(3)))
    bound = vn.crlb(network)
    observe["a0"][:] = 0.0
    joint[:] = 0.0
    assert np.array_equal(network.R.matrix(), before)
    assert np.array_equal(vn.crlb(network), bound)
    with pytest.raises(AttributeError, match="frozen"):
        network.L = 4
    with pytest.raises(AttributeError, match="frozen"):
        network.prior.mean = np.ones(3)
    with pytest.raises(TypeError):
        network.private["gait"] = np.eye(3)
    arrays = [network.H, network.U, network.offset, network.private["gait"], network.R.matrix()]
    arrays += [network.observe["a0"], network.public["public"], network.R.block(0)]
    arrays += [network.prior.information, network.prior.root, network.prior.mean, network.prior.covariance]
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_noise_may_be_shared_between_networks_of_the_same_agents() -> None:
    network = network_with(noise=2.0)
    assert np.array_equal(vn.crlb(network_with(noise=network.R)), vn.crlb(network))


def test_many_named_agents_are_read_in_linear_time() -> None:
    """9,000 names in observe, noise and offset: anything quadratic would take minutes."""
    names = [f"n{k}" for k in range(9_000)]
    row = np.eye(3)[:1]
    network = vn.Network(
        {name: np.roll(row, k % 3, axis=1) for k, name in enumerate(names)},
        dict.fromkeys(names, 2.0), row, {"g": [[0, 1.0, 0]]}, offset={name: [1.0] for name in names[::7]},
    )  # fmt: skip
    counts = np.array([3000, 3000, 3000])
    np.testing.assert_allclose(np.diag(vn.crlb(network)), 2.0 / counts, rtol=1e-9)


# --- complex readings


def test_complex_network_has_the_complex_bound() -> None:
    """P = (J0 + H^H R^-1 H)^-1 for circular noise; real and imaginary parts share it, half each."""
    rng = np.random.default_rng(9)

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)

    observe = {"a": draw(3, 2), "b": draw(2, 2)}
    root = draw(5, 5)
    noise = root @ root.conj().T + np.eye(5)
    start = draw(2, 2)
    known = start @ start.conj().T + np.eye(2)
    stacked = np.concatenate(list(observe.values()))
    for prior, information in (
        (None, np.zeros((2, 2))),
        (circular_prior(known, mean=[1 + 2j, 3]), np.linalg.inv(known)),
    ):
        network = vn.Network.from_complex(observe, noise, draw(1, 2), {"g": [[1j, 2]]}, prior=prior)
        bound = np.linalg.inv(information + stacked.conj().T @ np.linalg.solve(noise, stacked))
        expected = np.block([[bound.real, -bound.imag], [bound.imag, bound.real]]) / 2
        np.testing.assert_allclose(vn.crlb(network), expected, rtol=1e-9, atol=1e-12)
    assert network.parameters == ("Re x1", "Re x2", "Im x1", "Im x2")
    assert network.prior is not None
    assert network.prior.mean.tolist() == [1, 3, 2, 0]


def test_complex_rows_and_readings_mean_the_same_numbers() -> None:
    rng = np.random.default_rng(10)
    rows = rng.standard_normal((2, 3)) + 1j * rng.standard_normal((2, 3))
    x = rng.standard_normal(3) + 1j * rng.standard_normal(3)
    network = vn.Network.from_complex(
        {"a": np.eye(3)}, [1.0, 2.0, 3.0], rows, {"g": rows[:1]}, offset={"a": [1j, 2, 3]}
    )
    np.testing.assert_allclose(join_complex(network.U @ stack_complex(x)), rows @ x, rtol=1e-12)
    np.testing.assert_allclose(np.diag(network.R.matrix()), [0.5, 1.0, 1.5, 0.5, 1.0, 1.5])
    assert network.offset.tolist() == [0, 2, 3, 1, 0, 0]
    assert vn.Network.from_complex({"a": np.eye(1)}, 3.0, [1], {"g": [1j]}).R.block(0)[0, 0] == 1.5


def test_complex_noise_agrees_with_samples() -> None:
    """Circular noise drawn as complex numbers has the real covariance the network was given."""
    rng = np.random.default_rng(11)
    root = rng.standard_normal((2, 2)) + 1j * rng.standard_normal((2, 2))
    covariance = root @ root.conj().T
    network = vn.Network.from_complex({"a": np.eye(2)}, covariance, [1, 0], {"g": [0, 1]})
    white = (rng.standard_normal((2, 200_000)) + 1j * rng.standard_normal((2, 200_000))) / np.sqrt(2)
    samples = stack_complex((root @ white).T)
    found = samples.T @ samples / len(samples)
    np.testing.assert_allclose(found, network.R.matrix(), atol=0.03 * np.max(found))


def test_stacks_take_what_is_said_of_each_reading() -> None:
    rng = np.random.default_rng(3)
    observe = rng.standard_normal((4, 3, 2))
    steps, each = np.array([0.1, 1.0, 0.5]), rng.uniform(0.1, 1.0, (4, 3))

    def made(**said: object) -> vn.Network:
        return vn.Network(observe, 0.5, [[1.0, 0.0]], {"g": [[0.0, 1.0]]}, **said)

    names = made().agents
    for given, rows in ((steps.tolist(), np.tile(steps, (4, 1))), (each, each)):
        stacked = made(resolution=given, offset=given)
        np.testing.assert_array_equal(made(offset=rows.reshape(-1)).offset, stacked.offset)
        named = made(
            resolution=dict(zip(names, rows, strict=True)), offset=dict(zip(names, rows, strict=True))
        )
        np.testing.assert_array_equal(stacked.offset, named.offset)
        np.testing.assert_array_equal(stacked.R.matrix(), named.R.matrix())
        assert list(stacked.resolution) == list(named.resolution)
        for agent in names:
            np.testing.assert_array_equal(stacked.resolution[agent], named.resolution[agent])
    for name in ("resolution", "offset"):
        with pytest.raises(
            vn.InvalidNetwork, match=rf"{name}: .*3 for every agent, or \(4, 3\) .*found shape \(4,\)"
        ):
            made(**{name: [1.0] * 4})
    with pytest.raises(vn.InvalidNetwork, match="at least 0"):
        made(resolution=[0.1, -1.0, 0.5])


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("limits", [[-40, 100], [0, 1], [0, 1]], r"agent -> \(lowest, highest\).*found list"),
        ("limits", (-40, 100), r"agent -> \(lowest, highest\).*found tuple"),
        ("reading_names", ["T", "p", "W"], "agent -> names of its readings, found list"),
    ],
)
def test_what_is_said_of_no_agent_is_refused_in_words(name: str, value: object, expected: str) -> None:
    with pytest.raises(vn.InvalidNetwork, match=f"{name}: expected {expected}"):
        vn.Network(np.ones((4, 3, 2)), 0.5, [[1.0, 0.0]], {"g": [[0.0, 1.0]]}, **{name: value})
