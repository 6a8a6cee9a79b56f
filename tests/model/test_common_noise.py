"""Common disturbances against two oracles: the same noise as one dense N x N matrix, and plain formulas of the model.

R = blockdiag(own_i) + B Φ B'. Everything a dense R gives must come out the same without ever forming it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import veilnet as vn
from veilnet._core.types import Array
from veilnet.auditing.attack.simulation import draw_readings, draw_x
from veilnet.designs.lower_bound.proving import hidden_directions
from veilnet.model.common import SharedNoise, common_root
from veilnet.model.noise import IndependentNoise
from veilnet.plans.fingerprint import network_fingerprint

pytestmark = pytest.mark.small_search

L = 5
SIZES = (3, 2, 4, 3)
PRIORS = {
    "none": None,
    "full": vn.Prior(np.diag([1.0, 2.0, 0.5, 3.0, 1.0]), mean=np.arange(5.0)),
    "singular": vn.Prior(information=np.diag([1.0, 0.0, 2.0, 0.0, 0.0])),
}
LOADINGS = {"moderate": [1.0, 1.0], "ill-scaled": [1e3, 1e-3], "partly zero": [1.0, 0.0]}
COMMON = {"identity": None, "singular": np.array([[4.0, 2.0], [2.0, 1.0]]), "variances": np.array([0.3, 7.0])}


def pair(
    seed: int, *, prior: str = "full", loadings: str = "moderate", common: str = "identity", **more: object
) -> tuple[vn.Network, vn.Network]:
    """(with common disturbances, the same with a dense R); agent a1 has no loadings."""
    rng = np.random.default_rng(seed)
    observe = {f"a{i}": rng.standard_normal((n, L)) for i, n in enumerate(SIZES)}
    roots = {name: 0.5 * rng.standard_normal((len(rows), len(rows))) for name, rows in observe.items()}
    own = {name: root @ root.T + 0.7 * np.eye(len(root)) for name, root in roots.items()}
    shared = {
        name: rng.standard_normal((len(rows), 2)) * LOADINGS[loadings] for name, rows in observe.items()
    }
    del shared["a1"]
    phi = COMMON[common]
    whole = np.zeros((sum(SIZES), sum(SIZES)))
    spread = np.zeros((sum(SIZES), 2))
    end = 0
    for name, rows in observe.items():
        mine, end = slice(end, end + len(rows)), end + len(rows)
        whole[mine, mine] = own[name]
        spread[mine] = shared.get(name, 0.0)
    covariance = np.eye(2) if phi is None else (np.diag(phi) if phi.ndim == 1 else phi)
    whole += spread @ covariance @ spread.T
    rest: dict[str, object] = {
        "observe": observe,
        "public": rng.standard_normal((1, L)),
        "private": {"g": rng.standard_normal((1, L)), "f": rng.standard_normal((2, L))},
        "prior": PRIORS[prior],
        "offset": rng.standard_normal(sum(SIZES)),
        **more,
    }
    noise = vn.CommonNoise(own=own, loadings=shared, common=phi)
    return vn.Network(noise=noise, **rest), vn.Network(noise=whole, **rest)  # type: ignore[arg-type]


def close(one: object, other: object, within: float = 1e-8) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(close(one[name], other[name], within) for name in one)
    scale = np.max(np.abs(np.where(np.isfinite(np.asarray(other)), other, 0.0)), initial=1e-300)
    return np.allclose(one, other, rtol=0, atol=within * scale, equal_nan=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("loadings", LOADINGS)
@pytest.mark.parametrize("common", COMMON)
def test_bounds_verdict_and_perfect_design_are_those_of_the_dense_matrix(
    prior: str, loadings: str, common: str
) -> None:
    for seed in range(3):
        low, dense = pair(seed, prior=prior, loadings=loadings, common=common)
        assert isinstance(low.noise, SharedNoise)
        assert close(low.R.matrix(), dense.R.matrix(), 1e-13)
        assert close(vn.crlb(low), vn.crlb(dense))
        assert close(vn.privacy_limit(low), vn.privacy_limit(dense))
        verdicts = vn.check(low), vn.check(dense)
        assert verdicts[0].achievable == verdicts[1].achievable
        assert close(dict(verdicts[0].ceiling), dict(verdicts[1].ceiling))
        printed = [None if v.printed_theorem is None else v.printed_theorem.agents for v in verdicts]
        assert printed[0] == printed[1]
        plan, other = vn.design(low), vn.design(dense)
        assert plan.certificate.ok
        assert close(dict(plan.privacy), dict(other.privacy))
        # each plan is worth the same on the other form of the network
        assert close(vn.privacy(dense, plan), dict(plan.privacy))
        assert abs(vn.utility(dense, plan)) < 1e-8


@pytest.mark.parametrize("prior", PRIORS)
def test_any_sanitizers_tell_as_much(prior: str) -> None:
    low, dense = pair(4, prior=prior)
    rng = np.random.default_rng(5)
    sanitizers = {}
    for name, rows in list(low.observe.items())[:3]:  # the last agent sends its readings raw
        sent = max(1, len(rows) - 1)
        root = rng.standard_normal((sent, sent))
        sanitizers[name] = vn.Sanitizer(rng.standard_normal((sent, len(rows))), root @ root.T)
    assert close(vn.privacy(low, sanitizers), vn.privacy(dense, sanitizers))
    assert close(vn.privacy(low, sanitizers, worst=True), vn.privacy(dense, sanitizers, worst=True))
    assert close(vn.utility(low, sanitizers), vn.utility(dense, sanitizers))
    if prior == "full":
        assert close(vn.bits_revealed(low, sanitizers), vn.bits_revealed(dense, sanitizers))
        assert close(vn.crlb(low, sanitizers), vn.crlb(dense, sanitizers))


def small(seed: int) -> tuple[vn.Network, vn.Network]:
    rng = np.random.default_rng(seed)
    rest = {
        "observe": rng.standard_normal((3, 2, 2)),
        "public": rng.standard_normal((1, 2)),
        "private": {"g": rng.standard_normal((1, 2))},
        "prior": vn.Prior(np.eye(2)),
    }
    noise = vn.CommonNoise(own=1.0, loadings=rng.standard_normal((3, 2, 1)))
    low = vn.Network(noise=noise, **rest)  # type: ignore[arg-type]
    return low, vn.Network(noise=low.R.matrix(), **rest)  # type: ignore[arg-type]


def test_power_and_trade_off_reach_what_the_dense_matrix_reaches() -> None:
    pairs = [vn.design(each, power=10.0) for each in pair(0)]
    assert close(pairs[0].details["total_privacy"], pairs[1].details["total_privacy"], 1e-6)
    low, dense = small(3)
    asked = 0.8 * vn.check(low).ceiling["g"] + 0.2 * vn.privacy_limit(low)["g"]
    losses = [-vn.design(each, privacy=asked, starts=2).utility for each in (low, dense)]
    assert losses[0] > 0
    assert close(losses[0], losses[1], 1e-6)
    paid = vn.design(low, utility_loss=0.05, starts=2)
    assert paid.certificate.ok
    assert close(vn.privacy(dense, paid), dict(paid.privacy))


def test_a_proof_of_the_gap_holds_with_common_disturbances() -> None:
    network, dense = small(3)
    plan = vn.design(network, utility_loss=0.1, prove=0.2, starts=2)
    assert plan.gap <= 0.2
    assert plan.proof is not None
    assert plan.proof.holds(network)
    assert not plan.proof.holds(dense)  # it says of which noise it speaks
    assert all(len(each) == 3 for each in hidden_directions(plan.proof, network))


def test_fusion_is_the_posterior_mean_and_the_centre_file_brings_it_back(tmp_path: Path) -> None:
    low, dense = pair(6)
    plan = vn.design(low)
    rng = np.random.default_rng(7)
    x = rng.standard_normal(L)
    readings = {
        name: rows @ x + low.offset[low.blocks.rows(k)] + rng.standard_normal(len(rows))
        for k, (name, rows) in enumerate(low.observe.items())
    }
    messages = {name: plan.sanitizers[name].sanitize(readings[name], rng=rng) for name in low.agents}
    estimate = vn.Fusion(plan).estimate(messages)
    # by hand, from the dense R: perfect utility is the raw readings' posterior mean
    inverse = np.linalg.inv(dense.R.matrix())
    assert low.prior is not None
    posterior = np.linalg.inv(low.prior.information + low.H.T @ inverse @ low.H)
    stacked = np.concatenate(list(readings.values())) - low.offset
    mean = low.prior.mean + posterior @ low.H.T @ inverse @ (stacked - low.H @ low.prior.mean)
    public = (
        estimate.public
        if isinstance(estimate.public, np.ndarray)
        else np.array(list(estimate.public.values()))
    )
    deviation = float(np.sqrt(low.U[0] @ posterior @ low.U[0]))
    assert (
        abs(float(np.ravel(public)[0]) - float(low.U[0] @ mean)) < 5e-3 * deviation
    )  # the release grid's rounding
    assert close(np.ravel(estimate.covariance), [deviation**2], 1e-8)
    plan.save(tmp_path / "plan")
    again = vn.Plan.load(tmp_path / "plan")
    assert again.certificate.ok
    found = vn.Fusion(again).estimate(messages)
    assert close(np.ravel(found.covariance), np.ravel(estimate.covariance), 1e-12)
    centre = vn.Fusion.load(tmp_path / "plan" / "center.json").estimate(messages)
    assert close(np.ravel(centre.covariance), np.ravel(estimate.covariance), 1e-12)
    silent = {name: z for name, z in messages.items() if name != "a2"}
    before = vn.Fusion(vn.Plan.load(tmp_path / "plan")).estimate(silent)
    dropped = vn.crlb(dense, {**plan.sanitizers, "a2": vn.Sanitizer.silent(4)})
    assert close(np.ravel(before.covariance), np.ravel(low.U @ dropped @ low.U.T))


@pytest.mark.parametrize("ending", [".toml", ".json", ".npz"])
@pytest.mark.parametrize("common", COMMON)
def test_files_bring_back_the_same_bits(tmp_path: Path, ending: str, common: str) -> None:
    low, _ = pair(8, common=common, resolution={"a2": 0.5}, model_error=0.01)
    path = tmp_path / f"network{ending}"
    low.save(path)
    again = vn.Network.load(path)
    assert isinstance(again.sensor_noise, SharedNoise)
    assert isinstance(low.sensor_noise, SharedNoise)
    for name in ("loadings", "common", "spread"):
        assert np.array_equal(getattr(again.sensor_noise, name), getattr(low.sensor_noise, name))
    assert np.array_equal(again.R.variances(), low.R.variances())
    assert network_fingerprint(again) == network_fingerprint(low)
    other, _ = pair(
        8,
        common="identity" if common != "identity" else "variances",
        resolution={"a2": 0.5},
        model_error=0.01,
    )
    assert network_fingerprint(other) != network_fingerprint(low)


def test_dither_and_model_error_add_to_each_agent_s_own() -> None:
    low, dense = pair(9, resolution={"a0": 0.25, "a2": 0.5}, model_error=0.05)
    assert isinstance(low.noise, SharedNoise)
    assert close(low.R.matrix(), dense.R.matrix(), 1e-13)
    assert np.array_equal(low.noise.loadings, low.sensor_noise.loadings)  # type: ignore[attr-defined]
    assert close(vn.crlb(low), vn.crlb(dense))
    with pytest.raises(vn.InvalidNetwork, match="resolution of 'a'"):
        # rounding is each reading's own: what agents share is no room for it
        vn.Network(
            {"a": np.eye(2)}, vn.CommonNoise(own=0.01, loadings=[10.0, 10.0]), [1.0, 0.0], {"g": [0.0, 1.0]},
            resolution=1.0,
        )  # fmt: skip


def test_no_dense_matrix_is_formed_anywhere_on_the_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    low, _ = small(10)

    def refused(_: object) -> Array:
        raise AssertionError("an N x N matrix was asked for")

    for kind in (SharedNoise, IndependentNoise):
        monkeypatch.setattr(kind, "matrix", refused)
    vn.check(low)
    for asked in ({}, {"utility_loss": 0.02, "starts": 2}):
        plan = vn.design(low, **asked)  # type: ignore[arg-type]
        assert plan.certificate.ok
    plan.save(tmp_path / "plan")
    assert all(check.ok for check in vn.verify(tmp_path / "plan"))
    fusion = vn.Fusion(vn.Plan.load(tmp_path / "plan"))
    assert fusion.model.correlation is None  # type: ignore[union-attr]
    rng = np.random.default_rng(0)
    draw_readings(low, draw_x(low, rng, 10), rng)
    network_fingerprint(low)


def test_many_agents_and_few_disturbances_need_no_matrix_of_all_readings() -> None:
    rng = np.random.default_rng(11)
    count, size = 5001, 4
    network = vn.Network(
        rng.standard_normal((count, size, 4)),
        vn.CommonNoise(own=1.0, loadings=rng.standard_normal((count, size, 2)), common=[3.0, 0.5]),
        rng.standard_normal((1, 4)),
        {"g": rng.standard_normal((1, 4))},
        vn.Prior(np.eye(4)),
    )
    with pytest.raises(vn.InvalidRequest, match="20004 x 20004"):
        network.R.matrix()
    plan = vn.design(network)
    assert plan.certificate.ok
    # the information by the textbook's formula, D = I
    assert isinstance(network.R, SharedNoise)
    spread, observe = network.R.spread, network.H
    inner = np.linalg.inv(np.eye(2) + spread.T @ spread)
    known = np.eye(4) + observe.T @ observe - observe.T @ spread @ inner @ spread.T @ observe
    assert close(vn.crlb(network), np.linalg.inv(known))


def test_the_root_of_identity_plus_few_columns() -> None:
    rng = np.random.default_rng(12)
    for columns in ([1.0], [1e6, 1.0, 1e-6], [1e-9, 1e9]):
        spread = rng.standard_normal((7, len(columns))) * columns
        orthonormal, lower = common_root(spread)
        root = np.eye(7) - orthonormal @ orthonormal.T + orthonormal @ lower @ orthonormal.T
        assert close(root @ root.T, np.eye(7) + spread @ spread.T, 1e-14)
        assert close(orthonormal.T @ orthonormal, np.eye(len(columns)), 1e-14)
    # a weak disturbance beside an enormous one keeps its digits: exact where the two do not meet
    spread = np.zeros((4, 2))
    spread[0, 0], spread[1, 1] = 1e9, 1e-3
    orthonormal, lower = common_root(spread)
    root = np.eye(4) - orthonormal @ orthonormal.T + orthonormal @ lower @ orthonormal.T
    assert np.allclose(np.diag(root) ** 2 - 1, [1e18, 1e-6, 0, 0], rtol=1e-9, atol=1e-15)


def test_own_noise_may_be_a_list_of_stacks() -> None:
    rng = np.random.default_rng(5)
    observe = [rng.standard_normal((3, 2, 2)), rng.standard_normal((2, 1, 2))]
    own = [np.tile(np.diag([1.0, 2.0]), (3, 1, 1)), 3.0 * np.ones((2, 1, 1))]
    loadings = rng.standard_normal((8, 1))
    network = vn.Network(observe, vn.CommonNoise(own, loadings), np.eye(2)[:1], {"g": np.eye(2)[1]})
    dense = np.diag([1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 3.0, 3.0]) + loadings @ loadings.T
    np.testing.assert_allclose(network.R.matrix(), dense, rtol=1e-14)
    with pytest.raises(vn.InvalidNetwork, match="own noise"):
        vn.Network(observe, vn.CommonNoise([1.0, [1.0, 2.0]], loadings), np.eye(2)[:1], {"g": np.eye(2)[1]})


def test_loadings_of_zero_are_independent_noise() -> None:
    for loadings, common in ((np.zeros((4, 1)), None), (np.ones((4, 1)), 0.0)):
        network = vn.Network(
            np.eye(4).reshape(2, 2, 4),
            vn.CommonNoise(2.0, loadings, common),
            np.eye(4)[:1],
            {"g": np.eye(4)[1:2]},
        )
        assert isinstance(network.R, IndependentNoise)


NET = {"observe": {"a": np.eye(2), "b": np.ones((1, 2))}, "public": [1.0, 0.0], "private": {"g": [0.0, 1.0]}}
BAD = {
    "noise own": vn.CommonNoise(own=np.eye(3), loadings=np.ones((3, 1))),
    "expected a positive definite": vn.CommonNoise(own=[1.0, 0.0, 1.0], loadings=np.ones((3, 1))),
    "noise loadings: expected 3 rows": vn.CommonNoise(own=1.0, loadings=np.ones((2, 1))),
    "noise loadings of 'b': expected 1 rows": vn.CommonNoise(own=1.0, loadings={"b": np.ones((2, 1))}),
    "expected as many disturbances": vn.CommonNoise(
        own=1.0, loadings={"a": np.ones((2, 1)), "b": [[1.0, 2.0]]}
    ),
    "noise loadings: .*'c'": vn.CommonNoise(own=1.0, loadings={"c": [1.0]}),
    "at least one common disturbance": vn.CommonNoise(own=1.0, loadings={}),
    "noise loadings: .*finite": vn.CommonNoise(own=1.0, loadings=[1.0, np.nan, 0.0]),
    "noise common: expected one number, 1 numbers or a 1 x 1 matrix": vn.CommonNoise(
        own=1.0, loadings=np.ones(3), common=np.eye(2)
    ),
    "noise common: .*found the number -1": vn.CommonNoise(own=1.0, loadings=np.ones(3), common=-1.0),
    "noise common": vn.CommonNoise(own=1.0, loadings=np.ones((3, 2)), common=[[1.0, 2.0], [2.0, 1.0]]),
    "exceeds what floating point": vn.CommonNoise(own=1.0, loadings=[1e200, 0.0, 0.0]),
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_refused_by_name(words: str) -> None:
    with pytest.raises(vn.InvalidNetwork, match=words):
        vn.Network(noise=BAD[words], **NET)  # type: ignore[arg-type]


def test_complex_readings_say_that_they_have_no_common_disturbances() -> None:
    with pytest.raises(vn.InvalidNetwork, match="joint Hermitian covariance"):
        vn.Network.from_complex(
            {"a": np.eye(2)}, vn.CommonNoise(1.0, [1.0, 1.0]), [1.0, 0.0], {"g": [0.0, 1.0]}
        )


def test_a_plan_in_one_file_brings_back_the_same_promise(tmp_path: Path) -> None:
    rng = np.random.default_rng(13)
    network = vn.Network(
        rng.standard_normal((40, 3, 4)),
        vn.CommonNoise(own=1.0, loadings=rng.standard_normal((40, 3, 2))),
        rng.standard_normal((1, 4)),
        {"g": rng.standard_normal((1, 4))},
        vn.Prior(np.eye(4)),
    )
    plan = vn.design(network)
    plan.save(tmp_path / "plan.npz")
    again = vn.Plan.load(tmp_path / "plan.npz")
    assert isinstance(again.network.R, SharedNoise)
    assert dict(again.privacy) == dict(plan.privacy)
    assert np.array_equal(again.network.R.spread, network.R.spread)  # type: ignore[attr-defined]
