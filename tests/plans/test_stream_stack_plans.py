"""Plans for streams of very many agents: certified, saved as one file, loaded, taken apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.many_streams import STREAMS, as_stacks
from helpers.stream_networks import random_stream
from veilnet.agent.grid import ROUNDING_COST
from veilnet.agent.mechanisms import Mechanisms
from veilnet.agent.sanitizer_stacks import SanitizerStack
from veilnet.cli import run
from veilnet.io.plan_archives import Archive
from veilnet.model.stream_size import GAPS_ARE_NOT_COMPUTED
from veilnet.plans.certificate import Promise, certify

KINDS = ("mixed sizes", "sending readings", "singular", "wandering")


def _plan(name: str) -> vn.Plan:
    plan = vn.design(STREAMS[name])
    assert isinstance(plan.sanitizers, Mechanisms)
    return plan


def _with_stack(plan: vn.Plan, number: int, changed: SanitizerStack) -> Mechanisms:
    assert isinstance(plan.sanitizers, Mechanisms)
    stacks = list(plan.sanitizers.stacks)
    stacks[number] = changed
    return Mechanisms(plan.network, stacks)


def _promise(plan: vn.Plan) -> Promise:
    return Promise(most_loss=0.0, utility=plan.utility, privacy=dict(plan.privacy))


def _remembering(plan: vn.Plan) -> tuple[int, SanitizerStack]:
    assert isinstance(plan.sanitizers, Mechanisms)
    return next((k, stack) for k, stack in enumerate(plan.sanitizers.stacks) if stack.order)


@pytest.mark.parametrize("name", KINDS)
def test_the_certificate_refuses_what_is_not_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_stacks(monkeypatch)
    plan = _plan(name)
    assert certify(plan.network, plan.sanitizers, _promise(plan)).ok
    too_much = {private: figure * 1.001 + 1e-3 for private, figure in plan.privacy.items()}
    assert not certify(plan.network, plan.sanitizers, replace(_promise(plan), privacy=too_much)).ok
    number, stack = _remembering(plan)
    assert stack.transition is not None
    transition = stack.transition.copy()
    transition[0] *= 0.9
    wrong = certify(
        plan.network, _with_stack(plan, number, replace(stack, transition=transition)), _promise(plan)
    )
    assert "utility" in wrong.complaint(), "one memory that forgets too soon"
    speaking = np.arange(stack.count) > 0
    silent = replace(stack, compression=stack.compression * speaking[:, None, None])
    assert not certify(plan.network, _with_stack(plan, number, silent), _promise(plan)).ok
    louder = {agent: vn.Sanitizer.raw(each.readings) for agent, each in plan.sanitizers.items()}
    if any(figure > 1e-3 for figure in plan.privacy.values()):
        assert "privacy" in certify(plan.network, louder, _promise(plan)).complaint(), "raw readings"


@pytest.mark.parametrize("name", KINDS)
def test_one_file_holds_the_plan_and_any_agents_own(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    as_stacks(monkeypatch)
    plan = _plan(name)
    plan.save(tmp_path / "plan.npz")
    plan.save(tmp_path / "folder")
    loaded = vn.Plan.load(tmp_path / "plan.npz")
    assert isinstance(loaded.sanitizers, Mechanisms)
    assert dict(loaded.privacy) == dict(plan.privacy)
    for agent in plan.network.agents:
        assert loaded.sanitizers[agent].same_as(plan.sanitizers[agent])
    vn.Plan.load(tmp_path / "folder")
    for agent in (*plan.network.agents, "center"):
        out = tmp_path / "one.json"
        assert run(["extract", str(tmp_path / "plan.npz"), agent, "--out", str(out)]) == 0
        assert out.read_bytes() == (tmp_path / "folder" / f"{agent}.json").read_bytes()
    assert all(check.ok for check in vn.verify(tmp_path / "plan.npz", plan.network))


def test_small_streams_are_one_file_too(tmp_path: Path) -> None:
    plan = vn.design(STREAMS["mixed sizes"])
    assert any(plan.kept.values())
    plan.save(tmp_path / "plan.npz")
    plan.save(tmp_path / "folder")
    loaded = vn.Plan.load(tmp_path / "plan.npz")
    assert loaded.privacy_now == pytest.approx(plan.privacy_now)
    archive = Archive.read(tmp_path / "plan.npz")
    for agent in plan.network.agents:
        assert loaded.sanitizers[agent].same_as(plan.sanitizers[agent])
        assert archive.agent_file(agent) == (tmp_path / "folder" / f"{agent}.json").read_bytes()


@pytest.mark.parametrize("kept_as", ["stacks", "one state"])
def test_memories_in_a_file_are_checked(
    kept_as: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from veilnet.io.plan_arrays import arrays_id

    as_stacks(monkeypatch, 0 if kept_as == "stacks" else 1000)
    plan = vn.design(STREAMS["mixed sizes"])
    plan.save(tmp_path / "plan.npz")
    with np.load(tmp_path / "plan.npz") as file:
        arrays = dict(file)
    name = next(key for key in arrays if key.endswith(".transition"))
    head = name.partition(".")[0]

    def saved(**changes: np.ndarray | None) -> Path:
        content = {key: value for key, value in (arrays | changes).items() if value is not None}
        content.pop("plan")
        marks = {"format": content.pop("format"), "plan": np.array(arrays_id(content))}
        np.savez(tmp_path / "changed.npz", **marks, **content)
        return tmp_path / "changed.npz"

    for changes, complaint in (
        ({name: arrays[name] * 50}, "memories that forget"),
        ({name: arrays[name][:, :1]}, "expected finite numbers of shape"),
        ({f"{head}.gain": None}, "expected places, compression and grid"),
        ({name: 0.9 * arrays[name]}, "promise is not confirmed"),
        ({f"{head}.gain": 1e300 * arrays[f"{head}.gain"]}, "grids|not confirmed|cannot be recomputed"),
    ):
        with pytest.raises(vn.InvalidPlan, match=complaint):
            vn.Plan.load(saved(**changes))  # type: ignore[arg-type]


def test_grids_stay_far_below_what_an_agents_own_noise_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    as_stacks(monkeypatch)
    plan = _plan("mixed sizes")
    for place, agent in enumerate(plan.network.agents):
        each = plan.sanitizers[agent]
        assert each.grid is not None
        enters = each.compression[:, each.order :]
        if each.memory is not None:
            enters = enters + each.compression[:, : each.order] @ each.memory.gain
        noise = enters @ plan.network.R.block(place) @ enters.T
        assert np.all(each.grid**2 / 6 <= ROUNDING_COST / 16 * np.diag(noise) + 1e-9 * np.trace(noise))


def test_a_network_of_many_agents_goes_by_stacks_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    for kind in (vn.Sanitizer, vn.Memory):
        freeze = kind._freeze
        monkeypatch.setattr(
            kind, "_freeze", lambda self, freeze=freeze: (made.append(repr(type(self))), freeze(self))[1]
        )
    rng = np.random.default_rng(0)
    agents, parameters = 400, 3
    drawn = random_stream(0, parameters=parameters)
    network = vn.Network(
        [rng.standard_normal((300, 2, parameters)), rng.standard_normal((100, 4, parameters))],
        [np.tile(50 * np.eye(2), (300, 1, 1)), np.tile(80 * np.eye(4), (100, 1, 1))],
        drawn.public,
        {"g": [1.0, 0.0, -1.0]},
        dynamics=drawn.dynamics,
    )
    plan = vn.design(network)
    assert isinstance(plan.sanitizers, Mechanisms)
    assert len(plan.sanitizers) == agents
    assert plan.utility == 0.0
    assert plan.privacy["g"] > 0.1
    plan.save(tmp_path / "plan.npz")
    str(plan), str(vn.check(network))
    fused = vn.Fusion(vn.Plan.load(tmp_path / "plan.npz")).estimate(np.zeros((5, sum(plan.sent.values()))))
    assert np.all(np.isfinite(fused.public))
    assert made == [], "an object for an agent"
    assert plan.sanitizers["agent042"].order > 0
    assert made


def test_every_text_says_that_gaps_are_not_computed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    as_stacks(monkeypatch)
    plan = _plan(KINDS[0])
    assert plan.privacy_with_gaps == {}
    plan.save(tmp_path / "plan")
    assert run(["verify", str(tmp_path / "plan")]) == 0
    texts = [str(plan), capfd.readouterr().out, plan._repr_html_(), str(vn.check(plan.network))]
    said = " ".join(GAPS_ARE_NOT_COMPUTED.split()[-6:])
    for text in texts:
        assert said in " ".join(text.split())


def test_how_surely_a_secret_is_seen_is_promised_of_very_many_agents_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Oracle: the plan of the same network with all memories in one state."""
    network = STREAMS["mixed sizes"]
    secrets = {name: vn.Secret(rows, change=1.0) for name, rows in network.private.items()}
    network = network.replace(private=secrets)
    seen = {name: each.mu for name, each in vn.design(network).detectability.items()}
    as_stacks(monkeypatch)
    plan = vn.design(network)
    assert plan.hiding_changes({name: mu * (1 + 1e-9) for name, mu in seen.items()}).certificate.ok
    with pytest.raises(vn.InvalidPlan, match="change of"):
        plan.hiding_changes({name: 0.99 * mu for name, mu in seen.items()})
