"""Plans as one file: all comes back to the last bit, agents' files are those of the folder, damage is noticed."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veilnet as vn
from helpers.networks import NOISES, random_network, random_sanitizers
from helpers.said import says
from helpers.stacked_networks import stacked_network
from veilnet.cli import run
from veilnet.io.plan_archives import Archive
from veilnet.io.plan_arrays import arrays_id
from veilnet.io.template import house
from veilnet.plans.plan import make_plan
from veilnet.plans.verification import verify

Arrays = dict[str, Any]


def mixed_network(**options: Any) -> vn.Network:
    return stacked_network(4, [(6, 3), (5, 2), (2, 4)], **options)


def by_hand(noise: str, moved: float = 0.0) -> vn.Plan:
    """Noise of every kind, correlated within and between agents; ``moved``: offsets that are not the network's."""
    network = random_network(9, noise=noise)
    some = random_sanitizers(network, 4, "noise")
    made = {}
    for agent, rows in network.observe.items():
        mine = some.get(agent, vn.Sanitizer.raw(len(rows)))
        offset = network.offset[network.blocks.rows(network.position[agent])]
        made[agent] = mine.replace(offset=offset + moved)
    return make_plan(network, made, "by hand")


PLANS: dict[str, Callable[[], vn.Plan]] = {
    "stacks": lambda: vn.design(mixed_network()),
    "with a resolution": lambda: vn.design(mixed_network(resolution=0.125)),
    "the house": lambda: vn.design(house()),
    "noise": lambda: vn.design(mixed_network(), power=10.0),
    **{noise: partial(by_hand, noise) for noise in NOISES},
    "offsets of their own": partial(by_hand, NOISES[0], 0.5),
}


@pytest.mark.parametrize("name", PLANS)
def test_plans_come_back_and_agents_files_are_those_of_the_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = "plan.npz"
    plan = PLANS[name]()
    plan.save(tmp_path / "folder")
    plan.save(tmp_path / file)
    back = vn.Plan.load(tmp_path / file)
    assert list(back.sanitizers) == list(plan.sanitizers)
    assert all(back.sanitizers[agent].same_as(plan.sanitizers[agent]) for agent in plan.sanitizers)
    assert back.network.H.tobytes() == plan.network.H.tobytes()
    assert (back.utility, dict(back.privacy), back.method) == (plan.utility, dict(plan.privacy), plan.method)
    assert all(check.ok for check in verify(tmp_path / file, plan.network))
    monkeypatch.chdir(tmp_path)
    for agent in plan.network.agents:
        assert run(["extract", file, agent, "--out", "one.json"]) == 0
        assert Path("one.json").read_bytes() == Path("folder", f"{agent}.json").read_bytes()
    assert run(["extract", file, "center"]) == 0
    assert Path("center.json").read_bytes() == Path("folder", "center.json").read_bytes()
    Path("there").mkdir()
    for given, where in (("made/anew/", "made/anew"), ("there", "there")):
        for agent in ("center", plan.network.agents[0]):
            assert run(["extract", file, agent, "--out", given]) == 0
            assert Path(where, f"{agent}.json").read_bytes() == Path("folder", f"{agent}.json").read_bytes()
    # Whatever it was loaded from, the same plan bears the same id.
    vn.Plan.load("folder").save(f"again-{file}")
    back.save("folder of the file")
    assert Archive.read(Path(f"again-{file}")).plan == Archive.read(Path(file)).plan
    ids = {
        json.loads(Path(where, "plan.json").read_text("utf-8"))["plan"]
        for where in ("folder", "folder of the file")
    }
    assert ids == {Archive.read(Path(file)).plan}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archive") / "plan.npz"
    vn.design(mixed_network(prior=vn.Prior(covariance=np.eye(6)))).save(path)
    return path


def content_of(path: Path) -> Arrays:
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


def forged(saved: Path, target: Path, change: Callable[[Arrays], Any]) -> Path:
    """Change a file the way a forger would: with the id made right again."""
    arrays = content_of(saved)
    change(arrays)
    marks = {"format", "plan"}
    arrays["plan"] = np.array(arrays_id({name: each for name, each in arrays.items() if name not in marks}))
    np.savez(target, **arrays)
    return target


def promising(**changes: Any) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays["document"] = np.array(json.dumps(json.loads(str(arrays["document"])) | changes))

    return change


def setting(name: str, value: Callable[[Any], Any]) -> Callable[[Arrays], None]:
    def change(arrays: Arrays) -> None:
        arrays[name] = value(arrays[name])

    return change


