"""Networks and plans in MATLAB files: exact round trips, files made by hand, and a plain message for every bad one.

Oracles: the same network built in Python, scipy's own reader, and Octave where it is installed.
"""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import veilnet as vn
from helpers.network_files import assert_same, joint, per_agent
from helpers.networks import random_network
from helpers.stream_plans import noisy_stream_plan, stream_network
from veilnet.cli import run
from veilnet.io import _mat_elements, _reading
from veilnet.io._mat import read_variables
from veilnet.io.template import house

H1, H2 = np.array([[1.0, 0.3, 0.8], [0.0, 1.0, 0.5]]), np.array([[0.9, 0.8, 0.1]])
R1 = np.array([[0.25, 0.1], [0.1, 0.5]])
PRIOR = np.diag([4.0, 1.0, 2.0])
MADE_BY_HAND: dict[str, Any] = {
    "observe": [H1, H2],
    "agents": ["kitchen", "hall"],
    "noise": [R1, np.array([[2.0]])],
    "public": {"temperature": np.array([[1.0, 0.0, 0.0]])},
    "private": {"gait": np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])},
    "prior_covariance": PRIOR,
    "prior_mean": np.array([[20.0, 0.0, 1.0]]),
}


def save(path: Path, variables: dict[str, Any], **options: Any) -> Path:
    """As MATLAB would save them: lists are cells."""
    scipy.io.savemat(
        path, {name: cells(value) for name, value in variables.items() if value is not None}, **options
    )
    return path


def cells(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    made = np.empty((1, len(value)), dtype=object)
    for place, each in enumerate(value):
        made[0, place] = each
    return made


def changed(folder: Path, **changes: Any) -> Path:
    return save(folder / "n.mat", MADE_BY_HAND | changes)


def refused(path: Path) -> str:
    with pytest.raises(vn.InvalidNetwork) as caught:
        vn.Network.load(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def network(noise: Any, **more: Any) -> vn.Network:
    return vn.Network(
        {"kitchen": H1, "hall": H2},
        noise,
        {"temperature": [1, 0, 0]},
        {"gait": [[0, 1, 0], [0, 0, 1]]},
        vn.Prior(PRIOR, mean=[20.0, 0.0, 1.0]),
        **more,
    )


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_made_by_hand_is_the_network_built_in_python(tmp_path: Path, packed: bool) -> None:
    path = save(tmp_path / "n.mat", MADE_BY_HAND, do_compression=packed)
    assert_same(vn.Network.load(path), network({"kitchen": R1, "hall": 2.0}))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (np.array([[0.5]]), 0.5),
        (np.array([[0.5, 0.25, 2.0]]), [0.5, 0.25, 2.0]),
        (np.array([[0.5], [0.25], [2.0]]), [0.5, 0.25, 2.0]),
        (np.diag([1.0, 2.0, 3.0]) + 0.1, np.diag([1.0, 2.0, 3.0]) + 0.1),
        ([np.array([[0.5, 0.25]]), np.array([[2.0]])], {"kitchen": [0.5, 0.25], "hall": 2.0}),
        ([np.array([[0.5]]), np.array([[2.0]])], {"kitchen": 0.5, "hall": 2.0}),
    ],
)  # fmt: skip
def test_noise_in_every_form(tmp_path: Path, given: Any, meant: Any) -> None:
    loaded = vn.Network.load(changed(tmp_path, noise=given))
    assert np.array_equal(loaded.R.matrix(), network(meant).R.matrix())


def test_the_long_form_by_hand(tmp_path: Path) -> None:
    """One matrix with sizes, rows with names; whole numbers are doubles, as MATLAB has them."""
    path = changed(
        tmp_path,
        observe=np.concatenate([H1, H2]), sizes=np.array([[2.0, 1.0]]), noise=np.array([[0.5]]),
        public=np.array([[1.0, 0.0, 0.0]]), public_names=["temperature"],
        private=np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), private_names=["gait"], private_sizes=2.0,
        offset=[np.array([[1.0, 2.0]]), np.array([[3.0]])], parameters=["t", "g", "p"], model_error=0.05,
    )  # fmt: skip
    expected = network(0.5, offset=[1.0, 2.0, 3.0], parameters=["t", "g", "p"], model_error=0.05)
    assert_same(vn.Network.load(path), expected)


def test_agents_without_names_are_numbered(tmp_path: Path) -> None:
    assert list(vn.Network.load(changed(tmp_path, agents=None)).agents) == ["agent1", "agent2"]


