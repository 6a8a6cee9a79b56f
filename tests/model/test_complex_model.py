"""Complex networks (the paper's Example 1): the real bound is the complex one, by complex arithmetic."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import veilnet as vn
from veilnet.model.complex import circular_prior, join_complex, stack_complex

Complex = NDArray[np.complex128]
PERSONS = 4
SENSORS = {"door": 3, "table": 4, "window": 2}


def microphones(rng: np.random.Generator) -> dict[str, Complex]:
    """H_i[j, k] = α_i exp(i θ_ijk): one gain per array, one phase per sensor and person."""
    return {
        name: rng.uniform(0.5, 2.0) * np.exp(1j * rng.uniform(0, 2 * np.pi, size=(sensors, PERSONS)))
        for name, sensors in SENSORS.items()
    }


def hermitian(rng: np.random.Generator, size: int) -> Complex:
    root = rng.normal(size=(size, size)) + 1j * rng.normal(size=(size, size))
    matrix = root @ root.conj().T + np.eye(size)
    return (matrix + matrix.conj().T) / 2


def block_diagonal(blocks: list[Complex]) -> Complex:
    total = sum(block.shape[0] for block in blocks)
    dense = np.zeros((total, total), dtype=complex)
    start = 0
    for block in blocks:
        stop = start + block.shape[0]
        dense[start:stop, start:stop] = block
        start = stop
    return dense


def noise_cases(rng: np.random.Generator) -> dict[str, tuple[Any, Complex]]:
    """kind -> (the argument, the same R as one complex matrix)."""
    total = sum(SENSORS.values())
    joint = hermitian(rng, total)
    own = {name: hermitian(rng, sensors) for name, sensors in SENSORS.items()}
    variances = rng.uniform(0.5, 2.0, size=total)
    mixed = {"door": 0.7, "table": rng.uniform(0.5, 2.0, size=4), "window": own["window"]}
    return {
        "joint": (joint, joint),
        "per agent": (own, block_diagonal(list(own.values()))),
        "variances": (variances, np.diag(variances).astype(complex)),
        "scalar": (0.3, 0.3 * np.eye(total, dtype=complex)),
        "mixed": (mixed, block_diagonal([0.7 * np.eye(3), np.diag(mixed["table"]), own["window"]])),
    }


def complex_bound(H: Complex, R: Complex, prior: Complex | None = None) -> Complex:
    """(P0^-1 + H^H R^-1 H)^-1 = E[(x̂ - x)(x̂ - x)^H], all in complex arithmetic."""
    information = H.conj().T @ np.linalg.solve(R, H)
    if prior is not None:
        information = information + np.linalg.inv(prior)
    return np.asarray(np.linalg.inv(information))


def to_complex(real: NDArray[np.float64]) -> Complex:
    """E[e e^H] from the covariance of (Re e, Im e)."""
    half = real.shape[0] // 2
    rr, ri, ir, ii = real[:half, :half], real[:half, half:], real[half:, :half], real[half:, half:]
    return np.asarray((rr + ii) + 1j * (ir - ri))


def pseudo(real: NDArray[np.float64]) -> Complex:
    """E[e e^T] from the covariance of (Re e, Im e): zero where e is circular."""
    half = real.shape[0] // 2
    rr, ri, ir, ii = real[:half, :half], real[:half, half:], real[half:, :half], real[half:, half:]
    return np.asarray((rr - ii) + 1j * (ir + ri))


PUBLIC = np.eye(PERSONS)[:2]
PRIVATE = {"third": np.eye(PERSONS)[2], "mix": np.array([[0.0, 1j, 1.0 - 2j, 0.5], [1.0, 0.0, 0.0, 1j]])}


@pytest.mark.parametrize("with_prior", [False, True])
@pytest.mark.parametrize("kind", ["joint", "per agent", "variances", "scalar", "mixed"])
def test_real_bound_is_the_complex_one(kind: str, with_prior: bool) -> None:
    rng = np.random.default_rng(11)
    observe = microphones(rng)
    H = np.concatenate(list(observe.values()))
    noise, R = noise_cases(rng)[kind]
    P0 = hermitian(rng, PERSONS) if with_prior else None
    prior = None if P0 is None else circular_prior(P0)
    network = vn.Network.from_complex(observe, noise, PUBLIC, PRIVATE, prior)
    assert network.H.shape == (2 * H.shape[0], 2 * PERSONS)
    assert network.R.independent == (kind != "joint")
    expected = complex_bound(H, R, P0)
    found = vn.crlb(network)
    np.testing.assert_allclose(to_complex(found), expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())
    assert np.abs(pseudo(found)).max() < 1e-12 * np.abs(expected).max()
    # E|û - u|² and E|ĝ - g|² are the traces over real and imaginary rows
    for rows, complex_rows in [
        (network.U, PUBLIC),
        *((network.private[k], v) for k, v in PRIVATE.items()),
    ]:
        complex_rows = np.atleast_2d(complex_rows)
        error = np.trace(complex_rows @ expected @ complex_rows.conj().T).real
        assert np.trace(rows @ found @ rows.T) == pytest.approx(error, rel=1e-10)


@pytest.mark.parametrize("kind", ["joint", "per agent", "scalar"])
def test_circular_sanitization_agrees(kind: str) -> None:
    rng = np.random.default_rng(12)
    observe = microphones(rng)
    H = np.concatenate(list(observe.values()))
    noise, R = noise_cases(rng)[kind]
    P0 = hermitian(rng, PERSONS)
    network = vn.Network.from_complex(observe, noise, PUBLIC, PRIVATE, circular_prior(P0))
    compressions = [
        rng.normal(size=(2, sensors)) + 1j * rng.normal(size=(2, sensors)) for sensors in SENSORS.values()
    ]
    added = [hermitian(rng, 2) for _ in SENSORS]
    sanitizers = {
        name: vn.Sanitizer(
            compression=np.block([[C.real, -C.imag], [C.imag, C.real]]),
            noise=np.block([[T.real, -T.imag], [T.imag, T.real]]) / 2,
        )
        for name, C, T in zip(SENSORS, compressions, added, strict=True)
    }
    starts = np.cumsum([0, *SENSORS.values()])
    C = np.zeros((2 * len(SENSORS), H.shape[0]), dtype=complex)
    for place, block in enumerate(compressions):
        C[2 * place : 2 * place + 2, starts[place] : starts[place + 1]] = block
    before = complex_bound(H, R, P0)
    after = complex_bound(C @ H, C @ R @ C.conj().T + block_diagonal(added), P0)

    def growth(rows: Any) -> float:
        rows = np.atleast_2d(rows)
        return float(
            np.trace(rows @ after @ rows.conj().T).real / np.trace(rows @ before @ rows.conj().T).real - 1
        )

    assert vn.utility(network, sanitizers) == pytest.approx(-growth(PUBLIC), rel=1e-9)
    for name, value in vn.privacy(network, sanitizers).items():
        assert value == pytest.approx(growth(PRIVATE[name]), rel=1e-9)


def test_simulated_complex_readings_reach_the_bound() -> None:
    rng = np.random.default_rng(13)
    observe = microphones(rng)
    H = np.concatenate(list(observe.values()))
    R = hermitian(rng, H.shape[0])
    network = vn.Network.from_complex(observe, R, PUBLIC, PRIVATE)
    draws = 20_000
    white = (rng.normal(size=(draws, H.shape[0])) + 1j * rng.normal(size=(draws, H.shape[0]))) / np.sqrt(2)
    readings = white @ np.linalg.cholesky(R).T
    # weighted least squares on the real readings, in the order in which agents send them
    starts = np.cumsum([0, *SENSORS.values()])
    real = np.concatenate([stack_complex(readings[:, a:b]) for a, b in pairwise(starts)], axis=1)
    weighted = np.linalg.solve(network.R.matrix(), network.H)
    errors = join_complex(real @ np.linalg.solve(network.H.T @ weighted, weighted.T).T)
    bound = np.trace(vn.crlb(network))
    squares = np.sum(np.abs(errors) ** 2, axis=1)
    assert np.mean(squares) == pytest.approx(bound, abs=5 * np.std(squares) / np.sqrt(draws))


def test_names_offsets_and_readings_follow_the_complex_ones() -> None:
    rng = np.random.default_rng(14)
    observe = microphones(rng)
    offset = {"table": np.array([1 + 2j, 0, -1j, 3])}
    network = vn.Network.from_complex(
        observe,
        1.0,
        {"talk": [1, 0, 0, 0]},
        {"whisper": [0, 1, 0, 0]},
        circular_prior(np.eye(PERSONS), mean=[1j, 2, 3, 4 - 1j]),
        offset=offset,
        parameters=["ann", "bo", "cy", "di"],
        units={"talk": "Pa", "Im di": "Pa"},
    )
    assert network.parameters[:5] == ("Re ann", "Re bo", "Re cy", "Re di", "Im ann")
    assert network.unit("Im di") == "Pa"
    assert network.U.shape == (2, 2 * PERSONS)
    x = rng.normal(size=PERSONS) + 1j * rng.normal(size=PERSONS)
    for name, H in observe.items():
        read = (
            network.observe[name] @ stack_complex(x)
            + network.offset[network.blocks.rows(network.position[name])]
        )
        np.testing.assert_allclose(join_complex(read), H @ x + offset.get(name, 0), rtol=1e-13)
    assert network.prior is not None
    np.testing.assert_array_equal(join_complex(network.prior.mean), [1j, 2, 3, 4 - 1j])
    np.testing.assert_allclose(join_complex(stack_complex(x)), x)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"observe": {}}, "observe: expected agent -> complex matrix"),
        ({"observe": {"a": [[1, "x"]]}}, r"observe\['a'\]: expected complex numbers"),
        ({"observe": {"a": [[1, np.nan]]}}, r"observe\['a'\]: expected finite numbers"),
        ({"noise": np.array([[1, 1j], [1j, 1]])}, "noise: expected a Hermitian covariance"),
        ({"noise": np.ones((3, 3))}, "noise: expected a 2 x 2 Hermitian covariance"),
        ({"noise": 1 + 1j}, "noise: expected real variances"),
        ({"noise": [1, 1j]}, "noise: expected real variances"),
        ({"noise": "loud"}, "noise: expected"),
        ({"noise": {"b": 1.0}}, "noise: unknown 'b'"),
        ({"noise": {"a": np.array([[1, 1j], [1j, 1]])}}, "noise of 'a': expected a Hermitian covariance"),
        ({"private": [[1, 0]]}, "private: expected a mapping by name"),
        ({"private": {"g": [0, 0]}}, "private 'g': row 1 is zero"),
        ({"offset": {"b": [1]}}, "offset: unknown 'b'"),
    ],
)
def test_bad_complex_input(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "observe": {"a": [[1, 1j], [1j, 2]]},
        "noise": 1.0,
        "public": [1, 0],
        "private": {"g": [0, 1]},
    }
    vn.Network.from_complex(**arguments)
    with pytest.raises(vn.InvalidNetwork, match=message):
        vn.Network.from_complex(**{**arguments, **change})


def test_bad_circular_prior() -> None:
    with pytest.raises(vn.InvalidNetwork, match="prior covariance: expected a Hermitian covariance"):
        circular_prior([[1, 1j], [1j, 1]])
    with pytest.raises(vn.InvalidNetwork, match="prior covariance: expected a square matrix"):
        circular_prior([[1, 1j]])
