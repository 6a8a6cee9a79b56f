"""The resolution of readings: stated, refused where it makes no sense, kept in every file, found in data."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import veilnet as vn
from helpers.coarse_networks import undithered
from veilnet import cli
from veilnet.calibration.fitting import fit_report
from veilnet.io._sealed import open_sealed, seal
from veilnet.io.sanitizer_files import FORMAT
from veilnet.io.template import house
from veilnet.review.lattice_watch import LatticeWatch

ARGUMENTS = {
    "observe": {"a": [[1.0, 0.3], [0.2, 1.0]], "b": [[0.5, 1.0]]},
    "noise": 0.25,
    "public": [1.0, 0.0],
    "private": {"g": [0.0, 1.0]},
    "prior": vn.Prior(covariance=np.eye(2)),
}


@pytest.mark.parametrize(
    ("resolution", "words"),
    [
        ({"a": -0.1}, "resolution of 'a': expected steps of at least 0, found -0.1"),
        ({"a": [0.1, float("nan")]}, "resolution of 'a': expected one step or 2"),
        ({"a": float("inf")}, "resolution of 'a': expected one step or 2"),
        ({"a": [0.1, 0.1, 0.1]}, "resolution of 'a': expected one step or 2, one per reading"),
        ({"a": "fine"}, "found 'fine'"),
        ({"a": True}, "found True"),
        ({"c": 0.1}, "resolution: unknown 'c'"),
        ([0.1, 0.1, 0.1], "resolution: expected agent -> step or steps"),
        ({"b": 2.0}, "resolution of 'b': rounding to steps of 2 alone has the variance 0.333"),
    ],
)
def test_a_resolution_that_makes_no_sense_is_refused(resolution, words) -> None:
    with pytest.raises(vn.InvalidNetwork, match=re.escape(words)):
        vn.Network(**ARGUMENTS, resolution=resolution)


@pytest.mark.parametrize("stated", ["for all", "in a file"])
def test_steps_stay_with_their_agents_when_these_change(stated: str, tmp_path) -> None:
    """One step for all, and steps of every reading from a file, are kept as one array, which goes by places."""
    network = vn.Network(**ARGUMENTS, resolution=0.5)
    if stated == "in a file":
        path = tmp_path / "network.npz"
        vn.Network(**ARGUMENTS, resolution={"a": [0.5, 0.25], "b": 0.125}).save(path)
        network = vn.Network.load(path)
    turned = network.replace(observe={name: network.observe[name] for name in ("b", "a")}, noise=0.25)
    for name in ("a", "b"):
        assert turned.resolution[name].tolist() == network.resolution[name].tolist()
    assert turned.steps.tolist() == [*network.resolution["b"], *network.resolution["a"]]
    with pytest.raises(vn.InvalidNetwork, match="resolution: unknown 'b'"):
        network.replace(observe={"a": ARGUMENTS["observe"]["a"], "c": [[0.5, 1.0]]}, noise=0.25)


def test_nothing_stated_continuous_and_coarse_are_three_things() -> None:
    unstated, continuous = vn.Network(**ARGUMENTS), vn.Network(**ARGUMENTS, resolution=0)
    coarse = vn.Network(**ARGUMENTS, resolution={"a": [0.5, 0]})
    assert dict(unstated.resolution) == {}
    assert unstated.R is unstated.sensor_noise
    assert continuous.R is continuous.sensor_noise
    assert set(continuous.resolution) == {"a", "b"}
    assert coarse.steps.tolist() == [0.5, 0.0, 0.0]
    np.testing.assert_allclose(np.diag(coarse.R.matrix()), [0.25, 0.25, 0.25], rtol=1e-15)
    plans = [vn.design(network) for network in (unstated, continuous, coarse)]
    assert [plan.sanitizers["a"].resolution is None for plan in plans] == [True, False, False]
    assert [plan.sanitizers["a"].dithers for plan in plans] == [False, False, True]
    assert plans[2].sanitizers["b"].resolution is None
    assert plans[0].privacy == plans[1].privacy


@pytest.mark.parametrize("suffix", [".toml", ".json", ".npz"])
@pytest.mark.parametrize("resolution", [None, 0.0, {"a": [0.1, 1 / 3]}, {"a": 0.25, "b": 0.0}])
def test_files_keep_it(tmp_path, suffix, resolution) -> None:
    network = vn.Network(**ARGUMENTS, resolution=resolution)
    path = tmp_path / f"network{suffix}"
    network.save(path)
    back = vn.Network.load(path)
    assert set(back.resolution) == set(network.resolution)
    for agent, steps in network.resolution.items():
        np.testing.assert_array_equal(back.resolution[agent], steps)
    np.testing.assert_array_equal(back.sensor_noise.matrix(), network.sensor_noise.matrix())
    np.testing.assert_array_equal(back.R.matrix(), network.R.matrix())
    vn.design(back).save(tmp_path / "plan")
    again = vn.Plan.load(tmp_path / "plan")
    for agent, sanitizer in again.sanitizers.items():
        stated = network.resolution.get(agent)
        assert (sanitizer.resolution is None) == (stated is None)
        assert stated is None or np.array_equal(sanitizer.resolution, stated)
    assert cli.run(["verify", str(tmp_path / "plan"), str(path)]) == 0


def test_an_agent_file_from_before_is_refused(tmp_path) -> None:
    """A file that does not say how readings are dithered is none to run."""
    path = tmp_path / "old.json"
    vn.Sanitizer([[1.0, 2.0]], grid=2.0**-10).save(path)
    document = open_sealed(path, FORMAT)
    document.pop("dither")
    document.pop("checksum", None)
    path.write_bytes(seal(document))
    with pytest.raises(vn.InvalidPlan, match="dither"):
        vn.Sanitizer.load(path)


def test_a_wrong_step_in_an_agents_file_is_found_by_verify(tmp_path, capsys) -> None:
    plan = vn.design(house())
    plan.save(tmp_path / "plan")
    path = tmp_path / "plan" / "hall.json"
    document = open_sealed(path, FORMAT)
    document["resolution"] = [0.0, 0.0, 0.0]
    document.pop("checksum", None)
    path.write_bytes(seal(document))
    house().save(tmp_path / "house.toml")
    assert cli.run(["verify", str(tmp_path / "plan"), str(tmp_path / "house.toml")]) == 1
    assert "NOT confirmed" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["check", "design"])
def test_check_and_design_say_what_was_not_stated(tmp_path, capsys, command) -> None:
    path = tmp_path / "house.toml"
    undithered(house()).save(path)
    assert cli.run([command, str(path)]) == 0
    assert "protect only continuous readings" in " ".join(capsys.readouterr().out.split())
    assert cli.run([command, str(path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["notes"]) == 1
    house().save(path)
    assert cli.run([command, str(path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "protect only continuous readings" not in shown
    assert "readings are dithered by" in shown


# --- found in data


def test_fit_finds_the_steps_and_leaves_room_for_rounding(tmp_path) -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((500, 2)) * [3.0, 1.0]
    clean = x @ np.array([[1.0, 0.2], [0.5, 1.0], [0.3, 2.0]]).T
    noise = rng.standard_normal((500, 3)) * [0.3, 0.2, 0.02]
    steps = np.array([0.1, 0.0, 0.25])
    readings = clean + noise
    readings[:, [0, 2]] = steps[[0, 2]] * np.rint(readings[:, [0, 2]] / steps[[0, 2]])
    table = {"T": readings[:, 0], "P": readings[:, 1], "V": readings[:, 2], "u": x[:, 0], "g": x[:, 1]}
    network = fit_report(table, agents={"a": ["T", "P"], "b": ["V"]}, public="u", private="g").network
    assert network.resolution["a"].tolist() == [0.1, 0.0]
    assert network.resolution["b"].tolist() == [0.25]
    assert np.all(network.sensor_noise.variances() >= network.steps**2 / 12)
    network.save(tmp_path / "fitted.toml")
    assert vn.Network.load(tmp_path / "fitted.toml").steps.tolist() == steps.tolist()


def test_fit_with_few_rows_does_not_call_readings_continuous() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((40, 2))
    table = {"T": x @ [1.0, 0.2] + rng.standard_normal(40), "u": x[:, 0], "g": x[:, 1]}
    table["V"] = np.rint(x @ [0.3, 2.0] + rng.standard_normal(40))
    network = fit_report(table, agents={"a": "T", "b": "V"}, public="u", private="g").network
    assert set(network.resolution) == {"b"}


def test_the_house_and_what_init_writes_have_it(tmp_path) -> None:
    path = tmp_path / "house.toml"
    assert cli.run(["init", str(path)]) == 0
    assert vn.Network.load(path).steps.tolist() == house().steps.tolist()
    assert np.all(house().steps > 0)
    assert set(house().resolution) == set(house().agents)


# --- seen by the agent


def watched(stated: object, rows: np.ndarray, **options: object) -> str:
    sanitizer = vn.Sanitizer([[1.0, 0.7]], grid=2.0**-10, resolution=stated, **options)
    watch = LatticeWatch(sanitizer)
    said = [watch.look(rows[start : start + 10]) for start in range(0, len(rows), 10)]
    said.append(watch.conclude())
    said = [sentence for sentence in said if sentence]
    assert len(said) <= 1
    return said[0] if said else ""


def test_the_agent_notices_a_lattice_that_was_not_stated() -> None:
    rng = np.random.default_rng(1)
    smooth = rng.standard_normal((1000, 2))
    coarse = np.column_stack([0.1 * np.rint(smooth[:, 0] / 0.1), smooth[:, 1]])
    assert watched(None, smooth) == ""
    assert "reading 1 (0.1)" in watched(None, coarse)
    assert "T (0.1)" in watched(None, coarse, names=["T", "P"])
    assert "states no resolution" in watched(None, coarse)
    assert watched(None, coarse[:50]) == ""  # too few to tell
    assert watched([0.1, 0.0], coarse) == ""
    assert watched([0.2, 0.0], coarse) == ""  # two steps at once cover each
    assert watched([0.1, 0.1], smooth) == ""  # dither that nobody needs
    assert "steps of 0.1, stated 0.03" in watched([0.03, 0.0], coarse)
    assert "steps of 0.1, stated 0.15" in watched([0.15, 0.0], coarse)
    assert "steps of 0.1, stated 0)" in watched(0, coarse)


def test_rows_that_happen_to_lie_on_a_coarser_part_of_a_fine_lattice_are_no_reason_to_warn() -> None:
    """Minutes' means of temperatures: calibrated on steps of 1/12000, the next morning all of them on 1/6000."""
    smooth = np.random.default_rng(1).standard_normal((300, 2))
    morning = np.column_stack([np.rint(smooth[:, 0] * 6000) / 6000, smooth[:, 1]])
    assert watched([1 / 12000, 0.0], morning) == ""
    assert "stated 0)" in watched([0.0, 0.0], morning)  # not part of any lattice that was stated
    rough = np.column_stack([0.1 * np.rint(smooth[:, 0] / 0.1), smooth[:, 1]])
    assert "steps of 0.1, stated 0.05" in watched([0.05, 0.0], rough)  # coarse: dither does not cover it


