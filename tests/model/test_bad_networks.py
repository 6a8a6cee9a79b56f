"""Networks that are refused, and that the message names the argument, what was expected and found, what to do."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import veilnet as vn
from helpers.small_networks import NAN, Case, assert_refused_in_words, complex_network, network, stack
from veilnet._core import errors
from veilnet.bounds.knowledge import bits_revealed
from veilnet.model.complex import circular_prior


def big_stack_with_one_bad_noise() -> vn.Network:
    noise = np.ones((20_000, 1, 1))
    noise[12_345] = -1.0
    return vn.Network(np.ones((20_000, 1, 1)), noise, [[1.0]], {"gait": [[1.0]]})


BAD: dict[str, Case] = {
    # --- observe
    "no agents": (lambda: network(observe={}), vn.InvalidNetwork, ("observe", "at least one agent", "none")),
    "no readings": (
        lambda: network(observe={"a": np.zeros((0, 2))}),
        vn.InvalidNetwork,
        ("observe['a']", "at least one row", "(0, 2)"),
    ),
    "empty stack": (
        lambda: network(observe=np.zeros((0, 2, 2))),
        vn.InvalidNetwork,
        ("observe", "(S, n, L)", "(0, 2, 2)"),
    ),
    "matrix for a stack": (
        lambda: network(observe=np.eye(2)),
        vn.InvalidNetwork,
        ("observe", "agent -> matrix", "(2, 2)"),
    ),
    "columns differ": (
        lambda: network(observe={"a": np.eye(2), "b": [[1.0, 1.0, 1.0]]}),
        vn.InvalidNetwork,
        ("observe['b']", "expected 2 columns", "found 3", "same parameters"),
    ),
    "three dimensions": (
        lambda: network(observe={"a": np.ones((2, 2, 2))}),
        vn.InvalidNetwork,
        ("observe['a']", "two dimensions", "(2, 2, 2)"),
    ),
    "ragged rows": (
        lambda: network(observe={"a": [[1.0, 0.0], [1.0]]}),
        vn.InvalidNetwork,
        ("observe['a']", "different lengths", "equally long"),
    ),
    "NaN": (
        lambda: network(observe={"a": [[1.0, NAN], [0.0, 1.0]]}),
        vn.InvalidNetwork,
        ("observe['a']", "finite", "nan at index (0, 1)", "missing values"),
    ),
    "infinity": (
        lambda: network(noise=[1.0, np.inf, 1.0]),
        vn.InvalidNetwork,
        ("noise", "finite", "inf at index (1,)"),
    ),
    "text": (
        lambda: network(observe={"a": [["one", "two"], ["0", "1"]]}),
        vn.InvalidNetwork,
        ("observe['a']", "expected numbers", "'one'", "convert text"),
    ),
    "numbers as text": (
        lambda: network(public=[["1", "2"]]),
        vn.InvalidNetwork,
        ("public", "expected numbers", "'1'"),
    ),
    "dates": (
        lambda: network(public=np.array([["2020-01-01", "2020-01-02"]], dtype="datetime64[D]")),
        vn.InvalidNetwork,
        ("public", "expected numbers", "datetime64"),
    ),
    "masked": (
        lambda: network(public=np.ma.masked_array([[1.0, 2.0]], mask=[[False, True]])),
        vn.InvalidNetwork,
        ("public", "masked", "missing values"),
    ),
    "too large": (
        lambda: network(public=[[10**400, 1]]),
        vn.InvalidNetwork,
        ("public", "expected numbers", "1000"),
    ),
    "None": (
        lambda: network(observe={"a": None}),
        vn.InvalidNetwork,
        ("observe['a']", "expected numbers", "None"),
    ),
    "complex where real is meant": (
        lambda: network(observe={"a": np.eye(2) * 1j}),
        vn.InvalidNetwork,
        ("observe['a']", "expected real numbers", "complex", "Network.from_complex"),
    ),
    "reserved agent name": (
        lambda: network(observe={"Center": np.eye(2)}),
        vn.InvalidNetwork,
        ("'Center'", "plan folder", "avoid"),
    ),
    "agent name with a slash": (
        lambda: network(observe={"../a": np.eye(2)}),
        vn.InvalidNetwork,
        ("'../a'", "slashes"),
    ),
    "agent name is no text": (
        lambda: network(observe={3: np.eye(2)}),
        vn.InvalidNetwork,
        ("observe", "non-empty name", "3"),
    ),
    "agent name not printable": (
        lambda: network(observe={"a\x00": np.eye(2)}),
        vn.InvalidNetwork,
        ("observe", "printable"),
    ),
    "agent name used twice": (
        lambda: stack(agents=["a", "a"]),
        vn.InvalidNetwork,
        ("agents", "'a' is used twice", "must differ"),
    ),
    "agent names do not fit": (
        lambda: stack(agents=["a"]),
        vn.InvalidNetwork,
        ("agents", "expected 2 names", "found 1"),
    ),
    "agent names in one text": (
        lambda: stack(agents="ab"),
        vn.InvalidNetwork,
        ("agents", "list of names", "'ab'"),
    ),
    "names twice over": (
        lambda: network(agents=["a", "b"]),
        vn.InvalidNetwork,
        ("agents", "not both"),
    ),
    "unobservable": (
        lambda: network(observe={"a": [[1.0, -1.0]]}, parameters=["left", "right"]),
        vn.NotObservable,
        ("observe", "0.71", "left", "right", "add an agent"),
    ),
    # --- noise
    "noise of the wrong size": (
        lambda: network(noise=np.eye(2)),
        vn.InvalidNetwork,
        ("noise", "3 x 3", "found shape (2, 2)"),
    ),
    "noise asymmetric": (
        lambda: network(noise=[[1.0, 0.5, 0], [0.1, 1.0, 0], [0, 0, 1.0]]),
        vn.InvalidNetwork,
        ("noise", "symmetric", "0.5 at (0, 1)", "0.1 at (1, 0)", "(R + R.T) / 2"),
    ),
    "noise indefinite": (
        lambda: network(noise=[[1.0, 2.0, 0.5], [2.0, 1.0, 0], [0.5, 0, 1.0]]),
        vn.InvalidNetwork,
        ("noise", "positive definite", "relative eigenvalue -"),
    ),
    "noise singular": (
        lambda: network(noise={"a": np.ones((2, 2)), "b": 1.0}),
        vn.InvalidNetwork,
        ("noise of 'a'", "positive definite", "duplicated readings"),
    ),
    "noise negative": (
        lambda: network(noise=[1.0, -1.0, 1.0]),
        vn.InvalidNetwork,
        ("noise of 'a'", "positive definite"),
    ),
    "noise zero": (lambda: network(noise=0.0), vn.InvalidNetwork, ("noise of", "positive definite")),
    "noise of an unknown agent": (
        lambda: network(noise={"a": 1.0, "b": 1.0, "c": 1.0}),
        vn.InvalidNetwork,
        ("noise", "unknown 'c'", "known are 'a', 'b'"),
    ),
    "noise forgotten for one agent": (
        lambda: network(noise={"a": 1.0}),
        vn.InvalidNetwork,
        ("noise", "nothing given for agent 'b'"),
    ),
    "noise of another network": (
        lambda: network(noise=stack(noise=1.0).noise),
        vn.InvalidNetwork,
        ("noise", "same sizes", "another network"),
    ),
    "noise of one of many agents": (
        big_stack_with_one_bad_noise,
        vn.InvalidNetwork,
        ("noise of 'agent12346'", "positive definite"),
    ),
    # --- public and private
    "no public parameter": (
        lambda: network(public={}),
        vn.InvalidNetwork,
        ("public", "at least one", "none"),
    ),
    "public of the wrong length": (
        lambda: network(public={"heat": [[1.0, 0, 0]]}),
        vn.InvalidNetwork,
        ("public 'heat'", "expected 2 columns", "found 3"),
    ),
    "public zero": (
        lambda: network(public={"heat": [[1.0, 0], [0, 0]]}),
        vn.InvalidNetwork,
        ("public 'heat'", "row 2 is zero", "remove"),
    ),
    "private without names": (
        lambda: network(private=[[0.0, 1.0]]),
        vn.InvalidNetwork,
        ("private", "name -> rows", "list", '{"gait": rows}'),
    ),
    "no private parameter": (
        lambda: network(private={}),
        vn.InvalidNetwork,
        ("private", "at least one", "none"),
    ),
    "private zero": (
        lambda: network(private={"gait": [[0.0, 0.0]]}),
        vn.InvalidNetwork,
        ("private 'gait'", "row 1 is zero", "remove"),
    ),
    "private name empty": (
        lambda: network(private={" ": [[0.0, 1.0]]}),
        vn.InvalidNetwork,
        ("private", "non-empty name"),
    ),
    # --- prior
    "prior as a matrix": (
        lambda: network(prior=np.eye(2)),
        vn.InvalidNetwork,
        ("prior", "None or a Prior", "ndarray", "Prior(covariance=P0)"),
    ),
    "prior of the wrong size": (
        lambda: network(prior=vn.Prior(covariance=np.eye(3))),
        vn.InvalidNetwork,
        ("prior", "expected 2 parameters", "found 3"),
    ),
    "prior twice": (
        lambda: vn.Prior(covariance=np.eye(2), information=np.eye(2)),
        vn.InvalidNetwork,
        ("prior", "exactly one"),
    ),
    "prior of nothing": (lambda: vn.Prior(), vn.InvalidNetwork, ("prior", "exactly one")),
    "prior covariance singular": (
        lambda: vn.Prior(covariance=np.ones((2, 2))),
        vn.InvalidNetwork,
        ("prior covariance", "positive definite", "relative eigenvalue", "known exactly"),
    ),
    "prior information indefinite": (
        lambda: vn.Prior(information=[[1.0, 2.0], [2.0, 1.0]]),
        vn.InvalidNetwork,
        ("prior information", "semidefinite", "-1"),
    ),
    "prior as variances": (
        lambda: vn.Prior(covariance=[1.0, 2.0]),
        vn.InvalidNetwork,
        ("prior covariance", "L x L matrix", "(2,)", "np.diag"),
    ),
    "prior rectangular": (
        lambda: vn.Prior(covariance=np.ones((2, 3))),
        vn.InvalidNetwork,
        ("prior covariance", "2 x 2", "(2, 3)"),
    ),
    "prior mean of the wrong length": (
        lambda: vn.Prior(covariance=np.eye(2), mean=[1.0]),
        vn.InvalidNetwork,
        ("prior mean", "expected 2 numbers", "(1,)"),
    ),
    "bits without a prior": (
        lambda: bits_revealed(network()),
        vn.InvalidRequest,
        ("prior", "full prior", "Prior(covariance=...)"),
    ),
    # --- offset, names, units
    "offset of an unknown agent": (
        lambda: network(offset={"c": [1.0]}),
        vn.InvalidNetwork,
        ("offset", "unknown 'c'", "'a', 'b'"),
    ),
    "offset of the wrong length": (
        lambda: network(offset={"a": [1.0]}),
        vn.InvalidNetwork,
        ("offset of 'a'", "expected 2 numbers", "(1,)"),
    ),
    "parameter names do not fit": (
        lambda: network(parameters=["one"]),
        vn.InvalidNetwork,
        ("parameters", "expected 2 names", "found 1"),
    ),
    "parameter names twice": (
        lambda: network(parameters=["one", "one"]),
        vn.InvalidNetwork,
        ("parameters", "'one' is used twice"),
    ),
    "parameter names no list": (
        lambda: network(parameters=7),
        vn.InvalidNetwork,
        ("parameters", "list of names", "7"),
    ),
    "unit of nothing": (
        lambda: network(units={"speed": "m/s"}),
        vn.InvalidNetwork,
        ("units", "unknown 'speed'", "'gait'"),
    ),
    "units no mapping": (lambda: network(units=5), vn.InvalidNetwork, ("units", "name -> unit", "int")),
    # --- complex models
    "complex noise not Hermitian": (
        lambda: complex_network(noise=[[1.0, 1j], [1j, 1.0]]),
        vn.InvalidNetwork,
        ("noise", "Hermitian", "asymmetric"),
    ),
    "complex variance": (
        lambda: complex_network(noise=1 + 1j),
        vn.InvalidNetwork,
        ("noise", "real variances"),
    ),
    "complex noise of the wrong size": (
        lambda: complex_network(noise=np.eye(3)),
        vn.InvalidNetwork,
        ("noise", "2 x 2", "(3, 3)"),
    ),
    "complex noise missing": (
        lambda: complex_network(noise=None),
        vn.InvalidNetwork,
        ("noise", "complex numbers"),
    ),
    "complex private without names": (
        lambda: complex_network(private=[[0, 1j]]),
        vn.InvalidNetwork,
        ("private", "mapping by name", "list"),
    ),
    "complex observe as a matrix": (
        lambda: complex_network(observe=np.eye(2)),
        vn.InvalidNetwork,
        ("observe", "agent -> complex matrix"),
    ),
    "complex parameter names": (
        lambda: complex_network(parameters=["a", "b", "c"]),
        vn.InvalidNetwork,
        ("parameters", "expected 2 names", "found 3"),
    ),
    "complex prior rectangular": (
        lambda: circular_prior(np.ones((2, 3))),
        vn.InvalidNetwork,
        ("prior covariance", "square", "(2, 3)"),
    ),
    "complex NaN": (
        lambda: complex_network(observe={"a": [[NAN, 1j]]}),
        vn.InvalidNetwork,
        ("observe['a']", "finite", "NaN"),
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_input_is_refused_in_words(kind: str) -> None:
    assert_refused_in_words(BAD[kind])


def test_every_error_is_a_value_error_of_veilnet() -> None:
    found = [value for value in vars(errors).values() if isinstance(value, type)]
    assert len(found) >= 4
    for error in found:
        assert issubclass(error, errors.VeilnetError)
        assert issubclass(error, ValueError)
        assert re.search(r"\w", error.__doc__ or "")


@pytest.mark.parametrize("good", [lambda: network(), lambda: stack(), lambda: complex_network()])
def test_the_unchanged_arguments_are_fine(good: Callable[[], vn.Network]) -> None:
    """Otherwise the table above would prove nothing."""
    assert good().L in (2, 4)


def test_an_unknown_keyword_is_not_swallowed() -> None:
    with pytest.raises(TypeError, match="privat"):
        network(privat={"gait": [[0.0, 1.0]]})
    with pytest.raises(TypeError, match="colour"):
        complex_network(colour="red")


def test_rounding_is_no_asymmetry() -> None:
    noise = np.array([[2.0, 1.0, 0.5], [1.0, 2.0, 0.1], [0.5, 0.1, 1.0]])
    noise[0, 1] += 1e-15
    matrix = network(noise=noise).R.matrix()
    assert np.array_equal(matrix, matrix.T)
