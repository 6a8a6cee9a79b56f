"""How surely a change is seen: formulas against detectors on simulated rows, windows solved whole, and integrals."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import block_diag
from scipy.stats import norm, rankdata

import veilnet as vn
from helpers.networks import NOISES, PRIORS, random_network
from helpers.stream_networks import NOISES as STREAM_NOISES
from helpers.stream_networks import random_stream, unrolled, window_joint_errors
from veilnet._core.types import Array
from veilnet.agent.memory import Memory
from veilnet.bounds.detectability import Detectability, Detector
from veilnet.bounds.streams.state_space import message_model
from veilnet.recheck.stream import StreamRecheck


def with_changes(network: vn.Network, rng: np.random.Generator, lasts: str | None = None) -> vn.Network:
    """Every private parameter a secret: of one row with a number, of more with a vector."""
    secrets = {
        name: vn.Secret(rows, rng.uniform(0.05, 0.25, len(rows) if len(rows) > 1 else None), lasts=lasts)
        for name, rows in network.private.items()
    }
    return network.replace(private=secrets, step="1min")


def auc_of(without: Array, seen: Array) -> tuple[float, float]:
    """(AUC, its standard error by DeLong), from the scores of both cases."""
    ranks = rankdata(np.concatenate([seen, without]))[: len(seen)]
    auc = (ranks.mean() - (len(seen) + 1) / 2) / len(without)
    places = (ranks - rankdata(seen)) / len(without)
    others = 1 - (rankdata(np.concatenate([without, seen]))[: len(without)] - rankdata(without)) / len(seen)
    return float(auc), float(np.sqrt(np.var(places) / len(seen) + np.var(others) / len(without)))


def scores(
    network: vn.Network, plan: vn.Plan, name: str, count: int, rng: np.random.Generator
) -> list[Array]:
    """Scores of the likelihood ratio on simulated messages, without the change and with it.

    x is drawn given g, so that a change of g moves everything the prior ties to it. Where there is no prior it is
    drawn from a very wide one.
    """
    secret, weak = network.secrets[name], 1e-6 * np.eye(network.L)
    spread = np.linalg.inv(weak + (0 if network.prior is None else network.prior.information))
    pull = spread @ secret.rows.T @ np.linalg.inv(secret.rows @ spread @ secret.rows.T)
    shift = pull @ np.atleast_1d(secret.change)
    root, wide = np.linalg.cholesky(network.R.matrix()), np.linalg.cholesky(spread)
    sent = []
    for size in (0.0, 1.0):
        x = rng.standard_normal((count, network.L)) @ wide.T
        x = x - (x @ secret.rows.T) @ pull.T + size * shift
        readings = x @ network.H.T + rng.standard_normal((count, network.N)) @ root.T
        parts = [
            sanitizer.sanitize(readings[:, network.blocks.rows(place)], rng=rng)
            for place, sanitizer in enumerate(plan.sanitizers.values())
        ]
        sent.append(np.concatenate(parts, axis=1))
    compression = block_diag(*(sanitizer.compression for sanitizer in plan.sanitizers.values()))
    noise = block_diag(*(sanitizer.noise for sanitizer in plan.sanitizers.values()))
    given_g = spread - pull @ secret.rows @ spread
    covariance = (
        compression @ (network.H @ given_g @ network.H.T + network.R.matrix()) @ compression.T + noise
    )
    weights = np.linalg.solve(covariance, compression @ network.H @ shift)
    return [each @ weights for each in sent]


def stream_scores(
    network: vn.Network, plan: vn.Plan, name: str, count: int, rng: np.random.Generator, window: int = 60
) -> list[Array]:
    """The same of a change that lasts, from all messages of a window, each a sum of unit noises that are drawn."""
    secret = network.secrets[name]
    lasts = secret.rows_it_lasts(network.step)
    x, messages = unrolled(plan.network, plan.sanitizers, window)
    target = np.concatenate([secret.rows @ x[place] for place in range(window // 2, window // 2 + lasts)])
    told = np.concatenate(messages)
    pull = target.T @ np.linalg.inv(target @ target.T)
    moved = pull @ np.tile(np.atleast_1d(secret.change), lasts)
    given_g = told - told @ pull @ target
    weights = told.T @ np.linalg.lstsq(given_g @ given_g.T, told @ moved, rcond=1e-12)[0]
    without = weights - target.T @ (pull.T @ weights)
    found: list[list[Array]] = [[], []]
    for start in range(0, count, 5000):
        for case, size in enumerate((0.0, 1.0)):
            drawn = rng.standard_normal((min(5000, count - start), told.shape[1]))
            found[case].append(drawn @ without + size * float(weights @ moved))
    return [np.concatenate(each) for each in found]


def in_deviations(stated: float, without: Array, seen: Array) -> float:
    """How many standard errors the AUC of these scores is off."""
    auc, deviation = auc_of(without, seen)
    return (auc - stated) / max(deviation, 1 / len(seen))


def rows_off(seed: int, count: int) -> list[float]:
    rng = np.random.default_rng([35, seed])
    drawn = random_network(seed, noise=NOISES[seed % 4], prior=PRIORS[seed // 4 % 4])
    network = with_changes(drawn.replace(resolution=0), rng)
    plan = vn.design(network)
    return [
        in_deviations(found.auc, *scores(network, plan, name, count, rng))
        for name, found in vn.detectability(network, plan).items()
    ]


def stream_off(seed: int, count: int) -> list[float]:
    rng = np.random.default_rng([36, seed])
    drawn = random_stream(seed, noise=STREAM_NOISES[seed % 3], joint=seed % 2 == 0, radius=0.7)
    network = with_changes(drawn, rng, lasts=f"{2 + seed % 4}min")
    plan = vn.design(network)
    return [
        in_deviations(found.longest.auc, *stream_scores(network, plan, name, count, rng))
        for name, found in vn.detectability(network, plan).items()
    ]


@pytest.mark.parametrize("seed", [0, 1, 5, 6, 8, 13])
def test_the_best_detector_on_simulated_rows_has_the_stated_auc(seed: int) -> None:
    """False alarms: 12 figures at four deviations, below 1e-3 together."""
    assert np.max(np.abs(rows_off(seed, 20_000))) < 4


@pytest.mark.parametrize("seed", [2, *(pytest.param(slow, marks=pytest.mark.long) for slow in (0, 1))])
def test_the_best_detector_of_a_stream_has_the_stated_auc(seed: int) -> None:
    """False alarms: 6 figures at four deviations, below 1e-3 together."""
    assert np.max(np.abs(stream_off(seed, 10_000))) < 4


@pytest.mark.long
@pytest.mark.slow
def test_on_fifty_networks_and_twenty_streams() -> None:
    """200,000 rows each. Of 140 figures 0.4 lie beyond three deviations by chance; three do in 1 of 100 runs."""
    off = [each for seed in range(50) for each in rows_off(seed, 100_000)]
    off += [each for seed in range(20) for each in stream_off(seed, 100_000)]
    assert np.sum(np.abs(off) > 3) < 3
    assert np.max(np.abs(off)) < 4.5


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("noise", ["joint", "variances"])
def test_information_is_the_difference_of_inverse_errors(noise: str, prior: str) -> None:
    """A second route: a prior that is nearly nothing in the directions where there is none."""
    rng = np.random.default_rng(5)
    network = with_changes(random_network(3, noise=noise, prior=prior).replace(resolution=0), rng)
    plan = vn.design(network)
    weak = 1e-9 * np.eye(network.L)
    before = weak if network.prior is None else network.prior.information + weak
    received = np.linalg.inv(vn.crlb(network.replace(prior=vn.Prior(information=before)), plan.sanitizers))
    for name, found in vn.detectability(network, plan).items():
        secret = network.secrets[name]
        gained = [
            np.linalg.inv(secret.rows @ np.linalg.inv(each) @ secret.rows.T) for each in (received, before)
        ]
        change = np.atleast_1d(secret.change)
        assert found.mu**2 == pytest.approx(change @ (gained[0] - gained[1]) @ change, rel=1e-4)


def test_any_change_of_a_length_is_the_one_seen_best() -> None:
    network = random_network(1, prior="covariance", private_rows=(2,)).replace(resolution=0)
    rows = network.private["g0"]
    plan = vn.design(network)
    turns = [np.array([np.cos(angle), np.sin(angle)]) for angle in np.linspace(0, np.pi, 721)]
    each = [
        vn.detectability(network.replace(private={"g0": vn.Secret(rows, 0.7 * turn)}), plan)["g0"].mu
        for turn in turns
    ]
    any_of_them = vn.detectability(network.replace(private={"g0": vn.Secret(rows, 0.7)}), plan)["g0"].mu
    assert max(each) == pytest.approx(any_of_them, rel=1e-4)
    assert min(each) < 0.9 * any_of_them


@pytest.mark.parametrize("seed", range(6))
def test_a_change_that_lasts_in_a_stream_against_the_window_solved_whole(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = random_stream(seed, noise=STREAM_NOISES[seed % 3], joint=seed % 2 == 0, radius=0.7)
    network = with_changes(drawn, rng, lasts="5min")
    plan = vn.design(network)
    for name, found in vn.detectability(network, plan).items():
        secret = network.secrets[name]
        for count, stated in ((1, found), (5, found.lasting)):
            assert stated is not None
            before, after = window_joint_errors(
                plan.network, plan.sanitizers, secret.rows, 70, range(30, 30 + count)
            )
            change = np.tile(np.atleast_1d(secret.change), count)
            gained = change @ (np.linalg.inv(after) - np.linalg.inv(before)) @ change
            assert stated.mu**2 == pytest.approx(gained, rel=2e-4)


def test_a_long_change_goes_on_as_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    network = random_stream(2, private_rows=(1,))
    network = network.replace(private={"g0": vn.Secret(network.private["g0"], 1.0, lasts="300s")}, step="1s")
    whole = vn.detectability(network)["g0"].lasting
    monkeypatch.setattr("veilnet.bounds.detectability._LONGEST_WINDOW", 60)
    shorter = vn.detectability(network)["g0"].lasting
    assert whole is not None
    assert shorter is not None
    assert shorter.mu == pytest.approx(whole.mu, rel=1e-9)


def test_rows_that_are_independent_add_up() -> None:
    network = random_network(1, prior="covariance", private_rows=(1,)).replace(resolution=0)
    secret = vn.Secret(network.private["g0"], 1.0, lasts="1h")
    found = vn.detectability(network.replace(private={"g0": secret}, step="15min"))["g0"]
    assert found.lasting is not None
    assert found.lasting.rows == 4
    assert found.lasting.mu == pytest.approx(2 * found.mu)


@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0, 6.0])
def test_measures_of_a_detector_by_integrals(mu: float) -> None:
    seen = Detector(mu)
    auc, _ = quad(lambda t: norm.pdf(t - mu) * norm.cdf(t), -12, 12 + mu)
    assert seen.auc == pytest.approx(auc, rel=1e-9)
    assert seen.accuracy == pytest.approx(norm.cdf(mu / 2), rel=1e-12)
    assert seen.power_at(0.001) == pytest.approx(norm.sf(norm.isf(0.001) - mu), rel=1e-9)
    for epsilon in (0.1, 1.0, 4.0):
        # δ(ε) is the largest P(A) - e^ε Q(A), reached where the likelihood ratio exceeds e^ε.
        edge = epsilon / mu + mu / 2
        delta = norm.sf(edge - mu) - np.exp(epsilon) * norm.sf(edge)
        assert seen.delta_at(epsilon) == pytest.approx(delta, rel=1e-6, abs=1e-15)
    assert seen.delta_at(seen.epsilon_at(1e-5)) == pytest.approx(1e-5, rel=1e-6) or seen.epsilon_at(1e-5) == 0


def test_nothing_sent_is_guessing() -> None:
    network = random_network(2, prior="covariance").replace(resolution=0)
    network = with_changes(network, np.random.default_rng(0))
    silent = {
        agent: vn.Sanitizer(compression=np.zeros((0, len(rows)))) for agent, rows in network.observe.items()
    }
    for found in vn.detectability(network, silent).values():
        assert (found.mu, found.auc, found.accuracy) == (0.0, 0.5, 0.5)
        assert found.power == pytest.approx(0.01)
        assert (found.sent.epsilon_at(1e-6), found.sent.delta_at(0.0)) == (0.0, 0.0)


def test_the_bundled_house_is_seen_as_section_10_says() -> None:
    from veilnet.io.template import house

    network = house()
    downstairs, upstairs = network.private["presence"]
    network = network.replace(
        private={"down": vn.Secret(downstairs, 1.0), "up": vn.Secret(upstairs, 1.0),
                 "cooking": vn.Secret(network.private["cooking"], 1.0)},
        units={},
    )  # fmt: skip
    found = {name: round(each.auc, 3) for name, each in vn.detectability(network, vn.design(house())).items()}
    assert found == {"down": 0.779, "up": 0.998, "cooking": 0.998}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [({"change": 0.0}, "change"), ({"change": -1.0}, "change"), ({"change": [1.0, 2.0, 3.0]}, "change"),
     ({"change": np.inf}, "change"), ({"change": 1.0, "lasts": "soon"}, "lasts"),
     ({"change": 1.0, "unit": 3}, "unit")],
)  # fmt: skip
def test_wrong_secrets_are_refused_by_name(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(vn.InvalidNetwork, match=named):
        vn.Secret(np.eye(2), **arguments)  # type: ignore[arg-type]


def test_a_secret_that_lasts_needs_a_step_and_stays_with_the_network() -> None:
    network = random_network(1, private_rows=(1,))
    secret = vn.Secret(network.private["g0"], 1.0, unit="people", lasts="1h")
    with pytest.raises(vn.InvalidNetwork, match="step"):
        network.replace(private={"g0": secret})
    kept = network.replace(private={"g0": secret}, step="10min").replace(offset=np.ones(network.N))
    assert kept.secrets["g0"].lasts == 3600
    assert kept.unit("g0") == "people"
    assert NormalDist().cdf(vn.detectability(kept)["g0"].mu / 2) == vn.detectability(kept)["g0"].accuracy


def test_any_of_several_changes_is_the_one_seen_best_and_classes_are_all_pairs() -> None:
    network = random_network(1, prior="covariance", private_rows=(2,)).replace(resolution=0)
    rows, plan = network.private["g0"], vn.design(network)

    def mu(secret: vn.Secret) -> float:
        return vn.detectability(network.replace(private={"g0": secret}), plan)["g0"].mu

    pairs = [[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]]
    each = [mu(vn.Secret(rows, pair)) for pair in pairs]
    assert mu(vn.Secret(rows, pairs)) == pytest.approx(max(each), rel=1e-12)
    assert mu(vn.Secret.of_classes(rows)) == pytest.approx(max(each), rel=1e-12)
    assert max(each) > 1.01 * min(each)


def test_epsilon_at_a_given_delta() -> None:
    network = with_changes(
        random_network(1, prior="covariance").replace(resolution=0), np.random.default_rng(0)
    )
    for each in vn.detectability(network, delta=1e-3).values():
        assert each.sent.delta_at(each.epsilon) == pytest.approx(1e-3, rel=1e-6) or each.epsilon == 0
    with pytest.raises(vn.InvalidRequest, match="delta"):
        vn.detectability(network, delta=1.0)


@pytest.mark.parametrize("seed", range(3))
def test_the_recheck_of_streams_finds_changes_of_several_rows_by_another_route(seed: int) -> None:
    network = random_stream(seed, private_rows=(2,), joint=seed % 2 == 0, radius=0.7)
    secret = vn.Secret(network.private["g0"], [[0.4, 0.1], [-0.1, 0.3]], lasts="6s")
    plan = vn.design(network.replace(private={"g0": secret}, step="1s"))
    found = vn.detectability(plan.network, plan)["g0"].lasting
    again = StreamRecheck(plan.network, plan.sanitizers).deviations(secret.rows, secret.change, 6)
    assert found is not None
    assert again == pytest.approx(found.mu, rel=1e-9)


def wandering(secret: vn.Secret, together: float = 0.0, noise: float = 0.0) -> vn.Network:
    """x1 wanders off and is not sent, x2 returns to its mean and is; correlated steps, and correlated readings."""
    steps, read = ([[1.0, each], [each, 1.0]] for each in (together, noise))
    return vn.Network(
        observe={"a": np.eye(2)}, noise=read, public={"u": [[0.0, 1.0]]}, private={"g": secret},
        dynamics=vn.Dynamics([[1.0, 0.2 * together], [0.0, 0.5]], steps), step="1s",
    )  # fmt: skip


def by_one_window(network: vn.Network, plan: dict[str, vn.Sanitizer], lasts: int, around: int = 40) -> float:
    """d' of the change of g: everything of many rows as one Gaussian vector, nearly nothing known of where what
    wanders off began, memories having followed it.
    """
    model, [secret] = message_model(network, plan), network.secrets.values()
    size, rows = len(model.transition), 2 * around + lasts
    values, vectors = np.linalg.eig(model.transition)
    lasting = vectors[:, np.abs(values) > 1 - 1e-9].real
    joint, state = np.zeros((rows, size, rows, size)), model.noise + 1e6 * lasting @ lasting.T
    for row in range(rows):
        later = state
        for other in range(row, rows):
            joint[row, :, other], joint[other, :, row] = later, later.T
            later = later @ model.transition.T
        state = model.transition @ state @ model.transition.T + model.noise
    covariance = joint.reshape(rows * size, rows * size)
    observe, floor = np.kron(np.eye(rows), model.observe), np.kron(np.eye(rows), model.floor)
    wide = np.zeros((len(secret.rows), size))
    wide[:, : network.L] = secret.rows
    changed = np.kron(np.eye(rows)[around : around + lasts], wide)
    told = observe @ covariance @ changed.T
    means = np.linalg.solve(changed @ covariance @ changed.T, told.T).T
    left = observe @ covariance @ observe.T + floor - means @ told.T
    moved = means @ np.tile(np.atleast_1d(secret.change), lasts)
    return float(np.sqrt(moved @ np.linalg.solve(left, moved)))


MESSAGES = {
    "x2": vn.Sanitizer(np.array([[0.0, 1.0]])),
    "x2 with noise": vn.Sanitizer(np.array([[0.0, 1.0]]), np.array([[0.5]])),
    "steps of x1": vn.Sanitizer(
        np.array([[-0.7, 1.0, 0.0]]), np.array([[0.1]]), memory=Memory(np.array([[0.3]]), np.array([[1.0, 0.0]]))
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "together", "noise", "rows", "change"),
    [("x2", 0.9, 0.0, np.eye(2), [0.0, 1.0]), ("x2 with noise", 0.9, 0.5, np.eye(2), [0.5, 0.3]),
     ("x2", -0.6, 0.9, [[1.0, 1.0], [1.0, -1.0]], [0.4, 0.1]), ("steps of x1", 0.5, 0.0, np.eye(2), [0.2, 0.3]),
     ("steps of x1", -0.6, 0.5, [[1.0, 1.0], [1.0, -1.0]], [0.4, 0.1])],
)  # fmt: skip
def test_steps_of_what_wanders_off_are_counted(
    sent: str, together: float, noise: float, rows: Array, change: Array
) -> None:
    """Three routes: covariances at all lags, spectra (the recheck), and one window as a whole."""
    network = wandering(vn.Secret(np.asarray(rows), np.asarray(change), lasts="5s"), together, noise)
    plan = {"a": MESSAGES[sent]}
    found = vn.detectability(network, plan)["g"]
    [secret] = network.secrets.values()
    for lasts, mu in ((1, found.mu), (5, found.longest.mu)):
        assert mu == pytest.approx(by_one_window(network, plan, lasts), rel=1e-4, abs=2e-3)
    again = StreamRecheck(network, plan).deviations(secret.rows, secret.change, 5)
    assert found.longest.mu == pytest.approx(again, rel=1e-6, abs=1e-3)


def sends_x2() -> dict[str, vn.Sanitizer]:
    return {"a": vn.Sanitizer(np.array([[0.0, 1.0]]))}


@pytest.mark.parametrize(
    ("rows", "change", "along"),
    [(np.eye(2), [0.0, 1.0], 1.0), (np.eye(2), [30.0, 1.0], 1.0), (7 * np.eye(2)[::-1], [7.0, 0.0], 1.0),
     ([[1.0, 1.0], [1.0, -1.0]], [1.0, 0.0], 0.5), (np.eye(2), 1.0, 1.0), ([[1.0, 1.0]], 30.0, 0.0)],
)  # fmt: skip
def test_a_direction_that_wanders_off_hides_no_other(rows: Array, change: Array, along: float) -> None:
    """Of a change of x, messages show its part along x2, ``along``, as they show it of a secret of that row alone."""
    plan = sends_x2()
    alone, network = (
        wandering(vn.Secret(each, moved, lasts="5s"))
        for each, moved in ((np.array([[0.0, 1.0]]), 1.0), (np.asarray(rows), change))
    )
    expected, found = (vn.detectability(each, plan)["g"] for each in (alone, network))
    assert expected.mu > 1
    assert found.mu == pytest.approx(along * expected.mu, rel=1e-9)
    assert found.longest.mu == pytest.approx(along * expected.longest.mu, rel=1e-9)
    again = StreamRecheck(network, plan).deviations(np.asarray(rows), change, 1)
    assert again == pytest.approx(found.mu, rel=1e-6, abs=1e-3)


@pytest.mark.parametrize("stream", [False, True])
def test_verify_finds_a_change_that_is_said_to_be_unseen(
    monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    from veilnet.plans import verification

    secret = vn.Secret(np.eye(2), np.array([0.0, 1.0]))
    network = wandering(secret) if stream else with_changes(random_network(1), np.random.default_rng(0))
    plan = vn.design(network)
    checks = [each for each in vn.verify(plan) if each.what.startswith("change of ")]
    assert len(checks) == len(network.secrets)
    assert all(each.ok for each in checks)
    nothing = {name: Detectability(0.0, Detector(1.0), 1.0) for name in network.secrets}
    monkeypatch.setattr(verification, "detectability", lambda *_: nothing)
    wrong = [each for each in vn.verify(plan) if not each.ok]
    assert wrong
    assert {each.what[:10] for each in wrong} == {"change of "}


@pytest.mark.parametrize("wrong", [-1e-9, 0.0, 1.0, float("nan"), True])
def test_rates_outside_of_zero_and_one_are_refused(wrong: float) -> None:
    with pytest.raises(vn.InvalidRequest, match="delta"):
        Detector(1.0).epsilon_at(wrong)
    with pytest.raises(vn.InvalidRequest, match="false_alarms"):
        Detector(1.0).power_at(wrong)
