"""What was checked once stays as it was: also its arrays, also after pickling and copying."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import NOISES, PRIORS, random_network
from veilnet._core.frozen import Frozen

COPIES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda value: value,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def arrays_in(value: Any, where: str) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Every array that can be reached from an object of veilnet, with the way to it."""
    if isinstance(value, np.ndarray):
        yield where, value
    elif isinstance(value, Frozen):
        stored = {name: item for name, item in vars(value).items() if name not in value._left_behind}
        yield from arrays_in(stored, where)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from arrays_in(item, f"{where}.{name}")
    elif isinstance(value, tuple | list):
        for place, item in enumerate(value):
            yield from arrays_in(item, f"{where}[{place}]")


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("prior", PRIORS)
def test_nothing_in_a_certified_plan_can_be_written_to(noise: str, prior: str, copied: str) -> None:
    plan = vn.design(random_network(seed=3, sizes=(2, 3), noise=noise, prior=prior))
    found = dict(arrays_in(COPIES[copied](plan), "plan"))
    assert any("sanitizers" in where for where in found)
    assert any("noise" in where for where in found)
    assert prior == "none" or any("prior" in where for where in found)
    assert [where for where, array in found.items() if array.flags.writeable] == []


@pytest.mark.parametrize("copied", COPIES)
def test_no_attribute_can_be_set_or_removed(copied: str) -> None:
    network = random_network(seed=4, sizes=(2, 2), noise="joint", prior="covariance")
    plan = COPIES[copied](vn.design(network))
    for value, name in (
        (plan.network, "H"),
        (plan.network.prior, "mean"),
        (plan.network.R, "root"),
        (next(iter(plan.sanitizers.values())), "compression"),
        (plan, "utility"),
    ):
        with pytest.raises(AttributeError):
            setattr(value, name, 0.0)
        with pytest.raises(AttributeError):
            delattr(value, name)
    with pytest.raises(TypeError):
        plan.privacy["stolen"] = 0.0  # type: ignore[index]


def test_a_copy_sends_and_promises_the_same() -> None:
    plan = vn.design(
        random_network(seed=5, sizes=(3, 2), noise="joint", prior="covariance"), utility_loss=0.1, starts=1
    )
    readings = np.ones(3)
    agent = next(iter(plan.sanitizers))
    before = plan.sanitizers[agent].sanitize(readings, rng=1)
    again = pickle.loads(pickle.dumps(plan))
    assert np.array_equal(again.sanitizers[agent].sanitize(readings, rng=1), before)
    assert (again.utility, dict(again.privacy)) == (plan.utility, dict(plan.privacy))
    assert again.certificate == plan.certificate
