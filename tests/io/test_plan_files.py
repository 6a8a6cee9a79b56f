"""Plan folders: everything comes back to the last bit, and nothing that was changed does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.forged_plans import forged_id
from helpers.networks import NOISES, PRIORS, random_network, random_sanitizers
from helpers.said import says
from veilnet import cli
from veilnet.io import _sealed, sanitizer_files
from veilnet.io.plan_files import file_names
from veilnet.io.template import house
from veilnet.plans.plan import make_plan


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """A folder with the house's plan and network."""
    folder = tmp_path_factory.mktemp("saved")
    house().save(folder / "house.toml")
    vn.design(house()).save(folder / "plan")
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    shutil.copytree(saved, tmp_path / "copy")
    return tmp_path / "copy"


def assert_same(one: vn.Sanitizer, other: vn.Sanitizer) -> None:
    for name in ("compression", "noise", "offset", "grid", "resolution"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert mine.tobytes() == theirs.tobytes(), name
            assert mine.shape == theirs.shape
    assert (one.agent, one.names) == (other.agent, other.names)
    assert (one.limits is None) == (other.limits is None)
    if one.limits is not None:
        assert np.array_equal(one.limits, other.limits)


def reseal(path: Path, change) -> None:
    """Change a sealed file the way a forger would: with a new checksum."""
    document = json.loads(path.read_text("utf-8"))
    document.pop("checksum")
    change(document)
    path.write_bytes(_sealed.seal(document))


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("noise", NOISES)
def test_plans_come_back_to_the_last_bit(noise, prior, tmp_path) -> None:
    network = random_network(9, noise=noise, prior=prior)
    sanitizers = random_sanitizers(network, 4, "mixed")
    sanitizers["a0"] = sanitizers["a0"].replace(
        limits=([-np.inf, 0, -3], [1, np.inf, 2]), names=["p", "q", "ü"]
    )
    plan = make_plan(
        network,
        sanitizers,
        "by hand",
        details={"starts": np.int64(3), "gap": np.inf, "at": [np.float64(0.1)]},
    )
    plan.save(tmp_path / "plan")
    back = vn.Plan.load(tmp_path / "plan")
    assert list(back.sanitizers) == list(plan.sanitizers)
    for agent in plan.sanitizers:
        assert_same(plan.sanitizers[agent], back.sanitizers[agent])
        assert_same(plan.sanitizers[agent], vn.Sanitizer.load(tmp_path / "plan" / f"{agent}.json"))
    assert back.network.H.tobytes() == network.H.tobytes()
    assert back.network.R.matrix().tobytes() == network.R.matrix().tobytes()
    assert (back.utility, dict(back.privacy), back.method) == (plan.utility, dict(plan.privacy), plan.method)
    assert back.details == {"starts": 3, "gap": np.inf, "at": [0.1]}
    assert back.certificate.ok
    assert [f.what for f in back.certificate.findings] == [f.what for f in plan.certificate.findings]
    mine, theirs = vn.Fusion(plan), vn.Fusion.load(tmp_path / "plan" / "center.json")
    messages = {a: np.random.default_rng(1).standard_normal((50, n)) for a, n in mine.sent.items()}
    messages["a1"][::3] = np.nan
    first, second = mine.estimate(messages), theirs.estimate(messages)
    assert first.public.tobytes() == second.public.tobytes()
    assert first.set_covariance.tobytes() == second.set_covariance.tobytes()
    assert first.labels == second.labels


def test_targets_limits_and_losses_come_back(tmp_path) -> None:
    network = random_network(3, prior="none")
    plan = vn.design(network, privacy={"g0": 0.25})
    plan.save(tmp_path / "plan")
    back = vn.Plan.load(tmp_path / "plan")
    assert back.targets == plan.targets
    assert [f.what for f in back.certificate.findings] == [f.what for f in plan.certificate.findings]
    back.save(tmp_path / "again")
    assert (tmp_path / "plan/plan.json").read_bytes() == (tmp_path / "again/plan.json").read_bytes()


def test_an_agent_file_holds_nothing_of_the_others(saved) -> None:
    text = (saved / "plan/kitchen.json").read_text("utf-8")
    document = json.loads(text)
    assert set(document) == {
        "format", "plan", "agent", "readings", "names", "offset", "resolution", "dither", "compression", "variances",
        "grid", "usual", "checksum",
    }  # fmt: skip
    for other in ("hall", "bedroom", "study", "living", "gait", "presence"):
        assert other not in text
    centre = (saved / "plan/center.json").read_text("utf-8")
    for word in ("gait", "presence", "cooking", "footsteps", "offset"):
        assert word not in centre


def test_a_lone_sanitizer_has_a_file_of_its_own(tmp_path) -> None:
    for sanitizer in (
        vn.Sanitizer(np.eye(2), [0.0, 0.3]),
        vn.Sanitizer.silent(3, agent="x"),
        vn.Sanitizer(noise=[[2.0, 0.1], [0.1, 0.3]], offset=[-0.0, 1e300], limits=(0, [1.0, 5.0])),
        vn.Sanitizer([[1.0, 2.0]], resolution=[0.1, 0.0]),
    ):
        sanitizer.save(tmp_path / "one.json")
        assert_same(sanitizer, vn.Sanitizer.load(tmp_path / "one.json"))
    assert "plan" not in json.loads((tmp_path / "one.json").read_text())


AGENT_FILES = ["plan.json", "center.json", "kitchen.json", "living room.json"]


@pytest.mark.parametrize("name", AGENT_FILES)
def test_truncated_files_are_refused(name, folder) -> None:
    path = folder / "plan" / name
    content = path.read_bytes()
    for length in (0, 1, 60, len(content) // 2, len(content) - 3):
        path.write_bytes(content[:length])
        with pytest.raises(vn.InvalidPlan, match=name) as caught:
            vn.Plan.load(folder / "plan")
        assert "again" in str(caught.value) or "right file" in str(caught.value)


@pytest.mark.parametrize("name", AGENT_FILES)
def test_changed_files_are_refused(name, folder) -> None:
    path = folder / "plan" / name
    text = path.read_text("utf-8")
    place = text.rindex("0.")  # some number of it
    path.write_text(text[: place + 2] + str((int(text[place + 2]) + 1) % 10) + text[place + 3 :], "utf-8")
    with pytest.raises(vn.InvalidPlan, match=rf"{name}: the checksum does not match"):
        vn.Plan.load(folder / "plan")


def test_missing_files_are_refused(folder) -> None:
    (folder / "plan/hall.json").unlink()
    with pytest.raises(vn.InvalidPlan, match=r"hall\.json: no such file"):
        vn.Plan.load(folder / "plan")
    (folder / "plan/plan.json").unlink()
    with pytest.raises(vn.InvalidPlan, match=r"holds no plan\.json"):
        vn.Plan.load(folder / "plan")
    with pytest.raises(vn.InvalidPlan, match="no such folder"):
        vn.Plan.load(folder / "nowhere")
    with pytest.raises(vn.InvalidPlan, match="no such file"):
        vn.Sanitizer.load(folder / "nowhere.json")


def test_files_of_different_plans_do_not_mix(folder) -> None:
    louder = {agent: vn.Sanitizer(noise=np.full(len(rows), 0.1)) for agent, rows in house().observe.items()}
    other = make_plan(house(), louder, "by hand")
    other.save(folder / "other")
    for name in ("hall.json", "center.json"):
        kept = (folder / "plan" / name).read_bytes()
        shutil.copy(folder / "other" / name, folder / "plan" / name)
        with pytest.raises(vn.InvalidPlan, match=f"{name}: belongs to another plan"):
            vn.Plan.load(folder / "plan")
        (folder / "plan" / name).write_bytes(kept)
    shutil.copy(folder / "plan/hall.json", folder / "plan/study.json")
    with pytest.raises(vn.InvalidPlan, match=r"study\.json: is not the sanitizer of the plan"):
        vn.Plan.load(folder / "plan")


def test_the_wrong_kind_of_file_is_told(folder) -> None:
    with pytest.raises(vn.InvalidPlan, match=r"expected 'veilnet-sanitizer/3', found 'veilnet-centre/3'"):
        vn.Sanitizer.load(folder / "plan/center.json")
    with pytest.raises(vn.InvalidPlan, match="expected 'veilnet-centre/3'"):
        vn.Fusion.load(folder / "plan/plan.json")
    path = folder / "plan/hall.json"
    path.write_text(path.read_text().replace("veilnet-sanitizer/3", "veilnet-sanitizer/7"))
    with pytest.raises(
        vn.InvalidPlan, match=r"made by a newer veilnet: upgrade this one.*sanitizer/7.*sanitizer/3"
    ):
        vn.Sanitizer.load(path)


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("plan.json", {"format": "veilnet-plan/1"}),
        ("plan.json", {"format": "veilnet-plan/2"}),
        ("plan.json", {"plan": "0" * 32, "network": {"format": "veilnet-network/2"}}),
        ("hall.json", {"format": "veilnet-sanitizer/1"}),
        ("center.json", {"format": "veilnet-center/1"}),
        ("center.json", {"format": "veilnet-stream-center/1"}),
        ("center.json", {"format": "veilnet-sum-center/1"}),
    ],
)
def test_files_of_before_are_refused_by_name(folder, name: str, before: dict) -> None:
    """As they were saved at the end of each of four days before; a network's version is a part of its plan's id."""

    def older(document: dict) -> None:
        document |= before | (
            {"network": document["network"] | before["network"]} if "network" in before else {}
        )

    reseal(folder / "plan" / name, older)
    load = {"plan.json": vn.Plan.load, "hall.json": vn.Sanitizer.load, "center.json": vn.Fusion.load}[name]
    with pytest.raises(vn.InvalidPlan) as refused:
        load(folder / "plan" / ("" if name == "plan.json" else name))
    found = before["network"]["format"] if "network" in before else before["format"]
    for fact in (name, "made by an earlier veilnet", repr(found), "design the plan again"):
        assert fact in str(refused.value)


