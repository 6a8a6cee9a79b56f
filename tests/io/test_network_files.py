"""Networks in files: exact round trips, and a plain message for every kind of bad file."""

from __future__ import annotations

import json
import os
import pickle
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from hypothesis import given, settings
from hypothesis import strategies as st

import veilnet as vn
from veilnet.cli import run
from veilnet.io import _atomic, _reading
from veilnet.io.template import house, template_text

SUFFIXES = ("toml", "json", "npz")
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
    return first.shape == second.shape and first.tobytes() == second.tobytes()


def assert_same(first: vn.Network, second: vn.Network) -> None:
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
    assert first.noise.independent == second.noise.independent
    for place in range(first.S):
        assert same_bits(first.noise.block(place), second.noise.block(place))
    assert same_bits(first.noise.matrix(), second.noise.matrix())
    assert (first.prior is None) == (second.prior is None)
    if first.prior is not None and second.prior is not None:
        assert first.prior.given == second.prior.given
        assert same_bits(first.prior.mean, second.prior.mean)
        assert same_bits(first.prior.information, second.prior.information)
        assert same_bits(first.prior.root, second.prior.root)
    assert same_bits(vn.crlb(first), vn.crlb(second))


# --- round trips


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("build", [joint, per_agent, variances, scalar, stacked])
def test_round_trip_is_exact(build: Callable[..., vn.Network], suffix: str, tmp_path: Path) -> None:
    for seed in range(3):
        network = build(np.random.default_rng(seed))
        network.save(tmp_path / f"one.{suffix}")
        again = vn.Network.load(tmp_path / f"one.{suffix}")
        assert_same(network, again)
        # what was read writes the same file
        again.save(tmp_path / f"two.{suffix}")
        assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()


