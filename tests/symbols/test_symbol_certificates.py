"""What certificates say of values that were not counted, of blocks, and of changed figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from veilnet.symbols.certificate import SymbolCertificate, Unconfirmed
from veilnet.symbols.quantity import Quantity


def of_classes(values: Any, cells: Any, blocks: Any = None) -> SymbolCertificate:
    """Two classes, at confidence 0.95."""
    rows = np.arange(len(values)) if blocks is None else np.asarray(blocks)
    private = Quantity("g", np.asarray(values), ("no", "yes"))
    return SymbolCertificate.of(private, (0.0, 1.0), np.asarray(cells), rows, 0.95)


def test_of_a_value_that_was_not_counted_nothing_is_promised() -> None:
    promise = of_classes(np.zeros(400, int), np.arange(400) % 2)
    assert promise.total_variation == 1.0
    assert promise.auc == 1.0
    assert promise.at("even") == 1.0


def test_the_area_holds_where_blocks_have_both_values() -> None:
    """Rows of a block depend on each other (here they never have the same cell): 1 pair of 60 is within one."""
    rng = np.random.default_rng(1)
    swapped = rng.integers(2, size=60)
    cells = np.stack([swapped, 1 - swapped], axis=1).reshape(-1)
    both = of_classes(np.tile([0, 1], 60), cells, np.repeat(np.arange(60), 2))
    given = both.counts / both.counts.sum(axis=0)
    ordered = given[np.argsort(given[:, 1] / given.sum(axis=1))]
    area = float(ordered[:, 1] @ (np.cumsum(ordered[:, 0]) - ordered[:, 0] / 2))
    deviation = np.sqrt(np.log(20) * 60 * (2 / 60) ** 2 / 2)
    assert both.auc == pytest.approx(area + 1 / 60 + deviation, rel=1e-12)


@pytest.mark.parametrize("rows", [5, (0,), (1.5,), (True,), "5"])
def test_windows_are_whole_numbers(rows: Any) -> None:
    with pytest.raises(vn.InvalidRequest, match="rows"):
        of_classes([0, 1] * 50, [0, 1] * 50).over_rows(rows)


@pytest.mark.parametrize("share", [np.nan, "half", -0.5])
def test_base_rates_are_shares(share: Any) -> None:
    with pytest.raises(vn.InvalidRequest, match="base_rates"):
        of_classes([0, 1] * 50, [0, 1] * 50).at({"no": share, "yes": 0.5})


def of_numbers() -> SymbolCertificate:
    """100 rows in 50 blocks of two."""
    private = Quantity("g", np.random.default_rng(2).random(100), ())
    return SymbolCertificate.of(private, (0.0, 1.0), np.arange(100) % 2, np.arange(100) // 2, 0.95)


@pytest.mark.parametrize(
    "changes",
    [
        {"leak": -0.1},
        {"leak": np.nan},
        {"confidence": 1.0},
        {"confidence": 0.7},
        {"counts": np.array([[25, 25], [25, 25], [0, 0]])},
        {"counts": np.array([[60, 25], [-10, 25]])},
        {"counts": np.zeros((0, 2), int)},
        {"counts": np.array([50, 50])},
        {"counts": np.array([[25.5, 25], [24.5, 25]])},
        {"counts": np.array([[np.nan, 25], [25, 25]])},
        {"many": np.array([0, 0])},
        {"many": np.array([50, 50, 1])},
        {"blocks_of": np.zeros((0, 2), int), "many": np.zeros(0, int)},
    ],
)
def test_changed_figures_of_a_class_are_unconfirmed(changes: dict[str, Any]) -> None:
    promise = of_classes([0, 1] * 50, [0, 1, 1, 0] * 25)
    promise.confirm()
    with pytest.raises(Unconfirmed):
        replace(promise, **changes).confirm()


@pytest.mark.parametrize(
    "changes",
    [
        {"leak": 1.5},
        {"leak": 0.5},
        {"leak": np.nan},
        {"edges": (1.0, 1.0)},
        {"edges": (0.0, np.inf)},
        {"counts": np.array([[100.0, 50.0, 30.0], [0.0, 0.0, 0.0]])},
        {"counts": np.array([[100.0, 50.0, 60.0]])},
        {"counts": np.array([[100.0, 50.0]])},
        {"blocks_of": np.array([[1]]), "many": np.array([10])},
        {"blocks_of": np.array([[2]]), "many": np.array([90])},
        {"blocks_of": np.zeros((0, 1), int), "many": np.zeros(0, int)},
        {"blocks_of": np.array([[-100]]), "many": np.array([-1])},
    ],
)
def test_changed_figures_of_a_number_are_unconfirmed(changes: dict[str, Any]) -> None:
    promise = of_numbers()
    promise.confirm()
    assert (promise.blocks, promise.sample.largest) == (50, 2)
    with pytest.raises(Unconfirmed):
        replace(promise, **changes).confirm()
