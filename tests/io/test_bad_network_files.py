"""A plain message for every kind of bad network file, and nothing is ever unpickled."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.network_files import (
    DOCUMENT,
    joint,
    per_agent,
    refused,
    variances,
    with_observe,
    write,
)
from helpers.said import says
from veilnet.io import _reading
from veilnet.io.template import house

SUFFIXES = ("toml", "json", "npz")


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
    says(refused(path), "expected a file", "found a folder")


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
            content = whole[:length]
            good[suffix].write_bytes(
                content if suffix == "npz" else content.decode("utf-8", "ignore").encode()
            )
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
        ("[public]", "[units]\ng = 3\n[public]", ["units.g:", "text", "number"]),
        ("[public]", "[units]\nnobody = 'm'\n[public]", ["units: unknown 'nobody'"]),
        ("[public]", "[prior]\nmean = [0, 0]\n[public]", ["prior: give either covariance= or information="]),
        ("[public]", "[prior]\nvariance = 1\n[public]", ["prior: keys: unknown 'variance'", "'covariance'"]),
        ("[public]", "parameters = 'x'\n[public]", ["parameters:", "a list", "text"]),
        ("[public]", "parameters = ['x', 1]\n[public]", ["parameters[1]:", "text", "number"]),
        ("[public]", "agent_count = 2\n[public]", ["agent_count: expected 2 agents, found 1"]),
        ("[public]", "agent_count = 1.0\n[public]", ["agent_count: expected a whole number"]),
        ("[public]", "noise = 1.0\n[public]", ["noise: given for all readings and again in agents.a"]),
        (
            "veilnet-network/1",
            "veilnet-network/9",
            ["made by a newer veilnet: upgrade this one", "'veilnet-network/9'", "'veilnet-network/5'"],
        ),
        ("observe = OBS", "observe = OBS\nlimits = [[1, [2]], 3]", ["agents.a.limits: expected numbers"]),
        ("observe = OBS", f"observe = OBS\nlimits = [0, 1{'0' * 400}]", ["agents.a.limits", "too many"]),
        ("veilnet-network/1", "recipe", ["format: expected 'veilnet-network/5'", "is it the right file?"]),
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
    says(refused(path), "UTF-8", "line 2")
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
    np.savez(tmp_path / "n.npz", format=np.array("veilnet-network-archive/5"), observe=objects)
    assert "never unpickled" in refused(tmp_path / "n.npz")
    np.savez(tmp_path / "n.npz", format=np.array(trap, dtype=object))
    assert "never unpickled" in refused(tmp_path / "n.npz")
    with zipfile.ZipFile(tmp_path / "n.npz", "w") as archive:
        archive.writestr("format", pickle.dumps(trap))
    assert "not an array" in refused(tmp_path / "n.npz")
    assert not trap.path.exists()
    pickle.loads(pickle.dumps(trap))  # the trap does work
    assert trap.path.exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"extra": np.ones(2)}, "unknown 'extra'"),
        ({"observe": None}, "the array 'observe' is missing"),
        ({"format": None}, "format: missing"),
        ({"format": np.array("veilnet-network-archive/6")}, "made by a newer veilnet: upgrade this one"),
        ({"format": np.array("veilnet-network/1")}, "made by an earlier veilnet (found 'veilnet-network/1'"),
        ({"document": None}, "document: missing"),
        ({"document": np.array("[]")}, "document: expected a table"),
        ({"document": np.array('{"public": [1, 0, 0, 0]}')}, "document: the key 'private' is missing"),
        (
            {"document": np.array('{"public": {"u": {"file": "H.npy"}}, "private": {}}')},
            "public.u: expected numbers, or the name of an array",
        ),
        (
            {"document": np.array('{"public": {"u": {"array": "agents"}}, "private": {}}')},
            "public.u: expected numbers, or the name of an array",
        ),
        ({"sizes": np.array([3, 2])}, "sizes: expected one for each of the 3 agents"),
        ({"sizes": np.array([3, 2, -1])}, "sizes: expected a list of positive whole numbers"),
        ({"sizes": np.array([3, 2, 2])}, "observe: expected 7 rows by 'sizes', found 6"),
        ({"agents": np.array([1, 2, 3])}, "agents: expected a list of names"),
        ({"agents": np.array(["a", "b", "a"])}, "a name is used twice"),
        ({"observe": np.array("text")}, "observe: expected numbers in 2 dimensions"),
        ({"noise_variances": np.ones(6)}, "noise: expected one kind of it, found noise, noise_variances"),
        (
            {"noise_of_size_3": np.eye(3)[None]},
            "noise: expected one kind of it, found noise, noise_of_size_3",
        ),
        ({"noise_of_size_": np.eye(3)[None]}, "unknown 'noise_of_size_'"),
        ({"matrix0": None}, "expected numbers, or the name of an array"),
        ({"matrix0": np.array([np.nan] * 4)}, "expected finite numbers"),
        ({"offset": np.ones(5)}, "offset: expected 6 numbers"),
        ({"lowest": np.ones(6)}, "the array 'highest' is missing"),
        ({"reading_names": np.ones(6)}, "reading_names: expected 6 texts"),
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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "noise: expected one kind of it, found none"),
        ({"noise_of_size_2": np.eye(2)[None]}, "do not fit the sizes"),
        (
            dict.fromkeys(("noise_of_size_1", "noise_of_size_2", "noise_of_size_3"), np.eye(3)[None]),
            "expected shape",
        ),
        ({"noise_variances": np.ones((3, 3))}, "noise_variances: expected numbers in 1 dimensions"),
    ],
)
def test_archives_with_wrong_noise_of_agents(
    change: dict[str, np.ndarray], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "n.npz"
    per_agent(np.random.default_rng(1)).save(path)
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files if not name.startswith("noise_")}
    np.savez(path, **arrays, **change)  # type: ignore[arg-type]
    assert words in refused(path)