def forge_sanitizer(folder: Path, change) -> None:
    """Rewrite an agent's file and plan.json consistently, checksums and ids included."""
    whole = json.loads((folder / "plan.json").read_text("utf-8"))
    whole.pop("checksum")
    change(whole["sanitizers"]["kitchen"])
    whole["plan"] = forged_id(whole)
    (folder / "plan.json").write_bytes(_sealed.seal(whole))
    for path in folder.glob("*.json"):
        if path.name != "plan.json":
            reseal(path, lambda document: document.update(plan=whole["plan"]))
    reseal(folder / "kitchen.json", change)


def test_files_that_agree_on_a_false_id_are_found(folder) -> None:
    """Their checksums are right, and none of them is another plan's: only the content tells."""
    for path in (folder / "plan").glob("*.json"):
        reseal(path, lambda document: document.update(plan="0" * 32))
    with pytest.raises(vn.InvalidPlan, match="id does not match its content"):
        vn.Plan.load(folder / "plan")


def test_a_forged_mechanism_breaks_the_promise(folder) -> None:
    raw = [[float(i == j) for j in range(4)] for i in range(4)]

    def tell_everything(document) -> None:
        document.update(compression=raw, variances=[0.0] * 4, grid=[2.0**-10] * 4)

    forge_sanitizer(folder / "plan", tell_everything)
    vn.Sanitizer.load(folder / "plan/kitchen.json")  # nothing wrong with the file as such
    with pytest.raises(vn.InvalidPlan):
        vn.Plan.load(folder / "plan")
    assert cli.run(["verify", str(folder / "plan"), str(folder / "house.toml")]) == 1


