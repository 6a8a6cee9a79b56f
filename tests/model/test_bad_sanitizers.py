"""Sanitizers that are refused, and that the message says what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.small_networks import Case, assert_refused_in_words, network


def with_sanitizers(sanitizers: Any) -> Any:
    return vn.utility(network(), sanitizers)


BAD: dict[str, Case] = {
    "sanitizer of nothing": (lambda: vn.Sanitizer(), vn.InvalidNetwork, ("compression=", "noise=")),
    "sanitizer noise negative": (
        lambda: vn.Sanitizer(noise=[1.0, -1.0]),
        vn.InvalidNetwork,
        ("noise", "positive semidefinite", "found"),
    ),
    "sanitizer noise indefinite": (
        lambda: vn.Sanitizer(noise=[[1.0, 2.0], [2.0, 1.0]]),
        vn.InvalidNetwork,
        ("noise", "positive semidefinite", "-1"),
    ),
    "sanitizer noise of the wrong size": (
        lambda: vn.Sanitizer(np.ones((1, 2)), np.eye(2)),
        vn.InvalidNetwork,
        ("noise", "1 x 1", "(2, 2)"),
    ),
    "noise on silence": (
        lambda: vn.Sanitizer(np.zeros((0, 2)), np.eye(2)),
        vn.InvalidNetwork,
        ("noise", "0 x 0", "(2, 2)"),
    ),
    "sanitizer complex": (
        lambda: vn.Sanitizer([[1j, 0]]),
        vn.InvalidNetwork,
        ("compression", "expected real"),
    ),
    "readings no count": (
        lambda: vn.Sanitizer.silent(-1),
        vn.InvalidNetwork,
        ("readings", "positive whole number", "-1"),
    ),
    "grid no power of two": (
        lambda: vn.Sanitizer(np.eye(2), grid=0.1),
        vn.InvalidNetwork,
        ("grid", "powers of two", "0.1"),
    ),
    "grid negative": (
        lambda: vn.Sanitizer(np.eye(2), grid=[-0.5, 0.5]),
        vn.InvalidNetwork,
        ("grid", "positive powers of two", "-0.5"),
    ),
    "grid of the wrong length": (
        lambda: vn.Sanitizer(np.eye(2), grid=[0.5]),
        vn.InvalidNetwork,
        ("grid", "expected 2 numbers"),
    ),
    "limits reversed": (
        lambda: vn.Sanitizer(np.eye(2), limits=(1.0, -1.0)),
        vn.InvalidNetwork,
        ("limits", "lowest below highest"),
    ),
    "limits of one number": (
        lambda: vn.Sanitizer(np.eye(2), limits=3.0),
        vn.InvalidNetwork,
        ("limits", "(lowest, highest)", "3.0"),
    ),
    "limits of text": (
        lambda: vn.Sanitizer(np.eye(2), limits=("low", "high")),
        vn.InvalidNetwork,
        ("lowest limit", "one number or 2", "'low'"),
    ),
    "agent of a sanitizer": (
        lambda: vn.Sanitizer(np.eye(2), agent=5),
        vn.InvalidNetwork,
        ("agent", "non-empty name", "5"),
    ),
    "power as text": (
        lambda: vn.Sanitizer(np.eye(2)).as_noise("much"),
        vn.InvalidNetwork,
        ("power", "expected numbers", "'much'"),
    ),
    "power infinite": (
        lambda: vn.Sanitizer([[1.0, 0]]).as_noise(np.inf),
        vn.InvalidNetwork,
        ("power", "finite", "inf"),
    ),
    "power as a list": (
        lambda: vn.Sanitizer([[1.0, 0]]).as_noise([1.0, 2.0]),
        vn.InvalidNetwork,
        ("power", "one number", "(2,)"),
    ),
    "sanitizers as a list": (
        lambda: with_sanitizers([vn.Sanitizer.raw(2)]),
        vn.InvalidRequest,
        ("sanitizers", "agent -> Sanitizer", "list"),
    ),
    "sanitizers as an empty list": (
        lambda: with_sanitizers([]),
        vn.InvalidRequest,
        ("sanitizers", "agent -> Sanitizer", "list"),
    ),
    "sanitizer of an unknown agent": (
        lambda: with_sanitizers({"c": vn.Sanitizer.raw(2)}),
        vn.InvalidRequest,
        ("sanitizers", "unknown 'c'", "'a', 'b'"),
    ),
    "sanitizer for another size": (
        lambda: with_sanitizers({"a": vn.Sanitizer.raw(3)}),
        vn.InvalidRequest,
        ("sanitizers['a']", "expected 2 readings", "found 3", "another agent"),
    ),
    "verdict of no network": (
        lambda: vn.check("house.toml"),
        vn.InvalidRequest,
        ("network", "expected a veilnet.Network", "found str"),
    ),
    "design of no network": (
        lambda: vn.design("house.toml"),
        vn.InvalidRequest,
        ("network", "expected a veilnet.Network", "found str"),
    ),
    "frontier of no network": (
        lambda: vn.frontier("house.toml"),
        vn.InvalidRequest,
        ("network", "expected a veilnet.Network", "found str"),
    ),
    "frontier from a seed that is none": (
        lambda: vn.frontier(network(), [1.0], seed=-1),
        vn.InvalidRequest,
        ("seed", "expected a whole number of at least 0", "found -1"),
    ),
    "bound of no network": (
        lambda: vn.crlb("house.toml"),
        vn.InvalidRequest,
        ("network", "expected a veilnet.Network", "found str"),
    ),
    "utility of no network": (
        lambda: vn.utility("house.toml", {}),
        vn.InvalidRequest,
        ("network", "expected a veilnet.Network", "found str"),
    ),
    "privacy of no network": (
        lambda: vn.privacy("house.toml", {}),
        vn.InvalidRequest,
        ("network", "expected a veilnet.Network", "found str"),
    ),
    "limit of no network": (
        lambda: vn.privacy_limit("house.toml"),
        vn.InvalidRequest,
        ("network", "expected a veilnet.Network", "found str"),
    ),
    "bits of no network": (
        lambda: vn.bits_revealed("house.toml"),
        vn.InvalidRequest,
        ("network", "expected a veilnet.Network", "found str"),
    ),
    "matrix for a sanitizer": (
        lambda: with_sanitizers({"a": np.eye(2)}),
        vn.InvalidRequest,
        ("sanitizers['a']", "expected a Sanitizer", "ndarray", "vn.Sanitizer("),
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_is_refused_in_words(kind: str) -> None:
    assert_refused_in_words(BAD[kind])
