"""A plan is recomputed by another route; a promise that does not hold is never returned."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from helpers.honest_streams import honest_plan
from helpers.networks import PRIORS, random_network
from helpers.paper_networks import paper_network
from veilnet import recheck
from veilnet.plans import certificate
from veilnet.plans.asked import Asked
from veilnet.plans.certificate import Promise, certify
from veilnet.plans.plan import make_plan


def promise_of(plan: vn.Plan, **changes: object) -> Promise:
    values = {"utility": plan.utility, "privacy": dict(plan.privacy), "targets": {}, "most_loss": None}
    return Promise(**(values | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("noise", ["joint", "per agent"])
@pytest.mark.parametrize("prior", PRIORS)
def test_true_promises_are_confirmed_and_false_ones_are_not(noise: str, prior: str) -> None:
    network = random_network(2, noise=noise, prior=prior, parameters=5, public_rows=2)
    plan = vn.design(network)
    assert plan.certificate.ok
    better = {
        name: value * 1.001 + 1e-3 if np.isfinite(value) else value for name, value in plan.privacy.items()
    }
    assert not certify(network, plan.sanitizers, promise_of(plan, privacy=better)).ok
    assert not certify(network, plan.sanitizers, promise_of(plan, utility=-1e-3)).ok
    endless = dict.fromkeys(plan.privacy, np.inf)
    confirmed = certify(network, plan.sanitizers, promise_of(plan, privacy=endless)).ok
    assert confirmed == all(np.isinf(value) for value in plan.privacy.values())


def test_infinite_privacy_is_confirmed_by_a_witness_and_not_otherwise() -> None:
    network = paper_network(1, 2, 3, prior=False)
    plan = vn.design(network)
    assert plan.privacy == {"g1": np.inf}
    (finding,) = [f for f in plan.certificate.findings if f.what == "privacy of g1"]
    assert finding.found == np.inf
    # one more number sent by one agent and the witness is gone
    agent = network.agents[0]
    more = np.concatenate(
        [plan.sanitizers[agent].compression, np.random.default_rng(0).normal(size=(33, 36))]
    )
    leaky = dict(plan.sanitizers) | {agent: vn.Sanitizer(more)}
    assert not certify(network, leaky, promise_of(plan)).ok


@pytest.mark.parametrize(
    "harm",
    [
        lambda s: vn.Sanitizer(s.compression, 0.25 * s.noise),  # noise at half its strength
        lambda s: vn.Sanitizer(np.eye(s.readings)),  # raw readings
        lambda s: vn.Sanitizer(
            np.concatenate([s.compression, np.eye(s.readings)[:1]]), np.pad(s.noise, (0, 1))
        ),
    ],
)
def test_a_weaker_sanitizer_breaks_the_certificate(harm: object) -> None:
    network = paper_network(3, 9, 2, prior=True)
    plan = vn.design(network, power=50.0)
    agent = max(plan.sanitizers, key=lambda name: float(np.trace(plan.sanitizers[name].noise)))
    changed = dict(plan.sanitizers) | {agent: harm(plan.sanitizers[agent])}  # type: ignore[operator]
    certificate = certify(network, changed, promise_of(plan))
    assert not certificate.ok
    assert "privacy of g1: promised" in certificate.complaint()


def test_a_plan_whose_target_is_missed_is_not_returned() -> None:
    network = random_network(4, prior="covariance")
    sanitizers = dict(vn.design(network).sanitizers)
    with pytest.raises(vn.InvalidPlan, match="target of g0: promised"):
        make_plan(network, sanitizers, "perfect", Asked({"g0": 1e6}))
    with pytest.raises(vn.InvalidPlan, match="utility loss allowed"):
        make_plan(network, {"a0": vn.Sanitizer.silent(3)}, "made up", Asked(most_loss=0.0))


MAY_BE_IMPORTED = {
    "veilnet._core.errors", "veilnet._core.twofold", "veilnet._core.types",
    "veilnet.model.network", "veilnet.model.common", "veilnet.model.stream_size",
    "veilnet.agent.sanitizer", "veilnet.agent.sanitizer_stacks", "veilnet.agent.mechanisms",
    "veilnet.plans.asked",  # numbers that were asked for, no formula
}  # fmt: skip


def test_the_certificate_shares_no_code_with_bounds_or_solvers() -> None:
    files = [Path(certificate.__file__), *Path(recheck.__file__).parent.glob("*.py")]
    assert len(files) == 11
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        imported |= {
            name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
        }
        mine = {module for module in imported if module and module.startswith("veilnet")}
        assert {m for m in mine if not m.startswith("veilnet.recheck")} <= MAY_BE_IMPORTED
        # of the network and the sanitizers it takes what was given, never what the bounds derive from it
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        derived = {"normal", "normalized", "noise_root", "in_raw_coordinates", "white_observe"}
        derived |= {"prior_root", "root", "own_roots", "whiten", "whiten_back"}
        if file.name != "twofold.py":  # where it only chooses coordinates, which no result depends on
            derived |= {"raw_triangle"}
        assert not used & derived


def test_verify_and_audit_take_a_plan_or_where_it_was_saved(tmp_path: Path) -> None:
    plan = vn.design(random_network(3))
    where = tmp_path / "plan"
    plan.save(where)
    assert all(each.ok for each in vn.verify(plan))
    forged = replace(plan, privacy={name: 2 * value + 1 for name, value in plan.privacy.items()})
    assert not all(each.ok for each in vn.verify(forged))
    found = [each for each in vn.verify(plan, random_network(4)) if not each.ok]
    assert found[0].what == "network is the given one"
    saved, held = (vn.audit(each, only=["promise"]) for each in (where, plan))
    assert isinstance(saved, vn.Audit)
    assert [row.what for row in saved.rows] == [row.what for row in held.rows]
    with pytest.raises(vn.InvalidRequest, match=r"plan: expected a veilnet\.Plan, found int"):
        vn.audit(3)  # type: ignore[arg-type]


def test_agents_that_dither_less_than_is_counted_are_found() -> None:
    rows = np.array([[1.0, 1.0], [1.0, -1.0]])
    network = vn.Network(
        observe={"a": rows, "b": rows},
        noise=0.1,
        public=[[1.0, 0.0]],
        private={"g": [[0.0, 1.0]]},
        resolution={"a": 1.0, "b": 1.0},
    )
    plan = vn.design(network)
    assert np.any(plan.sanitizers["b"].dither)
    still = {**plan.sanitizers, "b": plan.sanitizers["b"].replace(dither=0)}
    promise = Promise(utility=plan.utility, privacy=plan.privacy)
    for sanitizers, wrong in ((plan.sanitizers, 0.0), (still, 1.0)):
        found = certificate.certify(plan.network, sanitizers, promise)
        (finding,) = [each for each in found.findings if each.what == certificate.DITHERED]
        assert (finding.found, finding.ok) == (wrong, wrong == 0)


def test_around_gaps_a_stream_promises_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this stream the bound around gaps lies 1.1e-5 below the figure computed: the bound is the promise."""
    plan = honest_plan(103)
    shown = next(each for each in plan.certificate.findings if each.what == "privacy of g with gaps")
    assert shown.ok
    assert plan.privacy_with_gaps["g"] == shown.found
    monkeypatch.setattr("veilnet.plans.certificate._BELOW", 0.0)
    with pytest.raises(vn.InvalidPlan, match="with gaps"):
        honest_plan(103)
