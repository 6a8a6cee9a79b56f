"""What an agent of symbols refuses: arrays that are no numbers, and rows of which it can say nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from veilnet.io import _formats
from veilnet.io._sealed import seal
from veilnet.symbols.agent import Layer, SymbolAgent
from veilnet.symbols.agent_files import AGENT, load_agent

LAYER = Layer(
    np.zeros(1), np.ones(1), np.ones((1, 2)), np.zeros(2), np.eye(2), np.zeros(2), probabilities=False
)


def agent(**changes: Any) -> SymbolAgent:
    """One reading, two symbols."""
    arrays = {"low": -np.ones(1), "high": np.ones(1), "code": np.eye(2), "start": np.zeros(2)}
    layer = replace(LAYER, **{name: changes[name] for name in changes if name not in arrays})
    arrays |= {name: changes[name] for name in changes if name in arrays}
    return SymbolAgent("hall", ["T"], 1, layer=layer, keep=1.0, meanings=["one", "other"], **arrays)


WRONG = [
    ("scale", np.zeros(1)),
    ("scale", -np.ones(1)),
    ("level", np.array([np.nan, 0.0])),
    ("leave", np.full((2, 2), np.inf)),
    ("start", np.array([np.nan, 0.0])),
    ("low", np.full(1, 2.0)),
    ("high", np.full(1, np.inf)),
]


@pytest.mark.parametrize(("name", "array"), WRONG)
def test_arrays_are_finite_and_in_order(name: str, array: np.ndarray) -> None:
    with pytest.raises(vn.InvalidNetwork, match=name):
        agent(**{name: array})


def test_a_file_with_no_scale_is_refused(tmp_path: Path) -> None:
    values = AGENT.write(agent()) | {"format": _formats.SYMBOL_AGENT, "plan": "0" * 32}
    values["layer"]["scale"] = [0.0]
    (tmp_path / "hall.json").write_bytes(seal(values))
    with pytest.raises(vn.InvalidPlan, match="scale"):
        load_agent(tmp_path / "hall.json")


def test_a_row_whose_share_is_not_a_number_is_not_sent() -> None:
    """Finite arrays can overflow: that row alone is refused."""
    large = agent(scale=np.full(1, 1e-300), leave=1e300 * np.array([[1.0, -1.0], [-1.0, 1.0]]))
    rows = np.array([[-0.5], [0.5], [0.0]])
    assert large.send_or_not(rows).tolist() == [0, -1, 0]
    with pytest.raises(vn.InvalidReading, match="row 1: what it says"):
        large.send(rows)
