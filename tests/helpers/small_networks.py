"""A small network with some arguments changed, for tests of what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import veilnet as vn

NAN = float("nan")


def network(**changes: Any) -> vn.Network:
    """Two agents a (2 readings) and b (1 reading), x of two parameters, with some arguments changed."""
    arguments: dict[str, Any] = {
        "observe": {"a": np.eye(2), "b": [[1.0, 1.0]]},
        "noise": 1.0,
        "public": [[1.0, 0.0]],
        "private": {"gait": [[0.0, 1.0]]},
    }
    return vn.Network(**(arguments | changes))


def stack(**changes: Any) -> vn.Network:
    return network(observe=np.arange(8.0).reshape(2, 2, 2), **changes)


def complex_network(**changes: Any) -> vn.Network:
    arguments: dict[str, Any] = {
        "observe": {"a": np.eye(2) * 1j},
        "noise": 1.0,
        "public": [[1.0, 0.0]],
        "private": {"gait": [[0.0, 1.0]]},
    }
    return vn.Network.from_complex(**(arguments | changes))


Case = tuple[Callable[[], Any], type[Exception], tuple[str, ...]]
"""What is attempted, the error it ends in, and what the message has to say."""


def assert_refused_in_words(case: Case) -> None:
    """The attempt ends in its error, whose message is one line that says everything it has to."""
    attempt, error, fragments = case
    with pytest.raises(error) as caught:
        attempt()
    assert isinstance(caught.value, vn.VeilnetError)
    assert isinstance(caught.value, ValueError)
    message = str(caught.value)
    missing = [fragment for fragment in fragments if fragment not in message]
    assert not missing, f"{message!r} does not say {missing}"
    assert "\n" not in message
    assert len(message) < 400
