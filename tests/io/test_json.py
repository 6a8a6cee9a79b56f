"""JSON is read strictly, and written so that it can be read by anyone."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import random_network
from veilnet.io._json import parse, plain, with_infinities


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' is given twice in one table"),
        ("[1, NaN]", "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("[" * 200_000, "nested too deeply|Expecting value"),
        ('{"a":' * 100_000, "nested too deeply|Expecting"),
        ("[1, 2", "Expecting"),
        ("", "Expecting value"),
        (b"\xff", "codec can't decode"),
    ],
)
def test_what_readers_could_take_differently_is_refused(text: str | bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse(text)


def test_every_format_refuses_repetition_constants_and_depth(tmp_path: Path) -> None:
    """The same three, whichever file they stand in."""
    vn.design(random_network(3, sizes=(2, 3))).save(tmp_path / "plan")
    random_network(3, sizes=(2, 3)).save(tmp_path / "network.json")
    readers: dict[Path, Any] = {
        tmp_path / "network.json": vn.Network.load,
        tmp_path / "plan" / "a0.json": vn.Sanitizer.load,
        tmp_path / "plan" / "center.json": vn.Fusion.load,
    }
    for path, load in readers.items():
        sound = path.read_text(encoding="utf-8")
        load(path)
        for spoiled in (
            sound.replace('"format"', '"format": "x", "format"', 1),
            sound.replace("{", '{"more": NaN,', 1),
            sound.replace("{", '{"more": ' + "[" * 100_000 + "]" * 100_000 + ",", 1),
        ):
            path.write_text(spoiled, encoding="utf-8")
            with pytest.raises(vn.VeilnetError, match="not readable as JSON"):
                load(path)


def test_values_become_plain_and_come_back() -> None:
    @dataclass
    class Row:
        value: float
        path: Path

    value = {
        "array": np.array([[1.0, -np.inf], [np.nan, 2.0]]),
        "finite": np.arange(6.0).reshape(2, 3),
        "whole": np.array([1, 2], dtype=np.int64),
        "true": np.bool_(True),
        "number": np.float64("inf"),
        3: (None, True, "[x]", {1}),
        "row": Row(math.nan, Path("p")),
    }
    found = plain(value)
    assert found == {
        "array": [[1.0, "-inf"], ["nan", 2.0]],
        "finite": [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]],
        "whole": [1, 2],
        "true": True,
        "number": "inf",
        "3": [None, True, "[x]", [1]],
        "row": {"value": "nan", "path": "p"},
    }
    assert parse(json.dumps(found, allow_nan=False)) == found
    back = with_infinities(found)
    np.testing.assert_array_equal(back["array"], value["array"])
    assert back["number"] == math.inf
    for other in (object(), b"bytes", 1j):
        with pytest.raises(TypeError, match="cannot write"):
            plain(other)