FORGERIES: dict[str, tuple[Callable[[Arrays], Any], str]] = {
    "more privacy": (promising(privacy={"g": 99.0, "h": 99.0}), "its promise is not confirmed"),
    "other names": (promising(privacy={"z": 1.0}), "exactly the network's private parameters"),
    "words for numbers": (promising(utility="much"), "expected a number"),
    "unknown keys": (promising(surprise=1), "surprise"),
    "raw readings": (
        setting("sent1.compression", lambda c: np.eye(c.shape[1], c.shape[2]) + 0 * c),
        "not confirmed|not the grid",
    ),
    "the same row twice": (
        setting("sent0.compression", lambda c: np.repeat(c[:, :1], c.shape[1], axis=1)),
        "grids",
    ),
    "a finer grid": (setting("sent0.grid", lambda g: g / 1024), "not the grid that the noise calls for"),
    "no power of two": (setting("sent0.grid", lambda g: g * 3), "not powers of two"),
    "not a number": (setting("sent1.compression", lambda c: c * np.nan), "finite numbers"),
    "single precision": (setting("sent1.compression", lambda c: c.astype(np.float32)), "finite numbers"),
    "another shape": (setting("sent1.compression", lambda c: c[0]), r"expected \(6, numbers, readings\)"),
    "other agents": (setting("sent0.places", lambda p: p[::-1].copy()), "whole numbers that grow"),
    "an agent twice": (setting("sent0.places", lambda p: p - p[0]), "each of 13 agents sends, once"),
    "one agent less": (
        lambda arrays: [
            arrays.update({f"sent0.{key}": arrays[f"sent0.{key}"][1:]})
            for key in ("places", "compression", "grid")
        ],
        "each of 13 agents sends, once",
    ),
    "negative variances": (
        lambda arrays: arrays.update({"sent0.variances": -np.ones(arrays["sent0.grid"].shape)}),
        "none below zero",
    ),
    "no grid": (lambda arrays: arrays.pop("sent0.grid"), "places, compression and grid"),
    "no sizes": (lambda arrays: arrays.pop("network.sizes"), "'sizes' is missing"),
    "another model": (setting("network.observe", lambda h: 2 * h[::-1]), "not confirmed|not the grid"),
    "no document": (lambda arrays: arrays.pop("document"), "document: missing"),
    "a list of promises": (lambda arrays: arrays.update(document=np.array("[]")), "expected a table"),
    "no JSON": (lambda arrays: arrays.update(document=np.array("{")), "not readable as JSON"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_files_are_refused(name: str, saved: Path, tmp_path: Path) -> None:
    change, complaint = FORGERIES[name]
    path = forged(saved, tmp_path / "forged.npz", change)
    with pytest.raises(vn.InvalidPlan, match=complaint) as refusal:
        vn.Plan.load(path)
    assert str(refusal.value).startswith(str(path))


def test_the_rows_of_a_fit_make_no_other_network(saved: Path) -> None:
    network = Archive.read(saved).network()
    marked = network.replace(fitted_rows=["0123456789abcdef"])
    assert all(check.ok for check in verify(saved, marked))
    other = network.replace(public=2 * network.U)
    assert not all(check.ok for check in verify(saved, other))


def test_names_of_another_shape_are_refused(saved: Path, tmp_path: Path) -> None:
    path = forged(saved, tmp_path / "forged.npz", lambda a: a.update({"network.agents": np.array("agent01")}))
    with pytest.raises(vn.InvalidPlan, match="expected a list of names"):
        Archive.read(path).agent_file("agent01")


def test_changed_files_are_noticed(saved: Path, tmp_path: Path) -> None:
    arrays = content_of(saved)
    arrays["sent0.grid"] = arrays["sent0.grid"] / 2
    np.savez(tmp_path / "changed.npz", **arrays)
    for use in (vn.Plan.load, lambda path: Archive.read(path).agent_file("agent01")):
        with pytest.raises(vn.InvalidPlan, match="id does not match its content"):
            use(tmp_path / "changed.npz")


def test_damaged_files_are_refused(saved: Path, tmp_path: Path) -> None:
    """Cut off anywhere, or with a byte flipped anywhere: an error that names the file, never another plan."""
    content = saved.read_bytes()
    rng = np.random.default_rng(0)
    path = tmp_path / "damaged.npz"
    for length in rng.integers(0, len(content), 40):
        path.write_bytes(content[:length])
        with pytest.raises(vn.InvalidPlan, match=r"damaged\.npz"):
            Archive.read(path)
    intact = content_of(saved)
    for place in rng.integers(0, len(content), 200):
        spoiled = bytearray(content)
        spoiled[place] ^= int(rng.integers(1, 256))
        path.write_bytes(spoiled)
        with suppress(vn.InvalidPlan):  # else a byte that says nothing, such as the time of the archive
            assert Archive.read(path).plan == str(intact["plan"])


def test_foreign_and_hostile_files_are_refused(saved: Path, tmp_path: Path) -> None:
    mixed_network().save(tmp_path / "network.npz")
    with pytest.raises(
        vn.InvalidPlan, match="expected 'veilnet-plan-archive/4', found 'veilnet-network-archive/5'"
    ):
        vn.Plan.load(tmp_path / "network.npz")
    with pytest.raises(vn.InvalidPlan, match="no such file"):
        vn.Plan.load(tmp_path / "nowhere.npz")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(vn.InvalidPlan, match=r"not readable as \.npz"):
        vn.Plan.load(tmp_path / "text.npz")
    arrays = content_of(saved) | {"extra": np.array([print], dtype=object)}
    np.savez(tmp_path / "objects.npz", allow_pickle=True, **arrays)
    with pytest.raises(vn.InvalidPlan, match=r"objects\.npz"):
        vn.Plan.load(tmp_path / "objects.npz")
    bomb = io.BytesIO()
    np.lib.format.write_array_header_1_0(bomb, {"descr": "<f8", "fortran_order": False, "shape": (2**30,)})
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("format.npy", bomb.getvalue() + bytes(1000))
    with pytest.raises(vn.InvalidPlan, match=r"bomb\.npz"):
        vn.Plan.load(tmp_path / "bomb.npz")


def test_the_command_says_what_is_wrong(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["extract", str(saved), "kitchen"]) == 2
    says(capsys.readouterr().err, "'kitchen'", "agent01, agent02")
    assert not list(tmp_path.iterdir())
    assert run(["extract", str(tmp_path), "kitchen"]) == 2
    says(capsys.readouterr().err, "plan.npz")
    assert run(["extract", str(saved), "agent01", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["saved"] == "agent01.json"
    assert run(["inspect", "agent01.json"]) == 0


def test_the_other_verbs_take_one_file_for_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    house().save("house.toml")
    assert run(["design", "house.toml", "--out", "plan.npz"]) == 0
    says(" ".join(capsys.readouterr().out.split()), "veilnet extract plan.npz")
    assert run(["verify", "plan.npz", "house.toml"]) == 0
    other = house().replace(model_error=0.1)
    other.save("other.toml")
    assert run(["verify", "plan.npz", "other.toml"]) == 1
    capsys.readouterr()
    assert run(["design", "other.toml", "--out", "plan.npz"]) == 2
    says(capsys.readouterr().err, "another network", "model_error", "--force")
    assert run(["design", "other.toml", "--out", "plan.npz", "--force"]) == 0
    Path("mine.npz").write_text("mine")
    assert run(["design", "other.toml", "--out", "mine.npz"]) == 2
    assert "is in the way" in capsys.readouterr().err
    assert Path("mine.npz").read_text() == "mine"


@pytest.mark.parametrize("name", ["plan.npy", "plan.json", "plan.zip"])
def test_a_name_that_promises_another_kind_of_file_is_refused(tmp_path: Path, name: str) -> None:
    plan = vn.design(random_network(3))
    with pytest.raises(vn.InvalidPlan, match=r"ends in \.npz for a plan in one file"):
        plan.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_an_array_that_belongs_to_no_plan_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.npz"
    vn.design(random_network(3)).save(path)
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files if name not in ("format", "plan")}
        kept = {name: archive[name] for name in ("format",)}
    arrays["stranger"] = np.zeros(2)
    np.savez(path, **kept, plan=np.array(arrays_id(arrays)), **arrays)
    with pytest.raises(vn.InvalidPlan, match="'stranger': no such array belongs to a plan"):
        vn.Plan.load(path)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"sent0.places": np.arange(3)}, "either sanitizers or"),
        ({"sanitizers": np.array("{")}, "not readable as JSON"),
        ({"sanitizers": np.array('{"nobody": {}}')}, "sanitizers.nobody.agent: missing"),
        ({"sanitizers": np.arange(3)}, "sanitizers: missing, or no text"),
    ],
)
def test_forged_sanitizers_of_agents_are_refused(change: Arrays, complaint: str, tmp_path: Path) -> None:
    by_hand(NOISES[0], 0.5).save(tmp_path / "plan.npz")
    path = forged(tmp_path / "plan.npz", tmp_path / "forged.npz", lambda arrays: arrays.update(change))
    with pytest.raises(vn.InvalidPlan, match=complaint):
        vn.Plan.load(path)