@settings(max_examples=25, deadline=None)
@given(
    offset=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2),
    name=st.text(min_size=1, max_size=20).filter(
        lambda text: text.isprintable() and text.strip() and text not in {"first"}
    ),
)
def test_any_float_and_any_printable_name_survive(
    offset: list[float], name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    network = vn.Network(
        {"first": [[1.0, 2.0], [3.0, 5.0]]},
        1.0,
        {name: [1.0, 0.0]},
        {name: [0.0, 1.0]},
        offset=offset,
        units={name: name},
    )
    folder = tmp_path_factory.mktemp("names")
    for suffix in SUFFIXES:
        network.save(folder / f"n.{suffix}")
        assert_same(network, vn.Network.load(folder / f"n.{suffix}"))


def test_many_agents_of_several_sizes_are_few_arrays(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 4, size=3000)
    network = vn.Network(
        {f"s{k}": rng.normal(size=(size, 3)) for k, size in enumerate(sizes)},
        {f"s{k}": covariance(rng, int(size)) for k, size in enumerate(sizes)},
        {"u": [1.0, 0.0, 0.0]},
        {"g": [0.0, 1.0, 0.0]},
    )
    network.save(tmp_path / "many.npz")
    with zipfile.ZipFile(tmp_path / "many.npz") as archive:
        assert len(archive.namelist()) < 20
    with np.load(tmp_path / "many.npz", allow_pickle=False) as arrays:  # numpy's own reader agrees
        assert all(not arrays[name].dtype.hasobject for name in arrays.files)
        assert same_bits(arrays["observe"], network.H)
    again = vn.Network.load(tmp_path / "many.npz")
    assert again.agents == network.agents
    assert same_bits(again.H, network.H)
    for place in (0, 1, 2999):
        assert same_bits(again.noise.block(place), network.noise.block(place))


def test_complex_networks_are_saved_as_their_real_ones(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    mixing = np.exp(1j * rng.uniform(0, 2 * np.pi, size=(4, 2)))
    network = vn.Network.from_complex({"m": mixing}, 0.1, {"talk": [1, 0]}, {"whisper": [0, 1]})
    network.save(tmp_path / "c.toml")
    assert_same(network, vn.Network.load(tmp_path / "c.toml"))


# --- matrices in files

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
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def with_observe(folder: Path, reference: str) -> Path:
    return write(folder, DOCUMENT.replace("{observe}", reference))


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
        assert np.array_equal(loaded.noise.matrix(), np.diag([3.0, 4.0]))


def test_public_without_names_and_noise_for_all(tmp_path: Path) -> None:
    np.save(tmp_path / "U.npy", [[1.0, 2.0]])
    text = """
format = "veilnet-network/1"
noise = 0.5
public = { file = "U.npy" }
private = { g = [0, 1] }
agents = { a = { observe = [1, 0] }, b = { observe = [0, 1] } }
"""
    loaded = vn.Network.load(write(tmp_path, text))
    assert list(loaded.public) == ["public"]
    assert np.array_equal(loaded.noise.matrix(), 0.5 * np.eye(2))


def test_text_may_have_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "n.toml"
    path.write_bytes(b"\xef\xbb\xbf" + template_text().replace("\n", "\r\n").encode())
    assert_same(vn.Network.load(path), house())


# --- bad files


def refused(path: Path) -> str:
    with pytest.raises(vn.InvalidNetwork) as caught:
        vn.Network.load(path)
    message = str(caught.value)
    assert str(path) in message
    assert message.count(str(path)) == 1
    return message


@pytest.fixture
def good(tmp_path: Path) -> dict[str, Path]:
    network = joint(np.random.default_rng(1))
    paths = {suffix: tmp_path / f"good.{suffix}" for suffix in SUFFIXES}
    for path in paths.values():
        network.save(path)
    return paths


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_missing_empty_and_folder(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"n.{suffix}"
    assert "no such file" in refused(path)
    path.write_bytes(b"")
    assert "the file is empty" in refused(path)
    path.unlink()
    path.mkdir()
    assert "expected a file, found a folder" in refused(path)


def test_every_truncated_toml_is_noticed(tmp_path: Path) -> None:
    # A prefix of a TOML file is often valid TOML: it must not pass for a smaller network.
    path = tmp_path / "cut.toml"
    for build in (joint, per_agent, variances):
        build(np.random.default_rng(2)).save(path)
        whole = path.read_bytes().rstrip()
        ends_of_lines = [place for place, byte in enumerate(whole) if byte == ord("\n")]
        for length in {*ends_of_lines, *range(1, len(whole), 11)}:
            path.write_bytes(whole[:length])
            with pytest.raises(vn.InvalidNetwork):
                vn.Network.load(path)


def test_truncated_json_and_npz(good: dict[str, Path]) -> None:
    for suffix, word in (("json", "not readable as JSON"), ("npz", "truncated or damaged")):
        whole = good[suffix].read_bytes().rstrip()
        for length in range(1, len(whole), max(1, len(whole) // 60)):
            good[suffix].write_bytes(whole[:length])
            assert word in refused(good[suffix])
            assert "again" in refused(good[suffix])


def test_truncated_toml_says_where(good: dict[str, Path]) -> None:
    text = good["toml"].read_text(encoding="utf-8")
    write(good["toml"].parent, text[: text.index("[public]") - 4], "good.toml")
    message = refused(good["toml"])
    assert "not readable as TOML" in message
    assert "copy the file again" in message


def test_damaged_npz(good: dict[str, Path]) -> None:
    content = bytearray(good["npz"].read_bytes())
    place = content.index(joint(np.random.default_rng(1)).H.tobytes())
    content[place + 3] ^= 0xFF
    good["npz"].write_bytes(content)
    assert "truncated or damaged" in refused(good["npz"])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("observe = OBS", 'observe = "1, 2"', ["agents.a.observe: expected numbers, found text"]),
        ("observe = OBS", "observe = [[1, 2], [3, true]]", ["agents.a.observe[1][1]", "found true or false"]),
        ("observe = OBS", 'observe = [[1, "2"], [3, 4]]', ["agents.a.observe[0][1]", "found text"]),
        ("observe = OBS", "observe = [[1, 2], [3]]", ["observe['a']: rows of different lengths"]),
        ("observe = OBS", "observe = [[1, nan], [3, 4]]", ["observe['a']: expected finite numbers"]),
        ("observe = OBS", f"observe = [[1, 1{'0' * 400}], [3, 4]]", ["agents.a.observe[0][1]", "too many"]),
        ("observe = OBS", "observe = { path = 'H.npy' }", ["agents.a.observe: expected numbers or { file"]),
        ("observe = OBS", "", ["agents.a: the key 'observe' is missing"]),
        ("observe = OBS", "obsrve = OBS", ["agents.a: keys: unknown 'obsrve'", "'observe'"]),
        ("noise = [1.0, 2.0]", "", ["agents.a: the key 'noise' is missing"]),
        ("[private]", "[secret]", ["keys: unknown 'secret'", "'private'"]),
        ("[private]\ng = [0, 1]", "", ["the key 'private' is missing"]),
        (
            "[public]\nu = [1, 0]\n[private]\ng = [0, 1]",
            "private = [[0, 1]]\npublic = [1, 0]",
            ["private: expected a table, found a list"],
        ),
        ("[public]", "[units]\ng = 3\n[public]", ["units.g: expected text, found a number"]),
        ("[public]", "[units]\nnobody = 'm'\n[public]", ["units: unknown 'nobody'"]),
        ("[public]", "[prior]\nmean = [0, 0]\n[public]", ["prior: give either covariance= or information="]),
        ("[public]", "[prior]\nvariance = 1\n[public]", ["prior: keys: unknown 'variance'", "'covariance'"]),
        ("[public]", "parameters = 'x'\n[public]", ["parameters: expected a list of names, found text"]),
        ("[public]", "parameters = ['x', 1]\n[public]", ["parameters[1]: expected text, found a number"]),
        ("[public]", "agent_count = 2\n[public]", ["agent_count: expected 2 agents, found 1"]),
        ("[public]", "agent_count = 1.0\n[public]", ["agent_count: expected a whole number"]),
        ("[public]", "noise = 1.0\n[public]", ["noise: given for all readings and again in agents.a"]),
        (
            "veilnet-network/1",
            "veilnet-network/9",
            ["format: expected 'veilnet-network/1'", "another version"],
        ),
        ("veilnet-network/1", "recipe", ["format: expected 'veilnet-network/1'", "is it a network file?"]),
        ('format = "veilnet-network/1"', "", ["format: missing"]),
        ("[agents.a]", "[public]", ["not readable as TOML", "line"]),
    ],
)
def test_mistyped_files_name_the_key(old: str, new: str, words: list[str], tmp_path: Path) -> None:
    text = DOCUMENT.replace("{observe}", "OBS")
    assert old in text
    text = text.replace(old, new).replace("OBS", "[[1, 0], [0, 1]]")
    message = refused(write(tmp_path, text))
    for word in words:
        assert word in message


def test_the_document_those_cases_spoil_is_good(tmp_path: Path) -> None:
    assert vn.Network.load(with_observe(tmp_path, "[[1, 0], [0, 1]]")).N == 2


def test_not_observable_names_the_file(tmp_path: Path) -> None:
    path = with_observe(tmp_path, "[[1, 0], [2, 0]]")
    with pytest.raises(vn.NotObservable, match=r"n\.toml: observe: .*x2"):
        vn.Network.load(path)


def test_other_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "n.toml"
    path.write_bytes(b'format = "veilnet-network/1"\n# caf\xe9\n')
    assert "expected UTF-8 text, found other bytes in line 2" in refused(path)
    assert "expected a table" in refused(write(tmp_path, "[1, 2]", "n.json"))
    assert "not readable as JSON" in refused(write(tmp_path, "[" * 100_000, "n.json"))
    assert "the key 'format' is given twice" in refused(
        write(tmp_path, '{"format": "veilnet-network/1", "format": "x"}', "n.json")
    )
    assert "not readable as .npz" in refused(write(tmp_path, "no archive", "n.npz"))


def test_unknown_suffix(tmp_path: Path) -> None:
    for name, found in (("n.yaml", ".yaml"), ("n", "no suffix"), ("n.pkl", ".pkl")):
        assert f"ending in .toml, .json or .npz, found {found}" in refused(write(tmp_path, "x", name))
        with pytest.raises(vn.InvalidNetwork, match=r"ending in \.toml, \.json or \.npz"):
            house().save(tmp_path / name)


def test_oversized(good: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_reading, "TEXT_LIMIT", 200)
    monkeypatch.setattr(_reading, "ARRAY_LIMIT", 300)
    for suffix, limit in (("toml", 200), ("json", 200), ("npz", 300)):
        assert f"at most {limit} are read" in refused(good[suffix])
        assert "oversized" in refused(good[suffix])
    np.save(tmp_path / "H.npy", np.ones((20, 2)))
    assert "oversized" in refused(with_observe(tmp_path, '{ file = "H.npy" }'))
    before = good["toml"].read_bytes()
    for suffix in ("toml", "json"):
        with pytest.raises(vn.InvalidNetwork, match=r"more than 200 bytes as text.*save it as \.npz"):
            house().save(good[suffix])
    assert good["toml"].read_bytes() == before


def test_small_archive_that_unfolds_into_a_huge_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, format=np.array("veilnet-network/1"), observe=np.zeros(10**6))
    monkeypatch.setattr(_reading, "ARRAY_LIMIT", 10**6)
    assert path.stat().st_size < 10**5
    assert "oversized, 8," in refused(path)


# --- nothing is ever unpickled


class Trap:
    """Unpickling it would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.path),))


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path / "sprung")


def test_pickles_are_refused_and_not_run(trap: Trap, tmp_path: Path) -> None:
    objects = np.array([[trap, 1.0]], dtype=object)
    np.save(tmp_path / "H.npy", objects, allow_pickle=True)
    assert "never unpickled" in refused(with_observe(tmp_path, '{ file = "H.npy" }'))
    (tmp_path / "H.npy").write_bytes(pickle.dumps(trap))
    assert "not an array" in refused(with_observe(tmp_path, '{ file = "H.npy" }'))
    np.savez(tmp_path / "n.npz", format=np.array("veilnet-network/1"), observe=objects)
    assert "never unpickled" in refused(tmp_path / "n.npz")
    np.savez(tmp_path / "n.npz", format=np.array(trap, dtype=object))
    assert "never unpickled" in refused(tmp_path / "n.npz")
    with zipfile.ZipFile(tmp_path / "n.npz", "w") as archive:
        archive.writestr("format", pickle.dumps(trap))
    assert "not an array" in refused(tmp_path / "n.npz")
    assert not trap.path.exists()
    pickle.loads(pickle.dumps(trap))  # the trap does work
    assert trap.path.exists()


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
        "..\\\\outside.npy",
        "C:\\\\x.npy",
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
    assert "'variable' is for .mat files" in refused(
        with_observe(tmp_path, '{ file = "H.csv", variable = "H" }')
    )
    assert "in a .npy, .csv or .mat file" in refused(with_observe(tmp_path, '{ file = "H.xlsx" }'))


def test_bad_npy_files(tmp_path: Path) -> None:
    path, reference = tmp_path / "H.npy", '{ file = "H.npy" }'
    np.save(path, np.eye(2))
    whole = path.read_bytes()
    path.write_bytes(whole[:-8])
    assert "truncated or damaged, shape (2, 2) needs 32 bytes, found 24" in refused(
        with_observe(tmp_path, reference)
    )
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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"extra": np.ones(2)}, "unknown 'extra'"),
        ({"observe": None}, "the array 'observe' is missing"),
        ({"format": None}, "format: missing"),
        ({"format": np.array("veilnet-network/2")}, "another version"),
        ({"sizes": np.array([3, 2])}, "sizes: expected one for each of the 3 agents"),
        ({"sizes": np.array([3, 2, -1])}, "sizes: expected a list of positive whole numbers"),
        ({"sizes": np.array([3, 2, 2])}, "observe: expected 7 rows by 'sizes', found 6"),
        ({"agents": np.array([1, 2, 3])}, "agents: expected a list of names"),
        ({"agents": np.array(["a", "b", "a"])}, "a name is used twice"),
        ({"observe": np.array("text")}, "observe: expected numbers in 2 dimensions"),
        ({"private_sizes": np.array([1, 1])}, "private: expected 2 rows under 2 names"),
        ({"noise": None}, "noise: expected one kind of it, found none"),
        ({"noise_variances": np.ones(6)}, "noise: expected one kind of it, found noise, noise_variances"),
        ({"noise": None, "noise_of_size_3": np.eye(3)[None]}, "do not fit the sizes"),
        ({"unit_values": None}, "the array 'unit_values' is missing"),
        ({"prior_covariance": None}, "give either covariance= or information="),
        ({"prior_mean": np.array([np.nan] * 4)}, "prior_mean: expected finite numbers"),
    ],
)
def test_archives_with_wrong_arrays(
    change: dict[str, np.ndarray | None], words: str, good: dict[str, Path]
) -> None:
    with np.load(good["npz"], allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays = {name: array for name, array in {**arrays, **change}.items() if array is not None}
    np.savez(good["npz"], **arrays)  # type: ignore[arg-type]
    assert words in refused(good["npz"])


# --- writing whole or not at all


def test_a_failed_write_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "n.npz"
    house().save(path)
    before = path.read_bytes()

    def disk_full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_atomic.os, "fsync", disk_full)
    for suffix in SUFFIXES:
        with pytest.raises(OSError, match="No space left") as caught:
            house().save(tmp_path / f"n.{suffix}")
        assert caught.value.filename == str(tmp_path / f"n.{suffix}")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_saving_into_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        house().save(tmp_path / "no" / "n.toml")
    assert caught.value.filename == str(tmp_path / "no" / "n.toml")


def test_links_and_permissions_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "link.toml"
    house().save(real)
    real.chmod(0o640)
    link.symlink_to(real)
    house().save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    _atomic.write_text(tmp_path / "secret", "é\r\n", mode=0o600)
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert (tmp_path / "secret").read_bytes() == b"\xc3\xa9\r\n"


# --- the template


def test_the_house_shows_what_is_at_stake() -> None:
    network = house()
    prior = network.prior
    assert prior is not None
    assert prior.covariance is not None
    raw = vn.crlb(network)
    for name, rows in network.private.items():
        known = np.trace(rows @ raw @ rows.T)
        assert known < 0.15 * np.trace(rows @ prior.covariance @ rows.T), name
    assert set(network.units) <= {*network.parameters, *network.public, *network.private}
    # offset and prior mean are physical: an ordinary room at 20 °C, some 500 ppm of CO2
    expected = network.H @ prior.mean + network.offset
    kitchen = expected[network.blocks.rows(network.position["kitchen"])]
    assert 18 < kitchen[0] < 25
    assert 420 < kitchen[1] < 900


def test_init_writes_the_template(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    assert run(["init", str(path)]) == 0
    assert str(path) in capsys.readouterr().out.replace("\n", "")
    assert path.read_text(encoding="utf-8") == template_text()
    assert_same(vn.Network.load(path), house())
    path.write_text("precious")
    assert run(["init", str(path)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert path.read_text() == "precious"
    assert run(["init", str(path), "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"written": str(path)}
    assert path.read_text(encoding="utf-8") == template_text()
    assert run(["init", str(tmp_path / "mine.json")]) == 2
    assert "ending in .toml" in capsys.readouterr().err
    assert run(["init", "-"]) == 0
    assert capsys.readouterr().out == template_text()


def test_init_without_a_name_writes_house_toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init"]) == 0
    assert (tmp_path / "house.toml").read_text(encoding="utf-8") == template_text()


@pytest.mark.parametrize("suffix", [".toml", ".json", ".npz"])
def test_names_and_limits_of_readings_survive(suffix: str, tmp_path: Path) -> None:
    network = vn.Network(
        observe={"kitchen": [[1.0, 0.0], [0.0, 1.0]], "hall": [[1.0, 1.0]]},
        noise=1.0,
        public={"u": [1, 0]},
        private={"g": [0, 1]},
        reading_names={"kitchen": ["T1", "RH é"]},
        limits={"kitchen": ([-40.0, 0.1], [60.0, np.inf]), "hall": (-np.inf, 5.5)},
    )
    network.save(tmp_path / f"n{suffix}")
    again = vn.Network.load(tmp_path / f"n{suffix}")
    assert dict(again.reading_names) == {"kitchen": ("T1", "RH é")}
    assert set(again.limits) == {"kitchen", "hall"}
    for agent, edges in network.limits.items():
        for mine, theirs in zip(edges, again.limits[agent], strict=True):
            np.testing.assert_array_equal(mine, theirs)
    kitchen = vn.design(again).sanitizers["kitchen"]
    assert kitchen.names == ("T1", "RH é")
    with pytest.raises(vn.InvalidReading):
        kitchen.sanitize([70.0, 1.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"reading_names": {"kitchen": ["T1"]}},
            "reading_names of 'kitchen': names: expected 2, one per reading, found 1",
        ),
        ({"reading_names": {"cellar": ["T1"]}}, "reading_names: unknown 'cellar'"),
        ({"limits": {"kitchen": (3.0, 1.0)}}, "limits of 'kitchen': limits: expected lowest below highest"),
        ({"limits": {"kitchen": 3.0}}, "limits of 'kitchen': limits: expected (lowest, highest)"),
    ],
)
def test_wrong_names_and_limits_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(vn.InvalidNetwork) as caught:
        vn.Network({"kitchen": np.eye(2)}, 1.0, [1.0, 0.0], {"g": [0.0, 1.0]}, **arguments)
    assert message in str(caught.value)


def test_wrong_limits_in_a_file_are_refused(tmp_path: Path) -> None:
    text = (
        'format = "veilnet-network/1"\npublic = [1, 0]\nprivate = {g = [0, 1]}\nnoise = 1\n'
        "[agents.kitchen]\nobserve = [[1, 0], [0, 1]]\nlimits = "
    )
    for limits, message in (
        ('[1, "high"]', 'expected numbers or "none"'),
        ("3", "expected [lowest, highest]"),
    ):
        (tmp_path / "n.toml").write_text(text + limits)
        with pytest.raises(vn.InvalidNetwork) as caught:
            vn.Network.load(tmp_path / "n.toml")
        assert "agents.kitchen.limits" in str(caught.value)
        assert message in str(caught.value)