def test_a_forged_grid_is_found_by_verify(folder, capsys) -> None:
    forge_sanitizer(folder / "plan", lambda document: document.update(grid=[2.0**-300] * 2))
    assert cli.run(["verify", str(folder / "plan"), str(folder / "house.toml")]) == 1
    says(" ".join(capsys.readouterr().out.split()), "grid", ": kitchen")


def test_limits_taken_away_are_found_by_verify(tmp_path, capsys) -> None:
    network = vn.Network(
        observe={"kitchen": np.eye(3), "hall": np.ones((1, 3))},
        noise=1.0,
        public=[[1.0, 0, 0]],
        private={"g": [[0.0, 1, 0]]},
        limits={"kitchen": (-5, 5)},
        reading_names={"hall": ["T"]},
    )
    network.save(tmp_path / "network.json")
    vn.design(network).save(tmp_path / "plan")
    assert vn.Sanitizer.load(tmp_path / "plan/hall.json").names == ("T",)
    command = ["verify", str(tmp_path / "plan"), str(tmp_path / "network.json")]
    assert cli.run(command) == 0
    capsys.readouterr()
    forge_sanitizer(tmp_path / "plan", lambda document: document.pop("limits"))
    assert cli.run(command) == 1
    says(" ".join(capsys.readouterr().out.split()), "not those of the network", ": kitchen")


