"""Matrices in MATLAB files: every kind of number, and a plain message for every bad file.

Oracle: SciPy's own writer, and files written by hand as no program would.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

import veilnet as vn
from helpers.said import says
from veilnet.cli import run
from veilnet.io import _mat, _reading
from veilnet.io.matrices import read_matrix


def refused(path: Path, variable: str = "H") -> str:
    with pytest.raises(vn.InvalidNetwork) as caught:
        read_matrix(path, variable)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("packed", [False, True])
def test_every_kind_of_number_is_what_scipy_wrote(tmp_path: Path, packed: bool) -> None:
    rng = np.random.default_rng(3)
    kinds = ["f8", "f4", *(f"{sign}{size}" for sign in "iu" for size in (1, 2, 4, 8))]
    values: dict[str, Any] = {f"v_{kind}": rng.integers(0, 100, (2, 3, 2)).astype(kind) for kind in kinds}
    values |= {
        "z": np.array([[1 + 2j, 3 - 4j]]),
        "empty": np.zeros((0, 3)),
        "cell": np.array(["a", 1], object),
    }
    scipy.io.savemat(tmp_path / "v.mat", values, do_compression=packed)
    for name in (*(f"v_{kind}" for kind in kinds), "z", "empty"):
        found = read_matrix(tmp_path / "v.mat", name)
        assert found.dtype == values[name].dtype
        assert np.array_equal(found, values[name])
    assert "found cell" in refused(tmp_path / "v.mat", "cell")


def test_files_that_are_none_of_matlab_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "H.mat"
    scipy.io.savemat(path, {"H": np.eye(3), "K": np.eye(2)})
    content = path.read_bytes()
    for spoiled in (b"no matlab file at all" * 20, content[:200], content[:-30]):
        path.write_bytes(spoiled)
        says(refused(path), ".mat", "-v7")
    path.write_bytes(b"")
    assert "the file is empty" in refused(path)
    assert "no such file" in refused(tmp_path / "none.mat")
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(400))
    assert "MATLAB 7.3" in refused(path)
    scipy.io.savemat(path, {"H": np.zeros((1, 100_000))}, do_compression=True)
    assert path.stat().st_size < 10_000
    monkeypatch.setattr(_reading, "ARRAY_LIMIT", 20_000)
    says(refused(path), "unfolds")


def element(kind: int, content: bytes) -> bytes:
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def one_variable(path: Path, kind: int, shape: list[int], content: bytes) -> Path:
    """A file with one variable of a class, written by hand as no program would."""
    described = element(6, struct.pack("<II", kind, 0)) + element(5, struct.pack(f"<{len(shape)}i", *shape))
    packed = zlib.compress(element(14, described + element(1, b"H") + content))
    path.write_bytes(b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(packed)) + packed)
    return path


@pytest.mark.parametrize(
    ("kind", "shape", "content", "complaint"),
    [
        (6, [1] * 70, element(9, struct.pack("<d", 1.0)), "70 dimensions"),
        (6, [0] + [2**31 - 1] * 4, element(9, b""), "shape (0, 2147483647"),
        (6, [2, -2], element(9, b""), "shape (2, -2)"),
        (6, [2, 2], element(9, bytes(24)), "does not go with 24 bytes"),
        (6, [1, 1], element(99, bytes(8)), "its numbers are missing"),
        (6, [1, 1], b"", "its numbers are missing"),
        (8, [1, 1], element(13, struct.pack("<Q", 300)), "expected int8"),
        (8, [1, 1], element(9, struct.pack("<d", 0.5)), "expected int8"),
        (1, [5000, 1], element(14, b"") * 5000, "found cell"),
        (77, [1, 1], element(9, bytes(8)), "found class 77"),
    ],
)
def test_what_no_matrix_can_be_is_refused(
    tmp_path: Path, kind: int, shape: list[int], content: bytes, complaint: str
) -> None:
    assert complaint in refused(one_variable(tmp_path / "odd.mat", kind, shape, content))


def test_very_many_variables_are_refused_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_mat, "_MOST_VARIABLES", 100)
    path = tmp_path / "many.mat"
    path.write_bytes(b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + element(5, b"") * 101)
    says(refused(path), "100 variables")


def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    """SciPy's reader ends the whole program on about one in eighty of these."""
    rng = np.random.default_rng(1)
    path = tmp_path / "H.mat"
    scipy.io.savemat(path, {"H": rng.standard_normal((3, 2)), "R": np.arange(4, dtype=np.int16)[None]})
    content, read, told = path.read_bytes(), 0, []
    for _ in range(1000):
        spoiled = bytearray(content)
        for place in rng.integers(124, len(content), rng.integers(1, 4)):
            spoiled[place] = rng.integers(0, 256)
        path.write_bytes(spoiled[: rng.integers(128, len(content))] if rng.random() < 0.2 else spoiled)
        try:
            read += read_matrix(path, "H").ndim >= 2
        except vn.InvalidNetwork as error:
            told.append(str(error))
    assert read + len(told) == 1000
    assert min(read, len(told)) > 100
    assert all(str(path) in each for each in told)


def test_networks_and_plans_are_no_mat_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scipy.io.savemat(tmp_path / "n.mat", {"observe": np.eye(2)})
    assert run(["check", str(tmp_path / "n.mat")]) == 2
    assert 'observe = { file = "n.mat", variable = "..." }' in " ".join(capsys.readouterr().err.split())
    with pytest.raises(vn.InvalidPlan, match=r"a folder or an \.npz file"):
        vn.Plan.load(tmp_path / "plan.mat")
    (tmp_path / "taken.mat").mkdir()  # a folder by such a name is a folder
    with pytest.raises(vn.InvalidPlan, match=r"holds no plan\.json"):
        vn.Plan.load(tmp_path / "taken.mat")