def test_streams_and_shared_noise_survive(tmp_path: Path) -> None:
    for made in (house(stream=True), stream_network(3, "coloured"), stream_network(3, "dithered")):
        made.save(tmp_path / "s.mat")
        assert_same(vn.Network.load(tmp_path / "s.mat"), made)
    shared = network(vn.CommonNoise(own=0.5, loadings=np.ones((3, 1))))
    shared.save(tmp_path / "s.mat")
    assert_same(vn.Network.load(tmp_path / "s.mat"), shared)


def test_matlab_sees_matrices_columns_and_cells(tmp_path: Path) -> None:
    made = joint(np.random.default_rng(1))
    made.save(tmp_path / "n.mat")
    seen = scipy.io.loadmat(tmp_path / "n.mat")
    assert np.array_equal(seen["observe"], made.H)
    assert seen["offset"].shape == (made.N, 1)
    assert [str(each[0][0]) for each in seen["agents"]] == list(made.agents)
    assert b"Created on" not in (tmp_path / "n.mat").read_bytes()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"observe": None}, "no variable 'observe'"),
        ({"private": None}, "no variable 'private'"),
        ({"noise": None}, "noise"),
        ({"privat": np.eye(3)}, "'privat'"),
        ({"observe": H1}, "sizes: say how many rows"),
        ({"observe": [H1, np.ones((1, 2))]}, "a column for every entry of x"),
        ({"observe": "text"}, "observe: expected numbers, found text"),
        ({"sizes": np.array([2.0, 1.0])}, "sizes: with observe as cells"),
        ({"observe": np.concatenate([H1, H2]), "sizes": np.array([1.5, 1.5])}, "sizes: expected whole numbers"),
        ({"noise": [R1]}, "expected 2 cells, one for each agent, found 1"),
        ({"noise": [R1, np.ones((2, 2))]}, "noise{2}: expected 1, 1 or 1 x 1 numbers"),
        ({"agents": np.eye(2)}, "agents: expected cells of text"),
        ({"public": np.eye(3)[:1]}, "public_names: missing"),
        ({"public_names": ["x"]}, "public: a struct names its rows"),
        ({"public": {"a": np.ones((1, 3)), "b": np.ones((1, 2))}}, "a number for every entry of x"),
        ({"prior_covariance": scipy.sparse.eye(3).tocsc()}, "found sparse; use full"),
        ({"observe": [H1.astype(complex) * 1j, H2]}, "complex"),
        ({"observe": [H1 * np.nan, H2]}, "nan"),
        ({"format": "veilnet-network/9"}, "another version of veilnet"),
        ({"format": np.eye(1)}, "format: expected text"),
        ({"agents": cells([cells(["a"]), "b"])}, "agents: expected cells of text"),
        ({"prior_mean": np.eye(3)}, "prior_mean: expected a row or column"),
        ({"dynamics_transition": np.array([{"f": 1.0}, {"f": 2.0}])}, "expected"),
    ],
)  # fmt: skip
def test_bad_variables_are_named(tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    assert complaint in refused(changed(tmp_path, **changes))


def test_files_that_are_none_of_matlab_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = changed(tmp_path).read_bytes()
    path = tmp_path / "bad.mat"
    for spoiled in (b"no matlab file at all" * 20, content[:200], content[:-30]):
        path.write_bytes(spoiled)
        assert "not readable as a .mat file" in refused(path)
    path.write_bytes(b"")
    assert "the file is empty" in refused(path)
    assert "no such file" in refused(tmp_path / "none.mat")
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(400))
    assert "MATLAB 7.3" in refused(path)
    save(path, MADE_BY_HAND | {"prior_mean": np.zeros((1, 100_000))}, do_compression=True)
    assert path.stat().st_size < 10_000
    monkeypatch.setattr(_reading, "ARRAY_LIMIT", 20_000)
    assert "unfolds to more than is read" in refused(path)


def element(kind: int, content: bytes) -> bytes:
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def one_variable(path: Path, kind: int, shape: list[int], *content: bytes) -> Path:
    """A file with one variable of a class, written by hand as no program would."""
    described = element(6, struct.pack("<II", kind, 0)) + element(5, struct.pack(f"<{len(shape)}i", *shape))
    matrix = element(14, described + element(1, b"observe") + b"".join(content))
    packed = zlib.compress(matrix)
    path.write_bytes(b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(packed)) + packed)
    return path


