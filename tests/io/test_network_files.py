"""Networks in files: exact round trips, whole or not at all."""

from __future__ import annotations

import stat
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import veilnet as vn
from helpers.network_files import (
    assert_same,
    covariance,
    joint,
    per_agent,
    same_bits,
    scalar,
    stacked,
    variances,
    write,
)
from veilnet.io import _atomic
from veilnet.io.network_schema import network_difference
from veilnet.io.template import house, template_text

SUFFIXES = ("toml", "json", "npz")


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
        assert same_bits(again.R.block(place), network.R.block(place))


def test_complex_networks_are_saved_as_their_real_ones(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    mixing = np.exp(1j * rng.uniform(0, 2 * np.pi, size=(4, 2)))
    network = vn.Network.from_complex({"m": mixing}, 0.1, {"talk": [1, 0]}, {"whisper": [0, 1]})
    network.save(tmp_path / "c.toml")
    assert_same(network, vn.Network.load(tmp_path / "c.toml"))


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
    assert np.array_equal(loaded.R.matrix(), 0.5 * np.eye(2))


def test_text_may_have_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "n.toml"
    path.write_bytes(b"\xef\xbb\xbf" + template_text().replace("\n", "\r\n").encode())
    assert_same(vn.Network.load(path), house())


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
    np.testing.assert_array_equal(kitchen.reach[0], [-40.0, 0.1])
    assert kitchen.reach[1][0] == 60.0


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


@pytest.mark.parametrize("suffix", [".toml", ".json", ".npz"])
def test_secrets_keep_their_change_and_how_long_it_lasts(tmp_path: Path, suffix: str) -> None:
    network = vn.Network(
        {"a": np.eye(3)}, 1.0, [[1.0, 0, 0]],
        {"home": vn.Secret([0.0, 1, 0], 1.0, unit="people", lasts="1h"),
         "where": vn.Secret(np.eye(3)[1:], [0.25, -1 / 3]), "gait": [[0.0, 0, 1]]},
        step="15min",
    )  # fmt: skip
    network.save(tmp_path / f"house{suffix}")
    read = vn.Network.load(tmp_path / f"house{suffix}")
    assert list(read.secrets) == ["home", "where"]
    assert (read.secrets["home"].change, read.secrets["home"].lasts, read.unit("home")) == (
        1.0,
        3600,
        "people",
    )
    assert np.array_equal(read.secrets["where"].change, [0.25, -1 / 3])
    assert network_difference(network, read) == ""
    assert "private" in network_difference(network, network.replace(private=dict(network.private)))


def test_a_table_of_a_secret_is_checked_key_by_key(tmp_path: Path) -> None:
    wrong = {"change = 'much'": "change", "change = 1\nlasts = 3": "lasts", "change = 1\nlast = 3": "last"}
    for broken, named in wrong.items():
        file = tmp_path / "n.toml"
        file.write_text(
            'format = "veilnet-network/1"\npublic = [1, 0]\n[private.home]\nrows = [0, 1]\n'
            f"{broken}\n[agents.a]\nnoise = [[1, 0], [0, 1]]\nobserve = [[1, 0], [0, 1]]\n"
        )
        with pytest.raises(vn.InvalidNetwork, match=rf"private\.home.*{named}"):
            vn.Network.load(file)


def test_what_is_not_said_is_not_written_and_what_is_left_out_is_not_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "n.toml"
    vn.Network({"a": np.eye(2)}, 1.0, [[1.0, 0.0]], {"b": [[0.0, 1.0]]}).save(path)
    keys = {"format", "agent_count", "parameters", "public", "private", "agents"}
    assert set(tomllib.loads(path.read_text())) == keys
    path.write_text(path.read_text() + '\n[doubts.noise-memory]\nwords = "Noise seems to carry over."\n')
    assert vn.Network.load(path).doubts == (vn.Doubt("noise-memory", "Noise seems to carry over."),)
