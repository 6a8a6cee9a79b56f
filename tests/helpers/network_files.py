"""Network files for tests: a small document to spoil, and comparisons bit by bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn

DOCUMENT = """
format = "veilnet-network/1"
[public]
u = [1, 0]
[private]
g = [0, 1]
[agents.a]
noise = [1.0, 2.0]
observe = {observe}
"""


def write(folder: Path, text: str, name: str = "n.toml") -> Path:
    """A file with this text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def with_observe(folder: Path, reference: str) -> Path:
    """The document, with this as what agent a observes."""
    return write(folder, DOCUMENT.replace("{observe}", reference))


EXTREMES = np.array(
    [5e-324, -2.2e-308, 1e-300, -1e300, 1.7976931348623157e308, -0.0, 0.1, 1 / 3, 2.0**53 + 2]
)


def covariance(rng: np.random.Generator, size: int) -> np.ndarray:
    root = rng.normal(size=(size, size))
    matrix = root @ root.T + size * np.eye(size)
    return (matrix + matrix.T) / 2


def joint(rng: np.random.Generator) -> vn.Network:
    return vn.Network(
        {
            "küche": rng.normal(size=(3, 4)),
            "居間": rng.normal(size=(2, 4)),
            'a "b" #[c].d = é': rng.normal(size=(1, 4)),
        },
        covariance(rng, 6),
        {"température moyenne": rng.normal(size=4), "two rows": rng.normal(size=(2, 4))},
        {"démarche": rng.normal(size=(2, 4)), "présence": rng.normal(size=4)},
        vn.Prior(covariance(rng, 4), mean=rng.normal(size=4)),
        offset=rng.permutation(EXTREMES)[:6],
        parameters=["α", "β", "γ", "δ δ"],
        units={"température moyenne": "°C", "α": "m/s²", "présence": "people"},
    )


def per_agent(rng: np.random.Generator) -> vn.Network:
    sizes = {"zeta": 2, "alpha": 1, "mid": 3, "omega": 1, "beta": 2}
    return vn.Network(
        {name: rng.normal(size=(size, 3)) for name, size in sizes.items()},
        {name: covariance(rng, size) for name, size in sizes.items()},
        rng.normal(size=(2, 3)),
        {"gait": rng.normal(size=3)},
        vn.Prior(information=np.diag([2.0, 0.0, 1 / 3]), mean=[1e-300, -0.0, 5e-324]),
        offset={"mid": [0.1, -0.0, 1e300]},
    )


def variances(rng: np.random.Generator) -> vn.Network:
    rows = rng.normal(size=(5, 3)) * 10.0 ** rng.uniform(-8, 8, size=(5, 3))
    rows[1, 2], rows[3, 0], rows[4, 1] = 5e-324, 1e-300, -0.0
    return vn.Network(
        {"first": rows[:3], "second": rows[3:]},
        rng.uniform(1e-3, 1e3, size=5),
        {"u": [1e300, 5e-324, -0.0]},
        {"g": [[0.1, 0.2, 1e-300], [5e-324, 0.0, 0.0]]},
    )


def scalar(rng: np.random.Generator) -> vn.Network:
    return vn.Network(rng.normal(size=(7, 2, 3)), 0.1, {"u": rng.normal(size=3)}, {"g": rng.normal(size=3)})


def stacked(rng: np.random.Generator) -> vn.Network:
    noise = np.stack([covariance(rng, 2) for _ in range(12)])
    return vn.Network(
        rng.normal(size=(12, 2, 3)),
        noise,
        {"u": rng.normal(size=3)},
        {"g": rng.normal(size=3)},
        vn.Prior(information=covariance(rng, 3)),
    )


def same_bits(first: Any, second: Any) -> bool:
    """Whether two arrays are the same to the last bit, signs of zeros included."""
    return bool(first.shape == second.shape and first.tobytes() == second.tobytes())


def assert_same(first: vn.Network, second: vn.Network) -> None:
    """Two networks agree to the last bit, and in every name."""
    assert first.agents == second.agents
    assert first.parameters == second.parameters
    assert list(first.units.items()) == list(second.units.items())
    assert list(first.public) == list(second.public)
    assert list(first.private) == list(second.private)
    assert np.array_equal(first.blocks.sizes, second.blocks.sizes)
    assert same_bits(first.H, second.H)
    assert same_bits(first.offset, second.offset)
    for name, rows in first.public.items():
        assert same_bits(rows, second.public[name])
    for name, rows in first.private.items():
        assert same_bits(rows, second.private[name])
    assert first.R.independent == second.R.independent
    for place in range(first.S):
        assert same_bits(first.R.block(place), second.R.block(place))
    assert same_bits(first.R.matrix(), second.R.matrix())
    assert (first.prior is None) == (second.prior is None)
    if first.prior is not None and second.prior is not None:
        assert first.prior.given == second.prior.given
        assert same_bits(first.prior.mean, second.prior.mean)
        assert same_bits(first.prior.information, second.prior.information)
        assert same_bits(first.prior.root, second.prior.root)
    assert same_bits(vn.crlb(first), vn.crlb(second))


def refused(path: Path) -> str:
    """The message of a file that is refused, which names the file once."""
    with pytest.raises(vn.InvalidNetwork) as caught:
        vn.Network.load(path)
    message = str(caught.value)
    assert str(path) in message
    assert message.count(str(path)) == 1
    return message