@pytest.mark.parametrize(
    ("kind", "shape", "content", "complaint"),
    [
        (6, [1] * 70, element(9, struct.pack("<d", 1.0)), "70 dimensions"),
        (6, [0] + [2**31 - 1] * 4, element(9, b""), "shape (0, 2147483647"),
        (8, [1, 1], element(13, struct.pack("<Q", 300)), "expected int8"),
    ],
)
def test_what_no_array_can_be_is_refused(
    tmp_path: Path, kind: int, shape: list[int], content: bytes, complaint: str
) -> None:
    assert complaint in refused(one_variable(tmp_path / "odd.mat", kind, shape, content))


@pytest.mark.parametrize("kind", [1, 6])
def test_a_small_file_of_very_many_empty_elements_is_refused_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: int
) -> None:
    monkeypatch.setattr(_mat_elements, "_MOST_ELEMENTS", 1000)
    empty = element(14, b"")
    assert "elements that are read" in refused(
        one_variable(tmp_path / "a.mat", kind, [5000, 1], empty * 5000)
    )
    nested = element(
        14, element(6, struct.pack("<II", 1, 0)) + element(5, struct.pack("<ii", 99, 1)) + element(1, b"")
    )
    nested = element(14, nested[8:] + empty * 99)
    assert "elements that are read" in refused(one_variable(tmp_path / "b.mat", 1, [50, 1], nested * 50))


def test_complex_models_are_told_what_to_do(tmp_path: Path) -> None:
    assert "from_complex" in refused(changed(tmp_path, observe=[H1 * (1 + 1j), H2]))


@pytest.mark.parametrize("packed", [False, True])
def test_every_kind_of_value_is_what_scipy_wrote(tmp_path: Path, packed: bool) -> None:
    rng = np.random.default_rng(3)
    kinds = ["f8", "f4", *(f"{sign}{size}" for sign in "iu" for size in (1, 2, 4, 8))]
    values: dict[str, Any] = {f"v_{kind}": rng.integers(0, 100, (2, 3, 2)).astype(kind) for kind in kinds}
    values |= {
        "logical": np.array([[True, False]]),
        "z": np.array([[1 + 2j, 3 - 4j]]),
        "empty": np.zeros((0, 3)),
    }
    values |= {"text": "grüße 😀", "nothing": "", "padded": np.array(["ab ", "cde"])}
    values |= {"deep": cells(["a", cells([np.eye(2), "b"])]), "table": {"f": np.eye(1), "g": "text"}}
    scipy.io.savemat(tmp_path / "v.mat", values, do_compression=packed)
    found = read_variables(tmp_path / "v.mat")
    for name in (*(f"v_{kind}" for kind in kinds), "z", "empty"):
        assert found[name].dtype == values[name].dtype
        assert np.array_equal(found[name], values[name])
    assert found["logical"].tolist() == [[1, 0]]
    assert (found["text"], found["nothing"], found["padded"]) == ("grüße 😀", "", ["ab", "cde"])
    assert found["deep"][0] == "a"
    assert np.array_equal(found["deep"][1][0], np.eye(2))
    assert found["deep"][1][1] == "b"
    assert found["table"] == {"f": np.eye(1), "g": "text"}


# --- plans


@pytest.fixture(scope="module")
def plan() -> vn.Plan:
    return vn.design(random_network(9, noise="joint", prior="covariance"))


def resaved(path: Path, **changes: Any) -> Path:
    """The same file with some variables changed by somebody."""
    found = {name: value for name, value in scipy.io.loadmat(path).items() if not name.startswith("__")}
    target = path.with_name("changed.mat")
    found |= changes
    scipy.io.savemat(target, {name: value for name, value in found.items() if value is not None})
    return target


