"""Matrices in files beside a network: every format, and a plain message for every bad one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.io

import veilnet as vn
from helpers.network_files import (
    DOCUMENT,
    refused,
    same_bits,
    with_observe,
    write,
)


def test_matrices_beside_the_file(tmp_path: Path) -> None:
    rows = np.array([[1 / 3, 0.1], [-2e-30, 1e30 / 3]])
    (tmp_path / "sub").mkdir()
    np.save(tmp_path / "sub" / "H.npy", np.asfortranarray(rows))
    np.savetxt(tmp_path / "H.csv", rows, delimiter=",", fmt="%.17g", header="two readings")
    scipy.io.savemat(tmp_path / "H.mat", {"H": rows, "label": "x", "other": {"a": 1}}, do_compression=True)
    for reference in (
        '{ file = "sub/H.npy" }',
        '{ file = "H.csv" }',
        '{ file = "H.mat", variable = "H" }',
    ):
        assert same_bits(vn.Network.load(with_observe(tmp_path, reference)).H, rows), reference


def test_vectors_in_files_may_be_rows_or_columns(tmp_path: Path) -> None:
    text = DOCUMENT.replace("{observe}", "[[1, 0], [0, 1]]")
    for shape in ((1, 2), (2, 1)):
        scipy.io.savemat(tmp_path / "v.mat", {"v": np.array([3.0, 4.0]).reshape(shape)})
        loaded = vn.Network.load(
            write(tmp_path, text.replace("noise = [1.0, 2.0]", 'noise = { file = "v.mat", variable = "v" }'))
        )
        assert np.array_equal(loaded.R.matrix(), np.diag([3.0, 4.0]))


# --- bad matrix files


def test_matrix_files_that_are_missing_or_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside.npy"
    np.save(outside, np.eye(2))
    folder = tmp_path / "inside"
    folder.mkdir()
    message = refused(with_observe(folder, '{ file = "H.npy" }'))
    assert "agents.a.observe:" in message
    assert "H.npy: no such file" in message
    (folder / "link.npy").symlink_to(outside)
    for name in (
        "../outside.npy",
        str(outside),
        "sub/../../outside.npy",
        "link.npy",
    ):
        message = refused(with_observe(folder, f'{{ file = "{name}" }}'))
        assert "leads outside the folder of the network file" in message, name
    assert "not a file name" in refused(with_observe(folder, '{ file = "a\\u0000.npy" }'))


def test_bad_mat_files(tmp_path: Path) -> None:
    path = tmp_path / "H.mat"
    scipy.io.savemat(
        path,
        {"H": np.eye(2), "cell": np.array([1, "a"], dtype=object), "s": {"f": 1.0}, "c": "text",
         "sparse": scipy.sparse.eye(2).tocsc(), "z": 1j * np.eye(2)},
    )  # fmt: skip
    message = refused(with_observe(tmp_path, '{ file = "H.mat" }'))
    assert "say which variable" in message
    assert "'H'" in message
    assert "no variable 'K'" in refused(with_observe(tmp_path, '{ file = "H.mat", variable = "K" }'))
    for variable, kind in (("cell", "cell"), ("s", "struct"), ("c", "char"), ("sparse", "sparse")):
        message = refused(with_observe(tmp_path, f'{{ file = "H.mat", variable = "{variable}" }}'))
        assert f"full matrix of numbers, found {kind}" in message
    assert "from_complex" in refused(with_observe(tmp_path, '{ file = "H.mat", variable = "z" }'))
    assert "variable: expected text" in refused(with_observe(tmp_path, '{ file = "H.mat", variable = 1 }'))
    whole = path.read_bytes()
    for length in (3, 100, 140, 170):
        path.write_bytes(whole[:length])
        assert "H.mat: not readable" in refused(with_observe(tmp_path, '{ file = "H.mat", variable = "H" }'))
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\x89HDF\r\n\x1a\n")
    assert "-v7" in refused(with_observe(tmp_path, '{ file = "H.mat", variable = "H" }'))


def test_bad_csv_files(tmp_path: Path) -> None:
    reference = '{ file = "H.csv" }'
    for content, word in (
        ("a,b\n1,0\n0,1\n", "without a header"),
        ("1,0\n0\n", "equally long"),
        ("1;0\n0;1\n", "separated by commas"),
        ("# nothing\n\n", "expected rows of numbers, found none"),
        ("1,0\nnan,1\n", "expected finite numbers"),
        ("1+2j,0\n0,1\n", "expected rows of numbers"),
    ):
        (tmp_path / "H.csv").write_text(content)
        assert word in refused(with_observe(tmp_path, reference))
    assert "'variable'" in refused(with_observe(tmp_path, '{ file = "H.csv", variable = "H" }'))
    assert ".npy, .csv" in refused(with_observe(tmp_path, '{ file = "H.xlsx" }'))


def test_bad_npy_files(tmp_path: Path) -> None:
    path, reference = tmp_path / "H.npy", '{ file = "H.npy" }'
    np.save(path, np.eye(2))
    whole = path.read_bytes()
    path.write_bytes(whole[:-8])
    assert "shape (2, 2) needs 32 bytes, found 24" in refused(with_observe(tmp_path, reference))
    path.write_bytes(whole.replace(b"(2, 2)", b"(9, 9)"))
    assert "truncated or damaged" in refused(with_observe(tmp_path, reference))
    path.write_bytes(whole.replace(b"(2, 2)", b"(2, 2("))
    assert "not an array" in refused(with_observe(tmp_path, reference))
    path.write_bytes(whole[:20])
    assert "not an array" in refused(with_observe(tmp_path, reference))
    for array, word in (
        (np.array([["1", "2"]]), "found text"),
        (np.array([[True, False]]), "found the type bool"),
        (np.zeros(2, dtype=[("a", float), ("b", float)]), "expected numbers"),
        (np.array([[1, 2]], dtype="M8[s]"), "expected numbers"),
        (np.eye(2) * 1j, "from_complex"),
    ):
        np.save(path, array)
        assert word in refused(with_observe(tmp_path, reference))