def test_whoever_sends_everything_or_nothing_has_nothing_to_notice() -> None:
    rows = np.rint(np.random.default_rng(1).standard_normal((500, 2)) * 5)
    for sanitizer in (vn.Sanitizer.raw(2), vn.Sanitizer.silent(2)):
        watch = LatticeWatch(sanitizer)
        assert watch.look(rows) == watch.conclude() == ""


def test_sanitize_says_so_once_on_standard_error(tmp_path, capfd) -> None:
    network = undithered(house())
    vn.design(network).save(tmp_path / "plan")
    rng = np.random.default_rng(0)
    rows = house().offset[8:11] + np.array([20, 6, 5]) + rng.standard_normal((1000, 3)) * 3
    rows = np.array([0.1, 0.1, 0.5]) * np.rint(rows / [0.1, 0.1, 0.5])
    np.savetxt(tmp_path / "hall.csv", rows, delimiter=",", fmt="%.1f")
    arguments = [
        "sanitize",
        str(tmp_path / "plan/hall.json"),
        "--in",
        str(tmp_path / "hall.csv"),
        "--no-header",
    ]
    assert cli.run([*arguments, "--out", str(tmp_path / "z.csv")]) == 0
    error = capfd.readouterr().err
    assert error.count("the plan states no resolution") == 1
    assert "vibration (0.5)" in error
    vn.design(house()).save(tmp_path / "plan", force=True)
    assert cli.run([*arguments, "--out", str(tmp_path / "z.csv"), "--again"]) == 0
    assert capfd.readouterr().err == ""


def test_complex_readings_have_it_in_both_parts() -> None:
    matrix = [[1.0 + 0.5j, 0.2], [0.1j, 1.0 - 0.3j]]
    network = vn.Network.from_complex(
        {"a": matrix}, 2.0, [1.0, 0.0], {"g": [0.0, 1.0]}, resolution={"a": [0.1, 0.5]}
    )
    assert network.steps.tolist() == [0.1, 0.5, 0.1, 0.5]
    dithered = network.replace(dither=1)
    np.testing.assert_allclose(dithered.R.variances(), 1.0 + network.steps**2 / 12, rtol=1e-15)