def test_a_forged_centre_is_found(folder, capsys) -> None:
    def shift(document) -> None:
        document["agents"]["kitchen"]["expected"][0] += 1.0

    reseal(folder / "plan/center.json", shift)
    with pytest.raises(vn.InvalidPlan, match="not the centre's part"):
        vn.Plan.load(folder / "plan")
    assert cli.run(["verify", str(folder / "plan"), str(folder / "house.toml"), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [check["what"] for check in told["checks"] if not check["ok"]] == ["center.json"]


def test_verify_confirms_an_honest_plan(saved, capsys) -> None:
    assert cli.run(["verify", str(saved / "plan"), str(saved / "house.toml"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"]
    found = {check["what"]: check for check in told["checks"]}
    network = house()
    for name, promised in vn.privacy(network, vn.design(network).sanitizers).items():
        assert found[f"privacy of {name}"]["found"] == pytest.approx(promised, rel=1e-6)
    assert {"plan.json", "center.json", "grids", "network is the given one", "hall.json"} <= set(found)
    assert cli.run(["verify", str(saved / "plan"), "-v"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    says(told, "own network was trusted", "NETWORK")
    says(told, "agent files match the network")
    assert "names, limits, resolution, step" not in told


def test_verify_sees_another_network(folder, capsys) -> None:
    text = (folder / "house.toml").read_text("utf-8")
    (folder / "house.toml").write_text(text.replace("mean = [20.5", "mean = [20.6"), "utf-8")
    assert cli.run(["verify", str(folder / "plan"), str(folder / "house.toml")]) == 1
    assert "prior.mean differs" in capsys.readouterr().out


def test_verify_without_a_plan_is_wrong_input(tmp_path, capsys) -> None:
    assert cli.run(["verify", str(tmp_path)]) == 2
    assert "holds no plan.json" in capsys.readouterr().err
    (tmp_path / "plan.json").write_text("{}")
    assert cli.run(["verify", str(tmp_path)]) == 2


def named(agents: list[str]) -> vn.Plan:
    rng = np.random.default_rng(0)
    return vn.design(
        vn.Network(
            observe={name: rng.standard_normal((2, 3)) for name in agents},
            noise=1.0,
            public=[[1.0, 0, 0]],
            private={"g": [[0.0, 1, 0]]},
        )
    )


AWKWARD = ["küche", "Küche", "ku\u0308che", "CON", "nul.x", "a:b", "trailing.", "x" * 100, "汉" * 100, "-rf", "a b",
           "PLAN.", "ﬁ", "fi", "*?", "100%", "~"]  # fmt: skip


def test_awkward_names_become_harmless_distinct_files(tmp_path) -> None:
    plan = named(AWKWARD)
    plan.save(tmp_path / "plan")
    assert list(vn.Plan.load(tmp_path / "plan").sanitizers) == AWKWARD
    names = file_names(AWKWARD)
    assert len({name.casefold() for name in names.values()}) == len(AWKWARD)
    assert all(len(name.encode()) < 200 for name in names.values())
    assert names["a b"] == "a b.json"
    assert not any(mark in name for name in names.values() for mark in ':*?"<>|')
    assert vn.Sanitizer.load(tmp_path / "plan" / names["küche"]).agent == "küche"


def test_saving_again_removes_only_what_was_the_plans(tmp_path) -> None:
    folder = tmp_path / "plan"
    named(["a", "b", "c"]).save(folder)
    (folder / "notes.txt").write_text("mine")
    (folder / "data.json").write_text("[1, 2]")
    (folder / "broken.json").write_text("{")
    vn.Sanitizer(np.eye(2)).save(folder / "lone.json")
    with pytest.raises(vn.InvalidPlan, match="holds the plan of another network"):
        named(["a", "d"]).save(folder)
    assert list(vn.Plan.load(folder).sanitizers) == ["a", "b", "c"]
    named(["a", "d"]).save(folder, force=True)
    assert sorted(path.name for path in folder.iterdir()) == [
        "a.json", "broken.json", "center.json", "d.json", "data.json", "lone.json", "notes.txt", "plan.json",
    ]  # fmt: skip
    assert list(vn.Plan.load(folder).sanitizers) == ["a", "d"]
    assert (folder / "data.json").read_text() == "[1, 2]"


def test_saving_never_replaces_a_foreign_file(tmp_path) -> None:
    folder = tmp_path / "plan"
    folder.mkdir()
    for name in ("plan.json", "a.json", "center.json"):
        (folder / name).write_text('{"name": "mine"}')
        with pytest.raises(vn.InvalidPlan, match="not written by veilnet"):
            named(["a", "b"]).save(folder)
        assert [path.name for path in folder.iterdir()] == [name]
        (folder / name).unlink()
    (tmp_path / "file").write_text("")
    with pytest.raises(vn.InvalidPlan, match="expected a folder"):
        named(["a", "b"]).save(tmp_path / "file")


def test_a_damaged_plan_can_be_saved_over(tmp_path) -> None:
    plan = named(["a", "b"])
    plan.save(tmp_path)
    for path in tmp_path.glob("*.json"):
        path.write_bytes(path.read_bytes()[:80])
    with pytest.raises(vn.InvalidPlan, match="not readable as a plan"):
        plan.save(tmp_path)
    plan.save(tmp_path, force=True)
    assert vn.Plan.load(tmp_path).sanitizers.keys() == {"a", "b"}


@pytest.mark.parametrize("fail_at", range(1, 8))
def test_an_interrupted_save_leaves_the_old_plan_or_the_new_one(fail_at, tmp_path, monkeypatch) -> None:
    """Two plans of three and four files: one renaming decides, four more put the files in their places."""
    folder = tmp_path / "plan"
    old, new = named(["a", "b"]), named(["a", "c"])
    old.save(folder)
    calls = []
    original = Path.replace

    def replace(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) == fail_at:
            raise OSError(28, "No space left on device", str(target))
        return original(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    try:
        new.save(folder, force=True)
    except OSError:
        assert fail_at <= 5
    else:
        assert fail_at > 5
    monkeypatch.undo()
    agents = ["a", "b"] if fail_at == 1 else ["a", "c"]
    assert list(vn.Plan.load(folder).sanitizers) == agents
    assert not [path for path in folder.iterdir() if path.name.startswith(".veilnet")]
    assert {path.stem for path in folder.iterdir()} == {"plan", "center", *agents}
    new.save(folder, force=True)
    assert list(vn.Plan.load(folder).sanitizers) == ["a", "c"]
    assert not (folder / "b.json").exists()


def test_sanitizer_documents_refuse_what_does_not_fit(tmp_path) -> None:
    good = sanitizer_files.to_document(vn.Sanitizer(np.eye(2), 1.0, grid=2.0**-10), None)
    for change in (
        {"compression": [[1.0, 0.0], [0.0]]},
        {"compression": [["1.0", 0.0], [0.0, 1.0]]},
        {"variances": None},
        {"covariance": [[1.0, 0.0], [0.0, 1.0]]},
        {"variances": [1.0]},
        {"variances": [-1.0, 1.0]},
        {"grid": [0.3, 0.5]},
        {"grid": [2.0**-1010, 0.5]},
        {"offset": [0.0]},
        {"readings": 3},
        {"readings": True},
        {"limits": {"lowest": [5.0, 0.0], "highest": [1.0, 1.0]}},
        {"names": ["one"]},
        {"agent": 3},
        {"extra": 1},
    ):
        path = tmp_path / "one.json"
        path.write_bytes(_sealed.seal(good | change))
        with pytest.raises(vn.InvalidPlan, match=r"one\.json"):
            vn.Sanitizer.load(path)