def test_matlab_sees_what_each_agent_sends(plan: vn.Plan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan.mat")
    seen = scipy.io.loadmat(tmp_path / "plan.mat")
    for place, agent in enumerate(plan.network.agents):
        sanitizer = plan.sanitizers[agent]
        assert np.array_equal(seen["compression"][place, 0], sanitizer.compression)
        assert np.array_equal(seen["noise"][place, 0], sanitizer.noise)
        assert np.array_equal(seen["grid"][place, 0][:, 0], sanitizer.grid)
    assert np.array_equal(seen["network"]["observe"][0, 0], plan.network.H)


def test_a_changed_plan_is_refused(plan: vn.Plan, tmp_path: Path) -> None:
    path = tmp_path / "plan.mat"
    plan.save(path)
    assert vn.Plan.load(resaved(path)).utility == plan.utility  # what says the same is the same plan
    seen = scipy.io.loadmat(path)
    moved = seen["compression"].copy()
    moved[0, 0] = np.nextafter(moved[0, 0], np.inf)
    for changes, complaint in (
        ({"compression": moved}, "id does not match"),
        ({"document": seen["document"][0].replace("perfect", "Perfect")}, "id does not match"),
        ({"document": "no JSON"}, "not readable as JSON"),
        ({"document": "[]"}, "expected a table of promises"),
        ({"document": np.eye(2)}, "expected text"),
        ({"grid": None}, "'grid'"),
        ({"extra": 1.0}, "'extra'"),
        ({"format": "veilnet-network/1"}, "expected the format 'veilnet-plan-mat/1'"),
        ({"network": np.eye(2)}, "network: expected a struct"),
        ({"compression": moved[:1]}, "a cell for each agent"),
        ({"agents": moved}, "agents: expected cells of text"),
        ({"agents": cells(["a1", "a0", "a2", "a3"])}, "agents: expected those of the network"),
        ({"grid": cells([np.full((1, 1), 0.3)] * 4)}, "the file was changed"),
    ):
        with pytest.raises(vn.InvalidPlan, match=r"changed\.mat") as caught:
            vn.Plan.load(resaved(path, **changes))
        assert complaint in str(caught.value)
    with pytest.raises(vn.InvalidPlan, match=r"expected the format"):
        vn.Plan.load(changed(tmp_path))
    (tmp_path / "cut.mat").write_bytes(path.read_bytes()[:-40])
    with pytest.raises(vn.InvalidPlan, match=r"not readable as a \.mat file"):
        vn.Plan.load(tmp_path / "cut.mat")


def test_a_plan_with_memories_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(vn.InvalidPlan, match=r"save the plan as plan\.npz, or as a folder"):
        noisy_stream_plan(stream_network(4)).save(tmp_path / "plan.mat")
    assert not list(tmp_path.iterdir())


def test_the_command_takes_and_makes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    changed(tmp_path)
    assert run(["check", "n.mat"]) == 0
    assert run(["design", "n.mat", "--out", "plan.mat"]) == 0
    assert run(["verify", "plan.mat", "n.mat"]) == 0
    assert run(["extract", "plan.mat", "kitchen"]) == 0
    assert vn.Sanitizer.load("kitchen.json").agent == "kitchen"
    capsys.readouterr()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("octave-cli") is None, reason="Octave is not installed")
def test_octave_reads_writes_and_computes_the_same(plan: vn.Plan, tmp_path: Path) -> None:
    """What Octave saves again is the same plan, and C_i H_i worked out there is ours."""
    plan.save(tmp_path / "plan.mat")
    made = per_agent(np.random.default_rng(2))
    made.save(tmp_path / "network.mat")
    program = """
        load plan.mat; seen = [];
        first = 1;
        for k = 1:numel(agents)
            last = first + double(network.sizes(k)) - 1;
            seen = [seen; compression{k} * network.observe(first:last, :)]; first = last + 1;
        end
        save('-v7', 'again.mat', 'format', 'plan', 'document', 'network', 'agents', 'compression', 'noise', 'grid');
        save('-v7', 'seen.mat', 'seen');
        clear all; load network.mat; save('-v7', 'network-again.mat');
        clear all; observe = {[1 0.3 0.8; 0 1 0.5], [0.9 0.8 0.1]}; noise = 0.5; agents = {'kitchen', 'hall'};
        public = struct('temperature', [1 0 0]); private = struct('gait', [0 1 0; 0 0 1]);
        prior_covariance = diag([4 1 2]); prior_mean = [20 0 1];
        save('-v7', 'by-hand.mat');
    """
    subprocess.run(
        ["octave-cli", "--quiet", "--no-init-file", "--eval", program], cwd=tmp_path, check=True, timeout=120
    )
    again = vn.Plan.load(tmp_path / "again.mat")
    assert all(again.sanitizers[agent].same_as(plan.sanitizers[agent]) for agent in plan.sanitizers)
    seen = scipy.io.loadmat(io.BytesIO((tmp_path / "seen.mat").read_bytes()))["seen"]
    expected = np.concatenate(
        [plan.sanitizers[agent].compression @ rows for agent, rows in plan.network.observe.items()]
    )
    assert np.allclose(seen, expected, rtol=1e-13, atol=1e-13)
    assert_same(vn.Network.load(tmp_path / "network-again.mat"), made)
    assert_same(vn.Network.load(tmp_path / "by-hand.mat"), network(0.5))
